"""SGD on a fixed data set: coefficients follow the vectors that they stand for, pass after pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.core.keys import replica_keys
from dynamics.core.replicas import Stretch
from dynamics.declared import simulate
from dynamics.declared.engine import engine_of
from dynamics.declared.rows import Rows
from dynamics.declared.simulate import declared_sgd
from dynamics.declared.step import take
from theory import Activation
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Adam, Momentum, Muon, Rule
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

#: 12 samples in an eigenspace of 500 dimensions and one of 3.
DIRECTIONS = Directions.random(Inputs.blocks((1.5, 500), (4.0, 3)), 2, 1.0, 1)
PASSES = 4


def model(rule: Rule) -> DeclaredModel:
    erf = Activation.parse("erf")
    return DeclaredModel(
        DIRECTIONS, Additive(erf, (1.0, -0.6)), committee(erf, 3, (1.0, 0.5, -0.7), trained=True), rule
    )


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(Rule(0.05, samples=12), marks=pytest.mark.slow),
        pytest.param(Momentum(0.05, 3, samples=12), marks=pytest.mark.slow),
        Muon(0.02, 4, samples=12, beta=0.5),
    ],
)
def test_coefficients_follow_explicit_vectors(rule: Rule) -> None:
    """Some passes on the data set that was drawn, here with vectors in its own coordinates: to 1e-12.

    (Muon divides by singular values: every six steps make what rounding moves ten times as large, a changed last digit of the
    start as much as the coefficients.)
    """
    steps = PASSES * 12 // rule.batch
    given, keys = model(rule), replica_keys(0, 1, "data set")
    engine = engine_of(given, draw_start(DIRECTIONS, 3, 1.0, 3), "exact", 1)
    begun = engine.begin(keys)
    fit = jax.tree.map(lambda x: x[0], begun.vectors)
    ended = engine.advance(keys)(begun, Stretch(0, steps))
    overlap, _, second, loss = (np.asarray(x)[0] for x in engine.look(ended.vectors))

    start, known = engine.start, fit.drawn.known[:, 0]
    samples = jnp.concatenate([known, fit.beyond[0], fit.drawn.plain], axis=1)
    outside = jnp.zeros((len(start.plain), 12))
    kinds = jnp.concatenate([start.on[0], start.off[0], outside, start.plain], axis=1).reshape(
        engine.shape.kinds, 3, -1
    )
    b, parts = start.second, engine.shape.parts
    for step in range(steps):
        at = (step * rule.batch + np.arange(rule.batch)) % 12
        batch = samples[at]
        buffers = {name: Rows(kinds[i + 1], batch) for i, name in enumerate(rule.buffers)}
        moved = take(
            parts,
            Rows(kinds[0], batch),
            b,
            buffers,
            fit.drawn.labels[at],
            jnp.asarray(step),
            jnp.asarray(rule.step_size),
        )
        kinds = jnp.stack([moved.rows.array, *(moved.buffers[name].array for name in rule.buffers)])
        b = moved.second
    expected = kinds[0][:, :2] @ engine.space.directions[0].T
    np.testing.assert_allclose(overlap[1], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(second, b, rtol=0, atol=1e-12)
    fields = jax.scipy.special.erf(kinds[0] @ samples.T)
    np.testing.assert_allclose(loss, 0.5 * jnp.mean((b @ fields - fit.drawn.labels) ** 2), rtol=0, atol=1e-12)
    assert np.abs(np.asarray(kinds[0])[:, :2] - np.asarray(start.on[0, :3])).max() > 0.01


def test_a_small_data_set_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far fewer samples than dimensions: the mean loss over them falls to nothing, whatever the target is outside them.

    Of a replica whose rows are longer than allowed nothing is told, its samples' loss neither.
    """
    rule, start = Rule(0.01, 12, samples=12, noise=0.5), draw_start(DIRECTIONS, 3, 1.0, 3)

    def fitted() -> np.ndarray:
        return np.asarray(declared_sgd(model(rule), start, steps=3000, replicas=2, saves=3).dataset["train_loss"])

    found = fitted()
    assert np.all(found[:, -1] < 1e-3 * found[:, 0])
    assert np.all(np.diff(found, axis=1) < 0)
    monkeypatch.setattr(simulate, "BLOW_UP", 1e-3)
    assert np.isnan(fitted()).all()


def test_adam_in_vectors_is_that_of_a_gradient_by_hand() -> None:
    """Four steps on all of a data set, of ½(f − f*)² with σ = h₂: both averages are kept from step to step."""
    rng, directions, h2 = (
        np.random.default_rng(0),
        Directions.orthonormal(Inputs.isotropic(4), 1),
        Activation.parse("h2"),
    )
    x, second, size, beta, beta2 = rng.standard_normal((6, 4)), np.array([1.0, -0.5]), 0.05, 0.6, 0.8
    rule = Adam(size, 6, samples=6, beta=beta, beta2=beta2)
    given = DeclaredModel(directions, Additive(h2, (1.0,)), committee(h2, 2, (1.0, -0.5)), rule)
    engine = engine_of(given, draw_start(directions, 2, 1.0, 3), "ambient", 1, data=x)
    keys = replica_keys(0, 1, "data set")
    begun = engine.begin(keys)
    rows = np.asarray(begun.vectors.rows)[0, 0]
    labels = ((x @ np.asarray(engine.space.directions)[0]) ** 2 - 1) / 2**0.5
    mean = square = np.zeros_like(rows)
    ended = engine.advance(keys)(begun, Stretch(0, 4, blocks=4))
    for step in range(1, 5):
        fields = x @ rows.T
        delta = ((fields**2 - 1) / 2**0.5) @ second - labels
        slope = second[:, None] * ((delta[:, None] * 2**0.5 * fields).T @ x) / 6
        mean, square = beta * mean + (1 - beta) * slope, beta2 * square + (1 - beta2) * slope**2
        rows = rows - size * (mean / (1 - beta**step)) / (np.sqrt(square / (1 - beta2**step)) + 1e-8)
    np.testing.assert_allclose(np.asarray(ended.vectors.rows)[0, 0], rows, rtol=1e-5)
