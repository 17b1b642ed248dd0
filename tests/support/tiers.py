"""Which parameters of a test are of the quick run, and which of the long one."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_slow(values: Iterable[Any], slow: Container[Any]) -> list[Any]:
    """Values of a parameter (tuples: of several), those in `slow` marked so: they repeat what others show, or take long."""
    return [
        pytest.param(*(x if isinstance(x, tuple) else (x,)), marks=pytest.mark.slow) if x in slow else x for x in values
    ]
