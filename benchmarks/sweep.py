"""What a sweep costs besides its computations: sealing, writing and checking a cell, and finding it again."""

import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from benchmarks.row import Row
from emergence.cells import configuration
from emergence.models.additive import MODEL as ADDITIVE
from emergence.models.additive import AdditiveProblem as Problem
from emergence.store.folder import Store, seal
from emergence.store.sweeping import Cell, Sweep

NAME = "sweep"
#: Seconds per cell: the write of a small netCDF-3 file with its flush to the disk took 7 ms on two cores.
TARGETS = {"new cell": 0.05, "finished cell": 0.01}


class Ready:
    """An engine whose results are there at once: what is left is the overhead."""

    slots = 2

    def __init__(self, data: xr.Dataset) -> None:
        self._data = data

    def submit(self, _: Callable, configuration: Mapping[str, Any]) -> "Future[bytes]":
        future: Future[bytes] = Future()
        future.set_result(seal(self._data, configuration))
        return future

    def restart(self) -> None:
        raise AssertionError("nothing here can die")


def run(cells: int = 200) -> list[Row]:
    """Seconds per cell of a sweep that computes nothing (loss and eight overlaps at 200 times), new and resumed."""
    rng = np.random.default_rng(0)
    data = xr.Dataset({"loss": ("sample", rng.random(200)), "overlap": (("sample", "direction"), rng.random((200, 8)))})
    grid = [Cell({"seed": n}, configuration(ADDITIVE, "predict", Problem(seed=n))) for n in range(cells)]
    seconds = {}
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        for name in ("new cell", "finished cell"):
            began = time.perf_counter()
            outcome = Sweep(store, grid, print, lambda *_: None).run(Ready(data))
            seconds[name] = (time.perf_counter() - began) / cells
            if outcome.finished != cells:
                raise RuntimeError(f"{outcome.finished} of {cells} cells were finished")
    return [Row(NAME, f"overhead per {name}", value, "s", TARGETS[name]) for name, value in seconds.items()]
