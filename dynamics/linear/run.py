"""Running replicas of the linear network (`dynamics.linear.network`) from save to save, and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from dynamics.core.checks import check_run
from dynamics.core.interrupted import Progress
from dynamics.core.replicas import Stretch, Told, Track, drive, for_good, stretches
from dynamics.core.trajectory import Plotted, time_axis, variable
from dynamics.linear.network import Moments, Network, Seen, moments_of
from theory import InputError
from theory.linear.task import LinearStart, LinearTask

if TYPE_CHECKING:
    import xarray as xr

#: A replica with a squared norm ‖W‖²_F + ‖a‖² this many times the initial one, and that of a network that has learned, 2‖θ*‖,
#: has diverged.
BLOW_UP = 1e6
#: Replicas advance in groups of at most this many, so that a group's weights stay in the processor's cache.
GROUP = 8
#: Steps whose random numbers are drawn at once.
BLOCK = 50
DEFAULT_SAVES = 200
DEFAULT_TRACKED = 64

_VARIABLES = {
    "overlap": (("neuron", "direction"), "cosine of the neuron's first-layer weights and the target"),
    "norm2": (("neuron",), "squared norm of the neuron's first-layer weights"),
    "second": (("neuron",), "second-layer weight of the neuron"),
    "theta": (("input",), "effective linear map W^T a"),
    "loss": ((), "population loss ½E(ŷ−y)², clean labels"),
    "train_loss": ((), "loss on the training set, clean labels"),
    "frobenius2": ((), "squared Frobenius norm of the first layer"),
    "second_norm2": ((), "squared norm of the second layer"),
    "top_share": ((), "largest singular value of the first layer over its Frobenius norm"),
    "mean_norm": ((), "norm of the first-layer weights, mean over all neurons"),
    "mean_alignment": ((), "absolute cosine with the target, mean over all neurons"),
}


@dataclass(frozen=True)
class LinearRun(Plotted):
    """Replicas of the linear network.

    Attributes:
        dataset: ``overlap`` (replica, time, neuron, direction), ``norm2``, ``second`` (replica, time, neuron), ``theta``
            (replica, time, input) and scalars (replica, time); coordinates ``time`` (= η·step) and ``step``. ``neuron``
            runs over the recorded ones, the means over all.
        escape_steps: (replica, m) first save at which $|w_i(t)-w_i(0)|>1/\\sqrt m$, the end of the lazy regime
            (arXiv:2603.10397, definition 4.1); inf if not seen.
        diverged: (replica,) bool; a diverged replica is NaN from there on.
        steps: steps run.
    """

    dataset: "xr.Dataset"
    escape_steps: np.ndarray
    diverged: np.ndarray
    steps: int

    def values(self, name: str) -> np.ndarray:
        """A variable of the dataset as an array, replica first."""
        return np.asarray(self.dataset[name].values)

    @property
    def step(self) -> np.ndarray:
        """Steps at which was recorded."""
        return np.asarray(self.dataset.step.values)


def block_length(steps: int, saves: int) -> int:
    """Steps per block: not beyond the next save."""
    return max(1, min(BLOCK, steps // saves))


def group_size(replicas: int) -> int:
    """The largest divisor of `replicas` up to `GROUP`."""
    return max(size for size in range(1, GROUP + 1) if replicas % size == 0)


@dataclass(frozen=True)
class Setting:
    """The problem of a run and its numbers, checked. Raises `InputError` for what no algorithm can run."""

    task: LinearTask
    start: LinearStart
    step_size: float
    steps: int
    replicas: int
    seed: int
    saves: int
    tracked: int
    progress: Progress | None

    def __post_init__(self) -> None:
        counts = {"steps": self.steps, "replicas": self.replicas, "saves": self.saves, "tracked": self.tracked}
        check_run(self.step_size, self.seed, None, **counts)
        first, dim = self.start.first, self.task.dim
        if first.shape[-1] != dim:
            raise InputError(f"start has input dimension {first.shape[-1]}, task {dim}: draw it for this task")
        if first.ndim == 3 and len(first) != self.replicas:
            raise InputError(f"start has {len(first)} replicas: give replicas={len(first)} or a shared start")

    @property
    def shown(self) -> int:
        """Neurons that are recorded one by one."""
        return min(self.tracked, self.start.width)

    @cached_property
    def losses(self) -> tuple[Moments, Moments]:
        """Moments of the population and of the training set."""
        return moments_of(self.task, population=True), moments_of(self.task)

    def run(
        self,
        networks: Network,
        advance: Callable[[Network, Stretch], Network],
        look: Callable[[Network], Seen],
        what: str,
        **attributes: str | float | int,
    ) -> LinearRun:
        """Run the replicas. Raises `Interrupted` on Ctrl-C, with the result so far."""
        parts = stretches(self.steps, self.saves, block_length(self.steps, self.saves))
        told = Told(what, self.steps, self.progress, f", {self.replicas} replicas")
        result = partial(_result, self, {"what": what, **attributes})
        return drive(networks, parts, advance, look, result, told, done=_none_finite)


def _none_finite(track: Track[Network]) -> bool:
    return not np.isfinite(track.seen[-1].frobenius2).any()


def _escape_steps(displaced: np.ndarray, steps: np.ndarray, width: int) -> np.ndarray:
    """(replica, m) first of the steps at which `displaced` (replica, time, m) is beyond 1/√m; inf if none."""
    beyond = displaced > 1 / np.sqrt(width)
    return np.where(beyond.any(axis=1), steps[np.argmax(beyond, axis=1)], np.inf)


def _result(setting: Setting, attributes: dict[str, str | float | int], track: Track[Network]) -> LinearRun:
    import xarray as xr

    stacked, steps = dict(zip(Seen._fields, track.columns(), strict=True)), np.array(track.at)
    escape = _escape_steps(stacked.pop("displaced"), steps, setting.start.width)
    with np.errstate(invalid="ignore"):
        size = stacked["frobenius2"] + stacked["second_norm2"]
        learned = 2 * float(np.linalg.norm(setting.task.target))
        lost = ~(size <= BLOW_UP * np.maximum(size[:, :1], learned or 1.0))
    lost = for_good(lost)
    for values in stacked.values():
        values[lost] = np.nan
    stacked["overlap"] = stacked.pop("alignment")[..., None]
    variables = {
        name: variable(("replica", "time", *dims), stacked[name], text) for name, (dims, text) in _VARIABLES.items()
    }
    coordinates = {
        "replica": np.arange(len(escape)),
        "neuron": np.arange(stacked["norm2"].shape[2]),
        "direction": [1],
        **time_axis(steps * setting.step_size, steps),
    }
    task, width = setting.task, setting.start.width
    about = {"dim": task.dim, "width": width, "step_size": setting.step_size, "seed": setting.seed}
    trained = {"train_size": "fresh" if task.train_size is None else task.train_size}
    data = xr.Dataset(variables, coords=coordinates, attrs={**attributes, **about, **trained, "precision": "float64"})
    return LinearRun(data, escape, lost.any(axis=1), int(steps[-1]))
