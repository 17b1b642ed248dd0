"""Outcomes of claims in a store: finished claims are found again, whatever has become of the run that judged them."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import console, verdict_cells
from emergence.calibration import stored
from emergence.reading import read
from emergence.store.folder import DamagedError, Store, digest, inspect, understood
from emergence.store.folder import cell_name as named
from emergence.verdict_cells import SHOWN

if TYPE_CHECKING:
    from validation.judge.claim import Claim
    from validation.judge.context import Context
    from validation.judge.kept import Last, Measured

#: The store of verdicts in the folder of ``--out``.
DEFAULT_STORE = "verdicts"
_TIMING = "timing"


class KeptClaims:
    """Claims of an open store, as `validation.judge.kept.Kept` describes.

    `fresh`: nothing is found, so that all is judged again. A cell that is damaged is set aside and counts as missing.
    """

    def __init__(self, store: Store, fresh: bool = False) -> None:
        self._store, self._fresh = store, fresh
        self._last = _last(store.folder)
        self._told: set[str] = set()
        #: Cells that were written by this run: they are not judged again.
        self._new: set[str] = set()

    def find(self, claim: "Claim", context: "Context") -> "Measured | None":
        """The outcome of the claim, if it was finished before by the same code under the same seed and preset."""
        if not verdict_cells.files_of(claim):
            return None
        configuration = verdict_cells.configure(claim, context.seed, context.preset)
        if self._fresh and named(configuration) not in self._new:
            return None
        return self._found(claim, configuration, True)

    def keep(self, measured: "Measured", context: "Context") -> "Measured":
        """Keep an outcome, what is shown first: the cell of what was measured says that both are there.

        An outcome is not kept, and that is said, if it could be that of another version of the claim.
        """
        claim = measured.claim
        if not verdict_cells.files_of(claim):
            return measured
        configuration = verdict_cells.configure(claim, context.seed, context.preset)
        if not verdict_cells.unchanged(claim):
            self._say("code has changed since this run began: what it judges is not kept")
            return measured
        cells = {
            named({**configuration, "what": SHOWN}): verdict_cells.seal_shown(measured.outcome, configuration),
            _timing(configuration): self._about(measured, context),
            named(configuration): verdict_cells.seal(measured.outcome, configuration),
        }
        for name, content in cells.items():
            with self._store.locks.held(name):
                self._store.write(name, content)
        self._new.add(named(configuration))
        found = self._found(claim, configuration, False)
        return measured if found is None else found

    def last(self, claim: "Claim", preset: str) -> "Last | None":
        """How the claim ended the last time it was kept, under whatever code."""
        from validation.judge.kept import Last

        found = self._last.get((claim.id, verdict_cells.group(claim), preset))
        return None if found is None else Last(found["seconds"], found["as_expected"])

    def facts(self, claim: "Claim", preset: str) -> dict[str, str]:
        """What its verdicts under many seeds say of it, where `emergence calibrate` has left enough of them."""
        from validation.judge.alarms import tallies
        from validation.report.alarms import sentence

        seeds = stored(self._store, claim, preset) if verdict_cells.files_of(claim) else {}
        said = sentence(tallies(seeds))
        return {"Over seeds": said} if said else {}

    def _found(self, claim: "Claim", configuration: dict[str, Any], found: bool) -> "Measured | None":
        from validation.judge.kept import Measured

        names = named(configuration), named({**configuration, "what": SHOWN})
        measured, shown = (self._content(name) for name in names)
        if measured is None or shown is None:
            return None
        try:
            with understood():
                outcome = verdict_cells.outcome(measured, shown)
        except DamagedError as damage:
            for name in names:
                self._set_aside(name, damage)
            return None
        about = _read(self._store.folder / _timing(configuration))
        return Measured(claim, outcome, about.get("seconds", math.nan), found)

    def _content(self, name: str) -> bytes | None:
        """A cell, every byte checked; None if it is not there, or damaged."""
        content = self._store.content(name)
        try:
            if content is not None:
                inspect(content, name)
        except DamagedError as damage:
            self._set_aside(name, damage)
            return None
        return content

    def _set_aside(self, name: str, damage: DamagedError) -> None:
        with self._store.locks.held(name):
            aside = self._store.set_aside(name)
        self._say(f"{name} is damaged ({damage}): kept as {aside}, its claim is judged again")

    def _about(self, measured: "Measured", context: "Context") -> bytes:
        claim = measured.claim
        verdicts = [claim.judge(one) for one in measured.outcome.measurements]
        content = {
            "claim": claim.id,
            "module": verdict_cells.group(claim),
            "preset": context.preset,
            "seconds": measured.seconds,
            "as_expected": all(verdict.as_expected for verdict in verdicts),
        }
        return json.dumps(content, sort_keys=True).encode()

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            console.warn(text)


def _timing(configuration: dict[str, Any]) -> str:
    return f"{_TIMING}-{digest(configuration)}.json"


def _last(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What was said last of each claim: (id, module, preset) → its run time and whether all was as expected."""
    paths = sorted(folder.glob(f"{_TIMING}-*.json"), key=lambda path: path.stat().st_mtime_ns)
    return {(one["claim"], one["module"], one["preset"]): one for one in map(_read, paths) if one}


def _read(path: Path) -> dict[str, Any]:
    """What is said of a cell beside it; empty if that is not there, or cannot be understood."""
    try:
        one = json.loads(read(path))
        texts = {name: str(one[name]) for name in ("claim", "module", "preset")}
        return {**texts, "seconds": float(one["seconds"]), "as_expected": one["as_expected"] is True}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
