r"""Greedy maximum selection: which neuron learns which direction, and in what order (arXiv:2504.19983, eq. (5)).

Score $S_{kq} = a_q|\bar v_{kq}(0)|^{J-2}$ for even $J$; for odd $J$ a negative overlap never grows and scores 0.
"""

from dataclasses import dataclass

import numpy as np

from theory.teacher import Teacher


def scores(overlap: np.ndarray, teacher: Teacher, exponent: int) -> np.ndarray:
    """S, shape (m, P), from signed overlaps (m, P).

    For J ≤ 2 there is no plateau law; what orders the emergence times is then |overlap| (J = 2), or the overlap itself
    (J = 1, where negative overlaps grow too).
    """
    if exponent == 1:
        return teacher.a * (1.0 + overlap)
    reach = overlap if exponent % 2 else np.abs(overlap)
    return teacher.a * np.maximum(reach, 0.0) ** max(exponent - 2, 1)


@dataclass(frozen=True)
class Selection:
    """The greedy pairs, in the order of learning (largest score first).

    Attributes:
        neurons: (n,) selected neuron of each pair; n ≤ min(m, P), less where an odd activation leaves no candidate.
        directions: (n,) the direction it learns.
        scores: (n,) the pairs' scores, decreasing.
        runner_up: (n,) the best score among rivals for the same neuron or the same direction that were still free;
            a ratio near 1 is a near tie, in which finite size decides.
        near_miss: (n,) how close the neuron came to winning an earlier direction: largest S_kq'/S_winner,q' over the
            directions q' selected before. Near 1 it was almost drawn there, which delays its own direction.
    """

    neurons: np.ndarray
    directions: np.ndarray
    scores: np.ndarray
    runner_up: np.ndarray
    near_miss: np.ndarray

    def neuron_of(self, width: int) -> np.ndarray:
        """(P,) the neuron of each direction, −1 where none is selected."""
        found = np.full(width, -1)
        found[self.directions] = self.neurons
        return found

    @property
    def lead(self) -> np.ndarray:
        """(n,) by which factor the pair is clear of any tie, ≥ 1: over free rivals, and of earlier near misses."""
        with np.errstate(divide="ignore"):
            over_rivals = np.where(self.runner_up > 0, self.scores / self.runner_up, np.inf)
            return np.minimum(over_rivals, np.where(self.near_miss > 0, 1 / self.near_miss, np.inf))


def select(score: np.ndarray) -> Selection:
    """Repeatedly take the largest entry and strike out its row and column; cost min(m, P)·mP."""
    left = score.astype(float).copy()
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    rivals: list[float] = []
    misses: list[float] = []
    for _ in range(min(score.shape)):
        row, column = np.unravel_index(int(np.argmax(left)), left.shape)
        value = left[row, column]
        if value <= 0:
            break
        left[row, column] = -1.0
        misses.append(float(np.max(score[row, columns] / np.array(values), initial=0.0)))
        rivals.append(max(left[row].max(), left[:, column].max(), 0.0))
        left[row, :] = -1.0
        left[:, column] = -1.0
        rows.append(int(row))
        columns.append(int(column))
        values.append(float(value))
    return Selection(np.array(rows, int), np.array(columns, int), np.array(values), np.array(rivals), np.array(misses))


@dataclass(frozen=True)
class Gaps:
    """Lemma 3.1 of arXiv:2504.19983: by how much the selected entries beat their rivals, minus one.

    Attributes:
        row: $\\min_p S_{p,\\pi(p)}/\\max_{q>p}S_{p,\\pi(q)} - 1$.
        column: $\\min_p S_{p,\\pi(p)}/\\max_{k>p}S_{k,\\pi(p)} - 1$.
        threshold: $\\min_p S_{p,\\pi(p)}/\\max_{k,q>P_*}S_{k,\\pi(q)} - 1$.
    """

    row: float
    column: float
    threshold: float


def gaps(score: np.ndarray, wanted: int) -> Gaps:
    """The three gaps over the first `wanted` selected pairs (inf where there is no rival)."""
    ordered, n = reorder(score)
    wanted = min(wanted, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        row = min((_ratio(ordered[p, p], ordered[p, p + 1 :]) for p in range(wanted)), default=np.inf)
        column = min((_ratio(ordered[p, p], ordered[p + 1 :, p]) for p in range(wanted)), default=np.inf)
        rest = ordered[wanted:, wanted:]
        threshold = min((_ratio(ordered[p, p], rest) for p in range(wanted)), default=np.inf)
    return Gaps(row - 1, column - 1, threshold - 1)


def reorder(score: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows and columns in the order of learning, unused ones last; and the number of selected pairs."""
    chosen = select(score)
    rows = [*chosen.neurons, *sorted(set(range(score.shape[0])) - set(chosen.neurons))]
    columns = [*chosen.directions, *sorted(set(range(score.shape[1])) - set(chosen.directions))]
    return score[np.ix_(np.array(rows, int), np.array(columns, int))], len(chosen.neurons)


def _ratio(value: float, rivals: np.ndarray) -> float:
    best = float(np.max(rivals, initial=0.0))
    return float(value) / best if best > 0 else float("inf")


def row_gap_probability(gap: float, exponent: int) -> float:
    r"""P(1 ≤ S_kq/S_kq' < 1+Δ) for equal weights: the ratio of two Gaussian overlaps is standard Cauchy.

    $\tfrac2\pi\big[\arctan(1+\Delta)^{1/(J-2)}-\tfrac\pi4\big]$; exact for students uniform on the sphere. Needs J ≥ 3.
    """
    return float(2 / np.pi * (np.arctan((1 + gap) ** (1 / (exponent - 2))) - np.pi / 4))


def row_gap_bound(gap: float, exponent: int) -> float:
    r"""$\Delta/(\pi(J-2))$, the bound on `row_gap_probability` that Lemma 3.1 uses (tight as Δ → 0)."""
    return gap / (np.pi * (exponent - 2))
