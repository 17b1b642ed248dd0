"""What a module's results depend on: itself and, through its imports, all of the project's code that it can reach.

Imports inside functions count, and those for type checking. ``from theory import Activation`` leads to the module that
`theory` has it from, not to everything that `theory` offers; a package whose name is used otherwise counts whole.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGES = ("theory", "dynamics", "validation", "emergence")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Code:
    """The project's packages, which lie side by side in the folder `root`."""

    root: Path

    def digest(self, start: Path) -> str:
        """Of all that the module at `start` can reach. Comments, docstrings and layout are left out."""
        whole = hashlib.sha256()
        for path in sorted(self.reached(start)):
            whole.update(f"{path.name} {_statements(path)} ".encode())
        return whole.hexdigest()[:16]

    def reached(self, start: Path) -> set[Path]:
        """`start` and every module of the packages that it can reach."""
        found, left = {start}, [start]
        while left:
            new = set(self._needs(left.pop())) - found
            found |= new
            left += new
        return found

    def _needs(self, path: Path) -> Iterator[Path]:
        """What one module imports. (What a package passes on was followed where it was asked for.)"""
        if path.is_relative_to(self.root):
            yield from self._effects(path.relative_to(self.root).parts[0])
        if path.name != "__init__.py":
            for module, name in _imports(path):
                yield from self._places(module, name)

    def _effects(self, package: str) -> Iterator[Path]:
        """Modules that a package imports whatever is asked of it, for what they do, as `dynamics.core.precision`."""
        first = self._file(package)
        if first is not None:
            yield from (x for module, name in _imports(first) if (x := self._file(f"{module}.{name}")) is not None)

    def _places(self, module: str, name: str) -> Iterator[Path]:
        """Where a name imported from a module comes from."""
        path = self._file(f"{module}.{name}") or self._file(module)
        if path is None:
            return
        passed = [one for one in _imports(path) if one[1] == name and one[0] != module]
        if path.name != "__init__.py":
            yield path
        elif self._file(f"{module}.{name}") is None and passed:
            yield from self._places(*passed[0])
        else:  # a name of the package's own, or the package as a whole
            yield path
            yield from (place for one in _imports(path) if one[0] != module for place in self._places(*one))

    def _file(self, name: str) -> Path | None:
        parts = name.split(".")
        if parts[0] not in PACKAGES:
            return None
        path = self.root.joinpath(*parts)
        return next((x for x in (path.with_suffix(".py"), path / "__init__.py") if x.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _statements(path: Path) -> str:
    """A module as its syntax tree, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


@cache
def _imports(path: Path) -> tuple[tuple[str, str], ...]:
    """(module, name) for every name that a file imports, wherever in it; of ``import theory`` the names it then uses."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found += [(alias.name, name) for name in _used(path, alias.asname or alias.name)]
    return tuple(dict.fromkeys(found))


def _used(path: Path, bound: str) -> Iterator[str]:
    """Attributes of a module that a file uses; "*" if it does anything else with it."""
    nodes = list(ast.walk(_tree(path)))
    attributes = [x for x in nodes if isinstance(x, ast.Attribute) and ast.unparse(x.value) == bound]
    loaded = sum(isinstance(x, ast.Name) and x.id == bound and isinstance(x.ctx, ast.Load) for x in nodes)
    yield from (x.attr for x in attributes)
    if loaded != len(attributes):  # (never so for a dotted name)
        yield "*"
