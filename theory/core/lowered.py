"""SymPy expressions as NumPy code."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from theory.core.errors import InputError

#: How far to both sides a formula is asked that has no value at a point: squared, and 1e-16 over that, are equally small.
_ASIDE = 1e-4


def lower_numpy(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """As a function of arrays, of the first one's shape where the expression is constant, too."""
    return _lowered(expression, tuple(symbols))


@lru_cache(maxsize=256)
def _lowered(expression: sp.Expr, symbols: tuple[sp.Symbol, ...]) -> Callable[..., Any]:
    compiled = sp.lambdify(symbols, sp.N(expression, 17), modules=["scipy", "numpy"])
    return lambda *x: compiled(*x) + 0.0 * x[0]


def finite(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The same function of an array, with the mean of both sides where it has no finite value, as sin(z)/z at 0.

    What comes out raises `InputError` where the sides have none either.
    """

    def mended(at: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.array(function(at), dtype=float)
            lost = ~np.isfinite(found)
            if lost.any():
                found[lost] = (function(at[lost] - _ASIDE) + function(at[lost] + _ASIDE)) / 2
        if not np.all(np.isfinite(found[lost])):
            where = at[lost][~np.isfinite(found[lost])][0]
            raise InputError(f"function has no finite value near {where:.4g}: give one that is finite for all inputs")
        return found

    return mended
