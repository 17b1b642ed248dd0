"""Commands timed in fresh processes, as a user meets them."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.timing import best_of


def front_door() -> list[str]:
    """The installed ``emergence`` script beside this interpreter, or ``python -m emergence`` without one."""
    script = Path(sys.executable).with_name("emergence")
    return [str(script)] if script.exists() else [sys.executable, "-m", "emergence"]


def wall(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, float]:
    """Shortest wall time of each command, run in turn in an empty directory; a command that fails raises."""
    with tempfile.TemporaryDirectory() as empty:

        def start(command: Sequence[str]) -> None:
            subprocess.run(command, cwd=empty, check=True, capture_output=True)

        return best_of({name: partial(start, command) for name, command in commands.items()}, repeats)
