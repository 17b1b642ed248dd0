"""Drawn staircases against the law of their mean, with and without directions that are never learned."""

import numpy as np
import pytest

from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.power_law_loss import PowerLawLoss
from validation.experiments.loss_draws import greedy_scores, independent_staircases, staircases, weights_of


@pytest.mark.parametrize("width", [None, 40])
def test_the_mean_of_drawn_staircases_is_the_expected_share(width: int | None) -> None:
    """Within four standard errors; the share of another width is not, once its directions are late."""
    law = PowerLawLoss(0.8, 300, LargestOverlap(20))
    times = law.time_of(np.array([2, 15, 100]))
    runs = independent_staircases(law, times, 600, np.random.default_rng(3), width)
    gap, error = runs.mean(axis=0) - law.share(times, width or 300), runs.std(axis=0) / np.sqrt(len(runs))
    assert np.all(np.abs(gap) < 4 * error)
    other = law.share(times, 300 if width else 40)
    assert abs(runs.mean(axis=0)[-1] - other[-1]) > 4 * error[-1]


def test_a_staircase_begins_whole_and_ends_at_what_is_never_learned() -> None:
    """Equal scores learn at one time: a single logistic step above the floor."""
    squares = weights_of(0.7, 50) ** 2
    floor = squares[20:].sum() / squares.sum()
    found = staircases(np.full((1, 20), 2.0), 0.7, [0.0, 1e9], 50)[0]
    np.testing.assert_allclose(found, [1.0, floor], rtol=1e-12)
    np.testing.assert_allclose(staircases(np.zeros((1, 20)), 0.7, [0.0, 1e9], 50), 1.0, rtol=1e-12)


def test_a_single_student_learns_the_direction_of_its_larger_score() -> None:
    r"""Of two that is the second one with chance $\frac2\pi\arctan\sqrt{2^{-\beta}}$, and its score has the mean of the larger
    of $dt_1^2$ and $2^{-\beta}dt_2^2$, of a uniform vector.
    """
    decay, dim, count = 1.0, 12, 4000
    found = greedy_scores(decay, 2, 1, dim, count, np.random.default_rng(0))
    assert np.all(np.count_nonzero(found, axis=1) == 1)
    chance = 2 / np.pi * np.arctan(np.sqrt(0.5))
    assert abs(np.mean(found[:, 1] > 0) - chance) < 4 * np.sqrt(chance * (1 - chance) / count)
    vectors = np.random.default_rng(1).standard_normal((40_000, dim))
    squares = dim * vectors[:, :2] ** 2 / np.sum(vectors**2, axis=1)[:, None]
    expected = np.max(squares * [1, 0.5], axis=1)
    largest = found.max(axis=1)
    assert abs(largest.mean() - expected.mean()) < 4 * np.hypot(largest.std() / count**0.5, expected.std() / 200)
