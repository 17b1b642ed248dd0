"""Moments of a step by eigenspace: every equation checks itself, and one eigenvalue is the committee of the first stage."""

from dataclasses import replace

import numpy as np
import pytest

from theory import Activation, InputError
from theory.core.derivation import DerivationError, equation
from theory.core.indexed import j, k, q
from theory.core.streams import stream
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.one_step import step_moments
from theory.declared.rule import Momentum, Rule
from theory.declared.start import draw_start
from theory.declared.step_derivation import derivation
from theory.declared.step_moments import EQUATIONS, StepMoments
from theory.declared.student import committee as declared_committee
from theory.declared.target import Additive
from theory.steps import committee_checks
from theory.steps.committee import Q, T, committee


@pytest.mark.parametrize(
    ("student", "link"),
    [("h3", "h2+h1"), ("1e-6*h4", "1e-6*h4"), pytest.param("erf", "erf(2*z)", marks=pytest.mark.slow)],
)
def test_every_equation_holds_and_notices_a_dropped_term(student: str, link: str) -> None:
    found = derivation(StepMoments(Activation.parse(student), Activation.parse(link)))
    assert found.verify() == len(EQUATIONS)
    for step in found.steps:
        first, *rest = step.claim.as_ordered_terms()
        broken = replace(step, equation=equation(step.equation.lhs, sum(rest) if rest else 2 * first))
        with pytest.raises(DerivationError):
            broken.verify()


@pytest.mark.parametrize("text", ["h3", "erf"])
def test_one_eigenvalue_and_the_students_own_link_are_the_committee(text: str) -> None:
    activation, size = Activation.parse(text), 0.3
    a, b = np.array([0.9, -0.4]), np.array([0.6, 0.3, -0.5])
    rows = 0.4 * stream(0, "moments", "rows").standard_normal((3, 7))
    arrays = committee_checks.order_parameters(rows, a, b, size)
    drift = committee(activation).drift
    found = StepMoments(activation, activation).at(arrays["C"][None], Inputs.isotropic(7), a, b, step_size=size)
    for moment, component in ((found.teachers, T[k, q]), (found.rows, Q[k, j])):
        known = size * committee_checks.evaluate(drift[component], arrays)
        assert np.abs(moment[0] - known).max() < 1e-12 * np.abs(known).max()


def test_what_has_no_closed_moments_is_refused() -> None:
    inputs = Inputs.blocks((2.0, 2), (0.5, 3))
    directions = Directions.random(inputs, 2)
    start = draw_start(directions, 2)
    erf, h2 = Activation.parse("erf"), Activation.parse("h2")

    def model(rule: Rule, link: Activation) -> DeclaredModel:
        return DeclaredModel(directions, Additive(link, (1.0, 0.5)), declared_committee(erf, 2), rule)

    with pytest.raises(InputError, match="closed for polynomials"):
        step_moments(model(Rule(0.1), h2), start)
    with pytest.raises(InputError, match="plain SGD on fresh"):
        step_moments(model(Momentum(0.1), erf), start)
    covariance = step_moments(model(Rule(0.1, batch=2), erf), start).row_covariance.reshape(8, 8)
    assert np.allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
