"""The one exception that says: what was asked for is not meaningful, and what to do about it."""

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input. The message is one line that names the argument, its value and the remedy."""


def not_installed(package: str) -> str:
    """Words for an optional package that is missing, with the command that gives it to the Python that runs."""
    return f"{package} is not installed: {shlex.quote(sys.executable)} -m pip install {package}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean h4? `` for the known name nearest to one that is unknown, whatever its case; else nothing.

    It goes in front of a remedy: ``… is unknown: did you mean h4? use one of …``.
    """
    lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[near[0]]}? " if near else ""
