"""Kicks of one sample: their tail, its quantiles and its variance."""

import numpy as np
import pytest
import scipy

from theory import Activation, InputError
from theory.one_task.rare_samples import kick_quantile, kick_tail


@pytest.mark.parametrize("degree", [3, 4])
def test_tail_of_a_kick_has_its_variance_and_its_quantiles(degree: int) -> None:
    activation = Activation.from_degree(degree)
    logs = np.linspace(-6, 13, 60)
    tail = np.array([kick_tail(activation, 1.0, float(np.exp(x))) for x in logs])
    assert np.trapezoid(2 * np.exp(2 * logs) * tail, logs) == pytest.approx(degree, rel=2e-3)
    assert kick_tail(activation, 2.0, 2 * kick_quantile(activation, 1.0, 1e-3)) == pytest.approx(1e-3)
    with pytest.raises(InputError, match="probability is 2: give one from"):
        kick_quantile(activation, 1.0, 2)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_small_kicks_of_a_linear_activation_are_products_of_two_gaussians(size: float) -> None:
    rarer, _ = scipy.integrate.quad(scipy.special.k0, 0, size, epsabs=0)
    assert 1 - kick_tail(Activation.parse("h1"), 0.5, size / 2) == pytest.approx(2 / np.pi * rarer, rel=1e-6)
