"""Exact Gaussian expectations of polynomials, by Stein's lemma (Isserlis' theorem)."""

from collections.abc import Sequence
from functools import cache

import sympy as sp


def moment(powers: Sequence[int], covariance: sp.Matrix) -> sp.Expr:
    r"""$E\prod_i g_i^{n_i}$ for centred Gaussians with the given (possibly symbolic) covariance."""

    @cache
    def recurse(left: tuple[int, ...]) -> sp.Expr:
        if not any(left):
            return sp.Integer(1)
        if sum(left) % 2:
            return sp.Integer(0)
        first = next(i for i, n in enumerate(left) if n)
        rest = list(left)
        rest[first] -= 1
        total = sp.Integer(0)
        for other, n in enumerate(rest):
            if n:
                partner = list(rest)
                partner[other] -= 1
                total += covariance[first, other] * n * recurse(tuple(partner))
        return sp.expand(total)

    return recurse(tuple(powers))


def expectation(polynomial: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix) -> sp.Expr:
    """E of a polynomial in jointly Gaussian `variables`."""
    terms = sp.Poly(polynomial, *variables).terms()
    return sp.expand(sp.Add(*[coefficient * moment(powers, covariance) for powers, coefficient in terms]))


def standard_expectation(polynomial: sp.Expr, *variables: sp.Symbol) -> sp.Expr:
    """E of a polynomial in independent standard Gaussians: products of double factorials, much faster."""
    total = sp.Integer(0)
    for powers, coefficient in sp.Poly(polynomial, *variables).terms():
        if not any(n % 2 for n in powers):
            total += coefficient * sp.prod([sp.factorial2(n - 1) if n else 1 for n in powers])
    return sp.expand(total)
