"""Indexed sums on arrays of floats: the derived expressions as NumPy code, for what must answer without a compiler."""

import string
from collections.abc import Callable, Hashable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.indexed import Dual, Sums, Term

Arrays = Mapping[str, np.ndarray]
#: A value: the places of its axes among those of its term, increasing, and its number among the values.
Part = tuple[tuple[int, ...], int]


class NumericSums:
    """A derived expression of one activation, to be called with arrays by name.

    What stands in several terms is computed once; every number is that of its term by itself, to the last bit.

    Args:
        sums: the expression, in symbols with indices. free: its free indices, in the order of the result's axes.
    """

    def __init__(self, sums: Sums, free: tuple[sp.Symbol, ...], activation: Activation) -> None:
        self._activation = activation
        self._numbers: dict[Hashable, int] = {}
        self._values: list[tuple[Callable[[Any], np.ndarray], int | None]] = []  # of another value, or of the arrays
        self._terms = [self._term(term, free) for term in sums]

    def __call__(self, arrays: Arrays) -> np.ndarray:
        """The value, with one axis for each free index."""
        found: list[np.ndarray] = []
        for compute, source in self._values:
            found.append(compute(arrays if source is None else found[source]))
        return np.asarray(sum(term(found) for term in self._terms))

    def _term(self, term: Term, free: tuple[sp.Symbol, ...]) -> Callable[[list[np.ndarray]], np.ndarray]:
        axes = (*free, *term.bound)
        number, factors = term.body.as_coeff_mul()
        parts = sorted((self._part(factor, axes) for factor in factors), key=lambda part: -len(part[0]))
        groups: list[list[Part]] = []  # each led by its widest; products within are cheap, the rest is one contraction
        for part in parts:
            home = next((group for group in groups if set(part[0]) <= set(group[0][0])), None)
            groups.append([part]) if home is None else home.append(part)
        letters = string.ascii_lowercase
        subscripts = ",".join("".join(letters[place] for place in group[0][0]) for group in groups)
        contraction = f"{subscripts}->{letters[: len(free)]}"
        factor, products = float(number), [_spread(group) for group in groups]
        if len(products) == 1 and subscripts == letters[: len(free)]:
            return lambda found: factor * _product(products[0], found)
        return lambda found: factor * np.einsum(contraction, *(_product(product, found) for product in products))

    def _part(self, factor: sp.Expr, axes: tuple[sp.Symbol, ...]) -> Part:
        """A component, a number by its name, a power of one, or the kernel (or its derivative) at one."""
        base, power = factor.as_base_exp()
        if power != 1:
            places, root = self._part(base, axes)
            exponent = int(power)
            return places, self._number(("power", exponent, root), lambda x: x**exponent, root)
        if isinstance(base, Dual):
            (places, at), order = self._part(base.args[0], axes), int(base.args[1])
            return places, self._number(("kernel", order, at), _kernel(self._activation, order), at)
        if isinstance(base, sp.Symbol):
            return (), self._number((base.name,), lambda arrays: np.asarray(arrays[base.name]))
        found = [axes.index(index) for index in base.indices]
        name, places = str(base.base), tuple(sorted(set(found)))
        if len(places) < len(found):  # an index stands twice: the diagonal
            letters = string.ascii_lowercase
            diagonal = f"{''.join(letters[n] for n in found)}->{''.join(letters[n] for n in places)}"
            return places, self._number((name, diagonal), lambda arrays: np.einsum(diagonal, arrays[name]))
        order_of = tuple(int(i) for i in np.argsort(found))
        if order_of == tuple(range(len(found))):
            return places, self._number((name,), lambda arrays: arrays[name])
        return places, self._number((name, order_of), lambda arrays: np.transpose(arrays[name], order_of))

    def _number(self, key: Hashable, compute: Callable[[Any], np.ndarray], source: int | None = None) -> int:
        """The number of a value, given when it is first asked for."""
        if key not in self._numbers:
            self._numbers[key] = len(self._values)
            self._values.append((compute, source))
        return self._numbers[key]


#: Factors of a product: their numbers, and what spreads each over the axes of the first.
Spread = list[tuple[int, tuple[slice | None, ...] | None]]


def _spread(group: list[Part]) -> Spread:
    widest = group[0][0]
    return [
        (number, None if places == widest else tuple(slice(None) if x in places else None for x in widest))
        for places, number in group
    ]


def _product(factors: Spread, found: list[np.ndarray]) -> np.ndarray:
    """On the axes of the first, from left to right."""
    return reduce(np.multiply, [found[n] if over is None else found[n][over] for n, over in factors])


def _kernel(activation: Activation, order: int) -> Callable[[np.ndarray], np.ndarray]:
    """φ or a derivative of it on arrays, clipped to cosines."""
    expression = activation.dual_derivative(order) if order else activation.dual
    if expression.is_polynomial(kernel_variable):  # by Horner's rule: NumPy takes powers by logarithms
        coefficients = [float(one) for one in sp.Poly(expression, kernel_variable).all_coeffs()]
        return lambda x: _horner(coefficients, np.minimum(np.maximum(x, -1.0), 1.0))
    compiled = sp.lambdify(kernel_variable, expression, modules=["scipy", "numpy"])
    return lambda x: compiled(np.minimum(np.maximum(x, -1.0), 1.0)) + 0.0 * x


def _horner(coefficients: list[float], x: np.ndarray) -> np.ndarray:
    """The polynomial at x, highest power first, to the bit what `numpy.polyval` gives; nothing is added where there is 0."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        if coefficient:
            value += coefficient
    return value
