"""SymPy expressions as NumPy code."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sympy as sp


def lower_numpy(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """As a function of arrays, of the first one's shape where the expression is constant, too."""
    return _lowered(expression, tuple(symbols))


@lru_cache(maxsize=256)
def _lowered(expression: sp.Expr, symbols: tuple[sp.Symbol, ...]) -> Callable[..., Any]:
    compiled = sp.lambdify(symbols, sp.N(expression, 17), modules=["scipy", "numpy"])
    return lambda *x: compiled(*x) + 0.0 * x[0]
