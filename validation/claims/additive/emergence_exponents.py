"""E17: emergence times of the coupled flow and of gradient descent as power laws in rank, dimension and step size."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynamics.additive.gradient_descent import gradient_descent
from dynamics.additive.retiring_flow import retiring_flow
from theory import (
    Activation,
    InitialState,
    Prediction,
    SingleTask,
    Student,
    Teacher,
    draw_initial_state,
    overlap_flow,
    predict,
)
from theory.prediction.deflation import rows_by_share
from theory.prediction.validity import validity
from validation.experiments.coupled_flow import light_pull, well_separated
from validation.figures.exponents import Series, power_laws
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.controls import TENTH, off_by_a_tenth
from validation.judge.under_test import once
from validation.statistics.regression import regress
from validation.statistics.standard_errors import mean_and_error

_ACTIVATION = Activation.parse("h4")
WIDTH, STUDENTS, SCALE = 8, 32, 1e-3
DECAYS = (0.8, 1.2)
#: Share of what is fitted at which a learned direction stops holding others back: early, in the middle, late.
SWITCHES = (0.05, 0.5, 0.95)
#: Step sizes of gradient descent, and the dimension it runs at.
STEPS, DESCENT_DIM = (0.02, 0.01, 0.005), 1024
_RTOL = 1e-8
_ALONE, _NO_LAG = "every direction by itself: exact single-task times", "explicit steps without their lag: 1/η"


@dataclass(frozen=True)
class Start:
    """One random start at one dimension: what theory says of its well-separated directions.

    Attributes:
        ranks: (k,) p, from 1. scale: (k,) g_p^(J−2), g = √d times the selected overlap at the start. single: (k,)
            exact single-task times. times: (k,) those of the deflated flow, in which the other directions hold a neuron
            back until they are learned. left: (k,) its relative error: whether they are switched off early or late, and
            the pull of the light students.
    """

    teacher: Teacher
    initial: InitialState
    prediction: Prediction
    ranks: np.ndarray
    scale: np.ndarray
    single: np.ndarray
    times: np.ndarray
    left: np.ndarray

    @property
    def chosen(self) -> np.ndarray:
        return self.ranks - 1


@lru_cache(maxsize=256)
def draw_start(context: Context, decay: float, dim: int, number: int) -> Start:
    """Start `number` at dimension `dim`, with a_p ∝ p^−decay."""
    teacher = Teacher.power_law(WIDTH, decay, dim)
    stream = context.rng("E17", "start", f"{decay:g}", dim, number)
    initial = draw_initial_state(teacher, Student(STUDENTS, SCALE), stream)
    prediction = predict(_ACTIVATION, teacher, initial)
    # An earlier direction's near tie is not in a pair's own lead, but it is in the conditions of its prediction. (In closed
    # form: what says how far finite size moves a time is no part of this claim, and takes longer than the flow.)
    valid = np.array([entry.valid for entry in validity(prediction, intervals=False)])
    chosen = np.flatnonzero(well_separated(prediction) & valid)
    scale = (np.sqrt(dim) * np.abs(prediction.overlap[chosen])) ** (_ACTIVATION.information_exponent - 2)
    single = prediction.time_half[chosen]
    rows = rows_by_share(_ACTIVATION, teacher, initial, _longest(single), SWITCHES) if chosen.size else []
    early, times, late = (x.half_time[chosen] for x in rows) if rows else (single,) * 3
    light = light_pull(prediction, initial, once(overlap_flow, _ACTIVATION))[chosen]
    return Start(teacher, initial, prediction, chosen + 1, scale, single, times, np.abs(np.log(late / early)) + light)


def _longest(single: np.ndarray) -> float:
    """When all directions are found, of their single-task times."""
    return 1.3 * float(np.max(single))


@lru_cache(maxsize=256)
def flow_times(context: Context, decay: float, dim: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """(k,) gradient-flow times to squared overlap ½ of the well-separated directions, and their bounded relative error."""
    start = draw_start(context, decay, dim, number)
    if not start.ranks.size:  # nothing but ties
        return np.empty(0), np.empty(0)
    context.progress(f"coupled flow, d = {dim}, start {number + 1}")
    t_end = _longest(start.single)
    run = retiring_flow(_ACTIVATION, start.teacher, start.initial, t_end=t_end, times=np.array([t_end]), rtol=_RTOL)
    retiring = (_ACTIVATION.information_exponent - 2) * run.neglected[start.chosen]
    return run.half_time[start.chosen], retiring + _RTOL * run.steps


@dataclass(frozen=True)
class Points:
    """Points of a regression: columns (n, k), logs of measured, predicted and simpler times, slack of each, clusters."""

    columns: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    simple: np.ndarray
    slack: np.ndarray
    clusters: np.ndarray


def flow_points(context: Context, decay: float, dims: tuple[int, ...], starts: int) -> Points:
    """ln(t_p g_p^(J−2)) with ln p and ln d; a start of every dimension is a cluster of its own."""
    rows: list[np.ndarray] = []
    for dim in dims:
        for number in range(starts):
            start, (times, error) = draw_start(context, decay, dim, number), flow_times(context, decay, dim, number)
            size = np.log(start.scale)
            rows.append(
                np.stack(
                    [
                        np.log(start.ranks),
                        np.full(size.shape, np.log(dim)),
                        np.log(times) + size,
                        np.log(start.times) + size,
                        np.log(start.single) + size,
                        start.left + error,
                        np.full(size.shape, dim * starts + number),
                    ],
                    axis=1,
                )
            )
    table = np.concatenate(rows)
    return Points(table[:, :2], *table[:, 2:].T)


def descent_points(context: Context, decay: float, starts: int) -> Points:
    r"""ln of the steps of gradient descent with ln η; starts are the clusters.

    Explicit steps lag behind the flow (`SingleTask.step_lag`), and the first step at ½ or beyond comes half a step later in
    the mean, which the prediction contains; the slack is twice the square of the lag's share, the next order.
    """
    rows = []
    task = SingleTask(_ACTIVATION)
    for number in range(starts):
        start = draw_start(context, decay, DESCENT_DIM, number)
        chosen, (flow, error) = start.chosen, flow_times(context, decay, DESCENT_DIM, number)
        if not chosen.size:
            continue
        lag = np.array([task.step_lag(x, float(np.sqrt(0.5))) for x in np.abs(start.prediction.overlap[chosen])])
        for step_size in STEPS:
            context.progress(f"gradient descent, step size {step_size:g}, start {number + 1}")
            steps = int(1.1 * float(np.max(flow)) / step_size) + 100
            run = gradient_descent(
                _ACTIVATION, start.teacher, start.initial, step_size=step_size, steps=steps, saves=np.array([steps])
            )
            share = step_size * lag / flow
            rows.append(
                np.stack(
                    [
                        np.full(flow.shape, np.log(step_size)),
                        np.log(run.half_steps[chosen] / flow),
                        np.log((1 + share) / step_size + 0.5 / flow),
                        np.full(flow.shape, -np.log(step_size)),
                        2 * share**2 + error,
                        np.full(flow.shape, number),
                    ],
                    axis=1,
                )
            )
    table = np.concatenate(rows)
    return Points(table[:, :1], *table[:, 1:].T)


def _measure(
    points: Points,
    place: int,
    quantity: str,
    key: str,
    asymptotic: float,
    wrong: Controls,
    simpler: str | None,
    source: str,
) -> Measurement:
    """One slope, with the slack of every point carried through the estimator's weights.

    Its error is that of measured less predicted: what starts differ by is in both. `simpler` names the control of the
    simpler times, where they are far enough from the right ones to be rejected.
    """
    fit = regress(points.columns, points.measured, points.clusters)
    gap = regress(points.columns, points.measured - points.predicted, points.clusters)
    predicted = float(fit.of(points.predicted)[place])
    allowance = float(np.abs(fit.weights[place]) @ points.slack)
    controls = off_by_a_tenth(predicted) | wrong
    if simpler is not None:
        controls |= {simpler: float(fit.of(points.simple)[place])}
    details = {"asymptotic": asymptotic, "points": len(points.measured), "starts": fit.clusters}
    slope, stderr = float(fit.slopes[place]), float(gap.stderr[place])
    return Measurement(quantity, predicted, slope, stderr, allowance, controls, source, key, details)


@claim(
    id="E17",
    title="Emergence times as power laws",
    statement="Direction p emerges after a time proportional to p^β d^{J/2−1}, in a number of steps inverse to the step size.",
    latex=r"t_p=\frac{Z\,p^\beta d^{J/2-1}}{J(J-2)\hat\sigma_J^2\,g_p^{J-2}\,\eta}",
    source="arXiv:2504.19983, Proposition 2.2",
    kind="asymptotic",
    regime="d ≫ P; directions clear of ties, predictions inside their conditions; g_p known; deflated flow",
    controls=(
        *TENTH,
        *("t ∝ p^{2β} (step size re-tuned)", "t ∝ p^{β/2}"),
        *("d^{1/2} (J = 3)", "d^{3/2} (J = 5)", "d^{J/2}"),
        *("steps ∝ η^{−2}", "steps ∝ η^{−1/2}"),
        *(_ALONE, _NO_LAG),
    ),
)
def run_emergence(context: Context) -> Iterator[Part]:
    """Exponents of p, d and η over random starts with known g_p."""
    dims = (1024, 4096, 16384, 65536) if context.full else (1024, 4096, 16384)
    starts = context.pick(4, 16)  # (their scatter is a thousandth of the allowance)
    source = "directions switched off early or late, pull of light students at the start; the integrator's tolerances"
    coupling = computed_by(rows_by_share, source)
    curves = []
    for decay in DECAYS if context.full else DECAYS[:1]:
        points = flow_points(context, decay, dims, starts)
        what = f"of the emergence time t_p g_p² of the coupled flow, h4, P = {WIDTH}, m = {STUDENTS}, β = {decay:g}"
        wrong: Controls = {"t ∝ p^{2β} (step size re-tuned)": 2 * decay, "t ∝ p^{β/2}": decay / 2}
        yield _measure(points, 0, f"exponent in p {what}", f"beta{decay:g}", decay, wrong, None, coupling)
        wrong = {"d^{1/2} (J = 3)": 0.5, "d^{3/2} (J = 5)": 1.5, "d^{J/2}": 2.0}
        yield _measure(points, 1, f"exponent in d {what}", f"dim{decay:g}", 1.0, wrong, _ALONE, coupling)
        curves += _curves(points, decay, dims)
    points = descent_points(context, DECAYS[0], context.pick(4, 8))
    text = f"exponent in η of the number of steps of population gradient descent, d = {DESCENT_DIM}"
    source = computed_by(SingleTask.step_lag, "twice the square of the lag's share; the flow's own tolerances")
    wrong = {"steps ∝ η^{−2}": -2.0, "steps ∝ η^{−1/2}": -0.5}
    yield _measure(points, 0, text, "eta", -1.0, wrong, _NO_LAG, source)
    caption = "Emergence time t_p g_p² of the coupled flow, mean over starts; dashed: times of the deflated flow."
    yield caption, power_laws(curves, "rank p", "time × g²")


def _curves(points: Points, decay: float, dims: tuple[int, ...]) -> list[Series]:
    """Geometric means over starts for each rank, with two standard errors (no bar where there is one start)."""
    found = []
    for dim in dims:
        here = points.columns[:, 1] == np.log(dim)
        ranks = np.unique(points.columns[here, 0])
        groups = [here & (points.columns[:, 0] == rank) for rank in ranks]
        logs = np.array([points.measured[group].mean() for group in groups])
        bars = 2 * np.array([_error(points.measured[group]) for group in groups])
        theory = np.exp([points.predicted[group].mean() for group in groups])
        name = f"β = {decay:g}, d = {dim}"
        found.append(Series(name, np.exp(ranks), np.exp(logs), np.exp(logs - bars), np.exp(logs + bars), theory))
    return found


def _error(values: np.ndarray) -> float:
    return mean_and_error(values)[1] if values.size > 1 else 0.0
