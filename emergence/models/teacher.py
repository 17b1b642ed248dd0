r"""Options of problems with an additive teacher $\sum_pa_p\sigma(\langle e_p,x\rangle)$, and what they mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from emergence.model import Symbol
from emergence.options import Problem, option
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.values import Choice, Expression, Number, Numbers, Switch, Whole

if TYPE_CHECKING:
    from theory import Teacher

ACTIVATION = "h4, 0.8*h4+0.6*h6, relu, gelu, tanh, erf, …, quadratic (z**2-1) or any expression in z"
INIT_SCALE = "initial norm sigma_0 of a student neuron (not its square)"
TEACHER = ("activation", "dim", "teacher_width", "teacher_exponent", "teacher_weights", "normalise")
#: Variables of ``sweep predict``.
PREDICTED = (
    *("weight", "neuron", "overlap2", "lead", "valid", "time_leading", "time_half", "time_loss", "steps_half"),
    *("step_size", "exponent_time", "exponent_width", "exponent_samples_unstable", "exponent_compute"),
)

EXPONENT = Symbol("information exponent of the activation", lambda resolved: resolved.activation.information_exponent)


def of_directions(weight: Callable[[Any], Any], overlap: Callable[[Any], Any] | None = None) -> dict[str, Symbol]:
    """Letters of formulas about directions: functions of a resolved problem that give one number for each."""
    found = {"a": Symbol("teacher weight of the direction", weight)}
    if overlap is not None:
        text = "overlap, at the start, of the neuron that is predicted to learn the direction"
        found["u0"] = Symbol(text, overlap)
    return found


#: How what is refused is run all the same: by a flag, or in a file.
UNSTABLE = "give --allow-unstable (in a file: allow-unstable = true)"
#: States that the integrator holds at once, and states of a run in its file.
STAGES, SAVES = 7, 100


def state_size(width: int, directions: int) -> float:
    """Numbers in the overlaps of m students with P directions and with each other."""
    return float(width) * (directions + width)


def replicas_cost(problem: "TrainedProblem", width: int, directions: int, steps: int) -> Cost:
    """Of replicas of SGD in overlaps: states and what is filed of them; 2m(P + m) for each sample."""
    size, filed = state_size(width, directions), float(width) * directions * min(steps, SAVES)
    return Cost(problem.replicas * (size + filed), 2.0 * steps * problem.batch * problem.replicas * size)


@dataclass(frozen=True)
class TeacherProblem(Problem):
    """The teacher of a problem. Raises `theory.InputError` for weights given in two ways."""

    default_width: ClassVar = 8
    default_exponent: ClassVar = 1.0
    rivals: ClassVar = {
        "teacher_weights": ("teacher_exponent", "teacher_width"),
        "teacher_exponent": ("teacher_weights",),
        "steps": ("time",),
        "time": ("steps",),
    }

    activation: str = option("h4", Expression(), ACTIVATION)
    dim: int = option(1024, Whole(), "input dimension d, at least teacher width + student width")
    teacher_width: int | None = option(None, Whole(), f"teacher width P (default {default_width})")
    teacher_exponent: float | None = option(
        None, Number(zero=True), f"teacher weights p**-beta: beta (default {default_exponent:g})"
    )
    teacher_weights: tuple[float, ...] | None = option(
        None, Numbers(), "the teacher weights themselves, separated by spaces"
    )
    normalise: bool = option(True, Switch(), "scale the teacher weights to unit sum of squares (default: yes)")

    def check(self) -> None:
        """Refuses weights given in two ways."""
        if self.teacher_weights is None:
            return
        count = len(self.teacher_weights)
        if self.teacher_exponent is not None:
            refuse(
                f"teacher-exponent is {self.teacher_exponent:g} and teacher-weights has {count} numbers: "
                "give one of them"
            )
        if self.teacher_width not in (None, count):
            refuse(
                f"teacher-width is {self.teacher_width}, but teacher-weights has {count} numbers: "
                "leave teacher-width out"
            )

    @property
    def width(self) -> int:
        """The teacher width P, default included."""
        if self.teacher_weights is not None:
            return len(self.teacher_weights)
        return self.default_width if self.teacher_width is None else self.teacher_width

    @property
    def exponent(self) -> float | None:
        """β of the power law, default included; None if the weights are given."""
        if self.teacher_weights is not None:
            return None
        return self.default_exponent if self.teacher_exponent is None else self.teacher_exponent

    def decided(self) -> dict[str, Any]:
        return {"teacher_width": self.width, "teacher_exponent": self.exponent}

    def teacher(self) -> "Teacher":
        """Weights and dimension."""
        from theory import Teacher

        if self.teacher_weights is not None:
            return Teacher.of(self.teacher_weights, self.dim, self.normalise)
        assert self.exponent is not None
        return Teacher.power_law(self.width, self.exponent, self.dim, self.normalise)


@dataclass(frozen=True)
class TrainedProblem(TeacherProblem):
    r"""A teacher, a student and SGD.

    Times are gradient-flow times of ½E(f*−f)²; one SGD step of size η advances it by η. Raises `theory.InputError` for a
    length given in two ways, and for too few dimensions.
    """

    student_width: int = option(32, Whole(), "student width m")
    step_size: float | None = option(None, Number(), "SGD step size (default: a safe fraction of the stability bound)")
    batch: int = option(1, Whole(), "samples in one SGD step")
    steps: int | None = option(None, Whole(), "SGD steps (default: enough for the last predicted direction)")
    time: float | None = option(None, Number(), "gradient-flow time to integrate to, in place of a number of steps")
    replicas: int = option(32, Whole(), "independent runs")
    method: str = option("exact", Choice(("exact", "ambient")), "SGD in overlaps (exact) or in R^d (ambient)")
    seed: int = option(0, Whole(0), "random seed")
    allow_unstable: bool = option(False, Switch(), "run a step size beyond the stability bound, with a warning")

    @property
    def sampling(self) -> dict[str, Any]:
        """What simulators of SGD are told beside step size and steps."""
        return {name: getattr(self, name) for name in ("batch", "replicas", "seed", "method")}

    def check(self) -> None:
        super().check()
        self.check_room()
        if self.steps is not None and self.time is not None:
            refuse(f"steps is {self.steps} and time is {self.time:g}: give one of them, time = step size x steps")

    def check_room(self) -> None:
        """Whether d has room for teachers and students. Raises `InputError`."""
        self.independent()

    def independent(self) -> None:
        """Raises `InputError` unless d ≥ P + m, as simulators of the vectors themselves need."""
        least = self.width + self.student_width
        if self.dim < least:
            refuse(f"dim is {self.dim}, below teacher width + student width = {least}: raise dim or lower a width")
