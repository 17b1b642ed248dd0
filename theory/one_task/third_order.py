r"""Third order of one SGD step: how far the second-order boundary of the step size can be trusted.

A light student steps by $g=f_*(\chi\bar v+\sigma'x)$ (see `theory.one_task.plateau`). With $g_p=g\cdot e_p$,
$g_r=g\cdot\bar v$, $G=|g|^2$, the overlap after normalisation moves by
$$E\,du=\eta s-\eta^2K+\eta^3C_3,\qquad
C_3=E\big[u(\tfrac32g_rG-\tfrac52g_r^3)-\tfrac12g_pG+\tfrac32g_pg_r^2\big],$$
a polynomial expectation, evaluated here by Gaussian quadrature that is exact for its degree. To this order the step size at
which the mean motion vanishes is $\eta_c(1+\eta_cC_3/K)$.
"""

from dataclasses import replace

import numpy as np

from theory.core.activation import Activation
from theory.core.quadrature import gauss_hermite, product_rule
from theory.one_task.plateau import Plateau


def with_third_order(
    laws: Plateau, weight: float, overlap: float, step_size: float, dim: int, total: float = 1.0
) -> Plateau:
    r"""The laws with the third order of a step's mean added, $K\to K(1-\eta C_3/K)$, the ratio taken at `overlap`.

    Args:
        laws: K and N. weight: of the direction. total: Σa²; what other directions hold of it counts as one of them.

    Raises `InputError` for an activation that is no polynomial.
    """
    other = float(np.sqrt(max(total - weight**2, 0.0)))
    shrinkage = float(laws.laws(weight, total, dim)[0](overlap))
    ratio = third_order(laws.activation, weight, other, overlap, dim) / shrinkage
    return replace(laws, shrinkage_law=laws.shrinkage_law * (1 - step_size * ratio))


def third_order(activation: Activation, weight: float, other: float, overlap: float, dim: int) -> float:
    """C₃ at overlap u with the direction of weight `weight`, beside one other direction of weight `other`, d ≥ 4.

    Raises `InputError` for an activation that is no polynomial.
    """
    activation.require_polynomial("the third order of a step")
    sigma, slope = activation.arrays(), activation.arrays(1)
    order = 3 * activation.degree + 2  # exact for degree 2·order − 1, at least that of g³
    points, mass = product_rule(*[gauss_hermite(order)] * 3)
    x, y, f = points.T
    own = overlap * x + np.sqrt(1 - overlap**2) * y
    target = weight * sigma(x) + other * sigma(f)
    chi = 2 * sigma(own) - own * slope(own)
    along, towards = 2 * sigma(own) * target, target * (chi * overlap + slope(own) * x)
    # |x|² enters G linearly, so the other d − 3 coordinates count with their mean.
    square = target**2 * (chi**2 + 2 * own * chi * slope(own) + slope(own) ** 2 * (x**2 + y**2 + f**2 + dim - 3))
    cubic = overlap * (1.5 * along * square - 2.5 * along**3) - 0.5 * towards * square + 1.5 * towards * along**2
    return float(np.sum(mass * cubic))
