"""Networks on images: flips, tangent kernel and linearisation, training, checkpoints, merging, loaders."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.signal import correlate2d

from dynamics.core.keys import stream_key
from dynamics.networks import (
    Comparison,
    ImageSet,
    LazyRich,
    ResNet,
    Training,
    checkpoint,
    cifar10,
    compare_algorithms,
    digits,
    draw_resnet,
    lazy_rich,
    load_images,
    merge_features,
    prune_networks,
    train,
)
from dynamics.networks.algorithms import Compared
from dynamics.networks.fully_connected import FullyConnected, draw_network, outputs, tangent_kernel
from dynamics.networks.images import META, TEST_BATCH, TRAIN_BATCHES
from dynamics.networks.labels import flipped
from dynamics.networks.lazy_rich import CLEAN, NOISY, SAM
from dynamics.networks.linearised import LinearState, expected_loss, linear_step, modes
from dynamics.networks.merging import groups, merge_rows
from dynamics.networks.residual import RESNET18, Block, Folded, Unit, folded, trained_part
from dynamics.networks.training import RECORDS, Trained, cross_entropy, evaluate
from theory import InputError
from theory.linear.label_flips import REPLACEMENTS, LabelFlips, derivation, variance_function

F64, F32 = jnp.dtype(jnp.float64), jnp.dtype(jnp.float32)


@pytest.fixture(scope="module")
def toy() -> ImageSet:
    """64 + 20 images of 4 × 4 pixels in three classes that a small network can tell apart."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (3, 4, 4, 1))
    labels = rng.integers(0, 3, 84).astype(np.int32)
    images = (patterns[labels] + rng.integers(0, 55, (84, 4, 4, 1))).astype(np.uint8)
    return ImageSet("toy", ("a", "b", "c"), images[:64], labels[:64], images[64:], labels[64:])


TINY = Training(epochs=3, batch=16, widths=(3, 4), blocks=1)

# ------------------------------------------------------------------------ labels


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_flips_are_derived_and_drawn_alike(replacement: str) -> None:
    assert derivation(replacement).verify() == 4
    flips = LabelFlips(0.4, 5, replacement)
    labels = jnp.full(200_000, 2)
    drawn = np.asarray(jax.nn.one_hot(flipped(jax.random.key(1), labels, flips), 5))
    mean, expected = drawn.mean(axis=0), flips.mean_label(np.eye(5)[2])
    error = 4 * np.sqrt(expected * (1 - expected) / len(labels))
    assert np.all(np.abs(mean - expected) <= error)
    wrong = LabelFlips(0.4, 5, "any" if replacement == "other" else "other").mean_label(np.eye(5)[2])
    assert np.any(np.abs(mean - wrong) > error)
    assert np.allclose(np.cov(drawn.T, bias=True), flips.covariance(np.eye(5)[2]), atol=0.005)


def test_plateau_of_the_published_experiment() -> None:
    flips = LabelFlips(0.5, 10, "any")
    assert np.allclose(flips.mean_label(np.eye(10)), 0.5 * np.eye(10) + 0.05)
    assert flips.plateau == pytest.approx(0.01125, abs=1e-15)


def test_variance_of_a_mode_by_iteration() -> None:
    value = 0.0
    for _ in range(30):
        value = 0.7**2 * value + 0.3**2 * 2.0
    assert variance_function()(0.3, 2.0, 30) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("bad", [{"probability": -0.1}, {"probability": 1.1}, {"probability": 0.1, "classes": 1}])
def test_bad_flips_are_refused(bad: dict) -> None:
    with pytest.raises(InputError, match=r"give"):
        LabelFlips(**bad)


# ------------------------------------------------------------------------ lazy or rich


@pytest.fixture(scope="module")
def wide() -> tuple[FullyConnected, jax.Array]:
    network = draw_network(jax.random.key(0), 5, 12, 3, F64)
    return network, jax.random.normal(jax.random.key(1), (4, 5), F64)


def test_weights_have_variance_one_over_their_inputs_and_biases_one() -> None:
    drawn = draw_network(jax.random.key(3), 50, 400, 30, F64)
    for weights, fan_in in zip(jax.tree.leaves(drawn), (50, 1, 400, 1), strict=True):
        scale = np.asarray(weights).std() * np.sqrt(fan_in)
        assert scale == pytest.approx(1.0, abs=4 / np.sqrt(2 * weights.size))


def _explicit_kernel(network: FullyConnected, x: jax.Array) -> np.ndarray:
    jacobian = jax.jacrev(outputs)(network, x)
    rows = np.concatenate([np.asarray(leaf).reshape(x.shape[0] * 3, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    return rows @ rows.T


def test_tangent_kernel_is_that_of_the_jacobian(wide: tuple[FullyConnected, jax.Array]) -> None:
    network, x = wide
    kernel = np.asarray(tangent_kernel(network, x, x))
    assert np.allclose(kernel, _explicit_kernel(network, x), rtol=0, atol=1e-12 * np.abs(kernel).max())


@pytest.mark.parametrize("radius", [None, 0.3])
def test_linear_step_is_a_step_of_the_linearised_parameters(
    wide: tuple[FullyConnected, jax.Array], radius: float | None
) -> None:
    """Function space against parameters: `jax.linearize`, gradient, (SAM's inner step,) step."""
    network, x = wide
    labels, eta = jax.random.normal(jax.random.key(2), (4, 3), F64), 0.05
    start, push = jax.linearize(lambda n: outputs(n, x), network)
    kernel = tangent_kernel(network, x, x)
    state = LinearState(start.ravel(), jnp.zeros(12))
    moved = jax.tree.map(jnp.zeros_like, network)

    def loss(m: FullyConnected) -> jax.Array:
        return 0.5 * jnp.mean((start + push(m) - labels) ** 2)

    for _ in range(20):
        gradient = jax.grad(loss)(moved)
        if radius is not None:
            length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
            gradient = jax.grad(loss)(jax.tree.map(lambda w, g, s=radius / length: w + s * g, moved, gradient))
        moved = jax.tree.map(lambda w, g: w - eta * g, moved, gradient)
        state = linear_step(kernel, state, labels.ravel(), jnp.asarray(eta / 12), radius)
    assert np.allclose(state.outputs, (start + push(moved)).ravel(), rtol=0, atol=1e-12)
    assert float(jnp.abs(state.outputs - start.ravel()).max()) > 1e-2


def test_expected_loss_by_simulation(wide: tuple[FullyConnected, jax.Array]) -> None:
    network, x = wide
    flips, labels = LabelFlips(0.5, 3, "any"), jnp.array([0, 1, 2, 1])
    kernel, start = tangent_kernel(network, x, x), outputs(network, x)
    one_hot = jax.nn.one_hot(labels, 3, dtype=F64)
    found = modes(np.asarray(kernel), np.asarray(start), np.asarray(one_hot), flips)
    eta = 0.8 / found.multiplier.max()

    def run(key: jax.Array) -> jax.Array:
        def step(t: jax.Array, state: LinearState) -> LinearState:
            target = jax.nn.one_hot(flipped(jax.random.fold_in(key, t), labels, flips), 3, dtype=F64)
            return linear_step(kernel, state, target.ravel(), jnp.asarray(eta / 12))

        state = jax.lax.fori_loop(0, 60, step, LinearState(start.ravel(), jnp.zeros(12)))
        return 0.5 * jnp.mean((state.outputs - one_hot.ravel()) ** 2)

    losses = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 4000)))
    predicted, error = expected_loss(found, eta, np.array([60]))[0], losses.std() / np.sqrt(len(losses))
    assert abs(losses.mean() - predicted) <= 4 * error
    noiseless = expected_loss(found._replace(noise=0 * found.noise), eta, np.array([60]))[0]
    assert abs(losses.mean() - noiseless) > 4 * error


@pytest.mark.slow
def test_lazy_rich_approaches_its_linearisation_with_width(toy: ImageSet) -> None:
    departure = [
        lazy_rich(toy, LazyRich(images=6, hidden=width, step_size=0.01, steps=200, replicas=4, saves=2, radius=0.01))
        .dataset.departure.isel(time=-1)
        .mean("replica")
        for width in (16, 512)
    ]
    for arm in (CLEAN, NOISY):
        assert float(departure[1].sel(arm=arm)) < 0.2 * float(departure[0].sel(arm=arm))
    assert np.isfinite(float(departure[1].sel(arm=SAM)))


@pytest.mark.parametrize(("steps", "replicas"), [(8, 1), pytest.param(40, 2, marks=pytest.mark.slow)])
def test_lazy_rich_arms_share_the_start_and_resume_bit_by_bit(
    toy: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, replicas: int
) -> None:
    save = checkpoint.save
    experiment = LazyRich(images=4, hidden=8, step_size=0.05, steps=steps, replicas=replicas, saves=4)
    told: list[float] = []
    whole = lazy_rich(toy, experiment, folder=tmp_path / "a", progress=lambda share, _: told.append(share)).dataset
    assert (
        whole.step.values.tolist() == np.linspace(0, steps, 5).tolist()
    )  # the start, and as many times as `saves` says
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)
    assert np.ptp(whole.loss_train.isel(time=0).values, axis=(1, 2)).max() < 1e-12

    def stop(fraction: float, text: str) -> None:
        if fraction > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lazy_rich(toy, experiment, folder=tmp_path / "b", progress=stop)
    again = lazy_rich(toy, experiment, folder=tmp_path / "b", resume=True).dataset
    assert again.identical(whole)
    saved: list[Path] = []

    def third(path: Path, *what: Any) -> None:
        """In the middle of an arm."""
        if len(saved) == 3:
            raise KeyboardInterrupt
        saved.append(path)
        save(path, *what)

    monkeypatch.setattr(checkpoint, "save", third)
    with pytest.raises(KeyboardInterrupt):
        lazy_rich(toy, experiment, folder=tmp_path / "c")
    monkeypatch.setattr(checkpoint, "save", save)
    assert lazy_rich(toy, experiment, folder=tmp_path / "c", resume=True).dataset.identical(whole)
    with pytest.raises(InputError, match=r"checkpoint .* was written with hidden|another network"):
        lazy_rich(toy, replace(experiment, hidden=9), folder=tmp_path / "b", resume=True)
    with pytest.raises(InputError, match="was written with seed 0, not 1"):
        lazy_rich(toy, replace(experiment, seed=1), folder=tmp_path / "b", resume=True)


def test_too_large_a_step_is_refused_with_the_bound(toy: ImageSet) -> None:
    with pytest.raises(InputError, match=r"stable below"):
        lazy_rich(toy, LazyRich(images=4, hidden=8, step_size=50.0, steps=10, replicas=1))


def test_a_step_just_below_the_bound_that_is_said_is_one_for_all_replicas(toy: ImageSet) -> None:
    """Initial kernels of few neurons differ by tens of per cent: the bound is the least, said before a replica has run."""
    experiment, told = LazyRich(images=4, hidden=8, step_size=50.0, steps=3, replicas=4, saves=1), []
    with pytest.raises(InputError, match=r"stable below ([\d.]+)") as refusal:
        lazy_rich(toy, experiment, progress=lambda _, text: told.append(text))
    assert not told
    bound = float(re.search(r"below ([\d.]+)", str(refusal.value))[1])
    ends = lazy_rich(toy, replace(experiment, step_size=0.999 * bound)).ends
    # Bounds by the kernels' own modes; four digits of it are printed.
    assert bound == pytest.approx(min(2 / end[CLEAN].modes.multiplier.max() for end in ends), rel=1e-3)


# ------------------------------------------------------------------------ training


def test_resnet18_has_its_published_size() -> None:
    shapes = jax.eval_shape(lambda k: draw_resnet(k, 3, 10, *RESNET18, F32), jax.random.key(0))
    weights = [leaf.shape for leaf in jax.tree.leaves(shapes)]
    total = sum(int(np.prod(shape)) for shape in weights)
    # 11 173 962 trained parameters, and as many running statistics as scales and shifts (9600).
    assert total == 11_173_962 + 9600
    images = jax.ShapeDtypeStruct((2, 32, 32, 3), F32)
    logits, _ = eqx.filter_eval_shape(lambda n, x: n(x, True), shapes, images)
    assert logits.shape == (2, 10)


@pytest.mark.parametrize("side", [False, True])
def test_a_block_adds_what_comes_in_to_two_convolutions(side: bool) -> None:
    """Of one channel, by SciPy's correlations; a shortcut of its own multiplies by 2 and adds 1."""
    rng = np.random.default_rng(0)
    (one, other), image = rng.standard_normal((2, 3, 3)), rng.standard_normal((5, 5))
    layers = [
        Folded(jnp.asarray(x)[None, None], jnp.full(1, b), 1)
        for x, b in ((one, 0.3), (other, -0.2), (2 * np.eye(1), 1.0))
    ]
    found = Block(layers[0], layers[1], layers[2] if side else None)(jnp.asarray(image)[None, ..., None], False)[0]
    hidden = np.maximum(correlate2d(image, one, "same") + 0.3, 0)
    beside = 2 * image + 1 if side else image
    expected = np.maximum(correlate2d(hidden, other, "same") - 0.2 + beside, 0)
    np.testing.assert_allclose(found[0, ..., 0], expected, rtol=1e-5, atol=1e-5)


def test_a_residual_network_starts_with_outputs_of_the_size_of_its_features() -> None:
    """Variances 1/fan-in of the head and 2/fan-in of the stem, within four standard errors."""
    start = draw_resnet(jax.random.key(0), 3, 100, (64, 100), 1, F64)
    for weights, variance in ((start.head, 1 / 100), (start.stem.weight, 2 / 27)):
        assert float(jnp.var(weights)) == pytest.approx(variance, rel=4 * np.sqrt(2 / weights.size))


def test_a_residual_network_starts_as_a_homogeneous_function_without_bias() -> None:
    """What normalises has gain 1 and shift 0, around a running mean of 0 and variance of 1."""
    start = draw_resnet(jax.random.key(0), 1, 3, (4,), 1, F64)
    images = jnp.asarray(np.random.default_rng(0).standard_normal((2, 4, 4, 1)))
    once, thrice = start(images)[0], start(3 * images)[0]
    assert float(jnp.abs(once[0] - once[1]).min()) > 1e-3
    np.testing.assert_allclose(thrice, 3 * once, rtol=1e-9)


def test_running_statistics_go_to_those_of_what_is_seen_again_and_again() -> None:
    """A tenth of the way at each look; in training the batch's own are used, and one channel's do not mix with another's."""
    rng = np.random.default_rng(0)
    x, weight = jnp.asarray(rng.standard_normal((6, 5, 5, 2)) + 3.0), jnp.asarray(rng.standard_normal((3, 2, 1, 1)))
    seen = np.einsum("nhwc,oc->onhw", x, weight[..., 0, 0]).reshape(3, -1)
    mean, variance = jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([4.0, 5.0, 6.0])
    unit = Unit(weight, jnp.ones(3), jnp.zeros(3), mean, variance, 1)
    for looks in range(1, 4):
        out, unit = unit(x, training=True)
        np.testing.assert_allclose(unit.mean, seen.mean(axis=1) + 0.9**looks * (mean - seen.mean(axis=1)))
        np.testing.assert_allclose(unit.variance, seen.var(axis=1) + 0.9**looks * (variance - seen.var(axis=1)))
        np.testing.assert_allclose(out.mean(axis=(0, 1, 2)), 0.0, atol=1e-12)
    still, same = unit(x, training=False)
    np.testing.assert_array_equal(same.mean, unit.mean)
    assert np.all(np.abs(still.mean(axis=(0, 1, 2))) > 0.01)


@pytest.mark.slow
def test_training_learns_and_label_noise_costs_training_loss(toy: ImageSet) -> None:
    told: list[float] = []
    experiment = Comparison(replace(TINY, epochs=12), (0.3,), (0.05,), replicas=2)
    compared = compare_algorithms(toy, experiment, progress=lambda share, _: told.append(share))
    assert told == pytest.approx(np.arange(1, 73) / 72)  # of 12 epochs in each of 3 arms and 2 replicas
    last = compared.dataset.isel(epoch=-1).mean("replica")
    assert float(last.test_accuracy.sel(arm="sgd")) > 0.8
    assert float(last.train_loss.sel(arm="label-noise-0.3")) > float(last.train_loss.sel(arm="sgd")) + 0.2
    assert compared.diverged == 0
    pruned = prune_networks(toy, experiment, compared)
    assert np.allclose(pruned.accuracy_by_share.isel(share=0), compared.dataset.test_accuracy.isel(epoch=-1))
    assert np.all(np.diff(pruned.kept_by_share.values) <= 0)


def test_arms_and_replicas_are_trained_and_recorded_in_their_places(
    toy: ImageSet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Arms differ in flips and radius only, replicas share seeds among arms; a run that ended early is filled up."""
    runs: list[tuple[Training, Path | None, bool]] = []
    told: list[tuple[float, str]] = []

    def trained(images: ImageSet, training: Training, *, path: Path, resume: bool, progress: Callable) -> Trained:
        runs.append((training, path, resume))
        progress(0.5, "half")
        epochs = 1 if len(runs) == 4 else 3
        return Trained(network, {name: [100 * k + 10 * len(runs) + e for e in range(epochs)] for k, name in names})

    names = list(enumerate(RECORDS))
    network = draw_resnet(jax.random.key(0), 1, 3, (2,), 1, F32)
    monkeypatch.setattr("dynamics.networks.algorithms.train", trained)
    setting = replace(TINY, flip_probability=0.7, radius=0.4, seed=5)
    comparison = Comparison(setting, (0.3,), (0.05,), replicas=2)
    compared = compare_algorithms(toy, comparison, folder=tmp_path, resume=True, progress=lambda *x: told.append(x))

    arms = {"sgd": (0.0, 0.0), "label-noise-0.3": (0.3, 0.0), "sam-0.05": (0.0, 0.05)}
    assert [(x.flip_probability, x.radius) for x, *_ in runs] == [x for x in arms.values() for _ in range(2)]
    assert [path.name for _, path, _ in runs] == [f"{arm}-{k}.npz" for arm in arms for k in range(2)]
    assert all(resume and path.parent == tmp_path for _, path, resume in runs)
    seeds = [x.seed for x, *_ in runs]
    assert seeds == seeds[:2] * 3
    assert len({5, *seeds}) == 3
    assert {replace(x, flip_probability=0, radius=0, seed=0) for x, *_ in runs} == {replace(TINY, seed=0)}
    assert [share for share, _ in told] == pytest.approx((np.arange(6) + 0.5) / 6)
    assert told[3][1] == "label-noise-0.3, replica 2: half"

    expected = 10.0 * np.arange(1, 7).reshape(3, 2, 1) + np.arange(3)
    expected[1, 1, 1:] = np.nan
    for k, name in names:
        found = compared.dataset[name]
        assert found.dims == ("arm", "replica", "epoch")
        np.testing.assert_array_equal(found, 100 * k + expected)
    assert compared.dataset.arm.values.tolist() == list(arms)
    assert compared.dataset.epoch.values.tolist() == [1, 2, 3]
    assert compared.diverged == 0


@pytest.mark.parametrize(
    "bad", [{"replicas": 0}, {"flip_probabilities": (0.0,)}, {"radii": (0.0,)}, {"radii": (0.1, 0.1)}]
)
def test_bad_comparisons_are_refused(bad: dict) -> None:
    with pytest.raises(InputError, match=r"give|drop"):
        Comparison(**bad)


def test_every_network_is_pruned_for_itself(toy: ImageSet) -> None:
    """Accuracies and sizes in their places: nothing merged is the network, all merged leaves one channel of the last stage.

    The first stage (2 channels) stays; of the second (4 channels in the block, 4 in the stream) half is 2.
    """
    comparison = Comparison(replace(TINY, widths=(2, 4)), (0.3,), replicas=2)
    networks = [draw_resnet(jax.random.key(k), 1, 3, (2, 4), 1, F32) for k in range(4)]
    networks[2] = eqx.tree_at(lambda x: x.head, networks[2], networks[2].head.at[0, 0].set(np.nan))
    runs = [Trained(x, {name: [0.5] for name in RECORDS}) for x in networks]
    compared = Compared(xr.Dataset(), {"sgd": runs[:2], "label-noise-0.3": runs[2:]})
    assert compared.diverged == 1
    pruned = prune_networks(toy, comparison, compared, thresholds=(0.0, np.inf), shares=(0.0, 0.5))

    def size(inner: int, stream: int) -> int:
        first = 2 * 9 + 2 + 2 * (2 * 2 * 9 + 2)  # stem, block
        second = inner * 2 * 9 + inner + stream * inner * 9 + stream + stream * 2 + stream  # block, shortcut
        return first + second + 3 * stream + 3  # head

    images = jnp.asarray(toy.standardised(per_channel=True)[1])
    whole = [float(np.mean(np.argmax(_outputs(x, images), axis=1) == toy.test_labels)) for x in networks]
    whole[2] = np.nan
    assert len({*whole}) == 4
    half = [np.nan] * 4
    for k in (0, 1, 3):
        left = merge_features(networks[k], np.inf, most=0.5).network
        half[k] = np.mean(np.argmax(_outputs(left, images), axis=1) == toy.test_labels)
    np.testing.assert_allclose(pruned.accuracy_by_share.values.reshape(4, 2), np.transpose([whole, half]))
    np.testing.assert_allclose(pruned.kept_by_share, [1, size(2, 2) / size(4, 4)])
    np.testing.assert_allclose(pruned.accuracy_by_threshold[..., 0].values.ravel(), whole)
    kept = np.array([1, size(1, 1) / size(4, 4)]) * np.ones((4, 1))
    kept[2] = np.nan
    np.testing.assert_allclose(pruned.kept_by_threshold.values.reshape(4, 2), kept)


def test_a_sharpness_aware_step_takes_the_gradient_a_radius_uphill(toy: ImageSet) -> None:
    """One step on all images; uphill by the radius, whatever the gradient's length, which is far from 1."""
    training = replace(TINY, epochs=1, batch=64, radius=0.3, double=True)
    start = draw_resnet(stream_key(0, "network training", "start"), 1, 3, training.widths, training.blocks, F64)
    weights, statistics = eqx.partition(start, trained_part(start))

    def loss(weights: ResNet) -> jax.Array:
        images = jnp.asarray(toy.standardised(per_channel=True)[0], F64)
        logits, _ = eqx.combine(weights, statistics)(images, training=True)
        return cross_entropy(logits, jnp.asarray(toy.train_labels))

    slope = jax.jit(jax.grad(loss))
    gradient = slope(weights)
    length = float(jnp.linalg.norm(jnp.concatenate([x.ravel() for x in jax.tree.leaves(gradient)])))
    assert abs(length - 1) > 0.2
    uphill = slope(jax.tree.map(lambda w, g: w + training.radius / length * g, weights, gradient))
    trained = train(toy, training).network
    for before, down, after in zip(
        *map(jax.tree.leaves, (weights, uphill, eqx.filter(trained, trained_part(start)))), strict=True
    ):
        np.testing.assert_allclose(after, before - training.step_size * down, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_same_seed_trains_the_same_network(toy: ImageSet) -> None:
    first, again, other = (train(toy, replace(TINY, seed=seed, flip_probability=0.2)).network for seed in (1, 1, 2))
    assert eqx.tree_equal(first, again)
    assert not eqx.tree_equal(first, other)


_VICTIM = """
import sys, pickle
from pathlib import Path
from dynamics.networks import Training, train
images = pickle.loads(Path(sys.argv[1]).read_bytes())
setting = Training(epochs=10_000, batch=16, widths=(3, 4), blocks=1, flip_probability=0.2)
train(images, setting, path=Path(sys.argv[2]), progress=lambda f, text: print(text, flush=True))
"""


@pytest.mark.slow
def test_a_killed_run_resumes_bit_by_bit(toy: ImageSet, tmp_path: Path) -> None:
    stored, path = tmp_path / "toy.pickle", tmp_path / "run.npz"
    stored.write_bytes(pickle.dumps(toy))
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(stored), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert victim.stdout is not None
    for _ in range(3):
        assert victim.stdout.readline().startswith("epoch")
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    with np.load(path) as file:
        done = len(json.loads(str(file["about"]))["records"]["test_loss"])
    setting = replace(TINY, epochs=done + 2, flip_probability=0.2)
    resumed = train(toy, setting, path=path, resume=True)
    whole = train(toy, setting)
    assert eqx.tree_equal(resumed.network, whole.network)
    assert resumed.records == whole.records


def test_a_run_continued_from_its_checkpoint_is_the_uninterrupted_one(toy: ImageSet, tmp_path: Path) -> None:
    path, setting, told = tmp_path / "run.npz", replace(TINY, epochs=2), []
    train(toy, replace(setting, epochs=1), path=path)
    resumed = train(toy, setting, path=path, resume=True, progress=lambda *x: told.append(x))
    whole = train(toy, setting)
    assert eqx.tree_equal(resumed.network, whole.network)
    assert resumed.records == whole.records
    assert told == [(1.0, f"epoch 2 of 2: {whole.records['test_accuracy'][1]:.1%}")]
    with pytest.raises(InputError, match="is the network after 2: give 2 or more"):
        train(toy, replace(setting, epochs=1), path=path, resume=True)
    afresh = train(toy, replace(setting, epochs=1), path=path)  # overwrites what is there
    assert afresh.records["test_loss"] == whole.records["test_loss"][:1]


def test_every_epoch_visits_the_images_in_a_new_order(toy: ImageSet) -> None:
    """Steps too small to move anything: batches of others, normalised by themselves, have another mean loss."""
    first, second = train(toy, replace(TINY, epochs=2, step_size=1e-12)).records["train_loss"]
    assert first == pytest.approx(second, rel=0.2)
    assert abs(first - second) > 1e-4


def test_flipped_labels_pull_on_the_bias_by_their_shares(toy: ImageSet) -> None:
    """One step from zero: what the head's bias gains per step size is the labels' shares less the mean probabilities."""
    count, tau = 640, 0.3
    images = replace(toy, train=np.tile(toy.train, (10, 1, 1, 1)), train_labels=np.zeros(count, np.int32))
    setting = replace(TINY, epochs=1, batch=count, flip_probability=tau, double=True)
    start = draw_resnet(stream_key(0, "network training", "start"), 1, 3, setting.widths, setting.blocks, F64)
    logits, _ = jax.jit(lambda x: start(x, training=True))(jnp.asarray(images.standardised(per_channel=True)[0], F64))
    probability = jax.nn.softmax(logits)
    shares = train(images, setting).network.head_bias / setting.step_size + probability.mean(axis=0)
    np.testing.assert_allclose(count * shares, np.round(count * shares), atol=1e-3)  # (images are of single precision)
    expected = np.array([1 - tau, tau / 2, tau / 2])  # (a flipped label is another one)
    assert np.all(np.abs(shares - expected) < 4 * np.sqrt(expected * (1 - expected) / count))


@pytest.mark.slow
def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(toy: ImageSet, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    train(toy, replace(TINY, epochs=1), path=path)
    with pytest.raises(InputError, match=r"was written with step_size 0\.1, not 0\.2"):
        train(toy, replace(TINY, step_size=0.2), path=path, resume=True)
    with pytest.raises(InputError, match="was written with data"):  # losses on other test images are another column
        train(replace(toy, test_labels=toy.test_labels[::-1]), TINY, path=path, resume=True)
    train(toy, replace(TINY, epochs=2), path=path, resume=True)
    with pytest.raises(
        InputError, match=r"epochs is 1, but .*run\.npz' is the network after 2: give 2 or more, or remove"
    ):
        train(toy, replace(TINY, epochs=1), path=path, resume=True)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"run\.npz' is damaged .* remove it"):
        train(toy, TINY, path=path, resume=True)


@pytest.mark.parametrize(
    "bad", [{"epochs": 0}, {"batch": 0}, {"step_size": 0.0}, {"radius": -1.0}, {"flip_probability": 2.0}, {"batch": 65}]
)
def test_bad_training_is_refused(bad: dict, toy: ImageSet) -> None:
    with pytest.raises(InputError, match=next(iter(bad)).split("_")[0]):
        train(toy, replace(TINY, **bad))


def test_a_batch_of_one_value_has_no_variance(toy: ImageSet) -> None:
    """4 × 4 images have one pixel in a third stage: less its own mean that is 0, and nothing of the image is left."""
    one = replace(TINY, batch=1, epochs=1, widths=(3, 4, 4))
    with pytest.raises(InputError, match="batch is 1, and the last of 3 stages has 1 pixel"):
        train(toy, one)
    assert not train(toy.first(4, 4), replace(one, batch=2)).diverged
    assert not train(toy.first(4, 4), replace(one, widths=(3, 4))).diverged


# ------------------------------------------------------------------------ merging


def _random_folded(widths: tuple[int, ...] = (3, 4), blocks: int = 2) -> ResNet[Folded]:
    network = folded(draw_resnet(jax.random.key(5), 1, 3, widths, blocks, F64))
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(6), len(leaves))
    return structure.unflatten([x + 0.3 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)])


@jax.jit
def _outputs(network: ResNet, x: jax.Array) -> jax.Array:
    return network(x)[0]


def _doubled(network: ResNet[Folded], first_stage: int) -> ResNet[Folded]:
    """Every channel from `first_stage` on split into two equal ones, each passing on half: the same function."""
    from dynamics.networks.merging import _rebuilt, _tensors

    tensors = _tensors(network)
    for group in groups(network, first_stage):
        for name, axis in group:
            halves = tensors[name] / 2 if axis == 0 else tensors[name]
            tensors[name] = np.concatenate([halves, halves], axis=axis)
    return _rebuilt(network, tensors)


@pytest.mark.slow_for("0")
@pytest.mark.parametrize("first_stage", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_equal_channels_merge_without_changing_the_function(first_stage: int) -> None:
    """Those of the stem and of both stages, or of the second stage only."""
    network = _random_folded()
    double = _doubled(network, first_stage)
    x = jax.random.normal(jax.random.key(7), (3, 8, 8, 1), F64)
    merged = merge_features(double, 1e-20, first_stage=first_stage)
    expected = _outputs(network, x)
    assert np.allclose(_outputs(double, x), expected, atol=1e-12)
    assert np.allclose(_outputs(merged.network, x), expected, atol=1e-12)
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(n)) for n in (network, double, merged.network)]
    assert sizes[2] == sizes[0] < sizes[1]
    assert merged.kept == sizes[0] / sizes[1]


def test_no_more_than_the_given_share_of_the_channels_is_merged() -> None:
    """However far apart they are: of the four channels of the second stage two; the first stage stays."""
    network = _random_folded()
    merged = merge_features(network, np.inf, most=0.5).network
    found = [[stage[0].first.weight.shape[0] for stage in one.stages] for one in (network, merged)]
    assert found == [[3, 4], [3, 2]]


def test_folding_keeps_the_trained_function(toy: ImageSet) -> None:
    network = train(toy, TINY).network
    x = jnp.asarray(toy.standardised(per_channel=True)[1])
    assert np.allclose(_outputs(network, x), _outputs(folded(network), x), atol=1e-5)
    assert not np.allclose(network(x)[0], network(x, True)[0], atol=1e-3)


def test_a_score_is_the_mean_over_images_however_they_are_cut(toy: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    network = train(toy, TINY).network
    x = jnp.asarray(toy.standardised(per_channel=True)[1])
    logits, _ = network(x)
    share = np.exp(logits)[np.arange(len(x)), toy.test_labels] / np.exp(logits).sum(axis=1)
    right = np.mean(np.argmax(logits, axis=1) == toy.test_labels)
    monkeypatch.setattr("dynamics.networks.training._CHUNK", 7)  # 20 images: the last piece is shorter
    loss, accuracy = evaluate(network, x, jnp.asarray(toy.test_labels))
    assert (loss, accuracy) == (pytest.approx(-np.log(share).mean(), rel=1e-5), pytest.approx(right))


def test_rows_merge_closest_first_with_multiplicity() -> None:
    rows = np.array([[0.0], [1.0], [10.0], [10.5]])
    members, multiplicity = merge_rows(rows, 0.01)  # (0.5² and 1² are below 0.01 · 10.5²; 9.75² is not)
    assert members.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert multiplicity.tolist() == [2, 2]
    assert merge_rows(rows, 0.003)[1].tolist() == [1, 1, 2]
    assert merge_rows(rows, np.inf)[1].tolist() == [4]
    assert merge_rows(rows, np.inf, 0.5)[1].tolist() == [2, 2]


@pytest.mark.parametrize("threshold", [0.0, 0.01, np.inf])
def test_equal_rows_are_one_at_any_threshold(threshold: float) -> None:
    assert merge_rows(np.ones((6, 3)), threshold)[1].tolist() == [6]
    assert merge_rows(np.ones((6, 3)), threshold, 0.5)[1].tolist() == [4, 1, 1]


@pytest.mark.slow
def test_a_diverged_network_is_not_pruned(command: Callable[..., Any]) -> None:
    """Its weights are NaN, its loss is finite: exit code 1, no accuracy, and no merging of what is not finite."""
    options = "--step-size 1e30 --epochs 1 --replicas 1 --widths 4 8 --quiet --json"
    ran = command("simulate", "pruning", *options.split())
    assert ran.code == 1, ran.err
    assert "1 of 1 replicas diverged" in ran.err
    network = _random_folded()
    broken = eqx.tree_at(lambda x: x.head, network, network.head.at[0, 0].set(np.nan))
    with pytest.raises(InputError, match="weights that are not finite"):
        merge_features(broken, 0.1)


@pytest.mark.parametrize(
    "bad", [{"threshold": -1.0}, {"threshold": 0.1, "most": 2.0}, {"threshold": 0.1, "first_stage": 9}]
)
def test_bad_merging_is_refused(bad: dict) -> None:
    with pytest.raises(InputError, match=r"give|has stages"):
        merge_features(_random_folded(), **bad)


# ------------------------------------------------------------------------ data


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    """A folder like CIFAR-10's, with four images per batch, written as the original was (protocol 2, byte keys)."""
    rng = np.random.default_rng(0)
    for name in (*TRAIN_BATCHES, TEST_BATCH):
        stored = {
            b"data": rng.integers(0, 256, (4, 3072), dtype=np.uint8),
            b"labels": [0, 9, 3, 1],
            b"batch_label": b"x",
        }
        (tmp_path / name).write_bytes(pickle.dumps(stored, protocol=2))
    meta = {b"label_names": [b"c%d" % k for k in range(10)], b"num_vis": 3072}
    (tmp_path / META).write_bytes(pickle.dumps(meta, protocol=2))
    return tmp_path


def test_cifar_batches_are_read(batches: Path) -> None:
    images = load_images(str(batches))
    assert images.train.shape == (20, 32, 32, 3)
    assert images.test.shape == (4, 32, 32, 3)
    assert images.classes[3] == "c3"
    assert images.train_labels[:4].tolist() == [0, 9, 3, 1]
    stored = pickle.loads((batches / "data_batch_2").read_bytes())[b"data"]
    # Pixel (row 2, column 5) of the second image: red, green and blue planes follow each other.
    assert images.train[5, 2, 5].tolist() == [int(stored[1, c * 1024 + 2 * 32 + 5]) for c in range(3)]
    train, _ = images.standardised(per_channel=True)
    assert np.allclose(train.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    assert np.allclose(train.std(axis=(0, 1, 2)), 1, atol=1e-5)
    dark, _ = replace(images, train=images.train * np.uint8([1, 1, 0])).standardised(per_channel=True)
    assert np.array_equal(dark, train * np.float32([1, 1, 0]))  # a colour that no image has is the mean everywhere


@pytest.mark.parametrize("name", [META, "data_batch_4", TEST_BATCH])
def test_a_missing_or_damaged_batch_is_named(batches: Path, name: str) -> None:
    whole = (batches / name).read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        b"",
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": 1}),
        pickle.dumps({"\ud800": 1}),
        b"\x80\x02garbage",
    ):
        (batches / name).write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{name}' is damaged .* unpack the Python version") as caught:
            cifar10(batches)
        assert "\n" not in str(caught.value)
    (batches / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing: unpack"):
        cifar10(batches)


def test_labels_out_of_range_are_damage(batches: Path) -> None:
    stored = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]}
    (batches / "data_batch_1").write_bytes(pickle.dumps(stored, protocol=2))
    with pytest.raises(InputError, match=r"data_batch_1' is damaged .*from 0 to 9"):
        cifar10(batches)


class _Bomb:
    def __reduce__(self) -> tuple:
        return os.system, ("touch exploded",)


def test_a_pickle_cannot_run_code(batches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(batches)
    (batches / "data_batch_1").write_bytes(pickle.dumps({b"data": _Bomb()}, protocol=2))
    with pytest.raises(InputError, match=r"data_batch_1' is damaged .*asks for (posix|nt)\.system"):
        cifar10(batches)
    assert not (batches / "exploded").exists()


def test_digits_are_complete_and_split_without_overlap() -> None:
    images = digits()
    assert (len(images.train), len(images.test)) == (1438, 359)
    assert images.shape == (8, 8, 1)
    assert set(images.train_labels.tolist()) == set(range(10))
    everything = np.concatenate([images.train, images.test]).reshape(1797, -1)
    assert int(everything.sum()) == 561718
    with pytest.raises(InputError, match=r"ask for 1 to 1438"):
        images.first(2000, 1)


def test_digits_without_scikit_learn_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        InputError, match=r"scikit-learn is not installed: \S+ -m pip install scikit-learn, or give a CIFAR"
    ):
        digits()
