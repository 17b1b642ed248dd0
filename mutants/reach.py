"""Which tests and claims come by which mutants: measured once for each file of tests and each claim, and kept.

All drawn mutants are in the overlay, each behind a switch which notes that it was asked, so that one run without any of them
tells who comes by which. What is kept of a unit holds for the mutants that were there, as long as its file and the mutated
one are the same. Code under `jit` is traced in Python, so it counts for the test that traced it; another test that uses what
was compiled then does not come by, and is asked later as one of the "rest" of its file.
"""

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from emergence.store.code_digest import Code
from mutants.mutant import Mutant
from mutants.results import TESTS

_FIXTURES = re.compile(r"\b(command|run|refused)\b")
#: A package whose modules are found by walking its folder; without a name, the package that walks.
_WALKED = re.compile(r"\b(?:iter_modules|walk_packages)\((?:([\w.]+)\.)?__path__")


def digest_of(content: bytes) -> str:
    """Ten hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:10]


@dataclass(frozen=True)
class Unit:
    """Who can be asked: a file of tests, or a claim, whose code is in `path`."""

    asked: str
    name: str
    path: str


@dataclass(frozen=True)
class Drawn:
    """The mutants that were there when a unit was measured: their digests, and of each of their files the version."""

    digests: list[str]
    sources: dict[str, str]

    @cached_property
    def label(self) -> str:
        """Its name in the store."""
        return digest_of(json.dumps([self.digests, self.sources]).encode())


@dataclass(frozen=True)
class Measured:
    """What one unit came by.

    Attributes:
        version: of the unit's file. drawn: the label of the mutants that were there. seconds: of processor time, in all.
        nodes: of each test that passes (of a claim, its id), seconds, and which mutants it comes by, as the bits of a number
            in hexadecimal digits. whole: whether the measurement came to its end in time. verdicts: of a claim, what its
            quantities came to.
    """

    version: str
    drawn: str
    seconds: float
    nodes: dict[str, tuple[float, str]]
    whole: bool = True
    verdicts: dict[str, Any] = field(default_factory=dict)

    def seconds_of(self, nodes: Iterable[str]) -> float:
        """Of some nodes together."""
        return sum(self.nodes[node][0] for node in nodes)


class Reach:
    """What was measured of a tree, in a folder with one file for each unit.

    `mutants`: those that are in the overlay. `copied`: the overlay, where tests and claims are as they are asked, whoever
    edits the tree meanwhile.
    """

    def __init__(self, root: Path, folder: Path, mutants: Sequence[Mutant] = (), copied: Path | None = None) -> None:
        self._root, self._folder = root, folder
        self._known: dict[Unit, Measured | None] = {}
        self._sets: dict[str, Drawn | None] = {}
        #: Digests of mutants that run when a module is imported: everybody comes by.
        self.at_import: frozenset[str] = frozenset()
        folder.mkdir(parents=True, exist_ok=True)
        self.drawn = Drawn([one.digest for one in mutants], {one.path: self.version(one.path) for one in mutants})
        self._root = copied or root
        if mutants:
            self._write(self._set(self.drawn.label), asdict(self.drawn))

    def get(self, unit: Unit, mutant: Mutant) -> Measured | None:
        """What was measured of a unit, if it still holds for the mutant."""
        found = self.known(unit)
        drawn = self._drawn(found.drawn) if found and found.version == self.version(unit.path) else None
        there = drawn is not None and mutant.digest in drawn.digests
        return found if there and drawn and drawn.sources[mutant.path] == self.version(mutant.path) else None

    def reaching(self, unit: Unit, mutant: Mutant) -> list[str]:
        """Nodes of a unit that come by, the cheapest first; all of them if the mutant runs at import."""
        found = self.get(unit, mutant)
        if found is None or (drawn := self._drawn(found.drawn)) is None:
            return []
        bit = 1 << drawn.digests.index(mutant.digest)
        everyone = mutant.digest in self.at_import
        by = [node for node, (_, bits) in found.nodes.items() if everyone or int(bits or "0", 16) & bit]
        return sorted(by, key=lambda node: found.nodes[node][0])

    def known(self, unit: Unit) -> Measured | None:
        """What was measured of a unit, of whatever version."""
        if unit not in self._known:
            path = self._path(unit)
            self._known[unit] = Measured(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        return self._known[unit]

    def keep(self, unit: Unit, rows: Sequence[dict[str, Any]], seconds: float, whole: bool) -> Measured:
        """Keep what a measurement wrote."""
        place = {digest: i for i, digest in enumerate(self.drawn.digests)}
        nodes = {
            row["node"]: (round(row["seconds"], 2), f"{sum(1 << place[x] for x in row['came'] if x in place):x}")
            for row in rows
            if row.get("outcome") == "passed" and "came" in row
        }
        verdicts: dict[str, Any] = next((row["verdicts"] for row in rows if "verdicts" in row), {})
        found = Measured(self.version(unit.path), self.drawn.label, round(seconds, 1), nodes, whole, verdicts)
        self._keep(unit, found)
        return found

    def leave_out(self, unit: Unit, nodes: Iterable[str]) -> None:
        """Tests that fail at times, in company only, or whose process ends early, whatever mutant there is."""
        if found := self.known(unit):
            left = {node: value for node, value in found.nodes.items() if node not in set(nodes)}
            self._keep(unit, Measured(**{**asdict(found), "nodes": left}))

    def version(self, path: str) -> str:
        """Of a file of the tree, read once."""
        if path not in self._versions:
            file = self._root / path
            self._versions[path] = digest_of(file.read_bytes()) if file.is_file() else ""
        return self._versions[path]

    def version_of_test(self, path: str, node: str) -> str:
        """Of a file without its other tests: adding one changes nothing for those that are there."""
        name = node.partition("::")[2].partition("[")[0].rpartition("::")[2]
        key = f"{path}::{name}"
        if key not in self._versions:
            file = self._root / path
            tree = ast.parse(file.read_bytes() if file.is_file() else b"")
            tests = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name.startswith("test_")]
            there = not name or any(isinstance(x, ast.FunctionDef) and x.name == name for x in ast.walk(tree))
            tree.body = [x for x in tree.body if x not in tests or not name or x.name == name]
            self._versions[key] = digest_of(ast.dump(tree).encode()) if there else ""
        return self._versions[key]

    # ------------------------------------------------------------------ the store

    def pack(self) -> dict[str, Any]:
        """All that holds for the tree as it is, for `unpack`."""
        units = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in self._folder.glob("*-*.json")}
        sets = {label: asdict(drawn) for x in units.values() if (drawn := self._drawn(label := x["drawn"]))}
        return {"drawn": sets, "units": dict(sorted(units.items()))}

    def unpack(self, packed: Mapping[str, Any]) -> None:
        """Take over what was kept elsewhere of units that are not known here."""
        for label, drawn in packed.get("drawn", {}).items():
            self._write(self._set(label), drawn)
        for name, found in packed.get("units", {}).items():
            if not (self._folder / name).is_file():
                self._write(self._folder / name, found)

    def _keep(self, unit: Unit, found: Measured) -> None:
        self._write(self._path(unit), asdict(found))
        self._known[unit] = found

    def _write(self, path: Path, content: Any) -> None:
        temporary = self._folder / f".{os.getpid()}"
        temporary.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        temporary.replace(path)

    def _drawn(self, label: str) -> Drawn | None:
        if label not in self._sets:
            path = self._set(label)
            self._sets[label] = Drawn(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None
        return self._sets[label]

    def _set(self, label: str) -> Path:
        return self._folder / f"{label}.json"

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

    def _rank(self, unit: Unit, mutant: Mutant) -> tuple[bool, bool, bool, bool, int]:
        """What is named after the file; what imports it itself, and of that what compiles nothing, of the same wing; then what
        imports little else.
        """
        named = Path(unit.path).stem == f"test_{Path(mutant.path).stem}"
        same = Path(unit.path).parent.name == Path(mutant.path).parent.name
        compiles = any(path.relative_to(self._root).parts[0] == "dynamics" for path in self._all(unit))
        return not named, not self.is_near(unit, mutant), compiles, not same, len(self._needed(unit.path))

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
            reached = self._code.reached(*starts)
            listed = [module for path in reached for module in self._walked(path)]
            self._reached[unit.path] = reached | self._code.reached(*listed)
        return self._reached[unit.path]

    def _walked(self, path: Path) -> Iterator[Path]:
        """Modules that one finds by walking folders, which no import names."""
        for name in _WALKED.findall(path.read_text(encoding="utf-8")):
            yield from (self._root.joinpath(*name.split(".")) if name else path.parent).rglob("*.py")
