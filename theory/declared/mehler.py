r"""Mehler's series of two functions at any variances of their fields, with what bends of their slopes make of its tail.

With the coefficients of `theory.declared.expansion` and the cosine c of two fields (derived)

$$K=\sum_na_n(q_{11})a_n(q_{22})c^n,\qquad
\partial_{q_{11}}K=\frac1{2q_{11}}\sum_n\sqrt{(n+1)(n+2)}\,a_{n+2}(q_{11})a_n(q_{22})c^n.$$

Near c = 1 the tail is that of the slope's jumps κ at places a, $s=a/\sqrt q$: so much of it is closed (Plackett 1954,
Biometrika 41, 351),

$$E(x-s)_+(y-t)_+=\sum_{n<2}\hat s_n\hat t_nc^n+\int_0^{\arcsin c}(c-\sin\theta)g\,d\theta,\qquad
g=\frac1{2\pi}\exp\Big(-\frac{s^2+t^2-2st\sin\theta}{2\cos^2\theta}\Big).$$
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

from theory.core.hermite import z
from theory.core.quadrature import gauss_legendre
from theory.declared.expansion import ABOVE, DEGREES, DENSITY, Expansion, Rows
from theory.declared.population import LowerMany

#: K and its derivatives by the first variance and by the covariance, as numbers.
VALUE, BY_VARIANCE, BY_COVARIANCE = sp.symbols("k k_1 k_2", real=True)
#: Points of Plackett's integral.
ANGLES = 24


def kernel(
    lower: LowerMany, functions: tuple[Expansion, ...], one: Rows, two: Rows, c: Any, first: bool
) -> dict[sp.Symbol, Any]:
    """K of two functions and its derivatives by the covariance and, if `first`, by the first variance, in the shape of the
    cosines c (…).
    """
    n = np.arange(DEGREES + 1)
    late = n >= 2
    products = one.whole[..., :-2] * two.whole[..., :-2] - late * (one.bent[..., :-2] * two.bent[..., :-2])
    found = {VALUE: products, BY_COVARIANCE: products * n}
    if first:
        factor = ((n + 1.0) * (n + 2)) ** 0.5
        found[BY_VARIANCE] = factor * (
            one.whole[..., 2:] * two.whole[..., :-2] - one.bent[..., 2:] * two.bent[..., :-2]
        )
    if isinstance(products, np.ndarray) and products.ndim == 1:  # (to the last degree that counts)
        last = max(int(np.flatnonzero(x).max(initial=0)) for x in found.values())
        found = {name: x[: last + 1] for name, x in found.items()}
    numbers = _sums(found, c)
    for place, jump in functions[0].bends:
        for other, by in functions[1].bends:
            s, t = (place / one.size, other / two.size) if place or other else (0.0, 0.0)
            for name, value in of_bends(lower, s, t, c, first).items():
                numbers[name] = numbers[name] + jump * by * one.size * two.size * value
    numbers[BY_COVARIANCE] = numbers[BY_COVARIANCE] / (one.size * two.size)
    if first:
        numbers[BY_VARIANCE] = numbers[BY_VARIANCE] / (2 * one.size**2)
    return numbers


def _sums(products: Mapping[sp.Symbol, Any], c: Any) -> dict[sp.Symbol, Any]:
    """Of coefficients (…, n) of powers of c from 0, those of the slope from -1."""
    powers, found = _powers(c, max(x.shape[-1] for x in products.values())), {}
    for name, x in products.items():
        coefficients, at = (x[..., 1:], powers[..., :-1]) if name is BY_COVARIANCE else (x, powers)
        found[name] = at @ coefficients if x.ndim == 1 else (at * coefficients).sum(-1)
    return found


def _powers(c: Any, count: int) -> Any:
    """As many, from 0, on a last axis; by two short lists of products."""
    xp, many = c.__array_namespace__(), 16
    few = -(-count // many)
    low, step = _list(c, many, xp)
    high, _ = _list(step, few, xp)
    every = high[..., :, None] * low[..., None, :]
    return every.reshape(*c.shape, many * few)[..., :count]


def _list(x: Any, count: int, xp: Any) -> tuple[Any, Any]:
    found = [xp.ones_like(x)]
    for _ in range(count):
        found.append(found[-1] * x)
    return xp.stack(found[:-1], -1), found[-1]


def of_bends(lower: LowerMany, s: Any, t: Any, c: Any, first: bool) -> dict[sp.Symbol, Any]:
    r"""Plackett's integral, its derivative by c, and if `first` $\varphi(s)\,E(cs+\sqrt{1-c^2}y-t)_+$, in the shape of c.

    Args:
        s, t: places of two bends, numbers or in the shape of c.
    """
    xp = c.__array_namespace__()
    angle = xp.asin(c)
    if type(s) is type(t) is float and s == t == 0:  # (that of |z|, closed)
        found = {VALUE: (c * angle - 1 + xp.cos(angle)) / (2 * np.pi), BY_COVARIANCE: angle / (2 * np.pi)}
    else:
        places, weights = gauss_legendre(0.0, 1.0, ANGLES)
        inner, outer = xp.sin(angle[..., None] * places), c[..., None]
        s_, t_ = (x[..., None] if np.ndim(x) else x for x in (s, t))
        # (As a sum of terms that do not cancel at parallel rows, nor at opposite ones.)
        side = xp.where(inner < 0, -1.0, 1.0)
        exponent = (s_ - side * t_) ** 2 / (2 * (1 - inner**2)) + side * s_ * t_ / (1 + side * inner)
        g = xp.exp(-exponent) * weights * angle[..., None] / (2 * np.pi)
        found = {VALUE: ((outer - inner) * g).sum(-1), BY_COVARIANCE: g.sum(-1)}
    if first:
        apart = xp.sqrt(xp.clip(1 - c**2, 1e-300, None))
        density, above, before = lower((DENSITY, ABOVE, DENSITY.subs(z, _s)), (z, _s))((t - c * s) / apart, s)
        found[BY_VARIANCE] = before * (apart * density + (c * s - t) * above)
    return found


_s = sp.Symbol("s", real=True)
