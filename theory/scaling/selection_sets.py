r"""Greedy selection of few directions, exactly: the chain of `theory.scaling.selection` over the sets of free directions.

As the threshold s falls, the set R of free directions loses q at the rate $(m-P+|R|)\,d\ln F_q(s)$. With $2^P$ sets that is a
linear equation for their probabilities.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.scaling.competition import Competition

#: More directions have so many sets that a law of them would make a prediction wait.
MOST_DIRECTIONS = 8
#: By which probabilities are right to 1e-6, as far as the thresholds go; and what may still change at the end.
_RTOL, _ATOL, _LEFT = 1e-8, 1e-10, 1e-9


@dataclass(frozen=True)
class FreeSets:
    """Probabilities (2^P,) of the set of directions that are never selected: bit q of the index says that q is in it."""

    probability: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """(2^P, P) bool: which directions are in each set."""
        return members(len(self.probability).bit_length() - 1)

    @property
    def missed(self) -> np.ndarray:
        """(P,) probability that a direction is never selected."""
        return self.probability @ self.free

    @property
    def all_selected(self) -> np.ndarray:
        """(P + 1,) probability that directions 1 … q are all selected, q = 0 … P."""
        none = ~np.logical_or.accumulate(self.free, axis=1)
        return np.concatenate([[1.0], self.probability @ none])


def members(count: int) -> np.ndarray:
    """(2^P, P) bool: whether direction q is in set number n, by bit q of n."""
    return (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1


def free_sets(competition: Competition) -> FreeSets:
    """Integrate the chain, a fraction of a second. Raises `InputError` beyond `MOST_DIRECTIONS` directions, or if it fails."""
    count, width = len(competition.weights), competition.width
    if count > MOST_DIRECTIONS:
        raise InputError(
            f"{count} directions: the exact law goes up to {MOST_DIRECTIONS}; take `selection_law`, which is for many"
        )
    free = members(count)
    neurons = np.maximum(width - count + free.sum(axis=1), 0)
    moving = (neurons > 0) & free.any(axis=1)
    before = [np.flatnonzero(free[:, q]) for q in range(count)]

    def rate(minus_log: float, probability: np.ndarray) -> np.ndarray:
        growth, flow = competition.growth(np.exp(-minus_log)), probability * neurons
        moved = -flow * (free @ growth)
        for q, sets in enumerate(before):
            moved[sets - 2**q] += flow[sets] * growth[q]
        return moved

    def settled(minus_log: float, probability: np.ndarray) -> float:
        return float(probability[moving].sum()) - _LEFT

    settled.terminal = True  # type: ignore[attr-defined]
    start = np.eye(2**count)[-1]
    # (Where weights differ widely, sets that are long empty make the equation stiff.)
    done = scipy.integrate.solve_ivp(rate, competition.interval, start, "LSODA", events=settled, rtol=_RTOL, atol=_ATOL)
    if not done.success:
        raise InputError(
            f"width is {width}: greedy selection could not be integrated: bring the weights closer together"
        )
    return FreeSets(np.clip(done.y[:, -1], 0.0, 1.0))
