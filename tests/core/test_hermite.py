"""Hermite polynomials: orthonormality and expansion, by Gauss–Hermite quadrature and by sampling-free identities."""

from math import factorial

import numpy as np
import pytest
import sympy as sp

from theory.core import hermite
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.lowered import finite

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def test_orthonormal_under_the_gaussian() -> None:
    table = hermite.values(NODES, 20)
    np.testing.assert_allclose(np.einsum("in,jn,n->ij", table, table, WEIGHTS), np.eye(21), atol=1e-10)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 6, 9, 12])
def test_symbolic_and_numeric_polynomials_agree_with_numpy(degree: int) -> None:
    points = np.linspace(-3, 3, 13)
    reference = np.polynomial.hermite_e.hermeval(points, [0] * degree + [1]) / np.sqrt(factorial(degree))
    np.testing.assert_allclose(hermite.values(points, degree)[degree], reference, rtol=1e-10, atol=1e-10)
    symbolic = sp.lambdify(z, hermite.hermite(degree))(points) * np.ones_like(points)
    np.testing.assert_allclose(symbolic, reference, rtol=1e-9, atol=1e-9)


def test_correlated_inputs_give_powers_of_the_overlap() -> None:
    """E h_i(u·x)h_j(w·x) = δ_ij ⟨u,w⟩^i, on a two-dimensional grid."""
    overlap = 0.37
    other = overlap * NODES[:, None] + np.sqrt(1 - overlap**2) * NODES[None, :]
    left, right = hermite.values(NODES, 6), hermite.values(other, 6)
    found = np.einsum("in,jnk,n,k->ij", left, right, WEIGHTS, WEIGHTS)
    np.testing.assert_allclose(found, np.diag(overlap ** np.arange(7)), atol=1e-10)


@pytest.mark.parametrize("degree", [1, 4, 7, 20, 40])
def test_expansion_of_one_polynomial_is_itself(degree: int) -> None:
    assert hermite.from_polynomial(hermite.hermite(degree)) == {degree: 1}


def test_expansion_is_exact_and_reassembles() -> None:
    polynomial = sp.Rational(2, 7) * z**6 + sp.pi * z**3 - z + sp.sqrt(3)
    found = hermite.from_polynomial(polynomial)
    assert sp.expand(sum(value * hermite.hermite(j) for j, value in found.items()) - polynomial) == 0
    assert set(found) == {0, 1, 2, 3, 4, 6}


def test_expansion_of_a_function_matches_its_projections() -> None:
    """tanh: coefficients by adaptive quadrature against projections on 200 Gauss–Hermite nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    found, error = hermite.from_function(np.tanh, 15)
    projected = hermite.values(nodes, 15) @ (weights * np.tanh(nodes))
    for degree in range(16):
        assert found.get(degree, 0.0) == pytest.approx(projected[degree], abs=1e-7)
    kept = np.sum(projected**2) / np.sum(weights * np.tanh(nodes) ** 2)
    assert error == pytest.approx(1 - kept, abs=1e-7)
    assert error > 1e-5  # so that the comparison above is of something


def test_function_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        hermite.from_function(lambda x: np.inf if x > 3 else 0.0, 4)


@pytest.mark.parametrize("width", [3e-2, 3e-3, 3e-4])
def test_a_bump_that_is_narrower_than_the_quadratures_points_is_seen(width: float) -> None:
    place, height = 1.2345, 10.0
    found, _ = hermite.from_function(lambda x: x + height * np.exp(-(((x - place) / width) ** 2)), 40)
    # E of the bump times 1 and z, in closed form: a Gaussian of the mean and variance of the product of the two.
    spread = width**2 / 2
    mean = height * np.sqrt(spread / (1 + spread)) * np.exp(-(place**2) / (2 * (1 + spread)))
    assert found[0] == pytest.approx(mean, rel=1e-9)
    assert found[1] == pytest.approx(1 + mean * place / (1 + spread), rel=1e-9)


def test_a_gap_is_filled_with_the_mean_of_both_sides_wherever_it_is() -> None:
    """sin(z − a)/(z − a) is 1 at a, and |z − a|/(z − a), which jumps there, 0."""
    at = np.array([-3.0, 0.0, 2.0])
    for a in at:
        smooth, jump = (finite(lambda z, f=f, a=a: f(z - a) / (z - a))(at) for f in (np.sin, np.abs))
        np.testing.assert_allclose(smooth, np.sinc((at - a) / np.pi), atol=1e-8)
        np.testing.assert_array_equal(jump, np.sign(at - a))
    with pytest.raises(InputError, match="no finite value near 2"):
        finite(lambda z: np.log(z - 2.0))(at[2:])
