"""The additive model (arXiv:2504.19983, section 2) as a declaration: isotropic inputs, orthonormal teachers."""

import numpy as np

from theory.core.activation import Activation
from theory.core.initial import InitialState
from theory.core.teacher import Teacher
from theory.declared.directions import Directions
from theory.declared.inputs import ROUNDING, Inputs
from theory.declared.loss import Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import Student
from theory.declared.target import Additive, as_additive


def additive_model(
    activation: Activation, teacher: Teacher, student: Student, rule: Rule, loss: Loss | None = None
) -> DeclaredModel:
    """A teacher of the additive model, its link `activation`, with any student, rule and loss (default: the square)."""
    directions = Directions.orthonormal(Inputs.isotropic(teacher.dim), teacher.width)
    return DeclaredModel(directions, Additive(activation, teacher.weights), student, rule, loss or Square())


def additive_parts(model: DeclaredModel, start: Start) -> tuple[Activation, Teacher, InitialState] | None:
    r"""The problem of the additive model that a declared one is, whatever its rule and however it is written; None if it is
    another.

    In normal form the link is the student's activation, weights are positive, and directions are an orthonormal basis:
    $a_p\sigma_*(\langle e_p,x\rangle)=a_pc\,\sigma(\pm\langle e_p,x\rangle)$ is weight $a_pc>0$ on direction $\pm e_p$. Of an
    even activation weights may be negative: rows are driven back from there.
    """
    student, gram = model.student, model.directions.covariance
    target = as_additive(model.target)
    if not (isinstance(target, Additive) and student.homogeneous and isinstance(model.loss, Square)):
        return None
    if not (model.inputs.is_isotropic and np.abs(gram - np.eye(target.count)).max() <= ROUNDING):
        return None
    turns = [_turn(a, target.link, student.activation) for a in target.weights]
    if not all(turns):
        return None
    start.check(model.directions)
    weights, signs = np.array(turns).T
    rows, free = np.hstack(start.coordinates), [max(x.shape[1] - target.count, 0) for x in start.coordinates]
    parts = zip(model.directions.roots, start.coordinates, free, strict=True)
    basis = np.hstack([np.pad(root[:, : x.shape[1]], ((0, 0), (0, more))) for root, x, more in parts])
    on = rows @ basis.T
    teacher = Teacher.of(weights, model.inputs.dim, normalise=False, signed=True)
    initial = InitialState(on * signs, rows - on @ basis)
    if np.any(initial.overlap[:, weights < 0] ** 2 >= 0.5):  # it has found what it is driven back from
        return None
    return student.activation, teacher, initial


def _turn(weight: float, link: Activation, activation: Activation) -> tuple[float, int] | tuple[()]:
    """(b, s) with weight · link(z) = b · activation(sz), b > 0, s = ±1; nothing if there are none. b < 0 of even ones."""
    degrees = sorted({*link.coefficients, *activation.coefficients})
    own, sought = (np.array([float(f.coefficients.get(j, 0)) for j in degrees]) for f in (activation, link))
    for sign in (1, -1):
        turned = own * np.power(sign, degrees)
        ratio = float(sought @ turned / (own @ own))
        drawn, same = weight * ratio, np.linalg.norm(sought - ratio * turned) <= ROUNDING * np.linalg.norm(sought)
        if same and (drawn > 0 or (drawn < 0 and activation.parity == "even")):
            return drawn, sign
    return ()


def start_of(initial: InitialState) -> Start:
    """The same rows; what is outside the teachers may be given in any basis."""
    return Start((np.concatenate([initial.on_teachers, initial.residual], axis=1),))
