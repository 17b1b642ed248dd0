"""``emergence simulate layer-wise | kernel-ridge | toy``: the baselines, written to ``WHAT-DIGEST.nc``."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

import theory
from emergence import baseline_problem, config, console, table
from emergence.arguments import problem_flags
from emergence.baseline_problem import CHANGED, KERNEL_RIDGE, LAYER_WISE, TOY
from emergence.files import DataFile
from emergence.problem import RIVALS, Problem
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.resolve import teacher_of
from emergence.result import Result
from emergence.values import MAX_WHOLE, Whole
from theory.core.defaults import HORIZON, SAFE_FRACTION

if TYPE_CHECKING:
    import xarray as xr

#: What a simulation hands back: its data, a table for people, and how much of it failed.
Done = tuple["xr.Dataset", str]


@dataclass(frozen=True)
class Setting:
    """A problem that was understood: what is echoed, and what runs it."""

    echo: dict[str, Any]
    run: Callable[[Progress], Done]
    warnings: tuple[str, ...] = ()


def run(arguments: argparse.Namespace) -> Result:
    """Resolve, simulate, write."""
    what = arguments.what
    setting = SETTINGS[what](*_values(arguments))
    file = DataFile.of(arguments, setting.echo)
    file.make_folder()
    for text in setting.warnings:
        console.warn(text)
    with Progress(arguments.quiet) as progress, file.keeping():
        dataset, text = setting.run(progress)
    path = file.write(dataset)
    return Result(file.document(dataset, path), f"{text}\n\nwritten: {path}")


def _values(arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Shared and own options, from the configuration file and the flags (flags win)."""
    own = {name: value for name, value in vars(arguments).items() if name in baseline_problem.NEW}
    given = problem_flags(arguments) | own
    base = {}
    if arguments.config is not None:
        base = config.load(arguments.config, baseline_problem.kinds(arguments.what))
        for flag in given:
            for rival in RIVALS.get(flag, ()):
                base.pop(rival, None)
    return baseline_problem.resolve(arguments.what, base | given)


def _problem(what: str, shared: dict[str, Any]) -> Problem:
    """The additive model's problem with this simulation's defaults."""
    defaults = {k: v for k, v in CHANGED[what].items() if k != "teacher_width" or "teacher_weights" not in shared}
    if what == KERNEL_RIDGE:
        defaults["student_width"] = 1  # there is no student
    return Problem(**(defaults | shared))


def _echo(what: str, problem: Problem, own: dict[str, Any]) -> dict[str, Any]:
    taken = baseline_problem.SHARED[what]
    values = {name: value for name, value in asdict(problem).items() if name in taken}
    return values | {"teacher_width": problem.width, "teacher_exponent": problem.exponent} | own


def _wholes(name: str, values: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(Whole().check(f"--{name}", int(x) if x == int(x) else x) for x in values)


# -------------------------------------------------------------------------- layer-wise


def _layer_wise(shared: dict[str, Any], own: dict[str, Any]) -> Setting:
    """Spherical SGD on the correlation loss, then least squares."""
    problem = _problem(LAYER_WISE, shared)
    activation, teacher = theory.Activation.parse(problem.activation), teacher_of(problem)
    from theory.baselines.correlation import correlation_flow, spherical_plateau, undeflated_winners

    correlation_flow(activation)  # refuses a mean
    if own["samples"] is not None and len(own["samples"]) > 1:
        refuse(f"--samples has {len(own['samples'])} numbers: layer-wise takes one")
    samples = None if own["samples"] is None else _wholes("samples", own["samples"])[0]
    initial = theory.draw_initial_state(teacher, theory.Student(problem.student_width, 1.0), problem.seed)
    neuron, predicted = undeflated_winners(activation, teacher, initial)
    learned = np.flatnonzero(np.isfinite(predicted))
    bound, warnings = None, []
    if activation.is_polynomial and learned.size:
        overlaps, total = initial.overlap[neuron[learned], learned], float(np.sum(teacher.a**2))
        laws = spherical_plateau(activation)
        bound, _ = laws.stability_bound(teacher.a[learned], overlaps, total, problem.dim, problem.batch)
    step = problem.step_size
    if step is None:
        if bound is None:
            refuse("step-size has no default for this activation or start: give --step-size")
        step = SAFE_FRACTION["correlation-flow"] * bound
    elif bound is not None and step > bound:
        excess = f"step-size is {step:g}, beyond the stability bound {bound:.4g}"
        if not problem.allow_unstable:
            refuse(f"{excess}: lower it, raise batch, or give --allow-unstable")
        warnings.append(f"{excess}: some direction is not expected to be learned")
    steps = problem.steps
    if steps is None:
        time = problem.time if problem.time is not None else HORIZON * float(predicted[learned].max(initial=0.0))
        if time == 0:
            refuse(f"seed {problem.seed}: no direction is predicted to be learned: give --steps, or change seed")
        steps = max(1, math.ceil(time / step))
    if steps > MAX_WHOLE:
        refuse(f"steps is {steps:.3g}: more than 2**53 steps cannot be run: raise step-size or lower time")
    echo = _echo(LAYER_WISE, problem, own) | {"step_size": step, "steps": steps, "time": step * steps}

    def simulate(progress: Progress) -> Done:
        from dynamics.baselines.layer_wise import layer_wise_sgd

        result = layer_wise_sgd(
            activation, teacher, initial, step_size=step, steps=steps, batch=problem.batch, replicas=problem.replicas,
            seed=problem.seed, method=problem.method, ridge=own["ridge"], samples=samples, progress=progress,
        )  # fmt: skip
        return result.dataset, _layer_wise_table(result, teacher, neuron, predicted / step)

    return Setting(echo, simulate, tuple(warnings))


def _layer_wise_table(result: Any, teacher: theory.Teacher, neuron: np.ndarray, steps: np.ndarray) -> str:
    rows = []
    for q in range(teacher.width):
        reached = result.half_steps[:, q][np.isfinite(result.half_steps[:, q])]
        error = float(reached.std(ddof=1) / np.sqrt(reached.size)) if reached.size > 1 else None
        rows.append((
            q + 1, float(teacher.a[q]), int(neuron[q]) if neuron[q] >= 0 else None,
            float(steps[q]) if np.isfinite(steps[q]) else None, float(reached.mean()) if reached.size else None, error,
            f"{reached.size} of {len(result.half_steps)}",
        ))  # fmt: skip
    headers = ("direction", "weight", "neuron", "steps_half predicted", "SGD mean", "±", "replicas that reached it")
    loss = result.dataset.loss.values
    lines = [table.render(headers, rows), "", f"loss after the second layer: {table.cell(float(loss[:, 0].mean()))} at the "
             f"start, {table.cell(float(loss[:, -1].mean()))} at step {result.steps} (population fit)"]  # fmt: skip
    if "fitted_loss" in result.dataset:
        lines.append(f"after a fit to fresh samples: {table.cell(float(result.dataset.fitted_loss.mean()))}")
    return "\n".join(lines)


# ------------------------------------------------------------------------ kernel-ridge


def _kernel_ridge(shared: dict[str, Any], own: dict[str, Any]) -> Setting:
    """Kernel ridge regression on the same target, inputs on the sphere."""
    from theory.baselines.kernel_ridge import Kernel, KernelRidge

    problem = _problem(KERNEL_RIDGE, shared)
    regression = KernelRidge(
        theory.Activation.parse(problem.activation), teacher_of(problem), Kernel.parse(own["kernel"]), own["ridge"]
    )
    samples = _wholes("samples", own["samples"]) if own["samples"] is not None else _default_samples(regression)
    from dynamics.baselines.kernel_ridge import LARGEST

    if max(samples) ** 2 > LARGEST:
        refuse(f"--samples holds {max(samples)}: give {math.isqrt(LARGEST)} or less (the kernel matrix has to fit)")

    def simulate(progress: Progress) -> Done:
        from dynamics.baselines.kernel_ridge import kernel_ridge

        result = kernel_ridge(regression, samples, replicas=problem.replicas, seed=problem.seed, progress=progress)
        return result.dataset, _kernel_table(regression, result.dataset)

    return Setting(_echo(KERNEL_RIDGE, problem, own) | {"samples": samples}, simulate)


def _default_samples(regression: Any) -> tuple[int, ...]:
    """From d to 1.5 times the harmonics of the activation's degree, at most 2000."""
    last = min(2000.0, 1.5 * float(regression.multiplicities[regression.activation.degree]))
    return tuple(sorted({int(n) for n in np.geomspace(min(regression.dim, last), last, 8)}))


def _kernel_table(regression: Any, dataset: "xr.Dataset") -> str:
    total, rows = regression.total, []
    for n in dataset.samples.values.tolist():
        at = dataset.sel(samples=n)
        risk = at.risk.values / total
        error = float(risk.std(ddof=1) / np.sqrt(risk.size)) if risk.size > 1 else None
        rows.append((n, float(at.predicted) / total, float(risk.mean()), error, float(at.staircase) / total))
    energy = ", ".join(
        f"{int(k)}: {float(x) / total:.3g} in {int(b)}"
        for k, x, b in zip(dataset.degree.values, dataset.energy.values, dataset.harmonics.values, strict=True)
        if x > 1e-9 * total
    )
    headers = ("samples", "predicted", "measured", "±", "staircase")
    first = f"share of the target's energy by degree, and its harmonics: {energy}"
    note = "mean squared error over that of knowing nothing; inputs uniform on the sphere"
    return "\n".join([first, "", table.render(headers, rows), "", note])


# --------------------------------------------------------------------------------- toy


def _toy(shared: dict[str, Any], own: dict[str, Any]) -> Setting:
    """Power and product losses of every exponent, from every start."""
    from theory.baselines.toy import SHAPES, Toy

    exponents = _wholes("exponents", own["exponents"])
    toys = [Toy(k, shape) for k in dict.fromkeys(exponents) for shape in SHAPES if k > 1 or shape == "power"]
    starts, goal = np.array(own["starts"]), own["goal"]
    reach = max(float(starts.max()) ** toy.exponent for toy in toys) / goal
    if reach >= 0.1:
        refuse(
            f"--starts holds {starts.max():g}, whose power reaches {reach:.3g} of the goal: start below a tenth of it"
        )
    least = min(float(starts.min()) ** toy.exponent for toy in toys) / goal
    if least < 1e-300:
        refuse(f"--starts holds {starts.min():g}, whose power is only {least:.3g} of the goal: start higher")

    def simulate(progress: Progress) -> Done:
        from dynamics.baselines.toy_flow import toy_flow
        from dynamics.core.interrupted import Interrupted

        parts: list[xr.Dataset] = []
        rows = []
        try:
            for place, toy in enumerate(toys):
                result = toy_flow(toy, starts, goal=goal)
                parts.append(result.dataset.drop_vars("initial").assign_coords(toy=f"{toy.shape}{toy.exponent}"))
                for start, sharp, time in zip(starts, result.sharpness, result.times, strict=True):
                    exact = toy.sharpness(float(start), goal)
                    rows.append((toy.shape, toy.exponent, float(start), float(time[1]), float(sharp), exact))
                progress((place + 1) / len(toys), f"toy losses: {toy.shape}, k = {toy.exponent}")
        except KeyboardInterrupt as stop:
            if not parts:
                raise
            raise Interrupted(_toys(parts, starts), f"after {len(parts)} of {len(toys)} losses") from stop
        headers = ("loss", "k", "start", "t50", "(t90 − t10)/t50", "exact")
        return _toys(parts, starts), table.render(headers, rows)

    return Setting({"what": TOY, "exponents": exponents, "starts": own["starts"], "goal": goal, **shared}, simulate)


def _toys(parts: "list[xr.Dataset]", starts: np.ndarray) -> "xr.Dataset":
    """One dataset of all losses along ``toy``."""
    import xarray as xr

    return xr.concat(parts, dim="toy", combine_attrs="drop_conflicts").assign_coords(start=starts)


SETTINGS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Setting]] = {
    LAYER_WISE: _layer_wise,
    KERNEL_RIDGE: _kernel_ridge,
    TOY: _toy,
}
assert {f.name for f in fields(Problem)} >= {name for names in baseline_problem.SHARED.values() for name in names}
