"""ψ of a rule, read off the rule itself, and the drift of one direction: against formulas, direct integrals and refusals."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import Activation, InputError
from theory.core.derivation import DerivationError, equation
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.loss import Correlation, Square
from theory.declared.one_direction import Plane, derivation, drift, first_step, psi
from theory.declared.rule import SAM, Adam, Ahead, Alternating, Clipped, Momentum, Muon, Normalised, Reuse, Rule
from theory.declared.student import Student, committee
from theory.declared.target import Additive
from validation.experiments.links import Anew

SIZE, DIM = 1e-3, 50.0
Y, Z = np.array([[1.3], [-0.4]]), np.array([[0.3, -0.7, 2.5]])
Function = Callable[[np.ndarray], np.ndarray]


def student(trained: bool = False) -> Student:
    return committee(Activation.parse("sin(z)"), 1, trained=trained, rows="sphere")


def clip(x: np.ndarray) -> np.ndarray:
    return x * np.minimum(1, 2.0 / (np.abs(x) * np.sqrt(DIM)))


def climbed(g: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Row and second layer go along their gradients first, each sample by itself."""
    return Y * (1 - reach * Y * np.sin(Z)) * np.cos(Z - reach * DIM * g)


#: Rule → ψ by hand, with σ = sin and g = yσ'(z).
TABLE: dict[Rule, Function] = {
    Rule(SIZE): lambda g: g,
    Normalised(SIZE): lambda g: np.sign(g) / np.sqrt(DIM),
    Muon(SIZE): lambda g: np.sign(g) / np.sqrt(DIM),
    Clipped(SIZE, limit=2.0): clip,
    Alternating(SIZE, second_step=0.6): lambda g: g + 0.6 * Y * g * np.sin(Z),
    Anew(SIZE, ratio=0.6 / SIZE): lambda g: g + 0.6 * Y * g * np.sin(Z),
    Ahead(SIZE, ahead=0.02): lambda g: Y * np.cos(Z + 0.02 * DIM * g),
    Reuse(SIZE): lambda g: g + Y * np.cos(Z + SIZE * DIM * g),
    SAM(SIZE, radius=0.1): lambda g: Y * np.cos(Z - 0.1 * np.sqrt(DIM) * np.sign(g)),
    SAM(SIZE, radius=0.1, layers="both"): lambda g: climbed(g, 0.1 / np.hypot(g * np.sqrt(DIM), Y * np.sin(Z))),
}


def test_a_plane_of_a_row_and_a_sample_is_one() -> None:
    """Against explicit vectors of R⁶: a row of length 1 and three samples."""
    rng = np.random.default_rng(4)
    w, x = rng.normal(size=6), rng.normal(size=(3, 6))
    w /= np.linalg.norm(w)
    z, square = x @ w, np.sum(x**2, axis=1)
    p, q, r, s = rng.normal(size=(4, 3))
    first, second = Plane(p, q, z, square), Plane(r, s, z, square)

    def explicit(plane: Plane) -> np.ndarray:
        return np.asarray(plane.own)[..., None] * w + np.asarray(plane.tail)[:, None] * x

    a, b = explicit(first), explicit(second)
    made = (
        (first + second, a + b),
        (first - second, a - b),
        (-first, -a),
        (3.0 * first, 3.0 * a),
        (first / 4.0, a / 4.0),
        (first.polar(), a / np.linalg.norm(a, axis=1)[:, None]),
        (first.combination(s), s[:, None] * x),
        (first.mixed(s), s[:, None] * a),
    )
    for found, known in made:
        np.testing.assert_allclose(explicit(found), known, rtol=1e-12)
    np.testing.assert_allclose(first.dot(second), np.sum(a * b, axis=1), rtol=1e-12)
    np.testing.assert_allclose(first.fields(), np.sum(a * x, axis=1), rtol=1e-12)
    np.testing.assert_allclose(first.norms(), np.linalg.norm(a, axis=1), rtol=1e-12)


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: type(rule).__name__)
def test_psi_is_the_formula_of_the_rule(rule: Rule) -> None:
    trained = isinstance(rule, Alternating | Anew) or getattr(rule, "layers", "") == "both"
    found = psi(student(trained), Correlation(), rule, Y, Z, DIM)
    assert np.allclose(found, TABLE[rule](Y * np.cos(Z)), rtol=1e-9)


def test_every_step_holds_and_notices_a_doubled_result() -> None:
    assert derivation().verify() == 2
    for step in derivation().steps:
        with pytest.raises(DerivationError):
            replace(step, equation=equation(step.equation.lhs, 2 * step.claim)).verify()


@pytest.mark.parametrize(
    "rule", [Alternating(SIZE, second_step=0.6), Ahead(SIZE, ahead=0.01)], ids=["alternating", "reuse"]
)
def test_the_sum_is_the_integral_at_any_overlap(rule: Rule) -> None:
    network = student(isinstance(rule, Alternating))
    target = Additive(Activation.parse("erf(2*z)+h2/3"), (1.0,))
    points, weights = product_rule(gauss_hermite(120), gauss_hermite(120))
    z, q = points.T
    found = drift(network, target, Correlation(), rule, DIM)
    for u in (-0.3, 0.2):
        root = np.sqrt(1 - u * u)
        a = (u * z + root * q)[:, None]
        labels = target.value(a, lambda e, x: sp.lambdify(x, e, modules=["scipy", "numpy"]))
        direct = weights @ (psi(network, Correlation(), rule, labels, z, DIM) * root * q)
        assert found.at(u) == pytest.approx(direct, abs=1e-6)
    labels = target.value(q[:, None], lambda e, x: sp.lambdify(x, e, modules=["scipy", "numpy"]))
    alone = psi(network, Correlation(), rule, labels, z, DIM)  # where the label knows nothing of the field
    assert found.square == pytest.approx(weights @ alone**2, rel=1e-4)


@pytest.mark.parametrize("text", ["sin(5*z)", "cos(6*z)", "0.5*h2+h16"])
def test_the_sum_has_the_degrees_that_it_takes(text: str) -> None:
    """Where a direction is found, on midpoints: with 20 degrees .64 and .14 of the drift, and .80 of K of the last."""
    points = (np.arange(-14 * 64, 14 * 64) + 0.5) / 64
    weights = np.exp(-(points**2) / 2) / 64 / np.sqrt(2 * np.pi)
    z, q, both, activation = points[:, None], points[None, :], np.outer(weights, weights), Activation.parse(text)
    found = drift(committee(activation, 1, rows="sphere"), Additive(activation, (1.0,)), Correlation(), Rule(SIZE), DIM)
    for u in (0.3, 0.5**0.5):
        root = np.sqrt(1 - u * u)
        steps = both * activation.arrays(0)(u * z + root * q) * activation.arrays(1)(z)
        square = steps**2 / both
        shrinkage = u * np.sum(square * (q**2 + DIM - 2)) / 2 + root * np.sum(square * z * q)
        assert found.at(u) == pytest.approx(float(np.sum(steps * root * q)), rel=1e-3)
        assert found.second_order(DIM, u)[0] == pytest.approx(float(shrinkage), rel=2e-3)


def test_what_a_second_look_at_a_sample_does_to_the_information_exponent() -> None:
    h3, first = Additive(Activation.parse("h3"), (1.0,)), Correlation()
    assert drift(student(), h3, first, Rule(SIZE), DIM).exponent() == 3
    assert drift(student(), h3, first, Ahead(SIZE, ahead=0.02), DIM).exponent() == 1
    assert drift(student(True), h3, first, Alternating(SIZE, second_step=0.5), DIM).exponent() == 2
    assert drift(student(), h3, first, Normalised(SIZE), DIM).exponent() == 1


def kept_still(kind: str, beta: float, u: float, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard error of (1 − u²)E ψq of h2 after 40 steps of momentum that a row in R⁴ does not follow."""
    velocity, count, share = np.zeros((20_000, 4)), 20_000, 1 - beta if kind == "average" else 1.0
    row, direction = np.array([1.0, 0.0, 0.0, 0.0]), np.array([u, np.sqrt(1 - u * u), 0.0, 0.0])
    for _ in range(40):
        x = rng.standard_normal((count, 4))
        label, z = ((x @ direction) ** 2 - 1) / np.sqrt(2), x @ row
        climb = (label * np.sqrt(2) * z)[:, None] * (x - z[:, None] * row)
        velocity = beta * velocity + share * climb
        along = beta * velocity + climb if kind == "nesterov" else velocity
    moved = along @ direction
    return float(moved.mean()), float(moved.std() / np.sqrt(count))


@pytest.mark.parametrize("kind", ["heavy", "average", "nesterov"])
def test_the_drift_of_momentum_is_that_of_buffers_that_are_full(kind: str) -> None:
    h2, beta, u = Activation.parse("h2"), 0.6, 0.4
    rule = Momentum(SIZE, beta=beta, kind=kind)
    found = drift(committee(h2, 1, rows="sphere"), Additive(h2, (1.0,)), Correlation(), rule, 4.0)
    mean, error = kept_still(kind, beta, u, np.random.default_rng(7))
    assert error < 0.05 * mean
    assert found.at(u) == pytest.approx(mean, abs=4 * error)


def test_the_first_step_of_a_rule_with_memory_is_not_its_drift() -> None:
    h3 = Additive(Activation.parse("h3"), (1.0,))
    with pytest.raises(InputError, match=r"rule is Muon: .*\(average\)"):
        drift(student(), h3, Correlation(), Muon(SIZE, beta=0.9), DIM)
    assert drift(student(), h3, Correlation(), Muon(SIZE), DIM).exponent() == 1  # what it keeps, it does not use


def test_what_has_no_drift_of_one_direction_is_refused() -> None:
    h3 = Additive(Activation.parse("h3"), (1.0,))
    with pytest.raises(InputError, match="works on coordinates"):
        drift(student(), h3, Correlation(), Adam(SIZE), DIM)
    with pytest.raises(InputError, match="batch 1"):
        drift(student(), h3, Correlation(), Rule(SIZE, batch=2), DIM)
    with pytest.raises(InputError, match="label noise"):
        drift(student(), h3, Correlation(), Rule(SIZE, noise=1.0), DIM)
    with pytest.raises(InputError, match="2 directions"):
        drift(student(), replace(h3, weights=(1.0, 1.0)), Correlation(), Rule(SIZE), DIM)


@pytest.mark.slow_for("0.8*h4+0.2*h2-SAM", "0.8*h4+0.2*h2-Reuse", "0.8*h4+0.2*h2-Ahead")
@pytest.mark.parametrize(
    "rule", [SAM(1e-4, radius=0.1), Reuse(1e-4), Ahead(1e-4, ahead=1e-3)], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize("text", ["h4", "0.8*h4+0.2*h2"])
def test_an_even_label_has_no_odd_degree(rule: Rule, text: str) -> None:
    """ψ(y, b) is even in a, whatever it is: the rounding of heavy tails is no degree."""
    even = Activation.parse(text)
    found = drift(committee(even, 1, rows="sphere"), Additive(even, (1.0,)), Square(), rule, 100.0)
    assert found.exponent() == 2
    assert not found.seen[::2].any()


def by_shifted_midpoints(rule: str, shifts: np.ndarray) -> np.ndarray:
    """ν₁ and ν₂ of h3 under the square loss at d = 100, written out; without bias for shifts (2,) drawn from [0, 1)."""
    edges = np.linspace(-9, 9, 1001)
    a, b = (edges[:-1] + x * (edges[1] - edges[0]) for x in shifts)
    weights = [np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0]) for x in (a, b)]
    h3, slope = (lambda x: (x**3 - 3 * x) / np.sqrt(6)), (lambda x: (3 * x**2 - 3) / np.sqrt(6))
    y = h3(a)[:, None]
    sign = np.sign((h3(b) - y) * slope(b))
    at = b + 0.1 * 10 * sign
    step = -sign / 10 if rule == "normalised" else -(h3(at) - y) * slope(at)
    return np.array([(weights[0] * a) @ step @ weights[1], (weights[0] * (a**2 - 1)) @ step @ (weights[1] * b)])


@pytest.mark.parametrize("rule", [SAM(SIZE, radius=0.1), Normalised(SIZE)], ids=["sam", "normalised"])
def test_jumps_where_the_square_loss_is_fitted(rule: Rule) -> None:
    h3 = Activation.parse("h3")
    found = drift(committee(h3, 1, rows="sphere"), Additive(h3, (1.0,)), Square(), rule, 100.0)
    name, draws = type(rule).__name__.lower(), np.random.default_rng(11).random((24, 2))
    values = np.array([by_shifted_midpoints(name, shifts) for shifts in draws])
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(error < 0.01 * np.abs(mean))
    assert np.all(np.abs(found.coefficients[:2] - mean) < 4 * error)


def test_second_moments_of_heavy_tails_are_whole_or_refused() -> None:
    """Of ψ = g + yσ'(b + ηd g), g = yσ', a polynomial in a and in b: exact by Gauss and Hermite."""
    h6, step = Activation.parse("h6"), 2e-4
    student, target, rule = committee(h6, 1, rows="sphere"), Additive(h6, (1.0,)), Reuse(step)
    points, weights = product_rule(gauss_hermite(80), gauss_hermite(80))
    a, b = points.T
    value, slope = (np.asarray(h6.arrays(order)(x)) for order, x in ((0, a), (1, b)))
    psi = value * slope + value * np.asarray(h6.arrays(1)(b + step * 100 * value * slope))
    assert drift(student, target, Correlation(), rule, 100.0).square == pytest.approx(weights @ psi**2, rel=1e-6)
    with pytest.raises(InputError, match="standard deviations"):
        drift(student, target, Correlation(), replace(rule, passes=3), 100.0)


def one_step(link: Function, slope: Function, eta: float, dim: int, u: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of Δu/η (less its part of first order), and ψq√(1 − u²), of reuse, in R^d, correlation loss."""
    rng, count, rest = np.random.default_rng(3), 400_000, np.sqrt(1 - u * u)
    x = rng.standard_normal((count, dim))
    label = link(u * x[:, 0] + rest * x[:, 1])
    row = np.zeros((count, dim))
    row[:, 0] = 1.0
    for _ in range(2):
        row += eta * (label * slope(np.einsum("nd,nd->n", row, x)))[:, None] * x
    climb = rest * row[:, 1] / eta
    row /= np.linalg.norm(row, axis=1)[:, None]
    whole = (u * row[:, 0] + rest * row[:, 1] - u) / eta
    both = np.array([climb, whole])
    return both.mean(axis=1), both.std(axis=1) / np.sqrt(count)


@pytest.mark.parametrize(("dim", "eta"), [(3, 2e-3), (10, 2e-2)])
def test_the_first_step_is_that_of_vectors(dim: int, eta: float) -> None:
    h3, u = Activation.parse("h3"), 0.3
    found = first_step(committee(h3, 1, rows="sphere"), Additive(h3, (1.0,)), Correlation(), Reuse(eta), dim, u)
    means, errors = one_step(h3.arrays(0), h3.arrays(1), eta, dim, u)
    assert abs(found.whole - means[1]) < 4 * errors[1]
    assert abs(found.first - means[0]) < 4 * errors[0]
    assert abs(found.first - found.whole) > 8 * errors[1]  # (the orders that tell the two apart are seen)


def test_the_law_of_the_length_moves_a_normalised_step() -> None:
    """In R¹⁰ by samples: a fifth more than with |x|² = 10."""
    h3, u, rng = Activation.parse("h3"), 0.3, np.random.default_rng(5)
    student, target, rule = committee(h3, 1, rows="sphere"), Additive(h3, (1.0,)), Normalised(1e-6)
    x = rng.standard_normal((1_000_000, 10))
    z, q = x[:, 0], x[:, 1]
    sign = np.sign(np.asarray(h3.arrays(0)(u * z + np.sqrt(1 - u * u) * q)) * np.asarray(h3.arrays(1)(z)))
    steps = sign * np.sqrt(1 - u * u) * q / np.linalg.norm(x, axis=1)
    error = steps.std() / 1000
    found = first_step(student, target, Correlation(), rule, 10.0, u)
    assert abs(found.first - steps.mean()) < 4 * error
    assert abs(float(drift(student, target, Correlation(), rule, 10.0).at(u)) - steps.mean()) > 40 * error
