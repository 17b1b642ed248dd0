r"""Targets: functions of finitely many fields $g_p=\langle w_p,x\rangle$; where the directions lie is `Directions`'.

Such multi-index targets are those of arXiv:2310.19793. One's own is an object with `count` and `value`, like these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import sympy as sp

from theory.core import hermite
from theory.core.activation import Activation, z
from theory.core.errors import InputError

#: Makes a function of arrays from an expression and its variables.
Lower = Callable[[sp.Expr, Sequence[sp.Symbol]], Callable[..., Any]]
#: Largest total degree of a polynomial target.
MAX_DEGREE = 40


class Target(Protocol):
    """`count`: directions P. `value`: f* of fields (…, P), with what turns expressions into functions of arrays."""

    @property
    def count(self) -> int: ...

    def value(self, fields: Any, lower: Lower) -> Any: ...


@dataclass(frozen=True)
class Additive:
    r"""$f_*=\sum_pa_p\sigma_*(g_p)$ with a link of its own.

    Attributes:
        link: $\sigma_*$. weights: $a_p$, (P,), of any sign.

    Raises `InputError` unless there is a weight, and all are finite.
    """

    link: Activation
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights or not np.all(np.isfinite(self.weights)):
            raise InputError(f"target weights are {self.weights!r}: give one finite number for each direction")

    @property
    def count(self) -> int:
        """P."""
        return len(self.weights)

    def value(self, fields: Any, lower: Lower) -> Any:
        """f* (…,) of fields (…, P)."""
        return lower(self.link.function, (z,))(fields) @ np.asarray(self.weights)


@dataclass(frozen=True)
class Polynomial:
    r"""Any polynomial of $z_1,\dots,z_P$.

    Attributes:
        expression: in `symbols(P)`. count: P.

    Raises `InputError` for what is no polynomial of these symbols, a constant, or a degree above `MAX_DEGREE`.
    """

    expression: sp.Expr
    count: int

    def __post_init__(self) -> None:
        names = symbols(self.count)
        if not self.expression.is_polynomial(*names) or not self.expression.free_symbols <= set(names):
            raise InputError(f"target {self.expression} is no polynomial of z1 … z{self.count}: use these names")
        degree = sp.Poly(self.expression, *names).total_degree()
        if not 0 < degree <= MAX_DEGREE:
            raise InputError(f"target {self.expression} has degree {degree}: give one from 1 to {MAX_DEGREE}")

    @classmethod
    def parse(cls, text: str) -> "Polynomial":
        r"""From text in ``z1``, ``z2``, … and ``hJ(zP)``, the normalised Hermite polynomial: ``h2(z1) + h2(z1)*h1(z2)``.

        Raises `InputError`.
        """
        from theory.declared.target_text import parse_target

        expression, count = parse_target(text)
        return cls(expression, count)

    def value(self, fields: Any, lower: Lower) -> Any:
        """f* (…,) of fields (…, P)."""
        return lower(self.expression, symbols(self.count))(*[fields[..., p] for p in range(self.count)])


@dataclass(frozen=True)
class Classes:
    r"""Two classes ±1: $y=\mathrm{sign}f_*$ of another target."""

    of: Target

    @property
    def count(self) -> int:
        """P."""
        return self.of.count

    def value(self, fields: Any, lower: Lower) -> Any:
        """±1 (…,) of fields (…, P)."""
        return lower(sp.sign(z), (z,))(self.of.value(fields, lower))


def symbols(count: int) -> tuple[sp.Symbol, ...]:
    """The fields' names, z1 … zP."""
    return tuple(sp.Symbol(f"z{p + 1}", real=True) for p in range(count))


def monomials(target: "Polynomial") -> dict[tuple[int, ...], sp.Expr]:
    r"""$c_\alpha$ of $f_*=\sum_\alpha c_\alpha\prod_qh_{\alpha_q}(z_q)$, degrees → coefficient.

    Rounding of decimals is no term.
    """
    names = symbols(target.count)
    found: dict[tuple[int, ...], list[sp.Expr]] = {}
    for powers, coefficient in sp.Poly(target.expression, *names).terms():
        partial: dict[tuple[int, ...], sp.Expr] = {(): coefficient}
        for power in powers:
            own = hermite.from_polynomial(z**power) if power else {0: sp.Integer(1)}
            partial = {(*a, j): x * y for a, x in partial.items() for j, y in own.items()}
        for degrees, value in partial.items():
            found.setdefault(degrees, []).append(value)
    return hermite.summed(found, hermite.ROUNDING)


def as_additive(target: Target) -> Target:
    r"""$\sum_pa_p\sigma_*(z_p)$ for a polynomial that is one, with $E\sigma_*^2=1$ at variance 1; any other target as it is.

    Sums of one link along other axes than the coordinates are not looked for.
    """
    return (_sum_of_links(target) or target) if isinstance(target, Polynomial) else target


@lru_cache(maxsize=64)
def _sum_of_links(target: Polynomial) -> Additive | None:
    shapes: list[dict[int, float]] = [{} for _ in range(target.count)]
    constant = 0.0
    for degrees, value in monomials(target).items():
        on = [p for p, degree in enumerate(degrees) if degree]
        if len(on) > 1:
            return None
        if on:
            shapes[on[0]][degrees[on[0]]] = float(value)
        else:
            constant = float(value)
    table = np.array([[shape.get(j, 0.0) for j in range(1, MAX_DEGREE + 1)] for shape in shapes])
    largest = table[np.argmax(np.abs(table).max(axis=1))]
    weights = table @ largest / (largest @ largest)
    if np.abs(table - np.outer(weights, largest)).max() > hermite.ROUNDING * np.abs(largest).max():
        return None
    whole = float(weights.sum())
    if constant and not whole:
        return None
    mean = constant / whole if constant else 0.0
    scale = float(np.hypot(np.linalg.norm(largest), mean))
    link = {j: value / scale for j, value in enumerate([mean, *largest.tolist()]) if value}
    return Additive(Activation.from_coefficients(link), tuple((scale * weights).tolist()))
