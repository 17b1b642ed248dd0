"""What commands that take a problem have in common."""

import argparse
from pathlib import Path

from emergence import config, console, output
from emergence.arguments import DEFAULT_OUT, problem_flags
from emergence.resolve import Resolved, resolve

#: Samples of SGD over all replicas that take five to ten minutes.
SGD_BUDGET = 3e8
#: Overlaps of a student with which a path of the SDE ends within minutes.
SDE_OVERLAPS = 100


def resolved_problem(arguments: argparse.Namespace) -> Resolved:
    """The problem of flags and configuration file, with its objects and defaults. Raises `InputError`."""
    return resolve(config.build(problem_flags(arguments), arguments.config))


def out_folder(arguments: argparse.Namespace, *names: str) -> Path:
    """The output folder, checked but not made. Raises `InputError` unless `names` could be written there."""
    return output.check(DEFAULT_OUT if arguments.out is None else arguments.out, *names)


def announce(resolved: Resolved) -> None:
    """Print the problem's warnings; called when nothing can be refused any more."""
    for text in resolved.warnings:
        console.warn(text)


def announce_long(samples: float, name: str) -> None:
    """Say at once that a run of SGD will not end soon."""
    if samples > SGD_BUDGET:
        console.warn(
            f"{name} needs {samples:.2g} samples over all replicas, {samples / SGD_BUDGET:.2g} times what takes five to ten "
            "minutes: lower --dim or --replicas, raise --step-size, or give --steps"
        )


def announce_wide(width: int, student_width: int) -> None:
    """Say at once that the SDE of so many overlaps will not end soon."""
    overlaps = student_width * width + student_width * (student_width + 1) // 2
    if overlaps > SDE_OVERLAPS:
        console.warn(
            f"sde: every step of every path takes the square root of the {overlaps} × {overlaps} covariance of all overlaps, "
            "which may take days: lower --student-width and --teacher-width to a few"
        )


def headline(resolved: Resolved) -> str:
    """The problem in one line."""
    problem, activation = resolved.problem, resolved.activation
    step = "none" if resolved.step_size is None else f"{resolved.step_size:.4g}"
    bound = "" if resolved.bound is None else f" (bound {resolved.bound[0]:.4g}, direction {resolved.bound[1] + 1})"
    return (
        f"activation {activation.name} (information exponent {activation.information_exponent}), "
        f"P = {problem.width}, m = {problem.student_width}, d = {problem.dim}, seed {problem.seed}, "
        f"step size {step}{bound}"
    )
