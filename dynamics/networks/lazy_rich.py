r"""Lazy or rich? A network on few images, with and without label noise, beside its own linearisation.

Full-batch gradient descent of $L=\tfrac1{2nc}\|f-\tilde y\|^2$ on n images, one-hot labels of c classes (arXiv:2603.10397,
Figures 3 and 5). Three arms: clean labels; labels flipped afresh at every step; SAM on clean labels. In each arm the
*linearised* network is trained by the same rule on the *same* labels. A linearised network cannot learn features, so what it
does too (the plateau of the training loss above all) is no sign of the rich regime; what counts is the distance between the
two, and how far the first layer has moved.
"""

from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from dynamics.core.interrupted import Progress
from dynamics.core.keys import stream_key
from dynamics.core.precision import double_precision
from dynamics.core.trajectory import STEPS, TIME, Plotted, variable
from dynamics.networks import checkpoint
from dynamics.networks.fully_connected import FullyConnected, draw_network, outputs, tangent_kernel
from dynamics.networks.images import ImageSet, fingerprint
from dynamics.networks.labels import flipped
from dynamics.networks.linearised import (
    LinearState,
    Modes,
    expected_loss,
    linear_step,
    modes,
    modes_with,
    relative_change,
)
from theory import InputError
from theory.core.arguments import check_positive, check_whole
from theory.linear.label_flips import LabelFlips

if TYPE_CHECKING:
    import xarray as xr

#: Recorded quantities of one time, as nested lists of numbers.
Row = dict[str, Any]
CLEAN, NOISY, SAM = "clean", "label-noise", "sam"
MODELS = ("network", "linearised")


@dataclass(frozen=True)
class LazyRich:
    """The experiment; the defaults are those of the published one, but for the images and the number of replicas.

    Attributes:
        images: training images, and as many for testing. hidden: neurons. step_size: η. steps: full-batch steps.
        flip_probability: of label noise. replacement: ``any`` class (as published) or an ``other`` one.
        radius: ρ of SAM; 0 leaves that arm out. replicas: independent initialisations and flips. saves: times recorded.
        double: double precision.

    Raises `InputError` for a count below 1, a step size that is not positive, or a negative radius.
    """

    images: int = 64
    hidden: int = 512
    step_size: float = 1e-3
    steps: int = 10_000
    flip_probability: float = 0.5
    replacement: str = "any"
    radius: float = 0.0
    replicas: int = 8
    saves: int = 50
    seed: int = 0
    double: bool = True

    def __post_init__(self) -> None:
        check_whole(**{name: getattr(self, name) for name in ("images", "hidden", "steps", "replicas", "saves")})
        check_positive(step_size=self.step_size)
        if not (np.isfinite(self.radius) and self.radius >= 0):
            raise InputError(f"radius is {self.radius!r}: give a finite number, 0 or more")

    @property
    def arms(self) -> tuple[str, ...]:
        return (CLEAN, NOISY, SAM) if self.radius else (CLEAN, NOISY)


class End(NamedTuple):
    """Attributes: network, linearised: outputs (n, c) on the training set. modes: of the linear problem with the tangent
    kernel at initialisation. final_modes: with the one that the network has in the end.
    """

    network: np.ndarray
    linearised: np.ndarray
    modes: Modes
    final_modes: Modes


@dataclass(frozen=True)
class LazyRichResult(Plotted):
    """What was seen.

    Attributes:
        dataset: on (replica, arm, model, time): ``loss_train`` and ``loss_test`` (against clean labels), ``norm`` and
            ``displacement`` of the first layer relative to its initial Frobenius norm; on (replica, arm, time):
            ``departure``, the root mean square of network − linearised on the training set over that of what the
            linearised network has moved; ``expected_loss``, theory's for the linearised network; on (replica, arm):
            ``kernel_change``.
        ends: per replica, arm → how it ended.
        plateau: loss of any interpolating model on noisy labels.
    """

    dataset: "xr.Dataset"
    ends: list[dict[str, End]]
    plateau: float


class _Problem(NamedTuple):
    """Arrays of one run; images flat."""

    train: jax.Array
    labels: jax.Array
    one_hot: jax.Array
    test: jax.Array
    test_one_hot: jax.Array


class _State(NamedTuple):
    network: FullyConnected
    linear: LinearState


class _Start(NamedTuple):
    """What the arms of a replica share."""

    network: FullyConnected
    kernel: jax.Array
    flip_key: jax.Array


@dataclass(frozen=True)
class _Kept:
    """Checkpoints, one file per arm and replica, written at every recorded time; none without a folder."""

    folder: Path | None
    resume: bool
    about: dict[str, object]

    def _path(self, arm: str, replica: int) -> Path | None:
        return None if self.folder is None else self.folder / f"lazy-rich-{arm}-{replica}.npz"

    def resumed(self, arm: str, replica: int, start: _State) -> tuple[_State, list[Row]]:
        """The last saved state and the rows so far; the start and none if there is no file."""
        path = self._path(arm, replica)
        if not self.resume or path is None or not path.is_file():
            return start, []
        state, stored = checkpoint.load(path, start)
        checkpoint.check_same(path, stored, self.about)
        return state, checkpoint.records(path, lambda: [_numbers(row, stored["rows"][0]) for row in stored["rows"]])

    def save(self, arm: str, replica: int, state: _State, rows: list[Row]) -> None:
        path = self._path(arm, replica)
        if path is not None:
            checkpoint.save(path, state, self.about | {"rows": rows})


def _numbers(row: Row, first: Row) -> Row:
    """A stored row with the names of the first one. Raises `KeyError`, `ValueError` for what is none."""
    return {name: np.asarray(row[name], dtype=float).tolist() for name in first}


@double_precision
def lazy_rich(
    images: ImageSet,
    experiment: LazyRich,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> LazyRichResult:
    """Run all arms and replicas; replicas differ in initialisation and flips, arms share the initialisation.

    Args:
        folder: for checkpoints, written at every recorded time. resume: continue from those that are there; the result
            is, bit by bit, that of a run without interruption.

    Raises: `InputError` if there are fewer images than asked for, a checkpoint is damaged or of another run, or η is
    beyond the stability bound 2nc/λ_max of a replica's linearised network.
    """
    problem, flips = _problem(images, experiment)
    _check_step_size(problem, experiment)
    about = {name: value for name, value in asdict(experiment).items() if name != "replicas"}
    kept = _Kept(folder, resume, about | {"data": fingerprint(images)})
    runs = []
    for replica in range(experiment.replicas):
        if progress is not None:
            progress(replica / experiment.replicas, f"replica {replica + 1} of {experiment.replicas}")
        runs.append(_replica(problem, flips, experiment, replica, kept))
    if progress is not None:
        progress(1.0, "done")
    return LazyRichResult(
        _dataset([run[0] for run in runs], images, experiment, flips),
        [run[1] for run in runs],
        flips.plateau,
    )


def _problem(images: ImageSet, experiment: LazyRich) -> tuple[_Problem, LabelFlips]:
    chosen = images.first(experiment.images, experiment.images)
    classes = len(chosen.classes)
    dtype = jnp.float64 if experiment.double else jnp.float32
    train, test = (jnp.asarray(x.reshape(len(x), -1), dtype) for x in chosen.standardised())
    labels, test_labels = jnp.asarray(chosen.train_labels), jnp.asarray(chosen.test_labels)
    wanted, test_wanted = (jax.nn.one_hot(x, classes, dtype=dtype) for x in (labels, test_labels))
    flips = LabelFlips(experiment.flip_probability, classes, experiment.replacement)
    return _Problem(train, labels, wanted, test, test_wanted), flips


def _replica(
    problem: _Problem, flips: LabelFlips, experiment: LazyRich, replica: int, kept: _Kept
) -> tuple[dict[str, np.ndarray], dict[str, End]]:
    """Every arm of one replica: recorded quantities (arm, …) and the ends."""
    network, kernel = _drawn(problem, experiment, replica)
    classes = problem.one_hot.shape[1]
    initial, one_hot = np.asarray(outputs(network, problem.train)), np.asarray(problem.one_hot)
    clean = modes(np.asarray(kernel), initial, one_hot, LabelFlips(0.0, classes))
    flip_key = _key(experiment, replica, "flips")
    marks, recorded, ends = _marks(experiment), [], {}
    for arm in experiment.arms:
        record, state = _arm(problem, flips, experiment, arm, replica, _Start(network, kernel, flip_key), kept)
        final = np.asarray(tangent_kernel(state.network, problem.train, problem.train))
        law = flips if arm == NOISY else LabelFlips(0.0, classes)
        end = End(
            np.asarray(outputs(state.network, problem.train)),
            np.asarray(state.linear.outputs).reshape(initial.shape),
            modes_with(clean, law),
            modes(final, initial, one_hot, law),
        )
        # (theory's loss is that of gradient descent; a step of SAM is not linear)
        expected = np.full(len(marks), np.nan) if arm == SAM else expected_loss(end.modes, experiment.step_size, marks)
        change = np.array(relative_change(np.asarray(kernel), final))
        recorded.append(record | {"expected_loss": expected, "kernel_change": change})
        ends[arm] = end
    return {name: np.stack([r[name] for r in recorded]) for name in recorded[0]}, ends


def _key(experiment: LazyRich, replica: int, purpose: str) -> jax.Array:
    return jax.random.fold_in(stream_key(experiment.seed, "lazy to rich", purpose), replica)


def _drawn(problem: _Problem, experiment: LazyRich, replica: int) -> tuple[FullyConnected, jax.Array]:
    """A replica's network at its initialisation, and its tangent kernel."""
    (inputs, classes), dtype = (problem.train.shape[1], problem.one_hot.shape[1]), jnp.dtype(problem.train.dtype)
    network = draw_network(_key(experiment, replica, "start"), inputs, experiment.hidden, classes, dtype)
    return network, tangent_kernel(network, problem.train, problem.train)


def _check_step_size(problem: _Problem, experiment: LazyRich) -> None:
    """Of all replicas, before the first one runs."""
    kernels = (_drawn(problem, experiment, replica)[1] for replica in range(experiment.replicas))
    bound = 2 * problem.one_hot.size / max(_largest(np.asarray(kernel, dtype=float)) for kernel in kernels)
    if experiment.step_size >= bound:
        raise InputError(
            f"step size is {experiment.step_size:g}: the linearised networks are stable below {bound:.4g}: lower it"
        )


def _largest(kernel: np.ndarray) -> float:
    """The largest eigenvalue."""
    last = len(kernel) - 1
    return float(scipy.linalg.eigh(kernel, eigvals_only=True, subset_by_index=[last, last])[0])


def _marks(experiment: LazyRich) -> np.ndarray:
    """Steps at which everything is recorded, 0 and the last included."""
    return np.unique(np.linspace(0, experiment.steps, experiment.saves + 1).round().astype(np.int64))


def _arm(
    problem: _Problem, flips: LabelFlips, experiment: LazyRich, arm: str, replica: int, start: _Start, kept: _Kept
) -> tuple[dict[str, np.ndarray], _State]:
    """One arm of one replica: recorded quantities with the time last, and the final state."""
    outputs_now = outputs(start.network, problem.train).ravel()
    state = _State(start.network, LinearState(outputs_now, jnp.zeros_like(outputs_now)))
    size, radius = (jnp.asarray(x, outputs_now.dtype) for x in (experiment.step_size, experiment.radius))
    marks = _marks(experiment).tolist()
    state, rows = kept.resumed(arm, replica, state)
    if not rows:
        rows = [_plain(_observe(problem, start.network, state, size))]
    for first, last in list(pairwise(marks))[len(rows) - 1 :]:
        chosen, where = flips if arm == NOISY else None, (first, last)
        state = _advance(problem, chosen, arm == SAM, state, start.kernel, start.flip_key, size, radius, *where)
        rows.append(_plain(_observe(problem, start.network, state, size)))
        kept.save(arm, replica, state, rows)
    return {name: np.stack([np.asarray(row[name]) for row in rows], axis=-1) for name in rows[0]}, state


def _plain(row: dict[str, jax.Array]) -> Row:
    """Numbers that survive a text file exactly."""
    return {name: np.asarray(value, dtype=float).tolist() for name, value in row.items()}


@partial(jax.jit, static_argnums=(1, 2))
def _advance(
    problem: _Problem,
    flips: LabelFlips | None,
    sharpness_aware: bool,
    state: _State,
    kernel: jax.Array,
    key: jax.Array,
    step_size: jax.Array,
    radius: jax.Array,
    first: int,
    last: int,
) -> _State:
    """Steps `first` to `last` of the network and of its linearisation, on the same labels."""
    rate = step_size / problem.one_hot.size

    def step(number: jax.Array, state: _State) -> _State:
        labels = problem.labels if flips is None else flipped(jax.random.fold_in(key, number), problem.labels, flips)
        target = jax.nn.one_hot(labels, problem.one_hot.shape[1], dtype=problem.one_hot.dtype)
        gradient = jax.grad(_loss)(state.network, problem.train, target)
        if sharpness_aware:
            gradient = _sam_gradient(state.network, gradient, problem.train, target, radius)
        network = jax.tree.map(lambda w, g: w - step_size * g, state.network, gradient)
        return _State(
            network, linear_step(kernel, state.linear, target.ravel(), rate, radius if sharpness_aware else None)
        )

    return jax.lax.fori_loop(first, last, step, state)


def _loss(network: FullyConnected, x: jax.Array, target: jax.Array) -> jax.Array:
    """½ mean over samples and classes."""
    return 0.5 * jnp.mean((outputs(network, x) - target) ** 2)


def _sam_gradient(
    network: FullyConnected, gradient: FullyConnected, x: jax.Array, target: jax.Array, radius: jax.Array
) -> FullyConnected:
    """The gradient at θ + ρ∇L/‖∇L‖."""
    length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
    scale = radius / jnp.where(length > 0, length, 1.0)
    return jax.grad(_loss)(jax.tree.map(lambda w, g: w + scale * g, network, gradient), x, target)


@jax.jit
def _observe(problem: _Problem, initial: FullyConnected, state: _State, step_size: jax.Array) -> dict[str, jax.Array]:
    """What is recorded of one arm at one time: pairs (network, linearised), and their distance."""
    rate = step_size / problem.one_hot.size
    moved = _linear_parameters(problem, initial, state.linear, rate)
    linear_test = jax.jvp(lambda n: outputs(n, problem.test), (initial,), (moved,))
    linear = state.linear.outputs.reshape(problem.one_hot.shape)
    now, test = outputs(state.network, problem.train), outputs(state.network, problem.test)
    start = outputs(initial, problem.train)
    norm = jnp.linalg.norm(initial.first)
    firsts = (state.network.first, initial.first + moved.first)

    def half(values: jax.Array, labels: jax.Array) -> jax.Array:
        return 0.5 * jnp.mean((values - labels) ** 2)

    travelled = jnp.linalg.norm(linear - start)
    return {
        "loss_train": jnp.stack([half(now, problem.one_hot), half(linear, problem.one_hot)]),
        "loss_test": jnp.stack([half(test, problem.test_one_hot), half(sum(linear_test), problem.test_one_hot)]),
        "norm": jnp.stack([jnp.linalg.norm(w) / norm for w in firsts]),
        "displacement": jnp.stack([jnp.linalg.norm(w - initial.first) / norm for w in firsts]),
        "departure": jnp.where(travelled > 0, jnp.linalg.norm(now - linear) / travelled, 0.0),
    }


def _linear_parameters(
    problem: _Problem, initial: FullyConnected, linear: LinearState, rate: jax.Array
) -> FullyConnected:
    """θ − θ₀ of the linearised network, from its accumulated residual."""
    _, pull_back = jax.vjp(lambda n: outputs(n, problem.train), initial)
    (gradient,) = pull_back(linear.residuals.reshape(problem.one_hot.shape))
    return jax.tree.map(lambda g: -rate * g, gradient)


_DIMS = {
    "loss_train": ("replica", "arm", "model", "time"),
    "loss_test": ("replica", "arm", "model", "time"),
    "norm": ("replica", "arm", "model", "time"),
    "displacement": ("replica", "arm", "model", "time"),
    "departure": ("replica", "arm", "time"),
    "expected_loss": ("replica", "arm", "time"),
    "kernel_change": ("replica", "arm"),
}
_LONG_NAMES = {
    "loss_train": "training loss against clean labels, half the mean over samples and classes",
    "loss_test": "test loss against clean labels, half the mean over samples and classes",
    "norm": "Frobenius norm of the first layer over its initial value",
    "displacement": "Frobenius norm of the first layer's change over its initial norm",
    "departure": "distance of network and linearised network over the distance the latter has moved (outputs)",
    "expected_loss": "exact expected training loss of the linearised network",
    "kernel_change": "relative change of the tangent kernel over the run (Frobenius)",
}


def _dataset(
    rows: list[dict[str, np.ndarray]], images: ImageSet, experiment: LazyRich, flips: LabelFlips
) -> "xr.Dataset":
    import xarray as xr

    steps = _marks(experiment)
    variables = {
        name: variable(dims, np.stack([row[name] for row in rows]), _LONG_NAMES[name]) for name, dims in _DIMS.items()
    }
    coordinates = {
        "replica": np.arange(len(rows)),
        "arm": list(experiment.arms),
        "model": list(MODELS),
        "time": variable("time", steps * experiment.step_size, "step size times full-batch steps", TIME),
        "step": variable("time", steps, "full-batch steps", STEPS),
    }
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in asdict(experiment).items()}
    extra = {"what": "lazy-rich", "data": images.name, "plateau": flips.plateau}
    return xr.Dataset(variables, coords=coordinates, attrs=attributes | extra)
