"""E46: the probability with which Brownian motion leaves an interval, by reflections and by eigenfunctions."""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

from theory.one_task.noisy_growth import leaving_probability
from validation.judge.claim import Controls, Measurement, claim
from validation.judge.context import Context

COST = 1

_MODES = 200


def _by_eigenfunctions(time: float) -> float:
    r"""$1-\frac4\pi\sum_j\frac{(-1)^j}{2j+1}e^{-(2j+1)^2\pi^2s/8}$: heat that is left between absorbing walls."""
    odd = 2 * np.arange(_MODES) + 1
    left = (-1.0) ** np.arange(_MODES) / odd * np.exp(-(odd**2) * np.pi**2 * time / 8)
    return float(1 - 4 / np.pi * left.sum())


@claim(
    id="E46",
    title="Leaving the tube: reflections and eigenfunctions",
    statement="The probability of leaving a tube is what heat loses between two absorbing walls.",
    latex=r"P\big(\max_{u\le s}|B_u|>1\big)=1-\frac4\pi\sum_j\frac{(-1)^j}{2j+1}e^{-(2j+1)^2\pi^2s/8}",
    source="derived",
    kind="exact",
    regime="the law that E30 compares with runs",
    controls=("the end of the run only", "walls never reached twice"),
)
def run_leaving(context: Context) -> Iterator[Measurement]:
    """Variances from a fifth of a squared half width to three."""
    for share in (0.2, 0.5, 1.0, 3.0):
        end = 2 * float(ndtr(-1 / np.sqrt(share)))
        controls: Controls = {"the end of the run only": end, "walls never reached twice": 2 * end}
        text = f"probability that a Brownian motion leaves (−1, 1) by time {share:g}"
        key = f"s{share:g}"
        yield Measurement(
            text,
            leaving_probability(share),
            _by_eigenfunctions(share),
            0.0,
            1e-13,
            controls,
            "rounding of the sums",
            key,
        )
