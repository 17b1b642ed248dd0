"""Numbers read off what replicas gave, with their errors."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from validation.statistics.exponents import slope_weights
from validation.statistics.standard_errors import bootstrap_error

Reading = Callable[[np.ndarray], float]


def deviation(values: np.ndarray) -> float:
    """Standard deviation of a sample."""
    return float(np.std(values, ddof=1))


def read_mean(
    rows: np.ndarray, reading: Reading, rng: np.random.Generator, resamples: int = 400
) -> tuple[float, float]:
    """A reading of the mean over replicas (first axis), and its bootstrap error over replicas."""
    return reading(rows.mean(axis=0)), bootstrap_error(rows, lambda x: reading(x.mean(axis=0)), rng, resamples)


def carried_slope(
    x: ArrayLike, values: ArrayLike, error: ArrayLike = 0.0, slack: ArrayLike = 0.0
) -> tuple[float, float, float]:
    """Slope of ln values in ln x, and what relative standard errors and relative slacks of the values make of it.

    Errors are independent and add in squares, slacks in the worst way.
    """
    weights = slope_weights(x)
    stderr = float(np.sqrt(weights**2 @ np.broadcast_to(error, weights.shape) ** 2))
    return float(weights @ np.log(values)), stderr, float(np.abs(weights) @ np.broadcast_to(slack, weights.shape))
