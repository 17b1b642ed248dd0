"""Polynomials of several variables as arrays: for those with thousands of terms, which make no Python function."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

#: Points at once, so that their monomials are no burden.
_POINTS = 4096


@dataclass(frozen=True, eq=False)
class PolynomialTable:
    """Some polynomials of the same variables.

    Attributes:
        grown: for each monomial but the first, 1, one that it is a multiple of and the variable that it is that multiple by,
            (T − 1, 2), every monomial after the one it grows from. weights: coefficients, (polynomials, T).
    """

    grown: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, polynomials: Sequence[sp.Poly]) -> "PolynomialTable":
        """From polynomials with the same generators. Raises `ValueError` if these differ."""
        if len({one.gens for one in polynomials}) != 1:
            raise ValueError("polynomials of one table have the same variables")
        count = len(polynomials[0].gens)
        place: dict[tuple[int, ...], int] = {(0,) * count: 0}
        grown: list[tuple[int, int]] = []

        def placed(powers: tuple[int, ...]) -> int:
            if powers not in place:
                variable = next(v for v in range(count) if powers[v])
                less = placed(tuple(n - (v == variable) for v, n in enumerate(powers)))
                place[powers] = len(place)
                grown.append((less, variable))
            return place[powers]

        found = [[(placed(powers), float(value)) for powers, value in one.terms()] for one in polynomials]
        weights = np.zeros((len(polynomials), len(place)))
        for row, terms in zip(weights, found, strict=True):
            for at, value in terms:
                row[at] += value
        return cls(np.array(grown, dtype=int).reshape(-1, 2), weights)

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """The polynomials at the variables' values, arrays of one shape or ones that are broadcast to it."""
        whole = np.broadcast_arrays(*values)
        flat = np.stack([x.ravel() for x in whole])
        found = np.empty((len(self.weights), flat.shape[1]))
        for start in range(0, flat.shape[1], _POINTS):
            part = slice(start, start + _POINTS)
            found[:, part] = self.weights @ self._monomials(flat[:, part])
        return list(found.reshape(-1, *whole[0].shape))

    def _monomials(self, values: np.ndarray) -> np.ndarray:
        found = np.ones((self.weights.shape[1], values.shape[1]))
        for at, (less, variable) in enumerate(self.grown.tolist(), start=1):
            np.multiply(found[less], values[variable], out=found[at])
        return found
