"""Indexed sums on arrays of floats: the derived expressions as NumPy code, for what must answer without a compiler."""

import string
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.indexed import Dual, Sums, Term

Arrays = Mapping[str, np.ndarray]
#: A factor: the places of its axes among those of its term, increasing, and its value.
Part = tuple[tuple[int, ...], Callable[[Arrays], np.ndarray]]


class NumericSums:
    """A derived expression of one activation, to be called with arrays by name.

    Args:
        sums: the expression, in symbols with indices. free: its free indices, in the order of the result's axes.
    """

    def __init__(self, sums: Sums, free: tuple[sp.Symbol, ...], activation: Activation) -> None:
        self._terms = [_term(term, free, activation) for term in sums]

    def __call__(self, arrays: Arrays) -> np.ndarray:
        """The value, with one axis for each free index."""
        return np.asarray(sum(term(arrays) for term in self._terms))


def _term(term: Term, free: tuple[sp.Symbol, ...], activation: Activation) -> Callable[[Arrays], np.ndarray]:
    axes = (*free, *term.bound)
    number, factors = term.body.as_coeff_mul()
    parts = sorted((_part(factor, axes, activation) for factor in factors), key=lambda part: -len(part[0]))
    groups: list[list[Part]] = []  # each led by its widest; products within are cheap, the rest is one contraction
    for part in parts:
        home = next((group for group in groups if set(part[0]) <= set(group[0][0])), None)
        groups.append([part]) if home is None else home.append(part)
    letters = string.ascii_lowercase
    subscripts = ",".join("".join(letters[place] for place in group[0][0]) for group in groups)
    contraction = f"{subscripts}->{letters[: len(free)]}"

    def value(arrays: Arrays) -> np.ndarray:
        return float(number) * np.einsum(contraction, *(_product(group, arrays) for group in groups))

    return value


def _product(group: list[Part], arrays: Arrays) -> np.ndarray:
    """The group's product on the axes of its first part."""
    widest = group[0][0]
    spread = (
        np.expand_dims(value(arrays), tuple(i for i, place in enumerate(widest) if place not in places))
        for places, value in group
    )
    return reduce(np.multiply, spread)


def _part(factor: sp.Expr, axes: tuple[sp.Symbol, ...], activation: Activation) -> Part:
    """A component, a number by its name, a power of one, or the kernel (or its derivative) at one."""
    base, power = factor.as_base_exp()
    if power != 1:
        places, root = _part(base, axes, activation)
        return places, lambda arrays: root(arrays) ** int(power)
    if isinstance(base, Dual):
        (places, at), kernel = _part(base.args[0], axes, activation), _kernel(activation, int(base.args[1]))
        return places, lambda arrays: kernel(at(arrays))
    if isinstance(base, sp.Symbol):
        return (), lambda arrays: np.asarray(arrays[base.name])
    found = [axes.index(index) for index in base.indices]
    name, places = str(base.base), tuple(sorted(set(found)))
    if len(places) < len(found):  # an index stands twice: the diagonal
        letters = string.ascii_lowercase
        diagonal = f"{''.join(letters[n] for n in found)}->{''.join(letters[n] for n in places)}"
        return places, lambda arrays: np.einsum(diagonal, arrays[name])
    order = tuple(int(i) for i in np.argsort(found))
    return places, lambda arrays: np.transpose(arrays[name], order)


def _kernel(activation: Activation, order: int) -> Callable[[np.ndarray], np.ndarray]:
    """φ or a derivative of it on arrays, clipped to cosines."""
    expression = activation.dual_derivative(order) if order else activation.dual
    if expression.is_polynomial(kernel_variable):
        expression = sp.horner(expression, kernel_variable)
    compiled = sp.lambdify(kernel_variable, expression, modules=["scipy", "numpy"])
    return lambda x: compiled(np.clip(x, -1.0, 1.0)) + 0.0 * x
