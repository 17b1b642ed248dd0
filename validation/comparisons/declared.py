"""A declared model: its population flow, and SGD at three step sizes, extrapolated to the flow's limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import CubicSpline

from dynamics.core.interrupted import Progress
from dynamics.declared.flow import DeclaredFlow, declared_flow
from dynamics.declared.population import declared_loss
from dynamics.declared.simulate import DeclaredRun, declared_sgd
from theory.core.curves import first_crossing
from theory.declared.emergence import FOUND, MEAN_STEPS
from theory.declared.flow import speed
from theory.declared.inputs import Inputs
from theory.declared.known import Knowledge, Known
from theory.declared.model import DeclaredModel
from theory.declared.predict import predict
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Schedule
from theory.declared.start import Start
from validation.comparison import WITHIN, Case, Found, Row, Stage, allowed, undecided, with_reason
from validation.comparisons.directions import LARGEST_SHIFT
from validation.comparisons.step_limit import SECOND_ORDER, TOO_FEW, step_limit
from validation.figures.common import mean_paths
from validation.judge.claim import Measurement, verdict_of

if TYPE_CHECKING:
    import xarray as xr

FLOW, DOUBLE, SGD, HALF = "population flow", "SGD, twice the step size", "SGD", "SGD, half the step size"
COLUMNS = ("quantity", "predicted", "measured_mean", "measured_stderr", "verdict")
_RULE = (
    f"Agrees: the mean of SGD lies within {WITHIN}, the second order of the extrapolation (as runs at 2η tell it, within "
    "their own error) and the integrator's error of what the flow says; flows that leave something out must be rejected. "
    f"SGD that disagrees has no verdict where any quantity is more than {LARGEST_SHIFT:.0%} off its limit of small steps, "
    "and none has any where replicas diverged. "
    "Emergence times are those of the flow: they must lie in the interval of the prediction. Where theory knows the mean of "
    "SGD's steps, that of the replicas must lie in its interval, give or take its error."
)
#: Times at which the flow is read, the start not counted.
_READ = 200
#: Accuracy of the integrated flow beside what it began with: its tolerance 1e-8, times the 1e3 steps it may take.
_FLOW = 1e-5


@dataclass(frozen=True)
class Halved:
    """A schedule taken in steps half as large, twice as many."""

    schedule: Schedule

    @property
    def end(self) -> int | None:
        """Of the steps."""
        return None if self.schedule.end is None else 2 * self.schedule.end

    def __call__(self, step: Any) -> Any:
        return self.schedule(step // 2) / 2


@dataclass(frozen=True)
class Doubled:
    """A number of steps, two taken as one of their sum; the last of an odd number remains."""

    size: float | Schedule
    steps: int

    @property
    def end(self) -> int:
        """Of the steps."""
        return -(-self.steps // 2)

    def __call__(self, step: Any) -> Any:
        first, second = ((self.size(n) if callable(self.size) else self.size) for n in (2 * step, 2 * step + 1))
        return first + second * (2 * step + 1 < self.steps)


def halved(rule: Rule) -> Rule:
    """The rule with half the step size."""
    size = rule.step_size
    return replace(rule, step_size=Halved(size) if callable(size) else size / 2)


def doubled(rule: Rule, steps: int) -> Rule:
    """The rule with twice the step size, for a run as long as so many of its steps."""
    return replace(rule, step_size=Doubled(rule.step_size, steps))


def readings(
    model: DeclaredModel, run: DeclaredFlow | DeclaredRun, flow: DeclaredFlow | None = None
) -> dict[str, np.ndarray]:
    """What is judged of a flow (), or of a run (replica,), nan where it diverged.

    flow: beside which the run is averaged. Records of a schedule's steps are far apart in time where those are large: a
    trapezoid misses as much of either curve there.
    """
    data = run.dataset
    loss = declared_loss(model, data.overlap.values, data.gram.values, data.second.values)
    times = data.time.values
    found = {"loss, mean over the run": _mean(loss, times), "loss at the end": loss[..., -1]}
    if flow is not None:
        known, at = flow.dataset.loss.values, flow.dataset.time.values
        found["loss, mean over the run"] += _mean(known, at) - _mean(CubicSpline(at, known)(times), times)
    if model.student.rows == "free":  # on a sphere it is a constraint, which no theory can be wrong about
        found["squared norms at the end"] = np.einsum("...ikk->...", data.gram.values[..., -1, :, :, :])
    return {name: np.where(run.diverged, np.nan, x) if isinstance(run, DeclaredRun) else x for name, x in found.items()}


def _mean(curve: np.ndarray, times: np.ndarray) -> Any:
    """Over a run, by trapezoids."""
    return np.trapezoid(curve, times, axis=-1) / times[-1]


def measurements(
    model: DeclaredModel,
    flow: DeclaredFlow,
    runs: tuple[DeclaredRun, DeclaredRun, DeclaredRun],
    wrong: Mapping[str, DeclaredFlow],
) -> list[Measurement]:
    """SGD at η and η/2, extrapolated to 0, beside the flow. `runs`: at 2η, η and η/2; `wrong`: flows of the `rivals`."""
    double, full, half = (readings(model, run, flow) for run in runs)
    exact, models = readings(model, flow), rivals(model)
    others = {name: readings(models[name], one) for name, one in wrong.items()}
    begin = replace(flow, dataset=flow.dataset.isel(time=[0, 0]).assign_coords(time=[0.0, 1.0]))
    others["nothing learned"] = readings(model, begin)
    found = []
    for name, predicted in exact.items():
        limit = step_limit(double[name], full[name], half[name])
        if limit is None:
            return []
        # Beside what it began with, too: a loss that ends near 0, or of either sign, is no scale of itself.
        limit["allowance"] += _FLOW * max(abs(float(predicted)), abs(float(others["nothing learned"][name])))
        controls = {other: float(values[name]) for other, values in others.items()}
        why = f"{SECOND_ORDER}, and the integrator's"
        shift = float(np.nanmean(full[name])) - limit["estimate"]
        limit |= {"controls": controls, "allowance_from": why, "details": {"shift": shift}}
        found.append(Measurement(name, float(predicted), **limit))
    return found


def emergence_times(model: DeclaredModel, data: "xr.Dataset") -> np.ndarray:
    """First times at which some row's squared correlation with each direction is ½, (…, P), on the record; inf if none."""
    found = squared_correlations(model, data.overlap.values, data.gram.values)
    return first_crossing(data.time.values, np.swapaxes(found, -1, -2), 0.5)


def squared_correlations(model: DeclaredModel, overlap: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """The largest of a row with each direction, (…, P), of overlaps (…, L, m, P) and Gram matrices (…, L, m, m)."""
    eigenvalues = np.asarray(model.inputs.eigenvalues)
    X = np.einsum("i,...ikp->...kp", eigenvalues, overlap)
    C = np.einsum("i,...ikk->...k", eigenvalues, gram)
    return np.asarray(np.max(X**2 / (C[..., None] * np.diag(model.directions.covariance)), axis=-2))


def emergences(model: DeclaredModel, flow: DeclaredFlow, known: Sequence[Known]) -> list[Row]:
    """The flow's emergence times beside those that theory predicts, where it does."""
    record = flow.dataset.time.values
    times, end = emergence_times(model, flow.dataset), float(record[-1])
    rows = []
    for one in known:
        measured = float(times[one.place - 1]) if one.place else np.inf
        row = {"quantity": f"emergence of direction {one.place}", "predicted": one.value, "measured_mean": measured}
        rows.append(row | _judged(one, measured, end, _spacing(record, one) + _FLOW * one.high))
    return rows


def emergences_of_sgd(model: DeclaredModel, run: DeclaredRun, known: Sequence[Known]) -> list[Row]:
    """Mean steps to directions over replicas beside those that theory predicts, of those with an interval."""
    times, record = emergence_times(model, run.dataset), run.dataset.step.values
    rows = []
    for one in known:
        if one.place is None or np.isnan(one.low):
            continue  # (the law of one row alone states no interval)
        own = np.interp(times[:, one.place - 1], run.dataset.time.values, record, right=np.inf)
        row = {
            "quantity": f"steps of SGD to direction {one.place}",
            "predicted": one.value,
            "measured_mean": own.mean(),
        }
        rows.append(row | _judged_of_sgd(one, own, float(np.diff(record).max()), run.diverged))
    return rows


def _judged_of_sgd(one: Known, steps: np.ndarray, spacing: float, lost: np.ndarray) -> Row:
    """By the interval, the records' spacing on top. Wrong theories: half of the steps, twice as many."""
    if one.reasons:
        return {"verdict": "outside", "reason": "; ".join(one.reasons)}
    if lost.any() or np.isinf(steps).any():
        left = f"{np.isinf(steps).sum()} of {steps.size} replicas are not there at the run's end"
        return {"verdict": "not judged", "reason": f"{lost.sum()} replicas diverged" if lost.any() else left}
    if steps.size < 2:
        return {"verdict": "not judged", "reason": "one replica has no standard error"}
    error, allowance = float(steps.std(ddof=1) / np.sqrt(steps.size)), (one.high - one.low) / 2 + spacing
    wrong = {"half of the steps": one.value / 2, "twice as many": 2 * one.value}
    numbers = (one.low + one.high) / 2, float(steps.mean()), error, allowance
    verdict, why = with_reason(Measurement("", *numbers, wrong, "", sigmas=allowed(steps.size)), steps.size)
    return {"measured_stderr": error, "verdict": verdict, "reason": _interval(one, why)}


def _interval(one: Known, why: str) -> str:
    return f"interval {one.low:.4g} to {one.high:.4g}" + (f"; {why}" if why else "")


def _spacing(record: np.ndarray, one: Known) -> float:
    """How far from the interval a record's crossing may be that is within: to the nearest times that hold it."""
    before = record[max(int(np.searchsorted(record, one.low, "right")) - 1, 0)]
    after = record[min(int(np.searchsorted(record, one.high)), len(record) - 1)]
    return float(max(one.low - before, after - one.high, 0.0)) if one.high < np.inf else 0.0


def looked_at(known: Sequence[Known], time: float) -> np.ndarray:
    """Times of a flow's record, (T,): equally far apart, and the ends of the intervals of what is `known`."""
    ends = np.array([x for one in known if not one.reasons for x in (one.low, one.value, one.high)])
    return np.union1d(np.linspace(0.0, time, _READ + 1), ends[(ends > 0) & (ends < time)])


def _judged(one: Known, measured: float, end: float, spacing: float) -> Row:
    """By the interval; the record's spacing there is on top. Wrong theories: half the time, twice the time."""
    if one.reasons:
        return {"verdict": "outside", "reason": "; ".join(one.reasons)}
    if not one.high < end:
        seen = measured < min(one.low, end)
        return {
            "verdict": "disagrees" if seen else "not judged",
            "reason": f"predicted {'after' if one.value < np.inf else 'never, not by'} the run's end at {end:.4g}",
        }
    if not np.isfinite(measured):
        return {"verdict": "disagrees", "reason": f"not found by {end:.4g}"}
    centre, allowance = (one.low + one.high) / 2, (one.high - one.low) / 2 + spacing
    wrong = {"half the time": one.value / 2, "twice the time": 2 * one.value}
    verdict, why = with_reason(Measurement("", centre, measured, 0.0, allowance, wrong, ""))
    return {"verdict": verdict, "reason": _interval(one, why)}


def rivals(model: DeclaredModel) -> dict[str, DeclaredModel]:
    """Models that leave out what is special in this one."""
    found, inputs, rule = {}, model.inputs, model.rule
    if len(inputs.eigenvalues) > 1:
        equal = Inputs(tuple(inputs.trace / inputs.dim for _ in inputs.eigenvalues), inputs.multiplicities)
        found["equal eigenvalues"] = replace(model, directions=replace(model.directions, inputs=equal))
    if rule.decay:
        found["no decay"] = replace(model, rule=replace(rule, decay=0.0))
    if rule.signal != 1:
        found["flips not counted"] = replace(model, rule=replace(rule, noise=0.0))
    if isinstance(rule, Momentum) and speed(rule) != 1:
        found["momentum not counted"] = replace(model, rule=Rule(rule.step_size, decay=rule.decay))
    if model.student.trained:
        found["second layer fixed"] = replace(model, student=replace(model.student, trained=False))
    return found


def declared_case(
    model: DeclaredModel, start: Start, *, steps: int, time: float, replicas: int, seed: int, method: str
) -> Case:
    """The flow at the end of the run and over it, beside SGD extrapolated from η and η/2 to η = 0.

    A run at 2η tells what that leaves; where that diverges, the first order, f(η/2) − f(η), is allowed whole. Judged against
    flows that leave out what is special in the model, and against the start. Raises `InputError` for models without a flow.
    """
    speed(model.rule)

    @cache
    def known() -> Knowledge:
        return predict(model, start)

    def flow(of: DeclaredModel, progress: Progress | None = None) -> DeclaredFlow:
        return declared_flow(of, start, time, looked_at(known().of_quantity(FOUND), time), progress=progress)

    def sgd(rule: Rule, count: int, progress: Progress | None) -> DeclaredRun:
        return declared_sgd(
            replace(model, rule=rule),
            start,
            steps=count,
            replicas=replicas,
            seed=seed,
            method=method,
            progress=progress,
        )

    @cache
    def others() -> dict[str, DeclaredFlow]:
        return {name: flow(x) for name, x in rivals(model).items()}

    return Case(
        title="A declared model: population flow and SGD",
        unit="quantities",
        columns=COLUMNS,
        stages=(
            Stage(FLOW, lambda _, progress: flow(model, progress)),
            Stage(DOUBLE, lambda _, progress: sgd(doubled(model.rule, steps), -(-steps // 2), progress), judged=False),
            Stage(SGD, lambda _, progress: sgd(model.rule, steps, progress)),
            Stage(HALF, lambda _, progress: sgd(halved(model.rule), 2 * steps, progress)),
        ),
        judge=lambda found: _rows(model, found, others(), known()),
        known=lambda found: [],
        figures=lambda found: _figures(model, found, others()) if HALF in found else [],
        caption="The flow beside SGD, extrapolated from η and η/2 to η = 0.",
        rule=_RULE,
    )


def _rows(
    model: DeclaredModel, found: Found, others: Mapping[str, DeclaredFlow], known: Knowledge
) -> tuple[list[Row], list[str]]:
    measured = measurements(model, found[FLOW], (found[DOUBLE], found[SGD], found[HALF]), others)
    lost = found[SGD].diverged | found[HALF].diverged
    values = [(x.quantity, x.predicted, x.estimate, x.stderr, *_verdict(x, measured, lost)) for x in measured]
    rows: list[Row] = [dict(zip((*COLUMNS, "reason"), row, strict=True)) for row in values]
    times = emergences(model, found[FLOW], known.of_quantity(FOUND))
    times += emergences_of_sgd(model, found[SGD], known.of_quantity(MEAN_STEPS))
    told = [(str(row["quantity"]), row["reason"]) for row in (*rows, *times) if row["reason"]]
    notes = [f"{name[0].upper()}{name[1:]}: {reason}." for name, reason in told]
    notes += [] if values else [TOO_FEW]
    return [*rows, *times], notes


def _verdict(one: Measurement, measured: Sequence[Measurement], lost: np.ndarray) -> tuple[str, str]:
    """And why, of runs some of which are `lost` (replica,): those that are left are no fair sample. And of runs that are too
    far from their limit to be extrapolated to it, by any of what is `measured`: rows whose norms noise has made ten times
    what they are do not see the flow's drift, even if the loss is near.
    """
    if lost.any():
        left = f"{lost.sum()} of {lost.size} replicas diverged, and {one.quantity} of those left is no mean of SGD"
        return "outside", f"{left}: lower step-size"
    verdict, farthest = verdict_of(one).verdict, max(measured, key=_off)
    if verdict != "disagrees" or _off(farthest) <= LARGEST_SHIFT:
        return verdict, undecided(one, lost.size, by_chance=True)
    what = "SGD is" if farthest is one else f"{farthest.quantity} of SGD are"
    return (
        "outside",
        f"{what} {_off(farthest):.0%} off the limit of small steps, too far to extrapolate: lower step-size",
    )


def _off(one: Measurement) -> float:
    """How far SGD is off its limit of small steps, over the larger of what that is and what is predicted."""
    shift = one.details["shift"]
    assert isinstance(shift, float)
    size = max(abs(one.predicted), abs(one.estimate))
    return abs(shift) / size if size else np.inf if shift else 0.0


def _figures(model: DeclaredModel, found: Found, others: Mapping[str, DeclaredFlow]) -> list[tuple[str, object]]:
    data = found[HALF].dataset.isel(replica=np.flatnonzero(~found[HALF].diverged))
    if data.sizes["replica"] < 2:
        return []
    loss = declared_loss(model, data.overlap.values, data.gram.values, data.second.values)
    at = data.time.values
    on = {
        name: np.interp(at, one.dataset.time.values, one.dataset.loss.values)
        for name, one in ({FLOW: found[FLOW]} | dict(others)).items()
    }
    figure = mean_paths(at, loss, {FLOW: on.pop(FLOW)}, on, "loss")
    return [("Loss of SGD at η/2, of the flow, and of flows that leave out what is special in the model.", figure)]
