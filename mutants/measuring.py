"""What runs in a process of its own: a file of tests, or a claim, with a mutant or without, and which ones it comes by."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutants.project import Verdicts

if TYPE_CHECKING:
    import pytest


class Recorder:
    """A plugin of pytest's: which tests run, in which order, and what became of each, as a line of JSON.

    `wanted`: node → its place in the order; all that is there if None.
    """

    def __init__(self, out: Path, wanted: Mapping[str, int] | None) -> None:
        self._out, self._wanted = out, wanted
        self._began, self._outcome = 0.0, "passed"

    def pytest_collection_modifyitems(self, items: "list[pytest.Item]") -> None:
        if self._wanted is not None:
            wanted = self._wanted
            items[:] = sorted((x for x in items if x.nodeid in wanted), key=lambda x: wanted[x.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began, self._outcome = _processor(), "passed"

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        if report.outcome != "passed" and self._outcome != "failed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        wrote(self._out, node=nodeid, outcome=self._outcome, seconds=_processor() - self._began, came=come_by())

    def pytest_collectreport(self, report: "pytest.CollectReport") -> None:
        if report.outcome == "failed":
            wrote(self._out, node=report.nodeid, outcome="failed", seconds=0.0)


def _processor() -> float:
    """Seconds of this process, and of those that it has started."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def come_by() -> list[str]:
    """Which mutants were come by since this was last asked."""
    import _mutant_switch

    found: list[str] = _mutant_switch.come_by()
    return found


def turn_on(mutant: str, noted: Path) -> None:
    """The mutant of this digest; "" is none."""
    import _mutant_switch

    _mutant_switch.turn_on(mutant, str(noted))


def run_tests(root: Path, file: str, wanted: Sequence[str] | None, mutant: str, out: Path) -> None:
    """Run the wanted tests of a file in their order, until one fails; without a mutant, all of them, to the end."""
    import pytest

    os.environ.pop("XLA_FLAGS", None)  # the tests have their own
    sys.path.insert(0, str(root / "tests" / "support"))
    turn_on(mutant, out.with_name("noted"))
    ranks = None if wanted is None else {node: rank for rank, node in enumerate(wanted)}
    options = ("-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={root}")
    apart = (f"--basetemp={out.with_name('tmp')}", *(["-x"] if mutant else []))
    status = pytest.main([*options, *apart, str(root / file)], plugins=[Recorder(out, ranks)])
    if status in (0, 1, 5):  # passed, failed, nothing to run
        wrote(out, done=True)


Judge = Callable[[str, int], Verdicts]


def run_claim(judge: Judge, seed: int, name: str, mutant: str, out: Path) -> None:
    """Judge a claim."""
    turn_on(mutant, out.with_name("noted"))
    began = _processor()
    found = said(judge, name, seed)
    state = "failed" if "stops" in found else "passed"
    wrote(out, node=name, verdicts=found, outcome=state, seconds=_processor() - began, came=come_by())
    wrote(out, done=True)


def said(judge: Judge, name: str, seed: int) -> dict[str, Any]:
    """Verdicts; an error in place of them."""
    try:
        return {key: list(value) for key, value in judge(name, seed).items()}
    except Exception as stop:  # whatever a broken formula leads to
        return {"stops": [f"{type(stop).__name__}: {stop}"[:200], False]}


def noticed(before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]) -> str:
    """The first quantity that was as expected and is so no more; "" if there is none."""
    if "stops" in after:
        return f"stops: {after['stops'][0]}"
    for name, (_, expected) in before.items():
        if expected and name not in after:
            return f"{name} is not judged"
        if expected and not after[name][1]:
            return f"{name} {after[name][0]}"
    return ""


def wrote(out: Path, **row: Any) -> None:
    """A line, there at once: what comes after may be killed."""
    with open(out, "a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read(out: Path) -> list[dict[str, Any]]:
    """Lines that are there and whole."""
    rows = []
    for line in out.read_text(encoding="utf-8").splitlines() if out.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
