"""What is made once for an object and let go with it: lowered systems, compiled code.

The object holds it itself, as it holds a cached property, so that nothing outlives its system.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax

_O = TypeVar("_O")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def kept(owner: _O, make: Callable[Concatenate[_O, _P], _R], *more: _P.args, **named: _P.kwargs) -> _R:
    """``make(owner, *more)``, made once for this very object (if it has a dictionary) and these hashable arguments."""
    made = getattr(owner, "__dict__", {}).setdefault("_kept", {})
    key = (make, more, tuple(named.items()))
    if key not in made:
        made[key] = make(owner, *more, **named)
    found: _R = made[key]
    return found


def compiled(function: Callable[..., _R]) -> Callable[..., _R]:
    """``function(owner, *arrays, **static)`` compiled once for each owner and each set of hashable `static` values.

    As a static argument of `jax.jit` the owner would be held for good, and the compiled code with it.
    """

    @wraps(function)
    def run(owner: Any, *arrays: Any, **static: Any) -> _R:
        return kept(owner, _jitted, function, **static)(*arrays)

    return run


def _jitted(owner: Any, function: Callable[..., _R], **static: Any) -> Callable[..., _R]:
    return jax.jit(partial(function, owner, **static))
