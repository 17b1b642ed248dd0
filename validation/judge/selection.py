"""Which claims are asked for: ids in any case, patterns, quantities of a claim, and `Claim` objects of one's own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from theory import InputError
from theory.core.errors import did_you_mean
from validation.judge.claim import Claim, Verdict

#: What may be asked for: an id, a pattern, or a claim itself.
Wanted = str | Claim
#: Characters of a pattern.
_LONGEST = 200


@dataclass(frozen=True)
class Selection:
    """Claims in the order of the catalogue, and which quantities of them are asked for.

    Attributes:
        parts: claim id → texts such as ``E7.h3``, for the claims of which some quantities only are asked for.
    """

    claims: list[Claim]
    parts: dict[str, list[str]]

    @property
    def names(self) -> list[str]:
        """What is asked for, in order: ids of claims, or the texts that name some of their quantities."""
        return [text for claim in self.claims for text in self.parts.get(claim.id, [claim.id])]

    def wanted(self, claims: Sequence[Claim]) -> list[Wanted]:
        """What asks for some of the claims in the same way."""
        return [one for claim in claims for one in self.parts.get(claim.id, [claim])]

    def keeps(self, verdict: Verdict) -> bool:
        """Whether a quantity is asked for."""
        return any(_matches(verdict.id, text) for text in self.parts.get(verdict.claim.id, ["*"]))

    def check(self, verdicts: Sequence[Verdict]) -> None:
        """Raise `InputError` for a text that names none of its claims' quantities, known once they are measured."""
        for text in {text: None for texts in self.parts.values() for text in texts}:
            there = [verdict.id for verdict in verdicts if text in self.parts.get(verdict.claim.id, ())]
            if not any(_matches(name, text) for name in there):
                raise InputError(f"quantity {text!r} is unknown: {did_you_mean(text, there)}use {', '.join(there)}")


def select(wanted: Sequence[Wanted] | Wanted | None, catalogue: Sequence[Claim]) -> Selection:
    """The claims asked for, all if nothing is.

    A text is an id (``E7``), an id with a quantity's key (``E7.h3``) or a pattern of either (``E1*``, ``E7.h*``), in any
    case. Raises `InputError` for a text that names no claim, and for two claims of one id.
    """
    asked = [wanted] if isinstance(wanted, str | Claim) else list(wanted or ())
    chosen = {} if asked else {claim.id: claim for claim in catalogue}
    whole, parts = set(chosen), dict[str, list[str]]()
    for one in asked:
        for claim in [one] if isinstance(one, Claim) else _named(one, catalogue):
            if chosen.setdefault(claim.id, claim) != claim:
                raise InputError(f"claim {claim.id!r} is given twice, two different ones: give one of them another id")
            if isinstance(one, str) and "." in one:
                parts.setdefault(claim.id, []).append(one)
            else:
                whole.add(claim.id)
    alike = {name.lower(): name for name in chosen}
    for name in chosen:  # their files would be one file where names know no case
        if alike[name.lower()] != name:
            raise InputError(f"claims {name!r} and {alike[name.lower()]!r} differ in case only: give one another id")
    return Selection(
        sorted(chosen.values(), key=lambda claim: natural(claim.id)),
        {name: texts for name, texts in parts.items() if name not in whole},
    )


def natural(name: str) -> list[str | int]:
    """Sort key of an id, by its words and its numbers: E2 before E10, E17 before E17.beta."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _named(text: str, catalogue: Sequence[Claim]) -> list[Claim]:
    """Claims that a text names, a quantity's key left aside."""
    found = [claim for claim in catalogue if _matches(claim.id, text.split(".", 1)[0])]
    if not found:
        hint = did_you_mean(text, [claim.id for claim in catalogue])
        raise InputError(f"claim id {text!r} is unknown: {hint}`emergence claims` lists them")
    return found


def _matches(name: str, pattern: str) -> bool:
    """(The time that a pattern takes grows with the square of its length.)"""
    return len(pattern) <= _LONGEST and fnmatchcase(name.lower(), pattern.lower())
