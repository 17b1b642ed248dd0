"""Progress on standard error: a bar on a terminal, a line now and then in a log, nothing with ``--quiet``.

Nobody waits for more than `SILENCE` without a word: on a terminal not for a problem to be understood either, in a log not for
the first word of a run. (Bad input is answered by one line alone, so a log says nothing before it is accepted.)
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tqdm import tqdm

from emergence import console
from emergence.patience import SILENCE, Patience

#: Seconds between two lines in a log, and between two redraws of the bar.
LOG_INTERVAL, BAR_INTERVAL = 5.0, 0.1


class Progress:
    """Called with the fraction done (0 to 1) and a short text, by whatever does the work."""

    def __init__(self, quiet: bool) -> None:
        self._last = -float("inf")
        self._quiet = quiet
        self._bar = None
        self._first = threading.Timer(SILENCE, self, (0.0, "starting"))
        self._first.daemon = True
        if Patience.current is not None:
            Patience.current.end()
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            self._bar = tqdm(total=1.0, file=sys.stderr, leave=False, bar_format="{l_bar}{bar}| {elapsed}<{remaining}")

    def __call__(self, fraction: float, text: str = "") -> None:
        now, done = time.monotonic(), fraction >= 1.0
        if self._quiet or (not done and now - self._last < (BAR_INTERVAL if self._bar else LOG_INTERVAL)):
            return
        self._last = now
        self._first.cancel()
        if self._bar is None:
            console.note(f"{fraction:.0%} {text}")
            return
        with contextlib.suppress(OSError):  # a terminal that is gone
            self._bar.n = min(max(fraction, 0.0), 1.0)
            self._bar.set_description_str(text, refresh=True)

    def part(self, done: int, of: int) -> Callable[[float, str], None]:
        """The progress of one of several equal parts, `done` of which are done."""
        return lambda fraction, text: self((done + fraction) / of, text)

    def say(self, text: str) -> None:
        """A line of its own, above the bar where there is one."""
        if self._bar is not None:
            self._bar.clear()
        if not self._quiet:
            console.note(text)
        if self._bar is not None:
            self._bar.refresh()

    def __enter__(self) -> Self:
        if self._bar is None and not self._quiet:
            self._first.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._first.cancel()
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
