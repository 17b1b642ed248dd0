"""The first step of a declared model: mean to second order in the step size, and covariance, for every kind of student.

Committees: Saad and Solla 1995, Phys. Rev. E 52, 4225; the 2-homogeneous student: arXiv:2504.19983, section 2.2; eigenspaces,
batches, label noise, links of their own and polynomial targets derived.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from theory.core.errors import InputError
from theory.core.indexed import Sums
from theory.declared.flow import is_quadratic
from theory.declared.homogeneous_rows import HomogeneousStepMoments
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.powers import as_additive
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.step_moments import Moments, StepMoments
from theory.declared.target import Additive, Polynomial
from theory.declared.trained_layer import TrainedLayer
from theory.declared.unit_rows import UnitStepMoments


class State(NamedTuple):
    """$V^i$ (L, N, N), inputs, the directions' weights a and the second layer b: what `StepMoments.at` takes by place."""

    grams: np.ndarray
    inputs: Inputs
    a: np.ndarray
    second: np.ndarray


def step_moments(model: DeclaredModel, start: Start, equations: Mapping[str, Sums] | None = None) -> Moments:
    """Mean and leading covariance of the first step from `start`.

    Of free rows, 2-homogeneous ones too, the mean is exact (`theory.declared.step_moments`, `homogeneous_rows`), of unit rows
    it holds the terms of second order (`unit_rows`). A polynomial target is taken as a sum over linear forms of its directions
    (`powers`); the moments are those of the directions. Of a trained second layer they hold its own (`trained_layer`).

    Args:
        equations: terms in the place of those derived, by name: the last ones of the student's rows, or of free rows.

    Raises `InputError` for targets that are neither additive nor polynomial, other losses than square
    and correlation, other rules than plain SGD on fresh samples, and activations without closed integrals.
    """
    student, rule = model.student, model.rule
    if type(rule) is not Rule or rule.samples or not isinstance(model.target, Additive | Polynomial):
        raise InputError(
            "moments of a step are known for an additive or polynomial target and plain SGD on fresh samples: declare "
            "these, or simulate the step"
        )
    start.check(model.directions)
    forms = as_additive(model.target)
    links = forms.links[0] if len(set(forms.links)) == 1 else forms.links
    grams = _stretched(_grams(model, start), forms.coefficients)
    state = State(grams, model.inputs, forms.weights, np.asarray(student.second))
    size = rule.step_size(0) if callable(rule.step_size) else rule.step_size
    numbers = {"step_size": float(size), "noise_size": rule.noise_deviation, "decay": rule.decay}
    coupled = is_quadratic(model.loss)
    given = tuple((equations or {}).items())
    free = StepMoments(student.activation, links, given, coupled)
    made: StepMoments | UnitStepMoments | HomogeneousStepMoments = free
    if student.homogeneous:
        made = HomogeneousStepMoments(StepMoments(student.activation, links, (), coupled), given, student.whitened)
    elif student.rows != "free":
        made = UnitStepMoments(StepMoments(student.activation, links, (), coupled), given, student.rows)
    found = made.at(*state, batch_size=rule.batch, **numbers)
    if student.trained:
        layer = TrainedLayer(StepMoments(student.activation, links, (), coupled), rows=student.rows)
        found = replace(found, second=layer.at(*state, batch_size=rule.batch, **numbers))
    return _of_directions(found, model.directions.count)


def _grams(model: DeclaredModel, start: Start) -> np.ndarray:
    """Of directions and rows, (L, P + m, P + m)."""
    overlaps = start.overlaps(model.directions)
    upper = np.concatenate([model.directions.grams, np.swapaxes(overlaps, 1, 2)], axis=2)
    return np.concatenate([upper, np.concatenate([overlaps, start.grams], axis=2)], axis=1)


def _stretched(grams: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """With the linear forms θ (R, P) in the place of the P directions."""
    forms, count = coefficients.shape
    width = grams.shape[1] - count
    turn = np.zeros((forms + width, count + width))
    turn[:forms, :count], turn[forms:, count:] = coefficients, np.eye(width)
    return turn @ grams @ turn.T


def _of_directions(moments: Moments, count: int) -> Moments:
    """Without the forms after the first `count`."""
    forms = np.arange(count, moments.teachers.shape[2])
    halves = np.delete(np.delete(moments.halves, forms, axis=2), forms, axis=5)
    second = moments.second
    if second is not None:
        second = replace(second, with_rows=np.delete(second.with_rows, forms, axis=3))
    return Moments(moments.teachers[:, :, :count], moments.rows, halves, second)
