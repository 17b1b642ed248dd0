"""Reading files that somebody else may have made: regular ones only, and no more of them than is asked for."""

import errno
import os
import stat


def read(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The content of a regular file, at most one byte beyond `most`.

    Raises `OSError`, also for a pipe, which would wait for ever, and a device, which would never end; `ValueError` for a
    path with a null character.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with open(path, "rb") as file:
        return file.read(-1 if most is None else most + 1)
