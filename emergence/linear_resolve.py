"""From a problem of the two-layer linear network to its objects: data, start, predicted phases, default length."""

import math
from dataclasses import asdict, dataclass

import theory
from emergence.linear_problem import LinearProblem
from emergence.refusal import refuse
from emergence.values import MAX_WHOLE
from theory.core.defaults import HORIZON
from theory.linear.oscillation import time_to_level
from theory.linear.phases import Geometry, Phases, predict_phases, stability_limit
from theory.linear.sam import collapse_radius, fall_time


@dataclass(frozen=True)
class LinearResolved:
    """A problem with its objects.

    Attributes:
        phases: None where nothing is predicted: class labels, no noise, or too few training points to determine θ*.
        limit: largest stable step size; None likewise. steps: to run, None if there is no default.
    """

    problem: LinearProblem
    what: str
    task: theory.LinearTask
    start: theory.LinearStart
    phases: Phases | None
    limit: float | None
    steps: int | None
    warnings: tuple[str, ...]

    def echo(self) -> dict[str, object]:
        """The full problem, defaults included."""
        noise = self.problem.sigma if self.what == "label-noise" else 0.0
        return asdict(self.problem) | {"noise": noise, "steps": self.steps}

    def run_length(self) -> int:
        """Steps to run. Raises `InputError` if nothing decides them."""
        if self.steps is None:
            refuse("steps has no default here (nothing is predicted for this problem): give --steps")
        if self.steps > MAX_WHOLE:
            refuse(f"steps is {self.steps:.3g}: more than 2**53 steps cannot be run: raise step-size, or give --steps")
        return self.steps

    def headline(self) -> str:
        """The problem in one line."""
        problem = self.problem
        labels = f"flips {problem.label_flip:g}" if problem.label_flip else f"label noise ±{problem.sigma:g}"
        points = f"{problem.train_size} training points" if problem.train_size else "fresh samples"
        bound = "" if self.limit is None else f" (least-squares limit {self.limit:.3g})"
        return (
            f"linear network, d = {problem.dim}, m = {problem.student_width}, target norm {problem.target_norm:g}, "
            f"{points}, {labels}, step size {problem.step_size:g}{bound}, seed {problem.seed}"
        )


def resolve_linear(problem: LinearProblem, what: str) -> LinearResolved:
    """Draw data and start, predict, and decide the length of a run of `what` (``label-noise``, ``oscillation``, ``sam``).

    Raises `InputError` for a step size beyond the least-squares limit and for a radius that collapses the network,
    unless the problem allows them (then: warnings).
    """
    if what != "label-noise":
        _only_clean(problem, what)
    seed, classes = problem.seed, problem.label_flip > 0
    task = theory.draw_linear_task(problem.dim, problem.target_norm, problem.train_size or None, seed, classes)
    start = theory.draw_linear_start(problem.student_width, problem.dim, seed, problem.replicas)
    determined = not classes and (not problem.train_size or problem.train_size > problem.dim)
    limit = _limit(problem, task) if determined and what != "oscillation" else None
    warnings = _excesses(problem, limit, what)
    phases = None
    stable = limit is not None and problem.step_size < limit
    if what == "label-noise" and stable and problem.sigma > 0 and not problem.linearised:
        phases = predict_phases(
            task, width=problem.student_width, step_size=problem.step_size, noise=problem.sigma, batch=problem.batch
        )
    steps = problem.steps or _default_steps(problem, phases, what)
    return LinearResolved(problem, what, task, start, phases, limit, steps, tuple(warnings))


def _only_clean(problem: LinearProblem, what: str) -> None:
    """Refuse label noise where labels are clean."""
    for name in ("noise", "noise_period", "label_flip"):
        if getattr(problem, name):
            refuse(f"{name.replace('_', '-')} is {getattr(problem, name):g}, but {what} has clean labels: leave it out")


def _limit(problem: LinearProblem, task: theory.LinearTask) -> float:
    import numpy as np

    geometry = Geometry.of(task)
    gram = problem.student_width / problem.dim * np.eye(len(geometry.target))
    return stability_limit(geometry, gram, 1.0, problem.batch)


def _excesses(problem: LinearProblem, limit: float | None, what: str) -> list[str]:
    """Warnings for what lies beyond a limit and is allowed; a refusal if it is not."""
    found = []
    if limit is not None and problem.step_size >= limit:
        found.append((f"step-size is {problem.step_size:g}, beyond the least-squares stability limit {limit:.3g}",
                      "lower it, raise batch"))  # fmt: skip
    if what == "sam" and not problem.full_batch and problem.label_flip == 0:
        critical = collapse_radius(problem.target_norm, problem.dim)
        if problem.sam_radius >= critical:
            found.append((f"sam-radius is {problem.sam_radius:g}: from {critical:.3g} on SAM collapses the network to zero",
                          "lower it"))  # fmt: skip
    for text, remedy in found:
        if not problem.allow_unstable:
            refuse(f"{text}: {remedy}, or give --allow-unstable")
    return [text for text, _ in found]


def _default_steps(problem: LinearProblem, phases: Phases | None, what: str) -> int | None:
    eta, width, norm = problem.step_size, problem.student_width, problem.target_norm
    if what == "label-noise":
        last = math.inf if phases is None else phases.last_event * (2 if problem.noise_period else 1)
    elif what == "oscillation":
        last = time_to_level(width, eta, norm)
    else:
        last = fall_time(problem.sam_radius, eta, width, norm, problem.dim, problem.full_batch)
    return math.ceil(HORIZON * last) if math.isfinite(last) else None
