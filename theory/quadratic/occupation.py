r"""Finite-size theory of the Riccati flow: the self-consistent law of $G_{jj}$ and of the risk, for a random subspace.

A uniformly distributed N-dimensional subspace of $R^d$, moved by $e^{\tau M}$, has for large N the diagonal

$$g_j(\tau)=\Big[1+\frac{e^{-2\tau\tilde a_j}}{\kappa(\tau)}\Big]^{-1},\qquad\sum_{j\le d}g_j=N,\quad\tilde a_j=0\ (j>M_*),$$

a Fermi function whose level κ is fixed by the rank: directions compete for the width, so N and close weights are
accounted for. The second moment of the entries off the diagonal follows, $E\,G_{jk}^2=g_jq_jg_kq_k/\sum_{l\le d}g_lq_l$ with
$q=1-g$ (sum rule: $E\,\mathrm{tr}\,\Pi^2=N$), hence

$$\tfrac12R_{opt}\approx\sum_j\tilde a_j^2(1-g_j^2)-\frac{(\sum_j\tilde a_jg_jq_j)^2}{\sum_{l\le d}g_lq_l}.$$

This is the deterministic equivalent of a sample covariance matrix with population $e^{2\tau M}$ (Marchenko and Pastur 1967;
Silverstein and Bai 1995; two-resolvent form, e.g. Ledoit and Péché 2011), exact at τ = 0. At finite N the odds of one
direction, $g_j/q_j$, are a Gaussian row seen through the others: they fluctuate like $\chi^2_V/V$ with
$V=\sum_{l\le d}g_lq_l$ (N at the start), so that means of $g_j$ and $g_j^2$ are to be taken over log-odds of variance 2/V.
This is one of several corrections of relative order 1/N; `fluctuations=True` includes it, which shows their size. Riccati
time, normalised spectrum.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory.core.quadrature import gauss_hermite
from theory.quadratic.filling import fermi, level, moved_by_a_column, risk_by_a_column
from theory.quadratic.model import check_width

#: Times at which the level is sampled for the emergence times of all directions.
_SAMPLES = 800


@dataclass(frozen=True)
class Occupation:
    r"""The law for one problem.

    Attributes:
        spectrum: $\tilde a$, shape (M*,), any order.
        dim: d.
        width: N (need not be whole, so that one can ask what changing it by one changes).
        fluctuations: take means over the fluctuating odds, to see the size of what is of order 1/N.

    Raises `InputError` unless 1 ≤ N ≤ d.
    """

    spectrum: np.ndarray
    dim: int
    width: float
    fluctuations: bool = False

    def __post_init__(self) -> None:
        check_width(int(np.ceil(self.width)), self.dim)

    def diagonal(self, times: ArrayLike) -> np.ndarray:
        """Mean of G_jj, shape (T, M*)."""
        logit, variance, _ = self._laws(times)
        return self._mean(logit, variance, 1)

    def risk(self, times: ArrayLike) -> np.ndarray:
        """Mean of R_opt, shape (T,); 2 at f = 0."""
        logit, variance, mixing = self._laws(times)
        a = self.spectrum
        off = np.divide(mixing**2, variance, out=np.zeros_like(variance), where=variance > 0)
        return 2 * (np.sum(a**2 * (1 - self._mean(logit, variance, 2)), axis=1) - off)

    def risk_error(self, times: ArrayLike) -> np.ndarray:
        """By how much a column more or less moves `risk`, (T,): what is left out of the mean over starts (derived)."""
        return risk_by_a_column(
            self.risk(times), lambda n: replace(self, width=n).risk(times), int(self.width), self.dim
        )

    def _mean(self, logit: np.ndarray, variance: np.ndarray, power: int) -> np.ndarray:
        """Mean of g^power over log-odds with the mean odds of `logit` and variance 2/V, by three-point quadrature."""
        if not self.fluctuations:
            return fermi(logit)[0] ** power
        spread = np.sqrt(2 / np.maximum(variance, 1.0))[:, None]
        rule = zip(*gauss_hermite(3), strict=True)
        return np.sum([mass * fermi(logit + x * spread - spread**2 / 2)[0] ** power for x, mass in rule], axis=0)

    def half_times(self) -> np.ndarray:
        r"""First times at which the bare $g_j=½$, shape (M*,); inf where that is never reached.

        The condition is $\tilde a_j=\mu(\tau)$ with the level $\mu=-\log\kappa/(2\tau)$, which falls as τ grows: one curve,
        sampled and inverted by monotone interpolation, serves all directions (relative error below 1e-5).
        """
        return self._half_times.copy()

    @cached_property
    def _half_times(self) -> np.ndarray:
        if self.width >= self.dim / 2:
            return np.zeros(self.spectrum.size)
        start = np.log(self.dim / self.width - 1) / 2
        times = np.geomspace(0.9 * start / self.spectrum.max(), 1e3 * start / self.spectrum.min(), _SAMPLES)
        mu = -self._level(2 * times[:, None] * self.spectrum) / (2 * times)
        falling = np.append(True, np.diff(np.minimum.accumulate(mu)) < -1e-12 * mu[:-1])
        known = mu[falling][::-1], np.log(times[falling])[::-1]
        found = np.exp(scipy.interpolate.PchipInterpolator(*known, extrapolate=False)(self.spectrum))
        return np.where(self.spectrum > mu[falling][-1], found, np.inf)

    def moved_by_a_column(self) -> np.ndarray:
        """Relative change of the half times by one column more or less, (M*,): `theory.quadratic.filling`."""
        return moved_by_a_column(self.half_times(), lambda n: replace(self, width=n).half_times(), self.width, self.dim)

    def _laws(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-odds on the teacher directions, shape (T, M*); V, shape (T,); Σ ã g q, shape (T,)."""
        energy = 2 * np.atleast_1d(np.asarray(times, dtype=float))[:, None] * self.spectrum[None, :]
        log_kappa = self._level(energy)
        g, q = fermi(energy + log_kappa[:, None])
        outside, empty = fermi(log_kappa)
        variance = np.sum(g * q, axis=1) + (self.dim - self.spectrum.size) * outside * empty
        return energy + log_kappa[:, None], variance, np.sum(self.spectrum * g * q, axis=1)

    def _level(self, energy: np.ndarray) -> np.ndarray:
        """log κ at each time: the root of Σ_j g_j = N."""
        return level(energy, np.zeros(len(energy)), float(self.dim - self.spectrum.size), self.width)
