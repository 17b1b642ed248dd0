"""Paths with their own clocks: law, order, reproducibility, Diffrax as reference on the same Brownian paths."""

from dataclasses import replace

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dynamics.core.keys import replica_keys
from dynamics.core.paths import Scheme, hitting_times, run_paths, start_paths
from dynamics.one_task.one_step_drift import critical_step, one_step_drift
from dynamics.one_task.sde import OneTaskPaths, one_task_paths
from theory import Activation, InputError, SingleTask, Teacher, plateau
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.third_order import third_order

H4 = Activation.parse("h4")
START = float(np.sqrt(6 / 64))
DIFFUSION = OneTaskDiffusion(H4, 1.0, 1 / 64**2, 1.0, 64)


def paths(diffusion: OneTaskDiffusion = DIFFUSION, **options: object) -> OneTaskPaths:
    """An ensemble from the overlap √(6/64)."""
    chosen = {"time": 6.0, "paths": 4000, "resolution": 0.05, "batch": 64} | options  # small batches compile once
    found = one_task_paths(diffusion, START, **chosen)  # type: ignore[arg-type]
    assert isinstance(found, OneTaskPaths)
    return found


def distance(times: np.ndarray, diffusion: OneTaskDiffusion, horizon: float = 6.0) -> float:
    """Kolmogorov distance from the law, up to the horizon."""
    found = np.sort(times[np.isfinite(times)])
    grid = np.linspace(0, horizon, 601)
    law = np.interp(found, grid, hitting_distribution(diffusion, START, cells=400).cdf(grid))
    rank = np.arange(found.size) / times.size
    return float(np.max(np.maximum(law - rank, rank + 1 / times.size - law)))


@pytest.mark.slow_for("0")
@pytest.mark.parametrize("seed", [0, 1])
def test_recovery_times_have_the_law(seed: int) -> None:
    """Kolmogorov's test at 1e-4; a wrong noise, or no shrinkage, fails it."""
    times = paths(seed=seed, resolution=0.02).times
    limit = stats.kstwobign.isf(1e-4) / np.sqrt(times.size)
    assert distance(times, DIFFUSION) < limit
    laws = plateau(H4)
    louder = replace(DIFFUSION, constants=replace(laws, variance_law=1.5 * laws.variance_law))
    assert distance(times, louder) > limit
    assert distance(times, replace(DIFFUSION, with_shrinkage=False)) > limit


def test_a_path_does_not_depend_on_the_others_or_on_batches() -> None:
    many, few, cut = paths(paths=200), paths(paths=70), paths(paths=200, batch=256)
    np.testing.assert_allclose(many.times[:70], few.times, rtol=1e-12)
    np.testing.assert_allclose(many.times, cut.times, rtol=1e-12)
    assert np.array_equal(many.steps, cut.steps)
    assert not np.array_equal(many.times, paths(paths=200, seed=1).times)


def test_several_problems_run_together() -> None:
    other = replace(DIFFUSION, step_size=2 / 64**2)
    together = one_task_paths([DIFFUSION, other], START, time=6.0, paths=100)
    assert isinstance(together, list)
    np.testing.assert_allclose(together[1].times, paths(other, paths=100).times, rtol=1e-12)


def test_without_noise_it_is_the_deterministic_time() -> None:
    """The averaged drift is of second order: a quarter of the error at half the step."""
    still = replace(DIFFUSION, with_noise=False, with_shrinkage=False)
    exact = SingleTask(H4).half_time(1.0, START)
    errors = [float(paths(still, paths=1, resolution=x).times[0]) - exact for x in (0.04, 0.02)]
    assert abs(errors[1]) < 2e-3 * exact
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


def test_steps_are_long_on_the_plateau_and_their_number_hardly_depends_on_d() -> None:
    counts = []
    for dim in (10**3, 10**6):
        diffusion = OneTaskDiffusion(H4, 1.0, 0.05 / dim**2, 1.0, dim)
        start = np.sqrt(6 / dim)
        found = one_task_paths(diffusion, start, time=10 * SingleTask(H4).half_time(1.0, start), paths=64)
        assert isinstance(found, OneTaskPaths)
        counts.append(found.steps.mean())
    assert counts[1] < 3 * counts[0]


#: dy = dt + dW, one event at y = 1.
BROWNIAN = Scheme(
    lambda y, x: jnp.ones_like(y), lambda y, x, w: w, lambda y, x: x["step"], lambda y, x: 1 - y,
    lambda y, x: jnp.ones_like(y), 1,
)  # fmt: skip


@pytest.mark.parametrize("step", [0.05, 0.5])
def test_hitting_times_are_exact_for_constant_coefficients(step: float) -> None:
    """Inverse Gaussian, however long the steps are; without the bridge, long steps fail."""
    count = 4000
    steps = {"step": jnp.full(count, step)}
    start = start_paths(BROWNIAN, np.zeros((count, 1)), steps)
    found = run_paths(BROWNIAN, start, steps, replica_keys(3, count, "test"), 60.0, batch=64)
    times = hitting_times(found, np.random.default_rng(3))[:, 0]
    exact = stats.invgauss(mu=1.0, scale=1.0)
    assert stats.kstest(times, exact.cdf).pvalue > 1e-4
    ends = np.asarray(found.crossed)[:, 0, :2].sum(axis=1)
    if step == 0.5:
        assert stats.kstest(ends, exact.cdf).pvalue < 1e-6


def test_a_path_that_starts_beyond_its_event_takes_no_step() -> None:
    steps = {"step": jnp.full(2, 0.5)}
    start = start_paths(BROWNIAN, np.array([[1.5], [0.0]]), steps)
    found = run_paths(BROWNIAN, start, steps, replica_keys(3, 2, "test"), 60.0, batch=2)
    assert np.asarray(found.steps).tolist()[0] == 0
    assert np.asarray(found.steps).tolist()[1] > 0
    assert hitting_times(found, np.random.default_rng(3))[0, 0] == 0


def test_paths_that_are_gathered_when_others_have_ended_go_on_as_they_were() -> None:
    """Forty of them with ends and steps of their own, in batches that shrink to four, or in one that does not."""
    count, told = 40, []
    steps = {"step": jnp.linspace(0.001, 0.3, count)}
    start = start_paths(BROWNIAN, np.linspace(-3, 0.9, count)[:, None], steps)
    given = BROWNIAN, start, steps, replica_keys(3, count, "test"), np.linspace(20, 0.1, count)
    whole, shrunk = (run_paths(*given, batch=64, least=least, progress=lambda *x: told.append(x)) for least in (64, 4))
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(shrunk), strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.asarray(whole.steps).max() > 2000  # (gathered after rounds of steps)
    assert told[-1][1].startswith("SDE: 0 paths under way, step ")


@pytest.mark.slow
def test_strong_order_against_diffrax_on_the_same_brownian_paths() -> None:
    """Diffrax's ItoMilstein on a fine grid of a VirtualBrownianTree; our step on coarser grids of the same paths."""
    from dynamics.one_task.sde import scheme_of

    diffusion = replace(DIFFUSION, step_size=0.02)  # loud, so that the noise term's error is seen
    scheme = scheme_of(diffusion.expressions, True, False)
    numbers = dict(zip(("eta", "a", "A", "d", "b"), diffusion.numbers, strict=True))
    end, y0 = 0.1, jnp.array([0.3])

    def tree(key: jax.Array) -> dfx.VirtualBrownianTree:
        return dfx.VirtualBrownianTree(0.0, end, 1e-5, (1,), key)

    def fine(key: jax.Array) -> jax.Array:
        terms = dfx.MultiTerm(
            dfx.ODETerm(lambda t, y, x: scheme.drift(y, x)),
            dfx.ControlTerm(lambda t, y, x: jnp.diag(scheme.noise(y, x, jnp.ones(1))), tree(key)),
        )
        solution = dfx.diffeqsolve(terms, dfx.ItoMilstein(), 0.0, end, end / 1024, y0, args=numbers, max_steps=2000)
        return solution.ys[-1]

    def coarse(key: jax.Array, count: jax.Array) -> jax.Array:
        path, dt = tree(key), end / count

        def step(i: jax.Array, y: jax.Array) -> jax.Array:
            kick = scheme.noise(y, numbers, path.evaluate(i * dt, (i + 1) * dt))
            slope = scheme.drift(y, numbers)
            return y + 0.5 * (slope + scheme.drift(y + slope * dt + kick, numbers)) * dt + kick

        return jax.lax.fori_loop(0, count, step, y0)

    keys = jax.random.split(jax.random.key(0), 64)
    exact = np.asarray(jax.jit(jax.vmap(fine))(keys))
    ours = jax.jit(jax.vmap(coarse, in_axes=(0, None)))
    errors = [np.sqrt(np.mean((np.asarray(ours(keys, jnp.asarray(n))) - exact) ** 2)) for n in (16, 256)]
    assert errors[1] < 0.05 * np.std(exact)
    assert 3 < errors[0] / errors[1] < 18  # strong order ½: √16 = 4; order 1: 16


def test_mean_of_one_real_step() -> None:
    """Quadrature of the real step: the derived drift for small η, third order next, sampling at the same point."""
    teacher, overlap, dim = Teacher.of([0.8, 0.6], 64), 0.3, 64
    laws = plateau(H4)
    shrinkage = float(laws.laws(0.8, 1.0, dim)[0](overlap))
    signal = laws.critical_step(0.8, overlap, 1.0, dim) * shrinkage
    eta = 1e-6
    second = (one_step_drift(H4, teacher, 0, overlap, eta) - signal) / eta
    assert second == pytest.approx(-shrinkage, rel=2e-2)
    third = (second + shrinkage) / eta
    assert third == pytest.approx(third_order(H4, 0.8, 0.6, overlap, dim), rel=0.05)
    found = critical_step(H4, Teacher.of([0.8, 0.6], 1024), 0, 1 / 32, 1.4e-6, order=40)
    assert found == pytest.approx(laws.critical_step(0.8, 1 / 32, 1.0, 1024), rel=0.01)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"time": -1.0}, "time"), ({"paths": 0}, "paths"), ({"resolution": 0.0}, "resolution"), ({"level": 2.0}, "level")],
)
def test_bad_numbers(options: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        paths(**options)


def test_problems_of_different_activations_do_not_mix() -> None:
    with pytest.raises(InputError, match="diffusions"):
        one_task_paths([DIFFUSION, replace(DIFFUSION, activation=Activation.parse("h3"))], START, time=1.0, paths=2)
