r"""Quadratic networks: the closed form of the Riccati flow, gradient flow and online SGD of the ordinary student.

Directions do not decouple at information exponent 2, so times are not those of single overlaps: direction j counts as
learned when the student holds half of its weight, $S_{jj}=\sum_kr_kt_{kj}^2\ge a_j/2$. Theory is the closed form of
$S(t)$ from the user's own start, norms included.
"""

import numpy as np

from dynamics.quadratic.quadratic_flow import QuadraticFlow, quadratic_flow
from theory import Activation, InitialState, QuadraticModel, Subspace, Teacher
from theory.core.curves import located_crossing
from theory.quadratic.model import floor
from theory.quadratic.step import fitted_shift
from validation.comparison import WITHIN, Case, Found, Row, judge_replicas, judged, on_times, summary
from validation.comparisons.directions import FLOW, LARGEST_SHIFT, SGD, Runs, beside, directions_case, worst
from validation.figures.stiefel import Curve, measured_and_theory

#: Times at which the closed form is looked at for a first crossing, then refined.
_GRID = 400
#: Beyond the run, times are doubled at most so often, until less than this share of the lightest direction's risk is to learn.
_DOUBLINGS, _LEFT = 60, 1e-3
#: Relative accuracy of the integrated flow's times: its tolerance 1e-8, times the 1e3 steps it may take.
_FLOW = 1e-5
_RULE = (
    "Agrees: the time of the flow is the predicted one to the error of the integrator, and the mean of SGD, where it was run, "
    f"lies within {WITHIN} and the derived shift of the step of the predicted time; wrong theories must be "
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


def inner_times(model: QuadraticModel, columns: Subspace, t_end: float) -> np.ndarray:
    """`fitted_times` of the flow of the teacher block alone, without what the student has outside, (P,)."""
    left, values, _ = np.linalg.svd(columns.on_teachers, full_matrices=False)
    alone = Subspace(np.sqrt(model.speed_factor / model.norm) * left * values, np.zeros((1, values.size)))
    return fitted_times(model, quadratic_flow(model.spectrum, alone), t_end)


def quadratic_case(activation: Activation, teacher: Teacher, initial: InitialState, runs: Runs) -> Case:
    """As `validation.comparisons.additive.additive_case`, for a multiple of z² − 1; times to half of each weight.

    The integrated overlap flow is judged against the closed form with the integrator's error as allowance; SGD against the
    same with the shift of the derived second-order drift as allowance and the standard errors of
    `validation.comparison.allowed`. Raises `InputError` for another activation.
    """
    model = QuadraticModel.of(activation, teacher, initial.on_teachers.shape[0])
    columns, size = Subspace.of_state(initial), np.sqrt(model.speed_factor / model.norm)
    closed = quadratic_flow(model.spectrum, Subspace(size * columns.on_teachers, size * columns.rest))
    t_end, rest2 = runs.end, float(np.sum(columns.rest**2))
    predicted = learned_times(model, closed, t_end)
    heavy = predicted == 0  # so is the first time of any run: no time at which it is learned
    predicted = np.where(heavy, np.nan, predicted)
    alone = inner_times(model, columns, t_end)
    shift = fitted_shift(model, columns.on_teachers, rest2, alone, runs.step_size, t_end, runs.batch)
    return directions_case(
        activation,
        teacher,
        initial,
        runs,
        known=lambda found: beside(predicted, np.where(heavy, np.nan, found[FLOW].loss_time)),
        judged=lambda j, found: _judged(float(predicted[j]), j, found, runs, float(shift[j])),
        figures=lambda found: _figures(model, closed, found),
        rule=_RULE,
        to_the_end=True,
    )


def _judged(predicted: float, j: int, found: Found, runs: Runs, shift: float) -> Row:
    if np.isnan(predicted):
        return {"verdict": "not judged", "reason": _HEAVY}
    sgd = found.get(SGD)
    times = np.array([]) if sgd is None else sgd.loss_steps[:, j] * runs.step_size
    row = {} if sgd is None else summary(times, "sgd")
    if not np.isfinite(predicted):
        return row | {"verdict": "not judged", "reason": _NEVER}
    if predicted > runs.end and not np.isfinite(found[FLOW].loss_time[j]):
        return row | {
            "verdict": "not judged",
            "reason": f"the run ends at {runs.end:.4g}, before it must have been learned",
        }
    controls = {"half": predicted / 2, "double": 2 * predicted}
    verdicts = [(judged(predicted, float(found[FLOW].loss_time[j]), 0.0, _FLOW * predicted, controls), "")]
    if sgd is not None:
        verdicts.append(_judge_sgd(predicted, times, shift, runs.step_size * sgd.resolution, controls, runs.end))
    return row | worst(verdicts)


def _judge_sgd(
    predicted: float, times: np.ndarray, shift: float, resolution: float, controls: dict[str, float], end: float
) -> tuple[str, str]:
    if not abs(shift) <= LARGEST_SHIFT * predicted:
        return "inconclusive", (
            f"at this step size the second-order drift moves the time by more than {LARGEST_SHIFT:.0%}; lower "
            "--step-size for a verdict"
        )
    return judge_replicas(times, predicted, abs(shift) + resolution, controls, end)


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
