r"""Expectations over the initial overlap $g=\sqrt d\,|\bar v_p(0)|$ that learns a direction: fixed, or the largest of n.

With $b$ defined by $n\,P(|N(0,1)|>b)=1$, $g^2=b^2+2G(1-b^{-2})+O(b^{-4})$ with $G$ a Gumbel variable (mean γ, variance
π²/6), so that for overlaps in high dimension (derived here)

$$E[g^q]=b^q\Big\{1+\frac{q\gamma}{b^2}+\frac{\tfrac12q(q-2)(\gamma^2+\pi^2/6)-q\gamma}{b^4}+O(b^{-6})\Big\}.$$
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.errors import InputError
from theory.scaling.extreme_overlaps import GAUSSIAN, Gumbel, OverlapLaw

#: Nodes of the trapezoidal rule, and how far below its peak (in e-foldings) the integrand is cut.
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
    r"""Every direction has the same overlap, as in the summary $t_p\propto p^\beta$ of arXiv:2504.19983.

    `cdf` has the shape of `reach`; `expect` hands nodes (n,) to a function of shape (..., n) and returns (...,).
    """

    value: float = 1.0

    def cdf(self, reach: ArrayLike) -> np.ndarray:
        return np.asarray(self.value <= np.asarray(reach, dtype=float), dtype=float)

    def expect(self, function: Function) -> np.ndarray:
        return np.asarray(function(np.array([self.value])))[..., 0]

    def moment(self, power: float) -> float:
        return float(self.value**power)


@dataclass(frozen=True)
class LargestOverlap:
    r"""The largest of `count` independent overlaps: $P(\max\le u)=F(u)^n$, exact.

    Raises `InputError` for a count below 1.
    """

    count: int
    law: OverlapLaw = GAUSSIAN

    def __post_init__(self) -> None:
        if not self.count >= 1:
            raise InputError(f"count is {self.count!r}: the largest of none does not exist, give 1 or more")

    def cdf(self, reach: ArrayLike) -> np.ndarray:
        """P(largest ≤ u). Shape of `reach`."""
        return np.exp(self.count * self.law.log_cdf(reach))

    def quantile(self, level: ArrayLike) -> np.ndarray:
        """The u with P(largest ≤ u) = level, 0 < level < 1. Shape of `level`."""
        return self.law.from_tail(-np.expm1(np.log(np.asarray(level, dtype=float)) / self.count))

    def gumbel(self) -> Gumbel:
        """The Gumbel approximation, Gaussian limit."""
        return Gumbel.of(self.count, self.law.share)

    def expect(self, function: Function) -> np.ndarray:
        """E[f(g)]: nodes (n,) go to a function of shape (..., n), the result is (...,)."""
        log_reach, log_weights = self._rule(0.0)
        found = np.asarray(function(np.exp(log_reach))) @ np.exp(log_weights)
        # (None of them may be positive.)
        return found + 0.5**self.count * np.asarray(function(np.zeros(1)))[..., 0] if self.law.signed else found

    def moment(self, power: float) -> float:
        """E[g^power] by quadrature, to about 12 digits.

        It is inf for power ≤ −count, and for a negative power of overlaps that may be 0 (`signed`). Raises `InputError` for
        a dimension below 3, where the density is singular at its end.
        """
        if self.law.dim < 3:
            raise InputError(
                f"dim is {self.law.dim:g}: moments need 3 or more (the density is singular at its end below)"
            )
        if power <= -self.count or (self.law.signed and power < 0):
            return float("inf")
        log_reach, log_weights = self._rule(power, _LINEAR)
        terms = np.exp(log_weights + power * log_reach)
        # Below the first node the law is a power of g, and the rule goes on as a geometric series.
        fall = (self.count + power) * (log_reach[1] - log_reach[0])
        rest = terms[0] * np.exp(-fall) / -np.expm1(-fall)
        at_zero = 0.5**self.count if self.law.signed and power == 0 else 0.0
        return float(terms.sum() + rest + at_zero)

    def asymptotic_moment(self, power: float) -> float:
        r"""$E[g^q]$ by the expansion above, relative error $O(b^{-6})$, Gaussian limit. Needs two overlaps or more."""
        b2, q = self.gumbel().location ** 2, power
        second = q * (q - 2) / 2 * (np.euler_gamma**2 + np.pi**2 / 6) - q * np.euler_gamma
        return float(b2 ** (q / 2) * (1 + q * np.euler_gamma / b2 + second / b2**2))

    def _log_density(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""ln g and the logarithm of the density of v: $v=\ln g$, in finite dimension $g^2/d=1/(1+e^{-2v})$."""
        y, slope = v, np.zeros_like(v)
        if np.isfinite(self.law.dim):
            y, slope = (np.log(self.law.dim) - np.logaddexp(0, -2 * v)) / 2, -np.logaddexp(0, 2 * v)
        g = np.exp(y)
        with np.errstate(divide="ignore"):
            return y, np.log(self.count * self.law.density(g)) + (self.count - 1) * self.law.log_cdf(g) + y + slope

    @cached_property
    def _range(self) -> tuple[float, float]:
        """By how much v lies below ln g where both are small, and its upper end."""
        if np.isinf(self.law.dim):
            return 0.0, float(np.log(self.law.from_tail(1e-300)))
        left = scipy.special.betaincinv((self.law.dim - 1) / 2, 0.5, 1e-300)  # 1 − g²/d
        return float(np.log(self.law.dim)) / 2, float(-scipy.special.logit(left) / 2)

    def _rule(self, power: float, lowest: float = -650.0) -> tuple[np.ndarray, np.ndarray]:
        """Nodes ln g and log weights, covering where g^power times the density matters.

        The nodes are uniform in v, in which the integrand is analytic and falls off exponentially on both sides, also at
        the end √d of a finite dimension: the trapezoidal rule converges faster than any power.
        """
        below, highest = self._range
        lowest = max(-2 * _CUT / (self.count + min(power, 0.0)) - 5.0, lowest) - below
        coarse = np.linspace(lowest, highest, 4 * _NODES)
        y, height = self._log_density(coarse)
        height = height + power * y
        kept = coarse[height > np.max(height) - _CUT]
        v, step = np.linspace(kept[0], kept[-1], _NODES, retstep=True)
        y, log_density = self._log_density(v)
        return y, log_density + np.log(step)


def require_even(law: Overlap) -> None:
    """Raises `InputError` for overlaps that may be 0: their directions are never learned."""
    if isinstance(law, LargestOverlap) and law.law.signed:
        raise InputError("law is signed: a loss sum needs overlaps that are all learned, i.e. an even activation")
