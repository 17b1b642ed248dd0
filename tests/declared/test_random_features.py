"""Random features: the exact risk, the deterministic equivalent, and the balance of phases."""

import numpy as np
import pytest

from theory import InputError
from theory.declared.random_features import RandomFeatures, Trained, crossing, phase_exponents
from theory.declared.rule import Rule


def test_the_risk_of_a_drawn_spectrum_is_the_recursions() -> None:
    features = RandomFeatures(0.75, 0.6, 20, 200)
    drawn, steps, step_size = features.draw(1), np.array([1, 10, 300]), 0.5 / features.trace
    path = drawn.model.path(Rule(step_size, batch=2), 300)[steps]
    assert drawn.risk(step_size, steps, batch=2) == pytest.approx(path @ drawn.values + drawn.least, rel=1e-9)
    assert np.all(
        drawn.risk(step_size, steps, batch=2, kernel=False)[1:] < 0.95 * drawn.risk(step_size, steps, batch=2)[1:]
    )


@pytest.mark.parametrize(("alpha", "width"), [(0.75, 30), (1.0, 10**5)])
def test_the_equivalent_has_the_trace_and_as_many_eigenvalues(alpha: float, width: int) -> None:
    features = RandomFeatures(alpha, 0.8, width)
    found = features.equivalent()
    assert found.count.sum().real == pytest.approx(width, rel=1e-10)
    assert (found.count * found.values).sum().real == pytest.approx(features.trace, rel=1e-8)


def test_the_models_noise_is_the_mean_over_widths_of_the_equivalents() -> None:
    features = RandomFeatures(0.75, 0.6, 150, 1500)
    least = np.array([features.draw(seed).least for seed in range(8)])
    error = least.std(ddof=1) / np.sqrt(8)
    assert abs(least.mean() - features.equivalent().least) < 4 * error + least.mean() / 150
    assert abs(least.mean() - features.truncated().least) > 4 * error + least.mean() / 150


@pytest.mark.parametrize(
    ("alpha", "beta", "risk", "width"),
    [
        (0.75, 0.3, -1.1 / 2.5, 0.4),
        (0.75, 0.6, -1.7 / 2.7, 0.6 / 1.35),
        (0.75, 1.2, -2 / 3, 0.5),
        (0.4, 0.3, 0.5 - 0.4 - 0.3, 0.5),  # Ib
        (0.2, 0.9, 0.2 * 1.2 / (0.2 * (1.8 - 3) - 1.8 + 1), 1.2 / (4 * 0.04 + 1.2 * 1.6)),  # Ic
        (0.4, 0.8, -0.4, 0.5),  # IVa
        (0.27, 0.8, 0.46 * 1.14 / (2 * (0.432 + 0.27 - 1.6)), (0.27 - 0.8) / (0.432 + 0.27 - 1.6)),  # IVb
    ],
)
def test_the_balance_gives_the_papers_exponents(alpha: float, beta: float, risk: float, width: float) -> None:
    assert phase_exponents(alpha, beta) == pytest.approx((risk, width), abs=1e-12)


def test_the_equivalent_of_heavy_tails_is_the_mean_of_drawn_features() -> None:
    features = RandomFeatures(0.4, 0.8, 100, 400)
    step_size, steps = 0.5 / features.trace, np.array([30, 300, 3000])
    drawn = np.log([features.draw(seed).risk(step_size, steps) for seed in range(8)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(8)
    expected = np.log(features.equivalent().risk(step_size, steps))
    assert np.all(abs(drawn.mean(axis=0) - expected) < 4 * error + 1 / 100)
    quiet = np.log(features.equivalent().risk(step_size, steps, kernel=False))
    assert np.all(abs(quiet - expected)[1:] > 4 * error[1:] + 1 / 100)


def test_where_two_widths_cross_the_wider_becomes_the_better_one() -> None:
    """On a grid of compute in steps of 2 %, drawn features of 20 and 60 out of 300."""
    two = [Trained(width, RandomFeatures(0.75, 0.6, width, 300).draw(2), 0.002) for width in (20, 60)]
    found = crossing(*two)
    compute = found.compute * np.geomspace(1e-2, 1e2, 460)
    better = two[1].risk(compute) < two[0].risk(compute)
    assert np.array_equal(better, compute > found.compute)
    assert found.risk == pytest.approx(two[1].risk(found.compute), rel=1e-9)
    assert found.width == pytest.approx(np.sqrt(1200))


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"alpha is 0\.4"):
        RandomFeatures(0.4, 0.3, 10)
    with pytest.raises(InputError, match=r"alpha is 0\.5"):
        phase_exponents(0.5, 1.0)
    with pytest.raises(InputError, match="raise one of them"):
        phase_exponents(0.2, 0.3)
    with pytest.raises(InputError, match="hidden"):
        RandomFeatures(0.75, 0.3, 10).draw()
    with pytest.raises(InputError, match="mean square grows"):
        RandomFeatures(0.75, 0.3, 10, 100).draw().risk(2.0, [10])
