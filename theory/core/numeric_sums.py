"""Indexed sums on arrays of floats: the derived expressions as NumPy code, for what must answer without a compiler."""

import string
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.indexed import Dual, Sums, Term

Arrays = Mapping[str, np.ndarray]
#: A value: the places of its axes among those of its term, increasing, and its name in the code.
Part = tuple[tuple[int, ...], str]


class NumericSums:
    """A derived expression of one activation, to be called with arrays by name.

    What stands in several terms is computed once; every number is that of its term by itself, to the last bit.

    Args:
        sums: the expression, in symbols with indices. free: its free indices, in the order of the result's axes.
    """

    def __init__(self, sums: Sums, free: tuple[sp.Symbol, ...], activation: Activation) -> None:
        self._activation = activation
        self._names: dict[str, str] = {}
        self._lines: list[str] = []
        self._called: dict[str, Any] = {"einsum": np.einsum, "asarray": np.asarray}
        terms = [self._term(term, free) for term in sums]
        body = [*self._lines, f"return asarray({' + '.join(['0', *terms])})"]
        # Written out, for arrays are small here: to walk through terms takes longer than to compute them.
        exec("\n ".join(["def value(arrays):", *body]), self._called)

    def __call__(self, arrays: Arrays) -> np.ndarray:
        """The value, with one axis for each free index."""
        found: np.ndarray = self._called["value"](arrays)
        return found

    def _term(self, term: Term, free: tuple[sp.Symbol, ...]) -> str:
        axes = (*free, *term.bound)
        number, factors = term.body.as_coeff_mul()
        parts = sorted((self._part(factor, axes) for factor in factors), key=lambda part: -len(part[0]))
        groups: list[list[Part]] = []  # each led by its widest; products within are cheap, the rest is one contraction
        for part in parts:
            home = next((group for group in groups if set(part[0]) <= set(group[0][0])), None)
            groups.append([part]) if home is None else home.append(part)
        letters = string.ascii_lowercase
        subscripts = ",".join("".join(letters[place] for place in group[0][0]) for group in groups)
        products = [_product(group) for group in groups]
        if len(products) == 1 and subscripts == letters[: len(free)]:
            return f"{float(number)!r} * ({products[0]})"
        return f"{float(number)!r} * einsum('{subscripts}->{letters[: len(free)]}', {', '.join(products)})"

    def _part(self, factor: sp.Expr, axes: tuple[sp.Symbol, ...]) -> Part:
        """A component, a number by its name, a power of one, or the kernel (or its derivative) at one."""
        base, power = factor.as_base_exp()
        if power != 1:
            places, root = self._part(base, axes)
            return places, self._named(f"{root} ** {int(power)}")
        if isinstance(base, Dual):
            (places, at), order = self._part(base.args[0], axes), int(base.args[1])
            self._called[f"kernel{order}"] = _kernel(self._activation, order)
            return places, self._named(f"kernel{order}({at})")
        if isinstance(base, sp.Symbol):
            return (), self._named(f"asarray(arrays[{base.name!r}])")
        found = [axes.index(index) for index in base.indices]
        array, places = f"arrays[{str(base.base)!r}]", tuple(sorted(set(found)))
        if len(places) < len(found):  # an index stands twice: the diagonal
            letters = string.ascii_lowercase
            diagonal = f"{''.join(letters[n] for n in found)}->{''.join(letters[n] for n in places)}"
            return places, self._named(f"einsum('{diagonal}', {array})")
        order_of = tuple(int(i) for i in np.argsort(found))
        turned = "" if order_of == tuple(range(len(found))) else f".transpose({order_of})"
        return places, self._named(array + turned)

    def _named(self, value: str) -> str:
        """The name of a value, given when it is first asked for."""
        if value not in self._names:
            self._names[value] = f"v{len(self._names)}"
            self._lines.append(f"{self._names[value]} = {value}")
        return self._names[value]


def _product(group: list[Part]) -> str:
    """On the axes of the first, from left to right."""
    widest = group[0][0]

    def spread(places: tuple[int, ...]) -> str:
        over = ", ".join(":" if x in places else "None" for x in widest)
        return "" if places == widest else f"[{over}]"

    return " * ".join(name + spread(places) for places, name in group)


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
