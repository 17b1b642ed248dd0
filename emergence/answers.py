"""Answers that were given before, in the user's cache folder: the same question again takes no mathematics.

An answer holds for one version of all code and of the libraries it rests on, and for one problem in full, defaults included.
What lies there may be lost at any time; what is damaged there, or not of the form that was written, is made anew.
"""

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from _emergence import PACKAGES
from emergence import cache, jsonio
from emergence.reading import read

_ROOT = Path(__file__).resolve().parents[1]
_LIBRARIES = ("numpy", "scipy", "sympy", "mpmath")
#: Bytes of an answer that is kept or read, and how many are kept: beyond, the older half goes.
_LARGEST, _MOST = 1_000_000, 2_000


class Answer(NamedTuple):
    """The JSON document of a command, the same for people, and the warnings that it was given with."""

    document: Mapping[str, object]
    text: str
    warnings: tuple[str, ...]


def answered(question: Mapping[str, Any], answer: Callable[[], Answer]) -> Answer:
    """The answer that is kept to a question (anything that JSON takes), or a new one, which is kept.

    Nothing is kept of a question that is refused: `answer` raises.
    """
    place = _place(question)
    if place is not None and (found := _kept(place)) is not None:
        return found
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        document, text, told = answer()
    also = tuple(str(one.message) for one in caught)
    found = Answer(jsonio.plain(document), text, tuple(dict.fromkeys((*told, *also))))
    if place is not None:
        _keep(place, json.dumps(found._asdict(), allow_nan=False))
    return found


def _place(question: Mapping[str, Any]) -> Path | None:
    """The file of a question's answer; None where nothing is kept."""
    root = cache.folder()
    if root is None:
        return None
    try:
        asked = json.dumps([_code(), jsonio.plain(question)], sort_keys=True)
    except (OSError, PackageNotFoundError):  # code in an archive, a library without its own description
        return None
    return root / "answers" / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"


def _kept(place: Path) -> Answer | None:
    try:
        found = json.loads(read(place, _LARGEST))
        document, text, told = (found[name] for name in Answer._fields)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none, or none of ours
        return None
    whole = isinstance(document, dict) and isinstance(text, str) and isinstance(told, list)
    return Answer(document, text, tuple(map(str, told))) if whole else None


def _keep(place: Path, content: str) -> None:
    """Write an answer whole or not at all; without a place to write everything works as well."""
    if len(content) > _LARGEST:
        return
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = place.with_suffix(f".{os.getpid()}")
        temporary.write_text(content, encoding="ascii")
        temporary.replace(place)
        entries = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(place.parent))
        for _, path in entries[: len(entries) // 2] if len(entries) > _MOST else ():
            os.unlink(path)


@lru_cache(maxsize=1)
def _code() -> str:
    """Of all files of the packages (name, size, time of the last change), Python and the libraries."""
    files = sorted(one for name in PACKAGES for one in _files(_ROOT / name))
    versions = [f"{name} {version(name)}" for name in _LIBRARIES]
    return hashlib.sha256(json.dumps([files, versions, sys.version]).encode()).hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(Path(entry.path))
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns
