r"""Targets as text: polynomials of the fields z1, z2, … in powers and normalised Hermite polynomials, ``h2(z1)*h1(z2)``.

The staircases of Abbe, Boix-Adsera and Misiakiewicz (arXiv:2202.08658) are such texts, ``z1 + z1*z2 + z1*z2*z3``.
"""

import re
from collections.abc import Callable

import sympy as sp

from theory.core.activation_text import HERMITE_NAME, MAX_POWER, Grammar
from theory.core.hermite import hermite, z

_FIELD = re.compile(r"z([1-9]\d?)\Z")


def parse_target(text: str) -> tuple[sp.Expr, int]:
    """The polynomial in z1 … zP, and P, the largest number among its fields.

    Raises `InputError` on anything but plain arithmetic and ``hJ(…)``, and on what has no field or too many monomials.
    """
    expression = _TARGET.parse(text)
    fields = [int(str(symbol)[1:]) for symbol in expression.free_symbols]
    if not fields:
        raise _TARGET.refusal(text, "it has no field z1, z2, …")
    if not expression.is_polynomial(*expression.free_symbols):
        raise _TARGET.refusal(text, "it is no polynomial")
    return expression, max(fields)


def _named(name: str) -> sp.Expr | None:
    return sp.Symbol(name, real=True) if _FIELD.match(name) else None


def _function(name: str) -> tuple[int, Callable[..., sp.Expr]] | None:
    degree = HERMITE_NAME.match(name)
    return None if degree is None else (1, lambda argument: _hermite(int(degree[1]), argument))


def _hermite(degree: int, argument: sp.Expr) -> sp.Expr:
    """h_j of an expression. Raises `InputError` if its degree exceeds the largest one allowed."""
    if degree * _degree(argument) > MAX_POWER:
        raise _TARGET.refusal(f"h{degree}({argument})", f"its degree exceeds {MAX_POWER}")
    return hermite(degree).subs(z, argument)


def _degree(expression: sp.Expr) -> int:
    """Total degree, from the tree: nothing is expanded."""
    parts = [_degree(part) for part in expression.args]
    if expression.is_Add:
        return max(parts)
    if expression.is_Mul:
        return sum(parts)
    if expression.is_Pow and expression.exp.is_Integer:
        return parts[0] * abs(int(expression.exp))
    return 1 if expression.free_symbols else 0


_TARGET = Grammar(
    "target",
    "a polynomial of z1, z2, … such as z1 + z1*z2 + z1*z2*z3 or h2(z1) + h2(z1)*h1(z2)",
    _named,
    _function,
    _degree,
    ("z1", "z2", "z3"),
)
