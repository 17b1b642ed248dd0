"""Importing `dynamics` makes float64 JAX's default for the whole process (``jax_enable_x64``); see docs/conventions.md.

A context around each function would not be enough. Outside it the first operation on a float64 array that was returned,
or on an equation lowered by `dynamics.lower`, gives float32 without a word, and other threads do not see it. So the
switch is global, set before anything here makes an array; a program in single precision beside it keeps its numbers under
``with jax.enable_x64(False)``, and what it calls here computes in double precision all the same (`double_precision`).

Where JAX has an accelerator, ours computes on the processor beside it unless the user names a device: its loops take many
small steps one after the other, and to start each of them on an accelerator takes longer than the step.
"""

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_double() -> bool:
    """Whether float64 is JAX's default here and now: in this thread, inside the contexts that are open."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def double_precision(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` in double precision, also where its caller has switched to single, and on the processor (`_place`)."""

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with nullcontext() if is_double() else jax.enable_x64(True), _place():
            return function(*args, **kwargs)

    return run


def _place() -> AbstractContextManager[object]:
    """The processor, if JAX would take an accelerator that nobody has asked for.

    ``JAX_PLATFORMS``, ``jax_default_device`` and ``jax.default_device`` ask.
    """
    asked = jax.config.jax_platforms or jax.config.jax_default_device  # type: ignore[attr-defined]
    if asked or jax.default_backend() == "cpu":
        return nullcontext()
    return jax.default_device(jax.devices("cpu")[0])


def _switch_on() -> None:
    """Make float64 the default; say so if this may change the numbers of a program that counts on float32."""
    if is_double():
        return
    jax.config.update("jax_enable_x64", True)
    if "JAX_ENABLE_X64" in os.environ or _in_use():
        warnings.warn(
            "dynamics makes float64 JAX's default in this process (jax_enable_x64): "
            "give dtypes to code in single precision, or run it under jax.enable_x64(False)",
            stacklevel=4,
        )


def _in_use() -> bool:
    """Whether arrays may exist. JAX tells it without starting a backend in a module of its own only."""
    asked = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return asked is not None and asked()


_switch_on()
