r"""Equations between matrices of any size: how they print, and what they are at explicit matrices.

An equation is a SymPy matrix expression in `MatrixSymbol`s whose sizes are symbols; `at` puts explicit matrices of a small
size into that very expression, `latex` prints it, `function` compiles it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.numpy import NumPyPrinter
from sympy.printing.precedence import PRECEDENCE

#: Number of neurons, and of inputs.
m, d = sp.symbols("m d", integer=True, positive=True)


class Inner(sp.Expr):
    r"""$\langle x,y\rangle$ of two column vectors, a number; ``Inner(x, x)`` prints as $|x|^2$."""

    is_commutative = True

    def __new__(cls, first: sp.MatrixExpr, second: sp.MatrixExpr) -> "Inner":
        return sp.Expr.__new__(cls, first, second)

    def doit(self, **hints: object) -> sp.Expr:
        """The number where both columns are explicit, else itself."""
        first, second = (x.doit(**hints) for x in self.args)
        explicit = isinstance(first, sp.MatrixBase) and isinstance(second, sp.MatrixBase)
        return first.dot(second) if explicit else self

    def _latex(self, printer: LatexPrinter) -> str:
        first, second = (printer._print(x) for x in self.args)
        return rf"\left|{first}\right|^{{2}}" if first == second else rf"\left\langle {first},{second}\right\rangle"


class _Printer(LatexPrinter):
    """Sums of matrices with their positive terms first, and a minus sign where SymPy prints ``+ -``."""

    def _print_MatAdd(self, expression: sp.MatAdd) -> str:
        terms = sorted((self._print(x) for x in expression.args), key=lambda text: text.startswith("-"))
        return terms[0] + "".join(f" - {x[1:].lstrip()}" if x.startswith("-") else f" + {x}" for x in terms[1:])

    def _print_Symbol(self, expression: sp.Symbol, style: str = "plain") -> str:
        """Names that are LaTeX already stay as they are: SymPy reads sub- and superscripts into ``\\Pi_q(k,l)``."""
        name = expression.name
        return name if "\\" in name or "(" in name else str(super()._print_Symbol(expression, style))

    def _print_Identity(self, _: sp.Identity) -> str:
        return "I"

    def _print_Transpose(self, expression: sp.Transpose) -> str:
        inside = self.parenthesize(expression.arg, PRECEDENCE["Pow"], strict=False)
        return rf"{{{inside}}}^{{\top}}" if "^" in inside else rf"{inside}^{{\top}}"

    def _print_MatMul(self, expression: sp.MatMul) -> str:
        return re.sub(r"^(-? ?)\\left\((\\frac\{\d+\}\{\d+\})\\right\)", r"\1\2", super()._print_MatMul(expression))


def latex(expression: sp.Basic) -> str:
    """LaTeX with the terms of a sum in the order in which they are held."""
    return _Printer({"order": "none"}).doprint(expression)


def at(expression: sp.Basic, values: Mapping[sp.Basic, Any]) -> sp.Basic:
    """`expression` at explicit matrices (for its `MatrixSymbol`s, whose sizes they give) and numbers."""
    shaped = {x: sp.ImmutableMatrix(value) for x, value in values.items() if isinstance(x, sp.MatrixSymbol)}
    sizes = {symbol: size for x, value in shaped.items() for symbol, size in zip(x.shape, value.shape, strict=True)}
    sizes = {symbol: size for symbol, size in sizes.items() if symbol.is_Symbol}
    numbers = {x: sp.sympify(value) for x, value in values.items() if x not in shaped}
    placed = {x.subs(sizes): value for x, value in shaped.items()} | numbers
    found = expression.subs(sizes).xreplace(placed).doit()
    return found.as_explicit() if isinstance(found, sp.MatrixExpr) else found


class _Source(NumPyPrinter):
    """NumPy's own words for products and transposes, which columns of shape (n, 1) understand."""

    def _print_MatMul(self, expression: sp.MatMul) -> str:
        scalars, parts = expression.as_coeff_matrices()
        product = " @ ".join(self.parenthesize(x, PRECEDENCE["Mul"], strict=True) for x in parts)
        return f"({product})" if scalars == 1 else f"({self.parenthesize(scalars, PRECEDENCE['Mul'])} * ({product}))"

    def _print_Transpose(self, expression: sp.Transpose) -> str:
        return f"({self._print(expression.arg)}).T"

    def _print_Trace(self, expression: sp.Trace) -> str:
        return f"trace({self._print(expression.arg)})"


def function(expression: sp.Basic, symbols: Sequence[sp.Basic], trace: Callable = np.trace) -> Callable:
    """`expression` as a function of NumPy arrays (columns of shape (n, 1)) and numbers for `symbols`, in this order.

    `trace` is what tr stands for. (Names with superscripts are none in Python.)
    """
    plain = [sp.MatrixSymbol(f"x{i}", *x.shape) if x.is_Matrix else sp.Symbol(f"x{i}") for i, x in enumerate(symbols)]
    words = {"fully_qualified_modules": False, "inline": True}
    renamed = expression.xreplace(dict(zip(symbols, plain, strict=True)))
    made: Callable = sp.lambdify(plain, renamed, [{"trace": trace}, "numpy"], printer=_Source(words))
    return made


def total(matrix: sp.Matrix) -> sp.Expr:
    """Sum of absolute entries: 0 only for the zero matrix."""
    return sp.Add(*[abs(x) for x in matrix])
