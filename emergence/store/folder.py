"""A folder of finished results, one file each, named by what was computed; made to be killed, shared and resumed.

A cell is a netCDF-3 file. Its name is the kind of computation and the SHA-256 of its configuration as canonical JSON. The
configuration holds everything that decides the result and nothing else: no time, place or machine; so the same
configuration gives the same bytes, and a file's existence means that the cell is finished. A checksum of the whole file
stands in its first attribute. Files appear by renaming a complete temporary file, never in part.
"""

import contextlib
import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from emergence.reading import read
from emergence.refusal import refuse
from emergence.store.locks import Locks

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
MARKER = "emergence-store.json"
_LOCKS, _TEMPORARY, _DAMAGED = ".locks", ".tmp-", ".corrupt"
_CHECKSUM, _DIGITS = b"sha256:", 64
#: Without locks nobody knows whose a temporary file is: one this old (seconds) belongs to nobody.
_ABANDONED = 3600.0

Configuration = Mapping[str, Any]


class DamagedError(Exception):
    """A file of the store is not what was written there: the message says what is wrong with it."""


@dataclass(frozen=True)
class Header:
    """What a cell says of itself: its configuration, and how many of its replicas diverged."""

    configuration: dict[str, Any]
    diverged: int


# ------------------------------------------------------------------------------ names


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, ASCII only: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def cell_name(configuration: Configuration) -> str:
    """File name of the cell with this configuration (its key ``what`` is the kind of computation)."""
    return f"{configuration['what']}-{digest(configuration)}.nc"


# ------------------------------------------------------------------------------ cells


def seal(data: "xr.Dataset", configuration: Configuration, diverged: int = 0) -> bytes:
    """A finished cell as the bytes of its file.

    netCDF-3 has no integers beyond 32 bits: variables of integers become doubles (exact up to 2⁵³), but for bytes.
    """
    wide = {
        name: variable.astype(float)
        for name, variable in data.variables.items()
        if variable.dtype.kind in "iu" and variable.dtype.itemsize > 1 and name not in data.dims
    }
    sealed = data.assign(wide).set_coords([name for name in wide if name in data.coords]) if wide else data.copy()
    sealed.attrs = {
        "checksum": (_CHECKSUM + b"0" * _DIGITS).decode(),
        "configuration": canonical(configuration),
        "diverged": diverged,
    }
    content = bytearray(sealed.to_netcdf(engine="scipy"))
    start = content.index(_CHECKSUM) + len(_CHECKSUM)
    content[start : start + _DIGITS] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def inspect(content: bytes, name: str) -> Header:
    """Check every byte of a cell and its name against each other. Raises `DamagedError`."""
    start = content.find(_CHECKSUM) + len(_CHECKSUM)
    if not content.startswith(b"CDF") or start < len(_CHECKSUM):
        raise DamagedError(f"{len(content)} bytes that are no cell")
    blank = bytearray(content)
    blank[start : start + _DIGITS] = b"0" * _DIGITS
    if hashlib.sha256(blank).hexdigest().encode() != content[start : start + _DIGITS]:
        raise DamagedError("its checksum does not match")
    with understood():
        from scipy.io import netcdf_file

        with netcdf_file(io.BytesIO(content), mmap=False) as file:
            header = Header(dict(json.loads(file.configuration)), int(file.diverged))
        intact = cell_name(header.configuration) == name
    if not intact:
        raise DamagedError("it is a cell of another configuration")
    return header


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Whatever a reader raises over bytes that somebody made up is damage. Raises `DamagedError`."""
    try:
        yield
    except (DamagedError, MemoryError):
        raise
    except Exception as problem:
        raise DamagedError(f"it cannot be understood ({type(problem).__name__})") from problem


# ------------------------------------------------------------------------------ folder


def check(folder: str) -> Path:
    """The folder as a path, nothing made or changed. Raises `InputError` if it holds something other than a store."""
    path = Path(folder)
    if is_store(path) or not path.is_dir():
        return path
    others = sorted(entry for entry in os.listdir(path) if not entry.startswith((_TEMPORARY, _LOCKS)))
    if others and not is_store(path):  # another process may have marked it since the first look
        refuse(f"store is {folder!r}: it holds other things ({others[0]!r}): give an empty or a new folder")
    return path


def pace(files: Iterable[Path]) -> float | None:
    """Median seconds between finished cells, whoever computed them, breaks left out of account; None below two."""
    times = sorted(file.stat().st_mtime for file in files)
    return median(later - earlier for earlier, later in pairwise(times)) if len(times) > 1 else None


def is_store(path: Path) -> bool:
    """Whether the folder is marked as a store."""
    try:
        return (path / MARKER).is_file()
    except OSError:  # a name too long
        return False


class Store:
    """An open store; the folder is made and marked if it is new. Use as a context manager. Raises `InputError` if it cannot.

    Attributes:
        folder: where the files are.
        locks: who works on which file, among the processes that have the store open.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.locks = Locks(folder / _LOCKS)
        except OSError as problem:
            refuse(
                f"store is {str(folder)!r}: cannot open {problem.filename!r} ({problem.strerror}): "
                "make it writable or give another folder"
            )
        self.record(MARKER, {"format": FORMAT})

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.locks.close()

    def read(self, name: str) -> Header | None:
        """The header of a cell, every byte checked; None if it is not there. Raises `DamagedError`."""
        content = self.content(name)
        return None if content is None else inspect(content, name)

    def content(self, name: str) -> bytes | None:
        """The bytes of a file; None if it is not there. Raises `InputError` for what is there and cannot be read."""
        try:
            return read(self.folder / name)
        except FileNotFoundError:
            return None
        except OSError as problem:
            refuse(f"store is {str(self.folder)!r}: {name} cannot be read ({problem.strerror}): remove it")

    def write(self, name: str, content: bytes) -> None:
        """Put a complete file in place; call it while holding the lock of that name.

        Raises `InputError` if the folder cannot take it (a full disk); nothing is left behind.
        """
        temporary = self.folder / f"{_TEMPORARY}{name}.{secrets.token_hex(4)}"
        try:
            with self._writing():
                with open(temporary, "xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, self.folder / name)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises `InputError` for whatever the file system does not take."""
        try:
            yield
        except FileNotFoundError:
            refuse(f"store is {str(self.folder)!r}: it has gone while it was used: run it again")
        except OSError as problem:
            refuse(
                f"store is {str(self.folder)!r}: cannot write there ({problem.strerror}): make room and run it again"
            )

    def record(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a small JSON file unless it stands there already."""
        content = canonical(value).encode()
        if self.content(name) != content:
            with self.locks.held(name):
                self.write(name, content)

    def set_aside(self, name: str) -> str:
        """Rename a damaged file, so that its cell counts as missing; returns the new name.

        Raises `InputError`, as `write` does.
        """
        aside = name + _DAMAGED
        with self._writing():
            os.replace(self.folder / name, self.folder / aside)
        return aside

    def sweep_up(self) -> int:
        """Remove temporary files that a killed process left behind, and no other; returns how many."""
        return sum(self._remove(path) for path in sorted(self.folder.glob(f"{_TEMPORARY}*")))

    def _remove(self, path: Path) -> bool:
        name = path.name.removeprefix(_TEMPORARY).rpartition(".")[0]
        if not self.locks.take(name):
            return False  # its writer is alive
        try:
            if not self.locks.working and time.time() - path.stat().st_mtime < _ABANDONED:
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        finally:
            self.locks.release(name)
        return True
