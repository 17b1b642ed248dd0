"""The staircase loss, and its power laws against exact finite staircases."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import sympy as sp

from theory import Activation, InitialState, Teacher, predict
from theory.core.activation import z
from theory.scaling import ideal_loss
from theory.scaling.ideal_loss import beta, exponent_values, scaling_exponents, staircase

H4 = Activation.parse("h4")


def left_after(decay: float, learned: int) -> float:
    """Σ_{s>p} s^{−2β}, exactly (Hurwitz zeta)."""
    return float(mpmath.zeta(2 * decay, learned + 1))


def test_staircase_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    weights, emergence, times = rng.random(5), rng.random(5) * 10, rng.random(40) * 12
    expected = [0.5 * 2.5 * sum(w**2 for w, e in zip(weights, emergence, strict=True) if t < e) for t in times]
    np.testing.assert_allclose(staircase(times, emergence, weights, 2.5), expected, rtol=1e-14)


def test_staircase_falls_at_the_times_and_only_there() -> None:
    emergence, weights = np.array([1.0, 2.0, np.inf]), np.array([0.8, 0.5, 0.3])
    times = np.array([0.0, np.nextafter(1.0, 0), 1.0, np.nextafter(2.0, 0), 2.0, 1e300])
    after_one, after_two = 0.25 + 0.09, 0.09
    expected = 0.5 * np.array([0.64 + after_one, 0.64 + after_one, after_one, after_one, after_two, after_two])
    np.testing.assert_allclose(staircase(times, emergence, weights, 1.0), expected, rtol=1e-14)


def test_initial_loss_is_half_the_second_moment_for_a_unit_teacher() -> None:
    teacher = Teacher.power_law(20, 1.0, 100)
    assert staircase(np.array([0.0]), np.ones(20), teacher.a, 2.0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("decay", [0.6, 0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("time", lambda p, b: p**b),  # T_p ∝ p^β
        ("width", lambda p, b: p),
        ("samples_unstable", lambda p, b: p ** (2 * b)),  # T_p/η, η ∝ a_p
        ("compute", lambda p, b: p ** (1 + b)),  # width times time
    ],
)
def test_exponents_are_slopes_of_the_exact_staircase(name: str, resource: object, decay: float) -> None:
    """Local slope far out on the exact tail; the nearest other exponents are rejected by the same rule."""
    assert callable(resource)
    first, last = 10_000, 40_000
    slope = np.log(left_after(decay, last) / left_after(decay, first)) / np.log(
        resource(last, decay) / resource(first, decay)
    )
    predicted = exponent_values(decay, H4)
    found = predicted[name]
    assert found is not None
    assert found == pytest.approx(slope, rel=1e-3)
    for wrong in (1.05 * found, 0.95 * found, found - 0.05):
        assert wrong != pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("text", ["h4", "h4+0.5", "relu", "cos(z)"])
def test_stairs_are_the_loss_beside_massless_students(text: str) -> None:
    """½E(Σ_S a_p σ(x_p))² by quadrature: directions that are left see each other through the mean."""
    activation = Activation.parse(text)
    sigma = sp.lambdify(z, activation.function, "numpy")
    points, weight = np.polynomial.hermite_e.hermegauss(300)
    mean, second = (weight @ np.broadcast_to(sigma(points), points.shape) ** n / np.sqrt(2 * np.pi) for n in (1, 2))
    a, emergence = np.array([0.3, 0.8, 0.5]), np.array([3.0, 1.0, 2.0])
    teacher = Teacher.of(a, 50, normalise=False)
    empty = predict(activation, teacher, InitialState(np.full((1, 3), 1e-3), np.eye(1)))
    found = replace(empty, time_loss=emergence).loss(np.array([0.0, 1.0, 2.0, 3.0]))
    left = [a, a[[0, 2]], a[[0]], a[:0]]
    expected = [0.5 * (second * np.sum(x**2) + mean**2 * (np.sum(x) ** 2 - np.sum(x**2))) for x in left]
    np.testing.assert_allclose(found, expected, rtol=2e-3 if text == "relu" else 1e-9, atol=1e-12)


def test_exponents_of_the_paper() -> None:
    found = scaling_exponents()
    formulas = {
        "time": (1 - 2 * beta) / beta,
        "width": 1 - 2 * beta,
        "samples_unstable": (1 - 2 * beta) / (2 * beta),
        "compute": (1 - 2 * beta) / (1 + beta),
    }
    assert set(found) == set(formulas)
    for name, formula in formulas.items():
        assert (found[name] - formula).simplify() == 0


@pytest.mark.parametrize("decay", [None, 0.0, 0.3, 0.5])
def test_no_exponents_without_a_convergent_power_law(decay: float | None) -> None:
    assert set(exponent_values(decay, H4).values()) == {None}


@pytest.mark.parametrize("text", ["quadratic", "h1", "erf", "h4+0.5", "cos(2*z)-cos(z)"])
def test_no_exponents_without_a_transition(text: str) -> None:
    assert set(exponent_values(1.0, Activation.parse(text)).values()) == {None}


def test_exponents_of_floating_and_numpy_decays() -> None:
    """β = 1: −1, −1, −½, −½."""
    expected = [-1.0, -1.0, -0.5, -0.5]
    for decay in (1.0, np.float64(1.0), 1):
        assert list(exponent_values(decay, H4).values()) == pytest.approx(expected)
    assert exponent_values(1e-5 + 1, H4)["time"] == pytest.approx(-1.0, abs=1e-4)


def test_emerging_staircase_follows_the_time_exponent() -> None:
    """A whole power-law problem: T_p ∝ 1/a_p, loss read off the staircase, slope over the middle of the range."""
    decay, width = 1.0, 20_000
    weights = np.arange(1.0, width + 1) ** -decay
    emergence = 1 / weights
    times = np.array([100.0, 1000.0])
    loss = staircase(times, emergence, weights, 1.0) + 0.5 * left_after(decay, width)
    slope = np.diff(np.log(loss))[0] / np.diff(np.log(times))[0]
    predicted = exponent_values(decay, H4)["time"]
    assert predicted is not None
    assert slope == pytest.approx(predicted, rel=5e-3)
    assert ideal_loss.tail().subs({ideal_loss.beta: 1, ideal_loss.learned: 100}) == pytest.approx(
        2 * float(loss[0]), rel=1e-2
    )


def test_steps_of_the_derivation_have_words_and_no_keys() -> None:
    found = ideal_loss.derivation(H4)
    assert not [step.title for step in found.steps if "_" in step.title]
