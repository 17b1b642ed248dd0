r"""Quadratic networks: the closed form of the Riccati flow, gradient flow and online SGD of the ordinary student.

Directions do not decouple at information exponent 2, so times are not those of single overlaps: direction j counts as
learned when the student holds half of its weight, $S_{jj}=\sum_kr_kt_{kj}^2\ge a_j/2$. Theory is the closed form of
$S(t)$ from the user's own start, norms included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from dynamics.quadratic.quadratic_flow import QuadraticFlow, quadratic_flow
from theory import Activation, InitialState, QuadraticModel, Subspace, Teacher
from theory.core.curves import located_crossing
from theory.core.streams import stream
from theory.quadratic.model import floor
from theory.quadratic.step import growth_shift, start_noise
from validation.comparison import WITHIN, Case, Found, Row, judge_replicas, on_times, summary, with_reason
from validation.comparisons.directions import FLOW, LARGEST_SHIFT, SGD, Runs, beside, directions_case, worst
from validation.figures.stiefel import Curve, measured_and_theory
from validation.judge.claim import Measurement
from validation.statistics.standard_errors import mean_and_error

#: Times at which the closed form is looked at for a first crossing, then refined.
_GRID = 400
#: Beyond the run, times are doubled at most so often, until less than this share of the lightest direction's risk is to learn.
_DOUBLINGS, _LEFT = 60, 1e-3
#: Starts with noise, half of them mirrored; standard errors of their mean that are allowed with it.
_DRAWS, _SURE = 64, 2.0
#: Relative accuracy of the integrated flow's times: its tolerance 1e-8, times the 1e3 steps it may take.
_FLOW = 1e-5
_RULE = (
    "Agrees: the time of the flow is the predicted one to the error of the integrator, and the mean of SGD, where it was run, "
    f"lies within {WITHIN} and what the drift and the noise of its steps move of the predicted time; wrong theories must be "
    "rejected."
)
_HEAVY = "the start holds half of its weight already, and first times are what is judged: lower --init-scale"
_NEVER = "the theory says never, as stronger ones take up the width: nothing to compare a time with"


def fitted_times(
    model: QuadraticModel, flow: QuadraticFlow, t_end: float, start: float = 0.0, points: int = _GRID
) -> np.ndarray:
    """First common time from `start` on with S_jj ≥ a_j/2, shape (P,); inf if not by `t_end`."""
    grid = np.linspace(start, t_end, points)

    def held(times: np.ndarray) -> np.ndarray:
        factors = flow.factor(model.riccati_time(times))
        return np.stack([np.sum(x.on_teachers**2, axis=1) for x in factors]) / model.spectrum - 0.5

    def located(j: int, curve: np.ndarray) -> float:
        return located_crossing(grid, curve, 0.0, lambda t: held(np.array([t]))[0, j], xtol=1e-10 * t_end)

    return np.array([located(j, curve) for j, curve in enumerate(held(grid).T)])


def learned_times(model: QuadraticModel, flow: QuadraticFlow, t_end: float) -> np.ndarray:
    """`fitted_times`, also of directions that are learned after `t_end`, (P,); inf if never."""
    times = fitted_times(model, flow, t_end)
    least = floor(model.spectrum, model.width) + _LEFT * float(model.spectrum.min()) ** 2
    last, t_end = t_end, max(2 * t_end, float(model.emergence_time.min()) / 2)
    for _ in range(_DOUBLINGS):
        if np.isfinite(times).all() or flow.risk(model.riccati_time(np.array([last])))[0] <= least:
            break
        times = np.minimum(times, fitted_times(model, flow, t_end, last, _GRID // 4))
        last, t_end = t_end, 2 * t_end
    return times


def noisy_times(
    model: QuadraticModel, columns: Subspace, step_size: float, batch: int, t_end: float, seed: int = 0
) -> np.ndarray:
    """`fitted_times` from starts to which the noise of small rows has been added, (draws, P), one half mirroring the other."""
    _, sizes, turned = np.linalg.svd(columns.rest, full_matrices=False)
    outside = sizes[:, None] * turned
    spread = np.sqrt(start_noise(model, sizes**2, step_size, batch))[:, None]
    kicks = stream(seed, "noise of a start").standard_normal((_DRAWS // 2, model.teacher.width, len(outside)))
    moved = spread * (kicks @ outside)
    starts = (Subspace(columns.on_teachers + x, columns.rest) for x in np.concatenate([moved, -moved]))
    return np.stack([fitted_times(model, closed_form(model, x), t_end, points=_GRID // 4) for x in starts])


def closed_form(model: QuadraticModel, columns: Subspace) -> QuadraticFlow:
    """The flow from columns of squared norms in the teacher's units."""
    size = np.sqrt(model.speed_factor / model.norm)
    return quadratic_flow(model.spectrum, Subspace(size * columns.on_teachers, size * columns.rest))


@dataclass(frozen=True)
class Moved:
    """By how much a step size moves times to half of each weight, (P,) each, in common time.

    Attributes:
        early: on average, by noise while rows are small, at most. late: the sum of what drift and noise do on the way.
        missed: whether there are noisy starts from which the flow does not get there before the runs end.
    """

    early: np.ndarray
    late: np.ndarray
    missed: np.ndarray


def moved_times(model: QuadraticModel, columns: Subspace, times: np.ndarray, runs: Runs) -> Moved:
    """What is to be expected of SGD beside `times` (P,) of the flow."""
    outside = np.linalg.svd(columns.rest, compute_uv=False) ** 2
    found = noisy_times(model, columns, runs.step_size, runs.batch, runs.end, runs.seed)
    drift, noise = growth_shift(model, times, outside, runs.step_size, runs.batch)
    pairs = np.minimum(found, runs.end).reshape(2, -1, times.size).mean(axis=0)  # (which are independent)
    mean, error = np.array([mean_and_error(x) for x in pairs.T]).T
    return Moved(np.abs(mean - times) + _SURE * error, np.abs(drift) + noise, np.isinf(found).any(axis=0))


def quadratic_case(activation: Activation, teacher: Teacher, initial: InitialState, runs: Runs) -> Case:
    """As `validation.comparisons.additive.additive_case`, for a multiple of z² − 1; times to half of each weight.

    The integrated overlap flow is judged against the closed form with the integrator's error as allowance; SGD against the
    same with what the derived drift and noise of its steps move (`Moved`) as allowance and the standard errors of
    `validation.comparison.allowed`. Raises `InputError` for another activation.
    """
    model = QuadraticModel.of(activation, teacher, initial.on_teachers.shape[0])
    columns = Subspace.of_state(initial)
    closed = closed_form(model, columns)
    predicted = learned_times(model, closed, runs.end)
    heavy = predicted == 0  # so is the first time of any run: no time at which it is learned
    predicted = np.where(heavy, np.nan, predicted)
    moved = cache(lambda: moved_times(model, columns, predicted, runs))
    return directions_case(
        activation,
        teacher,
        initial,
        runs,
        known=lambda found: beside(predicted, np.where(heavy, np.nan, found[FLOW].loss_time)),
        judged=lambda j, found: _judged(float(predicted[j]), j, found, runs, moved),
        figures=lambda found: _figures(model, closed, found),
        rule=_RULE,
        to_the_end=True,
    )


def _judged(predicted: float, j: int, found: Found, runs: Runs, moved: Callable[[], Moved]) -> Row:
    if np.isnan(predicted):
        return {"verdict": "not judged", "reason": _HEAVY}
    sgd = found.get(SGD)
    times = np.array([]) if sgd is None else sgd.loss_steps[:, j] * runs.step_size
    row = {} if sgd is None else summary(times, "sgd", runs.end)
    if not np.isfinite(predicted):
        return row | {"verdict": "not judged", "reason": _NEVER}
    if predicted > runs.end and not np.isfinite(found[FLOW].loss_time[j]):
        return row | {
            "verdict": "not judged",
            "reason": f"the run ends at {runs.end:.4g}, before it must have been learned",
        }
    controls = {"half": predicted / 2, "double": 2 * predicted}
    flow = Measurement("", predicted, float(found[FLOW].loss_time[j]), 0.0, _FLOW * predicted, controls, "")
    verdicts = [with_reason(flow)]
    if sgd is not None:
        verdicts.append(_judge_sgd(predicted, j, times, moved(), runs.step_size * sgd.resolution, controls, runs.end))
    return row | worst(verdicts)


def _judge_sgd(
    predicted: float,
    j: int,
    times: np.ndarray,
    moved: Moved,
    resolution: float,
    controls: dict[str, float],
    end: float,
) -> tuple[str, str]:
    shift = float(moved.early[j] + moved.late[j])
    if moved.missed[j] or not shift <= LARGEST_SHIFT * predicted:
        return "inconclusive", (
            f"at this step size noise moves the time by more than {LARGEST_SHIFT:.0%}, or past the end of the runs; lower "
            "--step-size for a verdict"
        )
    return judge_replicas(times, predicted, shift + resolution, controls, end)


def _figures(model: QuadraticModel, closed: QuadraticFlow, found: Found) -> list[tuple[str, object]]:
    data, sgd = found[FLOW].dataset, found.get(SGD)
    times = data.time.values
    # 2‖M̃ − S̃‖² in units of the weights, to the loss ½E(f*−f)².
    theory = np.asarray(model.loss(closed.risk(model.riccati_time(times))))
    curves = [Curve("gradient flow", times, data.loss.values, np.zeros_like(times), theory)]
    if sgd is not None and sgd.dataset.sizes["replica"] > 1:
        runs = on_times(times, sgd.dataset.loss)
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        curves.append(Curve(f"mean of {len(runs)} SGD runs", times, runs.mean(axis=0), error, theory))
    figure = measured_and_theory(curves, "time", "population loss", theory_name="closed form")
    return [("Loss of gradient flow and of SGD beside the closed form from the same start.", figure)]
