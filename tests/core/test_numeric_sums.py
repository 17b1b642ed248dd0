"""Derived sums as NumPy code."""

import numpy as np
import pytest
import sympy as sp

from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.indexed import Dual, Sums, Term, k, q, t
from theory.core.numeric_sums import NumericSums


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("text", ["h1", "h2", "h4", "0.8*h4+0.6*h6", "h3-0.3*h4+h1/7", "1+z**5", "0.7*h4-0.2*h8"])
def test_the_kernel_of_a_polynomial_is_numpys_polynomial_to_the_bit(text: str, order: int) -> None:
    activation = Activation.parse(text)
    overlaps = np.random.default_rng(order).uniform(-1.2, 1.2, (50, 7))
    overlaps[0] = 0.0, -1.0, 1.0, 1e-300, -1e-9, 1 - 1e-16, -0.5
    found = NumericSums(Sums([Term(Dual(t[k, q], order), ())]), (k, q), activation)({"t": overlaps})
    kernel = sp.Poly(activation.dual_derivative(order) if order else activation.dual, kernel_variable)
    exact = np.polyval([float(x) for x in kernel.all_coeffs()], np.clip(overlaps, -1.0, 1.0))
    np.testing.assert_array_equal(found, exact)
    assert found.shape == overlaps.shape


def test_the_arrays_that_are_given_stay_as_they_are() -> None:
    overlaps = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    before = overlaps.copy()
    NumericSums(Sums([Term(t[k, q] * Dual(t[k, q], 1), ())]), (k, q), Activation.parse("h4"))({"t": overlaps})
    np.testing.assert_array_equal(overlaps, before)
