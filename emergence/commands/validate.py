"""``emergence validate``: judge claims, write a report."""

import argparse
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from emergence import output, table
from emergence.commands.setup import out_folder
from emergence.engine import Workers, usable_cores
from emergence.progress import Progress
from emergence.result import Result
from emergence.values import Whole
from emergence.version import version

if TYPE_CHECKING:
    from validation.claim import Claim, Verdict

MOST_WORKERS = 4
HEADERS = ("id", "quantity", "predicted", "estimate", "±", "allowance", "z", "verdict")


def run(arguments: argparse.Namespace) -> Result:
    """Run the claims asked for (all by default). Status 1 if any verdict is not the expected one."""
    folder = out_folder(arguments, "report.html")
    import validation
    from validation.runner import select_claims

    chosen = select_claims(arguments.ids)  # refuses unknown ids before a folder is made for them
    count = _workers(arguments.workers, chosen)
    output.make(folder)
    with Progress(arguments.quiet) as progress, ExitStack() as stack:
        workers = [stack.enter_context(Workers(1)).submit for _ in range(count)] if count > 1 else []
        outcome = validation.validate(
            arguments.ids or None,
            preset=arguments.preset,
            seed=arguments.seed,
            out=folder,
            progress=progress,
            workers=workers,
        )
    document = {
        "version": version(),
        "preset": arguments.preset,
        "seed": arguments.seed,
        "report": None if outcome.report is None else str(outcome.report),
        "claims": [_entry(verdict) for verdict in outcome.verdicts],
    }
    surprises = [verdict for verdict in outcome.verdicts if not verdict.as_expected]
    return Result(document, _text(outcome.verdicts, surprises, document["report"]), 1 if surprises else 0)


def _workers(asked: int | None, chosen: "list[Claim]") -> int:
    """Number of processes. Each compiles for itself and may need some gigabytes, so by default no more than four."""
    count = min(usable_cores(), MOST_WORKERS) if asked is None else Whole().check("--workers", asked)
    return min(count, len({claim.runner.__module__ for claim in chosen}))


def _entry(verdict: "Verdict") -> dict[str, object]:
    claim, measured = verdict.claim, verdict.measurement
    return {
        "id": verdict.id,
        "source": claim.source,
        "kind": claim.kind,
        "expected": claim.expected,
        "quantity": measured.quantity,
        "predicted": measured.predicted,
        "estimate": measured.estimate,
        "stderr": measured.stderr,
        "z": verdict.z,
        "allowance": measured.allowance,
        "verdict": verdict.verdict,
        "seconds": verdict.seconds,
        "controls": [
            {"name": c.name, "predicted": c.predicted, "z": c.z, "rejected": c.rejected} for c in verdict.controls
        ],
        "details": {**measured.details, "allowance_from": measured.allowance_from},
    }


def _text(verdicts: "list[Verdict]", surprises: "list[Verdict]", report: object) -> str:
    rows = [
        (
            verdict.id,
            verdict.measurement.quantity,
            verdict.measurement.predicted,
            verdict.measurement.estimate,
            verdict.measurement.stderr,
            verdict.measurement.allowance,
            verdict.z,
            verdict.verdict if verdict.as_expected else f"{verdict.verdict} (expected {verdict.claim.expected})",
        )
        for verdict in verdicts
    ]
    counts = ", ".join(f"{number} {name}" for name, number in sorted(Counter(v.verdict for v in verdicts).items()))
    summary = f"{len(verdicts)} quantities: {counts}; {len(surprises)} not as expected"
    where = "no report was written" if report is None else f"report: {report}"
    return "\n".join([table.render(HEADERS, rows), "", summary, where])
