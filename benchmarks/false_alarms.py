"""``python -m benchmarks.false_alarms``: the page on false alarms, from a file with the rows of all claims.

    emergence calibrate --seeds 20 --store alarms E26 Q8
    python -m benchmarks.false_alarms --store alarms --data docs/false_alarms.json --page docs/false_alarms.md

The claims whose verdicts the present code has left in the store, whichever call computed them, replace their rows in the
file; all others stay. Without a store the page is made from the file as it is: after a claim has changed, to mark its rows.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import alarm_rows, alarm_table
from benchmarks.alarm_rows import Row
from dynamics.core.provenance import commit
from emergence.calibration import lost, stored
from emergence.commands.calibrate import counted
from emergence.store.folder import Store, check
from validation.judge.catalogue import catalogue

_PRESET = "quick"


def main(argv: Sequence[str] | None = None) -> int:
    """Bring the file up to date with the store, and write the page. Raises `InputError` for a store that is none."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.false_alarms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", metavar="DIR", help="where emergence calibrate has kept its cells")
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="the rows of all claims (JSON)")
    parser.add_argument("--page", type=Path, required=True, metavar="FILE", help="the page on all claims")
    asked = parser.parse_args(argv)
    rows, now = alarm_rows.read(asked.data), alarm_rows.locks()
    if asked.store is not None:
        alarm_rows.write(asked.data, alarm_rows.replaced(rows, found(asked.store), now))
        rows = alarm_rows.read(asked.data)  # (with the digits that the file has)
    asked.page.write_text(alarm_table.page(rows, now), encoding="utf-8")
    return 0


def found(folder: str) -> dict[str, Row]:
    """The rows of the claims that the present code has judged under two seeds or more."""
    now = alarm_rows.locks()
    code = re.sub(r"(?<=^\w{7})\w+", "", commit()) or "unknown"
    with Store(check(folder)) as store:
        cells = {claim.id: stored(store, claim, _PRESET) for claim in catalogue()}
    return {
        name: Row(code, now[name], tuple(tallies), tuple(lost(cells[name]))) for name, tallies in counted(cells).items()
    }


if __name__ == "__main__":
    sys.exit(main())
