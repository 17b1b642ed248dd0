"""The output folder: checked before anything is computed, made once the problem is known to be good."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emergence.refusal import refuse

DEFAULT = "emergence-out"
#: Endings of pictures.
PICTURES = ("pdf", "svg", "png", "eps")
#: Folders that `make` has made, outermost first.
_made: list[Path] = []


@contextmanager
def nothing_empty() -> Iterator[None]:
    """Folders that are made inside, and into which nothing was written in the end, are removed; others stay as they are."""
    before = len(_made)
    try:
        yield
    finally:
        while len(_made) > before:
            with suppress(OSError):  # something is in it, perhaps of another process
                _made.pop().rmdir()


def asked(folder: str | None, *names: str) -> Path:
    """The folder of ``--out``, checked but not made. Raises `InputError` unless `names` could be written there."""
    return check(DEFAULT if folder is None else folder, *names)


def check(folder: str, *names: str, label: str = "out") -> Path:
    """The folder as a path, nothing made yet. Raises `InputError` if `names` could not be written into it.

    `label` is the option that the folder comes from.
    """
    if not folder:
        refuse(f"{label} is '': give the name of a folder")
    path = Path(folder)
    try:
        ancestor = next(p for p in [path.absolute(), *path.absolute().parents] if _exists(p))
        is_folder = ancestor.is_dir()
        taken = [name for name in names if (path / name).is_dir()]
    except (OSError, ValueError, StopIteration) as problem:  # name too long, null character …
        refuse(
            f"{label} is {folder!r}: it is no usable path ({getattr(problem, 'strerror', problem)}): give another folder"
        )
    if not is_folder:
        refuse(f"{label} is {folder!r}: {str(ancestor)!r} is not a folder: give another folder")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        refuse(f"{label} is {folder!r}: {str(ancestor)!r} is not writable: give another folder")
    if taken:
        refuse(f"{label} is {folder!r}: {taken[0]!r} in it is a folder: remove it or give another folder")
    return path


def _exists(path: Path) -> bool:
    """Whether there is anything at `path`. Raises `OSError` if it can never be (a name too long, a loop of links)."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def make(path: Path, label: str = "out") -> Path:
    """Make the folder and prove that a file can be written there. Raises `InputError` if not."""
    folders = [path.absolute(), *path.absolute().parents]
    try:
        _made.extend(reversed([one for one in folders if not one.exists()]))
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path, prefix=".tmp-") as probe:
            probe.write(b"probe")
    except OSError as problem:
        refuse(f"{label} is {str(path)!r}: cannot write there ({problem.strerror}): give another folder")
    return path
