"""What bends add to Gaussian integrals in series."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import scipy
import sympy as sp

from dynamics.declared.population import lower_many
from theory import Activation
from theory.core.bends import bends
from theory.core.hermite import hermite, z
from theory.declared.directions import Directions
from theory.declared.expansion import expansion
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.mehler import BY_COVARIANCE, of_bends
from theory.declared.model import DeclaredModel
from theory.declared.population import constants, numeric
from theory.declared.rule import Rule
from theory.declared.series import in_series
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive, Polynomial

PLACES = ((0.0, 0.0), (1.0, 1.0), (0.5, -0.8), (-2.0, 1.9), (1.0, 1.3))


def both(s: float, t: float, c: float) -> float:
    """P(x > s, y > t)."""
    return float(scipy.stats.multivariate_normal([0, 0], [[1, c], [c, 1]], allow_singular=True).cdf([-s, -t]))


def above(s: float) -> float:
    return float(scipy.stats.norm.sf(s))


@pytest.mark.parametrize("cosine", [-1.0, -0.97, -0.3, 0.0, 0.6, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("places", PLACES)
def test_bends_are_probabilities_of_two_tails(places: tuple[float, float], cosine: float) -> None:
    """Genz's; and hinges by quadrature over the first field. A cosine a hundredth off is told from it."""
    s, t = places
    found = {str(name): float(x[0]) for name, x in of_bends(numeric, s, t, np.array([cosine]), True).items()}
    # (Within a cell of the last angles of parallel or opposite rows it is the nearest corner that counts.)
    near = 1e-8 if abs(cosine) < 1 else 5e-5
    assert found["k_2"] + above(s) * above(t) == pytest.approx(both(s, t, cosine), abs=near)
    if 0 < cosine < 1 and s * t >= 0:
        off = of_bends(numeric, s, t, np.array([0.99 * cosine]), False)
        assert abs(float(off[sp.Symbol("k_2", real=True)][0]) - found["k_2"]) > 1e-5

    def hinge(x: float) -> float:
        """E (y − t)₊ given the first."""
        mean, width = cosine * x - t, max(float(np.sqrt(1 - cosine**2)), 1e-12)
        return float(mean * scipy.special.ndtr(mean / width) + width * scipy.stats.norm.pdf(mean / width))

    bend = [t / cosine] if cosine and s < t / cosine < 12 else None
    hinges, _ = scipy.integrate.quad(lambda x: (x - s) * scipy.stats.norm.pdf(x) * hinge(x), s, 12.0, points=bend)
    lone = [scipy.stats.norm.pdf(y) - y * above(y) for y in (s, t)]
    assert found["k"] + lone[0] * lone[1] + cosine * above(s) * above(t) == pytest.approx(hinges, abs=1e-7)
    assert found["k_1"] == pytest.approx(float(scipy.stats.norm.pdf(s) * hinge(s)), abs=1e-12)


@pytest.mark.parametrize("s", [0.3, 1.0, 3.0])
def test_bends_that_meet_keep_their_digits(s: float) -> None:
    """At parallel rows both fields are one, at opposite ones nothing is beyond both."""
    for cosine, t, known in ((1.0, s, above(s)), (-1.0, -s, 0.0)):
        found = of_bends(numeric, s, t, np.array([cosine]), False)[BY_COVARIANCE]
        assert float(found[0]) + above(s) * above(t) == pytest.approx(known, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("unit", [True, False])
def test_what_a_row_does_not_see_does_not_move_it(unit: bool) -> None:
    """Not even by rounding, which a default step size would follow."""
    target = Additive(Activation.parse("h4"), (1.0, 0.5))
    rows = np.random.default_rng(1).normal(size=(3, 6))
    given = rows[:, :2], rows @ rows.T, (rows**2).sum(axis=1)
    directions = Directions.orthonormal(Inputs.isotropic(6), 2)
    for text, sees in (("hardtanh", False), ("z*exp(-z**2/2)", False), ("log(1+z**2)", True)):
        series = in_series(Activation.parse(text), target, True, False, unit)
        found = series.at(numeric, *given, constants(series, directions))
        assert found["Mt"].any() == found["M"].any() == sees


def test_branches_bend_where_they_meet() -> None:
    """One function, given by branches and by a maximum."""
    branches = sp.Piecewise((2 * z - 3, z > 2), (z / 2, True))
    one, other = Activation.from_expression(branches), Activation.parse("max(2*z-3, z/2)")
    assert np.ravel(bends(one)) == pytest.approx([2.0, 1.5], abs=1e-9)
    rows = np.random.default_rng(2).normal(size=(3, 6))
    given = rows[:, :2], rows @ rows.T, (rows**2).sum(axis=1)
    directions = Directions.orthonormal(Inputs.isotropic(6), 2)
    found = []
    for activation in (one, other):
        series = in_series(activation, Additive(activation, (1.0, 0.5)), False, False, False)
        found.append(series.at(numeric, *given, constants(series, directions)))
    for name, x in found[0].items():
        assert x == pytest.approx(found[1][name], abs=1e-9)


@pytest.mark.parametrize(("unit", "variance"), [(True, 1.0), (False, 2.0)])
def test_what_a_series_leaves_out_is_the_slopes_share_beyond_its_degrees(unit: bool, variance: float) -> None:
    """Of a steep tanh, 200 degrees of the slope by their recursion, at the wider fields where there are any."""
    x = np.linspace(-14, 14, 28_001)
    mass = scipy.stats.norm.pdf(x) * (x[1] - x[0])
    slope = 3 / np.cosh(3 * np.sqrt(variance) * x) ** 2
    kept, now, before = 0.0, np.ones_like(x), np.zeros_like(x)
    for n in range(200):
        kept += float(mass @ (slope * now)) ** 2
        now, before = (x * now - np.sqrt(n) * before) / np.sqrt(n + 1), now
    steep = Activation.parse("tanh(3*z)")
    told = in_series(steep, Additive(steep, (1.0,)), False, False, unit).error
    assert told == pytest.approx(1 - kept / float(mass @ slope**2), rel=1e-4)


def test_what_a_derivation_shows_of_a_series_is_so() -> None:
    """The equations, with functions in the place of their names, against means of these functions and of their slopes."""
    sigma, link = z * sp.exp(-(z**2) / 2), sp.tanh(z)
    (n, j), (q, first, second) = sp.symbols("n j", integer=True), sp.symbols("q q_11 q_22", positive=True)
    directions = Directions.orthonormal(Inputs.blocks((1.5, 4), (0.5, 5)), 2)
    activation, shown = Activation.from_expression(sigma), {}
    for target in (Additive(Activation.from_expression(link), (1.0, 0.5)), Polynomial.parse("z1*z2+z1")):
        model = DeclaredModel(directions, target, two_homogeneous(activation, 2), Rule(0.1))
        shown |= {str(x.equation.lhs): x.equation.rhs for x in population_flow(model).derivation.steps}
    x = np.linspace(-11, 11, 1201)
    mass = scipy.stats.norm.pdf(x) * (x[1] - x[0])

    def mean(inside: sp.Expr) -> float:
        return float(mass @ np.broadcast_to(sp.lambdify(z, inside)(x), x.shape))

    def coefficient(name: str, degree: int, variance: float) -> float:
        inside = shown[name].args[0].subs({q: variance, n: degree})
        inside = inside.replace(sp.Function("sigma"), sp.Lambda(z, sigma))
        inside = inside.replace(sp.Function("sigma^*"), sp.Lambda(z, link))
        return mean(inside.replace(sp.Function("h"), lambda k, at: hermite(int(k)).subs(z, at)))

    def valued(expression: sp.Expr) -> float:
        for name in ("a", "a^*"):
            expression = expression.replace(
                sp.Function(name), lambda k, v, name=name: coefficient(f"{name}(n,q)", int(k), float(v))
            )
        return float(expression)

    q1, q2, c = 1.7, 0.8, 0.6
    row = np.array(sp.lambdify(z, sigma)(np.sqrt(q1) * x))
    for name, other in (("k", sigma), ("l", link)):
        inner = np.sqrt(q2) * (c * x[:, None] + np.sqrt(1 - c**2) * x)
        known = (mass * row) @ np.broadcast_to(sp.lambdify(z, other)(inner), inner.shape) @ mass
        (term, _) = shown[name].args
        terms = [valued(term.subs({n: k, first: q1, second: q2, sp.Symbol("c", real=True): c})) for k in range(30)]
        assert sum(terms) == pytest.approx(known, abs=1e-6)
    for order in (1, 3):
        known = mean(sp.diff(sigma, z, order).subs(z, np.sqrt(q1) * z))
        assert valued(shown["mu_j"].subs({j: order, first: q1})) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("size", [0.3, 1.0, 1.7])
def test_coefficients_know_where_a_slope_bends_once_more(size: float) -> None:
    """At 0, where elu's curvature jumps: each side by itself, by scipy's quadrature."""
    found = expansion(Activation.parse("elu")).at(numeric, np.array([size])).whole[0]

    def part(x: float, side: Callable[[float], float], basis: Callable[[float], float]) -> float:
        return float(side(size * x) * basis(x) * scipy.stats.norm.pdf(x))

    for n in (0, 1, 2, 3, 7, 10):
        basis = sp.lambdify(z, hermite(n))
        left, right = (
            scipy.integrate.quad(part, *ends, args=(side, basis), epsabs=1e-13)[0]
            for side, ends in ((np.expm1, (-12.0, 0.0)), (float, (0.0, 12.0)))
        )
        assert found[n] == pytest.approx(left + right, abs=1e-11)


def test_more_pairs_cost_more() -> None:
    bent = Activation.parse("relu(z-1)")
    for unit in (True, False):
        costs = [in_series(bent, Additive(bent, (1.0,)), True, False, unit).cost(pairs) for pairs in (1, 100, 10_000)]
        assert 0 < costs[0] < costs[1] < costs[2]


def test_both_array_libraries_say_the_same() -> None:
    c = np.array([-0.9, 0.2, 1.0])
    for s, t in PLACES:
        one, other = of_bends(numeric, s, t, c, True), of_bends(lower_many, s, t, jnp.asarray(c), True)
        for name, x in one.items():
            assert np.asarray(other[name]) == pytest.approx(x, abs=1e-6)
