r"""The idealised loss sum of power-law teachers, with random initial overlaps: exact sums and their limits.

Weights $a_p=p^{-\beta}/Z$, $Z^2=\sum_{p\le P}p^{-2\beta}$; direction p is learned at $T_p=s_p\cdot$`unit`,
$$s_p=p^\beta g_p^{-(J-2)},\qquad\text{unit}=\frac{Z\,d^{J/2-1}}{J(J-2)\hat\sigma_J^2},$$
with independent overlaps $g_p=\sqrt d\,|\bar v_p(0)|$ of one law (`theory.scaling.largest_overlap`). With $F(g)$ its
distribution function the expected share of the loss that is left at reduced time s is the exact finite sum

$$\ell(s)=\frac1{Z^2}\Big[\sum_{p\le m\wedge P}p^{-2\beta}F\big((p^\beta/s)^{1/(J-2)}\big)+\sum_{m<p\le P}p^{-2\beta}\Big].$$

For $P,m\to\infty$ the sum over all p is an integral up to terms that vanish faster than any power available to F at 0, so

$$Z^2\ell(s)\simeq\frac{E[g^q]\,s^{(1-2\beta)/\beta}-(P+\tfrac12)^{1-2\beta}}{2\beta-1},
\qquad q=(J-2)(1-2\beta)/\beta,\qquad s\ll P^\beta,$$

for $\beta>\tfrac12$ (decay, bent by the missing tail) and $\beta<\tfrac12$ (heavy tail) alike. Random overlaps only change
the constant, $g^q\to E[g^q]$, as long as that moment is finite: the largest of n overlaps needs
$n>(J-2)(2\beta-1)/\beta$.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from theory.core.arguments import check_positive
from theory.core.errors import InputError
from theory.core.power_sums import power_sum
from theory.core.quadrature import gauss_legendre
from theory.scaling.largest_overlap import FixedOverlap, Overlap, require_even

#: Directions up to this one are summed one by one; beyond, the summand is smooth on the scale of one.
_EXPLICIT = 1024
#: Gauss–Legendre panels in ln p: their width and nodes.
_PANEL, _NODES = 0.1, 10


@dataclass(frozen=True)
class PowerLawLoss:
    """Expected staircase of a power-law teacher.

    Attributes:
        decay: β > 0.
        teachers: P, a whole number; inf for β > ½.
        law: law of the overlaps; by default all equal to 1/√d.
        exponent: J ≥ 3, the information exponent.

    Raises `InputError` for β ≤ 0, a P that is neither whole nor inf, an infinite P at β ≤ ½, a signed law, or J < 3.
    """

    decay: float
    teachers: float
    law: Overlap = field(default_factory=FixedOverlap)
    exponent: int = 4

    def __post_init__(self) -> None:
        check_positive(decay=self.decay)
        if not self.teachers >= 1 or (np.isfinite(self.teachers) and self.teachers != int(self.teachers)):
            raise InputError(f"teachers is {self.teachers!r}: give a whole number, 1 or more, or inf")
        if np.isinf(self.teachers) and not self.decay > 0.5:
            raise InputError(
                f"teachers is inf at decay {self.decay:g}: an infinite teacher needs a decay above one half"
            )
        require_even(self.law)
        if self.exponent < 3:
            raise InputError(
                f"exponent is {self.exponent}: a loss staircase needs an information exponent of 3 or more"
            )

    # -------------------------------------------------------------------- scales

    @cached_property
    def norm2(self) -> float:
        r"""$Z^2=\sum_{p\le P}p^{-2\beta}$."""
        return float(power_sum(2 * self.decay, 0, self.teachers))

    def unit(self, dim: int, leading: float = 1.0) -> float:
        r"""Gradient-flow time per reduced time: $Zd^{J/2-1}/(J(J-2)\hat\sigma_J^2)$; `leading` is $\hat\sigma_J^2$."""
        J = self.exponent
        return float(np.sqrt(self.norm2) * dim ** (J / 2 - 1) / (J * (J - 2) * leading))

    @property
    def power(self) -> float:
        r"""$q=(J-2)(1-2\beta)/\beta$: the moment of g that sets the constant."""
        return (self.exponent - 2) * (1 - 2 * self.decay) / self.decay

    @cached_property
    def typical_overlap(self) -> float:
        r"""$E[g^q]^{1/q}$: the one overlap with the same limit law; $e^{E\ln g}$ at β = ½."""
        if self.power == 0:
            return float(np.exp(self.law.expect(np.log)))
        return float(self._moment ** (1 / self.power))

    @cached_property
    def _moment(self) -> float:
        """E[g^q]. Raises `InputError` where it diverges: then a few directions with tiny overlaps make up the loss."""
        value = self.law.moment(self.power)
        if not np.isfinite(value):
            raise InputError(
                f"law {self.law} has no moment of order {self.power:.3g}: the power law in time needs more overlaps to "
                "choose from, or a smaller decay"
            )
        return value

    def time_of(self, direction: ArrayLike) -> np.ndarray:
        """Reduced time $p^\\beta/g^{J-2}$ of direction p at the typical overlap. Shape of `direction`."""
        return np.asarray(direction, dtype=float) ** self.decay / self.typical_overlap ** (self.exponent - 2)

    # ---------------------------------------------------------------- exact sums

    def share(self, times: ArrayLike, width: float = np.inf) -> np.ndarray:
        """ℓ at reduced `times` (any shape) for a student that learns the first `width` directions at most.

        Relative error below 1e-9 while a tenth of the directions is left, for laws whose width in ln p is 0.03 or more (the
        largest of up to 10⁶ overlaps at β = 2, J = 4); exact for `FixedOverlap`. Raises `InputError` for times that are
        negative or no numbers, or a width that is no whole number.
        """
        time = np.asarray(times, dtype=float)
        if not np.all(time >= 0):
            raise InputError("times hold values that are negative or no numbers: give reduced times of 0 or more")
        if not width >= 0 or (np.isfinite(width) and width != int(width)):
            raise InputError(f"width is {width!r}: give a whole number of directions, or inf")
        last = min(width, self.teachers)
        beyond = power_sum(2 * self.decay, last, self.teachers)
        if isinstance(self.law, FixedOverlap):
            # A direction learned at this very moment counts as learned, also after rounding.
            learned = np.floor((time * self.law.value ** (self.exponent - 2)) ** (1 / self.decay) * (1 + 1e-13))
            return (power_sum(2 * self.decay, np.minimum(learned, last), last) + beyond) / self.norm2
        finite = np.where(np.isinf(time), 0.0, time)
        expected = self._expected(finite.ravel(), last).reshape(time.shape)
        return (np.where(np.isinf(time), 0.0, expected) + beyond) / self.norm2

    def _expected(self, time: np.ndarray, last: float) -> np.ndarray:
        """Σ_{p≤last} p^(−2β) F((p^β/s)^{1/(J−2)}): one by one at first, then Gauss–Legendre in ln p with midpoint ends."""
        if np.isinf(last):
            # Far beyond every stair F is 1.
            far = np.ceil((1e3 * np.max(time, initial=1.0) * self._reach) ** (1 / self.decay)) + _EXPLICIT
            return self._expected(time, float(far)) + power_sum(2 * self.decay, far)
        p = np.arange(1, min(last, _EXPLICIT) + 1.0)
        total = self._summand(p, time).sum(axis=1)
        if last > _EXPLICIT:
            low, high = _EXPLICIT + 0.5, last + 0.5
            nodes, weights = _log_rule(low, high)
            total += self._summand(nodes, time) @ weights
            # Midpoint Euler–Maclaurin: Σ f = ∫ f − [f′]/24 + …, with f′ at the ends from neighbouring whole numbers.
            edge = np.array([_EXPLICIT, _EXPLICIT + 1.0, last, last + 1.0])
            values = self._summand(edge, time)
            total -= ((values[:, 3] - values[:, 2]) - (values[:, 1] - values[:, 0])) / 24
        return total

    @property
    def _reach(self) -> float:
        """A time scale beyond which practically every direction of index 1 is learned: g^(J−2) at its largest."""
        return 40.0 ** (self.exponent - 2)

    def _summand(self, p: np.ndarray, time: np.ndarray) -> np.ndarray:
        """p^(−2β) F(…), shape (times, p)."""
        with np.errstate(divide="ignore"):
            needed = (p**self.decay / time[:, None]) ** (1 / (self.exponent - 2))
        return p ** (-2 * self.decay) * self.law.cdf(needed)

    # -------------------------------------------------------------------- limits

    def limit(self, times: ArrayLike) -> np.ndarray:
        r"""$E[g^q]s^{(1-2\beta)/\beta}/((2\beta-1)Z^2)$: the power law of an infinite teacher (asymptotic).

        Shape of `times`. Raises `InputError` for β ≤ ½.
        """
        self._require(above=True)
        tail = np.asarray(times, dtype=float) ** ((1 - 2 * self.decay) / self.decay)
        return self._moment * tail / ((2 * self.decay - 1) * self.norm2)

    def corrected(self, times: ArrayLike) -> np.ndarray:
        """The two-term law above with the missing (β > ½) or remaining (β < ½) tail; for s ≪ P^β, β ≠ ½ (asymptotic).

        Shape of `times`. Raises `InputError` for β = ½.
        """
        if self.decay == 0.5:
            raise InputError("decay is 0.5: the two-term law has a logarithm there, use the exact sum")
        tail = np.asarray(times, dtype=float) ** ((1 - 2 * self.decay) / self.decay)
        missing = 0.0 if np.isinf(self.teachers) else (self.teachers + 0.5) ** (1 - 2 * self.decay)
        return (self._moment * tail - missing) / ((2 * self.decay - 1) * self.norm2)

    def heavy_limit(self, progress: ArrayLike) -> np.ndarray:
        r"""$1-E[\min(1,xg^{(J-2)/\beta})^{1-2\beta}]$ at $s=(xP)^\beta$, the limit P → ∞ for β < ½ (asymptotic).

        $1-x^{1-2\beta}$ for g = 1 and x ≤ 1. The unit of time is then $Z P^\beta\simeq\sqrt{P/(1-2\beta)}$.
        Shape of `progress`. Raises `InputError` for β ≥ ½.
        """
        self._require(above=False)
        x = np.asarray(progress, dtype=float)[..., None]
        power = (self.exponent - 2) / self.decay
        return 1 - self.law.expect(lambda g: np.minimum(1.0, x * g**power) ** (1 - 2 * self.decay))

    def _require(self, above: bool) -> None:
        if (self.decay > 0.5) != above or self.decay == 0.5:
            side = "above" if above else "below"
            raise InputError(f"decay is {self.decay:g}: this limit needs a decay {side} one half")


def _log_rule(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss–Legendre nodes and weights for ∫ f dp over [low, high], panels uniform in ln p."""
    panels = max(1, int(np.ceil(np.log(high / low) / _PANEL)))
    edges = np.linspace(np.log(low), np.log(high), panels + 1)
    y, weights = (x.ravel() for x in gauss_legendre(edges[:-1], edges[1:], _NODES))
    return np.exp(y), weights * np.exp(y)
