"""Claims under many seeds, in the store of verdicts: computing what is missing, and reading what is there."""

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from emergence import console, verdict_cells
from emergence.store.engine import Engine, Here
from emergence.store.folder import DamagedError, Store, inspect, understood
from emergence.store.sweeping import Cell, Sweep

if TYPE_CHECKING:
    from validation.judge.claim import Claim, Verdict

#: So many seeds in a row that are not there end the search for those that are.
_GAP = 20


def cell(claim: "Claim", seed: int, preset: str) -> Cell:
    """The cell of a claim under one seed."""
    return Cell({"claim": claim.id, "seed": seed}, verdict_cells.configure(claim, seed, preset))


def stored(store: Store, claim: "Claim", preset: str) -> "dict[int, list[Verdict]]":
    """Seed → verdicts of the cells that the present code has made; damaged ones are named and left out."""
    found: dict[int, list[Verdict]] = {}
    seed = last = 0
    while seed <= last + _GAP:
        name = cell(claim, seed, preset).name
        if (content := store.content(name)) is not None:
            last = seed
            try:
                inspect(content, name)
                with understood():
                    measured = verdict_cells.measurements(content)
                found[seed] = [claim.judge(one) for one in measured]
            except DamagedError as damage:
                console.warn(f"{name} is damaged ({damage}): left out, run its claim again")
        seed += 1
    return found


def lost(seeds: "dict[int, list[Verdict]]") -> list[int]:
    """Seeds before the last one that have no verdict: there the claim raised an error."""
    return sorted(set(range(max(seeds, default=0))) - set(seeds))


class Collection:
    """Cells on their way into a store, module by module, seed by seed.

    Claims of a module share simulations and compiled code, so a seed is finished for all of them before the next begins.

    Attributes: `failed`, cells whose claim raised an error: said at once, tried again by the next call.

    Args:
        budget: seconds after which no seed is begun. progress: called with the fraction done and a text. say: called with a
            line for every claim and seed that is finished.
    """

    def __init__(
        self,
        store: Store,
        preset: str,
        budget: float,
        progress: Callable[[float, str], None],
        say: Callable[[str], None],
    ) -> None:
        self._store, self._preset, self._end = store, preset, time.monotonic() + budget
        self._progress, self._say = progress, say
        self._random: dict[str, bool] = {}
        self.failed: list[Cell] = []

    def run(self, claims: "Sequence[Claim]", seeds: int, engine: Engine) -> None:
        """Compute what is missing of `seeds` seeds of each claim, until the budget is spent.

        A claim that no other process can import is computed in this one.
        """
        from validation.judge.alarms import FIRST
        from validation.judge.apart import portable

        done, total = 0, len(claims) * seeds
        for name, members in itertools.groupby(sorted(claims, key=verdict_cells.group), key=verdict_cells.group):
            rest = list(members)
            for first in range(0, seeds, engine.slots):
                if first >= FIRST:
                    rest = [claim for claim in rest if self._is_random(claim)]
                batch = range(first, min(first + engine.slots, seeds))
                for claim in rest:
                    if time.monotonic() > self._end:
                        return
                    self._progress(done / total, f"{claim.id} {claim.title}")
                    self._seeds(claim, batch, engine if portable(claim) else Here())
                    done += len(batch)
            self._say(f"{name.rpartition('.')[2]}: done")

    def _is_random(self, claim: "Claim") -> bool:
        from validation.judge.alarms import FIRST, is_random

        if claim.id not in self._random:
            contents = {seed: self._store.content(cell(claim, seed, self._preset).name) for seed in range(FIRST)}
            first = {
                seed: [claim.judge(x) for x in verdict_cells.measurements(one)]
                for seed, one in contents.items()
                if one is not None
            }
            self._random[claim.id] = is_random(first)
        return self._random[claim.id]

    def _seeds(self, claim: "Claim", seeds: range, engine: Engine) -> None:
        cells = [cell(claim, seed, self._preset) for seed in seeds]
        sweep = Sweep(self._store, cells, console.warn, lambda *_: None, partial(verdict_cells.compute, claim))
        if sweep.unfinished:
            began = time.monotonic()
            self.failed += [one for one, _ in sweep.run(engine).failed]
            self._say(f"{claim.id} seed {', '.join(map(str, seeds))}: {time.monotonic() - began:.2f} s")
