"""Where a mutant may be made: the expressions of a file that decide numbers, each with what its surroundings say of it.

Left out: docstrings and every other text, annotations, decorators, messages and what is raised, tests that only refuse
input, functions that return text, arguments that name, label or draw. Inside an index and in the sizes of arrays (`counting`)
a number is a count: 1.05 × 3 would only be a type error.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

_QUIET = frozenset(
    {
        *("print", "warn", "refuse", "InputError", "ValueError", "TypeError", "Symbol", "symbols", "IndexedBase"),
        *("Function", "Dummy", "Idx", "format", "join", "split", "TypeVar", "NewType", "field", "lru_cache", "cache"),
        *("isinstance", "hasattr", "getattr", "latex", "figure", "plot", "subplots", "set_xlabel"),
        *("set_ylabel", "legend", "axhline", "axvline", "text", "title", "named", "words"),
    }
)
_SIZES = frozenset(
    {
        *("range", "arange", "zeros", "ones", "empty", "full", "eye", "identity", "reshape", "broadcast_to", "repeat"),
        *("tile", "linspace", "logspace", "geomspace", "roll", "take", "split", "array_split", "swapaxes", "moveaxis"),
        *("expand_dims", "squeeze", "concatenate", "stack", "islice", "chain", "deque"),
    }
)
_SHOWN = frozenset(
    {
        *("label", "title", "name", "names", "text", "unit", "units", "color", "colour", "alpha", "lw", "marker"),
        *("dtype", "axis", "axes", "ndmin", "decimals", "maxsize", "static_argnames", "static_argnums"),
        *("donate_argnums", "in_axes", "out_axes", "stacklevel", "end", "sep", "file"),
    }
)
_DISPLAYS = frozenset({"__repr__", "__str__", "__format__", "describe", "label", "text", "title", "latex"})


@dataclass(frozen=True)
class Place:
    """What the surroundings say of an expression.

    Attributes:
        function: qualified name, ``""`` outside any. lines: of the statement.
        counting: in an index, or among the sizes of an array. name: what the value is called: the target of an assignment, a
            keyword, or after ``return`` the function. parent: the node above it; None at the top of a statement.
    """

    function: str
    lines: tuple[int, int]
    counting: bool = False
    name: str = ""
    parent: ast.AST | None = None


Site = tuple[ast.AST, Place]


def sites(tree: ast.Module) -> Iterator[Site]:
    """Every expression that may be changed, and every ``+=``."""
    return _body(tree.body, "")


def _body(body: list[ast.stmt], function: str) -> Iterator[Site]:
    for statement in body:
        yield from _statement(statement, function)


def _statement(node: ast.stmt, function: str) -> Iterator[Site]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if not _displays(node):
                yield from _defaults(node, function)
                yield from _body(node.body, f"{function}.{node.name}".strip("."))
        case ast.ClassDef():
            yield from _body(node.body, f"{function}.{node.name}".strip("."))
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Raise() | ast.Expr(value=ast.Constant()):
            pass
        case ast.If() | ast.While():
            if not _refuses(node.body):
                yield from _expression(node.test, _place(node.test, function))
            yield from _body(node.body + node.orelse, function)
        case ast.For():
            yield from _expression(node.iter, _place(node.iter, function))
            yield from _body(node.body + node.orelse, function)
        case ast.With():
            yield from (x for one in node.items for x in _expression(one.context_expr, _place(one, function)))
            yield from _body(node.body, function)
        case ast.Try():
            yield from _body(node.body + node.orelse + node.finalbody, function)
            yield from (x for one in node.handlers for x in _body(one.body, function))
        case ast.Match():
            yield from (x for one in node.cases for x in _body(one.body, function))
        case ast.AugAssign():
            place = _place(node, function, _named(node.target))
            yield node, place
            yield from _expression(node.value, place)
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = _named(targets[0])
            if name not in _SHOWN:
                yield from _expression(value, _place(node, function, name))
        case ast.Return(value=ast.expr() as value):
            yield from _expression(value, _place(node, function, function.rpartition(".")[2]))
        case ast.Expr():
            yield from _expression(node.value, _place(node, function))


def _place(node: ast.AST, function: str, name: str = "") -> Place:
    inner = node.context_expr if isinstance(node, ast.withitem) else node
    first = int(getattr(inner, "lineno", 0))
    return Place(function, (first, int(getattr(inner, "end_lineno", first))), name=name)


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef, function: str) -> Iterator[Site]:
    named = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(named[len(named) - len(node.args.defaults) :], node.args.defaults, strict=True)]
    pairs += [(arg, value) for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value]
    for arg, value in pairs:
        if arg.arg not in _SHOWN:
            yield from _expression(value, _place(value, f"{function}.{node.name}".strip("."), arg.arg))


def _expression(node: ast.AST, place: Place) -> Iterator[Site]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and called(node) in _QUIET):
        return
    yield node, place
    below = replace(place, parent=node, name="")
    if isinstance(node, ast.Subscript):
        yield from _expression(node.value, below)
        yield from _expression(node.slice, replace(below, counting=True))
    elif isinstance(node, ast.Call):
        yield from _expression(node.func, below)
        inner = replace(below, counting=place.counting or called(node) in _SIZES)
        for argument in node.args:
            yield from _expression(argument, inner)
        for keyword in node.keywords:
            if keyword.arg not in _SHOWN:
                counting = inner.counting or keyword.arg in ("shape", "size")
                yield from _expression(keyword.value, replace(inner, name=keyword.arg or "", counting=counting))
    elif isinstance(node, ast.Lambda):
        yield from _expression(node.body, below)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _expression(child, below)


def called(node: ast.Call) -> str:
    """The last name of what is called; ``""`` if it has none."""
    return _named(node.func)


def _named(node: ast.AST) -> str:
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def _displays(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function only makes text."""
    text = isinstance(node.returns, ast.Name) and node.returns.id == "str"
    return text or node.name in _DISPLAYS


def _refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but refuse, or warn."""
    last = body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(last, ast.Raise) or (isinstance(call, ast.Call) and called(call) in ("refuse", "warn"))
