"""L29: SAM takes small networks to zero before they fit the labels, each start from a radius of its own on."""

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import scipy

from dynamics import sam
from theory import LinearStart, LinearTask, draw_linear_start
from theory.linear import sam as sam_theory
from theory.linear import sam_fate
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 9

_DIM, _WIDTH, _STEP, _TIME = 6, 3, 4e-3, 25.0
#: Radii of the runs over that of the flow, and runs of each.
_FACTORS = np.arange(0.8, 1.21, 0.05)
_RUNS = 16
#: Shares of the collapse radius between which a start is lost that is looked at.
_BETWEEN = (0.2, 0.8)
#: Precision of the flow's radius, of ρ_c.
_CLOSE = 3e-3


@claim(
    id="L29",
    title="Small networks lost to SAM",
    statement="Below the collapse radius SAM still takes a start to zero from that radius on at which its mean flow does not "
    "let it fit the labels.",
    latex=r"\rho<\rho_c,\qquad|B|<\rho\ \text{ before }\ \theta=\theta^*",
    source="arXiv:2603.10397, section 5 (update rule); flow derived",
    kind="asymptotic",
    regime=f"fresh samples, one a step; small steps; published starts of {_WIDTH} neurons in d = {_DIM}",
    controls=("collapse radius", "size of the start"),
)
def run_fate(context: Context) -> Iterator[Part]:
    """Radius from which half of the runs from a start are lost, mean over starts, over the flow's."""
    target, critical = np.eye(_DIM)[0], sam_theory.collapse_radius(1.0, _DIM)
    draws = (draw_linear_start(_WIDTH, _DIM, context.rng("L29", "start", number)) for number in count())
    found = ((start, _edge(start, target, critical)) for start in draws)
    inside = ((start, edge) for start, edge in found if _BETWEEN[0] < edge / critical < _BETWEEN[1])
    starts, edges = zip(*islice(inside, context.pick(5, 40)), strict=True)
    over = np.array([_lost_from(context, i, *both) for i, both in enumerate(zip(starts, edges, strict=True))])
    sizes = np.array([np.hypot(np.linalg.norm(x.first), np.linalg.norm(x.second)) for x in starts])
    controls = {
        "collapse radius": float(np.mean(critical / np.array(edges))),
        "size of the start": float(np.mean(sizes / edges)),
    }
    text = "radius from which half of SAM's runs from a start are lost, over the flow's, mean over starts"
    source = f"means of the flow over {sam_fate.SAMPLES} samples, 1/√{sam_fate.SAMPLES} of the radius; step size"
    details = {"radius over ρ_c": [edge / critical for edge in edges], "each": over.tolist()}
    yield Measurement(text, 1.0, *mean_and_error(over), sam_fate.SAMPLES**-0.5, controls, source, details=details)


def _edge(start: LinearStart, target: np.ndarray, most: float) -> float:
    """The radius from which the flow loses a start: 0 if it fits at none, `most` if at all."""

    def fate(radius: float) -> float:
        return 0.5 - bool(sam_fate.fits(start.first, start.second, target, radius))

    if fate(most) < 0:
        return most
    if fate(_CLOSE) > 0:
        return 0.0
    return float(scipy.optimize.bisect(fate, _CLOSE, most, xtol=_CLOSE * most))


def _lost_from(context: Context, number: int, start: LinearStart, edge: float) -> float:
    """The radius from which half of the runs are lost, over `edge`: the mean of a threshold by the area under its curve.

    Layers, ρ and the root of θ* by one factor are the same network, so that one radius (and one program) serves all.
    """
    target, shares = np.eye(_DIM)[0], []
    for place, factor in enumerate(_FACTORS):
        scale = 1 / (factor * edge)
        run = sam(
            LinearTask(scale**2 * target),
            LinearStart(scale * start.first, scale * start.second),
            radius=1.0,
            step_size=_STEP / scale**2,
            steps=int(_TIME / _STEP),
            replicas=_RUNS,
            seed=context.seed_for("L29", "samples", number, place),
            saves=1,
            tracked=1,
        )
        shares.append(np.mean(run.values("theta")[:, -1] @ target > scale**2 / 2))
    return float(_FACTORS[0] + (_FACTORS[1] - _FACTORS[0]) * (np.sum(shares) - 0.5))
