r"""How rare the samples are that move a student: the kurtosis of one sample's kick, and how many of them a run holds.

On the plateau a light student's overlap with direction p is kicked by $\eta\xi$, $\xi=f_*(x)\sigma'(z)x_p$, with z independent
of the teachers. A diffusion knows ξ by its variance alone. A sum of n of them is Gaussian once
$n\gg\beta_2=E\xi^4/(E\xi^2)^2$: its own excess kurtosis is $(\beta_2-3)/n$, and its quadratic variation, which a diffusion
takes for certain, fluctuates by the share $\sqrt{(\beta_2-1)/n}$. ξ is a polynomial of degree 2J in Gaussians, so that
$\beta_2$ is large, and grows fast with J. Derived here.
"""

from collections.abc import Sequence

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import z
from theory.core.quadrature import gauss_hermite


def kick_kurtosis(activation: Activation, weights: Sequence[float], direction: int = 0) -> float:
    r"""$\beta_2=E\xi^4/(E\xi^2)^2$ at overlap 0; teacher weights (P,), direction counted from 0.

    Exact: the moments of a sum of independent terms by their recurrence, each by Gaussian quadrature of sufficient order.

    Raises: `InputError` for an activation that is no polynomial, or a direction that is none.
    """
    activation.require_polynomial("the kurtosis of a kick")
    if not 0 <= direction < len(weights):
        raise InputError(f"direction is {direction!r}: give an index from 0 to {len(weights) - 1}")
    points, share = gauss_hermite(2 * activation.degree + 4)  # exact for degree 4J + 4
    sigma = _values(activation.function, points)
    slope = _values(sp.diff(activation.function, z), points)
    powers = sigma[None] ** np.arange(5)[:, None]
    others = np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # moments of Σ_{q≠p} a_q σ(x_q)
    for place, weight in enumerate(weights):
        if place != direction:
            others = _of_sum(others, weight ** np.arange(5) * (powers @ share))
    own = weights[direction] ** np.arange(5)
    second, fourth = (
        _of_sum(others, own * (powers @ (share * points**order)), order)[order] * float(share @ slope**order)
        for order in (2, 4)
    )
    return float(fourth / second**2)


def _values(polynomial: sp.Expr, points: np.ndarray) -> np.ndarray:
    return sp.lambdify(z, polynomial, "numpy")(points) + 0.0 * points


def _of_sum(first: np.ndarray, second: np.ndarray, highest: int = 4) -> np.ndarray:
    """Moments (or weighted ones) of a sum of independent variables from theirs, orders 0 … highest."""
    binomial = [[sp.binomial(n, i) for i in range(n + 1)] for n in range(highest + 1)]
    return np.array(
        [sum(float(b) * first[i] * second[n - i] for i, b in enumerate(row)) for n, row in enumerate(binomial)]
    )
