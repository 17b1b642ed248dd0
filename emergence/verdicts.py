"""Verdicts as entries of a JSON document and as a table for people."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from validation.judge.claim import Verdict

HEADERS = ("id", "quantity", "predicted", "estimate", "±", "allowance", "used", "z", "verdict")


def entry(verdict: "Verdict") -> dict[str, object]:
    """A verdict in a JSON document."""
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
        "smallest_error": measured.smallest_error,
        "verdict": verdict.verdict,
        "seconds": verdict.seconds,
        "controls": [
            {"name": c.name, "predicted": c.predicted, "used": c.used, "z": c.z, "rejected": c.rejected}
            for c in verdict.controls
        ],
        "details": {**measured.details, "allowance_from": measured.allowance_from},
    }


def row(verdict: "Verdict") -> tuple[object, ...]:
    """A verdict in a table under `HEADERS`."""
    x = verdict.measurement
    numbers = (x.predicted, x.estimate, x.stderr, x.allowance, _rounded(verdict.used), _rounded(verdict.z))
    return verdict.id, x.title, *numbers, word(verdict)


def word(verdict: "Verdict") -> str:
    """A verdict, and what was expected where that is another."""
    return verdict.verdict if verdict.as_expected else f"{verdict.verdict} (expected {verdict.claim.expected})"


def summary(verdicts: "Sequence[Verdict]") -> str:
    """How many there are of each."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(Counter(v.verdict for v in verdicts).items()))
    surprises = sum(not verdict.as_expected for verdict in verdicts)
    quantities = "1 quantity" if len(verdicts) == 1 else f"{len(verdicts)} quantities"
    return f"{quantities}: {counts}; {surprises} not as expected"


def _rounded(value: float) -> float:
    """A share or a score, to which more digits say nothing."""
    return float(f"{value:.3g}")
