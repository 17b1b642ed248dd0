"""Stop-watches: best of several, compilation apart, and rivals timed in turn."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import jax

Name = TypeVar("Name")


def once(call: Callable[[], Any]) -> float:
    """Seconds of one call, until its arrays are computed (JAX returns before they are)."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def cores_used(call: Callable[[], Any]) -> float:
    """Processor time of this process over wall time: how many cores one call really had."""
    before = time.process_time()
    wall = once(call)
    return (time.process_time() - before) / wall


def best_of(calls: Mapping[Name, Callable[[], Any]], repeats: int) -> dict[Name, float]:
    """Shortest time of each call in seconds.

    The calls take turns, so that a busy spell of the machine falls on all of them, and ratios stay fair.
    """
    shortest = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            shortest[name] = min(shortest[name], once(call))
    return shortest


def repetitions(call: Callable[[int], Any], seconds: float) -> int:
    """A count (a power of two) for which ``call(count)`` lasts about `seconds`; the first call warms up."""
    once(partial(call, 1))
    count = 1
    while count < 2**30 and once(partial(call, count)) < seconds / 2:
        count *= 2
    return count
