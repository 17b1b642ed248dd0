"""How long the command line and the theory package take to start."""

import sys

from benchmarks.fresh import front_door, wall
from benchmarks.row import Row

NAME = "start-up"
TARGETS = {"emergence --help": 0.5}


def run(repeats: int = 5) -> list[Row]:
    """Wall times in fresh processes, best of `repeats`; the interpreter's own start is shown beside them."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import theory": [sys.executable, "-c", "import theory"],
        "emergence --help": [*front_door(), "--help"],
        "emergence predict": [*front_door(), "predict"],
    }
    times = wall(commands, repeats)
    return [Row(NAME, f"{name} (best of {repeats})", times[name], "s", TARGETS.get(name)) for name in commands]
