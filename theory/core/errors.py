"""The one exception that says: what was asked for is not meaningful, and what to do about it."""

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches

#: Letters from which on a part of a name says which is meant; and names that are offered for it.
_TELLING, _MOST = 3, 4


class InputError(ValueError):
    """Bad input. The message is one line that names the argument, its value and the remedy."""


def not_installed(package: str) -> str:
    """Words for an optional package that is missing, with the command that gives it to the Python that runs."""
    return f"{package} is not installed: {shlex.quote(sys.executable)} -m pip install {package}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean h4? `` for the known name nearest to one that is unknown, whatever its case; else nothing.

    Names that contain the unknown one are nearest, a few of them at most: ``did you mean online-sgd or stiefel-sgd? ``.
    It goes in front of a remedy: ``… is unknown: did you mean h4? use one of …``.
    """
    asked, lower = name.lower(), {one.lower(): one for one in known}
    around = [one for one in lower if asked in one] if len(asked) >= _TELLING else []
    near = around[:_MOST] or get_close_matches(asked, lower, n=1)
    *others, last = [lower[one] for one in near] or [""]
    return f"did you mean {', '.join(others)}{' or ' * bool(others)}{last}? " if last else ""
