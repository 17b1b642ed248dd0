"""Drawn staircases against the law of their mean, with and without directions that are never learned."""

import numpy as np
import pytest

from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.power_law_loss import PowerLawLoss
from validation.experiments.loss_draws import independent_staircases, staircases, weights_of


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
