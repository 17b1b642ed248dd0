"""``emergence sweep``: a grid of problems, one file per finished cell, resumed where it was left."""

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from emergence import config, console, models, output, pictures, table
from emergence.arguments import problem_flags
from emergence.cells import configuration, problem_of
from emergence.commands.setup import check_uses, store_of
from emergence.interruption import kept
from emergence.model import Model, Simulation
from emergence.options import options, written
from emergence.progress import Progress
from emergence.refusal import is_refusal, refuse
from emergence.result import Result
from emergence.store import grid, merging
from emergence.store.engine import Cluster, Workers, usable_cores
from emergence.store.folder import Store, pace
from emergence.store.sweeping import Cell, Outcome, Sweep, label
from emergence.values import Text, Whole, shown

DEFAULT_STORE = "sweep"
#: So many cells are listed to people; the JSON document lists all.
_LISTED = 200
#: So many that are left out, or failed, are named at the end.
_NAMED = 20
#: So many cells, spread over the grid, are asked how long they take: each costs a prediction.
_ASKED = 16

#: The swept values of a cell that cannot be, and why.
Refused = tuple[dict[str, Any], str]


def run(arguments: argparse.Namespace) -> Result:
    """Compute the cells that are missing. Status 1 if a cell was refused or failed, or a simulation in it diverged.

    Refuses --workers with --scheduler.
    """
    workers = usable_cores() if arguments.workers is None else Whole().check("--workers", arguments.workers)
    if arguments.workers is not None and arguments.scheduler is not None:
        refuse("--workers is given with --scheduler: drop one (a cluster has workers of its own)")
    simulation, picture = arguments.model.simulation(arguments.what), pictures.asked(arguments.figure)
    keep = _kept(arguments.keep, simulation)
    axes = _axes(arguments, simulation)
    everything, refused = _cells(arguments, simulation, axes, keep)
    cells = everything[grid.part(arguments.shard)]
    folder = store_of(arguments, DEFAULT_STORE)
    missing = [cell for cell in cells if not (folder / cell.name).exists()]
    _check_texts(arguments.model, missing)
    _check_model(arguments, simulation, axes)
    plan = merging.plan(everything[0].configuration, axes, [values for values, _ in refused])
    for values, reason in refused[:_NAMED]:
        console.warn(f"cell {label(values)} is left out: {reason}")
    if len(refused) > _NAMED:
        console.warn(f"{len(refused) - _NAMED} more cells are left out: --json names all")
    without = {"refused": [{"cell": values, "reason": reason} for values, reason in refused]}
    if arguments.list:
        _forewarn(arguments.model, simulation, missing)
        return _listed(arguments, axes, cells, folder, without)
    with contextlib.ExitStack() as stack:
        # Whatever can be refused is refused before the store is touched: a scheduler that is not there, too.
        engine = stack.enter_context(_engine(arguments.scheduler, min(workers, len(missing)))) if missing else None
        output.make(folder, "store")
        stack.enter_context(
            kept(lambda: f"the cells so far are kept in {folder}: the same command goes on with the others")
        )
        store, progress = stack.enter_context(Store(folder)), stack.enter_context(Progress(arguments.quiet))
        store.record(merging.plan_name(plan), plan)
        store.sweep_up()
        _forewarn(arguments.model, simulation, missing)
        sweep = Sweep(store, cells, console.warn, progress)
        if sweep.unfinished:  # or damaged
            count = min(workers, len(sweep.unfinished))
            sweep.run(stack.enter_context(_engine(arguments.scheduler, count)) if engine is None else engine)
    outcome = sweep.outcome
    if outcome.diverged:
        console.warn(f"a simulation diverged in {len(outcome.diverged)} cells: lower step-size or raise batch")
    document = {
        "what": arguments.what,
        "store": str(folder),
        "problem": plan["problem"],
        "over": {name: list(values) for name, values in axes.items()},
        "shard": arguments.shard,
        "cells": len(cells),
        "computed": len(outcome.computed),
        "found": len(outcome.found),
        "damaged": [_entry(cell) for cell in outcome.damaged],
        "diverged": [_entry(cell) for cell in outcome.diverged],
        "failed": [_entry(cell) | {"reason": reason} for cell, reason in outcome.failed],
        **without,
    }
    drawn = pictures.of_data(picture, lambda: merging.of_plan(folder, plan), partial(_over, axes))
    text = "\n".join([_text(arguments, axes, folder, outcome, len(refused)), *pictures.told(drawn)])
    return Result(document | drawn, text, 1 if refused or outcome.failed or outcome.diverged else 0)


def _over(axes: grid.Axes, data: Any) -> str:
    """The first swept option that curves can run along: with several numbers, and no seed."""
    numbers = (name for name, values in axes.items() if len(values) > 1 and isinstance(values[0], int | float))
    return next((name for name in numbers if name != "seed" and name in data.dims), "")


def _listed(
    arguments: argparse.Namespace, axes: grid.Axes, cells: list[Cell], folder: Path, without: dict[str, Any]
) -> Result:
    """The cells, which of them are finished, and how long the others may take; nothing is computed or written."""
    finished = [(folder / cell.name).exists() for cell in cells]
    each = pace(folder / cell.name for cell, there in zip(cells, finished, strict=True) if there)
    left = finished.count(False)
    document = {
        "what": arguments.what,
        "store": str(folder),
        "over": {name: list(values) for name, values in axes.items()},
        "shard": arguments.shard,
        "cells": [_entry(cell) | {"finished": there} for cell, there in zip(cells, finished, strict=True)],
        **without,
        "left": left,
        "seconds_a_cell": each,
        "seconds_left": None if each is None else left * each,
    }
    numbered = zip(range(1, len(cells) + 1), cells, finished, strict=True)
    rows = [(number, cell.label, "finished" if there else "") for number, cell, there in numbered]
    lines = [table.render(("number", "cell", "state"), rows[:_LISTED])]
    lines += [f"… {len(rows) - _LISTED} more: --json lists all"] * (len(rows) > _LISTED)
    if each is None:
        told = "how long they take is known once two are finished"
    else:
        told = f"about {table.duration(left * each)} at the pace of those finished, one in {table.duration(each)}"
    lines += ["", f"{len(cells)} cells, {left} to compute: {told}" if left else f"{len(cells)} cells, all finished"]
    return Result(document, "\n".join([*lines, f"store: {folder}"]), 0)


def _kept(names: list[str] | None, simulation: Simulation) -> tuple[str, ...] | None:
    for name in names or ():
        if name not in simulation.variables:
            refuse(f"--keep names {shown(name)}: use some of {', '.join(simulation.variables)}")
    return None if names is None else tuple(dict.fromkeys(names))


def _axes(arguments: argparse.Namespace, simulation: Simulation) -> grid.Axes:
    """Swept options of flags and file; one that is also given as a flag is refused."""
    table = {} if arguments.config is None else config.sweep(arguments.config)
    axes = grid.axes(arguments.model.problem, arguments.over or (), table, str(arguments.config))
    check_uses(arguments, f"sweep {simulation.name}", simulation.uses)
    check_uses(arguments, f"sweep {simulation.name}", simulation.uses, "--over ", axes)
    for name in problem_flags(arguments):
        if name in axes:
            flag = written(name)
            refuse(f"--{flag} is given, and {flag} is swept: drop one")
    return axes


def _cells(
    arguments: argparse.Namespace, simulation: Simulation, axes: grid.Axes, keep: tuple[str, ...] | None
) -> tuple[list[Cell], list[Refused]]:
    """The cells of the grid with their problems checked, and those whose values contradict one another.

    Raises `InputError` for a value that no cell can have, naming the first cell that has it: it is a mistake.
    """
    model = arguments.model
    # A swept option sets aside the same things in the file as a flag does.
    first = problem_flags(arguments) | next(iter(grid.points(axes)))
    base = config.values(model, first, arguments.config)
    cells, refused = list[Cell](), list[Refused]()
    for point in grid.points(axes):
        try:
            cells.append(Cell(point, configuration(model, simulation.name, problem_of(model, base | point), keep)))
        except Exception as error:
            if not is_refusal(error):
                raise
            refused.append((point, str(error)))
    possible = {item for cell in cells for item in cell.values.items()}
    for point, reason in refused:
        if not possible.issuperset(point.items()):
            refuse(f"cell {label(point)}: {reason}")
    return cells, refused


def _check_model(arguments: argparse.Namespace, simulation: Simulation, axes: grid.Axes) -> None:
    """Refuses a swept activation of which `predict` by itself speaks in another model's numbers."""
    if arguments.named or simulation.name != "predict":
        return
    for activation in axes.get("activation", ()):
        own = models.recognised(str(activation)) or models.default()
        if own.name != arguments.model.name:
            refuse(
                f"--over activation: {shown(activation)} is predicted by the model {own.name}, the sweep by "
                f"{arguments.model.name}: sweep it by itself, with --activation, or name one with --model"
            )


@contextlib.contextmanager
def _named(point: dict[str, Any]) -> Iterator[None]:
    """What is refused within is so of the cell of these swept values, if there are any."""
    try:
        yield
    except Exception as error:
        if point and is_refusal(error):
            refuse(f"cell {label(point)}: {error}")
        raise


def _check_texts(model: Model, cells: list[Cell]) -> None:
    """Refuse a text that is not understood before anything is written. Free if there is nothing to compute."""
    names = [name for name, one in options(model.problem).items() if isinstance(one.metadata["kind"], Text)]
    first = {tuple(cell.configuration["problem"][name] for name in names): cell for cell in reversed(cells)}
    for cell in reversed(first.values()):
        with _named({name: value for name, value in cell.values.items() if name in names}):
            problem_of(model, cell.configuration["problem"]).read()


def _forewarn(model: Model, simulation: Simulation, cells: list[Cell]) -> None:
    """Say of the longest cell, among some of the grid, what ``simulate`` says of a run that does not end soon."""
    if not simulation.forewarns:
        return
    last = len(cells) - 1
    places = (
        {round(last * place / (_ASKED - 1)) for place in range(_ASKED)} if len(cells) > _ASKED else range(len(cells))
    )
    found = [(*_long(model, simulation, cells[place]), cells[place].label) for place in sorted(places)]
    long = [one for one in found if one[1]]
    if long:
        _, texts, name = max(long, key=lambda one: one[0])
        share = f"; {len(long)} of {len(found)} cells that were asked are long" if len(found) > 1 else ""
        console.warn(f"cell {name}: {'; '.join(texts)}{share}")


def _long(model: Model, simulation: Simulation, cell: Cell) -> tuple[float, tuple[str, ...]]:
    """Operations of a cell, where they are known, and lines about its length; a cell that cannot be computed has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            resolved = model.resolve(problem_of(model, cell.configuration["problem"]), simulation)
            simulation.requires(resolved)
        except Exception as error:
            if is_refusal(error):  # it fails when it is computed, and says so
                return 0.0, ()
            raise
    cost = None if simulation.cost is None else simulation.cost(resolved)
    general = () if cost is None else cost.warnings(simulation.name, simulation.uses)
    return (0.0 if cost is None else cost.operations), simulation.warn(resolved) or general


def _engine(scheduler: str | None, workers: int) -> AbstractContextManager[Workers | Cluster]:
    return Workers(workers) if scheduler is None else Cluster(scheduler)


def _entry(cell: Cell) -> dict[str, object]:
    return {"cell": cell.values, "file": cell.name}


def _text(arguments: argparse.Namespace, axes: grid.Axes, folder: Path, outcome: Outcome, refused: int) -> str:
    over = ", ".join(f"{written(name)} ({len(values)} values)" for name, values in axes.items())
    total = outcome.finished + len(outcome.failed)
    shard = "" if arguments.shard is None else f", shard {arguments.shard}"
    lines = [
        f"{arguments.what} over {over}{shard}: {outcome.finished} of {total} cells finished "
        f"({len(outcome.computed)} computed, {len(outcome.found)} found, {len(outcome.damaged)} damaged before)"
    ]
    lines += [f"cells left out, as their values contradict one another: {refused}"] * bool(refused)
    lines += [f"failed: {cell.label}: {reason}" for cell, reason in outcome.failed[:_NAMED]]
    return "\n".join([*lines, f"store: {folder}"])
