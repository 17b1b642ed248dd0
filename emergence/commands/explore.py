"""``emergence explore``: a page that integrates a problem where it is read."""

import argparse
from pathlib import Path

from emergence import config, console, output
from emergence.commands.setup import check_uses, problem_of
from emergence.model import DEFAULT
from emergence.models.additive_problem import AdditiveProblem, resolve
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result

#: Options of the problem that the page knows.
USES = frozenset(
    {"activation", "dim", "teacher_width", "teacher_exponent", "teacher_weights", "normalise", "student_width"}
    | {"init_scale", "seed", "step_size", "time"}
)
NAME = "explorer.html"


def run(arguments: argparse.Namespace) -> Result:
    """Derive, print and write the page. Refuses options that it does not use, and problems that it cannot hold."""
    check_uses(arguments, "explore", USES)
    model = None if arguments.config is None else config.named_model(arguments.config)
    if model not in (None, DEFAULT):
        refuse(f"config {arguments.config}: model is {model!r}: explore opens with the model {DEFAULT}, leave it out")
    problem = problem_of(arguments)
    assert isinstance(problem, AdditiveProblem)
    path = _path(arguments.page)
    with Progress(arguments.quiet) as progress:
        progress(0.0, "deriving")
        from dynamics.core.storage import write_atomically
        from emergence.explorer.bands import stored
        from emergence.explorer.page import render, settings
        from theory.core.defaults import SAFE_FRACTION

        resolved = resolve(problem)
        chosen = settings(problem, resolved.activation)
        share = SAFE_FRACTION["overlap-flow"]
        if problem.step_size is not None and resolved.bound is not None:
            share = problem.step_size / resolved.bound[0]
        progress(0.2, "printing the derived equations")
        page = render(chosen, resolved.activation, share, stored())
        output.make(path.parent)
        write_atomically(path, lambda temporary: Path(temporary).write_text(page, encoding="utf-8"))
    for text in resolved.warnings:
        console.warn(text)
    size = path.stat().st_size
    document = {"file": str(path), "bytes": size, "problem": resolved.echo()}
    return Result(document, f"{resolved.headline()}\npage: {path} ({size / 1e6:.2f} MB), opens in any browser")


def _path(name: str | None) -> Path:
    """The file to write. Raises `InputError` for one that cannot be written."""
    path = Path(output.DEFAULT) / NAME if name is None else Path(name)
    if path.suffix.lower() not in (".html", ".htm"):
        refuse(f"--out is {name!r}: give the name of a page, such as {NAME}")
    output.check(str(path.parent), path.name, label="--out")
    return path
