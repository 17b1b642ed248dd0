"""Moments of a step of unit rows: every equation checks itself, explicit vectors agree, one eigenvalue is the committee."""

from dataclasses import replace

import numpy as np
import pytest

from theory import Activation, InputError
from theory.core.derivation import DerivationError, equation
from theory.core.frame import eta
from theory.core.indexed import Sums, j, k, q
from theory.core.streams import stream
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.one_step import step_moments
from theory.declared.rule import Rule
from theory.declared.start import draw_start
from theory.declared.step_moments import StepMoments
from theory.declared.student import committee as declared_committee
from theory.declared.target import Additive
from theory.declared.unit_derivation import derivation
from theory.declared.unit_rows import ROWS, UnitStepMoments, equations
from theory.steps import committee_checks
from theory.steps.committee import Q, T, committee

H3, H2 = Activation.parse("h3"), Activation.parse("h2+h1")
_SIGMA, _LINK = Activation.parse("h2+h1"), Activation.parse("h2-h1")
_INPUTS = Inputs((1.6, 0.5), (2, 2))
_BLOCK = np.array([0, 0, 1, 1])
_A, _B = np.array([0.8, -0.5]), np.array([0.7, -0.4])


def _vectors() -> np.ndarray:
    """Two teachers that are not orthogonal, two rows of length 1."""
    drawn = stream(0, "unit", "vectors").standard_normal((4, 4))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.mark.parametrize("rows", ROWS)
def test_every_equation_holds_and_notices_a_dropped_term(rows: str) -> None:
    found = derivation(UnitStepMoments(StepMoments(H3, H2), rows=rows))
    own = found.steps[-len(equations(rows)) :]
    assert found.verify() == len(found.steps) > len(own)
    for step in own:
        terms = step.claim.as_ordered_terms()
        for dropped in terms:
            rest = [x for x in terms if x is not dropped]
            broken = replace(step, equation=equation(step.equation.lhs, sum(rest) if rest else 2 * dropped))
            with pytest.raises(DerivationError):
                broken.verify()


@pytest.mark.slow_for("h3-sphere")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("text", ["h3", "erf"])
def test_one_eigenvalue_orthonormal_teachers_and_the_students_own_link_are_the_committee(rows: str, text: str) -> None:
    activation, size = Activation.parse(text), 0.3
    a, b = np.array([0.9, -0.4]), np.array([0.6, 0.3, -0.5])
    students = stream(0, "moments", "rows").standard_normal((3, 7))
    students /= np.linalg.norm(students, axis=1, keepdims=True)
    arrays = committee_checks.order_parameters(students, a, b, size)
    drift = committee(activation, rows).drift
    moments = UnitStepMoments(StepMoments(activation, activation), rows=rows)
    found = moments.at(arrays["C"][None], Inputs.isotropic(7), a, b, step_size=size)
    for moment, component in ((found.teachers, T[k, q]), (found.rows, Q[k, j])):
        known = size * committee_checks.evaluate(drift[component], arrays)
        assert np.abs(moment[0] - known).max() < 1e-12 * np.abs(known).max()


def _products(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """By eigenspace, of rows (n, 2, 4): teachers (n, 2, 2, 2) and rows (n, 2, 2, 2), all in one line (n, 16)."""
    parts = []
    for i in range(2):
        inside = rows[..., i == _BLOCK]
        parts += [inside @ vectors[:2, i == _BLOCK].T, inside @ np.swapaxes(inside, 1, 2)]
    return np.stack(parts, axis=1).reshape(len(rows), -1)


def _steps(rule: str, size: float, count: int, batch: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Δ of all products after real steps of vectors, at η and, with the same samples, at −η, (n, 16)."""
    vectors = _vectors()
    x = stream(1, "unit", rule).standard_normal((count, batch, 4)) * np.sqrt(np.array(_INPUTS.eigenvalues))[_BLOCK]
    fields = x @ vectors.T
    sigma, slope, link = _SIGMA.arrays(), _SIGMA.arrays(1), _LINK.arrays()
    noisy = noise * stream(2, "unit", rule).standard_normal((count, batch))
    delta = sigma(fields[..., 2:]) @ _B - link(fields[..., :2]) @ _A - noisy
    move = -np.einsum("nb,nbk,k,nbc->nkc", delta, slope(fields[..., 2:]), _B, x) / batch
    if rule == "projected":
        move -= np.einsum("nkc,kc->nk", move, vectors[2:])[..., None] * vectors[2:]
    before = _products(vectors[None, 2:], vectors)
    found = []
    for step in (size, -size):
        after = vectors[2:] + step * move
        found.append(_products(after / np.linalg.norm(after, axis=2, keepdims=True), vectors) - before)
    return found[0], found[1]


def _mean(moments: UnitStepMoments, size: float, batch: int, noise: float) -> np.ndarray:
    vectors = _vectors()
    grams = np.stack([vectors[:, i == _BLOCK] @ vectors[:, i == _BLOCK].T for i in range(2)])
    found = moments.at(grams, _INPUTS, _A, _B, step_size=size, batch_size=batch, noise_size=noise)
    return np.stack([x for i in range(2) for x in (found.teachers[i], found.rows[i])]).ravel()


def _second(moments: UnitStepMoments, batch: int, noise: float) -> np.ndarray:
    """What is of order η²: the mean is a polynomial of degree two in η."""
    one, two = (_mean(moments, size, batch, noise) for size in (1.0, 2.0))
    return (two - 2 * one) / 2


@pytest.mark.parametrize("rows", ROWS)
def test_explicit_vectors_have_these_means_and_reject_a_dropped_term(rows: str) -> None:
    """Order by order: what is odd and even in η, of steps so small that the next order is 1e-6 of it."""
    size, batch, noise, count = 1e-4, 2, 0.5, 400_000
    ahead, back = _steps(rows, size, count, batch, noise)
    free = StepMoments(_SIGMA, _LINK)
    known = _second(UnitStepMoments(free, rows=rows), batch, noise)
    first = _mean(UnitStepMoments(free, rows=rows), 1.0, batch, noise) - known
    assert np.abs(_scores((ahead - back) / (2 * size), first)).max() < 4
    sampled = (ahead + back) / (2 * size**2)
    assert np.abs(_scores(sampled, known)).max() < 4
    for name in ("Delta", "Q", "s", "S"):
        terms = equations(rows)[name][1]
        for dropped in terms:
            if name in ("s", "S") or dropped.body.coeff(eta, 2) != 0:
                wrong = UnitStepMoments(free, ((name, Sums(x for x in terms if x is not dropped)),), rows)
                assert np.abs(_scores(sampled, _second(wrong, batch, noise))).max() > 10


def _scores(sampled: np.ndarray, theory: np.ndarray) -> np.ndarray:
    """Distances in standard errors of the mean, one for each product."""
    return (sampled.mean(axis=0) - theory) / (sampled.std(axis=0) / np.sqrt(len(sampled)))


@pytest.mark.parametrize("rows", ROWS)
def test_explicit_vectors_have_this_covariance(rows: str) -> None:
    size, batch, noise, groups = 1e-4, 2, 0.5, 100
    ahead, _ = _steps(rows, size, 200_000, batch, noise)
    vectors = _vectors()
    grams = np.stack([vectors[:, i == _BLOCK] @ vectors[:, i == _BLOCK].T for i in range(2)])
    found = UnitStepMoments(StepMoments(_SIGMA, _LINK), rows=rows).at(
        grams, _INPUTS, _A, _B, step_size=size, batch_size=batch, noise_size=noise
    )
    moved = ahead.reshape(-1, 2, 2, 2, 2)[:, :, 0].reshape(groups, -1, 8) / size  # teachers: (i, k, q)
    moved = moved - moved.mean(axis=1, keepdims=True)
    each = np.einsum("gnx,gny->gxy", moved, moved) / (moved.shape[1] - 1)
    error = each.std(axis=0, ddof=1) / np.sqrt(groups)
    free = StepMoments(_SIGMA, _LINK).at(grams, _INPUTS, _A, _B, step_size=size, batch_size=batch, noise_size=noise)
    gaps = [
        np.abs((each.mean(axis=0) - x.teacher_covariance.reshape(8, 8) / size**2) / error).max() for x in (found, free)
    ]
    assert gaps[0] < 4.5
    assert gaps[1] > 15


def test_decay_is_undone_by_the_scaling_but_for_the_size_of_the_step() -> None:
    """As one step without decay of size η/(1 − ηκ): (1 − ηκ)v + ηu and v + ηu/(1 − ηκ) have one direction."""
    directions = Directions.random(Inputs.blocks((2.0, 2), (0.5, 3)), 2)
    start, student = draw_start(directions, 2), declared_committee(H3, 2, rows="sphere")
    decayed, plain, other = (
        step_moments(DeclaredModel(directions, Additive(H2, (1.0, 0.5)), student, rule), start)
        for rule in (Rule(0.1, decay=2.0), Rule(0.1 / 0.8), Rule(0.1))
    )
    assert np.allclose(decayed.rows, plain.rows, rtol=1e-12)
    assert not np.allclose(decayed.rows, other.rows, rtol=1e-2)


def test_what_is_not_of_unit_length_is_refused() -> None:
    moments = UnitStepMoments(StepMoments(H3, H2))
    with pytest.raises(InputError, match="rows on a sphere begin with 1"):
        moments.at(np.eye(4)[None] * 2, Inputs.isotropic(7), _A, _B, step_size=0.1)
    with pytest.raises(InputError, match="nothing is left of a row"):
        moments.at(np.eye(4)[None], Inputs.isotropic(7), _A, _B, step_size=0.1, decay=10.0)
    with pytest.raises(InputError, match="polynomial"):
        derivation(UnitStepMoments(StepMoments(Activation.parse("erf"), H2)))
