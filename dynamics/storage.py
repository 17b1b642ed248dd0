"""Files that are complete or absent, never half-written."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


def write_atomically(path: Path, write: Callable[[str], object]) -> Path:
    """`write(temporary)` beside `path`, then rename: readers see the old file or the whole new one, never a part."""
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


def write_dataset(path: Path, data: "xr.Dataset") -> Path:
    """An `xarray.Dataset` as netCDF-4."""
    return write_atomically(path, lambda temporary: data.to_netcdf(temporary, engine="h5netcdf"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
