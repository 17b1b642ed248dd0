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
which leaves $\pm\delta x_0$ with the probability of the reflection principle at $s=V/(\delta x_0)^2$. The lemmas bound V by
$T\sigma^2$ and the probability by Doob's inequality. Derived here.
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
        r"""Probability that the tube is left by the end, and by how much whole steps and δ may move it.

        A walk of whole steps overshoots its barrier by between nothing and `OVERSHOOT` σ, as kicks count less and less; the
        middle of both is returned. A start off by ±δ changes s by $(1\pm\delta)^{1-k}$.

        Args:
            edges: 2 for either edge; 1 for a given one first, which symmetry makes half of it.
        """
        barrier = 1 + OVERSHOOT * self.noise / (self.width * self.start)
        near, far = leaving_probability(self.share), leaving_probability(self.share / barrier**2)
        low, high = (leaving_probability(self.share * (1 + x * self.width) ** (1 - self.power)) for x in (1, -1))
        return (near + far) / 2 * edges / 2, (near - far + high - low) / 2 * edges / 2


def leaving_probability(share: float) -> float:
    r"""$P(\max_{u\le s}|B_u|>1)=4\sum_{j\ge0}(-1)^j\Phi(-(2j+1)/\sqrt s)$, by the reflection principle.

    For s > 1 by its other form, which then converges: $1-\frac4\pi\sum_j\frac{(-1)^j}{2j+1}e^{-(2j+1)^2\pi^2s/8}$.
    """
    odd, signs = 2 * np.arange(_TERMS) + 1, (-1.0) ** np.arange(_TERMS)
    if share > 1:
        return float(1 - 4 / np.pi * np.sum(signs / odd * np.exp(-((odd * np.pi) ** 2) * share / 8)))
    return float(4 * np.sum(signs * scipy.special.ndtr(-odd / np.sqrt(share))))
