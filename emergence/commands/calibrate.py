"""``emergence calibrate``: does a claim cry wolf? Its verdicts under many seeds, counted."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from emergence import output, table
from emergence.calibration import Collection, lost, stored
from emergence.commands.setup import store_of
from emergence.commands.validate import one_size, wanted, workers
from emergence.interruption import kept
from emergence.kept_claims import DEFAULT_STORE
from emergence.progress import Progress
from emergence.result import Result
from emergence.store.engine import Workers
from emergence.store.folder import Store
from emergence.values import Number, Whole
from emergence.version import version

if TYPE_CHECKING:
    from validation.judge.alarms import Share, Tally
    from validation.judge.claim import Claim


def run(arguments: argparse.Namespace) -> Result:
    """Run claims under the seeds 0 … N−1, those that are missing in the store, and count their verdicts."""
    return calibrate([one for name in arguments.ids for one in wanted(name)], arguments)


def calibrate(asked: Sequence[Any], arguments: argparse.Namespace) -> Result:
    """The same for ids and claims, all of the catalogue if none is given.

    Status 1 if a claim cried wolf more often than it may, a control survived too often, or a claim raised an error.

    Raises `InputError`, `Kept` on Ctrl-C.
    """
    from validation.judge.runner import runnable, select_claims

    one_size(asked, arguments.preset)
    claims = runnable(select_claims(asked), named=bool(asked))
    seeds = Whole().check("--seeds", arguments.seeds)
    budget = float("inf") if arguments.budget is None else Number(zero=True).check("--budget", arguments.budget)
    count, folder = workers(arguments.workers, seeds), store_of(arguments, DEFAULT_STORE)
    output.make(folder, "store")
    with Progress(arguments.quiet) as progress, Store(folder) as store, Workers(count) as engine:
        store.sweep_up()
        collection = Collection(store, arguments.preset, budget, progress, progress.say)
        with kept(lambda: f"the verdicts so far are kept in {folder}: the same command goes on with the others"):
            collection.run(claims, seeds, engine)
        found = {claim.id: stored(store, claim, arguments.preset) for claim in claims}
    rows, gaps = counted(found), {name: lost(cells) for name, cells in found.items()}
    document = {
        "version": version(),
        "preset": arguments.preset,
        "store": str(folder),
        "claims": [
            {
                "id": claim.id,
                "seeds": sorted(found[claim.id]),
                "without_verdict": gaps[claim.id],
                "random": any(row.random for row in rows.get(claim.id, ())),
                "quantities": [_entry(row) for row in rows.get(claim.id, ())],
            }
            for claim in claims
        ],
    }
    defects = any(row.too_many or row.weak_controls for group in rows.values() for row in group)
    code = int(defects or bool(collection.failed) or any(gaps.values()))
    return Result(document, _text(claims, rows, gaps) + f"\nstore: {folder}", code)


def counted(found: "Mapping[str, Mapping[int, Any]]") -> "dict[str, list[Tally]]":
    """Claim id → its tallies, for claims with two seeds or more."""
    from validation.judge.alarms import FIRST, tallies

    return {name: tallies(seeds) for name, seeds in found.items() if len(seeds) >= FIRST}


def _entry(row: "Tally") -> dict[str, object]:
    return {
        "id": row.id,
        "quantity": row.name,
        "expected": row.expected,
        "seeds": row.seeds,
        "verdicts": dict(row.verdicts),
        "false": None if row.expected == "open" else _share(row.false),
        "too_many": row.too_many,
        "stated": row.stated if row.statistical else None,
        "degrees_of_freedom": row.freedom,
        "mean_z": dict(zip(("value", "stderr"), row.mean, strict=True)),
        "error_bars": dict(zip(("value", "stderr"), row.square, strict=True)),
        "controls": [{"name": name, "rejected": _share(share)} for name, share in row.controls.items()],
        "weak_controls": row.weak_controls,
    }


def _share(share: "Share") -> dict[str, object]:
    return {"hits": share.hits, "total": share.total, "share": share.value, "interval": list(share.interval)}


def _text(claims: "Sequence[Claim]", found: "Mapping[str, Sequence[Tally]]", gaps: Mapping[str, Sequence[int]]) -> str:
    from validation.judge.alarms import REJECTED
    from validation.report import alarms

    rows = [row for group in found.values() for row in group]
    random = [row for row in rows if row.random]
    still = [name for name, group in found.items() if not any(row.random for row in group)]
    few = [claim.id for claim in claims if claim.id not in found]
    wolves = [row.id for row in rows if row.too_many]
    weak = [f"{row.id}: {name}" for row in rows for name in row.weak_controls]
    missing = [f"{name} (seed {', '.join(map(str, seeds))})" for name, seeds in gaps.items() if seeds]
    said = {
        "cried wolf more often than stated": wolves,
        f"controls rejected for fewer than {REJECTED:.0%} of the seeds": weak,
        "without a verdict, the claim raised an error": missing,
        "nothing random, the same under two seeds": still,
        "fewer than two seeds, nothing is said": few,
    }
    lines = [table.render(alarms.HEAD, [alarms.row(row) for row in random]), ""] if random else []
    lines += [f"{what}: {', '.join(names)}" for what, names in said.items() if names]
    return "\n".join(
        [
            *lines,
            f"{len(random)} quantit{'y' if len(random) == 1 else 'ies'}: {len(wolves)} cried wolf, {len(weak)} weak controls",
        ]
    )
