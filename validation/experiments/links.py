"""Links with few values, and rules whose look-ahead goes with their step size."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from scipy.special import ndtr

from theory.core.hermite import z
from theory.declared.rule import Here, Moved, Rule
from theory.declared.target import Lower


@dataclass(frozen=True)
class Steps:
    r"""Values between thresholds of |a|, times sgn a if `odd`.

    Attributes:
        thresholds: (n,) increasing. levels: (n + 1,), from 0 outwards.
    """

    thresholds: tuple[float, ...]
    levels: tuple[float, ...]
    odd: bool = True
    count: int = 1

    def value(self, fields: Any, lower: Lower) -> Any:
        """Of fields (…, 1), shape (…)."""
        inner = zip(self.levels[:-1], self.thresholds, strict=True)
        label = sp.Piecewise(*[(level, sp.Abs(z) < edge) for level, edge in inner], (self.levels[-1], True))
        return lower(sp.sign(z) * label if self.odd else label, (z,))(fields[..., 0])


def three_valued() -> Steps:
    """Odd: −1 beyond 2, c within, E ya = 0: information exponent 3, generative exponent 1."""
    inner = float(np.exp(-2.0) / (1 - np.exp(-2.0)))
    return Steps((2.0,), (inner, -1.0))


def binary() -> Steps:
    """Odd: 1 within √(2 ln 2), −1 beyond, so that E ya = 0: information and generative exponent 3."""
    return Steps((float(np.sqrt(2 * np.log(2))),), (1.0, -1.0))


def even_valued() -> Steps:
    """Even, thresholds 1 and 2, E y = E y He₂ = 0: information exponent 4, generative exponent 2."""
    edges = np.array([0.0, 1.0, 2.0, np.inf])
    density = np.append(np.exp(-(edges[:-1] ** 2) / 2) * edges[:-1], 0.0)
    levels = np.cross(np.diff(ndtr(edges)), -np.diff(density))
    return Steps((1.0, 2.0), tuple((levels / levels[-1]).tolist()), odd=False)


@dataclass(frozen=True)
class Again(Rule):
    """The gradient is taken at v − ratio · η · g: look-ahead that goes with the step size, one code for all dimensions."""

    ratio: float = 1.0

    def step(self, at: Here) -> Moved:
        first = at.gradient(at.rows, at.second)
        return self.along(at, at.gradient(at.rows - first.rows * (self.ratio * at.step_size), at.second))


@dataclass(frozen=True)
class Anew(Rule):
    """Alternating layers whose second one begins every step at the same value: it takes a step of ratio · η, then the rows."""

    ratio: float = 1.0

    def step(self, at: Here) -> Moved:
        second = at.second - self.ratio * at.step_size * at.gradient(at.rows, at.second).second
        return Moved(self.along(at, at.gradient(at.rows, second)).rows, at.second)
