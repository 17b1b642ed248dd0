"""``emergence simulate stiefel-sgd``: online Stiefel SGD of a quadratic student, written to ``stiefel-sgd-DIGEST.nc``."""

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emergence import config, console, table
from emergence.arguments import problem_flags
from emergence.files import DataFile
from emergence.problem import Problem
from emergence.progress import Progress
from emergence.quadratic import DEFAULTS, ResolvedQuadratic, resolved_quadratic
from emergence.refusal import refuse
from emergence.result import Result
from emergence.values import MAX_WHOLE
from theory.core.defaults import SAFE_FRACTION

if TYPE_CHECKING:
    import xarray as xr

    from dynamics.quadratic.stiefel_sgd import StiefelResult
    from theory import Subspace


@dataclass(frozen=True)
class Plan:
    """Step size (of ½(f*−f)²), steps, and what the user is told."""

    step_size: float
    steps: int
    bound: float
    direction: int
    warnings: tuple[str, ...]


def plan_of(resolved: ResolvedQuadratic) -> Plan:
    """Defaults of step size and length. Raises `InputError` for a step beyond the bound, and for d < P + N."""
    from theory.quadratic.stiefel import largest_step

    problem, model = resolved.problem, resolved.model
    least = problem.width + model.width
    if problem.dim < least:
        refuse(f"dim is {problem.dim}, below teacher width + student width = {least}: raise dim or lower a width")
    bound, direction = largest_step(model, problem.batch)
    step_size = SAFE_FRACTION["stiefel-sgd"] * bound if problem.step_size is None else problem.step_size
    warnings = []
    if step_size > bound:
        excess = f"step-size is {step_size:g}, beyond the stability bound {bound:.4g} set by direction {direction + 1}"
        if not problem.allow_unstable:
            refuse(f"{excess}: lower it, raise batch, or give --allow-unstable")
        warnings.append(f"{excess}: that direction is not expected to be learned")
    steps = problem.steps
    if steps is None:
        steps = max(1, math.ceil(min(resolved.time / step_size, 1e300)))
    if steps > MAX_WHOLE:
        refuse(f"steps is {steps:.3g}: more than 2**53 steps cannot be run: raise step-size or lower time")
    return Plan(step_size, steps, bound, direction, tuple(warnings))


def resolved_stiefel(problem: Problem) -> ResolvedQuadratic:
    r"""The problem's model; the speed factor is $N^{-1/2}$ unless it is given, as in arXiv:2508.03688."""
    return resolved_quadratic(problem, problem.student_width**-0.5)


def simulate_stiefel(arguments: argparse.Namespace) -> Result:
    """Replicas from independent uniform subspaces, exact in law; the risk beside the Riccati flow's."""
    resolved = resolved_stiefel(config.build(problem_flags(arguments), arguments.config, DEFAULTS))
    plan = plan_of(resolved)
    echo = resolved.echo() | {"step_size": plan.step_size, "steps": plan.steps, "time": plan.steps * plan.step_size}
    file = DataFile.of(arguments, echo)
    file.make_folder()
    for text in plan.warnings:
        console.warn(text)
    import dynamics

    with Progress(arguments.quiet) as progress, file.keeping():
        run = run_stiefel(resolved, plan, progress)
    path = file.write(run.dataset)
    document = file.document(run.dataset, path) | {"largest_step": plan.bound}
    step = (
        f"step size {plan.step_size:.4g} (bound {plan.bound:.4g}, direction {plan.direction + 1}), {plan.steps} steps"
    )
    flow = [dynamics.riccati_flow(resolved.model.spectrum, start) for start in _starts(resolved)]
    lines = [f"{resolved.headline()}, {step}", "", _measured(run.dataset, flow), "", f"written: {path}"]
    return Result(document, "\n".join(lines))


def run_stiefel(resolved: ResolvedQuadratic, plan: Plan, progress: Progress | None = None) -> "StiefelResult":
    """Replicas of Stiefel SGD from independent uniform subspaces."""
    import dynamics

    problem = resolved.problem
    return dynamics.stiefel_sgd(
        resolved.model, _starts(resolved), step_size=plan.step_size, steps=plan.steps, batch=problem.batch,
        seed=problem.seed, method=problem.method, progress=progress,
    )  # fmt: skip


def _starts(resolved: ResolvedQuadratic) -> "list[Subspace]":
    """One subspace for each replica, a function of the seed."""
    from theory.quadratic.subspace import draw_subspaces

    problem = resolved.problem
    return list(draw_subspaces(problem.width, resolved.model.width, problem.dim, problem.seed, problem.replicas))


def _measured(data: "xr.Dataset", flows: list) -> str:
    """Mean risk at a few times, with the Riccati flow's from the same starts."""
    marks = np.unique(np.linspace(0, data.sizes["time"] - 1, 6).round().astype(int))
    riccati = np.mean([flow.risk(data.riccati_time.values[marks]) for flow in flows], axis=0)
    risk = data.risk.values[:, marks]
    error = risk.std(axis=0, ddof=1) / np.sqrt(len(risk)) if len(risk) > 1 else [None] * len(marks)
    rows = [
        (
            int(data.step.values[k]),
            float(data.time.values[k]),
            float(data.riccati_time.values[k]),
            float(r),
            float(s),
            e,
        )
        for k, r, s, e in zip(marks, riccati, risk.mean(axis=0), error, strict=True)
    ]
    return table.render(("step", "time", "Riccati time", "risk, Riccati flow", "risk, SGD", "±"), rows)
