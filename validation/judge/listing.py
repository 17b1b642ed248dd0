"""The catalogue for reading: claims as their declarations say, without importing what measures them.

The arguments of every ``@claim(…)`` are evaluated by themselves, in the constants that their module writes down. A module
whose declarations need more than constants is imported after all, so that no claim is ever left out.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
from typing import Any

import validation.claims
from validation.judge.catalogue import claims_of
from validation.judge.claim import Claim, Runner, claim
from validation.judge.selection import natural

#: The end of a function's or a class's first line(s), and its body.
_BODY = re.compile(r"^((?:def|class|\)).*:)\n(?:(?:[ \t].*)?\n)+", re.MULTILINE)


def listed() -> list[Claim]:
    """Every claim of the catalogue, in its order, equal to those of `catalogue` but for runners that import when called."""
    entries = walk_packages(validation.claims.__path__, "validation.claims.")
    found = [one for entry in entries if not entry.ispkg for one in _claims(entry.name)]
    return sorted(found, key=lambda one: natural(one.id))


def _claims(module: str) -> list[Claim]:
    """The claims that a module declares."""
    names = _Constants(module)
    try:
        return [
            claim(**{str(x.arg): names.value(x.value) for x in texts})(runner) for texts, runner in _declared(module)
        ]
    except Exception:  # whatever an expression needs that is not there
        return list(claims_of(import_module(module)))


def _declared(module: str) -> Iterator[tuple[list[ast.keyword], Runner]]:
    """The arguments of each ``@claim(…)`` of a module, and the function under it."""
    for node in (x for x in _statements(module) if isinstance(x, ast.FunctionDef)):
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == claim.__name__:
                yield call.keywords, _later(module, node.name)


def _later(module: str, name: str) -> Runner:
    """The runner of a claim by its name."""

    def run(context: Any) -> Any:
        return getattr(import_module(module), name).runner(context)

    run.__module__, run.__qualname__ = module, name
    return run


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Of a module, without the bodies of its functions, which are most of the text and hold no declaration."""
    source = find_spec(module).loader.get_source(module)  # type: ignore[union-attr]
    try:
        return ast.parse(_BODY.sub(r"\1 ...\n", source)).body
    except SyntaxError:  # a text in quotes, say, that looks like a function
        return ast.parse(source).body


class _Constants(dict[str, Any]):
    """The constants of a module by name, each evaluated when it is asked for, those that it imports likewise."""

    def __init__(self, module: str) -> None:
        self.module = module

    def value(self, expression: ast.expr) -> Any:
        """Of an expression in them."""
        return eval(compile(ast.Expression(expression), self.module, "eval"), {}, self)

    def __missing__(self, name: str) -> Any:
        for node in _statements(self.module):
            if isinstance(node, ast.ImportFrom) and node.module:
                places = {alias.asname or alias.name: alias.name for alias in node.names}
                if name in places:
                    return _Constants(node.module)[places[name]]
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                node = ast.Assign([node.target], node.value)  # its annotation needs what is imported
            if isinstance(node, ast.Assign) and name in _names(node.targets):
                assignment = ast.fix_missing_locations(ast.Module([node], []))
                exec(compile(assignment, self.module, "exec"), {}, self)
                return self[name]
        raise KeyError(name)


def _names(targets: list[ast.expr]) -> set[str]:
    """What an assignment binds."""
    return {x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name)}
