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
from theory.declared.expansion import ABOVE, DENSITY, Expansion, Rows
from theory.declared.population import LowerMany

#: K and its derivatives by the first variance and by the covariance, as numbers.
VALUE, BY_VARIANCE, BY_COVARIANCE = sp.symbols("k k_1 k_2", real=True)
#: Points of Plackett's integral; powers in a row, about the root of the degrees.
ANGLES, _MANY = 24, 16


def kernel(
    lower: LowerMany, functions: tuple[Expansion, ...], one: Rows, two: Rows, c: Any, first: bool
) -> dict[sp.Symbol, Any]:
    """K of two functions and its derivatives by the covariance and, if `first`, by the first variance, in the shape of the
    cosines c (…).
    """
    if isinstance(one.whole, np.ndarray) and isinstance(two.whole, np.ndarray):  # to the last degree that counts
        last = max(_last(one), _last(two)) + 2
        one, two = (Rows(x.size, x.whole[..., :last], x.bent[..., :last]) for x in (one, two))
    known, bent = _weights(one.whole, first), _weights(one.bent, first, late=2)
    if one.whole.ndim == two.whole.ndim == 1:
        products = {name: x * two.whole[:-2] - bent[name] * two.bent[:-2] for name, x in known.items()}
        products[BY_COVARIANCE] = products[BY_COVARIANCE][1:]
        numbers = {name: _polynomial(x, c) for name, x in products.items()}
    else:
        numbers = _sums(known, two.whole, c)
        if functions[0].bends and functions[1].bends:
            numbers = {name: numbers[name] - x for name, x in _sums(bent, two.bent, c).items()}
    for place, jump in functions[0].bends:
        for other, by in functions[1].bends:
            s, t = (place / one.size, other / two.size) if place or other else (0.0, 0.0)
            for name, value in of_bends(lower, s, t, c, first).items():
                numbers[name] = numbers[name] + jump * by * one.size * two.size * value
    numbers[BY_COVARIANCE] = numbers[BY_COVARIANCE] / (one.size * two.size)
    if first:
        numbers[BY_VARIANCE] = numbers[BY_VARIANCE] / (2 * one.size**2)
    return numbers


def _last(rows: Rows) -> int:
    """How many degrees there are up to the last in which bends are not all of a function, and at least those of a line."""
    return (
        int(np.flatnonzero((rows.whole != rows.bent).reshape(-1, rows.whole.shape[-1]).any(axis=0)).max(initial=1)) + 1
    )


def _weights(one: Any, first: bool, late: int = 0) -> dict[sp.Symbol, Any]:
    """What multiplies another function's coefficients, but for factors: (…, n); in K none below degree `late`."""
    n = np.arange(one.shape[-1] - 2)
    found = {VALUE: (n >= late) * one[..., :-2], BY_COVARIANCE: (n >= late) * n * one[..., :-2]}
    return found | {BY_VARIANCE: ((n + 1.0) * (n + 2)) ** 0.5 * one[..., 2:]} if first else found


def _sums(weights: Mapping[sp.Symbol, Any], two: Any, c: Any) -> dict[sp.Symbol, Any]:
    """Over the degrees, in the shape of c; coefficients two (…, n)."""
    # (One degree apart, so that the slope's powers serve all.)
    sides = c.__array_namespace__().stack([x[..., 1:] for x in weights.values()], -1)
    sides = sides if sides.ndim == 2 else sides[..., 0, :, :]
    sums = (_powers(c, sides.shape[-2]) * two[..., 1:-2]) @ sides
    found = {name: sums[..., k] for k, name in enumerate(weights)}
    return {
        name: x if name is BY_COVARIANCE else weights[name][..., 0] * two[..., 0] + c * x for name, x in found.items()
    }


def _powers(c: Any, count: int) -> Any:
    """As many, from 0, on a last axis; by two short lists of products."""
    xp, few = c.__array_namespace__(), -(-count // _MANY)
    low, step = _list(c, _MANY)
    high, _ = _list(step, few)
    every = xp.stack(high, -1)[..., :, None] * xp.stack(low, -1)[..., None, :]
    return every.reshape(*c.shape, few * _MANY)[..., :count]


def _polynomial(coefficients: Any, c: Any) -> Any:
    """With coefficients (n,) of powers from 0, in the shape of c: a matrix product for the low ones, and Horner's rule."""
    xp = c.__array_namespace__()
    low, step = _list(c, _MANY)
    padded = xp.concat([coefficients, xp.zeros(-len(coefficients) % _MANY)])
    first, *rest = xp.tensordot(padded.reshape(-1, _MANY), xp.stack(low), axes=1)[::-1]
    for part in rest:
        first = first * step + part
    return first


def _list(x: Any, count: int) -> tuple[list[Any], Any]:
    """Powers from 0, so many, and the next."""
    found = [x.__array_namespace__().ones_like(x)]
    for _ in range(count):
        found.append(found[-1] * x)
    return found[:-1], found[-1]


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
