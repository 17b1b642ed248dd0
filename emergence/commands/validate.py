"""``emergence validate``: judge claims, write a report."""

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from emergence import models, output, table
from emergence.interruption import Kept
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.result import Result
from emergence.store.engine import Workers, usable_cores
from emergence.values import Whole
from emergence.version import version

if TYPE_CHECKING:
    from validation.judge.claim import Claim, Verdict
    from validation.judge.run import Run

MOST_WORKERS = 4
#: So many files are named to people; the JSON document names all.
_NAMED = 4
HEADERS = ("id", "quantity", "predicted", "estimate", "±", "allowance", "used", "z", "verdict")


def run(arguments: argparse.Namespace) -> Result:
    """Run the claims asked for (all by default). Status 1 if any verdict is not the expected one.

    Refuses ids that are unknown, and files without claims.
    """
    folder = output.asked(arguments.out)
    import validation
    from validation.judge.runner import select_claims

    wanted = [one for name in arguments.ids for one in _wanted(name)]
    chosen = select_claims(wanted)  # refuses unknown ids before a folder is made for them
    count = _workers(arguments.workers, chosen)
    output.make(folder)
    with Progress(arguments.quiet) as progress, _reporting(), ExitStack() as stack:
        workers = [stack.enter_context(Workers(1)).submit for _ in range(count)] if count > 1 else []
        outcome = validation.validate(
            wanted or None,
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
        "files": {name: str(path) for name, path in outcome.files.items()},
        "claims": [_entry(verdict) for verdict in outcome.verdicts],
    }
    surprises = [verdict for verdict in outcome.verdicts if not verdict.as_expected]
    where = _where(outcome)
    return Result(document, _text(outcome.verdicts, surprises, where), 1 if surprises else 0)


def _wanted(name: str) -> "list[str | Claim]":
    """An id as it is; of a Python file of the user's own its `CLAIMS`. Raises `InputError`."""
    if not name.endswith(".py"):
        return [name]
    claims = getattr(models.module_of(name), "CLAIMS", None)
    if not claims:
        refuse(f"{name!r} has no CLAIMS: give it a list of claims by that name, or ids of the catalogue")
    return list(claims)


@contextmanager
def _reporting() -> Iterator[None]:
    """Ctrl-C inside: say which claims were finished, and where they are."""
    from dynamics.core.interrupted import Interrupted

    try:
        yield
    except Interrupted as stop:
        raise Kept(f"{stop.at}; {_where(stop.result).replace(chr(10), ', ')}") from stop


def _where(outcome: "Run") -> str:
    """The files of a run."""
    if outcome.report is None:
        return "no claim was finished: nothing was written" if not outcome.verdicts else "no report was written"
    files = list(outcome.files.values())
    names = ", ".join(str(path) for path in files[:_NAMED]) + (
        f" … ({len(files)} files)" if len(files) > _NAMED else ""
    )
    return f"report: {outcome.report}\ndata: {names}"


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
        "used": verdict.used,
        "z": verdict.z,
        "allowance": measured.allowance,
        "verdict": verdict.verdict,
        "seconds": verdict.seconds,
        "controls": [
            {"name": c.name, "predicted": c.predicted, "used": c.used, "z": c.z, "rejected": c.rejected}
            for c in verdict.controls
        ],
        "details": {**measured.details, "allowance_from": measured.allowance_from},
    }


def _text(verdicts: "list[Verdict]", surprises: "list[Verdict]", where: str) -> str:
    rows = [
        (
            verdict.id,
            verdict.measurement.quantity,
            verdict.measurement.predicted,
            verdict.measurement.estimate,
            verdict.measurement.stderr,
            verdict.measurement.allowance,
            _rounded(verdict.used),
            _rounded(verdict.z),
            verdict.verdict if verdict.as_expected else f"{verdict.verdict} (expected {verdict.claim.expected})",
        )
        for verdict in verdicts
    ]
    counts = ", ".join(f"{number} {name}" for name, number in sorted(Counter(v.verdict for v in verdicts).items()))
    summary = f"{len(verdicts)} quantities: {counts}; {len(surprises)} not as expected"
    return "\n".join([table.render(HEADERS, rows), "", summary, where])


def _rounded(value: float) -> float:
    """A share or a score, to which more digits say nothing."""
    return float(f"{value:.3g}")
