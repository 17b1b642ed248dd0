"""Checks that several simulators make: whether a start, and the times to record, belong to the problem."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from theory import InitialState, InputError, Teacher
from theory.core.arguments import check_positive, check_seed, check_whole


def check_run(step_size: float, seed: int, method: str | None, /, **counts: int) -> None:
    """What every run of SGD asks of its numbers. Raises `InputError`."""
    check_positive(step_size=step_size)
    check_whole(**counts)
    check_seed(seed)
    if method not in (None, "exact", "ambient"):
        raise InputError(f"method is {method!r}: use exact or ambient")


def check_start(initial: InitialState, teacher: Teacher, rows: bool = False) -> None:
    """Refuse a start of another teacher, and with `rows` one that does not fit into R^d. Raises `InputError`."""
    directions, residual = initial.on_teachers.shape[1], initial.residual.shape[1]
    if directions != teacher.width:
        raise InputError(f"initial has {directions} directions, teacher {teacher.width}: draw it for this teacher")
    if rows and teacher.dim < directions + residual:
        raise InputError(
            f"dim {teacher.dim} is below teacher width + student width = {directions + residual}: raise dim"
        )


def record_times(t_end: float, times: ArrayLike | None, default: Callable[[], np.ndarray]) -> np.ndarray:
    """Times to record (n,), increasing, within [0, t_end]. Raises `InputError` unless so, with t_end positive and finite."""
    if not (np.isfinite(t_end) and t_end > 0):
        raise InputError(f"t_end is {t_end!r}: give a positive finite time")
    grid = default() if times is None else np.asarray(times, dtype=float)
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 0 or grid[-1] > t_end * (1 + 1e-12) or np.any(np.diff(grid) <= 0):
        raise InputError(f"times must increase within [0, t_end = {t_end:g}]: got {grid.size} values")
    return np.minimum(grid, t_end)
