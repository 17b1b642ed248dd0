"""Layer-wise training, a baseline: the first layer by spherical SGD on the correlation loss, the second by least squares."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from emergence.model import Model, Progress, Run, Simulation
from emergence.models.additive_problem import beyond
from emergence.models.run_length import steps_in
from emergence.models.teacher import ACTIVATION, EXPONENT, TrainedProblem, of_directions, replicas_cost
from emergence.options import option, options
from emergence.refusal import refuse
from emergence.table import Table, cell
from emergence.values import Expression, Number, Whole

if TYPE_CHECKING:
    import numpy as np

    import theory
    from theory.declared.known import Known
    from theory.declared.model import DeclaredModel
    from theory.declared.start import Start


@dataclass(frozen=True)
class LayerWiseProblem(TrainedProblem):
    """An additive teacher, a student with unit rows, and both layers' training."""

    default_width: ClassVar = 2

    activation: str = option("h3", Expression(), ACTIVATION)
    dim: int = option(32, Whole(), "input dimension d, at least teacher width + student width")
    teacher_width: int | None = option(None, Whole(), "teacher width P (default 2)")
    student_width: int = option(8, Whole(), "student width m")
    replicas: int = option(16, Whole(), "independent SGD runs")
    ridge: float = option(1e-6, Number(), "ridge of the second layer's fit")
    samples: int | None = option(None, Whole(), "fresh samples of the second layer's fit (default: population fit)")


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects; `neuron`, `predicted`: who learns each direction, and its flow time (−1 and inf if none).

    `unknown`: why theory does not say who learns what, "" if it does.
    """

    problem: LayerWiseProblem
    activation: "theory.Activation"
    teacher: "theory.Teacher"
    initial: "theory.InitialState"
    neuron: "np.ndarray"
    predicted: "np.ndarray"
    step_size: float
    steps: int
    warnings: tuple[str, ...]
    unknown: str

    def echo(self) -> dict[str, Any]:
        run = {"step_size": self.step_size, "steps": self.steps, "time": self.step_size * self.steps}
        return asdict(self.problem) | self.problem.decided() | run

    def headline(self) -> str:
        problem = self.problem
        return (
            f"layer-wise, activation {self.activation.name}, P = {problem.width}, m = {problem.student_width}, "
            f"d = {problem.dim}, seed {problem.seed}, step size {self.step_size:.4g}"
        )


def resolve(problem: LayerWiseProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw the start, predict, and decide step size and length. Raises `InputError` for an activation with a mean."""
    import numpy as np

    import theory
    from emergence.models.declared_problem import usual_step
    from theory.baselines.correlation import alone_winners, correlation_flow, spherical_plateau
    from theory.core.defaults import SAFE_FRACTION

    activation, teacher = theory.Activation.parse(problem.activation), problem.teacher()
    correlation_flow(activation)  # refuses a mean
    initial = theory.draw_initial_state(teacher, theory.Student(problem.student_width, 1.0), problem.seed)
    neuron, predicted, unknown = _winners(activation, teacher, initial)
    # (Where theory does not say who learns what, a run is as long as if each direction were the only one.)
    fastest, time = alone_winners(activation, teacher, initial) if unknown else (neuron, predicted)
    learned = np.flatnonzero(np.isfinite(time))
    bound = math.inf
    if activation.is_polynomial and learned.size:
        overlaps, total = initial.overlap[fastest[learned], learned], float(np.sum(teacher.a**2))
        laws = spherical_plateau(activation)
        bound, _ = laws.stability_bound(teacher.a[learned], overlaps, total, problem.dim, problem.batch)
    step = problem.step_size
    if step is None:
        step = (
            usual_step(*_declared(problem, activation, teacher, initial, 1.0))
            if math.isinf(bound)
            else SAFE_FRACTION["correlation-flow"] * bound
        )
    warnings = tuple(beyond(step, bound, None, problem.allow_unstable))
    steps = problem.steps or _default_steps(problem, float(time[learned].max(initial=0.0)), step)
    return Resolved(problem, activation, teacher, initial, neuron, predicted, step, steps, warnings, unknown)


def _winners(
    activation: "theory.Activation", teacher: "theory.Teacher", initial: "theory.InitialState"
) -> tuple["np.ndarray", "np.ndarray", str]:
    """Who learns each direction, when, and why that is not known."""
    import numpy as np

    import theory
    from theory.baselines.correlation import undeflated_winners

    try:
        return *undeflated_winners(activation, teacher, initial), ""
    except theory.InputError as refusal:
        return np.full(teacher.width, -1), np.full(teacher.width, np.inf), str(refusal)


def _default_steps(problem: LayerWiseProblem, last: float, step_size: float) -> int:
    from theory.core.defaults import HORIZON

    time = problem.time if problem.time is not None else HORIZON * last
    if time == 0:
        refuse(f"seed {problem.seed}: no direction is predicted to be learned: give --steps, or change seed")
    return steps_in(time, step_size)


def _run(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    from dynamics.baselines.layer_wise import layer_wise_sgd

    problem = resolved.problem
    result = layer_wise_sgd(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        step_size=resolved.step_size,
        steps=resolved.steps,
        ridge=problem.ridge,
        samples=problem.samples,
        progress=progress,
        **problem.sampling,
    )
    return Run(result.dataset, result=result)


def _in_steps(resolved: Resolved) -> "dict[int, Known]":
    """By direction, counted from 1, when the rows of this start find it, as the declared model that this is; none where a
    direction's step is not known.

    (`Resolved.predicted` is of one neuron and one direction, which other directions move by a percent or two.)
    """
    import theory
    from theory.declared.emergence import FOUND_STEPS
    from theory.declared.predict import predict

    if resolved.unknown:
        return {}
    parts = resolved.problem, resolved.activation, resolved.teacher, resolved.initial
    model, start = _declared(*parts, resolved.step_size)
    try:
        known = predict(model, start).of_quantity(FOUND_STEPS)
    except theory.InputError:
        return {}
    return {one.place: one for one in known if one.place}


def _declared(
    problem: LayerWiseProblem,
    activation: "theory.Activation",
    teacher: "theory.Teacher",
    initial: "theory.InitialState",
    step_size: float,
) -> "tuple[DeclaredModel, Start]":
    """The declared model that the first phase is, and its start."""
    import numpy as np

    from theory.declared.directions import Directions
    from theory.declared.inputs import Inputs
    from theory.declared.loss import Correlation
    from theory.declared.model import DeclaredModel
    from theory.declared.rule import Rule
    from theory.declared.start import Start
    from theory.declared.student import committee
    from theory.declared.target import Additive

    model = DeclaredModel(
        Directions.orthonormal(Inputs.isotropic(teacher.dim), teacher.width),
        Additive(activation, tuple(teacher.a.tolist())),
        committee(activation, problem.student_width, rows="sphere"),
        Rule(step_size, problem.batch),
        Correlation(),
    )
    return model, Start((np.concatenate([initial.on_teachers, initial.residual], axis=1),))


def _table(resolved: Resolved, run: Run) -> Table:
    from emergence import conditions
    from emergence.prediction import explained, over_replicas

    data, known = run.data, _in_steps(resolved)
    at = [known.get(q) for q in range(1, resolved.teacher.width + 1)]
    ends = [(one.value, one.low, one.high) if one else (math.nan,) * 3 for one in at]
    predicted, low, high = ([x if math.isfinite(x) else None for x in column] for column in zip(*ends, strict=True))
    neurons = [int(k) if k >= 0 else None for k in resolved.neuron]
    columns = {
        "weight": resolved.teacher.a.tolist(),
        "neuron": neurons,
        "steps_half predicted": predicted,
        "low": low,
        "high": high,
        "predicted valid": [conditions.mark(one.conditions) if one else None for one in at],
        **over_replicas(run.result.half_steps),
    }
    rows = [(q, *row) for q, row in enumerate(zip(*columns.values(), strict=True), start=1)]
    first, last = (cell(float(data.loss.values[:, place].mean())) for place in (0, -1))
    lines = [
        *explained(one.reasons if one else [] for one in at),
        "",
        f"loss after the second layer: {first} at the start, {last} at step {run.result.steps} (population fit)",
    ]
    if resolved.unknown:
        lines.append(f"no steps predicted: {resolved.unknown}")
    if "fitted_loss" in data:
        lines.append(f"after a fit to fresh samples: {cell(float(data.fitted_loss.mean()))}")
    return Table(("direction", *columns), rows, below=lines)


def _start_overlap(resolved: Resolved) -> "np.ndarray":
    """(P,) of the neuron that is predicted to learn each direction; NaN without one."""
    import numpy as np

    neuron = resolved.neuron
    own = resolved.initial.overlap[np.maximum(neuron, 0), np.arange(neuron.size)]
    return np.where(neuron >= 0, own, np.nan)


MODEL = Model(
    name="layer-wise",
    help="a baseline: correlation loss, then least squares",
    problem=LayerWiseProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="layer-wise",
            help="spherical SGD on the correlation loss, then least squares",
            uses=frozenset(options(LayerWiseProblem)),
            run=_run,
            table=_table,
            cost=lambda x: replicas_cost(x.problem, x.problem.student_width, x.problem.width, x.steps),
            curves=("overlap", "norm2", "loss", "second_layer"),
            variables=("overlap", "norm2", "loss", "half_steps", "second_layer", "fitted_loss"),
        ),
    ),
    symbols=of_directions(lambda resolved: resolved.teacher.a, _start_overlap) | {"J": EXPONENT},
)
