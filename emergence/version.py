"""The installed version."""

from importlib import metadata


def version() -> str:
    """The version of the installed package, e.g. ``"0.1.0"``."""
    return metadata.version("emergence")
