r"""The Gaussian integrals of a declared model: all that its population loss and gradient know of activation and target.

$$K_{kl}=E\,F_kF_l,\qquad M_k=E\,f_*F_k,\qquad\mathcal L=\tfrac12E f_*^2-\sum_kb_kM_k+\tfrac12\sum_{kl}b_kb_lK_{kl}$$

for neurons $F_k=\sigma(h_k)$ or $\rho_k\sigma(h_k/\sqrt{\rho_k})$, as functions of the fields' covariance
$C=\sum_i\lambda_iV^i$ and of $\rho$. An additive target is a sum of two-point kernels with its own link. For a polynomial
one Price's theorem, taken once for every field, gives a finite sum with any activation (derived):

$$E\,f_*(g)\sigma(h)=\sum_\alpha\frac{t^\alpha}{\alpha!}\,\mu_{|\alpha|}(q)\,E\,\partial^\alpha f_*(g),\qquad
t_p=\mathrm{Cov}(g_p,h),\ q=\mathrm{Var}\,h.$$
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import Any

import numpy as np
import sympy as sp

from theory.core import gaussian
from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.declared.directions import Directions
from theory.declared.kernels import cosine, derivative, homogeneous, kernel, parts, q11, q12, q22, rho1, rho2
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
    """

    pair: Mapping[str, sp.Expr]
    cross: Mapping[str, sp.Expr]
    target: Additive | Polynomial
    pair_symbols = (q11, q12, q22, rho1, rho2, cosine)

    @property
    def cross_symbols(self) -> tuple[sp.Symbol, ...]:
        """The variables of M."""
        if isinstance(self.target, Additive):
            return self.pair_symbols
        names = [*covariances(self.target.count), *(moment_symbol(alpha) for alpha in degrees(self.target))]
        return (q11, rho1, *names)

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
            given = _with_cosine(own[..., :, None], C, own[..., None, :]), rho[..., :, None], rho[..., None, :]
            found = _call(lower, self.pair, self.pair_symbols, _arguments(*given), 0 * C)
        return {**found, **self._cross(lower, X, own, rho, constants)}

    def _cross(self, lower: LowerMany, X: Any, own: Any, rho: Any, constants: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.target, Additive):
            given = _with_cosine(own[..., None], X, constants["variance"]), rho[..., None], 1.0
            each = _call(lower, self.cross, self.cross_symbols, _arguments(*given), 0 * X)
            weighted = {name: value * constants["weights"] for name, value in each.items()}
            return {name: value if name == "Mt" else value.sum(-1) for name, value in weighted.items()}
        fields = [X[..., p] for p in range(self.target.count)]
        found = _call(lower, self.cross, self.cross_symbols, [own, rho, *fields, *constants["moments"]], 0 * own)
        slopes = [found.pop(f"Mt{p}")[..., None] for p in range(self.target.count)]
        # (One column after the other, in words that all array libraries know.)
        columns = np.eye(self.target.count)
        return {**found, "Mt": sum(slope * column for slope, column in zip(slopes, columns, strict=True))}


def _with_cosine(first: Any, covariance: Any, second: Any) -> tuple[Any, Any, Any, Any]:
    """Variances, covariance, and the cosine, beyond ±1 by rounding only."""
    return first, covariance, second, (covariance / (first * second) ** 0.5).clip(-1.0, 1.0)


def _arguments(places: tuple[Any, Any, Any, Any], first: Any, second: Any) -> list[Any]:
    return [*places[:3], first, second, places[3]]


def _call(
    lower: LowerMany, expressions: Mapping[str, sp.Expr], names: Sequence[sp.Symbol], values: Sequence[Any], zero: Any
) -> dict[str, Any]:
    found = lower(tuple(expressions.values()), tuple(names))(*values)
    return {name: value + zero for name, value in zip(expressions, found, strict=True)}


@lru_cache(maxsize=32)
def integrals(
    activation: Activation, two_homogeneous: bool, target: Additive | Polynomial, whitened: bool = False
) -> Integrals:
    """The integrals of a student's activation and a target; ρ is the field's variance if the student is `whitened`.

    Raises `InputError` for an activation or link without closed kernels.
    """
    pair = kernel(activation, activation)
    pair = homogeneous(pair) if two_homogeneous else pair
    whole = _derived(pair, "K", whitened, {"K2": q12})
    if isinstance(target, Additive):
        one = kernel(activation, target.link)
        one = homogeneous(one, both=False) if two_homogeneous else one
        slopes = {"Mt": q12}
    else:
        one = _of_polynomial(activation, target)
        fields = covariances(target.count)
        if two_homogeneous:
            scaled = {q11: q11 / rho1, **{t: t / sp.sqrt(rho1) for t in fields}}
            one = rho1 * one.subs(scaled, simultaneous=True)
        slopes = {f"Mt{p}": t for p, t in enumerate(fields)}
    cross = _derived(one, "M", whitened, slopes)
    return Integrals(whole, cross, target)


def _derived(one: sp.Expr, name: str, whitened: bool, slopes: Mapping[str, sp.Symbol]) -> dict[str, sp.Expr]:
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


def _of_polynomial(activation: Activation, target: Polynomial) -> sp.Expr:
    """E f* σ(h), in `q11`, the covariances and the moments."""
    sigma, t = parts(activation), covariances(target.count)
    terms = []
    for alpha in degrees(target):
        monomial = sp.Mul(*[x**n / factorial(n) for x, n in zip(t, alpha, strict=True)])
        terms.append(moment_symbol(alpha) * monomial * sigma.moment(sum(alpha), q11))
    return sp.Add(*terms)


def constants(target: Additive | Polynomial, directions: Directions) -> dict[str, Any]:
    r"""Numbers of a target with its directions: ``square`` $E f_*^2$, and what M takes.

    Additive: ``weights`` $a_p$ and ``variance`` of $g_p$, (P,). Polynomial: ``moments`` $E\,\partial^\alpha f_*$, one for
    each of `degrees`. Raises `InputError` for a link without closed kernel.
    """
    covariance = directions.covariance
    if isinstance(target, Additive):
        weights, variance = np.asarray(target.weights), np.diag(covariance)
        given = _with_cosine(variance[:, None], covariance, variance[None, :])
        own = numeric((kernel(target.link, target.link),), Integrals.pair_symbols)(*_arguments(given, 1.0, 1.0))[0]
        square = weights @ (own + 0 * covariance) @ weights
        return {"square": float(square), "weights": weights, "variance": variance}
    terms = sp.Poly(target.expression, *symbols(target.count)).terms()
    known: dict[Degrees, float] = {}

    def moment(powers: Degrees) -> float:
        if powers not in known:
            known[powers] = float(gaussian.moment(powers, sp.Matrix(covariance)))
        return known[powers]

    def slope(alpha: Degrees) -> float:
        rest = ((c, beta) for beta, c in terms if all(n >= a for n, a in zip(beta, alpha, strict=True)))
        return sum(
            float(c)
            * prod(factorial(n) // factorial(n - a) for n, a in zip(beta, alpha, strict=True))
            * moment(tuple(n - a for n, a in zip(beta, alpha, strict=True)))
            for c, beta in rest
        )

    both = ((float(x * y), tuple(np.add(beta, gamma).tolist())) for beta, x in terms for gamma, y in terms)
    square = sum(c * moment(powers) for c, powers in both)
    return {"square": square, "moments": np.array([slope(alpha) for alpha in degrees(target)])}


def shown(constants: Mapping[str, Any], signal: float) -> dict[str, Any]:
    r"""The `constants` of forces where the labels' mean is `signal` times f*; M is linear in the target."""
    return {name: value if name in ("square", "variance") else signal * value for name, value in constants.items()}


@lru_cache(maxsize=64)
def numeric(expressions: Sequence[sp.Expr], names: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """Expressions (a tuple) as one function of NumPy arrays."""
    return sp.lambdify(list(names), [sp.N(x, 17) for x in expressions], modules=["scipy", "numpy"], cse=True)
