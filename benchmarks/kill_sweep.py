"""``python -m benchmarks.kill_sweep``: kill a sweep again and again, and compare what remains with an undisturbed one.

The sweep's process gets SIGKILL at random moments: during its start, while cells are computed, while they are written.
At the end the resumed store must equal the undisturbed one, byte for byte; status 1 if it does not.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SMALL = (
    "--activation",
    "h3",
    "--dim",
    "64",
    "--teacher-width",
    "2",
    "--student-width",
    "4",
    "--step-size",
    "1e-6",
    "--allow-unstable",
    "--quiet",
)
WHAT = {
    "predict": (),
    "gradient-flow": ("--time", "20"),
    "online-sgd": ("--replicas", "4", "--steps", "2000"),
}
#: The command that is killed; ``--program`` puts a script in its place.
PROGRAM = ["-m", "emergence"]
#: After the first new cell a sweep lives for up to so many seconds more.
_SPAN = 0.5


def start(what: str, cells: int, workers: int, store: Path) -> "subprocess.Popen[bytes]":
    over = ("--over", f"seed=0:{cells}", "--workers", str(workers), "--store", str(store))
    command = [sys.executable, *PROGRAM, "sweep", what, *SMALL, *WHAT[what], *over]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def cells_in(store: Path) -> int:
    return len(list(store.glob("*.nc")))


def contents(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


def disturb(sweep: "subprocess.Popen[bytes]", store: Path, rng: random.Random, early: float) -> bool:
    """Kill the sweep at a random moment: with probability ¼ during its start. Returns whether it was still alive."""
    before, patience = cells_in(store), rng.uniform(0, early) if rng.random() < 0.25 else 600.0
    end = time.monotonic() + patience
    while sweep.poll() is None and cells_in(store) == before and time.monotonic() < end:
        time.sleep(0.002)
    if cells_in(store) > before:
        time.sleep(rng.uniform(0, _SPAN))
    killed = sweep.poll() is None
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    return killed


def orphans(group: int, patience: float = 30.0) -> bool:
    """Whether any process of a killed sweep is still there after a while."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True


def run(what: str, cells: int, workers: int, kills: int, seed: int, folder: Path) -> int:
    """Kill `kills` times, finish, compare. Prints one line per kill; returns the number of differences."""
    rng = random.Random(seed)
    began = time.monotonic()
    if start(what, cells, 1, folder / "undisturbed").wait() != 0:
        raise RuntimeError("the undisturbed sweep failed")
    whole = contents(folder / "undisturbed")
    print(f"undisturbed: {cells} cells, one worker, {time.monotonic() - began:.1f} s", flush=True)
    store, done, leftovers, left_alive, differences = folder / "killed", 0, 0, 0, 0
    while done < kills:
        sweep = start(what, cells, workers, store)
        killed = disturb(sweep, store, rng, early=5.0)
        left_alive += orphans(sweep.pid)
        if killed:
            done += 1
            present = contents(store) if store.exists() else {}
            leftovers += sum(name.startswith(".tmp-") for name in present)
            wrong = [name for name, content in present.items() if name in whole and whole[name] != content]
            differences += len(wrong)
            print(f"kill {done}: {cells_in(store)} of {cells} cells, {len(wrong)} differ", flush=True)
        if cells_in(store) == cells:  # finished before the kills were: compare, and begin again
            differences += finish(what, cells, workers, store, whole)
            shutil.rmtree(store)
    differences += finish(what, cells, workers, store, whole)
    print(
        f"{kills} kills, {leftovers} temporary files left behind, {left_alive} sweeps with orphans, "
        f"{differences} differences from the undisturbed store"
    )
    return differences + left_alive


def finish(what: str, cells: int, workers: int, store: Path, whole: dict[str, bytes]) -> int:
    """Resume to the end; number of files that differ from the undisturbed store."""
    code = start(what, cells, workers, store).wait()
    final = contents(store)
    wrong = sum(final.get(name) != whole.get(name) for name in final.keys() | whole.keys())
    print(f"resumed: status {code}, {len(final)} files, {wrong} differ from the undisturbed store", flush=True)
    return wrong + (code != 0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_sweep", description=__doc__)
    parser.add_argument("--what", choices=sorted(WHAT), default="online-sgd")
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", metavar="FILE", help="a script in place of emergence, such as tests/toy_sweep.py")
    found = parser.parse_args(argv)
    if found.program:
        PROGRAM[:] = [found.program]
    with tempfile.TemporaryDirectory() as folder:
        return int(run(found.what, found.cells, found.workers, found.kills, found.seed, Path(folder)) > 0)


if __name__ == "__main__":
    sys.exit(main())
