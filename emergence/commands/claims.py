"""``emergence claims``: the catalogue."""

import argparse

from emergence import table
from emergence.result import Result


def run(arguments: argparse.Namespace) -> Result:
    """List every claim (or those asked for) with its source, kind, what is expected of it, and its controls."""
    from validation.judge.listing import listed
    from validation.judge.selection import select

    catalogue = select(arguments.ids, listed()).claims
    entries = [
        {
            "id": claim.id,
            "statement": claim.statement,
            "source": claim.source,
            "kind": claim.kind,
            "expected": claim.expected,
            "controls": list(claim.controls),
        }
        for claim in catalogue
    ]
    rows = [(claim.id, claim.title, claim.kind, claim.expected, claim.source) for claim in catalogue]
    return Result({"claims": entries}, table.render(("id", "claim", "kind", "expected", "source"), rows))
