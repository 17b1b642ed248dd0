"""``python -m benchmarks.kill_validate``: kill a judgement again and again, and compare what remains with an undisturbed one.

    python -m benchmarks.kill_validate --kills 20 S7 S10 E4 L1

The process that judges gets SIGKILL at random moments. What it is asked for again in the end must give the same bytes as in
an undisturbed run: the document, the report, every claim's file and every cell; status 1 if it does not. The clock stands
still meanwhile (``SOURCE_DATE_EPOCH``): dates and run times are all that two undisturbed runs differ in. (Leave the code alone
meanwhile, too: files say of which commit they are, and whether it was edited.) Processes are
forked from one that has imported everything, so that a kill costs what judging costs.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

import validation.judge.runner
import validation.report.page  # noqa: F401
from dynamics.core.clock import VARIABLE
from emergence.cli import main as emergence
from emergence.commands.validate import wanted
from emergence.kept_claims import DEFAULT_STORE
from emergence.store.folder import MARKER
from emergence.verdict_cells import configure, seal_shown
from validation.judge.catalogue import catalogue
from validation.judge.claim import Outcome
from validation.judge.kept import drawn
from validation.judge.selection import select

_OUT, _SAID = "out", "document.json"


def start(claims: Sequence[str], workers: int, folder: Path) -> int:
    """The process that judges in a folder of its own."""
    folder.mkdir(exist_ok=True)
    sys.stdout.flush()
    if child := os.fork():
        return child
    os.chdir(folder)
    with open(_SAID, "wb") as said, open(os.devnull, "wb") as rest:
        os.dup2(said.fileno(), 1)
        os.dup2(rest.fileno(), 2)
    os._exit(emergence(["validate", *claims, "--out", _OUT, "--workers", str(workers), "--json", "--quiet"]))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks and what a killed process was writing."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".tmp-", ".locks"))]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def cells_in(folder: Path) -> int:
    """How many files of claims the store has."""
    return len(list(folder.glob(f"{_OUT}/{DEFAULT_STORE}/*.nc")))


def disturb(child: int, folder: Path, rng: random.Random, took: float) -> bool:
    """Kill at any moment, or (three times in four) soon after something more was kept. Whether it was still alive."""
    before, early = cells_in(folder), rng.random() < 0.25
    end = time.monotonic() + (rng.uniform(0, took) if early else 600.0)
    while cells_in(folder) == before and time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    time.sleep(0.0 if early else rng.uniform(0, took / 5))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def finish(claims: Sequence[str], workers: int, folder: Path, whole: dict[str, bytes]) -> int:
    """Resume to the end; number of files that differ from the undisturbed run's."""
    _, status = os.waitpid(start(claims, workers, folder), 0)
    final = contents(folder)
    wrong = [name for name in final.keys() | whole.keys() if final.get(name) != whole.get(name)]
    told = f"resumed: status {os.waitstatus_to_exitcode(status)}, {len(final)} files, {len(wrong)} differ"
    print(told + "".join(f"\n  {name}" for name in sorted(wrong)), flush=True)
    return len(wrong)


def run(claims: Sequence[str], workers: int, kills: int, seed: int, folder: Path) -> int:
    """Kill `kills` times, finish, compare. Prints one line per kill; returns the number of differences."""
    rng, killed, differences = random.Random(seed), folder / "killed", 0
    began = time.monotonic()
    os.waitpid(start(claims, workers, folder / "undisturbed"), 0)
    took, whole = time.monotonic() - began, contents(folder / "undisturbed")
    print(f"undisturbed: {took:.1f} s, {len(whole)} files", flush=True)
    if not any(name.endswith(MARKER) for name in whole):
        raise SystemExit("the undisturbed run has left no store")
    for number in range(1, kills + 1):
        alive = disturb(start(claims, workers, killed), killed, rng, took)
        there = contents(killed)
        wrong = [name for name, content in there.items() if name != _SAID and content != whole.get(name)]
        differences += len(wrong)
        print(f"kill {number}: {'' if alive else 'too late, '}{len(there)} files, {len(wrong)} differ", flush=True)
        if not alive:  # finished before: begin again
            shutil.rmtree(killed)
    return differences + finish(claims, workers, killed, whole)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kill_validate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("claims", nargs="+", metavar="ID", help="ids, or files with claims")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    os.environ.setdefault(VARIABLE, "0")
    files = [str(Path(one).resolve()) if one.endswith(".py") else one for one in asked.claims]
    for claim in select([one for name in files for one in wanted(name)], catalogue()).claims:
        configure(claim, 0)  # reads what every process needs
    seal_shown(drawn(Outcome([], xr.Dataset(), [("", Figure())])), {})  # and imports what writes
    with tempfile.TemporaryDirectory() as folder:
        return int(run(files, asked.workers, asked.kills, asked.seed, Path(folder)) > 0)


if __name__ == "__main__":
    sys.exit(main())
