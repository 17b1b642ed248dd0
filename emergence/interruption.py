"""Ctrl-C: what the user is told was kept, which must be true."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Said where a command has written nothing.
NOTHING = "nothing was written"


class Kept(KeyboardInterrupt):
    """Ctrl-C after what was finished has been kept: the message says what, and where it is."""


@contextmanager
def kept(what: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside ends the command with what `what` answers then; it may write first."""
    try:
        yield
    except Kept:
        raise
    except KeyboardInterrupt as stop:
        raise Kept(what()) from stop
