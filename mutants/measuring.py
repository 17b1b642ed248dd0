"""What runs in a process of its own: files of tests, or claims, with or without a record of the lines that they come by."""

import builtins
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutants.mutant import CAME_BY
from mutants.project import Verdicts

if TYPE_CHECKING:
    import coverage
    import pytest

#: Path → who came by → the lines, as the bits of a number in hexadecimal digits.
Lines = dict[str, dict[str, str]]
IMPORT = ""


@contextmanager
def recorded(root: Path, packages: Iterable[str]) -> Iterator["coverage.Coverage"]:
    """Lines of the packages that run within, by context; `IMPORT` is the context until another is named."""
    import coverage

    os.environ["COVERAGE_CORE"] = "ctrace"  # the other ones tell a line once, not once to each context
    folders = [str(root / name) for name in packages if (root / name).is_dir()]
    tracer = coverage.Coverage(data_file=None, config_file=False, source=folders, messages=False)
    tracer.set_option("run:disable_warnings", ["module-not-imported", "no-data-collected", "module-not-measured"])
    tracer.start()
    try:
        yield tracer
    finally:
        tracer.stop()


def lines_of(tracer: "coverage.Coverage", root: Path) -> Lines:
    """Who came by which lines."""
    data = tracer.get_data()
    found: Lines = {}
    for path in data.measured_files():
        bits: dict[str, int] = {}
        for line, contexts in data.contexts_by_lineno(path).items():
            for context in contexts:
                bits[context] = bits.get(context, 0) | 1 << line
        found[Path(path).relative_to(root).as_posix()] = {name: f"{value:x}" for name, value in bits.items()}
    return found


class Recorder:
    """A plugin of pytest's: which tests run, in which order, and what became of each, as a line of JSON.

    `wanted`: node → its place in the order; all that is there if None, but `unfit` ones.
    """

    def __init__(
        self,
        out: Path,
        wanted: Mapping[str, int] | None,
        unfit: Collection[str] = (),
        tracer: "coverage.Coverage | None" = None,
    ) -> None:
        self._out, self._wanted, self._unfit, self._tracer = out, wanted, unfit, tracer
        self._began, self._outcome = 0.0, "passed"

    def pytest_collection_modifyitems(self, items: "list[pytest.Item]") -> None:
        items[:] = [x for x in items if x.nodeid not in self._unfit]
        if self._wanted is not None:
            wanted = self._wanted
            items[:] = sorted((x for x in items if x.nodeid in wanted), key=lambda x: wanted[x.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began, self._outcome = time.process_time(), "passed"
        if self._tracer is not None:
            self._tracer.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        if report.outcome != "passed" and self._outcome != "failed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds = time.process_time() - self._began
        wrote(self._out, node=nodeid, outcome=self._outcome, seconds=seconds, came=came_by())

    def pytest_collectreport(self, report: "pytest.CollectReport") -> None:
        if report.outcome == "failed":
            wrote(self._out, node=report.nodeid, outcome="failed", seconds=0.0)


def came_by() -> bool:
    """Whether the mutant has been evaluated in this process since this was last asked."""
    return bool(vars(builtins).pop(CAME_BY, False))


def run_tests(
    root: Path, files: Sequence[str], wanted: Mapping[str, int] | None, unfit: Collection[str], out: Path
) -> None:
    """Run the wanted tests in their order, or all, until one fails."""
    if _pytest(root, files, Recorder(out, wanted, unfit), "-x") in (0, 1, 5):  # passed, failed, nothing to run
        wrote(out, done=True)


def record_tests(root: Path, packages: Iterable[str], file: str, out: Path) -> None:
    """Run a file of tests, and write which lines each comes by."""
    with recorded(root, packages) as tracer:
        _pytest(root, [file], Recorder(out, None, tracer=tracer))
    wrote(out, lines=lines_of(tracer, root))


def _pytest(root: Path, files: Sequence[str], plugin: Recorder, *options: str) -> int:
    import pytest

    sys.path.insert(0, str(root / "tests" / "support"))
    quiet = ("-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={root}")
    return int(pytest.main([*quiet, *options, *(str(root / file) for file in files)], plugins=[plugin]))


Judge = Callable[[str, int], Verdicts]


def run_claims(judge: Judge, seed: int, before: Mapping[str, Verdicts | None], out: Path) -> None:
    """Judge claims in the order of `before`, what they said of the right formulas, until one says otherwise.

    Where None stands for it, until a quantity is not as expected.
    """
    for name, right in before.items():
        began = time.process_time()
        notice = noticed(right, said(judge, name, seed))
        wrote(out, node=name, notice=notice, seconds=time.process_time() - began, came=came_by())
        if notice:
            break
    wrote(out, done=True)


def record_claim(judge: Judge, seed: int, name: str, root: Path, packages: Iterable[str], out: Path) -> None:
    """Judge a claim, and write what it says and which lines it comes by."""
    began = time.process_time()
    with recorded(root, packages) as tracer:
        found = said(judge, name, seed)
    seconds = time.process_time() - began
    wrote(out, node=name, verdicts=found, outcome="failed" if "stops" in found else "passed", seconds=seconds)
    wrote(out, lines=lines_of(tracer, root))


def said(judge: Judge, name: str, seed: int) -> dict[str, Any]:
    """Verdicts; an error in place of them."""
    try:
        return {key: list(value) for key, value in judge(name, seed).items()}
    except Exception as stop:  # whatever a broken formula leads to
        return {"stops": [f"{type(stop).__name__}: {stop}"[:200], False]}


def noticed(before: Mapping[str, Sequence[Any]] | None, after: Mapping[str, Sequence[Any]]) -> str:
    """The first quantity that was as expected and is so no more; "" if there is none."""
    if "stops" in after:
        return f"stops: {after['stops'][0]}"
    for name, (_, expected) in (before or dict.fromkeys(after, ("", True))).items():
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
