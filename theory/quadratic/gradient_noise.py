r"""Noise of Stiefel SGD on a quadratic network: a sample's variance, and the operator norm of many samples' noise.

Of `theory.quadratic.stiefel` a sample moves W along $G=2\gamma(f_*-f)(x-Wh)h^\top$. With W across the teacher, across W and
the teacher too, $x-Wh$ is a standard Gaussian that nothing else knows, and G's entries are uncorrelated with variance

$$c=\frac{4\gamma^2}N\,E(f_*-f)^2\|h\|^2=4\gamma^2\big(2\textstyle\sum_ja_j^2+\gamma^2(2N+8)\big)$$

(the moments of $\|h\|^2\sim\chi^2_N$). The sum of n samples' noise is then a Gaussian matrix of $D=d-N$ rows and N columns:
its operator norm is $\sqrt{cn}\,(\sqrt D+\sqrt N)$ up to the Tracy-Widom shift, where its Frobenius norm is $\sqrt{cnDN}$.
That is why martingales are to be controlled in operator norm (the talk of arXiv:2508.03688). Derived; largest eigenvalue:
Johnstone 2001, Ann. Statist. 29, 295.
"""

import numpy as np
import sympy as sp

from theory.quadratic.model import QuadraticModel

#: Mean and variance of the Tracy-Widom law of real matrices.
_MEAN, _VARIANCE = -1.2065335745820, 1.6077810345810

N, gamma, square = sp.symbols("N gamma S", positive=True)


def variance() -> sp.Expr:
    r"""c in N, γ and $S=\sum_ja_j^2$, from the moments of $\chi^2_N$."""
    s = sp.Symbol("s", positive=True)
    moment = [sp.expand(sp.prod([N + 2 * i for i in range(k)])) for k in range(4)]  # E s^k
    teacher, own = 2 * square * moment[1], sp.Poly(sp.expand((s - N) ** 2 * s), s)
    student = sum(x * moment[k] for (k,), x in own.terms())
    return sp.factor(sp.expand(4 * gamma**2 * (teacher + gamma**2 * student) / N))


def entry_variance(model: QuadraticModel) -> float:
    """c of a model whose student is across the teacher."""
    numbers = {N: model.width, gamma: model.speed_factor, square: model.norm**2}
    return float(variance().subs(numbers))


def largest_singular_value(rows: int, columns: int) -> float:
    """Mean operator norm of a matrix of independent standard Gaussians, with its Tracy-Widom shift."""
    high, low = np.sqrt(rows - 0.5), np.sqrt(columns - 0.5)
    scale = (high + low) * (1 / high + 1 / low) ** (1 / 3)
    top = (high + low) ** 2 + _MEAN * scale
    return float(np.sqrt(top) * (1 - _VARIANCE * scale**2 / (8 * top**2)))


def teachers_share(model: QuadraticModel) -> float:
    r"""Relative rise of the operator norm, to first order, by the rows along the teacher, whose variance is larger.

    There $E f_*^2x_j^2-Ef_*^2=8a_j^2$, and a singular vector has 1/D of its square in each row.
    """
    rise = 32 * model.speed_factor**2 * model.norm**2 / entry_variance(model)
    return float(rise / (2 * (model.teacher.dim - model.width)))


def few_samples(model: QuadraticModel, samples: int) -> float:
    r"""By which share at most n samples' sum is no Gaussian matrix yet: $E\|G\|_F^4/(n\,c^2(\sqrt D+\sqrt N)^4)$.

    The mean square of the part of $SS^\top$ along a sample's own, over the square of its largest eigenvalue.
    """
    rows, width, gamma_, a = model.teacher.dim - model.width, model.width, model.speed_factor, model.teacher.a
    own = [float(np.prod([width + 2.0 * i for i in range(k)])) for k in range(7)]  # E s^k, s = |h|²
    centred = [  # E (s − N)^k s²
        sum(float(sp.binomial(k, i)) * own[i + 2] * (-width) ** (k - i) for i in range(k + 1)) for k in range(5)
    ]
    teacher = [1.0, 0.0, 2 * float(a @ a), 8 * float(np.sum(a**3)), 12 * float(a @ a) ** 2 + 48 * float(np.sum(a**4))]
    gap = sum(float(sp.binomial(4, k)) * teacher[4 - k] * (-gamma_) ** k * centred[k] for k in range(5))
    fourth = 16 * gamma_**4 * gap * rows * (rows + 2)
    return fourth / (samples * entry_variance(model) ** 2 * (np.sqrt(rows) + np.sqrt(width)) ** 4)
