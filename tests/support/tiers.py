"""Which parameters of a test are of the quick run, and which of the long one."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_slow(values: Iterable[Any], slow: Container[Any]) -> list[Any]:
    """The values of one parameter, those in `slow` marked so: they repeat what the others show, or take seconds."""
    return [pytest.param(x, marks=pytest.mark.slow) if x in slow else x for x in values]
