r"""The decoupled loss sum at finite dimension: exact law of the overlaps, exact one-task time with every Hermite degree.

One task takes $T(u)=K(u)/a$ from overlap u to squared overlap ½, $K(u)=\int_u^{1/\sqrt2}dv/(\varphi'(v)(1-v^2))$, so that
$P(T_p>t)=P(|u|<K^{-1}(a_pt))$, with $du^2$ the largest of n squared coordinates of uniform unit vectors of $R^d$. In reduced
time $s=t\,J(J-2)\hat\sigma_J^2/d^{J/2-1}$ (weights $p^{-\beta}$ not normalised) the limit d → ∞ is `PowerLawLoss`.
The one-task time is that of `theory.one_task.single_task`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.quadrature import gauss_legendre
from theory.one_task.single_task import SingleTask
from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.power_law_loss import PowerLawLoss

#: Panels of the table of K in ln u, and Gauss–Legendre nodes in each.
_PANELS, _NODES = 20_000, 3


@dataclass(frozen=True)
class FiniteDimLoss:
    """Expected share of the loss, decay β, P teachers, each with the largest of n overlaps in $R^d$ of its own.

    Attributes:
        activation: even, information exponent 4 or more.
        law: law of the overlaps, with its dimension.

    Raises: `InputError` for other activations, or a law in infinite dimension.
    """

    activation: Activation
    decay: float
    teachers: int
    law: LargestOverlap

    def __post_init__(self) -> None:
        self.activation.require_even("the loss sum")
        self.activation.require_exponent(4, "the loss sum")
        if not np.isfinite(self.law.law.dim):
            raise InputError("law is that of infinite dimension: give OverlapLaw(dim), or use PowerLawLoss")

    @property
    def limit(self) -> PowerLawLoss:
        """The same in the limit of large dimension, with leading emergence times."""
        return PowerLawLoss(
            self.decay, self.teachers, LargestOverlap(self.law.count), self.activation.information_exponent
        )

    @property
    def unit(self) -> float:
        r"""Gradient-flow time (weights not normalised) per reduced time: $d^{J/2-1}/(J(J-2)\hat\sigma_J^2)$."""
        J = self.activation.information_exponent
        return float(self.law.law.dim ** (J / 2 - 1) / (J * (J - 2) * float(self.activation.leading)))

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, float]:
        r"""$\ln(1+K/K_1)$, increasing from 0, and ln u for it, and $K_1=-dK/d\ln u$ at the end, where K = 0.

        Smooth in ln u both at the end and far from it, where K is a power. K by composite Gauss–Legendre in ln u, whose error
        is beyond rounding.
        """
        edges = np.linspace(np.log(1e-4 / np.sqrt(self.law.law.dim)), np.log(0.5) / 2, _PANELS + 1)
        place, weights = gauss_legendre(edges[:-1], edges[1:], _NODES)
        u = np.exp(place)
        slices = np.sum(weights * u / SingleTask(self.activation).speed(u, 1.0), axis=1)
        remaining = np.append(0.0, np.cumsum(slices[::-1]))
        scale = float(remaining[1] / (edges[1] - edges[0]))
        return np.log1p(remaining / scale), edges[::-1], scale

    def needed(self, times: ArrayLike) -> np.ndarray:
        """(…, P) overlap below which direction p is not learned by reduced `times` (…)."""
        weights = np.arange(1, self.teachers + 1.0) ** -self.decay
        clock, log_overlap, scale = self._table
        at = np.log1p(np.asarray(times, dtype=float)[..., None] * self.unit * weights / scale)
        return np.exp(np.interp(at, clock, log_overlap))

    def share(self, times: ArrayLike) -> np.ndarray:
        """Expected share of the loss left at reduced `times`, in their shape: to 1e-6 of itself, as long as overlaps above
        $10^{-4}d^{-1/2}$ decide (smaller ones count as that)."""
        below = self.law.cdf(np.sqrt(self.law.law.dim) * self.needed(times))
        weights2 = np.arange(1, self.teachers + 1.0) ** (-2 * self.decay)
        return below @ weights2 / weights2.sum()
