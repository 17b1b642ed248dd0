"""Reading an activation from text, without ever evaluating the text as code."""

import ast
import operator
import re
from collections.abc import Callable

import sympy as sp

from theory.core.errors import InputError, did_you_mean
from theory.core.hermite import hermite, z

_HERMITE_NAME = re.compile(r"h(\d{1,2})\Z")
_DECIMAL = re.compile(r"(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,2})?\Z")
_NAMED: dict[str, sp.Expr] = {"z": z, "pi": sp.pi, "quadratic": z**2 - 1}


def _relu(x: sp.Expr) -> sp.Expr:
    return sp.Max(x, 0)


def _sigmoid(x: sp.Expr) -> sp.Expr:
    return (1 + sp.tanh(x / 2)) / 2  # no exponential that could overflow


def _elu(x: sp.Expr) -> sp.Expr:
    return _relu(x) + sp.exp(x - _relu(x)) - 1


def _selu(x: sp.Expr) -> sp.Expr:
    """Klambauer et al. 2017: the one scale and the one slope for which E σ = 0 and E σ² = 1."""
    one, four = sp.erfc(1 / sp.sqrt(2)) * sp.sqrt(sp.E), sp.erfc(sp.sqrt(2)) * sp.E**2
    slope = sp.sqrt(2 / sp.pi) / (1 - one)
    scale = (1 - one) * sp.sqrt(2 * sp.pi / (2 * four + sp.pi * one**2 - 2 * (2 + sp.pi) * one + sp.pi + 2))
    return sp.N(scale, 30) * (_relu(x) + sp.N(slope, 30) * (sp.exp(x - _relu(x)) - 1))


#: Each of one argument is also a name: ``tanh`` is tanh(z).
_FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "erf": sp.erf,
    "tanh": sp.tanh,
    "relu": _relu,
    "gelu": lambda x: x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    "silu": lambda x: x * _sigmoid(x),
    "swish": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "softplus": lambda x: sp.log(1 + sp.exp(x)),
    "elu": _elu,
    "selu": _selu,
    "exp": sp.exp,
    "sin": sp.sin,
    "cos": sp.cos,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "abs": sp.Abs,
    "Abs": sp.Abs,
    "Max": sp.Max,
    "max": sp.Max,
}
_OF_TWO = ("Max", "max")
_BINARY: dict[type, Callable[[sp.Expr, sp.Expr], sp.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_ALLOWED = (
    "h1, h2, …, relu, tanh, erf, gelu, silu, sigmoid, softplus, elu, selu, quadratic, or an expression in z such as "
    "0.8*h4+0.6*h6 or z**4-6*z**2+3"
)
_MAX_POWER = 40


def parse_expression(text: str) -> sp.Expr:
    """The SymPy expression that `text` stands for. Raises `InputError` on anything but plain arithmetic in z."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(text, "it is not an expression") from None
    try:
        expression = _build(tree.body, text)
    except RecursionError:
        raise _refusal(text, "it is nested too deeply") from None
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        raise _refusal(text, "it has no value") from None
    if expression.has(sp.nan, sp.zoo, sp.oo) or expression.has(sp.I):
        raise _refusal(text, "it is not finite and real")
    return expression


def _refusal(text: str, why: str, hint: str = "") -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "…"
    return InputError(f"activation {shown!r} is not understood ({why}): {hint}use {_ALLOWED}")


def _unknown(text: str, kind: str, name: str) -> InputError:
    return _refusal(text, f"unknown {kind} {name[:20]!r}", did_you_mean(name[:20], [*_NAMED, *_FUNCTIONS]))


def _build(node: ast.expr, text: str) -> sp.Expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        # The decimal as written, not its binary rounding: 0.8 is 4/5.
        return _number(ast.get_source_segment(text.strip(), node) or "", text)
    if isinstance(node, ast.Name):
        return _named(node.id, text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _build(node.operand, text)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _binary(node, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_build(argument, text) for argument in node.args], text)
    raise _refusal(text, f"{type(node).__name__} is not allowed")


def _number(written: str, text: str) -> sp.Rational:
    if not _DECIMAL.match(written) or not 1e-30 < abs(float(written) or 1.0) < 1e30:
        raise _refusal(text, "a number is not a decimal between 1e-30 and 1e30")
    return sp.Rational(written)


def _named(name: str, text: str) -> sp.Expr:
    degree = _HERMITE_NAME.match(name)
    if degree:
        return hermite(int(degree[1]))
    if name in _FUNCTIONS and name not in _OF_TWO:
        return _FUNCTIONS[name](z)
    if name not in _NAMED:
        raise _unknown(text, "name", name)
    return _NAMED[name]


def _binary(node: ast.BinOp, text: str) -> sp.Expr:
    left, right = _build(node.left, text), _build(node.right, text)
    if isinstance(node.op, ast.Pow) and not (right.is_number and abs(right) <= _MAX_POWER):
        raise _refusal(text, f"the power {right} is not a number up to {_MAX_POWER}")
    if isinstance(node.op, ast.Div) and right == 0:
        raise _refusal(text, "it divides by zero")
    if isinstance(node.op, ast.Pow) and _size(left) * abs(float(right)) > _MAX_POWER:
        raise _refusal(text, f"its degree exceeds {_MAX_POWER}")
    if isinstance(node.op, ast.Mult) and _size(left) + _size(right) > _MAX_POWER:
        raise _refusal(text, f"its degree exceeds {_MAX_POWER}")
    return _BINARY[type(node.op)](left, right)


def _size(expression: sp.Expr) -> int:
    """Degree of a polynomial in z, digits of a number, 1 for anything else: keeps hostile powers from being expanded."""
    if expression.is_Rational:
        return len(str(expression)) if abs(expression) > 10 else 0
    return int(sp.degree(expression, z)) if expression.is_polynomial(z) and expression.has(z) else 1


def _call(name: str, arguments: list[sp.Expr], text: str) -> sp.Expr:
    if name not in _FUNCTIONS:
        raise _unknown(text, "function", name)
    expected = 2 if name in _OF_TWO else 1
    if len(arguments) != expected:
        raise _refusal(text, f"{name} takes {expected} argument{'s' * (expected > 1)}")
    return _FUNCTIONS[name](*arguments)
