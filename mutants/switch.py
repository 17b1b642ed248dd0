"""Which mutant is on, and which ones were come by: the changed files of the overlay ask it, in whichever process.

It is copied beside their packages as ``_mutant_switch.py``, and imports nothing of the project.
"""

import contextlib
import os

NAME = "_mutant_switch"
#: Variables of the environment, so that processes that tests start know: which is on; the file that notes who came by.
ON, NOTED = "MUTANT_ON", "MUTANT_NOTED"
_open, _write, _close = os.open, os.write, os.close  # a test may put others in their place
_active = os.environ.get(ON, "")
_seen: set[str] = set()


def on(digest: str) -> bool:
    """Whether this mutant is on; called wherever it is in the code, which is noted."""
    if digest not in _seen:
        _seen.add(digest)
        with contextlib.suppress(OSError, KeyError):
            file = _open(os.environ[NOTED], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            _write(file, f"{digest}\n".encode())
            _close(file)
    return digest == _active


def turn_on(digest: str, noted: str) -> None:
    """Here and in processes that are started from here; "" is none. `noted`: a file."""
    global _active
    os.environ[ON], os.environ[NOTED] = digest, noted
    _active = digest
    _seen.clear()


def seen() -> frozenset[str]:
    """Which ones were come by in this process since it was told which is on."""
    return frozenset(_seen)


def come_by() -> list[str]:
    """Which ones were come by since this was last asked."""
    _seen.clear()
    try:
        with open(os.environ[NOTED], "r+", encoding="utf-8") as file:
            found = sorted(set(file.read().split()))
            file.truncate(0)
    except OSError:
        return []
    return found
