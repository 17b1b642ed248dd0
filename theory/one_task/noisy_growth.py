r"""Growth in whole steps, $x'=x+\alpha x^k$, and with noise: what the helper lemmas of arXiv:2504.19983 (appendix D) bound.

**Whole steps** (Lemmas D.23, D.24). The flow $\dot x=\alpha x^k$ goes from $x_0$ to X in time
$\tau=\int dx/(\alpha x^k)$. The recursion follows the modified flow $f-\frac12f'f+\frac13f'^2f+\frac1{12}f''f^2$ of explicit
steps, so it takes
$$n=\tau+\frac k2\ln\frac X{x_0}-\frac{\alpha k(2k-1)}{12(k-1)}\big(X^{k-1}-x_0^{k-1}\big)+\dots$$
steps: never fewer than τ (D.23), never more than $\tau(1+\alpha X^{k-1})^k$ (D.24), and hardly more than the former.

**Noise** (Lemmas D.4, D.6, D.13, D.18). Add independent Gaussian noise of variance σ² to each step. The tube
lies between the recursions without noise from $(1\pm\delta)x_0$. Carried back to the start, a kick at x counts
$(x_0/x)^k$ of itself, so the carried noise is to leading order in δ a Brownian motion with the variance
$$V=\frac{\sigma^2x_0^{1-k}}{\alpha(3k-1)}\Big(1-\big(\tfrac{x_0}X\big)^{3k-1}\Big),$$
which leaves $\pm\delta x_0$ with the probability of the reflection principle at $s=V/(\delta x_0)^2$. A walk of whole steps
overshoots its barrier by `OVERSHOOT` of a step, so that it leaves like a Brownian motion whose barrier is as much farther off:
at $1+\epsilon(u)$, in half widths, less and less as kicks count less. With $p(u)$ the density of first passages at ±1 and
$g(r)$ the probability of not leaving for r more from a little within an edge, over that little,
$$\delta P=-\int_0^s\epsilon(u)\,p(u)\,g(s-u)\,du,\quad\epsilon(u)=c\,\frac{\sigma}{\delta x_0}
\Big[1-\frac us\Big(1-\big(\tfrac{x_0}X\big)^{3k-1}\Big)\Big]^{k/(3k-1)}.$$
The lemmas bound V by $T\sigma^2$ and the probability by Doob's inequality. Derived here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import sympy as sp

from theory.core.arguments import check_positive, check_whole
from theory.core.errors import InputError

alpha, x, start, end = sp.symbols("alpha x x_0 X", positive=True)
#: Mean overshoot of a Gaussian random walk over a barrier, in steps: $-\zeta(1/2)/\sqrt{2\pi}$ (Chernoff; Siegmund 1985).
OVERSHOOT = float(-sp.zeta(sp.Rational(1, 2)) / sp.sqrt(2 * sp.pi))
_TERMS = 12
#: Nodes of the mean over the times at which an edge is reached.
_NODES = 40


def steps_of_growth(power: int) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    r"""Number of steps from $x_0$ to X in falling orders: the flow's time, the lag of explicit steps, and the next order.

    From $dn=\big(\frac1f+\frac{f'}{2f}-\frac1{12}(\frac{f'^2}f+f'')+\dots\big)dx$, $f=\alpha x^k$. Expressions in `alpha`,
    `start` and `end`. Raises `InputError` for a power below 1.
    """
    check_whole(power=power)
    f = alpha * x**power
    slope, bend = sp.diff(f, x), sp.diff(f, x, 2)
    densities = (1 / f, slope / (2 * f), -(slope**2 / f + bend) / 12)
    first, lag, after = (sp.integrate(sp.simplify(density), (x, start, end)) for density in densities)
    return first, lag, after


@dataclass(frozen=True)
class NoisyGrowth:
    r"""$x'=x+\alpha x^k+Z$, $Z\sim N(0,\sigma^2)$, from $x_0$ until the recursion without noise is at X.

    Attributes:
        power: k ≥ 1. rate: α. start, end: $x_0$ and X. noise: σ. width: δ of the tube.

    Raises `InputError` for what is not positive, an end that is not above the start, and a tube whose upper edge explodes
    before the end.
    """

    power: int
    rate: float
    start: float
    end: float
    noise: float
    width: float

    def __post_init__(self) -> None:
        check_whole(power=self.power)
        check_positive(rate=self.rate, start=self.start, noise=self.noise, width=self.width)
        if not self.end > self.start:
            raise InputError(f"end is {self.end!r}: growth ends above its start, {self.start!r}")
        if (1 + self.width) ** (1 - self.power) <= 1 - (self.start / self.end) ** (self.power - 1):
            raise InputError(
                f"width is {self.width!r}: the tube's upper edge explodes before the end, give a smaller one"
            )

    @property
    def steps(self) -> int:
        """Whole steps of the recursion without noise, to leading orders."""
        values = {alpha: self.rate, start: self.start, end: self.end}
        first, lag, _ = steps_of_growth(self.power)
        return round(float((first + lag).subs(values)))

    @cached_property
    def share(self) -> float:
        r"""$s=V/(\delta x_0)^2$: variance of the noise carried back to the start, in half widths of the tube."""
        growth = 3 * self.power - 1
        variance = self.noise**2 * self.start ** (1 - self.power) / (self.rate * growth)
        return variance * (1 - (self.start / self.end) ** growth) / (self.width * self.start) ** 2

    @property
    def doob(self) -> float:
        r"""$T\sigma^2/(\delta x_0)^2$: the lemmas' bound on the probability."""
        return self.steps * (self.noise / (self.width * self.start)) ** 2

    def leaves(self, edges: int = 2) -> tuple[float, float]:
        r"""Probability that the tube is left by the end, and by how much further orders of a step and δ may move it.

        The barrier is taken as far off, all the time, as changes the probability by what $\epsilon(u)$ does: first
        order; what that leaves out is as large as the second order of it. A start off by ±δ changes s by
        $(1\pm\delta)^{1-k}$.

        Args:
            edges: 2 for either edge; 1 for a given one first, which symmetry makes half of it.
        """
        barrier = 1 + self.overshoot
        at, near = leaving_probability(self.share / barrier**2), leaving_probability(self.share)
        twice = leaving_probability(self.share / (1 + 2 * self.overshoot) ** 2)
        low, high = (leaving_probability(self.share * (1 + x * self.width) ** (1 - self.power)) for x in (1, -1))
        one = (
            self.doob / self.steps
        )  # a kick's share of s at the start, half of which depends on what comes first in a step
        early, late = (leaving_probability(self.share + x * one / 2) for x in (1, -1))
        return at * edges / 2, (abs(near - 2 * at + twice) + high - low + early - late) / 2 * edges / 2

    @property
    def overshoot(self) -> float:
        r"""Mean of $\epsilon(u)$, by the weight $p(u)g(s-u)$ that it has in the probability."""
        growth = 3 * self.power - 1
        discounted = 1 - (self.start / self.end) ** growth
        nodes, mass = np.polynomial.legendre.leggauss(_NODES)
        late = (1 + nodes) / 2  # the share of s that is left is its square: g grows as a root there
        weights = mass * late * passage_density(self.share * (1 - late**2)) * survival_slope(self.share * late**2)
        counts = (1 - (1 - late**2) * discounted) ** (self.power / growth)
        return float(OVERSHOOT * self.noise / (self.width * self.start) * np.average(counts, weights=weights))


def passage_density(time: np.ndarray) -> np.ndarray:
    r"""$p(u)=2u^{-3/2}\sum_{j\ge0}(-1)^j(2j+1)\,\varphi\big((2j+1)/\sqrt u\big)$, of first passages of ±1; shape as given.

    Of times that are not 0, up to about 30 (`_TERMS`), beyond which nothing is left.
    """
    odd, signs = 2 * np.arange(_TERMS) + 1, (-1.0) ** np.arange(_TERMS)
    at = odd / np.sqrt(time[..., None])
    return 2 / time**1.5 * np.sum(signs * odd * np.exp(-(at**2) / 2), axis=-1) / np.sqrt(2 * np.pi)


def survival_slope(time: np.ndarray) -> np.ndarray:
    r"""$g(r)=2\sum_{j\ge0}e^{-(2j+1)^2\pi^2r/8}=\sqrt{2/\pi r}\,\big(1+2\sum_{j\ge1}(-1)^je^{-2j^2/r}\big)$; shape as given.

    Of the probability not to leave (−1, 1) for a time r, at an edge and inwards. Times as in `passage_density`.
    """
    j = np.arange(1, _TERMS)
    return np.sqrt(2 / (np.pi * time)) * (1 + 2 * np.sum((-1.0) ** j * np.exp(-2 * j**2 / time[..., None]), axis=-1))


def leaving_probability(share: float) -> float:
    r"""$P(\max_{u\le s}|B_u|>1)=4\sum_{j\ge0}(-1)^j\Phi(-(2j+1)/\sqrt s)$, by the reflection principle.

    For s > 1 by its other form, which then converges: $1-\frac4\pi\sum_j\frac{(-1)^j}{2j+1}e^{-(2j+1)^2\pi^2s/8}$.
    """
    odd, signs = 2 * np.arange(_TERMS) + 1, (-1.0) ** np.arange(_TERMS)
    if share > 1:
        return float(1 - 4 / np.pi * np.sum(signs / odd * np.exp(-((odd * np.pi) ** 2) * share / 8)))
    return float(4 * np.sum(signs * scipy.special.ndtr(-odd / np.sqrt(share))))
