r"""One step of spherical online SGD on a single-index target: drift and noise of the overlap.

Target $\sigma(\langle e,x\rangle)$, student $\sigma(\langle v,x\rangle)$ with $|v|=1$, loss ½(difference)². A step on one
fresh sample moves v along the projected gradient and back to the sphere (arXiv:2003.10409, spherical online SGD):
$$v\leftarrow\frac{v+\eta g(x-zv)}{|v+\eta g(x-zv)|},\qquad
g=\delta\,\sigma'(z),\ \delta=\sigma(x_e)-\sigma(z),\ z=\langle v,x\rangle.$$
With $m=g(x_e-uz)$ and $q=g^2(|x|^2-z^2)$ the overlap becomes $u'=(u+\eta m)/\sqrt{1+\eta^2q}$, exactly, so that
$$E\,du=\eta\varphi'(u)(1-u^2)-\eta^2K+\eta^3C+\dots,\quad K=\tfrac u2E\,q,\ C=-\tfrac12E\,mq,\qquad
\mathrm{Var}\,du=\eta^2N+\dots,\quad N=\mathrm{Var}(m-\tfrac\eta2uq).$$
(At $\eta\sim1/d$, the critical scale for J = 1 and 2, $\eta q$ is of order one: its fluctuations belong to N.)
All are polynomials in u, derived for every polynomial activation by Mehler's formula, linear in d.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from theory.activation import Activation
from theory.activation import c as kernel_variable
from theory.derivation import Assumption, Derivation, Step
from theory.errors import InputError
from theory.gaussian import standard_expectation
from theory.hermite import z
from theory.one_task_diffusion import OneTaskDiffusion, eta
from theory.plateau import Plateau, d, mehler, u

REFERENCE = "arXiv:2003.10409, spherical online SGD; expansion of one step derived for every polynomial activation"


@dataclass(frozen=True)
class SphericalStep:
    """Laws of one step as expressions in `u` and `d`.

    Attributes:
        signal: E m = φ'(u)(1−u²). shrinkage: K. variance: N, also in `eta` (symbol of `theory.one_task_diffusion`).
        third: C, the coefficient of η³ in the mean.
    """

    activation: Activation
    signal: sp.Expr
    shrinkage: sp.Expr
    variance: sp.Expr
    third: sp.Expr

    def laws(self, step_size: float, *, third: bool = False) -> Plateau:
        """K and N at a step size, for `OneTaskDiffusion`; `third` adds the third order of the mean to K."""
        h = sp.Float(step_size, 17)
        shrinkage = sp.expand(self.shrinkage - h * self.third) if third else self.shrinkage
        return Plateau(self.activation, shrinkage, sp.expand(self.variance.subs(eta, h)))

    def diffusion(self, step_size: float, dim: int, *, third: bool = False, **options: bool) -> OneTaskDiffusion:
        """The diffusion of the overlap; `options` as in `OneTaskDiffusion`."""
        laws = self.laws(step_size, third=third)
        return OneTaskDiffusion(self.activation, 1.0, step_size, 1.0, dim, constants=laws, **options)

    def derivation(self) -> Derivation:
        """The mean and variance of a step, each checked against brute-force expectations in independent Gaussians."""
        tolerance = self.activation.check_tolerance
        kernel = self.activation.dual_derivative().subs(kernel_variable, u) * (1 - u**2)
        steps = (
            Step(
                "Mean, first order", sp.Eq(sp.Symbol("E m"), self.signal, evaluate=False),
                lambda: sp.expand(self.signal - kernel), tolerance,
            ),
            Step(
                "Mean, second order", sp.Eq(sp.Symbol("K(u)"), self.shrinkage, evaluate=False),
                lambda: _residual(self, lambda m, q: _AT / 2 * q, self.shrinkage), tolerance,
            ),
            Step(
                "Variance", sp.Eq(sp.Symbol("N(u)"), self.variance, evaluate=False),
                lambda: _residual(
                    self, lambda m, q: (m - _ETA / 2 * _AT * q) ** 2,
                    (self.variance + (self.signal - eta * self.shrinkage) ** 2).subs(eta, _ETA),
                ), tolerance,
            ),
            Step(
                "Mean, third order", sp.Eq(sp.Symbol("C(u)"), self.third, evaluate=False),
                lambda: _residual(self, lambda m, q: -m * q / 2, self.third), tolerance,
            ),
        )  # fmt: skip
        equations = {"K(u)": self.shrinkage, "N(u)": self.variance, "C(u)": self.third}
        return Derivation("spherical-step", steps, equations, (Assumption("|v| = 1, one sample per step"),), REFERENCE)


@lru_cache(maxsize=32)
def spherical_step(activation: Activation) -> SphericalStep:
    """Derive the laws. Raises `InputError` for an activation that is no polynomial."""
    if not activation.is_polynomial:
        raise InputError(f"activation {activation.name!r} is no polynomial: use e.g. h2, h3 or 0.8*h4+0.6*h6")
    first = _expectation(activation, 1, {(1, 0): sp.Integer(1), (0, 1): -u})  # E m
    across = {(2, 0): sp.Integer(1), (1, 1): -2 * u, (0, 2): u**2}  # (x − uz)²
    second = _expectation(activation, 2, across)  # E m²
    energy = _expectation(activation, 2, {(0, 0): sp.Integer(1)})
    # |x|² − z² = (x − uz)²/(1 − u²) + the other d − 2 coordinates, independent of x and z.
    size = sp.cancel(second / (1 - u**2)) + (d - 2) * energy
    shrinkage = sp.expand(u * size / 2)
    cubes = {(3, 0): sp.Integer(1), (2, 1): -3 * u, (1, 2): 3 * u**2, (0, 3): -(u**3)}
    far = _expectation(activation, 3, {(1, 0): sp.Integer(1), (0, 1): -u})
    mixed = sp.cancel(_expectation(activation, 3, cubes) / (1 - u**2)) + (d - 2) * far  # E mq
    fourth = {(k, 4 - k): sp.binomial(4, k) * (-u) ** (4 - k) for k in range(5)}
    near = sp.cancel(_expectation(activation, 4, fourth) / (1 - u**2) ** 2)
    between = sp.cancel(_expectation(activation, 4, across) / (1 - u**2))
    # E q²: |x_rest|² has mean d − 2 and second moment d(d − 2).
    square = near + 2 * (d - 2) * between + d * (d - 2) * _expectation(activation, 4, {(0, 0): sp.Integer(1)})
    variance = second - eta * u * mixed + eta**2 * u**2 / 4 * square - (first - eta * shrinkage) ** 2
    return SphericalStep(activation, first, shrinkage, sp.expand(variance), sp.expand(-mixed / 2))


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


_AT, _ETA = sp.Rational(3, 5), sp.Rational(1, 10)


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
