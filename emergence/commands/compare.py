"""``emergence compare``: prediction and simulation side by side for the user's own problem."""

import argparse
from collections.abc import Mapping
from typing import Any

from emergence import config, console, output, pictures, table
from emergence.commands.setup import affordable, announce, check_uses, identified, problem_of, told
from emergence.files import file_name, reporting
from emergence.model import Model
from emergence.options import options, written
from emergence.progress import Progress
from emergence.result import Result


def run(arguments: argparse.Namespace) -> Result:
    """Compare and write a report. Status 1 if a verdict is not as expected or a simulation diverged.

    Refuses options that the comparison does not use.
    """
    model, picture = arguments.model, pictures.asked(arguments.figure)
    check_uses(arguments, f"compare{model.flag}", model.compare.uses)
    asked = problem_of(arguments)
    resolved = model.resolve(asked, None)
    long = affordable(f"compare{model.flag}", model.compare, resolved)
    case = model.compare.case(resolved)
    problem = identified(model, {"model": model.name} | dict(case.settings or resolved.echo()))
    page = file_name("compare", problem, "html")
    folder = output.make(output.asked(arguments.out, page))
    announce(resolved, long=long)
    import validation

    with Progress(arguments.quiet) as progress, reporting():
        compared = validation.compare(case, out=folder, page=page, problem=_as_flags(model, problem), progress=progress)
    if compared.diverged:
        console.warn("a simulation diverged: lower step-size or raise batch")
    drawn = pictures.of_figures(picture, [figure for _, figure in compared.figures] if picture else [])
    document = {
        **told(asked, {"problem": problem}),
        case.unit: compared.rows,
        "notes": compared.notes,
        "report": str(compared.report),
        **drawn,
    }
    shown = [[row.get(name) for name in case.columns] for row in compared.rows]
    notes = ["", *compared.notes] if compared.notes else []
    about = [text for text in (case.caption, case.rule) if text]
    lines = [
        resolved.headline(),
        "",
        table.render(case.columns, shown),
        *about,
        *notes,
        "",
        f"report: {compared.report}",
    ]
    return Result(
        document, "\n".join([*lines, *pictures.told(drawn)]), 0 if compared.verdict_ok and not compared.diverged else 1
    )


def _as_flags(model: Model, problem: Mapping[str, Any]) -> dict[str, Any]:
    """The problem with its options as they are given on a command line."""
    known = {config.MODEL, *options(model.problem)}
    return {f"--{written(name)}" if name in known else name: value for name, value in problem.items()}
