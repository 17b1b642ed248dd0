"""A block of exact-in-law SGD beside its steps in coordinates: of what is known, and of its own samples outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.core.keys import replica_keys
from dynamics.core.outside import NO_MISTAKES
from dynamics.declared.chain import draw, outside, run_block, summary
from dynamics.declared.engine import Ambient, Exact, engine_of
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

H3, P, m, SECOND, STEP = Activation.parse("h3"), 2, 3, 0.5, 1e-3


def steps(
    rule: Momentum, on_sphere: bool, rows: np.ndarray, samples: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The rows and their velocities after batches of samples (steps, b, D), by the rule as it is written."""
    sigma, slope = H3.arrays(), H3.arrays(1)
    velocity = np.zeros_like(rows)
    for x, y in zip(samples, labels, strict=True):
        fields = rows @ x.T
        delta = (SECOND * sigma(fields).sum(axis=0) - y) / len(y)
        gradient = (SECOND * delta * slope(fields)) @ x
        velocity = rule.beta * velocity - gradient
        along = rule.beta * velocity - gradient if rule.kind == "nesterov" else velocity
        rows = (1 - STEP * rule.decay) * rows + STEP * along
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) if on_sphere else rows
    return rows, velocity


@pytest.mark.slow_for("parts of batches", "parts")
@pytest.mark.parametrize(
    ("rule", "rows", "block"),
    [
        (Rule(STEP), "free", 12),
        pytest.param(Momentum(STEP, beta=0.9), "free", 7, marks=pytest.mark.slow),
        (Momentum(STEP, beta=0.9), "free", 12),
        (Momentum(STEP, beta=0.2, kind="nesterov", batch=2, decay=0.3), "sphere", 6),
        (Momentum(STEP, beta=0.9, batch=12), "sphere", 1),
    ],
    ids=["plain", "one part", "parts", "parts of batches", "one step"],
)
def test_a_block_is_its_steps_in_coordinates(rule: Any, rows: str, block: int) -> None:
    directions = Directions.orthonormal(Inputs.isotropic(400), P)
    model = DeclaredModel(directions, Additive(H3, (1.0, 0.6)), committee(H3, m, SECOND, rows=rows), rule)
    engine = engine_of(model, draw_start(directions, m, 1.0, seed=4), "exact", block)
    assert isinstance(engine, Exact)
    shape, space, chain, key = engine.shape, engine.space, engine.start, replica_keys(5, 1, "block")[0]
    known_key, outside_key = jax.random.split(key)
    drawn = draw(shape, space, chain.plain.shape[0], known_key, outside_key)
    x = np.concatenate([np.asarray(drawn.known)[:, 0], np.asarray(outside(shape, space, outside_key))[0]], axis=1)
    begin = np.concatenate([np.asarray(chain.on)[0, :m], np.asarray(chain.off)[0, :m], np.zeros((m, len(x)))], axis=1)
    written = Momentum(STEP, beta=0.0) if type(rule) is Rule else rule
    samples, labels = x.reshape(block, rule.batch, -1), np.asarray(drawn.labels).reshape(block, rule.batch)
    expected, velocity = steps(written, rows == "sphere", begin, samples, labels)
    assert np.abs(expected - begin).max() > 1e-3
    moved = jax.jit(partial(run_block, shape))(space, jnp.full(block, STEP), chain, key, jnp.asarray(0))
    np.testing.assert_allclose(moved.on[0, m:], velocity[: shape.kinds * m - m, :P], rtol=0, atol=1e-10)
    if block == 1:  # what lies outside of all that is known is drawn by another road
        return
    overlap, norm2 = summary(shape, space, moved)
    np.testing.assert_allclose(overlap, expected[:, :P], rtol=0, atol=1e-12)
    np.testing.assert_allclose(norm2, np.sum(expected**2, axis=1), rtol=1e-12)


@contextmanager
def lowered() -> Iterator[list[str]]:
    """What JAX makes into programs meanwhile."""
    found: list[str] = []

    def note(event: str, seconds: float, **about: Any) -> None:
        if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            found.append(str(about.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_what_is_looked_at_is_that_of_each_eigenspace() -> None:
    """Several small ones, which are kept in coordinates, between large ones, which are reduced."""
    directions = Directions.random(Inputs.blocks((2.0, 40), (1.5, 2), (1.2, 60), (0.9, 3), (0.5, 4)), P, 1.0, seed=3)
    model = DeclaredModel(directions, Additive(H3, (1.0, 0.6)), committee(H3, m, SECOND), Rule(STEP))
    start = draw_start(directions, m, 1.0, seed=6)
    exact = engine_of(model, start, "exact", 4)
    assert isinstance(exact, Exact)
    assert len(exact.reduced) == 2
    for engine in (exact, Ambient(model, start, NO_MISTAKES)):
        vectors = engine.begin(replica_keys(1, 2, "look")).vectors
        with lowered() as programs:
            overlap, gram, _ = engine.look(vectors)
        assert len(programs) == 1  # (not one for each operation and eigenspace)
        np.testing.assert_allclose(overlap, np.broadcast_to(start.overlaps(directions), overlap.shape), atol=1e-14)
        np.testing.assert_allclose(gram, np.broadcast_to(start.grams, gram.shape), atol=1e-14)
