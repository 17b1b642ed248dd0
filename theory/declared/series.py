r"""The Gaussian integrals of any activation that does not jump, by Mehler's series (derived).

Where no closed kernel is known, those of `theory.declared.mehler` stand in the derived expressions for K and its derivatives;
and $E\,\sigma^{(j)}=\sqrt{j!}\,q^{-j/2}a_j$ for polynomial targets.

In isotropic inputs rows of unit length, and those of 2-homogeneous neurons, have one variance: then a_n are numbers, which
stand for closed kernels that are means over slopes, too (`theory.core.logistic`), a hundred pairs of them for each pair of
rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import factorial
from typing import Any

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.derivation import equation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.declared.expansion import DEGREES, Expansion, Rows, expansion, gaussian
from theory.declared.kernels import cosine, homogeneous, q11, q12, q22, rho1, rho2
from theory.declared.mehler import BY_COVARIANCE, BY_VARIANCE, VALUE, kernel
from theory.declared.population import (
    Integrals,
    LowerMany,
    degrees,
    integrals,
    numeric,
    of_polynomial,
    over_directions,
    with_cosine,
    with_derivatives,
)
from theory.declared.target import Additive, Polynomial

#: Share of E σ'² that a series may leave out: what closed forms do, and where there are none. It is that of parallel rows; of
#: a row that has just found a direction, at half of its squared norm, nothing is left out.
_AS_CLOSED, _LEFT_OUT = 1e-7, 1e-3
#: Rounding of a variance.
_UNIT = 1e-12

#: Numbers of K, and those of N.
_OWN = (VALUE, BY_VARIANCE, BY_COVARIANCE)
_LINK = sp.symbols("l l_1 l_2", real=True)
#: Mehler's series in Hermite coefficients of activation and link, and these, by what each is; and means of slopes in these.
_n, _q, _a, _b = sp.Symbol("n", integer=True), sp.Symbol("q", positive=True), sp.Function("a"), sp.Function("a^*")
_MEAN, _SIGMA, _STAR, _HERMITE = (sp.Function(name) for name in ("E", "sigma", "sigma^*", "h"))
SERIES = {
    "Hermite coefficients": (
        equation("a(n,q)", _MEAN(_SIGMA(sp.sqrt(_q) * z) * _HERMITE(_n, z))),
        equation("a^*(n,q)", _MEAN(_STAR(sp.sqrt(_q) * z) * _HERMITE(_n, z))),
    ),
    "Mehler's series": tuple(
        equation(name, sp.Sum(_a(_n, q11) * other(_n, q22) * cosine**_n, (_n, 0, sp.oo)))
        for name, other in (("k", _a), ("l", _b))
    ),
}


_j = sp.Symbol("j", integer=True)
SLOPES = equation("mu_j", sp.sqrt(sp.factorial(_j)) * q11 ** (-_j / 2) * _a(_j, q11))


class _Kernel(sp.Function):
    """K of two variances and a covariance (first, covariance, second)."""

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return {1: _First, 2: _Mixed}[argindex](*self.args)


class _First(sp.Function):
    """Its derivative by the first variance."""


class _Mixed(sp.Function):
    """Its derivative by the covariance."""


class _Moment(sp.Function):
    r"""$\mu_j(q)=E\,\sigma^{(j)}(\sqrt qz)$ of j and q."""

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex == 1:
            raise sp.ArgumentIndexError(self, argindex)
        return _Moment(self.args[0] + 2, self.args[1]) / 2


def _moment_number(j: int) -> sp.Symbol:
    return sp.Symbol(f"mu_{j}", real=True)


def _as_numbers(table: Mapping[str, sp.Expr], symbols: tuple[sp.Symbol, ...] = _OWN) -> dict[str, sp.Expr]:
    """Functions as the symbols of their numbers."""
    names = dict(zip((_Kernel, _First, _Mixed), symbols, strict=True))

    def number(of: sp.Expr) -> sp.Expr:
        return _moment_number(int(of.args[0])) if isinstance(of, _Moment) else names[type(of)]

    kinds = (*names, _Moment)
    return {name: sp.expand(x.replace(lambda y: isinstance(y, kinds), number)) for name, x in table.items()}


@cache
def _pair(two_homogeneous: bool, whitened: bool) -> dict[str, sp.Expr]:
    """K of two rows, and its derivatives."""
    function = _Kernel(q11, q12, q22)
    function = homogeneous(function) if two_homogeneous else function
    return _as_numbers(with_derivatives(function, "K", whitened, {"K2": q12}))


@cache
def _of_direction(two_homogeneous: bool, whitened: bool) -> dict[str, sp.Expr]:
    """N of a row and a direction."""
    function = _Kernel(q11, q12, q22)
    function = homogeneous(function, both=False) if two_homogeneous else function
    return _as_numbers(with_derivatives(function, "M", whitened, {"Mt": q12}), _LINK)


@lru_cache(maxsize=32)
def _of_target(target: Polynomial, two_homogeneous: bool, whitened: bool) -> dict[str, sp.Expr]:
    """M of a row."""
    return _as_numbers(of_polynomial(lambda j: _Moment(j, q11), target, two_homogeneous, whitened))


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesIntegrals(Integrals):
    """Those of functions in Hermite polynomials.

    Attributes:
        functions: σ, and an additive target's link. homogeneous: whether neurons are. unit: whether σ is asked at variance 1
            alone.
    """

    functions: tuple[Expansion, ...]
    homogeneous: bool
    unit: bool

    @cached_property
    def error(self) -> float:
        """Share of E σ'² that K₂ and N₂ leave out at parallel rows, the larger one, at variance 1 and, if not `unit`, at 2."""
        return self.missed(1.0) if self.unit else max(self.missed(1.0), self.missed(2.0))

    def at(
        self, lower: LowerMany, X: Any, C: Any, rho: Any, constants: Mapping[str, Any], square: bool = True
    ) -> dict[str, Any]:
        """See the base class."""
        xp, own = C.__array_namespace__(), C.diagonal(0, -2, -1)
        sigma, found = self.functions[0], {}
        rows = sigma.of_one if self.unit else sigma.at(lower, xp.sqrt(own / rho if self.homogeneous else own))
        if square:
            places = with_cosine(own[..., :, None], C, own[..., None, :])
            one, two = rows.at(..., slice(None), None), rows.at(..., None, slice(None))
            known = (rho[..., :, None], rho[..., None, :])
            found = self._of_pairs(lower, self.pair, (sigma, sigma), one, two, places, known)
        return {**found, **self._of_target(lower, X, own, rho, rows, constants)}

    def _of_target(
        self, lower: LowerMany, X: Any, own: Any, rho: Any, rows: Rows, constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        if not isinstance(self.target, Additive):
            moments = [rows.whole[..., j] * float(factorial(j)) ** 0.5 / rows.size**j for j in self._orders]
            return self._of_polynomial(lower, X, own, rho, [*constants["moments"], *moments])
        places = with_cosine(own[..., None], X, constants["variance"])
        link = _unpacked(constants["link"])
        rows = rows.at(..., slice(None), None)
        each = self._of_pairs(lower, self.cross, self.functions, rows, link, places, (rho[..., None], 1.0))
        return over_directions(each, constants["weights"])

    def _of_pairs(
        self,
        lower: LowerMany,
        expressions: Mapping[str, sp.Expr],
        functions: tuple[Expansion, ...],
        one: Rows,
        two: Rows,
        places: tuple[Any, Any, Any, Any],
        norms: tuple[Any, Any],
    ) -> dict[str, Any]:
        first, covariance, second, c = places
        numbers = kernel(lower, functions, one, two, c, self._by_variance)
        given = {q11: first, q12: covariance, q22: second, rho1: norms[0], rho2: norms[1], **numbers}
        given |= {by: numbers[own] for own, by in zip(_OWN, _LINK, strict=True) if own in numbers}
        found = lower(tuple(expressions.values()), tuple(given))(*given.values())
        return {name: x + 0 * c for name, x in zip(expressions, found, strict=True)}

    def cost(self, pairs: int) -> float:
        """See the base class."""
        hinges = [[place for place, _ in one.bends] for one in self.functions]
        moved = 3e3 * (any(hinges[0]) and not self.unit)
        return moved + ((5.0 if self.unit else 40.0) + 5 * len(hinges[0]) * max(map(len, hinges))) * pairs

    @property
    def cross_symbols(self) -> tuple[sp.Symbol, ...]:
        """The variables of M of a polynomial target."""
        return (*super().cross_symbols, *(_moment_number(j) for j in self._orders))

    @cached_property
    def _by_variance(self) -> bool:
        return any(x.has(BY_VARIANCE) for x in self.pair.values())

    @property
    def _orders(self) -> range:
        return range(max(map(sum, degrees(self.target))) + 3)

    def of_link(self, link: Activation, variance: np.ndarray) -> dict[str, np.ndarray]:
        """``link``: a row for each direction (P, n) of what `Rows` holds; one (n,) where all have variance 1."""
        one = expansion(link)
        rows = one.of_one if _is_one(variance) else one.at(numeric, np.sqrt(variance))
        return {"link": np.concatenate([rows.size[..., None], rows.whole, rows.bent], axis=-1)}

    @property
    def left_out(self) -> str:
        """In words."""
        return f"Hermite degrees up to {DEGREES} and bends: {self.error:.1g} of E σ'² at most is left out"

    def missed(self, variance: float) -> float:
        """Of E σ'² and E σ'σ*' of fields of this variance, if σ is asked there; see `error`. Infinite where σ is."""
        own, wide = 1.0 if self.unit else float(np.sqrt(variance)), float(np.sqrt(variance))
        sides = [(one, own if k == 0 else wide) for k, one in enumerate(self.functions)]
        found = [_missed(sides[0], side) for side in sides]
        return max(x if np.isfinite(x) else np.inf for x in found)


def _is_one(variance: np.ndarray) -> bool:
    return bool(np.allclose(variance, 1.0, rtol=0.0, atol=_UNIT))


def _unpacked(link: Any) -> Rows:
    """Of directions, from one array."""
    half = 1 + DEGREES + 3
    return Rows(link[..., 0], link[..., 1:half], link[..., half:])


@lru_cache(maxsize=128)
@np.errstate(all="ignore")
def _missed(one: tuple[Expansion, float], two: tuple[Expansion, float]) -> float:
    """What the slope of a series leaves out at c = 1, over the root of both second moments; what it does if the link jumps.

    Of functions on fields of these standard deviations.
    """
    points, weights = gaussian(place / size for x, size in (one, two) for place, _ in x.bends)
    slope, which = one[0].activation.arrays(1), BY_COVARIANCE  # (which σ must have)
    try:
        first, second = slope(one[1] * points), two[0].activation.arrays(1)(two[1] * points)
    except InputError:
        (first, second), which = (x.activation.arrays()(size * points) for x, size in (one, two)), VALUE
    rows, other = (x.of_one if _is_one(np.array(size)) else x.at(numeric, np.array([size])) for x, size in (one, two))
    found = float(np.ravel(kernel(numeric, (one[0], two[0]), rows, other, np.ones(1), False)[which])[0])
    known, scale = float(weights @ (first * second)), float(np.sqrt((weights @ first**2) * (weights @ second**2)))
    # (Between the points an erf may be as steep as a jump.)
    return abs(known - found) / scale if scale > 0 else np.inf


@lru_cache(maxsize=32)
def in_series(
    activation: Activation, target: Additive | Polynomial, two_homogeneous: bool, whitened: bool, unit: bool
) -> SeriesIntegrals:
    """With what it leaves out, infinite where σ is. Raises `InputError` for an activation that jumps."""
    same = whitened or (unit and two_homogeneous)
    functions = [expansion(activation)]
    if isinstance(target, Additive):
        functions.append(expansion(target.link))
        cross = _of_direction(two_homogeneous, same)
    else:
        cross = _of_target(target, two_homogeneous, same)
    return SeriesIntegrals(
        _pair(two_homogeneous, same), cross, target, functions=tuple(functions), homogeneous=two_homogeneous, unit=unit
    )


def known_integrals(
    activation: Activation,
    target: Additive | Polynomial,
    two_homogeneous: bool,
    whitened: bool,
    unit: bool,
    widest: float,
) -> Integrals:
    """Closed ones; a series where there are none, and at unit variance where they are means over slopes.

    Args:
        unit: whether σ is asked at fields of variance 1 alone. widest: the largest variance that rows of unit length, and
            directions, have.

    Raises `InputError` where neither is known: an activation that jumps, or is too steep.
    """
    given = activation, target, two_homogeneous, whitened
    try:
        closed = integrals(activation, two_homogeneous, target, whitened)
    except InputError as problem:
        try:
            found = in_series(*given, unit)
            missed = max(found.error, found.missed(widest))
        except InputError:  # (a jump: the first says what to use)
            raise problem from None
        if missed <= _LEFT_OUT:
            return found
        if missed >= 1:
            raise
        raise InputError(
            f"activation {activation.name!r} has no closed two-point kernel here, and a series to degree {DEGREES} leaves "
            f"out {missed:.2g} of the mean of its squared slope at fields of variance {max(2.0, widest):.3g}: give one that "
            "is less steep, or simulate it"
        ) from problem
    if unit and any(closed.mixed):
        found = in_series(*given, unit)
        if max(found.error, found.missed(widest)) <= _AS_CLOSED:
            return found
    return closed
