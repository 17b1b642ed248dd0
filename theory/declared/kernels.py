r"""Two-point kernels $K_{\sigma\tau}(q_{11},q_{12},q_{22})=E\,\sigma(g_1)\tau(g_2)$ of Gaussians of any variances.

An activation is a polynomial plus at most one special part: $a\,\mathrm{erf}(bz)$, $az\,\mathrm{erf}(bz)$,
$g\,\mathrm{sign}(z)z^n$ (relu and its like), a sine or a cosine; or $a\tanh(bz)$, $az\tanh(bz)$, $a\ln(1+e^{bz})$: means
of erf and its like over a law of their slope (`theory.core.logistic`), so that their kernels are means over two slopes.
With $\mu_j(q)=E\,\sigma^{(j)}(\sqrt qz)$ Price's theorem gives

$$K_{\sigma\tau}=\sum_j\frac{q_{12}^j}{j!}\mu^\sigma_j(q_{11})\mu^\tau_j(q_{22}),$$

a finite sum as soon as one of the two is a polynomial. Two special parts have a closed form if they are of one kind (Williams
1997; Cho and Saul 2009), and none is needed if one is odd and the other even. Derivatives are SymPy's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import sympy as sp

from theory.core import hermite
from theory.core.activation import (
    STEEPEST,
    Activation,
    arc_cosine_kernel,
    erf_covariance,
    signed_power_coefficient,
    with_function,
    with_signed_power,
    without_poles,
)
from theory.core.activation import c as cosine
from theory.core.errors import InputError
from theory.core.hermite import z

#: Variances and covariance of the two Gaussians.
q11, q22 = sp.symbols("q_11 q_22", positive=True)
q12 = sp.Symbol("q_12", real=True)
#: Slopes over whose law (`Parts.mixed`) a kernel is to be averaged, of the first and of the second activation.
beta1, beta2 = sp.symbols("beta_1 beta_2", positive=True)
#: Squared norms of the two rows, for 2-homogeneous neurons.
rho1, rho2 = sp.symbols("rho_1 rho_2", positive=True)


@dataclass(frozen=True)
class _Erf:
    """a·erf(bz), or if `gated` a·(z·erf(bz) + s·(erf(bz))')."""

    height: sp.Expr
    slope: sp.Expr
    gated: bool
    bump: sp.Expr = sp.S.Zero

    @property
    def odd(self) -> bool:
        return not self.gated

    def moment(self, j: int, q: sp.Expr) -> sp.Expr:
        """μ_j(q), from E σ(x + √q z) at small x."""
        steepness = self.slope / sp.sqrt(1 + 2 * self.slope**2 * q)
        if self.gated:
            total = (j * _erf_slope(steepness, j - 1) if j else sp.Integer(0)) + (q + self.bump) * _erf_slope(
                steepness, j + 1
            )
        else:
            total = _erf_slope(steepness, j)
        return self.height * total

    def product(self, other: object) -> sp.Expr | None:
        """Closed kernel with another of the kind; for gated ones by Stein's lemma from that of erf."""
        if not isinstance(other, _Erf) or self.gated != other.gated:
            return None
        plain = erf_covariance(sp.Integer(1), self.slope**2 * q11, other.slope**2 * q22)
        plain = plain.subs(cosine, self.slope * other.slope * q12)
        if self.gated:
            mixed, first, second = (sp.diff(plain, x) for x in (q12, q11, q22))
            one, two = q11 + self.bump, q22 + other.bump
            plain = q12 * plain + (one * two + q12**2) * mixed + 2 * q12 * (one * first + two * second)
        return self.height * other.height * plain


def _erf_slope(slope: sp.Expr, j: int) -> sp.Expr:
    """The j-th derivative of erf(bx) at 0."""
    if j % 2 == 0:
        return sp.Integer(0)
    n = (j - 1) // 2
    return 2 / sp.sqrt(sp.pi) * (-1) ** n * slope**j * sp.Rational(factorial(2 * n), factorial(n))


@dataclass(frozen=True)
class _SignedPower:
    """g·sign(z)zⁿ."""

    height: sp.Expr
    power: int

    @property
    def odd(self) -> bool:
        return self.power % 2 == 0

    def moment(self, j: int, q: sp.Expr) -> sp.Expr:
        """μ_j(q), homogeneous in √q."""
        share = self.height * signed_power_coefficient(self.power, j) * sp.sqrt(factorial(j))
        return share * sp.sqrt(q) ** (self.power - j)

    def product(self, other: object) -> sp.Expr | None:
        """The arc-cosine kernel of `cosine`, for one power."""
        if not isinstance(other, _SignedPower) or self.power != other.power:
            return None
        return self.height * other.height * sp.sqrt(q11 * q22) ** self.power * arc_cosine_kernel(self.power)


@dataclass(frozen=True)
class _Wave:
    """a·sin(bz), or a·cos(bz)."""

    height: sp.Expr
    frequency: sp.Expr
    odd: bool

    def moment(self, j: int, q: sp.Expr) -> sp.Expr:
        """μ_j(q), from E exp(ibz) with variance q."""
        there = sp.diff((sp.sin if self.odd else sp.cos)(self.frequency * z), z, j).subs(z, 0)
        return self.height * there * sp.exp(-(self.frequency**2) * q / 2)

    def product(self, other: object) -> sp.Expr | None:
        """Closed kernel with another of the kind: half of E cos(g₁ − g₂) ∓ E cos(g₁ + g₂)."""
        if not isinstance(other, _Wave):
            return None
        one, two = self.frequency, other.frequency
        apart, together = (sp.exp(-(one**2 * q11 + s * 2 * one * two * q12 + two**2 * q22) / 2) for s in (-1, 1))
        return self.height * other.height * (apart - together if self.odd else apart + together) / 2


Special = _Erf | _SignedPower | _Wave


@dataclass(frozen=True)
class Parts:
    """An activation as Hermite coefficients of a polynomial, and a special part or None; of a `mixed` one all are means over
    a slope β of the law of `theory.core.logistic`, of which tanh is the mean of erf(βz).
    """

    polynomial: dict[int, sp.Expr]
    special: Special | None = None
    mixed: bool = False

    @property
    def degree(self) -> int:
        return max(self.polynomial, default=-1)

    def smooth(self, j: int, q: sp.Expr) -> sp.Expr:
        r"""$\mu_j(q)=E\,\sigma^{(j)}(\sqrt qz)$ of the polynomial."""
        found = [
            value * sp.sqrt(factorial(n)) * (q - 1) ** ((n - j) // 2) / (2 ** ((n - j) // 2) * factorial((n - j) // 2))
            for n, value in self.polynomial.items()
            if n >= j and (n - j) % 2 == 0
        ]
        return sp.Add(*found)

    def moment(self, j: int, q: sp.Expr) -> sp.Expr:
        r"""$\mu_j(q)$ of the whole."""
        return self.smooth(j, q) + self.rough(j, q)

    def rough(self, j: int, q: sp.Expr) -> sp.Expr:
        r"""$\mu_j(q)$ of the special part."""
        return self.special.moment(j, q) if self.special else sp.S.Zero


@lru_cache(maxsize=64)
def parts(activation: Activation, beta: sp.Symbol = beta1) -> Parts:
    """What an activation is made of, with `beta` for a random slope.

    Raises `InputError` for one that is none of the kinds above, or that jumps.
    """
    expression = activation.function
    if expression.is_polynomial(z):
        return Parts(hermite.from_polynomial(expression))
    expression = expression.replace(sp.log(1 + sp.exp(_EXPONENT)), lambda x: x / 2 + _LN_COSH(x / 2))
    expression = expression.replace(1 / (1 + sp.exp(_EXPONENT)), lambda x: (1 - sp.tanh(x / 2)) / 2)
    for function, factor, steepest, special in _KINDS:
        if (found := with_function(expression, function, factor, steepest)) is not None:
            height, slope, rest = found
            part = special(height, slope, beta)
            return Parts(hermite.from_polynomial(rest), part, mixed=part.moment(int(part.odd), q11).has(beta))
    if (power := with_signed_power(expression)) is not None and power[1] > 0:
        return Parts(hermite.from_polynomial(power[2]), _SignedPower(power[0], power[1]))
    raise InputError(
        f"activation {activation.name!r} has no closed two-point kernel at every variance: use a polynomial in z, or one of "
        "erf, tanh, z*erf(z), z*tanh(z), softplus, sin, cos or a relu (of any scale, plus a polynomial), or simulate it"
    )


def _of_ln_cosh(height: sp.Expr, slope: sp.Expr, beta: sp.Symbol) -> _Erf:
    r"""$\ln(2\cosh y)$, the integral of tanh: the mean of $y\,\mathrm{erf}(\beta y)+e^{-\beta^2y^2}/(\sqrt\pi\beta)$."""
    return _Erf(height * slope, slope * beta, gated=True, bump=1 / (2 * (slope * beta) ** 2))


#: ln(2 cosh y), of which softplus is y/2 and this at y/2.
_LN_COSH = sp.Function("L")
_EXPONENT = sp.Wild("x")
#: Largest b² of tanh(bz) and of z·tanh(bz): their terms of order b do not cancel as symbols, and the latter's leave rounding.
_STEEP, _GATED = 1e4, 1e3
#: The same of ln(2 cosh bz), whose exponentials overflow far out; and of waves, which are noise to a row from about there on.
_FAR, _SHORT = 1e2, 25.0
_ONE = sp.Integer(1)
#: Functions of bz that are known, what they are times, how steep they may be, and the part that they are, from height and b.
_KINDS: tuple[
    tuple[Callable[[sp.Expr], sp.Expr], sp.Expr, float, Callable[[sp.Expr, sp.Expr, sp.Symbol], Special]], ...
] = (
    (sp.erf, _ONE, STEEPEST, lambda height, slope, _: _Erf(height, slope, gated=False)),
    (sp.erf, z, STEEPEST, lambda height, slope, _: _Erf(height, slope, gated=True)),
    (sp.tanh, _ONE, _STEEP, lambda height, slope, beta: _Erf(height, slope * beta, gated=False)),
    (sp.tanh, z, _GATED, lambda height, slope, beta: _Erf(height, slope * beta, gated=True)),
    (_LN_COSH, _ONE, _FAR, _of_ln_cosh),
    (sp.sin, _ONE, _SHORT, lambda height, slope, _: _Wave(height, slope, odd=True)),
    (sp.cos, _ONE, _SHORT, lambda height, slope, _: _Wave(height, slope, odd=False)),
)


def has_parts(activation: Activation) -> bool:
    """Whether `parts` knows it."""
    try:
        parts(activation)
    except InputError:
        return False
    return True


@lru_cache(maxsize=64)
def kernel(first: Activation, second: Activation) -> sp.Expr:
    r"""$K_{\sigma\tau}$ in `q11`, `q12`, `q22`, and, for relu and its like, `cosine` $=q_{12}/\sqrt{q_{11}q_{22}}$; of tanh
    and its like at slopes `beta1`, `beta2`, over which it is to be averaged.

    Valid for positive variances and any rank. Raises `InputError` for a pair without closed form.
    """
    one, two = parts(first), parts(second, beta2)
    found = []
    if one.special and two.special:
        found.append(_special_product(one.special, two.special, f"{first.name!r} and {second.name!r}"))
    for j in range(max(one.degree, two.degree) + 1):
        pair = one.smooth(j, q11) * two.moment(j, q22)
        found.append(q12**j / factorial(j) * (pair + one.rough(j, q11) * two.smooth(j, q22)))
    return sp.Add(*found)


def _special_product(one: Special, two: Special, names: str) -> sp.Expr:
    if one.odd != two.odd:
        return sp.Integer(0)
    if (found := one.product(two)) is None:
        raise InputError(
            f"activations {names} have no closed two-point kernel with each other: use two of "
            "one kind, or a polynomial for one of them"
        )
    return found


def homogeneous(expression: sp.Expr, both: bool = True) -> sp.Expr:
    r"""The kernel of neurons $\rho\,\sigma(h/\sqrt\rho)$: the first of the two, or both."""
    second = rho2 if both else sp.Integer(1)
    scaled = {q11: q11 / rho1, q12: q12 / sp.sqrt(rho1 * second), q22: q22 / second}
    return rho1 * second * expression.subs(scaled, simultaneous=True)


def derivative(expression: sp.Expr, by: sp.Symbol) -> sp.Expr:
    """Derivative of a kernel, the one through `cosine` included; what cancels in that of erf(bz) at large b is gone."""
    through = sp.diff(q12 / sp.sqrt(q11 * q22), by)
    turned = sp.diff(expression, cosine)
    if turned == 0 or through == 0:
        return _without_steep_terms(sp.diff(expression, by), expression)
    # In terms of the cosine again.
    found = sp.diff(expression, by) + turned * through.subs(q12, cosine * sp.sqrt(q11 * q22))
    return without_poles(sp.expand(found))


def _without_steep_terms(slope: sp.Expr, expression: sp.Expr) -> sp.Expr:
    r"""A derivative of kernels of erf(bz) in powers of $A=1+2b^2q_{11}$, $B=1+2b^2q_{22}$, $D=AB-4b^4q_{12}^2$.

    At parallel rows terms of order b leave a sum of order 1/b of z·erf(bz): with $4b^4q_{12}^2=AB-D$ they cancel as symbols.
    $D=A+B-1+4b^4(q_{11}q_{22}-q_{12}^2)$ then keeps what is left of it at large b.
    """
    arcs = [x for x in expression.atoms(sp.asin) if x.has(q12)]
    if not arcs or expression.has(beta1, beta2):  # (no random slope is steep)
        return slope
    (arc,) = arcs  # (an activation has one special part)
    (sine,) = arc.args
    a, b, d, angle = sp.symbols("A B D theta", positive=True, cls=sp.Dummy)
    (first,) = (x.base for x in sine.atoms(sp.Pow) if x.base.has(q11))
    (second,) = (x.base for x in sine.atoms(sp.Pow) if x.base.has(q22))
    units = dict.fromkeys((q11, q22, rho1, rho2), 1)
    if min(first.subs(units), second.subs(units)) < 2:
        return slope  # (of small b, near A = B = D = 1, it is these powers that cancel)
    steep = sine * sp.sqrt(first * second) / q12
    flat = slope.subs(arc, angle).replace(
        lambda x: x.is_Pow and x.base.has(q12) and x.base.is_Add, lambda x: (d / (a * b)) ** x.exp
    )
    flat = flat.subs({first: a, second: b}).subs({q11: q11 * (a - 1) / (first - 1), q22: q22 * (b - 1) / (second - 1)})
    even = sp.expand(flat).replace(
        lambda x: x.is_Pow and x.base == q12 and x.exp.is_Integer,
        lambda x: ((a * b - d) / steep**2) ** (x.exp // 2) * q12 ** (x.exp % 2),
    )
    product = sp.expand(steep**-2 * (first - 1) * (second - 1))
    root = first + second - 1 + steep**2 * (product - q12**2)
    return sp.expand(even).subs({a: first, b: second, d: root, angle: arc})
