"""How long the command line and the packages take to start, as ratios to importing NumPy in the same minutes."""

import sys

from benchmarks.fresh import front_door, wall
from benchmarks.row import Row
from emergence import cache

NAME = "start-up"
#: The yardstick: its time is given in seconds, the others' as ratios to it.
YARDSTICK = "import numpy"
#: Largest ratios that pass; None: only reported.
TARGETS = {
    "python -c pass": None,
    "import sympy": None,
    "emergence --help": 2.0,
    "import theory": 4.0,
    "import dynamics": 20.0,
    "emergence claims": 5.0,
    "emergence derive overlap-flow": 14.0,
    "emergence predict": 8.0,
    # As the first time: above, all but the first of the repeats are answered from what was kept.
    f"{cache.VARIABLE}={cache.OFF} emergence predict": None,
}


def command(name: str) -> list[str]:
    """What a name stands for: a command of ours, or what Python is told to do."""
    program, *rest = name.split()
    if "=" in program:
        return ["env", program, *command(" ".join(rest))]
    if program == "emergence":
        return [*front_door(), *rest]
    return [sys.executable, "-c", name.removeprefix("python -c ")]


def run(repeats: int = 5) -> list[Row]:
    """Fresh processes in turn, best of `repeats`: the yardstick in seconds, then every ratio to it."""
    times = wall({name: command(name) for name in (YARDSTICK, *TARGETS)}, repeats)
    ratios = [
        Row(NAME, f"{name} over {YARDSTICK}", times[name] / times[YARDSTICK], "", target)
        for name, target in TARGETS.items()
    ]
    return [Row(NAME, f"{YARDSTICK} (best of {repeats})", times[YARDSTICK], "s"), *ratios]
