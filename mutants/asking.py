"""Who notices a mutant: those that come by the changed line, the cheapest first, until one does."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mutants import measuring
from mutants.apart import TIME, Ended, apart
from mutants.mutant import Mutant
from mutants.overlay import Overlay
from mutants.project import Project
from mutants.reach import Measured, Nearness, Reach, Unit
from mutants.results import CLAIMS, TESTS, Answer, Results

REACHING, REST, WHOLE = "reaching", "rest", "whole"
#: So many times what it takes without a mutant may a process take, and `Project.patience` more.
_SLOWER = 3
#: Processor seconds for measuring a unit.
_MEASURE = 900.0
#: Units that are asked in one process: imports are paid once, and a kill of the whole loses no more than these.
_TOGETHER, _UNMEASURED = 12, 1

#: How a notice begins that a process left by not coming to its end.
STOPPED = "stops early: "
OUT_OF_TIME = f"{STOPPED}it takes more than three times its time"
Row = dict[str, object]
#: A unit and its tests; all of them if None.
Asking = tuple[Unit, list[str] | None]


@dataclass
class Bench:
    """Where mutants are asked about.

    Attributes:
        project, overlay: the tree, and the copy in which it is broken. seed: of the claims. budget: processor seconds for the
            tests, and for the claims, of one mutant; what is left over is asked by a later run. scratch: for logs.
    """

    project: Project
    overlay: Overlay
    reach: Reach
    results: Results
    units: list[Unit]
    seed: int
    budget: float
    scratch: Path
    nearness: Nearness = field(init=False)
    #: Processor seconds of the last `ask`, and whether the budget ended it.
    used: float = field(default=0.0, init=False)
    spent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.nearness = Nearness(self.project.root)

    # ------------------------------------------------------------------ one mutant

    def ask(self, mutant: Mutant, asked: str) -> Iterator[Answer]:
        """Answers as they come, until one is a notice, nobody is left, or the budget is spent."""
        self.used, self.spent = 0.0, False
        for answer in self._asked(mutant, asked):
            if answer.name:
                self.results.add(answer)
                yield answer
            self.spent = self.used > self.budget
            if answer.notice or self.spent:
                return

    def _asked(self, mutant: Mutant, asked: str) -> Iterator[Answer]:
        """Answers, and the cost of measuring as answers of nobody.

        Who was measured comes first; then files that import the mutated one themselves, whole; the others are measured before.
        """
        unfit = self.reach.unfit()
        fit = (x for x in self.units if x.asked == asked and x.name not in unfit)
        candidates = self.nearness.candidates(fit, mutant)
        known = (self._known(mutant, unit, part) for unit in candidates for part in (WHOLE, REACHING, REST))
        if noticed := next((answer for answer in known if answer is not None and answer.notice), None):
            yield noticed
            return
        unknown = [unit for unit in candidates if self.reach.get(unit, mutant) is None]
        yield from self._parts(mutant, [unit for unit in candidates if unit not in unknown], REACHING)
        near = [unit for unit in unknown if self.nearness.is_near(unit, mutant)]
        for start in range(0, len(near), _UNMEASURED):
            yield from self._asked_whole(mutant, near[start : start + _UNMEASURED])
        for unit in unknown:
            if self._known(mutant, unit, WHOLE) is None and self.reach.get(unit, mutant) is None:
                yield self._nobody(mutant, self.measure(unit))
                yield from self._parts(mutant, [unit], REACHING)
        if asked == TESTS:
            yield from self._parts(mutant, candidates, REST)

    def _asked_whole(self, mutant: Mutant, units: Sequence[Unit]) -> Iterator[Answer]:
        """Units that were not measured, with all their tests; those in which time ran out are left to be measured."""
        left = [unit for unit in units if self._known(mutant, unit, WHOLE) is None]
        if left:
            yield from self._together(mutant, [(unit, None) for unit in left], WHOLE)

    def _parts(self, mutant: Mutant, units: Sequence[Unit], part: str) -> Iterator[Answer]:
        """Answers of measured units that come by, the cheapest first, those that were given before left out."""
        left: list[tuple[float, Asking]] = []
        for unit in units:
            found = self.reach.get(unit, mutant)
            nodes = [] if found is None else _nodes(found, mutant, part)
            asked = any(self._known(mutant, unit, one) is not None for one in (WHOLE, part))
            if found is not None and nodes and not asked:
                left.append((sum(found.nodes[node] for node in nodes), (unit, nodes)))
        order = [asking for _, asking in sorted(left, key=lambda pair: pair[0])]
        for start in range(0, len(order), _TOGETHER):
            yield from self._together(mutant, order[start : start + _TOGETHER], part)

    def _together(self, mutant: Mutant, asking: Sequence[Asking], part: str) -> Iterator[Answer]:
        """Some units in one process."""
        with self.overlay.changed(mutant):
            ended, rows = self._apart(self._job(asking), self._limit(asking))
        share = ended.seconds / len(asking)
        last = max((i for i, (unit, _) in enumerate(asking) if _own(unit, rows)), default=-1)
        broken = {str(row.get("node")) for row in rows if row.get("outcome")} & {unit.name for unit, _ in asking}
        for i, one in enumerate(asking):
            unit, notice = one[0], _notice(one[0], rows, ended, i < last)
            if broken and unit.name not in broken:  # a file that cannot be read ends the run before any test
                continue
            if notice == OUT_OF_TIME and part == WHOLE:  # how much it takes is not known
                yield self._nobody(mutant, share)
                continue
            if notice.startswith(STOPPED) and len(asking) > 1:  # whose doing it was is known if each is asked by itself
                for left in asking[i:]:
                    yield from self._together(mutant, [left], part)
                return
            if notice.startswith(
                STOPPED
            ):  # what was compiled meanwhile need not be again, and the machine may be calmer
                notice, rows = self._alone(mutant, one)
            if notice and not self._is_heard(mutant, one, notice):
                yield from self._again(mutant, [unit for unit, _ in asking], part)
                return
            came = bool(notice) or any(row["came"] for row in _own(unit, rows))
            yield Answer(mutant.digest, self.version(mutant, unit), unit.asked, unit.name, part, notice, share, came)
            if notice:
                return

    def _again(self, mutant: Mutant, units: Sequence[Unit], part: str) -> Iterator[Answer]:
        """Without what said so anyway; not at all a claim that cannot be judged."""
        unfit = self.reach.unfit()
        known = ((unit, self.reach.known(unit)) for unit in units if unit.name not in unfit)
        fit = [unit for unit, found in known if found is None or found.nodes]
        yield from self._asked_whole(mutant, fit) if part == WHOLE else self._parts(mutant, fit, part)

    def _is_heard(self, mutant: Mutant, one: Asking, notice: str) -> bool:
        """Whether it is the mutant that was noticed: alone the unit says so again, and without the mutant it does not.

        What says so at times only, in company only, or anyway is not asked any more.
        """
        unit = one[0]
        if unit.asked == CLAIMS and not notice.startswith(STOPPED):
            return self._differs(unit, notice)
        alone = (unit, [notice]) if "::" in notice else one
        anyway = self._alone(None, alone)[0] if self._alone(mutant, alone)[0] else notice
        if anyway:
            self.reach.leave_out(anyway if "::" in anyway else unit.name, unit.path)
        return not anyway

    def _differs(self, unit: Unit, notice: str) -> bool:
        """Whether a claim says something else without the mutant; it is measured if need be."""
        found = self.reach.known(unit)
        if found is None or found.version != self.reach.version(unit.path):
            self.measure(unit)
            found = self.reach.known(unit)
        return found is not None and bool(found.nodes) and measuring.noticed(None, found.verdicts) != notice

    def _alone(self, mutant: Mutant | None, one: Asking) -> tuple[str, list[Row]]:
        """What a unit notices in a process of its own, and its rows; without a mutant it may take its time."""
        with self.overlay.changed(mutant) if mutant else nullcontext():
            ended, rows = self._apart(self._job([one]), self._limit([one]) if mutant else _MEASURE)
        return _notice(one[0], rows, ended, False), rows

    def _known(self, mutant: Mutant, unit: Unit, part: str) -> Answer | None:
        return self.results.find(mutant.digest, self.version(mutant, unit), unit.asked, unit.name, part)

    def _nobody(self, mutant: Mutant, seconds: float) -> Answer:
        return Answer(mutant.digest, "", "", "", "", "", seconds)

    def version(self, mutant: Mutant, unit: Unit) -> str:
        """Of the mutated file and of who is asked."""
        return f"{self.reach.version(mutant.path)} {self.reach.version(unit.path)}"

    # ------------------------------------------------------------------ processes

    def measure(self, unit: Unit) -> float:
        """Have a unit run without a mutant, and note what it comes by; the processor seconds that it takes."""
        root, packages = self.overlay.root, self.project.packages
        if unit.asked == TESTS:
            job: Job = partial(measuring.record_tests, root, packages, unit.path)
        else:
            job = _Claim(self.project.judge, self.seed, unit.name, root, packages)
        ended, rows = self._apart(job, _MEASURE)
        self.reach.keep(unit, rows, ended.seconds)
        return ended.seconds

    def _job(self, asking: Sequence[Asking]) -> "Job":
        if asking[0][0].asked == TESTS:
            wanted = [node for _, nodes in asking for node in nodes or ()]
            ranks = {node: rank for rank, node in enumerate(wanted)} or None
            files = [unit.path for unit, _ in asking]
            return partial(measuring.run_tests, self.overlay.root, files, ranks, self.reach.unfit())
        known = {unit.name: self.reach.known(unit) for unit, nodes in asking}
        before = {name: None if found is None else found.verdicts for name, found in known.items()}
        return partial(measuring.run_claims, self.project.judge, self.seed, before)

    def _limit(self, asking: Sequence[Asking]) -> float:
        """Processor seconds that are enough."""
        usual = [self.reach.known(unit) for unit, _ in asking]
        known = [
            sum(x.nodes.get(node, self.project.patience) for node in nodes or x.nodes)
            for x, (_, nodes) in zip(usual, asking, strict=True)
            if x
        ]
        return _SLOWER * sum(known) + self.project.patience * (1 + 2 * (len(asking) - len(known)))

    def _apart(self, job: "Job", limit: float) -> tuple[Ended, list[Row]]:
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            out, log = Path(folder, "rows"), Path(folder, "log")
            ended = apart(lambda: job(out), self.overlay.root, self.project.packages, limit, log)
            self.used += ended.seconds
            return ended, measuring.read(out)


Job = Callable[[Path], None]


@dataclass(frozen=True)
class _Claim:
    """Record one claim."""

    judge: measuring.Judge
    seed: int
    name: str
    root: Path
    packages: tuple[str, ...]

    def __call__(self, out: Path) -> None:
        measuring.record_claim(self.judge, self.seed, self.name, self.root, self.packages, out)


def _nodes(found: Measured, mutant: Mutant, part: str) -> list[str]:
    """Those of a unit that come by; or the others of a unit of which one does."""
    reaching = found.reaching(mutant)
    if part == REACHING or not reaching:
        return reaching
    return sorted(found.nodes.keys() - set(reaching))


def _notice(unit: Unit, rows: Sequence[Row], ended: Ended, finished: bool) -> str:
    """What of a unit noticed; "" if nothing did. A process that did not end by itself was ended by who was not finished."""
    own = _own(unit, rows)
    found = next((_said(row) for row in own if _said(row)), "")
    if found or finished or any("done" in row for row in rows) or (unit.asked == CLAIMS and own):
        return found
    return OUT_OF_TIME if ended.stopped == TIME else f"{STOPPED}{ended.stopped or ended.said or 'it did not end'}"[:200]


def _own(unit: Unit, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if str(row.get("node", "")).partition("::")[0] == unit.name]


def _said(row: Row) -> str:
    return str(row["node"]) if row.get("outcome") == "failed" else str(row.get("notice", ""))
