r"""The learning problem, as data: every PROBLEM option with its default, its check and its help.

Importing this module imports neither SymPy nor JAX nor NumPy, so that the command line answers ``--help`` at once.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from emergence.refusal import refuse
from emergence.values import Choice, Kind, Number, Numbers, Switch, Text, Whole

DEFAULT_WIDTH = 8
DEFAULT_EXPONENT = 1.0
#: Giving the first as a flag sets aside the others where they come from a configuration file.
RIVALS = {
    "teacher_weights": ("teacher_exponent", "teacher_width"),
    "teacher_exponent": ("teacher_weights",),
    "steps": ("time",),
    "time": ("steps",),
}


def _option(default: Any, kind: Kind, help: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help})


@dataclass(frozen=True)
class Problem:
    r"""A teacher, a student and an algorithm.

    Every value is checked on construction; `None` means "not given", and a default that depends on the rest of the
    problem takes its place (`emergence.resolve`). Times are gradient-flow times of ½E(f*−f)²; one SGD step of size η
    advances it by η. Raises `theory.InputError` naming the option, its value and the remedy.
    """

    activation: str = _option(
        "h4", Text("h4"), "h4, 0.8*h4+0.6*h6, relu, gelu, tanh, erf, …, quadratic (z**2-1) or any expression in z"
    )
    dim: int = _option(1024, Whole(), "input dimension d, at least teacher width + student width")
    teacher_width: int | None = _option(None, Whole(), f"teacher width P (default {DEFAULT_WIDTH})")
    teacher_exponent: float | None = _option(
        None, Number(zero=True), f"teacher weights p**-beta: beta (default {DEFAULT_EXPONENT:g})"
    )
    teacher_weights: tuple[float, ...] | None = _option(
        None, Numbers(), "the teacher weights themselves, separated by spaces"
    )
    normalise: bool = _option(True, Switch(), "scale the teacher weights to unit sum of squares (default: yes)")
    student_width: int = _option(32, Whole(), "student width m")
    init_scale: float = _option(0.03, Number(), "initial norm sigma_0 of a student neuron (not its square)")
    speed_factor: float | None = _option(
        None,
        Number(),
        "gamma of the quadratic student gamma*(x'WW'x - tr WW') (default: 1; N**-0.5 for stiefel-sgd)",
    )
    step_size: float | None = _option(None, Number(), "SGD step size (default: a safe fraction of the stability bound)")
    batch: int = _option(1, Whole(), "samples in one SGD step")
    steps: int | None = _option(None, Whole(), "SGD steps (default: enough for the last predicted direction)")
    time: float | None = _option(None, Number(), "gradient-flow time to integrate to, instead of --steps")
    replicas: int = _option(32, Whole(), "independent SGD runs")
    method: str = _option("exact", Choice(("exact", "ambient")), "SGD in overlaps (exact) or in R^d (ambient)")
    seed: int = _option(0, Whole(0), "random seed")
    allow_unstable: bool = _option(False, Switch(), "run a step size beyond the stability bound, with a warning")

    def __post_init__(self) -> None:
        for name, value in check_values({f.name: getattr(self, f.name) for f in fields(self)}).items():
            object.__setattr__(self, name, value)
        self._check_teacher()
        self._check_dimensions()
        if self.steps is not None and self.time is not None:
            refuse(f"steps is {self.steps} and time is {self.time:g}: give one of them, time = step size x steps")

    def _check_teacher(self) -> None:
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

    def _check_dimensions(self) -> None:
        least = self.width + self.student_width
        if self.dim >= least:
            return
        from theory import Activation  # SymPy, which costs seconds: only where the answer depends on it

        if not Activation.parse(self.activation).is_quadratic:
            refuse(f"dim is {self.dim}, below teacher width + student width = {least}: raise dim or lower a width")
        # A Riccati equation: its subspaces need no linear independence of teachers and students.
        for name, value in (("teacher width", self.width), ("student-width", self.student_width)):
            if value > self.dim:
                refuse(f"{name} is {value}, above dim = {self.dim}: raise dim or lower it")

    @property
    def width(self) -> int:
        """The teacher width P, default included."""
        if self.teacher_weights is not None:
            return len(self.teacher_weights)
        return DEFAULT_WIDTH if self.teacher_width is None else self.teacher_width

    @property
    def exponent(self) -> float | None:
        """β of the power law, default included; None if the weights are given."""
        if self.teacher_weights is not None:
            return None
        return DEFAULT_EXPONENT if self.teacher_exponent is None else self.teacher_exponent


KINDS: dict[str, Kind] = {f.name: f.metadata["kind"] for f in fields(Problem)}
HELP: dict[str, str] = {f.name: f.metadata["help"] for f in fields(Problem)}
OPTIONAL = frozenset(f.name for f in fields(Problem) if f.default is None)


def check_values(
    values: dict[str, Any],
    prefix: str = "",
    kinds: dict[str, Kind] | None = None,
    optional: frozenset[str] = OPTIONAL,
) -> dict[str, Any]:
    """Values by field name, each checked by its kind. Raises `InputError`; `prefix` goes before the option's name."""
    checked = {}
    for name, value in values.items():
        missing = value is None and name in optional
        kind = (KINDS if kinds is None else kinds)[name]
        checked[name] = None if missing else kind.check(prefix + name.replace("_", "-"), value)
    return checked
