"""First crossings and slopes of sampled curves."""

import numpy as np
import pytest

from theory import InputError
from theory.core.curves import (
    crossing_time,
    first_crossing,
    linear_weights,
    located_crossing,
    log_slope,
    passed_between,
)


def test_a_level_is_passed_between_samples() -> None:
    times = np.array([0.0, 10.0, 20.0])
    assert first_crossing(times, np.array([1.0, 0.8, 0.4]), 0.5, falling=True) == pytest.approx(17.5)
    assert first_crossing(times, np.array([0.0, 0.4, 0.2]), 0.2) == pytest.approx(5.0)
    assert crossing_time(times, np.array([0.0, 0.1, 0.2]), 0.5) == np.inf
    assert first_crossing(times, np.array([0.6, 0.1, 0.9]), 0.5) == 0.0  # it starts beyond
    assert first_crossing(times, np.array([0.0, np.nan, 0.2]), 0.2) != first_crossing(
        times, np.array([0, 0.1, 0.2]), 0.2
    )
    np.testing.assert_allclose(first_crossing(times, np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]), 0.5), [5.0, 15.0])


def test_straight_in_logarithmic_time() -> None:
    times = np.geomspace(1, 1e4, 5)
    for level in (-0.3, -1.7):
        found = first_crossing(times, -np.log(times), level, falling=True, log_time=True)
        assert found == pytest.approx(np.exp(-level))
        assert first_crossing(times, -np.log(times), level, falling=True) > 1.05 * found


def test_a_level_is_passed_before_the_first_time_that_has_a_logarithm() -> None:
    times = np.array([0.0, 1.0, 10.0])
    curves = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(first_crossing(times, curves, 0.5, log_time=True), [0.5, np.sqrt(10.0)])


@pytest.mark.parametrize("log_time", [False, True])
def test_an_infinite_value_is_beyond_the_level_from_its_record_on(log_time: bool) -> None:
    """As of a risk that overflows: the time before it, at which the curve was still below, is no crossing."""
    times, curves = (
        np.array([1.0, 2.0, 3.0]),
        np.array([[0.0, np.inf, 2.0], [0.0, -np.inf, 2.0], [-np.inf, 0.0, np.inf]]),
    )
    np.testing.assert_allclose(first_crossing(times, curves, 1.0, log_time=log_time), [2.0, 3.0, 3.0])
    np.testing.assert_allclose(first_crossing(times, -curves, -1.0, falling=True, log_time=log_time), [2.0, 3.0, 3.0])


def test_a_crossing_of_a_function_is_located_in_its_interval() -> None:
    times = np.linspace(0, 3, 4)
    assert located_crossing(times, times**2, 2.0, lambda t: t**2) == pytest.approx(np.sqrt(2), rel=1e-10)
    assert located_crossing(times, times**2 + 2, 2.0, lambda t: t**2 + 2) == 0.0
    assert located_crossing(times, times**2, 10.0, lambda t: t**2) == np.inf


def test_where_rounding_says_that_a_level_is_passed_already_or_not_yet_it_is_passed_at_that_end() -> None:
    assert passed_between(lambda t: t - 2.0, 1.0, 4.0) == pytest.approx(2.0, rel=1e-10)
    assert passed_between(lambda t: 1e-16 + 0 * t, 1.0, 4.0) == 1.0
    assert passed_between(lambda t: -1e-16 + 0 * t, 1.0, 4.0) == 4.0


def test_slopes_are_those_of_power_laws_and_of_weighted_least_squares() -> None:
    x = np.geomspace(2, 50, 7)
    assert log_slope(x, 3 * x**-1.3) == pytest.approx(-1.3, rel=1e-12)
    rng = np.random.default_rng(0)
    columns, y, g = rng.standard_normal((9, 2)), rng.standard_normal(9), rng.uniform(0.1, 2, 9)
    design = np.sqrt(g)[:, None] * np.column_stack([np.ones(9), columns])
    expected = np.linalg.lstsq(design, np.sqrt(g) * y, rcond=None)[0][1:]
    np.testing.assert_allclose(linear_weights(columns, g) @ y, expected, rtol=1e-10)
    assert not np.allclose(linear_weights(columns) @ y, expected, rtol=1e-2)
    with pytest.raises(InputError, match="cannot be told apart"):
        linear_weights(np.column_stack([y, 2 * y]))
