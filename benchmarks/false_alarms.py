"""``python -m benchmarks.false_alarms``: does the toolkit cry wolf? Every claim over many seeds, and a table of it.

    python -m benchmarks.false_alarms --seeds 100 --store alarms --table docs/false_alarms.md
    python -m benchmarks.false_alarms --seeds 20 --store alarms --claims L23 L24 --budget 600

A cell of the store is a claim under one seed. Kill it whenever you like and run it again: it goes on with what is missing,
or was made before a change of code that the claim can reach. Claims that give the same numbers under the first two seeds
have nothing random in them and get no more. The table is made from all cells of the store that belong to the present code,
whichever call computed them; without ``--table`` that of the claims asked for is printed. ``--seeds 0`` computes nothing.
Status 1 if a claim cried wolf more often than it may, a control survived too often, or a claim raised an error.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import alarm_table
from benchmarks.alarm_statistics import Tally, tallies
from emergence import verdict_cells
from emergence.store.engine import Engine, Workers
from emergence.store.folder import DamagedError, Store, check, inspect
from emergence.store.sweeping import Cell, Sweep
from emergence.verdict_cells import Judged
from validation.judge.claim import Claim
from validation.judge.runner import select_claims

#: So many seeds tell whether anything in a claim is random.
_FIRST = 2


def cell(claim: Claim, seed: int, preset: str) -> Cell:
    return Cell({"claim": claim.id, "seed": seed}, verdict_cells.configure(claim, seed, preset))


def stored(store: Store, preset: str) -> dict[str, dict[int, list[Judged]]]:
    """Claim id → seed → quantities: every cell that is there and was made by the present claims; damaged ones are named."""
    known = {claim.id: claim for claim in select_claims(None)}
    found: dict[str, dict[int, list[Judged]]] = {name: {} for name in known}
    for path in store.folder.glob(f"{verdict_cells.WHAT}-*.nc"):
        content = path.read_bytes()
        try:
            made = inspect(content, path.name).configuration
        except DamagedError as damage:
            _say(f"{path.name} is damaged ({damage}): left out, run its claim again")
            continue
        claim, seed = known.get(made["claim"]), made["seed"]
        if claim is not None and made == verdict_cells.configure(claim, seed, preset):
            found[claim.id][seed] = verdict_cells.read(content)
    return found


def is_random(cells: dict[int, list[Judged]]) -> bool:
    """Whether the seeds that are there gave different numbers; True as long as fewer than two are."""
    numbers = {repr([one.numbers for one in quantities]) for quantities in cells.values()}
    return len(cells) < _FIRST or len(numbers) > 1


def lost(cells: dict[int, list[Judged]]) -> list[int]:
    """Seeds before the last one that have no verdict: there the claim raised an error."""
    return sorted(set(range(max(cells, default=0))) - set(cells))


class Collection:
    """Cells on their way into a store, module by module, seed by seed.

    Claims of a module share simulations and compiled code, so a seed is finished for all of them before the next begins.
    """

    def __init__(self, store: Store, preset: str, budget: float) -> None:
        self._store, self._preset, self._end = store, preset, time.monotonic() + budget
        self._random: dict[str, bool] = {}
        #: Cells whose claim raised an error; said at once, tried again by the next call.
        self.failed: list[Cell] = []

    def run(self, claims: Sequence[Claim], seeds: int, engine: Engine) -> None:
        """Compute what is missing of `seeds` seeds of each claim, until the budget is spent."""
        for name, members in itertools.groupby(sorted(claims, key=verdict_cells.group), key=verdict_cells.group):
            rest = list(members)
            for first in range(0, seeds, engine.slots):
                if first >= _FIRST:
                    rest = [claim for claim in rest if self._is_random(claim)]
                batch = range(first, min(first + engine.slots, seeds))
                for claim in rest:
                    if time.monotonic() > self._end:
                        return
                    self._seeds(claim, batch, engine)
            _say(f"{name.rpartition('.')[2]}: done")

    def _is_random(self, claim: Claim) -> bool:
        if claim.id not in self._random:
            names = [cell(claim, seed, self._preset).name for seed in range(_FIRST)]
            contents = [self._store.content(name) for name in names]
            first = {seed: verdict_cells.read(one) for seed, one in enumerate(contents) if one is not None}
            self._random[claim.id] = is_random(first)
        return self._random[claim.id]

    def _seeds(self, claim: Claim, seeds: range, engine: Engine) -> None:
        cells = [cell(claim, seed, self._preset) for seed in seeds]
        sweep = Sweep(self._store, cells, _say, lambda *_: None, verdict_cells.compute)
        if sweep.unfinished:
            began = time.monotonic()
            self.failed += [one for one, _ in sweep.run(engine).failed]
            _say(f"{claim.id} seed {', '.join(map(str, seeds))}: {time.monotonic() - began:.2f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def judged(cells: dict[str, dict[int, list[Judged]]], claims: Sequence[Claim]) -> dict[str, list[Tally]]:
    """Claim id → its tallies, for claims with two cells or more."""
    return {
        claim.id: tallies("open" if claim.kind == "open" else claim.expected, cells[claim.id])
        for claim in claims
        if len(cells[claim.id]) >= _FIRST
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.false_alarms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--claims", nargs="+", metavar="ID", help="claims to run (default: all)")
    parser.add_argument("--seeds", type=int, default=100, help="seeds 0 … N−1 (default: 100)")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    parser.add_argument("--store", default="emergence-out/false-alarms", metavar="DIR", help="where cells are kept")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes (default: 1)")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="S", help="begin no seed after S seconds")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the page on all claims there")
    asked = parser.parse_args(argv)
    with Store(check(asked.store)) as store:
        store.sweep_up()
        collection = Collection(store, asked.preset, asked.budget)
        if asked.seeds:
            with Workers(asked.workers) as engine:
                collection.run(select_claims(asked.claims), asked.seeds, engine)
        claims = select_claims(None if asked.table else asked.claims)
        cells = stored(store, asked.preset)
        found, gaps = judged(cells, claims), {claim.id: lost(cells[claim.id]) for claim in claims}
    if asked.table is None:
        print(alarm_table.table([row for rows in found.values() for row in rows]))
    else:
        asked.table.write_text(alarm_table.page(claims, found, asked.preset, gaps), encoding="utf-8")
    defects = any(tally.too_many or tally.weak_controls for rows in found.values() for tally in rows)
    return int(defects or bool(collection.failed) or any(gaps.values()))


if __name__ == "__main__":
    sys.exit(main())
