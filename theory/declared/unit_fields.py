r"""The Gaussian integrals of fields of unit variance, which are functions of the cosine alone.

In isotropic inputs, and along directions of unit length, a 2-homogeneous neuron $\rho\,\sigma(h/\sqrt\rho)$ has
$K=\rho_1\rho_2k(c)$ and $N=\rho_1l(c)$ with Mehler's series (derived)

$$k(c)=\sum_n\hat\sigma_n^2c^n,\qquad l(c)=\sum_n\hat\sigma_n\hat\sigma^*_nc^n,\qquad\hat\sigma_n=E\,\sigma h_n,$$

whatever the activation. A kink at 0 makes its tail that of a multiple of $|z|$, whose kernel is closed: so much of it is taken
from there. They stand for closed kernels that are means over slopes (`theory.core.logistic`), a hundred pairs of them for each
pair of rows, and where there are none.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from theory.core import hermite
from theory.core.activation import Activation, arc_cosine_kernel
from theory.core.derivation import equation
from theory.core.errors import InputError
from theory.core.quadrature import Rule, gauss_legendre
from theory.declared.kernels import cosine, has_parts, homogeneous, parts, q11, q12, q22
from theory.declared.population import Integrals, LowerMany, integrals, over_directions, with_cosine, with_derivatives
from theory.declared.target import Additive

#: Degrees, at most; and the share of E σ'² that they may leave out: what closed forms do, and where there are none. It is that
#: of parallel rows; of a row that has just found a direction, at half of its squared norm, nothing is left out.
_DEGREES, _AS_CLOSED, _LEFT_OUT = 200, 1e-7, 1e-3
#: Share of E σ² below which a degree's is rounding.
_ROUNDING = 1e-15
#: What is beside a kink, and a difference of slopes there that is none.
_BESIDE, _NONE = 1e-9, 1e-6
#: Points in half a unit, some for each wave of the last degree; and where they end.
_POINTS, _FAR = 24, 14.0


#: Integrals by name, and their variables.
_Table = tuple[dict[str, sp.Expr], tuple[sp.Symbol, ...]]
#: k and l in Hermite coefficients of activation and link.
_n, _own, _link = sp.Symbol("n", integer=True), sp.IndexedBase(r"\hat\sigma"), sp.IndexedBase(r"\hat\sigma^*")
SERIES = tuple(
    equation(name, sp.Sum(terms * cosine**_n, (_n, 0, sp.oo)))
    for name, terms in (("k", _own[_n] ** 2), ("l", _own[_n] * _link[_n]))
)


@cache
def _pair() -> _Table:
    """K of two rows, in k."""
    return _in_series("k", "K", True, "K2")


@cache
def _cross() -> _Table:
    """N of a row and a direction, in l."""
    return _in_series("l", "M", False, "Mt")


def _in_series(series: str, name: str, both: bool, by: str) -> _Table:
    """In terms of a series and its derivative by the cosine."""
    value, slope = sp.symbols(f"{series} {series}'", real=True)
    function = sp.Function(series)(cosine)
    found = with_derivatives(homogeneous(function, both), name, True, {by: q12})
    found = {key: x.subs({sp.diff(function, cosine): slope, function: value}) for key, x in found.items()}
    return found, (q11, q22, cosine, value, slope)


@cache
def _bend() -> tuple[Activation, tuple[sp.Expr, sp.Expr]]:
    """|z|, and its kernel with its derivative."""
    kernel = arc_cosine_kernel(1)
    return Activation.parse("abs(z)"), (kernel, sp.diff(kernel, cosine))


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitIntegrals(Integrals):
    """Those of an additive target where all fields have unit variance, in k and l and their derivatives by the cosine; by
    variance they are along C = ρ.

    Attributes:
        own, link: coefficients of k and l, from degree 0, after a multiple of the kernel of |z|; and that multiple.
        error: shares of E σ'² and of E σ'σ*' that k' and l' leave out at c = 1, the larger one.
    """

    own: tuple[np.ndarray, float]
    link: tuple[np.ndarray, float]
    error: float

    def at(
        self, lower: LowerMany, X: Any, C: Any, rho: Any, constants: Mapping[str, Any], square: bool = True
    ) -> dict[str, Any]:
        """See the base class."""
        size, found = C.diagonal(0, -2, -1), {}
        if square:
            found = _at(lower, self.pair, _pair()[1], with_cosine(size[..., :, None], C, size[..., None, :]), self.own)
        each = _at(lower, self.cross, _cross()[1], with_cosine(size[..., None], X, constants["variance"]), self.link)
        return {**found, **over_directions(each, constants["weights"])}


def _at(
    lower: LowerMany,
    expressions: Mapping[str, sp.Expr],
    names: tuple[sp.Symbol, ...],
    places: tuple[Any, Any, Any, Any],
    known: tuple[np.ndarray, float],
) -> dict[str, Any]:
    (first, _, second, c), (series, kink) = places, known
    value, slope = 0.0 * c, 0.0 * c
    for coefficient in series[::-1].tolist():  # (in place, where arrays have places)
        slope *= c
        slope += value
        value *= c
        value += coefficient
    if kink:
        bent, turned = lower(_bend()[1], (cosine,))(c)
        value, slope = value + kink * bent, slope + kink * turned
    found = lower(tuple(expressions.values()), names)(first, second, c, value, slope)
    return {name: x + 0 * c for name, x in zip(expressions, found, strict=True)}


@lru_cache(maxsize=32)
def unit_integrals(activation: Activation, target: Additive) -> UnitIntegrals | None:
    """Of an activation and a link; None where closed forms serve as well, σ jumps, or `_DEGREES` leave too much out."""
    most = _may_leave_out(activation, target)
    if most == 0.0:
        return None
    with suppress(InputError):  # (`integrals` says of a jump what to use)
        found = in_series(activation, target)
        return found if found.error <= most else None
    return None


@lru_cache(maxsize=32)
def in_series(activation: Activation, target: Additive) -> UnitIntegrals:
    """With what it leaves out, infinite where σ is. Raises `InputError` for an activation that jumps."""
    with np.errstate(all="ignore"):
        own, link = _product(activation, activation), _product(activation, target.link)
        missed = [_missed(activation, activation, own), _missed(activation, target.link, link)]
    error = float(np.max(np.nan_to_num(missed, nan=np.inf)))
    return UnitIntegrals(_pair()[0], _cross()[0], target, own=own, link=link, error=error)


def _may_leave_out(activation: Activation, target: Additive) -> float:
    if has_parts(activation) and has_parts(target.link) and (parts(activation).mixed or parts(target.link).mixed):
        return _AS_CLOSED
    try:
        integrals(activation, True, target, True)
    except InputError:
        return _LEFT_OUT
    return 0.0


def _product(one: Activation, two: Activation) -> tuple[np.ndarray, float]:
    """Coefficients of the series after a multiple of the kernel of |z|, to the last that counts; and that multiple."""
    kink, size = _kink(one) * _kink(two), _coefficients(one) @ _coefficients(one)
    found = _coefficients(one) * _coefficients(two) - kink * _coefficients(_bend()[0]) ** 2
    return found[: 1 + int(np.flatnonzero(abs(found) > _ROUNDING * size).max(initial=0))], kink


def _missed(one: Activation, two: Activation, known: tuple[np.ndarray, float]) -> float:
    """What the slope of a series leaves out at c = 1, over the root of both second moments; what it does if the link jumps."""
    (points, weights), (series, kink) = _gaussian(), known
    slope, order = one.arrays(1), 1  # (which σ must have)
    try:
        first, second = slope(points), two.arrays(1)(points)
    except InputError:
        first, second, order = one.arrays()(points), two.arrays()(points), 0
    first, second = first + 0 * points, second + 0 * points
    found = np.arange(series.size) ** order @ series + kink * float(_bend()[1][order].subs(cosine, 1))
    size = float(np.sqrt((weights @ first**2) * (weights @ second**2)))
    # (Between the points an erf may be as steep as a jump.)
    return abs(float(weights @ (first * second) - found)) / size if size > 0 else np.inf


@lru_cache(maxsize=32)
def _coefficients(activation: Activation) -> np.ndarray:
    """Hermite coefficients, from degree 0, right to rounding for what is smooth between the ends of half units."""
    points, weights = _gaussian()
    return hermite.values(points, _DEGREES) @ (weights * activation.arrays()(points))


@lru_cache(maxsize=32)
def _kink(activation: Activation) -> float:
    """How much of |z| has the kink at 0, half the jump of the slope; 0 where σ itself jumps, and has none."""
    with suppress(InputError):
        half = (float(activation.arrays(1)(_BESIDE)) - float(activation.arrays(1)(-_BESIDE))) / 2
        return half if abs(half) > _NONE else 0.0
    return 0.0


@cache
def _gaussian() -> Rule:
    ends = np.arange(-_FAR, _FAR + 0.5, 0.5)
    points, weights = (x.ravel() for x in gauss_legendre(ends[:-1], ends[1:], _POINTS))
    return points, weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
