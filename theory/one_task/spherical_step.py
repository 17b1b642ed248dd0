r"""One step of spherical online SGD on a single-index target: drift and noise of the overlap.

Target $\sigma(\langle e,x\rangle)$, student $\sigma(\langle v,x\rangle)$ with $|v|=1$, loss ½(difference)². A step on one
fresh sample moves v along the projected gradient and back to the sphere (arXiv:2003.10409, spherical online SGD):
$$v\leftarrow\frac{v+\eta g(x-zv)}{|v+\eta g(x-zv)|},\qquad
g=\delta\,\sigma'(z),\ \delta=\sigma(x_e)-\sigma(z),\ z=\langle v,x\rangle.$$
With $m=g(x_e-uz)$ and $q=g^2(|x|^2-z^2)$ the overlap becomes $u'=(u+\eta m)/\sqrt{1+\eta^2q}$, exactly, so that
$$E\,du=\eta\varphi'(u)(1-u^2)-\eta^2K+\dots,\quad K=\tfrac u2E\,q,\qquad
\mathrm{Var}\,du=\eta^2N+\dots,\quad N=E\,m^2-(E\,m)^2,$$
polynomials in u, derived for every polynomial activation by Mehler's formula, linear in d. `WholeSphericalStep` has the mean
and the variance of $u'-u$ to all orders, by quadrature: at $\eta\sim1/d$, the critical scale for J = 1 and 2, $\eta q$ is
of order one, and for J ≥ 3 q has tails so heavy that its expansion fails at sizes that can be simulated.

One direction among many, of weight a: target $a\sigma(\langle e,x\rangle)+s\xi$, student $a\sigma(\langle v,x\rangle)$. A
neuron of the additive model (norm squared a, 2-homogeneous) turns by $\eta\delta\sigma'(z)x$ whatever its norm, so here
$$\delta=a\{\sigma(x_e)-\sigma(z)\}+s\xi,\qquad s^2=(A-a^2)\,E\sigma^2,\quad A=\sum_pa_p^2 .$$
The standard Gaussian ξ, independent of x, stands for the other directions while they are not learned: a sum of many.
The signal is of order a while noise and shrinkage stay: the step size a direction can bear is proportional to its weight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.gaussian import standard_expectation
from theory.core.hermite import z
from theory.one_task.diffusion import Diffusion, OneTaskDiffusion
from theory.one_task.plateau import Plateau, a, d, mehler, signal, u
from theory.one_task.whole_step import WholeStep

REFERENCE = "arXiv:2003.10409, spherical online SGD; expansion of one step derived for every polynomial activation"


@dataclass(frozen=True)
class WholeSphericalStep(WholeStep):
    """Mean and variance of u' − u to all orders in η."""

    def moved(
        self, target: np.ndarray, own: np.ndarray, sigma: np.ndarray, slope: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """0 and δσ', of broadcast shape."""
        return np.zeros_like(own), (target - self.weight * sigma) * slope


@dataclass(frozen=True)
class SphericalStep:
    """Laws of one step as expressions in `u` and `d`.

    Attributes:
        signal: E m = φ'(u)(1−u²). shrinkage: K. variance: N.
    """

    activation: Activation
    signal: sp.Expr
    shrinkage: sp.Expr
    variance: sp.Expr

    @property
    def laws(self) -> Plateau:
        """K and N as the second-order laws of `OneTaskDiffusion`."""
        return Plateau(self.activation, self.shrinkage, self.variance)

    def diffusion(self, step_size: float, dim: int, *, whole: bool = True) -> Diffusion:
        """The diffusion of the overlap: of whole steps, or with the second-order laws."""
        if whole:
            return self.among_others(1.0, step_size, dim)
        return OneTaskDiffusion(self.activation, 1.0, step_size, 1.0, dim, constants=self.laws)

    def among_others(self, weight: float, step_size: float, dim: int, total: float = 1.0) -> WholeSphericalStep:
        """The diffusion of whole steps for one direction of weight a among others, Σa² = `total`."""
        return WholeSphericalStep(self.activation, weight, step_size, total, dim)

    def derivation(self) -> Derivation:
        """The mean and variance of a step, each checked against brute-force expectations in independent Gaussians."""
        tolerance = self.activation.check_tolerance
        first = signal(self.activation).subs(a, 1)
        steps = (
            Step("Mean, first order", equation("E m", self.signal), lambda shown: sp.expand(shown - first), tolerance),
            Step(
                "Mean, second order",
                equation("K(u)", self.shrinkage),
                lambda shown: _residual(self, lambda m, q: _AT / 2 * q, shown),
                tolerance,
            ),
            Step(
                "Variance, second order",
                equation("N(u)", self.variance),
                lambda shown: _residual(self, lambda m, q: m**2, shown + self.signal**2),
                tolerance,
            ),
        )
        equations = {"K(u)": self.shrinkage, "N(u)": self.variance}
        return Derivation("spherical-step", steps, equations, (Assumption("|v| = 1, one sample per step"),), REFERENCE)


@lru_cache(maxsize=32)
def spherical_step(activation: Activation) -> SphericalStep:
    """Derive the laws. Raises `InputError` for an activation that is no polynomial."""
    activation.require_polynomial("a step on the sphere")
    first = _expectation(activation, 1, {(1, 0): sp.Integer(1), (0, 1): -u})  # E m
    across = {(2, 0): sp.Integer(1), (1, 1): -2 * u, (0, 2): u**2}  # (x − uz)²
    second = _expectation(activation, 2, across)  # E m²
    energy = _expectation(activation, 2, {(0, 0): sp.Integer(1)})
    # |x|² − z² = (x − uz)²/(1 − u²) + the other d − 2 coordinates, independent of x and z.
    size = sp.cancel(second / (1 - u**2)) + (d - 2) * energy
    return SphericalStep(activation, first, sp.expand(u * size / 2), sp.expand(second - first**2))


def _expectation(activation: Activation, power: int, weights: dict[tuple[int, int], sp.Expr]) -> sp.Expr:
    r"""E g^power Σ w x^i z^j over Gaussians x, z with correlation u; δ^power by the binomial theorem."""
    sigma = activation.function
    slope = sp.expand(sp.diff(sigma, z) ** power)
    total = sp.Integer(0)
    for k in range(power + 1):
        left, right = sp.expand(sigma ** (power - k)), sp.expand(sigma**k * slope)
        sign = sp.binomial(power, k) * (-1) ** k
        for (i, j), weight in weights.items():
            total += sign * weight * mehler(left * z**i, right * z**j)
    return sp.expand(total)


_AT = sp.Rational(3, 5)


def _residual(found: SphericalStep, form: Callable[[sp.Expr, sp.Expr], sp.Expr], law: sp.Expr) -> sp.Expr:
    """`law` at u = 3/5, d = 17 against the expectation in independent x, ζ and |x_rest|², no Mehler formula."""
    x, y, rest = sp.symbols("x y R", real=True)
    own = _AT * x + sp.Rational(4, 5) * y
    sigma = found.activation.function
    g = (sigma.subs(z, x) - sigma.subs(z, own)) * sp.diff(sigma, z).subs(z, own)
    expression = sp.expand(form(g * (x - _AT * own), g**2 * (x**2 + y**2 - own**2 + rest)))
    parts = sp.Poly(expression, rest).all_coeffs()[::-1]  # in powers of |x_rest|², chi-squared with d − 2 = 15
    value = sum(
        standard_expectation(part, x, y) * moment for part, moment in zip(parts, (1, 15, 15 * 17), strict=False)
    )
    return sp.N(value - law.subs({u: _AT, d: 17}), 50)
