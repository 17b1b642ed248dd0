r"""Greedy maximum selection: which neuron learns which direction, and in what order (arXiv:2504.19983, eq. (5)).

Leading score $S_{kq} = a_q|\bar v_{kq}(0)|^{J-2}$ for even $J$; for odd $J$ a negative overlap never grows and scores 0.
That is $1/T_{kq}$ up to a constant while the leading degree is all that matters. A prediction takes the exact one-task times
in its place (`exact_scores`): with degrees of both parities a negative overlap may stall also for even J.
"""

from dataclasses import dataclass

import numpy as np

from theory.core.activation import Activation
from theory.core.teacher import Teacher
from theory.one_task.lone_path import lone_path

#: Overlaps whose times are computed at once: bounds memory.
_BLOCK = 100_000
#: A start beyond squared overlap ½ takes no time; its score is that of this one.
_LEAST_TIME = 1e-12


def scores(overlap: np.ndarray, teacher: Teacher, exponent: int) -> np.ndarray:
    """Leading scores S, shape (m, P), from signed overlaps (m, P).

    For J ≤ 2 there is no plateau law; what orders the emergence times is then |overlap| (J = 2), or the overlap itself
    (J = 1, where negative overlaps grow too).
    """
    if exponent == 1:
        return teacher.a * (1.0 + overlap)
    reach = overlap if exponent % 2 else np.abs(overlap)
    return teacher.a * np.maximum(reach, 0.0) ** max(exponent - 2, 1)


def exact_scores(overlap: np.ndarray, teacher: Teacher, activation: Activation) -> np.ndarray:
    r"""Inverse exact one-task times to squared overlap ½, every degree, shape (m, P); 0 where a neuron never gets there.

    For J ≥ 3 times $1/(J(J-2)\hat\sigma_J^2)$, so that they tend to the leading scores as overlaps vanish; for J = 1, where
    overlaps of both signs grow, the leading scores themselves.
    """
    J = activation.information_exponent
    if J == 1:
        return scores(overlap, teacher, J)
    flat = overlap.ravel()
    parts = np.array_split(flat, -(-flat.size // _BLOCK))
    times = np.concatenate(
        [np.where(x > 0, *(lone_path(activation, end).half_time(end * np.abs(x)) for end in (1, -1))) for x in parts]
    )
    constant = J * (J - 2) * float(activation.leading) if J > 2 else 1.0
    return teacher.a / (constant * np.maximum(times, _LEAST_TIME)).reshape(overlap.shape)


@dataclass(frozen=True)
class Selection:
    """The greedy pairs, in the order of learning (largest score first).

    Attributes:
        neurons: (n,) selected neuron of each pair; n ≤ min(m, P), less where an odd activation leaves no candidate.
        directions: (n,) the direction it learns.
        scores: (n,) the pairs' scores, decreasing.
        lead: (n,) by which factor the pair is clear of any tie, ≥ 1: while no score moves by more than its square root,
            up or down, the neuron learns this direction. Near 1 finite size decides.
    """

    neurons: np.ndarray
    directions: np.ndarray
    scores: np.ndarray
    lead: np.ndarray

    def neuron_of(self, width: int) -> np.ndarray:
        """(P,) the neuron of each direction, −1 where none is selected."""
        found = np.full(width, -1)
        found[self.directions] = self.neurons
        return found


def select(score: np.ndarray) -> Selection:
    """Repeatedly take the largest entry and strike out its row and column; cost min(m, P)·mP."""
    left = score.astype(float).copy()
    rows: list[int] = []
    columns: list[int] = []
    for _ in range(min(score.shape)):
        row, column = np.unravel_index(int(np.argmax(left)), left.shape)
        if left[row, column] <= 0:
            break
        left[row, :] = -1.0
        left[:, column] = -1.0
        rows.append(int(row))
        columns.append(int(column))
    neurons, directions = np.array(rows, int), np.array(columns, int)
    return Selection(neurons, directions, score[neurons, directions].astype(float), _leads(score, rows, columns))


def _leads(score: np.ndarray, neurons: list[int], directions: list[int]) -> np.ndarray:
    r"""(n,) by which factor each selected pair is clear of ties.

    A rival is an entry $S_e$ for the same neuron or the same direction. It is no danger if it is far below the pair's own
    score, or if an earlier pair b took its neuron or direction, far above it and itself clear: in any case
    $\max\{S_{pair}/S_e,\ \min(S_b/S_e,\ lead_b)\}$. The lead is the least of these over the rivals, so that a near tie
    casts doubt on all directions that what was taken there would have fallen to.
    """
    by_neuron, by_direction = (
        np.zeros((2, size)) for size in score.shape
    )  # rows: score and lead of the pair, 0 before
    found = []
    for k, q in zip(neurons, directions, strict=True):
        own = float(score[k, q])
        along = _clearance(own, score[k], by_direction, q)
        across = _clearance(own, score[:, q], by_neuron, k)
        found.append(min(along, across))
        by_neuron[:, k] = by_direction[:, q] = own, found[-1]
    return np.array(found)


def _clearance(own: float, rivals: np.ndarray, taken: np.ndarray, place: int) -> float:
    """Least clearance from the rivals other than `place`; `taken` has score and lead of the pairs that beat them."""
    there = rivals > 0
    there[place] = False
    beaten = np.minimum(taken[0, there] / rivals[there], taken[1, there])
    return float(np.min(np.maximum(own / rivals[there], beaten), initial=np.inf))


def reorder(score: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows and columns in the order of learning, unused ones last; and the number of selected pairs. `score`: (m, P)."""
    chosen = select(score)
    rows = [*chosen.neurons, *sorted(set(range(score.shape[0])) - set(chosen.neurons))]
    columns = [*chosen.directions, *sorted(set(range(score.shape[1])) - set(chosen.directions))]
    return score[np.ix_(np.array(rows, int), np.array(columns, int))], len(chosen.neurons)


def row_gap_probability(gap: float, exponent: int) -> float:
    r"""P(1 ≤ S_kq/S_kq' < 1+Δ) for equal weights: the ratio of two Gaussian overlaps is standard Cauchy.

    $\tfrac2\pi\big[\arctan(1+\Delta)^{1/(J-2)}-\tfrac\pi4\big]$, a quarter of it for an odd J, where both overlaps must be
    positive to have a score at all; exact for students uniform on the sphere. Needs J ≥ 3.
    """
    share = 1 if exponent % 2 == 0 else 1 / 4
    return float(share * 2 / np.pi * (np.arctan((1 + gap) ** (1 / (exponent - 2))) - np.pi / 4))


def row_gap_bound(gap: float, exponent: int) -> float:
    r"""$\Delta/(\pi(J-2))$, the bound on `row_gap_probability` that Lemma 3.1 uses.

    As Δ → 0 it is tight for even J, and four times the probability for odd J.
    """
    return gap / (np.pi * (exponent - 2))
