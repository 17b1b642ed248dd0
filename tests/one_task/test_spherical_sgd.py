"""Spherical SGD: laws of one step, the chain of one number against explicit vectors, recovery against the law."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from dynamics.one_task.spherical_sgd import advance_overlaps, spherical_sgd
from dynamics.steps.committee import sgd_step
from theory import Activation, DerivationError, InputError
from theory.core.quadrature import chi_squared
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.plateau import d, u
from theory.one_task.spherical_step import spherical_step

H2, H3 = Activation.parse("h2"), Activation.parse("h3")


@pytest.mark.parametrize("name", ["h1", "h2", "h3", "0.8*h1+0.6*h2"])
def test_every_step_of_the_derivation_holds(name: str) -> None:
    assert spherical_step(Activation.parse(name)).derivation().verify() == 3


def test_a_wrong_law_is_noticed() -> None:
    right = spherical_step(H2)
    with pytest.raises(DerivationError, match="second order"):
        replace(right, shrinkage=right.shrinkage * sp.Rational(101, 100)).derivation().verify()


def test_second_order_is_the_limit_of_whole_steps() -> None:
    """For h1 everything is polynomial: K = u(1−u)(d + u…)…, and whole steps tend to it as η → 0."""
    at = np.array([0.1, 0.5])
    for activation in (Activation.parse("h1"), H2):
        step = spherical_step(activation)
        gaps = []
        for eta in (1e-5, 5e-6):
            whole, second = (step.diffusion(eta, 50, whole=x).coefficients(at) for x in (True, False))
            gaps.append([np.max(np.abs(a - b) / eta) for a, b in zip(whole, second, strict=True)])
        # Third order: gap/η is proportional to η.
        assert np.allclose(np.array(gaps[0]) / gaps[1], 2, rtol=0.1)


def test_whole_steps_keep_their_digits_when_tiny() -> None:
    """h4 at d = 10⁶: one step moves the overlap by 10⁻²³ on average, where rounding of u itself is 10⁻¹⁹."""
    dim = 10**6
    at, step = np.sqrt([8 / dim, 0.01]), spherical_step(Activation.parse("h4"))
    whole, second = (step.diffusion(0.02 / dim**2, dim, whole=x).coefficients(at) for x in (True, False))
    for first, other in zip(whole, second, strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-5)


def test_a_first_step_has_the_law_of_explicit_vectors() -> None:
    """In R¹², at a step so large that the sample's whole length counts; a rest that is 10 % longer is told from it."""
    dim, start, step_size, count = 12, 0.3, 3.0, 40_000
    runs = spherical_sgd(H2, dim, start, step_size=step_size, steps=1, replicas=count, level=0.99, seed=2)
    x = np.random.default_rng(3).normal(size=(count, dim))
    row = np.array([start, np.sqrt(1 - start**2), *np.zeros(dim - 2)])

    def moved(longer: float) -> np.ndarray:
        scaled = x * np.array([1.0, 1.0, *np.full(dim - 2, longer)])
        sigma, slope = (lambda z: (z**2 - 1) / np.sqrt(2)), (lambda z: np.sqrt(2) * z)
        z = scaled @ row
        after = row + (step_size * (sigma(scaled[:, 0]) - sigma(z)) * slope(z))[:, None] * (scaled - z[:, None] * row)
        return after[:, 0] / np.linalg.norm(after, axis=1)

    for power in (1, 2):
        found, right, wrong = (u**power for u in (runs.overlap, moved(1.0), moved(1.1**0.5)))
        error = np.hypot(found.std(), right.std()) / np.sqrt(count)
        assert abs(found.mean() - right.mean()) < 4 * error
        assert abs(found.mean() - wrong.mean()) > 4 * error or power == 1  # of the square, seven standard errors


def test_quadrature_of_whole_steps_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a step size beyond the critical one, where the expansion has long failed."""
    law = spherical_step(H3).diffusion(0.3 / 64**1.5, 64)
    at = np.array([0.05, 0.3, 0.6])
    before = law.coefficients(at)
    monkeypatch.setattr("theory.one_task.whole_step._NODES", 90)
    monkeypatch.setattr("theory.one_task.whole_step._RADIAL", 9)
    for first, second in zip(before, law.coefficients(at), strict=True):
        assert np.allclose(first, second, rtol=1e-2)
    nodes, weights = chi_squared(62, 9)
    assert weights @ nodes == pytest.approx(62, rel=1e-4)
    assert weights @ (nodes - 62) ** 2 == pytest.approx(124, rel=1e-2)


def test_one_step_has_the_law_of_explicit_vectors() -> None:
    """Mean and variance of the overlap after one step: 20 000 chains, 20 000 vectors of R^12, and the quadrature."""
    dim, start, eta, count = 12, 0.4, 0.08, 20_000
    rng, rates = np.random.default_rng(0), {"a": jnp.ones(1), "b": jnp.ones(1), "eta": jnp.asarray(eta)}
    vector = jnp.zeros((1, dim)).at[0, 0].set(start).at[0, 1].set(np.sqrt(1 - start**2))
    step = jax.jit(jax.vmap(lambda x: sgd_step(H2, "projected", rates, vector, x)[0, 0]))
    explicit = np.asarray(step(jnp.asarray(rng.standard_normal((count, dim)))))
    sample = np.stack([rng.standard_normal(count), rng.standard_normal(count), rng.chisquare(dim - 2, count)])
    chain = (jnp.full(count, start), jnp.full(count, jnp.inf), jnp.asarray(0.0))
    reduced = np.asarray(advance_overlaps(H2, jnp.asarray(eta), jnp.asarray(0.7), chain, jnp.asarray(sample[None]))[0])
    drift, variance = spherical_step(H2).diffusion(eta, dim).coefficients(np.array([start]))
    for one in (explicit, reduced):
        assert abs(one.mean() - start - eta * drift[0]) < 4 * one.std() / np.sqrt(count) + 1e-4
        tail = np.mean((one - one.mean()) ** 4) / one.var() ** 2
        assert one.var() == pytest.approx(eta * variance[0], rel=4 * np.sqrt((tail - 1) / count) + 1e-2)
    # The chain forgets |x_rest|²: seen in the mean.
    sample[2] = 0
    wrong = np.asarray(advance_overlaps(H2, jnp.asarray(eta), jnp.asarray(0.7), chain, jnp.asarray(sample[None]))[0])
    assert abs(wrong.mean() - start - eta * drift[0]) > 8 * wrong.std() / np.sqrt(count)


def test_recovery_times_follow_the_law_at_a_large_step_size() -> None:
    """h2 at d = 200 and half of the drift's critical step size: median and quartiles within their errors."""
    eta, start = 0.15 / 200, 200**-0.5
    law = hitting_distribution(spherical_step(H2).diffusion(eta, 200), start, 0.49, cells=150)
    runs = spherical_sgd(H2, 200, start, step_size=eta, steps=int(20 * law.quantile(0.5) / eta), replicas=128, seed=1)
    ranks = law.cdf(runs.hitting_steps * eta)
    assert abs(ranks.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 128)
    assert abs(np.mean(ranks < 0.25) - 0.25) < 4 * np.sqrt(0.1875 / 128)


def test_a_replica_does_not_depend_on_how_many_others_run() -> None:
    options = {"step_size": 0.002, "steps": 400, "seed": 4}
    few, many = (spherical_sgd(H3, 30, 0.4, replicas=n, **options) for n in (2, 5))
    assert few.overlap.tolist() == many.overlap[:2].tolist()
    other = spherical_sgd(H3, 30, 0.4, replicas=2, **{**options, "seed": 5})
    assert few.overlap.tolist() != other.overlap.tolist()


def test_neither_others_nor_the_end_of_the_run_change_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where random numbers are drawn in pieces, and how long these are depends on both."""
    monkeypatch.setattr("dynamics.one_task.spherical_sgd._HELD", 2**10)
    options = {"step_size": 0.002, "level": 0.99, "noise": 0.3, "seed": 4}
    one, many = (spherical_sgd(H3, 30, 0.4, steps=300, replicas=n, **options) for n in (1, 7))
    assert one.overlap[0] == many.overlap[0]
    hits = [spherical_sgd(H3, 30, 0.4, steps=n, replicas=8, **options | {"level": 0.45}) for n in (60, 700)]
    early = np.isfinite(hits[0].hitting_steps)
    assert early.any()
    assert np.array_equal(hits[0].hitting_steps[early], hits[1].hitting_steps[early])
    assert np.array_equal(hits[0].overlap[early], hits[1].overlap[early])  # stands where it arrived


def test_what_has_arrived_has_arrived_at_once() -> None:
    runs = spherical_sgd(H2, 30, -0.8, step_size=0.001, steps=5, replicas=2)  # even: either sign
    assert runs.hitting_steps.tolist() == [0.0, 0.0]
    assert runs.steps == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dim": 2}, "dim is 2"),
        ({"overlap": 1.5}, "overlap is 1.5"),
        ({"step_size": 0.0}, "step_size is 0.0"),
        ({"steps": 0}, "steps is 0"),
        ({"replicas": 0}, "replicas is 0"),
        ({"level": 1.0}, "level is 1.0"),
    ],
)
def test_bad_input_is_refused_in_one_line(change: dict, says: str) -> None:
    good = {"dim": 30, "overlap": 0.3, "step_size": 0.01, "steps": 5, "replicas": 2, "level": 0.7}
    options = {**good, **change}
    with pytest.raises(InputError, match=says):
        spherical_sgd(H3, options.pop("dim"), options.pop("overlap"), **options)


def test_only_polynomials_have_a_derived_step() -> None:
    with pytest.raises(InputError, match="no polynomial"):
        spherical_step(Activation.parse("relu"))
    assert spherical_step(Activation.parse("h1")).shrinkage.subs({u: 0, d: 9}) == 0
