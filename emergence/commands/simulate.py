"""``emergence simulate``: gradient flow, SDE or SGD for the user's problem, written to ``WHAT-DIGEST.nc``."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import theory
from emergence import console, quadratic, stiefel, table, uses
from emergence.arguments import LINEAR_SIMULATIONS
from emergence.commands import baselines, linear, networks
from emergence.commands.predict import explained, marks
from emergence.commands.setup import announce, announce_long, announce_wide, headline, resolved_problem
from emergence.files import DataFile
from emergence.progress import Progress
from emergence.resolve import Resolved
from emergence.result import Result
from theory.steps.moments import require_polynomial

if TYPE_CHECKING:
    import xarray as xr

    from dynamics import FiniteStepResult, FlowResult, SdeResult, SgdResult

#: What a simulation hands back: its data, a table for people, and how many replicas diverged.
Simulated = tuple["xr.Dataset", str, int]


def run(arguments: argparse.Namespace) -> Result:
    """Simulate and write. Status 1 if a replica diverged."""
    uses.check(f"simulate {arguments.what}", vars(arguments))
    if arguments.what in networks.RUNS:
        return networks.run(arguments)
    if arguments.what in baselines.SETTINGS:
        return baselines.run(arguments)
    if arguments.what in LINEAR_SIMULATIONS:
        return linear.simulate(arguments)
    if arguments.what == "riccati":
        return quadratic.simulate_riccati(arguments)
    if arguments.what == "stiefel-sgd":
        return stiefel.simulate_stiefel(arguments)
    resolved = resolved_problem(arguments)
    if arguments.what in REQUIREMENTS:
        REQUIREMENTS[arguments.what](resolved.activation)
    # Refuses a problem without an end before anything is made.
    _, _, steps = resolved.run_length(counted=arguments.what in COUNTED)
    file = DataFile.of(arguments, resolved.echo())
    file.make_folder()
    announce(resolved)
    if arguments.what == "online-sgd":
        announce_long(float(steps) * resolved.problem.batch * resolved.problem.replicas, arguments.what)
    if arguments.what == "sde":
        announce_wide(resolved.teacher.width, resolved.problem.student_width)
    with Progress(arguments.quiet) as progress, file.keeping():
        dataset, text, diverged = SIMULATIONS[arguments.what](resolved, progress)
    path = file.write(dataset)
    if diverged:
        console.warn(f"{diverged} of {resolved.problem.replicas} replicas diverged: lower step-size or raise batch")
    lines = [headline(resolved), "", text, "", f"written: {path}"]
    return Result(file.document(dataset, path), "\n".join(lines), 1 if diverged else 0)


def run_gradient_flow(resolved: Resolved, progress: Progress | None = None) -> "FlowResult":
    """Gradient flow of the problem over its run length."""
    import dynamics

    _, time, _ = resolved.run_length(counted=False)
    return dynamics.gradient_flow(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        t_end=time,
        step_size=resolved.step_size,
        progress=progress,
    )


def run_online_sgd(resolved: Resolved, progress: Progress | None = None) -> "SgdResult":
    """SGD replicas of the problem over its run length."""
    import dynamics

    step_size, _, steps = resolved.run_length()
    problem = resolved.problem
    return dynamics.online_sgd(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        step_size=step_size,
        steps=steps,
        batch=problem.batch,
        replicas=problem.replicas,
        seed=problem.seed,
        method=problem.method,
        progress=progress,
    )


def run_finite_step(resolved: Resolved, progress: Progress | None = None) -> "FiniteStepResult":
    """The O(η²) flow of the problem over its run length."""
    import dynamics

    step_size, _, steps = resolved.run_length()
    return dynamics.finite_step_flow(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        step_size=step_size,
        steps=steps,
        batch=resolved.problem.batch,
        progress=progress,
    )


def run_sde(resolved: Resolved, progress: Progress | None = None) -> "SdeResult":
    """Paths of the SDE of all overlaps over the problem's run length, one for each replica."""
    import dynamics

    step_size, time, _ = resolved.run_length(counted=False)
    problem = resolved.problem
    return dynamics.sde_ensemble(
        resolved.activation,
        resolved.teacher,
        resolved.initial,
        step_size=step_size,
        time=time,
        paths=problem.replicas,
        batch=problem.batch,
        seed=problem.seed,
        progress=progress,
    )


def _gradient_flow(resolved: Resolved, progress: Progress) -> Simulated:
    flow = run_gradient_flow(resolved, progress)
    prediction = resolved.prediction
    columns = (prediction.time_half, flow.half_time, prediction.time_loss, flow.loss_time)
    headers = ("direction", "time_half predicted", "time_half flow", "time_loss predicted", "time_loss flow")
    rows = [(p + 1, *(float(column[p]) for column in columns)) for p in range(resolved.teacher.width)]
    return flow.dataset, _beside(resolved, headers, rows), 0


def _online_sgd(resolved: Resolved, progress: Progress) -> Simulated:
    step_size, _, _ = resolved.run_length()
    sgd = run_online_sgd(resolved, progress)
    rows = [
        (p + 1, float(resolved.prediction.time_half[p] / step_size), *_summary(np.asarray(sgd.half_steps)[:, p]))
        for p in range(resolved.teacher.width)
    ]
    headers = ("direction", "steps_half predicted", "SGD mean", "±", "replicas that reached it")
    return sgd.dataset, _beside(resolved, headers, rows), int(np.sum(sgd.diverged))


def _finite_step(resolved: Resolved, progress: Progress) -> Simulated:
    run = run_finite_step(resolved, progress)
    headers = ("direction", "time_half predicted", "time_half finite step")
    predicted = resolved.prediction.time_half
    rows = [(p + 1, float(predicted[p]), float(run.half_time[p])) for p in range(resolved.teacher.width)]
    return run.dataset, _beside(resolved, headers, rows), int(run.diverged)


def _sde(resolved: Resolved, progress: Progress) -> Simulated:
    run = run_sde(resolved, progress)
    predicted = resolved.prediction.time_half
    rows = []
    for p in range(resolved.teacher.width):
        times = np.where(run.diverged, np.inf, run.half_time[:, p])
        mean, error, reached = _summary(times)
        found = times[np.isfinite(times)]
        rows.append(
            (p + 1, float(predicted[p]), mean, error, float(found.std(ddof=1)) if found.size > 1 else None, reached)
        )
    headers = ("direction", "time_half predicted", "SDE mean", "±", "spread", "paths that reached it")
    lost = np.flatnonzero(run.diverged)
    if lost.size:
        console.warn(f"paths {_few(lost)} diverged: left out of the table, NaN in the file from then on")
    return run.dataset, _beside(resolved, headers, rows), int(lost.size)


def _beside(resolved: Resolved, headers: Sequence[str], rows: Sequence[tuple]) -> str:
    """A table of predicted times, one row per direction, that says which of them are outside their conditions, and why."""
    marked = [(*row, mark) for row, mark in zip(rows, marks(resolved.validity), strict=True)]
    return "\n".join([table.render((*headers, "predicted valid"), marked), *explained(resolved.validity)])


def _few(numbers: np.ndarray, most: int = 8) -> str:
    """The first few numbers, as text."""
    return ", ".join(str(x) for x in numbers[:most]) + (" …" if numbers.size > most else "")


def _summary(steps: np.ndarray) -> tuple[float | None, float | None, str]:
    """Mean and standard error over the replicas that got there (None if they are too few), and how many did."""
    reached = steps[np.isfinite(steps)]
    mean = float(reached.mean()) if reached.size else None
    error = float(reached.std(ddof=1) / np.sqrt(reached.size)) if reached.size > 1 else None
    return mean, error, f"{reached.size} of {steps.size}"


#: What a simulation asks of the activation, refused before anything is made.
REQUIREMENTS: dict[str, Callable[[theory.Activation], None]] = {
    "finite-step": require_polynomial,
    "sde": require_polynomial,
}
#: Their step counts matter; the others integrate over the time.
COUNTED = frozenset({"online-sgd", "finite-step"})
SIMULATIONS: dict[str, Callable[[Resolved, Progress], Simulated]] = {
    "gradient-flow": _gradient_flow,
    "online-sgd": _online_sgd,
    "finite-step": _finite_step,
    "sde": _sde,
}
