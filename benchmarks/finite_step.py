"""The drift with all terms of second order in the step size, at a width at which neuron-by-neuron loops take a second."""

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.rates import flops_per_second
from benchmarks.row import Row
from benchmarks.timing import best_of, once, repetitions
from dynamics.additive.gradient_flow import State, overlaps_of
from dynamics.steps.finite_step import lowered_step, parameters_of
from theory import Activation, Student, Teacher, draw_initial_state, finite_step

NAME = "finite-step"
#: Milliseconds per evaluation on two cores.
TARGET = 8.0


@partial(jax.jit, static_argnums=0)
def _drifts(activation: Activation, state: State, parameters: State, count: int) -> State:
    """`count` evaluations of the derived drift, each at the state that a tiny Euler step leaves."""
    drift = lowered_step(finite_step(activation)).drift

    def move(i: jax.Array, y: State) -> State:
        return jax.tree.map(lambda x, dx: x + 1e-12 * dx, y, drift(y, parameters))

    return jax.lax.fori_loop(0, count, move, state)


def _operations(activation: Activation, state: State, parameters: State) -> float:
    """Floating-point operations of one evaluation, as the compiler counts them."""
    drift = lowered_step(finite_step(activation)).drift
    found = jax.jit(drift).lower(state, parameters).compile().cost_analysis()
    assert found is not None
    return float(found["flops"])


def run(width: int = 64, dim: int = 10**4, seconds: float = 0.3, repeats: int = 7) -> list[Row]:
    """Rows for h3 and h4 at m = P = `width`."""
    rows = []
    teacher = Teacher.power_law(width, 1.0, dim)
    start = draw_initial_state(teacher, Student(width, 0.1), 0)
    state, parameters = overlaps_of(start), parameters_of(teacher, 1e-3)
    rate = flops_per_second()
    for text in ("h3", "h4"):
        activation = Activation.parse(text)

        def drifts(count: int, activation: Activation = activation) -> State:
            return _drifts(activation, state, parameters, jnp.asarray(count))

        first, count = once(partial(drifts, 1)), repetitions(drifts, seconds)
        each = best_of({"drift": partial(drifts, count)}, repeats)["drift"] / count
        operations = _operations(activation, state, parameters)
        title = f"m=P={width}, {text}"
        rows += [
            Row(NAME, f"{title}, drift with all O(η²) terms", 1e3 * each, "ms", TARGET),
            Row(NAME, f"{title}, first call (derive, lower, compile)", first, "s"),
            Row(NAME, f"{title}, operations", 1e-6 * operations, "Mflop"),
            Row(NAME, f"{title}, share of this machine's matrix-product rate", operations / each / rate, ""),
        ]
    return rows
