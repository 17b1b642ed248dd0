"""What is made once for an object and let go with it: lowered systems, compiled code.

The object holds it itself, as it holds a cached property, so that nothing outlives its system.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import numpy as np

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

    As a static argument of `jax.jit` the owner would be held for good, and the compiled code with it. A number of Python, and
    what JAX has made of one, is to JAX of another type than an element of an array: it becomes an array of NumPy, so that
    nothing is compiled twice.
    """

    @wraps(function)
    def run(owner: Any, *arrays: Any, **static: Any) -> _R:
        return kept(owner, _jitted, function, **static)(*jax.tree.map(_strong, arrays))

    return run


def _strong(x: Any) -> Any:
    weak = not isinstance(x, jax.core.Tracer) and (isinstance(x, int | float) or getattr(x, "weak_type", False))
    return np.asarray(x) if weak else x


def _jitted(owner: Any, function: Callable[..., _R], **static: Any) -> Callable[..., _R]:
    return jax.jit(partial(function, owner, **static))
