r"""Gegenbauer (ultraspherical) polynomials of the unit sphere of $R^d$, normalised to $Q_k(1)=1$.

A function of $s=\langle x,y\rangle$ on the sphere is $\sum_kf_kQ_k(s)$ with $f_k=B_k\,E[f(s)Q_k(s)]$, $s$ one coordinate of
a uniform point and $B_k=\binom{d+k-1}k-\binom{d+k-3}{k-2}$ the number of spherical harmonics of degree k. By the addition
theorem (Müller, Spherical Harmonics, 1966)
$E_x[Q_k(\langle x,y\rangle)Q_l(\langle x,y'\rangle)]=\delta_{kl}Q_k(\langle y,y'\rangle)/B_k$.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np
import scipy

from theory.core.errors import InputError

#: Points of the quadrature: exact for polynomials up to degree 399, and beyond any kernel's needs.
_POINTS = 200


def multiplicity(dim: int, degree: int) -> int:
    """$B_k$, the number of spherical harmonics of a degree in dimension d ≥ 3. Raises `InputError` for d < 3."""
    check_dim(dim)
    return comb(dim + degree - 1, degree) - (comb(dim + degree - 3, degree - 2) if degree >= 2 else 0)


def check_dim(dim: int) -> None:
    """Raise `InputError` unless d ≥ 3 (below, the sphere is a circle or two points)."""
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 3:
        raise InputError(f"dim is {dim!r}: give a whole number, 3 or more, for inputs on a sphere")


def values(points: np.ndarray, degree: int, dim: int) -> np.ndarray:
    """$Q_0(s)\\dots Q_{degree}(s)$, shape (degree + 1, *points.shape), by the three-term recurrence."""
    points = np.asarray(points, dtype=float)
    out = np.ones((degree + 1, *points.shape))
    if degree > 0:
        out[1] = points
    for k in range(1, degree):
        out[k + 1] = ((2 * k + dim - 2) * points * out[k] - k * out[k - 1]) / (k + dim - 2)
    return out


def series(points: np.ndarray, coefficients: np.ndarray, dim: int) -> np.ndarray:
    r"""$\sum_kf_kQ_k(s)$ by Clenshaw's recurrence: three arrays of the shape of `points`, whatever the degree.

    Points s in [−1, 1], where $|Q_k|\le1$: the last terms are left out which together are below rounding of $\sum_k|f_k|$.
    """
    sizes = np.abs(coefficients)
    beyond = np.cumsum(sizes[::-1])[::-1] <= np.finfo(float).eps / 8 * sizes.sum()
    coefficients = coefficients[: max(1, len(coefficients) - int(beyond.sum()))]
    later, last = np.zeros_like(points), np.zeros_like(points)
    for k in range(len(coefficients) - 1, 0, -1):
        rise = (2 * k + dim - 2) / (k + dim - 2)
        fall = (k + 1) / (k + dim - 1)
        later, last = coefficients[k] + rise * points * later - fall * last, later
    return coefficients[0] + points * later - last / (dim - 1)


@lru_cache(maxsize=64)
def _quadrature(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the law of one coordinate of a uniform point of the sphere."""
    check_dim(dim)
    nodes, weights = scipy.special.roots_gegenbauer(_POINTS, (dim - 2) / 2)
    # (The total weight under- or overflows in high dimension: the nodes are right, the law is normalised here.)
    return nodes, weights / weights.sum()


def project(function: Callable[[np.ndarray], np.ndarray], degree: int, dim: int) -> np.ndarray:
    r"""$f_0\dots f_{degree}$ of a function of s on [−1, 1]; exact for polynomials up to degree 399 − degree.

    Shape (degree + 1,). Raises `InputError` for d < 3.
    """
    nodes, weights = _quadrature(dim)
    sizes = np.array([float(multiplicity(dim, k)) for k in range(degree + 1)])
    return sizes * (values(nodes, degree, dim) @ (weights * function(nodes)))
