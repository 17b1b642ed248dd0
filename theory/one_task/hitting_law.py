r"""Mean and spread of the emergence time of one direction under SGD, from the one-task diffusion.

In gradient-flow time $t=\eta\cdot$steps the overlap of a light student obeys
$du=b\,dt+\sqrt{D}\,dW$, $b=a\varphi'(u)(1-u^2)-\eta K(u)$, $D=\eta N(u)$, with the derived laws of `theory.plateau`. Its
hitting time of level $h$ has mean $m$ and variance $V$ that solve the backward equations
$b\,m'+\tfrac D2m''=-1$ and $b\,V'+\tfrac D2V''=-D\,m'^2$, zero at $h$, reflected at 0 for an even activation and at $-h$
otherwise. (The variance has an equation of its own: as a difference of moments it would drown in rounding.) Valid while
the student is light and steps are small ($\eta N\ll u^2$).
"""

from dataclasses import dataclass

import numpy as np

from theory.core.activation import Activation
from theory.one_task.plateau import Plateau, plateau
from theory.one_task.single_task import SingleTask

#: Cells of the grid, geometric above a tenth of the start, so that every scale from the start to the level is resolved.
_CELLS = 20_000


@dataclass(frozen=True)
class HittingLaw:
    """Mean and standard deviation of the hitting time, in gradient-flow time (divide by η for steps)."""

    mean: float
    std: float


def hitting_law(
    activation: Activation,
    weight: float,
    overlap: float,
    step_size: float,
    total: float,
    dim: int,
    batch: int = 1,
    level: float = 0.5,
    constants: Plateau | None = None,
) -> HittingLaw:
    """Law of the time at which the squared overlap reaches `level`, started from the overlap `overlap`.

    Args:
        weight: a_p. overlap: signed initial overlap. step_size: η. total: Σa². dim: d. batch: samples per step.
        constants: second-order laws to use in place of the derived ones.
    """
    shrinkage, variance = (constants or plateau(activation)).laws(weight, total, dim, batch)
    even = activation.parity == "even"
    start, end = (abs(overlap) if even else overlap), float(np.sqrt(level))
    grid = _grid(start, end, even)
    middle = 0.5 * (grid[1:] + grid[:-1])
    drift = SingleTask(activation).speed(middle, weight) - step_size * shrinkage(middle)
    mean, variance_of_time = _solve(grid, drift, step_size * (variance(middle) + 0.0 * middle))
    spread = float(np.sqrt(max(np.interp(start, grid, variance_of_time), 0.0)))
    return HittingLaw(float(np.interp(start, grid, mean)), spread)


def _grid(start: float, end: float, even: bool) -> np.ndarray:
    """Nodes from the reflecting end to the level."""
    fine = max(min(abs(start), end) / 10, 1e-6 * end)
    half = np.concatenate([np.linspace(0.0, fine, _CELLS // 10, endpoint=False), np.geomspace(fine, end, _CELLS)])
    return half if even else np.concatenate([-half[:0:-1], half])


def _solve(grid: np.ndarray, drift: np.ndarray, diffusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance at the nodes, integrated from the reflecting end; exact for cells of constant coefficients.

    With $B'=2b/D$, $I_g(y)=\\int^ye^{B(w)-B(y)}g(w)dw$ obeys $I'=g-B'I$; $m'=-I_{2/D}$ and $V'=-I_{2m'^2}$.
    """
    width = np.diff(grid)
    exponent = np.maximum(2 * drift / diffusion * width, -700.0)  # against overflow where the drift points back
    small = np.abs(exponent) < 1e-4
    safe = np.where(small, 1.0, exponent)
    # First and second averages of e^{-x s} over a cell, by series where x is small.
    first = np.where(small, 1 - exponent / 2 + exponent**2 / 6, -np.expm1(-safe) / safe)
    second = np.where(small, 0.5 - exponent / 6, (1 - first) / safe)
    cells = _sweep(np.exp(-exponent), width, first, second, 2 / diffusion)
    slope = cells / width  # −m', averaged over each cell
    variance = _sweep(np.exp(-exponent), width, first, second, 2 * slope**2)
    return _from_end(cells), _from_end(variance)


def _sweep(
    decay: np.ndarray, width: np.ndarray, first: np.ndarray, second: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """∫ I over each cell, I carried from cell to cell by I ← I·decay + source·width·first."""
    nodes = np.zeros(width.size)
    value = 0.0
    for i, (factor, gain) in enumerate(zip(decay.tolist(), (source * width * first).tolist(), strict=True)):
        nodes[i] = value
        value = value * factor + gain
    return nodes * width * first + source * width**2 * second


def _from_end(cells: np.ndarray) -> np.ndarray:
    """Sum of the cells from each node to the level."""
    return np.append(np.cumsum(cells[::-1])[::-1], 0.0)
