"""Symmetric arrays stay symmetric: every flow and map against explicit vectors, for activations with and without a mean."""

import importlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ambient import ambient_gradient_flow

from dynamics.additive.ambient_flow import ambient_loss, embed
from dynamics.additive.gradient_descent import gradient_descent
from dynamics.additive.gradient_flow import gradient_flow
from dynamics.additive.retiring_flow import retiring_flow
from dynamics.core.interrupted import IntegrationError
from dynamics.core.symmetric import COSINES, GRAM, UNIT_GRAM, Symmetric
from dynamics.quadratic.riccati_integration import integrate_overlap
from dynamics.steps.finite_step import finite_step_flow
from theory import Activation, InitialState, Student, Teacher, draw_initial_state, draw_subspace

WIDTH, DIRECTIONS, DIM = 6, 2, 512
TIMES = np.linspace(12.0, 120.0, 10)


def random_activation(exponent: int, rng: np.random.Generator) -> Activation:
    """Leading degree J, a higher degree of either parity, and (two times of three) a mean of either sign."""
    higher = exponent + int(rng.integers(1, 4))
    mean = (0.0, 1.0, -0.6)[int(rng.integers(3))]
    coefficients = {exponent: 1.0, higher: round(float(rng.uniform(-0.8, 0.8)), 2), 0: mean}
    return Activation.from_coefficients({j: str(x) for j, x in coefficients.items() if x})


def problem(seed: int, exponent: int) -> tuple[Activation, Teacher, InitialState]:
    rng = np.random.default_rng([seed, exponent])
    activation, teacher = random_activation(exponent, rng), Teacher.of([1, 0.6], DIM)
    return activation, teacher, draw_initial_state(teacher, Student(WIDTH, float(rng.uniform(0.03, 0.3))), rng)


def against_vectors(activation: Activation, teacher: Teacher, initial: InitialState) -> None:
    """Overlaps, norms and loss of the coupled flow are those of explicit vectors, to the tolerance of both."""
    flow = gradient_flow(activation, teacher, initial, t_end=TIMES[-1], times=TIMES, rtol=1e-9, atol=1e-12).dataset
    span = Teacher.of([1, 0.6], DIRECTIONS + WIDTH)  # the vectors never leave the span of teachers and students
    vectors = ambient_gradient_flow(activation, span, initial, times=TIMES)
    norm2 = np.sum(vectors**2, axis=2)
    size = np.sqrt(norm2)[..., None]
    np.testing.assert_allclose(flow.norm2, norm2, rtol=0, atol=1e-6)
    np.testing.assert_allclose(flow.overlap, vectors[:, :, :DIRECTIONS] / size, rtol=0, atol=1e-6)
    assert np.all(np.diff(flow.loss) <= 1e-7)
    if 0 in activation.coefficients:  # the mean makes students heavy that point nowhere: where asymmetry grows
        assert norm2.sum(axis=1).max() > 0.5


@pytest.mark.slow_for("1", "3", "4", "5", "6", "7", "8")
@pytest.mark.parametrize("exponent", range(1, 9))
def test_random_activations_follow_explicit_vectors(exponent: int) -> None:
    against_vectors(*problem(0, exponent))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", range(1, 9))
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_random_activations_follow_explicit_vectors(seed: int, exponent: int) -> None:
    against_vectors(*problem(seed, exponent))


# ------------------------------------------------------------------------------------ the representation


@pytest.mark.parametrize("kind", [COSINES, GRAM, UNIT_GRAM], ids=lambda kind: f"{kind.name}-{kind.unit}")
@pytest.mark.parametrize("width", [1, 2, 5])
def test_what_is_held_is_the_array(kind: Symmetric, width: int) -> None:
    rng = np.random.default_rng(width)
    half = rng.standard_normal((width, width))
    full = half + half.T
    if kind.unit:
        np.fill_diagonal(full, 1.0)
    held = kind.pack({kind.name: jnp.asarray(full), "r": jnp.ones(width)})
    assert held[kind.name].shape == (width * (width - 1) // 2 if kind.unit else width * (width + 1) // 2,)
    np.testing.assert_array_equal(kind.open(held)[kind.name], full)


class _Full:
    """The representation without the mend: the array as it is, both halves integrated."""

    pack = open = staticmethod(lambda state: state)
    packed = staticmethod(lambda drift: drift)


def test_a_loss_that_rises_stops_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both halves of c integrated the numbers go wrong long before they overflow, and the flow says so."""
    activation, teacher, initial = problem(0, 6)
    monkeypatch.setattr(importlib.import_module("dynamics.additive.gradient_flow"), "COSINES", _Full)
    jax.clear_caches()
    try:
        with pytest.raises(IntegrationError, match=r"its loss rose from .* by more than its tolerances explain"):
            gradient_flow(activation, teacher, initial, t_end=60.0, times=np.linspace(0.5, 60.0, 120))
    finally:
        jax.clear_caches()


# ------------------------------------------------------------------------------------ other flows and maps


@pytest.mark.slow
@pytest.mark.parametrize("text", ["h4-1", "h6-0.5"])
def test_retiring_flow_keeps_directions_on_the_sphere(text: str) -> None:
    activation, teacher = Activation.parse(text), Teacher.of([1, 0.6], DIM)
    initial = draw_initial_state(teacher, Student(WIDTH, 0.03), 0)
    plain = gradient_flow(activation, teacher, initial, t_end=TIMES[-1], times=TIMES)
    retiring = retiring_flow(activation, teacher, initial, t_end=TIMES[-1], times=TIMES)
    np.testing.assert_allclose(retiring.loss, plain.dataset.loss, rtol=0, atol=1e-3)
    np.testing.assert_allclose(retiring.half_time, plain.half_time, rtol=1e-3)


def finite_step_loss(method: str, step_size: float, dim: int = 10**6) -> np.ndarray:
    """Loss at times 10, 20, 30, 40 of the mean dynamics of SGD with many samples a step, from a start with a mean."""
    activation, teacher = Activation.parse("h4-1"), Teacher.of([1, 0.6], dim)
    initial = draw_initial_state(Teacher.of([1, 0.6], DIM), Student(WIDTH, 0.03), 0)
    steps = round(40 / step_size)
    found = finite_step_flow(
        activation, teacher, initial, step_size=step_size, steps=steps, saves=4, method=method, batch=10**12
    )
    return found.dataset.loss.values[1:]


@pytest.mark.slow
def test_finite_step_flow_with_a_mean_becomes_the_gradient_flow() -> None:
    teacher = Teacher.of([1, 0.6], DIM)
    initial = draw_initial_state(teacher, Student(WIDTH, 0.03), 0)
    times = np.linspace(10.0, 40.0, 4)
    plain = gradient_flow(Activation.parse("h4-1"), teacher, initial, t_end=40.0, times=times).dataset.loss
    np.testing.assert_allclose(finite_step_loss("flow", 1e-9), plain, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_map_with_a_mean_differs_from_its_flow_by_the_second_order() -> None:
    gaps = [np.abs(finite_step_loss("map", eta) - finite_step_loss("flow", eta)).max() for eta in (0.02, 0.01)]
    assert 3 < gaps[0] / gaps[1] < 5


def descent_on_vectors(
    activation: Activation, teacher: Teacher, initial: InitialState, step_size: float, steps: int
) -> list[float]:
    """Losses before and after every step of gradient descent on explicit vectors."""
    a = jnp.asarray(teacher.a)
    slope = jax.jit(jax.grad(lambda v: ambient_loss(activation, v, a)))
    height: Callable = jax.jit(lambda v: ambient_loss(activation, v, a))
    vectors = jnp.asarray(embed(initial, teacher.width + initial.norm2.size))
    losses = [float(height(vectors))]
    for _ in range(steps):
        vectors = vectors - step_size * slope(vectors)
        losses.append(float(height(vectors)))
    return losses


@pytest.mark.slow_for("Abs(z)-1-1")
@pytest.mark.parametrize(("text", "width", "teachers"), [("relu", 3, 8), ("Abs(z)", 1, 1), ("h4+0.5", 6, 2)])
def test_gradient_descent_with_kernels_that_end_at_one(text: str, width: int, teachers: int) -> None:
    """A cosine of a neuron with itself is 1 up to rounding, where relu's kernel ends."""
    activation, teacher = Activation.parse(text), Teacher.power_law(teachers, 1.0, 100)
    initial = draw_initial_state(teacher, Student(width, 0.3), 0)
    found = gradient_descent(activation, teacher, initial, step_size=0.05, steps=400, saves=np.array([0, 100, 400]))
    assert not found.diverged
    expected = descent_on_vectors(activation, teacher, initial, 0.05, 400)
    np.testing.assert_allclose(found.loss, [expected[n] for n in (0, 100, 400)], rtol=0, atol=1e-9)
    assert expected[400] < 0.9 * expected[0]


@pytest.mark.slow
def test_retiring_flow_of_relu_starts() -> None:
    teacher = Teacher.power_law(8, 1.0, 100)
    initial = draw_initial_state(teacher, Student(3, 0.3), 0)
    relu, times = Activation.parse("relu"), np.linspace(5.0, 40.0, 8)
    plain = gradient_flow(relu, teacher, initial, t_end=40.0, times=times).dataset.loss
    np.testing.assert_allclose(retiring_flow(relu, teacher, initial, t_end=40.0, times=times).loss, plain, atol=1e-3)


def test_riccati_flow_is_symmetric_to_the_last_bit() -> None:
    """Between two emergences the antisymmetric part of G grows as fast as what emerges."""
    start = draw_subspace(6, 3, 40, 0)
    spectrum = np.arange(1, 7) ** -1.0
    found = integrate_overlap(spectrum / np.linalg.norm(spectrum), start, [1.0, 10.0, 50.0])
    np.testing.assert_array_equal(found, np.swapaxes(found, 1, 2))
