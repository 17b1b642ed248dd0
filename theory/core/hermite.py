r"""Normalised probabilists' Hermite polynomials $h_j = \mathrm{He}_j/\sqrt{j!}$, exactly.

For unit vectors $u, w$ and $x\sim N(0, I)$: $E[h_i(u\cdot x)\,h_j(w\cdot x)] = \delta_{ij}\langle u, w\rangle^i$.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from math import factorial, sqrt
from typing import TypeVar

import numpy as np
import scipy
import sympy as sp

from theory.core.lowered import finite

z = sp.Symbol("z", real=True)
#: Cells of [−14, 14] at whose ends a function is looked at, so many to a stretch, and the relative difference between two
#: steps of Simpson's rule from which a stretch is rough (far above the rounding of a sum).
CELLS, _STRETCH, _FELT = 28_000, 100, 1e-9
#: Share of the terms of a sum of numbers below which what they leave is the rounding of decimals.
ROUNDING = 1e-12
_Key = TypeVar("_Key")


class TooSteepError(ValueError):
    """Most of a function is in Hermite degrees beyond those that are asked for."""


@cache
def hermite(degree: int) -> sp.Expr:
    r"""$h_j(z)$ as an exact SymPy polynomial in `z`."""
    return sp.expand(sp.hermite_prob(degree, z) / sp.sqrt(factorial(degree)))


def from_polynomial(expression: sp.Expr, rounding: float = 0.0) -> dict[int, sp.Expr]:
    r"""Exact Hermite coefficients $\hat\sigma_j = E[\sigma h_j]$ of a polynomial in `z`; zeros, and `rounding` as `summed` has
    it, are left out.

    Uses $z^n = \sum_k \frac{n!}{2^k k! (n-2k)!}\mathrm{He}_{n-2k}(z)$.
    """
    found: dict[int, list[sp.Expr]] = {}
    for (power,), coefficient in sp.Poly(expression, z).terms():
        for k in range(power // 2 + 1):
            j = power - 2 * k
            share = sp.Rational(factorial(power), 2**k * factorial(k) * factorial(j))
            found.setdefault(j, []).append(coefficient * share * sp.sqrt(factorial(j)))
    return dict(sorted(summed(found, rounding).items()))


def summed(terms: Mapping[_Key, Sequence[sp.Expr]], rounding: float = 0.0) -> dict[_Key, sp.Expr]:
    """Sums, expanded; left out are zeros, and numbers that are less than `rounding` of the sum of their terms' sizes."""
    sums = {key: sp.expand(sp.Add(*values)) for key, values in terms.items()}

    def counts(key: _Key) -> bool:
        if not rounding or len(terms[key]) == 1:
            return bool(sums[key] != 0)
        return abs(float(sums[key])) > rounding * sum(abs(float(value)) for value in terms[key])

    return {key: value for key, value in sums.items() if counts(key)}


def values(points: np.ndarray, degree: int) -> np.ndarray:
    """$h_0(z) … h_degree(z)$ at numerical points, shape (degree + 1, *points.shape), by the stable recurrence."""
    out = np.empty((degree + 1, *np.shape(points)))
    out[0] = 1.0
    if degree > 0:
        out[1] = points
    for j in range(1, degree):
        out[j + 1] = (points * out[j] - sqrt(j) * out[j - 1]) / sqrt(j + 1)
    return out


def from_function(
    function: Callable[[float], float], degree: int, of_arrays: bool = False
) -> tuple[dict[int, float], float]:
    r"""Hermite coefficients up to `degree` of a Python function, by adaptive quadrature broken at 0 and where it is rough.
    `of_arrays`: whether it takes them, too.

    Returns the coefficients and the relative truncation error
    $1 - \sum_{j\le n}\hat\sigma_j^2 / E\sigma^2$ (in $L^2$ of the Gaussian). Raises `ValueError` if the function is not finite
    on [−14, 14] or not square integrable; `TooSteepError` if these degrees hold less than half of its second moment.
    """
    call = np.vectorize(function, otypes=[float])
    breaks = [0.0, *_rough(partial(_called, function) if of_arrays else call)]
    roots = [sqrt(j) for j in range(degree + 1)]

    def integrand(point: float) -> np.ndarray:
        weight = np.exp(-point * point / 2) / np.sqrt(2 * np.pi)
        value, at = float(call(point)), float(point)
        before, last = 0.0, 1.0  # (`values`, of one number and without arrays)
        found = [value]
        for below, root in pairwise(roots):
            before, last = last, (at * last - below * before) / root
            found.append(value * last)
        return np.asarray(weight * np.array([*found, value * value]))

    # Beyond |z| = 14 the Gaussian weight is below 1e-42: nothing that fits in a double is lost.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow means not square integrable: refused below
        total, error = scipy.integrate.quad_vec(
            integrand, -14.0, 14.0, points=breaks, epsrel=1e-12, limit=300 + len(breaks)
        )
    if not np.all(np.isfinite(total)):
        raise ValueError("the function is not finite on [-14, 14]")
    # A function that is not square integrable shows at the ends of the range or as an integral that does not converge.
    ends = float(integrand(14.0)[-1] + integrand(-14.0)[-1])
    if ends > 1e-9 * total[-1] or error > 1e-6 * np.linalg.norm(total):
        raise ValueError("it is not square integrable under the Gaussian")
    second_moment = float(total[-1])
    noise = 1e-12 * np.sqrt(second_moment)
    coefficients = {j: float(value) for j, value in enumerate(total[:-1]) if abs(value) > noise}
    kept = sum(value * value for value in coefficients.values())
    if kept < 0.5 * second_moment:
        raise TooSteepError(f"those up to {degree} hold only {kept / second_moment:.2g} of its second moment")
    return coefficients, max(0.0, 1.0 - kept / second_moment) if second_moment > 0 else 0.0


def _called(function: Callable[..., object], points: np.ndarray) -> np.ndarray:
    """Of an array at once, if what comes is as many real numbers; else one by one."""
    found = function(points)
    if isinstance(found, np.ndarray) and found.shape == points.shape and found.dtype == float:
        return found
    return np.asarray(np.vectorize(function, otypes=[float])(points))


def _rough(call: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    """Ends of the stretches in which Simpson's rule for the second moment feels its step, and the sharpest bend in each.

    Adaptive quadrature halves only where its first few points differ from a polynomial: it passes by a bump between them.
    What is narrower than a cell of the grid, and is not met by it, stays unseen.
    """
    points = np.linspace(-14.0, 14.0, CELLS + 1)
    with np.errstate(all="ignore"):
        weighted = call(points) ** 2 * np.exp(-(points**2) / 2)
    weighted = np.where(np.isfinite(weighted), weighted, 0.0)
    rows = np.append(weighted[:-1].reshape(-1, _STRETCH), weighted[_STRETCH::_STRETCH, None], axis=1)
    feels = np.abs(scipy.integrate.simpson(rows, axis=1) - 2 * scipy.integrate.simpson(rows[:, ::2], axis=1))
    ends = points[::_STRETCH]
    rough = np.flatnonzero(feels > _FELT * weighted.sum())
    bend = ends[rough] + (1 + np.abs(np.diff(rows[rough], 2)).argmax(axis=1)) * (points[1] - points[0])
    return np.unique(np.concatenate([ends[rough], bend, ends[rough + 1]])).tolist()


def slope_truncation(
    function: Callable[[float], float], coefficients: Mapping[int, float], of_arrays: bool = False
) -> float:
    r"""$1-\sum_jj\hat\sigma_j^2/E\sigma'^2$ over the degrees given: 0 within about 1e-7, and nearly 1 where σ jumps.

    $E\sigma'^2$ by the slopes of secants over cells of 0.001, in which a jump cannot hide.
    """
    points, width = np.linspace(-14.0, 14.0, CELLS + 1, retstep=True)
    steps = np.diff(finite(partial(_called, function) if of_arrays else np.vectorize(function, otypes=[float]))(points))
    middle = points[1:] - width / 2
    total = float(np.sum(steps**2 * np.exp(-(middle**2) / 2)) / (width * np.sqrt(2 * np.pi)))
    kept = sum(j * value * value for j, value in coefficients.items())
    return min(1.0, max(0.0, 1.0 - kept / total)) if total > 0 else 0.0
