"""Docstrings say what a reader must know before a call: what is raised, which shapes arrays have, where a theory is from."""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("theory", "dynamics", "validation", "emergence")
#: Functions named so raise `InputError` for their caller.
REFUSING = re.compile(r"_?(check|require|refuse)_\w+|_?(require|refuse)")
ERROR = re.compile(r"\w*Error|Interrupted")
RAISES = re.compile(r"\braises?\b|\bwhat is raised\b|\brefuse[sd]?\b", re.IGNORECASE)
ARRAY = re.compile(r"\b(ndarray|ArrayLike|jax\.Array)\b")
#: Arguments that are keys of random streams: arrays to JAX, names to a reader.
KEYS = ("key", "keys")
#: Formulas have tuples too.
MATH = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
#: A tuple of sizes such as `(R, m)`, `(…, P)` or `(replica, time)`, no interval, or the words that stand for one.
SHAPE = re.compile(
    r"\((?!-?\d, ?[\d½>])(?=[^()]*(?:\b[A-Za-z\d]\b|\.\.\.|…|replica|time))[^\s(),][^(),]{0,15},(?: ?[^(),]{1,20},?)*\)"
    r"|\b(?-i:R)\^\w|\w × \w|\bshape[sd]?\b|\bscalars?\b|\belementwise\b|\b(?:one|a|1) number\b|\bone (?:per|as|for each)\b"
    r"|\bper (?:direction|replica|neuron|student|teacher|mode|sample|row|column|channel|coordinate|task)s?\b",
    re.IGNORECASE,
)
#: A paper by number or year, or a derivation of our own.
SOURCE = re.compile(r"\barXiv\b|\b(19|20)\d\d\b|\bderiv(ed|ation)\b", re.IGNORECASE)
REFERENCE = re.compile(r"`((?:theory|dynamics)(?:\.\w+)+)`")
#: Modules of a wing that have no source, and why.
WITHOUT_SOURCE = {"dynamics/networks/checkpoint.py": "writes and reads files"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Function:
    """A public function or method, where it is, and what is written about it: its own docstring and its class's."""

    where: str
    node: Definition
    owner: ast.ClassDef | None = None

    @property
    def text(self) -> str:
        return "\n".join(docstring(node) for node in (self.node, self.owner) if node is not None)


def docstring(node: Definition | ast.ClassDef | ast.Module) -> str:
    return ast.get_docstring(node) or ""


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def modules(*layers: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for layer in layers for path in sorted((ROOT / layer).rglob("*.py"))]


def text_of(nodes: list[ast.expr]) -> str:
    return " ".join(map(ast.unparse, nodes))


def functions(tree: ast.Module, path: str = "") -> Iterator[Function]:
    """Public functions and methods, and what constructs a class: neither claims' runners, nor protocols, nor overloads."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and "Protocol" not in text_of(node.bases):
            for method in node.body:
                if isinstance(method, DEFINITIONS) and (method.name == "__post_init__" or is_listed(method)):
                    yield Function(f"{path}: {node.name}.{method.name}", method, node)
        elif isinstance(node, DEFINITIONS) and is_listed(node):
            yield Function(f"{path}: {node.name}", node)


def is_listed(node: Definition) -> bool:
    public = not node.name.startswith("_") or node.name == "__init__"
    return public and not re.search(r"\b(claim|overload)\b", text_of(node.decorator_list))


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What its caller may hear of: all below a function but the functions defined in it, and what it catches whole."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try) and "Exception" in text_of([x.type for x in child.handlers if x.type]):
            yield from (part for x in (*child.handlers, *child.orelse, *child.finalbody) for part in (x, *own(x)))
        elif not isinstance(child, (*DEFINITIONS, ast.Lambda)):
            yield child
            yield from own(child)


def helpers(tree: ast.Module) -> set[str]:
    """Names of a module's private functions and methods that raise by themselves."""
    return {x.name for x in ast.walk(tree) if isinstance(x, DEFINITIONS) and re.match("_[a-z]", x.name) and raised(x)}


def raised(node: Definition, private: Collection[str] = ()) -> set[str]:
    """Names of the errors that a function raises; `InputError` for a call of what refuses, or of these private helpers."""
    found: set[str] = set()
    for part in own(node):
        if isinstance(part, ast.Raise) and part.exc is not None:
            found.add(last_name(part.exc.func if isinstance(part.exc, ast.Call) else part.exc))
        elif isinstance(part, ast.Call):
            called = last_name(part.func)
            found |= {"InputError"} if called in private or REFUSING.fullmatch(called) else set()
    return {name for name in found if ERROR.fullmatch(name)}


def last_name(node: ast.expr) -> str:
    return ast.unparse(node).split(".")[-1]


def is_array(annotation: ast.expr | None) -> bool:
    """Whether a value of this type is an array; a function of arrays is none."""
    if isinstance(annotation, ast.BinOp):
        return is_array(annotation.left) or is_array(annotation.right)
    text = "" if annotation is None else ast.unparse(annotation)
    return "Callable" not in text and bool(ARRAY.search(text))


def has_arrays(node: Definition) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return any(is_array(x) for x in [node.returns, *(x.annotation for x in arguments if x.arg not in KEYS)])


# What is missing, per module.


def silent_of_errors(tree: ast.Module, path: str = "") -> list[str]:
    """Functions that raise and do not say so."""
    private = helpers(tree)
    found = ((x, raised(x.node, private)) for x in functions(tree, path))
    return [
        x.where for x, errors in found if errors and not RAISES.search(x.text) and not any(e in x.text for e in errors)
    ]


def silent_of_shapes(tree: ast.Module, path: str = "") -> list[str]:
    """Functions that take or return arrays and do not say of which shape."""
    return [x.where for x in functions(tree, path) if has_arrays(x.node) and not SHAPE.search(MATH.sub("", x.text))]


def silent(tree: ast.Module, path: str = "") -> list[str]:
    """Modules, classes and functions without a docstring, but for short methods of a class that has one, and overrides."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    missing = [path] * (not docstring(tree)) + [f"{path}: {node.name}" for node in classes if not docstring(node)]
    for x in functions(tree, path):
        plain = x.owner is None or not (docstring(x.owner) and (len(x.node.body) <= 2 or x.node.name.startswith("__")))
        if plain and not docstring(x.node) and not (x.owner and overrides(x.owner, x.node.name)):
            missing.append(x.where)
    return missing


@cache
def documented_methods() -> dict[str, tuple[set[str], set[str]]]:
    """Each class's bases and documented methods."""
    classes = [n for path in modules(*LAYERS) for n in tree_of(path).body if isinstance(n, ast.ClassDef)]
    return {
        node.name: (
            {last_name(base) for base in node.bases},
            {x.name for x in node.body if isinstance(x, DEFINITIONS) and docstring(x)},
        )
        for node in classes
    }


def overrides(owner: ast.ClassDef, method: str) -> bool:
    """Whether a base class of ours documents the method."""
    bases = [last_name(base) for base in owner.bases]
    while bases:
        above, documented = documented_methods().get(bases.pop(), (set(), set()))
        if method in documented:
            return True
        bases += above
    return False


def has_source(path: str, seen: tuple[str, ...] = ()) -> bool:
    """Whether a module names a source, in its docstring or as ``REFERENCE``, or a module that does."""
    tree = tree_of(path)
    text = docstring(tree) + " ".join(
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and text_of(node.targets) == "REFERENCE"
    )
    if SOURCE.search(text):
        return True
    others = [other for name in REFERENCE.findall(text) if (other := file_of(name)) and other not in (path, *seen)]
    return any(has_source(other, (path, *seen)) for other in others)


def file_of(name: str) -> str | None:
    """The module that a dotted name is, or lies in."""
    parts = name.split(".")
    paths = ("/".join(parts[:length]) + ".py" for length in range(len(parts), 1, -1))
    return next((path for path in paths if (ROOT / path).is_file()), None)


def in_a_wing(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 3 and parts[1] != "core" and parts[2] != "__init__.py"


# The tests.


@pytest.mark.parametrize(
    ("missing", "layers"), [(silent, LAYERS), (silent_of_errors, LAYERS), (silent_of_shapes, LAYERS[:2])]
)
def test_nothing_is_left_unsaid(missing: Callable[[ast.Module, str], list[str]], layers: tuple[str, ...]) -> None:
    assert [where for path in modules(*layers) for where in missing(tree_of(path), path)] == []


def test_every_module_of_a_wing_has_a_source() -> None:
    wings = [path for path in modules(*LAYERS[:2]) if in_a_wing(path)]
    assert [path for path in wings if not has_source(path)] == list(WITHOUT_SOURCE)
    assert len(wings) > 50


def test_all_functions_were_seen() -> None:
    found = [x for path in modules(*LAYERS) for x in functions(tree_of(path), path)]
    assert sum(bool(raised(x.node)) for x in found) > 200
    assert sum(has_arrays(x.node) for x in found if x.where.startswith(LAYERS[:2])) > 200


@pytest.mark.parametrize(
    ("missing", "source"),
    [
        (silent_of_errors, 'def f(x):\n    """A number."""\n    raise InputError("x")'),
        (silent_of_errors, 'def f(x):\n    """A number."""\n    if x:\n        refuse("x")'),
        (silent_of_errors, 'def f(x):\n    """A number."""\n    check_positive(x=x)'),
        (silent_of_errors, 'def f():\n    """A number."""\n    return _g()\ndef _g():\n    raise InputError("x")'),
        (silent_of_errors, 'class C:\n    """A thing."""\n    def __post_init__(self):\n        raise ValueError'),
        (silent_of_shapes, 'def f(x: np.ndarray):\n    """Its sum (or so, roughly)."""'),
        (silent_of_shapes, 'def f(x: np.ndarray):\n    """Its mean $f(a, b)$ for x in (0, 1)."""'),
        (silent_of_shapes, 'def f() -> "np.ndarray | None":\n    """The sums, if any."""'),
        (silent_of_shapes, "class C:\n    def f(self, x: ArrayLike | None):\n        return x"),
        (silent, '"""A module."""\ndef f(x):\n    return x'),
        (silent, '"""A module."""\nclass C:\n    x: int'),
        (
            silent,
            '"""A module."""\nclass C:\n    """A."""\n    def f(self):\n        x = 1\n        x += 1\n        return x',
        ),
        (silent, "x = 1"),
    ],
)
def test_what_is_left_unsaid_is_found(missing: Callable[[ast.Module], list[str]], source: str) -> None:
    assert len(missing(ast.parse(source))) == 1


@pytest.mark.parametrize(
    ("missing", "source"),
    [
        (silent_of_errors, 'def f(x):\n    """A number. Raises `InputError` below 0."""\n    raise InputError("x")'),
        (silent_of_errors, 'def f(x):\n    """A function."""\n    def g():\n        raise ValueError\n    return g'),
        (
            silent_of_errors,
            'def f():\n    """A."""\n    try:\n        refuse("x")\n    except Exception:\n        return 1',
        ),
        (silent_of_errors, 'class C:\n    """Refuses 0."""\n    def __post_init__(self):\n        raise ValueError'),
        (silent_of_shapes, 'def f(x: np.ndarray):\n    """Its sum over rows (m, P)."""'),
        (silent_of_shapes, 'def f(key: jax.Array, g: Callable[[np.ndarray], float]):\n    """A draw."""'),
        (silent, '"""A module."""\nclass C:\n    """A thing, x."""\n    def f(self):\n        return self.x'),
    ],
)
def test_what_is_said_is_accepted(missing: Callable[[ast.Module], list[str]], source: str) -> None:
    assert missing(ast.parse(source)) == []
