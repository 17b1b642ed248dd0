"""What became of a mutant, from all that was said of it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import Mutant
from mutants.results import CLAIMS, TESTS, Answer

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
#: Columns of the table; of one side alone only once the other was asked to the end.
BOTH, TEST, CLAIM, NEITHER = "both", "tests alone", "claims alone", "neither"
TEST_OPEN, CLAIM_OPEN, OPEN = "tests, claims not finished", "claims, tests not finished", "nobody so far, not finished"
SAME = "equivalent"


@dataclass(frozen=True)
class Asked:
    """What tests, or claims, said.

    Attributes:
        notice: the first one. silent: how many came by and said nothing. finished: whether one noticed, or all were asked.
        begun: whether any was asked.
    """

    notice: str
    silent: int
    finished: bool
    begun: bool = True


@dataclass(frozen=True)
class Outcome:
    """Of one mutant. `reason`: why it changes nothing that matters, if a person has said so."""

    mutant: Mutant
    tests: Asked
    claims: Asked
    reason: str = ""

    @property
    def name(self) -> str:
        """One of the columns of the table."""
        if self.reason:
            return SAME
        if self.tests.notice and self.claims.notice:
            return BOTH
        if self.tests.notice:
            return TEST if self.claims.finished else TEST_OPEN
        if self.claims.notice:
            return CLAIM if self.tests.finished else CLAIM_OPEN
        return NEITHER if self.tests.finished and self.claims.finished else OPEN

    @property
    def tried(self) -> bool:
        """Whether anybody was asked."""
        return self.tests.begun or self.claims.begun

    @property
    def package(self) -> str:
        """The first folder of its path."""
        return self.mutant.path.partition("/")[0]

    @property
    def in_theory(self) -> bool:
        """Whether it is in a formula."""
        return self.package == "theory"

    @property
    def in_claims(self) -> bool:
        """Whether it is in a formula that claims come by, as far as they were asked."""
        return self.in_theory and bool(self.claims.notice or self.claims.silent)


def outcome(mutant: Mutant, answers: Sequence[Answer], reasons: dict[str, str]) -> Outcome:
    """From the answers that hold."""
    tests, claims = (next((one for one in answers if one.asked == asked), None) for asked in (TESTS, CLAIMS))
    return Outcome(mutant, _asked(tests), _asked(claims), reasons.get(mutant.digest, ""))


def _asked(answer: Answer | None) -> Asked:
    return Asked(answer.notice, len(answer.silent), answer.finished) if answer else Asked("", 0, False, False)


def reasons(path: Path = EQUIVALENT) -> dict[str, str]:
    """Digest → why it is no mistake. Raises `ValueError` for an entry without a reason."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for digest, entry in entries.items():
        if not str(entry.get("reason", "")).strip():
            raise ValueError(f"{path.name}: {digest} has no reason")
    return {digest: str(entry["reason"]) for digest, entry in entries.items()}
