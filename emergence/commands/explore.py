"""``emergence explore``: a page that integrates a problem where it is read."""

import argparse
from pathlib import Path

from emergence import config, console, output
from emergence.arguments import problem_flags
from emergence.commands.setup import check_uses, problem_of, told
from emergence.model import DEFAULT
from emergence.models.additive_problem import EXPLORED, AdditiveProblem, Resolved, resolve
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result

NAME = "explorer.html"


def run(arguments: argparse.Namespace) -> Result:
    """Derive, print and write the page, or a loop. Refuses options that it does not use, and problems that it cannot hold."""
    check_uses(arguments, "explore", EXPLORED)
    model = None if arguments.config is None else config.named_model(arguments.config)
    if model not in (None, DEFAULT):
        refuse(f"config {arguments.config}: model is {model!r}: explore opens with the model {DEFAULT}, leave it out")
    problem = problem_of(arguments)
    assert isinstance(problem, AdditiveProblem)
    if arguments.loop is not None:
        return _loop(arguments, problem)
    path = _path(arguments.page)
    with Progress(arguments.quiet) as progress:
        progress(0.0, "deriving")
        resolved = resolve(problem)
        page = _page(resolved, "replicas" in problem_flags(arguments), progress)
        from dynamics.core.storage import write_atomically

        output.make(path.parent)
        write_atomically(path, lambda temporary: Path(temporary).write_text(page, encoding="utf-8"))
    return _told(resolved, (path,), f"page: {path} ({path.stat().st_size / 1e6:.2f} MB), opens in any browser")


def _page(resolved: Resolved, simulated: bool, progress: Progress) -> str:
    """The page's text; `simulated`: with exact SGD of this very problem."""
    from emergence.explorer.bands import band, stored
    from emergence.explorer.page import render, settings
    from theory.core.defaults import SAFE_FRACTION

    chosen = settings(
        resolved.problem, resolved.activation
    )  # refuses what a page cannot hold before anything is simulated
    share = SAFE_FRACTION["overlap-flow"]
    if resolved.step_size is not None and resolved.bound is not None:
        share = resolved.step_size / resolved.bound[0]
    bands = stored()
    if simulated:
        bands = [band(resolved, "this problem", progress), *bands]
    progress(0.9, "printing the derived equations")
    return render(chosen, resolved.activation, share, bands, resolved.validity)


def _loop(arguments: argparse.Namespace, problem: AdditiveProblem) -> Result:
    """The staircase as a film or as frames."""
    from emergence.explorer import loop

    if arguments.page is not None:
        refuse("--out is given with --loop: a loop is no page, leave one of them out")
    path = loop.check(arguments.loop)
    output.check(str(path.parent), path.name, label="--loop")
    resolved = resolve(problem)
    output.make(path.parent)
    with Progress(arguments.quiet) as progress:
        files = loop.write(path, resolved, progress)
    more = "" if len(files) == 1 else f" … {files[-1].name} ({len(files)} frames)"
    return _told(resolved, files, f"loop: {files[0]}{more}")


def _told(resolved: Resolved, files: tuple[Path, ...], text: str) -> Result:
    for warning in resolved.warnings:
        console.warn(warning)
    document = told(resolved.problem, {"files": [str(x) for x in files], "problem": resolved.echo()})
    return Result(document, f"{resolved.headline()}\n{text}")


def _path(name: str | None) -> Path:
    """The file to write. Raises `InputError` for one that cannot be written."""
    path = Path(output.DEFAULT) / NAME if name is None else Path(name)
    if path.suffix.lower() not in (".html", ".htm"):
        refuse(f"--out is {name!r}: give the name of a page, such as {NAME}")
    output.check(str(path.parent), path.name, label="--out")
    return path
