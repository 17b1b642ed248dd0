"""Whether the claims' files of a folder hold the data of every figure: ``python -m validation.stored emergence-out``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from theory import InputError
from validation.figures.data import has_data
from validation.judge.storage import group_of


@dataclass(frozen=True)
class Stored:
    """What a claim's file holds: its id, how many figures were drawn, and the numbers of those without data."""

    claim: str
    figures: int
    lacking: tuple[int, ...]


def stored(folder: Path) -> list[Stored]:
    """One entry per file of a claim in the folder. Raises `InputError` if there is none, or one that is none."""
    found = [entry for path in sorted(folder.glob("*.nc")) if (entry := _read(path)) is not None]
    if not found:
        raise InputError(f"folder {str(folder)!r} holds no file of a claim: run `emergence validate` first")
    return found


def _read(path: Path) -> Stored | None:
    """Raises `InputError` for a file that cannot be understood."""
    try:
        return _entry(path)
    except Exception as problem:  # bytes that somebody made up can raise anything
        raise InputError(f"file {str(path)!r} cannot be understood ({type(problem).__name__}): remove it") from problem


def _entry(path: Path) -> Stored | None:
    if not path.is_file():
        raise InputError(f"{str(path)!r} is no regular file: remove it")
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        if "claim" not in tree.attrs:
            return None  # of a simulation
        count = int(tree.attrs["figures"])
        lacking = tuple(n for n in range(1, count + 1) if not _has_data(tree, group_of(n)))
        return Stored(str(tree.attrs["claim"]), count, lacking)


def _has_data(tree: xr.DataTree, group: str) -> bool:
    return group in tree.children and has_data(tree[group].to_dataset())


def main(arguments: Sequence[str]) -> int:
    """Print how many figures there are and which have no data; 1 if any, 2 if there is no claim's file."""
    try:
        found = stored(Path(arguments[0] if arguments else "emergence-out"))
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    for entry in found:
        for number in entry.lacking:
            print(f"{entry.claim}: {group_of(number)} has no data")
    lacking = sum(len(entry.lacking) for entry in found)
    print(f"{len(found)} claims, {sum(entry.figures for entry in found)} figures, {lacking} without data")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
