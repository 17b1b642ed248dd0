"""Claims, verdicts, statistics, figures and the report: theory judged against simulation."""

from _emergence import check_siblings

check_siblings(__name__)

from validation.catalogue import claims
from validation.claim import Claim, Control, Measurement, Outcome, Verdict, judge
from validation.comparison import Comparison, compare
from validation.context import Context, TheoryUnderTest
from validation.quadratic_comparison import compare_quadratic
from validation.runner import Run, validate

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
