r"""Simulated loss staircases: initial overlaps drawn at random, every direction learned at its own time.

Losses are shares of the initial loss. Scores $a_pg_p^{J-2}$ have g in units of $d^{-1/2}$ and $a_p=p^{-\beta}$ not normalised;
a direction is learned at the reduced time 1/score. Information exponent J = 4.
"""

import numpy as np
from numpy.typing import ArrayLike

from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.loss_sums import LossSum
from theory.scaling.power_law_loss import PowerLawLoss
from theory.scaling.selection_draws import draw_overlaps, selected_scores

#: Entries of score matrices held at once.
_ENTRIES = 2_000_000


def weights_of(decay: float, teachers: int) -> np.ndarray:
    """p^(−β), not normalised."""
    return np.arange(1, teachers + 1.0) ** -decay


def independent_scores(
    decay: float, directions: int, neurons: int, replicas: int, rng: np.random.Generator
) -> np.ndarray:
    """(replicas, directions): each direction has the largest of `neurons` overlaps of its own, none compete."""
    reach = LargestOverlap(neurons).quantile(1.0 - rng.random((replicas, directions)))
    return weights_of(decay, directions) * reach**2


def greedy_scores(
    decay: float, directions: int, neurons: int, dim: int, replicas: int, rng: np.random.Generator
) -> np.ndarray:
    """(replicas, directions): `neurons` uniform students in R^d compete; 0 for directions without a neuron."""
    weights, block = weights_of(decay, directions), max(1, _ENTRIES // (neurons * directions))
    counts = (min(block, replicas - first) for first in range(0, replicas, block))
    overlaps = (draw_overlaps(neurons, directions, dim, count, rng) for count in counts)
    return np.concatenate([selected_scores(dim * overlap**2 * weights) for overlap in overlaps])


def staircases(scores: np.ndarray, decay: float, times: ArrayLike, teachers: int | None = None) -> np.ndarray:
    """Shares of the loss left at reduced times, (replicas, times).

    Args:
        scores: (replicas, n) of the first n directions; those beyond, up to `teachers`, are never learned.
    """
    squares = weights_of(decay, teachers or scores.shape[1]) ** 2
    own, never = np.sqrt(squares[: scores.shape[1]]), np.sum(squares[scores.shape[1] :])
    with np.errstate(divide="ignore"):
        left = np.array([2 * LossSum.of(own, 1 / row)(times) for row in scores])
    return (left + never) / np.sum(squares)


def independent_staircases(
    law: PowerLawLoss, times: ArrayLike, replicas: int, rng: np.random.Generator, width: int | None = None
) -> np.ndarray:
    """(replicas, times) shares for the problem of `law`, one replica at a time, so that 10⁷ directions fit in memory.

    Args:
        law: gives decay, number of teachers and of overlaps to choose from (not the theory of their sum).
        width: directions that are learned at all, by default all.
    """
    teachers, count = int(law.teachers), law.law.count  # type: ignore[attr-defined]
    rows = (independent_scores(law.decay, width or teachers, count, 1, rng) for _ in range(replicas))
    return np.concatenate([staircases(row, law.decay, times, teachers) for row in rows])
