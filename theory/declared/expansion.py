r"""Functions of Gaussian fields in Hermite polynomials, at any variance of the fields, jumps of the slope apart (derived).

$a_n(q)=E\,\sigma(\sqrt qx)h_n(x)$ to degree 200: without the bends by quadrature, and of $(x-s)_+$ in closed form,
$E(x-s)_+h_n=\varphi(s)h_{n-2}(s)/\sqrt{n(n-1)}$ from n = 2 on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
import sympy as sp

from theory.core import hermite
from theory.core.activation import Activation
from theory.core.bends import Bends, bends
from theory.core.hermite import z
from theory.core.quadrature import Rule, gauss_legendre
from theory.declared.population import LowerMany, numeric

#: Degrees, at most.
DEGREES = 200
#: Share of the root of E σ² below which a coefficient is rounding.
_ROUNDING = 1e-14
#: Where points end; a stretch, and points in it: some for each wave of the last degree.
_FAR, _STRETCH, _POINTS = 14.0, 0.5, 24
#: The same where they are asked at every row anew.
_LONG, _FEWER = 1.0, 16
#: Frequencies in a bend's coefficients: the fastest, and steps; and places beyond which there is nothing.
_FASTEST, _APART, _NOTHING = 24.0, 0.125, 12.0


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
    def bends(self) -> Bends:
        """Places and jumps of the slope."""
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
        points, weights = gaussian(place for place, _ in self.bends)
        smooth = numeric((self.smooth,), (z,))(points)[0] + 0.0 * points
        whole = hermite.values(points, DEGREES + 2) @ (weights * smooth)
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
    density, above = lower((DENSITY, ABOVE), (z,))(s)
    phase = xp.where(abs(s) < _NOTHING, s, 0.0)[..., None] * frequencies
    later = (xp.cos(phase) @ even + xp.sin(phase) @ odd) * (abs(s) < _NOTHING)[..., None]
    return xp.concat([xp.stack([density - s * above, above], -1), later], axis=-1)


@cache
def _waves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Frequencies t and what their cosines and sines are in $\varphi h_n(s)/\sqrt{(n+1)(n+2)}$, (t, n):
    $\varphi He_n=\frac1\pi\int_0^\infty t^ne^{-t^2/2}\cos(st-n\pi/2)dt$, by the trapezium rule, whose error is what that is a
    period on.
    """
    t, n = np.arange(0.0, _FASTEST, _APART), np.arange(DEGREES + 1)
    # (√((n+1)(n+2) n!) is √(n+2)!.)
    powers = scipy.special.xlogy(n, t[:, None]) - scipy.special.gammaln(n + 3) / 2
    size = _APART / np.pi * np.exp(powers - t[:, None] ** 2 / 2)
    size[0] /= 2
    return t, size * np.cos(n * np.pi / 2).round(), size * np.sin(n * np.pi / 2).round()


#: The Gaussian's density and what of it is above.
DENSITY, ABOVE = sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi), sp.erfc(z / sp.sqrt(2)) / 2


@lru_cache(maxsize=64)
def expansion(activation: Activation) -> Expansion:
    """The one of an activation, made once."""
    return Expansion(activation)


@cache
def _basis() -> tuple[np.ndarray, np.ndarray]:
    """Points (N,), and degrees there times the weights, (N, n)."""
    points, weights = gaussian((), _LONG, _FEWER)
    return points, (hermite.values(points, DEGREES + 2) * weights).T


def gaussian(places: Iterable[float] = (), stretch: float = _STRETCH, count: int = _POINTS) -> Rule:
    """Points and weights (n,) of E over a standard Gaussian, in stretches that end at `places`, too."""
    ends = np.unique([*np.arange(-_FAR, _FAR + stretch, stretch), *places])
    points, weights = (x.ravel() for x in gauss_legendre(ends[:-1], ends[1:], count))
    return points, weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
