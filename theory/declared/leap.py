r"""Leaps of a target of several directions: how many overlaps still at $d^{-1/2}$ a row must raise at once.

In orthonormal coordinates $f_*=\sum_\alpha c_\alpha\prod_qh_{\alpha_q}(z_q)$, and a unit row sees
$\Phi(t)=\sum_k\hat\sigma_k\sum_{|\alpha|=k}c_\alpha\sqrt{k!/\alpha!}\,t^\alpha$. Once the directions S are found, $t^\alpha$
is of degree $\ell=\sum_{q\notin S}\alpha_q$ in what is not: overlaps of size $d^{-1/2}$ with velocity $t^{\ell-1}$ take the
flow time 1, $\ln d$, $d^{(\ell-2)/2}$ for $\ell=1,2,\ge3$ (derived), and SGD $d^{(\ell-1)\vee1}$ samples (arXiv:2302.11055).
The next term is the one of least ℓ; the largest of all decides. The activation must have every degree that counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from theory.core.activation import Activation
from theory.declared.target import Additive, Polynomial, monomials

REFERENCE = "derived; leaps: arXiv:2302.11055"


@dataclass(frozen=True)
class Leap:
    """Attributes: size: ℓ. found: directions that it finds, from 0. degrees: α of the term that does it."""

    size: int
    found: tuple[int, ...]
    degrees: tuple[int, ...]

    @property
    def time_power(self) -> float:
        """Flow time in powers of d; 0 for ℓ = 2 too, where it is ln d."""
        return max(0.0, (self.size - 2) / 2)

    @property
    def sample_power(self) -> int:
        """Samples of plain SGD in powers of d, up to a logarithm at ℓ = 2."""
        return max(1, self.size - 1)


def seen(target: Additive | Polynomial, activation: Activation) -> list[tuple[int, ...]]:
    """Degrees α of the target's terms that the activation has, the mean left out."""
    if isinstance(target, Additive):
        places = range(target.count)
        terms: Iterable[tuple[int, ...]] = (
            tuple(degree * (p == q) for p in places)
            for q in places
            for degree, value in target.link.coefficients.items()
            if value != 0 and target.weights[q] != 0
        )
    else:
        terms = monomials(target)
    return [alpha for alpha in terms if sum(alpha) and activation.coefficients.get(sum(alpha), 0) != 0]


def leaps(target: Additive | Polynomial, activation: Activation) -> list[Leap]:
    """In the order in which they are made; directions that are in none are never found."""
    terms, known, found = seen(target, activation), set[int](), list[Leap]()
    while True:
        left = [
            (sum(n for q, n in enumerate(alpha) if q not in known), alpha)
            for alpha in terms
            if any(n and q not in known for q, n in enumerate(alpha))
        ]
        if not left:
            return found
        size, alpha = min(left)
        new = tuple(q for q, n in enumerate(alpha) if n and q not in known)
        found.append(Leap(size, new, alpha))
        known.update(new)
