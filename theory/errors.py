"""The one exception that says: what was asked for is not meaningful, and what to do about it."""


class InputError(ValueError):
    """Bad input. The message is one line that names the argument, its value and the remedy."""
