"""Claims, verdicts, statistics, figures and the report: theory judged against simulation."""

from _emergence import check_siblings

check_siblings(__name__)

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
