r"""Weight decay on the additive model: what is fitted, what is left, and how much later.

$\dot v=-\nabla_v\mathcal L-\kappa v$ shrinks rows and does not turn them: cosines move as without decay, norms as
$\dot r=4r(a\varphi(u)-r\varphi(1))-2\kappa r$ (isotropic inputs, 2-homogeneous student). Hence

* *fitted norm* $r^*=a_p-\kappa/(2\varphi(1))$: a direction with $a_p\le\kappa/(2\varphi(1))$ is never fitted;
* *floor* of the loss $\tfrac12\varphi(1)\sum_p\min(a_p,\kappa/(2\varphi(1)))^2\propto\kappa^{2-1/\beta}$ for
  $a_p\propto p^{-\beta}$;
* *delay*: while a neuron searches its norm falls as $e^{-2\kappa t}$, and must be grown again:
$$T^{loss}=T^{sw}+\frac{\ln(r^*/r_0)+2\kappa T^{sw}}{4\varphi(1)r^*},\qquad T^{sw}=T^{1/2}+\ell/a,$$
  $T^{1/2}$ to squared overlap ½, ℓ/a from there to where growth begins in effect; relative to $T^{1/2}$ late by
  $\kappa/(2\varphi(1)r^*)$, which is $\kappa/(2a-\kappa)$ for φ(1) = 1;
* *capture*: deflation is late by as much. A second neuron whose own time for that direction is below $T^{loss}$ goes there,
  too.

Derived here from the loss of one neuron (`theory.declared.anisotropic_emergence.lone_loss`).
"""

from functools import lru_cache

import numpy as np
import scipy
import sympy as sp
from numpy.typing import ArrayLike

from theory.core.activation import Activation
from theory.core.arguments import check_positive
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError
from theory.declared.anisotropic_emergence import a, beta, lam, lone_loss, mu, one, phi, r, rates, t
from theory.declared.population import numeric

REFERENCE = "derived; arXiv:2504.19983, section 2, without decay"

kappa, r0, switch, half, lag = sp.symbols(r"kappa r_0 T^{sw} T^{1/2} \ell", positive=True)


def norm_rate() -> sp.Expr:
    r"""$\dot r$ with decay: $2\langle v,\dot v\rangle$, the loss by r alone, since a cosine does not see a length."""
    return sp.expand(-4 * r * sp.diff(lone_loss(), r) - 2 * kappa * r)


@lru_cache(maxsize=1)
def fitted_norm() -> sp.Expr:
    r"""$r^*$, where an aligned neuron rests: the root of `norm_rate` at t = 1 that is not 0."""
    aligned = norm_rate().replace(phi, lambda x: one).subs(t, 1)
    (found,) = [root for root in sp.solve(aligned, r) if root != 0]
    return sp.expand(found)


@lru_cache(maxsize=1)
def loss_time_law() -> sp.Expr:
    r"""Time at which r is $r^*/2$, from $r_0e^{-2\kappa T^{sw}}\ll r^*$ at $T^{sw}$ along $\dot r=4\varphi(1)r(r^*-r)$."""
    x, rest = sp.symbols("x R", positive=True)
    aligned = sp.factor(norm_rate().replace(phi, lambda y: one).subs({t: 1, a: rest + a - fitted_norm()}))
    # Separated: ∫dx / (4φ(1) x (R − x)) = ln(x/(R − x)) / (4φ(1)R), at x = R/2 and where x ≪ R.
    log = sp.integrate(sp.apart(1 / aligned.subs(r, x), x), x)
    log = log.replace(sp.log, lambda y: sp.log(-y) if y.subs(x, rest / 2).is_negative else sp.log(y))
    span = log.subs(x, rest / 2) - log.subs(x, r0)
    light = sp.limit(sp.expand_log(span) + sp.log(r0) / (4 * one * rest), r0, 0)
    grown = light - (sp.log(r0) - 2 * kappa * switch) / (4 * one * rest)
    return switch + sp.simplify(grown).subs(rest, fitted_norm())


@lru_cache(maxsize=1)
def floor_law() -> sp.Expr:
    r"""Loss left for $a_p=p^{-\beta}$, β > ½ and small κ: the number of fitted directions real, sums as integrals."""
    steep, width = sp.symbols("gamma N", positive=True)
    least = kappa / (2 * one)
    x = sp.Symbol("x", positive=True)
    tail = sp.integrate(x ** (-1 - steep), (x, width, sp.oo)).subs(steep, 2 * beta - 1)
    return sp.simplify((one / 2 * (width * least**2 + tail)).subs(width, least ** (-1 / beta)))


@lru_cache(maxsize=1)
def floor_exponent() -> sp.Expr:
    r"""$d\ln\text{floor}/d\ln\kappa=2-1/\beta$."""
    return sp.simplify(kappa * sp.diff(sp.log(floor_law()), kappa))


# ------------------------------------------------------------------------------- numbers


def _moment(activation: Activation) -> float:
    return float(activation.second_moment)


def rest_norms(activation: Activation, weights: ArrayLike, decay: float) -> np.ndarray:
    r"""$\max(r^*,0)$ for each weight $a_p$, (P,). Raises `InputError` for a negative or infinite decay."""
    if not (np.isfinite(decay) and decay >= 0):
        raise InputError(f"decay is {decay!r}: give a finite number, 0 or more")
    law = numeric((fitted_norm(),), (a, kappa, one))
    return np.maximum(law(np.asarray(weights, dtype=float), decay, _moment(activation))[0], 0.0)


def floor(activation: Activation, weights: ArrayLike, decay: float, signal: float = 1.0) -> float:
    r"""Loss at rest, $\tfrac12\varphi(1)\sum_p(a_p-r^*_p)^2$; every direction with $r^*>0$ found (weights: (P,)).

    Where labels show `signal` times the target, `weights` are what they show, and $r^*_p$ of these.

    Valid without a mean of σ, and for orthonormal directions. Raises `InputError` as `rest_norms`.
    """
    left = np.asarray(weights, dtype=float) / signal - rest_norms(activation, weights, decay)
    return _moment(activation) / 2 * float(left @ left)


@lru_cache(maxsize=64)
def growth_lag(activation: Activation) -> float:
    r"""ℓ for unit weight: $\int_{T^{1/2}}^\infty(1-\varphi/\varphi(1))\,d\tau-\int_0^{T^{1/2}}\varphi/\varphi(1)\,d\tau$.

    From $\int 4a\varphi\,d\tau=4a\varphi(1)(T-T^{1/2}-\ell/a)$ at late times. Raises `InputError` for an information exponent
    below 3.
    """
    activation.require_exponent(3, "an emergence time that small overlaps decide")
    speed = rates()[0].subs({r: 0, a: 1, lam: 1, mu: 1}).replace(phi, activation.kernel_at).doit()
    share = activation.kernel_at(t) / activation.second_moment
    before, after = (sp.lambdify(t, sp.cancel(x / speed), "numpy") for x in (share, 1 - share))
    turn = np.sqrt(0.5)
    return float(scipy.integrate.quad(after, turn, 1.0)[0] - scipy.integrate.quad(before, 0.0, turn)[0])


def loss_time(activation: Activation, weight: float, half_time: float, norm2: float, decay: float) -> float:
    r"""$T^{loss}$ from $T^{1/2}$ and $r_0$ = `norm2`; inf for a direction that is never fitted.

    Valid for $r_0\ll r^*$: the norm saturates after the overlap. Raises `InputError` as `rest_norms` and `growth_lag`, and for
    numbers that are not positive.
    """
    check_positive(weight=weight, half_time=half_time, norm2=norm2)
    if rest_norms(activation, [weight], decay)[0] == 0:
        return float("inf")
    begun = half_time + growth_lag(activation) / weight
    law = numeric((loss_time_law(),), (switch, r0, a, kappa, one))
    return float(law(begun, norm2, weight, decay, _moment(activation))[0])


# ---------------------------------------------------------------------- the derivation

_KERNEL = t**4 + t**3 / 2
_KNOWN = {one: _KERNEL.subs(t, 1), a: sp.Rational(4, 5), kappa: sp.Rational(1, 3)}


def _rate_residual(claim: sp.Basic) -> sp.Expr:
    """In R³, the loss differentiated by v itself."""
    v = sp.Matrix(sp.symbols("v1:4", real=True))
    size = v.dot(v)
    at = {r: size, t: v[0] / sp.sqrt(size)}
    loss = lone_loss().replace(phi, lambda x: _KERNEL.subs(t, x)).subs(_KNOWN).subs(at)
    moved = [-sp.diff(loss, x) - _KNOWN[kappa] * x for x in v]
    point = dict(zip(v, (sp.Rational(3, 5), sp.Rational(-1, 2), sp.Rational(1, 4)), strict=True))
    known = sum(sp.diff(size, x) * y for x, y in zip(v, moved, strict=True)).subs(point)
    shown = claim.replace(phi, lambda x: _KERNEL.subs(t, x)).subs(_KNOWN)
    return sp.N(shown.subs({name: value.subs(point) for name, value in at.items()}) - known, 50)


def _rest_residual(claim: sp.Basic) -> sp.Expr:
    """The aligned loss with $\\tfrac12\\kappa r$ added is least there: a stationary point in r."""
    whole = (lone_loss() + kappa * r / 2).replace(phi, lambda x: one)
    return sp.expand(sp.diff(whole, r).subs(r, claim))


def _time_residual(claim: sp.Basic) -> sp.Expr:
    """From $r_0$ by the logistic law to the time shown, in high precision, at r₀ so small that the rest is below 1e-30."""
    rest, start = fitted_norm().subs(_KNOWN), sp.Rational(1, 10**34)
    at = {switch: 7, r0: start}
    time = claim.subs(_KNOWN).subs(at) - at[switch]
    begun = start * sp.exp(-2 * _KNOWN[kappa] * at[switch])
    grown = begun * sp.exp(4 * _KNOWN[one] * rest * time)
    return sp.N(grown / (1 + grown / rest) - rest / 2, 60)


def _floor_residual(claim: sp.Basic) -> sp.Expr:
    """Against $\\tfrac12\\varphi(1)\\int_0^\\infty\\min(p^{-\\beta},\\cdot)^2dp$ by numbers, β = 5/4."""
    known = {one: sp.Rational(3, 2), kappa: sp.Rational(1, 50), beta: sp.Rational(5, 4)}
    least = float((kappa / (2 * one)).subs(known))
    edge = least ** (-1 / 1.25)
    found = (
        edge * least**2
        + scipy.integrate.quad(lambda y: np.exp(-1.5 * y), np.log(edge), np.inf, epsabs=0, epsrel=1e-12)[0]
    )
    return sp.Float(float(claim.subs(known)) / (0.75 * found) - 1)


def derivation() -> Derivation:
    """Norm, its rest, the time of the loss, and the floor."""
    steps = (
        Step("Norm with decay", equation(r"\dot{r}", norm_rate()), _rate_residual),
        Step("Where it rests", equation("r^{*}", fitted_norm()), _rest_residual),
        Step("When the loss falls", equation("T^{loss}", loss_time_law()), _time_residual, 1e-30),
        Step("Floor for power-law weights", equation("L_{floor}", floor_law()), _floor_residual, 1e-9),
    )
    assumptions = (
        Assumption("isotropic inputs, orthonormal directions, 2-homogeneous student, σ without a mean"),
        Assumption("r_0 ≪ r*: the norm saturates after the overlap"),
        Assumption("no rival is captured: a neuron's own time exceeds the loss time of the direction"),
    )
    return Derivation("weight-decay", steps, {str(x.equation.lhs): x.claim for x in steps}, assumptions, REFERENCE)
