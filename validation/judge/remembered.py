"""Simulations that claims share over theories: what a replaced formula does not reach is not simulated again."""

import hashlib
import io
import marshal
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from validation.judge.under_test import walked

#: What a simulator tells while it runs, and nothing that it returns depends on.
_TOLD = "progress"


@contextmanager
def simulators_remembered() -> Iterator[None]:
    """Within, a public function of `dynamics` that a claim or an experiment calls twice with equal arguments runs once.

    Equal are arguments that pickle to the same bytes, ``progress`` apart. What does not pickle, such as an object of a class
    that stands for another, is run each time; so is what takes a generator, which must be advanced, or a function of a claim,
    which may ask the theory under test. Results are shared and stay in memory. Not for several threads at once.
    """
    made: dict[FunctionType, Callable[..., Any]] = {}
    saved = [(module, name, value) for module in walked() for name, value in vars(module).items() if _simulates(value)]
    try:
        for module, name, value in saved:
            setattr(module, name, made.setdefault(value, remembered(value)))
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which gives for the arguments of an earlier call what it gave then."""
    kept: dict[bytes, Any] = {}

    @wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if (key := _key(args, kwargs)) is None:
            return function(*args, **kwargs)
        if key not in kept:
            kept[key] = function(*args, **kwargs)
        return kept[key]

    return asked


def _simulates(value: Any) -> bool:
    made = isinstance(value, FunctionType) and (value.__module__ or "").startswith("dynamics.")
    return made and not value.__name__.startswith("_")


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
    """Digest of the arguments, None where they do not tell one call from another."""
    written = io.BytesIO()
    try:
        _Key(written, protocol=5).dump((args, sorted((name, one) for name, one in kwargs.items() if name != _TOLD)))
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(written.getvalue()).digest()


class _Key(pickle.Pickler):
    """Records by what was declared, without what they have computed since; functions by their code and what they enclose.

    For a digest: nothing reads it back.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.random.Generator) or (
            isinstance(value, FunctionType | type) and (value.__module__ or "").startswith("validation")
        ):
            raise pickle.PicklingError(f"{value!r} does not tell one call from another")
        if isinstance(value, FunctionType) and "<locals>" in value.__qualname__:
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            return tuple, (marshal.dumps(value.__code__), value.__defaults__, value.__kwdefaults__, enclosed)
        if is_dataclass(value) and not isinstance(value, type):
            return tuple, (type(value), [getattr(value, field.name) for field in fields(value)])
        return NotImplemented
