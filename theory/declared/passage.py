r"""Steps until one direction is found: the largest step size that a rule stands, and the passage time to first order in it.

From the drift $\gamma f(u)$, $f=(1-u^2)\sum_i\nu_iu^{i-1}$, the shrinkage of the row $\gamma^2K$ and the variance
$\gamma^2N$ of a step (`theory.declared.one_direction`: means at overlap u, by Mehler's formula). The overlap grows as long
as $\gamma K<f$: a step size is the `share` of the largest one with that on the whole way. The mean number of steps from
$u_0$ to $u_1$ is, by Itô's formula for the remaining time $\int_u^{u_1}dv/f$ (derived),

$$E\,n=\frac1\gamma\int\frac{du}f+\int\Big[\frac{K+\frac12ff'}{f^2}+\frac{Nf'}{2f^3}\Big]du+O(\gamma),$$

but for how far the last step goes beyond $u_1$ (`overshoot`: of Gaussian steps on the mean about $.58\sqrt N/f(u_1)+.25$
steps, few where K is of order d), so that $n\asymp\nu_i^{-2}E\psi^2d^{(i-1)\vee1}$ at that step size, $\nu_i$ the first that
is not 0, and a logarithm more for i = 2 (arXiv:2003.10409 for plain SGD).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.errors import InputError
from theory.core.quadrature import gauss_legendre
from theory.declared.one_direction import Drift
from theory.one_task.diffusion import Diffusion
from theory.one_task.noisy_growth import OVERSHOOT

#: Panels between the overlaps, at equal ratios, and points of each.
_PANELS, _POINTS = 60, 8
#: Ratios of noise to mean up to which an overshoot is summed, and its terms; and below which noise is none.
_SUMMED, _SUMMED_TERMS, _QUIET = 2.0, 200, 0.05


def allowed_step(drift: Drift, dim: float, start: float, level: float, share: float = 1.0) -> float:
    r"""`share` of the least $f/K$ where K > 0 between two overlaps, −1 < `start` < `level` < 1, `level` > 0, a scalar; inf
    where K is positive nowhere, and steps help the drift to second order. (A `drift` is known up to $|u|=\sqrt{1/2}$; beyond,
    where σ is steep or has a kink, its series may fall short: by 8 % at 0.95 for tanh(5z).)

    Raises `InputError` for overlaps or a share out of range, and where the drift is not positive all the way.
    """
    u, _ = _between(start, level)
    check_positive(dim=dim, share=share)
    f = drift.at(u)
    if not np.all(f > 0):
        raise InputError(
            f"drift is {f.min():.3g} at overlap {u[f.argmin()]:.3g}: the direction is not found from {start:g}; start "
            "above the barrier, or turn the sign of the second layer"
        )
    shrinkage = drift.second_order(dim, u)[0]
    return float(share * np.min((f / shrinkage)[shrinkage > 0], initial=np.inf))


def passage_steps(drift: Drift, dim: float, step_size: float, start: float, level: float) -> tuple[float, float]:
    r"""Mean number of steps from `start` to `level`, two scalars: $\gamma\to0$, and the next order, to be added.

    Raises `InputError` as `allowed_step`.
    """
    allowed_step(drift, dim, start, level)
    check_positive(step_size=step_size)
    u, weights = _between(start, level)
    f = drift.at(u)
    sums = np.polynomial.polynomial
    slope = (1 - u**2) * sums.polyval(u, sums.polyder(drift.coefficients)) - 2 * u * f / (1 - u**2)
    shrinkage, variance = drift.second_order(dim, u)
    later = (shrinkage + f * slope / 2) / f**2 + variance * slope / (2 * f**3)
    return float(weights @ (1 / f)) / step_size, float(weights @ later)


def overshoot(ratio: float) -> float:
    r"""Mean number of steps that the last one is worth beyond a level, of Gaussian steps with standard deviation `ratio` c
    times their mean:

    $$\frac{1+c^2}2-c\sum_n\frac1nE\Big(\sqrt n\,Z+\frac nc\Big)^-=.583c+\frac14+\frac{.041}c-\dots,$$

    and ½ for steps without noise (Spitzer's identity; Siegmund, Sequential Analysis, 1985, section 8.5).
    """
    if ratio > _SUMMED:
        return float(OVERSHOOT * ratio + 1 / 4 - scipy.special.zeta(-0.5) / (2 * np.sqrt(2 * np.pi)) / ratio)
    if ratio < _QUIET:
        return 0.5
    n = np.arange(1, _SUMMED_TERMS)
    far = np.sqrt(n) / ratio
    below = np.sqrt(n) * (np.exp(-(far**2) / 2) / np.sqrt(2 * np.pi) - far * scipy.special.ndtr(-far))
    return float((1 + ratio**2) / 2 - ratio * np.sum(below / n))


def behind(drift: Drift, dim: float, batch: int, start: float, level: float) -> tuple[float, float]:
    r"""Steps by which SGD is there later than `Wandering`: $\frac12\ln\frac{f(u_1)}{f(u_0)}$, by which explicit steps fall
    behind a flow, and the `overshoot`; and the part of that which noise makes, of Gaussian steps. Two scalars, derived.

    Raises `InputError` as `allowed_step`.
    """
    allowed_step(drift, dim, start, level)
    ends = drift.at([start, level])
    noise = float(drift.second_order(dim, level)[1]) / batch
    beyond = overshoot(np.sqrt(max(noise, 0.0)) / float(ends[1]))
    return float(np.log(ends[1] / ends[0])) / 2 + beyond, beyond - 0.5


def late(drift: Drift, lag: float, start: float, level: float, free: bool) -> tuple[float, float]:
    r"""By how many steps momentum of mean lag ℓ makes a passage longer, to first order in the lag, and the sum of its
    parts' sizes, two scalars:

    $$\ell\Big\{1+\ln\frac{f(u_1)}{f(u_0)}+c\int_{u_0}^{u_1}\frac{E\rho}f\,du\Big\}.$$

    The first two are `theory.declared.modified_equation.delay`. Of `free` rows c is 2: momentum keeps the pace of a shorter
    row, which a longer one needs the more of. Rows on a sphere, c = 1, forget all but that their velocity, which does not turn
    with them, holds their own past places, too. Derived.

    Raises `InputError` as `allowed_step`.
    """
    allowed_step(drift, 2.0, start, level)
    u, weights = _between(start, level)
    ends = drift.at([start, level])
    lengthening = np.polynomial.polynomial.polyval(u, np.atleast_1d(drift.lengthening))
    stretch = float(weights @ (lengthening / drift.at(u)))
    parts = lag * (1 + float(np.log(ends[1] / ends[0]))), lag * (2 if free else 1) * stretch
    return parts[0] + parts[1], abs(parts[0]) + abs(parts[1])


def _between(start: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of an integral over u."""
    if not (-1 < start < level and 0 < level < 1):
        raise InputError(f"overlaps are {start!r} and {level!r}: give -1 < start < level < 1, the latter above 0")
    edges = (np.geomspace if start > 0 else np.linspace)(start, level, _PANELS + 1)
    points, weights = gauss_legendre(edges[:-1], edges[1:], _POINTS)
    return points.ravel(), weights.ravel()


@dataclass(frozen=True, eq=False)
class Wandering(Diffusion):
    r"""The diffusion with the moments of a step, $du=(f-\gamma K)dt+\sqrt{\gamma N}dW$ in the sum of step sizes, for the law
    of a passage (`theory.one_task.hitting_distribution`).

    It has what $E\,n$ to first order in γ leaves out: rows that noise drives to where they hardly grow.

    Attributes: step_size: γ, over the batch. activation: that of the row, even where u and −u are one. weight: of no meaning.
    """

    drift: Drift
    dim: float
    step_size: float
    activation: Activation
    weight: float = 1.0

    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drift and variance at overlaps of shape (n,)."""
        shrinkage, variance = self.drift.second_order(self.dim, overlap)
        return self.drift.at(overlap) - self.step_size * shrinkage, self.step_size * variance
