"""Who notices a mutant: those that come by, the cheapest first, until one does."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mutants import measuring
from mutants.apart import TIME, Ended, apart
from mutants.mutant import Mutant
from mutants.project import Project
from mutants.reach import Nearness, Reach, Unit
from mutants.results import CLAIMS, TESTS, Answer, Results

REACHING, WHOLE = "reaching", "whole"
#: So many times what it takes without a mutant may a process take, and `Project.patience` more.
_SLOWER = 3
#: Processor seconds for measuring a unit.
_MEASURE = 900.0
#: A file that does not import the mutated one is asked as if it took so many times as long.
_FAR = 4

#: How a notice begins that a process left by not coming to its end.
STOPPED = "stops early: "
OUT_OF_TIME = f"{STOPPED}it takes more than three times its time"
Row = dict[str, Any]


@dataclass
class Bench:
    """Where mutants are asked about.

    Attributes:
        project: the tree. root: of the overlay, from which it is imported here. seed: of the claims. scratch: for logs.
        budget: processor seconds for the tests, and for the claims, of one mutant; a later run that has more goes on.
            Measuring a unit serves all mutants and is no part of it.
    """

    project: Project
    root: Path
    reach: Reach
    results: Results
    units: list[Unit]
    seed: int
    budget: float
    scratch: Path
    nearness: Nearness = field(init=False)
    #: Processor seconds of the last `ask`.
    used: float = field(default=0.0, init=False)
    #: Tests that pass alone, without a mutant.
    _sound: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.nearness = Nearness(self.project.root)

    # ------------------------------------------------------------------ one mutant

    def ask(self, mutant: Mutant, asked: str) -> Answer:
        """Until one notices, nobody is left, or the budget is spent; what holds of an earlier answer is not asked again."""
        before = self.results.find(mutant.digest, asked)
        paths = {(unit.asked, unit.name): unit.path for unit in self.units}
        if before is None or not holds(self.reach, mutant, before, paths):
            before = Answer(mutant.digest, asked, "", "", self.reach.version(mutant.path), {}, False)
        if before.notice or (before.finished and not self._newcomers(mutant, before)):
            return before
        if not before.finished and before.budget >= self.budget:
            return before
        self.used = 0.0
        answer = replace(self._ask(mutant, before), budget=self.budget, seconds=round(before.seconds + self.used, 1))
        self.results.add(answer)
        return answer

    def _ask(self, mutant: Mutant, before: Answer) -> Answer:
        silent = dict(before.silent)
        for unit, part, nodes in self._turns(mutant, before.asked, silent):
            if nodes and (notice := self._one(mutant, unit, nodes)):
                return replace(
                    before, notice=notice, by=unit.name, version=told(self.reach, unit, notice), finished=True
                )
            if nodes:
                silent[unit.name] = f"{self.reach.version(unit.path)} {part}"
            if self.used > self.budget:
                return replace(before, silent=silent)
        found = [self.reach.get(unit, mutant) for unit in self._candidates(mutant, before.asked)]
        return replace(before, silent=silent, finished=all(one is not None and one.whole for one in found))

    def _newcomers(self, mutant: Mutant, before: Answer) -> list[Unit]:
        """Who was not there when everybody was asked: not measured, or comes by and has not said that it saw nothing."""
        left = [unit for unit in self._candidates(mutant, before.asked) if unit.name not in before.silent]
        return [unit for unit in left if self.reach.get(unit, mutant) is None or self.reach.reaching(unit, mutant)]

    def _candidates(self, mutant: Mutant, asked: str) -> list[Unit]:
        return self.nearness.candidates((x for x in self.units if x.asked == asked), mutant)

    def _turns(self, mutant: Mutant, asked: str, silent: Mapping[str, str]) -> Iterator[tuple[Unit, str, list[str]]]:
        """Unit, how much of it, and its nodes.

        Who was measured, the cheapest first; the others, which are measured, the nearest first; then the rest of the files.
        Where importing is to come by, as with a default, those that import it for others are after all that name it.
        """
        candidates = self._candidates(mutant, asked)
        known = [unit for unit in candidates if self._is_known(unit, mutant)]
        left = [unit for unit in candidates if unit not in known]
        known.sort(key=lambda unit: self._cost(unit, mutant))
        left.sort(key=lambda unit: self.project.usual.get(unit.name, 0.0))
        for unit in sorted(known + left, key=lambda unit: self._only_imports(unit, mutant)):
            if unit in left:
                self.measure(unit)
            elif unit.name in silent:
                continue
            yield unit, REACHING, self.reach.reaching(unit, mutant)
        for unit in candidates if asked == TESTS else ():
            found, reaching = self.reach.get(unit, mutant), self.reach.reaching(unit, mutant)
            if found and reaching and not silent.get(unit.name, "").endswith(WHOLE):
                yield unit, WHOLE, [node for node in found.nodes if node not in reaching]

    def _is_known(self, unit: Unit, mutant: Mutant) -> bool:
        """Whether a unit is measured, as far as time goes."""
        found = self.reach.get(unit, mutant)
        return found is not None and (found.whole or found.seconds >= _MEASURE)

    def _only_imports(self, unit: Unit, mutant: Mutant) -> bool:
        return mutant.digest in self.reach.at_import and not self.nearness.is_near(unit, mutant)

    def _cost(self, unit: Unit, mutant: Mutant) -> float:
        """Of a measured unit, processor seconds until a notice, where the nearest are the likeliest to give one."""
        found = self.reach.get(unit, mutant)
        seconds = found.seconds_of(self.reach.reaching(unit, mutant)) if found else 0.0
        return seconds * (1 if self.nearness.is_near(unit, mutant) else _FAR)

    def _one(self, mutant: Mutant, unit: Unit, nodes: Sequence[str]) -> str:
        """What of a unit notices; "" if nothing does. It counts if it is the mutant that was noticed: see `_is_heard`."""
        left = list(nodes)
        while left:
            notice, rows = self._run(mutant.digest, unit, left)
            if not notice or self._is_heard(mutant, unit, left, notice, len(rows) > 1):
                return notice
            out = [notice] if notice in left else left
            if mutant.digest not in self.reach.at_import:  # some tests fail only where the project is imported twice
                self.reach.leave_out(unit, out)
            left = [node for node in left if node not in out]
        return ""

    def _is_heard(self, mutant: Mutant, unit: Unit, nodes: Sequence[str], notice: str, company: bool) -> bool:
        """Whether the unit says so again alone, and without the mutant does not.

        A verdict is the same whenever it is asked for.
        """
        if unit.asked == CLAIMS and not notice.startswith(STOPPED):
            return True
        alone = [notice] if notice in nodes else nodes
        if (company or notice.startswith(STOPPED)) and not self._run(mutant.digest, unit, alone)[0]:
            return False
        fresh = mutant.digest in self.reach.at_import
        if notice in self._sound and not fresh:
            return True
        sound = not self._run("", unit, alone, fresh)[0]
        self._sound |= {notice} if sound and notice in nodes and not fresh else set()
        return sound

    # ------------------------------------------------------------------ processes

    def measure(self, unit: Unit) -> None:
        """Have a unit run without a mutant, and note what it comes by."""
        before = self.used
        ended, rows = self._apart(self._job("", unit, None), _MEASURE, fresh=False)
        self.used = before
        self.reach.keep(unit, rows, ended.seconds, ended.stopped != TIME)

    def _run(self, mutant: str, unit: Unit, nodes: Sequence[str], fresh: bool = False) -> tuple[str, list[Row]]:
        """What nodes of a unit notice in a process of their own, and the rows of those that ran; `fresh` as in `_apart`."""
        known = self.reach.known(unit)
        usual = known.seconds_of(nodes) if known else 0.0
        limit = _SLOWER * usual + self.project.patience if mutant else _MEASURE
        ended, rows = self._apart(self._job(mutant, unit, nodes), limit, fresh or mutant in self.reach.at_import)
        return _notice(rows, ended, known.verdicts if known else {}), [row for row in rows if "node" in row]

    def _job(self, mutant: str, unit: Unit, nodes: Sequence[str] | None) -> Callable[[Path], None]:
        if unit.asked == TESTS:
            return partial(measuring.run_tests, self.root, unit.path, nodes, mutant)
        return partial(measuring.run_claim, self.project.judge, self.seed, unit.name, mutant)

    def _apart(self, job: Callable[[Path], None], limit: float, fresh: bool) -> tuple[Ended, list[Row]]:
        """`fresh`: with all of the project imported anew, where a mutant runs at import."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            out, log = Path(folder, "rows"), Path(folder, "log")
            anew = self.project.packages if fresh else ()
            ended = apart(lambda: job(out), self.root, anew, limit, log)
            self.used += ended.seconds
            return ended, measuring.read(out)


def _notice(rows: Sequence[Row], ended: Ended, right: Mapping[str, Sequence[Any]]) -> str:
    """The test that fails, what of a claim is not as expected any more, or how the process ended early; else ""."""
    for row in rows:
        if "verdicts" in row:
            return measuring.noticed(right, row["verdicts"])
        if row.get("outcome") == "failed":
            return str(row["node"])
    if any("done" in row for row in rows):
        return ""
    return OUT_OF_TIME if ended.stopped == TIME else f"{STOPPED}{ended.stopped or ended.said or 'it did not end'}"[:200]


def told(reach: Reach, unit: Unit, notice: str) -> str:
    """The version of who has noticed: of a test, its file without the other tests; of a claim, its file."""
    if unit.asked == TESTS and "::" in notice:
        return reach.version_of_test(unit.path, notice)
    return reach.version(unit.path)


def holds(reach: Reach, mutant: Mutant, answer: Answer, paths: Mapping[tuple[str, str], str]) -> bool:
    """Whether an answer still counts; `paths`: where each unit lies.

    A notice does while the mutated statement (it is in the digest) and the test or claim that gave it are the same; silence
    while the mutated file and the files of all that kept it are.
    """
    if answer.notice:
        path = paths.get((answer.asked, answer.by))
        return path is not None and told(reach, Unit(answer.asked, answer.by, path), answer.notice) == answer.version
    same = (
        reach.version(paths.get((answer.asked, name), "")) == version.split()[0]
        for name, version in answer.silent.items()
    )
    return answer.version == reach.version(mutant.path) and all(same)
