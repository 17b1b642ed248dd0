"""Edge and floor of the linear model: the derivation, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from theory import InputError
from theory.core.derivation import DerivationError, equation
from theory.declared import linear_stability as stability
from theory.declared.linear_model import LinearModel
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Power

MODEL = LinearModel(np.array([2.0, 0.5]), np.array([1.0, 6.0]), 0.5, np.ones(2))


def test_every_step_holds_and_notices_another_factor() -> None:
    derivation = stability.derivation()
    assert derivation.verify() == 3
    for step in derivation.steps:
        with pytest.raises(DerivationError):
            replace(step, equation=equation(step.equation.lhs, 1.01 * step.claim)).verify()


@pytest.mark.parametrize("rule", [Rule(0.1), Momentum(0.1, beta=0.99)], ids=["plain", "average"])
def test_the_recursion_ends_at_the_floor_just_below_the_edge_and_grows_beyond(rule: Rule) -> None:
    edge = stability.edge(MODEL, rule)
    radius = [
        np.abs(np.linalg.eigvals(stability.matrix(MODEL, replace(rule, step_size=x * edge)))).max()
        for x in (0.999, 1.001)
    ]
    assert radius[0] < 1 < radius[1]
    with pytest.raises(InputError, match="mean square grows"):
        stability.floor(MODEL, replace(rule, step_size=1.01 * edge))


def test_a_schedule_has_no_edge() -> None:
    with pytest.raises(InputError, match="schedule"):
        stability.gain(MODEL, Rule(Power(0.1, 0.5)))


def test_an_average_of_gradients_is_stable_far_beyond_plain_steps() -> None:
    """One number and many samples: λη(1 − β) < 2(1 + β), of the heavy ball."""
    model = LinearModel(np.array([2.0]), np.array([1.0]), 0.0, np.ones(1))
    rule = Momentum(0.1, beta=0.9, kind="average", batch=10**9)
    assert stability.edge(model, rule) == pytest.approx(2 * 1.9 / (2.0 * 0.1), rel=1e-3)
