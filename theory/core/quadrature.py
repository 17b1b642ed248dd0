"""Numerical integrals: expectations over standard Gaussians, and composite Gauss–Legendre."""

from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

#: Points and weights.
Rule = tuple[np.ndarray, np.ndarray]


@lru_cache(maxsize=64)
def gauss_hermite(count: int) -> Rule:
    r"""Points and weights (count,) of $E\,f(x)$, $x\sim N(0,1)$: weights sum to 1, exact up to degree 2·count − 1."""
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    weights /= weights.sum()
    points.flags.writeable = weights.flags.writeable = False
    return points, weights


def gauss_legendre(low: ArrayLike, high: ArrayLike, count: int) -> Rule:
    r"""Points and weights (…, count) of $\int_{low}^{high}f$ for each of the panels (…), exact up to degree 2·count − 1."""
    points, weights = _unit_legendre(count)
    start, end = (np.asarray(x, dtype=float)[..., None] for x in (low, high))
    half = (end - start) / 2
    return (start + end) / 2 + half * points, half * weights


_unit_legendre = lru_cache(maxsize=64)(np.polynomial.legendre.leggauss)


def chi_squared(freedom: float, count: int) -> Rule:
    r"""Points and weights (count,) of $E\,f(X)$, $X\sim\chi^2$ with `freedom` ≥ 0: exact up to degree 2·count − 1.

    From the recurrence of the Laguerre polynomials (Golub and Welsch 1969).
    """
    # (SciPy's `roots_genlaguerre` gives no numbers from a freedom of 1000 on, and takes none of 0.)
    k = np.arange(count)
    beside = np.sqrt(k[1:] * (k[1:] + freedom / 2 - 1))
    points, vectors = scipy.linalg.eigh_tridiagonal(2 * k + freedom / 2, beside)
    return 2 * np.maximum(points, 0.0), vectors[0] ** 2


def of_measure(places: np.ndarray, density: np.ndarray, count: int) -> Rule:
    r"""Points and weights (count,) of $\sum_ip_if(x_i)$, $p_i\ge0$ at the places (n,): exact up to degree 2·count − 1.

    From the Jacobi matrix of the measure's polynomials, those of Legendre made orthonormal under it (Golub and Welsch 1969).
    """
    middle, half = (places.max() + places.min()) / 2, np.ptp(places) / 2
    scaled = (places - middle) / half
    basis = np.linalg.qr(np.sqrt(density)[:, None] * np.polynomial.legendre.legvander(scaled, count - 1))[0]
    points, vectors = np.linalg.eigh(basis.T @ (scaled[:, None] * basis))
    return middle + half * points, density.sum() * vectors[0] ** 2


def product_rule(*axes: Rule) -> Rule:
    """Points (n, axes) and weights (n,) of the product of one-dimensional rules, the last axis running fastest."""
    points, weights = (np.meshgrid(*parts, indexing="ij") for parts in zip(*axes, strict=True))
    return np.stack([x.ravel() for x in points], axis=1), np.prod(weights, axis=0).ravel()
