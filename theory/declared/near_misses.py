r"""Who is all but there and turns back: rows whose squared correlation with a direction has a largest value short of ½ before
the flow finds it.

By noise such a row may find the direction then, long before the flow does, as one that wavers between two directions. With
$\lambda=\partial c/\partial w$ of its squared correlation c at that time, which is $c_*$ by the flow, steps of SGD make it
Gaussian to first order in the step size (as the times of `theory.declared.passage_law`, by the same integrals; derived):

$$P(c\ge\tfrac12)=\Phi\Big(\frac{c_*-\frac12+\delta}s\Big),\qquad s^2=\int\frac\eta B\operatorname{Var}(\lambda\cdot g)\,dt.$$
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from theory.declared.lone_row import FOUND
from theory.prediction.rivals import LOST
from theory.prediction.validity import Condition

#: Squared correlations below which what turns back counts as noise; and the share of runs that may go another way.
_LEAST, _RARE = 0.5 * FOUND, 0.01


@dataclass(frozen=True)
class NearMiss:
    """Row, direction, the time of its largest squared correlation, and that. All places from 0."""

    row: int
    p: int
    time: float
    value: float


def near_misses(begins: np.ndarray, curve: Callable[[float], np.ndarray], found: np.ndarray) -> list[NearMiss]:
    """Of each direction the nearest, if there is one.

    Args:
        begins: times of the flow (n,). curve: squared correlations (m, P) at a time. found: when directions are, (P,).
    """
    seen = np.array([curve(time) for time in begins])
    nearest = []
    for p in np.flatnonzero((found > 0) & np.isfinite(found)).tolist():
        own = seen[begins <= found[p]][..., p]
        inner = own[1:-1]
        tops = np.argwhere((inner > own[:-2]) & (inner >= own[2:]) & (inner >= _LEAST)).tolist()
        if tops:
            before, row = max(tops, key=lambda top: inner[tuple(top)])
            time, value = _top(curve, row, p, begins[before], begins[before + 2])
            nearest += [NearMiss(row, p, time, value)] if value < FOUND else []
    return nearest


def _top(curve: Callable[[float], np.ndarray], row: int, p: int, low: float, high: float) -> tuple[float, float]:
    """The largest value between two times."""
    best = minimize_scalar(lambda time: -curve(time)[row, p], bounds=(low, high), method="bounded")
    return float(best.x), float(-best.fun)


def turning_back(chance: float, time: float) -> Condition:
    """That hardly any run finds a direction at a time at which a row turns back by the flow."""
    sentence = (
        f"sooner: noise takes a row there by {time:.4g}, where it turns back by the flow, in {chance:.2g} of the runs"
    )
    return Condition("sooner", chance <= _RARE, chance, _RARE, sentence)


def straying(chance: float) -> Condition:
    """That hardly any run has the row of a direction go elsewhere (`theory.declared.passage_law.PassageLaw.lost`)."""
    sentence = f"lost: noise has its row lean as much to other directions by then in {chance:.2g} of the runs"
    return Condition("lost", chance <= LOST, chance, LOST, sentence)


def chance(miss: NearMiss, shift: float, variance: float) -> float:
    """That its squared correlation is ½ then: Gaussian, moved by `shift`."""
    gap = FOUND - miss.value - shift
    return float(ndtr(-gap / np.sqrt(variance))) if variance > 0 else float(gap <= 0)
