"""Best schedules of the linear model: closed form and gradient."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics.declared.optimal_schedule import optimal_schedule
from theory import InputError
from theory.declared.linear_model import LinearModel
from theory.declared.optimal_schedule import best_schedule, exponents, least_risk, noise_kept, power_law

MODEL = power_law(200, 2.5, 1.5)


def test_the_closed_form_is_least_among_its_multiples_and_keeps_its_constant() -> None:
    found = best_schedule(MODEL, 4, 400)
    assert found.step_sizes.sum() == pytest.approx(found.reach, rel=1e-5)  # midpoints: an error of 1/T², not 1/T
    left = np.cumsum(found.step_sizes[::-1])[::-1] - found.step_sizes / 2
    kept = np.log(found.step_sizes * np.sqrt(noise_kept(MODEL, left)))
    assert np.ptp(kept) < 0.05 < 0.5 < np.ptp(np.log(found.step_sizes))
    assert least_risk(MODEL, 4, 800)[0] < found.risk < least_risk(MODEL, 2, 400)[0]


@pytest.mark.parametrize("noise", [0.3, 1.0, 2.0])
def test_the_least_risk_is_that_of_its_schedule(noise: float) -> None:
    """What is left of the signal, and of each step's noise what the steps after it keep."""
    model, batch = replace(MODEL, noise=noise), 4
    found = best_schedule(model, batch, 4000)
    left = np.cumsum(found.step_sizes[::-1])[::-1] - found.step_sizes / 2
    paid = noise**2 / batch * float(found.step_sizes**2 @ noise_kept(model, left))
    signal = float(np.exp(-2 * found.reach * model.eigenvalues) @ (model.eigenvalues * model.start))
    assert found.risk == pytest.approx(signal + paid, rel=1e-3)
    assert found.risk < 0.999 * (signal + 1.05 * paid)


def test_the_gradient_ends_where_no_step_size_matters() -> None:
    found = optimal_schedule(MODEL, 4, 60)
    first = best_schedule(MODEL, 4, 60)
    assert found.risk == pytest.approx(first.risk, rel=0.2)
    again = optimal_schedule(replace(MODEL, noise=1.0), 4, 60)
    assert np.allclose(found.step_sizes, again.step_sizes)


def test_a_power_law_has_its_sums() -> None:
    k = np.arange(1, 201.0)
    assert MODEL.multiplicities.sum() == 200
    assert MODEL.eigenvalues @ MODEL.multiplicities == pytest.approx(np.sum(k**-1.5))
    assert MODEL.eigenvalues @ MODEL.start == pytest.approx(np.sum(k**-2.5))


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="noise is 0"):
        best_schedule(LinearModel(np.ones(1), np.ones(1), 0.0, np.ones(1)), 1, 10)
    with pytest.raises(InputError, match="a > b"):
        exponents(1.2, 1.5)
