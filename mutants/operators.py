"""What a formula is broken by: each operator is a function from an expression and its place to (what is replaced, by what)."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from mutants.sites import Place, called

#: Function or class → the annotation of each of its positional arguments, as text.
Signatures = Mapping[str, tuple[str, ...]]
#: A node to replace (or offsets into the bytes) and the text in its place.
Change = tuple[ast.AST, str]
Text = Callable[[ast.AST], str]
Operator = Callable[[ast.AST, Place, Text, Signatures], Iterator[Change]]

FACTOR = "1.05"
#: Smaller numbers are tolerances of solvers and steps of differences: 5 % of them change nothing that is meant to be seen.
_SMALL = 1e-2
#: A bare ``error`` is what is left of a target, as often as not.
_ERROR_BAR = re.compile(r"(^|_)(stderr|standard_errors?|allowances?)$|_errors?$")
_SIMPLE = (ast.Name, ast.Attribute, ast.Subscript)


def _number(node: ast.AST) -> int | float | None:
    """The value of a literal number."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_text(node: ast.AST) -> bool:
    """Whether a sum joins texts or lists."""
    joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(
        isinstance(x, joined) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in _leaves(node)
    )


def _leaves(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _sum(node: ast.AST) -> ast.BinOp | None:
    """The node as a sum or difference of numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node):
        return node
    return None


def factor(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """A constant × 1.05: a number with a point anywhere, an integer where it multiplies or divides."""
    value, parent = _number(node), place.parent
    if value is None or place.counting or abs(value) <= _SMALL:
        return
    multiplies = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.Div)
    powers = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and parent.right is node
    if (isinstance(value, float) or multiplies) and not powers:
        yield node, f"({text(node)} * {FACTOR})"


def exponent(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """An exponent ± 1; a square root left out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not place.counting:
        if _number(node.left) is None or _number(node.right) is None:
            yield node.right, f"({text(node.right)} + 1)"
            yield node.right, f"({text(node.right)} - 1)"
    elif isinstance(node, ast.Call) and called(node) == "sqrt" and len(node.args) == 1 and not place.counting:
        yield node, f"({text(node.args[0])})"


def _is_minus(node: ast.AST) -> bool:
    """Whether a node is a leading minus, but of a whole number, as in ``axis=-1``."""
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return minus and not isinstance(_number(node.operand), int)  # type: ignore[attr-defined]


def sign(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """+ for −, − for +; a leading minus left out."""
    both = _sum(node)
    if both and not place.counting:
        other = "-" if isinstance(both.op, ast.Add) else "+"
        yield node, f"({text(both.left)} {other} {text(both.right)})"
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.value):
        other = "-=" if isinstance(node.op, ast.Add) else "+="
        yield node, f"{text(node.target)} {other} {text(node.value)}"
    elif _is_minus(node) and not place.counting:
        yield node, f"({text(node.operand)})"  # type: ignore[attr-defined]


def summand(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """A summand left out."""
    both = _sum(node)
    if both and not place.counting:
        minus = "-" if isinstance(both.op, ast.Sub) else ""
        yield node, f"({text(both.left)})"
        yield node, f"({minus}{text(both.right)})" if not minus else f"(-({text(both.right)}))"


def border(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """< for ≤, > for ≥, and the other way round."""
    others = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in others:
        yield node, f"({text(node.left)} {others[type(node.ops[0])]} {text(node.comparators[0])})"


def swap(node: ast.AST, place: Place, text: Text, signatures: Signatures) -> Iterator[Change]:
    """Two neighbouring indices, or neighbouring arguments of one type, exchanged; a transpose left out."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        yield from _exchanged(node.slice, node.slice.elts, [isinstance(x, ast.Name) for x in node.slice.elts], text)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node, text(node.value)
    elif isinstance(node, ast.Call) and called(node) in signatures:
        types = signatures[called(node)][: len(node.args)]
        simple = [isinstance(x, _SIMPLE) for x in node.args[: len(types)]]
        for i, (one, other) in enumerate(pairwise(types)):
            if one == other and one and simple[i] and simple[i + 1]:
                yield from _exchanged(node, node.args[i : i + 2], [True, True], text)


def _exchanged(whole: ast.AST, nodes: list[ast.expr], simple: list[bool], text: Text) -> Iterator[Change]:
    """Neighbours that differ, exchanged within the text of the whole."""
    for i, (one, other) in enumerate(pairwise(nodes)):
        if simple[i] and simple[i + 1] and text(one) != text(other):
            yield ast.Tuple(elts=[one, other]), f"{text(other)}, {text(one)}"


def count(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """A whole number in a sum ± 1: degrees of freedom, ends of sums, orders."""
    value, parent = _number(node), place.parent
    added = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub) and not _is_text(parent)
    if isinstance(value, int) and (added or place.name == "ddof"):
        yield node, str(value + 1)
        yield node, str(value - 1) if value else "(-1)"


def error_bar(node: ast.AST, place: Place, text: Text, _: Signatures) -> Iterator[Change]:
    """A standard error or an allowance × 2 and × ½."""
    if not _ERROR_BAR.search(place.name) or isinstance(node, ast.Constant | ast.Dict | ast.ListComp | ast.Lambda):
        return
    told = node.elts[-1] if isinstance(node, ast.Tuple) and node.elts else node  # value and error
    if not isinstance(told, ast.Tuple) and not (isinstance(told, ast.Name) and told is node):
        yield told, f"(2 * ({text(told)}))"
        yield told, f"(0.5 * ({text(told)}))"


OPERATORS: dict[str, Operator] = {
    "factor": factor,
    "exponent": exponent,
    "sign": sign,
    "summand": summand,
    "border": border,
    "swap": swap,
    "count": count,
    "error bar": error_bar,
}
