"""A 2-homogeneous student's step: every equation checks itself, one eigenvalue is the finite step of the additive model."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from dynamics import one_step_mean
from theory import Activation, InputError, Student, Teacher, draw_initial_state
from theory.core.derivation import DerivationError, equation
from theory.declared.homogeneous_derivation import derivation
from theory.declared.homogeneous_rows import EQUATIONS, HomogeneousStepMoments
from theory.declared.inputs import Inputs
from theory.declared.step_moments import StepMoments

H1H2, H1H3, H2, H3 = (Activation.parse(text) for text in ("h2+h1", "h3+h1", "h2-h1", "h3"))


@pytest.mark.slow_for("free2-False")
@pytest.mark.parametrize(
    ("free", "whitened"),
    [
        (StepMoments(H3, H1H2), False),
        pytest.param(StepMoments(H1H3, (H2, H3)), True, marks=pytest.mark.slow),
        (StepMoments(H1H2, H2, coupled=False), False),
    ],
)
def test_every_equation_holds_and_notices_a_dropped_term(free: StepMoments, whitened: bool) -> None:
    found = derivation(HomogeneousStepMoments(free, whitened=whitened))
    assert found.verify() == len(found.steps) == len(EQUATIONS) + 3
    for step in found.steps[3:]:
        terms = step.claim.as_ordered_terms()
        for dropped in terms:
            rest = [x for x in terms if x is not dropped]
            broken = replace(step, equation=equation(step.equation.lhs, sp.Add(*rest) if rest else 2 * dropped))
            with pytest.raises(DerivationError):
                broken.verify()


@pytest.mark.parametrize(
    ("text", "batch"), [("h3", 1), ("h2", 3), pytest.param("0.8*h4+0.6*h2", 2, marks=pytest.mark.slow)]
)
def test_one_eigenvalue_and_orthonormal_directions_are_the_finite_step(text: str, batch: int) -> None:
    activation, size, dim = Activation.parse(text), 0.3, 9
    teacher = Teacher((0.9, 0.4), dim)
    start = draw_initial_state(teacher, Student(3, 0.9), seed=0)
    mean = one_step_mean(activation, teacher, start, size, batch)
    rows = np.concatenate([start.on_teachers, start.residual], axis=1)
    frame = np.concatenate([np.eye(2, rows.shape[1]), rows])
    moments = HomogeneousStepMoments(StepMoments(activation, activation))
    where = (frame @ frame.T)[None], Inputs.isotropic(dim), teacher.a, np.ones(3)
    found = moments.at(*where, step_size=size, batch_size=batch)
    moved = mean["T"] - start.on_teachers, mean["Q"] - rows @ rows.T
    for moment, known in zip((found.teachers, found.rows), moved, strict=True):
        assert np.abs(moment[0] - known).max() < 1e-11 * np.abs(known).max()


def test_what_is_no_polynomial_is_refused() -> None:
    erf = Activation.parse("erf")
    moments = HomogeneousStepMoments(StepMoments(erf, erf))
    with pytest.raises(InputError, match="in which outputs matter"):
        moments.at(np.eye(2)[None], Inputs.isotropic(7), np.ones(1), np.ones(1), step_size=0.1)
    with pytest.raises(InputError, match="polynomial"):
        derivation(moments)


def test_the_check_of_a_square_knows_that_it_grows_by_nothing_beside_its_row() -> None:
    """Of z² the neuron is ⟨v, x⟩², and c = 2γ − ⟨u, v̄⟩ = 0: its rounding is none of c, but of its two parts."""
    square = Activation.parse("z**2")
    found = derivation(HomogeneousStepMoments(StepMoments(square, square)))
    assert found.verify() == len(found.steps)
