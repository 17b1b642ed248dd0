"""L27: the alignment time and the rates of SAM, as the step size goes to 0 or the dimension to infinity."""

from collections.abc import Iterator

import numpy as np

from theory.linear import alignment
from theory.linear import sam as sam_theory
from validation.judge.claim import Control, Controls, Measurement, claim
from validation.judge.context import Context
from validation.statistics.exponents import continued

COST = 1

_SOURCE = "what continuing the change from one step size to the next adds"
#: ‖θ*‖; step sizes of the alignment, each the square of the one before, and of SAM, each a tenth.
_TARGET, _ALIGNING, _PERTURBED = 0.5, 10.0 ** -np.array([4, 8, 16, 32]), 10.0 ** -np.array([3, 4, 5])
#: Dimension, radius, squared length of the rows along each direction.
_DIM, _RADIUS, _SQUARE = 20, 0.2, 50.0


def _limit(values: np.ndarray) -> tuple[float, float]:
    limit, added = map(float, continued(values))
    return limit, added


def _alignment() -> Measurement:
    """Rows of length √η/8 that lean all alike: when their growth saturates."""
    rows = 64
    first = np.zeros((rows, 3))
    target = np.array([_TARGET, 0.0, 0.0])
    ratios = []
    for step in _ALIGNING:
        first[:, 0] = np.sqrt(step) / 8
        saturated = alignment.saturation_time(first, np.zeros(rows), target, step)
        ratios.append(saturated / alignment.corrected_alignment_time(step, _TARGET))
    limit, added = _limit(np.array(ratios))
    text = "when growth from rows of order √η saturates, over ln(1/η)/(η‖θ*‖), η to 0"
    controls: Controls = {"the whole of it": 1.0, "ln(1/η)/‖θ*‖, as printed": Control(0.5, limit / _ALIGNING[0])}
    return Measurement(text, 0.5, limit, 0.0, added, controls, _SOURCE, "alignment", {"values": ratios})


def _full_batch() -> Measurement:
    """Isotropic inputs and rows, over one inverse step size."""
    gram, falls = _SQUARE * np.eye(_DIM), []
    for step in _PERTURBED:
        law = sam_theory.full_batch_fall(_RADIUS, step, np.eye(_DIM), gram, 1 / step)
        falls.append(-law * step / sam_theory.full_batch_decay_rate(_RADIUS, step, _DIM))
    limit, added = _limit(np.array(falls))
    text = "fall of ln‖W‖²_F under full-batch SAM, over 2ηρ²/d a step, isotropic inputs, η to 0"
    controls: Controls = {"single-sample rate 2ηρ²": Control(1.0, limit / _DIM), "rate ηρ²/d": Control(1.0, 2 * limit)}
    return Measurement(text, 1.0, limit, 0.0, added, controls, _SOURCE, "full-batch", {"values": falls})


def _single_samples() -> Measurement:
    """One whole step as dimensions are doubled, at the same kd, ρD and squared length of the columns."""
    ratios = []
    for dim in _DIM * 2 ** np.arange(4):
        step, radius = 1 / (_SQUARE * dim), _RADIUS / 10 * float(np.sqrt(_DIM / dim))
        state = (radius, step, _SQUARE * dim, 1.0, int(dim))
        ratios.append(float(sam_theory.one_step_decay(*state)[0] / sam_theory.decay_rate(*state)))
    limit, added = _limit(np.array(ratios))
    text = "fall of ‖W‖²_F in one whole step of single-sample SAM over the derived rate, kd = 1, d to ∞"
    bare = 2 * step * radius**2 / sam_theory.decay_rate(*state)
    controls: Controls = {"single-sample rate 2ηρ²": bare, "rate ηρ²/d": bare / (2 * int(dim))}
    return Measurement(text, 1.0, limit, 0.0, added, controls, _SOURCE, "single", {"values": ratios})


@claim(
    id="L27",
    title="Limits: alignment and the decay rates of SAM",
    statement="Neurons of size √η stop growing after half of ln(1/η)/(η‖θ*‖) steps; full-batch SAM shrinks isotropic rows "
    "at the rate 2ηρ²/d, and single samples, a step at a time, at the derived rate.",
    latex=r"t_2\to\frac{\ln(1/\eta)}{2\eta\|\theta^*\|},\quad-\tfrac{d}{dt}\ln\|W\|_F^2\to\frac{2\eta\rho^2}d",
    source="derived",
    kind="asymptotic",
    regime="η to 0 or d to ∞, no runs: laws that L19 and L22 compare with runs",
    controls=("the whole of it", "ln(1/η)/‖θ*‖, as printed", "single-sample rate 2ηρ²", "rate ηρ²/d"),
)
def run_limits(context: Context) -> Iterator[Measurement]:
    """The time and the rates, at falling step sizes and in growing dimension."""
    yield _alignment()
    yield _full_batch()
    yield _single_samples()
