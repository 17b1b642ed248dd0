"""Claims, verdicts, statistics, figures and the report: theory judged against simulation."""

from _emergence import check_siblings

check_siblings(__name__)

from validation.comparison import Comparison, compare
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim, Control, Measurement, Outcome, Verdict, claim, computed_by
from validation.judge.context import Context, TheoryUnderTest
from validation.judge.run import Run
from validation.judge.runner import validate
from validation.quadratic_comparison import compare_quadratic

__all__ = [
    "Claim",
    "Comparison",
    "Context",
    "Control",
    "Measurement",
    "Outcome",
    "Run",
    "TheoryUnderTest",
    "Verdict",
    "catalogue",
    "claim",
    "compare",
    "compare_quadratic",
    "computed_by",
    "validate",
]
