r"""How rare the samples are that move a student: the kurtosis of one sample's kick, and how many of them a run holds.

On the plateau a light student's overlap with direction p is kicked by $\eta\xi$, $\xi=f_*(x)\sigma'(z)x_p$, with z independent
of the teachers. A diffusion knows ξ by its variance alone. A sum of n of them is Gaussian once
$n\gg\beta_2=E\xi^4/(E\xi^2)^2$: its own excess kurtosis is $(\beta_2-3)/n$, and its quadratic variation, which a diffusion
takes for certain, fluctuates by the share $\sqrt{(\beta_2-1)/n}$. ξ is a polynomial of degree 2J in Gaussians, so that
$\beta_2$ is large, and grows fast with J; its tail is $\ln P(|\xi|>s)\sim-cs^{1/J}$ (Lemma B.1 of arXiv:2504.19983 has an
exponent that is not stated). Derived here.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import scipy
import sympy as sp
from sympy.ntheory.multinomial import multinomial_coefficients

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.errors import InputError
from theory.core.quadrature import Rule, gauss_hermite, gauss_legendre

#: Of the moments of what is no polynomial.
_NODES = 128


def kick_kurtosis(activation: Activation, weights: Sequence[float], direction: int = 0, noise: float = 0.0) -> float:
    r"""$\beta_2=E\xi^4/(E\xi^2)^2$ at overlap 0; teacher weights (P,), direction counted from 0, deviation of Gaussian noise
    on the labels.

    Exact for polynomials, else to a few per cent: the terms' moments by Gaussian quadrature, those of their sum by cumulants,
    which add up.

    Raises: `InputError` for a direction that is none.
    """
    if not 0 <= direction < len(weights):
        raise InputError(f"direction is {direction!r}: give an index from 0 to {len(weights) - 1}")
    others = np.delete(np.asarray(weights, dtype=float), direction)
    sums = np.sum(others[:, None] ** np.arange(5), axis=0)
    return float(kurtosis_of(kick_moments(activation), float(weights[direction]), sums, noise**2))


class KickMoments(NamedTuple):
    r"""Gaussian means of an activation, numbers or expressions: $E\sigma^i$ (5,), $E\sigma^ix^2$ (5,), $E\sigma^ix^4$ (5,),
    i = 0 … 4, and $E\sigma'^2$, $E\sigma'^4$.
    """

    plain: Any
    second: Any
    fourth: Any
    slope2: Any
    slope4: Any


def kick_moments(activation: Activation) -> KickMoments:
    """By Gaussian quadrature: exact for polynomials."""
    # Exact for degree 4J + 4.
    points, share = activation.gaussian(2 * activation.degree + 4 if activation.is_polynomial else _NODES)
    sigma, slope = activation.arrays()(points), activation.arrays(1)(points)
    powers = sigma[None] ** np.arange(5)[:, None]
    plain, second, fourth = (powers @ (share * points**order) for order in (0, 2, 4))
    return KickMoments(plain, second, fourth, float(share @ slope**2), float(share @ slope**4))


def symbolic_kick_moments(coefficients: Mapping[int, sp.Expr]) -> KickMoments:
    r"""Of $\sum_js_jh_j$, polynomials in the $s_j$; their numbers by Gaussian quadrature, exact but for rounding."""
    points, share = gauss_hermite(2 * max(coefficients) + 4)
    parts = {j: Activation.from_degree(j) for j in coefficients}

    def mean(power: int, order: int = 0, slope: int = 0) -> sp.Expr:
        found = sp.Integer(0)
        for chosen in combinations_with_replacement(sorted(coefficients), power):
            if (sum(chosen) + power * slope + order) % 2 == 0:
                product = np.prod([parts[j].arrays(slope)(points) for j in chosen] or [1.0], axis=0) * points**order
                ways = multinomial_coefficients(len(parts), power)[tuple(chosen.count(j) for j in sorted(parts))]
                found += float(ways * (share @ product)) * sp.Mul(*(coefficients[j] for j in chosen))
        return found

    plain, second, fourth = (np.array([mean(i, order) for i in range(5)], dtype=object) for order in (0, 2, 4))
    return KickMoments(plain, second, fourth, mean(2, slope=1), mean(4, slope=1))


def kurtosis_of(moments: KickMoments, weight: Any, sums: Any, variance: Any = 0) -> Any:
    r"""$\beta_2$ from the moments, the direction's weight, $\sum a_q^i$ over the others (5,), i = 0 … 4, and the variance of
    Gaussian noise on the labels; numbers or expressions.
    """
    cumulants = _cumulants(moments.plain) * sums + variance * np.eye(1, 5, 2, dtype=int)[0]
    rest, own = _from_cumulants(cumulants), np.array([weight**i for i in range(5)])
    second = _of_sum(rest, own * moments.second, 2)[2] * moments.slope2
    fourth = _of_sum(rest, own * moments.fourth, 4)[4] * moments.slope4
    return fourth / second**2


def variation(kurtosis: Any, step_size: Any, time: Any, batch: Any = 1) -> Any:
    r"""$\sqrt{\beta_2/n}$ of the $n=bT/\eta$ samples of a time: what a run's quadratic variation fluctuates by, as a share."""
    return (kurtosis * step_size / (time * batch)) ** 0.5


#: Ends of the integrals over x and z: what lies beyond has probability 1e-18; the widest panel, and its points.
_END, _WIDEST, _POINTS = 9.0, 0.5, 8
#: Beside a root: the narrowest panel, below which no more than that much probability lies, and the ratio of each to the next.
_NARROWEST, _RATIO = 1e-9, 4.0


@lru_cache(maxsize=16)
def _panels(coefficients: tuple[float, ...]) -> Rule:
    r"""Points and weights of a standard Gaussian, in panels that fall geometrically towards each root of $\sum_jc_jh_j$.

    Of complex roots it is the real part: rounding moves repeated ones off the axis.
    """
    lengths = np.sqrt(scipy.special.factorial(np.arange(len(coefficients))))
    roots = np.polynomial.hermite_e.hermeroots(np.array(coefficients) / lengths).real
    beside = np.geomspace(_NARROWEST, _WIDEST, 2 + round(np.log(_WIDEST / _NARROWEST) / np.log(_RATIO)))
    near = roots[:, None] + np.concatenate([-beside, [0.0], beside])
    edges = np.concatenate([np.linspace(-_END, _END, round(2 * _END / _WIDEST) + 1), near.ravel()])
    edges = np.unique(edges[np.abs(edges) <= _END])
    points, weights = (x.ravel() for x in gauss_legendre(edges[:-1], edges[1:], _POINTS))
    return points, weights * np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)


def kick_tail(activation: Activation, weight: float, size: float) -> float:
    r"""$P(|\xi_\perp|>s)$ for the kick $\xi_\perp=a\sigma(x)\sigma'(z)y$ across one teacher of weight a, student at overlap 0.

    Over the independent Gaussians x and z of $2\Phi(-s/|a\sigma\sigma'|)$, in panels that fall geometrically
    towards each root of σ and of σ': beside it a small s is not small.

    Raises: `InputError` for an activation that is no polynomial, a weight or a size that is not positive.
    """
    activation.require_polynomial("the tail of a kick")
    check_positive(weight=weight, size=size)
    sigma = np.array([float(activation.coefficients.get(j, 0)) for j in range(activation.degree + 1)])
    slope = sigma[1:] * np.sqrt(np.arange(1, len(sigma)))
    (x, across), (y, along) = _panels(tuple(sigma)), _panels(tuple(slope))
    factor = weight * np.abs(activation.arrays()(x))[:, None] * np.abs(activation.arrays(1)(y))
    with np.errstate(divide="ignore"):
        return float(across @ (2 * scipy.special.ndtr(-size / factor)) @ along)


def kick_quantile(activation: Activation, weight: float, probability: float) -> float:
    r"""The size s that $|\xi_\perp|$ exceeds with a probability from 1e-12 to 0.5. Raises `InputError` outside."""
    if not 1e-12 <= probability <= 0.5:
        raise InputError(f"probability is {probability!r}: give one from 1e-12 to 0.5")

    def excess(log_size: float) -> float:
        return float(np.log(max(kick_tail(activation, weight, np.exp(log_size)), 1e-300) / probability))

    return float(np.exp(scipy.optimize.brentq(excess, -30.0, 60.0, xtol=1e-10)))


def _cumulants(moments: np.ndarray) -> np.ndarray:
    """Orders 0 … 4 from the moments' (5,); that of order 0 is 0."""
    _, m, m2, m3, m4 = moments
    return np.array(
        [0, m, m2 - m**2, m3 - 3 * m * m2 + 2 * m**3, m4 - 4 * m * m3 - 3 * m2**2 + 12 * m**2 * m2 - 6 * m**4]
    )


def _from_cumulants(cumulants: np.ndarray) -> np.ndarray:
    """The inverse of `_cumulants`."""
    _, k, k2, k3, k4 = cumulants
    return np.array([1, k, k2 + k**2, k3 + 3 * k * k2 + k**3, k4 + 4 * k * k3 + 3 * k2**2 + 6 * k**2 * k2 + k**4])


def _of_sum(first: np.ndarray, second: np.ndarray, highest: int = 4) -> np.ndarray:
    """Moments (or weighted ones) of a sum of independent variables from theirs, orders 0 … highest."""
    binomial = [[sp.binomial(n, i) for i in range(n + 1)] for n in range(highest + 1)]
    return np.array(
        [sum(float(b) * first[i] * second[n - i] for i, b in enumerate(row)) for n, row in enumerate(binomial)]
    )
