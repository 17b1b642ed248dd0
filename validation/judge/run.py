"""What a run of claims leaves."""

from dataclasses import dataclass, field
from pathlib import Path

from validation.judge.claim import Outcome, Verdict


@dataclass
class Run:
    """What `validate` returns.

    Attributes:
        verdicts: one per quantity. outcomes: claim id → what its runner returned.
        preset, seed, version, seconds, machine: provenance. mark: end of the names of its files, see
            `validation.judge.file_names`. report, files: the page and each claim's data, if a folder was given. facts: more to
        say of a claim in the page, claim id → name → text; ``Alone`` there replaces the command that judges it alone.
    """

    verdicts: list[Verdict]
    outcomes: dict[str, Outcome]
    preset: str
    seed: int
    version: str
    seconds: float
    machine: str
    mark: str = ""
    report: Path | None = None
    files: dict[str, Path] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def as_expected(self) -> bool:
        """True if every verdict is the expected one."""
        return all(verdict.as_expected for verdict in self.verdicts)
