"""``emergence`` with a quick computation in every cell, for tests that kill it. Run as a script; imported by workers."""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from emergence.cells import configuration
from emergence.cli import main
from emergence.commands import sweep
from emergence.models.additive import MODEL as ADDITIVE
from emergence.models.additive import AdditiveProblem as Problem
from emergence.store import sweeping
from emergence.store.folder import Store, seal
from emergence.store.sweeping import Cell, Outcome, Sweep


def compute(configuration: Mapping[str, Any]) -> bytes:
    """A cell with nothing but its seed in it, after a while."""
    import xarray as xr

    time.sleep(0.03)
    return seal(xr.Dataset({"value": configuration["problem"]["seed"]}), configuration)


def cells(count: int) -> list[Cell]:
    """A sweep over the seed."""
    return [Cell({"seed": n}, configuration(ADDITIVE, "predict", Problem(seed=n))) for n in range(count)]


class Threads:
    """An engine in this process that counts what it was asked for."""

    def __init__(self) -> None:
        self.slots, self.asked = 2, 0
        self._pool = ThreadPoolExecutor(self.slots)

    def submit(self, _: Callable, configuration: Mapping[str, Any]) -> "Future[bytes]":
        self.asked += 1
        return self._pool.submit(compute, configuration)

    def restart(self) -> None:
        raise AssertionError("threads do not die")


def share(store: Store, count: int) -> tuple[int, Outcome]:
    """Run a sweep here; how many cells this process computed, and the outcome."""
    engine = Threads()
    outcome = Sweep(store, cells(count), print, lambda *_: None).run(engine)
    return engine.asked, outcome


if __name__ == "__main__":
    sweeping.compute = compute
    sweep._check_texts = lambda *_: None  # spares the import of SymPy
    sys.exit(main())
