"""What a module's results depend on: itself and, through its imports, all of the project's code that it can reach.

Imports inside functions count, and those for type checking. ``from theory import Activation`` leads to the module that
`theory` has it from, not to everything that `theory` offers; a package whose name is used otherwise counts whole. Of a file
outside the project, what it imports from files of its owner's counts too, and the versions of other libraries.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions, version
from pathlib import Path

PACKAGES = ("theory", "dynamics", "validation", "emergence")
#: Folders that libraries are installed into, by whatever Python or for whomever.
_LIBRARIES = {"site-packages", "dist-packages"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Code:
    """The project's packages, which lie side by side in the folder `root`."""

    root: Path

    def digest(self, *starts: Path) -> str:
        """Of all that the modules at `starts` can reach. Comments, docstrings and layout are left out."""
        whole = hashlib.sha256()
        for path in sorted(self.reached(*starts)):
            whole.update(f"{path.name} {_read(path).statements} ".encode())
            for name in () if path.is_relative_to(self.root) else _libraries(path):
                whole.update(f"{name} {version(name)} ".encode())
        return whole.hexdigest()[:16]

    def reached(self, *starts: Path) -> set[Path]:
        """`starts` and every module of the packages that they can reach."""
        found, left = set(starts), [*starts]
        while left:
            new = _needed(self, left.pop()) - found
            found |= new
            left += new
        return found

    def needs(self, path: Path) -> Iterator[Path]:
        """What one module imports. (What a package passes on was followed where it was asked for.)"""
        if path.is_relative_to(self.root):
            yield from self._effects(path.relative_to(self.root).parts[0])
        else:
            yield from _owned(path)
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


def forget() -> None:
    """Read every file anew when it is asked for again."""
    _needed.cache_clear()
    _read.cache_clear()


@cache
def _needed(code: Code, path: Path) -> frozenset[Path]:
    return frozenset(code.needs(path))


@dataclass(frozen=True)
class _Read:
    """A module: its syntax tree without docstrings as text, and (module, name) for every name that it imports, wherever
    in it; of ``import theory`` the names it then uses, ``*`` if it does anything else with it.
    """

    statements: str
    imports: tuple[tuple[str, str], ...]


def _imports(path: Path) -> tuple[tuple[str, str], ...]:
    return _read(path).imports


@cache
def _read(path: Path) -> _Read:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    found: list[tuple[str, str]] = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found += [(alias.name, name) for name in _used(nodes, alias.asname or alias.name)]
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return _Read(ast.dump(tree), tuple(dict.fromkeys(found)))


def _used(nodes: list[ast.AST], bound: str) -> Iterator[str]:
    """Attributes of a module that are used; "*" if anything else is done with it, or nothing: it is there for what it does."""
    attributes = [
        x for x in nodes if isinstance(x, ast.Attribute) and _dotted(x.value, bound) and ast.unparse(x.value) == bound
    ]
    loaded = sum(isinstance(x, ast.Name) and x.id == bound and isinstance(x.ctx, ast.Load) for x in nodes)
    yield from (x.attr for x in attributes)
    if loaded != len(attributes) or not attributes:
        yield "*"


def _dotted(node: ast.expr, bound: str) -> bool:
    """Whether the node may be the name `bound`: a quick look before it is written out."""
    last = bound.rpartition(".")[2]
    return (isinstance(node, ast.Name) and node.id == last) or (isinstance(node, ast.Attribute) and node.attr == last)


# ---------------------------------------------------------------------- files outside the project


def _outside(path: Path) -> list[str]:
    """Top-level names that a file imports and that neither Python nor the project has."""
    names = dict.fromkeys(module.partition(".")[0] for module, _ in _imports(path))
    return [name for name in names if name and name not in PACKAGES and name not in sys.stdlib_module_names]


def own_digest(path: Path) -> str:
    """SHA-256 of a file outside the project, and of all files of its owner's that it can reach, as they are written.

    Of a file that Python cannot read it is that of the file alone.
    """
    found, left = [path], [path]
    while left:
        try:
            new = [one for one in sorted(_owned(left.pop())) if one not in found]
        except (SyntaxError, ValueError):  # whoever runs it is told
            new = []
        found += new
        left += new
    return hashlib.sha256(b"".join(one.read_bytes() for one in found)).hexdigest()


def _owned(path: Path) -> Iterator[Path]:
    """Files of its owner's that a file outside the project imports: those that no library has brought."""
    for name in _outside(path):
        found = PathFinder.find_spec(name, [str(path.parent), *sys.path])
        for origin in () if found is None else (found.origin, *(found.submodule_search_locations or ())):
            if origin is None:  # a package without a file of its own
                continue
            place = Path(origin).resolve()
            if not _LIBRARIES & set(place.parts):
                yield from sorted(place.rglob("*.py")) if place.is_dir() else [place] * (place.suffix == ".py")


def _libraries(path: Path) -> list[str]:
    """Distributions of the libraries that a file outside the project imports."""
    return sorted({name for top in _outside(path) for name in _distributions().get(top, ())})


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())
