r"""Quadratic networks: activations that are multiples of z² − 1, a matrix Riccati flow (arXiv:2508.03688)."""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from emergence.model import Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation
from emergence.models.additive_problem import beyond
from emergence.models.run_length import fewest_steps, steps_in
from emergence.models.teacher import (
    EXPONENT,
    INIT_SCALE,
    PREDICTED,
    TEACHER,
    TrainedProblem,
    of_directions,
    replicas_cost,
)
from emergence.options import option
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table
from emergence.values import MAX_WHOLE, Expression, Number, Whole

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    import theory
    from theory.declared.known import Knowledge
    from theory.prediction.validity import Validity
    from theory.quadratic.flow_law import FlowLaw
    from theory.quadratic.occupation import Occupation
    from validation.comparison import Case

#: Points of the predicted loss curve, and of a simulation.
CURVE, SAMPLES = 120, 201
#: Numbers in the overlaps of a file, above which the frame is left out (its diagonal and risk are always written).
LARGEST_FRAME = 2**25
HEADERS = ("direction", "weight", "time_emergence", "time_half", "time_loss", "steps_half")
#: A law of many columns is trusted where one more or less moves its times by no more (4 columns: medians 1 % off at 3 to 7 %).
MOST_MOVED = 0.1
#: Share of starts that may end otherwise than the law says.
MOST_UNDECIDED = 0.05


@dataclass(frozen=True)
class QuadraticProblem(TrainedProblem):
    """A teacher, a quadratic student and an algorithm. Its subspaces need no linear independence: d ≥ P and d ≥ N."""

    activation: str = option("quadratic", Expression(), "quadratic (z**2-1), or a multiple of it")
    student_width: int = option(32, Whole(), "student width N")
    init_scale: float = option(0.03, Number(), INIT_SCALE)
    speed_factor: float | None = option(
        None, Number(), "gamma of the student gamma*(x'WW'x - tr WW') (default: 1; N**-0.5 for stiefel-sgd)"
    )

    def check_room(self) -> None:
        """Refuses d < P or d < N."""
        for name, value in (("teacher width", self.width), ("student-width", self.student_width)):
            if value > self.dim:
                refuse(f"{name} is {value}, above dim = {self.dim}: raise dim or lower it")


@dataclass(frozen=True)
class Resolved:
    """A problem with its model; common time everywhere unless a name says Riccati."""

    problem: QuadraticProblem
    activation: "theory.Activation"
    model: "theory.QuadraticModel"
    warnings: tuple[str, ...] = ()

    @cached_property
    def law(self) -> "Occupation":
        """The self-consistent law of the diagonal and the risk of a subspace."""
        from theory.quadratic.occupation import Occupation

        return Occupation(self.model.spectrum, self.model.teacher.dim, self.model.width)

    @cached_property
    def flow_law(self) -> "FlowLaw":
        """The same with the columns' norms, from σ₀ on."""
        from theory.quadratic.flow_law import FlowLaw

        model = self.model
        norm2 = model.speed_factor * self.problem.init_scale**2 / model.norm
        return FlowLaw(model.spectrum, model.teacher.dim, model.width, norm2)

    @cached_property
    def sgd(self) -> "Knowledge":
        """What Stiefel SGD does at a step size, as `simulate stiefel-sgd` runs it; nothing without one.

        Refuses a batch without a step size.
        """
        from theory.declared.known import Knowledge
        from theory.quadratic.sgd_law import stiefel_law

        problem = self.problem
        if self.step_size is None:
            if problem.batch != 1:
                refuse(f"batch is {problem.batch} without step-size: give --step-size too, or leave it out")
            return Knowledge((), ())
        return Knowledge.of(stiefel_law(stiefel_model(problem), self.step_size, problem.batch, problem.seed))

    @cached_property
    def half_time(self) -> "np.ndarray":
        """When G_jj = ½ first, shape (M*,); inf where it never is."""
        return self.model.common_time(self.law.half_times())

    @cached_property
    def loss_time(self) -> "np.ndarray":
        """When S_jj is half of its target, shape (M*,); inf for directions that the width cannot hold."""
        return self.model.common_time(self.flow_law.half_times())

    @cached_property
    def time(self) -> float:
        """How long to run: given, or past the last direction that is learned. Refuses `steps` without a step size."""
        import numpy as np

        from theory.core.defaults import HORIZON

        problem = self.problem
        if problem.time is not None:
            return problem.time
        if problem.steps is not None:
            if problem.step_size is None:
                refuse(f"steps is {problem.steps} without step-size: give --step-size too, or --time")
            return problem.steps * problem.step_size
        # Of a width that equal weights share none may come to ½, and near N = d/2 all are there from the start: it is over
        # no sooner than when they would emerge alone.
        alone, held = self.model.emergence_time, np.isfinite(self.half_time)
        last = float(np.maximum(self.half_time, alone)[held].max()) if held.any() else float(alone.max())
        return HORIZON * last if last > 0 else HORIZON * float(self.model.common_time(1.0))

    @property
    def step_size(self) -> float | None:
        return self.problem.step_size

    def echo(self) -> dict[str, Any]:
        """The full problem, defaults included."""
        steps = self.problem.steps
        if steps is None and self.step_size is not None:
            steps = fewest_steps(min(self.time / self.step_size, MAX_WHOLE), 1.0)
        decided = {"time": self.time, "steps": steps, "activation": self.activation.name}
        return asdict(self.problem) | self.problem.decided() | decided | {"speed_factor": self.model.speed_factor}

    def headline(self) -> str:
        """The problem in one line."""
        model = self.model
        return (
            f"activation {self.activation.name} (information exponent 2), P = {self.problem.width}, N = {model.width}, "
            f"d = {model.teacher.dim}, speed factor {model.speed_factor:g}, seed {self.problem.seed}"
        )

    @property
    def clock(self) -> str:
        """How the times are counted."""
        rate = self.model.riccati_rate
        return f"times are gradient-flow times of ½E(f*−f)²; Riccati time = {rate:.4g} × time"


@dataclass(frozen=True)
class ResolvedStiefel(Resolved):
    """The same for Stiefel SGD: step size (of ½(f*−f)²), steps, and the bound with the direction that sets it."""

    chosen_step: float = 0.0
    steps: int = 0
    bound: float = math.inf
    direction: int = 0

    @cached_property
    def time(self) -> float:
        return self.steps * self.chosen_step

    def echo(self) -> dict[str, Any]:
        run = {"step_size": self.chosen_step, "steps": self.steps, "time": self.time}
        return super().echo() | run

    def headline(self) -> str:
        bound = f"(bound {self.bound:.4g}, direction {self.direction + 1})"
        return f"{super().headline()}, step size {self.chosen_step:.4g} {bound}, {self.steps} steps"


def resolve(problem: QuadraticProblem, simulation: Simulation | None = None) -> Resolved:
    r"""The problem's model. The speed factor of Stiefel SGD is $N^{-1/2}$ unless it is given, as in arXiv:2508.03688.

    Raises `InputError` unless the activation is a multiple of z² − 1; for Stiefel SGD also for a step beyond the bound
    and for d < P + N.
    """
    import theory

    activation = theory.Activation.parse(problem.activation)
    if simulation is not None and simulation.name == "stiefel-sgd":
        return _stiefel(Resolved(problem, activation, stiefel_model(problem)))
    model = _model(problem, 1.0)
    return Resolved(problem, activation, model, _too_large(problem, model))


def _model(problem: QuadraticProblem, speed_factor: float) -> "theory.QuadraticModel":
    """With the speed factor that is given, or else this one."""
    import theory

    activation, factor = theory.Activation.parse(problem.activation), problem.speed_factor or speed_factor
    return theory.QuadraticModel.of(activation, problem.teacher(), problem.student_width, factor)


def stiefel_model(problem: QuadraticProblem) -> "theory.QuadraticModel":
    """That of Stiefel SGD."""
    return _model(problem, problem.student_width**-0.5)


def _too_large(problem: QuadraticProblem, model: "theory.QuadraticModel") -> tuple[str, ...]:
    """A warning where a flow's times are counted in steps that no SGD of this width could take."""
    from theory.quadratic.stiefel import largest_step

    if problem.step_size is None:
        return ()
    bound, _ = largest_step(model, problem.batch)
    if problem.step_size <= bound:
        return ()
    largest = f"beyond {bound:.4g}, the bound of Stiefel SGD at speed factor {model.speed_factor:.4g}"
    return (f"step-size is {problem.step_size:g}, {largest}: steps count the flow's time",)


def _stiefel(resolved: Resolved) -> ResolvedStiefel:
    """Defaults of step size and length."""
    from theory.core.defaults import SAFE_FRACTION
    from theory.quadratic.stiefel import largest_step

    problem, model = resolved.problem, resolved.model
    problem.independent()
    bound, direction = largest_step(model, problem.batch)
    step_size = SAFE_FRACTION["stiefel-sgd"] * bound if problem.step_size is None else problem.step_size
    warnings = beyond(step_size, bound, direction, problem.allow_unstable)
    steps = steps_in(resolved.time, step_size) if problem.steps is None else problem.steps
    return ResolvedStiefel(problem, resolved.activation, model, tuple(warnings), step_size, steps, bound, direction)


# ------------------------------------------------------------------------- predictions


def _predict(resolved: Resolved) -> Document:
    """Emergence times, exponents and the loss curve of the self-consistent law; no integration."""
    from emergence import known, table
    from emergence.prediction import explained, marks
    from theory.quadratic.model import floor

    model = resolved.model
    times = _curve_times(resolved)
    clock = model.riccati_time(times)
    loss, flow_loss, loss_error, flow_error = (
        model.loss(of(clock))
        for of in (resolved.law.risk, resolved.flow_law.risk, resolved.law.risk_error, resolved.flow_law.risk_error)
    )
    validities, exponents = _validity(resolved), _exponents(resolved)
    entries = _directions(resolved, validities)
    rows = [[*(entry[name] for name in HEADERS), mark] for entry, mark in zip(entries, marks(validities), strict=True)]
    least = float(model.loss(floor(model.spectrum, model.width)))
    content = {
        "problem": resolved.echo(),
        "directions": entries,
        "exponents": exponents,
        "loss": {"time": times, "value": loss, "error": loss_error, "flow": flow_loss, "flow_error": flow_error},
        "floor": least,
        "riccati_rate": model.riccati_rate,
        "time_unit": resolved.clock,
        "sgd": known.entries(resolved.sgd),
    }

    def ends(mean: "np.ndarray", error: "np.ndarray") -> str:
        first, last, off = (table.cell(float(x)) for x in (mean[0], mean[-1], error[-1]))
        return f"{first} to {last} ± {off}"

    slopes = ", ".join(f"{name} {table.cell(value)}" for name, value in exponents.items())
    lines = [
        resolved.headline(),
        "",
        table.render((*HEADERS, "valid"), rows),
        *explained(own.reasons for own in validities),
        "",
        f"loss of gradient flow, mean over starts: {ends(flow_loss, flow_error)}, floor {table.cell(least)}",
        f"loss with the best norms for its subspace: {ends(loss, loss_error)}",
        f"from the start to time {table.cell(resolved.time)}; ±: what one column more or less moves",
        f"exponents of the loss in (speed factor fixed): {slopes}",
        resolved.clock,
        *_of_sgd(resolved),
    ]
    return Document(content, "\n".join(lines))


def _of_sgd(resolved: Resolved) -> list[str]:
    """What Stiefel SGD does at the step size, as text; nothing without one."""
    from emergence import known

    if resolved.step_size is None:
        return []
    factor = stiefel_model(resolved.problem).speed_factor
    run = f"step size {resolved.step_size:.4g}, batch {resolved.problem.batch}, speed factor {factor:.4g}"
    return [
        "",
        f"Stiefel SGD, {run} (risk: 2 at the start, by the best norms; loss: with norms as they are)",
        "",
        *known.lines(resolved.sgd),
    ]


def _validity(resolved: Resolved) -> "list[Validity]":
    """By how much one column more or less moves a direction's times (the larger), and whether start or others take it."""
    import numpy as np

    from theory.declared.known import small
    from theory.prediction.validity import Validity

    law = resolved.flow_law
    column = f"width: one of {resolved.model.width} columns more or less, and so the start,"
    start = (
        f"start: more than {MOST_UNDECIDED:.0%} of starts end otherwise, as where nearly equal weights share a width"
    )
    others = "others: it is held for a while only, and then displaced by stronger ones"
    moved = np.maximum(law.moved_by_a_column(), resolved.law.moved_by_a_column()).tolist()
    lost = law.held_for_a_while().tolist()
    words = ("decides whether it is learned" if math.isinf(x) else "moves its times by {:.0%}" for x in moved)
    return [
        Validity(
            (
                small("width", x, MOST_MOVED, f"{column} {said}"),
                small("start", share, MOST_UNDECIDED, start),
                small("others", gone, 0.0, others),
            )
        )
        for x, said, share, gone in zip(moved, words, law.undecided().tolist(), lost, strict=True)
    ]


def _curve_times(resolved: Resolved) -> "np.ndarray":
    """0 and geometric times from well before the first emergence to the end."""
    import numpy as np

    first = float(resolved.half_time.min())
    start = 0.1 * first if first > 0 else 1e-3 * resolved.time
    return np.concatenate([[0.0], np.geomspace(min(start, 0.5 * resolved.time), resolved.time, CURVE)])


def _exponents(resolved: Resolved) -> dict[str, float | None]:
    """Exponents of the loss, under the names that the additive model has."""
    from theory.quadratic.scaling import exponent_values

    found = exponent_values(resolved.model.teacher.exponent)
    return {"time": found["time"], "width": found["width"], "samples_unstable": None, "compute": found["compute"]}


def _directions(resolved: Resolved, validities: "list[Validity]") -> list[dict[str, Any]]:
    """One entry per direction, from 1, in the order of the weights; `neuron` and T_p do not apply (no decoupling)."""
    import numpy as np

    from theory.quadratic.subspace import draw_columns

    model, problem = resolved.model, resolved.problem
    start = draw_columns(problem.width, model.width, model.teacher.dim, problem.seed)
    overlap2 = start.squared_overlaps()
    leading = np.where(np.isfinite(resolved.half_time), model.emergence_time, np.inf)  # (none beyond the width)
    step = resolved.step_size
    return [
        {
            "direction": p + 1,
            "weight": float(model.teacher.a[p]),
            "neuron": None,
            "overlap2": float(overlap2[p]),
            "time_leading": None,
            "time_emergence": float(leading[p]),
            "time_half": float(resolved.half_time[p]),
            "time_loss": float(resolved.loss_time[p]),
            "steps_half": None if step is None else float(resolved.half_time[p] / step),
            "valid": validities[p].reasons or True,
        }
        for p in range(problem.width)
    ]


def _predicted(resolved: Resolved) -> "xr.Dataset":
    import numpy as np

    from emergence.prediction import columns
    from theory.quadratic.sgd_law import LATE_LOSS, LATE_RISK

    data = columns(_directions(resolved, _validity(resolved)), _exponents(resolved), resolved.step_size)
    late = {one.quantity: one.value for one in resolved.sgd.known if one.place is None}
    found = np.full(resolved.problem.width, math.nan)
    for one in resolved.sgd.known:
        if one.place is not None:
            found[one.place - 1] = one.value
    return data.assign(
        late_risk=((), late.get(LATE_RISK, math.nan), {"long_name": "predicted late risk of SGD", "units": "1"}),
        late_loss=((), late.get(LATE_LOSS, math.nan), {"long_name": "predicted late loss of SGD", "units": "1"}),
        sgd_mean=("direction", found, {"long_name": "predicted mean steps of SGD", "units": "steps"}),
    )


# ------------------------------------------------------------------------- simulations


def _frame_size(resolved: Resolved) -> int:
    """Numbers in the overlaps of all replicas at all times."""
    return resolved.problem.replicas * SAMPLES * resolved.model.width * resolved.problem.width


def _large(resolved: Resolved) -> tuple[str, ...]:
    size = _frame_size(resolved)
    if size <= LARGEST_FRAME:
        return ()
    return (f"overlap has {size:.2g} numbers: left out of the file, its squared sums (diagonal) are there",)


def _riccati(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    """The Riccati flow from random subspaces, by its closed form; its frame is left out where it would be very large."""
    import numpy as np

    from dynamics.quadratic.riccati_data import riccati_dataset

    data = riccati_dataset(
        resolved.model,
        np.linspace(0.0, resolved.time, SAMPLES),
        replicas=resolved.problem.replicas,
        seed=resolved.problem.seed,
        step_size=resolved.step_size,
        frame=_frame_size(resolved) <= LARGEST_FRAME,
        progress=progress,
    )
    return Run(data, more={"time_unit": resolved.clock})


def _riccati_table(resolved: Resolved, run: Run) -> Table:
    """Final overlaps of each direction with the law's, and the loss."""
    import numpy as np

    from emergence.prediction import beside
    from emergence.table import cell
    from theory.quadratic.model import floor

    def mean(values: np.ndarray) -> tuple[float, float | None]:
        error = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else None
        return float(values.mean()), error

    model = resolved.model
    end = model.riccati_time([resolved.time])
    final = np.asarray(run.data["diagonal"])[:, -1]
    means, errors = zip(*(mean(own) for own in final.T), strict=True)
    columns = {
        "time_half predicted": resolved.half_time,
        "G_jj at the end, law": resolved.law.diagonal(end)[0],
        "their mean": means,
        "±": errors,
    }
    loss, error = mean(np.asarray(run.data["loss"])[:, -1])
    predicted, off, least = (
        cell(float(model.loss(x)))
        for x in (resolved.law.risk(end)[0], resolved.law.risk_error(end)[0], floor(model.spectrum, model.width))
    )
    measured = cell(loss) if error is None else f"{cell(loss)} ± {cell(error)}"
    at_end = (
        f"loss at time {cell(resolved.time)}: mean {measured}, law {predicted} ± {off} (a column more or less), "
        f"floor {least} (with the best norms for the subspace)"
    )
    return beside(_validity(resolved), columns, ["", at_end, resolved.clock])


def _stiefel_sgd(resolved: ResolvedStiefel, progress: Progress | None, _: object) -> Run:
    """Replicas of Stiefel SGD from independent uniform subspaces, exact in law; nothing diverges on the manifold."""
    import dynamics

    problem = resolved.problem
    run = dynamics.stiefel_sgd(
        resolved.model,
        _starts(resolved),
        step_size=resolved.chosen_step,
        steps=resolved.steps,
        batch=problem.batch,
        seed=problem.seed,
        method=problem.method,
        progress=progress,
    )
    return Run(run.dataset, more={"largest_step": resolved.bound})


def _starts(resolved: Resolved) -> "list[theory.Subspace]":
    """One subspace for each replica, a function of the seed."""
    from theory.quadratic.subspace import draw_subspaces

    problem = resolved.problem
    return list(draw_subspaces(problem.width, resolved.model.width, problem.dim, problem.seed, problem.replicas))


def _stiefel_table(resolved: ResolvedStiefel, run: Run) -> Table:
    """Mean risk at a few times, with the Riccati flow's from the same starts."""
    import numpy as np

    import dynamics

    data = run.data
    marks = np.unique(np.linspace(0, data.sizes["time"] - 1, 6).round().astype(int))
    flows = [dynamics.riccati_flow(resolved.model.spectrum, start) for start in _starts(resolved)]
    riccati = np.mean([flow.risk(data.riccati_time.values[marks]) for flow in flows], axis=0)
    risk = data.risk.values[:, marks]
    error = risk.std(axis=0, ddof=1) / np.sqrt(len(risk)) if len(risk) > 1 else [None] * len(marks)
    clocks = (data[name].values[marks].tolist() for name in ("step", "time", "riccati_time"))
    rows = list(zip(*clocks, riccati.tolist(), risk.mean(axis=0).tolist(), error, strict=True))
    return Table(("step", "time", "Riccati time", "risk, Riccati flow", "risk, SGD", "±"), rows)


def _riccati_cost(resolved: Resolved) -> Cost:
    """The diagonals of all replicas at all times, and the frames where they are filed."""
    size = _frame_size(resolved)
    diagonals = float(resolved.problem.replicas) * SAMPLES * resolved.problem.width
    return Cost(diagonals + (size if size <= LARGEST_FRAME else 0))


def _stiefel_cost(resolved: ResolvedStiefel) -> Cost:
    return replicas_cost(resolved.problem, resolved.model.width, resolved.problem.width, resolved.steps)


# ------------------------------------------------------------------------- comparison


def _case(resolved: Resolved) -> "Case":
    """The ordinary student, norms included, from the additive model's start."""
    from emergence.models import additive
    from validation.comparisons.quadratic import quadratic_case

    problem = resolved.problem
    if problem.speed_factor not in (None, 1):
        refuse(f"speed-factor is {problem.speed_factor:g}: compare runs the student with 1: leave it out")
    shared = {name: value for name, value in asdict(problem).items() if name != "speed_factor"}
    plain = additive.resolve(additive.AdditiveProblem(**shared))
    case = quadratic_case(*plain.parts, replace(additive.runs_of(plain), sgd_steps=None))
    return replace(case, notes=(*plain.warnings, *case.notes), settings=plain.echo() | {"speed_factor": 1.0})


# ----------------------------------------------------------------------------- record


def _derive(activation: "theory.Activation") -> "theory.Derivation":
    from theory.quadratic import riccati
    from theory.quadratic.model import quadratic_moment

    quadratic_moment(activation)  # refuses any other activation
    return riccati.derivation()


def _is_quadratic(activation: str) -> bool:
    from theory import Activation

    return Activation.parse(activation).is_quadratic


_FLOW = frozenset({*TEACHER, "student_width", "speed_factor", "seed", "step_size", "steps", "time"})
_SGD = _FLOW | {"replicas", "batch", "method", "allow_unstable"}
_DATA = ("overlap", "norm2", "loss")
MODEL = Model(
    name="quadratic",
    help="quadratic activations: recognised by --activation, or named",
    problem=QuadraticProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="riccati",
            help="the Riccati flow from random subspaces, by its closed form",
            uses=_FLOW | {"replicas"},
            run=_riccati,
            table=_riccati_table,
            variables=(*_DATA, "diagonal", "risk"),
            curves=(*_DATA, "diagonal", "risk"),
            requires=lambda resolved: resolved.time and None,
            warn=_large,
            cost=_riccati_cost,
            first=frozenset({"overlap2"}),
        ),
        Simulation(
            name="stiefel-sgd",
            help="SGD on the Stiefel manifold, exact in law",
            uses=_SGD,
            run=_stiefel_sgd,
            table=_stiefel_table,
            variables=(*_DATA, "diagonal", "risk"),
            curves=(*_DATA, "diagonal", "risk"),
            cost=_stiefel_cost,
            first=frozenset({"overlap2"}),
        ),
    ),
    predict=Predictor(
        _predict,
        _predicted,
        _FLOW | {"batch", "init_scale"},
        (*PREDICTED, "late_risk", "late_loss", "sgd_mean"),
        shown=frozenset({"steps", "time"}),
    ),
    compare=Comparer(_case, _SGD - {"speed_factor"} | {"init_scale"}),
    derivations={"riccati": Derive(_derive, "quadratic", help="Riccati flow of a quadratic network, solved")},
    matches=_is_quadratic,
    symbols=of_directions(lambda resolved: resolved.model.teacher.a) | {"J": EXPONENT},
)
