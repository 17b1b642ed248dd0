r"""The Gaussian integrals of any activation, by Mehler's series at each variance, a bend wherever it is.

With the Hermite coefficients $a_n(q)=E\,\sigma(\sqrt qx)h_n(x)$ and the cosine c of two fields (derived)

$$K=\sum_na_n(q_{11})a_n(q_{22})c^n,\qquad
\partial_{q_{11}}K=\frac1{2q_{11}}\sum_n\sqrt{(n+1)(n+2)}\,a_{n+2}(q_{11})a_n(q_{22})c^n,$$

and $E\,\sigma^{(j)}=\sqrt{j!}\,q^{-j/2}a_j$ for polynomial targets. Near c = 1 the tail is that of the slope's jumps κ at
places a, $s=a/\sqrt q$: so much of it is closed (Plackett 1954, Biometrika 41, 351),

$$E(x-s)_+(y-t)_+=\sum_{n<2}\hat s_n\hat t_nc^n+\int_0^{\arcsin c}(c-\sin\theta)g\,d\theta,\qquad
g=\frac1{2\pi}\exp\Big(-\frac{s^2+t^2-2st\sin\theta}{2\cos^2\theta}\Big).$$

In isotropic inputs rows of unit length, and those of 2-homogeneous neurons, have one variance: then a_n are numbers, which
stand for closed kernels that are means over slopes, too (`theory.core.logistic`), a hundred pairs of them for each pair of
rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import factorial
from typing import Any, NamedTuple

import numpy as np
import scipy
import sympy as sp

from theory.core import hermite
from theory.core.activation import Activation
from theory.core.bends import bends
from theory.core.derivation import equation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.quadrature import Rule, gauss_legendre
from theory.declared.kernels import cosine, homogeneous, q11, q12, q22, rho1, rho2
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

#: Degrees, at most; and the share of E σ'² that they may leave out: what closed forms do, and where there are none. It is that
#: of parallel rows; of a row that has just found a direction, at half of its squared norm, nothing is left out.
_DEGREES, _AS_CLOSED, _LEFT_OUT = 200, 1e-7, 1e-3
#: Share of the root of E σ² below which a coefficient is rounding.
_ROUNDING = 1e-14
#: Of a variance.
_UNIT = 1e-12
#: Where points end; a stretch, and points in it: some for each wave of the last degree.
_FAR, _STRETCH, _POINTS = 14.0, 0.5, 24
#: The same where they are asked at every row anew.
_LONG, _FEWER = 1.0, 16
#: Frequencies in a bend's coefficients: the fastest, and steps; and places beyond which there is nothing.
_FASTEST, _APART, _NOTHING = 24.0, 0.125, 12.0
#: Points of Plackett's integral.
_ANGLES = 24

#: K and its derivatives by the first variance and by the covariance, as numbers; and those of N.
_k, _k1, _k2 = _OWN = sp.symbols("k k_1 k_2", real=True)
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


class Rows(NamedTuple):
    """A function on fields of standard deviations d (…). `whole`: a_n (…, n). `bent`: what they are of its bends."""

    size: Any
    whole: Any
    bent: Any

    def at(self, *places: Any) -> "Rows":
        """With axes more, as an index has them."""
        if np.ndim(self.size) == 0:
            return self
        return Rows(self.size[places], *(x[*places, :] for x in (self.whole, self.bent)))


@dataclass(frozen=True, eq=False)
class Expansion:
    """A function in Hermite polynomials. Raises `InputError` for one that jumps."""

    activation: Activation

    @cached_property
    def bends(self) -> tuple[tuple[float, float], ...]:
        return bends(self.activation)

    @cached_property
    def smooth(self) -> sp.Expr:
        """What is left without the bends."""
        hinges = (sp.Float(jump, 17) * sp.Max(z - sp.Float(place, 17), 0) for place, jump in self.bends)
        # (Absolute values, which all array libraries know.)
        return (self.activation.function - sp.Add(*hinges)).rewrite(sp.Abs)

    def at(self, lower: LowerMany, size: Any) -> Rows:
        """Fields of these standard deviations (…)."""
        points, basis = _basis()
        (smooth,) = lower((self.smooth,), (z,))(size[..., None] * points)
        whole = (smooth + 0.0 * size[..., None] * points) @ basis
        return self._rows(size, whole, self._bent(lower, size) if self.bends else 0.0 * whole)

    @cached_property
    def of_one(self) -> Rows:
        """Fields of variance 1, right to rounding for what is smooth between half units and bends."""
        points, weights = _gaussian((place for place, _ in self.bends), _STRETCH, _POINTS)
        smooth = numeric((self.smooth,), (z,))(points)[0] + 0.0 * points
        whole = hermite.values(points, _DEGREES + 2) @ (weights * smooth)
        one = np.array(1.0)
        return self._rows(one, whole, self._bent(numeric, one) if self.bends else 0.0 * whole)

    def _rows(self, size: Any, smooth: Any, bent: Any) -> Rows:
        """Without what is rounding: the row of a target that it does not see must not move."""
        whole = smooth + bent
        counts = abs(whole) > _ROUNDING * ((whole**2).sum(-1) ** 0.5)[..., None]
        return Rows(size, whole * counts, bent)

    def _bent(self, lower: LowerMany, size: Any) -> Any:
        """Of the bends."""
        places, jumps = (np.array(x) for x in zip(*self.bends, strict=True))
        hinges = self._at_zero if not places.any() else _hinges(lower, places / size[..., None])
        return (hinges * jumps[:, None]).sum(-2) * size[..., None]

    @cached_property
    def _at_zero(self) -> np.ndarray:
        return _hinges(numeric, np.zeros(len(self.bends)))


def _hinges(lower: LowerMany, s: Any) -> Any:
    r"""Coefficients of $(x-s)_+$, (…, n): $\varphi-s\Phi(-s)$, $\Phi(-s)$ and then $\varphi h_{n-2}(s)/\sqrt{n(n-1)}$."""
    xp = s.__array_namespace__()
    frequencies, even, odd = _waves()
    density, above = lower((_density, _above), (z,))(s)
    phase = xp.where(abs(s) < _NOTHING, s, 0.0)[..., None] * frequencies
    later = (xp.cos(phase) @ even + xp.sin(phase) @ odd) * (abs(s) < _NOTHING)[..., None]
    return xp.concat([xp.stack([density - s * above, above], -1), later], axis=-1)


@cache
def _waves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Frequencies t and what their cosines and sines are in $\varphi h_n(s)/\sqrt{(n+1)(n+2)}$, (t, n):
    $\varphi He_n=\frac1\pi\int_0^\infty t^ne^{-t^2/2}\cos(st-n\pi/2)dt$, by the trapezium rule, whose error is what that is a
    period on.
    """
    t, n = np.arange(0.0, _FASTEST, _APART), np.arange(_DEGREES + 1)
    # (√((n+1)(n+2) n!) is √(n+2)!.)
    powers = scipy.special.xlogy(n, t[:, None]) - scipy.special.gammaln(n + 3) / 2
    size = _APART / np.pi * np.exp(powers - t[:, None] ** 2 / 2)
    size[0] /= 2
    return t, size * np.cos(n * np.pi / 2).round(), size * np.sin(n * np.pi / 2).round()


#: The Gaussian's density and what of it is above.
_density, _above = sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi), sp.erfc(z / sp.sqrt(2)) / 2


@lru_cache(maxsize=64)
def _expansion(activation: Activation) -> Expansion:
    return Expansion(activation)


@cache
def _basis() -> tuple[np.ndarray, np.ndarray]:
    """Points (N,), and degrees there times the weights, (N, n)."""
    points, weights = _gaussian((), _LONG, _FEWER)
    return points, (hermite.values(points, _DEGREES + 2) * weights).T


def _gaussian(places: Any, stretch: float, count: int) -> Rule:
    ends = np.unique([*np.arange(-_FAR, _FAR + stretch, stretch), *places])
    points, weights = (x.ravel() for x in gauss_legendre(ends[:-1], ends[1:], count))
    return points, weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)


def kernel(
    lower: LowerMany, functions: tuple[Expansion, ...], one: Rows, two: Rows, c: Any, first: bool
) -> dict[sp.Symbol, Any]:
    """K of two functions and its derivatives by the covariance and, if `first`, by the first variance, in the shape of the
    cosines c (…).
    """
    n = np.arange(_DEGREES + 1)
    late = n >= 2
    products = one.whole[..., :-2] * two.whole[..., :-2] - late * (one.bent[..., :-2] * two.bent[..., :-2])
    found = {_k: products, _k2: products * n}
    if first:
        factor = ((n + 1.0) * (n + 2)) ** 0.5
        found[_k1] = factor * (one.whole[..., 2:] * two.whole[..., :-2] - one.bent[..., 2:] * two.bent[..., :-2])
    if isinstance(products, np.ndarray) and products.ndim == 1:  # (to the last degree that counts)
        last = int(np.flatnonzero(products).max(initial=0))
        found = {name: x[: last + 1] for name, x in found.items()}
    numbers = _sums(found, c)
    for place, jump in functions[0].bends:
        for other, by in functions[1].bends:
            s, t = (place / one.size, other / two.size) if place or other else (0.0, 0.0)
            for name, value in of_bends(lower, s, t, c, first).items():
                numbers[name] = numbers[name] + jump * by * one.size * two.size * value
    numbers[_k2] = numbers[_k2] / (one.size * two.size)
    if first:
        numbers[_k1] = numbers[_k1] / (2 * one.size**2)
    return numbers


def _sums(products: Mapping[sp.Symbol, Any], c: Any) -> dict[sp.Symbol, Any]:
    """Of coefficients (…, n) of powers of c from 0, those of the slope from -1."""
    powers, found = _powers(c, max(x.shape[-1] for x in products.values())), {}
    for name, x in products.items():
        coefficients, at = (x[..., 1:], powers[..., :-1]) if name is _k2 else (x, powers)
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
        found = {_k: (c * angle - 1 + xp.cos(angle)) / (2 * np.pi), _k2: angle / (2 * np.pi)}
    else:
        places, weights = gauss_legendre(0.0, 1.0, _ANGLES)
        inner, outer = xp.sin(angle[..., None] * places), c[..., None]
        s_, t_ = (x[..., None] if np.ndim(x) else x for x in (s, t))
        # (As a sum of terms that do not cancel at parallel rows, nor at opposite ones.)
        side = xp.where(inner < 0, -1.0, 1.0)
        exponent = (s_ - side * t_) ** 2 / (2 * (1 - inner**2)) + side * s_ * t_ / (1 + side * inner)
        g = xp.exp(-exponent) * weights * angle[..., None] / (2 * np.pi)
        found = {_k: ((outer - inner) * g).sum(-1), _k2: g.sum(-1)}
    if first:
        apart = xp.sqrt(xp.clip(1 - c**2, 1e-300, None))
        density, above, before = lower((_density, _above, _density.subs(z, _s)), (z, _s))((t - c * s) / apart, s)
        found[_k1] = before * (apart * density + (c * s - t) * above)
    return found


_s = sp.Symbol("s", real=True)


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
        return any(x.has(_k1) for x in self.pair.values())

    @property
    def _orders(self) -> range:
        return range(max(map(sum, degrees(self.target))) + 3)

    def of_link(self, link: Activation, variance: np.ndarray) -> dict[str, np.ndarray]:
        """See the base class."""
        one = _expansion(link)
        rows = one.of_one if _is_one(variance) else one.at(numeric, np.sqrt(variance))
        return {"link": np.concatenate([rows.size[..., None], rows.whole, rows.bent], axis=-1)}

    @property
    def left_out(self) -> str:
        """In words."""
        return f"Hermite degrees up to {_DEGREES} and bends: {self.error:.1g} of E σ'² at most is left out"

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
    half = 1 + _DEGREES + 3
    return Rows(link[..., 0], link[..., 1:half], link[..., half:])


@lru_cache(maxsize=128)
@np.errstate(all="ignore")
def _missed(one: tuple[Expansion, float], two: tuple[Expansion, float]) -> float:
    """What the slope of a series leaves out at c = 1, over the root of both second moments; what it does if the link jumps.

    Of functions on fields of these standard deviations.
    """
    points, weights = _gaussian((place / size for x, size in (one, two) for place, _ in x.bends), _STRETCH, _POINTS)
    slope, which = one[0].activation.arrays(1), _k2  # (which σ must have)
    try:
        first, second = slope(one[1] * points), two[0].activation.arrays(1)(two[1] * points)
    except InputError:
        (first, second), which = (x.activation.arrays()(size * points) for x, size in (one, two)), _k
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
    functions = [_expansion(activation)]
    if isinstance(target, Additive):
        functions.append(_expansion(target.link))
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
        unit: whether all fields have variance 1. widest: the largest variance that they are asked to have.

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
            f"activation {activation.name!r} has no closed two-point kernel here, and a series to degree {_DEGREES} leaves "
            f"out {missed:.2g} of the mean of its squared slope at fields of variance {max(2.0, widest):.3g}: give one that "
            "is less steep, or simulate it"
        ) from problem
    if unit and any(closed.mixed):
        found = in_series(*given, unit)
        if max(found.error, found.missed(widest)) <= _AS_CLOSED:
            return found
    return closed
