"""The clock of what runs say of themselves: dates and run times, which two runs of the same thing differ in.

Where the variable ``SOURCE_DATE_EPOCH`` is set, as it is for builds that anybody can repeat byte for byte, it stands still.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

from theory.core.errors import InputError

VARIABLE = "SOURCE_DATE_EPOCH"


def now() -> datetime:
    """The date (UTC). Raises `InputError` for a variable that is no number of seconds."""
    text = os.environ.get(VARIABLE)
    try:
        return datetime.now(UTC) if text is None else datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{VARIABLE} is {text!r}: give seconds since 1970, or unset it") from None


def stopwatch() -> Callable[[], float]:
    """A function that says how many seconds have passed since; 0 where the clock stands still. Raises `InputError`."""
    began, still = time.perf_counter(), VARIABLE in os.environ and bool(now())
    return (lambda: 0.0) if still else (lambda: time.perf_counter() - began)
