"""What commands that take a problem have in common."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from emergence import config, console, models, output
from emergence.arguments import problem_flags
from emergence.model import Comparer, Model, Resolved, Simulation
from emergence.options import Problem, once, refuse_unused
from emergence.store.folder import check


def problem_of(arguments: argparse.Namespace) -> Problem:
    """The problem of flags and configuration file. Raises `InputError`."""
    return config.build(arguments.model, problem_flags(arguments), arguments.config)


def check_uses(
    arguments: argparse.Namespace,
    command: str,
    uses: frozenset[str],
    prefix: str = "--",
    given: Iterable[str] | None = None,
) -> None:
    """Refuse an option, among those given by hand, that would change nothing; the line names the commands that use it.

    A configuration file describes a problem, and may say more of it than one command uses.
    """
    for name in problem_flags(arguments) if given is None else given:
        if name not in uses:
            refuse_unused(name, prefix, command, users(name, arguments.model))


def users(name: str, model: Model) -> list[str]:
    """Every command that uses an option, the model's own first."""
    rest = [one for one in models.built_in().values() if one is not model]
    return list(dict.fromkeys(user for one in (model, *rest) for user in one.users(name)))


def identified(model: Model, problem: Mapping[str, Any]) -> dict[str, Any]:
    """The problem as it names files: simulations of two files of models may be called alike, and a file may change."""
    return {**problem, "model": models.reference(model)} if model.origin else dict(problem)


def told(problem: Problem, document: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document whose full `problem` can be given again (--config); what follows from it is `decided`."""
    if not isinstance(full := document.get("problem"), Mapping):
        return dict(document)
    given, decided = once(problem, full)
    return {**document, "problem": given, "decided": decided}


def store_of(arguments: argparse.Namespace, default: str) -> Path:
    """The folder of a store, checked but not made; `default`: its name in the folder of output. Raises `InputError`."""
    beside = str(Path(output.DEFAULT if arguments.out is None else arguments.out) / default)
    folder = beside if arguments.store is None else arguments.store
    output.check(folder, label="store")
    return check(folder)


def announce(resolved: Resolved, simulation: Simulation | None = None, long: tuple[str, ...] = ()) -> None:
    """Print the problem's warnings; called when nothing can be refused any more. `long`: unless the simulation says more."""
    own = () if simulation is None else simulation.warn(resolved)
    for text in (*resolved.warnings, *(own or long)):
        console.warn(text)


def affordable(what: str, run: Simulation | Comparer, resolved: Resolved) -> tuple[str, ...]:
    """Lines about a run that takes long. Raises `InputError` for one that does not fit into memory."""
    if run.cost is None:
        return ()
    cost = run.cost(resolved)
    cost.check(what, run.uses)
    return cost.warnings(what, run.uses)
