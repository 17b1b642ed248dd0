r"""Random initial overlaps: the law of one coordinate of a uniform unit vector, and of the largest of very many.

Everything is said in the reach $g=\sqrt d\,|\langle\bar v,e\rangle|$, so that $g^2/d\sim$ Beta(½, (d−1)/2) exactly and
$g\to|N(0,1)|$ as $d\to\infty$. Overlaps of different neurons are independent; those of one neuron with several teachers
are so up to a relative $P/d$. The law of the largest of many Gaussians: Leadbetter, Lindgren and Rootzén (1983).
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.errors import InputError


@dataclass(frozen=True)
class OverlapLaw:
    r"""Law of the reach of one neuron for one teacher.

    Attributes:
        dim: input dimension $d\ge2$; ``inf`` for the Gaussian limit.
        signed: a negative overlap has reach 0 (odd activations, whose negative overlaps never grow).

    Raises `InputError` for a dimension below 2.
    """

    dim: float = np.inf
    signed: bool = False

    def __post_init__(self) -> None:
        if not self.dim >= 2:
            raise InputError(f"dim is {self.dim!r}: the law of an overlap needs 2 or more (inf: the Gaussian limit)")

    @property
    def share(self) -> float:
        """Probability of a positive reach."""
        return 0.5 if self.signed else 1.0

    def tail(self, reach: ArrayLike) -> np.ndarray:
        r"""$P(g>u)$, accurate far out. Shape of `reach`, which must not be negative."""
        u = np.asarray(reach, dtype=float)
        if np.isinf(self.dim):
            return self.share * scipy.special.erfc(u / np.sqrt(2))
        return self.share * scipy.special.betaincc(0.5, (self.dim - 1) / 2, np.minimum(u**2 / self.dim, 1.0))

    def log_cdf(self, reach: ArrayLike) -> np.ndarray:
        r"""$\ln P(g\le u)$, accurate far out and near 0 (−inf at 0 unless `signed`). Shape of `reach`."""
        u = np.asarray(reach, dtype=float)
        if np.isinf(self.dim):
            inner = scipy.special.erf(u / np.sqrt(2))
        else:
            inner = scipy.special.betainc(0.5, (self.dim - 1) / 2, np.minimum(u**2 / self.dim, 1.0))
            # u² would underflow; the law is linear there, to u².
            inner = np.where(u < 1e-8, u * self.density(0.0) / self.share, inner)
        with np.errstate(divide="ignore"):
            near = np.log(1 - self.share + self.share * inner)
            return np.where(inner > 0.5, np.log1p(-self.tail(u)), near)

    def density(self, reach: ArrayLike) -> np.ndarray:
        """Density of the reach at u > 0: 0 from the end √d on. Shape of `reach`."""
        u = np.asarray(reach, dtype=float)
        if np.isinf(self.dim):
            return self.share * np.sqrt(2 / np.pi) * np.exp(-(u**2) / 2)
        inside = np.clip(1 - u**2 / self.dim, 0.0, None)
        scale = 2 * self.share / np.sqrt(self.dim) / scipy.special.beta(0.5, (self.dim - 1) / 2)
        # (Below d = 4 the density does not vanish towards its end.)
        return scale * np.power(inside, (self.dim - 3) / 2, out=np.zeros_like(inside), where=inside > 0)

    def growth(self, reach: ArrayLike) -> np.ndarray:
        r"""$d\ln P(g\le u)/d\ln u = u f(u)/F(u)$: about $u^2P(g>u)$ far out, 1 near 0 (0 if `signed`), 0 beyond √d.

        Shape of `reach`.
        """
        u = np.asarray(reach, dtype=float)
        return u * self.density(u) / np.exp(self.log_cdf(u))

    def from_tail(self, probability: ArrayLike) -> np.ndarray:
        r"""The reach u with $P(g>u)$ = probability; 0 where no positive reach has so large a tail. Shape of `probability`."""
        inner = np.minimum(np.asarray(probability, dtype=float) / self.share, 1.0)
        if np.isinf(self.dim):
            return np.sqrt(2) * scipy.special.erfcinv(inner)
        return np.sqrt(self.dim * scipy.special.betainccinv(0.5, (self.dim - 1) / 2, inner))


#: The limit of large dimension.
GAUSSIAN = OverlapLaw()


@dataclass(frozen=True)
class Gumbel:
    r"""The largest of n Gaussian reaches for large n: $P(\max\le b+x/b)\to e^{-e^{-x}}$, with $nP(g>b)=1$.

    $b^2=2\ln n-\ln\ln n-\ln\pi+o(1)$. Since $nP(g>b+x/b)=e^{-x}\big(1-(x^2/2+x)/b^2+O(b^{-4})\big)$, the error of the limit
    is of relative order $1/b^2\sim1/(2\ln n)$: slow, and `cdf` corrects its leading term. Fisher–Tippett; rate of
    convergence after Hall (1979).

    Attributes:
        location: $b$, the exact solution of $nP(g>b)=1$. The scale is $1/b$.
    """

    location: float

    @classmethod
    def of(cls, count: int, share: float = 1.0) -> "Gumbel":
        """n reaches of which a `share` is positive. Raises `InputError` unless n · share > 1."""
        if not count * share > 1:
            raise InputError(f"count is {count!r}: the Gumbel law is for large counts, give {2 / share:g} or more")
        return cls(float(np.sqrt(2) * scipy.special.erfcinv(1 / (count * share))))

    def cdf(self, reach: ArrayLike, corrected: bool = True) -> np.ndarray:
        """P(largest ≤ u), with the 1/b² correction unless told not to. Shape of `reach`."""
        b = self.location
        x = b * (np.asarray(reach, dtype=float) - b)
        rate = -x - (x**2 / 2 + x) / b**2 if corrected else -x
        return np.exp(-np.exp(rate))
