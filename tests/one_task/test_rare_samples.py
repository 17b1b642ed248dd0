"""Kicks of one sample: their tail, its quantiles and its variance."""

import numpy as np
import pytest
import scipy

from theory import Activation, InputError
from theory.one_task.rare_samples import kick_quantile, kick_tail


@pytest.mark.parametrize("name", ["h3", "h4", "z**3", "(z**2-1)**2"])
def test_tail_of_a_kick_has_its_variance_and_its_quantiles(name: str) -> None:
    """Where a root counts twice, too."""
    activation = Activation.parse(name)
    logs = np.linspace(-6, 13, 60)
    tail = np.array([kick_tail(activation, 1.0, float(np.exp(x))) for x in logs])
    square, slope = (sum(float(j**k * c**2) for j, c in activation.coefficients.items()) for k in (0, 1))
    assert np.trapezoid(2 * np.exp(2 * logs) * tail, logs) == pytest.approx(square * slope, rel=2e-3)
    assert kick_tail(activation, 2.0, 2 * kick_quantile(activation, 1.0, 1e-3)) == pytest.approx(1e-3)
    with pytest.raises(InputError, match="probability is 2: give one from"):
        kick_quantile(activation, 1.0, 2)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_small_kicks_of_a_linear_activation_are_products_of_two_gaussians(size: float) -> None:
    rarer, _ = scipy.integrate.quad(scipy.special.k0, 0, size, epsabs=0)
    assert 1 - kick_tail(Activation.parse("h1"), 0.5, size / 2) == pytest.approx(2 / np.pi * rarer, rel=1e-6)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_small_kicks_of_a_square_are_rarer_by_its_double_root(size: float) -> None:
    """|2x²zy| by what is known of the product zy, in the mean over x."""
    logs = np.linspace(-25.0, 3.0, 4001)
    product = scipy.special.iti0k0(size / (2 * np.exp(2 * logs)))[1] * 2 / np.pi
    rarer = np.trapezoid(product * np.sqrt(2 / np.pi) * np.exp(logs - np.exp(2 * logs) / 2), logs)
    assert 1 - kick_tail(Activation.parse("z**2"), 1.0, size) == pytest.approx(rarer, rel=1e-6)
