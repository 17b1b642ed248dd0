"""What the claims of the catalogue measured when they were judged last, kept as text: no build of the site runs a claim.

    emergence validate --out DIR
    python docs/site/verdicts.py DIR/verdicts

writes ``docs/verdicts.json`` from the store of `emergence validate` (or `calibrate`): what the present code has measured there
replaces what was known of a claim, so that one claim can be judged anew alone; claims that are gone are dropped.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynamics.core.clock import now
from dynamics.core.provenance import commit
from dynamics.core.storage import write_atomically
from emergence import verdict_cells
from emergence.calibration import stored
from emergence.store.folder import Store, is_store
from validation.judge.catalogue import catalogue
from validation.judge.claim import SIGMAS, Claim, Measurement, Verdict
from validation.judge.selection import natural

FILE = Path(__file__).resolve().parents[1] / "verdicts.json"
#: Of all runs those that everybody can repeat in minutes.
PRESET, SEED = "quick", 0
_UNSAID: dict[str, Any] = {"details": {}, "key": "", "sigmas": SIGMAS, "seen": None}


@dataclass(frozen=True)
class Judged:
    """The verdicts on a claim, and of which commit, on which day."""

    verdicts: tuple[Verdict, ...]
    commit: str
    date: str

    @property
    def weakest(self) -> float:
        """The largest of the smallest errors that its quantities would have noticed; inf only where all predict 0."""
        errors = [verdict.measurement.smallest_error for verdict in self.verdicts]
        return max((error for error in errors if error < float("inf")), default=float("inf"))


def read(claims: Sequence[Claim], file: Path = FILE) -> dict[str, Judged]:
    """Claim id → its verdicts, of the claims that the file knows.

    Raises `InputError` where a claim has changed so that what it measured then cannot be judged by it now.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    found = {}
    for claim in claims:
        if (one := content.get(claim.id)) is not None:
            verdicts = tuple(claim.judge(verdict_cells.of_json(x)) for x in one["measurements"])
            found[claim.id] = Judged(verdicts, one["commit"], one["date"])
    return found


def update(store: Store, claims: Sequence[Claim], file: Path = FILE) -> list[str]:
    """Write what the store has of each claim, and what the file had of the others. Returns the claims known by neither."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    about = {"commit": commit(), "date": now().date().isoformat()}
    for claim in claims:
        if judged := stored(store, claim, PRESET).get(SEED):
            known[claim.id] = {**about, "measurements": [_kept(one.measurement) for one in judged]}
    ids = sorted((claim.id for claim in claims if claim.id in known), key=natural)
    text = ",\n".join(f"{json.dumps(name)}: {_written(known[name])}" for name in ids)
    write_atomically(file, lambda name: Path(name).write_text(f"{{\n{text}\n}}\n", encoding="utf-8"))
    return [claim.id for claim in claims if claim.id not in known]


def _kept(x: Measurement) -> dict[str, Any]:
    """What the verdict on a measurement rests on; nothing that goes without saying."""
    found = json.loads(verdict_cells.as_json(replace(x, details={})))
    for numbers in found["controls"].values():
        while numbers[-1] is None:
            del numbers[-1]
    return {name: one for name, one in found.items() if one != _UNSAID.get(name)}


def _written(entry: dict[str, Any]) -> str:
    """A line for each quantity, so that a changed one is a changed line."""
    rows = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in entry["measurements"])
    about = ", ".join(f'"{name}": {json.dumps(entry[name])}' for name in ("commit", "date"))
    return f'{{{about}, "measurements": [\n  {rows}\n]}}'


def main(arguments: Sequence[str]) -> int:
    """Bring the file up to date; 1 if a claim is known neither to the store nor to the file, 2 without a store."""
    if len(arguments) != 1 or not is_store(Path(arguments[0])):
        print(
            "usage: verdicts.py STORE, that of `emergence validate`: verdicts in its folder of --out", file=sys.stderr
        )
        return 2
    with Store(Path(arguments[0])) as store:
        lacking = update(store, catalogue())
    print(f"{FILE.name} lacks {', '.join(lacking)}" if lacking else f"{FILE.name} knows every claim")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
