r"""A declared model: five parts, from which derivation, flow and exact simulation follow."""

from dataclasses import dataclass, field

from theory.core.errors import InputError
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Loss, Square
from theory.declared.rule import Rule, normal_form
from theory.declared.student import Student
from theory.declared.target import Target


@dataclass(frozen=True, eq=False)
class DeclaredModel:
    r"""A student learns $y=f_*(\langle w_1,x\rangle,\dots,\langle w_P,x\rangle)+\varsigma\xi$ from $x\sim N(0,\Lambda)$.

    Attributes:
        directions: $w_p$, with the inputs in whose eigenspaces they lie. target: f*. student, loss, rule: the others; a rule
            that is plain SGD is held as such (`theory.declared.rule.normal_form`).

    Raises `InputError` for a target of another number of directions.
    """

    directions: Directions
    target: Target
    student: Student
    rule: Rule
    loss: Loss = field(default_factory=Square)

    def __post_init__(self) -> None:
        if self.directions.count != self.target.count:
            raise InputError(
                f"target has {self.target.count} directions, but {self.directions.count} are given: give one for each"
            )
        object.__setattr__(self, "rule", normal_form(self.rule))

    @property
    def inputs(self) -> Inputs:
        """Λ."""
        return self.directions.inputs
