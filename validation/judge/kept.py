"""Claims whose outcomes are kept from run to run: what a store offers to those who run claims."""

from dataclasses import replace
from typing import NamedTuple, Protocol

from matplotlib.figure import Figure

from validation.judge.claim import Claim, Outcome
from validation.judge.context import Context
from validation.judge.storage import figures_data
from validation.report.picture import rendered


class Measured(NamedTuple):
    """A claim's outcome, the seconds that it took (NaN: unknown), and whether it was found, not measured now."""

    claim: Claim
    outcome: Outcome
    seconds: float
    found: bool = False


class Last(NamedTuple):
    """How a claim ended the last time, under whatever code: its seconds, and whether all was as expected."""

    seconds: float
    as_expected: bool


class Kept(Protocol):
    """Where outcomes are kept. It answers for code, libraries, preset and seed: what it finds is what a run would give."""

    def find(self, claim: Claim, context: Context) -> Measured | None:
        """The outcome of the claim, if it was finished before."""

    def keep(self, measured: Measured, context: Context) -> Measured:
        """Keep an outcome whose figures are pictures; what is returned is what `find` would give."""

    def last(self, claim: Claim, preset: str) -> Last | None:
        """For the order of a run: how the claim ended the last time."""

    def facts(self, claim: Claim, preset: str) -> dict[str, str]:
        """What is known of the claim beyond this run, name → text, for the report."""


def drawn(outcome: Outcome) -> Outcome:
    """The same with its figures drawn: the bytes of pictures, and beside them what they show.

    A figure is an object of a library; pictures and arrays can be kept as they are, and are the same in every process.
    """
    if outcome.shown is not None:
        return outcome
    pictures = [(caption, rendered(one) if isinstance(one, Figure) else one) for caption, one in outcome.figures]
    found = figures_data(outcome)
    if len(found) < len(pictures):  # something that is no figure: the report refuses it, by its name
        return outcome
    return replace(outcome, figures=pictures, shown=list(found.values()))
