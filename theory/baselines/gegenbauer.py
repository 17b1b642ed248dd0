r"""Gegenbauer (ultraspherical) polynomials of the unit sphere of $R^d$, normalised to $Q_k(1)=1$.

A function of $s=\langle x,y\rangle$ on the sphere is $\sum_kf_kQ_k(s)$ with $f_k=B_k\,E[f(s)Q_k(s)]$, $s$ one coordinate of
a uniform point and $B_k=\binom{d+k-1}k-\binom{d+k-3}{k-2}$ the number of spherical harmonics of degree k. By the addition
theorem (Müller, Spherical Harmonics, 1966)
$E_x[Q_k(\langle x,y\rangle)Q_l(\langle x,y'\rangle)]=\delta_{kl}Q_k(\langle y,y'\rangle)/B_k$.
"""

from collections.abc import Callable
from math import comb

import numpy as np

from theory.core.errors import InputError

#: Levels of the continued fraction; points on the half circle, and the end of their parameter: z is ±1 there, to rounding.
_TERMS, _POINTS, _REACH = 200, 301, 3.4


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


def _neighbours(degree: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    r"""$u_k$ and $v_k$ of $s\,Q_k=u_kQ_{k+1}+v_kQ_{k-1}$, k = 0 … degree: positive, with the sum 1."""
    check_dim(dim)
    k = np.arange(degree + 1.0)
    return (k + dim - 2) / (2 * k + dim - 2), k / (2 * k + dim - 2)


def gauss(count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines s of two inputs and their chances, each of shape (count,): means of polynomials of degree 2 count − 1 are exact.

    Raises `InputError` for d < 3.
    """
    rise, fall = _neighbours(count, dim)
    beside = np.sqrt(rise[: count - 1] * fall[1:count])
    points, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return points, vectors[0] ** 2


def hermite(degree: int, dim: int) -> np.ndarray:
    r"""$h_j(\sqrt d\,s)=\sum_kH_{jk}Q_k(s)$, H of shape (degree + 1, degree + 1), by the recurrence of $h_j$.

    Rounding is of the order of $10^{-15}\sqrt{B_k}$, that of a function whose mean square is 1. Raises `InputError` for d < 3.
    """
    rise, fall = _neighbours(degree, dim)
    out = np.eye(1 + degree)
    out[1:] = 0.0
    for j in range(degree):
        times = np.append(0.0, (rise * out[j])[:-1]) + np.append((fall * out[j])[1:], 0.0)
        out[j + 1] = (np.sqrt(dim) * times - np.sqrt(j) * out[j - 1]) / np.sqrt(j + 1)
    return out


def project(function: Callable[[np.ndarray], np.ndarray], degree: int, dim: int) -> np.ndarray:
    r"""$f_0\dots f_{degree}$ of $f=\sum_jc_js^j$, $\sum_j|c_j|<\infty$, f given for complex |s| ≤ 1: (degree + 1,).

    The mean of $f\,Q_k$ is lost in its rounding where $B_k$ is large. Cauchy's integral over the unit circle is not:
    $$f_k=\frac1{2\pi i}\oint f(z)R_k(z)\,dz,\qquad\frac1{z-s}=\sum_kR_k(z)Q_k(s),$$
    where $R_k/R_{k-1}=u_{k-1}/(z-v_{k+1}R_{k+1}/R_k)$ is a continued fraction. For real $c_j$ and any d the error is of the
    order of $10^{-14}\sum_j|c_j|$, and what `_TERMS` levels leave out, as Gauss quadrature with as many points does: below
    $10^{-11}$ for kernels of activations with a kink. Raises `InputError` for d < 3.
    """
    z, around = _half_circle()
    rise, fall = _neighbours(_TERMS, dim)
    ratios = np.zeros((_TERMS + 1, z.size), dtype=complex)
    for k in range(_TERMS - 1, -1, -1):
        ratios[k] = (rise[k - 1] if k else 1.0) / (z - fall[k + 1] * ratios[k + 1])
    return np.asarray((np.cumprod(ratios[: degree + 1], axis=0) @ (function(z) * around)).real)


def _half_circle() -> tuple[np.ndarray, np.ndarray]:
    r"""z on the upper half of the unit circle and $dz/\pi i$, by the tanh-sinh rule: f may have branch points at ±1."""
    t = np.linspace(-_REACH, _REACH, _POINTS)
    # Shares of the half circle up to its nearer end: differences from ±1 keep their digits.
    short = 1 / (1 + np.exp(np.pi * np.sinh(np.abs(t))))
    z = np.where(t < 0, np.exp(1j * np.pi * short), -np.exp(-1j * np.pi * short))
    return z, z * short * (1 - short) * np.pi * np.cosh(t) * (t[1] - t[0])
