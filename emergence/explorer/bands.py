"""Exact SGD beside the page's flow: quantiles of the loss over simulated runs.

A few problems come with the package (``bands.json``, written by ``python -m emergence.explorer.bands``); that of the
command line is simulated by ``emergence explore --replicas N``.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from emergence.explorer.page import settings
from emergence.model import Progress
from emergence.models.additive import MODEL
from emergence.models.additive_problem import AdditiveProblem, Resolved, resolve

_FILE = "bands.json"
#: Shares of the runs that lie below: edges of the band, and its middle.
LEVELS = (0.1, 0.5, 0.9)
#: Points in time, and digits that are kept: less than a pixel.
_POINTS, _DIGITS = 80, 4
_REPLICAS = 32


def stored() -> list[dict[str, Any]]:
    """The bands that come with the package."""
    place = files("emergence.explorer") / _FILE
    found: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))["bands"] if place.is_file() else []
    return found


def band(resolved: Resolved, name: str, progress: Progress | None = None) -> dict[str, Any]:
    """Simulate the problem and keep what a page draws of it. Raises `InputError` for a run that cannot end."""
    import numpy as np

    run = MODEL.simulation("online-sgd").run(resolved, progress, None)
    times = run.data.sizes["time"]
    data = run.data.isel(time=np.unique(np.linspace(0, times - 1, min(_POINTS, times)).round().astype(int)))
    loss = data["loss"].transpose("replica", "time").values
    quantiles = np.nanquantile(loss, LEVELS, axis=0)
    return {
        "name": name,
        "settings": settings(resolved.problem, resolved.activation),
        "step_size": resolved.run_length()[0],
        "replicas": resolved.problem.replicas - run.diverged,
        "times": _rounded(data["time"].values),
        "loss": [_rounded(x) for x in quantiles],
    }


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{x:.{_DIGITS}g}") for x in values]


def grid() -> list[tuple[str, AdditiveProblem]]:
    """The problems that come with the package: two dimensions, two decays, two step sizes."""
    found = []
    for (dim, beta), share in product(((32, 0.5), (32, 1.0), (64, 0.5)), (0.2, 0.5)):
        start = AdditiveProblem(
            activation="h3", dim=dim, teacher_width=3, teacher_exponent=beta, student_width=8, init_scale=0.05, seed=1,
            replicas=_REPLICAS,
        )  # fmt: skip
        bound = resolve(start).bound
        assert bound is not None
        step = float(f"{share * bound[0]:.4g}")
        name = f"h3, d = {dim}, β = {beta:g}, η = {share:g} of its bound"
        found.append((name, replace(start, step_size=step)))
    return found


def main(path: Path) -> None:
    """Simulate the grid, the cheapest first, and write it with where it comes from; what was finished is kept."""
    from dynamics.core.provenance import provenance
    from dynamics.core.storage import write_atomically

    resolved = [(name, resolve(problem)) for name, problem in grid()]
    done = {x["name"]: x for x in json.loads(path.read_text(encoding="utf-8"))["bands"]} if path.is_file() else {}
    for name, one in sorted(resolved, key=lambda x: x[1].steps or 0):
        if name not in done:
            print(name, one.steps, file=sys.stderr, flush=True)
            done[name] = band(one, name)
        ordered = [done[name] for name, _ in resolved if name in done]
        text = json.dumps({"provenance": provenance(), "bands": ordered}, ensure_ascii=False)
        write_atomically(path, partial(_write, text))


def _write(text: str, temporary: str) -> None:
    Path(temporary).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name(_FILE))
