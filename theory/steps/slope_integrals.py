r"""Gaussian integrals of an activation and its slope, for any covariance: polynomials and erf in closed form.

For jointly Gaussian $g_1,\dots,g_4$ with covariance C (variances included, any rank),

$$I_2=E\,\sigma(g_1)\sigma(g_2),\qquad I_3=E\,\sigma'(g_1)\,g_2\,\sigma(g_3),\qquad
I_4=E\,\sigma'(g_1)\sigma'(g_2)\sigma(g_3)\sigma(g_4).$$

$I_2$ and $I_4$ are given: for polynomials by the diagram formula, for erf in closed form (Saad and Solla 1995,
Phys. Rev. E 52, 4225, section II and appendix). All others follow by Stein's lemma, because derivatives by the
covariance are expectations of derivatives, $\partial E F/\partial C_{ab}=E\,\partial_a\partial_bF$ for a ≠ b and half of
it for a = b:

$$I_3=2C_{12}\frac{\partial I_2}{\partial C_{11}}+C_{23}\frac{\partial I_2}{\partial C_{13}},\qquad
E\,g_sg_tF=C_{st}EF+\sum_{ab}C_{sa}C_{tb}E\,\partial_a\partial_bF,\qquad
E|x|^2F=d\,EF+\sum_{ab}C_{ab}E\,\partial_a\partial_bF.$$
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import sympy as sp

from theory.core import diagrams
from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.hermite import z

#: Largest degree of a polynomial: four-point integrals of higher ones have thousands of terms.
MAX_DEGREE = 6
_NAMES = {(i, h): sp.Symbol(f"C_{i + 1}{h + 1}", real=True) for i in range(4) for h in range(i, 4)}

#: Covariance of two labelled Gaussians.
Covariance = Callable[[sp.Symbol, sp.Symbol], sp.Expr]


def covariance_symbol(i: int, h: int) -> sp.Symbol:
    """$C_{ih}$, symmetric; vertices count from 0."""
    return _NAMES[min(i, h), max(i, h)]


def symbols(count: int) -> sp.Matrix:
    """The covariance of the first `count` vertices, in symbols."""
    return sp.Matrix(count, count, covariance_symbol)


@dataclass(frozen=True)
class SlopeIntegrals:
    """$I_2$ and $I_4$ in the symbols of `symbols`, and what follows from them for Gaussians with labels."""

    two: sp.Expr
    four: sp.Expr

    def product(self, covariance: Covariance, u: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        r"""$E\,\sigma(g_u)\sigma(g_w)$."""
        return _placed(self.two, covariance, (u, w))

    def first_order(self, covariance: Covariance, u: sp.Symbol, v: sp.Symbol, w: sp.Symbol) -> sp.Expr:
        r"""$E\,\sigma'(g_u)\,g_v\,\sigma(g_w)$."""
        own, cross = (_placed(sp.diff(self.two, _NAMES[x]), covariance, (u, w)) for x in ((0, 0), (0, 1)))
        return 2 * covariance(u, v) * own + covariance(v, w) * cross

    def second_order(self, covariance: Covariance, *vertices: sp.Symbol) -> sp.Expr:
        r"""$E\,\sigma'(g_u)\sigma'(g_v)\sigma(g_w)\sigma(g_z)$."""
        return _placed(self.four, covariance, vertices)

    def with_norm(self, covariance: Covariance, *vertices: sp.Symbol) -> sp.Expr:
        r"""The same with a factor $|x|^2$, $x\in R^d$."""
        bends = _bends(self.four)
        euler = sum(_NAMES[place] * (1 if place[0] == place[1] else 2) * value for place, value in bends.items())
        return _placed(diagrams.d * self.four + euler, covariance, vertices)

    def with_pair(self, covariance: Covariance, s: sp.Symbol, t: sp.Symbol, vertices: tuple[sp.Symbol, ...]) -> sp.Expr:
        r"""The same with a factor $g_sg_t$ of any two Gaussians."""
        total = covariance(s, t) * _placed(self.four, covariance, vertices)
        for (i, h), value in _bends(self.four).items():
            first, second = vertices[i], vertices[h]
            reach = covariance(s, first) * covariance(t, second)
            if i != h:
                reach += covariance(s, second) * covariance(t, first)
            total += reach * _placed(value, covariance, vertices)
        return total


@lru_cache(maxsize=16)
def _bends(integral: sp.Expr) -> dict[tuple[int, int], sp.Expr]:
    r"""$E\,\partial_a\partial_bF$ for a ≤ b."""
    return {place: sp.diff(integral, name) * (2 if place[0] == place[1] else 1) for place, name in _NAMES.items()}


def _placed(expression: sp.Expr, covariance: Covariance, vertices: tuple[sp.Symbol, ...]) -> sp.Expr:
    """Symbols replaced by the covariances of the labelled Gaussians."""
    count = len(vertices)
    known = {name: covariance(vertices[i], vertices[h]) for (i, h), name in _NAMES.items() if max(i, h) < count}
    return expression.xreplace(known)


# ------------------------------------------------------------------ the two families


@lru_cache(maxsize=16)
def slope_integrals(activation: Activation) -> SlopeIntegrals:
    """The integrals of a polynomial (degree up to 6) or of ``s*erf(b*z)``.

    Raises: `InputError` for any other activation.
    """
    error_function = as_erf(activation)
    if error_function is not None:
        return _of_erf(*error_function)
    if not activation.is_polynomial:
        raise InputError(
            f"activation {activation.name!r} has no closed four-point integrals: use a polynomial in z, or erf"
        )
    if activation.degree > MAX_DEGREE:
        raise InputError(
            f"activation {activation.name!r} has degree {activation.degree}: a committee takes at most {MAX_DEGREE}"
        )
    value = sp.expand(activation.function)
    slope = sp.diff(value, z)
    return SlopeIntegrals(wick_expectation([value] * 2), wick_expectation([slope, slope, value, value]))


def wick_expectation(polynomials: list[sp.Expr]) -> sp.Expr:
    r"""$E\prod_iF_i(g_i)$ for polynomials in z, as a polynomial in the covariance `symbols`.

    The diagram formula holds for Wick powers of any variance q, and $z^n=\sum_k\frac{n!}{2^kk!(n-2k)!}q^k{:}z^{n-2k}{:}$.
    """
    factors = [_wick_powers(f, covariance_symbol(i, i)) for i, f in enumerate(polynomials)]
    return diagrams.evaluate(diagrams.expectation(factors), symbols(len(polynomials)))


def _wick_powers(polynomial: sp.Expr, variance: sp.Expr) -> dict[int, sp.Expr]:
    r"""Degree a → coefficient of ${:}z^a{:}/\sqrt{a!}$."""
    found: dict[int, sp.Expr] = {}
    for (n,), coefficient in sp.Poly(polynomial, z).terms():
        for k in range(n // 2 + 1):
            a = n - 2 * k
            share = sp.Rational(factorial(n), 2**k * factorial(k) * factorial(a)) * sp.sqrt(factorial(a))
            found[a] = found.get(a, sp.Integer(0)) + coefficient * share * variance**k
    return {a: value for a, value in found.items() if value != 0}


def as_erf(activation: Activation) -> tuple[sp.Expr, sp.Expr] | None:
    """(s, b) of s·erf(b z), or None."""
    if activation.expression is None:
        return None
    scale, slope = sp.Wild("s", exclude=[z, 0]), sp.Wild("b", exclude=[z, 0])
    match = activation.expression.match(scale * sp.erf(slope * z))
    return (match[scale], match[slope]) if match else None


def _of_erf(scale: sp.Expr, slope: sp.Expr) -> SlopeIntegrals:
    r"""From those of $\mathrm{erf}(z/\sqrt2)$: its Gaussians are $\sqrt2b$ times ours."""
    stretch = 2 * slope**2
    stretched = {name: stretch * name for name in _NAMES.values()}
    two = scale**2 * erf_two().subs(stretched, simultaneous=True)
    four = scale**4 * stretch * erf_four().subs(stretched, simultaneous=True)
    return SlopeIntegrals(two, four)


def erf_two() -> sp.Expr:
    r"""$I_2$ of $\mathrm{erf}(z/\sqrt2)$ (Saad and Solla 1995)."""
    c = covariance_symbol
    return 2 / sp.pi * sp.asin(c(0, 1) / sp.sqrt((1 + c(0, 0)) * (1 + c(1, 1))))


def erf_four() -> sp.Expr:
    r"""$I_4$ of $\mathrm{erf}(z/\sqrt2)$ (Saad and Solla 1995).

    The slopes are Gaussian factors: under them $g_3,g_4$ are Gaussian with covariance $\Lambda/\Lambda_4$, and the
    rest is $I_2$.
    """
    c = covariance_symbol
    first, second = 1 + c(0, 0), 1 + c(1, 1)
    size = first * second - c(0, 1) ** 2

    def left(i: int, h: int, own: int) -> sp.Expr:
        """Λ₄ × (covariance of vertices i and h once the slopes are weighed in, plus `own`)."""
        mixed = c(0, 1) * (c(0, i) * c(1, h) + c(0, h) * c(1, i))
        return size * (c(i, h) + own) - c(1, i) * c(1, h) * first - c(0, i) * c(0, h) * second + mixed

    angle = left(2, 3, 0) / sp.sqrt(left(2, 2, 1) * left(3, 3, 1))
    return 4 / sp.pi**2 * sp.asin(angle) / sp.sqrt(size)
