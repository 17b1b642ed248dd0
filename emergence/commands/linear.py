"""The commands `simulate`, `predict` and `compare` for the two-layer linear network."""

import argparse
import math
from typing import TYPE_CHECKING, Any

from emergence import config, console, output, table, uses
from emergence.arguments import problem_flags
from emergence.commands.setup import out_folder
from emergence.files import DataFile, file_name
from emergence.interruption import Kept
from emergence.linear_problem import LINEAR_KINDS
from emergence.linear_resolve import LinearResolved, resolve_linear
from emergence.progress import Progress
from emergence.result import Result

if TYPE_CHECKING:
    from dynamics import LinearRun

PREDICTED = ("residual_variance", "lms_error", "stability_limit", "decay_rate", "escape_steps", "escape_bound",
             "onset_steps")  # fmt: skip
COMPARED = ("quantity", "predicted", "sgd_mean", "sgd_stderr", "verdict")


def _resolved(arguments: argparse.Namespace, what: str) -> LinearResolved:
    return resolve_linear(config.build_linear(problem_flags(arguments, LINEAR_KINDS), arguments.config), what)


def simulate(arguments: argparse.Namespace) -> Result:
    """``emergence simulate label-noise|oscillation|sam``. Status 1 if a replica diverged."""
    what = arguments.what
    resolved = _resolved(arguments, what)
    resolved.run_length()
    file = DataFile.of(arguments, resolved.echo())
    file.make_folder()
    for text in resolved.warnings:
        console.warn(text)
    with Progress(arguments.quiet) as progress, file.keeping():
        run = _run(resolved, what, progress)
    path = file.write(run.dataset)
    diverged = int(run.diverged.sum())
    if diverged:
        console.warn(f"{diverged} of {resolved.problem.replicas} replicas diverged: lower step-size or raise batch")
    lines = [resolved.headline(), "", _summary(run), "", f"written: {path}"]
    return Result(file.document(run.dataset, path), "\n".join(lines), 1 if diverged else 0)


def _run(resolved: LinearResolved, what: str, progress: Progress, steps: int | None = None) -> "LinearRun":
    import dynamics

    problem = resolved.problem
    common: dict[str, Any] = {
        "step_size": problem.step_size,
        "steps": steps or resolved.run_length(),
        "replicas": problem.replicas,
        "seed": problem.seed,
        "progress": progress,
    }
    task, start = resolved.task, resolved.start
    if what == "oscillation":
        return dynamics.oscillation(task, start, **common)
    if what == "sam":
        batch = None if problem.full_batch else problem.batch
        return dynamics.sam(
            task, start, radius=problem.sam_radius, batch=batch, linearised=problem.linearised, **common
        )
    return dynamics.label_noise_sgd(
        task, start, noise=problem.sigma, flip=problem.label_flip, period=problem.noise_period, batch=problem.batch,
        linearised=problem.linearised, **common,
    )  # fmt: skip


def _summary(run: "LinearRun") -> str:
    """Norms, alignment and loss at a few steps, means over replicas."""
    names = ("mean_norm", "second_norm2", "mean_alignment", "top_share", "loss")
    places = sorted({round(share * (len(run.step) - 1)) for share in (0, 0.1, 0.25, 0.5, 0.75, 1)})
    rows = [(int(run.step[i]), *(float(run.values(name)[:, i].mean()) for name in names)) for i in places]
    return table.render(("step", "mean norm", "‖a‖²", "mean |cos|", "s₁/‖W‖", "loss"), rows)


def predict(arguments: argparse.Namespace) -> Result:
    """``emergence predict --model linear``: both phases of label-noise SGD, from the averaged flow."""
    uses.check("predict --model linear", vars(arguments))
    resolved = _resolved(arguments, "label-noise")
    for text in resolved.warnings:
        console.warn(text)
    phases = resolved.phases
    values = {name: None if phases is None else _finite(getattr(phases, name)) for name in PREDICTED}
    curves = {name: [] if phases is None else getattr(phases, name).tolist()
              for name in ("times", "frobenius2", "second_norm2", "alignment")}  # fmt: skip
    document = {"problem": resolved.echo(), "phases": values, "curves": curves}
    if phases is None:
        console.warn("nothing is predicted: that needs label noise on real labels, more training points than "
                     "dimensions and a stable step size")  # fmt: skip
    rows = list(values.items())
    lines = [resolved.headline(), "", table.render(("quantity", "predicted"), rows), "", "times in SGD steps"]
    return Result(document, "\n".join(lines))


def compare(arguments: argparse.Namespace) -> Result:
    """``emergence compare --model linear``: the averaged flow against label-noise SGD. Status 1 if they disagree."""
    uses.check("compare --model linear", vars(arguments))
    resolved = _resolved(arguments, "label-noise")
    steps = resolved.run_length()
    page = file_name("compare-linear", resolved.echo(), "html")
    folder = output.make(out_folder(arguments, page))
    for text in resolved.warnings:
        console.warn(text)
    from dynamics.core.interrupted import Interrupted, unfinished
    from validation.linear_comparison import compare_linear

    phases, run, stop = resolved.phases, None, ""
    with Progress(arguments.quiet) as progress:
        try:
            run = early = _run(resolved, "label-noise", progress)
            if phases is not None and math.isfinite(phases.escape_steps):  # the escape is looked at closely
                early = _run(resolved, "label-noise", progress, min(steps, math.ceil(2 * phases.escape_steps)))
        except Interrupted as caught:
            stop = f"in the {'first' if run is None else 'second'} run, {caught.at}"
            run = early = caught.result if run is None else run
        except KeyboardInterrupt:
            if run is None:
                raise
            stop = "in the second run, before its first step"
    path = folder / (unfinished(page) if stop else page)
    compared = compare_linear(resolved.task, phases, run, early, path, resolved.echo(), stop)
    if stop:
        raise Kept(f"{stop}: what was finished is kept in {compared.report}")
    rows = [[entry[name] for name in COMPARED] for entry in compared.rows]
    document = {"problem": resolved.echo(), "phases": compared.rows, "report": str(compared.report)}
    if compared.diverged:
        console.warn("SGD diverged: lower step-size or raise batch")
    for note in compared.notes:
        console.warn(note)
    lines = [resolved.headline(), "", table.render(COMPARED, rows), "", f"report: {compared.report}"]
    return Result(document, "\n".join(lines), 0 if compared.verdict_ok and not compared.diverged else 1)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
