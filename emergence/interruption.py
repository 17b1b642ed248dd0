"""Ctrl-C, and what else asks a run to end: what the user is told was kept, which must be true."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C; sent by batch systems before they kill, and by a terminal that closes.
_REQUESTS = ("SIGINT", "SIGTERM", "SIGHUP")
#: Said where a command has written nothing.
NOTHING = "nothing was written"
#: Set once a request has come. (Raised within a library, it may come out as another error, or leave it unable to go on.)
asked = threading.Event()


class Kept(KeyboardInterrupt):
    """Ctrl-C after what was finished has been kept: the message says what, and where it is."""


@contextmanager
def kept(what: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside, whatever a library makes of it, ends the command with what `what` answers then; it may write first."""
    try:
        yield
    except Kept:
        raise
    except (KeyboardInterrupt, Exception) as stop:
        if isinstance(stop, KeyboardInterrupt) or asked.is_set():
            raise Kept(what()) from stop
        raise


@contextmanager
def heeded() -> Iterator[None]:
    """Requests to end are answered as Ctrl-C is, unless they are ignored (``nohup``) or somebody else answers them."""
    asked.clear()
    found = [getattr(signal, name) for name in _REQUESTS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        found = []  # only there can signals be answered
    before = {one: signal.getsignal(one) for one in found}
    ours = [one for one, answer in before.items() if answer in (signal.SIG_DFL, signal.default_int_handler)]
    for one in ours:
        signal.signal(one, _request)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, before[one])


def _request(number: int, frame: FrameType | None) -> None:
    asked.set()
    signal.default_int_handler(number, frame)
