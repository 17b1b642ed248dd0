"""Label-noise SGD, gradient descent, SAM and the oscillation chain against plain loops over all m neurons."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics import Interrupted, label_noise_sgd, linear_descent, oscillation, sam
from dynamics.core.keys import replica_keys
from dynamics.core.replicas import stretches
from dynamics.declared.step import draw_signs
from dynamics.linear.network import Network, Seen, look, moments_of, reduce
from dynamics.linear.oscillation import _advance, jump, stationary_second
from dynamics.linear.run import BLOCK, block_length, group_size
from dynamics.linear.training import advance_networks, data_of, method_of, samples_of
from theory import InputError, LinearStart, draw_linear_start, draw_linear_task
from theory.core.streams import stream
from theory.declared.rule import Rule
from theory.linear.phases import onset_level
from validation.experiments.averaged_flow import onset_steps

D, M, STEPS, ETA = 4, 12, 120, 0.02


def schedule(steps, saves):
    """(first block, number of blocks, steps per block) between saves."""
    return [(x.first, x.blocks, x.length) for x in stretches(steps, saves, block_length(steps, saves))]


@pytest.fixture(scope="module")
def task():
    return draw_linear_task(D, 0.7, 30, 1)


@pytest.fixture(scope="module")
def start():
    return draw_linear_start(M, D, 2, replicas=2)


def _samples(task, *, batch, seed, replica, noise=0.0, flip=0.0, period=None, steps=STEPS, saves=4):
    """The samples that the simulator draws, step after step: inputs (steps, batch, d) and labels."""
    law, size = ("flips", flip) if task.classes else ("signs", noise)
    method = method_of(task, M, Rule(1.0, batch, size, noise_law=law, noise_period=period or 0))
    data, key = data_of(task, moments_of(task), 1.0), replica_keys(seed, replica + 1, "linear network", "samples")
    parts = [
        samples_of(method, data, jax.random.fold_in(key[replica], number), number * length + jnp.arange(length))[:2]
        for first, blocks, length in schedule(steps, saves)
        for number in range(first, first + blocks)
    ]
    return [np.concatenate(x) for x in zip(*parts, strict=True)]


def _gradient(w, a, x, y):
    """Gradient of ½ mean (aᵀWx − y)² by its definition, neuron by neuron."""
    residual = (x @ (w.T @ a) - y) / len(y)
    mean = residual @ x
    return a[:, None] * mean, w @ mean


def _plain(start, replica, inputs, labels, radius=0.0):
    """All m neurons, no reduction."""
    w, a = start.first[replica].copy(), start.second[replica].copy()
    for x, y in zip(inputs, labels, strict=True):
        gw, ga = _gradient(w, a, x, y)
        if radius:
            reach = radius / np.sqrt(np.sum(gw**2) + np.sum(ga**2))
            gw, ga = _gradient(w + reach * gw, a + reach * ga, x, y)
        w, a = w - ETA * gw, a - ETA * ga
    return w, a


def _matches(run, replica, w, a, start, target):
    norm2 = np.sum(w**2, axis=1)
    assert np.allclose(run.values("norm2")[replica, -1], norm2, rtol=1e-11)
    assert np.allclose(run.values("second")[replica, -1], a, rtol=1e-10, atol=1e-13)
    assert np.allclose(run.values("theta")[replica, -1], w.T @ a, rtol=1e-10, atol=1e-13)
    cosine = w @ target / np.sqrt(norm2) / np.linalg.norm(target)
    assert np.allclose(run.values("overlap")[replica, -1, :, 0], cosine, atol=1e-11)
    assert np.allclose(run.values("mean_alignment")[replica, -1], np.abs(cosine).mean(), rtol=1e-11)
    assert np.allclose(run.values("mean_norm")[replica, -1], np.sqrt(norm2).mean(), rtol=1e-11)
    assert np.allclose(run.values("top_share")[replica, -1], np.linalg.norm(w, 2) / np.linalg.norm(w), rtol=1e-10)
    assert np.allclose(run.values("loss")[replica, -1], 0.5 * np.sum((w.T @ a - target) ** 2), rtol=1e-10)


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("batch", [1, 3])
def test_label_noise_sgd_is_the_plain_loop_over_all_neurons(task, start, batch):
    run = label_noise_sgd(
        task, start, step_size=ETA, steps=STEPS, noise=0.5, batch=batch, replicas=2, seed=5, saves=4, tracked=M
    )
    for replica in range(2):
        samples = _samples(task, batch=batch, seed=5, replica=replica, noise=0.5)
        _matches(run, replica, *_plain(start, replica, *samples), start, task.target)
    train = 0.5 * np.mean((task.inputs @ (run.values("theta")[0, -1] - task.target)) ** 2)
    assert np.allclose(run.values("train_loss")[0, -1], train, rtol=1e-10)


def test_fresh_samples_and_a_shared_start(start):
    task, shared = draw_linear_task(D, 0.7, None, 0), LinearStart(start.first[0], start.second[0])
    run = label_noise_sgd(task, shared, step_size=ETA, steps=STEPS, noise=0.5, replicas=2, seed=3, saves=4, tracked=M)
    own = LinearStart(np.stack([shared.first] * 2), np.stack([shared.second] * 2))
    for replica in range(2):
        samples = _samples(task, batch=1, seed=3, replica=replica, noise=0.5)
        _matches(run, replica, *_plain(own, replica, *samples), shared, task.target)


def test_sam_is_the_plain_loop(task, start):
    for batch in (1, 2):
        run = sam(task, start, radius=0.3, step_size=ETA, steps=STEPS, batch=batch, replicas=2, saves=4, tracked=M)
        samples = _samples(task, batch=batch, seed=0, replica=1)
        _matches(run, 1, *_plain(start, 1, *samples, radius=0.3), start, task.target)


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_full_batch_methods_see_the_whole_training_set(task, start, radius):
    steps = 32  # near the minimum SAM divides by a vanishing gradient and magnifies rounding
    run = sam(task, start, radius=radius, step_size=ETA, steps=steps, batch=None, replicas=2, saves=4, tracked=M)
    whole = [task.inputs] * steps, [task.inputs @ task.target] * steps
    _matches(run, 1, *_plain(start, 1, *whole, radius=radius), start, task.target)
    if radius == 0:
        descent = linear_descent(task, start, step_size=ETA, steps=steps, replicas=2, saves=4)
        assert np.array_equal(descent.values("theta"), run.values("theta"))


def test_the_linearised_model_is_linear_regression_in_its_features(task, start):
    run = label_noise_sgd(task, start, step_size=ETA, steps=STEPS, noise=0.5, replicas=2, saves=4, linearised=True)
    inputs, labels = _samples(task, batch=1, seed=0, replica=0, noise=0.5)
    w, a = start.first[0], start.second[0]
    move_w, move_a = np.zeros_like(w), np.zeros_like(a)
    for x, y in zip(inputs[:, 0], labels[:, 0], strict=True):
        output = a @ w @ x + a @ move_w @ x + move_a @ w @ x
        move_w, move_a = (
            move_w - ETA * (output - y) * np.outer(a, x),
            move_a - ETA * (output - y) * w @ x,
        )
    assert np.allclose(run.values("norm2")[0, -1], np.sum((w + move_w) ** 2, axis=1), rtol=1e-11)
    assert np.allclose(run.values("second")[0, -1], a + move_a, rtol=1e-10)
    # What is recorded is the loss of that model, not of the network with its weights.
    theta = (w + move_w).T @ a + w.T @ move_a
    assert np.allclose(run.values("theta")[0, -1], theta, rtol=1e-9)
    assert run.values("loss")[0, -1] == pytest.approx(np.sum((theta - task.target) ** 2) / 2, rel=1e-9)
    assert run.values("train_loss")[0, -1] == pytest.approx(
        np.mean((task.inputs @ (theta - task.target)) ** 2) / 2, rel=1e-9
    )
    whole = (w + move_w).T @ (a + move_a)
    assert np.linalg.norm(theta - whole) > 1e-3 * np.linalg.norm(whole)


def test_noise_comes_and_goes_with_the_period(task):
    inputs, labels = _samples(task, batch=2, seed=0, replica=0, noise=0.5, period=40)
    noise = labels - inputs @ task.target
    on = (np.arange(STEPS) // 40) % 2 == 0
    assert np.allclose(np.abs(noise[on]), 0.5)
    assert np.allclose(noise[~on], 0.0, atol=1e-14)
    assert abs(noise[on].mean()) < 4 * 0.5 / np.sqrt(noise[on].size)


def test_flipped_classes_are_the_other_class_with_the_given_probability():
    task = draw_linear_task(D, 0.7, None, 0, classes=True)
    inputs, labels = _samples(task, batch=1, seed=0, replica=0, flip=0.3, steps=4000)
    flipped = labels != np.sign(inputs[..., 0])
    assert set(np.unique(labels)) == {-1.0, 1.0}
    assert abs(flipped.mean() - 0.3) < 4 * np.sqrt(0.21 / 4000)


@pytest.mark.parametrize("seed", [0, 1])
def test_training_points_are_drawn_uniformly(seed):
    task = draw_linear_task(1, 1.0, 7, seed)
    inputs, _ = _samples(task, batch=1, seed=seed, replica=0, steps=7000)
    counts = np.array([np.sum(inputs == x) for x in task.inputs])
    assert np.sum((counts - 1000) ** 2 / 1000) < 6 + 4 * np.sqrt(12)


def test_the_oscillation_is_the_plain_loop(task):
    start = draw_linear_start(M, D, 2)
    run = oscillation(task, start, step_size=ETA, steps=STEPS, replicas=2, seed=4, saves=4, tracked=M)
    a = stationary_second(ETA, M, stream(4, "oscillation", "second layer", replica=1))
    w, key = start.first.copy(), replica_keys(4, 2, "oscillation", "signs")[1]
    covariance, cross, _ = task.moments
    for first, blocks, length in schedule(STEPS, 4):
        for number in range(first, first + blocks):
            for signs in np.asarray(draw_signs(jax.random.fold_in(key, number), (length, M))):
                w = w - ETA * np.outer(a, covariance @ (w.T @ a) - cross)
                a = np.where(a == 0, ETA**0.25 * signs, 0.0)
    _matches(run, 1, w, a, start, task.target)


def test_the_chain_has_three_states_and_returns_to_zero():
    second, key = jnp.array([0.5, 0.0, -0.5]), jax.random.key(0)
    signs = jnp.array([1.0, -1.0, 1.0])
    assert np.array_equal(jump(jnp.asarray(0.5), second, signs), [0.0, -0.5, 0.0])
    drawn = np.asarray(draw_signs(key, (4000,)))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.mean()) < 4 / np.sqrt(4000)
    shares = stationary_second(1.0, 4000, np.random.default_rng(0))
    assert abs(np.mean(shares == 0) - 0.5) < 4 * 0.5 / np.sqrt(4000)


def test_a_wide_network_is_reduced_without_loss(start):
    basis, reduced = reduce(start, 2)
    assert basis.shape == (2, M, D + 1)
    assert np.allclose(basis @ reduced.first, start.first, atol=1e-14)
    narrow = draw_linear_start(2, D, 0)
    basis, reduced = reduce(narrow, 3)
    assert basis.shape == (1, 2, 2)
    assert np.allclose(basis[0] @ reduced.second[2], narrow.second, atol=1e-14)


def test_what_is_looked_at_in_a_reduction_is_that_of_the_network(task, start):
    """Of a wide network in the middle of a run; the linearised one, too."""
    basis, reduced = reduce(start, 2)
    rng, losses = np.random.default_rng(2), (moments_of(task, population=True), moments_of(task))
    rows, begun = basis[1], Network(reduced.first[1], reduced.second[1])
    now = Network(*(x + 0.1 * rng.standard_normal(x.shape) for x in begun))
    whole = [Network(rows @ x.first, rows @ x.second) for x in (begun, now)]
    for linearised in (False, True):
        seen = look(losses, jnp.asarray(task.target), 3, begun, now, linearised, rows)
        plain = look(losses, jnp.asarray(task.target), 3, *whole, linearised)
        for name in Seen._fields:
            assert np.allclose(getattr(seen, name), getattr(plain, name), rtol=1e-12, atol=1e-14), name


def test_the_last_block_of_a_run_is_no_code_of_its_own(task, start):
    """Runs of 120 steps end with a shorter block, those of 100 do not."""
    assert STEPS % BLOCK
    shared = LinearStart(start.first[0], start.second[0])
    for simulate, code in ((partial(label_noise_sgd, noise=0.31), advance_networks), (oscillation, _advance)):
        code.clear_cache()
        for steps in (STEPS, 2 * BLOCK):
            simulate(task, shared, step_size=ETA, steps=steps, saves=1)
        assert code._cache_size() == 1


def test_a_path_depends_on_its_own_number_and_the_seed_only(task, start):
    shared = LinearStart(start.first[0], start.second[0])
    few, many, other = (
        label_noise_sgd(task, shared, step_size=ETA, steps=STEPS, noise=0.5, replicas=r, seed=s, saves=4)
        for r, s in ((2, 0), (4, 0), (2, 1))
    )
    assert np.allclose(few.values("theta"), many.values("theta")[:2], rtol=1e-12, atol=1e-15)
    assert not np.allclose(few.values("theta"), other.values("theta"))
    assert not np.allclose(few.values("theta")[0, -1], few.values("theta")[1, -1])


def test_neurons_escape_when_they_have_moved_by_one_over_root_m(task, start):
    run = label_noise_sgd(task, start, step_size=ETA, steps=STEPS, noise=6.0, replicas=2, seed=5, saves=24, tracked=M)
    inputs, labels = _samples(task, batch=1, seed=5, replica=0, noise=6.0, saves=24)
    w, a, first = start.first[0].copy(), start.second[0].copy(), np.full(M, np.inf)
    for number, (x, y) in enumerate(zip(inputs, labels, strict=True), 1):
        gw, ga = _gradient(w, a, x, y)
        w, a = w - ETA * gw, a - ETA * ga
        out = np.linalg.norm(w - start.first[0], axis=1) > 1 / np.sqrt(M)
        if number % (STEPS // 24) == 0:  # looked at only then
            first[np.isinf(first) & out] = number
    assert np.array_equal(run.escape_steps[0], first)
    assert np.isfinite(first).any()


def test_saves_and_blocks():
    assert schedule(120, 4) == [(0, 1, 30), (1, 1, 30), (2, 1, 30), (3, 1, 30)]
    parts = schedule(10 * BLOCK + 7, 2)
    assert sum(blocks * length for _, blocks, length in parts) == 10 * BLOCK + 7
    assert [group_size(n) for n in (1, 7, 11, 32)] == [1, 7, 1, 8]


def test_an_unstable_run_is_marked_as_diverged(task, start):
    run = label_noise_sgd(task, start, step_size=20.0, steps=STEPS, noise=0.5, replicas=2, saves=4)
    assert run.diverged.all()
    assert np.isnan(run.values("loss")[:, -1]).all()


@pytest.mark.parametrize("size", [0.0, 1e-6])
def test_a_run_that_learns_from_next_to_nothing_has_not_diverged(task, size):
    start = LinearStart(np.full((4, task.dim), size), np.full(4, size))
    run = oscillation(task, start, step_size=1e-2, steps=STEPS, replicas=64, saves=4)
    assert not run.diverged.any()
    assert np.isfinite(run.values("loss")).all()


@pytest.mark.parametrize("run", [label_noise_sgd, partial(sam, radius=0.1), linear_descent, oscillation])
def test_an_interrupted_run_keeps_what_was_done(task, start, run):
    def stop(fraction, text):
        if fraction > 0.4:
            raise KeyboardInterrupt

    options = {"step_size": ETA, "steps": STEPS, "replicas": 2, "saves": 4}
    with pytest.raises(Interrupted) as stopped:
        run(task, start, **options, progress=stop)
    part, whole = stopped.value.result, run(task, start, **options)
    assert part.steps == 60
    assert part.dataset.sizes["time"] == 3
    assert part.dataset.drop_attrs().identical(whole.dataset.isel(time=slice(3)).drop_attrs())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": -1.0}, "noise is -1.0: give a finite number, 0 or more"),
        ({"flip": 0.2}, "flip is 0.2 on real labels: give noise instead, or a task with classes"),
        ({"steps": 0}, "steps is 0: give a whole number, 1 or more"),
        ({"batch": 1.5}, "batch is 1.5: give a whole number, 1 or more"),
        ({"period": 0}, "period is 0: give a whole number, 1 or more"),
        ({"step_size": float("nan")}, "step_size is nan: give a positive finite number"),
        ({"replicas": 3}, "start has 2 replicas: give replicas=2 or a shared start"),
        ({"seed": 1.0}, "seed is 1.0: give a whole number, 0 or more"),
    ],
)
def test_bad_input_is_refused(task, start, change, message):
    options = {"step_size": ETA, "steps": 4, "replicas": 2} | change
    with pytest.raises(InputError, match=f"^{message}$"):
        label_noise_sgd(task, start, **options)


def test_bad_radius_dimension_and_classes_are_refused(task, start):
    with pytest.raises(InputError, match=r"radius is -0\.1"):
        sam(task, start, radius=-0.1, step_size=ETA, steps=4, replicas=2)
    with pytest.raises(InputError, match="start has input dimension 4, task 5"):
        linear_descent(draw_linear_task(5, 1.0, None, 0), start, step_size=ETA, steps=4)
    with pytest.raises(InputError, match=r"noise is 0\.5 on class labels"):
        label_noise_sgd(
            draw_linear_task(D, 1.0, None, 0, classes=True), start, step_size=ETA, steps=4, noise=0.5, replicas=2
        )
    with pytest.raises(InputError, match="target_norm is 0"):
        draw_linear_task(4, 0, None, 0)


def test_the_onset_of_one_replica_is_its_crossing_and_of_many_that_of_their_mean() -> None:
    """Pseudo-values of straight lines, whose mean crosses the level at a time that is known."""
    level, step = onset_level(4), np.array([0.0, 10.0, 20.0])

    def run(slopes: list[float]) -> Any:
        return SimpleNamespace(
            step=step, values=lambda name: np.outer(slopes, step) if name == "mean_alignment" else None
        )

    slopes = [level / 8, level / 10, level / 14]
    assert onset_steps(run(slopes[:1]), 4) == pytest.approx([8.0])
    found, mean = onset_steps(run(slopes), 4), level / np.mean(slopes)
    left = [level / np.mean(np.delete(slopes, i)) for i in range(3)]
    np.testing.assert_allclose(found, 3 * mean - 2 * np.array(left))
    assert np.isinf(onset_steps(run([0.0, 1e-9]), 4)).all()
