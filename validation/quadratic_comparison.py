r"""Riccati prediction, gradient flow and online SGD of the quadratic student side by side.

Directions do not decouple at information exponent 2, so times are not those of single overlaps: direction j counts as
learned when the student holds half of its weight, $S_{jj}=\sum_kr_kt_{kj}^2\ge a_j/2$. Theory is the closed form of
$S(t)$ from the user's own start, norms included.
"""

from pathlib import Path

import numpy as np

from dynamics import FlowResult, Interrupted, SgdResult, gradient_flow, online_sgd
from dynamics.core.interrupted import Progress, unfinished
from dynamics.core.precision import double_precision
from dynamics.quadratic.quadratic_flow import QuadraticFlow, quadratic_flow
from theory import Activation, InitialState, QuadraticModel, Subspace, Teacher
from theory.core.curves import located_crossing
from theory.quadratic.step import fitted_shift
from validation.comparison import LARGEST_SHIFT, Comparison, flow_and_sgd, unjudged
from validation.figures.stiefel import Curve, measured_and_theory
from validation.judge.claim import Measurement, verdict_of
from validation.statistics.standard_errors import mean_and_error

#: Times at which the closed form is looked at for a first crossing, then refined.
_GRID = 400
#: Relative accuracy of the integrated flow's times: its tolerance 1e-8, times the 1e3 steps it may take.
_FLOW = 1e-5


def fitted_times(model: QuadraticModel, flow: QuadraticFlow, t_end: float) -> np.ndarray:
    """First common time with S_jj ≥ a_j/2, shape (P,); inf if not by `t_end`."""
    grid = np.linspace(0.0, t_end, _GRID)

    def held(times: np.ndarray) -> np.ndarray:
        factors = flow.factor(model.riccati_time(times))
        return np.stack([np.sum(x.on_teachers**2, axis=1) for x in factors]) / model.spectrum - 0.5

    def located(j: int, curve: np.ndarray) -> float:
        return located_crossing(grid, curve, 0.0, lambda t: held(np.array([t]))[0, j], xtol=1e-10 * t_end)

    return np.array([located(j, curve) for j, curve in enumerate(held(grid).T)])


@double_precision
def compare_quadratic(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    replicas: int = 32,
    seed: int = 0,
    method: str = "exact",
    out: Path | None = None,
    page: str = "compare.html",
    budget: float | None = None,
    problem: dict | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """As `validation.compare`, for an activation that is a multiple of z² − 1; times to half of each weight.

    The integrated overlap flow is judged against the closed form with the integrator's error as allowance; SGD against the
    same with the shift of the derived second-order drift as allowance and 4 standard errors. Raises what the simulators
    raise, and `InputError` for another activation.
    """
    model = QuadraticModel.of(activation, teacher, initial.on_teachers.shape[0])
    columns, size = Subspace.of_state(initial), np.sqrt(model.speed_factor / model.norm)
    closed = quadratic_flow(model.spectrum, Subspace(size * columns.on_teachers, size * columns.rest))
    t_end = step_size * steps
    predicted = fitted_times(model, closed, t_end)
    notes: list[str] = []
    work = float(replicas) * steps * batch
    affordable = budget is None or work <= budget

    def descend(flow: FlowResult) -> SgdResult:
        return online_sgd(
            activation, teacher, initial, step_size=step_size, steps=steps, batch=batch, replicas=replicas, seed=seed,
            method=method, progress=progress,
        )  # fmt: skip

    flow, sgd, stop = flow_and_sgd(
        lambda: gradient_flow(activation, teacher, initial, t_end=t_end, step_size=step_size),
        descend if affordable else None,
    )
    if not affordable:
        notes.append(
            f"SGD was not run: it needs {work:.2g} samples over all replicas. Give --steps or --time to run it."
        )
    outside = float(np.sum(columns.rest**2))
    shift = fitted_shift(model, columns.on_teachers, outside, step_size, t_end, batch)
    if stop:
        rows = unjudged(predicted, flow.loss_time, stop, notes)
    else:
        rows = [
            _row(j, float(predicted[j]), flow, sgd, step_size, float(shift[j]), notes) for j in range(teacher.width)
        ]
    report = None
    if out is not None:
        path = out / (unfinished(page) if stop else page)
        report = _write(path, activation, model, closed, flow, sgd, rows, problem or {}, notes)
    diverged = sgd is not None and bool(sgd.diverged.any())
    compared = Comparison(rows, notes, report, all(row["verdict"] != "disagrees" for row in rows), diverged)
    if stop:
        raise Interrupted(compared, stop)
    return compared


def _row(
    j: int, predicted: float, flow: FlowResult, sgd: SgdResult | None, step_size: float, shift: float, notes: list[str]
) -> dict[str, object]:
    measured = float(flow.loss_time[j])
    row: dict[str, object] = {"direction": j + 1, "predicted": _finite(predicted), "flow": _finite(measured)}
    row |= {"sgd_mean": None, "sgd_stderr": None, "verdict": "not judged"}
    if sgd is not None:
        times = sgd.loss_steps[:, j] * step_size
        reached = times[np.isfinite(times)]
        if reached.size >= 2:
            row["sgd_mean"], row["sgd_stderr"] = mean_and_error(reached)
        elif reached.size == 1:
            row["sgd_mean"] = float(reached[0])
    if not np.isfinite(predicted):
        return row
    verdicts = [_verdict(predicted, measured, 0.0, _FLOW * predicted)]
    if sgd is not None:
        verdicts.append(_judge_sgd(j, predicted, times, shift, step_size * sgd.resolution, notes))
    row["verdict"] = next((v for v in ("disagrees", "inconclusive") if v in verdicts), "agrees")
    return row


def _judge_sgd(j: int, predicted: float, times: np.ndarray, shift: float, resolution: float, notes: list[str]) -> str:
    if not abs(shift) <= LARGEST_SHIFT * predicted:
        notes.append(
            f"Direction {j + 1}: at this step size the second-order drift moves the time by more than "
            f"{LARGEST_SHIFT:.0%}; lower --step-size for a verdict."
        )
        return "inconclusive"
    missing = int(np.sum(~np.isfinite(times)))
    if missing or times.size < 2:
        notes.append(f"Direction {j + 1}: {missing} of {times.size} replicas had not learned it when the run ended.")
        return "inconclusive"
    return _verdict(predicted, *mean_and_error(times), abs(shift) + resolution)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _verdict(predicted: float, estimate: float, stderr: float, allowance: float) -> str:
    controls = {"half": predicted / 2, "double": 2 * predicted}
    return verdict_of(Measurement("", predicted, estimate, stderr, allowance, controls, "")).verdict


def _write(
    path: Path, activation: Activation, model: QuadraticModel, closed: QuadraticFlow, flow: FlowResult,
    sgd: SgdResult | None, rows: list[dict], problem: dict, notes: list[str],
) -> Path:  # fmt: skip
    from validation.report.page import write_comparison

    times = flow.dataset.time.values
    # 2‖M̃ − S̃‖² in units of the weights, to the loss ½E(f*−f)².
    theory = np.asarray(model.loss(closed.risk(model.riccati_time(times))))
    nothing = np.zeros_like(times)
    curves = [Curve("gradient flow", times, flow.dataset.loss.values, nothing, theory)]
    if sgd is not None and sgd.dataset.sizes["replica"] > 1:
        loss = sgd.dataset.loss
        runs = np.stack([np.interp(times, loss.time.values, x, right=np.nan) for x in loss.values])
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        curves.append(Curve(f"mean of {len(runs)} SGD runs", times, runs.mean(axis=0), error, theory))
    figure = measured_and_theory(curves, "time", "population loss", theory_name="closed form")
    caption = "Loss of gradient flow and of SGD beside the closed form from the same start."
    title = f"Theory, gradient flow and SGD: {activation.name}, d = {model.teacher.dim}"
    shown = {name: value for name, value in problem.items() if value is not None}
    return write_comparison(path, title, shown, rows, [(caption, figure)], notes)
