"""Formulas of a conjecture: safe expressions in named symbols; nothing is ever executed from their text."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from emergence.refusal import refuse
from emergence.values import shown
from theory.core.activation_text import ACTIVATION, Grammar

#: Characters of a formula, at most.
LONGEST = 500
#: Whole numbers beyond are no numbers to NumPy.
_WHOLE = 2**53


@dataclass(frozen=True)
class Formula:
    """An expression in symbols. `label`: where it stands, for refusals."""

    label: str
    text: str
    expression: sp.Expr

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The symbols in it, in alphabetical order."""
        return tuple(sorted(str(symbol) for symbol in self.expression.free_symbols))

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value, elementwise, where the symbols have these values; not finite where it has none."""
        found = {name: values[name] for name in self.names}
        with np.errstate(all="ignore"):
            try:
                return self._function(*found.values())
            except OverflowError:
                return np.inf

    def number(self, values: Mapping[str, float]) -> float:
        """Its value as a number. Raises `InputError` where that is not finite."""
        plain = {name: np.float64(values[name]) for name in self.names}
        found = self.value(plain)
        if np.iscomplexobj(found) or not np.isfinite(found):
            where = ", ".join(f"{name} = {value:.6g}" for name, value in plain.items())
            refuse(f"{self.label} is {shown(self.text)}: it has no finite value where {where}: mend it")
        return float(found)

    @cached_property
    def _function(self) -> Any:
        long = {x: sp.N(x) for x in self.expression.atoms(sp.Rational) if max(abs(x.p), x.q) > _WHOLE}
        plain = self.expression.xreplace(long)
        return sp.lambdify([sp.Symbol(name) for name in self.names], plain, ["scipy", "numpy"])


def formula(label: str, text: object, known: Collection[str]) -> Formula:
    """Read a formula in the symbols `known`; a number stands for itself.

    Raises `InputError` for anything but plain arithmetic, the functions of activations and these symbols.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        refuse(f"{label} is {shown(text)}: give a formula as text")
    text = str(text)
    if len(text) > LONGEST:
        refuse(f"{label} is {shown(text)}: it is longer than {LONGEST} characters: shorten it")
    names = frozenset(known)
    grammar = Grammar(
        label,
        f"numbers, + - * / **, exp, log, sqrt …, and the symbols {', '.join(sorted(names))}",
        lambda name: sp.Symbol(name) if name in names else sp.pi if name == "pi" else None,
        ACTIVATION.function,
        lambda expression: 0,
        tuple(sorted(names)),
        any_power=True,
    )
    return Formula(label, text, grammar.parse(text))
