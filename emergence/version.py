"""The version of this code."""

from emergence import __version__


def version() -> str:
    """E.g. ``"0.1.0"``: of the code that runs, whatever is installed beside it."""
    return __version__
