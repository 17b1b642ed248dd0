"""Population gradient flow up to the last emergence, against the matrix products that its right-hand side contains."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Row
from benchmarks.timing import best_of, once, repetitions
from dynamics.additive.gradient_flow import FlowResult, State, gradient_flow, lowered_overlap_flow, overlaps_of
from theory import Activation, InitialState, Student, Teacher, draw_initial_state, predict

NAME = "gradient-flow"
#: Time per evaluation of the right-hand side, solver included, over the time of its bare matrix products.
TARGET = 2.0
#: The run ends this much after the last predicted emergence.
MARGIN = 1.05
INIT_SCALE = 0.03


@jax.jit
def _products(square: jax.Array, wide: jax.Array, tall: jax.Array, count: int) -> tuple[jax.Array, ...]:
    """`count` times (m×m)(m×P), (m×m)(m×m) and (m×P)(P×m), each on the last round's outcome, so none can be skipped."""

    def body(i: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        moved = square @ carry[0]
        return moved, square @ carry[1], moved @ tall

    return jax.lax.fori_loop(0, count, body, (wide, square, square))


@partial(jax.jit, static_argnums=0)
def _drifts(activation: Activation, state: State, a: jax.Array, count: int) -> State:
    """`count` evaluations of the derived right-hand side, each at the state that a tiny Euler step leaves."""
    drift = lowered_overlap_flow(activation).drift

    def move(i: jax.Array, y: State) -> State:
        return jax.tree.map(lambda x, dx: x + 1e-12 * dx, y, drift(y, {"a": a}))

    return jax.lax.fori_loop(0, count, move, state)


def per_evaluation(
    activation: Activation, teacher: Teacher, initial: InitialState, seconds: float, repeats: int
) -> tuple[float, float]:
    """Seconds of (the three bare products, the right-hand side without a solver)."""
    m, width = initial.overlap.shape
    rng = np.random.default_rng(0)
    # An orthogonal matrix, because its powers neither grow nor vanish.
    square = jnp.asarray(np.linalg.qr(rng.standard_normal((m, m)))[0])
    wide, tall = jnp.asarray(rng.standard_normal((m, width))), jnp.asarray(rng.standard_normal((width, m)))
    products = partial(_products, square, wide, tall)
    drifts = partial(_drifts, activation, overlaps_of(initial), jnp.asarray(teacher.a))
    count, other = repetitions(products, seconds), repetitions(drifts, seconds)
    times = best_of({"products": lambda: products(count), "drift": lambda: drifts(other)}, repeats)
    return times["products"] / count, times["drift"] / other


def run(
    teacher_width: int = 32,
    width: int = 128,
    dim: int = 10**4,
    exponent: float = 1.0,
    seconds: float = 0.3,
    repeats: int = 9,
    flow_repeats: int = 2,
) -> list[Row]:
    """Rows of one problem (h4). The flow is compiled on a short stretch first; the best of `flow_repeats` counts."""
    activation = Activation.parse("h4")
    teacher = Teacher.power_law(teacher_width, exponent, dim)
    initial = draw_initial_state(teacher, Student(width, INIT_SCALE), 0)
    prediction = predict(activation, teacher, initial)
    end = MARGIN * prediction.last_time
    flow = partial(gradient_flow, activation, teacher, initial, rtol=1e-8, atol=1e-11)
    compile_seconds = once(lambda: flow(t_end=1e-6 * end, times=np.array([1e-6 * end])) and ())
    results: list[FlowResult] = []
    wall = best_of({"flow": lambda: results.append(flow(t_end=end))}, flow_repeats)["flow"]
    products, drift = per_evaluation(activation, teacher, initial, seconds, repeats)
    result, each = results[-1], wall / results[-1].evaluations
    # Only directions that the theory says are learned can be missed.
    missed = int(np.sum(prediction.learned & ~np.isfinite(result.loss_time)))
    title = f"P={teacher_width}, m={width}, h4, d={dim}, β={exponent:g}"
    return [
        Row(NAME, f"{title}, to time {end:.0f}", wall, "s"),
        Row(NAME, f"{title}, first call (derive, lower, compile)", compile_seconds, "s"),
        Row(NAME, "directions predicted but not recovered by then", missed, "directions", 0),
        Row(NAME, "solver steps", result.steps, "steps"),
        Row(NAME, "right-hand sides", result.evaluations, "evaluations"),
        Row(NAME, "time per evaluation, solver included", 1e6 * each, "µs"),
        Row(NAME, "right-hand side alone", 1e6 * drift, "µs"),
        Row(NAME, "its three bare matrix products", 1e6 * products, "µs"),
        Row(NAME, "time per evaluation / bare products", each / products, "", TARGET),
        Row(NAME, "right-hand side alone / bare products", drift / products, ""),
    ]
