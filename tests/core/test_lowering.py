"""The generated code is the derived system: against SymPy, against ambient differentiation, at its promised cost."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from conftest import Frame

from dynamics.additive.ambient_flow import ambient_loss
from dynamics.core.lowering import LoweredSystem, lower, lower_scalar
from theory import Activation, System, overlap_flow
from theory.baselines.toy import Toy, target
from theory.core.activation import c as kernel_variable
from theory.core.indexed import Dual, Sums, Term, evaluate
from theory.core.lowered import compiled_numpy, lower_numpy

TEXTS = ["h3", "h4", "0.8*h4+0.6*h6", "erf", "quadratic", "h3+h4/2+1"]
#: Every Hermite degree up to 3 and a mean, so that no term vanishes by accident.
GENERAL = Activation.from_coefficients({0: sp.Rational(1, 3), 1: sp.Rational(1, 2), 3: sp.Rational(2, 3)})
Arrays = dict[str, np.ndarray]
Make = Callable[..., Frame]


def state_of(frame: Frame) -> dict[str, jax.Array]:
    return {"t": jnp.asarray(frame.overlap), "c": jnp.asarray(frame.student_overlap), "r": jnp.asarray(frame.norm2)}


def parameters_of(frame: Frame) -> dict[str, jax.Array]:
    return {"a": jnp.asarray(frame.weights)}


def reference(system: System, frame: Frame) -> tuple[Arrays, float]:
    """Drift and loss by looping over the indices with 30-digit SymPy numbers."""
    number = np.vectorize(lambda x: sp.Float(float(x), 30), otypes=[object])
    arrays = {"t": frame.overlap, "c": frame.student_overlap, "r": frame.norm2, "a": frame.weights}
    exact = {name: number(array) for name, array in arrays.items()}

    def kernel(x: sp.Expr, order: int) -> sp.Expr:
        return sp.N(system.activation.dual_derivative(int(order)).subs(kernel_variable, x), 30)

    drift = {
        str(component.base): evaluate(sums, tuple(component.indices), exact, kernel).astype(float)
        for component, sums in system.drift.items()
    }
    return drift, float(evaluate(system.observables["loss"], (), exact, kernel)[()])


def drift_of(system: System, frame: Frame, **other: jax.Array) -> dict[str, jax.Array]:
    """The lowered drift, compiled; `other` replaces entries of the state."""
    return jax.jit(lower(system).drift)(state_of(frame) | other, parameters_of(frame))


def loss_of(system: System, frame: Frame) -> float:
    return float(jax.jit(partial(lower(system).observable, "loss"))(state_of(frame), parameters_of(frame)))


def difference(found: dict[str, jax.Array] | Arrays, expected: Arrays) -> float:
    """Largest difference of any component, relative to the largest entry of that component."""
    return max(np.max(np.abs(np.asarray(found[x]) - y)) / np.max(np.abs(y)) for x, y in expected.items())


def ambient_drift(activation: Activation, frame: Frame) -> Arrays:
    """The same drift from vectors: V̇ = −∇L by JAX, pushed forward through (t, c, r)(V)."""

    def coordinates(vectors: jax.Array) -> dict[str, jax.Array]:
        norm2 = jnp.sum(vectors**2, axis=1)
        units = vectors / jnp.sqrt(norm2)[:, None]
        return {"t": units[:, : frame.weights.size], "c": units @ units.T, "r": norm2}

    vectors = jnp.asarray(frame.vectors)

    @jax.jit
    def velocity(vectors: jax.Array) -> dict[str, jax.Array]:
        descent = -jax.grad(lambda v: ambient_loss(activation, v, jnp.asarray(frame.weights)))(vectors)
        return jax.jvp(coordinates, (vectors,), (descent,))[1]

    return {name: np.asarray(x) for name, x in velocity(vectors).items()}


# ------------------------------------------------------------------------------------ right answers


@pytest.mark.parametrize("text", TEXTS)
def test_drift_and_loss_equal_the_slow_exact_reference(text: str, frame: Make) -> None:
    system = overlap_flow(Activation.parse(text))
    point = frame(3, 2, 6, seed=len(text))
    drift, loss = reference(system, point)
    assert difference(drift_of(system, point), drift) < 1e-12
    assert loss_of(system, point) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("text", TEXTS)
def test_drift_equals_the_gradient_of_the_ambient_loss(text: str, frame: Make) -> None:
    """Independent of the derivation: only the loss in vectors and automatic differentiation."""
    activation = Activation.parse(text)
    point = frame(4, 3, 9, seed=5)
    system = overlap_flow(activation)
    assert difference(drift_of(system, point), ambient_drift(activation, point)) < 1e-12
    ambient = float(ambient_loss(activation, jnp.asarray(point.vectors), jnp.asarray(point.weights)))
    assert loss_of(system, point) == pytest.approx(ambient, rel=1e-12)


@pytest.mark.parametrize(("width", "teacher_width"), [(1, 1), (1, 4), (4, 1), (3, 3)])
def test_shapes_that_could_be_confused(width: int, teacher_width: int, frame: Make) -> None:
    """One neuron, one direction, or as many of each: a transposed or broadcast axis would show here."""
    point = frame(width, teacher_width, width + teacher_width + 1, seed=7)
    found = drift_of(overlap_flow(GENERAL), point)
    expected = ambient_drift(GENERAL, point)
    assert {name: x.shape for name, x in found.items()} == {name: x.shape for name, x in expected.items()}
    # With one neuron ċ = 0, so differences are measured against the whole drift.
    largest = max(np.max(np.abs(x)) for x in expected.values())
    assert max(np.max(np.abs(np.asarray(found[x]) - expected[x])) for x in expected) < 1e-13 * max(1.0, largest)


def test_jit_and_vmap_change_nothing(frame: Make) -> None:
    lowered = lower(overlap_flow(GENERAL))
    points = [frame(3, 2, 6, seed=seed) for seed in range(3)]
    states, parameters = [state_of(x) for x in points], [parameters_of(x) for x in points]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states), jax.tree.map(lambda *x: jnp.stack(x), *parameters)
    together, compiled = jax.jit(jax.vmap(lowered.drift))(*stacked), jax.jit(lowered.drift)
    for place, (state, parameter) in enumerate(zip(states, parameters, strict=True)):
        eager = {name: np.asarray(x) for name, x in lowered.drift(state, parameter).items()}
        assert difference(compiled(state, parameter), eager) < 1e-14
        assert difference({name: x[place] for name, x in together.items()}, eager) < 1e-14


@pytest.mark.parametrize("text", ["h3", "erf", "h3+h4/2+1"])
def test_grad_of_the_loss_gives_the_energy_balance(text: str, frame: Make) -> None:
    r"""$dL/dt=-\|\nabla_VL\|^2$: the loss's derivative along the drift, against the ambient gradient's square."""
    activation, point = Activation.parse(text), frame(4, 3, 9, seed=2)
    lowered, parameters = lower(overlap_flow(activation)), parameters_of(point)
    slopes = jax.jit(jax.grad(lambda state: lowered.observable("loss", state, parameters)))(state_of(point))
    drift = drift_of(lowered.system, point)
    rate = sum(float(jnp.sum(slopes[name] * drift[name])) for name in drift)
    gradient = jax.jit(jax.grad(lambda v: ambient_loss(activation, v, parameters["a"])))(jnp.asarray(point.vectors))
    assert rate == pytest.approx(-float(jnp.sum(gradient**2)), rel=1e-11)


# ------------------------------------------------------------------------------- wrong answers fail


def mutants(system: System) -> dict[str, System]:
    """Wrong systems: each term of the drift left out in turn, and every φ′ of one component 10 % too large."""
    found = {}
    for component, sums in system.drift.items():
        for place in range(len(sums)):
            shorter = Sums(term for number, term in enumerate(sums) if number != place)
            found[f"{component} without term {place}"] = replace(system, drift={**system.drift, component: shorter})
        steeper = Sums(
            Term(
                x.body.replace(Dual, lambda y, order: Dual(y, order) * (sp.Rational(11, 10) if order == 1 else 1)),
                x.bound,
            )
            for x in sums
        )
        if steeper != sums:
            found[f"{component} steeper"] = replace(system, drift={**system.drift, component: steeper})
    return found


def test_every_wrong_system_is_told_apart(frame: Make) -> None:
    """The comparison of the tests above, on systems that are wrong in one place."""
    system, point = overlap_flow(GENERAL), frame(3, 2, 6, seed=1)
    expected = ambient_drift(GENERAL, point)
    wrong = mutants(system)
    assert len(wrong) == sum(len(sums) for sums in system.drift.values()) + 2  # ṙ has no φ′ to make steeper
    for name, mutant in wrong.items():
        assert difference(drift_of(mutant, point), expected) > 1e-4, name


def test_swapped_indices_are_told_apart(frame: Make) -> None:
    system, point = overlap_flow(GENERAL), frame(3, 3, 7, seed=1)
    expected = ambient_drift(GENERAL, point)
    assert difference(drift_of(system, point), expected) < 1e-12
    assert difference(drift_of(system, point, t=jnp.asarray(point.overlap.T)), expected) > 1e-2


# --------------------------------------------------------------------------------------------- cost

WIDTH, TEACHER = 37, 29


def compiled_text(function: Callable, *arguments: object) -> str:
    return jax.jit(function).lower(*arguments).compile().as_text() or ""


def products(text: str) -> int:
    """Matrix products in HLO text (a call into a library counts as one)."""
    return len(re.findall(r"[ =]dot\(", text)) + len(re.findall(r"custom-call\(", text))


def largest_array(text: str) -> int:
    """Number of entries of the largest floating-point array named in HLO text."""
    shapes = re.findall(r"f64\[([\d,]*)\]", text)
    return max(int(np.prod([int(size) for size in shape.split(",") if size] or [1])) for shape in shapes)


@pytest.mark.parametrize("text", ["h4", "erf", "h3+h4/2+1"])
def test_the_drift_costs_three_matrix_products_and_no_three_index_array(text: str, frame: Make) -> None:
    point = frame(WIDTH, TEACHER, 80)
    hlo = compiled_text(lower(overlap_flow(Activation.parse(text))).drift, state_of(point), parameters_of(point))
    assert products(hlo) == 3
    assert largest_array(hlo) <= WIDTH * max(WIDTH, TEACHER)


def test_the_count_sees_a_fourth_product_and_a_three_index_array(frame: Make) -> None:
    point = frame(WIDTH, TEACHER, 80)
    lowered = lower(overlap_flow(Activation.from_degree(4)))

    def wasteful(state: dict[str, jax.Array], parameters: dict[str, jax.Array]) -> tuple:
        return lowered.drift(state, parameters), jnp.cos(state["c"]) @ state["t"]

    def bulky(state: dict[str, jax.Array]) -> jax.Array:
        return jnp.sum(jnp.cos(state["c"][:, :, None] * state["t"][None, :, :]), axis=1)

    assert products(compiled_text(wasteful, state_of(point), parameters_of(point))) == 4
    assert largest_array(compiled_text(bulky, state_of(point))) == WIDTH * WIDTH * TEACHER


# ------------------------------------------------------------------------------------------ scalars


@pytest.mark.parametrize("text", ["3", "x**3 - x/2", "erf(x)", "asin(2*x/3)", "exp(-x**2)*cos(x)"])
def test_scalars_keep_shape_and_precision(text: str) -> None:
    x = sp.Symbol("x")
    expression = sp.sympify(text, locals={"x": x})
    points = np.linspace(-0.9, 0.9, 12).reshape(3, 4)
    found = np.asarray(jax.jit(lower_scalar(x, expression))(jnp.asarray(points)))
    expected = [float(sp.N(expression.subs(x, sp.Float(float(value), 30)), 30)) for value in points.ravel()]
    assert found.shape == (3, 4)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-13, atol=1e-15)


def test_powers_as_products_are_those_of_logarithms() -> None:
    """Of a symbol and of a sum, halves of whole numbers and other exponents, to both sides of where products end."""
    x, points = sp.Symbol("x", positive=True), np.array([0.3, 1.0, 2.7])
    exponents = [*(sp.Rational(n, 2) for n in (*range(-9, 10), 27, -31, 80, 81, -82)), sp.Rational(1, 3), sp.pi]
    found = compiled_numpy([x], [y for p in exponents for y in (x**p, (x + 1) ** p)])(points)
    for place, p in enumerate(exponents):
        np.testing.assert_allclose(found[2 * place] * np.ones(3), np.exp(float(p) * np.log(points)), rtol=1e-13)
        np.testing.assert_allclose(found[2 * place + 1] * np.ones(3), np.exp(float(p) * np.log1p(points)), rtol=1e-13)


def test_a_formula_without_its_letter_has_the_letters_shape() -> None:
    x, y = sp.symbols("x y")
    found = lower_numpy(2 * y, (x, y))(np.zeros((2, 3)), 0.75)
    assert found.tolist() == [[1.5] * 3] * 2


def test_an_unknown_symbol_is_refused(frame: Make) -> None:
    """A factor that is neither an index symbol, a kernel nor a number cannot be lowered."""
    system, point = overlap_flow(GENERAL), frame(2, 2, 5)
    component, sums = next(iter(system.drift.items()))
    odd = Sums([*sums, Term(sp.sin(component), ())])
    broken: LoweredSystem = lower(replace(system, drift={**system.drift, component: odd}))
    with pytest.raises(TypeError, match="cannot lower sin"):
        broken.drift(state_of(point), parameters_of(point))


def test_a_letter_that_stands_in_no_factor_counts_as_often_as_it_runs() -> None:
    r"""$\sum_k(W-w_k^2)^2$ over three starts: the term W² has no k."""
    starts, goal = np.array([0.2, 0.5, 0.9]), 1.3
    found = lower(Toy(2).system()).observable("loss", {"w": jnp.asarray(starts)}, {target.name: jnp.asarray(goal)})
    assert float(found) == pytest.approx(np.sum((goal - starts**2) ** 2), rel=1e-14)
