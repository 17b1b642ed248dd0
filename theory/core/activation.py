r"""Activations, known by their Hermite coefficients and by their dual kernel.

The dual kernel (dual activation) of $\sigma$ is
$\varphi(c) = E[\sigma(\langle u,x\rangle)\sigma(\langle w,x\rangle)] = \sum_j \hat\sigma_j^2 c^j$ for unit vectors with
$\langle u,w\rangle = c$. Everything that gradient flow on Gaussian data knows of the activation is $\varphi$.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from theory.core import hermite
from theory.core.activation_text import parse_expression
from theory.core.errors import InputError
from theory.core.lowered import lower_numpy
from theory.core.quadrature import Rule, gauss_hermite

z = hermite.z
c = sp.Symbol("c", real=True)

#: Degree up to which a function without a finite Hermite expansion is expanded.
QUADRATURE_DEGREE = 40
#: Largest polynomial degree accepted: beyond it the moments of the gradient are astronomically heavy-tailed.
MAX_DEGREE = 40


def _closed_dual(expression: sp.Expr) -> sp.Expr | None:
    r"""Dual kernel in closed form of $s+p$: p a polynomial, s with a kernel $\varphi_s$ of its own; None if not of this form.

    $\varphi=\varphi_s+\sum_j(2\hat s_j\hat p_j+\hat p_j^2)c^j$, a finite sum.
    """
    found = _error_function(expression) or _gated(expression) or _signed_power(expression)
    if found is None:
        return None
    dual, coefficient, polynomial = found
    powers = hermite.from_polynomial(polynomial).items()
    return dual + sum(((2 * coefficient(j) * p + p**2) * c**j for j, p in powers), start=sp.Integer(0))


#: What may bend or jump at a point.
_KINKED = (sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise)
#: Share of the terms of a sum below which what they leave is their rounding.
_ROUNDING = 1e-9
#: Largest b² of erf(bz) whose kernel double precision tells from that of a jump.
STEEPEST = 1e12
_Shape = tuple[sp.Expr, Callable[[int], sp.Expr], sp.Expr]


def with_function(
    expression: sp.Expr, function: Callable[[sp.Expr], sp.Expr], factor: sp.Expr, steepest: float = STEEPEST
) -> tuple[sp.Expr, sp.Expr, sp.Expr] | None:
    """(a, b, p) of a·factor·function(bz) + p, b² at most `steepest`, p a polynomial; None for any other expression."""
    if not expression.has(type(function(z))):
        return None
    expression = sp.expand(expression)
    polynomial = sp.Add(*(x for x in sp.Add.make_args(expression) if x.is_polynomial(z)))
    scale, slope = sp.Wild("s", exclude=[z, 0]), sp.Wild("b", exclude=[z, 0])
    match = (expression - polynomial).match(scale * factor * function(slope * z))
    if not match or float(match[slope] ** 2) > steepest:
        return None
    return match[scale], match[slope], polynomial


def _error_function(expression: sp.Expr) -> _Shape | None:
    """(kernel, Hermite coefficients, p) of a·erf(bz) + p (Williams 1997)."""
    if (found := with_function(expression, sp.erf, sp.Integer(1))) is None:
        return None
    height, slope, polynomial = found
    dual = height**2 * erf_covariance(slope, sp.Integer(1), sp.Integer(1))
    return dual, _hermite_of(height * sp.erf(slope * z / sp.sqrt(1 + 2 * slope**2))), polynomial


def erf_covariance(slope: sp.Expr, first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """E erf(bg)erf(bh) for variances `first` and `second` and covariance c."""
    return 2 / sp.pi * sp.asin(2 * slope**2 * c / sp.sqrt((1 + 2 * slope**2 * first) * (1 + 2 * slope**2 * second)))


def _hermite_of(smooth: sp.Expr) -> Callable[[int], sp.Expr]:
    r"""$\hat s_j=E\,s^{(j)}/\sqrt{j!}$ from E s(x + z)."""
    return lambda j: sp.diff(smooth, z, j).subs(z, 0) / sp.sqrt(sp.factorial(j))


def _gated(expression: sp.Expr) -> _Shape | None:
    r"""(kernel, Hermite coefficients, p) of a·z·erf(bz) + p: gelu and its like.

    With $\psi=E\,f(g)f(h)$ for $f=\mathrm{erf}(b\,\cdot)$, Stein's lemma gives $E\,gf(g)hf(h)=c\psi+(1+c^2)\psi'+
    2c\,E\,f''(g)f(h)$, and a derivative by the variance of g is half of $E\,f''(g)f(h)$.
    """
    if (found := with_function(expression, sp.erf, z)) is None:
        return None
    height, slope, polynomial = found
    size = sp.Symbol("v", positive=True)
    kernel = erf_covariance(slope, size, sp.Integer(1))
    curved = 4 * c * sp.diff(kernel, size).subs(size, 1)
    kernel = kernel.subs(size, 1)
    dual = height**2 * (c * kernel + (1 + c**2) * sp.diff(kernel, c) + curved)
    smooth = sp.erf(slope * z / sp.sqrt(1 + 2 * slope**2))
    return dual, _hermite_of(height * (z * smooth + sp.diff(smooth, z))), polynomial


def _signed_power(expression: sp.Expr) -> _Shape | None:
    r"""(kernel, Hermite coefficients, p) of $g\,\mathrm{sign}(z)z^n+p$, see `with_signed_power`.

    The kernel is the arc-cosine kernel of order n (Cho and Saul 2009), n ≤ 3.
    """
    if (found := with_signed_power(expression)) is None:
        return None
    height, power, polynomial = found
    return height**2 * arc_cosine_kernel(power), lambda j: height * signed_power_coefficient(power, j), polynomial


def with_signed_power(expression: sp.Expr) -> tuple[sp.Expr, int, sp.Expr] | None:
    r"""(g, n, p) of $g\,\mathrm{sign}(z)z^n+p$, n ≤ 3, p a polynomial: any relu, leaky relu, |bz|, square of a relu.

    It is a polynomial on either side of 0, and the two differ by the monomial $2gz^n$. None for any other expression.
    """
    if (sides := _sides(expression)) is None:
        return None
    above, below = sides
    jump = sp.Poly(above - below, z)
    if jump.is_zero or not jump.is_monomial or jump.degree() > 3:
        return None
    return jump.LC() / 2, jump.degree(), sp.expand((above + below) / 2)


def _sides(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """The polynomials that it is above and below 0; None for what has no kink, or others."""
    if not expression.has(*_KINKED):
        return None
    side = sp.Symbol("side", positive=True)
    above, below = expression.subs(z, side), expression.subs(z, -side)
    if not (above.is_polynomial(side) and below.is_polynomial(side)):
        return None
    return above.subs(side, z), below.subs(side, -z)


def _straightened(expression: sp.Expr) -> sp.Expr:
    """The polynomial that it is where its kinks at 0 cancel, as in relu(z) − relu(−z) = z; else the expression."""
    sides = _sides(expression)
    return sp.expand(sides[0]) if sides is not None and sp.expand(sides[0] - sides[1]) == 0 else expression


def signed_power_coefficient(power: int, j: int) -> sp.Expr:
    r"""$E\,\mathrm{sign}(z)z^nh_j(z)$ of a standard Gaussian."""
    terms = sp.Poly(hermite.hermite(j), z).terms()
    return sum(x * _absolute_moment(power + k) for (k,), x in terms) if (j + power) % 2 else sp.Integer(0)


def _absolute_moment(order: int) -> sp.Expr:
    """E|z|ⁿ of a standard Gaussian."""
    return sp.sqrt(2) ** order * sp.gamma(sp.Rational(order + 1, 2)) / sp.sqrt(sp.pi)


@cache
def arc_cosine_kernel(order: int) -> sp.Expr:
    r"""$K_n$, the dual kernel of $\mathrm{sign}(z)z^n$: $K_n'=n^2K_{n-1}$, as $\varphi_\sigma'=\varphi_{\sigma'}$."""
    if order == 0:
        return 2 / sp.pi * sp.asin(c)
    primitive = sp.integrate(order**2 * arc_cosine_kernel(order - 1), c)
    start = _absolute_moment(order) ** 2 if order % 2 else sp.Integer(0)
    return sp.expand(primitive - primitive.subs(c, 0) + start)


def without_poles(expression: sp.Expr) -> sp.Expr:
    r"""The same in powers of $\sqrt{1-c^2}$: poles at c = ±1 whose sum is none cancel, as in the derivatives of $K_2$."""
    root = sp.Dummy("s", positive=True)

    def as_root(power: sp.Expr) -> sp.Expr:
        return root ** (2 * power.exp)

    flat = expression.replace(lambda x: x.is_Pow and x.base == 1 - c**2, as_root)
    if not flat.has(root):
        return expression
    flat = sp.expand(flat)
    even = flat.replace(
        lambda x: x.is_Pow and x.base == c and x.exp.is_Integer,
        lambda x: (1 - root**2) ** (x.exp // 2) * c ** (x.exp % 2),
    )

    def poles(terms: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
        """Terms that are infinite at ±1, and the number before each."""
        args = sp.Add.make_args(terms)
        return [(x, abs(x.as_coeff_Mul()[0])) for x in args if x.as_coeff_exponent(root)[1].is_negative]

    found, size = sp.expand(even), max((number for _, number in poles(flat)), default=sp.Integer(0))
    # (Numbers that are floats cancel but for their rounding.)
    left = [x for x, number in poles(found) if number.is_Float and number < _ROUNDING * size]
    return (found - sp.Add(*left)).subs(root, sp.sqrt(1 - c**2))


def _in_floats(expression: sp.Expr) -> sp.Expr:
    """Whole numbers that no machine word holds become floats: generated code could not multiply an array by them."""
    large = [x for x in expression.atoms(sp.Rational) if max(abs(x.p), x.q) > 2**26]  # their squares stand in kernels
    return expression.xreplace({x: sp.Float(x, 30) for x in large})


def _moderate(value: sp.Expr) -> bool:
    """A number of ordinary size (a symbol may be any); decided without evaluating towers of exponentials."""
    if value.free_symbols:
        return True
    try:
        inner = sorted((x.args[0] for x in value.atoms(sp.exp)), key=sp.count_ops)
        if any(abs(sp.N(x)) > 60 for x in inner):
            return False
        size = abs(sp.N(value))
        return bool(size.is_finite) and bool(size < 1e30)
    except (OverflowError, ValueError):
        return False


#: Hermite coefficients that a notebook shows.
_SHOWN = 6


@lru_cache(maxsize=64)
def _numeric(expression: sp.Expr) -> Callable[..., Any]:
    found: Callable[..., Any] = sp.lambdify(z, expression, modules=["scipy", "numpy"])
    return found


@lru_cache(maxsize=64)
def _expanded(expression: sp.Expr) -> tuple[dict[int, float], float]:
    """Coefficients, and what is left out, by quadrature: once for each expression."""
    return hermite.from_function(_numeric(expression), QUADRATURE_DEGREE, of_arrays=True)


@lru_cache(maxsize=64)
def _slope_error(expression: sp.Expr) -> float:
    return hermite.slope_truncation(_numeric(expression), _expanded(expression)[0], of_arrays=True)


#: Share of Eσ⁴ and Eσ'⁴ that points may miss; points at equal distances: how far these reach, and the
#: distances, as powers of ½; share of the means below which a point counts for nothing.
_MISSED, _REACH, _HALVES, _NOTHING = 1e-2, 16, range(2, 10), 1e-18
#: Deviation of a field that does not move.
_STILL = 1e-9


@lru_cache(maxsize=256)
def _rule(activation: "Activation", count: int, deviation: float) -> Rule:
    """Of `Activation.gaussian`."""
    usual, functions = gauss_hermite(count), [activation.arrays(0)]
    if activation.is_polynomial:
        return usual
    with suppress(InputError):  # (a jump has no slope)
        functions.append(activation.arrays(1))

    def seen(rule: Rule) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([rule[1] * np.asarray(f(deviation * rule[0])) ** 4 for f in functions])

    def even(half: int) -> Rule:
        distance = 0.5**half
        points = distance * (np.arange(-_REACH / distance, _REACH / distance) + 0.5)  # (0 is in the middle of two)
        return points, np.exp(-(points**2) / 2) * distance / np.sqrt(2 * np.pi)

    known = seen(even(_HALVES.stop)).sum(axis=1)
    rules = (usual, *map(even, _HALVES))
    found = next((x for x in rules if np.all(np.abs(seen(x).sum(axis=1) - known) <= _MISSED * known)), usual)
    if found is usual:
        return usual
    kept = np.any(np.vstack([seen(found), found[1]]) > _NOTHING * np.append(known, 1.0)[:, None], axis=0)
    return found[0][kept], found[1][kept]


@dataclass(frozen=True)
class Activation:
    r"""An activation $\sigma = \sum_j \hat\sigma_j h_j$ in normalised probabilists' Hermite polynomials.

    Make one with `parse`, `from_degree`, `from_coefficients`, `from_expression` or `from_function`.

    Attributes:
        name: how it prints.
        coefficients: degree → $\hat\sigma_j$; exact SymPy numbers where they were given so, zeros left out.
        expression: $\sigma(z)$ as a SymPy expression in `z`, or None for an opaque Python function.
        truncation_error: relative $L^2$ weight beyond the stored degrees (0 for polynomials).
        drift_truncation_error: the same of $\varphi'(1)=E\sigma'^2=\sum_jj\hat\sigma_j^2$, which converges more slowly: the
            relative error of the drift near alignment (0 where the kernel is in closed form, 1 where σ jumps).

    Raises `InputError` for a constant, a coefficient beyond 1e30, or a polynomial of a degree above `MAX_DEGREE`.
    """

    name: str
    coefficients: Mapping[int, sp.Expr]
    expression: sp.Expr | None
    truncation_error: float = 0.0
    closed_dual: sp.Expr | None = field(default=None, repr=False)
    drift_truncation_error: float = 0.0

    def __post_init__(self) -> None:
        learnable = [j for j in self.coefficients if j > 0]
        if not learnable:
            raise InputError(f"activation {self.name!r} is constant: give one with a Hermite degree above 0")
        if any(not _moderate(value) for value in self.coefficients.values()):
            raise InputError(f"activation {self.name[:60]!r} has Hermite coefficients beyond 1e30: scale it down")
        if self.is_polynomial and max(learnable) > MAX_DEGREE:
            raise InputError(f"activation {self.name!r} has degree {max(learnable)}: the largest is {MAX_DEGREE}")

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.coefficients.items())))

    def _repr_latex_(self) -> str:
        """What a notebook shows: σ(z), in Hermite polynomials where they are exact, or all that is known."""
        exact = self.is_polynomial and all(sp.sympify(value).is_Rational for value in self.coefficients.values())
        if not exact and self.expression is not None:
            return rf"$\displaystyle \sigma(z) = {sp.latex(self.expression)}$"
        degrees = list(self.coefficients)[:_SHOWN]
        values = [self.coefficients[j] if exact else sp.N(self.coefficients[j], 4) for j in degrees]
        series = sp.Add(
            *(value * sp.Symbol(f"h_{{{j}}}") for value, j in zip(values, degrees, strict=True)), evaluate=False
        )
        more = r" + \cdots" if len(self.coefficients) > _SHOWN else ""
        return rf"$\displaystyle \sigma(z) = {sp.latex(series, order='none')}{more}$"

    # ------------------------------------------------------------------ makers

    @classmethod
    def parse(cls, text: str) -> "Activation":
        """From text: ``h4``, ``0.8*h4+0.6*h6``, ``erf``, ``relu``, ``quadratic`` or an expression in ``z``.

        Decimal numbers are read exactly (0.8 is 4/5). Raises `InputError` naming the text and what is allowed.
        """
        expression = parse_expression(text)
        try:
            return cls.from_expression(expression, name=text.strip())
        except ArithmeticError as problem:  # towers of exponentials overflow inside SymPy
            raise InputError(
                f"activation {text.strip()[:60]!r} cannot be evaluated ({problem}): scale it down"
            ) from problem

    @classmethod
    def from_degree(cls, degree: int) -> "Activation":
        """$h_j$ itself."""
        return cls.from_coefficients({degree: 1})

    @classmethod
    def from_coefficients(cls, coefficients: Mapping[int, object], name: str | None = None) -> "Activation":
        r"""From a mapping degree → $\hat\sigma_j$.

        Raises `InputError` for a degree that is not whole and ≥ 0, or a coefficient that is not real and finite.
        """
        for degree in coefficients:
            if not isinstance(degree, int) or degree < 0:
                raise InputError(f"coefficients: degree {degree!r} must be a whole number, 0 or more")
        exact = {j: sp.sympify(value) for j, value in sorted(coefficients.items()) if value != 0}
        if not all(value.is_real and value.is_finite for value in exact.values()):
            raise InputError(f"coefficients: {dict(coefficients)} must be finite real numbers")
        label = name or " + ".join(f"h{j}" if value == 1 else f"{value}*h{j}" for j, value in exact.items())
        expression = sp.expand(sum(value * hermite.hermite(j) for j, value in exact.items()))
        return cls(label, exact, expression)

    @classmethod
    def from_expression(cls, expression: sp.Expr, name: str | None = None) -> "Activation":
        """From a SymPy expression in `z`: exact if it is a polynomial or its kinks cancel, else by quadrature (error
        reported). Of decimals, Hermite coefficients that are their rounding (`hermite.ROUNDING`) are none: h4 to 15 digits
        is h4.

        Raises `InputError` for a degree above `MAX_DEGREE` and for an expression without a finite Hermite expansion or
        with most of it beyond 40 degrees.
        """
        expression = sp.sympify(expression)
        label, expression = name or str(expression), _straightened(expression)
        if expression.is_polynomial(z):
            whole = hermite.from_polynomial(expression)
            coefficients = hermite.from_polynomial(expression, hermite.ROUNDING)
            if len(coefficients) < len(whole):  # (what is shown and what is integrated are one function)
                expression = sp.Add(*(value * hermite.hermite(j) for j, value in coefficients.items()))
            if max(coefficients, default=0) > MAX_DEGREE:
                raise InputError(f"activation {label!r} has degree {max(coefficients)}: the largest is {MAX_DEGREE}")
            return cls(label, coefficients, sp.expand(expression))
        expression = _in_floats(expression)
        try:
            found, error = _expanded(expression)
        except hermite.TooSteepError as problem:
            raise InputError(
                f"activation {label!r} changes too fast for Hermite degrees ({problem}): lower the scale of z in it"
            ) from problem
        except (ValueError, TypeError, ArithmeticError, AttributeError) as problem:
            raise InputError(
                f"activation {label!r} has no finite Hermite expansion ({problem}): give a real function of z "
                "that grows slower than exp(z**2/4)"
            ) from problem
        closed = _closed_dual(expression)
        slope = 0.0 if closed is not None else _slope_error(expression)
        return cls(label, {j: sp.Float(v) for j, v in found.items()}, expression, error, closed, slope)

    @classmethod
    def from_function(cls, function: Callable[[float], float], name: str = "function") -> "Activation":
        """From any Python function of one number, by quadrature up to degree 40; both truncation errors are stored."""
        found, error = hermite.from_function(function, QUADRATURE_DEGREE)
        slope = hermite.slope_truncation(function, found)
        return cls(name, {j: sp.Float(v) for j, v in found.items()}, None, error, None, slope)

    # -------------------------------------------------------------- properties

    @property
    def is_polynomial(self) -> bool:
        return self.expression is not None and bool(self.expression.is_polynomial(z))

    @property
    def is_series(self) -> bool:
        """Whether its kernel is a sum over the stored degrees that leaves something out."""
        return self.closed_dual is None and not self.is_polynomial

    @property
    def is_smooth(self) -> bool:
        """Whether it is a formula without a kink or jump."""
        return self.expression is not None and not self.expression.has(*_KINKED)

    @property
    def is_quadratic(self) -> bool:
        """Whether it is a multiple of z² − 1, whose flow is a Riccati equation."""
        return self.is_polynomial and set(self.coefficients) == {2}

    @property
    def degree(self) -> int:
        return max(self.coefficients)

    @property
    def information_exponent(self) -> int:
        """The smallest degree above 0 with a non-zero Hermite coefficient."""
        return min(j for j in self.coefficients if j > 0)

    @cached_property
    def leading(self) -> sp.Expr:
        r"""$\hat\sigma_J^2$ at the information exponent $J$."""
        J = self.information_exponent
        if self.closed_dual is not None:  # exact, where the coefficients themselves came from quadrature
            return sp.simplify(self.kernel_at(0, J) / sp.factorial(J))
        return self.coefficients[J] ** 2

    @cached_property
    def check_tolerance(self) -> float:
        r"""Residual accepted when a derivation is checked: 1e-30 for exact coefficients, 1e-10 for quadrature.

        Times $s=\sum_j\hat\sigma_j^2$, for what is checked is quadratic in the coefficients; times $\sqrt s$ where that is
        more, for the parts of it that are linear.
        """
        size = float(sum(sp.N(value) ** 2 for value in self.coefficients.values()))
        precision = 1e-10 if any(value.has(sp.Float) for value in self.coefficients.values()) else 1e-30
        return precision * max(size, size**0.5)

    @property
    def parity(self) -> str | None:
        """``"even"``, ``"odd"`` or None."""
        remainders = {j % 2 for j in self.coefficients}
        return None if len(remainders) > 1 else ("odd" if remainders.pop() else "even")

    @cached_property
    def dual(self) -> sp.Expr:
        r"""The dual kernel $\varphi(c)$ as an expression in `theory.core.activation.c`."""
        if self.closed_dual is not None:
            return self.closed_dual
        return sum((value**2 * c**j for j, value in self.coefficients.items()), start=sp.Integer(0))

    def dual_derivative(self, order: int = 1) -> sp.Expr:
        r"""$\varphi^{(n)}(c)$."""
        return without_poles(sp.diff(self.dual, c, order))

    def kernel_at(self, cosine: sp.Expr, order: int = 0) -> sp.Expr:
        r"""$\varphi^{(n)}$ at a cosine, exactly."""
        return self.dual_derivative(int(order)).subs(c, cosine)

    @cached_property
    def second_moment(self) -> sp.Expr:
        r"""$\varphi(1) = E\sigma^2$."""
        return sp.simplify(self.kernel_at(1))

    @cached_property
    def squared_mean(self) -> sp.Expr:
        r"""$\varphi(0) = (E\sigma)^2$: 0 where the mean is rounding, as of the other degrees."""
        return sp.simplify(self.kernel_at(0)) if 0 in self.coefficients else sp.Integer(0)

    @property
    def polynomial(self) -> sp.Expr:
        """The (possibly truncated) Hermite expansion as a polynomial in `z`."""
        return sp.expand(sum(value * hermite.hermite(j) for j, value in self.coefficients.items()))

    @property
    def function(self) -> sp.Expr:
        r"""$\sigma(z)$: the expression itself, or the Hermite expansion of an opaque function."""
        return self.polynomial if self.expression is None else self.expression

    def arrays(self, order: int = 0) -> Callable[..., Any]:
        """σ, or its derivative of this order, as a function of arrays of any shape.

        Raises `InputError` for a derivative that is no function: beyond a kink.
        """
        derivative = sp.diff(self.function, z, order)
        if derivative.has(sp.DiracDelta):
            raise InputError(f"order is {order}: that derivative of {self.name!r} is no function; take a lower one")
        return lower_numpy(derivative, (z,))

    def gaussian(self, count: int, deviation: float = 1.0) -> Rule:
        r"""Points and weights (n,) of $E\,f(x)$, $x\sim N(0,1)$, f of σ(sx) and σ'(sx), s the `deviation`.

        Gauss–Hermite with `count` points, exact for polynomials up to degree 2·count − 1; where these miss a hundredth of
        $E\sigma^4$ or $E\sigma'^4$ (80 points have 0.4 of the latter for tanh(5z)), points at equal distances, down to
        1/512. What changes within less keeps the former, which see no slope of a jump.
        """
        # (A state's deviation changes all the time, and a steeper σ has points that do.)
        return _rule(self, count, 2.0 ** (np.ceil(4 * np.log2(max(deviation, _STILL)) - 1e-9) / 4))

    # ------------------------------------------------------------- assumptions

    def require_even(self, where: str) -> None:
        """Raise `InputError` unless σ is even (Assumption 2.1a of arXiv:2504.19983)."""
        if self.parity != "even":
            kind = "odd" if self.parity == "odd" else "neither even nor odd"
            raise InputError(
                f"activation {self.name!r} is {kind}, but {where} needs an even one: use e.g. h4 or 0.8*h4+0.6*h6"
            )

    def require_polynomial(self, where: str) -> None:
        """Raise `InputError` unless σ is a polynomial."""
        if not self.is_polynomial:
            raise InputError(
                f"activation {self.name!r} is no polynomial, but {where} needs one: use e.g. h3 or 0.8*h4+0.6*h6"
            )

    def require_centred(self, where: str) -> None:
        """Raise `InputError` unless σ has no mean under the Gaussian."""
        if self.squared_mean != 0:
            mean = float(sp.sqrt(self.squared_mean))
            raise InputError(
                f"activation {self.name!r} has the mean ±{mean:.4g}, but {where} needs none: subtract it, or use e.g. h4"
            )

    def require_exponent(self, least: int, where: str) -> None:
        """Raise `InputError` unless the information exponent is at least `least`."""
        if self.information_exponent < least:
            raise InputError(
                f"activation {self.name!r} has information exponent {self.information_exponent}, but {where} needs "
                f"{least} or more: use e.g. h{max(4, least)}"
            )
