r"""How large the gaps of Lemma 3.1 (arXiv:2504.19983) typically are, for equal weights.

Given the levels at which greedy selection takes its pairs, the entries that a pair strikes out of its row and of its
column are independent, with the law of the score below that level, and each is struck out once. So, exactly,
$$P(\delta_r>\Delta\mid\text{levels})=\prod_{p\le P_*}\Big(\frac{F(s_p/(1+\Delta))}{F(s_p)}\Big)^{P-p},$$
with exponents m − p for the column gap and, for the threshold gap, (m − P_*)(P − P_*) at the last level alone. The levels
$H_p=-\ln F(s_p)$ are sums of independent exponentials (`EqualWeights`). The logarithm, linear in them to leading order,
is averaged over the exponentials exactly, mean $-X$ and exponents $c_i$ giving $-X+\sum_i(c_i-\ln(1+c_i))$; its curvature
enters through the variance of the levels.

For large m, P and P_* ≪ m, P, with g the typical reach $P(g>u)=P_*/(mP)$,
$$\delta_r\approx\frac{2\ln2\,n}{g^2}\frac m{P_*^2},\qquad\delta_c\approx\frac{2\ln2\,n}{g^2}\frac P{P_*^2},\qquad
\delta_t\approx\frac{\ln2\,n}{g^2}\frac1{P_*}$$
(medians, n = J − 2): far above what a union bound over all pairs guarantees, δ/(mP²), δ/(m²P), δ/(m²P²). With more
neurons the row gap even grows: a selected neuron is then less likely to be good at a second direction.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from theory.core.arguments import check_one_of
from theory.core.errors import InputError
from theory.scaling.selection import EqualWeights

GAPS = ("row", "column", "threshold")


@dataclass(frozen=True)
class GapLaw:
    r"""Distribution of the three gaps over the first `wanted` of P equally weighted directions.

    Attributes:
        selection: the competition, m ≥ P. wanted: P_*, below P. power: n = J − 2.

    Raises `InputError` for a number of wanted directions that leaves no rivals.
    """

    selection: EqualWeights
    wanted: int
    power: float = 2.0

    def __post_init__(self) -> None:
        most = self.selection.directions - 1
        if not 1 <= self.wanted <= most:
            raise InputError(f"wanted is {self.wanted!r}: the gaps need rivals, give 1 to {most}")

    def _rivals(self, gap: str) -> np.ndarray:
        """(P_*,) number of entries struck out at each pair that the gap looks at."""
        rank = np.arange(1, self.wanted + 1)
        rows, columns = self.selection.width - rank, self.selection.directions - rank
        if gap == "row":
            return columns
        if gap == "column":
            return rows
        check_one_of(GAPS, gap=gap)
        return np.where(rank == self.wanted, rows * columns, 0)

    @cached_property
    def _scale(self) -> np.ndarray:
        """(P_*,) means of the exponentials that add up to the levels."""
        i = np.arange(self.wanted)
        return 1.0 / ((self.selection.width - i) * (self.selection.directions - i))

    def _drop(self, level: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
        r"""$x=\ln F(s)-\ln F(s/(1+\Delta))$ at a level $H=-\ln F(s)$, and its derivative in H."""
        law = self.selection.law
        reach = law.from_tail(-np.expm1(-level))
        lower = reach * (1 + size) ** (-1 / self.power)
        return -level - law.log_cdf(lower), law.growth(lower) / law.growth(reach) - 1

    def log_survival(self, gap: str, size: float, bent: bool = True) -> float:
        r"""$\ln P(\delta>\Delta)$ for Δ ≥ 0. `gap`: row, column or threshold; `bent`: with $\tfrac12x''(H)\mathrm{Var}H$."""
        rivals, level = self._rivals(gap), np.cumsum(self._scale)
        drop, slope = self._drop(level, size)
        pull = self._scale * np.cumsum((rivals * slope)[::-1])[::-1]
        value = -float(np.sum(rivals * drop)) + float(np.sum(pull - np.log1p(pull)))
        if not bent:
            return value
        spread = np.cumsum(self._scale**2)
        step = 0.1 * np.sqrt(spread)
        bend = (self._drop(level + step, size)[1] - self._drop(level - step, size)[1]) / (2 * step)
        return value - float(np.sum(rivals * bend * spread)) / 2

    def median(self, gap: str, bent: bool = True) -> float:
        """The Δ that the gap exceeds in half of all draws. Raises `InputError` if there is none below 1e12."""

        def excess(size: float) -> float:
            return self.log_survival(gap, size, bent) + float(np.log(2))

        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 1e12:
                raise InputError(f"gap {gap}: too few rivals for half of all draws to have one: raise the widths")
        return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-10))

    def median_error(self, gap: str) -> float:
        """The last correction that `median` keeps, the curvature: an estimate of what it leaves out."""
        return abs(self.median(gap) - self.median(gap, bent=False))

    def leading(self, gap: str) -> float:
        """The medians' leading form for P_* ≪ m, P (see the head of this module)."""
        m, width, wanted = self.selection.width, self.selection.directions, self.wanted
        reach2 = float(self.selection.law.from_tail(wanted / (m * width))) ** 2
        scale = {"row": 2 * m / wanted**2, "column": 2 * width / wanted**2, "threshold": 1 / wanted}
        return float(np.log(2) * self.power / reach2 * scale[gap])
