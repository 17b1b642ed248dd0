"""What is mutated here, and who is asked."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Quantity → verdict, and whether it is the expected one.
Verdicts = Mapping[str, tuple[str, bool]]

#: What takes long to import.
_LIBRARIES = (
    *("numpy", "scipy.integrate", "scipy.optimize", "scipy.stats", "scipy.special", "scipy.linalg", "sympy"),
    *("jax", "jax.numpy", "equinox", "diffrax", "optimistix", "xarray", "h5netcdf", "matplotlib.figure", "tqdm"),
    *("pytest",),
)
_FORMULAS = (
    *("theory/**/*.py", "dynamics/**/*.py"),
    *(f"validation/judge/{name}.py" for name in ("alarms", "claim", "controls")),
    *(f"validation/{name}/*.py" for name in ("statistics", "experiments", "comparisons")),
)
#: Text, pictures, files, clocks: no number of a formula is in them.
_NO_FORMULAS = frozenset(
    {
        *(
            f"theory/core/{name}.py"
            for name in ("arguments", "defaults", "diagrams", "errors", "javascript", "typeset")
        ),
        *(f"theory/core/{name}.py" for name in ("activation_text", "words")),
        *(f"theory/declared/{name}.py" for name in ("known", "target_text", "text")),
        *(
            f"dynamics/core/{name}.py"
            for name in ("checks", "clock", "interrupted", "kept", "outside", "plot", "plotted")
        ),
        *(f"dynamics/core/{name}.py" for name in ("precision", "provenance", "storage")),
        "dynamics/networks/checkpoint.py",
    }
)
#: These look at texts, not at numbers: any change of a file may fail them.
_READERS = frozenset(
    {
        *(f"tests/test_{name}.py" for name in ("distribution", "docs", "docstrings", "layers", "mutants", "site")),
        "tests/judge/test_lock.py",
    }
)


@dataclass(frozen=True)
class Project:
    """A tree with formulas, tests and claims.

    Attributes:
        root: of the tree. packages: what is imported from it. libraries: what else is imported.
        sources: files with formulas. tests: files of tests. All below `root`, with slashes.
        claims: called in a process of its own: id of each claim → the file that measures it.
        judge: called likewise with an id and a seed: what the claim's quantities came to.
        usual: processor seconds of claims, as far as they are known before any is measured.
        patience: processor seconds that a process may take beyond three times what it takes without a mutant.
    """

    root: Path
    packages: tuple[str, ...]
    libraries: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    claims: Callable[[], Mapping[str, str]]
    judge: Callable[[str, int], Verdicts]
    usual: Mapping[str, float] = field(default_factory=dict)
    patience: float = 30.0


def this_project(root: Path) -> Project:
    """The formulas of `theory`, `dynamics` and the judge; all tests but those that look at texts; the catalogue."""
    files = {path.relative_to(root).as_posix() for pattern in _FORMULAS for path in root.glob(pattern)}
    tests = [path.relative_to(root).as_posix() for path in root.glob("tests/**/test_*.py")]
    return Project(
        root,
        ("theory", "dynamics", "validation", "emergence", "_emergence", "benchmarks"),
        _LIBRARIES,
        tuple(sorted(files - _NO_FORMULAS)),
        tuple(sorted(set(tests) - _READERS)),
        claims_of_catalogue,
        judged,
        json.loads((root / "docs" / "broken.json").read_text(encoding="utf-8"))["seconds"],
    )


def claims_of_catalogue() -> dict[str, str]:
    """All claims but the open ones, which cannot fail."""
    from validation.judge.listing import listed

    found = (claim for claim in listed() if claim.kind != "open")
    return {claim.id: claim.runner.__module__.replace(".", "/") + ".py" for claim in found}


def judged(name: str, seed: int) -> Verdicts:
    """With the quick preset, as `make run` does."""
    from validation.judge.runner import validate

    return {one.id: (one.verdict, one.as_expected) for one in validate([name], seed=seed).verdicts}
