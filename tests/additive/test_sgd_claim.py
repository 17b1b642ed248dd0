"""E25: noise must leave the neuron to the direction that is judged; error of a spread."""

import numpy as np
import pytest

from theory import Activation, InitialState, Teacher, predict
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from validation.claims.additive.sgd import _keeps_its_neuron


@pytest.mark.parametrize(
    ("activation", "other", "spread", "kept"),
    [
        (
            "h3",
            0.03,
            0.12,
            False,
        ),  # one standard deviation of the noise doubles it, and its direction is twice as heavy
        ("h3", 0.03, 0.01, True),
        ("h3", -0.10, 0.12, True),  # never grows
        ("h4", -0.08, 0.12, False),  # grows as its absolute value does
        ("h4", 0.01, 0.12, True),
    ],
)
def test_a_small_overlap_with_a_heavier_direction_may_overtake(
    activation: str, other: float, spread: float, kept: bool
) -> None:
    overlap, kind = np.array([[other, 0.2]]), Activation.parse(activation)
    initial = InitialState(overlap, np.sqrt(1 - np.sum(overlap**2, axis=1, keepdims=True)))
    prediction = predict(kind, Teacher.of([1.0, 0.5], 64), initial)
    assert prediction.neuron[1] == 0
    assert _keeps_its_neuron(initial, prediction, 1, spread) is kept


def test_the_error_of_a_spread_is_that_of_the_law() -> None:
    """Standard deviations of 256 draws of a skewed law of recovery times scatter by as much, and four errors are rare."""
    diffusion = OneTaskDiffusion(Activation.parse("h3"), 0.7, 1e-5, 1.0, 128)
    start, horizon = 0.12, 12.0
    law = hitting_distribution(diffusion, start, cells=500)
    times = np.linspace(0.0, horizon, 4001)
    chance = np.maximum.accumulate(law.cdf(times))
    rises = np.diff(chance, prepend=-1.0) > 0
    draws = np.interp(np.random.default_rng(3).random((4000, 256)), chance[rises], times[rises])
    mean, spread = law.cut_moments(horizon)
    own, relative = law.spread_errors(horizon, 256)
    seen = draws.std(axis=1, ddof=1)
    for score in ((seen - spread) / own, np.log(seen / draws.mean(axis=1) * mean / spread) / relative):
        assert np.mean(score**2) == pytest.approx(1.0, abs=0.12)
        assert np.mean(np.abs(score) > 4) < 0.003
