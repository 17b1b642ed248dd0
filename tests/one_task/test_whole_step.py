"""Whole steps of a light student: their mean, their variance and the law of its emergence, against steps in R^d."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.additive.online_sgd import recovery_steps
from dynamics.core.lowering import lower_scalar
from theory import Activation, InitialState, Teacher, predict
from theory.core.hermite import z
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.whole_step import LightStep

H4 = Activation.parse("h4")


@pytest.mark.parametrize(
    ("text", "dim", "eta"), [("h3", 12, 6e-3), ("h4", 12, 2e-3), ("0.5*h2+h3", 12, 4e-3), ("h3", 3, 0.04)]
)
def test_moments_are_those_of_real_steps(text: str, dim: int, eta: float) -> None:
    """300 000 gradient steps from |v| = 1e-3, at a step at which the second order is far off; in R³ the rest of x counts."""
    activation, overlap, size, count = Activation.parse(text), 0.45, 1e-3, 300_000
    sigma = lower_scalar(z, activation.function)
    vector = size * np.eye(2, dim).T @ [overlap, np.sqrt(1 - overlap**2)]

    def loss(v: jax.Array, x: jax.Array) -> jax.Array:
        return 0.5 * (sigma(x[0]) - v @ v * sigma(v @ x / jnp.sqrt(v @ v))) ** 2

    with jax.enable_x64(True):
        samples = jnp.asarray(np.random.default_rng(1).standard_normal((count, dim)))
        after = vector - eta * np.asarray(jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(jnp.asarray(vector), samples))
    change = after[:, 0] / np.linalg.norm(after, axis=1) - overlap
    error = np.std(change) / np.sqrt(count)
    square, spread = np.var(change), np.std((change - change.mean()) ** 2) / np.sqrt(count)
    at = np.array([overlap])
    (mean,), (variance,) = LightStep(activation, 1.0, eta, 1.0, dim).coefficients(at)
    assert abs(eta * mean - change.mean()) < 4 * error
    assert abs(eta * variance - square) < 4 * spread
    (second,), (noise,) = OneTaskDiffusion(activation, 1.0, eta, 1.0, dim).coefficients(at)
    assert abs(eta * second - change.mean()) > 20 * error
    assert abs(eta * noise - square) > 20 * spread


def test_a_step_beyond_zero_turns_the_student_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """h1 in R³ at η = 0.6, by explicit vectors: v moves by η⟨e,x⟩{x + ⟨v,x⟩v}. With w 5 % larger the mean is 8 errors off."""
    eta, start = 0.6, np.array([0.45, np.sqrt(1 - 0.45**2), 0.0])
    for name, nodes in {"_NODES": 120, "_RADIAL": 12}.items():
        monkeypatch.setattr(f"theory.one_task.whole_step.{name}", nodes)
    (mean,), (variance,) = LightStep(Activation.parse("h1"), 1.0, eta, 1.0, 3).coefficients(start[:1])
    x = np.random.default_rng(1).standard_normal((300_000, 3))
    after = start + eta * x[:, :1] * (x + np.outer(x @ start, start))
    assert 0.02 < np.mean(after @ start < 0) < 0.5
    change = after[:, 0] / np.linalg.norm(after, axis=1) - start[0]
    spread = np.std((change - change.mean()) ** 2)
    assert abs(eta * mean - change.mean()) < 4 * np.std(change) / np.sqrt(len(x))
    assert abs(eta * variance - np.var(change)) < 4 * spread / np.sqrt(len(x))


@pytest.mark.parametrize("signs", [(1, -1), (1,)], ids=["around 0", "on one side"])
def test_between_places_moments_are_interpolated(signs: tuple[int, ...]) -> None:
    at = np.outer(signs, np.geomspace(1e-3, 0.7, 60)).ravel()
    whole = LightStep(Activation.parse("0.8*h4+0.6*h6"), 1.0, 8e-6, 1.5, 64)
    apart = np.array([whole.coefficients(x[None]) for x in at])[..., 0]
    for together, alone in zip(whole.coefficients(at), apart.T, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-7 * np.abs(alone).max())
    for several in (at[:2], at):  # of half the amplitude a quarter of the variance
        drift, noise = replace(whole, amplitude=0.5).coefficients(several)
        np.testing.assert_allclose(drift, whole.coefficients(several)[0], rtol=1e-12)
        np.testing.assert_allclose(noise, whole.coefficients(several)[1] / 4, rtol=1e-12)


def test_quadrature_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    for total in (1.0, 1.5):
        whole = LightStep(H4, 1.0, 9e-5, total, 64)
        at = np.array([0.05, 0.3, 0.6])
        before = whole.coefficients(at)
        for name, nodes in {"_NODES": 100, "_NODES_NOISY": 60, "_NODES_OTHERS": 16, "_RADIAL": 9}.items():
            monkeypatch.setattr(f"theory.one_task.whole_step.{name}", nodes)
        for first, second in zip(before, whole.coefficients(at), strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-3)
        monkeypatch.undo()


@pytest.mark.slow
@pytest.mark.parametrize(("text", "share", "off"), [("h4", 0.2, 1.25), ("0.8*h4+0.6*h6", 0.2, 1.25)])
def test_law_of_whole_steps_is_that_of_runs_where_the_second_order_fails(text: str, share: float, off: float) -> None:
    """Mean emergence time of 256 runs in 64 dimensions, to three per cent of its own (rare kicks are no diffusion)."""
    activation, overlap = Activation.parse(text), 0.35
    start = InitialState(0.01 * np.array([[overlap]]), 0.01 * np.array([[np.sqrt(1 - overlap**2)]]))
    found = predict(activation, Teacher.of([1.0], 64), start)
    eta = share * float(found.stability_bound()[0])
    law = found.sgd_law(0, eta)
    second = hitting_distribution(OneTaskDiffusion(activation, 1.0, eta, 1.0, 64), overlap).moments()
    steps = int(6 * law.mean / eta)
    runs = recovery_steps(activation, found.teacher, start, step_size=eta, steps=steps, directions=(0,), replicas=256)
    times = np.minimum(runs[:, 0], steps) * eta
    mean, error = times.mean(), times.std() / 16
    assert abs(law.mean - mean) < 0.03 * mean + 4 * error
    assert second.mean > off * (mean + 4 * error)
