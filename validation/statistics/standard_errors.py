"""Standard errors from independent replicas, blocks or bootstrap over replicas."""

from collections.abc import Callable

import numpy as np

from validation.statistics.resampling import drawn_replicas, spread_of


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over the first axis and its standard error. Needs two independent values or more. Raises `ValueError` for fewer."""
    values = np.asarray(values, dtype=float)
    if values.shape[0] < 2:
        raise ValueError("a standard error needs two independent values or more")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.shape[0]))


def bootstrap_error(
    values: np.ndarray, statistic: Callable[[np.ndarray], float], rng: np.random.Generator, resamples: int = 400
) -> float:
    """Standard error of a statistic by resampling replicas (first axis) with replacement; `spread_of` what it gave."""
    drawn = drawn_replicas(rng, len(values), resamples)
    return spread_of(np.array([statistic(values[replicas]) for replicas in drawn]))


def share_error(share: float, count: int) -> float:
    """Binomial standard error of a share; at 0 or 1 that of one count in `count`."""
    return float(np.sqrt(max(share * (1 - share), (1 - 1 / count) / count) / count))
