r"""How large the gaps of Lemma 3.1 (arXiv:2504.19983) typically are, for equal weights.

Given the levels at which greedy selection takes its pairs, the entries that a pair strikes out of its row and of its
column are independent, with the law of the score below that level, and each is struck out once. So, exactly,
$$P(\delta_r>\Delta\mid\text{levels})=\prod_{p\le P_*}\Big(\frac{F(s_p/(1+\Delta))}{F(s_p)}\Big)^{P-p},$$
with exponents m − p for the column gap and, for the threshold gap, (m − P_*)(P − P_*) at the last level alone. The levels
$H_p=-\ln F(s_p)$ are sums of independent exponentials (`EqualWeights`), so that the mean over them is a recursion from the
last pair back, an integral over one exponential each. (Logarithms linear in the levels, of value $-X$ at their means and
exponents $c_i$, give $-X+\sum_i(c_i-\ln(1+c_i))$: 3 to 6 % too many small gaps at m = 24, P = 8.)

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
import scipy.signal

from theory.core.arguments import check_one_of
from theory.core.errors import InputError
from theory.scaling.selection import EqualWeights

GAPS = ("row", "column", "threshold")
#: Points of the grid of levels, and by how many of the largest exponential's mean it goes beyond the mean of the last level.
_LEVELS, _TAIL = 4000, 30


@dataclass(frozen=True)
class GapLaw:
    r"""Distribution of the three gaps over the first `wanted` of P equally weighted directions.

    Attributes:
        selection: the competition, m ≥ P. wanted: P_*, below P. power: n = J − 2.

    Raises `InputError` for a number of wanted directions that leaves no rivals, or a signed law.
    """

    selection: EqualWeights
    wanted: int
    power: float = 2.0

    def __post_init__(self) -> None:
        most = self.selection.directions - 1
        if not 1 <= self.wanted <= most:
            raise InputError(f"wanted is {self.wanted!r}: the gaps need rivals, give 1 to {most}")
        if self.selection.law.signed:
            raise InputError(
                "law is signed: with too few positive overlaps a pair is missing: the gaps need an even activation"
            )

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

    def _reaches(self, level: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
        """The reach at a level $H=-\\ln F(s)$, and that of a score by a factor of 1 + Δ below."""
        reach = self.selection.law.from_tail(-np.expm1(-level))
        return reach, reach * (1 + size) ** (-1 / self.power)

    def _drop(self, level: np.ndarray, size: float) -> np.ndarray:
        r"""$x=\ln F(s)-\ln F(s/(1+\Delta))$ at a level H; at H = 0 the highest score is √d, beside which x is not 0."""
        return -level - self.selection.law.log_cdf(self._reaches(level, size)[1])

    def _slope(self, level: np.ndarray, size: float) -> np.ndarray:
        """The derivative of x in H."""
        above, below = (self.selection.law.growth(reach) for reach in self._reaches(level, size))
        return below / above - 1

    def log_survival(self, gap: str, size: float, exact: bool = True) -> float:
        r"""$\ln P(\delta>\Delta)$ for Δ ≥ 0, relative error of the probability below 1e-4. `gap`: row, column or threshold.

        By backward recursion over the pairs, one integral over one exponential each. Not `exact`: with the logarithm linear in
        the levels about their means.
        """
        rivals = self._rivals(gap)
        if not exact:
            level = np.cumsum(self._scale)
            drop, slope = self._drop(level, size), self._slope(level, size)
            pull = self._scale * np.cumsum((rivals * slope)[::-1])[::-1]
            return -float(np.sum(rivals * drop)) + float(np.sum(pull - np.log1p(pull)))
        levels = np.linspace(0.0, self._scale.sum() + _TAIL * self._scale.max(), _LEVELS)
        drop = self._drop(levels, size)
        # P of all later pairs, given the level before each: the mean over the next exponential, straight between levels.
        later = np.ones(_LEVELS)
        for count, scale in zip(rivals[::-1], self._scale[::-1], strict=True):
            step = levels[1] / scale
            kept, near = np.exp(-step), 1 + np.expm1(-step) / step
            given = np.exp(-count * drop) * later
            added = near * given[:-1] + (1 - kept - near) * given[1:]
            later[-1] = given[-1]
            later[-2::-1] = scipy.signal.lfilter([1.0], [1.0, -kept], added[::-1], zi=[kept * given[-1]])[0]
        with np.errstate(divide="ignore"):  # (none of so large a gap)
            return float(np.log(later[0]))

    def median(self, gap: str, exact: bool = True) -> float:
        """The Δ that the gap exceeds in half of all draws. Raises `InputError` if there is none below 1e12."""

        def excess(size: float) -> float:
            return self.log_survival(gap, size, exact) + float(np.log(2))

        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 1e12:
                raise InputError(f"gap {gap}: too few rivals for half of all draws to have one: raise the widths")
        return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-9 * high, rtol=1e-6))

    def leading(self, gap: str) -> float:
        """The medians' leading form for P_* ≪ m, P (see the head of this module)."""
        m, width, wanted = self.selection.width, self.selection.directions, self.wanted
        reach2 = float(self.selection.law.from_tail(wanted / (m * width))) ** 2
        scale = {"row": 2 * m / wanted**2, "column": 2 * width / wanted**2, "threshold": 1 / wanted}
        return float(np.log(2) * self.power / reach2 * scale[gap])
