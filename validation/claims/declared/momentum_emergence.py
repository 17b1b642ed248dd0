"""M10: momentum and emergence: the law of the passage in the clock h·n does not see β."""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from theory import Activation, SingleTask
from theory.declared import modified_equation as modified
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.modified_equation import memory
from theory.declared.rule import Momentum, Rule
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.experiments.passages import passages
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error

COST = 6

_H3, _DIM = Activation.parse("h3"), 32
#: Overlap at the start, 2/√d, and where the passage is; h in units of d^{−3/2}.
_BEGIN, _END, _STEP = 2 * _DIM**-0.5, 0.5**0.5, 0.4 * _DIM**-1.5
#: Steps of a run at most, over those of the flow.
_LONG = 3
_QUANTILES = {"lower quartile": 25.0, "median": 50.0, "upper quartile": 75.0}


@lru_cache(maxsize=16)
def _passages(beta: float, replicas: int, seed: int) -> np.ndarray:
    """Times h·n of first passage of overlap √½, of independent runs (R,); inf for those that are late. β = 0 is plain SGD."""
    own = Momentum(1.0, beta=beta)
    rule = Momentum(_STEP / memory(own).total, beta=beta) if beta else Rule(_STEP)
    directions = Directions.orthonormal(Inputs.isotropic(_DIM), 1)
    student = committee(_H3, 1, rows="sphere")
    model = DeclaredModel(directions, Additive(_H3, (1.0,)), student, rule, Correlation())
    steps = math.ceil(_LONG * SingleTask(_H3).passage_time(1.0, _BEGIN, _END) / _STEP)
    return _STEP * passages(model, _BEGIN, _END, steps, replicas, seed)


def _lag(beta: float) -> float:
    """Delay of the mean path at the next order."""
    begin, end = (float(SingleTask(_H3).speed(u, 1.0)) for u in (_BEGIN, _END))
    own = {modified.lag: memory(Momentum(1.0, beta=beta)).lag, modified.h: _STEP}
    return float(modified.delay().subs({**own, modified.F_begin: begin, modified.F_end: end}))


@claim(
    id="M10",
    title="Momentum does not change the law of emergence",
    statement="In the clock h·n, h = η/(1−β), the passage time has the quartiles of plain SGD with step h, a lag apart.",
    latex=r"h=\eta/(1-\beta):\quad hn_{1/2}(\beta)\sim hn_{1/2}(0)+\ell h(1+\ln F_1/F_0)",
    source="derived; Polyak 1964 (heavy ball)",
    kind="asymptotic",
    regime="lag β/(1−β) short beside the passage; one direction, unit row, h3, online",
    controls=("h = η", "h = η/(1−β)²", "noise η²/(1−β²) of a step", "no lag (full)"),
)
def run_momentum(context: Context) -> Iterator[Part]:
    """Quartiles of the time to overlap √½ at d = 32: β = 0.9 (and 0.98) against 0."""
    replicas = context.pick(7500, 12_000)
    plain = _passages(0.0, replicas, context.seed_for("M10", "0"))
    for beta in (0.9, 0.98) if context.full else (0.9,):
        name = f"{beta:g}".replace(".", "")
        found = _passages(beta, replicas, context.seed_for("M10", name))
        lag = _lag(beta)
        rng = context.rng("M10", "errors", name)
        for text, level in _QUANTILES.items():
            reference, estimate = (float(np.percentile(x, level)) for x in (plain, found))
            stderr = math.hypot(*(_error(x, (level,), rng) for x in (plain, found)))
            wrong: Controls = {"h = η": reference / (1 - beta), "h = η/(1−β)²": reference * (1 - beta)}
            if beta > 0.95:  # At 0.9 it is as large as the error.
                wrong["no lag"] = reference
            # The lag's own next order.
            allowance = lag**2 / reference
            what = f"{text} of h·n to overlap √½, h3, d = {_DIM}, β = {beta:g}"
            key = f"{name}-{level:g}"
            yield Measurement(what, reference + lag, estimate, stderr, allowance, wrong, "square of the lag", key)
        yield _spread(plain, found, beta, rng, lag)


def _spread(plain: np.ndarray, found: np.ndarray, beta: float, rng: np.random.Generator, lag: float) -> Measurement:
    """Interquartile ranges."""
    ends = (25.0, 75.0)
    wide = [float(np.ptp(np.percentile(x, ends))) for x in (plain, found)]
    stderr = math.hypot(*(_error(x, ends, rng) for x in (plain, found)))
    share = lag / float(np.median(plain))
    # Per unit of h·n this noise would be (1 − β)/(1 + β) of SGD's.
    wrong: Controls = {"noise": wide[0] * np.sqrt((1 - beta) / (1 + beta))}
    text = f"interquartile range of h·n to overlap √½, h3, d = {_DIM}, β = {beta:g}"
    return Measurement(
        text,
        wide[0],
        wide[1],
        stderr,
        share * wide[0],
        wrong,
        "the lag's share of the time",
        f"{beta:g}-spread".replace(".", ""),
    )


def _error(sample: np.ndarray, levels: tuple[float, ...], rng: np.random.Generator) -> float:
    """Of the quantile, or of the distance of two."""

    def statistic(x: np.ndarray) -> float:
        found = np.percentile(x, levels)
        return float(found[-1] - found[0] if len(levels) > 1 else found[0])

    return bootstrap_error(sample, statistic, rng)
