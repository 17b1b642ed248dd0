"""From a problem to its objects: activation, teacher, student, start, prediction, and the defaults they decide."""

import math
from dataclasses import asdict, dataclass
from functools import cached_property

import theory
from emergence.problem import Problem
from emergence.refusal import refuse
from emergence.values import MAX_WHOLE
from theory.core.defaults import HORIZON, SAFE_FRACTION
from theory.prediction.validity import Validity, validity

#: More steps than this are refused even by commands that only quote them: the number would overflow.
LONGEST = 1e200
#: Relative L² weight beyond the stored Hermite degrees above which the user is told.
TRUNCATION_WARNING = 0.01


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects.

    Attributes:
        step_size: η, given or the default; None if nothing is predicted to be learned and none was given.
        time: gradient-flow time to run to; None likewise.
        steps: SGD steps to run; None likewise.
        bound: largest stable step size and the direction (from 0) that sets it; None if nothing is learned.
        warnings: lines for the user, printed once the input is known to be good.
    """

    problem: Problem
    activation: theory.Activation
    teacher: theory.Teacher
    student: theory.Student
    initial: theory.InitialState
    prediction: theory.Prediction
    bound: tuple[float, int] | None
    step_size: float | None
    time: float | None
    steps: int | None
    warnings: tuple[str, ...]

    @cached_property
    def validity(self) -> list[Validity]:
        """Conditions and interval of every direction, computed when first asked for (seconds at most)."""
        return validity(self.prediction)

    def echo(self) -> dict[str, object]:
        """The full problem, defaults included, as in every JSON document."""
        problem = self.problem
        decided = {"step_size": self.step_size, "time": self.time, "steps": self.steps, "speed_factor": 1.0}
        return asdict(problem) | {"teacher_width": problem.width, "teacher_exponent": problem.exponent} | decided

    def run_length(self, counted: bool = True) -> tuple[float, float, int]:
        """(step size, time, steps) for a run; `counted`: it takes the steps one by one, in place of integrating over them.

        Raises `InputError` if no default exists, or the run cannot end.
        """
        if self.step_size is None or self.time is None or self.steps is None:
            refuse(
                f"seed {self.problem.seed}: no direction is predicted to be learned, so step-size and steps have no "
                "default: give both, raise student-width or change seed"
            )
        if counted and self.steps > MAX_WHOLE:
            refuse(f"steps is {self.steps:.3g}: more than 2**53 steps cannot be run: raise step-size or lower time")
        return self.step_size, self.time, self.steps


def resolve(problem: Problem) -> Resolved:
    """Draw the start, predict, and decide step size and length.

    The default step size is `SAFE_FRACTION` of the stability bound; the default length is 1.3 times the last predicted
    loss time. Raises `InputError` for a step size beyond the bound unless the problem allows it (then: a warning).
    """
    if problem.speed_factor not in (None, 1):
        refuse(
            f"speed-factor is {problem.speed_factor:g}: it belongs to the Riccati flow of quadratic: leave it out here"
        )
    activation = theory.Activation.parse(problem.activation)
    teacher = teacher_of(problem)
    student = theory.Student(problem.student_width, problem.init_scale)
    initial = theory.draw_initial_state(teacher, student, problem.seed)
    prediction = theory.predict(activation, teacher, initial)
    bound = _bound(prediction, problem.batch)
    step_size = problem.step_size
    if step_size is None and bound is not None:
        step_size = SAFE_FRACTION["overlap-flow"] * bound[0]
    warnings = [*_truncation(activation), *_excess(problem, bound)]
    time, steps = _length(problem, prediction, step_size)
    return Resolved(
        problem, activation, teacher, student, initial, prediction, bound, step_size, time, steps, tuple(warnings)
    )


def teacher_of(problem: Problem) -> theory.Teacher:
    if problem.teacher_weights is not None:
        return theory.Teacher.of(problem.teacher_weights, problem.dim, problem.normalise)
    assert problem.exponent is not None
    return theory.Teacher.power_law(problem.width, problem.exponent, problem.dim, problem.normalise)


def _bound(prediction: theory.Prediction, batch: int) -> tuple[float, int] | None:
    return prediction.stability_bound(batch) if prediction.learned.any() else None


def _truncation(activation: theory.Activation) -> list[str]:
    if max(activation.truncation_error, activation.drift_truncation_error) <= TRUNCATION_WARNING:
        return []
    return [f"activation {activation.name!r}: {truncated(activation)}"]


def truncated(activation: theory.Activation) -> str:
    """What a kernel that is a series leaves out."""
    height, slope = activation.truncation_error, activation.drift_truncation_error
    degrees = f"Hermite degrees up to {activation.degree}"
    return f"{degrees} miss {height:.2g} of Eσ² and {slope:.2g} of Eσ'², the drift near alignment"


def _excess(problem: Problem, bound: tuple[float, int] | None) -> list[str]:
    """A warning for an allowed step size beyond the bound; a refusal if it is not allowed."""
    if problem.step_size is None or bound is None or problem.step_size <= bound[0]:
        return []
    limit = f"the stability bound {bound[0]:.4g} set by direction {bound[1] + 1}"
    excess = f"step-size is {problem.step_size:g}, beyond {limit}"
    if not problem.allow_unstable:
        refuse(f"{excess}: lower it, raise batch, or give --allow-unstable")
    return [f"{excess}: that direction is not expected to be learned"]


def _length(
    problem: Problem, prediction: theory.Prediction, step_size: float | None
) -> tuple[float | None, int | None]:
    """(time, steps): each from the other by time = step size × steps, or both from the last predicted loss time."""
    if problem.steps is not None:
        return (None if step_size is None else step_size * problem.steps), problem.steps
    time = problem.time
    if time is None and prediction.learned.any():
        time = HORIZON * prediction.last_time
    if time is None or step_size is None:
        return time, None
    if step_size * LONGEST < time:
        refuse(f"step-size is {step_size:g}: time {time:g} would take over {LONGEST:g} steps: raise it or lower dim")
    return time, max(1, math.ceil(time / step_size))
