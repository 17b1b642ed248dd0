"""Which tests and claims come by which lines: measured once for each file of tests and each claim, and kept.

What is kept of a file holds as long as that file and the one that is asked about are the same. Code under `jit` is traced in
Python, so its lines count for the test that traced it; another test that uses what was compiled then does not come by, and is
asked later as one of the "rest" of its file.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from emergence.store.code_digest import Code
from mutants.measuring import IMPORT, Lines
from mutants.mutant import Mutant
from mutants.results import TESTS

_FIXTURES = re.compile(r"\b(command|run|refused)\b")


def digest_of(path: Path) -> str:
    """Of a file as it is."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


@dataclass(frozen=True)
class Unit:
    """Who can be asked: a file of tests, or a claim, whose code is in `path`."""

    asked: str
    name: str
    path: str


@dataclass(frozen=True)
class Measured:
    """What one unit came by.

    Attributes:
        version: of the unit's file. sources: digest of each file that it came by. lines: who came by what.
        nodes: seconds of processor time of each test that passes (of a claim, its id). seconds: of the whole, with imports.
        verdicts: of a claim, what its quantities came to.
    """

    version: str
    sources: dict[str, str]
    lines: Lines
    nodes: dict[str, float]
    seconds: float
    verdicts: dict[str, Any]

    def reaching(self, mutant: Mutant) -> list[str]:
        """Nodes that come by the mutated statement, the cheapest first; all of them if it runs at import.

        And all that are known of a unit whose measurement did not end: it has no lines, and may come by anything.
        """
        first, last = mutant.lines
        mask = ((1 << (last - first + 1)) - 1) << first
        found = {node for node, bits in self.lines.get(mutant.path, {}).items() if int(bits, 16) & mask}
        everyone = not self.lines or IMPORT in found
        return sorted(self.nodes if everyone else found & self.nodes.keys(), key=lambda node: self.nodes[node])


class Reach:
    """What was measured of a tree, in a folder with one file for each unit."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder
        self._known: dict[Unit, Measured | None] = {}
        self._unfit = folder / "unfit"
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, unit: Unit, mutant: Mutant) -> Measured | None:
        """What was measured of a unit, if it still holds for the mutant's file."""
        found = self.known(unit)
        if found is None or found.version != self.version(unit.path):
            return None
        before = found.sources.get(mutant.path)
        return found if before in (None, self.version(mutant.path)) else None

    def known(self, unit: Unit) -> Measured | None:
        """What was measured of a unit, of whatever version."""
        if unit not in self._known:
            path = self._path(unit)
            self._known[unit] = Measured(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        return self._known[unit]

    def keep(self, unit: Unit, rows: Sequence[dict[str, Any]], seconds: float) -> Measured:
        """Keep what a measurement wrote."""
        lines: Lines = next((row["lines"] for row in rows if "lines" in row), {})
        nodes = {
            row["node"]: row["seconds"] for row in rows if row.get("outcome", "passed") == "passed" and "node" in row
        }
        verdicts: dict[str, Any] = next((row["verdicts"] for row in rows if "verdicts" in row), {})
        sources = {path: self.version(path) for path in lines}
        found = Measured(self.version(unit.path), sources, lines, nodes, seconds, verdicts)
        temporary = self._folder / f".{os.getpid()}"
        temporary.write_text(json.dumps(asdict(found)), encoding="utf-8")
        temporary.replace(self._path(unit))
        self._known[unit] = found
        return found

    def unfit(self) -> frozenset[str]:
        """Tests that fail, and files and claims that come to no end, whatever mutant there is, until they are changed."""
        lines = self._unfit.read_text(encoding="utf-8").splitlines() if self._unfit.is_file() else []
        noted = (line.split("\t") for line in lines)
        return frozenset(node for node, *at in noted if not at or self.version(at[0]) == at[1])

    def leave_out(self, node: str, path: str) -> None:
        """Note one of them, that is in the file `path`."""
        with open(self._unfit, "a", encoding="utf-8") as file:
            file.write(f"{node}\t{path}\t{self.version(path)}\n")

    def version(self, path: str) -> str:
        """Of a file of the tree, read once."""
        if path not in self._versions:
            self._versions[path] = digest_of(self._root / path)
        return self._versions[path]

    def _path(self, unit: Unit) -> Path:
        return self._folder / f"{unit.asked}-{re.sub(r'[^A-Za-z0-9.-]', '_', unit.name)}.json"

    @cached_property
    def _versions(self) -> dict[str, str]:
        return {}


class Nearness:
    """Who may come by a file at all, by what is imported, and who is nearest: asked first while nothing is measured."""

    def __init__(self, root: Path) -> None:
        self._root, self._code = root, Code(root)
        self._reached: dict[str, set[Path]] = {}
        self._direct: dict[str, set[Path]] = {}

    def candidates(self, units: Iterable[Unit], mutant: Mutant) -> list[Unit]:
        """Units that can reach the mutant's file through imports, the nearest first."""
        path = self._root / mutant.path
        found = [unit for unit in units if path in self._all(unit)]
        return sorted(found, key=lambda unit: self._rank(unit, mutant))

    def is_near(self, unit: Unit, mutant: Mutant) -> bool:
        """Whether the unit's file itself imports what is mutated."""
        return self._root / mutant.path in self._needed(unit.path)

    def _rank(self, unit: Unit, mutant: Mutant) -> tuple[bool, bool, int]:
        """What imports the file itself, first what imports little else; then the same wing."""
        needed = self._needed(unit.path)
        same = Path(unit.path).parent.name == Path(mutant.path).parent.name
        return not self.is_near(unit, mutant), not same, len(needed)

    def _needed(self, path: str) -> set[Path]:
        if path not in self._direct:
            self._direct[path] = set(self._code.needs(self._root / path))
        return self._direct[path]

    def _all(self, unit: Unit) -> set[Path]:
        """With what its helpers and the fixtures that run commands reach."""
        if unit.path not in self._reached:
            starts = [self._root / unit.path]
            text = starts[0].read_text(encoding="utf-8")
            if unit.asked == TESTS:
                support = self._root / "tests" / "support"
                starts += [one for one in support.glob("*.py") if re.search(rf"\b{one.stem}\b", text)]
                conftest = self._root / "tests" / "conftest.py"
                starts += [conftest] * (conftest.is_file() and bool(_FIXTURES.search(text)))
            self._reached[unit.path] = self._code.reached(*starts)
        return self._reached[unit.path]
