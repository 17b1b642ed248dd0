r"""The Gaussian integrals of a declared model: all that its population loss and gradient know of activation and target.

$$K_{kl}=E\,F_kF_l,\qquad M_k=E\,f_*F_k,\qquad\mathcal L=\tfrac12E f_*^2-\sum_kb_kM_k+\tfrac12\sum_{kl}b_kb_lK_{kl}$$

for neurons $F_k=\sigma(h_k)$ or $\rho_k\sigma(h_k/\sqrt{\rho_k})$, as functions of the fields' covariance
$C=\sum_i\lambda_iV^i$ and of $\rho$. An additive target is a sum of two-point kernels with its own link; where these are
not closed, of what a polynomial activation sees of it (`theory.declared.link_moments`). For a polynomial one Price's theorem,
taken once for every field, gives a finite sum with any activation (derived):

$$E\,f_*(g)\sigma(h)=\sum_\alpha\frac{t^\alpha}{\alpha!}\,\mu_{|\alpha|}(q)\,E\,\partial^\alpha f_*(g),\qquad
t_p=\mathrm{Cov}(g_p,h),\ q=\mathrm{Var}\,h.$$
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import factorial, prod
from typing import Any

import numpy as np
import sympy as sp

from theory.core import gaussian, logistic
from theory.core.activation import MAX_DEGREE, Activation
from theory.core.errors import InputError
from theory.core.lowered import compiled_numpy
from theory.declared.directions import Directions
from theory.declared.kernels import (
    beta1,
    beta2,
    cosine,
    derivative,
    has_parts,
    homogeneous,
    kernel,
    parts,
    q11,
    q12,
    q22,
    rho1,
    rho2,
)
from theory.declared.link_moments import second_moments, seen
from theory.declared.target import Additive, Classes, Polynomial, Target, symbols

#: Makes one function of arrays of several expressions and their variables.
LowerMany = Callable[[Sequence[sp.Expr], Sequence[sp.Symbol]], Callable[..., Any]]
Degrees = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Integrals:
    r"""K and M with their derivatives, as expressions.

    Attributes:
        pair: $K$, and its derivatives K1 by $q_{11}$, K2 by $q_{12}$, Kr by $\rho_1$; in `pair_symbols`.
        cross: $M$, M1 by $q_{11}$, Mr by $\rho_1$, and Mt by each covariance with a direction; in `cross_symbols`. For an
            additive target those of one direction, without its weight. target: f*.
        mixed: whether the student's activation and the target's link are means over slopes (`theory.declared.kernels.Parts`),
            at two of which the expressions are.
    """

    pair: Mapping[str, sp.Expr]
    cross: Mapping[str, sp.Expr]
    target: Additive | Polynomial
    mixed: tuple[bool, bool] = (False, False)
    pair_symbols = (q11, q12, q22, rho1, rho2, cosine)

    def cost(self, pairs: int) -> float:
        """Of pairs of fields, in that of a closed kernel (measured)."""
        return (70.0 if any(self.mixed) else 1.0) * pairs

    @cached_property
    def cross_symbols(self) -> tuple[sp.Symbol, ...]:
        """The variables of M."""
        if isinstance(self.target, Additive):
            return (*self.pair_symbols, *self.slopes)
        names = [*covariances(self.target.count), *(moment_symbol(alpha) for alpha in degrees(self.target))]
        return (q11, rho1, *names)

    @cached_property
    def slopes(self) -> tuple[sp.Symbol, ...]:
        """The link's moments that M and its derivatives take: none of a closed kernel."""
        taken = set().union(*(expression.free_symbols for expression in self.cross.values()))
        return tuple(slope_symbol(j) for j in range(MAX_DEGREE + 1) if slope_symbol(j) in taken)

    def at(
        self, lower: LowerMany, X: Any, C: Any, rho: Any, constants: Mapping[str, Any], square: bool = True
    ) -> dict[str, Any]:
        r"""All integrals at covariances with directions X (…, m, P), among rows C (…, m, m), and $\rho$ (…, m).

        K, K1, K2, Kr: (…, m, m), left out unless `square`; M, M1, Mr: (…, m); Mt: (…, m, P).

        Args:
            lower: turns expressions into functions of arrays. constants: see `constants`.
        """
        own = C.diagonal(0, -2, -1)
        found = {}
        if square:
            given = with_cosine(own[..., :, None], C, own[..., None, :]), rho[..., :, None], rho[..., None, :]
            own_mixed = self.mixed[0], self.mixed[0]
            found = _call(lower, self.pair, self.pair_symbols, _arguments(*given), 0 * C, own_mixed)
        return {**found, **self._cross(lower, X, own, rho, constants)}

    def of_link(self, link: Activation, variance: np.ndarray) -> dict[str, np.ndarray]:
        """What M takes of the link on fields of these variances (P,): ``slopes``, one for each of `slopes`, (n, P).

        Raises `InputError` for a link that is not square integrable there.
        """
        each = [seen(link, v).slopes for v in variance.tolist()] if self.slopes else []
        orders = [j for j in range(MAX_DEGREE + 1) if slope_symbol(j) in self.slopes]
        return {"slopes": np.array([[one[j] for one in each] for j in orders])}

    def _cross(self, lower: LowerMany, X: Any, own: Any, rho: Any, constants: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.target, Additive):
            given = with_cosine(own[..., None], X, constants["variance"]), rho[..., None], 1.0
            values = [*_arguments(*given), *constants["slopes"]]
            each = _call(lower, self.cross, self.cross_symbols, values, 0 * X, self.mixed)
            return over_directions(each, constants["weights"])
        return self._of_polynomial(lower, X, own, rho, constants["moments"])

    def _of_polynomial(self, lower: LowerMany, X: Any, own: Any, rho: Any, moments: Any) -> dict[str, Any]:
        values = [own, rho, *(X[..., p] for p in range(self.target.count)), *moments]
        found = _call(lower, self.cross, self.cross_symbols, values, 0 * own, self.mixed)
        slopes = [found.pop(f"Mt{p}")[..., None] for p in range(self.target.count)]
        # (One column after the other, in words that all array libraries know.)
        columns = np.eye(self.target.count)
        return {**found, "Mt": sum(slope * column for slope, column in zip(slopes, columns, strict=True))}


def over_directions(each: Mapping[str, Any], weights: Any) -> dict[str, Any]:
    """M and what is derived from it, from those of each direction, without its weight."""
    weighted = {name: value * weights for name, value in each.items()}
    return {name: value if name == "Mt" else value.sum(-1) for name, value in weighted.items()}


def with_cosine(first: Any, covariance: Any, second: Any) -> tuple[Any, Any, Any, Any]:
    """Variances, covariance, and the cosine, beyond ±1 by rounding only."""
    return first, covariance, second, (covariance / (first * second) ** 0.5).clip(-1.0, 1.0)


def _arguments(places: tuple[Any, Any, Any, Any], first: Any, second: Any) -> list[Any]:
    return [*places[:3], first, second, places[3]]


def _call(
    lower: LowerMany,
    expressions: Mapping[str, sp.Expr],
    names: Sequence[sp.Symbol],
    values: Sequence[Any],
    zero: Any,
    mixed: tuple[bool, bool],
) -> dict[str, Any]:
    """All expressions, those at random slopes averaged over them, on two last axes."""
    if not any(mixed):
        found = lower(tuple(expressions.values()), tuple(names))(*values)
        return {name: value + zero for name, value in zip(expressions, found, strict=True)}
    (first, one), (second, two) = (logistic.slopes() if x else (np.ones(1), np.ones(1)) for x in mixed)
    wide = [value[..., None, None] if np.ndim(value) else value for value in values]
    found = lower(tuple(expressions.values()), (*names, beta1, beta2))(*wide, first[:, None], second)
    weights, none = one[:, None] * two, zero[..., None, None]
    return {name: ((value + none) * weights).sum((-2, -1)) for name, value in zip(expressions, found, strict=True)}


@lru_cache(maxsize=32)
def integrals(
    activation: Activation, two_homogeneous: bool, target: Additive | Polynomial, whitened: bool = False
) -> Integrals:
    """The integrals of a student's activation and a target; ρ is the field's variance if the student is `whitened`.

    Raises `InputError` for an activation without closed kernels, and a link that has none with one that is no polynomial.
    """
    pair = _of_rows(activation, two_homogeneous, whitened)
    if isinstance(target, Additive):
        of_link = has_parts(target.link) and parts(target.link).mixed
        cross = _of_direction(activation, two_homogeneous, target.link, whitened)
        return Integrals(pair, cross, target, (parts(activation).mixed, of_link))
    sigma = parts(activation)
    cross = of_polynomial(lambda j: sigma.moment(j, q11), target, two_homogeneous, whitened)
    return Integrals(pair, cross, target, (sigma.mixed, False))


@lru_cache(maxsize=32)
def _of_rows(activation: Activation, two_homogeneous: bool, whitened: bool) -> dict[str, sp.Expr]:
    pair = kernel(activation, activation)
    return with_derivatives(homogeneous(pair) if two_homogeneous else pair, "K", whitened, {"K2": q12})


@lru_cache(maxsize=32)
def _of_direction(
    activation: Activation, two_homogeneous: bool, link: Activation, whitened: bool
) -> dict[str, sp.Expr]:
    one = _of_link(activation, link)
    return with_derivatives(homogeneous(one, both=False) if two_homogeneous else one, "M", whitened, {"Mt": q12})


def with_derivatives(one: sp.Expr, name: str, whitened: bool, slopes: Mapping[str, sp.Symbol]) -> dict[str, sp.Expr]:
    """An integral with its derivatives by variance, squared norm (which are one if `whitened`) and covariances."""
    variables = {name + "1": q11, **slopes, name + "r": rho1}
    found = {name: one, **{key: derivative(one, by) for key, by in variables.items()}}
    if not whitened:
        return found
    found |= {name + "1": found[name + "1"] + found[name + "r"], name + "r": sp.Integer(0)}
    return {key: value.subs({rho1: q11, rho2: q22}, simultaneous=True) for key, value in found.items()}


def check_target(target: Target) -> Additive | Polynomial:
    """The target itself. Raises `InputError` for one whose integrals are not known."""
    if isinstance(target, Additive | Polynomial):
        return target
    signs = isinstance(target, Classes)
    name = "the sign of a function" if signs else f"of type {type(target).__name__}"
    plain = "the function without its sign" if signs else "an additive target (Additive), or a polynomial (Polynomial)"
    raise InputError(
        f"target is {name}: its population integrals, and so its flow, are not known; run declared-sgd, which needs none, "
        f"or give {plain}"
    )


# ----------------------------------------------------------------------- additive targets


def slope_symbol(j: int) -> sp.Symbol:
    r"""$m_j=E\,\sigma_*^{(j)}(g_p)$."""
    return sp.Symbol(f"m_{j}", real=True)


def _of_link(activation: Activation, link: Activation) -> sp.Expr:
    """E σ(h)σ*(g); of a polynomial σ and a link of no known kind in the link's moments."""
    sigma = parts(activation)
    if sigma.special or has_parts(link):
        return kernel(activation, link)
    terms = [q12**j / factorial(j) * sigma.moment(j, q11) * slope_symbol(j) for j in range(sigma.degree + 1)]
    return sp.Add(*terms)


def square(target: Additive | Polynomial, directions: Directions) -> float:
    r"""$E f_*^2$."""
    covariance = directions.covariance
    if isinstance(target, Additive):
        weights = np.asarray(target.weights)
        return float(weights @ _second_moments(target.link, covariance) @ weights)
    terms, moment = _terms(target, directions)
    both = ((float(x * y), tuple(np.add(beta, gamma).tolist())) for beta, x in terms for gamma, y in terms)
    return sum(c * moment(powers) for c, powers in both)


def _second_moments(link: Activation, covariance: np.ndarray) -> np.ndarray:
    """E σ*(g_p)σ*(g_q), (P, P)."""
    if not has_parts(link):
        return second_moments(link, covariance)
    variance = np.diag(covariance)
    given = with_cosine(variance[:, None], covariance, variance[None, :])
    mixed = parts(link).mixed
    values = _arguments(given, 1.0, 1.0)
    return _call(numeric, {"K": kernel(link, link)}, Integrals.pair_symbols, values, 0 * covariance, (mixed, mixed))[
        "K"
    ]


# --------------------------------------------------------------------- polynomial targets


def covariances(count: int) -> tuple[sp.Symbol, ...]:
    """Covariances of a row's field with the fields of the directions, t_1 … t_P."""
    return tuple(sp.Symbol(f"t_{p + 1}", real=True) for p in range(count))


def moment_symbol(alpha: Degrees) -> sp.Symbol:
    r"""$E\,\partial^\alpha f_*$."""
    return sp.Symbol(rf"E\partial^{{{','.join(map(str, alpha))}}}f_{{*}}", real=True)


@lru_cache(maxsize=32)
def degrees(target: Polynomial) -> tuple[Degrees, ...]:
    r"""All α for which $\partial^\alpha f_*$ has a term of even degree: the mean of the others is 0."""
    powers = [beta for beta, _ in sp.Poly(target.expression, *symbols(target.count)).terms()]
    below = ((beta, alpha) for beta in powers for alpha in product(*[range(n + 1) for n in beta]))
    return tuple(sorted({alpha for beta, alpha in below if (sum(beta) - sum(alpha)) % 2 == 0}))


def of_polynomial(
    mean: Callable[[int], sp.Expr], target: Polynomial, two_homogeneous: bool, whitened: bool
) -> dict[str, sp.Expr]:
    """E f* F, in `q11`, the covariances and the moments, and its derivatives; with the `mean` of a slope of σ."""
    t, terms = covariances(target.count), []
    for alpha in degrees(target):
        monomial = sp.Mul(*[x**n / factorial(n) for x, n in zip(t, alpha, strict=True)])
        terms.append(moment_symbol(alpha) * monomial * mean(sum(alpha)))
    one = sp.Add(*terms)
    if two_homogeneous:
        scaled = {q11: q11 / rho1, **{x: x / sp.sqrt(rho1) for x in t}}
        one = rho1 * one.subs(scaled, simultaneous=True)
    return with_derivatives(one, "M", whitened, {f"Mt{p}": x for p, x in enumerate(t)})


def constants(integrals: Integrals, directions: Directions) -> dict[str, Any]:
    r"""Numbers of a target with its directions: ``square`` $E f_*^2$, and what M takes.

    Additive: ``weights`` $a_p$ and ``variance`` of $g_p$, (P,), and ``slopes``, one for each of `Integrals.slopes`, (n, P).
    Polynomial: ``moments`` $E\,\partial^\alpha f_*$, one for each of `degrees`. Raises `InputError` for a link that is not
    square integrable along a direction.
    """
    target = integrals.target
    found = {"square": square(target, directions)}
    if isinstance(target, Additive):
        variance = np.diag(directions.covariance)
        return {
            **found,
            "weights": np.asarray(target.weights),
            "variance": variance,
            **integrals.of_link(target.link, variance),
        }
    terms, moment = _terms(target, directions)

    def slope(alpha: Degrees) -> float:
        rest = ((c, beta) for beta, c in terms if all(n >= a for n, a in zip(beta, alpha, strict=True)))
        return sum(
            float(c)
            * prod(factorial(n) // factorial(n - a) for n, a in zip(beta, alpha, strict=True))
            * moment(tuple(n - a for n, a in zip(beta, alpha, strict=True)))
            for c, beta in rest
        )

    return {**found, "moments": np.array([slope(alpha) for alpha in degrees(target)])}


def _terms(
    target: Polynomial, directions: Directions
) -> tuple[list[tuple[Degrees, sp.Expr]], Callable[[Degrees], float]]:
    """Powers and coefficients of a polynomial, and the mean of a monomial."""
    covariance = sp.Matrix(directions.covariance)
    moment = lru_cache(maxsize=None)(lambda powers: float(gaussian.moment(powers, covariance)))
    return sp.Poly(target.expression, *symbols(target.count)).terms(), moment


def shown(constants: Mapping[str, Any], signal: float) -> dict[str, Any]:
    r"""The `constants` of forces where the labels' mean is `signal` times f*; M is linear in the target."""
    linear = ("weights", "moments")
    return {name: signal * value if name in linear else value for name, value in constants.items()}


@lru_cache(maxsize=64)
def numeric(expressions: Sequence[sp.Expr], names: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """Expressions (a tuple) as one function of NumPy arrays."""
    shown = [sp.N(x, 17) for x in expressions]
    if beta1 in names:  # (arrays of many slopes; of few numbers powers cost no more than products)
        return compiled_numpy(names, shown, cse=True)
    return sp.lambdify(list(names), shown, modules=["scipy", "numpy"], cse=True)
