"""Plain SGD, label noise and SAM side by side on one network, and what is left of each network's accuracy after pruning.

The comparison is that of arXiv:2603.10397, Figure 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.precision import double_precision
from dynamics.core.trajectory import Plotted
from dynamics.networks.images import ImageSet
from dynamics.networks.merging import merge_features
from dynamics.networks.training import RECORDS, Trained, Training, evaluate, train
from theory import InputError
from theory.core.arguments import check_whole
from theory.core.streams import integer_seed

if TYPE_CHECKING:
    import xarray as xr

SGD = "sgd"
#: β of the merging rule as used with arXiv:2603.10397, and the shares of channels merged away at given pruning.
THRESHOLDS = (0.01, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
SHARES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75)
_LONG_NAMES = {
    "train_loss": "cross entropy of the batches as trained on (labels flipped)",
    "test_loss": "cross entropy on the test images",
    "test_accuracy": "accuracy on the test images",
}


@dataclass(frozen=True)
class Comparison:
    """Which algorithms, and how often.

    Attributes:
        training: what all runs share; its flips, radius and seed are set per run. flip_probabilities: one arm of label
            noise for each. radii: one arm of SAM for each. replicas: runs per arm; arms share initialisations and orders.

    Raises `InputError` for a number out of its range, or an algorithm given twice.
    """

    training: Training = field(default_factory=Training)
    flip_probabilities: tuple[float, ...] = (0.1,)
    radii: tuple[float, ...] = ()
    replicas: int = 3

    def __post_init__(self) -> None:
        check_whole(replicas=self.replicas)
        for tau in self.flip_probabilities:
            if not 0 < tau <= 1:
                raise InputError(
                    f"flip probability is {tau!r}: give a number above 0, at most 1 (plain SGD is run anyway)"
                )
        for radius in self.radii:
            if not radius > 0:
                raise InputError(f"radius is {radius!r}: give a number above 0 (plain SGD is run anyway)")
        if len(self.arms) != 1 + len(self.flip_probabilities) + len(self.radii):
            raise InputError("a flip probability or a radius is given twice: drop one")

    @property
    def arms(self) -> dict[str, Training]:
        """Name → training; the seed is still that of the comparison."""
        plain = replace(self.training, flip_probability=0.0, radius=0.0)
        noisy = {f"label-noise-{tau:g}": replace(plain, flip_probability=tau) for tau in self.flip_probabilities}
        return {SGD: plain} | noisy | {f"sam-{radius:g}": replace(plain, radius=radius) for radius in self.radii}

    def seed_of(self, replica: int) -> int:
        """A seed for each replica."""
        return integer_seed(self.training.seed, "network", replica=replica)


@dataclass(frozen=True)
class Compared(Plotted):
    """Attributes: dataset: `RECORDS` on (arm, replica, epoch). networks: arm → trained networks, one per replica."""

    dataset: "xr.Dataset"
    networks: dict[str, list[Trained]]

    @property
    def diverged(self) -> int:
        """How many replicas did, in any arm."""
        return sum(any(run.diverged for run in runs) for runs in zip(*self.networks.values(), strict=True))


@double_precision
def compare_algorithms(
    images: ImageSet,
    comparison: Comparison,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Compared:
    """Train every arm and replica, one after the other.

    Args:
        folder: for checkpoints, one file per run, written after every epoch. resume: continue from those that are there.

    Raises: `InputError`, see `train`.
    """
    networks: dict[str, list[Trained]] = {}
    total, done = len(comparison.arms) * comparison.replicas, 0
    for arm, training in comparison.arms.items():
        networks[arm] = []
        for replica in range(comparison.replicas):
            run = replace(training, seed=comparison.seed_of(replica))
            path = None if folder is None else folder / f"{arm}-{replica}.npz"
            report = _part(progress, done, total, f"{arm}, replica {replica + 1}")
            networks[arm].append(train(images, run, path=path, resume=resume, progress=report))
            done += 1
    return Compared(_history(images, comparison, networks), networks)


def _part(progress: Progress | None, done: int, total: int, name: str) -> Progress | None:
    """Progress of one run as part of all runs."""
    if progress is None:
        return None
    return lambda fraction, text: progress((done + fraction) / total, f"{name}: {text}")


def _history(images: ImageSet, comparison: Comparison, networks: dict[str, list[Trained]]) -> "xr.Dataset":
    import xarray as xr

    epochs = comparison.training.epochs

    def padded(values: list[float]) -> list[float]:
        return values + [np.nan] * (epochs - len(values))

    variables = {
        name: (
            ("arm", "replica", "epoch"),
            np.array([[padded(run.records[name]) for run in runs] for runs in networks.values()]),
            {"long_name": _LONG_NAMES[name], "units": "1"},
        )
        for name in RECORDS
    }
    coordinates = {"arm": list(networks), "replica": np.arange(comparison.replicas), "epoch": np.arange(1, epochs + 1)}
    return xr.Dataset(variables, coords=coordinates, attrs=_attributes(images, comparison))


def _attributes(images: ImageSet, comparison: Comparison) -> dict[str, object]:
    x = comparison.training
    return {
        "data": images.name, "step_size": x.step_size, "batch": x.batch, "widths": list(x.widths), "blocks": x.blocks,
        "seed": x.seed, "precision": str(x.dtype), "momentum": 0.0, "weight_decay": 0.0,
    }  # fmt: skip


@double_precision
def prune_networks(
    images: ImageSet,
    comparison: Comparison,
    compared: Compared,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    shares: Sequence[float] = SHARES,
) -> "xr.Dataset":
    """Accuracy on the test images against the share of parameters kept, by two rules.

    Returns: ``kept_by_threshold`` and ``accuracy_by_threshold`` on (arm, replica, threshold): merge while the distance is
    at most β times the largest; ``kept_by_share`` (share) and ``accuracy_by_share`` on (arm, replica, share): merge a
    given share of every group's channels, so that all networks keep equally many parameters. Of a network that diverged
    nothing is pruned: NaN.
    """
    import xarray as xr

    _, test = images.standardised(per_channel=True)
    x, y = jnp.asarray(test, comparison.training.dtype), jnp.asarray(images.test_labels)

    def pruned(run: Trained, threshold: float, most: float) -> tuple[float, float]:
        if run.diverged:
            return np.nan, np.nan
        cut = merge_features(run.network, threshold, most=most)
        return cut.kept, evaluate(cut.network, x, y)[1]

    def table(settings: list[tuple[float, float]]) -> np.ndarray:
        return np.array([[[pruned(run, *s) for s in settings] for run in runs] for runs in compared.networks.values()])

    by_threshold = table([(beta, 1.0) for beta in thresholds])
    by_share = table([(np.inf, share) for share in shares])
    dims = ("arm", "replica")
    return xr.Dataset(
        {
            "kept_by_threshold": ((*dims, "threshold"), by_threshold[..., 0], _kept_note()),
            "accuracy_by_threshold": ((*dims, "threshold"), by_threshold[..., 1], _accuracy_note()),
            "kept_by_share": ("share", np.fmax.reduce(by_share[..., 0], axis=(0, 1)), _kept_note()),
            "accuracy_by_share": ((*dims, "share"), by_share[..., 1], _accuracy_note()),
        },
        coords={
            "arm": list(compared.networks),
            "replica": np.arange(comparison.replicas),
            "threshold": list(thresholds),
            "share": list(shares),
        },
        attrs=_attributes(images, comparison) | {"epochs": comparison.training.epochs},
    )


def _kept_note() -> dict[str, str]:
    return {"long_name": "share of the parameters kept", "units": "1"}


def _accuracy_note() -> dict[str, str]:
    return {"long_name": "accuracy on the test images after pruning", "units": "1"}
