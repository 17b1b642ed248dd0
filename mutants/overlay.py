"""A copy of the tree in which mutants are there to be turned on: what is mutated is never the tree that people work in."""

import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from mutants import switch
from mutants.mutant import Mutant, switched

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", "*.egg-info", "emergence-out", "out", "build", "node_modules"
)


def overlay(tree: Path, root: Path, mutants: Sequence[Mutant]) -> None:
    """Make the copy of `tree` at `root`."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(tree, root, ignore=_LEFT_OUT, symlinks=True)
    shutil.copy(switch.__file__, root / f"{switch.NAME}.py")
    for path, found in groupby(sorted(mutants, key=lambda one: one.path), key=lambda one: one.path):
        text = (root / path).read_text(encoding="utf-8")
        (root / path).write_text(switched(text, list(found)), encoding="utf-8")
