"""Imports go one way: theory ← dynamics ← validation ← emergence, and theory knows nothing of JAX."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("theory", "dynamics", "validation", "emergence")
#: Nothing in theory may need an array library with compilation.
NUMERICAL = {"jax", "jaxlib", "diffrax", "equinox", "optimistix", "lineax"}


def imported(source: str, package: str) -> set[str]:
    """Top-level names that a module of `package` imports, anywhere in it, those for type checking included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(package if node.level else (node.module or "").split(".")[0])
    return found


def forbidden(package: str) -> set[str]:
    """What a layer must not import."""
    above = set(LAYERS[LAYERS.index(package) + 1 :])
    return above | NUMERICAL if package == "theory" else above


def modules() -> list[Path]:
    return [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_its_own_layer_and_those_below(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert not imported(path.read_text(encoding="utf-8"), package) & forbidden(package)


def test_every_layer_was_read() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in modules()} == set(LAYERS)
    assert sum(path.stat().st_size for path in modules()) > 10_000


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("theory", "import jax.numpy as jnp"),
        ("theory", "def f():\n    from dynamics.flow import g"),
        ("theory", "if TYPE_CHECKING:\n    import validation"),
        ("dynamics", "from validation import claim"),
        ("dynamics", "import numpy, emergence.cli"),
        ("validation", "from emergence.cli import main"),
    ],
)
def test_the_rule_catches_a_violation(package: str, source: str) -> None:
    assert imported(source, package) & forbidden(package)


def test_the_rule_allows_what_it_should() -> None:
    assert not imported("from theory import System\nimport jax", "dynamics") & forbidden("dynamics")
    assert not imported("from .claim import Claim", "validation") & forbidden("validation")


def arrows(files: dict[str, str]) -> dict[str, set[str]]:
    """Module → modules of `files` (dotted name → source) that it imports, anywhere in it, those for type checking included."""
    return {name: {to for to in _named(source) if to in files} - {name} for name, source in files.items()}


def _named(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circle(found: dict[str, set[str]]) -> tuple[str, ...]:
    """Modules that import one another in a circle; empty if none do."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def test_no_modules_import_one_another_in_a_circle() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in modules()
        if path.name != "__init__.py"
    }
    found = arrows(files)
    assert sum(map(len, found.values())) > 500
    assert circle(found) == ()


def test_the_circle_is_found() -> None:
    files = {
        "a.x": "from a.y import f",
        "a.y": "def f():\n    import a.z",
        "a.z": "if TYPE_CHECKING:\n    from a import x",
    }
    assert set(circle(arrows(files))) == set(files)
    assert circle(arrows(files | {"a.z": "import a"})) == ()


@pytest.mark.parametrize("package", LAYERS)
def test_no_module_is_hidden_by_a_public_name(package: str) -> None:
    inside = {entry.name for entry in iter_modules([str(ROOT / package)])}
    assert inside
    assert not inside & set(import_module(package).__all__)


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import theory", NUMERICAL | {"sympy", "scipy", "dynamics"}),
        ("import theory.core.activation, theory.prediction.predict", NUMERICAL | {"dynamics"}),
        ("import dynamics", {"sympy", "scipy", "diffrax", "xarray"}),
        ("import emergence.cli", NUMERICAL | {"numpy", "sympy", "scipy", "xarray", "matplotlib"}),
        ("from emergence.cli import main; main(['claims'])", NUMERICAL | {"numpy", "sympy", "scipy", "matplotlib"}),
        ("from emergence.cli import main; main(['validate', 'E99'])", NUMERICAL | {"sympy", "scipy", "matplotlib"}),
        ("from emergence.cli import main; main(['judge', 'none.toml'])", NUMERICAL | {"sympy", "scipy", "matplotlib"}),
    ],
)
def test_what_is_imported_loads_nothing_heavier(program: str, heavy: set[str]) -> None:
    """Also through other packages: asked of a fresh interpreter."""
    asked = f"{program}; import sys; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_has_what_it_offers_and_nothing_else(package: str) -> None:
    module = import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018
