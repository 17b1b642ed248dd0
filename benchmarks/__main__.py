"""``python -m benchmarks [NAME …] [--json FILE]``: measure, print a table, say what misses its target."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    declared,
    derivation,
    finite_step,
    gradient_flow,
    label_noise,
    loss_sum,
    online_sgd,
    retiring_flow,
    riccati,
    sde,
    start_up,
    stiefel_sgd,
    sweep,
)
from benchmarks.machine import Machine, this_machine
from benchmarks.row import Row
from emergence import table

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    module.NAME: module.run
    for module in (
        start_up,
        derivation,
        online_sgd,
        declared,
        gradient_flow,
        retiring_flow,
        finite_step,
        riccati,
        sde,
        stiefel_sgd,
        label_noise,
        loss_sum,
        sweep,
    )
}
HEADERS = ("benchmark", "quantity", "value", "unit", "target", "verdict")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; an unknown name or an impossible file ends it with status 2 before anything is run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run (all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    found = parser.parse_args(argv)
    unknown = [name for name in found.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}: use {', '.join(BENCHMARKS)}")
    if found.json is not None and (found.json.is_dir() or not found.json.parent.is_dir()):
        parser.error(f"--json is {str(found.json)!r}: give a file in a folder that exists")
    return found


def text(machine: Machine, rows: Sequence[Row]) -> str:
    """The machine, the table, and how many targets were met."""
    cells = [(x.benchmark, x.quantity, x.value, x.unit, x.target, x.verdict) for x in rows]
    judged = [row for row in rows if row.verdict]
    over = [row for row in judged if row.verdict == "over"]
    count = f"{len(judged) - len(over)} of {len(judged)} targets met"
    missed = "".join(f"\nover: {row.benchmark}: {row.quantity}: {row.value:.4g} > {row.target:g}" for row in over)
    return "\n".join([machine.text(), "", table.render(HEADERS, cells), "", count + missed])


def document(machine: Machine, rows: Sequence[Row]) -> str:
    """The same as one JSON document."""
    content = {"machine": machine.document(), "figures": [row.document() for row in rows]}
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks named (all by default) in one process. A missed target is shown, not an error: status 0."""
    found = arguments(argv)
    machine = this_machine()
    rows: list[Row] = []
    for name in dict.fromkeys(found.names or BENCHMARKS):
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    print(text(machine, rows))
    if found.json is not None:
        found.json.write_text(document(machine, rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
