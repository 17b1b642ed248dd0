"""A problem of the additive model: its options, and what they mean: start, prediction, step size, length of a run."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from emergence.model import Simulation
from emergence.models.run_length import check_steps, fewest_steps
from emergence.models.teacher import INIT_SCALE, UNSTABLE, TrainedProblem
from emergence.options import option
from emergence.refusal import refuse
from emergence.values import Number, Whole

if TYPE_CHECKING:
    import theory
    from theory.declared.additive_times import AdditiveTimes
    from theory.declared.whole_flow import Way
    from theory.prediction.rivals import Rivals
    from theory.prediction.validity import Validity

#: More steps than this are refused even by commands that only quote them: the number would overflow.
LONGEST = 1e200
#: Relative L² weight beyond the stored Hermite degrees above which the user is told.
TRUNCATION_WARNING = 0.01
#: Options that the explorer's page knows.
EXPLORED = frozenset(
    {"activation", "dim", "teacher_width", "teacher_exponent", "teacher_weights", "normalise", "student_width"}
    | {"init_scale", "seed", "step_size", "time", "replicas"}
)


@dataclass(frozen=True)
class AdditiveProblem(TrainedProblem):
    """A teacher, a 2-homogeneous student and an algorithm."""

    init_scale: float = option(0.03, Number(), INIT_SCALE)
    replicas: int = option(32, Whole(), "independent SGD runs", also="paths of the sde")


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects.

    Attributes:
        step_size: η, given or the default; None if nothing is predicted to be learned and none was given.
        bound: largest stable step size and the direction (from 0) that sets it; None if nothing is learned.
        warnings: lines for the user, printed once the input is known to be good.
    """

    problem: AdditiveProblem
    activation: "theory.Activation"
    teacher: "theory.Teacher"
    student: "theory.Student"
    initial: "theory.InitialState"
    prediction: "theory.Prediction"
    bound: tuple[float, int] | None
    step_size: float | None
    warnings: tuple[str, ...]

    @cached_property
    def validity(self) -> "list[Validity]":
        """Conditions and interval of every direction, computed when first asked for (seconds at most)."""
        from theory.prediction.validity import validity

        return validity(self.prediction)

    @cached_property
    def times(self) -> "AdditiveTimes":
        """What is predicted of every direction, by the flow of all neurons where one task does not say it."""
        from theory.declared.additive_times import additive_times

        return additive_times(self.prediction, self.validity, lambda: self._way)

    @cached_property
    def _way(self) -> "Way":
        from theory.declared.additive_times import way_of

        return way_of(self.prediction)

    @cached_property
    def brief(self) -> "AdditiveTimes":
        """The same for many problems: conditions in closed form, and one task's times from information exponent 3 on, and of
        a quadratic activation, whose neurons need not turn to directions.
        """
        from theory.declared.additive_times import AdditiveTimes, additive_times
        from theory.prediction.validity import validity

        own = validity(self.prediction, intervals=False)
        together = self.activation.information_exponent < 3 and not self.activation.is_quadratic
        if not together:
            return AdditiveTimes.of_one_task(self.prediction, own)
        return additive_times(self.prediction, own, lambda: self._way, together=True)

    @cached_property
    def others(self) -> "Rivals | None":
        """What rows and directions do to each other under SGD of the step size, where the law of one task is known."""
        from theory.prediction.rivals import rivals

        if self.step_size is None or not self.prediction.has_sgd_law:
            return None
        return rivals(self.prediction, self.step_size, self.problem.batch)

    @property
    def last_time(self) -> float | None:
        """The last at which a direction is found or fitted, None if none is: as `brief` says, or no sooner than it does; as
        `times` say where the conditions of one task's times do not hold.
        """
        import numpy as np

        if not self.prediction.learned.any():
            return None
        brief = self.brief
        if brief.alone or any(np.isnan(brief.half)):
            told = np.concatenate([brief.half, brief.loss, [own.low for own in brief.validities]])
        elif self.activation.is_quadratic or all(own.valid for own in brief.validities):
            return self.prediction.last_time
        else:  # (what the flow has not found either is not waited for)
            told = np.concatenate([self.times.half, self.times.loss])
        return float(max(told[np.isfinite(told)], default=0.0)) or self.prediction.last_time

    @cached_property
    def _length(self) -> tuple[float | None, int | None]:
        return _length(self.problem, self.step_size, lambda: self.last_time)

    @property
    def time(self) -> float | None:
        """Of a run; None where neither is given and nothing is predicted to be learned."""
        return self._length[0]

    @property
    def steps(self) -> int | None:
        """Of a run that takes them one by one; None as `time`, or without a step size."""
        return self._length[1]

    def echo(self) -> dict[str, Any]:
        """The full problem, defaults included, as in every JSON document."""
        decided = {"step_size": self.step_size, "time": self.time, "steps": self.steps}
        return asdict(self.problem) | self.problem.decided() | decided

    def headline(self) -> str:
        """The problem in one line."""
        problem, activation = self.problem, self.activation
        step = "none" if self.step_size is None else f"{self.step_size:.4g}"
        bound = (
            "" if self.bound is None else f" (bound {self.bound[0]:.4g}, direction {self.bound[1] + 1}{self._held()})"
        )
        return (
            f"activation {activation.name} (information exponent {activation.information_exponent}), "
            f"P = {problem.width}, m = {problem.student_width}, d = {problem.dim}, seed {problem.seed}, "
            f"step size {step}{bound}"
        )

    def _held(self) -> str:
        """Up to which step size runs stay with what they have found, if it is less than the bound."""
        most = self.prediction.largest_held(self.problem.batch)
        return f"; what is found is held up to {most:.4g}" if self.bound is not None and most < self.bound[0] else ""

    def run_length(self, counted: bool = True) -> tuple[float, float, int]:
        """(step size, time, steps) for a run; `counted`: it takes the steps one by one, in place of integrating over them.

        Raises `InputError` if no default exists, or the run cannot end.
        """
        if self.step_size is None or self.time is None or self.steps is None:
            refuse(
                f"seed {self.problem.seed}: no direction is predicted to be learned, so step-size and steps have no "
                "default: give both, raise student-width or change seed"
            )
        if counted:
            check_steps(self.steps)
        return self.step_size, self.time, self.steps

    def truncated(self) -> str:
        """What the activation's kernel leaves out where it is a series."""
        return truncated(self.activation)

    @property
    def parts(self) -> "tuple[theory.Activation, theory.Teacher, theory.InitialState]":
        """What every simulator takes first."""
        return self.activation, self.teacher, self.initial


def resolve(problem: AdditiveProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw the start, predict, and decide step size and length.

    The default step size is a safe fraction of the stability bound; the default length is 1.3 times the last predicted
    time. Raises `InputError` for a step size beyond the bound unless the problem allows it (then: a warning).
    """
    import theory
    from theory.core.defaults import SAFE_FRACTION

    activation = theory.Activation.parse(problem.activation)
    teacher = problem.teacher()
    student = theory.Student(problem.student_width, problem.init_scale)
    initial = theory.draw_initial_state(teacher, student, problem.seed)
    prediction = theory.predict(activation, teacher, initial)
    bound = prediction.stability_bound(problem.batch) if prediction.learned.any() else None
    step_size = problem.step_size
    if step_size is None and bound is not None:
        # (The bound grows as the batch; the step of descent does not.)
        descent, held = (prediction.largest_held(batch) for batch in (math.inf, problem.batch))
        step_size = min(SAFE_FRACTION["overlap-flow"] * min(bound[0], descent), SAFE_FRACTION["rest"] * held)
    warnings = (*_truncation(activation), *_excess(problem, bound), *_doubts(problem, prediction, bound))
    return Resolved(problem, activation, teacher, student, initial, prediction, bound, step_size, warnings)


def _truncation(activation: "theory.Activation") -> list[str]:
    from theory.declared.dual_kernel import MOST, left_out

    cut = max(activation.truncation_error, activation.drift_truncation_error)
    if cut <= TRUNCATION_WARNING and (cut <= MOST or left_out(activation) <= MOST):
        return []
    return [f"activation {activation.name!r}: {truncated(activation)}"]


def truncated(activation: "theory.Activation") -> str:
    """What a kernel that is a series leaves out, and what the one of simulated flows does."""
    from theory.declared.dual_kernel import TOLD, left_out

    height, slope, flows = activation.truncation_error, activation.drift_truncation_error, left_out(activation)
    degrees = f"Hermite degrees up to {activation.degree}"
    cut = f"{degrees} miss {height:.2g} of Eσ² and {slope:.2g} of Eσ'², the drift near alignment"
    return cut if flows == slope else f"{cut}; simulated flows miss {f'{flows:.2g}' if flows > TOLD else 'none'} of it"


def _excess(problem: AdditiveProblem, bound: tuple[float, int] | None) -> list[str]:
    if problem.step_size is None or bound is None:
        return []
    return beyond(problem.step_size, *bound, problem.allow_unstable)


def _doubts(problem: AdditiveProblem, prediction: "theory.Prediction", bound: tuple[float, int] | None) -> list[str]:
    """What does not hold of the bound, and of the step size."""
    from theory.prediction.validity import of_rest, of_step

    if bound is None:
        return []
    conditions = of_step(prediction, bound[1], bound[0], problem.batch)
    doubts = [f"stability bound {bound[0]:.4g}: {own.sentence}" for own in conditions if not own.holds]
    if (
        problem.step_size is not None
        and problem.step_size <= bound[0]
        and not (rest := of_rest(prediction, problem.step_size, problem.batch)).holds
    ):
        doubts.append(f"step-size {problem.step_size:g}: {rest.sentence}")
    return doubts


def beyond(step_size: float, bound: float, direction: int | None, allowed: bool) -> list[str]:
    """A warning for an allowed step size beyond the bound; `InputError` is raised if it is not allowed."""
    if step_size <= bound:
        return []
    by = "" if direction is None else f" set by direction {direction + 1}"
    excess = f"step-size is {step_size:g}, beyond the stability bound {bound:.4g}{by}"
    if not allowed:
        refuse(f"{excess}: lower it, raise batch, or {UNSTABLE}")
    return [f"{excess}: {'some' if direction is None else 'that'} direction is not expected to be learned"]


def _length(
    problem: AdditiveProblem, step_size: float | None, last: Callable[[], float | None]
) -> tuple[float | None, int | None]:
    """(time, steps): each from the other by time = step size × steps, or both from the `last` predicted time."""
    from theory.core.defaults import HORIZON

    if problem.steps is not None:
        return (None if step_size is None else step_size * problem.steps), problem.steps
    time = problem.time
    if time is None and (latest := last()) is not None:
        time = HORIZON * latest
    if time is None or step_size is None:
        return time, None
    if step_size * LONGEST < time:
        refuse(f"step-size is {step_size:g}: time {time:g} would take over {LONGEST:g} steps: raise it or lower dim")
    return time, fewest_steps(time, step_size)
