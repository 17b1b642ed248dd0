r"""Leaps of a target of several directions: how many overlaps still at $d^{-1/2}$ a row must raise at once.

In orthonormal coordinates $f_*=\sum_\alpha c_\alpha\prod_qh_{\alpha_q}(z_q)$, and a unit row sees
$\Phi(t)=\sum_k\hat\sigma_k\sum_{|\alpha|=k}c_\alpha\sqrt{k!/\alpha!}\,t^\alpha$. Once the directions S are found, $t^\alpha$
is of degree $\ell=\sum_{q\notin S}\alpha_q$ in what is not: overlaps of size $d^{-1/2}$ with velocity $t^{\ell-1}$ take the
flow time 1, $\ln d$, $d^{(\ell-2)/2}$ for $\ell=1,2,\ge3$ (derived), and SGD $d^{(\ell-1)\vee1}$ samples (arXiv:2302.11055).
The next term is the one of least ℓ; the largest of all decides. The activation must have every degree that counts.

Terms that are the same in what is not found act by their sum at the combination of S at which a row rests, which may be 0:
$z_1+z_2+h_2(z_1)z_3-h_2(z_2)z_3$ has $t_1=t_2$, and takes ln d where ℓ = 1. `Leap.share` says what is left of them. On the
sphere what is found also pulls a row back from the next direction, at the rate by which it rests: a leap of ℓ ≥ 2 beside
found directions is that of terms that are larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, prod

import numpy as np
import scipy

from theory.core import streams
from theory.core.activation import Activation
from theory.declared.target import Additive, Polynomial, monomials

REFERENCE = "derived; leaps: arXiv:2302.11055"
#: Rows that are followed to their rest: how many, from which overlaps, and how long, over the largest factor.
_ROWS, _START, _LONG = 8, 1e-2, 1e7


@dataclass(frozen=True)
class Leap:
    """Attributes: size: ℓ. found: directions that it finds, from 0. degrees: α of the term that does it. share: of the sizes
    of the terms that are the same in `found`, what they add up to where a row rests; the least over rows.
    """

    size: int
    found: tuple[int, ...]
    degrees: tuple[int, ...]
    share: float = 1.0

    @property
    def time_power(self) -> float:
        """Flow time in powers of d; 0 for ℓ = 2 too, where it is ln d."""
        return max(0.0, (self.size - 2) / 2)

    @property
    def sample_power(self) -> int:
        """Samples of plain SGD in powers of d, up to a logarithm at ℓ = 2."""
        return max(1, self.size - 1)


def seen(target: Additive | Polynomial, activation: Activation) -> dict[tuple[int, ...], float]:
    """Degrees α of the target's terms that the activation has → their factor in Φ; the mean left out."""
    if isinstance(target, Additive):
        places = range(target.count)
        terms = {
            tuple(degree * (p == q) for p in places): float(value) * target.weights[q]
            for q in places
            for degree, value in target.link.coefficients.items()
        }
    else:
        terms = {alpha: float(value) for alpha, value in monomials(target).items()}
    found = {}
    for alpha, value in terms.items():
        k = sum(alpha)
        factor = value * float(activation.coefficients.get(k, 0))
        if k and factor:
            found[alpha] = factor * (factorial(k) / prod(map(factorial, alpha))) ** 0.5
    return found


def leaps(target: Additive | Polynomial, activation: Activation, signs: Sequence[float] = (1.0,)) -> list[Leap]:
    """In the order in which they are made, those of one size at once; directions that are in none are never found.

    signs: of the second layer.
    """
    terms, known, found = seen(target, activation), set[int](), list[Leap]()
    while True:
        left = [(sum(n for q, n in enumerate(alpha) if q not in known), alpha) for alpha in terms]
        left = [(size, alpha) for size, alpha in left if size]
        if not left:
            return found
        least, before = min(left)[0], sorted(known)
        for size, alpha in sorted(left):
            new = tuple(q for q, n in enumerate(alpha) if n and q not in known)
            if size == least and new:
                found.append(Leap(size, new, alpha, _share(terms, before, alpha, signs)))
                known.update(new)


def _share(
    terms: dict[tuple[int, ...], float], known: list[int], alpha: tuple[int, ...], signs: Sequence[float]
) -> float:
    """`Leap.share`: 1 of a term that has no other like it."""
    degrees = np.array(list(terms), dtype=int)
    same = (np.delete(degrees, known, axis=1) == np.delete(alpha, known)).all(axis=1)
    if same.sum() == 1:
        return 1.0
    inside = (np.delete(degrees, known, axis=1) == 0).all(axis=1)
    factors = np.array(list(terms.values()))
    shares = []
    for sign in signs:
        for rest in _rests(degrees[inside][:, known], sign * factors[inside]):
            acting = factors[same] * np.prod(rest ** degrees[same][:, known], axis=1)
            shares.append(abs(acting.sum()) / max(np.abs(acting).sum(), 1e-300))
    return float(min(shares))


def _rests(degrees: np.ndarray, factors: np.ndarray) -> list[np.ndarray]:
    r"""Where rows rest that see $\Phi=\sum fac\cdot t^\alpha$ of the known directions only, from starts of both signs:
    $\dot t=\nabla\Phi-t(t\cdot\nabla\Phi)$.
    """
    count = degrees.shape[1]

    def rate(time: float, t: np.ndarray) -> np.ndarray:
        powers = np.where(degrees > 0, t ** np.maximum(degrees - 1, 0), 0.0)
        others = np.array([np.prod(np.delete(t**degrees, q, axis=1), axis=1) for q in range(count)]).T
        slope = factors @ (degrees * powers * others)
        return np.asarray(slope - t * (t @ slope))

    rng, found = streams.stream(0, "rows of a leap"), []
    until = _LONG / np.abs(factors).max()
    for _ in range(_ROWS):
        start = _START * rng.standard_normal(count)
        found.append(scipy.integrate.solve_ivp(rate, (0.0, until), start, "LSODA", rtol=1e-8, atol=1e-12).y[:, -1])
    return found
