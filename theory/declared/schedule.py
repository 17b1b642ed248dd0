r"""Step sizes that change: $\eta_n$ for step $n=0,1,\dots$ Each is a function of n on numbers and on arrays alike.

Powers $\tfrac12<s\le1$ are those of Robbins and Monro 1951: $\sum\eta_n=\infty$, $\sum\eta_n^2<\infty$.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError

#: Steps of a schedule that are counted, one by one; how many of them at a time, at most; and between sums that are kept.
MOST_STEPS, _AT_ONCE, _GROUP = 3 * 10**7, 2**20, 2**10


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
        return np.broadcast_to(step_size(np.minimum(steps_until(step_size, times)[0], last)), times.shape) / batch

    return along


class _Sums:
    """What the sizes of a schedule add up to at the end of each group of steps, and the largest until then; more as asked."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.last = min(getattr(schedule, "end", None) or MOST_STEPS, MOST_STEPS)
        self.ends, self.largest = np.zeros(1), np.zeros(1)

    def sizes(self, groups: np.ndarray) -> np.ndarray:
        """Of the steps of these groups, (n, `_GROUP`); 0 after the last."""
        steps = groups[:, None] * _GROUP + np.arange(_GROUP, dtype=float)
        return np.where(steps < self.last, self.schedule(np.minimum(steps, self.last - 1)), 0.0)

    def reach(self, time: float) -> None:
        """Until the sizes add up to a time, or there are no more."""
        while self.ends[-1] < time and (known := len(self.ends) - 1) * _GROUP < self.last:
            sizes = self.sizes(known + np.arange(min(known + 1, _AT_ONCE // _GROUP)))
            self.ends = np.append(self.ends, self.ends[-1] + np.cumsum(sizes.sum(axis=1)))
            self.largest = np.append(self.largest, np.maximum.accumulate(sizes.max(axis=1)).clip(self.largest[-1]))


@lru_cache(maxsize=8)
def _sums(schedule: Schedule) -> _Sums:
    return _Sums(schedule)


def steps_until(step_size: "float | Schedule", times: np.ndarray) -> tuple[np.ndarray, float]:
    """Steps after which the step sizes add up to these times, of their shape, and the largest size until then.

    inf for a time that is not reached within `MOST_STEPS` of a schedule, or before it is over; nan for one that is nan.
    """
    if not callable(step_size):
        return times / step_size, float(step_size)
    sums = _sums(step_size) if isinstance(step_size, Hashable) else _Sums(step_size)
    found, asked = np.where(np.isnan(times), np.nan, np.inf), np.isfinite(times)
    if not asked.any():
        return found, 0.0
    sums.reach(float(times[asked].max()))
    here = asked & (times <= sums.ends[-1])
    groups = np.maximum(np.searchsorted(sums.ends, times[here]) - 1, 0)
    kinds, which = np.unique(groups, return_inverse=True)
    sizes = sums.sizes(kinds)
    reached = sums.ends[kinds][:, None] + np.cumsum(sizes, axis=1)
    last = np.minimum(_GROUP, sums.last - kinds * _GROUP) - 1
    # (A sum of sums may be a rounding above the same sizes one by one.)
    at = np.array(
        [min(np.searchsorted(reached[k], t), last[k]) for k, t in zip(which, times[here], strict=True)], dtype=int
    )
    # (A schedule may begin with a pause: at a time of 0 no step has been taken.)
    over = np.divide(
        reached[which, at] - times[here], sizes[which, at], out=np.ones(len(at)), where=sizes[which, at] > 0
    )
    found[here] = groups * _GROUP + at + 1 - over
    if not here[asked].all():
        return found, float(sums.largest[-1])
    k = len(kinds) - 1
    return found, float(max(sums.largest[kinds[k]], sizes[k, : at[which == k].max() + 1].max()))
