r"""The stability map: up to which step size the mean drift of one step still learns a direction.

On the plateau a student with overlap u on a direction of weight a grows by $\eta a\varphi'(u)(1-u^2)$ and shrinks by
$\eta^2K(u;a,d)$ per step (`theory.plateau`). The drift vanishes at

$$\eta_c(u)=\frac{a\varphi'(u)(1-u^2)}{K(u)},\qquad
\eta_c\simeq\frac{2a\,u^{J-2}}{d+2J-1+8Ja^2}\ \text{ for }h_J,\ \sum a^2=1,\ u\to0,$$

and with u of the order of $d^{-1/2}$ the boundary is at $\eta\propto a\,d^{-J/2}$ (arXiv:2504.19983, Theorem 2.1 and
Corollary 2.3). It is the boundary of the *drift*: fluctuations delay recovery, and spread it, well below.

What has been found is held up to another step size (`largest_held`). An error δ of a student at rest on its direction, $r=a$,
steps to $\delta-\eta gg^\top\delta$, $g=\nabla_vf=\sqrt a\{2\sigma(z)\bar v+\sigma'(z)x_\perp\}$. In few dimensions that is
the smaller of the two, and for large batches, with which $\eta_c$ grows on while this ends at the step of descent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.quadrature import gauss_hermite
from theory.one_task.plateau import plateau, signal

#: Of a quadrature of fourth powers: exact for polynomials up to degree 19.
_POINTS = 80


def critical_step(activation: Activation) -> sp.Expr:
    r"""$\eta_c(u)$ as an expression in `theory.plateau`'s symbols u, a, A (Σa²) and d."""
    return sp.cancel(signal(activation) / plateau(activation).shrinkage_law)


def largest_held(activation: Activation, weight: float, dim: int, batch: float = 1) -> float:
    r"""The step size from which mean squares about a found direction grow: single runs are thrown off it, soon most of them.

    $C=E\,\delta\delta^\top$ has a part along the student, $c_r$, and one across it, $c_t$ in each of d − 1 dimensions. With
    $H=E\,gg^\top$ it steps to $C-\eta(HC+CH)+\eta^2\{(1-\frac1b)HCH+\frac1bE\,g(g^\top Cg)g^\top\}$: two equations, stable up
    to the smaller root of $(2h_r-\eta m_r)(2h_t-\eta m_t)=\eta^2m_{rt}m_{tr}$,
    $$h_r=4aE\sigma^2,\quad h_t=aE\sigma'^2,\quad m_r=(1-\tfrac1b)h_r^2+\tfrac{16a^2}bE\sigma^4,\quad
    m_t=(1-\tfrac1b)h_t^2+\tfrac{a^2}b(d+1)E\sigma'^4,\quad m_{rt}m_{tr}=(d-1)\Big(\tfrac{4a^2}bE\sigma^2\sigma'^2\Big)^2.$$
    Exact for one student that fits its direction by itself, labels without noise (derived). Args: activation, $a_p$, d of 2 or
    more, b; ``inf`` for gradient descent.
    """
    rest = _at_rest(activation, weight, dim, batch)
    mixed = (dim - 1) * rest.mixed**2
    sum_, apart = (
        rest.along * rest.spreads + rest.across * rest.stays,
        rest.along * rest.spreads - rest.across * rest.stays,
    )
    whole = sum_ + float(np.sqrt(apart**2 + 4 * rest.along * rest.across * mixed))
    return 4 * rest.along * rest.across / whole if whole > 0 else float("inf")  # (of a jump the points see no slope)


def excess_at_rest(
    activation: Activation, weights: Sequence[float], dim: int, step_size: float, batch: int, variance: float
) -> tuple[float, float]:
    r"""What noise on labels keeps the loss of SGD above its rest at, by students that fit these directions, and 𝒦 < 1.

    By the recursion of `largest_held` with $\eta^2\frac{s^2}bH$ added, where $s^2$ is the variance of the labels' noise and of
    what the other students miss, a student keeps $2\mathcal L_p=h_rc_r+(d-1)h_tc_t=k_ps^2$, so that
    $$2\mathcal L=\frac{\mathcal K}{1-\mathcal K}\varsigma^2,\qquad\mathcal K=\sum_p\frac{k_p}{1+k_p}$$
    (derived; to leading order $\mathcal K=\frac\eta{2b}\sum_pa_p(4\varphi(1)+(d-1)\varphi'(1))$). Beyond what is held
    (inf, 1).
    """
    total = 0.0
    for weight in weights:
        rest = _at_rest(activation, weight, dim, batch)
        if step_size >= largest_held(activation, weight, dim, batch):
            return float("inf"), 1.0
        own, mixed = np.array([rest.along, rest.across]), step_size * rest.mixed
        matrix = np.diag(2 * own - step_size * np.array([rest.stays, rest.spreads]))
        matrix -= np.array([[0.0, (dim - 1) * mixed], [mixed, 0.0]])
        kept = float(own * [1, dim - 1] @ np.linalg.solve(matrix, step_size / batch * own))
        total += kept / (1 + kept)
    return (0.5 * variance * total / (1 - total) if total < 1 else float("inf")), total


class _Rest(NamedTuple):
    """$h_r$, $h_t$, $m_r$, $m_t$ of `largest_held`, and the root of $m_{rt}m_{tr}$ for each of d − 1 dimensions."""

    along: float
    across: float
    stays: float
    spreads: float
    mixed: float


def _at_rest(activation: Activation, weight: float, dim: int, batch: float) -> _Rest:
    points, weights = gauss_hermite(_POINTS)
    value, slope = activation.arrays(0)(points), activation.arrays(1)(points)
    along, across = 4 * weight * float(weights @ value**2), weight * float(weights @ slope**2)
    scale = weight**2 / batch
    stays = (1 - 1 / batch) * along**2 + 16 * scale * float(weights @ value**4)
    spreads = (1 - 1 / batch) * across**2 + scale * (dim + 1) * float(weights @ slope**4)
    return _Rest(along, across, stays, spreads, 4 * scale * float(weights @ (value * slope) ** 2))


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
