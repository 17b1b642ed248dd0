"""A formula broken on purpose must make a named claim disagree, and the right one must not."""

from dataclasses import dataclass, replace
from functools import cached_property

import pytest
import sympy as sp

from theory import Activation, SingleTask, System, overlap_flow, plateau
from theory.one_task.plateau import Plateau
from theory.one_task.single_task import M0, a
from validation import TheoryUnderTest, validate
from validation.claims.additive.formulas import with_wrong_derivative, without_cross_terms


@dataclass(frozen=True)
class EightForEveryExponent(SingleTask):
    """T_p with the slides' constant 8 whatever the information exponent."""

    @cached_property
    def emergence_time(self) -> sp.Expr:
        return 1 / (8 * self.activation.leading * a * M0 ** sp.Rational(self.exponent - 2, 2))


def _one_term_missing(activation: Activation) -> System:
    """The flow without one of the student–student terms."""
    system = overlap_flow(activation)
    drift = {
        component: type(sums)(term for i, term in enumerate(sums) if i != _first_student_term(sums))
        for component, sums in system.drift.items()
    }
    return replace(system, drift=drift)


def _first_student_term(sums: tuple) -> int:
    return next(i for i, term in enumerate(sums) if any(str(index) == "l" for index in term.bound))


BROKEN = {
    "T_p with 8 for J = 6": ("E7", TheoryUnderTest({SingleTask: EightForEveryExponent}), {"E7.h6", "E7.h8"}),
    "a missing cross term": (
        "E3",
        TheoryUnderTest({overlap_flow: _one_term_missing}),
        {"E3.h3", "E3.h4", "E3.mixture", "E3.erf"},
    ),
    "no cross terms": (
        "E2",
        TheoryUnderTest({overlap_flow: lambda x: without_cross_terms(overlap_flow(x))}),
        {"E2.h3", "E2.h4", "E2.mixture"},
    ),
    "φ′ wrong by 5 %": (
        "E3",
        TheoryUnderTest({overlap_flow: lambda x: with_wrong_derivative(overlap_flow(x))}),
        {"E3.h3", "E3.h4", "E3.mixture", "E3.erf"},
    ),
    "φ′ wrong by 5 %, seen in the emergence time": (
        "E7",
        TheoryUnderTest({overlap_flow: lambda x: with_wrong_derivative(overlap_flow(x))}),
        {"E7.h4", "E7.h4.exact", "E7.h6.exact"},
    ),
}


@pytest.mark.slow_for("T_p with 8 for J = 6", "no cross terms", "φ′ wrong by 5 %, seen in the emergence time")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_formula_is_named(name: str) -> None:
    claim, broken, caught = BROKEN[name]
    failed = {verdict.id for verdict in validate([claim], theory=broken).verdicts if verdict.verdict == "disagrees"}
    assert caught <= failed


@pytest.mark.slow_for("E2", "E3", "E7", "E8", "S3")
@pytest.mark.parametrize(
    "claim",
    ["E2", "E3", "E4", "E5", "E7", "E7-printed", "E8", "S3", "S4", "S4-printed"],
)
def test_the_right_formula_is_not(claim: str) -> None:
    assert validate([claim]).as_expected


@pytest.mark.slow
def test_broken_plateau_noise_is_caught() -> None:
    def wrong(activation: Activation) -> Plateau:
        right = plateau(activation)
        return replace(right, variance_law=right.variance_law * sp.Rational(11, 10))

    verdicts = validate(["E6"], theory=TheoryUnderTest({plateau: wrong})).verdicts
    assert any(verdict.verdict == "disagrees" for verdict in verdicts)
