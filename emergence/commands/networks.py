"""``emergence simulate lazy-rich | label-noise-network | pruning``: networks on images, written to ``WHAT-DIGEST.nc``."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import config, console, network_problem, table
from emergence.arguments import problem_flags
from emergence.files import DataFile, file_name
from emergence.interruption import kept
from emergence.network_problem import LABEL_NOISE_NETWORK, LAZY_RICH, PRUNING
from emergence.progress import Progress
from emergence.result import Result

if TYPE_CHECKING:
    import xarray as xr

    from dynamics.networks import ImageSet

#: Start of the folder's name inside --out; kept, so that --resume finds it.
CHECKPOINTS = "checkpoints"
#: What an experiment hands back: its data, a table for people, and how many runs diverged.
Done = tuple["xr.Dataset", str, int]


def run(arguments: argparse.Namespace) -> Result:
    """Run the experiment and write. Status 1 if a run diverged."""
    what = arguments.what
    values = _values(arguments)
    file = DataFile.of(arguments, {"what": what} | values, free=("resume",))
    from dynamics.networks import load_images

    images = load_images(values["data"])
    checkpoints = file.make_folder() / checkpoint_folder(what, values)

    def finished() -> str:
        return f"the runs so far are kept in {checkpoints}: the same command with --resume goes on with them"

    with Progress(arguments.quiet) as progress, kept(finished):
        dataset, text, diverged = RUNS[what](images, values, checkpoints, progress)
    path = file.write(dataset)
    if diverged:
        console.warn(f"{diverged} runs diverged: lower step-size")
    return Result(file.document(dataset, path), f"{text}\n\nwritten: {path}", 1 if diverged else 0)


def checkpoint_folder(what: str, values: dict[str, Any]) -> str:
    """Folder of an experiment's checkpoints, one for whatever can go on from them: no other run writes there.

    More epochs, replicas or arms of trained networks go on from the same ones (files are named by arm and replica), in
    `label-noise-network` as in `pruning`.
    """
    free = {"full", "resume", "replicas"} | (set() if what == LAZY_RICH else {"epochs", "flip_probability", "radius"})
    decides = {name: value for name, value in values.items() if name not in free}
    return file_name(CHECKPOINTS, decides, ending="").rstrip(".")


def _values(arguments: argparse.Namespace) -> dict[str, Any]:
    """The experiment's options, from the configuration file and the flags (flags win)."""
    own = {name: value for name, value in vars(arguments).items() if name in network_problem.NEW}
    given = problem_flags(arguments) | own
    base = {}
    if arguments.config is not None:
        kinds = {name: option.kind for name, option in network_problem.OPTIONS.items()}
        base = config.load(arguments.config, kinds)
    return network_problem.resolve(arguments.what, base | given)


def _lazy_rich(images: "ImageSet", values: dict[str, Any], checkpoints: Path, progress: Progress) -> Done:
    from dynamics.networks import LazyRich, lazy_rich

    names = ("images", "hidden", "step_size", "steps", "replacement", "replicas", "seed")
    experiment = LazyRich(
        **{name: values[name] for name in names},
        flip_probability=values["flip_probability"][0],
        radius=values["radius"][0] if values["radius"] else 0.0,
    )
    result = lazy_rich(images, experiment, folder=checkpoints, resume=values["resume"], progress=progress)
    last = result.dataset.isel(time=-1)
    rows = []
    for arm in last.arm.values.tolist():
        x = last.sel(arm=arm).mean("replica")
        train, test, norm = ([float(y) for y in x[name]] for name in ("loss_train", "loss_test", "norm"))
        rows.append((arm, *train, float(x.expected_loss), *test, float(x.departure), *norm))
    headers = (
        "arm",
        "train loss",
        "linearised",
        "expected",
        "test loss",
        "linearised",
        "departure",
        "norm",
        "linearised",
    )
    note = f"any model that interpolates noisy labels has training loss {result.plateau:.4g} against clean ones"
    diverged = int(last.loss_train.isnull().any(("arm", "model")).sum())
    return result.dataset, f"{table.render(headers, rows)}\n\n{note}", diverged


def _comparison(values: dict[str, Any]) -> Any:
    from dynamics.networks import Comparison, Training

    training = Training(**{name: values[name] for name in ("step_size", "epochs", "batch", "widths", "blocks", "seed")})
    return Comparison(training, values["flip_probability"], values["radius"], values["replicas"])


def _label_noise_network(images: "ImageSet", values: dict[str, Any], checkpoints: Path, progress: Progress) -> Done:
    from dynamics.networks import compare_algorithms

    compared = compare_algorithms(
        images, _comparison(values), folder=checkpoints, resume=values["resume"], progress=progress
    )
    last = compared.dataset.isel(epoch=-1)
    rows = []
    for arm in compared.networks:
        x = last.sel(arm=arm)
        accuracy = x.test_accuracy
        error = float(accuracy.std(ddof=1) / accuracy.size**0.5) if accuracy.size > 1 else None
        rows.append((arm, float(accuracy.mean()), error, float(x.test_loss.mean()), float(x.train_loss.mean())))
    headers = ("arm", "test accuracy", "±", "test loss", "training loss as seen")
    return compared.dataset, table.render(headers, rows), compared.diverged


def _pruning(images: "ImageSet", values: dict[str, Any], checkpoints: Path, progress: Progress) -> Done:
    from dynamics.networks import compare_algorithms, prune_networks

    comparison = _comparison(values)
    compared = compare_algorithms(images, comparison, folder=checkpoints, resume=values["resume"], progress=progress)
    pruned = prune_networks(images, comparison, compared)
    accuracy = pruned.accuracy_by_share.mean("replica")
    headers = ("parameters kept", *compared.networks)
    rows = [
        (float(kept), *(float(accuracy.sel(arm=arm).isel(share=k)) for arm in compared.networks))
        for k, kept in enumerate(pruned.kept_by_share.values)
    ]
    return pruned, table.render(headers, rows), compared.diverged


RUNS: dict[str, Callable[["ImageSet", dict[str, Any], Path, Progress], Done]] = {
    LAZY_RICH: _lazy_rich,
    LABEL_NOISE_NETWORK: _label_noise_network,
    PRUNING: _pruning,
}
