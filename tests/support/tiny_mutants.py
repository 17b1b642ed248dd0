"""A tree of a few lines with tests and claims of its own, and all its mutants tried: ``python tiny_mutants.py FOLDER``.

Printed is, as JSON, what became of each; in a process of its own, which forks before anything has started a thread.
"""

import argparse
import json
import sys
from pathlib import Path

from mutants.__main__ import outcomes, work
from mutants.generating import mutants_of
from mutants.project import Project, Verdicts

FILES = {
    "theory/__init__.py": "",
    "theory/small.py": '''"""A few formulas; 2 * 3 is no formula here."""

UNIT = 4.0


def volume(width: float, height: float) -> float:
    """Noticed by both."""
    return width * height**2


def turned(x: float) -> float:
    """Noticed by a test alone, which calls it through another file."""
    return -x


def scaled(x: float) -> float:
    """Noticed by a claim alone."""
    return 3.0 * x


def unheeded(x: float) -> float:
    """Called by a test and a claim that look away."""
    return 7.0 * x


def positive(x: float) -> float:
    """Nothing changes where zero is replaced by zero."""
    return x if x > 0 else 0 * x


def listed(x: float) -> float:
    """Noticed by a test that finds it by walking a folder."""
    return x - 5.0


def endless(x: float) -> float:
    """Comes to no end if the sign is wrong."""
    while x < 3:
        x += 1
    return x
''',
    "theory/second.py": "from theory.small import turned\n\n\ndef twice(x):\n    return turned(x)\n",
    "theory/shelf/__init__.py": """import pkgutil
from importlib import import_module

ALL = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
""",
    "theory/shelf/book.py": "from theory.small import listed\n",
    "tests/test_shelf.py": "import theory.shelf as s\n\n\ndef test_it():\n    assert s.ALL[0].listed(5.0) == 0.0\n",
    "tests/test_near.py": """from theory.small import UNIT, endless, positive, unheeded, volume


def test_unit():
    assert UNIT == 4.0


def test_volume():
    assert volume(2.0, 3.0) == 18.0


def test_fails_anyway():
    assert volume(1.0, 1.0) == 2.0


def test_others():
    unheeded(1.0)
    assert endless(0.0) == 3.0
    assert positive(-1.0) == positive(0.0) == 0.0
    assert positive(2.0) == 2.0
""",
    "tests/test_far.py": "from theory.second import twice\n\n\ndef test_twice():\n    assert twice(1.0) == -1.0\n",
    "tests/test_unreadable.py": "import not_there\nfrom theory.small import unheeded\n\n\ndef test_it():\n    unheeded(1.0)\n",
    "tests/test_dies.py": """import os

from theory.small import positive, unheeded


def test_it():
    positive(unheeded(1.0))
    os._exit(3)
""",
    "tests/test_stranger.py": "def test_nothing():\n    assert True\n",
    "claims/a.py": "from theory.small import scaled, unheeded, volume\n",
    "claims/b.py": "from theory.small import positive\n",
}


def judged(name: str, seed: int) -> Verdicts:
    """Of A, one quantity is never as expected; C cannot be judged."""
    from theory import small

    small.unheeded(1.0)
    small.positive(1.0)
    if name == "C":
        raise RuntimeError("not here")
    if name == "B":
        return {"B": ("agrees", True)}
    agrees = small.volume(1.0, 2.0) == 4.0 and small.scaled(1.0) == 3.0
    return {"A.x": ("inconclusive", False), "A.y": ("agrees" if agrees else "disagrees", agrees)}


def claims() -> dict[str, str]:
    return {"A": "claims/a.py", "B": "claims/b.py", "C": "claims/a.py"}


def main() -> None:
    root = Path(sys.argv[1])
    for name, text in FILES.items():
        (root / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "tree" / name).write_text(text, encoding="utf-8")
    tests = tuple(sorted(f"tests/{path.name}" for path in (root / "tree" / "tests").glob("test_*.py")))
    project = Project(root / "tree", ("theory",), ("pytest",), ("theory/small.py",), tests, claims, judged, {}, 1.0)
    found = mutants_of(project.root, project.sources)
    work(project, found, found, argparse.Namespace(store=root / "store", claim_seed=0, budget=100.0, ask=None))
    rows = [
        {
            "function": one.mutant.function,
            "change": one.mutant.change,
            "digest": one.mutant.digest,
            "name": one.name,
            "tests": one.tests.notice,
            "claims": one.claims.notice,
            "silent": [one.tests.silent, one.claims.silent],
            "in_claims": one.in_claims,
        }
        for one in outcomes(project, found, root / "store")
    ]
    (root / "outcomes.json").write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
