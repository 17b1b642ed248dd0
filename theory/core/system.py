"""The immutable exchange object: what theory writes, and integrators and checks read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import sympy as sp

from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, display, equation
from theory.core.indexed import Dual, Sums, reads

#: The parts of a system that its derivation stands for.
_DERIVED = ("activation", "drift", "observables", "closed_form", "definitions", "noise", "covariance")


def component_steps(
    drift: Mapping[sp.Indexed, Sums],
    title: str,
    residual: Callable[[sp.Indexed, Sums], sp.Expr],
    tolerance: float,
    mark: str = r"\dot {}",
) -> tuple[tuple[Step, ...], dict[str, sp.Expr]]:
    """A step for the rate of each component, checked by `residual`, and the rates by the names that they are shown with.

    Args:
        title: a format of the component. mark: of its name; the rate's own.
    """
    equations = component_equations(drift, mark)
    steps = (
        Step(title.format(component), equation(name, rate), reads(partial(residual, component)), tolerance)
        for component, (name, rate) in zip(drift, equations.items(), strict=True)
    )
    return tuple(steps), equations


def component_equations(drift: Mapping[sp.Indexed, Sums], mark: str = r"\dot {}") -> dict[str, sp.Expr]:
    """The rates by their names."""
    names = (rf"{component.base}_{{{''.join(map(str, component.indices))}}}" for component in drift)
    return {mark.format(name): sums.as_sympy() for name, sums in zip(names, drift.values(), strict=True)}


@dataclass(frozen=True)
class System:
    r"""Reduced dynamics $dy = F(y)\,dt$ in indexed symbols, or $dy = F\,dt + G\,dB$ (Itô) where there is noise.

    Attributes:
        name: e.g. ``"overlap-flow"``.
        activation: the activation whose dual kernel the symbol φ stands for; None where φ does not occur.
        drift: component (e.g. ``t[k, q]``) → its time derivative, as `Sums`.
        observables: name → `Sums` without free indices (e.g. the loss).
        parameters: names of the arrays that are constant in time (e.g. ``"a"``).
        derivation: the steps that lead here, with their checks. It remembers the first system that it was given to; in
            any other its `verify` and `latex` say which parts were replaced and are not derived.
        time_unit: what one unit of time is.
        limit: the limit in which the equations hold.
        closed_form: name → expression, where the system is solved.
        definitions: symbol (``e[i]`` or a plain one) → `Sums` that stand for it everywhere else; evaluated in order,
            so that each may use those before it.
        noise: component → its noise term per $\sqrt{\text{time}}$, linear in independent Brownian increments ``B[...]``.
        covariance: pair of components → $\mathrm{Cov}(dy_1, dy_2)/dt$, where the noise has no natural factors.
    """

    name: str
    activation: Activation | None
    drift: Mapping[sp.Indexed, Sums]
    observables: Mapping[str, Sums]
    parameters: tuple[str, ...]
    derivation: Derivation
    time_unit: str
    limit: str
    closed_form: Mapping[str, sp.Expr] = field(default_factory=dict)
    definitions: Mapping[sp.Symbol | sp.Indexed, Sums] = field(default_factory=dict)
    noise: Mapping[sp.Indexed, Sums] = field(default_factory=dict)
    covariance: Mapping[tuple[sp.Indexed, sp.Indexed], Sums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = {name: getattr(self, name) for name in _DERIVED}
        derived = parts if self.derivation.derived is None else self.derivation.derived
        replaced = tuple(name for name in _DERIVED if parts[name] != derived[name])
        object.__setattr__(self, "derivation", replace(self.derivation, derived=derived, replaced=replaced))

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the state arrays, in the order of `drift`."""
        return tuple(str(component.base) for component in self.drift)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.derivation.assumptions

    @property
    def reference(self) -> str:
        return self.derivation.reference

    def concrete(self, expression: sp.Expr) -> sp.Expr:
        """`expression` with φ replaced by the activation's own kernel."""
        return expression if self.activation is None else expression.replace(Dual, self.activation.kernel_at)

    def _repr_latex_(self) -> str:
        """What a notebook shows: the rate of each component."""
        return display(component_equations(self.drift))

    def equations(self, concrete: bool = False) -> dict[str, sp.Expr]:
        """LaTeX of each component → right-hand side; with the activation's own kernel if `concrete`."""
        pairs = {sp.latex(component): sums.as_sympy() for component, sums in self.drift.items()}
        return {name: self.concrete(rhs) for name, rhs in pairs.items()} if concrete else pairs
