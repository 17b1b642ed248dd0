"""Symbols of formulas: options of a problem by name and by letter, letters of its model, and what it predicts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from emergence.model import Model, Resolved, Simulation
from emergence.options import Problem, help_of, options
from emergence.refusal import refuse
from emergence.values import Expression, Number, Whole

#: Letters of options, as in the notation of the documentation; a model has those of the options that it has.
LETTERS = {
    "dim": "d", "teacher_width": "P", "student_width": "m", "teacher_exponent": "beta", "init_scale": "sigma0",
    "step_size": "eta", "batch": "B", "replicas": "R", "train_size": "n", "noise": "sigma", "sam_radius": "rho",
    "target_norm": "theta", "decay": "kappa", "speed_factor": "gamma",
}  # fmt: skip


def offered(model: Model) -> dict[str, str]:
    """Every symbol of a model's problems, with what it means."""
    found: dict[str, str] = {}
    for name, one in options(model.problem).items():
        kind = one.metadata["kind"]
        if isinstance(kind, Number | Whole) or (name == "step_size" and not isinstance(kind, Expression)):
            text = help_of(model.problem, name)
            found |= {LETTERS[name]: text} if name in LETTERS else {}
            found[name] = text
    found |= {name: symbol.text for name, symbol in model.symbols.items()}
    if model.predict is not None:
        found |= {name: f"as predict says: {name}" for name in model.predict.variables if name not in found}
    return found


@dataclass(frozen=True)
class Symbols:
    """Symbols of one resolved problem.

    Attributes:
        direction: from 1, the one that symbols of directions are about; None if none is named.
        more: symbols that the quantity adds.
    """

    model: Model
    problem: Problem
    resolved: Resolved
    direction: int | None = None
    more: Mapping[str, float] = field(default_factory=dict)

    def value(self, name: str) -> float:
        """Of one symbol. Raises `InputError` for one that has no value here, or one for each direction."""
        if name in self.more:
            return float(self.more[name])
        found = self._raw(name)
        values = np.asarray(np.nan if found is None else found, dtype=float)
        if values.ndim and values.size > 1 and self.direction is None:
            refuse(f"symbol {name!r} differs between {values.size} directions: give quantity.direction, from 1")
        if values.ndim:
            place = 0 if self.direction is None else self.direction - 1
            if not 0 <= place < values.size:
                refuse(f"quantity.direction is {self.direction}: give a whole number from 1 to {values.size}")
            values = values[place]
        if not np.isfinite(values):
            remedy = "leave it out of formulas" + ("" if found is None else ", or take other seeds")
            refuse(f"symbol {name!r} has no value for this problem ({self.resolved.headline()}): {remedy}")
        return float(values)

    def values(self, names: tuple[str, ...]) -> dict[str, float]:
        """Of some symbols. Raises `InputError` as `value` does."""
        return {name: self.value(name) for name in names}

    def _raw(self, name: str) -> Any:
        own = next((option for option, letter in LETTERS.items() if letter == name), name)
        if name in self.model.symbols:
            return self.model.symbols[name].value(self.resolved)
        if own in options(self.model.problem):
            found = self._echo.get(own)
            try:
                return None if found is None or isinstance(found, bool) else float(found)
            except (TypeError, ValueError):
                return None
        data = self._predicted
        return data[name].values if name in data and data[name].dims in ((), ("direction",)) else None

    @cached_property
    def _echo(self) -> dict[str, Any]:
        return self.resolved.echo()

    @cached_property
    def _predicted(self) -> Any:
        assert self.model.predict is not None
        simulation: Simulation = self.model.predict.simulation
        resolved = self.model.resolve(self.problem, simulation)
        return self.model.predict.data(resolved)
