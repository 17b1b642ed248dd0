"""``emergence simulate``: a simulation of a model for the user's problem, written to ``WHAT-DIGEST.nc``."""

import argparse
from contextlib import ExitStack

from emergence import console, pictures
from emergence.commands.setup import affordable, announce, check_uses, identified, problem_of
from emergence.files import DataFile
from emergence.interruption import kept
from emergence.model import made
from emergence.progress import Progress
from emergence.result import Result
from emergence.table import Table


def run(arguments: argparse.Namespace) -> Result:
    """Simulate and write. Status 1 if a replica diverged. Refuses options that the simulation does not use."""
    simulation = arguments.model.simulation(arguments.what)
    picture = pictures.asked(arguments.figure)
    check_uses(arguments, f"simulate {simulation.name}", simulation.uses)
    problem = problem_of(arguments)
    resolved = arguments.model.resolve(problem, simulation)
    simulation.requires(resolved)
    long = affordable(f"simulate {simulation.name}", simulation, resolved)
    file = DataFile.of(arguments, identified(arguments.model, resolved.echo()), problem)
    folder = file.make_folder()
    announce(resolved, simulation, long)
    checkpoints = None if simulation.checkpoints is None else folder / simulation.checkpoints(resolved)
    with ExitStack() as stack:
        if checkpoints is not None:
            again = "the same command with --resume goes on with them"
            stack.enter_context(kept(lambda: f"the runs so far are kept in {checkpoints}: {again}"))
        progress = stack.enter_context(Progress(arguments.quiet))
        stack.enter_context(file.keeping())
        done = simulation.shown(resolved, simulation.done(resolved, progress, checkpoints))
    path = file.write(done.data)
    if done.diverged:
        total = f" of {problem.replicas} replicas" if hasattr(problem, "replicas") else " replicas"
        console.warn(f"{done.diverged}{total} diverged: lower step-size or raise batch")
    drawn = pictures.of_data(picture, lambda: done.data)
    table = made(simulation.table(resolved, done), Table, f"the table of {simulation.name}")
    lines = [resolved.headline(), "", table.text, "", f"written: {path}", *pictures.told(drawn)]
    document = {**file.document(done.data, path), **table.document, **done.more, **drawn}
    return Result(document, "\n".join(lines), 1 if done.diverged else 0)
