r"""Step sizes that change: $\eta_n$ for step $n=0,1,\dots$ Each is a function of n on numbers and on arrays alike.

Powers $\tfrac12<s\le1$ are those of Robbins and Monro 1951: $\sum\eta_n=\infty$, $\sum\eta_n^2<\infty$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError

#: Steps of a schedule that are counted, one by one, and how many of them at a time.
MOST_STEPS, _AT_ONCE = 3 * 10**7, 2**20


class Schedule(Protocol):
    """`__call__`: η of step n. `end`: steps after which it is over; None if never."""

    def __call__(self, step: Any) -> Any: ...

    @property
    def end(self) -> int | None: ...


@dataclass(frozen=True)
class Power:
    r"""$\eta_n=\eta\,(1+n/n_0)^{-s}$. Raises `InputError` unless η and $n_0$ (`after`) are positive."""

    step_size: float
    power: float
    after: float = 1.0
    end: int | None = None

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, after=self.after)

    def __call__(self, step: Any) -> Any:
        return self.step_size * (1 + step / self.after) ** -self.power


@dataclass(frozen=True)
class Linear:
    r"""$\eta_n=\eta+(\eta_1-\eta)\,n/N$ for N steps; then it is over.

    Raises `InputError` unless η is positive, the last one 0 or more, and N a whole number from 1.
    """

    step_size: float
    last: float
    end: int

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_whole(steps=self.end)
        if not self.last >= 0:
            raise InputError(f"last step size is {self.last!r}: give 0 or more")

    def __call__(self, step: Any) -> Any:
        return self.step_size + (self.last - self.step_size) * step / self.end


def check_length(schedule: "Schedule | float", steps: int) -> None:
    """Raises `InputError` for a run that is longer than its schedule."""
    end = getattr(schedule, "end", None)
    if end is not None and steps > end:
        raise InputError(
            f"steps is {steps}, but the schedule of the step size ends after {end}: run {end} steps, or extend it"
        )


#: η/B, or that of a schedule at times of the flow, what the step sizes before sum to.
Size = float | Callable[[np.ndarray], np.ndarray]


def size_along(step_size: "float | Schedule", batch: int) -> Size:
    """η/B along the flow; of a schedule that is over, its last."""
    if not callable(step_size):
        return step_size / batch

    def along(times: np.ndarray) -> np.ndarray:
        last = getattr(step_size, "end", None) or MOST_STEPS
        return np.asarray(step_size(np.minimum(steps_until(step_size, times)[0], last))) / batch

    return along


def steps_until(step_size: "float | Schedule", times: np.ndarray) -> tuple[np.ndarray, float]:
    """Steps after which the step sizes add up to these times, of their shape, and the largest size until then.

    inf for a time that is not reached within `MOST_STEPS` of a schedule, or before it is over; nan for one that is nan.
    """
    if not callable(step_size):
        return times / step_size, float(step_size)
    found = np.where(np.isnan(times), np.nan, np.inf)
    last = min(getattr(step_size, "end", None) or MOST_STEPS, MOST_STEPS)
    first, before, largest = 0, 0.0, 0.0
    while first < last and np.any(open_ := np.isinf(found) & np.isfinite(times)):
        count = min(first + 1024, _AT_ONCE, last - first)
        sizes = step_size(np.arange(first, first + count, dtype=float)) + np.zeros(count)
        sums = before + np.cumsum(sizes)
        here = open_ & (times <= sums[-1])
        at = np.searchsorted(sums, times[here])
        found[here] = first + at + 1 - (sums[at] - times[here]) / sizes[at]
        last_here = count - 1 if np.any(np.isinf(found) & np.isfinite(times)) else int(at.max())
        first, before, largest = first + count, float(sums[-1]), max(largest, float(sizes[: last_here + 1].max()))
    return found, largest
