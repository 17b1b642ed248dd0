r"""Greedy selection of few directions, exactly: the chain of `theory.scaling.selection` over the sets of free directions.

As the threshold s falls, the set R of free directions loses q at the rate $(m-P+|R|)\,d\ln F_q(s)$. With $2^P$ sets that is a
linear equation for their probabilities.
"""

from dataclasses import dataclass
from itertools import pairwise

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

    def rate(root: float, probability: np.ndarray, begin: float) -> np.ndarray:
        growth = 2 * root * competition.growth(np.exp(-begin - root**2))
        flow = probability * neurons
        moved = -flow * (free @ growth)
        for q, sets in enumerate(before):
            moved[sets - 2**q] += flow[sets] * growth[q]
        return moved

    def settled(root: float, probability: np.ndarray, begin: float) -> float:
        return float(probability[moving].sum()) - _LEFT

    settled.terminal = True  # type: ignore[attr-defined]
    probability = np.eye(2**count)[-1]
    for begin, end in pairwise(_parts(competition)):
        # (Where weights differ widely, sets that are long empty make the equation stiff.)
        done = scipy.integrate.solve_ivp(
            rate,
            (0.0, np.sqrt(end - begin)),
            probability,
            "LSODA",
            events=settled,
            args=(begin,),
            rtol=_RTOL,
            atol=_ATOL,
        )
        if not done.success:
            raise InputError(
                f"width is {width}: greedy selection could not be integrated: bring the weights closer together"
            )
        probability = done.y[:, -1]
        if done.status == 1:
            break
    return FreeSets(np.clip(probability, 0.0, 1.0))


def _parts(competition: Competition) -> np.ndarray:
    r"""−ln s where an integration begins and ends, and between them where direction q comes in, at $s=a_qd^{n/2}$.

    At d = 3 its rate jumps there, and at d = 2 it is infinite, as an inverse root: integrate over the root of what is beyond.
    """
    begin, end = competition.interval
    entries = -np.log(competition.a) - competition.power / 2 * np.log(competition.law.dim)
    return np.unique([begin, *entries[(entries > begin) & (entries < end)], end])
