"""An engine of sweeps that computes in this process, and a computation that costs nothing."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import xarray as xr

from emergence.store.folder import seal


def toy(configuration: Mapping[str, Any]) -> bytes:
    """In place of a computation: the seed, and the side effects that the tests ask for by it."""
    seed = configuration["problem"]["seed"]
    return seal(xr.Dataset({"value": seed}), configuration, diverged=int(seed == 77))


class Inline:
    """An engine that computes at once, here; `task` may be anything."""

    def __init__(self, task: Callable[[Mapping[str, Any]], bytes] = toy, slots: int = 3) -> None:
        self.task, self.slots, self.restarts = task, slots, 0
        self.seen: list[int] = []

    def submit(self, _: object, configuration: Mapping[str, Any]) -> "Future[bytes]":
        self.seen.append(configuration["problem"]["seed"])
        future: Future[bytes] = Future()
        try:
            future.set_result(self.task(configuration))
        except Exception as error:
            future.set_exception(error)
        return future

    def restart(self) -> None:
        self.restarts += 1
