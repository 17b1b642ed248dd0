"""Lazy or rich? A fully connected network on few images, with and without label noise (arXiv:2603.10397)."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from emergence.files import file_name
from emergence.model import Model, Progress, Run, Simulation
from emergence.options import Problem, option, options
from emergence.resources import Cost
from emergence.table import Table
from emergence.values import Choice, Number, Share, Switch, Text, Whole

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from dynamics.networks import ImageSet

DATA = "digits (scikit-learn), or the folder of CIFAR-10's Python batches"
FULL = "the published configuration instead of a small one"
RESUME = "continue from the checkpoints in DIR/checkpoints"
#: Start of the checkpoints' folder inside --out; kept, so that --resume finds it.
CHECKPOINTS = "checkpoints"
SMALL = {"images": 32, "hidden": 256, "step_size": 0.05, "steps": 1500}
PUBLISHED = {"images": 64, "hidden": 512, "step_size": 1e-3, "steps": 10_000}


@dataclass(frozen=True)
class LazyRichProblem(Problem):
    """Few images and one hidden layer; defaults small, or published with ``--full``."""

    data: str = option("digits", Text("digits"), DATA)
    full: bool = option(False, Switch(), FULL)
    resume: bool = option(False, Switch(), RESUME, free=True)
    images: int | None = option(None, Whole(), "training images, and as many for testing (default: 32; full: 64)")
    hidden: int | None = option(None, Whole(), "neurons of the hidden layer (default: 256; full: 512)")
    flip_probability: float = option(0.5, Share(), "probability of a flipped label")
    replacement: str = option("any", Choice(("any", "other")), "flipped labels become any class, or another class")
    radius: float | None = option(None, Number(), "radius of SAM, for a run with it (default: none)")
    step_size: float | None = option(None, Number(), "step size (default: 0.05; full: 0.001)")
    steps: int | None = option(None, Whole(), "full-batch steps (default: 1500; full: 10000)")
    replicas: int = option(4, Whole(), "independent initialisations and flips")
    seed: int = option(0, Whole(0), "random seed")

    def decided(self) -> dict[str, Any]:
        return filled(self, PUBLISHED if self.full else SMALL)


def filled(problem: Problem, defaults: dict[str, Any]) -> dict[str, Any]:
    """Defaults where nothing is given."""
    return {
        name: value if getattr(problem, name) is None else getattr(problem, name) for name, value in defaults.items()
    }


@dataclass(frozen=True)
class Resolved:
    """A problem with its images and its options, defaults filled in."""

    problem: Any
    images: "ImageSet"
    values: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def echo(self) -> dict[str, Any]:
        return self.values

    def headline(self) -> str:
        return f"network on images ({self.values['data']}), seed {self.values['seed']}"


def resolve(problem: Problem, simulation: Simulation | None = None) -> Resolved:
    """Load the images. Raises `InputError` for data that are not there."""
    from dynamics.networks import load_images

    values = asdict(problem) | problem.decided()
    return Resolved(problem, load_images(values["data"]), values)


def checkpoint_folder(values: dict[str, Any], *more: str) -> str:
    """Folder of an experiment's checkpoints, one for whatever can go on from them; `more`: options that do not matter."""
    decides = {name: value for name, value in values.items() if name not in ("full", "resume", "replicas", *more)}
    return file_name(CHECKPOINTS, decides, ending="").rstrip(".")


def _run(resolved: Resolved, progress: Progress | None, folder: "Path | None") -> Run:
    from dynamics.networks import LazyRich, lazy_rich

    values = resolved.values
    names = ("images", "hidden", "step_size", "steps", "replacement", "replicas", "seed", "flip_probability")
    experiment = LazyRich(**{name: values[name] for name in names}, radius=values["radius"] or 0.0)
    result = lazy_rich(resolved.images, experiment, folder=folder, resume=values["resume"], progress=progress)
    last = result.dataset.isel(time=-1)
    return Run(result.dataset, int(last.loss_train.isnull().any(("arm", "model")).sum()), result)


def _cost(resolved: Resolved) -> Cost:
    """Weights of the network, the tangent kernel of all images and classes, and a pass forth and back in every step."""
    images, classes = resolved.images, len(resolved.images.classes)
    weights = float(resolved.values["hidden"]) * (math.prod(images.shape) + classes)
    kernel = (float(resolved.values["images"]) * classes) ** 2
    runs = 2 * resolved.values["replicas"] * float(resolved.values["steps"])
    return Cost(max(weights, kernel), 6.0 * runs * resolved.values["images"] * weights)


def _table(_: Resolved, run: Run) -> Table:
    last, rows = run.data.isel(time=-1), []
    for arm in last.arm.values.tolist():
        x = last.sel(arm=arm).mean("replica")
        train, test, norm = ([float(y) for y in x[name]] for name in ("loss_train", "loss_test", "norm"))
        rows.append((arm, *train, float(x.expected_loss), _error(last, arm), *test, float(x.departure), *norm))
    pairs = [(name, f"{name}, linearised") for name in ("train loss", "test loss", "norm")]
    headers = ("arm", *pairs[0], "train loss, expected", "±", *pairs[1], "departure", *pairs[2])
    plateau = f"any model that interpolates noisy labels has training loss {run.result.plateau:.4g} against clean ones"
    error = "±: standard error of linearised less expected, over replicas (each has its own start and expectation)"
    return Table(headers, rows, below=["", error, plateau])


def _error(last: "xr.Dataset", arm: str) -> float | None:
    """Of the mean over replicas of linearised loss less its expectation; None of one replica, and of clean labels."""
    from dynamics.networks.lazy_rich import NOISY

    of = last.sel(arm=arm)
    off = of.loss_train.sel(model="linearised") - of.expected_loss
    return None if off.size < 2 or arm != NOISY else float(off.std(ddof=1)) / math.sqrt(off.size)


_CURVES = ("loss_train", "loss_test", "norm", "displacement", "departure", "expected_loss")
MODEL = Model(
    name="lazy-rich",
    help="a network on few images beside its linearisation",
    problem=LazyRichProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="lazy-rich",
            help="with and without label noise, beside the linearised network",
            uses=frozenset(options(LazyRichProblem)),
            run=_run,
            table=_table,
            cost=_cost,
            variables=(*_CURVES, "kernel_change"),
            curves=_CURVES,
            checkpoints=lambda resolved: checkpoint_folder(resolved.values),
        ),
    ),
)
