"""The cells of a sweep: one simulation of a model for one problem. Importing this module imports nothing heavy."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from emergence import models
from emergence.model import Model
from emergence.options import Problem, free
from emergence.refusal import refuse
from emergence.store import folder as store
from emergence.version import version

#: Raised whenever a cell's variables change their names or meaning: older cells are then left alone, not mixed in.
SCHEMA = 3


def configuration(model: Model, what: str, problem: Problem, keep: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Everything that decides a cell's result: model, simulation, the problem with its defaults, the software's version.

    Defaults that follow from the rest of the problem (step size, length) stay null. `keep`: variables stored (None: all).
    """
    values = {name: value for name, value in asdict(problem).items() if name not in free(model.problem)}
    content = {
        "model": models.reference(model),
        "what": what,
        "schema": SCHEMA,
        "version": version(),
        "problem": values | problem.decided(),
        "keep": None if keep is None else sorted(keep),
    }
    return dict(json.loads(store.canonical(content)))


def _model(reference: Mapping[str, str]) -> Model:
    if "file" not in reference:
        return models.named(reference["name"])
    found = models.load(reference["file"])
    if models.reference(found) != dict(reference):
        refuse(f"model file {reference['file']} has changed since the sweep began: run the sweep again")
    return found


def compute(configuration: Mapping[str, Any]) -> bytes:
    """The finished cell of a configuration, as the bytes of its file.

    Raises whatever the computation raises, and `InputError` if this process has another version of the software.
    """
    if configuration["version"] != version():
        refuse(f"version is {configuration['version']}, this worker has {version()}: install the same everywhere")
    model = _model(configuration["model"])
    simulation, problem = model.simulation(configuration["what"]), problem_of(model, configuration["problem"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            resolved = model.resolve(problem, simulation)
            simulation.requires(resolved)
            if simulation.cost is not None:
                simulation.cost(resolved).check(simulation.name, simulation.uses)
            run = simulation.done(resolved)
        except Exception as error:
            if text := models.mended(error):
                refuse(text)  # (a line is not known any more where another process hears of it)
            raise
    keep, data = configuration["keep"], run.data
    for name in set(keep or ()) - set(data):
        refuse(
            f"{name} is asked for, but this run has only {', '.join(map(str, data))}: use these (a run with --samples has a "
            "train_loss, one with fewer replicas or a lower width its large arrays)"
        )
    return store.seal(data if keep is None else data[keep], configuration, run.diverged)


def problem_of(model: Model, values: Mapping[str, Any]) -> Problem:
    """The problem of a cell's configuration. Raises `InputError`."""
    return model.problem(**values)
