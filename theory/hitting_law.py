r"""Mean and spread of the emergence time of one direction under SGD, from the one-task diffusion.

In gradient-flow time $t=\eta\cdot$steps the overlap of a light student obeys
$du=b\,dt+\sqrt{D}\,dW$, $b=a\varphi'(u)(1-u^2)-\eta K(u)$, $D=\eta N(u)$, with the derived laws of `theory.plateau`. Its
hitting time of level $h$ has mean $m_1$ and second moment $m_2$ that solve the backward equations
$b\,m_1'+\tfrac D2m_1''=-1$, $b\,m_2'+\tfrac D2m_2''=-2m_1$, $m_i(h)=0$, reflected at 0 for an even activation and at
$-h$ otherwise. Valid while the student is light and steps are small ($\eta N\ll u^2$).
"""

from dataclasses import dataclass

import numpy as np

from theory.activation import Activation
from theory.plateau import plateau
from theory.single_task import SingleTask

_CELLS = 40_000


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
) -> HittingLaw:
    """Law of the time at which the squared overlap reaches `level`, started from the overlap `overlap`.

    Args:
        weight: a_p. overlap: signed initial overlap. step_size: η. total: Σa². dim: d. batch: samples per step.
    """
    shrinkage, variance = plateau(activation).laws(weight, total, dim, batch)
    even = activation.parity == "even"
    start, end = (abs(overlap) if even else overlap), float(np.sqrt(level))
    grid = np.linspace(0.0 if even else -end, end, _CELLS + 1)
    middle = 0.5 * (grid[1:] + grid[:-1])
    drift = SingleTask(activation)._rate(middle, weight) - step_size * shrinkage(middle)
    return _solve(grid, drift, step_size * (variance(middle) + 0.0 * middle), start)


def _solve(grid: np.ndarray, drift: np.ndarray, diffusion: np.ndarray, start: float) -> HittingLaw:
    """Integrate the two backward equations from the reflecting end by an exponential (Scharfetter–Gummel) rule.

    With $B'=2b/D$, $I_g(y)=\\int^y e^{B(w)-B(y)}\\tfrac{2g(w)}{D(w)}dw$ obeys $I'=2g/D-B'I$ and $m_i'=-I_{g_i}$.
    """
    slope = 2 * drift / diffusion
    width = np.diff(grid)
    decay = np.exp(-np.clip(slope * width, -700, 700))
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(np.abs(slope * width) > 1e-8, (1 - decay) / slope, width) * 2 / diffusion
    first = _survival(decay, gain, np.ones_like(width))
    mean = _from_end(first, width)
    second = _survival(decay, gain, mean[1:] + mean[:-1])
    square = _from_end(second, width)
    m1, m2 = np.interp(start, grid, mean), np.interp(start, grid, square)
    return HittingLaw(float(m1), float(np.sqrt(max(m2 - m1 * m1, 0.0))))


def _survival(decay: np.ndarray, gain: np.ndarray, source: np.ndarray) -> np.ndarray:
    """I at the nodes, by the recurrence I ← I·decay + gain·source."""
    out = np.zeros(decay.size + 1)
    value = 0.0
    for i, (x, y) in enumerate(zip(decay.tolist(), (gain * source).tolist(), strict=True)):
        value = value * x + y
        out[i + 1] = value
    return out


def _from_end(survival: np.ndarray, width: np.ndarray) -> np.ndarray:
    """m(u) = ∫_u^h I, at the nodes."""
    cells = 0.5 * (survival[1:] + survival[:-1]) * width
    return np.append(np.cumsum(cells[::-1])[::-1], 0.0)
