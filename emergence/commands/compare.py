"""``emergence compare``: prediction, gradient flow and SGD side by side for the user's own problem."""

import argparse

from emergence import config, console, output, table, uses
from emergence.commands import linear
from emergence.commands.setup import SGD_BUDGET, announce, headline, out_folder, resolved_problem
from emergence.files import file_name, reporting
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result

COLUMNS = ("direction", "predicted", "low", "high", "flow", "sgd_mean", "sgd_stderr", "verdict")


def run(arguments: argparse.Namespace) -> Result:
    """Compare and write a report. Status 1 if a verdict is not as expected or SGD diverged.

    Needs an information exponent of 3 or more, below which there is no emergence time to compare with, or a multiple of
    z² − 1, whose flow has a closed form.
    """
    if config.model(arguments.model, arguments.config) == "linear":
        return linear.compare(arguments)
    uses.check("compare", vars(arguments))
    resolved = resolved_problem(arguments)
    quadratic = resolved.activation.is_quadratic
    if quadratic and resolved.problem.speed_factor not in (None, 1):
        refuse(f"speed-factor is {resolved.problem.speed_factor:g}: compare runs the student with 1: leave it out")
    if not quadratic:
        resolved.activation.require_exponent(3, "compare (a sharp emergence time)")
    step_size, _, steps = resolved.run_length()
    page = file_name("compare", resolved.echo(), "html")
    folder = output.make(out_folder(arguments, page))
    announce(resolved)
    import validation

    problem = resolved.problem
    with Progress(arguments.quiet) as progress, reporting():
        compared = (validation.compare_quadratic if quadratic else validation.compare)(
            resolved.activation,
            resolved.teacher,
            resolved.initial,
            step_size=step_size,
            steps=steps,
            batch=problem.batch,
            replicas=problem.replicas,
            seed=problem.seed,
            method=problem.method,
            out=folder,
            page=page,
            # More than this waits for an explicit --steps or --time.
            budget=None if problem.steps or problem.time else SGD_BUDGET,
            problem=resolved.echo(),
            progress=progress,
        )
    entries = [{name: entry.get(name) for name in (*COLUMNS, "reason")} for entry in compared.directions]
    if compared.diverged:
        console.warn("SGD diverged: lower step-size or raise batch")
    for note in compared.notes:
        console.warn(note)
    document = {"problem": resolved.echo(), "directions": entries, "report": str(compared.report)}
    rows = [[entry[name] for name in COLUMNS] for entry in entries]
    lines = [headline(resolved), "", table.render(COLUMNS, rows), "", f"report: {compared.report}"]
    return Result(document, "\n".join(lines), 0 if compared.verdict_ok and not compared.diverged else 1)
