"""Claims measured in other processes, those of one module by one process: they share data and compiled code."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from importlib.machinery import PathFinder
from itertools import groupby
from typing import Any

from theory import InputError
from validation.judge.catalogue import catalogue, modules
from validation.judge.claim import Claim, Outcome
from validation.judge.context import Context

Task = Callable[[Mapping[str, Any]], bytes]
#: Hands a task to one process, which works through what it is given in order.
Submit = Callable[[Task, Mapping[str, Any]], "Future[bytes]"]
Measured = tuple[Claim, Outcome, float]


def measure(configuration: Mapping[str, Any]) -> bytes:
    """Run one claim in this process: its outcome and the seconds it took, pickled."""
    claim = configuration["claim"] or _known()[configuration["id"]]
    before = time.perf_counter()
    outcome = claim.run(Context(configuration["preset"], configuration["seed"]))
    return pickle.dumps((outcome, time.perf_counter() - before))


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
    chosen: Sequence[Claim], context: Context, workers: Sequence[Submit], started: Callable[[Claim], None]
) -> Iterator[Measured]:
    """Claims as they finish, each with its outcome and its time in seconds.

    Args:
        workers: one function per process. started: called with each claim as it is handed over.

    Raises: `InputError` if a process died; what a claim raises.
    """
    waiting, known = _by_module(chosen), _known()
    running: dict[Future[bytes], tuple[Submit, Claim, list[Claim]]] = {}

    def next_one(worker: Submit, rest: list[Claim]) -> None:
        if not rest and waiting:
            rest = waiting.pop(0)
        if rest:
            claim, *rest = rest
            started(claim)
            own = None if known.get(claim.id) == claim else claim
            task = {"id": claim.id, "claim": own, "preset": context.preset, "seed": context.seed}
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
            yield claim, outcome, seconds


def _by_module(chosen: Sequence[Claim]) -> list[list[Claim]]:
    """Claims of each module, the module that takes longest first."""
    order = [module.__name__ for module in modules()]

    def place(claim: Claim) -> tuple[int, str]:
        name = claim.runner.__module__
        return order.index(name) if name in order else len(order), name

    return [list(group) for _, group in groupby(sorted(chosen, key=place), place)]
