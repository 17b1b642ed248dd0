r"""A rule of one's own: each row's gradient shrunk smoothly, $g\,/\sqrt{1+\|g\|^2/c^2}$, never longer than c."""

from dataclasses import dataclass

from theory.declared.rule import Gradient, Here, Moved, Rule


@dataclass(frozen=True)
class SmoothlyClipped(Rule):
    limit: float = 1.0

    def step(self, at: Here) -> Moved:
        gradient = at.gradient(at.rows, at.second)
        shrink = (1 + (gradient.rows.norms() / self.limit) ** 2) ** -0.5
        return self.along(at, Gradient(gradient.rows * shrink, gradient.second))


RULE = SmoothlyClipped
