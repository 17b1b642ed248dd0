"""Hostile command lines, a small and fixed number of them: refused in one line, or good, within seconds and 2 GB."""

import subprocess
import sys
from pathlib import Path

import fuzzing

from emergence.models import built_in
from emergence.options import options, written

#: Inputs drawn, beside those that were found before. (`make fuzz` goes on without end.)
DRAWN = 30


def test_every_option_of_every_command_is_attacked() -> None:
    for (command, model), entries in fuzzing.table().items():
        flags = {one.flag for one in entries}
        assert {"--json", "--quiet"} <= flags
        if command in ("predict", "simulate", "compare", "sweep"):
            assert {f"--{written(name)}" for name in options(built_in()[model].problem)} <= flags


def test_hostile_command_lines() -> None:
    # A process of its own: the attempts are forks of it, and must not inherit threads.
    tried = [sys.executable, str(Path(fuzzing.__file__)), "--seed", "1", "--count", str(len(fuzzing.ONCE) + DRAWN)]
    done = subprocess.run(tried, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-3000:]
    assert f"{len(fuzzing.ONCE) + DRAWN} inputs, 0 found" in done.stderr
