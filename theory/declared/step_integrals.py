r"""The Gaussian integrals of a step, closed, as functions of arrays of covariances.

A step needs $E\sigma\tau$ of two fields, and of four $E\sigma'\sigma'\tau\tau'$ or, if neurons' outputs matter beside their
slopes, $E\sigma\sigma\tau\tau'$; all others are derivatives of these by the covariance (Price's theorem),
$\partial E F/\partial C_{ab}=E\,\partial_a\partial_bF$ for a ≠ b and half of it for a = b. Polynomials by the diagram formula;
erf of scales of its own by Saad and Solla 1995, where four outputs have no closed form. `theory.steps.slope_integrals` has
them for one function and one scale.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.polynomial_table import PolynomialTable
from theory.steps.slope_integrals import MAX_DEGREE, as_erf, covariance_symbol, erf_four, erf_two, wick_expectation

#: Pairs of vertices, a ≤ b, of four and of two: the order of covariances, and of bends.
FOUR = [(x, y) for x in range(4) for y in range(x, 4)]
TWO = [(0, 0), (0, 1), (1, 1)]
#: From covariances, in the order of `FOUR` or `TWO`, to integrals.
Table = Callable[..., list[np.ndarray]]
#: In `covariance_symbol`s; polynomials as such, since expressions of thousands of terms are slow.
Integral: TypeAlias = sp.Expr | sp.Poly


@lru_cache(maxsize=128)
def of_two(activation: Activation, link: Activation) -> Table:
    r"""$E\sigma\tau$, $E\sigma''\tau$, $E\sigma'\tau'$, and the bends of $E\sigma'\tau'$ of two Gaussians.

    Raises `InputError` for what is neither polynomial up to degree 6 nor erf, or a mixture of them.
    """
    two = _closed(activation, link)[0]
    slopes = _price(two, 0, 1)
    return _function([two, _price(two, 0, 0), slopes, *[_price(slopes, *pair) for pair in TWO]], TWO)


@lru_cache(maxsize=128)
def of_slopes(activation: Activation, one: Activation, other: Activation) -> Table:
    r"""$E\sigma'\sigma'\tau\tau'$ and its bends. Raises `InputError` as `of_two`."""
    four = _closed(activation, one, other)[1]
    return _function([four, *[_price(four, *pair) for pair in FOUR]], FOUR)


@lru_cache(maxsize=128)
def of_outputs(activation: Activation, one: Activation, other: Activation) -> Table:
    r"""$E\sigma\sigma\tau\tau'$, and of $E\sigma\sigma'\tau\tau'$ the mean slope at each of the four fields.

    Raises `InputError` for what is no polynomial up to degree 6.
    """
    functions = (activation, one, other)
    if not all(_is_short(x) for x in functions):
        raise InputError(
            f"moments of a step in which outputs matter are closed for polynomials up to degree {MAX_DEGREE}, not for "
            f"{_names(functions)}: use such an activation and link, or simulate the step"
        )
    values = _wick([sp.expand(x.function) for x in (activation, activation, one, other)])
    return _function([values, *[_price(values, 1, vertex) for vertex in range(4)]], FOUR)


def _price(integral: Integral, first: int, second: int) -> Integral:
    """E ∂∂ of what is integrated, by vertices from 0."""
    return integral.diff(covariance_symbol(first, second)) * (2 if first == second else 1)


def _is_short(function: Activation) -> bool:
    return function.is_polynomial and function.degree <= MAX_DEGREE


def _names(functions: tuple[Activation, ...]) -> str:
    return ", ".join(sorted({x.name for x in functions}))


@lru_cache(maxsize=128)
def _closed(activation: Activation, one: Activation, other: Activation | None = None) -> tuple[Integral, Integral]:
    """Eστ of σ and the first link, and, with another one, Eσ'σ'ττ'; of polynomials, or of s·erf(bz) of scales of their own."""
    links = (one,) if other is None else (one, other)
    functions = (activation, activation, *links)
    erfs = [form for x in functions if (form := as_erf(x)) is not None]
    if len(erfs) == len(functions):
        return _of_erfs(erfs)
    if erfs or not all(_is_short(x) for x in functions):
        raise InputError(
            f"moments of a step are closed for polynomials up to degree {MAX_DEGREE}, or for erf's alone, not for "
            f"{_names(functions)}: use such an activation and link, or simulate the step"
        )
    values = [sp.expand(x.function) for x in functions]
    slopes = [sp.diff(values[0], z)] * 2
    return _wick([values[0], values[2]]), _wick([*slopes, *values[2:]]) if other is not None else sp.Integer(0)


def _wick(functions: list[sp.Expr]) -> sp.Poly:
    pairs = FOUR if len(functions) == 4 else TWO
    return sp.Poly(wick_expectation(functions), *[covariance_symbol(*pair) for pair in pairs])


def _of_erfs(forms: list[tuple[sp.Expr, sp.Expr]]) -> tuple[Integral, Integral]:
    """Of scales and slopes of σ, σ and one or two links."""
    steep = [sp.sqrt(2) * slope for _, slope in forms]

    def stretched(x: sp.Expr, ends: tuple[int, ...]) -> sp.Expr:
        pairs = [(c, d) for c in range(len(ends)) for d in range(c, len(ends))]
        known = {covariance_symbol(c, d): steep[ends[c]] * steep[ends[d]] * covariance_symbol(c, d) for c, d in pairs}
        return x.subs(known, simultaneous=True)

    pair = forms[0][0] * forms[2][0] * stretched(erf_two(), (0, 2))
    if len(forms) == 3:
        return pair, sp.Integer(0)
    size = sp.Mul(*[scale for scale, _ in forms])
    return pair, size * steep[0] * steep[1] * stretched(erf_four(), (0, 1, 2, 3))


def _function(expressions: list[Integral], pairs: list[tuple[int, int]]) -> Table:
    polynomials = [x for x in expressions if isinstance(x, sp.Poly)]
    if polynomials:
        return PolynomialTable.of(polynomials)
    names = [covariance_symbol(*pair) for pair in pairs]
    compiled = sp.lambdify(names, [sp.N(x, 17) for x in expressions], modules="numpy", cse=True)
    return lambda *values: [x + 0.0 * sum(values) for x in compiled(*values)]
