r"""Training of a residual network by plain SGD, SGD with label noise, or SAM.

No momentum, no weight decay, no augmentation (arXiv:2603.10397, Figure 1 and appendix D; augmentation is not mentioned there).
Each epoch visits the images in a new random order, in batches of B (what does not fill a batch waits for the next epoch):
$\theta\leftarrow\theta-\eta\nabla\hat L(\theta)$ with cross entropy. Labels are flipped afresh at every visit (Algorithm 1),
or the gradient is taken at $\theta+\rho\nabla\hat L/\|\nabla\hat L\|$ (SAM). All randomness of an epoch follows from the seed
and the epoch's number, so that a run resumed from a checkpoint is, bit by bit, the run that was not interrupted.
"""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.keys import stream_key
from dynamics.core.precision import double_precision
from dynamics.networks import checkpoint
from dynamics.networks.images import ImageSet, fingerprint
from dynamics.networks.labels import flipped
from dynamics.networks.residual import SMALL, ResNet, Unit, draw_resnet, trained_part
from theory import InputError
from theory.core.arguments import check_positive, check_whole
from theory.linear.label_flips import LabelFlips

#: Images evaluated at once.
_CHUNK = 500
RECORDS = ("train_loss", "test_loss", "test_accuracy")


@dataclass(frozen=True)
class Training:
    """One training run.

    Attributes:
        step_size: η. epochs: of training. batch: B. flip_probability: τ, 0 for true labels. radius: ρ of SAM, 0 for SGD.
        widths, blocks: of the residual network. seed: of initialisation, order and flips. double: double precision
            (single is what networks are trained in).

    Raises `InputError` for a number out of its range.
    """

    step_size: float = 0.1
    epochs: int = 10
    batch: int = 64
    flip_probability: float = 0.0
    radius: float = 0.0
    widths: tuple[int, ...] = SMALL[0]
    blocks: int = SMALL[1]
    seed: int = 0
    double: bool = False

    def __post_init__(self) -> None:
        check_whole(epochs=self.epochs, batch=self.batch)
        check_positive(step_size=self.step_size)
        if not (np.isfinite(self.radius) and self.radius >= 0):
            raise InputError(f"radius is {self.radius!r}: give a finite number, 0 or more")
        LabelFlips(self.flip_probability)  # refuses what is no probability

    @property
    def dtype(self) -> jnp.dtype:
        return jnp.dtype(jnp.float64 if self.double else jnp.float32)


@dataclass
class Trained:
    """A network and its history.

    Attributes:
        network: as trained. records: name of `RECORDS` → one number per epoch: mean loss of the batches as trained on, loss
            and accuracy on the test images. diverged: the loss or a weight is no longer finite (relu may hide a weight's nan).
    """

    network: ResNet[Unit]
    records: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in RECORDS})

    @property
    def epochs(self) -> int:
        return len(self.records["test_loss"])

    @property
    def diverged(self) -> bool:
        return not all(np.isfinite(x).all() for x in (*self.records.values(), *jax.tree.leaves(self.network)))


@double_precision
def train(
    images: ImageSet,
    training: Training,
    *,
    path: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train, and write a checkpoint to `path` after every epoch.

    Args:
        resume: continue from `path` if it is there; without it a file at `path` is overwritten.

    Raises: `InputError` if a batch is larger than the training set, or one image that the last stage has one pixel of (minus
    its mean that is 0, whatever is seen), or the checkpoint is damaged, of another run, or of more
    epochs than asked for.
    """
    if training.batch > len(images.train):
        raise InputError(f"batch is {training.batch}, but there are {len(images.train)} training images: lower it")
    shrink = 2 ** (len(training.widths) - 1)
    if training.batch == 1 and max(images.shape[:2]) <= shrink:
        raise InputError(
            f"batch is 1, and the last of {len(training.widths)} stages has 1 pixel, which normalisation makes 0: "
            "give a larger batch or fewer widths"
        )
    about = _about(images, training)
    data = _Data.of(images, training)
    start_key, key = (stream_key(training.seed, "network training", purpose) for purpose in ("start", "epochs"))
    channels, classes = images.shape[2], len(images.classes)
    start = draw_resnet(start_key, channels, classes, training.widths, training.blocks, training.dtype)
    trained = Trained(start)
    if resume and path is not None and path.is_file():
        trained = _resumed(path, start, about, training.epochs)
    while trained.epochs < training.epochs and not trained.diverged:
        epoch_key = jax.random.fold_in(key, trained.epochs)
        trained.network, loss = _epoch(trained.network, data, training, epoch_key)
        test_loss, accuracy = evaluate(trained.network, data.test, data.test_labels)
        for name, value in zip(RECORDS, (loss, test_loss, accuracy), strict=True):
            trained.records[name].append(value)
        if path is not None:
            checkpoint.save(path, trained.network, about | {"records": trained.records})
        if progress is not None:
            progress(trained.epochs / training.epochs, f"epoch {trained.epochs} of {training.epochs}: {accuracy:.1%}")
    return trained


@dataclass(frozen=True)
class _Data:
    """Standardised images and labels on the device."""

    train: jax.Array
    labels: jax.Array
    test: jax.Array
    test_labels: jax.Array
    classes: int

    @classmethod
    def of(cls, images: ImageSet, training: Training) -> "_Data":
        train, test = (jnp.asarray(x, training.dtype) for x in images.standardised(per_channel=True))
        return cls(train, jnp.asarray(images.train_labels), test, jnp.asarray(images.test_labels), len(images.classes))


def _about(images: ImageSet, training: Training) -> dict[str, Any]:
    """What a checkpoint must agree in with the run that resumes it: everything but the number of epochs."""
    settings = {name: value for name, value in asdict(training).items() if name != "epochs"}
    return settings | {"widths": list(training.widths), "data": fingerprint(images)}


def _resumed(path: Path, like: ResNet[Unit], about: dict[str, Any], epochs: int) -> Trained:
    network, stored = checkpoint.load(path, like)
    checkpoint.check_same(path, stored, about)
    kept = checkpoint.records(path, lambda: {name: list(map(float, stored["records"][name])) for name in RECORDS})
    trained = Trained(network, kept)
    if trained.epochs > epochs:  # only the last network is kept
        raise InputError(
            f"epochs is {epochs}, but checkpoint {str(path)!r} is the network after {trained.epochs}: "
            f"give {trained.epochs} or more, or remove it to start afresh"
        )
    return trained


def _epoch(network: ResNet[Unit], data: _Data, training: Training, key: jax.Array) -> tuple[ResNet[Unit], float]:
    """One pass; the network and the mean training loss, as seen (labels flipped)."""
    order_key, flip_key = jax.random.split(key)
    count = len(data.labels) // training.batch
    order = jax.random.permutation(order_key, len(data.labels))[: count * training.batch].reshape(count, -1)
    flips = LabelFlips(training.flip_probability, data.classes)
    size, radius = (jnp.asarray(x, training.dtype) for x in (training.step_size, training.radius))
    losses = []
    # (A Python loop: on CPUs, XLA runs convolutions inside its own loops on one thread.)
    for number in range(count):
        network, loss = _step(
            network, data.train, data.labels, order[number], jax.random.fold_in(flip_key, number), size, radius, flips,
            training.radius > 0,
        )  # fmt: skip
        losses.append(loss)
    return network, float(jnp.mean(jnp.stack(losses)))


@partial(jax.jit, static_argnums=(7, 8))
def _step(
    network: ResNet[Unit],
    images: jax.Array,
    labels: jax.Array,
    chosen: jax.Array,
    key: jax.Array,
    step_size: jax.Array,
    radius: jax.Array,
    flips: LabelFlips,
    sharpness_aware: bool,
) -> tuple[ResNet[Unit], jax.Array]:
    x, y = images[chosen], labels[chosen]
    if flips.probability > 0:
        y = flipped(key, y, flips)
    weights, statistics = eqx.partition(network, trained_part(network))

    def loss(weights: ResNet[Unit]) -> tuple[jax.Array, ResNet[Unit]]:
        logits, moved = eqx.combine(weights, statistics)(x, training=True)
        return cross_entropy(logits, y), moved

    (value, moved), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
    if sharpness_aware:
        length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
        scale = radius / jnp.where(length > 0, length, 1.0)
        gradient, _ = jax.grad(loss, has_aux=True)(jax.tree.map(lambda w, g: w + scale * g, weights, gradient))
    weights = jax.tree.map(lambda w, g: w - step_size * g, weights, gradient)
    # Running statistics come from the forward pass, everything else from the step.
    _, statistics = eqx.partition(moved, trained_part(moved))
    return eqx.combine(weights, statistics), value


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean of −log p(label) over `logits` (n, classes) and `labels` (n,)."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


@double_precision
def evaluate(network: ResNet, images: jax.Array, labels: jax.Array) -> tuple[float, float]:
    """Loss and accuracy of a network in its trained form (running statistics) on images (n, height, width, channels)."""
    total = np.zeros(2)
    for first in range(0, len(labels), _CHUNK):
        x, y = images[first : first + _CHUNK], labels[first : first + _CHUNK]
        total += np.array(_score(network, x, y), dtype=float) * len(y)
    loss, accuracy = total / len(labels)
    return float(loss), float(accuracy)


@jax.jit
def _score(network: ResNet, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits, _ = network(x)
    return cross_entropy(logits, y), jnp.mean(jnp.argmax(logits, axis=1) == y)
