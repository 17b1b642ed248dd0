r"""One SGD step of a light student: signal, shrinkage and noise of its overlap, and the largest step size.

A light student ($\|v\|\to0$, so $f\approx0$) that takes a step of size $\eta$ on one fresh sample moves along
$g = f_*(x)\{\chi(z)\bar v+\sigma'(z)x\}$, $z=\langle\bar v,x\rangle$, $\chi(z)=2\sigma(z)-z\sigma'(z)$ (in units of its
norm). With all its other overlaps zero, $u=\langle\bar v,e_p\rangle$ obeys, to second order in $\eta$ and exactly in d,
$$E\,du=\eta a\varphi'(u)(1-u^2)-\eta^2K(u),\qquad \mathrm{Var}\,du=\eta^2N(u).$$
K and N are polynomials, derived here for any polynomial activation without mean and with information exponent ≥ 3, by
Mehler's formula $E[A(x_p)B(z)]=\sum_j\hat A_j\hat B_ju^j$. On the plateau $K\approx\kappa u$, $N\approx\nu$. A batch of
$b$ samples divides N by $b$, and K too up to terms of order $(1-1/b)u^{2J-3}$, which are left out. The drift changes
sign at $\eta_c(u)=a\varphi'(u)(1-u^2)/K(u)$: above it the direction is never learned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import sympy as sp

from theory.core import hermite
from theory.core.activation import Activation
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.core.gaussian import standard_expectation
from theory.core.hermite import z
from theory.core.lowered import lower_numpy
from theory.core.quadrature import product_rule

u, a, d, mass = sp.symbols("u a d A", positive=True)
REFERENCE = "second-order expansion of one SGD step; derived for every polynomial activation"
#: Of a quadrature of what is no polynomial.
_POINTS = 64


def mehler(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    r"""$E[A(x)B(z)]=\sum_j\hat A_j\hat B_ju^j$ for polynomials of standard Gaussians with correlation u."""
    left, right = _coefficients(sp.expand(first)), _coefficients(sp.expand(second))
    return sp.Add(*[value * right[j] * u**j for j, value in left.items() if j in right])


@lru_cache(maxsize=256)
def _coefficients(polynomial: sp.Expr) -> dict[int, sp.Expr]:
    return hermite.from_polynomial(polynomial)


def _compiled(law: sp.Expr, weight: float, total: float, dim: int, batch: int) -> Callable:
    """A law of u, per batch, as a NumPy function; lowered once for all numbers."""
    lowered = lower_numpy(law, (u, a, mass, d))
    return lambda overlap: lowered(overlap, weight, total, dim) / batch


@lru_cache(maxsize=256)
def signal(activation: Activation) -> sp.Expr:
    r"""$a\varphi'(u)(1-u^2)$: the mean motion of u per η, to first order."""
    return a * activation.kernel_at(u, 1) * (1 - u**2)


@dataclass(frozen=True)
class TargetMoments:
    """E[f_*² · x^i · B(z)] with f_* = aσ(x_p) + F, F independent of x_p and z and of mean zero."""

    sigma: sp.Expr

    @cached_property
    def second(self) -> sp.Expr:
        return standard_expectation(sp.expand(self.sigma**2), z)

    @cached_property
    def weighted(self) -> sp.Expr:
        return standard_expectation(sp.expand(self.sigma**2 * z**2), z)

    def of(self, power: int, second: sp.Expr) -> sp.Expr:
        """E f_*² x_p^power B(z)."""
        rest = (mass - a**2) * self.second
        return a**2 * mehler(self.sigma**2 * z**power, second) + rest * mehler(z**power, second)

    def with_rest(self, second: sp.Expr) -> sp.Expr:
        """E f_*² |x_rest|² B(z), x_rest the d − 2 coordinates apart from x_p and the student's own."""
        rest = (mass - a**2) * ((d - 3) * self.second + self.weighted)
        return (d - 2) * a**2 * mehler(self.sigma**2, second) + rest * mehler(sp.Integer(1), second)


@dataclass(frozen=True)
class Plateau:
    r"""Second-order constants of one activation.

    Attributes:
        shrinkage_law: K(u) as an expression in `u`, `a` (the direction's weight), `mass` ($A=\sum_pa_p^2$) and `d`.
        variance_law: N(u) likewise.
    """

    activation: Activation
    shrinkage_law: sp.Expr
    variance_law: sp.Expr

    @cached_property
    def shrinkage(self) -> sp.Expr:
        r"""κ: K(u) ≈ κu on the plateau (activations of definite parity)."""
        return sp.expand(sp.diff(self.shrinkage_law, u).subs(u, 0))

    @cached_property
    def variance(self) -> sp.Expr:
        r"""ν = N(0)."""
        return sp.expand(self.variance_law.subs(u, 0))

    def numbers(self, weight: float, total: float, dim: int, batch: int = 1) -> tuple[float, float]:
        """(κ, ν) for numbers: weight a_p, total Σa², dimension d, batch b."""
        values = {a: weight, mass: total, d: dim}
        return float(self.shrinkage.subs(values)) / batch, float(self.variance.subs(values)) / batch

    def laws(self, weight: float, total: float, dim: int, batch: int = 1) -> tuple[Callable, Callable]:
        """K(u) and N(u) as NumPy functions, for numbers."""
        numbers = weight, total, dim, batch
        return _compiled(self.shrinkage_law, *numbers), _compiled(self.variance_law, *numbers)

    def critical_step(self, weight: float, overlap: float, total: float, dim: int, batch: int = 1) -> float:
        r"""$\eta_c = a\varphi'(u)(1-u^2)/K(u)$ at signed overlap u: the drift's stability boundary.

        Infinite where the second-order drift does not oppose the signal (possible without parity only).
        """
        shrinkage = _compiled(self.shrinkage_law, weight, total, dim, batch)
        gain, loss = lower_numpy(signal(self.activation), (u, a))(overlap, weight), shrinkage(overlap)
        return float("inf") if gain * loss <= 0 else float(gain / loss)  # (and not a number where one of them is none)

    def neglected(self, weight: float, overlap: float, total: float, dim: int) -> float:
        r"""Share of K that its leading order in d, at small overlap, leaves out; 0 of exact laws. Beside it stands
        $K(0)+\kappa u+\tfrac12du\,a^2\{E\sigma(x_p)^2\sigma'(z)^2-E\sigma^2E\sigma'^2\}$.

        Of an activation without mean and with information exponent 3 or more: else the other directions' labels add more.
        """
        if _exact(self.activation):
            return 0.0
        sigma, values = self.activation.function, {u: overlap, a: weight, mass: total, d: dim}
        mean = partial(_moment, self.activation)
        # K(0) = 2 E f_*²x_p · E σσ', and E σσ' = ½ E zσ²; nothing of definite parity has it.
        whole = a**2 * mean(z * sigma**2) ** 2 + _general_shrinkage(self.activation) * u
        value, slope = (self.activation.arrays(order) for order in (0, 1))
        points, weights = product_rule(*[self.activation.gaussian(_POINTS)] * 2)
        x, across = points.T
        joint = weights @ (value(x) * slope(overlap * x + np.sqrt(1 - overlap**2) * across)) ** 2
        whole += d / 2 * u * a**2 * (float(joint) - mean(sigma**2) * mean(sp.diff(sigma, z) ** 2))
        return abs(float((whole / self.shrinkage_law).subs(values)) - 1)

    def stability_bound(
        self, weights: np.ndarray, overlaps: np.ndarray, total: float, dim: int, batch: int = 1
    ) -> tuple[float, int]:
        """The smallest critical step size over n pairs (weights and overlaps (n,)), and the index of the pair that sets it."""
        steps = [
            self.critical_step(float(w), float(x), total, dim, batch) for w, x in zip(weights, overlaps, strict=True)
        ]
        worst = int(np.argmin(steps))
        return float(steps[worst]), worst

    def derivation(self) -> Derivation:
        """``derive plateau``. Raises `InputError` unless K and N are exact: polynomial, no mean, exponent ≥ 3."""
        if not _exact(self.activation):
            raise InputError(
                f"activation {self.activation.name!r}: the plateau is derived for polynomials without mean and with "
                "information exponent 3 or more: use e.g. h3, h4 or 0.8*h4+0.6*h6"
            )
        kappa, nu = sp.Symbol("kappa"), sp.Symbol("nu")
        tolerance = self.activation.check_tolerance
        steps: tuple[Step, ...] = (
            Step(
                "Shrinkage at second order in the step size, any overlap",
                equation("K(u)", self.shrinkage_law),
                lambda shown: _direct_residual(self.activation, shown, variance=False),
                tolerance,
            ),
            Step(
                "Variance of one step, any overlap",
                equation("N(u)", self.variance_law),
                lambda shown: _direct_residual(self.activation, shown, variance=True),
                tolerance,
            ),
        )
        plateau_steps = (
            Step(
                "Shrinkage on the plateau",
                equation(kappa, self.shrinkage),
                lambda shown: sp.expand(shown - _general_shrinkage(self.activation)),
                tolerance,
            ),
            Step(
                "Variance on the plateau",
                equation(nu, self.variance),
                lambda shown: sp.expand(shown - _general_variance(self.activation)),
                tolerance,
            ),
        )
        assumptions = (Assumption("light student: f ≈ 0"), Assumption("its overlaps with the other teachers are 0"))
        equations = {"K(u)": self.shrinkage_law, "N(u)": self.variance_law}
        if self.activation.parity is not None:  # without parity K(0) ≠ 0 and there is no plateau constant κ
            steps += plateau_steps
            equations |= {r"\kappa": self.shrinkage, r"\nu": self.variance}
        return Derivation("plateau", steps, equations, assumptions, REFERENCE)


def _exact(activation: Activation) -> bool:
    return activation.is_polynomial and activation.information_exponent >= 3 and 0 not in activation.coefficients


@lru_cache(maxsize=64)
def plateau(activation: Activation) -> Plateau:
    """Derive K and N.

    An activation that is no polynomial, or has a mean or an exponent below 3, gets the leading order in d, which needs
    its kernel only: K ≈ ½ d A φ(1) φ'(1) u, N ≈ A φ(1) φ'(1) (since E σ'² = φ'(1)). With a mean or an exponent below 3 that
    is no more than the order of magnitude: K(0), and the labels of other directions that one sees at once, are left out
    (`theory.prediction.validity.of_step` says so).
    """
    if not _exact(activation):
        energy = activation.second_moment * activation.kernel_at(1, 1)
        return Plateau(activation, d * mass * energy / 2 * u, mass * energy)
    sigma = activation.function
    psi = sp.diff(sigma, z)
    chi = 2 * sigma - z * psi
    f2 = TargetMoments(sigma)
    # g·e_p = f_*(χu + ψx_p), g·v̄ = 2σ f_*, |g|² = f_*²(χ² + 2zχψ + ψ²|x|²), and
    # x_p² + ζ² = (x_p² + z² − 2u x_p z)/(1 − u²) for the student's own other coordinate ζ.
    inside = f2.of(2, psi**2) + f2.of(0, psi**2 * z**2) - 2 * u * f2.of(1, psi**2 * z)
    size = f2.of(0, chi**2 + 2 * z * chi * psi) + sp.cancel(inside / (1 - u**2)) + f2.with_rest(psi**2)
    cross = 2 * (u * f2.of(0, chi * sigma) + f2.of(1, psi * sigma))
    shrinkage = cross + u * size / 2 - 6 * u * f2.of(0, sigma**2)
    # g·e_p − u g·v̄ = f_*ψ(x_p − uz)
    square = f2.of(2, psi**2) - 2 * u * f2.of(1, psi**2 * z) + u**2 * f2.of(0, psi**2 * z**2)
    return Plateau(activation, sp.expand(shrinkage), sp.expand(square - signal(activation) ** 2))


def _direct_residual(activation: Activation, law: sp.Expr, variance: bool) -> sp.Expr:
    """K or N at u = 3/5 by brute force: all products expanded in independent Gaussians x_p and ζ, no Mehler formula."""
    x, y, f, f_square, f_norm = sp.symbols("x y F F2 F2W")
    at = sp.Rational(3, 5)
    point = at * x + sp.Rational(4, 5) * y
    sigma = activation.function
    value, slope = sigma.subs(z, point), sp.diff(sigma, z).subs(z, point)
    f_star, other = a * sigma.subs(z, x) + f, 2 * value - point * slope
    towards, along = f_star * (other * at + slope * x), f_star * (other + point * slope)
    if variance:
        first = standard_expectation(sp.expand((towards - at * along).subs(f, 0)), x, y)
        found = _average((towards - at * along) ** 2, x, y, f, f_square) - first**2
    else:
        known = -towards * along - at * f_star**2 * (other**2 + 2 * point * other * slope) / 2
        known += -at * f_star**2 * slope**2 * (x**2 + y**2) / 2 + sp.Rational(3, 2) * at * along**2
        found = -_average(known, x, y, f, f_square)
        found += at / 2 * _average(a**2 * sigma.subs(z, x) ** 2 * slope**2, x, y, f, f_square) * (d - 2)
        found += at / 2 * f_norm * standard_expectation(sp.expand(slope**2), x, y)
    second, weighted = (_moment(activation, f) for f in (sigma**2, sigma**2 * z**2))
    rest = mass - a**2
    found = found.subs({f_square: rest * second, f_norm: rest * ((d - 3) * second + weighted)})
    numbers = {a: sp.Rational(2, 3), mass: sp.Rational(5, 4), d: 17}
    return sp.N((found - law.subs(u, at)).subs(numbers), 50)


def _average(polynomial: sp.Expr, x: sp.Symbol, y: sp.Symbol, f: sp.Symbol, f_square: sp.Symbol) -> sp.Expr:
    """E over x, y standard Gaussian and F of mean 0 and variance `f_square`."""
    powers = sp.Poly(sp.expand(polynomial), f).all_coeffs()[::-1]
    quadratic = powers[2] if len(powers) > 2 else sp.Integer(0)
    return standard_expectation(powers[0], x, y) + f_square * standard_expectation(quadratic, x, y)


def _general_variance(activation: Activation) -> sp.Expr:
    r"""ν = Eσ'²·(Eσ²(A−a²) + a²Eσ²z²), from one-dimensional moments."""
    sigma = activation.function
    second, weighted, energy = (_moment(activation, f) for f in (sigma**2, sigma**2 * z**2, sp.diff(sigma, z) ** 2))
    return sp.expand(energy * ((mass - a**2) * second + a**2 * weighted))


def _general_shrinkage(activation: Activation) -> sp.Expr:
    """κ in one-dimensional moments, by Stein's lemma on the student's coordinate (an independent road)."""
    sigma = activation.function
    psi = sp.diff(sigma, z)
    chi, mean = 2 * sigma - z * psi, partial(_moment, activation)
    second, weighted = mean(sigma**2), mean(sigma**2 * z**2)
    total = mass * second
    own = a**2 * (weighted - second)  # E f_*² (x_p² − 1)
    spread = mass * (weighted - second)  # E x·∇f_*² = Σ a²E(z²−1)σ²
    # E f_*²|g-part|²: |x|² splits into ζ² (student's own coordinate) and the d−1 others.
    size = total * mean(chi**2 + 2 * z * chi * psi + psi**2 * (z**2 - 1)) + mean(psi**2) * (total * d + spread)
    # (g·e)(g·v̄) to first order in u: 2f_*²{χσ + x_p²(σψ)'}, and E f_*²x_p² = total + own.
    # (E(σψ)' = E zσψ: a kink has no second derivative.)
    bend = 2 * (total * mean(chi * sigma) + (total + own) * mean(z * sigma * psi))
    return sp.expand(bend + size / 2 - 6 * total * mean(sigma**2))


def _moment(activation: Activation, function: sp.Expr) -> sp.Expr:
    """E of a function of one standard Gaussian, made of the activation's: exact for polynomials, else by quadrature."""
    if function.is_polynomial(z):
        return standard_expectation(sp.expand(function), z)
    points, weights = activation.gaussian(_POINTS)
    return sp.Float(float(weights @ lower_numpy(function, (z,))(points)))
