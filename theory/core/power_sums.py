r"""Sums of powers $\sum_{n<p\le N}p^{-s}$ by the Euler–Maclaurin formula, with a bound on what is left out.

$$\sum_{p>n}p^{-s}=\frac{n^{1-s}}{s-1}-\frac{n^{-s}}2+\sum_{k=1}^K\frac{B_{2k}}{(2k)!}(s)_{2k-1}n^{-s-2k+1}+R_K$$

(the Hurwitz zeta function $\zeta(s,n+1)$). All derivatives of $p^{-s}$ alternate in sign, so $R_K$ has the sign of the first
term left out and is smaller than it. Finite sums are differences; the same expansion holds for every $s>0$ once the
leading term is written $\int_n^Nx^{-s}dx$.
"""

from functools import cache

import mpmath
import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.errors import InputError

s, n = sp.symbols("s n", positive=True)
#: Bernoulli terms; and the index at which the expansion begins at the least, what is before being added up term by term.
_TERMS, _LEAST = 6, 16


def _term(k: int) -> sp.Expr:
    """The k-th Bernoulli term of the tail."""
    return sp.bernoulli(2 * k) / sp.factorial(2 * k) * sp.expand_func(sp.rf(s, 2 * k - 1)) * n ** (1 - s - 2 * k)


@cache
def boundary(terms: int = _TERMS) -> sp.Expr:
    """What stands in the tail beside the integral: −n^(−s)/2 and `terms` Bernoulli terms."""
    return -(n**-s) / 2 + sum((_term(k) for k in range(1, terms + 1)), sp.Integer(0))


@cache
def expansion(terms: int = _TERMS) -> sp.Expr:
    r"""$\sum_{p>n}p^{-s}$ for s > 1, up to a remainder smaller than `remainder_bound`."""
    return n ** (1 - s) / (s - 1) + boundary(terms)


@cache
def remainder_bound(terms: int = _TERMS) -> sp.Expr:
    """Size of the first term left out, an upper bound of the remainder."""
    return sp.Abs(_term(terms + 1))


@cache
def _boundary_function():  # type: ignore[no-untyped-def]
    return sp.lambdify((s, n), boundary(), "numpy")


def integral(power: float, start: ArrayLike, end: ArrayLike) -> np.ndarray:
    r"""$\int_{start}^{end}x^{-s}dx$ for any s, also near 1; `end` may be inf for s > 1.

    `start` and `end` broadcast, any shapes. Raises `InputError` for an infinite `end` at s ≤ 1.
    """
    first, last = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    if np.any(np.isinf(last)):
        require_convergence(power)
    finite = np.where(np.isinf(last), first, last)
    length = np.log1p((finite - first) / first)
    bounded = first ** (1 - power) * length * scipy.special.exprel((1 - power) * length)
    return np.where(np.isinf(last), first ** (1 - power) / (power - 1) if power > 1 else np.inf, bounded)


def _begin(power: float) -> int:
    """Where the term left out is below 1e-15 of the sum: 2(2π)⁻¹⁴((s + 6)/n)¹⁴ of it, to leading order."""
    return max(_LEAST, int(np.ceil(2 * (power + 6))))


def power_sum(power: float, after: ArrayLike, last: ArrayLike = np.inf) -> np.ndarray:
    r"""$\sum_{after<p\le last}p^{-s}$, relative error about 1e-14; 0 where `last` ≤ `after`.

    Args:
        power: s > 0.
        after, last: whole numbers ≥ 0, broadcast against each other; `last` may be inf for s > 1.

    Raises: `InputError` if the sum diverges.

    Shape: that of `after` and `last` broadcast.
    """
    low, high = np.broadcast_arrays(np.asarray(after, dtype=float), np.asarray(last, dtype=float))
    if np.any(np.isinf(high)):
        require_convergence(power)
    empty, low = ~(low < high), np.where(np.isinf(low), 0.0, low)
    first = _begin(power)
    # From the small end, so that a difference keeps the precision of its own terms.
    rest = np.append(np.cumsum(np.arange(first, 0, -1, dtype=float) ** -power)[::-1], 0.0)
    explicit = rest[np.minimum(low, first).astype(int)] - rest[np.minimum(high, first).astype(int)]
    start, end = np.maximum(low, first), np.maximum(high, first)
    finite = np.where(np.isinf(end), first, end)
    at_end = np.where(np.isinf(end), 0.0, _boundary_function()(power, finite))
    beyond = integral(power, start, end) + _boundary_function()(power, start) - at_end
    return np.where(empty, 0.0, explicit + np.where(end > start, beyond, 0.0))


def require_convergence(power: float) -> None:
    """Raises `InputError` unless the infinite sum of p^(−s) converges: s > 1."""
    if not power > 1:
        raise InputError(f"power is {power:g}: the infinite sum of p^(−s) needs s above 1 (decay above one half)")


def expansion_excess(shown: sp.Expr, terms: int) -> sp.Expr:
    """By how much the remainder of an expansion with so many terms exceeds its bound or has the wrong sign: 0 if neither.

    At s = 8/5, n = 20, against the zeta function by mpmath, to 60 digits.
    """
    at = {s: sp.Rational(8, 5), n: sp.Integer(20)}
    with mpmath.workdps(60):
        exact = sp.Float(str(mpmath.zeta(mpmath.mpf(8) / 5, 21)), 55)
    left = exact - sp.N(shown.subs(at), 55)
    share = left / sp.N(_term(terms + 1).subs(at), 55)
    return sp.Max(0, share - 1) + sp.Max(0, -share)
