"""SDE ensembles of all overlaps: moments of a step, one task, Diffrax as strong reference, reproducibility, bad input."""

import io
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynamics.additive.gradient_flow import overlaps_of
from dynamics.core.paths import start_paths
from dynamics.steps.finite_step import parameters_of
from dynamics.steps.overlap_diffusion import OverlapDiffusion
from dynamics.steps.sde import SdeResult, overlap_scheme, refuse_negative, sde_ensemble
from emergence.cells import compute, configuration
from emergence.models.additive import MODEL
from emergence.models.additive import AdditiveProblem as Problem
from theory import Activation, InputError, SingleTask, System, Teacher, finite_step
from theory.core.indexed import Sums, Term
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.rare_samples import kick_kurtosis
from validation.experiments.one_step import sampled_expansion
from validation.experiments.states import single_overlap_state

H3 = Activation.parse("h3")
DIM, OVERLAP = 256, float(np.sqrt(8 / 256))
STEP = 0.5 / DIM**1.5
HORIZON = 3 * SingleTask(H3).half_time(1.0, OVERLAP)


@lru_cache(maxsize=1)
def system() -> System:
    return finite_step(H3, 1, fluctuations=True)  # as `sde_ensemble` asks for it: one object, compiled once


def ensemble(**options: object) -> SdeResult:
    """One light student and one direction; every call has the same shapes."""
    chosen = {"step_size": STEP, "time": HORIZON, "paths": 256, "saves": 1, "seed": 3, "system": system()} | options
    return sde_ensemble(H3, Teacher.of([1.0], DIM), single_overlap_state(OVERLAP, 1e-4), **chosen)  # type: ignore[arg-type]


def numbers(step_size: float = STEP, weights: tuple[float, ...] = (1.0,), dim: int = DIM) -> dict[str, jax.Array]:
    teacher = Teacher.of(list(weights), dim, normalise=False)
    return {**parameters_of(teacher, step_size), "eta_drift": jnp.asarray(step_size)}


def test_noise_alone_leaves_the_mean_of_every_squared_norm() -> None:
    """E exp(x + noise) of what is followed as ln r; overlaps have none to make up for."""
    diffusion, root = OverlapDiffusion(system(), 3, 2), np.random.default_rng(0).standard_normal((12, 12))
    covariance = root @ root.T
    drift = np.asarray(diffusion.ito(jnp.asarray(covariance)))
    assert diffusion.size == 12  # t (3, 2), c (3), ln r (3)
    np.testing.assert_allclose(np.exp(drift + np.diag(covariance) / 2)[9:], 1.0)
    np.testing.assert_array_equal(drift[:9], 0.0)


# -------------------------------------------------------------------------- one task


@pytest.mark.slow
def test_one_light_student_has_the_one_task_law() -> None:
    """Mean and spread of min(T, H) by the backward equation; without the second order they are off by more."""
    found = np.minimum(ensemble().half_time[:, 0], HORIZON)
    diffusion = OneTaskDiffusion(H3, 1.0, STEP, 1.0, DIM)
    grid = np.linspace(0, HORIZON, 201)
    later = 1 - hitting_distribution(diffusion, OVERLAP, cells=400).cdf(grid)
    mean = np.trapezoid(later, grid)
    spread = np.sqrt(2 * np.trapezoid(grid * later, grid) - mean**2)
    error = found.std() / 16
    assert abs(found.mean() - mean) < 4 * error
    assert abs(found.std() - spread) < 4 * error
    plain = np.minimum(ensemble(second_order=False).half_time[:, 0], HORIZON)
    assert plain.mean() < mean - 4 * error


@pytest.mark.slow
def test_without_noise_every_path_is_the_mean_path() -> None:
    from dynamics import finite_step_flow

    still = ensemble(fluctuations=False, resolution=0.02)
    assert np.ptp(still.half_time) < 1e-9
    flow = finite_step_flow(
        H3, Teacher.of([1.0], DIM), single_overlap_state(OVERLAP, 1e-4), step_size=STEP, steps=round(HORIZON / STEP),
        saves=400,
    )  # fmt: skip
    assert still.half_time[0, 0] == pytest.approx(flow.half_time[0], rel=3e-3)


@pytest.mark.slow
def test_a_seed_gives_the_same_paths_whatever_their_number() -> None:
    few, many = ensemble(paths=200), ensemble(paths=256)
    np.testing.assert_allclose(few.half_time, many.half_time[:200], rtol=1e-12)
    np.testing.assert_allclose(few.end, many.end[:200], rtol=1e-9)
    assert not np.array_equal(many.half_time, ensemble(seed=4).half_time)


@pytest.mark.slow
def test_the_file_has_the_layout_of_sgd() -> None:
    data = ensemble().dataset
    assert data.overlap.dims == ("replica", "time", "neuron", "direction")
    assert data.loss.dims == ("replica", "time")
    assert data.loss.values[:, 0] == pytest.approx(0.5, abs=1e-6)
    assert data.time.attrs["units"].startswith("gradient-flow time")
    assert int(data.step[-1]) == round(HORIZON / STEP)


# ------------------------------------------------------------------- several overlaps


def test_drift_and_covariance_are_the_moments_of_a_real_step(frame) -> None:
    """Against sampled steps in coordinates, to first and second order in η: z-scores of every entry."""
    state, eta = frame(2, 2, 12, seed=1), 1e-3
    diffusion, x = OverlapDiffusion(system(), 2, 2), numbers(eta, tuple(state.weights), 12)
    y = diffusion.row(overlaps_of(state.initial))
    drift = jax.jit(diffusion.drift)
    plain = np.asarray(drift(y, {**x, "eta_drift": jnp.asarray(0.0)}))
    bends, products = sampled_expansion(H3, state.teacher, state.vectors, np.random.default_rng(0), 2)
    scale = np.concatenate([np.ones(5), state.norm2])  # the samples' r is the rows' log r
    second = (np.asarray(drift(y, x)) - plain) / eta
    assert np.all(np.abs(second - bends.mean / scale) < 5 * bends.stderr / scale)
    upper = np.triu_indices(7)
    both = np.outer(scale, scale)[upper]
    moments = (np.asarray(jax.jit(diffusion.covariance)(y, x)) / eta + np.outer(plain, plain))[upper]
    assert np.all(np.abs(moments - products.mean / both) < 5 * products.stderr / both)
    louder = 2 * moments
    assert np.max(np.abs(louder - products.mean / both) / (products.stderr / both)) > 10


def test_the_root_is_symmetric_and_its_square_the_covariance(frame) -> None:
    state = frame(1, 1, 12)
    diffusion, x = OverlapDiffusion(system(), 1, 1), numbers(1e-3, tuple(state.weights), 12)
    y = diffusion.row(overlaps_of(state.initial))
    covariance = jax.jit(diffusion.covariance)(y, x)
    root, least = diffusion.root(covariance, diffusion.largest_terms(y, x))
    np.testing.assert_allclose(root @ root, covariance, atol=1e-12 * float(jnp.max(covariance)))
    np.testing.assert_allclose(root, root.T, atol=1e-14)
    assert float(least) > 0
    assert float(jnp.max(jnp.abs(covariance))) < float(diffusion.largest_terms(y, x))


def test_a_step_at_what_is_learned_is_half_its_relaxation_time() -> None:
    """By the drift's own slope there, a difference; steps of SGD are too small to be heard."""
    diffusion, scheme = overlap_scheme(system(), 1, 1)
    x = {**numbers(1e-12), "resolution": jnp.asarray(0.1)}
    ends = [jnp.asarray(diffusion.row(overlaps_of(single_overlap_state(overlap, 1.0)))) for overlap in (1.0, 1 - 1e-6)]
    known = [scheme.at(y, x) for y in ends]
    learned, beside = (scheme.drift(y, found)[0] for y, found in zip(ends, known, strict=True))
    assert float(scheme.step(ends[0], known[0]) * (beside - learned) / 1e-6) == pytest.approx(0.5, rel=1e-4)


def test_a_gaps_variance_is_that_of_what_the_noise_does_to_the_gap() -> None:
    """Itô: G G⊤ of the gap's own noise G, its slope times that of the state; each direction has another nearest student."""
    diffusion, scheme = overlap_scheme(system(), 2, 2)
    state = {
        "t": jnp.array([[0.6, 0.1], [0.2, 0.4]]),
        "c": jnp.array([[1.0, 0.3], [0.3, 1.0]]),
        "r": jnp.array([0.1, 0.3]),
    }
    y, given = diffusion.row(state), numbers(weights=(1.0, 0.5)) | {"level": jnp.asarray(0.7)}
    assert scheme.at is not None
    x = scheme.at(y, given)
    noise = jax.jacfwd(lambda y: scheme.gap(y, x))(y) @ x["root"]
    variance = np.asarray(scheme.gap_variance(y, x))
    np.testing.assert_allclose(np.sum(noise**2, axis=1), variance, rtol=1e-9)
    assert abs(variance[0] / variance[1] - 1) > 0.1


def test_states_outside_their_domain_are_put_back() -> None:
    """Rows of t onto the unit ball, c − tt' positive semidefinite; a state inside does not move."""
    diffusion = OverlapDiffusion(system(), 2, 2)
    inside = jnp.array([0.6, 0.1, 0.2, 0.7, 0.3, -3.0, -2.0])
    assert np.array_equal(diffusion.keep(inside), inside)
    outside = jnp.array([1.2, 0.3, 0.1, 0.2, 0.9, -3.0, -2.0])
    state = diffusion.state(diffusion.keep(outside))
    t, c = np.asarray(state["t"]), np.asarray(state["c"])
    assert np.all(np.sum(t**2, axis=1) <= 1 + 1e-12)
    assert np.linalg.eigvalsh(c - t @ t.T).min() > -1e-12
    np.testing.assert_allclose(np.diag(c), 1.0)
    # Of three students, whose c − tt' has eigenvalues 0.5 and −0.001: what is put back has moved by no more than that.
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    spoilt = (axes * [0.5, 0.4, -0.001]) @ axes.T
    spoilt /= np.sqrt(np.outer(np.diag(spoilt), np.diag(spoilt)))
    t = 0.5 * np.eye(3, 2)
    rest = 1 - np.sum(t**2, axis=1)
    c = t @ t.T + spoilt * np.sqrt(np.outer(rest, rest))
    three, _ = overlap_scheme(system(), 3, 2)
    row = three.row({"t": jnp.asarray(t), "c": jnp.asarray(c), "r": jnp.full(3, 0.1)})
    state = three.state(three.keep(row))
    assert np.linalg.eigvalsh(c - t @ t.T).min() < -1e-3
    assert np.linalg.eigvalsh(np.asarray(state["c"]) - t @ t.T).min() > -1e-12
    np.testing.assert_allclose(state["c"], c, atol=0.01)
    # A row that has just left the ball goes back to its surface, not into it.
    barely = diffusion.state(diffusion.keep(jnp.array([1.01, 0.0, 0.2, 0.7, 0.15, -3.0, -2.0])))
    np.testing.assert_allclose(np.linalg.norm(barely["t"], axis=1), [1.0, np.hypot(0.2, 0.7)])


@pytest.mark.slow
def test_strong_order_against_diffrax_on_the_same_brownian_paths() -> None:
    """Diffrax's Euler on a fine grid of a VirtualBrownianTree; our step on coarser grids of the same paths."""
    _, scheme = overlap_scheme(system(), 1, 1)
    x = numbers(0.005) | {"eta_drift": jnp.asarray(0.0), "level": jnp.asarray(0.9), "resolution": jnp.asarray(0.1)}
    end, y0 = 0.1, jnp.array([0.5, -2.0])
    assert scheme.at is not None

    def tree(key: jax.Array) -> dfx.VirtualBrownianTree:
        return dfx.VirtualBrownianTree(0.0, end, 1e-5, (2,), key)

    def fine(key: jax.Array) -> jax.Array:
        terms = dfx.MultiTerm(
            dfx.ODETerm(lambda t, y, x: scheme.drift(y, scheme.at(y, x))),
            dfx.ControlTerm(lambda t, y, x: scheme.at(y, x)["root"], tree(key)),
        )
        return dfx.diffeqsolve(terms, dfx.Euler(), 0.0, end, end / 512, y0, args=x, max_steps=600).ys[-1]

    def coarse(key: jax.Array, count: jax.Array) -> jax.Array:
        path, dt = tree(key), end / count

        def step(i: jax.Array, y: jax.Array) -> jax.Array:
            here = scheme.at(y, x)
            kick = scheme.noise(y, here, path.evaluate(i * dt, (i + 1) * dt))
            slope = scheme.drift(y, here)
            return y + 0.5 * (slope + scheme.drift(y + slope * dt + kick, here)) * dt + kick

        return jax.lax.fori_loop(0, count, step, y0)

    keys = jax.random.split(jax.random.key(0), 16)
    exact = np.asarray(jax.jit(jax.vmap(fine))(keys))
    ours = jax.jit(jax.vmap(coarse, in_axes=(0, None)))
    errors = [np.sqrt(np.mean((np.asarray(ours(keys, jnp.asarray(n))) - exact) ** 2, axis=0)) for n in (8, 64)]
    assert np.all(errors[1] < 0.1 * np.std(exact, axis=0))
    assert np.all(errors[0] / errors[1] > 2)  # strong order ½: √8


# -------------------------------------------------------------------- what can go wrong


def test_a_diverging_path_is_named_and_left_out() -> None:
    found = sde_ensemble(
        H3, Teacher.of([1.0], DIM), single_overlap_state(OVERLAP, 30.0), step_size=STEP, time=HORIZON, paths=256, saves=1,
        system=system(),
    )  # fmt: skip
    assert found.diverged.all()
    assert np.isnan(found.dataset.loss.values[:, -1]).all()
    assert np.isfinite(found.dataset.loss.values[:, 0]).all()
    assert np.isinf(found.half_time).all()


def test_what_looks_at_a_lost_path_is_compiled_once_and_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was compiled anew at every record from the first lost path on."""
    traced, covariance = [], OverlapDiffusion.covariance
    counted = lambda self, *arrays: traced.append(self) or covariance(self, *arrays)  # noqa: E731
    monkeypatch.setattr(OverlapDiffusion, "covariance", counted)
    diffusion, x = OverlapDiffusion(system(), 1, 1), numbers()
    row = np.asarray(diffusion.row(overlaps_of(single_overlap_state(OVERLAP, 0.1))))
    _, scheme = overlap_scheme(system(), 1, 1)
    lost = start_paths(scheme, row[None], {"level": jnp.asarray([0.7])})._replace(diverged=jnp.asarray([True]))
    refuse_negative(diffusion, lost, x, np.array([True]))
    assert not traced
    refuse_negative(diffusion, lost, x)
    refuse_negative(diffusion, lost, x)
    assert len(traced) == 1


def test_rounding_is_repaired_and_a_negative_covariance_refused() -> None:
    backwards = replace(
        system(),
        covariance={pair: Sums(Term(-x.body, x.bound) for x in sums) for pair, sums in system().covariance.items()},
    )
    good, bad = (OverlapDiffusion(x, 1, 1) for x in (system(), backwards))
    x, row = numbers(), good.row(overlaps_of(single_overlap_state(OVERLAP, 0.1)))
    size = good.largest_terms(row, x)
    covariance = jax.jit(good.covariance)(row, x)
    slightly = covariance - (jnp.linalg.eigvalsh(covariance)[0] + 1e-13 * size) * jnp.eye(2)
    assert np.isfinite(np.asarray(good.root(slightly, size)[0])).all()
    assert np.isnan(np.asarray(bad.root(jax.jit(bad.covariance)(row, x), size)[0])).all()
    _, scheme = overlap_scheme(system(), 1, 1)
    paths = start_paths(scheme, np.asarray(row)[None], {"level": jnp.asarray([0.7])})
    lost = paths._replace(diverged=jnp.asarray([True]))
    refuse_negative(good, lost, x)
    with pytest.raises(InputError, match=r"path 0 at time 0 has the eigenvalue -.*covariance of no step"):
        refuse_negative(bad, lost, x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"time": -1.0}, "time"), ({"paths": 0}, "paths"), ({"saves": 0}, "saves"), ({"resolution": 0.0}, "resolution"),
        ({"level": 2.0}, "level"), ({"step_size": 0.0}, "step_size"), ({"system": finite_step(H3)}, "no covariance"),
    ],
)  # fmt: skip
def test_bad_numbers(options: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        ensemble(**options)


# --------------------------------------------------------------------- the front door

SMALL = ["--activation", "h3", "--dim", "256", "--teacher-width", "1", "--student-width", "1", "--paths", "256"]


def test_simulate_writes_every_path(run: Callable) -> None:
    run_options = ["--seed", "3", "--time", "0.5", "--step-size", "1e-4", "--allow-unstable", "--quiet"]
    code, document, _ = run("simulate", "sde", *SMALL, *run_options)
    assert code == 0
    assert document["variables"]["overlap"] == ["replica", "time", "neuron", "direction"]
    with xr.open_dataset(document["file"], engine="h5netcdf") as data:
        assert data.sizes["replica"] == 256
        assert data.attrs["what"] == "sde"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--activation", "erf"], "not a polynomial"),
        (["--step-size", "1"], "stability bound"),
        (["--paths", "0"], "paths"),
    ],
)
def test_bad_input_is_one_line(argv: list[str], text: str, refused: Callable) -> None:
    assert text in refused("simulate", "sde", *SMALL, "--seed", "3", *argv)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["finite-step", "sde"])
def test_cells_of_a_sweep_hold_what_they_promise(what: str) -> None:
    problem = Problem(
        activation="h3", dim=256, teacher_width=1, student_width=1, replicas=256, step_size=1e-4, time=0.2, seed=3,
        allow_unstable=True,
    )  # fmt: skip
    content = compute(configuration(MODEL, what, problem))
    data = xr.load_dataset(io.BytesIO(content), engine="scipy")
    assert set(data.data_vars) == set(MODEL.simulation(what).variables)


# ------------------------------------------------------------------------ rare samples


def test_kurtosis_of_a_kick() -> None:
    """σ = z: E x⁸/(E x⁴)² = 105/9; two directions of z² − 1 against sampling."""
    assert kick_kurtosis(Activation.parse("h1"), [1.0]) == pytest.approx(105 / 9)
    x, y, w = np.random.default_rng(0).standard_normal((3, 1_000_000))
    kick = (0.8 * (x**2 - 1) + 0.6 * (y**2 - 1)) * w * x
    sampled = np.mean(kick**4) / np.mean(kick**2) ** 2
    assert kick_kurtosis(Activation.parse("h2"), [0.8, 0.6]) == pytest.approx(sampled, rel=0.2)
    assert kick_kurtosis(Activation.parse("h4"), [1.0]) > 1e5
    # ReLU: E x⁸/4 over (E x⁴/4)²; and a cube that is no polynomial has tails as heavy as one that is.
    assert kick_kurtosis(Activation.parse("relu"), [1.0]) == pytest.approx(105 / 4 / (3 / 4) ** 2, rel=0.05)
    assert kick_kurtosis(Activation.parse("z**3*erf(z)"), [1.0]) > 1000
    # With noise ςn on a label ax: E x⁴(ax + ςn)⁴ = 105a⁴ + 90a²ς² + 9ς⁴.
    a, noise = 0.8, 1.3
    fourth, second = 105 * a**4 + 90 * a**2 * noise**2 + 9 * noise**4, 3 * a**2 + noise**2
    assert kick_kurtosis(Activation.parse("h1"), [a], noise=noise) == pytest.approx(fourth / second**2)
    with pytest.raises(InputError, match="direction"):
        kick_kurtosis(H3, [1.0], 1)
