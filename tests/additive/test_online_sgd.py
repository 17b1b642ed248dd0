"""Online SGD as a program: reproducible, well labelled, honest about divergence, and its update is the gradient."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from conftest import Frame

from dynamics.additive.ambient_flow import embed
from dynamics.additive.online_sgd import (
    BLOW_UP,
    Problem,
    SgdResult,
    online_sgd,
    recovery_steps,
)
from dynamics.core.keys import replica_keys
from dynamics.core.outside import rotate_back, strictly_lower
from dynamics.core.replicas import Stretch
from dynamics.declared.step import neuron_of
from theory import Activation, InitialState, InputError, Student, Teacher, draw_initial_state
from theory.declared.rule import Rule

H2, H4 = Activation.from_degree(2), Activation.from_degree(4)
TEACHER = Teacher.of([1, 0.6], 6)
#: Overlaps of 0.58 and −0.73: recovery and, at large steps, divergence happen within 64 steps.
START = draw_initial_state(TEACHER, Student(2, 0.6), 3)
Make = Callable[..., Frame]


def sgd(**options: object) -> SgdResult:
    chosen: dict = {"step_size": 0.02, "steps": 64, "replicas": 20, "saves": 2, "seed": 4, "block_steps": 8} | options
    return online_sgd(chosen.pop("activation", H4), chosen.pop("teacher", TEACHER), START, **chosen)


def equal(first: SgdResult, second: SgdResult) -> None:
    """The same result to the last bit, and the same labels."""
    xr.testing.assert_identical(first.dataset, second.dataset)
    np.testing.assert_array_equal(first.half_steps, second.half_steps)
    np.testing.assert_array_equal(first.loss_steps, second.loss_steps)
    np.testing.assert_array_equal(first.diverged, second.diverged)


# ------------------------------------------------------------------------------------ the update rule


def _h3(x: jax.Array) -> jax.Array:
    return (x**3 - 3 * x) / jnp.sqrt(6.0)


def _h4(x: jax.Array) -> jax.Array:
    return (x**4 - 6 * x**2 + 3) / jnp.sqrt(24.0)


def _h6(x: jax.Array) -> jax.Array:
    return (x**6 - 15 * x**4 + 45 * x**2 - 15) / jnp.sqrt(720.0)


SIGMA: dict[str, Callable[[jax.Array], jax.Array]] = {
    "h3": _h3,
    "h4": _h4,
    "erf": jax.scipy.special.erf,
    "0.8*h4+0.6*h6": lambda x: 0.8 * _h4(x) + 0.6 * _h6(x),
}


@pytest.mark.parametrize("text", SIGMA)
def test_one_update_is_the_gradient_of_the_sample_loss(text: str, frame: Make) -> None:
    """(1 − ηδ·2F_r)v − ηδF_h·x against jax.grad of ½(f* − f)² with the activation written out here."""
    point, sigma, eta = frame(3, 2, 8, seed=1), SIGMA[text], 0.1
    rule = neuron_of(Activation.parse(text), homogeneous=True)
    v, weights = jnp.asarray(point.vectors), jnp.asarray(point.weights)

    def sample_loss(v: jax.Array, x: jax.Array) -> jax.Array:
        size = jnp.sqrt(jnp.sum(v**2, axis=1))
        return 0.5 * (weights @ sigma(x[:2]) - jnp.sum(size**2 * sigma(v @ x / size))) ** 2

    @jax.jit
    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        output, along_self, along_input = rule(jnp.asarray(point.norm2), v @ x)
        delta = jnp.sum(output) - weights @ sigma(x[:2])
        found = (1 - eta * delta * along_self)[:, None] * v - eta * (delta * along_input)[:, None] * x
        return found, v - eta * jax.grad(sample_loss)(v, x)

    for x in np.random.default_rng(0).standard_normal((5, 8)):
        found, expected = (np.asarray(y) for y in both(jnp.asarray(x)))
        assert np.abs(found - expected).max() < 1e-10 * max(1.0, np.abs(expected).max())
        assert np.abs(expected - point.vectors).max() > 1e-4  # the step is there to be seen


def test_ambient_steps_follow_the_sample_gradient(frame: Make) -> None:
    """Four whole steps of the ambient run, its samples drawn again here, gradients averaged over the batch."""
    point, eta, batch = frame(3, 2, 8, seed=1), 0.05, 3
    options: dict = {"step_size": eta, "steps": 4, "batch": batch, "block_steps": 4, "method": "ambient", "seed": 9}
    result = online_sgd(H4, point.teacher, point.initial, replicas=2, **options).dataset

    def batch_loss(v: jax.Array, x: jax.Array) -> jax.Array:
        size = jnp.sqrt(jnp.sum(v**2, axis=1))
        student = jnp.sum(size[:, None] ** 2 * _h4(v @ x.T / size[:, None]), axis=0)
        return 0.5 * jnp.mean((_h4(x[:, :2]) @ jnp.asarray(point.weights) - student) ** 2)

    slope = jax.jit(jax.grad(batch_loss))
    for replica in range(2):
        v = jnp.asarray(embed(point.initial, 8))
        key = replica_keys(9, 2, "online SGD")[replica]
        for step in range(4):
            samples, _ = jax.random.split(jax.random.fold_in(key, step))
            v = v - eta * slope(v, jax.random.normal(samples, (batch, 8)))
        norm2 = np.sum(np.asarray(v) ** 2, axis=1)
        np.testing.assert_allclose(result["norm2"][replica, -1], norm2, rtol=1e-11)
        np.testing.assert_allclose(result["overlap"][replica, -1], v[:, :2] / np.sqrt(norm2)[:, None], atol=1e-11)
        assert np.abs(norm2 - point.norm2).max() > 1e-3


# -------------------------------------------------------------------------------------- randomness


@pytest.fixture(scope="module")
def base() -> SgdResult:
    return sgd()


def test_the_same_seed_gives_the_same_result(base: SgdResult) -> None:
    equal(base, sgd())
    assert np.nanmin(np.abs(sgd(seed=5).dataset["loss"][:, -1] - base.dataset["loss"][:, -1])) > 0


@pytest.mark.slow
def test_a_replica_does_not_depend_on_how_many_others_run(base: SgdResult) -> None:
    """To rounding: vector instructions may take the last few replicas of an array another way."""
    few = sgd(replicas=7)
    np.testing.assert_array_equal(few.half_steps, base.half_steps[:7])
    np.testing.assert_array_equal(few.diverged, base.diverged[:7])
    for name in ("overlap", "norm2", "loss"):
        np.testing.assert_allclose(few.dataset[name], base.dataset[name][:7], rtol=1e-9, atol=1e-9)


def test_replicas_differ(base: SgdResult) -> None:
    final = base.dataset["loss"].values[:, -1]
    assert np.unique(final[np.isfinite(final)]).size == np.isfinite(final).sum() > 10


@pytest.mark.parametrize("method", ["exact", "ambient"])
def test_results_do_not_depend_on_when_they_are_saved(method: str) -> None:
    often, once = (sgd(method=method, saves=saves) for saves in (8, 1))
    assert often.dataset.sizes["time"] == 9
    assert once.dataset.sizes["time"] == 2
    for name in ("overlap", "norm2", "loss"):
        np.testing.assert_array_equal(often.dataset[name].values[:, -1], once.dataset[name].values[:, -1])
    np.testing.assert_array_equal(often.half_steps, once.half_steps)
    np.testing.assert_array_equal(often.diverged, once.diverged)


# ------------------------------------------------------------------------------------------ schema


@pytest.mark.slow_for("exact-3")
@pytest.mark.parametrize(("method", "batch"), [("exact", 1), ("exact", 3), ("ambient", 1), ("ambient", 3)])
def test_every_method_returns_the_same_labelled_dataset(method: str, batch: int, tmp_path: Path) -> None:
    result = sgd(method=method, batch=batch)
    data = result.dataset
    assert data["overlap"].dims == ("replica", "time", "neuron", "direction")
    assert data["norm2"].dims == ("replica", "time", "neuron")
    assert data["loss"].dims == ("replica", "time")
    assert dict(data.sizes) == {"replica": 20, "time": 3, "neuron": 2, "direction": 2}
    assert data["direction"].values.tolist() == [1, 2]
    assert data["step"].values.tolist() == [0, 32, 64]
    np.testing.assert_allclose(data["time"], data["step"] * 0.02)
    assert all(data[name].attrs["units"] for name in ("overlap", "norm2", "loss", "time", "step"))
    expected = {"method": method, "batch": batch, "step_size": 0.02, "seed": 4, "dim": 6, "what": "online-sgd"}
    assert {name: data.attrs[name] for name in expected} == expected
    assert result.steps == 64
    assert result.resolution == data.attrs["recovery_resolution_steps"] == 8
    assert np.all(result.half_steps[np.isfinite(result.half_steps)] % 8 == 0)
    np.testing.assert_allclose(data["overlap"][:, 0], np.broadcast_to(START.overlap, (20, 2, 2)), rtol=1e-12)
    np.testing.assert_allclose(data["norm2"][:, 0], np.broadcast_to(START.norm2, (20, 2)), rtol=1e-12)
    data.to_netcdf(tmp_path / "sgd.nc", engine="h5netcdf")
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "sgd.nc", engine="h5netcdf"), data)


@pytest.mark.slow_for("21-saved0-ambient")
@pytest.mark.parametrize("method", ["exact", "ambient"])
@pytest.mark.parametrize(("steps", "saved"), [(21, [0, 8, 16, 21]), (5, [0, 5])])
def test_exactly_the_steps_asked_for_are_run(method: str, steps: int, saved: list[int]) -> None:
    result = sgd(method=method, steps=steps, step_size=0.02)
    assert result.steps == steps
    assert result.dataset["step"].values.tolist() == saved
    recorded = result.half_steps[np.isfinite(result.half_steps)]
    assert set(recorded.tolist()) <= set(saved)


def test_recovery_steps_agree_with_the_saved_overlaps() -> None:
    """Saved after every block, the first save, step 0 too, with a squared overlap (or norm share) of ½ is recorded."""
    result = sgd(saves=64, step_size=0.01)
    data = result.dataset
    squares = data["overlap"].values ** 2
    share = np.einsum("ntk,ntkq->ntq", data["norm2"].values, squares) / TEACHER.a
    steps = data["step"].values
    for reached, recorded in ((squares.max(axis=2), result.half_steps), (share, result.loss_steps)):
        above = reached >= 0.5
        first = np.where(above.any(axis=1), steps[above.argmax(axis=1)], np.inf)
        np.testing.assert_array_equal(recorded[~result.diverged], first[~result.diverged])
        assert 0 < np.isfinite(first).mean() < 1


# -------------------------------------------------------------------------------------- divergence


@pytest.fixture(scope="module")
def unstable() -> SgdResult:
    return sgd(step_size=0.05, saves=8, seed=0)


def test_divergence_is_flagged_replica_by_replica(unstable: SgdResult) -> None:
    data = unstable.dataset
    lost = np.isnan(data["norm2"].values).any(axis=2)
    assert 0.1 < unstable.diverged.mean() < 0.9
    np.testing.assert_array_equal(lost[:, -1], unstable.diverged)
    assert np.all(lost[:, 1:] >= lost[:, :-1])  # once NaN, NaN for good
    for name in ("overlap", "norm2", "loss"):
        values = data[name].values.reshape(20, 9, -1)
        np.testing.assert_array_equal(np.isnan(values).all(axis=2), lost)
        np.testing.assert_array_equal(np.isnan(values).any(axis=2), lost)
    assert np.nanmax(data["norm2"].values) <= BLOW_UP


def test_a_diverged_replica_records_no_recovery_afterwards() -> None:
    result = sgd(step_size=0.05, replicas=2000, saves=64, block_steps=1)
    lost = np.isnan(result.dataset["norm2"].values).any(axis=2)
    since = np.where(lost.any(axis=1), result.dataset["step"].values[lost.argmax(axis=1)], np.inf)
    recorded = np.minimum(result.half_steps, result.loss_steps)
    assert not np.any(np.isfinite(recorded) & (recorded >= since[:, None]))


@pytest.mark.slow_for("ambient")
@pytest.mark.parametrize("method", ["exact", "ambient"])
def test_a_diverging_replica_leaves_its_neighbours_alone(method: str) -> None:
    problem = Problem.of(H4, TEACHER, START, Rule(0.004), steps=64, method=method, block_steps=8)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(20))
    calm = problem.begin(keys)
    vectors = jax.tree.map(lambda x: x.at[2].multiply(1e4) if x.ndim > 2 else x, calm.vectors)
    advance = problem.engine.advance(keys, problem.watch)
    expected, found = (advance(run, Stretch(0, 64, 0, 8, 8)).vectors for run in (calm, calm._replace(vectors=vectors)))
    others = np.arange(20) != 2
    for old, new in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(new[others], old[others])
        assert np.all(np.isfinite(new[others]))
    assert not np.all(np.isfinite(problem.overlaps(problem.begin(keys)._replace(vectors=found))["r"][2]))


def test_a_huge_step_size_ends_early_and_says_so() -> None:
    result = sgd(step_size=100.0, steps=64 * 50, saves=50)
    assert result.diverged.all()
    assert result.steps < 64 * 50
    assert np.all(np.isnan(result.dataset["loss"].values[:, -1]))
    assert np.all(np.isfinite(result.dataset["loss"].values[:, 0]))


def test_a_small_step_size_does_not_diverge() -> None:
    assert not sgd(step_size=1e-4).diverged.any()


@pytest.mark.slow
def test_the_loss_of_relu_students_is_defined() -> None:
    result = sgd(activation=Activation.parse("relu"), step_size=0.01)
    assert not result.diverged.any()
    assert np.all(np.isfinite(result.dataset["loss"].values))


# -------------------------------------------------------------------------------- stopping, dimension


def test_it_stops_when_all_replicas_have_learned() -> None:
    free = sgd(step_size=0.003, steps=64 * 100, saves=100, seed=2)
    assert np.all(np.isfinite(free.half_steps[:, 0]))
    early = sgd(step_size=0.003, steps=64 * 100, saves=100, seed=2, stop_when_learned=(0,))
    last = free.half_steps[:, 0].max()
    assert last <= early.steps < last + 64
    assert early.steps < free.steps
    np.testing.assert_array_equal(early.half_steps[:, 0], free.half_steps[:, 0])
    assert early.dataset["step"].values[-1] == early.steps


@pytest.mark.parametrize("replicas", [20, pytest.param(70, marks=pytest.mark.slow)])
def test_replicas_that_end_one_by_one_are_those_that_run_together(replicas: int) -> None:
    """More replicas than lanes, and a run that is short for some of them."""
    settings: dict = {"step_size": 0.003, "steps": 64 * 12, "replicas": replicas, "seed": 2, "block_steps": 8}
    together = online_sgd(H4, TEACHER, START, saves=1, **settings).half_steps
    found = recovery_steps(H4, TEACHER, START, directions=(0,), **settings)
    np.testing.assert_array_equal(found[:, 0], together[:, 0])
    assert 0.5 < np.isfinite(found[:, 0]).mean() < 1
    both = recovery_steps(H4, TEACHER, START, directions=(1, 0), **settings)
    np.testing.assert_array_equal(both, together)


@pytest.mark.slow
def test_the_smallest_dimension_runs() -> None:
    """d = P + m: nothing is left outside teachers and students."""
    teacher = Teacher.of([1, 0.6], 4)
    start = draw_initial_state(teacher, Student(2, 0.6), 0)
    result = online_sgd(H4, teacher, start, step_size=1e-3, steps=40, replicas=3, block_steps=8)
    assert np.all(np.isfinite(result.dataset["loss"].values))
    assert np.ptp(result.dataset["norm2"].values[:, -1]) > 0


def test_dimensions_below_teachers_plus_students_are_refused() -> None:
    with pytest.raises(InputError, match="dim 3 is below teacher width \\+ student width = 4: raise dim"):
        sgd(teacher=Teacher.of([1, 0.6], 3))


def test_a_million_dimensions_are_seen_but_not_stored() -> None:
    r"""$\Delta r/r=\eta^2\delta^2\sigma'(z)^2d$ on average: at d = 10⁶ the norms must have grown by that.

    A light student far from every teacher has $E\delta^2\sigma'^2=Ef_*^2\,E\sigma'^2=2$ for h2. One sample scatters by
    at most $\sqrt{15\cdot3}$ times that (kurtoses of h2 and h1), 10⁵ of them by 2 %. (h4's scatter by 40 %.) Ten times fewer
    dimensions would miss the interval.
    """
    teacher = Teacher.of([1, 0.6], 10**6)
    start = draw_initial_state(teacher, Student(2, 0.01), 0)
    result = online_sgd(H2, teacher, start, step_size=1e-5, steps=50, replicas=2000, block_steps=1, saves=1)
    growth = (result.dataset["norm2"].values[:, -1] / start.norm2).mean(axis=0) - 1
    assert growth == pytest.approx(np.full(2, 50 * 2 * 1e-10 * 1e6), rel=0.1)


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size is 0.0: give a positive finite number"),
        ({"step_size": -0.1}, "step_size is -0.1"),
        ({"step_size": np.nan}, "step_size is nan"),
        ({"step_size": np.inf}, "step_size is inf"),
        ({"steps": 0}, "steps is 0: give a whole number, 1 or more"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"batch": 0}, "batch is 0"),
        ({"replicas": -1}, "replicas is -1"),
        ({"method": "ito"}, "method is 'ito': use exact or ambient"),
    ],
)
def test_bad_arguments_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        sgd(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"steps": np.inf},
        {"batch": np.nan},
        {"batch": 2.0},
        {"block_steps": 0},
        {"saves": 0},
        {"stop_when_learned": (2,)},
        {"seed": 1.5},
    ],
    ids=str,
)
def test_more_bad_arguments_are_refused(options: dict) -> None:
    name = next(iter(options))
    with pytest.raises(InputError, match=name):
        sgd(**options)


# --------------------------------------------------------------------------------------- residuals


def gram_error(residual: np.ndarray) -> float:
    """Largest error of LLᵀ against RRᵀ, relative to the two rows' norms; inf if anything is not a number."""
    factor = np.asarray(jax.jit(rotate_back)(jnp.asarray(residual)))
    size = np.sqrt(np.sum(residual**2, axis=1))
    size[size == 0] = 1.0
    error = np.abs(factor @ factor.T - residual @ residual.T) / np.outer(size, size)
    return float(np.max(error)) if np.all(np.isfinite(factor)) else np.inf


def aligned(kind: str, rng: np.random.Generator) -> np.ndarray:
    """(8, 16) residuals that make a factorisation hard."""
    rows = rng.standard_normal((8, 16))
    if kind == "parallel":
        rows[1:5] = rows[0] * rng.uniform(-2, 2, (4, 1))
    elif kind == "all parallel":
        rows = np.outer(rng.uniform(0.5, 2, 8), rows[0])
    elif kind == "almost parallel":
        rows = rows[0] + 1e-9 * rows
    elif kind == "zero rows":
        rows[[0, 3, 7]] = 0.0
    elif kind == "nothing":
        rows[:] = 0.0
    elif kind == "norms":
        rows *= 10.0 ** rng.uniform(-12, 6, (8, 1))
    elif kind == "everything":
        rows[1:5] = rows[0] * 10.0 ** rng.uniform(-8, 4, (4, 1))
        rows[6] = 0.0
    return rows


@pytest.mark.parametrize(
    "kind", ["generic", "parallel", "all parallel", "almost parallel", "zero rows", "nothing", "norms", "everything"]
)
def test_rotation_keeps_the_gram_matrix_of_aligned_students(kind: str) -> None:
    rng = np.random.default_rng(8)
    assert max(gram_error(aligned(kind, rng)) for _ in range(50)) < 1e-13


def test_the_gram_error_sees_a_lost_row_and_a_nan() -> None:
    rows = aligned("generic", np.random.default_rng(0))
    factor = np.asarray(rotate_back(jnp.asarray(rows)))
    assert factor.shape == (8, 8)
    assert np.array_equal(np.triu(factor, 1), np.zeros((8, 8)))
    assert gram_error(np.where(np.arange(16) == 0, np.nan, rows)) == np.inf


def test_students_started_parallel_stay_finite() -> None:
    """Two equal students see the same samples and stay equal: the residual's Gram matrix is singular throughout."""
    on_teachers = np.repeat(START.on_teachers[:1], 2, axis=0)
    twins = InitialState(on_teachers, np.array([[START.residual[0, 0], 0.0]] * 2))
    result = online_sgd(H4, TEACHER, twins, step_size=0.003, steps=64, replicas=20, block_steps=8, saves=1, seed=1)
    overlap, norm2 = result.dataset["overlap"].values, result.dataset["norm2"].values
    assert not result.diverged.any()
    np.testing.assert_allclose(overlap[:, :, 0], overlap[:, :, 1], atol=1e-6)
    np.testing.assert_allclose(norm2[:, :, 0], norm2[:, :, 1], rtol=1e-6)


@pytest.mark.parametrize("count", range(1, 12))
def test_every_packed_number_lands_once_below_the_diagonal(count: int) -> None:
    shape = (count // 2, count - 1 + count % 2)
    packed = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    filled = np.asarray(strictly_lower(jnp.asarray(packed), count))
    assert filled.shape == (count, count)
    assert np.all(np.triu(filled) == 0)
    np.testing.assert_array_equal(np.sort(filled[filled != 0]), packed.ravel())


def test_what_is_recovered_at_the_start_is_so_at_step_0() -> None:
    start = InitialState(np.array([[0.95, 0.0], [0.0, 0.1]]), np.diag([0.3, 0.9]))
    teacher = Teacher.of([0.8, 0.6], 40)
    settings = {"step_size": 1e-9, "steps": 16, "replicas": 3}
    run = online_sgd(H4, teacher, start, **settings)
    np.testing.assert_array_equal(run.half_steps, [[0.0, np.inf]] * 3)
    np.testing.assert_array_equal(run.loss_steps, [[0.0, np.inf]] * 3)
    np.testing.assert_array_equal(recovery_steps(H4, teacher, start, directions=[0], **settings)[:, 0], 0.0)
