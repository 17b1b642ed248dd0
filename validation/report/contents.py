"""What the report shows of a run, in order: claims by system, each with its class, its numbers and how to run it alone."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import validation.claims
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim, JudgedControl, Outcome, Verdict
from validation.judge.file_names import dataset_name
from validation.judge.selection import natural
from validation.report.formula import papers
from validation.report.picture import Picture, picture

if TYPE_CHECKING:
    from validation.judge.run import Run

#: A page with more claims shows them folded, but for those that are not as expected.
MOST_OPEN = 12
OWN = "Your own claims"
_CLAIMS = validation.claims.__name__


@dataclass(frozen=True)
class Status:
    """How a verdict is shown: class name, sign, word, and its words in the top sentence."""

    name: str
    sign: str
    word: str
    phrase: str


AGREES = Status("agrees", "✓", "agrees", "agree{s}")
REFUTED = Status("refuted", "≠", "disagrees, as expected", "disagree{s} as expected")
OPEN = Status("open", "○", "open", "open")
INCONCLUSIVE = Status("inconclusive", "?", "inconclusive", "inconclusive")
UNEXPECTED = Status("unexpected", "✗", "unexpected", "unexpected")
#: From the one that needs no attention to the one that needs most.
STATUSES = (AGREES, REFUTED, OPEN, INCONCLUSIVE, UNEXPECTED)
#: A user's own problem has no printed claim to refute: there a disagreement is never expected.
_WORDS = {
    "agrees": AGREES,
    "disagrees": replace(UNEXPECTED, word="disagrees"),
    "inconclusive": INCONCLUSIVE,
    "open": OPEN,
}


def status(verdict: Verdict) -> Status:
    """The one of the five classes that a verdict falls in."""
    if verdict.claim.kind == "open":
        return OPEN
    if verdict.verdict == "inconclusive":
        return INCONCLUSIVE
    if not verdict.as_expected:
        return replace(UNEXPECTED, word=f"unexpected: {verdict.verdict}")
    return AGREES if verdict.verdict == "agrees" else REFUTED


def word_status(word: object) -> Status | None:
    """The chip for the verdict of a comparison's row; None for any other word."""
    return _WORDS.get(str(word))


def headline(verdicts: Sequence[Verdict]) -> str:
    """The run in one sentence; the five numbers add up to the number of quantities."""
    found = [status(verdict).name for verdict in verdicts]
    counts = ", ".join(
        f"{count} {kind.phrase.format(s='s' if count == 1 else '')}"
        for kind in STATUSES
        for count in [found.count(kind.name)]
    )
    return f"Of {len(found)} {'quantity' if len(found) == 1 else 'quantities'}, {counts}."


@dataclass(frozen=True)
class Section:
    """One claim of the page.

    Attributes:
        verdicts: of its quantities, in natural order. figures: captions and pictures. dataset: file name of its data, None
            if it has none. facts: more to say of it, name → text; ``Alone`` is the command that judges it alone.
        unfolded: whether the page shows it open.
    """

    claim: Claim
    verdicts: tuple[Verdict, ...]
    figures: tuple[tuple[str, Picture], ...]
    dataset: str | None
    facts: dict[str, str]
    unfolded: bool

    @property
    def seconds(self) -> float:
        """Run time of the claim; its quantities come from one run and carry the same number."""
        return max(verdict.seconds for verdict in self.verdicts)

    @property
    def status(self) -> Status:
        """Of the quantity that needs most attention."""
        order = [kind.name for kind in STATUSES]
        return max((status(verdict) for verdict in self.verdicts), key=lambda kind: order.index(kind.name))

    @property
    def statuses(self) -> str:
        """Class names of all quantities."""
        return " ".join(dict.fromkeys(status(verdict).name for verdict in self.verdicts))

    @property
    def papers(self) -> tuple[str, ...]:
        """See `validation.report.formula.papers`."""
        return papers(self.claim.source)

    @property
    def controls(self) -> list[JudgedControl]:
        """Of all quantities."""
        return [control for verdict in self.verdicts for control in verdict.controls]

    @property
    def rejected(self) -> int:
        """How many controls were."""
        return sum(control.rejected for control in self.controls)


@dataclass(frozen=True)
class System:
    """Claims about one system, under its name."""

    name: str
    sections: tuple[Section, ...]

    @property
    def anchor(self) -> str:
        return "system-" + "-".join(self.name.lower().split())


def systems(run: "Run") -> list[System]:
    """The claims of a run by system; systems and claims in natural order of ids, a user's own last."""
    found: dict[str, list[Verdict]] = {}
    for verdict in sorted(run.verdicts, key=lambda one: natural(one.id)):
        found.setdefault(verdict.claim.id, []).append(verdict)
    folded = len(found) > MOST_OPEN
    sections = [_section(run, tuple(found[name]), folded) for name in sorted(found, key=natural)]
    names = list(dict.fromkeys(system_of(section.claim) for section in sections))
    names.sort(key=lambda name: name == OWN)
    sections.sort(key=lambda section: names.index(system_of(section.claim)))
    return [System(name, tuple(own)) for name, own in groupby(sections, key=lambda one: system_of(one.claim))]


def system_of(claim: Claim) -> str:
    """The system that a claim of the catalogue is about: what the folder of its module says it is."""
    package = claim.runner.__module__.rpartition(".")[0]
    if not package.startswith(_CLAIMS + "."):
        return OWN
    text = (import_module(package).__doc__ or package).strip().rstrip(".").removeprefix("Claims about ")
    return text[0].upper() + text[1:]


def _section(run: "Run", verdicts: tuple[Verdict, ...], folded: bool) -> Section:
    claim = verdicts[0].claim
    outcome = run.outcomes.get(claim.id, Outcome([]))
    figures = tuple((caption or f"Figure of {claim.id}", picture(one)) for caption, one in outcome.figures)
    dataset = dataset_name(claim.id, run.mark) if claim.id in run.outcomes else None
    facts = alone(run, claim) | run.facts.get(claim.id, {})
    as_expected = all(verdict.as_expected for verdict in verdicts)
    return Section(claim, verdicts, figures, dataset, facts, not folded or not as_expected)


def alone(run: "Run", claim: Claim) -> dict[str, str]:
    """``Alone`` → the command that judges a claim alone, as in this run; nothing where theory or claim came from Python.

    A claim that says itself how it is judged again is believed.
    """
    names = {one.id: one for one in catalogue()}
    file = getattr(sys.modules.get(claim.runner.__module__), "__file__", None)
    if claim.again:
        return {"Alone": claim.again}
    if ".own-theory" in run.mark:
        return {}
    if names.get(claim.id) == claim:
        return {"Alone": command(run, [claim.id])}
    return {"Alone": command(run, [Path(file).name])} if file and "." not in claim.runner.__module__ else {}


def command(run: "Run", what: Sequence[str]) -> str:
    """``emergence validate`` of some claims at the preset and seed of a run."""
    preset = ["--preset", run.preset] if run.preset != "quick" else []
    seed = ["--seed", str(run.seed)] if run.seed else []
    return shlex.join(["emergence", "validate", *what, *preset, *seed])
