r"""Several exponents at once: $\ln y=\text{const}+\sum_is_i\ln x_i$ by least squares, with errors from clusters.

The coefficients are linear in ln y, $s=W\ln y$ with W the pseudo-inverse of the centred design, so that the same estimator
applies to a prediction on the same points. Their covariance is that of the jackknife over clusters (replicas, starts): the
regression is repeated without each cluster in turn; correlations within a cluster need no model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from theory import InputError
from theory.core.curves import linear_weights
from validation.statistics.resampling import jackknife_variance


@dataclass(frozen=True)
class Regression:
    """Attributes: slopes, stderr: (k,). weights: (k, n), slopes = weights · logs. clusters: their number."""

    slopes: np.ndarray
    stderr: np.ndarray
    weights: np.ndarray
    clusters: int

    def of(self, logs: ArrayLike) -> np.ndarray:
        """(k,) the same estimator on other logarithms at the same points, (n,)."""
        return np.asarray(self.weights @ np.asarray(logs, dtype=float))


def regress(columns: ArrayLike, logs: ArrayLike, clusters: ArrayLike) -> Regression:
    """Slopes of `logs` (n,) on `columns` (n, k), each the logarithm of a variable; `clusters` (n,) names the clusters.

    Raises `InputError` for shapes that do not fit, columns that cannot be told apart, or fewer than two clusters.
    """
    x, y, names = np.asarray(columns, dtype=float), np.asarray(logs, dtype=float), np.asarray(clusters)
    if x.ndim != 2 or y.shape != x.shape[:1] or names.shape != y.shape:
        raise InputError(f"columns, logs, clusters: shapes {x.shape}, {y.shape}, {names.shape} do not fit")
    distinct = np.unique(names)
    if distinct.size < 2:
        raise InputError(f"{distinct.size} cluster given: an error needs two independent ones or more")
    weights = linear_weights(x)
    left_out = np.stack([linear_weights(x[names != name]) @ y[names != name] for name in distinct])
    return Regression(weights @ y, np.sqrt(jackknife_variance(left_out)), weights, distinct.size)
