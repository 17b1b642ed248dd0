"""Hostile command lines, a small and fixed number of them: refused in one line, or good, within seconds and 2 GB."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fuzzing
import pytest
from attempts import MEMORY, SECONDS, STARTED, Attempt
from hostile_files import hostile

from emergence.models import built_in
from emergence.options import options, written

#: Inputs drawn, beside those that were found before. (`make fuzz` goes on without end.)
DRAWN = 10

REFUSED = Attempt(("predict",), 2, "", "emergence: error: no\n", 1.0, 10**8)
GOOD = replace(REFUSED, argv=("predict", "--json"), status=0, out="{}", err="emergence: 4 steps\n")


def test_every_option_of_every_command_is_attacked() -> None:
    for (command, model), entries in fuzzing.table().items():
        flags = {one.flag for one in entries}
        assert {"--json", "--quiet"} <= flags
        if command in ("predict", "simulate", "compare", "sweep"):
            assert {f"--{written(name)}" for name in options(built_in()[model].problem)} <= flags


@pytest.mark.parametrize("good", [REFUSED, GOOD, replace(GOOD, status=STARTED, out="{")])
def test_what_ends_as_it_should_is_no_fault(good: Attempt) -> None:
    assert good.fault == ""


@pytest.mark.parametrize(
    "bad",
    [
        replace(REFUSED, status=None, signal=9),
        replace(REFUSED, status=3),
        replace(REFUSED, out="half an answer"),
        replace(REFUSED, err=""),
        replace(REFUSED, err=2 * REFUSED.err),
        replace(REFUSED, err=f"Traceback\n{REFUSED.err}"),
        replace(REFUSED, err=f"emergence: error: {'x' * 5000}\n"),
        replace(REFUSED, err="emergence: error: the problem does not fit into memory: lower dim\n"),
        replace(REFUSED, left=(".tmp-x.nc",)),
        replace(REFUSED, seconds=1.01 * SECONDS),
        replace(REFUSED, memory=MEMORY + 1),
        replace(GOOD, out="{"),
        replace(GOOD, out="NaN"),
        replace(GOOD, err=REFUSED.err),
    ],
)
def test_what_ends_otherwise_is_a_fault(bad: Attempt) -> None:
    assert bad.fault


def test_an_input_is_its_seed_and_number(tmp_path: Path) -> None:
    files = hostile(tmp_path / "hostile")
    numbers = range(len(fuzzing.ONCE), len(fuzzing.ONCE) + 40)
    drawn = [fuzzing.drawn(1, number, files) for number in numbers]
    assert [fuzzing.drawn(1, number, files) for number in reversed(numbers)] == drawn[::-1]
    assert len(set(drawn)) > 35
    assert [fuzzing.drawn(2, number, files) for number in numbers] != drawn


def _fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the attempts are forks of it, and must not inherit threads."""
    tried = [sys.executable, str(Path(fuzzing.__file__)), "--seed", "1", *words]
    return subprocess.run(tried, capture_output=True, text=True, check=False, timeout=600)


def test_hostile_command_lines() -> None:
    count = len(fuzzing.ONCE) + DRAWN
    done = _fuzz("--count", str(count))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-3000:]
    assert re.search(rf"^{count} inputs .* 0 found", done.stderr), done.stderr


def test_hostile_command_lines_that_are_read_only() -> None:
    done = _fuzz("--shallow", "--first", str(len(fuzzing.ONCE)), "--count", "100")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-3000:]
    assert re.search(r"^100 inputs .* 0 found", done.stderr), done.stderr
    assert "done" not in done.stderr


@pytest.mark.slow
def test_a_fault_counts_only_if_a_process_of_its_own_repeats_it() -> None:
    """Forks of a process whose commands are broken all see a fault; a fresh process finds none."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fuzzing\n"
        "from emergence import cli\n"
        "cli._run = lambda _: 1 / 0\n"
        "for count in fuzzing.tried(1, [3], True): print(count)\n"
    )
    support = str(Path(fuzzing.__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, support], capture_output=True, text=True, check=True)
    assert "seed 1, input 3, not repeated, status 3" in done.stderr
    assert "1 seen, 0 found" in done.stdout


@pytest.mark.slow
def test_an_input_that_kills_its_process_takes_no_other_with_it(tmp_path: Path) -> None:
    """Each one that comes after the killed one is tried in the next fork."""
    (tmp_path / "fatal.py").write_text("import os\n\nos.kill(os.getpid(), 9)\n", encoding="utf-8")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from attempts import Server; from pathlib import Path\n"
        "good, bad = ['--version'], ['predict', '--model', f'{sys.argv[2]}/fatal.py']\n"
        "for one in Server(Path(sys.argv[2]), True).attempts([good, bad, ['no-command'], bad, good]):\n"
        "    print(one.status, one.signal, bool(one.out), len(one.err.splitlines()))\n"
    )
    words = (str(Path(fuzzing.__file__).parent), str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0 0 True 0", "None 9 False 0", "2 0 False 1", "None 9 False 0", "0 0 True 0"]
