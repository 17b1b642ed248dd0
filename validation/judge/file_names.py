"""Names of what a run of claims writes: runs that differ in claims, preset, seed or theory never share one.

``report.html`` and ``ID.nc`` are those of the whole catalogue at the quick preset and seed 0. Anything else is said in the
name: ``report-E8+S4.full.seed3.html``, ``E8.full.seed3.nc``. Ids have no ``+``; their quantities come after a ``.``, as in
``E7.h3``, which no preset or seed is called like.
"""

import hashlib
import re
from collections.abc import Sequence

from dynamics.core.interrupted import unfinished

#: A list of claims longer than this is cut, and a digest of all of it put behind.
LONGEST = 60


def mark(preset: str, seed: int, *, own_theory: bool = False, own_claims: bool = False) -> str:
    """How the run differs from the usual one: the end of its files' names. `own_claims`: one has a built-in claim's id."""
    parts = [preset] * (preset != "quick") + [f"seed{seed}"] * (seed != 0)
    parts += ["own-theory"] * own_theory + ["own-claims"] * own_claims
    return "".join(f".{part}" for part in parts)


def dataset_name(claim_id: str, mark: str = "") -> str:
    """File name of a claim's dataset, beside the report."""
    return f"{claim_id}{mark}.nc"


def report_name(chosen: Sequence[str], mark: str = "", finished: bool = True) -> str:
    """File name of a report.

    Args:
        chosen: claims, or quantities of them, that were asked for; empty for the whole catalogue.
        finished: False gives a name of its own: what is there of an interrupted run is no report of the whole.
    """
    listed = "+".join(chosen)
    safe = re.sub(r"[^\w.+-]", "_", listed)
    if len(safe) > LONGEST or safe != listed:
        safe = (
            f"{safe[:LONGEST].rpartition('+')[0] or safe[:LONGEST]}+{hashlib.sha256(listed.encode()).hexdigest()[:8]}"
        )
    name = f"report{'-' * bool(chosen)}{safe}{mark}.html"
    return name if finished else unfinished(name)
