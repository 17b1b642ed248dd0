r"""One step of a declared model, on any vectors: the gradient from fields and norms, the rule, the rule for rows.

With $\delta=\partial_f\ell$ the gradient of $\tfrac1b\sum_s\ell(f(x_s),y_s)$ by row k is
$\tfrac1b\sum_s\delta_sb_k(2F_\rho v_k+F_hx_s)$, derived in `theory.steps.neuron`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import sympy as sp

from dynamics.core.lowering import lower_scalar
from theory import Activation
from theory.core.hermite import z
from theory.declared.loss import Loss
from theory.declared.rule import Gradient, Here, Moved, Rule
from theory.declared.student import Student
from theory.steps import neuron as names


@lru_cache(maxsize=32)
def neuron_of(activation: Activation, homogeneous: bool) -> Any:
    """(ρ, h) → F, 2F_ρ and F_h, lowered from the derived neuron."""
    model = names.two_homogeneous() if homogeneous else names.row()
    sigma = lower_scalar(z, activation.function)
    slope = lower_scalar(z, sp.diff(activation.function, z))
    given = (names.r, names.z, names.value, names.slope)
    compiled = sp.lambdify(given, [model.output, model.along_self, model.along_input], modules="jax", cse=True)

    def evaluate(rho: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        fields = h / jnp.sqrt(rho) if homogeneous else h
        return compiled(rho, fields, sigma(fields), slope(fields))

    return evaluate


class Parts(NamedTuple):
    """What decides a step: hashable, so that one compilation serves many runs."""

    student: Student
    loss: Loss
    rule: Rule


def gradient(parts: Parts, labels: jax.Array, rows: Any, second: jax.Array) -> Gradient:
    """Of the batch's mean loss, at `rows` (vectors) and `second` (m,)."""
    student = parts.student
    output, along_self, along_input = _neurons(parts, rows)
    slope = jax.vmap(jax.grad(parts.loss.value))
    # A 2-homogeneous student's second layer is in its norms.
    weight = 1.0 if student.homogeneous else second[:, None]
    delta = slope(jnp.sum(weight * output, axis=0), labels) / labels.size
    found = rows.combination(weight * (delta * along_input))
    if student.homogeneous:
        found = found + _measured(student, rows) * jnp.sum(delta * along_self, axis=1)
    return Gradient(student.tangent(found, rows), output @ delta if student.trained else jnp.zeros_like(second))


def _neurons(parts: Parts, rows: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """F, 2F_ρ and F_h of all rows on all samples, (m, b)."""
    student = parts.student
    found: tuple[jax.Array, jax.Array, jax.Array] = neuron_of(student.activation, student.homogeneous)(
        rows.dot(_measured(student, rows))[:, None], rows.fields()
    )
    return found


def _measured(student: Student, rows: Any) -> Any:
    """Half the gradient of ρ: v, or Λv."""
    return rows.weighted() if student.whitened else rows


def mean_loss(parts: Parts, rows: Any, second: jax.Array, labels: jax.Array) -> jax.Array:
    """Of all b samples that the rows know, with labels (b,) and the second layer (m,): a scalar."""
    output, _, _ = _neurons(parts, rows)
    return jnp.mean(parts.loss.value(jnp.sum(second[:, None] * output, axis=0), labels))


def draw_signs(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Fair ±1, in an array of this shape."""
    return jnp.where(jax.random.bits(key, shape, jnp.uint8) & 1, 1.0, -1.0)


def noisy(rule: Rule, labels: jax.Array, key: jax.Array, steps: jax.Array | int = 0) -> jax.Array:
    """The labels, of any shape, with the rule's noise of these steps (broadcast): independent for each."""
    if not rule.noise:
        return labels
    size = rule.noise_at(steps)
    if rule.noise_law == "flips":
        return jnp.where(jax.random.uniform(key, labels.shape) < size, -labels, labels)
    draw = draw_signs if rule.noise_law == "signs" else jax.random.normal
    return labels + size * draw(key, labels.shape)


def places(rule: Rule, key: jax.Array, step: jax.Array) -> jax.Array:
    """Which samples of a data set a step uses, (b,); with replacement, of many steps (n,), too: (n, b)."""
    if rule.order == "replacement":
        # floor(n·u) with u of 32 bits: the share of a sample is off by at most 2⁻³² n of itself.
        bits = jax.random.bits(key, (*jnp.shape(step), rule.batch), jnp.uint32).astype(jnp.uint64)
        return (bits * rule.samples) >> 32
    if rule.order == "cyclic" or rule.batch == rule.samples:
        return (step * rule.batch + jnp.arange(rule.batch)) % rule.samples
    return jax.random.choice(key, rule.samples, (rule.batch,), replace=False)


def step_sizes(parts: Parts, given: jax.Array, steps: jax.Array) -> jax.Array:
    """η of these steps (n,): of the schedule, or `given` throughout."""
    schedule = parts.rule.step_size
    return jnp.broadcast_to(schedule(steps) if callable(schedule) else given, steps.shape)


def take(
    parts: Parts,
    rows: Any,
    second: jax.Array,
    buffers: Mapping[str, Any],
    labels: jax.Array,
    step: jax.Array,
    step_size: jax.Array,
    unit: bool = True,
) -> Moved:
    """The step, with second layer (m,) and labels (b,). A student on a sphere is put back on it, unless not `unit`.

    Buffers that the rule does not return stay.
    """
    return follow(parts, Here(rows, second, buffers, step, step_size, lambda v, b: gradient(parts, labels, v, b)), unit)


def follow(parts: Parts, at: Here, unit: bool = True) -> Moved:
    """`take`, whatever the gradient is."""
    moved = parts.rule.step(at)
    new = moved.rows / moved.rows.norms() if unit and parts.student.rows != "free" else moved.rows
    return Moved(new, moved.second if parts.student.trained else at.second, {**at.buffers, **moved.buffers})


# ------------------------------------------------------------------------------- replicas


class Run(NamedTuple):
    """All replicas: their vectors, and what a watch has seen of each."""

    vectors: Any
    seen: Any


#: Called with what it has seen of a replica, overlaps with the directions (m, P), squared norms (m,) and the step's number.
Watch = Callable[..., Any]


def nothing(seen: Any, *_: Any) -> Any:
    """The watch that sees nothing."""
    return seen
