r"""Expectations of products of Hermite polynomials of correlated unit Gaussians: the diagram formula.

For jointly Gaussian $g_1,\dots,g_n$ of unit variance with correlations $C_{ij}$,

$$E\prod_ih_{a_i}(g_i)=\prod_i\sqrt{a_i!}\;\sum_n\prod_{i<j}\frac{C_{ij}^{n_{ij}}}{n_{ij}!},$$

the sum running over pair counts $n_{ij}\ge0$ in which vertex i has $a_i$ legs, none of them joined to itself. It follows
from $E\prod_ie^{s_ig_i-s_i^2/2}=\exp\sum_{i<j}s_is_jC_{ij}$. With a factor $|x|^2$, where $g_i=\langle u_i,x\rangle$ and
$x\sim N(0,I_d)$, the exponential is multiplied by $d+\sum_is_i^2+2\sum_{i<j}s_is_jC_{ij}$: a diagram counts $d+2|n|$ times,
and a vertex may lose two legs.

Correlations may be 1 (equal Gaussians): nothing is assumed about the rank of C. Tested against Stein's lemma.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import factorial, prod

import sympy as sp

from theory.core import hermite

#: Input dimension, where $|x|^2$ occurs.
d = sp.Symbol("d", positive=True)

#: Pair counts (in the order of `pairs`) → coefficient of the monomial $\prod C_{ij}^{n_{ij}}$.
Table = dict[tuple[int, ...], sp.Expr]


def pairs(count: int) -> list[tuple[int, int]]:
    """The pairs i < j of `count` vertices, in the order in which pair counts are listed."""
    return list(combinations(range(count), 2))


def diagrams(legs: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All pair counts with `legs[i]` legs at vertex i; none if the number of legs is odd."""
    if len(legs) <= 1:
        if not any(legs):
            yield ()
        return
    first, rest = legs[0], legs[1:]
    for joined in _compositions(first, rest):
        left = [n - used for n, used in zip(rest, joined, strict=True)]
        for inner in diagrams(left):
            yield joined + inner


def _compositions(total: int, caps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to write `total` as a sum of len(caps) numbers, each at most its cap."""
    if len(caps) == 1:
        if total <= caps[0]:
            yield (total,)
        return
    for first in range(min(total, caps[0]) + 1):
        for rest in _compositions(total - first, caps[1:]):
            yield (first, *rest)


@cache
def _weights(legs: tuple[int, ...]) -> dict[tuple[int, ...], sp.Rational]:
    r"""Diagram → $\prod1/n_{ij}!$."""
    return {counts: sp.Rational(1, prod(factorial(n) for n in counts)) for counts in diagrams(legs)}


@cache
def _weights_with_norm(legs: tuple[int, ...]) -> dict[tuple[int, ...], sp.Expr]:
    """The same with the factor |x|²."""
    found: dict[tuple[int, ...], sp.Expr] = {}
    for counts, weight in _weights(legs).items():
        found[counts] = weight * (d + 2 * sum(counts))
    for place, n in enumerate(legs):
        if n >= 2:
            shorter = (*legs[:place], n - 2, *legs[place + 1 :])
            for counts, weight in _weights(shorter).items():
                found[counts] = found.get(counts, sp.Integer(0)) + weight
    return found


def expectation(factors: Sequence[Mapping[int, sp.Expr]], squared_norm: bool = False) -> Table:
    r"""$E\prod_iF_i(g_i)$, or $E\,|x|^2\prod_iF_i(g_i)$, as a polynomial in the correlations.

    Args:
        factors: Hermite coefficients of each $F_i$: degree → $E F_ih_j$ (normalised polynomials).
        squared_norm: include the factor $|x|^2$; coefficients then contain `d`.
    """
    weigh = _weights_with_norm if squared_norm else _weights
    found: dict[tuple[int, ...], list[sp.Expr]] = {}
    for chosen in product(*[list(factor.items()) for factor in factors]):
        legs = tuple(degree for degree, _ in chosen)
        if sum(legs) % 2:
            continue
        scale = sp.Mul(*[value * sp.sqrt(factorial(degree)) for degree, value in chosen])
        for counts, weight in weigh(legs).items():
            found.setdefault(counts, []).append(scale * weight)
    return tidy({counts: sp.Add(*values) for counts, values in found.items()})


def of_polynomials(polynomials: Sequence[sp.Expr], squared_norm: bool = False) -> Table:
    """`expectation` for polynomials in `theory.core.hermite.z`, one for each Gaussian."""
    return expectation([_coefficients(sp.expand(f)) for f in polynomials], squared_norm)


@cache
def _coefficients(polynomial: sp.Expr) -> dict[int, sp.Expr]:
    return hermite.from_polynomial(polynomial)


def tidy(table: Table) -> Table:
    """Coefficients expanded, zeros left out."""
    expanded = {counts: sp.expand(value) for counts, value in table.items()}
    return {counts: value for counts, value in sorted(expanded.items()) if value != 0}


def add(*tables: Table) -> Table:
    """Sum of tables over the same vertices."""
    total: dict[tuple[int, ...], list[sp.Expr]] = {}
    for table in tables:
        for counts, value in table.items():
            total.setdefault(counts, []).append(value)
    return tidy({counts: sp.Add(*values) for counts, values in total.items()})


def scale(table: Table, factor: sp.Expr, raised: Sequence[int] | None = None) -> Table:
    """Table × factor × the monomial with exponents `raised`."""
    if raised is None:
        return tidy({counts: factor * value for counts, value in table.items()})
    return tidy({tuple(n + r for n, r in zip(c, raised, strict=True)): factor * v for c, v in table.items()})


def spread(table: Table, vertices: Sequence[int], count: int) -> Table:
    """The same expectation with its vertices renamed to `vertices` among `count` of them.

    Several vertices may be mapped to one: their correlation is then 1.
    """
    place = {pair: i for i, pair in enumerate(pairs(count))}
    inner = pairs(len(vertices))
    out: dict[tuple[int, ...], list[sp.Expr]] = {}
    for counts, value in table.items():
        raised = [0] * len(place)
        for (i, j), n in zip(inner, counts, strict=True):
            first, second = sorted((vertices[i], vertices[j]))
            if first != second:
                raised[place[first, second]] += n
        out.setdefault(tuple(raised), []).append(value)
    return tidy({counts: sp.Add(*values) for counts, values in out.items()})


def evaluate(table: Table, correlations: sp.Matrix) -> sp.Expr:
    """The polynomial at given (possibly symbolic) correlations."""
    where = [correlations[pair] for pair in pairs(correlations.rows)]
    return sp.expand(sp.Add(*[value * sp.Mul(*map(sp.Pow, where, counts)) for counts, value in table.items()]))
