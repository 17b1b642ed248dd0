"""``python -m benchmarks.false_alarms``: the page on false alarms, from the verdicts that ``emergence calibrate`` has left.

    emergence calibrate --seeds 100 --store alarms
    python -m benchmarks.false_alarms --store alarms --page docs/false_alarms.md

The page is made from all cells of the store that belong to the present code, whichever call computed them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import alarm_table
from emergence.calibration import lost, stored
from emergence.commands.calibrate import counted
from emergence.store.folder import Store, check
from validation.judge.catalogue import catalogue


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.false_alarms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", required=True, metavar="DIR", help="where the cells are kept")
    parser.add_argument("--page", type=Path, required=True, metavar="FILE", help="the page on all claims")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    asked = parser.parse_args(argv)
    claims = catalogue()
    with Store(check(asked.store)) as store:
        cells = {claim.id: stored(store, claim, asked.preset) for claim in claims}
    gaps = {name: lost(seeds) for name, seeds in cells.items()}
    asked.page.write_text(alarm_table.page(claims, counted(cells), asked.preset, gaps), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
