"""Reading expressions from text, without ever evaluating the text as code.

An activation is an expression in z; a `Grammar` of other names and functions reads others with the same rules.
"""

import ast
import math
import operator
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sympy as sp

from theory.core.errors import InputError, did_you_mean
from theory.core.hermite import hermite, z

HERMITE_NAME = re.compile(r"h(\d{1,2})\Z")
_DECIMAL = re.compile(r"(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,2})?\Z")
_NAMED: dict[str, sp.Expr] = {"z": z, "pi": sp.pi, "quadratic": z**2 - 1}


def _relu(x: sp.Expr) -> sp.Expr:
    return sp.Max(x, 0)


def _sigmoid(x: sp.Expr) -> sp.Expr:
    return (1 + sp.tanh(x / 2)) / 2  # no exponential that could overflow


def _relu6(x: sp.Expr) -> sp.Expr:
    return sp.Min(_relu(x), 6)


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
    "mish": lambda x: x * sp.tanh(sp.log(1 + sp.exp(x))),
    "leaky_relu": lambda x: sp.Max(x, x / 100),
    "relu6": _relu6,
    "hardtanh": lambda x: sp.Max(sp.Min(x, 1), -1),
    "hardswish": lambda x: x * _relu6(x + 3) / 6,
    "exp": sp.exp,
    "sin": sp.sin,
    "cos": sp.cos,
    "sqrt": sp.sqrt,
    "log": sp.log,
    "abs": sp.Abs,
    "Abs": sp.Abs,
    "Max": sp.Max,
    "max": sp.Max,
    "Min": sp.Min,
    "min": sp.Min,
}
#: No functions here, however near to one that is.
_JUMPS = ("sign", "sgn", "step", "heaviside")
#: Where there is the natural one.
_LOGARITHMS = {
    "ln": "log is the natural logarithm: ",
    "log10": "write log(x)/log(10): ",
    "log2": "write log(x)/log(2): ",
}
_OF_TWO = ("Max", "max", "Min", "min")
_BINARY: dict[type, Callable[[sp.Expr, sp.Expr], sp.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
MAX_POWER = 40
#: Of numbers that are powers, at most (natural logarithm); digits of those that are not written out.
MAX_LOG, DIGITS = 690, 30
#: Terms of a power or a product that is multiplied out, as SymPy does to see whether it is real: beyond, it would take long.
MAX_TERMS = 5000
#: Processor seconds that reading may take: SymPy looks whether what it builds is real, which some nested powers make long.
SECONDS = 6.0


@dataclass(frozen=True)
class Grammar:
    """What an expression may be made of, beside numbers and arithmetic.

    Attributes:
        what: the name of the argument, for refusals, which end with `allowed`.
        name: the expression that a name stands for, None if for none.
        function: a function by its name, with the number of its arguments, None if there is none.
        degree: of an expression; keeps hostile powers from being expanded.
        known: names to guess from.
        any_power: an exponent need not be a number, or may be any; such a power is never expanded.
    """

    what: str
    allowed: str
    name: Callable[[str], sp.Expr | None]
    function: Callable[[str], tuple[int, Callable[..., sp.Expr]] | None]
    degree: Callable[[sp.Expr], int]
    known: tuple[str, ...]
    any_power: bool = False

    def parse(self, text: str) -> sp.Expr:
        """The SymPy expression that `text` stands for. Raises `InputError` on anything else than the grammar allows."""
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.refusal(text, "it is not an expression") from None
        try:
            with _within(SECONDS):
                expression = self._build(tree.body, text)
        except _TooLong:
            raise self.refusal(text, f"it takes more than {SECONDS:g} s to read") from None
        except (RecursionError, SystemError):
            raise self.refusal(text, "it is nested too deeply") from None
        except InputError:
            raise
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            raise self.refusal(text, "it has no value") from None
        if expression.has(sp.nan, sp.zoo, sp.oo) or expression.has(sp.I):
            raise self.refusal(text, "it is not finite and real")
        # Powers of powers become one, within functions too, and those are multiplied out as well.
        self._check(max(_terms(x) for x in sp.preorder_traversal(expression)), text)
        return expression

    def refusal(self, text: str, why: str, hint: str = "") -> InputError:
        """The one line for a text that is not understood."""
        shown = text if len(text) <= 60 else text[:57] + "…"
        return InputError(f"{self.what} {shown!r} is not understood ({why}): {hint}use {self.allowed}")

    def _unknown(self, text: str, kind: str, name: str) -> InputError:
        if name.lower() in _JUMPS:  # known well, and not meant for one that is there
            return self.refusal(text, f"unknown {kind} {name!r}", "it has a jump, so no gradient: ")
        hint = _LOGARITHMS.get(name) if self.function("log") is not None else None
        return self.refusal(text, f"unknown {kind} {name[:20]!r}", hint or did_you_mean(name[:20], self.known))

    def _build(self, node: ast.expr, text: str) -> sp.Expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            # The decimal as written, not its binary rounding: 0.8 is 4/5.
            return self._number(ast.get_source_segment(text.strip(), node) or "", text)
        if isinstance(node, ast.Name):
            if (found := self.name(node.id)) is None:
                raise self._unknown(text, "name", node.id)
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            value = self._build(node.operand, text)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self._binary(node, text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, [self._build(argument, text) for argument in node.args], text)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            raise self.refusal(text, "^ is no power", "write ** for powers, and ")
        raise self.refusal(text, f"{type(node).__name__} is not allowed")

    def _number(self, written: str, text: str) -> sp.Rational:
        if not _DECIMAL.match(written) or not 1e-30 < abs(float(written) or 1.0) < 1e30:
            raise self.refusal(text, "a number is not a decimal between 1e-30 and 1e30")
        return sp.Rational(written)

    def _binary(self, node: ast.BinOp, text: str) -> sp.Expr:
        left, right = self._build(node.left, text), self._build(node.right, text)
        power, product = isinstance(node.op, ast.Pow), isinstance(node.op, ast.Mult)
        if power and self.any_power and not right.is_number:
            return left**right
        if power and self.any_power and not left.is_number and _long(left, right):
            return left ** sp.N(right)  # (multiplied out are whole numbers only)
        numbers = self.any_power and left.is_number and right.is_number
        if power and numbers and left != 0 and (_long(left, right) or self._size(left) * abs(right) > MAX_POWER):
            return self._power(left, right, text)
        if product and self.any_power and self._size(left) + self._size(right) > MAX_POWER:
            return sp.N(left, DIGITS) * sp.N(right, DIGITS)
        if power and not (right.is_number and abs(right) <= MAX_POWER):
            raise self.refusal(text, f"the power {right} is not a number up to {MAX_POWER}")
        if isinstance(node.op, ast.Div) and right == 0:
            raise self.refusal(text, "it divides by zero")
        if (power and self._size(left) * abs(float(right)) > MAX_POWER) or (
            product and self._size(left) + self._size(right) > MAX_POWER
        ):
            raise self.refusal(text, f"its degree exceeds {MAX_POWER}")
        terms = _chosen(_terms(left), right) if power else _terms(left) * _terms(right) if product else 1
        self._check(terms, text)
        return _BINARY[type(node.op)](left, right)

    def _power(self, base: sp.Expr, power: sp.Expr, text: str) -> sp.Expr:
        """Of two numbers, as a decimal: its digits would take for ever."""
        if not abs(sp.N(power * sp.log(abs(base)))) < MAX_LOG:
            raise self.refusal(text, f"{sp.N(base, 5)}**{sp.N(power, 5)} is beyond 1e300, or below 1e-300")
        return sp.N(base, DIGITS) ** (power if power.is_Integer else sp.N(power, DIGITS))

    def _check(self, terms: int, text: str) -> None:
        if terms > MAX_TERMS:
            raise self.refusal(text, f"multiplied out it has more than {MAX_TERMS} terms")

    def _size(self, expression: sp.Expr) -> int:
        """Digits of a number, or the degree."""
        if expression.is_Rational:
            return len(str(expression)) if abs(expression) > 10 else 0
        return self.degree(expression)

    def _call(self, name: str, arguments: list[sp.Expr], text: str) -> sp.Expr:
        if (found := self.function(name)) is None:
            raise self._unknown(text, "function", name)
        expected, function = found
        if len(arguments) != expected:
            raise self.refusal(text, f"{name} takes {expected} argument{'s' * (expected > 1)}")
        if any(x.is_number and not abs(sp.N(x, 5)) < 1e30 for x in arguments):  # its digits would take for ever
            raise self.refusal(text, f"{name} is taken of a number that is not below 1e30")
        found = function(*arguments)
        if found in (sp.zoo, sp.nan, sp.oo, -sp.oo):
            raise self.refusal(text, f"{name} has no value there")
        if not self.any_power:
            return found
        # (exp(60*log(x)) becomes x**60.)
        return found.replace(lambda x: x.is_Pow and not x.is_number and _long(*x.args), lambda x: x.base ** sp.N(x.exp))


class _TooLong(BaseException):
    """Reading has taken all its time. (Not an `Exception`, which SymPy might take for one of its own.)"""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise `_TooLong` after so many processor seconds; only the main thread, and not on Windows, can be stopped so."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _TooLong

    handler = signal.signal(signal.SIGVTALRM, stop)
    before = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *before)
        signal.signal(signal.SIGVTALRM, handler)


def _terms(expression: sp.Expr) -> int:
    """At most so many has an expression that is multiplied out."""
    if expression.is_Add:
        return sum(_terms(x) for x in expression.args)
    if expression.is_Mul:
        return math.prod(_terms(x) for x in expression.args)
    return _chosen(_terms(expression.base), expression.exp) if expression.is_Pow else 1


def _long(base: sp.Expr, power: sp.Expr) -> bool:
    """Whether it is a power, of a number, that would be too long if multiplied out."""
    return bool(power.is_number) and (bool(abs(power) > MAX_POWER) or _chosen(_terms(base), power) > MAX_TERMS)


def _chosen(terms: int, power: sp.Expr) -> int:
    """Terms of a power of a sum; a power that is no whole number is not multiplied out."""
    return math.comb(terms + abs(int(power)) - 1, terms - 1) if power.is_Integer else 1


def _named(name: str) -> sp.Expr | None:
    degree = HERMITE_NAME.match(name)
    if degree:
        return hermite(int(degree[1]))
    if name in _FUNCTIONS and name not in _OF_TWO:
        return _FUNCTIONS[name](z)
    return _NAMED.get(name)


def function_named(name: str) -> tuple[int, Callable[..., sp.Expr]] | None:
    """The number of its arguments, and the function; None if there is none of this name."""
    return (2 if name in _OF_TWO else 1, _FUNCTIONS[name]) if name in _FUNCTIONS else None


def _degree(expression: sp.Expr) -> int:
    """Of a polynomial in z; 1 for anything else."""
    return int(sp.degree(expression, z)) if expression.is_polynomial(z) and expression.has(z) else 1


ACTIVATION = Grammar(
    "activation",
    "h1, h2, …, relu, tanh, erf, gelu, silu, sigmoid, softplus, elu, selu, quadratic, or an expression in z such as "
    "0.8*h4+0.6*h6 or z**4-6*z**2+3",
    _named,
    function_named,
    _degree,
    (*_NAMED, *_FUNCTIONS),
)


def parse_expression(text: str) -> sp.Expr:
    """The SymPy expression in z that `text` stands for. Raises `InputError` on anything but plain arithmetic in z."""
    return ACTIVATION.parse(text)
