r"""Sharpness-aware steps with the population's gradient, one direction: an ascent of length ρ takes ρ off the overlap.

A unit row with overlap u, correlation loss $-\varphi(u)$, $\varphi=c^J$, $J\ge3$. The ascent is along $-(\theta-uw)$, so
that the gradient is taken at overlap $u-\rho$, to leading order in u and ρ, and

$$\dot u=J(u-\rho)^{J-1},\qquad T(\rho)/T(0)=\Big(\frac{u_0}{u_0-\rho}\Big)^{J-2},\quad\rho<u_0.$$

For $\rho\ge u_0$ the direction is not found: for even J the overlap falls, for odd J it comes up to ρ from below,
$u=\rho-[(\rho-u_0)^{2-J}+J(J-2)t]^{-1/(J-2)}$. Derived here; the rule: Foret et al. 2021 (arXiv:2010.01412).
"""

from functools import lru_cache

import sympy as sp

from theory.core.arguments import check_positive, check_whole
from theory.core.derivation import Assumption, Derivation, Step, equation
from theory.core.errors import InputError

REFERENCE = "derived; SAM: arXiv:2010.01412"

#: Overlap, at the start, radius over it, radius, time, and J − 2.
u, begin, share, radius, time, above = sp.symbols("u u_0 s rho t j", positive=True)


def rate() -> sp.Expr:
    r"""$\dot u$, to leading order."""
    return (above + 2) * (u - radius) ** (above + 1)


@lru_cache(maxsize=1)
def slowdown_law() -> sp.Expr:
    """T(ρ)/T(0) in `share` and `above`: times from u₀ on of the rate."""
    x, low = sp.symbols("x l", positive=True)
    passage = sp.integrate(1 / rate().subs(u, radius + x), (x, low, sp.oo))
    ratio = passage.subs(low, begin * (1 - share)) / passage.subs(low, begin)
    return sp.simplify(sp.expand_power_base(ratio, force=True))


@lru_cache(maxsize=1)
def held_law() -> sp.Expr:
    """u(t) for odd J and ρ > u₀, in `begin`, `radius`, `time` and `above`: the rate separated, x = ρ − u."""
    x, y = sp.symbols("x y", positive=True)
    # (An odd J has an even power: the sign of x does not matter.)
    passage = sp.integrate(1 / rate().subs(u, radius + y), (y, x, radius - begin))
    (gap,) = sp.solve(sp.Eq(time, sp.simplify(passage)), x)
    return radius - gap


def slowdown(degree: int, share_of_start: float) -> float:
    """T(ρ)/T(0) for ρ = `share_of_start` · u₀; inf from 1 on. Valid as u₀ → 0.

    Raises `InputError` for a degree below 3 or a negative share.
    """
    check_whole(3, degree=degree)
    if not share_of_start >= 0:
        raise InputError(f"share_of_start is {share_of_start!r}: give a radius over the overlap, 0 or more")
    if share_of_start >= 1:
        return float("inf")
    return float(slowdown_law().subs({above: degree - 2, share: share_of_start}))


def held_overlap(degree: int, overlap: float, radius_above: float, at: float) -> float:
    """Overlap at flow time `at` from `overlap` with a radius `radius_above` above it, odd degree. Valid for a small radius.

    Raises `InputError` for a degree that is not odd from 3 on, unless 0 < overlap < radius, and for a time that is not
    positive.
    """
    check_whole(3, degree=degree)
    check_positive(overlap=overlap, at=at)
    if degree % 2 == 0 or radius_above <= overlap:
        raise InputError(
            f"degree is {degree}, radius_above {radius_above!r}, overlap {overlap!r}: give an odd degree and a radius "
            "above the overlap"
        )
    return float(held_law().subs({above: degree - 2, begin: overlap, radius: radius_above, time: at}))


def _slowdown_residual(claim: sp.Basic) -> sp.Expr:
    """Against a numerical quadrature of both passages, J = 3 and 5, u₀ = 1/7."""
    x = sp.Symbol("x", positive=True)
    gap = sp.Integer(0)
    for power in (1, 3):
        known = {above: power, share: sp.Rational(2, 5)}
        start = sp.Rational(1, 7)
        slow, plain = (
            sp.Integral(1 / rate().subs({above: power, radius: ascent, u: x}), (x, start, sp.oo)).evalf(30)
            for ascent in (start * known[share], 0)
        )
        gap += abs(sp.N(claim.subs(known) - slow / plain, 30))
    return gap


def _held_residual(claim: sp.Basic) -> sp.Expr:
    """It moves at the rate, and begins where it should, J = 3 and 5."""
    gap = sp.Integer(0)
    for power in (1, 3):
        known = {above: power, begin: sp.Rational(1, 9), radius: sp.Rational(1, 5), time: sp.Rational(17, 3)}
        moved = sp.diff(claim, time) - rate().subs(u, claim)
        gap += abs(sp.N(moved.subs(known), 40)) + abs(sp.N((claim.subs(time, 0) - begin).subs(known), 40))
    return gap


def derivation() -> Derivation:
    """The slowdown below the overlap, and the path above it."""
    steps = (
        Step("Radius below the overlap", equation(r"T(\rho)/T(0)", slowdown_law()), _slowdown_residual, 1e-12),
        Step("Radius above it, odd degree", equation("u(t)", held_law()), _held_residual),
    )
    assumptions = (
        Assumption("one unit row, one direction, correlation loss, link h_J, J ≥ 3"),
        Assumption("overlap and radius small: leading order of the gradient at the raised point"),
    )
    return Derivation("population-sam", steps, {str(x.equation.lhs): x.claim for x in steps}, assumptions, REFERENCE)
