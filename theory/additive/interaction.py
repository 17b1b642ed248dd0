r"""How much light students see of each other on the plateau (arXiv:2504.19983, Lemma C.2: a bound; the law derived).

Student l moves overlap $t_{kq}$ of student k at the rate $-r_l\varphi'(c_{kl})(t_{lq}-c_{kl}t_{kq})$
(`theory.additive.flow`). At a random start $\bar v_l=c\bar v_k+\sqrt{1-c^2}\,n$ with n uniform on the sphere across
$\bar v_k$, of either sign, so that students add up as a random walk:

$$E\Big(\sum_{l\ne k}r_l\varphi'(c_{kl})(t_{lq}-c_{kl}t_{kq})\Big)^2
=\sum_{l\ne k}r_l^2\;E[\varphi'(c)^2(1-c^2)]\;\frac{1-t_{kq}^2}{d-1},\qquad
E\,c^{2n}=\prod_{i<n}\frac{2i+1}{d+2i}.$$

For $h_J$ it is $r\sqrt m\,d^{-J/2}$ up to a constant, against a signal of $a\,d^{-(J-1)/2}$.
"""

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.arguments import check_whole
from theory.core.errors import InputError

_c = sp.Symbol("c", real=True)


def moment_of_cosine(power: int, dim: int) -> sp.Rational:
    """E c^power of two random directions in R^d, exact. Raises `InputError` unless d is a whole number from 2."""
    check_whole(2, dim=dim)
    if power % 2:
        return sp.Integer(0)
    return sp.Mul(*[sp.Rational(2 * i + 1, dim + 2 * i) for i in range(power // 2)])


def mean_square(activation: Activation, norm2: np.ndarray, dim: int) -> float:
    r"""The mean square over random starts and students k of what all others add to $\dot t_{kq}/\sqrt{1-t_{kq}^2}$.

    Any m and d ≥ 2. One over gradient-flow time; its root is the typical rate.

    Args:
        activation: with a kernel that is a polynomial (one that is known by its Hermite coefficients only is cut off there).
        norm2: (m,) squared norms $r_l$. dim: d.

    Raises `InputError` for another kernel (its moments are not summed here), norms that are not finite or below 0, and d
    below 2.
    """
    if not np.all(np.isfinite(norm2)) or np.any(np.asarray(norm2) < 0):
        raise InputError(f"norm2 is {norm2!r}: give squared norms, finite and 0 or more")
    slope = activation.kernel_at(_c, 1)
    if not slope.is_polynomial(_c):
        raise InputError(
            f"activation is {activation.name!r}, whose kernel is no polynomial: give a mixture of Hermite polynomials"
        )
    square = sp.Poly(slope**2 * (1 - _c**2), _c)
    each = sum(float(x * moment_of_cosine(n, dim)) for (n,), x in square.terms())
    others = np.sum(norm2**2) - np.mean(norm2**2)
    return float(others) * each / (dim - 1)
