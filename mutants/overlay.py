"""A copy of the tree in which one file at a time is changed: what is mutated is never the tree that people work in."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mutants.mutant import Mutant

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", "*.egg-info", "emergence-out", "out", "build"
)


class Overlay:
    """The copy. `root`: where it is."""

    def __init__(self, tree: Path, root: Path) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tree, root, ignore=_LEFT_OUT, symlinks=True)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The mutant is there within."""
        path = self.root / mutant.path
        whole = path.read_text(encoding="utf-8")
        self._write(path, mutant.applied(whole))
        try:
            yield
        finally:
            self._write(path, whole)

    def _write(self, path: Path, text: str) -> None:
        """A file of one length and second is not told from the one before by Python: its compiled form goes too."""
        path.write_text(text, encoding="utf-8")
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)
