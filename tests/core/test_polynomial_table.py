"""Tables of polynomials against SymPy, and what no Python function could hold."""

import numpy as np
import pytest
import sympy as sp

from theory import Activation
from theory.core.polynomial_table import PolynomialTable
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.step_integrals import FOUR, of_slopes

X, Y = sp.symbols("x y")


def test_values_are_those_of_the_polynomials() -> None:
    polynomials = [
        sp.Poly(x, X, Y) for x in (3 * X**2 * Y - sp.sqrt(2) * Y**3 + 1, X - Y, sp.Integer(0), sp.Integer(4))
    ]
    x, y = np.random.default_rng(0).standard_normal((2, 3, 5))
    found = PolynomialTable.of(polynomials)(x, y[0])
    for one, value in zip(polynomials, found, strict=True):
        known = sp.lambdify((X, Y), one.as_expr())(x, np.broadcast_to(y[0], x.shape)) + 0 * x
        assert value.shape == (3, 5)
        assert np.allclose(value, known, rtol=1e-14)


def test_points_beyond_one_part_are_those_of_any() -> None:
    table = PolynomialTable.of([sp.Poly(X**3 - 2 * Y, X, Y)])
    x, y = np.random.default_rng(1).standard_normal((2, 10_001))
    assert np.allclose(table(x, y)[0], x**3 - 2 * y, rtol=1e-13, atol=1e-14)


def test_other_variables_are_refused() -> None:
    with pytest.raises(ValueError, match="same variables"):
        PolynomialTable.of([sp.Poly(X, X), sp.Poly(X, X, Y)])


@pytest.mark.slow
def test_integrals_of_the_largest_degree_are_to_be_had() -> None:
    """Thousands of terms, against a rule of the plane that is exact for them."""
    h6 = Activation.parse("h6")
    vectors = np.array([[1.0, 0.0], [0.6, 0.8], [-0.3, 0.9], [0.5, -0.7]])
    x, weights = product_rule(*[gauss_hermite(16)] * 2)
    k, l, one, other = (x @ vectors.T).T
    sigma, slope = h6.arrays(), h6.arrays(1)
    found = of_slopes(h6, h6, h6)(*[(vectors @ vectors.T)[pair] for pair in FOUR])
    bend = slope(k) * h6.arrays(2)(l) * h6.arrays(1)(one) * sigma(other)
    assert found[0] == pytest.approx(weights @ (slope(k) * slope(l) * sigma(one) * sigma(other)), rel=1e-9)
    assert found[1 + FOUR.index((1, 2))] == pytest.approx(weights @ bend, rel=1e-9)
