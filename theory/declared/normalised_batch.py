r"""Normalised gradients of a batch: the drift of one direction as an integral over a single variable.

With $p_s=y_s\sigma'(z_s)$ the gradient of b samples has length $\sqrt{d\sum p_s^2}/b$ for $d\gg b$, so that a step of length γ
moves the overlap by $\gamma d^{-1/2}\sqrt{1-u^2}\sum_sp_sq_s/\sqrt{\sum_tp_t^2}$. As
$x^{-1/2}=\frac2{\sqrt\pi}\int_0^\infty e^{-t^2x}dt$ and samples are independent (derived),

$$\sqrt d\,\frac{E\,\Delta u}\gamma=\frac{2b}{\sqrt\pi}(1-u^2)\int_0^\infty\sum_i\nu_i(t)u^{i-1}M_u(t)^{b-1}dt,\quad
M_u=E\,e^{-t^2p^2},$$

$\nu_i(t)$ those of $\psi=pe^{-t^2p^2}$ (`theory.declared.one_direction`). For large b the square root varies little:
$\nu_i\simeq\sqrt{b/E p^2}\,E\,pHe_iHe_{i-1}/(i-1)!$, plain SGD's; where those vanish,
$-E\,p^3He_i(a)He_{i-1}(b)/(2\sqrt b(Ep^2)^{3/2}(i-1)!)$. At b = 1 p counts by its sign.
"""

from math import factorial
from typing import Any

import numpy as np

from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.core.quadrature import gauss_legendre
from theory.declared.one_direction import grid, psi
from theory.declared.rule import Rule
from theory.declared.student import Student
from theory.declared.target import Target

#: Hermite degrees; panels of t/(1 + t) and points of each.
_DEGREES, _PANELS, _POINTS = 16, 8, 12


def normalised_drift(student: Student, target: Target, loss: Any, batch: int, u: float) -> float:
    r"""$\sqrt d\,E\,\Delta u/\gamma$ of a step of length γ at overlap u, a scalar; exact for $d\gg b$.

    Args:
        target: of one direction. loss: as for `theory.declared.one_direction.psi`. batch: b, 2 or more.

    Raises `InputError` for a target of more directions, a smaller batch, |u| above ½, and as `psi` does.
    """
    check_whole(2, batch=batch)
    if target.count != 1 or not abs(u) <= 0.5:
        raise InputError(f"target has {target.count} directions, overlap is {u!r}: give one direction, |u| up to 0.5")
    points = grid(student, target, loss, _DEGREES)
    p = psi(student, loss, Rule(1.0), points.labels, points.fields, 1.0)
    edges = np.linspace(0, 1, _PANELS + 1)
    x, weights = (v.ravel() for v in gauss_legendre(edges[:-1], edges[1:], _POINTS))
    scale = points.table(p**2)[0, 0] ** -0.5
    order = np.arange(_DEGREES + 1)
    powers = np.array([u**n / factorial(n) for n in order])
    total = 0.0
    for t, weight in zip(scale * x / (1 - x), scale * weights / (1 - x) ** 2, strict=True):
        damped = np.exp(-((t * p) ** 2))
        ahead = np.diagonal(points.table(p * damped), -1) @ powers[:-1]
        total += weight * ahead * float(np.diagonal(points.table(damped)) @ powers) ** (batch - 1)
    return float(2 * batch / np.sqrt(np.pi) * (1 - u * u) * total)
