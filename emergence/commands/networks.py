"""``emergence simulate lazy-rich | label-noise-network | pruning``: networks on images, written to ``WHAT.nc``."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import config, console, jsonio, network_problem, output, table
from emergence.commands.setup import out_folder
from emergence.network_problem import LABEL_NOISE_NETWORK, LAZY_RICH, PRUNING
from emergence.problem import KINDS
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result
from emergence.version import version

if TYPE_CHECKING:
    import xarray as xr

    from dynamics.networks import ImageSet

#: Folder inside --out; kept, so that --resume finds it.
CHECKPOINTS = "checkpoints"
#: What an experiment hands back: its data, a table for people, and how many runs diverged.
Done = tuple["xr.Dataset", str, int]


def run(arguments: argparse.Namespace) -> Result:
    """Run the experiment and write. Status 1 if a run diverged."""
    what = arguments.what
    values = _values(arguments)
    folder = out_folder(arguments, f"{what}.nc")
    from dynamics.networks import load_images
    from dynamics.storage import write_dataset

    images = load_images(values["data"])
    output.make(folder)
    with Progress(arguments.quiet) as progress:
        dataset, text, diverged = RUNS[what](images, values, folder / CHECKPOINTS, progress)
    problem = {"what": what} | values
    provenance = {"problem": json.dumps(jsonio.plain(problem)), "emergence_version": version()}
    file = write_dataset(folder / f"{what}.nc", dataset.assign_attrs(provenance))
    if diverged:
        console.warn(f"{diverged} runs diverged: lower step-size")
    variables = {str(name): list(variable.dims) for name, variable in dataset.data_vars.items()}
    document = {"what": what, "problem": problem, "file": str(file), "variables": variables}
    return Result(document, "\n".join([text, "", f"written: {file}"]), 1 if diverged else 0)


def _values(arguments: argparse.Namespace) -> dict[str, Any]:
    """The experiment's options, from the configuration file and the flags (flags win)."""
    given = {name: value for name, value in vars(arguments).items() if name in KINDS or name in network_problem.NEW}
    base = {}
    if arguments.config is not None:
        kinds = {name: option.kind for name, option in network_problem.OPTIONS.items()}
        base = config.load(arguments.config, kinds)
    return network_problem.resolve(arguments.what, base | given)


def refuse_network_flags(arguments: argparse.Namespace) -> None:
    """Refuse options that only experiments with images take."""
    for name in network_problem.NEW:
        if name in arguments:
            refuse(f"--{name.replace('_', '-')} is given, but {arguments.what} does not take it: leave it out")


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
