"""Claims that take a moment each and leave everything that a claim can leave; none of them needs more than NumPy."""

import time
from collections.abc import Iterator

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from validation.judge.claim import Claim, Measurement, Part, claim
from validation.judge.context import Context


def _claim(name: str, drawn: bool) -> Claim:
    @claim(
        id=name,
        title="A toy",
        statement="A mean is zero.",
        latex="x=0",
        source="derived",
        kind="exact",
        regime="always",
        controls=("twice", "half"),
    )
    def run(context: Context) -> Iterator[Part]:
        time.sleep(0.05)
        values = context.rng(name).normal(1.0, 0.1, (2, 50))
        for key, row in enumerate(values):
            error = float(row.std(ddof=1) / np.sqrt(row.size))
            text = f"mean of {row.size} normals"
            yield Measurement(
                text, 1.0, float(row.mean()), error, 0.0, {"twice": 2.0, "half": 0.5}, "", f"k{key}", {"all": row[:3]}
            )
        if drawn:
            figure = Figure()
            figure.subplots().plot(np.arange(50), values[0], label="one")
            yield "What was drawn.", figure
            yield xr.Dataset({"values": (("row", "draw"), values)}, {"name": ("row", list("ab"))})

    return run


CLAIMS = [_claim(f"toy-{number}", drawn=number == 0) for number in range(4)]
