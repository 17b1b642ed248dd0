"""SGD extrapolated to step size 0: a third step size tells what is left, and a right theory is hardly ever rejected."""

import numpy as np
import pytest

from validation.comparisons.step_limit import step_limit
from validation.judge.claim import Measurement, verdict_of


def verdict(predicted: float, limit: dict) -> str:
    return verdict_of(Measurement("f", predicted, controls={"none": np.inf}, allowance_from="", **limit)).verdict


def of_sizes(limit: float, first: float, second: float) -> list[np.ndarray]:
    """Six runs without noise at 2η, η, η/2."""
    return [np.full(6, limit + first * size + second * size**2) for size in (2.0, 1.0, 0.5)]


@pytest.mark.parametrize("second", [0.02, -0.02])
def test_a_parabola_is_missed_by_just_what_is_allowed(second: float) -> None:
    limit = step_limit(*of_sizes(1.0, -0.3, second))
    assert limit["estimate"] == pytest.approx(1.0 - second / 2, rel=1e-12)
    assert limit["allowance"] == pytest.approx(abs(second) / 2, rel=1e-9)


def test_where_twice_the_step_diverges_the_first_order_is_allowed() -> None:
    double, full, half = of_sizes(1.0, -0.3, 0.02)
    limit = step_limit(np.where(np.arange(6) < 5, np.nan, double), full, half)
    assert limit["allowance"] == pytest.approx(abs(half[0] - full[0]), rel=1e-12)


def test_runs_that_diverged_are_left_out() -> None:
    rng = np.random.default_rng(0)
    runs = [x + 0.1 * rng.standard_normal(6) for x in of_sizes(1.0, -0.3, 0.02)]
    spoiled = [x.copy() for x in runs]
    spoiled[0][1], spoiled[1][3], spoiled[2][4] = np.nan, np.inf, np.nan
    two = [0, 1, 2, 5]
    limit = 2 * runs[2][two] - runs[1][two]
    found = step_limit(*spoiled)
    assert found["estimate"] == pytest.approx(limit.mean(), rel=1e-12)
    assert found["stderr"] == pytest.approx(limit.std(ddof=1) / 2, rel=1e-12)
    assert step_limit(runs[0], np.where(np.arange(6) < 5, np.nan, runs[1]), runs[2]) is None


@pytest.mark.parametrize("bias", [0.0, 4.0, 1000.0])
@pytest.mark.parametrize("runs", [8, 64])
def test_a_right_theory_is_rejected_once_in_a_thousand_at_most(runs: int, bias: float) -> None:
    """Whatever the second order, here in errors of a mean over runs; and one that is off by more is rejected."""
    rng, trials = np.random.default_rng([runs, int(bias)]), 4000
    sizes, error = (2.0, 1.0, 0.5), 1 / np.sqrt(runs)
    right, wrong = 0, 0
    for _ in range(trials):
        limit = step_limit(*(2 * bias * error * size**2 + rng.standard_normal(runs) for size in sizes))
        right += verdict(0.0, limit) == "disagrees"
        wrong += verdict(2 * bias * error + 40 * error, limit) == "disagrees"
    assert right <= 1e-3 * trials + 3 * np.sqrt(1e-3 * trials)
    assert wrong > 0.99 * trials
