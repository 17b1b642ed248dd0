"""tanh as a mean of error functions: against tanh and its integral, and Kolmogorov's moments."""

import numpy as np
import pytest
from scipy.special import erf

from theory.core.logistic import slopes, step
from theory.core.quadrature import of_measure

PLACES = np.linspace(-12.0, 12.0, 2401)


def test_tanh_its_slope_and_its_integral_are_means_over_the_slopes() -> None:
    nodes, weights = slopes()
    inner = PLACES[:, None] * nodes
    gauss = np.exp(-(inner**2)) / (np.sqrt(np.pi) * nodes)
    assert np.abs(erf(inner) @ weights - np.tanh(PLACES)).max() < 2e-8
    assert np.abs(2 * nodes**2 * gauss @ weights - 1 / np.cosh(PLACES) ** 2).max() < 8e-8
    integral = (PLACES[:, None] * erf(inner) + gauss) @ weights
    assert np.abs(integral - np.log(2 * np.cosh(PLACES))).max() < 2e-8


def test_the_slopes_are_of_kolmogorov_s_law() -> None:
    r"""$E\,(\sqrt2b)^{-2}=EK^2=\pi^2/12$ and $EK=\sqrt{\pi/2}\ln2$."""
    nodes, weights = slopes()
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert weights @ (2 * nodes**2) ** -1.0 == pytest.approx(np.pi**2 / 12, abs=1e-8)
    assert weights @ (2 * nodes**2) ** -0.5 == pytest.approx(np.sqrt(np.pi / 2) * np.log(2), abs=1e-8)


def test_the_step_sees_a_slope_that_is_off() -> None:
    right = step()
    assert abs(right.residual(right.claim)) < right.tolerance
    (inner,) = right.claim.args
    wrong = right.claim.func(inner.xreplace({inner.args[0]: inner.args[0] * 1.0001}))
    assert abs(right.residual(wrong)) > 100 * right.tolerance


def test_a_rule_of_a_measure_is_exact_to_its_degree() -> None:
    """Of the measure itself, wherever it lies: five points are exact to degree 9, four are not."""
    places = np.linspace(3.0, 8.0, 101)
    density = np.exp(-places)
    for count, exact in ((5, True), (4, False)):
        points, weights = of_measure(places, density, count)
        gap = weights @ points**9 / (density @ places**9) - 1
        assert (abs(gap) < 1e-13) == exact
