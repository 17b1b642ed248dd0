"""What verdicts over many seeds said of each claim, in a file beside the page: a claim run anew replaces its own rows."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dynamics.core.storage import write_atomically
from validation.judge.alarms import Share, Tally
from validation.judge.catalogue import catalogue
from validation.judge.claim import SIGMAS
from validation.judge.lock import lock
from validation.judge.selection import natural

#: Digits of a number in the file, as many as any page shows and some.
_DIGITS = 6


@dataclass(frozen=True)
class Row:
    """The verdicts on a claim over seeds.

    Attributes:
        commit: of the code that was run. lock: digest of what the claim promised then (`validation.judge.lock`).
        tallies: one per quantity, without the quantity in words. lost: seeds before the last one that have no verdict.
        whole: whether the tallies hold every control and deviation; otherwise of the controls only the weakest of each
            quantity, and of the deviations those that are far below their allowance.
    """

    commit: str
    lock: str
    tallies: tuple[Tally, ...]
    lost: tuple[int, ...] = ()
    whole: bool = True

    @property
    def seeds(self) -> int:
        return max(tally.seeds for tally in self.tallies)

    @property
    def random(self) -> bool:
        """Whether anything differs between seeds."""
        return any(tally.random for tally in self.tallies)


@lru_cache(maxsize=1)
def locks() -> dict[str, str]:
    """Claim id → digest of what it promises now."""
    return {claim.id: lock(claim).digest for claim in catalogue()}


def earlier(rows: Mapping[str, Row], now: Mapping[str, str]) -> list[str]:
    """Claims whose rows are of an earlier version: what they promise has changed since."""
    return [name for name, row in rows.items() if row.lock != now[name]]


def replaced(rows: Mapping[str, Row], new: Mapping[str, Row], now: Mapping[str, str]) -> dict[str, Row]:
    """The rows of the claims that are there `now`, with the new ones in place of old ones.

    A row stays where the new one has seen fewer seeds of the same version.
    """

    def better(name: str) -> Row:
        old, fresh = rows.get(name), new.get(name)
        if old is None or fresh is None:
            return fresh or rows[name]
        return old if old.lock == fresh.lock and old.seeds > fresh.seeds else fresh

    return {name: better(name) for name in sorted({*rows, *new} & set(now), key=natural)}


# ---------------------------------------------------------------------------------- the file


def read(path: Path) -> dict[str, Row]:
    """Claim id → its row; empty if there is no such file."""
    if not path.is_file():
        return {}
    return {name: _row(name, one) for name, one in json.loads(path.read_text(encoding="utf-8")).items()}


def write(path: Path, rows: Mapping[str, Row]) -> None:
    """A line for each quantity, so that a changed one is a changed line. Raises `InputError` if it cannot be written."""
    text = ",\n".join(f"{json.dumps(name)}: {_written(rows[name])}" for name in sorted(rows, key=natural))
    write_atomically(path, lambda name: Path(name).write_text(f"{{\n{text}\n}}\n", encoding="utf-8"))


def _written(row: Row) -> str:
    about = {"commit": row.commit, "lock": row.lock, "lost": row.lost, "whole": row.whole}
    head = ", ".join(f'"{name}": {json.dumps(value)}' for name, value in about.items())
    lines = ",\n  ".join(json.dumps(_entry(tally), ensure_ascii=False) for tally in row.tallies)
    return f'{{{head}, "quantities": [\n  {lines}\n]}}'


def _entry(tally: Tally) -> dict[str, Any]:
    """A tally; what goes without saying, and NaN, is left out."""
    entry = {
        "key": tally.id.partition(".")[2],
        "expected": tally.expected,
        "seeds": tally.seeds,
        "verdicts": dict(tally.verdicts.most_common()),
        "false": _pair(tally.false),
        "controls": {name: _pair(share) for name, share in tally.controls.items()},
        "random": tally.random,
        "freedom": _number(tally.freedom),
        "mean": _numbers(tally.mean),
        "square": _numbers(tally.square),
        "allowed": tally.allowed,
        "sigmas": tally.sigmas,
        "taken": _number(tally.taken),
    }
    unsaid = {"key": "", "expected": "agrees", "random": True, "allowed": False, "sigmas": SIGMAS}
    return {name: value for name, value in entry.items() if value is not None and value != unsaid.get(name)}


def _row(name: str, one: Mapping[str, Any]) -> Row:
    tallies = tuple(_tally(name, entry) for entry in one["quantities"])
    return Row(one["commit"], one["lock"], tallies, tuple(one["lost"]), one["whole"])


def _tally(name: str, entry: Mapping[str, Any]) -> Tally:
    none = (math.nan, math.nan)
    return Tally(
        id=f"{name}.{entry['key']}" if "key" in entry else name,
        name="",
        expected=entry.get("expected", "agrees"),
        seeds=entry["seeds"],
        verdicts=Counter(entry["verdicts"]),
        false=Share(*entry["false"]),
        controls={control: Share(*pair) for control, pair in entry["controls"].items()},
        random=entry.get("random", True),
        freedom=float(entry.get("freedom", math.nan)),
        mean=_two(entry.get("mean", none)),
        square=_two(entry.get("square", none)),
        allowed=entry.get("allowed", False),
        sigmas=entry.get("sigmas", SIGMAS),
        taken=float(entry.get("taken", math.nan)),
    )


def _pair(share: Share) -> list[int]:
    return [share.hits, share.total]


def _two(numbers: Iterable[float | str]) -> tuple[float, float]:
    value, error = map(float, numbers)
    return value, error


def _numbers(pair: Iterable[float]) -> list[float | str] | None:
    found = [number for one in pair if (number := _number(one)) is not None]
    return found or None


def _number(value: float) -> float | str | None:
    """To six digits, infinity as its name, and nothing for NaN: numbers that every reader of JSON knows."""
    if math.isnan(value):
        return None
    return str(value) if math.isinf(value) else float(f"{value:.{_DIGITS}g}")
