r"""What a polynomial sees of any link: the means of its derivatives, $m_j(v)=E\,\sigma_*^{(j)}(\sqrt vz)$.

By Price's theorem $E\,\sigma(h)\sigma_*(g)=\sum_j\frac{q_{12}^j}{j!}\mu^\sigma_j(q_{11})\,m_j(q_{22})$ with numbers m_j that
belong to a direction, so that a link needs no closed kernel, nor derivatives: $m_j=c_j\sqrt{j!}\,v^{-j/2}$ with the Hermite
coefficients c_j of $\sigma_*(\sqrt v\,\cdot)$ (derived).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np

from theory.core import hermite
from theory.core.activation import QUADRATURE_DEGREE, Activation
from theory.core.errors import InputError
from theory.declared.inputs import ROUNDING

#: Last degree of a link with itself along correlated directions, whose cosine may be near 1.
_FAR = 200


@dataclass(frozen=True, eq=False)
class Seen:
    r"""A link on a field of variance v. Attributes: coefficients: c_j, (n + 1,). left_out: the share of $E\,\sigma_*^2$ beyond
    degree n.
    """

    coefficients: np.ndarray
    variance: float
    left_out: float

    @property
    def slopes(self) -> np.ndarray:
        r"""$m_j$, (n + 1,)."""
        degrees = range(self.coefficients.size)
        return self.coefficients * [float(factorial(j)) ** 0.5 * self.variance ** (-j / 2) for j in degrees]

    @property
    def second_moment(self) -> float:
        r"""$E\,\sigma_*^2$."""
        return float(np.sum(self.coefficients**2)) / (1 - self.left_out)


@lru_cache(maxsize=256)
def seen(link: Activation, variance: float, degree: int = QUADRATURE_DEGREE) -> Seen:
    """By quadrature, for a variance above 0. Raises `InputError` for a link that is not square integrable at this variance."""
    if degree == QUADRATURE_DEGREE and abs(variance - 1) <= ROUNDING:
        found, left_out = {j: float(value) for j, value in link.coefficients.items()}, link.truncation_error
    else:
        function, scale = link.arrays(), float(np.sqrt(variance))
        try:
            found, left_out = hermite.from_function(lambda x: function(scale * x), degree, of_arrays=True)
        except (ValueError, ArithmeticError) as problem:
            raise InputError(
                f"link {link.name!r} has no finite Hermite expansion on a field of variance {variance:.4g} ({problem}): "
                "give one that grows slower, or less variance"
            ) from problem
    return Seen(np.array([found.get(j, 0.0) for j in range(degree + 1)]), variance, left_out)


def second_moments(link: Activation, covariance: np.ndarray) -> np.ndarray:
    r"""$E\,\sigma_*(g_p)\sigma_*(g_q)$ (P, P) of fields with this covariance, $\sum_jc_j(v_p)c_j(v_q)\cos^j$."""
    variance = np.diag(covariance)
    cosine = covariance / np.sqrt(np.outer(variance, variance))
    correlated = np.abs(cosine - np.eye(variance.size)).max() > ROUNDING
    each = [seen(link, v, _FAR if correlated else QUADRATURE_DEGREE) for v in variance.tolist()]
    c = np.stack([one.coefficients for one in each])
    found = np.einsum("jpq,pj,qj->pq", cosine ** np.arange(c.shape[1])[:, None, None], c, c)
    np.fill_diagonal(found, [one.second_moment for one in each])
    return found
