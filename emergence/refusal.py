"""Refusing bad input without paying for SymPy until there is something to refuse."""

import sys
from typing import NoReturn


def refuse(message: str) -> NoReturn:
    """Raise `theory.InputError`; the message names the argument, its value and the remedy, on one line."""
    from theory.core.errors import (
        InputError,  # `theory` imports SymPy, which costs seconds: only once something is wrong
    )

    raise InputError(message)


def is_refusal(error: BaseException) -> bool:
    """Whether `error` is an `InputError`. Imports nothing: if nobody imported the class, nobody raised it."""
    errors = sys.modules.get("theory.core.errors")
    return errors is not None and isinstance(error, errors.InputError)
