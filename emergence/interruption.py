"""Ctrl-C, and what else asks a run to end: what the user is told was kept, which must be true."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Sent by batch systems before they kill, and by a terminal that closes.
_REQUESTS = ("SIGTERM", "SIGHUP")
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


@contextmanager
def heeded() -> Iterator[None]:
    """Requests to end are answered as Ctrl-C is, unless they are ignored (``nohup``) or somebody else answers them."""
    found = [getattr(signal, name) for name in _REQUESTS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        found = []  # only there can signals be answered
    ours = [one for one in found if signal.getsignal(one) is signal.SIG_DFL]
    for one in ours:
        signal.signal(one, signal.default_int_handler)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)
