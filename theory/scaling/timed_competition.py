"""A width-m student's neurons compete by exact one-task times: every degree, both signs, any dimension (derived)."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.one_task.lone_path import lone_path
from theory.scaling.competition import FARTHEST, START, Competition

#: Overlaps u at which times are computed: from where no start is, to the goal, which they approach in so many steps each.
_LEAST, _GOAL, _STEPS = 1e-12, 0.5**0.5, 500
#: Of the table of the law.
_CELLS = 20_000
_OVERLAPS = np.unique(
    np.concatenate([np.geomspace(_LEAST, 0.9 * _GOAL, _STEPS), _GOAL - np.geomspace(0.1, 1e-12, _STEPS)])
)


@dataclass(frozen=True)
class TimedCompetition(Competition):
    r"""Scores $S=a_q/T_\pm(g/\sqrt d)$ of overlaps of either sign: T, of unit weight to squared overlap ½ (`lone_path`).

    These are what a prediction selects by (`exact_scores`). To leading order they are the powers of a `Competition`, with
    infinite d, where one degree J ≥ 3 is all that matters; at J = 2 times are logarithms of the overlap, and overlaps of both
    signs that both get there take different times if there are degrees of both parities:
    $F_q(s)=\tfrac12F(g_+)+\tfrac12F(g_-)$ at the reaches that the score asks of either sign.

    Attributes:
        activation: its information exponent is 2 or more, else `InputError`. dim: d.
    """

    activation: Activation = field(kw_only=True)
    dim: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation.information_exponent < 2:
            raise InputError(
                f"activation {self.activation.name!r}: selection by overlap needs an information exponent of 2 or more: "
                "take its linear part off"
            )

    @cached_property
    def _log_reach(self) -> tuple[PchipInterpolator, ...]:
        """ln g by ln S of unit weight, of each sign that gets there. (Who is there at once is ordered by the overlap.)"""
        found = []
        for end in (1, -1):
            time = lone_path(self.activation, end).half_time(end * _OVERLAPS)
            there = time < np.inf
            if there.any():
                log_score, log_overlap = -np.log(time[there]), np.log(_OVERLAPS[there])
                beyond = np.log(FARTHEST) - log_overlap[-1]
                log_score, log_overlap = (np.append(x, x[-1] + beyond) for x in (log_score, log_overlap))
                found.append(PchipInterpolator(log_score, log_overlap + np.log(self.dim) / 2))
        return tuple(found)

    @cached_property
    def _of_unit_weight(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ln s, ln F and d ln F/d ln s, on a grid that is dense: its law is asked for thousands of times."""
        begin, end = self._ends
        log_score, left, gained = np.linspace(end, begin, _CELLS), np.zeros(_CELLS), np.zeros(_CELLS)
        for law in self._log_reach:
            inside = np.clip(log_score, law.x[0], law.x[-1])
            reach, slope = np.exp(law(inside)), np.where(log_score == inside, law(inside, 1), 0.0)
            left += self.law.tail(reach) / 2
            gained += reach * self.law.density(reach) / 2 * slope
        return log_score, np.log1p(-left), gained / (1 - left)

    @property
    def _ends(self) -> tuple[float, float]:
        """ln s of unit weight: where hardly any pair is above, and where none that gets there is left."""
        highest = np.log(self.law.from_tail(START / (self.width * len(self.weights))))
        first = max(float(np.interp(highest, law(law.x), law.x)) for law in self._log_reach)
        return first, min(float(law.x[0]) for law in self._log_reach)

    def _look_up(self, score: ArrayLike, column: int) -> np.ndarray:
        table = self._of_unit_weight
        return np.interp(np.log(np.asarray(score, dtype=float))[..., None] - np.log(self.a), table[0], table[column])

    @property
    def interval(self) -> tuple[float, float]:
        """From −ln s where hardly any pair is above s, to where none that gets there is left."""
        begin, end = self._ends
        return -begin - float(np.log(self.a.max())), -end - float(np.log(self.a.min()))

    def log_cdf(self, score: ArrayLike) -> np.ndarray:
        r"""$\ln F_q(s)$, shape (..., P)."""
        return self._look_up(score, 1)

    def growth(self, score: ArrayLike) -> np.ndarray:
        r"""$d\ln F_q/d\ln s$, shape (..., P)."""
        return self._look_up(score, 2)
