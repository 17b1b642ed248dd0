r"""What is read off curves that are known at points: when a level is first passed, and slopes on logarithmic axes."""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.errors import InputError


def first_crossing(
    times: ArrayLike, values: ArrayLike, level: ArrayLike, *, falling: bool = False, log_time: bool = False
) -> np.ndarray:
    """First time at which curves have risen (or `falling`, fallen) to `level`, straight between the samples.

    Args:
        times: (n,) increasing. values: (..., n); nan is on neither side. level: one number, or (...).
        log_time: straight in ln t in place of t, but in t itself from a time that has no logarithm, as 0.

    Returns:
        (...,) times; times[0] where a curve starts there or beyond, inf where it never arrives. No line leads to or from an
        infinite value: the level is passed at the first record beyond it then.
    """
    sign, clock = -1.0 if falling else 1.0, np.asarray(times, dtype=float)
    heights, goal = sign * np.asarray(values, dtype=float), sign * np.asarray(level, dtype=float)
    above = heights >= goal[..., None]
    place = np.argmax(above, axis=-1)
    before = np.maximum(place - 1, 0)
    low, high = (np.take_along_axis(heights, i[..., None], axis=-1)[..., 0] for i in (before, place))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isinf(high - low), 1.0, (goal - low) / (high - low))
        start, end = clock[before], clock[place]
        between = start + share * (end - start)
        if log_time:
            between = np.where(start > 0, np.exp(np.log(start) + share * (np.log(end) - np.log(start))), between)
    found = np.where(place > 0, between, clock[0])
    return np.where(above.any(axis=-1), found, np.inf)


def crossing_time(
    times: ArrayLike, values: ArrayLike, level: float, *, falling: bool = False, log_time: bool = False
) -> float:
    """The same for one curve (n,)."""
    return float(first_crossing(times, values, level, falling=falling, log_time=log_time))


def located_crossing(
    times: np.ndarray, values: np.ndarray, level: float, curve: Callable[[float], float], **tolerance: float
) -> float:
    """The same for one curve (n,) that rises and can be evaluated anywhere; `tolerance`: of scipy's ``brentq``."""
    above = np.flatnonzero(values >= level)
    if above.size == 0 or above[0] == 0:
        return float(times[0]) if above.size else np.inf
    return passed_between(lambda time: curve(time) - level, times[above[0] - 1], times[above[0]], **tolerance)


def passed_between(excess: Callable[[float], float], before: float, now: float, **tolerance: float) -> float:
    """Where an `excess` that rises from below 0 to 0 or above between two times is 0. Where it is so flat that rounding has
    another say of an end than they who saw it pass, it is that end.
    """
    if excess(before) >= 0:
        return float(before)
    return float(now) if excess(now) <= 0 else float(scipy.optimize.brentq(excess, before, now, **tolerance))


def linear_weights(columns: np.ndarray, importance: np.ndarray | None = None) -> np.ndarray:
    """(k, n) weights W: slopes = W · y of least squares y = const + columns · slopes, columns (n, k).

    Being linear, the same estimator applies to a prediction on the same points. `importance`: (n,) weights of the squares.

    Raises `InputError` for columns that cannot be told apart.
    """
    g = np.ones(len(columns)) if importance is None else importance
    centred = columns - g @ columns / g.sum()
    if np.linalg.matrix_rank(np.sqrt(g)[:, None] * centred) < columns.shape[1]:
        count, points = columns.shape[1], len(columns)
        raise InputError(f"columns: {count} variables cannot be told apart on {points} points: vary each of them")
    weighted = g * centred.T
    return np.linalg.solve(weighted @ centred, weighted)


def log_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of ln y in ln x, both positive, shape (n,)."""
    return float(linear_weights(np.log(np.asarray(x, dtype=float))[:, None])[0] @ np.log(y))
