"""The diagram formula against Stein's lemma (Isserlis), with symbolic correlations, and with |x|²."""

import numpy as np
import pytest
import sympy as sp

from theory.core import diagrams, gaussian, hermite
from theory.core.hermite import z


def correlations(count: int) -> sp.Matrix:
    return sp.Matrix(count, count, lambda i, h: 1 if i == h else sp.Symbol(f"C{min(i, h)}{max(i, h)}"))


@pytest.mark.parametrize(
    "legs", [(4, 4, 2, 2), (3, 2, 3, 2), (4, 3, 2, 1), (1, 1, 1, 1), (3, 3), (2, 2, 2), (2, 1, 1, 1, 1)]
)
def test_products_of_hermite_polynomials(legs: tuple[int, ...]) -> None:
    names, matrix = sp.symbols(f"g0:{len(legs)}"), correlations(len(legs))
    product = sp.Mul(*[hermite.hermite(n).subs(z, g) for n, g in zip(legs, names, strict=True)])
    known = gaussian.expectation(sp.expand(product), names, matrix)
    found = diagrams.evaluate(diagrams.expectation([{n: sp.Integer(1)} for n in legs]), matrix)
    assert sp.expand(known - found) == 0
    assert found != 0


def test_two_points_are_orthogonal() -> None:
    assert diagrams.expectation([{3: sp.Integer(1)}, {3: sp.Integer(1)}]) == {(3,): 1}
    assert diagrams.expectation([{3: sp.Integer(1)}, {5: sp.Integer(1)}]) == {}
    assert diagrams.expectation([{3: sp.Integer(1)}, {4: sp.Integer(1)}]) == {}


def test_mixed_degrees_are_linear() -> None:
    """A polynomial is expanded in Hermite degrees: z³ and (z² − 1)(z + 2) with symbolic correlation."""
    first, second = z**3, sp.expand((z**2 - 1) * (z + 2))
    names, matrix = sp.symbols("g0:2"), correlations(2)
    known = gaussian.expectation(sp.expand(first.subs(z, names[0]) * second.subs(z, names[1])), names, matrix)
    assert sp.expand(known - diagrams.evaluate(diagrams.of_polynomials([first, second]), matrix)) == 0


@pytest.mark.parametrize("dim", [3, 5])
def test_squared_norm(dim: int) -> None:
    """E |x|² h_3(u·x) h_2(v·x) h_1(w·x) against explicit coordinates."""
    units = [
        (sp.Rational(3, 5), sp.Rational(4, 5)),
        (sp.Rational(5, 13), sp.Rational(-12, 13)),
        (sp.Integer(1), sp.Integer(0)),
    ]
    x = sp.symbols(f"x0:{dim}")
    legs = (3, 2, 1)
    product = sp.Mul(*[hermite.hermite(n).subs(z, u[0] * x[0] + u[1] * x[1]) for n, u in zip(legs, units, strict=True)])
    known = gaussian.standard_expectation(sp.expand(product * sum(y**2 for y in x)), *x)
    matrix = sp.Matrix(3, 3, lambda i, h: sum(p * q for p, q in zip(units[i], units[h], strict=True)))
    table = diagrams.expectation([{n: sp.Integer(1)} for n in legs], squared_norm=True)
    found = diagrams.evaluate(table, matrix).subs(diagrams.d, dim)
    assert sp.simplify(known - found) == 0
    wrong = diagrams.evaluate(table, matrix).subs(diagrams.d, dim + 1)
    assert sp.simplify(known - wrong) != 0


def test_equal_vertices_may_be_merged() -> None:
    """E h_2(g)² h_4(k) with both h_2 at one Gaussian: spread must set their correlation to 1."""
    table = diagrams.expectation([{2: sp.Integer(1)}, {2: sp.Integer(1)}, {4: sp.Integer(1)}])
    merged = diagrams.spread(table, (0, 0, 1), 2)
    matrix = correlations(2)
    square = diagrams.of_polynomials([hermite.hermite(2) ** 2, hermite.hermite(4)])
    assert sp.expand(diagrams.evaluate(merged, matrix) - diagrams.evaluate(square, matrix)) == 0


def test_every_diagram_has_the_right_legs() -> None:
    legs = (4, 3, 3, 2)
    found = list(diagrams.diagrams(legs))
    assert len(found) == len(set(found)) == 6
    for counts in found:
        degree = np.zeros(4, int)
        for (i, j), n in zip(diagrams.pairs(4), counts, strict=True):
            degree[[i, j]] += n
        assert tuple(degree) == legs
