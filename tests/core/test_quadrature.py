"""Rules of quadrature against moments that are known."""

from math import factorial

import numpy as np
import pytest

from theory.core.quadrature import chi_squared, gauss_hermite, gauss_legendre, product_rule


@pytest.mark.parametrize("count", [1, 3, 12])
def test_gauss_hermite_is_exact_up_to_its_degree_and_no_further(count: int) -> None:
    points, weights = gauss_hermite(count)
    for half in range(min(count, 12)):
        double_factorial = factorial(2 * half) / (2**half * factorial(half))
        assert weights @ points ** (2 * half) == pytest.approx(double_factorial, rel=1e-12)
        assert weights @ points ** (2 * half + 1) == pytest.approx(0, abs=1e-9 * double_factorial)
    beyond = factorial(2 * count) / (2**count * factorial(count))
    assert abs(weights @ points ** (2 * count) / beyond - 1) > 1e-6


def test_a_rule_that_is_shared_cannot_be_changed() -> None:
    points, _ = gauss_hermite(5)
    with pytest.raises(ValueError, match="read-only"):
        points[0] = 1.0


def test_gauss_legendre_on_panels() -> None:
    low, high = np.array([0.0, 1.0]), np.array([1.0, 3.0])
    points, weights = gauss_legendre(low, high, 4)
    assert points.shape == (2, 4)
    assert np.sum(weights * points**7, axis=1) == pytest.approx((high**8 - low**8) / 8, rel=1e-13)


def test_products_run_over_the_last_axis_first() -> None:
    first, second = gauss_hermite(3), gauss_hermite(2)
    points, weights = product_rule(first, second)
    assert points[:2, 0].tolist() == [first[0][0]] * 2
    assert points[:2, 1].tolist() == second[0].tolist()
    assert weights @ (points[:, 0] ** 4 * points[:, 1] ** 2) == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("freedom", [0, 1, 60, 10_000])
def test_chi_squared_has_its_moments(freedom: int) -> None:
    points, weights = chi_squared(freedom, 5)
    for power in range(10):
        exact = np.prod(freedom + 2.0 * np.arange(power))
        assert weights @ points**power == pytest.approx(exact, rel=1e-10, abs=1e-12)
