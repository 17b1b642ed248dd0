"""Claims, verdicts, statistics, figures and the report: theory judged against simulation."""

from typing import TYPE_CHECKING

from _emergence import check_siblings, offered

check_siblings(__name__)

if TYPE_CHECKING:
    from validation.comparison import Case, Comparison, Stage, compare
    from validation.judge.catalogue import catalogue
    from validation.judge.claim import Claim, Control, Measurement, Outcome, Verdict, claim, computed_by
    from validation.judge.context import Context, TheoryUnderTest
    from validation.judge.run import Run
    from validation.judge.runner import validate

__all__ = [
    "Case",
    "Claim",
    "Comparison",
    "Context",
    "Control",
    "Measurement",
    "Outcome",
    "Run",
    "Stage",
    "TheoryUnderTest",
    "Verdict",
    "catalogue",
    "claim",
    "compare",
    "computed_by",
    "validate",
]

if not TYPE_CHECKING:  # seen by a type checker it would make every misspelt name valid
    __getattr__, __dir__ = offered(__name__)
