"""SymPy expressions as NumPy code."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.numpy import SciPyPrinter

from theory.core.errors import InputError

#: How far to both sides a formula is asked that has no value at a point: squared, and 1e-16 over that, are equally small.
_ASIDE = 1e-4
#: What `lambdify` asks of its own printer; and twice the highest power that is a product.
_SETTINGS = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True}
_HIGHEST = 80


def lower_numpy(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """As a function of arrays, of the first one's shape where the expression is constant, too."""
    return _lowered(expression, tuple(symbols))


@lru_cache(maxsize=256)
def _lowered(expression: sp.Expr, symbols: tuple[sp.Symbol, ...]) -> Callable[..., Any]:
    compiled = compiled_numpy(symbols, sp.N(expression, 17))
    return lambda *x: compiled(*x) + 0.0 * x[0]


def compiled_numpy(
    symbols: Sequence[sp.Symbol], expressions: sp.Expr | Sequence[sp.Expr], cse: bool = False
) -> Callable[..., Any]:
    """`sympy.lambdify` for arrays, with powers of halves and whole numbers as products: NumPy takes them by logarithms."""
    modules: Any = [{"_power": _power}, "scipy", "numpy"]
    return sp.lambdify(list(symbols), expressions, modules=modules, printer=_Products(_SETTINGS), cse=cse)


def _product(base: str, twice: int) -> str:
    """base^(twice/2) as code, by squaring."""
    if twice < 0:
        return f"1/({_product(base, -twice)})"
    if twice in (1, 2):
        return base if twice == 2 else f"{base}**0.5"
    if twice % 2:
        return f"{_product(base, twice - 1)}*{base}**0.5"
    return f"{_product(base, twice - 2)}*{base}" if twice % 4 else f"({_product(base, twice // 2)})**2"


@lru_cache(maxsize=256)
def _function(twice: int) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = eval(f"lambda x: {_product('x', twice)}")
    return found


def _power(base: Any, twice: int) -> Any:
    return _function(twice)(base)


class _Products(SciPyPrinter):
    """What `lambdify` prints for SciPy, but for powers."""

    def _print_Pow(self, expr: sp.Expr, rational: bool = False) -> str:
        twice = 2 * float(expr.exp) if expr.exp.is_Number else np.inf
        if abs(twice) > _HIGHEST or twice != int(twice):
            return str(super()._print_Pow(expr, rational=rational))
        base, twice = self._print(expr.base), int(twice)
        return f"({_product(base, twice)})" if expr.base.is_Symbol else f"_power({base}, {twice})"


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
