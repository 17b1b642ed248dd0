"""Checks that many functions make of their arguments: one message for one mistake."""

from collections.abc import Collection
from typing import Any

import numpy as np

from theory.core.errors import InputError


def check_positive(**values: Any) -> None:
    """Raises `InputError` for the first of these numbers that is not positive and finite."""
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value!r}: give a positive finite number")


def check_whole(least: int = 1, **values: Any) -> None:
    """Raises `InputError` for the first of these that is not a whole number, `least` or more; booleans are none."""
    for name, value in values.items():
        if not is_whole(value) or value < least:
            raise InputError(f"{name} is {value!r}: give a whole number, {least} or more")


def check_seed(seed: Any) -> None:
    """Raises `InputError` unless the seed is a whole number, 0 or more."""
    check_whole(0, seed=seed)


def check_one_of(known: Collection[str], **values: Any) -> None:
    """Raises `InputError` for the first of these that is none of the known names."""
    for name, value in values.items():
        if value not in known:
            raise InputError(f"{name} is {value!r}: use one of {', '.join(known)}")


def is_whole(value: Any) -> bool:
    """Whether it is an integer, of Python or NumPy; booleans are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
