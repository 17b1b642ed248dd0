"""Claims measured in other processes, those of one module by one process: they share data and compiled code."""

import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from importlib import import_module
from importlib.machinery import PathFinder
from itertools import groupby
from typing import Any

from dynamics.core.clock import stopwatch
from theory import InputError
from validation.judge.catalogue import catalogue, claims_of, modules
from validation.judge.claim import Claim
from validation.judge.context import Context
from validation.judge.kept import Last, Measured, drawn
from validation.judge.selection import natural

Task = Callable[[Mapping[str, Any]], bytes]
#: Hands a task to one process, which works through what it is given in order.
Submit = Callable[[Task, Mapping[str, Any]], "Future[bytes]"]
#: Seconds taken for a module that says nothing of them: those that take longer than some ten do.
_USUAL = 5.0


def measure(configuration: Mapping[str, Any]) -> bytes:
    """Run one claim in this process: its outcome, the figures drawn, and the seconds it took, pickled."""
    # (The claim's own module only: all of them take seconds to import.)
    there = () if configuration["claim"] else claims_of(import_module(configuration["module"]))
    claim = configuration["claim"] or next(one for one in there if one.id == configuration["id"])
    seconds = stopwatch()
    outcome = drawn(claim.run(Context(configuration["preset"], configuration["seed"])))
    return pickle.dumps((outcome, seconds()))


def portable(claim: Claim) -> bool:
    """Whether another process finds the claim's runner: in the catalogue, or by importing it (not ``__main__``, nor a file
    that was run by its path).
    """
    if _known().get(claim.id) == claim:
        return True
    if PathFinder.find_spec(claim.runner.__module__.partition(".")[0]) is None:
        return False
    try:
        return b"__main__" not in pickle.dumps(claim)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _known() -> dict[str, Claim]:
    return {claim.id: claim for claim in catalogue()}


def measured_apart(
    waiting: Sequence[Sequence[Claim]], context: Context, workers: Sequence[Submit], started: Callable[[Claim], None]
) -> Iterator[Measured]:
    """Claims as they finish, each with its outcome and its time in seconds.

    Args:
        waiting: claims of each module, in the order of `in_order`: the first process goes through them from the beginning,
            so that there are verdicts soon, the others from the end, where the long ones are.
        workers: one function per process. started: called with each claim as it is handed over.

    Raises: `InputError` if a process died; what a claim raises.
    """
    left, known = [list(group) for group in waiting], _known()
    running: dict[Future[bytes], tuple[Submit, Claim, list[Claim]]] = {}

    def next_one(worker: Submit, rest: list[Claim]) -> None:
        if not rest and left:
            rest = left.pop(0 if worker is workers[0] else -1)
        if rest:
            claim, *rest = rest
            started(claim)
            own = None if known.get(claim.id) == claim else claim
            where = {"id": claim.id, "module": claim.runner.__module__, "claim": own}
            task = {**where, "preset": context.preset, "seed": context.seed}
            running[worker(measure, task)] = (worker, claim, rest)

    for worker in workers:
        next_one(worker, [])
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            worker, claim, rest = running.pop(future)
            try:
                outcome, seconds = pickle.loads(future.result())
            except BrokenExecutor:
                raise InputError(
                    f"claim {claim.id}: its process died (out of memory?): run it again with --workers 1"
                ) from None
            next_one(worker, rest)
            yield Measured(claim, outcome, seconds)


def in_order(chosen: Sequence[Claim], last: Mapping[str, Last]) -> list[list[Claim]]:
    """Claims of each module, in the order in which they should run: surprises of the last run first, then the quick ones.

    `last`: claim id → how it ended the last time; where a claim was never run, its module's ``COST`` says how long it takes.
    """
    cost = {module.__name__: float(getattr(module, "COST", _USUAL)) for module in modules()}

    def surprising(claim: Claim) -> bool:
        return claim.id in last and not last[claim.id].as_expected

    def place(group: Sequence[Claim]) -> tuple[bool, float, list[str | int]]:
        known = [last[claim.id].seconds for claim in group if claim.id in last]
        spent = sum(x for x in known if math.isfinite(x)) if len(known) == len(group) else 0.0
        return (
            not any(map(surprising, group)),
            spent or cost.get(group[0].runner.__module__, _USUAL),
            natural(group[0].id),
        )

    def first(claim: Claim) -> tuple[bool, list[str | int]]:
        return not surprising(claim), natural(claim.id)

    by_module = sorted(chosen, key=lambda claim: claim.runner.__module__)
    groups = [sorted(group, key=first) for _, group in groupby(by_module, key=lambda claim: claim.runner.__module__)]
    return sorted(groups, key=place)
