"""Files that are complete or absent, never half-written."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from theory.core.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


def write_atomically(path: Path, write: Callable[[str], object]) -> Path:
    """`write(temporary)` beside `path`, then rename: readers see the old file or the whole new one, never a part.

    Raises `InputError` where the file system does not take it, e.g. a full disk; nothing is left behind.
    """
    try:
        return _write_atomically(path, write)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(f"cannot write {str(path)!r} ({reason}): make room, or give another folder") from problem


def _write_atomically(path: Path, write: Callable[[str], object]) -> Path:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-", suffix=path.suffix)
    os.close(handle)
    try:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def write_dataset(path: Path, data: "xr.Dataset | xr.DataTree") -> Path:
    """A dataset, or a tree of them in groups, as netCDF-4. Raises `InputError` like `write_atomically`."""
    # Made in memory: HDF5 itself does not survive a disk that fills up under it.
    content = data.to_netcdf(engine="h5netcdf")
    return write_atomically(path, lambda temporary: Path(temporary).write_bytes(content))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
