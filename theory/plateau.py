r"""One SGD step on the plateau: signal, shrinkage and noise of a light student's overlap, and the largest step size.

A light student ($\|v\|\to0$, so $f\approx0$) that takes a step of size $\eta$ on one fresh sample moves along
$g = f_*(x)\{\chi(z)\bar v+\sigma'(z)x\}$, $z=\langle\bar v,x\rangle$, $\chi(z)=2\sigma(z)-z\sigma'(z)$ (in units of its
norm). Its normalised overlap $u=\langle\bar v,e_p\rangle$ then obeys, exactly to second order in $\eta$ and first in $u$,
$$E\,du=\eta a\varphi'(u)-\eta^2\kappa u,\qquad \mathrm{Var}\,du=\eta^2\nu .$$
κ and ν are derived here for any polynomial activation without mean and with information exponent ≥ 3; a batch of $b$
samples divides both by $b$ (up to $O(u^{2J-2})$). The drift changes sign at $\eta_c(u) = a\varphi'(u)/(\kappa u)$: above
it the direction is never learned.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from theory.activation import Activation
from theory.activation import c as kernel_variable
from theory.derivation import Assumption, Derivation, Step
from theory.gaussian import standard_expectation
from theory.hermite import z

u, a, d, mass = sp.symbols("u a d A", positive=True)
#: x_p (the coordinate on the teacher) and the coordinate along the rest of the student's direction.
_x, _y = sp.symbols("x_p zeta", real=True)
_F2, _F2W = sp.symbols("F2 F2W", positive=True)
REFERENCE = "second-order expansion of one SGD step; constants derived for every polynomial activation"


@lru_cache(maxsize=None)
def _expanded(function: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """G(z) at z = u x_p + √(1−u²) ζ to first order in u: (G(ζ), x_p G'(ζ))."""
    return function.subs(z, _y), _x * sp.diff(function, z).subs(z, _y)


def _first_order(product: tuple[sp.Expr, sp.Expr], other: tuple[sp.Expr, sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    """Product of two expansions to first order in u."""
    return product[0] * other[0], product[0] * other[1] + product[1] * other[0]


def _scaled(expansion: tuple[sp.Expr, sp.Expr], factor: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return expansion[0] * factor, expansion[1] * factor


def _teacher_expectation(polynomial: sp.Expr, sigma: sp.Expr, norm2_of_rest: bool = False) -> sp.Expr:
    r"""E[f_*² · polynomial(x_p, ζ) (· |x_rest|²)], $f_*=a\sigma(x_p)+F$, F independent of x_p, ζ with mean 0."""
    own = a**2 * sigma.subs(z, _x) ** 2
    own_weight = (d - 2) if norm2_of_rest else 1
    other_weight = _F2W if norm2_of_rest else _F2
    return own_weight * standard_expectation(sp.expand(own * polynomial), _x, _y) + other_weight * (
        standard_expectation(sp.expand(polynomial), _x, _y)
    )


@dataclass(frozen=True)
class Plateau:
    r"""Constants of the plateau for one activation.

    Attributes:
        shrinkage: κ as an expression in `a` (the direction's weight), `mass` ($A=\sum_pa_p^2$) and `d`.
        variance: ν likewise.
    """

    activation: Activation
    shrinkage: sp.Expr
    variance: sp.Expr

    def numbers(self, weight: float, total: float, dim: int, batch: int = 1) -> tuple[float, float]:
        """(κ, ν) for numbers: weight a_p, total Σa², dimension d, batch b."""
        values = {a: weight, mass: total, d: dim}
        return float(self.shrinkage.subs(values)) / batch, float(self.variance.subs(values)) / batch

    def critical_step(self, weight: float, overlap: float, total: float, dim: int, batch: int = 1) -> float:
        r"""$\eta_c = a\varphi'(u)/(\kappa u)$ at overlap u: the drift's stability boundary."""
        kappa, _ = self.numbers(weight, total, dim, batch)
        slope = float(self.activation.dual_derivative().subs(kernel_variable, overlap))
        return weight * slope / (kappa * overlap)

    def derivation(self) -> Derivation:
        kappa, nu = sp.Symbol("kappa"), sp.Symbol("nu")
        steps = (
            Step(
                "Second-order shrinkage of a light student's overlap",
                sp.Eq(kappa, self.shrinkage, evaluate=False),
                lambda: self.shrinkage - _general_shrinkage(self.activation),
                self.activation.check_tolerance,
            ),
            Step(
                "Variance of its overlap in one step",
                sp.Eq(nu, self.variance, evaluate=False),
                lambda: self.variance - _general_variance(self.activation),
                self.activation.check_tolerance,
            ),
        )
        assumptions = (Assumption("light student: f ≈ 0"), Assumption("overlap u ≪ 1, other overlaps negligible"))
        equations = {r"\kappa": self.shrinkage, r"\nu": self.variance}
        return Derivation("plateau", steps, equations, assumptions, REFERENCE)


@lru_cache(maxsize=64)
def plateau(activation: Activation) -> Plateau:
    """Derive κ and ν. Raises `InputError` for an exponent below 3; needs a mean-free polynomial activation.

    An activation that is no polynomial gets the leading order in d, which needs its kernel only:
    κ ≈ ½ d A φ(1) φ'(1), ν ≈ A φ(1) φ'(1) (since E σ'² = φ'(1)).
    """
    if not activation.is_polynomial or activation.information_exponent < 3 or 0 in activation.coefficients:
        energy = activation.second_moment * activation.dual_derivative().subs(kernel_variable, 1)
        return Plateau(activation, d * mass * energy / 2, mass * energy)
    sigma = activation.function
    slope = sp.diff(sigma, z)
    along = _expanded(sp.expand(2 * sigma))  # g·v̄ = f_* (χ + zσ') = 2σ f_*
    psi, chi = _expanded(slope), _expanded(sp.expand(2 * sigma - z * slope))
    towards = (psi[0] * _x, psi[1] * _x + chi[0])  # g·e_p = f_* (χ u + σ' x_p)
    psi2 = _first_order(psi, psi)
    size = _first_order(chi, chi)
    for factor, pair in ((2, _first_order(chi, _expanded(sp.expand(z * slope)))), (_x**2 + _y**2, psi2)):
        size = (size[0] + factor * pair[0], size[1] + factor * pair[1])
    # |x|² = x_p² + ζ² + |x_rest|² exactly; the last part is a separate Gaussian block.
    bend = _first_order(towards, along)[1]  # −(g·e)(g·v̄), first order in u
    shrink = (
        _teacher_expectation(bend, sigma)
        + _teacher_expectation(size[0], sigma) / 2
        + _teacher_expectation(psi2[0], sigma, norm2_of_rest=True) / 2
        - sp.Rational(3, 2) * _teacher_expectation(along[0] ** 2, sigma)
    )
    variance = _teacher_expectation(towards[0] ** 2, sigma)
    return Plateau(activation, _close(shrink, sigma), _close(variance, sigma))


def _close(expression: sp.Expr, sigma: sp.Expr) -> sp.Expr:
    r"""Insert the moments of the other teachers: E F² = (A−a²)φ(1), E F²|x_rest|² = (A−a²)[(d−3)φ(1)+Eσ²y²]."""
    second = standard_expectation(sp.expand(sigma**2), z)
    weighted = standard_expectation(sp.expand(sigma**2 * z**2), z)
    rest = mass - a**2
    closed = expression.subs({_F2: rest * second, _F2W: rest * ((d - 3) * second + weighted)})
    return sp.expand(sp.nsimplify(closed) if not closed.has(sp.Float) else closed)


def _general_variance(activation: Activation) -> sp.Expr:
    r"""ν = Eσ'²·(Eσ²(A−a²) + a²Eσ²z²), from one-dimensional moments."""
    sigma = activation.function
    second, weighted, energy = (_moment(f) for f in (sigma**2, sigma**2 * z**2, sp.diff(sigma, z) ** 2))
    return sp.expand(energy * ((mass - a**2) * second + a**2 * weighted))


def _general_shrinkage(activation: Activation) -> sp.Expr:
    r"""κ in one-dimensional moments, by Stein's lemma on the student's coordinate (an independent road).

    $2\kappa = E\psi^2\,(E f_*^2d+E\,x\!\cdot\!\nabla f_*^2)+Ef_*^2\,E[\chi^2+2z\chi\psi+2\psi\psi''\dots]$ written out.
    """
    sigma = activation.function
    psi = sp.diff(sigma, z)
    chi = 2 * sigma - z * psi
    second, weighted = _moment(sigma**2), _moment(sigma**2 * z**2)
    total = mass * second
    own = a**2 * (weighted - second)  # E f_*² (x_p² − 1)
    spread = mass * (weighted - second)  # E x·∇f_*² = Σ a²E(z²−1)σ²
    # E f_*²|g-part|²: |x|² splits into ζ² (student's own coordinate) and the d−1 others.
    size = total * _moment(chi**2 + 2 * z * chi * psi + psi**2 * (z**2 - 1)) + _moment(psi**2) * (total * d + spread)
    # (g·e)(g·v̄) to first order in u: 2f_*²{χσ + x_p²(σψ)'}, and E f_*²x_p² = total + own.
    bend = 2 * (total * _moment(chi * sigma) + (total + own) * _moment(sp.diff(sigma * psi, z)))
    return sp.expand(bend + size / 2 - 6 * total * _moment(sigma**2))


def _moment(polynomial: sp.Expr) -> sp.Expr:
    return standard_expectation(sp.expand(polynomial), z)


def stability_bound(
    activation: Activation, weights: np.ndarray, overlaps: np.ndarray, total: float, dim: int, batch: int = 1
) -> tuple[float, int]:
    """The smallest critical step size over pairs (weight, overlap) and the index of the pair that sets it."""
    constants = plateau(activation)
    steps = [
        constants.critical_step(float(w), abs(float(x)), total, dim, batch)
        for w, x in zip(weights, overlaps, strict=True)
    ]
    worst = int(np.argmin(steps))
    return float(steps[worst]), worst
