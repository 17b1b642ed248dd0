r"""A polynomial of several fields as an additive function of more of them.

A product is a sum of powers of linear forms,

$$z^\alpha=\frac1{2^nn!}\sum_{0\le j\le\alpha}(-1)^{|j|}\prod_q\binom{\alpha_q}{j_q}\Big(\sum_q(\alpha_q-2j_q)z_q\Big)^n,\qquad
n=|\alpha|$$

(polarisation: the n-th difference of a power of degree n), so that what is derived for additive targets with a link for each
direction holds for every polynomial.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import comb, factorial, gcd, prod
from typing import NamedTuple

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.hermite import z
from theory.declared.target import Additive, Polynomial, symbols


class Forms(NamedTuple):
    r"""$\sum_ra_r\sigma_r(\sum_q\theta_{rq}z_q)$: links, weights a (R,), coefficients θ (R, P); first the P fields alone."""

    links: tuple[Activation, ...]
    weights: np.ndarray
    coefficients: np.ndarray


@lru_cache(maxsize=32)
def as_additive(target: Additive | Polynomial) -> Forms:
    """A target as a sum over linear forms, the fields themselves first, whose weights may be 0.

    Links have the leading coefficient 1, so that few are different.
    """
    if isinstance(target, Additive):
        count = target.count
        return Forms((target.link,) * count, np.asarray(target.weights), np.eye(count))
    fields = [tuple(int(p == q) for q in range(target.count)) for p in range(target.count)]
    found: dict[tuple[int, ...], sp.Expr] = {one: sp.Integer(0) for one in fields}
    for powers, coefficient in sp.Poly(target.expression, *symbols(target.count)).terms():
        # (Terms come by falling degree: a constant finds a link that is none.)
        home = ((form, 1) for form, link in found.items() if link.has(z))
        for form, share in _polarised(powers) if any(powers) else [next(home)]:
            found[form] = found.get(form, sp.Integer(0)) + coefficient * share * z ** sum(powers)
    links, weights = zip(*[_leading(sp.expand(link)) for link in found.values()], strict=True)
    used = [place for place, weight in enumerate(weights) if weight or place < target.count]
    return Forms(
        tuple(links[place] for place in used),
        np.array([weights[place] for place in used]),
        np.array(list(found), dtype=float)[used],
    )


def _polarised(powers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], sp.Expr]]:
    """Linear forms, of coprime coefficients and the first positive, and what their n-th powers are multiplied by."""
    n = sum(powers)
    for taken in product(*[range(power + 1) for power in powers]):
        form = tuple(power - 2 * j for power, j in zip(powers, taken, strict=True))
        scale = gcd(*form)
        if scale:
            scale *= 1 if next(x for x in form if x) > 0 else -1
            count = prod(comb(power, j) for power, j in zip(powers, taken, strict=True))
            share = sp.Rational((-1) ** sum(taken) * count * scale**n, 2**n * factorial(n))
            yield tuple(x // scale for x in form), share


def _leading(link: sp.Expr) -> tuple[Activation, float]:
    """The link with leading coefficient 1, and that coefficient; of nothing, z and 0."""
    if link == 0:
        return Activation.from_expression(z), 0.0
    leading = sp.LC(link, z)
    return Activation.from_expression(sp.expand(link / leading)), float(leading)
