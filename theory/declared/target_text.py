r"""Targets as text: polynomials of the fields z1, z2, … in powers and normalised Hermite polynomials, ``h2(z1)*h1(z2)``.

Functions of numbers, such as ``sqrt(6)``, are coefficients.

The staircases of Abbe, Boix-Adsera and Misiakiewicz (arXiv:2202.08658) are such texts, ``z1 + z1*z2 + z1*z2*z3``.
"""

import re
from collections.abc import Callable
from functools import partial

import sympy as sp

from theory.core.activation_text import HERMITE_NAME, MAX_POWER, Grammar, function_named
from theory.core.hermite import hermite, z

#: Below this are coefficients.
LARGEST = 1e30
_FIELD = re.compile(r"z([1-9]\d?)\Z")


def parse_target(text: str) -> tuple[sp.Expr, int]:
    """The polynomial in z1 … zP, and P, the largest number among its fields.

    Raises `InputError` on anything but plain arithmetic, ``hJ(…)`` and functions of numbers, on what has no field or too many
    monomials, and on a coefficient that is not real and below 1e30.
    """
    expression = _TARGET.parse(text)
    fields = [int(str(symbol)[1:]) for symbol in expression.free_symbols]
    if not fields:
        raise _TARGET.refusal(text, "it has no field z1, z2, …")
    if not expression.is_polynomial(*expression.free_symbols):
        raise _TARGET.refusal(text, "it is no polynomial")
    coefficients = (sp.N(x) for x in sp.Poly(expression, *expression.free_symbols).coeffs())
    if not all(x.is_real and abs(x) < LARGEST for x in coefficients):
        raise _TARGET.refusal(text, f"a coefficient is not real and below {LARGEST:g}")
    return expression, max(fields)


def _named(name: str) -> sp.Expr | None:
    if name == "pi":
        return sp.pi
    return sp.Symbol(name, real=True) if _FIELD.match(name) else None


def _function(name: str) -> tuple[int, Callable[..., sp.Expr]] | None:
    if degree := HERMITE_NAME.match(name):
        return 1, lambda argument: _hermite(int(degree[1]), argument)
    found = function_named(name)
    return found and (found[0], partial(_of_numbers, name, found[1]))


def _of_numbers(name: str, function: Callable[..., sp.Expr], *arguments: sp.Expr) -> sp.Expr:
    """A coefficient. Raises `InputError` for a function of fields, which is no polynomial."""
    if not all(argument.is_number for argument in arguments):
        raise _TARGET.refusal(f"{name}({', '.join(map(str, arguments))})", f"{name} is of numbers only")
    return function(*arguments)


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
    ("z1", "z2", "z3", "pi", "sqrt"),
)
