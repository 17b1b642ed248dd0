r"""Stiefel SGD: its law against explicit vectors of R^d, one step and many, and its mean drift to second order.

As in `test_online_sgd_law` laws are compared by two-sample Kolmogorov–Smirnov tests over independent replicas, with the
bar $p>10^{-4}$ over the number of tests; variants with an error built in must be rejected at $p<10^{-6}$.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dynamics.quadratic.stiefel_sgd as sgd
from dynamics.core.interrupted import Interrupted
from dynamics.core.outside import NO_MISTAKES, Mistakes
from dynamics.quadratic.riccati import riccati_flow
from dynamics.quadratic.stiefel_sgd import StiefelResult, stiefel_sgd
from theory import InputError, QuadraticModel, Subspace, Teacher, draw_subspace
from theory.core.curves import first_crossing
from theory.quadratic.stiefel import largest_step, mean_flow, projected_risk, single_passage, step_drift

ACCEPT, REJECT = 1e-4, 1e-6
REPLICAS = 4000
P, N = 2, 2
#: Dimension, step size (½ loss), batch, steps a block, steps.
SETTINGS = {
    "block of 16, D = 3": (7, 0.02, 1, 16, 48),
    "block of 4, Bartlett": (12, 0.012, 1, 4, 48),
    "batch 2 = N": (9, 0.03, 2, 1, 24),
    "batch 5 > N": (9, 0.06, 5, 1, 24),
    "one step, D = 2": (6, 0.05, 1, 1, 1),
}


def model_of(dim: int, width: int = N, count: int = P) -> QuadraticModel:
    return QuadraticModel(Teacher.power_law(count, 0.7, dim), width, width**-0.5)


@cache
def sample(name: str, method: str, seed: int, mistakes: Mistakes = NO_MISTAKES) -> dict[str, np.ndarray]:
    """Final overlaps' Gram matrices, which fix the law of G and of WᵀΘΘᵀW, one value a replica."""
    dim, step_size, batch, block, steps = SETTINGS[name]
    run = stiefel_sgd(
        model_of(dim), draw_subspace(P, N, dim, 5), step_size=step_size, steps=steps, batch=batch, replicas=REPLICAS,
        seed=seed, method=method, saves=1, block_steps=block, mistakes=mistakes,
    )  # fmt: skip
    return summaries(run.dataset.overlap.values[:, -1])


def summaries(overlap: np.ndarray) -> dict[str, np.ndarray]:
    found = {f"t{k}{p}": overlap[:, k, p] for k in range(N) for p in range(P)}
    return found | {"norm on teachers": np.sum(overlap**2, axis=(1, 2)), "product": np.prod(overlap, axis=(1, 2))}


def p_values(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> list[float]:
    return [float(stats.ks_2samp(first[name], second[name], method="asymp").pvalue) for name in first]


@pytest.mark.slow_for("block of 16, D = 3", "batch 5 > N", "batch 2 = N", "one step, D = 2")
@pytest.mark.parametrize("name", SETTINGS)
def test_exact_and_ambient_stiefel_sgd_have_the_same_law(name: str) -> None:
    first, second = sample(name, "exact", 10), sample(name, "ambient", 11)
    p = p_values(first, second)
    assert min(p) > ACCEPT / (len(p) * len(SETTINGS)), p
    assert np.std(first["norm on teachers"]) > 0.02, "the compared quantities must move"


@pytest.mark.slow_for("block of 16, D = 3")
@pytest.mark.parametrize("name", ["block of 16, D = 3", "batch 2 = N", "one step, D = 2"])
def test_too_many_degrees_of_freedom_are_rejected(name: str) -> None:
    p = p_values(sample(name, "exact", 10, Mistakes(forget_known=True)), sample(name, "ambient", 11))
    assert min(p) < REJECT, p


def numpy_run(name: str, seed: int, project: bool = True) -> dict[str, np.ndarray]:
    """The paper's step in NumPy: gradient of ⅛(y−f)² at 4η, projected on the tangent space, polar factor by an SVD."""
    dim, step_size, batch, _, steps = SETTINGS[name]
    model, rng = model_of(dim), np.random.default_rng(seed)
    start = draw_subspace(P, N, dim, 5)
    w = np.zeros((REPLICAS, dim, N))
    w[:, : P + N] = np.vstack([start.rows, np.zeros((P + N - len(start.rows), N))])
    for _ in range(steps):
        x = rng.standard_normal((REPLICAS, batch, dim))
        h = x @ w
        error = (x[:, :, :P] ** 2 - 1) @ model.spectrum - model.speed_factor * (np.sum(h**2, axis=2) - N)
        ascent = 0.5 * model.speed_factor * np.swapaxes(x, 1, 2) @ (error[:, :, None] * h) / batch
        if project:
            ascent = ascent - w @ (np.swapaxes(w, 1, 2) @ ascent)
        left, _, right = np.linalg.svd(w + 4 * step_size * ascent, full_matrices=False)
        w = left @ right
    return summaries(np.swapaxes(w[:, :P], 1, 2))


@pytest.mark.parametrize("name", ["block of 16, D = 3", "batch 5 > N"])
def test_the_law_is_that_of_the_papers_algorithm(name: str) -> None:
    """Nothing in common but the start. Leaving out the projection on the tangent space is noticed."""
    assert min(p_values(numpy_run(name, 3), sample(name, "exact", 10))) > ACCEPT / 12
    assert min(p_values(numpy_run(name, 3, project=False), sample(name, "exact", 10))) < REJECT


@pytest.mark.parametrize("method", ["exact", "ambient"])
def test_the_file_has_the_share_of_each_direction_that_is_held(method: str) -> None:
    """Of one direction it is all that the risk knows, R = 2(1 − G²), however the columns share it."""
    model = model_of(12, width=3, count=1)
    data = stiefel_sgd(
        model, draw_subspace(1, 3, 12, 5), step_size=0.01, steps=60, seed=1, saves=6, method=method
    ).dataset
    held = data.diagonal.isel(direction=0)
    np.testing.assert_allclose(2 * (1 - held**2), data.risk, atol=1e-12)
    assert np.ptp(held.values) > 0.2


def test_block_length_does_not_change_the_law() -> None:
    dim, step_size, batch, _, steps = SETTINGS["block of 16, D = 3"]
    run = stiefel_sgd(
        model_of(dim), draw_subspace(P, N, dim, 5), step_size=step_size, steps=steps, batch=batch, replicas=REPLICAS,
        seed=20, saves=1, block_steps=1,
    )  # fmt: skip
    p = p_values(summaries(run.dataset.overlap.values[:, -1]), sample("block of 16, D = 3", "exact", 10))
    assert min(p) > ACCEPT / len(p), p


# ---------------------------------------------------------------- mean drift, manifold, interface


@pytest.mark.slow
def test_the_mean_step_is_the_derived_drift() -> None:
    """Mean change of G in one small step over 4·10⁵ replicas, against first order alone and against both."""
    dim, count, width = 40, 2, 2
    model = model_of(dim, width, count)
    start = Subspace(np.array([[0.6, 0.1], [0.2, -0.3]]), np.eye(2)).orthonormal()
    step_size = 0.004
    run = stiefel_sgd(model, start, step_size=step_size, steps=1, replicas=400_000, saves=1, block_steps=1)
    y = run.dataset.overlap.values[:, -1]
    before = start.on_teachers @ start.on_teachers.T
    change = np.swapaxes(y, 1, 2) @ y - before
    mean, error = change.mean(axis=0), change.std(axis=0) / np.sqrt(len(y))
    epsilon = model.riccati_rate * step_size
    both, first = (
        epsilon * step_drift(before, model.spectrum, width, dim, model.speed_factor, step) for step in (epsilon, 0.0)
    )
    assert np.abs((mean - both) / error).max() < 4.5
    assert np.abs((mean - first) / error).max() > 8


def test_a_step_of_a_large_batch_is_the_riccati_flows() -> None:
    """Of 10⁵ samples: within its scatter over replicas, and by many times that not the flow's for 1.05 times as long."""
    model, start = model_of(40, 2, 2), Subspace(np.array([[0.6, 0.1], [0.2, -0.3]]), np.eye(2)).orthonormal()
    run = stiefel_sgd(model, start, step_size=1e-3, steps=1, batch=10**5, replicas=20, saves=1)
    grams = [np.swapaxes(y, -1, -2) @ y for y in run.dataset.overlap.values.swapaxes(0, 1)]
    change = grams[1] - grams[0]
    mean, error = change.mean(axis=0), change.std(axis=0) / np.sqrt(len(change))
    end = model.riccati_rate * 1e-3
    flow = riccati_flow(model.spectrum, start).factor(np.array([0.0, end, 1.05 * end]))
    still, there, beyond = flow @ np.swapaxes(flow, 1, 2)
    assert np.abs((mean - (there - still)) / error).max() < 4.5
    assert np.abs((mean - (beyond - still)) / error).max() > 9


def test_first_order_drift_is_the_riccati_flow() -> None:
    model = model_of(500, 5, 4)
    start = draw_subspace(4, 5, 500, 0)
    times = np.linspace(0.0, 12.0, 5)
    G = mean_flow(model, start.on_teachers, times, step_size=0.0)
    exact = riccati_flow(model.spectrum, start).factor(times)
    assert np.abs(G - exact @ np.swapaxes(exact, 1, 2)).max() < 1e-6
    risk = projected_risk(model.spectrum, G)
    assert risk[0] > 1.9 > risk[-1] + 0.5


@pytest.mark.parametrize("step_size", [0.0, 1e-3])
def test_a_mean_of_narrow_frames_is_refused(step_size: float) -> None:
    """SGD keeps tr G ≤ N; the mean drift at P = 4, N = 2, d = 40 ended at tr G = 3.9 and a negative risk."""
    start = draw_subspace(4, 2, 40, 0)
    with pytest.raises(InputError, match="student width is 2, below 4 teacher directions"):
        mean_flow(model_of(40, 2, 4), start.on_teachers, np.array([0.0, 24.0]), step_size=step_size)


def test_a_run_stops_at_the_first_record_at_which_all_replicas_have_the_risk() -> None:
    """The risk falls by less than 5 % from one record to the next."""
    model, start = model_of(50), draw_subspace(P, N, 50, 0)
    given: dict = {"step_size": 2e-3, "steps": 1600, "replicas": 3, "saves": 100, "seed": 1}
    worst = stiefel_sgd(model, start, **given).risk.max(axis=0)
    place = int(np.argmax(worst < 1.7))
    assert np.all(worst[:place] > worst[place])
    assert worst[place - 1] < 1.05 * worst[place]
    stopped = stiefel_sgd(model, start, **given, stop_at_risk=float(worst[place]) * (1 + 1e-9))
    assert stopped.risk.shape == (3, place + 1)
    np.testing.assert_allclose(stopped.risk.max(axis=0), worst[: place + 1], rtol=1e-12)


def test_the_manifold_is_kept_and_the_risk_falls() -> None:
    model = model_of(200, 3, 5)
    run = stiefel_sgd(model, draw_subspace(5, 3, 200, 1), step_size=1e-4, steps=40_000, replicas=4, saves=20)
    for frame in run.frames:
        assert np.abs(frame.rows.T @ frame.rows - np.eye(3)).max() < 1e-13
    assert run.risk[:, 0].min() > 1.9
    assert run.risk[:, -1].max() < 1.2
    assert np.all(np.isfinite(run.steps_to(1.5)))
    assert np.all(np.isinf(run.steps_to(0.0)))


@pytest.mark.slow
def test_the_manifold_is_kept_for_a_million_steps() -> None:
    """WᵀW = I to 1e-12 after 10⁶ steps."""
    model = model_of(1000, 6, 6)
    run = stiefel_sgd(model, draw_subspace(6, 6, 1000, 1), step_size=5e-5, steps=1_000_000, replicas=2, saves=2)
    for frame in run.frames:
        assert np.abs(frame.rows.T @ frame.rows - np.eye(6)).max() < 1e-12


@pytest.mark.slow
def test_replicas_do_not_depend_on_their_number() -> None:
    model, start = model_of(50), draw_subspace(P, N, 50, 0)
    few, many = (
        stiefel_sgd(model, start, step_size=1e-3, steps=64, replicas=count, saves=2, seed=4).risk for count in (2, 5)
    )
    assert np.allclose(few, many[:2], rtol=1e-10)
    assert not np.allclose(many[2], many[0], rtol=1e-6)


def test_an_interrupted_run_keeps_what_was_done() -> None:
    def stop(fraction: float, text: str) -> None:
        if fraction > 0.4:
            raise KeyboardInterrupt

    start = draw_subspace(P, N, 12, 5)
    with pytest.raises(Interrupted) as stopped:
        stiefel_sgd(model_of(12), start, step_size=0.01, steps=40, replicas=2, saves=4, block_steps=10, progress=stop)
    assert stopped.value.result.steps == 20
    assert stopped.value.result.dataset.sizes["time"] == 3


def test_dataset_has_the_contract_s_fields() -> None:
    run: StiefelResult = stiefel_sgd(
        model_of(50), draw_subspace(P, N, 50, 0), step_size=1e-3, steps=64, replicas=2, saves=2
    )
    assert run.dataset.overlap.dims == ("replica", "time", "neuron", "direction")
    assert set(run.dataset.data_vars) == {"overlap", "norm2", "loss", "diagonal", "risk"}
    assert run.dataset.step.values.tolist() == [0, 32, 64]
    G0 = np.swapaxes(run.dataset.overlap.values[:, 0], 1, 2) @ run.dataset.overlap.values[:, 0]
    assert np.allclose(run.risk[:, 0], projected_risk(model_of(50).spectrum, G0))
    assert np.allclose(run.dataset.riccati_time, 4 * N**-0.5 * run.dataset.time)


def test_another_multiple_of_the_activation_only_rescales_the_step() -> None:
    teacher, start = Teacher.power_law(P, 0.7, 50), draw_subspace(P, N, 50, 0)
    runs = [
        stiefel_sgd(QuadraticModel(teacher, N, 1.0, moment), start, step_size=size, steps=64, replicas=2, saves=2)
        for moment, size in ((2.0, 1e-3), (1.0, 2e-3))
    ]
    assert np.allclose(runs[0].risk, runs[1].risk)
    assert np.allclose(runs[0].dataset.loss, 2 * runs[1].dataset.loss)


def test_beyond_the_bound_the_last_direction_is_not_learned() -> None:
    """N = P = 1: well below the bound the direction is learned, at twice the bound it is not."""
    model = model_of(100, 1, 1)
    bound, direction = largest_step(model)
    assert direction == 0
    start = draw_subspace(1, 1, 100, 3)
    ends = [
        stiefel_sgd(model, start, step_size=f * bound, steps=32 * int(0.15 / (f * bound)), replicas=8, saves=4)
        .risk[:, -1]
        .mean()
        for f in (0.05, 2.0)
    ]
    assert ends[0] < 0.3
    assert ends[1] > 1.5


def test_a_start_with_more_rows_than_columns_outside_the_teacher() -> None:
    """Only the Gram matrix of those rows matters, so that any frame of the same subspace will do."""
    start = draw_subspace(P, N, 50, 0)
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((N + 4, N)))[0]
    long = Subspace(start.on_teachers, turned @ start.rest)
    runs = [stiefel_sgd(model_of(50), x, step_size=1e-3, steps=64, replicas=2, saves=2) for x in (start, long)]
    assert np.allclose(runs[0].risk[:, 0], runs[1].risk[:, 0], rtol=1e-12)
    assert np.allclose(runs[0].frames[0].on_teachers.shape, runs[1].frames[0].on_teachers.shape)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"step_size": 0.0}, "step_size is 0.0"),
        ({"steps": 0}, "steps is 0"),
        ({"method": "fast"}, "method is 'fast'"),
        ({"start": Subspace(np.ones((P, N)), np.eye(N))}, "off the Stiefel manifold"),
        ({"model": model_of(3)}, "dim 3 is below"),
        ({"replicas": 3, "start": [draw_subspace(P, N, 50, 0)] * 2}, "replicas is 3"),
    ],
)
def test_bad_input_is_one_line(change: dict, text: str) -> None:
    options = {"model": model_of(50), "start": draw_subspace(P, N, 50, 0), "step_size": 1e-3, "steps": 10} | change
    with pytest.raises(InputError, match=text) as caught:
        stiefel_sgd(options.pop("model"), options.pop("start"), **options)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------- one row, one direction


def test_passage_of_one_row_without_steps_is_the_riccati_flow() -> None:
    """ln of the odds m²/(1 − m²) grows by 2 in a unit of Riccati time."""
    model = QuadraticModel(Teacher.power_law(1, 1.0, 1000), 1, 1.0)
    start, level = 0.3, 0.8
    odds = [m**2 / (1 - m**2) for m in (start, level)]
    found = single_passage(model, np.array([start, -start, 0.9]), level, step_size=1e-8)
    np.testing.assert_allclose(found, np.array([1, 1, 0]) * np.log(odds[1] / odds[0]) / 2, rtol=2e-4)


def test_passage_of_one_row_knows_its_noise() -> None:
    """Plain projected steps, seen along θ, the row and |x|, beside the law: to (M* + N)/d; the drift without noise is not."""
    dim, replicas, level = 128, 2000, 0.84
    model, rng = QuadraticModel(Teacher.power_law(1, 1.0, dim), 1, 1.0), np.random.default_rng(5)
    step_size = 0.2 / dim / 4
    rows = rng.standard_normal((replicas, dim))
    m = np.abs(rows[:, 0]) / np.linalg.norm(rows, axis=1)
    expected = single_passage(model, m, level, step_size=step_size)
    times = np.linspace(0, 40, 801)
    drift = first_crossing(times, mean_flow(model, m[:, None, None], times, step_size=step_size)[..., 0, 0].T, level**2)
    steps = np.where(m >= level, 0, -1)
    for step in range(1, 300 * dim):
        going = np.flatnonzero(steps < 0)
        if not going.size:
            break
        now, (h, q) = m[going], rng.standard_normal((2, going.size))
        x = now * h + np.sqrt(1 - now**2) * q
        c = 2 * step_size * (x**2 - h**2) * h
        m[going] = (now + c * (x - h * now)) / np.sqrt(1 + c**2 * (q**2 + rng.chisquare(dim - 2, going.size)))
        steps[going[np.abs(m[going]) >= level]] = step
    assert np.all(steps >= 0)
    gap, alone = (steps * 4 * step_size / one.mean() - one / one.mean() for one in (expected, drift))
    allowed = [2 / dim + 4 * one.std(ddof=1) / np.sqrt(replicas) for one in (gap, alone)]
    assert abs(gap.mean()) < allowed[0]
    assert abs(alone.mean()) > 1.5 * allowed[1]


def test_passage_of_several_rows_is_refused() -> None:
    with pytest.raises(InputError, match="2 rows for 1 directions"):
        single_passage(QuadraticModel(Teacher.power_law(1, 1.0, 50), 2, 1.0), np.array([0.1]), 0.5, step_size=1e-3)


def test_columns_of_a_large_batch_have_the_moments_of_its_samples() -> None:
    r"""BBᵀ of five samples of two neurons, from two columns: mean $DG$, $G=gg^\top$, and variances
    $D(G_{ii}G_{jj}+G_{ij}^2)$.
    """
    shape = sgd.Shape(1, 2, 5, 1, "exact", None, None, Mistakes())
    g = jnp.asarray(np.random.default_rng(0).standard_normal((2, 5)))
    freedom, count = 7.0, 20_000
    scales = sgd.Scales(jnp.ones(1), jnp.asarray(1.0), jnp.asarray(0.1), jnp.asarray(freedom))

    def gram(key: jax.Array) -> jax.Array:
        columns = sgd._wishart_columns(shape, scales, g, key)
        assert columns.shape == (2, 2)
        return (columns @ columns.T)[jnp.array([0, 0, 1]), jnp.array([0, 1, 1])]

    found = np.asarray(jax.jit(jax.vmap(gram))(jax.random.split(jax.random.key(0), count)))
    (x, y), (_, z) = np.asarray(g @ g.T)
    errors = found.std(axis=0) / np.sqrt(count)
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - freedom * np.array([x, y, z])), 4 * errors)
    variances = freedom * np.array([2 * x * x, x * z + y * y, 2 * z * z])
    np.testing.assert_allclose(found.var(axis=0), variances, rtol=0.06)  # (known to some 2 %)
