"""``emergence merge``: the cells of a store as one labelled dataset."""

import argparse
from pathlib import Path
from typing import Any

from emergence import console, output
from emergence.interruption import NOTHING, kept
from emergence.progress import Progress
from emergence.reading import read
from emergence.refusal import refuse
from emergence.result import Result
from emergence.store import merging
from emergence.store.folder import is_store
from emergence.store.merging import Experiment, Merged
from emergence.store.sweeping import label

#: So many missing cells are named to people; the JSON document names all.
_NAMED = 20


def run(arguments: argparse.Namespace) -> Result:
    """Write one netCDF-4 file per experiment of the store. Status 1 if a cell or a plan is damaged.

    Refuses a folder that is no store, or holds no sweep.
    """
    store = Path(arguments.store)
    if not is_store(store):
        refuse(f"store is {arguments.store!r}: it is no store: give the folder that `emergence sweep` wrote")
    found, broken = merging.experiments(_plans(store))
    if not found and not broken:
        refuse(f"store is {arguments.store!r}: no sweep is in it: run `emergence sweep` first")
    folder = output.make(output.asked(arguments.out, *(experiment.name for experiment in found)))
    entries: list[dict[str, Any]] = []

    def written() -> str:
        files = ", ".join(entry["file"] for entry in entries if entry["file"])
        return f"the store is unchanged; written: {files}" if files else NOTHING

    with Progress(arguments.quiet) as progress, kept(written):
        for number, experiment in enumerate(found):
            progress(number / len(found), f"merging {experiment.name}")
            entries.append(_merge(store, folder, experiment))
    for name in broken:
        console.warn(f"plan {name} is damaged: run its sweep again")
    damaged = bool(broken) or any(entry["damaged"] for entry in entries)
    document = {"store": str(store), "experiments": entries, "damaged_plans": broken}
    return Result(document, "\n".join(_text(entry) for entry in entries), 1 if damaged else 0)


def _plans(store: Path) -> list[tuple[str, bytes]]:
    """Plans by name; nothing in the place of what cannot be read."""
    found = []
    for path in sorted(store.glob(f"{merging.PLAN}*.json")):
        try:
            found.append((path.name, read(path)))
        except OSError:
            found.append((path.name, b""))
    return found


def _merge(store: Path, folder: Path, experiment: Experiment) -> dict[str, Any]:
    merged = merging.merge(store, experiment)
    file = None
    if merged.data is not None:
        from dynamics.core.provenance import provenance
        from dynamics.core.storage import write_dataset

        # What is said of the cells wins over what is said of merging them.
        file = str(write_dataset(folder / experiment.name, merged.data.assign_attrs(provenance() | merged.data.attrs)))
    _warn(experiment, merged)
    data = merged.data
    return {
        "what": experiment.fixed["what"],
        "file": file,
        "over": experiment.axes,
        "cells": len(experiment.planned),
        "sizes": {} if data is None else {str(name): size for name, size in data.sizes.items()},
        "variables": {} if data is None else {str(k): list(v.dims) for k, v in data.data_vars.items()},
        "missing": merged.missing,
        "damaged": [{"cell": values, "reason": reason} for values, reason in merged.damaged],
    }


def _warn(experiment: Experiment, merged: Merged) -> None:
    what, count = experiment.fixed["what"], len(experiment.planned)
    for values, reason in merged.damaged:
        console.warn(f"{what} cell {label(values)} is damaged ({reason}): run the sweep again to compute it")
    if merged.missing:
        names = "; ".join(label(values) for values in merged.missing[:_NAMED])
        more = "; …" if len(merged.missing) > _NAMED else ""
        console.warn(f"{len(merged.missing)} of {count} {what} cells are missing, NaN in the file: {names}{more}")


def _text(entry: dict[str, Any]) -> str:
    absent = len(entry["missing"]) + len(entry["damaged"])
    sizes = ", ".join(f"{name} {size}" for name, size in entry["sizes"].items())
    head = f"{entry['what']}: {entry['cells'] - absent} of {entry['cells']} cells"
    return head if entry["file"] is None else f"{head}; {sizes}\nwritten: {entry['file']}"
