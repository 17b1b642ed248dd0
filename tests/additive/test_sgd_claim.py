"""E25's choice of starts: noise must leave the neuron to the direction that is judged."""

import numpy as np
import pytest

from theory import Activation, InitialState, Teacher, predict
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
