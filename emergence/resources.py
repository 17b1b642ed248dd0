"""Errors of the machine, not of the program: what a user can do about them. Imports nothing."""

import os

_MEMORY = "the problem does not fit into memory: lower student-width, teacher-width, replicas, batch or widths"
#: What a message of the array library contains when an array is too large to be made.
_TOO_LARGE = (
    "RESOURCE_EXHAUSTED",
    "Out of memory",
    "Unable to allocate",
    "array is too big",
    "Maximum allowed dimension",
)


def remedy(error: Exception) -> str | None:
    """One line for an error that lies in memory or in the devices asked for; None for any other."""
    text = str(error)
    if isinstance(error, MemoryError) or any(sign in text for sign in _TOO_LARGE):
        return _MEMORY
    if isinstance(error, RuntimeError) and "nable to initialize backend" in text:
        asked = os.environ.get("JAX_PLATFORMS", "")
        return f"JAX_PLATFORMS is {asked!r}, and no such device is here: unset it, or name one that is (cpu)"
    return None
