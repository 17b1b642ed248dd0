r"""Noise of Stiefel SGD on a quadratic network: a sample's variance, and the operator norm of many samples' noise.

Of `theory.quadratic.stiefel` a sample moves W along $G=2\gamma(f_*-f)(x-Wh)h^\top$. With W across the teacher, across W and
the teacher too, $x-Wh$ is a standard Gaussian that nothing else knows, and G's entries are uncorrelated with variance

$$c=\frac{4\gamma^2}N\,E(f_*-f)^2\|h\|^2=4\gamma^2\big(2\textstyle\sum_ja_j^2+\gamma^2(2N+8)\big)$$

(the moments of $\|h\|^2\sim\chi^2_N$), for $\sigma=z^2-1$; a multiple of it has G and $\sqrt c$ in proportion to φ(1). The sum
of n samples' noise is then a Gaussian matrix of $D=d-N$ rows and N columns: its operator norm is
$\sqrt{cn}\,(\sqrt D+\sqrt N)$ up to the Tracy-Widom shift, where its Frobenius norm is $\sqrt{cnDN}$. That is why martingales
are to be controlled in operator norm (the talk of arXiv:2508.03688). Derived; largest eigenvalue: Johnstone 2001, Ann.
Statist. 29, 295.
"""

from functools import cache

import numpy as np
import scipy
import sympy as sp

from theory.core.arguments import check_whole
from theory.core.errors import InputError
from theory.quadratic.model import SECOND_MOMENT, QuadraticModel

#: Mean and variance of the Tracy-Widom law of real matrices.
_MEAN, _VARIANCE = -1.2065335745820, 1.6077810345810
#: Entries of a matrix to which it applies.
_FEWEST = 40

N, gamma, square = sp.symbols("N gamma S", positive=True)


@cache
def variance() -> sp.Expr:
    r"""c in N, γ and $S=\sum_ja_j^2$, from the moments of $\chi^2_N$; of $\sigma=z^2-1$."""
    s = sp.Symbol("s", positive=True)
    moment = [sp.expand(sp.prod([N + 2 * i for i in range(k)])) for k in range(4)]  # E s^k
    teacher, own = 2 * square * moment[1], sp.Poly(sp.expand((s - N) ** 2 * s), s)
    student = sum(x * moment[k] for (k,), x in own.terms())
    return sp.factor(sp.expand(4 * gamma**2 * (teacher + gamma**2 * student) / N))


def entry_variance(model: QuadraticModel) -> float:
    """c of a model whose student is across the teacher, for steps of the loss ½(f*−f)² over the step size.

    Raises `InputError` if the dimension has no room for it, d < N + P.
    """
    return _unscaled(model) * (model.second_moment / SECOND_MOMENT) ** 2


def _unscaled(model: QuadraticModel) -> float:
    """c of σ = z² − 1; shares of it are those of any multiple."""
    width, teachers, dim = model.width, model.teacher.width, model.teacher.dim
    if dim < width + teachers:
        raise InputError(
            f"dim is {dim}: give {width + teachers} or more, for {width} columns across {teachers} teachers"
        )
    return float(variance().subs({N: width, gamma: model.speed_factor, square: model.norm**2}))


def largest_singular_value(rows: int, columns: int) -> float:
    r"""Mean operator norm of a matrix of independent standard Gaussians, with its Tracy-Widom shift.

    Off by little more than 2 % at most, half a per cent from 400 entries on. One row or column: exactly
    $\sqrt2\,\Gamma((n+1)/2)/\Gamma(n/2)$.

    Raises `InputError` unless both are whole numbers from 1, and for fewer than 40 entries of more rows and columns than one.
    """
    check_whole(rows=rows, columns=columns)
    if min(rows, columns) == 1:
        return float(np.sqrt(2) * scipy.special.poch(max(rows, columns) / 2, 0.5))
    if rows * columns < _FEWEST:
        raise InputError(
            f"rows × columns is {rows} × {columns}: give {_FEWEST} entries or more, fewer have another law"
        )
    high, low = np.sqrt(rows - 0.5), np.sqrt(columns - 0.5)
    scale = (high + low) * (1 / high + 1 / low) ** (1 / 3)
    top = (high + low) ** 2 + _MEAN * scale
    return float(np.sqrt(top) * (1 - _VARIANCE * scale**2 / (8 * top**2)))


def teachers_share(model: QuadraticModel) -> float:
    r"""Relative change of the operator norm, to first order, by the rows along the teacher, whose variance is another.

    There $E(f_*-f)^2x_j^2h_i^2$ is more by $8a_j(a_j-\gamma)$ (what is from $f_*^2$, and from $-2f_*f$), and a singular vector
    has 1/D of its square in each row. Raises `InputError` as `entry_variance`.
    """
    gamma_, a = model.speed_factor, model.teacher.a
    change = 32 * gamma_**2 * float(a @ (a - gamma_)) / _unscaled(model)
    return change / (2 * (model.teacher.dim - model.width))


def few_samples(model: QuadraticModel, samples: int) -> float:
    r"""By which share at most n samples' sum is no Gaussian matrix yet: $E\|G\|_F^4/(n\,c^2(\sqrt D+\sqrt N)^4)$.

    The mean square of the part of $SS^\top$ along a sample's own, over the square of its largest eigenvalue; to leading order
    in P/D. Raises `InputError` as `entry_variance`, and unless `samples` is a whole number from 1.
    """
    check_whole(samples=samples)
    rows, width, gamma_, a = model.teacher.dim - model.width, model.width, model.speed_factor, model.teacher.a
    own = [float(np.prod([width + 2.0 * i for i in range(k)])) for k in range(7)]  # E s^k, s = |h|²
    centred = [  # E (s − N)^k s²
        sum(float(sp.binomial(k, i)) * own[i + 2] * (-width) ** (k - i) for i in range(k + 1)) for k in range(5)
    ]
    teacher = [1.0, 0.0, 2 * float(a @ a), 8 * float(np.sum(a**3)), 12 * float(a @ a) ** 2 + 48 * float(np.sum(a**4))]
    gap = sum(float(sp.binomial(4, k)) * teacher[4 - k] * (-gamma_) ** k * centred[k] for k in range(5))
    fourth = 16 * gamma_**4 * gap * rows * (rows + 2)
    return fourth / (samples * _unscaled(model) ** 2 * (np.sqrt(rows) + np.sqrt(width)) ** 4)
