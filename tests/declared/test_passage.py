"""Steps until one direction is found: against integrals in closed form, and refusals."""

import numpy as np
import pytest

from theory import InputError
from theory.declared.one_direction import Drift
from theory.declared.passage import allowed_step, passage_steps

DIM, START, LEVEL = 400.0, 0.05, 0.4
LINEAR = Drift(np.array([0.0, 0.3]), 2.0)


def test_a_linear_drift_in_closed_form() -> None:
    """f = ν(1 − u²)u: ∫du/f is the difference of ln(u/√(1 − u²))/ν; the next order term by term, with f' = ν(1 − 3u²)."""
    step = 1e-4
    first, second = passage_steps(LINEAR, DIM, step, START, LEVEL)
    ends = np.array([START, LEVEL])
    logarithm = np.log(ends / np.sqrt(1 - ends**2))
    assert first == pytest.approx(np.diff(logarithm)[0] / 0.3 / step)
    u = np.geomspace(START, LEVEL, 400_001)
    f, slope = 0.3 * (1 - u**2) * u, 0.3 * (1 - 3 * u**2)
    later = (u * (DIM - 1) + f * slope / 2) / f**2 + ((1 - u**2) * 2.0 - f**2) * slope / (2 * f**3)
    assert second == pytest.approx(np.trapezoid(later, u), rel=1e-6)


def test_at_the_whole_step_size_drift_and_shrinkage_meet() -> None:
    largest = allowed_step(LINEAR, DIM, START, LEVEL)
    assert largest == pytest.approx(0.3 * 2 * (1 - LEVEL**2) / (2.0 * (DIM - 1)), rel=1e-2)
    assert allowed_step(LINEAR, DIM, START, LEVEL, 0.25) == pytest.approx(largest / 4)


def test_no_way_over_a_barrier_and_none_from_nowhere() -> None:
    with pytest.raises(InputError, match="is not found from"):
        allowed_step(Drift(np.array([0.0, -0.1, 0.5]), 1.0), DIM, START, LEVEL)
    with pytest.raises(InputError, match="0 < start < level < 1"):
        passage_steps(LINEAR, DIM, 1e-4, 0.5, 0.4)
