r"""Expectations over the initial overlap $g=\sqrt d\,|\bar v_p(0)|$ that learns a direction: fixed, or the largest of n.

With $b$ defined by $n\,P(|N(0,1)|>b)=1$, $g^2=b^2+2G(1-b^{-2})+O(b^{-4})$ with $G$ a Gumbel variable (mean γ, variance
π²/6), so that for overlaps in high dimension

$$E[g^q]=b^q\Big\{1+\frac{q\gamma}{b^2}+\frac{\tfrac12q(q-2)(\gamma^2+\pi^2/6)-q\gamma}{b^4}+O(b^{-6})\Big\}.$$
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.scaling import extreme_overlaps

#: Nodes of the trapezoidal rule in ln g, and how far below its peak (in e-foldings) the integrand is cut.
_NODES, _CUT = 8001, 45.0
#: Below this ln g the distribution function is linear in g, to rounding.
_LINEAR = -25.0

Function = Callable[[np.ndarray], np.ndarray]


class Overlap(Protocol):
    """What a loss sum needs to know of the overlap g."""

    def cdf(self, reach: ArrayLike) -> np.ndarray:
        """P(g ≤ reach)."""

    def expect(self, function: Function) -> np.ndarray:
        """E[function(g)]; the function maps (n,) overlaps to (..., n)."""

    def moment(self, power: float) -> float:
        """E[g^power]; inf where it diverges."""


@dataclass(frozen=True)
class FixedOverlap:
    r"""Every direction has the same overlap, as in the summary $t_p\propto p^\beta$ of arXiv:2504.19983."""

    value: float = 1.0

    def cdf(self, reach: ArrayLike) -> np.ndarray:
        return np.asarray(self.value <= np.asarray(reach, dtype=float), dtype=float)

    def expect(self, function: Function) -> np.ndarray:
        return np.asarray(function(np.array([self.value])))[..., 0]

    def moment(self, power: float) -> float:
        return float(self.value**power)


@dataclass(frozen=True)
class LargestOverlap(extreme_overlaps.LargestOverlap):
    """The largest of `count` independent overlaps, with expectations of any function and moments of any order."""

    def cdf(self, reach: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return super().cdf(reach)

    def expect(self, function: Function) -> np.ndarray:
        y, log_weights = self._rule(0.0)
        return np.asarray(function(np.exp(y))) @ np.exp(log_weights)

    def moment(self, power: float) -> float:
        """E[g^power] by quadrature, to about 12 digits in the Gaussian limit.

        It is inf for power ≤ −count, and for a negative power of overlaps that may be 0 (`signed`).

        The law of a finite dimension ends at √d, smoothly only to order (d − 3)/2: 12 digits from d = 12 on, 7 at d = 8, 5 at
        6, 3 at 4. Raises `InputError` below that.
        """
        if self.law.dim < 4:
            raise InputError(
                f"dim is {self.law.dim:g}: moments need 4 or more (the density is singular at its end below)"
            )
        if power <= -self.count or (self.law.signed and power < 0):
            return float("inf")
        y, log_weights = self._rule(power, _LINEAR)
        terms = np.exp(log_weights + power * y)
        # Below the first node the law is a power of g, and the rule goes on as a geometric series.
        fall = (self.count + power) * (y[1] - y[0])
        rest = terms[0] * np.exp(-fall) / -np.expm1(-fall)
        at_zero = 0.5**self.count if self.law.signed and power == 0 else 0.0
        return float(terms.sum() + rest + at_zero)

    def asymptotic_moment(self, power: float) -> float:
        r"""$E[g^q]$ by the expansion above, relative error $O(b^{-6})$, Gaussian limit. Needs two overlaps or more."""
        b2, q = self.gumbel().location ** 2, power
        second = q * (q - 2) / 2 * (np.euler_gamma**2 + np.pi**2 / 6) - q * np.euler_gamma
        return float(b2 ** (q / 2) * (1 + q * np.euler_gamma / b2 + second / b2**2))

    def _log_density(self, y: np.ndarray) -> np.ndarray:
        """Logarithm of the density of ln g."""
        g = np.exp(y)
        with np.errstate(divide="ignore"):
            return np.log(self.count * self.law.density(g)) + (self.count - 1) * self.law.log_cdf(g) + y

    @cached_property
    def _range(self) -> float:
        return float(np.log(self.law.from_tail(1e-300)))

    def _rule(self, power: float, lowest: float = -650.0) -> tuple[np.ndarray, np.ndarray]:
        """Nodes ln g (uniform) and log weights, covering where g^power times the density matters.

        The integrand in ln g is analytic and falls off exponentially on the left, faster on the right: the trapezoidal
        rule converges faster than any power.
        """
        lowest = max(-2 * _CUT / (self.count + min(power, 0.0)) - 5.0, lowest)
        coarse = np.linspace(lowest, self._range, 4 * _NODES)
        height = self._log_density(coarse) + power * coarse
        kept = coarse[height > np.max(height) - _CUT]
        y, step = np.linspace(kept[0], kept[-1], _NODES, retstep=True)
        return y, self._log_density(y) + np.log(step)


def require_even(law: Overlap) -> None:
    """Raises `InputError` for overlaps that may be 0: their directions are never learned."""
    if isinstance(law, LargestOverlap) and law.law.signed:
        raise InputError("law is signed: a loss sum needs overlaps that are all learned, i.e. an even activation")
