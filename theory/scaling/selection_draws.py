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
    """Score at which each direction is selected, 0 if never: (draws, P) from (draws, m, P)."""
    return _selected(score)[1]


def _selected(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score at which each neuron and each direction is selected, 0 if never: (draws, m) and (draws, P) from (draws, m, P).

    A pair that is the best of its neuron and of its direction among free ones is selected whatever happens elsewhere, so
    all such pairs are taken at once; a handful of rounds does what `select` does one pair at a time. The fewer of the two,
    `lines`, look for their best partner, and look again only when it has been taken.
    """
    turned = score.shape[1] > score.shape[2]
    left = np.array(np.swapaxes(score, 1, 2) if turned else score, dtype=float, order="C")
    place, best = left.argmax(axis=2), left.max(axis=2)
    of_lines, of_places = np.zeros(best.shape), np.zeros((len(left), left.shape[2]))
    every = np.arange(best.shape[1])
    busy = np.arange(len(best))
    while busy.size:
        rows, lines = np.nonzero(best[busy] > 0)
        rows = busy[rows]
        wanted = place[rows, lines]
        mutual = left[rows[:, None], every, wanted[:, None]].argmax(axis=1) == lines
        rows, lines, wanted = rows[mutual], lines[mutual], wanted[mutual]
        of_lines[rows, lines] = of_places[rows, wanted] = best[rows, lines]
        left[rows, lines, :] = 0.0
        left[rows, :, wanted] = 0.0
        best[rows, lines] = 0.0
        busy = np.unique(rows)
        lost = (best[busy] > 0) & (left[busy[:, None], every, place[busy]] == 0.0)
        rows, lines = np.nonzero(lost)
        rows = busy[rows]
        rest = left[rows, lines]
        place[rows, lines], best[rows, lines] = rest.argmax(axis=1), rest.max(axis=1)
    return (of_places, of_lines) if turned else (of_lines, of_places)


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
    by_neuron, by_direction = _selected(score)
    last = -np.sort(-by_direction, axis=1)[:, wanted - 1][:, None]
    turned = np.ascontiguousarray(np.swapaxes(score, 1, 2))  # (draws, P, m): neurons in a row
    ahead = by_neuron[:, None, :] > by_direction[:, :, None]
    # (Of one entry over its rivals the least is that over the largest of them, to the last bit.)
    beaten, behind = np.where(ahead, turned, 0.0).max(axis=1), np.where(ahead, 0.0, turned)
    np.copyto(behind, 0.0, where=by_neuron[:, None, :] == by_direction[:, :, None])
    behind = behind.max(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        row = np.where((by_neuron >= last) & (beaten > 0), by_neuron / beaten, np.inf).min(axis=1)
        column = np.where((by_direction >= last) & (behind > 0), by_direction / behind, np.inf).min(axis=1)
    late = np.where((by_neuron < last)[:, None, :] & (by_direction < last)[:, :, None], turned, 0.0).max(axis=(1, 2))
    with np.errstate(divide="ignore"):
        threshold = last[:, 0] / late
    return {"row": row - 1, "column": column - 1, "threshold": threshold - 1}
