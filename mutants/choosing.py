"""Which mutants are tried: drawn by seed, so that more of the same seed go on where fewer ended, whatever else changes."""

import hashlib
import random
from collections.abc import Iterable, Iterator
from itertools import groupby

from mutants.mutant import Mutant


def drawn(mutants: Iterable[Mutant], seed: int) -> Iterator[Mutant]:
    """One mutant of each statement, statements in random order.

    A statement's place in the order is a hash of the seed and of what the statement says, so that code which is added or
    mended elsewhere moves nothing. Within a statement the kinds are equally likely, and so are the mutants of a kind.
    """
    sites = [list(found) for _, found in groupby(sorted(mutants, key=lambda one: one.site), key=lambda one: one.site)]
    for found in sorted(sites, key=lambda found: _order(found[0], seed)):
        chance = random.Random(f"{seed} {found[0].site}")
        kind = chance.choice(sorted({one.kind for one in found}))
        yield chance.choice([one for one in found if one.kind == kind])


def _order(mutant: Mutant, seed: int) -> str:
    return hashlib.sha256(f"{seed} {mutant.site}".encode()).hexdigest()
