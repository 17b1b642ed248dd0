r"""The stability map: up to which step size the mean drift of one step still learns a direction.

On the plateau a student with overlap u on a direction of weight a grows by $\eta a\varphi'(u)(1-u^2)$ and shrinks by
$\eta^2K(u;a,d)$ per step (`theory.plateau`). The drift vanishes at

$$\eta_c(u)=\frac{a\varphi'(u)(1-u^2)}{K(u)},\qquad
\eta_c\simeq\frac{2a\,u^{J-2}}{d+2J-1+8Ja^2}\ \text{ for }h_J,\ \sum a^2=1,\ u\to0,$$

and with u of the order of $d^{-1/2}$ the boundary is at $\eta\propto a\,d^{-J/2}$ (arXiv:2504.19983, Theorem 2.1 and
Corollary 2.3). It is the boundary of the *drift*: fluctuations delay recovery, and spread it, well below.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.one_task.plateau import plateau, signal


def critical_step(activation: Activation) -> sp.Expr:
    r"""$\eta_c(u)$ as an expression in `theory.plateau`'s symbols u, a, A (Σa²) and d."""
    return sp.cancel(signal(activation) / plateau(activation).shrinkage_law)


@dataclass(frozen=True)
class StabilityMap:
    """Critical step sizes on a grid.

    Attributes:
        dims: (n,) dimensions. weights: (k,) teacher weights. critical: (n, k) η_c at the start.
        reach: start overlap times √d.
    """

    dims: np.ndarray
    weights: np.ndarray
    critical: np.ndarray
    reach: float


def stability_map(
    activation: Activation,
    dims: Sequence[int],
    weights: Sequence[float],
    reach: float,
    total: float = 1.0,
    batch: int = 1,
) -> StabilityMap:
    r"""$\eta_c$ for students that start with overlap `reach`/√d.

    Args:
        reach: g, e.g. √(2 ln m) for the best of m random students. total: $\sum_pa_p^2$. batch: samples per step.

    Raises: `InputError` for an empty grid, or a start overlap that is not between 0 and 1.
    """
    sizes, masses = np.asarray(dims, dtype=float), np.asarray(weights, dtype=float)
    if sizes.size == 0 or masses.size == 0 or np.any(sizes < 1) or np.any(masses <= 0):
        raise InputError("stability map: give dimensions of 1 or more and positive weights")
    if not 0 < reach < np.sqrt(sizes.min()):
        raise InputError(f"reach is {reach!r}: the start overlap reach/sqrt(dim) must lie between 0 and 1")
    constants = plateau(activation)
    critical = np.array(
        [[constants.critical_step(w, reach / np.sqrt(n), total, int(n), batch) for w in masses] for n in sizes]
    )
    return StabilityMap(sizes, masses, critical, reach)
