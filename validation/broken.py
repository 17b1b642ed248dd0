"""Which claim names an entry point of theory that is wrong by five per cent: ``python -m validation.broken``.

Each entry point is broken in three ways (`validation.judge.breaks`), and the claims whose code reaches it are judged, the
cheapest first, until a verdict is not the expected one. What was judged is kept in a file, so that a killed run goes on.
"""

import argparse
import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np
import xarray as xr

from dynamics.core.storage import write_atomically
from theory import InputError
from validation.judge.breaks import BREAKS, Break, Broken
from validation.judge.catalogue import catalogue
from validation.judge.claim import SIGMAS, Claim, Verdict
from validation.judge.lock import lock
from validation.judge.remembered import simulators_remembered
from validation.judge.runner import validate
from validation.judge.under_test import Entry, TheoryUnderTest, entry_points, name_of, walked

_UNUSED, _STILL = "unused", "moves nothing"
#: Claims after which compiled programs are dropped: a process can hold only so many.
_FRESH = 40
#: Relative change that other compilations of the same formula make.
_ROUNDING = 1e-6
_NOT_NAMED = (_UNUSED, "moves ", "stops: ")


# ------------------------------------------------------------------ which claims use what


@lru_cache(maxsize=1)
def users() -> dict[Entry, tuple[str, ...]]:
    """Entry point → ids of the claims whose code reaches it, annotations apart."""
    reached = {claim.id: _reached(claim) for claim in catalogue()}
    return {entry: tuple(name for name in reached if entry in reached[name]) for entry in entry_points()}


def _reached(claim: Claim) -> set[Entry]:
    """The entry points that a claim's runner refers to, or what it calls in the modules of claims and experiments."""
    here, seen, found = {module.__name__ for module in walked()}, set(), set()
    waiting: list[Any] = [claim.runner]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        try:
            if value in entry_points():
                found.add(value)
                continue
        except TypeError:  # not hashable, so no entry point
            pass
        waiting.extend(_parts(value, here))
    return found


def _parts(value: Any, here: set[str]) -> Iterator[Any]:
    """What an object of the walked modules refers to: a function by its code, a class by its members."""
    if isinstance(value, tuple | list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, partial):
        yield from (value.func, value.args)
    elif isinstance(value, Claim) or getattr(value, "__module__", None) not in here:
        return
    elif isinstance(value, FunctionType):
        yield from (value.__defaults__ or (), tuple((value.__kwdefaults__ or {}).values()))
        yield from _named(value.__code__, value.__globals__)
    elif isinstance(value, type):
        yield from (value.__bases__, list(vars(value).values()))
    elif hasattr(value, "__wrapped__"):
        yield value.__wrapped__
    elif isinstance(value, property | classmethod | staticmethod | cached_property):
        yield next(x for x in (getattr(value, name, None) for name in ("fget", "func", "__func__")) if x)
    else:
        yield type(value)


def _named(code: CodeType, names: Mapping[str, Any]) -> Iterator[Any]:
    """The globals that a function's code names, those inside a module of theory included, and those of inner functions."""
    for name in code.co_names:
        value = names.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("theory."):
            yield from (getattr(value, inner, None) for inner in code.co_names)
        else:
            yield value
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant, names)


# ---------------------------------------------------------------------------- judging


@dataclass(frozen=True)
class Plain:
    """A claim under the right theory: seconds; quantity → predicted, estimate and tolerance; what its controls predict."""

    seconds: float
    numbers: Mapping[str, tuple[float, float, float]]
    controls: tuple[float, ...] = ()

    def moved(self, verdicts: Sequence[Verdict]) -> float:
        """The largest change of estimate − predicted, as a share of the tolerance."""
        gaps = []
        for verdict in verdicts:
            predicted, estimate, tolerance = self.numbers.get(verdict.id, (np.nan,) * 3)
            change = verdict.measurement.estimate - verdict.measurement.predicted - (estimate - predicted)
            gaps.append(abs(change) / tolerance if tolerance else float(abs(change) > 0))
        return max(gaps, default=0.0)

    def said(self, verdicts: Sequence[Verdict]) -> str:
        """What moved, in words: a difference judged; or nothing but tolerances or wrong theories; or nothing at all."""
        if not (moved := self.moved(verdicts)) < _ROUNDING:
            return f"moves {moved:.2g}"
        tolerances = [one.measurement.allowance + SIGMAS * one.measurement.stderr for one in verdicts]
        if not np.allclose(tolerances, [self.numbers[one.id][2] for one in verdicts], rtol=_ROUNDING, atol=0):
            return "moves tolerances only"
        controls = [control.predicted for one in verdicts for control in one.controls]
        same = len(controls) == len(self.controls) and np.allclose(  # (a claim may leave one out that says nothing)
            controls, self.controls, rtol=_ROUNDING, atol=0, equal_nan=True
        )
        return _STILL if same else "moves controls only"


def read_plain(folder: Path) -> dict[str, Plain]:
    """The claims of a folder that ``emergence validate`` left (quick preset, seed 0)."""
    found = {}
    for claim in catalogue():
        if (path := folder / f"{claim.id}.nc").is_file():
            with xr.open_dataset(path, engine="h5netcdf") as data:
                keys = [str(key) for key in data.quantity.values]
                tolerance = (data.allowance + 4 * data.stderr).values
                rows = zip(keys, data.predicted.values, data.estimate.values, tolerance, strict=True)
                numbers = {key: (float(x), float(y), float(z)) for key, x, y, z in rows}
                controls = tuple(float(one) for one in data.control_predicted.values)
                found[claim.id] = Plain(float(data.attrs["seconds"]), numbers, controls)
    return found


def judged(entry: Entry, how: Break, claim: str, plain: Plain | None = None) -> tuple[str, bool]:
    """What a claim says of a broken entry point (the first unexpected verdict), and whether it saw an expression of it."""
    broken = Broken(how)
    theory = TheoryUnderTest({entry: broken.entry(entry)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            verdicts = validate([claim], theory=theory).verdicts
        except Exception as stop:  # whatever a broken formula leads to
            return f"stops: {type(stop).__name__}", broken.summed
    if unexpected := [one for one in verdicts if not one.as_expected]:
        return f"{unexpected[0].id} {unexpected[0].verdict}", broken.summed
    if not broken.changed:
        return _UNUSED, broken.summed
    return plain.said(verdicts) if plain else "moves something", broken.summed


@lru_cache(maxsize=1)
def _promises() -> dict[str, str]:
    """What each claim declares and measures, as a digest."""
    return {one.id: lock(one).digest for one in catalogue()}


class Table:
    """What was judged: ``entry | break`` → claim → what it said; kept in a file.

    What a claim said is dropped once it promises something else.
    `plain`: the claims under the right theory; cheap ones come first, and one that is not there is not run.
    """

    def __init__(self, store: Path, plain: Mapping[str, Plain]) -> None:
        self.store, self.plain = store, plain
        kept = json.loads(store.read_text()) if store.is_file() else {}
        same = {name for name, digest in kept.get("claims", {}).items() if _promises().get(name) == digest}
        self.rows: dict[str, dict[str, str]] = {
            row: {claim: said for claim, said in answers.items() if claim in same}
            for row, answers in kept.get("rows", {}).items()
        }
        self.summed: set[str] = set(kept.get("summed", []))
        before = {name: seconds for name, seconds in kept.get("seconds", {}).items() if name in same}
        self.seconds: dict[str, float] = {name: one.seconds for name, one in plain.items()} | before

    def keep(self) -> None:
        """Write the file."""
        kept = {"claims": _promises(), "rows": self.rows, "summed": sorted(self.summed), "seconds": self.seconds}
        text = json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        write_atomically(self.store, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))

    def row(self, entry: Entry, how: Break) -> dict[str, str]:
        return self.rows.setdefault(f"{name_of(entry)} | {how.name}", {})

    def named(self, entry: Entry, how: Break) -> str | None:
        """What names the break, if anything does."""
        return next((text for text in self.row(entry, how).values() if not text.startswith(_NOT_NAMED)), None)

    def left(self, entry: Entry, how: Break) -> list[str]:
        """Claims to ask still, the cheapest first: none where one has named the break, or nothing has a term to drop."""
        if self.named(entry, how) or (how.number is None and name_of(entry) not in self.summed):
            return []
        asked = [claim for claim in users()[entry] if claim in self.plain and claim not in self.row(entry, how)]
        return sorted(asked, key=lambda claim: self.seconds[claim])

    def cost(self, row: tuple[Entry, Break]) -> float:
        """Seconds of the claims that a row has asked and of the one to ask next, and one more for each."""
        return sum(1 + self.seconds[claim] for claim in [*self.row(*row), self.left(*row)[0]])

    def fill(self, entries: Sequence[Entry], budget: float) -> None:
        """Judge, what has cost least with its next claim first, until the budget of seconds is spent."""
        end = time.monotonic() + budget
        for asked in count():
            if time.monotonic() >= end:
                return
            if asked % _FRESH == 0:
                jax.clear_caches()
            rows = [(entry, how) for entry in entries for how in BREAKS if self.left(entry, how)]
            if not rows:
                return
            entry, how = min(rows, key=self.cost)
            claim, began = self.left(entry, how)[0], time.monotonic()
            self.row(entry, how)[claim], summed = judged(entry, how, claim, self.plain[claim])
            self.summed |= {name_of(entry)} if summed else set()
            # A claim that had found its data made by another takes longer alone.
            self.seconds[claim] = round(max(self.seconds[claim], time.monotonic() - began), 1)
            self.keep()
            print(f"{name_of(entry)} | {how.name} | {claim}: {self.row(entry, how)[claim]}", flush=True)

    # ------------------------------------------------------------------ the page

    def cell(self, entry: Entry, how: Break) -> str:
        """A cell of the page: who names the break, or that nothing does, and why."""
        if found := self.named(entry, how):
            return found.removesuffix(" disagrees")
        row, numbers = self.row(entry, how), set(self.row(entry, BREAKS[0]).values()) - {_UNUSED}
        missing = [claim for claim in users()[entry] if claim not in row]
        if how.number is None and name_of(entry) not in self.summed and numbers:
            return "–"
        said = "; ".join(f"{claim} {text}" for claim, text in row.items() if text != _UNUSED)
        if missing:
            more = f" and {len(missing) - 1} more" * (len(missing) > 1)
            return f"not run: {missing[0]}{more}" + f"; {said}" * bool(said)
        return f"**unnamed**: {said}" if said else "breaks nothing"

    def page(self) -> str:
        """The table as Markdown, entry points by name, those that no claim's code reaches apart."""
        used = [entry for entry in entry_points() if users()[entry]]
        rows = [[self.cell(entry, how) for how in BREAKS] for entry in used]
        lines = [f"| `{name_of(entry)}` | {' | '.join(row)} |" for entry, row in zip(used, rows, strict=True)]
        rest = ", ".join(f"`{name_of(entry)}`" for entry in entry_points() if not users()[entry])
        cells = [cell for row in rows for cell in row]
        unnamed = [cell for cell in cells if cell.startswith("**")]
        counts = {
            "named": sum(not cell.startswith(("not run", "**", "–", "breaks")) for cell in cells),
            "unnamed that move a difference": sum(bool(re.search(r"moves \d", cell)) for cell in unnamed),
            "unnamed that do not": sum(not re.search(r"moves \d", cell) for cell in unnamed),
            "not run to the end": sum(cell.startswith("not run") for cell in cells),
            "that change nothing the claims use": sum(cell.startswith("breaks") for cell in cells),
        }
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        head = "| entry point | factor 1.05 | exponent × 1.05 | first term dropped |\n|---|---|---|---|"
        return PAGE.format(entries=len(used), told=told, table="\n".join([head, *lines]), rest=rest)


PAGE = """# Broken formulas

Would anybody notice if a formula were wrong? Every entry point of `theory` that claims use is broken by five per cent, the
claims whose code reaches it are judged, the cheapest first, and this table says which one was not as expected. It is made by

```
emergence validate --out DIR
python -m validation.broken --plain DIR --store docs/broken.json --table docs/broken.md
```

which can be killed and run again, and is not edited by hand: `broken.json` holds every answer, and drops those of a claim that
promises something else now ([its lock](judging.md#add-a-claim)). Preset `quick`, seed 0.

An entry point is a public function or class of `theory` that a module of the claims or of their experiments refers to
([how it is replaced](judging.md#judge-your-own-theory-by-the-built-in-claims)). It is broken in what it returns; what it calls
itself stays right, and so does every simulator. Of a class, its methods and properties err; what it is made from is right.

* **factor**: numbers, expressions, and the drift and noise of a system, times 1.05.
* **exponent**: numbers to the power 1.05 (the sign kept); in expressions and systems the first power's exponent times 1.05.
* **term**: the first summand of an expression, or of each component of a system, dropped; a dash where only numbers come back.

A cell is the quantity that disagrees (or is inconclusive, where it says so). *Unnamed* says of each claim how much the break
moves estimate − prediction, as a share of what the rule tolerates under the right theory; whether it moves tolerances or
controls (wrong theories) only; or nothing, where it decides on sizes, or errs alike on both sides. *Stops* is an error that
the break leads to, which names nothing.

## Result

{entries} entry points. Breaks: {told}.

{table}

Referred to in annotations alone, so that there is nothing to break: {rest}.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line. Raises `InputError` for an entry point that is none."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.broken", description="Which claim names a broken formula."
    )
    parser.add_argument("--plain", type=Path, required=True, metavar="DIR", help="what emergence validate left")
    parser.add_argument("--store", type=Path, required=True, metavar="FILE", help="what was judged so far (JSON)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="the page to write")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="parts of entry points' full names")
    parser.add_argument("--budget", type=float, default=np.inf, metavar="S", help="begin no claim after these seconds")
    given = parser.parse_args(arguments)
    entries = [one for one in entry_points() if not given.only or any(part in name_of(one) for part in given.only)]
    if not entries:
        raise InputError(f"--only is {' '.join(given.only)!r}: no entry point has that in its name")
    table = Table(given.store, read_plain(given.plain))
    with simulators_remembered():
        table.fill(entries, given.budget)
    if given.table:
        given.table.write_text(table.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
