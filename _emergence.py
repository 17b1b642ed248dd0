"""What the four packages share: version, name on the package index, and whether a neighbour is their own.

Their names are common words. A user's ``theory.py`` or another distribution's ``validation`` may stand first on the path,
or have been installed over ours; each package asks here before it imports another. Nothing heavy is imported.
"""

import ast
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec

__version__ = "0.1.0"

#: On the package index ``emergence`` is somebody else's.
DISTRIBUTION = "emergence-sgd"
#: Each imports those before it only.
PACKAGES = ("theory", "dynamics", "validation", "emergence")

_AGAIN = f"pip install . in a checkout of {DISTRIBUTION}"
_ROOT = os.path.dirname(os.path.abspath(__file__))
#: The first file of each package of ours names this module; a stranger's file in its place does not.
_MARK = __name__.encode()


class StrangerError(ImportError):
    """A package under one of our names is not ours, or is gone. One line: the name, the file found, the remedy."""


def check_siblings(package: str) -> None:
    """Look for all four packages, without running them, before `package` imports any. Some tenths of a millisecond.

    Raises `StrangerError` if one that `package` is built on is not ours; warns, once, if one above it is not.
    """
    for place, name in enumerate(PACKAGES):
        trouble = _trouble(name)
        if trouble and place <= PACKAGES.index(package):
            raise StrangerError(trouble, name=name)
        if trouble:
            _warn(trouble)


def offered(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) of a package that loads what it offers when it is first asked for.

    What it offers stands in its first file as imports ``if TYPE_CHECKING``, which type checkers read too.
    """
    module = sys.modules[package]
    tree = ast.parse(module.__loader__.get_source(package))  # type: ignore[union-attr]
    blocks = [x for x in tree.body if isinstance(x, ast.If) and ast.unparse(x.test) == "TYPE_CHECKING"]
    imports = [x for block in blocks for x in block.body if isinstance(x, ast.ImportFrom)]
    places = {alias.name: str(x.module) for x in imports for alias in x.names}

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return load, lambda: sorted({*vars(module), *places})


def main() -> int:
    """The command ``emergence``: if that very package is a stranger's, say so in place of running it."""
    if trouble := _trouble("emergence"):
        print(f"emergence: error: {trouble}", file=sys.stderr)
        return 2
    from emergence.cli import main as run

    return run()


@cache
def _warn(trouble: str) -> None:
    warnings.warn(trouble, stacklevel=4)  # points at the line that imports the package


def _trouble(name: str) -> str:
    """What is wrong with the package that Python finds under `name`, and the remedy; empty if it is ours."""
    spec = find_spec(name)
    own = os.path.join(_ROOT, name, "__init__.py")
    if spec is None or spec.origin is None:
        return f"package {name!r} has lost {own}: {_AGAIN}"
    in_place = spec.origin == own or os.path.realpath(spec.origin) == os.path.realpath(own)
    if in_place and _is_marked(own):
        return ""
    return f"package {name!r} was found at {spec.origin}, which is not part of {DISTRIBUTION}: " + _remedy(
        spec.origin, _owner(name, spec.origin), in_place
    )


def _is_marked(file: str) -> bool:
    try:
        with open(file, "rb") as source:
            return _MARK in source.read()
    except OSError:  # inside an archive, where nothing is overwritten
        return True


def _remedy(file: str, owner: str, in_place: bool) -> str:
    if in_place:
        return f"{f'pip uninstall {owner}, then ' if owner else ''}{_AGAIN}"
    if owner:
        return f"pip uninstall {owner}, or set PYTHONPATH={_ROOT}"
    return "rename it, or take its folder off Python's path"


def _owner(name: str, file: str) -> str:
    """The distribution that installed `file`, empty if none did."""
    from importlib import metadata

    for owner in metadata.packages_distributions().get(name, []):
        files = metadata.files(owner) or []
        if owner != DISTRIBUTION and any(os.path.realpath(x.locate()) == os.path.realpath(file) for x in files):
            return owner
    return ""
