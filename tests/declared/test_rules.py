"""Rules on vectors as they are: what they do with a gradient of zero, and which numbers they refuse."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.declared.rows import Rows
from dynamics.declared.step import Parts, take
from theory import Activation, InputError
from theory.declared.loss import Square
from theory.declared.rule import SAM, Adam, Clipped, Momentum, Muon, Normalised, Rule
from theory.declared.student import committee

ROWS, SAMPLE = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.3]]), np.array([[0.3, -0.4, 1.0]])


@pytest.mark.parametrize("rule", [Normalised(0.1), Normalised(0.1, each="row"), Clipped(0.1), SAM(0.1), Muon(0.1)])
def test_a_gradient_of_zero_moves_nothing(rule: Rule) -> None:
    """The label is what the student says: every rule stands still, and moves for another label."""
    student = committee(Activation.parse("h1"), 2)
    parts, rows = Parts(student, Square(), rule), Rows(jnp.asarray(ROWS), jnp.asarray(SAMPLE))
    buffers = {name: Rows(jnp.zeros((2, 3)), rows.samples) for name in rule.buffers}
    label = jnp.sum(rows.fields(), axis=0)
    still, moved = (
        np.asarray(take(parts, rows, jnp.ones(2), buffers, y, jnp.zeros(()), jnp.asarray(0.1)).rows.array)
        for y in (label, label + 1)
    )
    np.testing.assert_array_equal(still, ROWS)
    assert np.abs(moved - ROWS).max() > 1e-3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Adam(0.1, beta=1.0), "beta is 1.0"),
        (lambda: Momentum(0.1, beta=1.0), "momentum is 1.0"),
        (lambda: Muon(0.1, beta=-0.1), "momentum is -0.1"),
        (lambda: Rule(0.1, batch=5, samples=3), "the data set has 3 samples"),
        (lambda: Rule(0.0), "step_size is 0.0"),
        (lambda: Rule(0.1, noise=-1.0), "noise is -1.0"),
    ],
)
def test_numbers_that_no_run_can_have_are_refused(make: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()  # type: ignore[operator]
