"""``emergence simulate stiefel-sgd``: online Stiefel SGD of a quadratic student, written to ``stiefel-sgd.nc``."""

import argparse
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from emergence import config, console, jsonio, output, table
from emergence.arguments import problem_flags
from emergence.commands.setup import out_folder
from emergence.problem import Problem
from emergence.progress import Progress
from emergence.quadratic import ResolvedQuadratic, resolved_quadratic
from emergence.refusal import refuse
from emergence.result import Result
from emergence.values import MAX_WHOLE
from emergence.version import version

if TYPE_CHECKING:
    import xarray as xr

#: Share of the largest stable step that is taken by default. The risk it leaves behind is proportional to it.
SAFE_FRACTION = 0.1


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
    from theory.stiefel import largest_step

    problem, model = resolved.problem, resolved.model
    least = problem.width + model.width
    if problem.dim < least:
        refuse(f"dim is {problem.dim}, below teacher width + student width = {least}: raise dim or lower a width")
    bound, direction = largest_step(model, problem.batch)
    step_size = SAFE_FRACTION * bound if problem.step_size is None else problem.step_size
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


def problem_of(arguments: argparse.Namespace) -> Problem:
    r"""The problem with this command's defaults: activation z² − 1 and, as in arXiv:2508.03688, $\gamma=N^{-1/2}$."""
    flags, defaults = problem_flags(arguments), {"activation": "quadratic"}
    width = config.build(flags, arguments.config, defaults).student_width
    return config.build(flags, arguments.config, defaults | {"speed_factor": width**-0.5})


def simulate_stiefel(arguments: argparse.Namespace) -> Result:
    """Replicas from independent uniform subspaces, exact in law; the risk beside the Riccati flow's."""
    resolved = resolved_quadratic(problem_of(arguments))
    plan = plan_of(resolved)
    folder = out_folder(arguments, "stiefel-sgd.nc")
    output.make(folder)
    for text in plan.warnings:
        console.warn(text)
    import dynamics
    from dynamics.storage import write_dataset
    from theory import draw_subspace

    problem, model = resolved.problem, resolved.model
    rng = np.random.default_rng(problem.seed)
    starts = [draw_subspace(problem.width, model.width, problem.dim, rng) for _ in range(problem.replicas)]
    with Progress(arguments.quiet) as progress:
        run = dynamics.stiefel_sgd(
            model, starts, step_size=plan.step_size, steps=plan.steps, batch=problem.batch, seed=problem.seed,
            method=problem.method, progress=progress,
        )  # fmt: skip
    echo = resolved.echo() | {"step_size": plan.step_size, "steps": plan.steps, "time": plan.steps * plan.step_size}
    provenance = {"problem": json.dumps(jsonio.plain(echo)), "emergence_version": version()}
    path = write_dataset(folder / "stiefel-sgd.nc", run.dataset.assign_attrs(provenance))
    document = {
        "what": "stiefel-sgd",
        "problem": echo,
        "file": str(path),
        "variables": {str(name): list(variable.dims) for name, variable in run.dataset.data_vars.items()},
        "largest_step": plan.bound,
    }
    step = (
        f"step size {plan.step_size:.4g} (bound {plan.bound:.4g}, direction {plan.direction + 1}), {plan.steps} steps"
    )
    flow = [dynamics.riccati_flow(model.spectrum, start) for start in starts]
    lines = [f"{resolved.headline()}, {step}", "", _measured(run.dataset, flow), "", f"written: {path}"]
    return Result(document, "\n".join(lines))


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
