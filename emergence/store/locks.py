"""Who works on what, for processes that share a folder: locks that vanish with the process that holds them."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no locks, and work done twice gives the same file twice
    fcntl = None  # type: ignore[assignment]


class Locks:
    """Locks by name, as byte ranges of one empty file: nothing to clean up after a kill, no clock, no process id.

    A file system without such locks (`working` is false) hands out every name: then two processes may do the same work
    and write the same bytes.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab+")  # noqa: SIM115 - the lock lives as long as the file is open
        self.working = self._probe()

    def take(self, name: str) -> bool:
        """Take the lock if nobody else holds it."""
        return not self.working or self._lock(name, wait=False)

    def release(self, name: str) -> None:
        if self.working:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(name))

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Wait for the lock and hold it."""
        if self.working:
            self._lock(name, wait=True)
        try:
            yield
        finally:
            self.release(name)

    def close(self) -> None:
        """Release everything."""
        self._file.close()

    def _lock(self, name: str, wait: bool) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, _place(name))
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: somebody has it
            return False
        return True

    def _probe(self) -> bool:
        if fcntl is None:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)  # fails only where there are no locks at all
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, 0)
        except OSError:
            return False
        return True


def _place(name: str) -> int:
    """The byte that stands for a name. Two names on one byte would only wait for each other."""
    return 1 + int(hashlib.sha256(name.encode()).hexdigest()[:15], 16)
