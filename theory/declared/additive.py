"""The additive model (arXiv:2504.19983, section 2) as a declaration: isotropic inputs, orthonormal teachers."""

import numpy as np

from theory.core.activation import Activation
from theory.core.initial import InitialState
from theory.core.teacher import Teacher
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import Student
from theory.declared.target import Additive


def additive_model(
    activation: Activation, teacher: Teacher, student: Student, rule: Rule, loss: Loss | None = None
) -> DeclaredModel:
    """A teacher of the additive model, its link `activation`, with any student, rule and loss (default: the square)."""
    directions = Directions.orthonormal(Inputs.isotropic(teacher.dim), teacher.width)
    return DeclaredModel(directions, Additive(activation, teacher.weights), student, rule, loss or Square())


def additive_parts(model: DeclaredModel, start: Start) -> tuple[Activation, Teacher, InitialState] | None:
    """The problem of the additive model that a declared one is, whatever its rule; None if it is another."""
    student, target = model.student, model.target
    own = (
        isinstance(target, Additive)
        and target.link == student.activation
        and min(target.weights) > 0
        and student.homogeneous
        and isinstance(model.loss, Square)
        and model.inputs.is_isotropic
        and np.array_equal(model.directions.grams[0], np.eye(model.directions.count))
    )
    if not own or not isinstance(target, Additive):
        return None
    start.check(model.directions)
    teacher = Teacher.of(target.weights, model.inputs.dim, normalise=False)
    on, residual = np.split(start.coordinates[0], [model.directions.count], axis=1)
    return student.activation, teacher, InitialState(on, residual)


def start_of(initial: InitialState) -> Start:
    """The same rows; what is outside the teachers may be given in any basis."""
    return Start((np.concatenate([initial.on_teachers, initial.residual], axis=1),))
