"""Claims, verdicts, statistics, figures and the report: theory judged against simulation."""

from _emergence import check_siblings

check_siblings(__name__)

from validation.comparison import Comparison, compare
from validation.judge.catalogue import claims
from validation.judge.claim import Claim, Control, Measurement, Outcome, Verdict, judge
from validation.judge.context import Context, TheoryUnderTest
from validation.judge.runner import Run, validate
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
    "claims",
    "compare",
    "compare_quadratic",
    "judge",
    "validate",
]
