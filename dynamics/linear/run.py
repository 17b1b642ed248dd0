"""Running replicas of the linear network from save to save, and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynamics.core.checks import check_run
from dynamics.core.interrupted import Progress
from dynamics.core.replicas import Stretch, Told, Track, drive, stretches
from dynamics.core.trajectory import time_axis, variable
from dynamics.linear.network import Network, Seen
from theory import InputError
from theory.linear.task import LinearStart, LinearTask

if TYPE_CHECKING:
    import xarray as xr

#: A replica with a squared norm ‖W‖²_F + ‖a‖² this many times the initial one has diverged.
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
class LinearRun:
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


def run_networks(
    networks: Network,
    advance: Callable[[Network, Stretch], Network],
    look: Callable[[Network], Seen],
    *,
    what: str,
    steps: int,
    saves: int,
    width: int,
    step_size: float,
    attributes: dict[str, str | float | int],
    progress: Progress | None,
) -> LinearRun:
    """Run the replicas. Raises `Interrupted` on Ctrl-C, with the result so far."""
    return drive(
        networks,
        stretches(steps, saves, block_length(steps, saves)),
        advance,
        look,
        lambda track: _result(track, width, step_size, {"what": what, **attributes}),
        Told(what, steps, progress, f", {len(networks.second)} replicas"),
        done=lambda track: not np.isfinite(track.seen[-1].frobenius2).any(),
    )


def _escape_steps(displaced: np.ndarray, steps: np.ndarray, width: int) -> np.ndarray:
    """(replica, m) first of the steps at which `displaced` (replica, time, m) is beyond 1/√m; inf if none."""
    beyond = displaced > 1 / np.sqrt(width)
    return np.where(beyond.any(axis=1), steps[np.argmax(beyond, axis=1)], np.inf)


def _result(track: Track[Network], width: int, step_size: float, attributes: dict[str, str | float | int]) -> LinearRun:
    import xarray as xr

    stacked, steps = dict(zip(Seen._fields, track.columns(), strict=True)), np.array(track.at)
    escape = _escape_steps(stacked.pop("displaced"), steps, width)
    with np.errstate(invalid="ignore"):
        size = stacked["frobenius2"] + stacked["second_norm2"]
        lost = ~(size <= BLOW_UP * size[:, :1])
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
        **time_axis(steps * step_size, steps),
    }
    data = xr.Dataset(variables, coords=coordinates, attrs={**attributes, "precision": "float64"})
    return LinearRun(data, escape, lost.any(axis=1), int(steps[-1]))


def check(task: LinearTask, start: LinearStart, *, step_size: float, seed: int, **counts: int) -> None:
    """Refuse what no algorithm can run. Raises `InputError`."""
    check_run(step_size, seed, None, **counts)
    if start.first.shape[-1] != task.dim:
        raise InputError(f"start has input dimension {start.first.shape[-1]}, task {task.dim}: draw it for this task")
    if start.first.ndim == 3 and len(start.first) != counts["replicas"]:
        raise InputError(f"start has {len(start.first)} replicas: give replicas={len(start.first)} or a shared start")
