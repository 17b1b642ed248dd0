r"""Finite-size theory of the flow with norms: the self-consistent law of $S_{jj}$ and of the loss, for random columns.

$\dot S=\tilde MS+S\tilde M-2S^2$ of $S=FF^\top$ from N random columns of squared norm ρ has the closed form
$S=e^{\tau\tilde M}F_0(I+F_0^\top\Phi F_0)^{-1}F_0^\top e^{\tau\tilde M}$, $\Phi_j=(e^{2\tau\tilde a_j}-1)/\tilde a_j$
(2τ where $\tilde a_j=0$). The rows of $F_0$ have independent entries of variance ρ/d, so that for large N each is seen through
the others as a resolvent, $g=f_j^\top(I+F^\top\Phi F)_{(j)}^{-1}f_j$ the same for all (the deterministic equivalent that
`theory.quadratic.occupation` rests on):

$$\sum_{j\le d}p_j+\frac d\rho g=N,\qquad p_j=\frac{\Phi_jg}{1+\Phi_jg},\quad q=1-p,\qquad
S_{jj}=\frac{e^{2\tau\tilde a_j}g}{1+\Phi_jg}.$$

Differentiated, $\dot S_{jj}=2S_{jj}(\tilde a_j-S_{jj})+S_{jj}q_j\,\partial_\tau\ln g$, and the trace of the flow's
equation gives what is off the diagonal:

$$\|S\|_F^2=\sum_{j\le d}S_{jj}^2+\frac{(\sum_{j\le d}S_{jj}q_j)^2}{\sum_{j\le d}p_jq_j+dg/\rho},\qquad
R_{GF}=2\Big(\|\tilde a\|^2-2\sum_j\tilde a_jS_{jj}+\|S\|_F^2\Big).$$

Directions compete for the width, close weights mix, and columns may be heavy. Corrections are of relative order 1/N. Riccati
time, normalised spectrum.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.arguments import check_positive
from theory.quadratic.filling import fermi, level, moved_by_a_column, risk_by_a_column
from theory.quadratic.model import check_width

#: Times at which S is looked at for a crossing, from so early to so late in units of the decoupled ones.
_SAMPLES, _EARLY, _LATE = 400, 0.1, 100.0


@dataclass(frozen=True)
class FlowLaw:
    r"""The law for one problem.

    Attributes:
        spectrum: $\tilde a$, shape (M*,), any order.
        dim: d. width: N.
        norm2: ρ, squared norm of a column of F at the start, $\gamma\sigma_0^2/\|a\|$.

    Raises `InputError` unless 1 ≤ N ≤ d and ρ > 0.
    """

    spectrum: np.ndarray
    dim: int
    width: int
    norm2: float

    def __post_init__(self) -> None:
        check_width(self.width, self.dim)
        check_positive(norm2=self.norm2)

    def diagonal(self, times: ArrayLike) -> np.ndarray:
        """Mean of S_jj, shape (T, M*)."""
        return self._laws(times)[0]

    def risk(self, times: ArrayLike) -> np.ndarray:
        """Mean of R_GF, shape (T,); 2 at f = 0."""
        held, others, norm2, *_ = self._laws(times)
        count = float(self.dim - self.spectrum.size)
        off = np.sum(self.spectrum**2) - 2 * np.sum(self.spectrum * held, axis=1)
        return 2 * (off + np.sum(held**2, axis=1) + count * others**2 + norm2)

    def risk_error(self, times: ArrayLike) -> np.ndarray:
        """By how much a column more or less moves `risk`, (T,): what is left out of the mean over starts (derived)."""
        return risk_by_a_column(self.risk(times), lambda n: replace(self, width=n).risk(times), self.width, self.dim)

    def half_times(self) -> np.ndarray:
        r"""Times from which on $S_{jj}\ge\tilde a_j/2$, shape (M*,): 0 if it never is below, inf if the width cannot hold it.

        Heavy columns shrink first: a direction that starts above may drop below, and counts when it is back.
        """
        times, share = self._course
        # While S grows by itself its log-odds are a straight line in time.
        odds = np.log(np.maximum(share, np.finfo(float).tiny)) - np.log(np.maximum(1 - share, np.finfo(float).eps))
        below, last, column = odds < 0, len(times) - 1, np.arange(self.spectrum.size)
        before = last - np.argmax(below[::-1], axis=0)  # the last time below, if any
        after = np.minimum(before + 1, last)
        low, high = odds[before, column], odds[after, column]
        part = np.divide(-low, high - low, out=np.zeros_like(low), where=high > low)
        found = times[before] + part * (times[after] - times[before])
        return np.where(below[-1], np.inf, np.where(below.any(axis=0), found, 0.0))

    def moved_by_a_column(self) -> np.ndarray:
        """Relative change of the half times by one column more or less, (M*,): `theory.quadratic.filling`."""
        return moved_by_a_column(
            self.half_times(), lambda n: replace(self, width=int(n)).half_times(), self.width, self.dim
        )

    def undecided(self) -> np.ndarray:
        r"""Share of starts that end on the other side of half than the law, (M*,): of equal weights each start holds others.

        $p_j$ of a start has the law Beta(V/2q, V/2p), whose log-odds have the variance 2/V of `theory.quadratic.occupation`:
        exact for P equal weights and N < P, whose late subspace is uniform among them (V = Ppq).
        """
        *_, odds, spread = self._laws(self._course[0][-1])
        less, more = fermi(-np.abs(odds[0]))
        settled = less < np.finfo(float).tiny
        shape = [spread[0] / (2 * np.where(settled, 1.0, x)) for x in (less, more)]
        return np.where(settled, 0.0, scipy.special.betainc(*shape, 0.5))

    def held_for_a_while(self) -> np.ndarray:
        """Whether $S_{jj}$ is at half of its target or above at some time but not late, (M*,): others displace it."""
        above = self._course[1] >= 0.5
        return np.asarray(above.any(axis=0) & ~above[-1])

    @cached_property
    def _course(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Times from 0 to late ones, (T,), and $S_{jj}/\tilde a_j$ there, (T, M*)."""
        a, begun = self.spectrum, self.norm2 * self.width / float(self.dim)
        alone = np.log(np.maximum(a / begun - 1, 2.0)) / (2 * a)
        times = np.append(0.0, np.geomspace(_EARLY * alone.min(), _LATE * alone.max(), _SAMPLES))
        return times, self.diagonal(times) / a

    def _laws(self, times: ArrayLike) -> tuple[np.ndarray, ...]:
        """S_jj on the teacher directions, (T, M*); on any other, (T,); the sum of squares off the diagonal, (T,).

        Beside them ln(p/q) on the teacher directions, (T, M*), and Σpq + dg/ρ of all, (T,).
        """
        tau = np.atleast_1d(np.asarray(times, dtype=float))
        growth, count, own = (
            2 * tau[:, None] * self.spectrum,
            float(self.dim - self.spectrum.size),
            float(self.dim) / self.norm2,
        )
        with np.errstate(divide="ignore"):
            energy, outside = growth + np.log(-np.expm1(-growth)) - np.log(self.spectrum), np.log(2 * tau)
        log_g = level(energy, outside, count, self.width, own)
        odds = energy + log_g[:, None]
        (p, q), (p0, q0) = fermi(odds), fermi(outside + log_g)
        held = np.exp(growth + log_g[:, None] - np.logaddexp(0.0, odds))
        others = np.exp(log_g - np.logaddexp(0.0, outside + log_g))
        spread = np.sum(p * q, axis=1) + count * p0 * q0 + own * np.exp(log_g)
        return held, others, (np.sum(held * q, axis=1) + count * others * q0) ** 2 / spread, odds, spread
