r"""Draws of greedy selection: many score matrices at once, and the exact chain that never makes a matrix.

The law that they follow is that of `theory.scaling.selection`.
"""

import numpy as np

from theory.scaling.competition import Competition


def draw_overlaps(width: int, directions: int, dim: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    r"""Overlaps of `draws` independent students' neurons with the teachers, shape (draws, m, P), exact for d ≥ P.

    The first P coordinates of uniform unit vectors of $R^d$: Gaussian over the norm, the rest of which is
    $\chi^2_{d-P}$. `draw_initial_state` has the same law and the residuals as well.
    """
    block = rng.standard_normal((draws, width, directions))
    norm2 = np.sum(block**2, axis=2) + rng.chisquare(dim - directions, (draws, width)) if dim > directions else None
    size = np.sqrt(norm2 if norm2 is not None else np.sum(block**2, axis=2))
    return block / size[:, :, None]


def selected_scores(score: np.ndarray) -> np.ndarray:
    """Score at which each direction is selected, 0 if never: (draws, P) from (draws, m, P).

    A pair that is the best of its neuron and of its direction among free ones is selected whatever happens elsewhere, so
    all such pairs are taken at once; a handful of rounds does what `select` does one pair at a time.
    """
    left = np.array(score, dtype=float)
    found = np.zeros((left.shape[0], left.shape[2]))
    busy = np.arange(left.shape[0])
    while busy.size:
        best = left.max(axis=2)
        rows, neurons = np.nonzero(best > 0)
        directions = left[rows, neurons].argmax(axis=1)
        values = best[rows, neurons]
        mutual = values >= left.max(axis=1)[rows, directions]
        rows, neurons, directions = rows[mutual], neurons[mutual], directions[mutual]
        found[busy[rows], directions] = values[mutual]
        left[rows, neurons, :] = 0.0
        left[rows, :, directions] = 0.0
        going = np.unique(rows)
        left, busy = left[going], busy[going]
    return found


def draw_selected_scores(competition: Competition, draws: int, rng: np.random.Generator) -> np.ndarray:
    r"""The same law from the chain of `theory.scaling.selection`: (draws, P) at a cost of min(m, P)·P a draw, for any width.

    Given the past, the best free score of direction q has the distribution function $(F_q(s')/F_q(s))^{m-N}$ below s.
    Scores are those of the competition ($a g^n$, g in units of $d^{-1/2}$); reaches are taken to be independent.
    """
    count = len(competition.weights)
    found, free = np.zeros((draws, count)), np.ones((draws, count), dtype=bool)
    score = np.full(draws, np.inf)
    every = np.arange(draws)
    for taken in range(min(competition.width, count)):
        level = competition.log_cdf(score) - rng.exponential(size=(draws, count)) / (competition.width - taken)
        best = competition.a * competition.law.from_tail(-np.expm1(level)) ** competition.power
        best[~free] = -1.0
        winner = best.argmax(axis=1)
        score = np.maximum(best[every, winner], 0.0)
        found[every, winner] = score
        free[every, winner] = False
    return found


def selected_gaps(score: np.ndarray, wanted: int) -> dict[str, np.ndarray]:
    r"""The three gaps of Lemma 3.1 of arXiv:2504.19983, each of shape (draws,), for (draws, m, P) scores at once; wanted ≤ P.

    By how much the first `wanted` selected entries beat their rivals, minus one: ``row``
    $\min_p S_{p,\pi(p)}/\max_{q>p}S_{p,\pi(q)}$, ``column`` $\min_p S_{p,\pi(p)}/\max_{k>p}S_{k,\pi(p)}$, ``threshold``
    $\min_p S_{p,\pi(p)}/\max_{k,q>P_*}S_{k,\pi(q)}$, rows and columns in the order of learning.

    An entry is struck out by its neuron or by its direction, whichever is taken first, at that pair's score.
    """
    by_direction = selected_scores(score)
    last = -np.sort(-by_direction, axis=1)[:, wanted - 1][:, None, None]
    own = score == by_direction[:, None, :]
    by_neuron = np.where(own, score, 0.0).max(axis=2)[:, :, None]
    columns = np.broadcast_to(by_direction[:, None, :], score.shape)
    with np.errstate(divide="ignore"):
        row = np.where((by_neuron > columns) & (by_neuron >= last), by_neuron / score, np.inf).min(axis=(1, 2))
        column = np.where((columns > by_neuron) & (columns >= last), columns / score, np.inf).min(axis=(1, 2))
    late = np.where((by_neuron < last) & (columns < last), score, 0.0).max(axis=(1, 2))
    with np.errstate(divide="ignore"):
        threshold = last[:, 0, 0] / late
    return {"row": row - 1, "column": column - 1, "threshold": threshold - 1}
