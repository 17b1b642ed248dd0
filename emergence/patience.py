"""Nobody waits without a word for a problem to be understood. Imports nothing heavy."""

import contextlib
import sys
import threading
import time
from typing import ClassVar, Self, TextIO

#: Seconds without a word.
SILENCE = 2.0
_WIPE = "\r\x1b[K"


class Patience:
    """A word on a terminal while a problem is being understood, wiped when something else is to be said."""

    current: ClassVar["Patience | None"] = None

    def __init__(self, quiet: bool) -> None:
        self._over, self._begun = threading.Event(), time.monotonic()
        self._thread = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            self._thread = threading.Thread(target=self._tell, args=(sys.stderr,), daemon=True)

    def _tell(self, terminal: TextIO) -> None:
        told, wait = False, SILENCE
        with contextlib.suppress(OSError):
            while not self._over.wait(wait):
                terminal.write(f"{_WIPE}emergence: understanding the problem: {time.monotonic() - self._begun:.0f} s")
                terminal.flush()
                told, wait = True, 1.0
            if told:
                terminal.write(_WIPE)
                terminal.flush()

    def __enter__(self) -> Self:
        Patience.current = self
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Something else is to be said."""
        Patience.current = None
        self._over.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
