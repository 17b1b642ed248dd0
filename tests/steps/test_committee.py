r"""The committee machine: integrals against quadrature, one step against Monte Carlo, paths against SGD in coordinates."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

import dynamics.steps.committee as dynamics_committee
from dynamics.steps.committee import (
    LoweredCommittee,
    committee_flow,
    committee_parameters,
    committee_sgd,
    lowered_committee,
    map_steps,
    sgd_step,
)
from theory import Activation, InitialState, InputError, Teacher
from theory.core import gaussian
from theory.core.hermite import z
from theory.core.indexed import Sums, Term
from theory.steps.committee import committee
from theory.steps.committee_checks import (
    evaluate,
    integral_equations,
    integral_residual,
    mean_residual,
    numbered,
    order_parameters,
)
from theory.steps.slope_integrals import SlopeIntegrals, covariance_symbol, erf_two, slope_integrals, symbols
from validation.experiments.committee_moments import remainder_and_noise

TEXTS = ("erf", "z**2", "h3")
#: One rule of rows for each activation, so that all of both are covered.
CASES = [("erf", "free"), ("z**2", "free"), ("quadratic", "sphere"), ("h3", "projected")]
WEIGHTS, TEACHER = np.array([0.7, 0.5, -0.4]), [0.8, 0.6]


def students(rows: str, dim: int, seed: int = 0) -> np.ndarray:
    vectors = 0.7 * np.random.default_rng(seed).standard_normal((3, dim)) / np.sqrt(dim)
    return vectors if rows == "free" else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["two", "three", "four", "norm", "pair"])
@pytest.mark.parametrize("text", TEXTS)
def test_integrals_are_their_quadrature(text: str, name: str) -> None:
    activation = Activation.parse(text)
    right = slope_integrals(activation)
    assert abs(float(integral_residual(name, activation, right, integral_equations(right)[name]))) < 1e-10
    wrong = SlopeIntegrals(1.05 * right.two, 1.05 * right.four)
    assert abs(float(integral_residual(name, activation, wrong, integral_equations(right)[name]))) > 1e-6
    assert abs(float(integral_residual(name, activation, right, 1.05 * integral_equations(right)[name]))) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "rows"), [pytest.param("erf(2*z)", "free", marks=pytest.mark.slow), ("-3*erf(z/3)", "projected")]
)
def test_a_committee_of_any_scaled_erf_is_derived(text: str, rows: str) -> None:
    assert committee(Activation.parse(text), rows).derivation.verify() > 0


def test_a_slope_that_the_check_cannot_resolve_is_refused() -> None:
    with pytest.raises(InputError, match=r"slope 9: .* a slope up to 2\.2: lower it"):
        committee(Activation.parse("erf(9*z)")).derivation.verify()


def test_three_points_of_erf_are_as_published() -> None:
    """Stein's lemma gives the three-point function of Saad and Solla 1995, to 30 digits at a generic covariance."""
    zero, c = sp.Integer(0), covariance_symbol
    names = sp.symbols("g_1:4")
    derived = SlopeIntegrals(erf_two(), zero).first_order(numbered, *names)
    point = {x: sp.Rational(3 + 2 * i, 17) for i, x in enumerate(sorted(symbols(3).free_symbols, key=str))}
    root = sp.sqrt((1 + c(0, 0)) * (1 + c(2, 2)) - c(0, 2) ** 2)
    published = 2 / sp.pi * (c(1, 2) * (1 + c(0, 0)) - c(0, 1) * c(0, 2)) / ((1 + c(0, 0)) * root)
    assert abs(sp.N((derived - published).subs(point), 40)) < 1e-30


def test_wick_powers_are_steins_lemma() -> None:
    names = sp.symbols("x_0:4")
    value, slope = Activation.parse("h3+0.5*z**2").function, sp.diff(Activation.parse("h3+0.5*z**2").function, z)
    covariance = sp.Matrix(4, 4, lambda i, h: sp.Rational(5 + i, 4) if i == h else sp.Rational(i + h + 1, 9 + i * h))
    product = sp.Mul(*[f.subs(z, x) for f, x in zip((slope, slope, value, value), names, strict=True)])
    known = gaussian.expectation(sp.expand(product), names, covariance)
    found = slope_integrals(Activation.parse("h3+0.5*z**2")).four
    at_point = dict(zip(symbols(4), covariance, strict=True))
    assert sp.expand(found.subs(at_point) - known) == 0


@pytest.mark.slow_for("h3-projected")
@pytest.mark.parametrize(("text", "rows"), CASES)
def test_derivation_holds_and_a_wrong_one_does_not(text: str, rows: str) -> None:
    system = committee(Activation.parse(text), rows)
    assert system.derivation.verify() == 7
    component, sums = list(system.drift.items())[1]
    wrong = Sums([*sums[:-1], Term(sums[-1].body * sp.Rational(21, 20), sums[-1].bound)])
    assert float(mean_residual(str(component.base), wrong, system.activation, rows)) > 1e-4


def lowered_and_known(text: str, rows: str) -> tuple:
    system, vectors, dim = committee(Activation.parse(text), rows), students(rows, 9), 9
    known = order_parameters(vectors, np.array(TEACHER), WEIGHTS, 0.3)
    state = {name: jnp.asarray(known[name]) for name in ("T", "Q")}
    parameters = committee_parameters(Teacher.of(TEACHER, dim, normalise=False), WEIGHTS, 0.3)
    return system, known, jax.jit(LoweredCommittee(system).drift)(state, parameters)


@pytest.mark.slow_for("quadratic-sphere", "erf-free")
@pytest.mark.parametrize(("text", "rows"), CASES)
def test_lowered_drift_is_the_reference(text: str, rows: str) -> None:
    """Broadcast code against loops over indices."""
    system, known, found = lowered_and_known(text, rows)
    for component, sums in system.drift.items():
        np.testing.assert_allclose(found[str(component.base)], evaluate(sums, known), rtol=1e-12, atol=1e-13)


def test_one_student_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, whole = lowered_and_known("z**2", "sphere")
    monkeypatch.setattr(dynamics_committee, "_CHUNK", 1)
    _, _, chunked = lowered_and_known("z**2", "sphere")
    for name in whole:
        np.testing.assert_allclose(chunked[name], whole[name], rtol=1e-12, atol=1e-13)


def derivatives(function: Callable[[jax.Array], jax.Array]) -> tuple[jax.Array, jax.Array]:
    """The first two at 0."""
    return jax.jvp(lambda x: jax.jvp(function, (x,), (1.0,))[1], (0.0,), (1.0,))


def sampled_steps(text: str, rows: str, dim: int, step_size: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """First order + η × second order of (T, Q) in one real step, differentiated automatically.

    Mean and its covariance, for each of two seeds.
    """
    vectors = jnp.asarray(students(rows, dim))
    rates = committee_parameters(Teacher.of(TEACHER, dim, normalise=False), WEIGHTS, step_size)

    def change(x: jax.Array) -> jax.Array:
        def after(eta: jax.Array) -> jax.Array:
            moved = sgd_step(Activation.parse(text), rows, rates | {"eta": eta}, vectors, x)
            return row({"T": moved[:, :2], "Q": moved @ moved.T}, rows)

        first, second = derivatives(after)
        return first + 0.5 * step_size * second

    changes, found = jax.jit(jax.vmap(change)), []
    for seed in (0, 1):
        samples = np.asarray(changes(jnp.asarray(np.random.default_rng([7, seed]).standard_normal((60_000, dim)))))
        found.append((samples.mean(axis=0), np.cov(samples, rowvar=False) / len(samples)))
    return found


def row(y: dict, rows: str) -> jax.Array:
    i, h = np.triu_indices(3, 0 if rows == "free" else 1)
    return jnp.concatenate([y["T"].ravel(), y["Q"][i, h]])


@pytest.mark.slow_for("erf-sphere")
@pytest.mark.parametrize(("text", "rows"), [("erf", "free"), ("erf", "sphere")])
def test_mean_of_a_step_against_monte_carlo(text: str, rows: str) -> None:
    """z-scores of the right spread; without the second order, or with twice the dimension, far too large."""
    dim, step_size = 12, 0.5
    vectors = students(rows, dim)
    state = {"T": jnp.asarray(vectors[:, :2]), "Q": jnp.asarray(vectors @ vectors.T)}
    drift = partial(jax.jit(lowered_committee(committee(Activation.parse(text), rows)).drift), state)
    given = committee_parameters(Teacher.of(TEACHER, dim, normalise=False), WEIGHTS, step_size)
    theories = [given, given | {"eta": jnp.asarray(0.0)}, given | {"d": jnp.asarray(2.0 * dim)}]
    predicted = [np.asarray(row(drift(parameters), rows)) for parameters in theories]
    for mean, covariance in sampled_steps(text, rows, dim, step_size):
        error = np.sqrt(np.diag(covariance))
        spread = np.sqrt(2 * np.sum((covariance / np.outer(error, error)) ** 2)) / mean.size
        right, *wrong = (float(np.mean(((mean - x) / error) ** 2)) for x in predicted)
        assert abs(right - 1) < 4 * spread
        assert min(wrong) > 1 + 8 * spread


def start(rows: str) -> InitialState:
    on_teachers, residual = np.array([[0.5, 0.1], [0.05, 0.4]]), np.array([[0.6, 0.0], [0.1, 0.7]])
    if rows != "free":
        norm = np.sqrt(np.sum(on_teachers**2, axis=1) + np.sum(residual**2, axis=1))[:, None]
        on_teachers, residual = on_teachers / norm, residual / norm
    return InitialState(on_teachers, residual)


@pytest.mark.parametrize("second_order", [True, False])
def test_one_linear_row_in_closed_form(second_order: bool) -> None:
    """f = w·x, f* = e·x: F = (1 − T, …), with the row's own noise in Q; the flow's rate is 1 + ½η to second order.

    A step in coordinates, w − ηx(w·x − e·x), takes D = ‖w − e‖² to (1 − 2η + (d + 2)η²)D.
    """
    dim, step_size, at = 20, 0.05, np.array([0, 8, 16])
    begin = InitialState(np.array([[0.3]]), np.array([[0.4]]))
    teacher, activation = Teacher.of([1.0], dim, normalise=False), Activation.parse("z")
    given: dict = {"step_size": step_size, "steps": 16, "saves": 2, "second_order": second_order}
    flow, by_map = (
        committee_flow(activation, teacher, [1.0], begin, method=method, **given).dataset for method in ("flow", "map")
    )
    for data in (flow, by_map):
        distance = data["Q"].values[:, 0, 0] - 2 * data["T"].values[:, 0, 0] + 1
        np.testing.assert_allclose(data["loss"], distance / 2, rtol=1e-12)
    scale, square = (step_size, (dim + 2) * step_size) if second_order else (0, 0)
    rate = -2 + square
    overlap = {"map": (1 - step_size) ** at, "flow": np.exp(-(1 + scale / 2) * step_size * at)}
    excess = {"map": (1 + step_size * rate) ** at, "flow": np.exp((rate - scale * rate**2 / 2) * step_size * at)}
    parameters = committee_parameters(teacher, [1.0], step_size if second_order else 0.0)
    state = {name: jnp.asarray(by_map[name][0]) for name in ("T", "Q")}
    if second_order:  # (of the parameters' own step size)
        moved = map_steps(lowered_committee(committee(activation)), state, parameters, 16, False)
        np.testing.assert_allclose([moved["T"][0, 0], moved["Q"][0, 0]], [by_map[x][-1, 0, 0] for x in ("T", "Q")])
    for method, data in (("flow", flow), ("map", by_map)):
        np.testing.assert_allclose(data["T"][:, 0, 0], 1 - 0.7 * overlap[method], rtol=1e-7)
        np.testing.assert_allclose(2 * data["loss"], 0.65 * excess[method], rtol=1e-7)


@pytest.mark.slow
def test_flow_passes_through_the_points_of_the_map() -> None:
    """Their distance falls as η² or faster (a ratio of 4); without the correction it would fall as η (2)."""
    teacher, gaps = Teacher.of([1.0, 1.0], 50, normalise=False), []
    for step_size, steps in ((2e-3, 100), (1e-3, 200)):
        runs = [
            committee_flow(
                Activation.parse("quadratic"), teacher, [1.0, 1.0], start("free"), step_size=step_size, steps=steps,
                saves=1, method=method,
            )
            for method in ("map", "flow")
        ]  # fmt: skip
        gaps.append(max(float(np.abs(runs[0].dataset[name] - runs[1].dataset[name]).max()) for name in ("T", "Q")))
    assert gaps[0] / gaps[1] > 3.5


def test_sgd_follows_the_second_order_and_not_gradient_flow() -> None:
    activation, teacher = Activation.parse("erf"), Teacher.of([1.0, 1.0], 200, normalise=False)
    shared: dict = {"step_size": 1.5 / 200, "steps": 400, "saves": 8, "rows": "free"}
    runs = committee_sgd(activation, teacher, [1.0, 1.0], start("free"), replicas=24, seed=3, **shared)
    by_map = partial(committee_flow, activation, teacher, [1.0, 1.0], start("free"), method="map", **shared)
    loss = runs.dataset.loss.values[:, -1]
    error = loss.std(ddof=1) / np.sqrt(loss.size)
    assert abs(loss.mean() - float(by_map().dataset.loss[-1])) < 4 * error
    assert abs(loss.mean() - float(by_map(second_order=False).dataset.loss[-1])) > 20 * error
    assert not runs.diverged
    assert runs.dataset["T"].dims == ("replica", "time", "neuron", "direction")


def test_moments_of_a_whole_step_against_sampled_steps() -> None:
    """Rows of unit norm: mean beyond the second order, and covariance, of steps on inputs drawn in coordinates."""
    activation, rows, dim, step_size = Activation.parse("quadratic"), "projected", 20, 0.02
    given = committee_parameters(Teacher.of([1.0, 1.0], dim, normalise=False), [1.0, 1.0], step_size)
    vectors = np.zeros((2, dim))
    vectors[:, :4] = np.concatenate([start(rows).on_teachers, start(rows).residual], axis=1)

    def orders(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def after(eta: jax.Array) -> jax.Array:
            moved = sgd_step(activation, rows, given | {"eta": eta}, jnp.asarray(vectors), x)
            return jnp.append(moved[:, :2].ravel(), moved[0] @ moved[1])

        first, second = derivatives(after)
        move = (after(jnp.asarray(step_size)) - after(jnp.asarray(0.0))) / step_size
        return move, move - first - 0.5 * step_size * second

    x = np.random.default_rng(5).standard_normal((40_000, dim))
    moves, beyond = (np.asarray(found) for found in jax.jit(jax.vmap(orders))(jnp.asarray(x)))
    remainder, noise = remainder_and_noise(activation, rows, given, vectors[:, :2], vectors @ vectors.T)
    error = beyond.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(beyond.mean(axis=0) - remainder) < 4 * error)
    assert np.max(np.abs(remainder) / error) > 8
    np.testing.assert_allclose(np.cov(moves, rowvar=False), noise, rtol=0.1, atol=0.03 * np.abs(noise).max())


def test_noise_of_a_step_of_a_linear_row_is_wicks() -> None:
    """ΔT/η = (e·x)x₁ with the error e = θ* − w: mean e₁ and variance |e|² + e₁² in any dimension."""
    given = committee_parameters(Teacher.of([1.0], 20, normalise=False), [1.0], 0.02)
    _, noise = remainder_and_noise(Activation.parse("h1"), "free", given, np.array([[0.3]]), np.array([[0.5]]))
    assert noise[0, 0] == pytest.approx((1 - 2 * 0.3 + 0.5) + 0.7**2, rel=1e-9)


def test_a_run_that_diverges_says_so() -> None:
    teacher = Teacher.of([1.0, 1.0], 200, normalise=False)
    found = committee_sgd(
        Activation.parse("h3"), teacher, [1.0, 1.0], start("free"), step_size=1.0, steps=200, replicas=2, saves=2
    )
    assert found.diverged


def run(**changes: object) -> None:
    given: dict = {
        "activation": Activation.parse("erf"),
        "teacher": Teacher.of([1.0, 1.0], 20, normalise=False),
        "student_weights": [1.0, 1.0],
        "initial": start("free"),
        "step_size": 0.1,
        "steps": 4,
    } | changes
    committee_flow(**given)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"activation": Activation.parse("relu")}, "relu"),
        ({"activation": Activation.parse("h8")}, "degree 8"),
        ({"rows": "round"}, "rows"),
        ({"rows": "sphere"}, "unit rows"),
        ({"student_weights": [1.0]}, "student_weights"),
        ({"step_size": -1.0}, "step_size"),
        ({"teacher": Teacher.of([1.0], 20)}, "initial"),
        ({"teacher": Teacher.of([1.0, 1.0], 3)}, "dim"),
        ({"method": "guess"}, "method"),
    ],
)
def test_bad_input_is_named(changes: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        run(**changes)
