"""Entry points of theory are found, replaced and restored, and breaking one is named by a claim."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp

from theory import Activation, InputError, QuadraticModel, SingleTask, overlap_flow, plateau
from theory.baselines.winner import width_exponent
from theory.core.power_sums import power_sum
from theory.linear import oscillation, sam
from theory.linear.label_noise import norm_step
from theory.quadratic.model import flow_risk
from theory.scaling.frontiers import corrected_frontier
from theory.scaling.scaling_laws import exponent_value
from validation import Context, TheoryUnderTest, catalogue, validate
from validation.broken import judged, users
from validation.claims.linear import label_noise, oscillation_and_alignment
from validation.claims.steps import finite_step_paths
from validation.judge.breaks import BREAKS, Broken
from validation.judge.under_test import built_in, entry_points, name_of, once, walked

FACTOR, EXPONENT, TERM = BREAKS


def _namespaces() -> dict[str, dict[str, object]]:
    return {module.__name__: dict(vars(module)) for module in walked()}


def test_entry_points_are_found_by_name_and_through_modules() -> None:
    found = entry_points()
    assert len(found) > 60
    assert {overlap_flow, plateau, oscillation.decay_rate, sam.decay_rate, QuadraticModel} <= set(found)
    assert all(name_of(entry).startswith("theory.") for entry in found)
    assert InputError not in found  # nothing to replace
    through_modules = [reference for references in found.values() for reference in references if reference.attribute]
    assert len(through_modules) > 20


def test_every_claim_that_rests_on_theory_sees_the_theory_under_test() -> None:
    seen = {claim for claims in users().values() for claim in claims}
    blind = {claim.id for claim in catalogue()} - seen
    assert blind <= {"L23-printed", "L24", "L25"}  # a network against another: no formula


def test_names_stand_for_replacements_within_and_are_restored() -> None:
    before = _namespaces()

    def mine(*arguments: float) -> float:
        return 0.0

    with TheoryUnderTest({plateau: mine, oscillation.decay_rate: mine}).in_force():
        assert finite_step_paths.plateau is mine
        assert label_noise.oscillation_law.decay_rate is mine
        assert oscillation_and_alignment.chain.decay_rate is mine
        assert oscillation_and_alignment.sam_theory.decay_rate is sam.decay_rate
        assert built_in(finite_step_paths.plateau) is plateau
    assert _namespaces() == before
    with pytest.raises(ZeroDivisionError), TheoryUnderTest({plateau: mine}).in_force():
        1 / finite_step_paths.plateau()
    assert _namespaces() == before
    assert oscillation.decay_rate is not mine
    assert built_in(mine) is mine


def test_no_cache_tells_one_theory_what_another_said() -> None:
    kept = [x for module in walked() for x in vars(module).values() if hasattr(x, "cache_clear")]
    kept = [
        x
        for x in kept
        if "context" not in inspect.signature(x).parameters and x.__module__.startswith("validation.claims")
    ]
    assert kept
    with TheoryUnderTest({exponent_value: lambda *x: 0.0}).in_force():
        assert all(x.cache_info().currsize == 0 for x in kept)
    right, wrong = Context(), Context(theory=TheoryUnderTest({plateau: Broken(FACTOR).entry(plateau)}))
    assert right != wrong
    assert hash(right) == hash(Context())


def test_a_derivation_is_made_once_for_each_theory() -> None:
    calls = []

    def mine(activation: Activation) -> int:
        calls.append(activation)
        return 1

    h4 = Activation.parse("h4")
    assert [once(mine, h4), once(mine, h4)] == [1, 1]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("replaced", "told"),
    [
        ({np.sqrt: np.sqrt}, "no claim uses it"),
        ({InputError: ValueError}, "no claim uses it"),
        ({plateau: 1.05}, "cannot be called"),
    ],
)
def test_what_cannot_be_replaced_is_refused(replaced: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        TheoryUnderTest(replaced)


# ----------------------------------------------------------------------------- breaks


@dataclass(frozen=True)
class _Law:
    rate: float
    law: sp.Expr


def test_numbers_expressions_and_records_are_broken_by_five_per_cent() -> None:
    x, y = sp.symbols("x y", positive=True)
    assert Broken(FACTOR).entry(lambda: (2.0, 3))() == (2.1, 3)
    np.testing.assert_allclose(Broken(FACTOR).entry(lambda: {"x": [np.ones(2)]})()["x"], [[1.05, 1.05]])
    assert Broken(EXPONENT).entry(lambda: -4.0)() == pytest.approx(-(4.0**1.05))
    assert Broken(FACTOR).entry(lambda: x + y)() == sp.expand(sp.Rational(21, 20) * (x + y))
    assert Broken(EXPONENT).entry(lambda: y + x**3)() == y + x ** sp.Rational(63, 20)
    assert Broken(TERM).entry(lambda: x * (x**2 + y))() in (x * y, x**3)
    assert Broken(FACTOR).entry(lambda: sp.Matrix([x, 2]))() == sp.Matrix(
        [sp.Rational(21, 20) * x, sp.Rational(21, 10)]
    )
    record = Broken(FACTOR).entry(lambda: _Law(1.0, x))()
    assert (record.rate, record.law) == (1.05, sp.Rational(21, 20) * x)


def test_a_system_is_broken_in_its_drift() -> None:
    right = overlap_flow(Activation.parse("h4"))
    for how in BREAKS:
        wrong = Broken(how).entry(overlap_flow)(Activation.parse("h4"))
        assert all(wrong.drift[component] != right.drift[component] for component in right.drift)
        assert wrong.derivation.replaced


def test_a_class_errs_once_in_what_it_computes() -> None:
    """What an object is made from stays right, and a method that calls others errs by 5 %, not by a power of it."""
    activation = Activation.parse("h4")
    wrong, right = Broken(FACTOR).entry(SingleTask)(activation), SingleTask(activation)
    assert isinstance(wrong, SingleTask)
    assert wrong.activation is activation
    assert wrong.half_time(1.0, 0.1) == pytest.approx(1.05 * right.half_time(1.0, 0.1), rel=1e-12)
    assert wrong.emergence_time == sp.Rational(21, 20) * right.emergence_time
    assert wrong.half_time(1.0, 0.1) == pytest.approx(1.05 * right.half_time(1.0, 0.1), rel=1e-12)


def test_a_break_that_changes_nothing_is_told() -> None:
    broken = Broken(TERM)
    assert broken.entry(lambda: 2.0)() == 2.0
    assert not broken.changed


#: One entry point of each wing, cheap: how it is broken, and the claim that names it.
NAMED = {
    "additive": (overlap_flow, TERM, "E4"),
    "baselines": (width_exponent, FACTOR, "S7"),
    "linear": (norm_step, EXPONENT, "L1"),
    "one_task": (SingleTask, FACTOR, "S4"),
    "quadratic": (flow_risk, EXPONENT, "Q1"),
    "scaling": (corrected_frontier, FACTOR, "E45"),
    "core": (power_sum, EXPONENT, "S10"),
}


@pytest.mark.slow_for("additive", "baselines")
@pytest.mark.parametrize("wing", NAMED)
def test_a_broken_entry_point_is_named(wing: str) -> None:
    entry, how, claim = NAMED[wing]
    assert name_of(entry).startswith(f"theory.{wing}.")
    assert claim in users()[entry]
    assert judged(entry, how, claim)[0].startswith(claim)
    assert validate([claim]).as_expected
