"""Riccati flows from random subspaces, replica by replica, and what is read off them."""

from functools import lru_cache

import numpy as np

from dynamics import riccati_flow
from theory.quadratic.model import emergence_times
from theory.quadratic.subspace import draw_columns
from validation.experiments.loss_draws import weights_of
from validation.judge.context import Context


def power_law(width: int, decay: float) -> np.ndarray:
    """Normalised spectrum ã_j ∝ j^(−β), shape (M*,)."""
    a = weights_of(decay, width)
    return a / np.linalg.norm(a)


@lru_cache(maxsize=64)
def _curves(
    context: Context, spectrum: tuple[float, ...], width: int, dim: int, times: tuple[float, ...], replicas: int
) -> tuple[np.ndarray, np.ndarray]:
    a = np.array(spectrum)
    span = f"{a[0] / a[-1]:.6g} {times[0]:.6g} {times[-1]:.6g}"
    rng = context.rng("Riccati flows", len(spectrum), width, dim, len(times), replicas, span)
    found = [riccati_flow(a, draw_columns(a.size, width, dim, rng)).curves(np.array(times)) for _ in range(replicas)]
    return np.stack([x for x, _ in found]), np.stack([x for _, x in found])


def risks(context: Context, spectrum: np.ndarray, width: int, dim: int, times: np.ndarray, replicas: int) -> np.ndarray:
    """R_opt of independent starts at Riccati times, shape (replicas, T)."""
    return _curves(context, tuple(spectrum.tolist()), width, dim, _rounded(times), replicas)[1]


def diagonals(
    context: Context, spectrum: np.ndarray, width: int, dim: int, times: np.ndarray, replicas: int
) -> np.ndarray:
    """G_jj of independent starts, shape (replicas, T, M*)."""
    return _curves(context, tuple(spectrum.tolist()), width, dim, _rounded(times), replicas)[0]


def _rounded(times: np.ndarray) -> tuple[float, ...]:
    """Times that differ by rounding only, as one flow's on two clocks, are one simulation."""
    return tuple(float(f"{time:.12g}") for time in times)


def between(spectrum: np.ndarray, width: int, dim: int, first: int, last: int, count: int) -> np.ndarray:
    """Geometric times from T_first to T_last (directions counted from 1)."""
    moment = emergence_times(spectrum, dim, width)
    return np.geomspace(moment[first - 1], moment[last - 1], count)
