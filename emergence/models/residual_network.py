"""A residual network on images: SGD, label noise and SAM side by side, and pruning by feature merging (arXiv:2603.10397)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emergence.model import Model, Progress, Run, Simulation
from emergence.models.lazy_rich import DATA, FULL, RESUME, Resolved, checkpoint_folder, filled, resolve
from emergence.options import Problem, option, options
from emergence.refusal import refuse
from emergence.resources import Cost
from emergence.table import Table
from emergence.values import Number, Numbers, Switch, Text, Whole, Wholes

if TYPE_CHECKING:
    from pathlib import Path

    from dynamics.networks import Compared, Comparison

#: Channels of a stage, at most: the array library ends the process over sizes that overflow.
LARGEST_WIDTH = 2**16
SMALL = {"flip_probability": (0.1,), "epochs": 8, "widths": (8, 16), "blocks": 1, "batch": 32}
PUBLISHED = {
    "flip_probability": (0.05, 0.1, 0.2),
    "epochs": 160,
    "widths": (64, 128, 256, 512),
    "blocks": 2,
    "batch": 128,
}


@dataclass(frozen=True)
class ResidualNetworkProblem(Problem):
    """Images, a residual network and its training; defaults small, or published with ``--full``."""

    data: str = option("digits", Text("digits"), DATA)
    full: bool = option(False, Switch(), FULL)
    resume: bool = option(False, Switch(), RESUME, free=True)
    flip_probability: tuple[float, ...] | None = option(
        None, Numbers(), "probabilities of a flipped label, one run of label noise for each (default: 0.1)"
    )
    radius: tuple[float, ...] = option((0.05,), Numbers(), "radii of SAM, one run for each")
    epochs: int | None = option(None, Whole(), "passes over the training images (default: 8; full: 160)")
    widths: tuple[int, ...] | None = option(None, Wholes(), "channels of each stage (default: 8 16)")
    blocks: int | None = option(None, Whole(), "blocks in each stage (default: 1; full: 2)")
    step_size: float = option(0.1, Number(), "step size")
    batch: int | None = option(None, Whole(), "images in one step (default: 32; full: 128)")
    replicas: int = option(3, Whole(), "runs of each algorithm")
    seed: int = option(0, Whole(0), "random seed")

    def check(self) -> None:
        """Refuses a stage that is too wide."""
        if self.widths is not None and max(self.widths) > LARGEST_WIDTH:
            refuse(f"--widths holds {max(self.widths)}: give whole numbers up to {LARGEST_WIDTH}")

    def decided(self) -> dict[str, Any]:
        return filled(self, PUBLISHED if self.full else SMALL)


def _comparison(values: dict[str, Any]) -> "Comparison":
    from dynamics.networks import Comparison, Training

    training = Training(**{name: values[name] for name in ("step_size", "epochs", "batch", "widths", "blocks", "seed")})
    return Comparison(training, values["flip_probability"], values["radius"], values["replicas"])


def _compared(resolved: Resolved, progress: Progress | None, folder: "Path | None") -> "Compared":
    from dynamics.networks import compare_algorithms

    values = resolved.values
    return compare_algorithms(
        resolved.images, _comparison(values), folder=folder, resume=values["resume"], progress=progress
    )


def _label_noise_network(resolved: Resolved, progress: Progress | None, folder: "Path | None") -> Run:
    compared = _compared(resolved, progress, folder)
    return Run(compared.dataset, compared.diverged, compared.networks)


def _cost(resolved: Resolved) -> Cost:
    """One convolution of 3 × 3 in each block, at half the size from stage to stage, forth and back for every image."""
    values, (height, width, _) = resolved.values, resolved.images.shape
    sizes = [9.0 * values["blocks"] * one**2 for one in values["widths"]]
    passed = sum(size * height * width / 4**stage for stage, size in enumerate(sizes))
    runs = values["replicas"] * (1 + len(values["flip_probability"]) + len(values["radius"])) * float(values["epochs"])
    return Cost(sum(sizes), 3.0 * runs * len(resolved.images.train) * passed)


def _accuracies(_: Resolved, run: Run) -> Table:
    last, rows = run.data.isel(epoch=-1), []
    for arm in run.result:
        x = last.sel(arm=arm)
        accuracy = x.test_accuracy
        error = float(accuracy.std(ddof=1) / accuracy.size**0.5) if accuracy.size > 1 else None
        rows.append((arm, float(accuracy.mean()), error, float(x.test_loss.mean()), float(x.train_loss.mean())))
    return Table(("arm", "test accuracy", "±", "test loss", "training loss as seen"), rows)


def _pruning(resolved: Resolved, progress: Progress | None, folder: "Path | None") -> Run:
    from dynamics.networks import prune_networks

    if len(resolved.values["widths"]) == 1:
        refuse("--widths holds one stage, which pruning leaves as it is: give two or more")
    compared = _compared(resolved, progress, folder)
    pruned = prune_networks(resolved.images, _comparison(resolved.values), compared)
    return Run(pruned, compared.diverged, compared.networks)


def _pruned(_: Resolved, run: Run) -> Table:
    accuracy = run.data.accuracy_by_share.mean("replica")
    rows = [
        (float(kept), *(float(accuracy.sel(arm=arm).isel(share=k)) for arm in run.result))
        for k, kept in enumerate(run.data.kept_by_share.values)
    ]
    return Table(("parameters kept", *run.result), rows)


def _folder(resolved: Resolved) -> str:
    """More epochs, replicas or arms go on from the same checkpoints (files are named by arm and replica)."""
    return checkpoint_folder(resolved.values, "epochs", "flip_probability", "radius")


_USES = frozenset(options(ResidualNetworkProblem))
_HISTORY = ("train_loss", "test_loss", "test_accuracy")
MODEL = Model(
    name="residual-network",
    help="SGD, label noise and SAM on images",
    problem=ResidualNetworkProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="label-noise-network",
            help="test accuracy of the three, side by side",
            uses=_USES,
            run=_label_noise_network,
            table=_accuracies,
            cost=_cost,
            variables=_HISTORY,
            checkpoints=_folder,
        ),
        Simulation(
            name="pruning",
            help="what is left of it after merging features",
            uses=_USES,
            run=_pruning,
            table=_pruned,
            cost=_cost,
            variables=tuple(f"{what}_by_{by}" for what in ("accuracy", "kept") for by in ("share", "threshold")),
            checkpoints=_folder,
        ),
    ),
)
