"""A declared model: its population flow, and SGD at two step sizes, extrapolated to the flow's limit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.declared.flow import DeclaredFlow, declared_flow
from dynamics.declared.population import declared_loss
from dynamics.declared.simulate import DeclaredRun, declared_sgd
from theory.declared.flow import speed
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Schedule
from theory.declared.start import Start
from validation.comparison import Case, Found, Row, Stage
from validation.figures.common import mean_paths
from validation.judge.claim import Measurement, verdict_of
from validation.statistics.standard_errors import mean_and_error

FLOW, SGD, HALF = "population flow", "SGD", "SGD, half the step size"
COLUMNS = ("quantity", "predicted", "measured_mean", "measured_stderr", "verdict")
#: Times at which the flow is read, the start not counted.
_READ = 200


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


def halved(rule: Rule) -> Rule:
    """The rule with half the step size."""
    size = rule.step_size
    return replace(rule, step_size=Halved(size) if callable(size) else size / 2)


def readings(model: DeclaredModel, run: DeclaredFlow | DeclaredRun, kept: Any = slice(None)) -> dict[str, np.ndarray]:
    """What is judged of a flow (), or of the replicas `kept` of a run (replica,)."""
    data = run.dataset.isel(replica=kept) if isinstance(run, DeclaredRun) else run.dataset
    loss = declared_loss(model, data.overlap.values, data.gram.values, data.second.values)
    times = data.time.values
    return {
        "loss, mean over the run": np.trapezoid(loss, times, axis=-1) / times[-1],
        "loss at the end": loss[..., -1],
        "squared norms at the end": np.einsum("...ikk->...", data.gram.values[..., -1, :, :, :]),
    }


def measurements(
    model: DeclaredModel, flow: DeclaredFlow, runs: tuple[DeclaredRun, DeclaredRun], wrong: Mapping[str, DeclaredFlow]
) -> list[Measurement]:
    """SGD at η and η/2, extrapolated to 0, beside the flow. `wrong`: flows of the models of `rivals`."""
    kept = np.flatnonzero(~(runs[0].diverged | runs[1].diverged))
    if kept.size < 2:
        return []
    exact, models = readings(model, flow), rivals(model)
    full, half = (readings(model, run, kept) for run in runs)
    others = {name: readings(models[name], one) for name, one in wrong.items()}
    first = replace(flow, dataset=flow.dataset.isel(time=[0, 0]).assign_coords(time=[0.0, 1.0]))
    others["nothing learned"] = readings(model, first)
    found = []
    for name, predicted in exact.items():
        estimate, stderr = mean_and_error(2 * half[name] - full[name])
        second = (float(half[name].mean()) - float(full[name].mean())) ** 2 / float(predicted)
        controls = {other: float(values[name]) for other, values in others.items()}
        why = "second order of the extrapolation to η = 0"
        found.append(Measurement(name, float(predicted), estimate, stderr, second, controls, why))
    return found


def rivals(model: DeclaredModel) -> dict[str, DeclaredModel]:
    """Models that leave out what is special in this one."""
    found, inputs, rule = {}, model.inputs, model.rule
    if len(inputs.eigenvalues) > 1:
        equal = Inputs(tuple(inputs.trace / inputs.dim for _ in inputs.eigenvalues), inputs.multiplicities)
        found["equal eigenvalues"] = replace(model, directions=replace(model.directions, inputs=equal))
    if rule.decay:
        found["no decay"] = replace(model, rule=replace(rule, decay=0.0))
    if isinstance(rule, Momentum) and speed(rule) != 1:
        found["momentum not counted"] = replace(model, rule=Rule(rule.step_size, decay=rule.decay))
    if model.student.trained:
        found["second layer fixed"] = replace(model, student=replace(model.student, trained=False))
    return found


def declared_case(
    model: DeclaredModel, start: Start, *, steps: int, time: float, replicas: int, seed: int, method: str
) -> Case:
    """The flow at the end of the run and over it, beside SGD extrapolated from η and η/2 to η = 0.

    Judged against flows that leave out what is special in the model, and against the start. Raises `InputError` for models
    without a flow.
    """
    times = np.linspace(0.0, time, _READ + 1)
    speed(model.rule)

    def flow(of: DeclaredModel, progress: Progress | None = None) -> DeclaredFlow:
        return declared_flow(of, start, time, times, progress=progress)

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

    def judge(found: Found) -> tuple[list[Row], list[str]]:
        measured = measurements(
            model, found[FLOW], (found[SGD], found[HALF]), {n: flow(x) for n, x in rivals(model).items()}
        )
        values = [(x.quantity, x.predicted, x.estimate, x.stderr, verdict_of(x).verdict) for x in measured]
        notes = [] if values else ["Nothing is judged: fewer than two replicas did not diverge."]
        return [dict(zip(COLUMNS, row, strict=True)) for row in values], notes

    def figures(found: Found) -> list[tuple[str, object]]:
        if HALF not in found:
            return []
        data = found[HALF].dataset.isel(replica=np.flatnonzero(~found[HALF].diverged))
        loss = declared_loss(model, data.overlap.values, data.gram.values, data.second.values)
        curves = {FLOW: found[FLOW], **{name: flow(x) for name, x in rivals(model).items()}}
        at = data.time.values
        on = {name: np.interp(at, times, one.dataset.loss.values) for name, one in curves.items()}
        figure = mean_paths(at, loss, {FLOW: on.pop(FLOW)}, on, "loss")
        return [("Loss of SGD at η/2, of the flow, and of flows that leave out what is special in the model.", figure)]

    return Case(
        title="A declared model: population flow and SGD",
        unit="quantities",
        columns=COLUMNS,
        stages=(
            Stage(FLOW, lambda _, progress: flow(model, progress)),
            Stage(SGD, lambda _, progress: sgd(model.rule, steps, progress)),
            Stage(HALF, lambda _, progress: sgd(halved(model.rule), 2 * steps, progress)),
        ),
        judge=judge,
        known=lambda found: [],
        figures=figures,
        caption="The flow beside SGD, extrapolated from η and η/2 to η = 0.",
    )
