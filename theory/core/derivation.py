"""A derivation as data: named steps, each with an equation and a check that can fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sympy as sp

from theory.core import matrices

#: Significant digits at which identities are checked when they are not checked symbolically.
CHECK_DIGITS = 40


class DerivationError(AssertionError):
    """A step of a derivation does not hold."""


@dataclass(frozen=True)
class Step:
    """One step: a title, the equation it establishes, and how that equation is checked.

    Args:
        title: what the step does, in a few words.
        equation: a SymPy relation (or any expression that prints as LaTeX).
        residual: takes the equation's right-hand side as it is shown (`claim`) and returns an expression that is zero if
            and only if that is right. It is computed on a road of its own (other coordinates, explicit numbers), never from
            the equation's own derivation. ``None`` marks a definition, which has nothing to check.
        tolerance: largest residual accepted: 1e-30 for exact coefficients, more only for those known as doubles.
    """

    title: str
    equation: sp.Basic
    residual: Callable[[sp.Basic], sp.Expr] | None = field(default=None, compare=False)
    tolerance: float = 1e-30

    @property
    def is_definition(self) -> bool:
        return self.residual is None

    @property
    def claim(self) -> sp.Basic:
        """What the step says: the right-hand side of its equation, the very object that `latex` prints."""
        return self.equation.rhs if isinstance(self.equation, sp.Equality) else self.equation

    def verify(self) -> None:
        """Raise `DerivationError` unless the step's residual vanishes (exactly, or within `tolerance`)."""
        if self.residual is None:
            return
        residual = sp.sympify(self.residual(self.claim))
        if residual == 0:
            return
        if residual.free_symbols or not sp.N(residual).is_finite:
            raise DerivationError(f"step {self.title!r} does not hold: its residual {str(residual)[:80]} is not 0")
        size = abs(sp.N(residual, CHECK_DIGITS))
        if not size < self.tolerance:
            raise DerivationError(f"step {self.title!r} does not hold: its residual is {sp.N(size, 5)}, not 0")

    def latex(self) -> str:
        return matrices.latex(self.equation)

    def _repr_latex_(self) -> str:
        """What a notebook shows."""
        return display({"": self.equation})


def display(equations: Mapping[str, sp.Basic]) -> str:
    """Left-hand sides (LaTeX) and right-hand sides as a notebook shows them: a display, one equation in a row."""
    rows = [
        f"{left} &= {matrices.latex(right)}" if left else f"& {matrices.latex(right)}"
        for left, right in equations.items()
    ]
    return "$$\\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$$"


def equation(left: str | sp.Basic, right: sp.Basic) -> sp.Eq:
    """left = right, unevaluated; a text is the LaTeX of a symbol."""
    return sp.Eq(sp.Symbol(left) if isinstance(left, str) else left, right, evaluate=False)


@dataclass(frozen=True)
class Assumption:
    """A condition under which a result holds, as data: a sentence, and whether it is met where that is known."""

    text: str
    met: bool | None = None

    def __str__(self) -> str:
        return self.text if self.met is None else f"{self.text} [{'met' if self.met else 'NOT met'}]"


@dataclass(frozen=True)
class Derivation:
    """A named sequence of steps that ends in equations.

    ``equations`` maps the left-hand side's LaTeX to the right-hand side (a SymPy expression). ``derived`` holds the parts
    of the `System` that the steps lead to, and ``replaced`` the names of those that the system at hand has otherwise:
    `System` sets both.
    """

    name: str
    steps: tuple[Step, ...]
    equations: dict[str, sp.Expr]
    assumptions: tuple[Assumption, ...]
    reference: str
    derived: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    replaced: tuple[str, ...] = ()

    def verify(self) -> int:
        """Check every step; return how many had something to check. Raises `DerivationError` at the first failure.

        A system whose parts were replaced is not the one derived: that is a failure too.
        """
        if self.replaced:
            raise DerivationError(f"{self.name}: {self._notice()}")
        for step in self.steps:
            step.verify()
        return sum(not step.is_definition for step in self.steps)

    def latex(self) -> str:
        """The whole derivation as LaTeX, one display per step."""
        displays = [f"% {step.title}\n\\[ {step.latex()} \\]" for step in self.steps]
        return "\n\n".join([*([f"% {self._notice()}"] if self.replaced else []), *displays])

    def _repr_latex_(self) -> str:
        """What a notebook shows: the equations that the steps end in."""
        return display(self.equations)

    def _notice(self) -> str:
        return f"{', '.join(self.replaced)} replaced: not derived"
