"""ψ of a rule, read off the rule itself, and the drift of one direction: against formulas, direct integrals and refusals."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import Activation, InputError
from theory.core.derivation import DerivationError, equation
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.loss import Correlation
from theory.declared.one_direction import Plane, derivation, drift, psi
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
    found = psi(student(isinstance(rule, Alternating | Anew)), Correlation(), rule, Y, Z, DIM)
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
