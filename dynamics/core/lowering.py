r"""From a derived `System` to JAX code at matrix-product speed.

A derived right-hand side is a sum of products of one- and two-index factors, read as contractions
(`theory.core.contractions`): a factor is lowered to one elementwise function, and what is summed to one `einsum` per term.
Contractions that differ only by the names of their free indices (the two halves of a symmetrised term) are computed once
and transposed. No array with three indices is ever formed by the terms of the overlap flow.

Works under jit, vmap and grad.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from jax.scipy import special

from dynamics.core.kept import kept
from dynamics.core.precision import double_precision
from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.contractions import Contraction, Factor, contractions, name_of
from theory.core.errors import InputError
from theory.core.indexed import Dual, Index, Sums
from theory.core.system import System

Arrays = Mapping[str, jax.Array]
#: A state by the names of its components.
State = dict[str, jax.Array]
#: Functions that JAX has elsewhere.
SPECIAL = {"erf": special.erf, "erfc": special.erfc, "Heaviside": jnp.heaviside}


def lower_scalar(variable: sp.Symbol, expression: sp.Expr) -> Callable[[jax.Array], jax.Array]:
    """A SymPy expression of one variable as a JAX function, polynomials in Horner form."""
    if expression.is_polynomial(variable):
        expression = sp.horner(expression, variable)
    compiled = sp.lambdify(variable, sp.N(expression, 17), modules=[SPECIAL, "jax"])
    return lambda x: compiled(x) + jnp.zeros_like(x)  # a constant expression must keep the argument's shape


def lower_function(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., jax.Array]:
    """A SymPy expression as a JAX function of these symbols' values, in order."""
    if len(symbols) == 1:
        return lower_scalar(symbols[0], expression)
    compiled: Callable[..., jax.Array] = sp.lambdify(
        list(symbols), sp.N(expression, 17), modules=[SPECIAL, "jax"], cse=True
    )
    return compiled


def lower_kernel(activation: Activation | None, order: int = 0) -> Callable[[jax.Array], jax.Array]:
    r"""$\varphi^{(n)}$ of an activation as a JAX function of cosines.

    A cosine beyond ±1 is rounding (of a neuron with itself, say), where kernels such as relu's would not be real: it
    counts as ±1. Of an activation whose stored degrees leave too much out, φ and φ′ are those of
    `theory.declared.dual_kernel`. Raises `InputError` where a system has a kernel in its equations but no activation.
    """
    if activation is None:
        raise InputError("activation is None, but the system's equations hold its kernel: name one")
    series = _sharper(activation, order) if activation.is_series else None
    kernel = lower_scalar(kernel_variable, activation.dual_derivative(order)) if series is None else _in_angle(series)
    # (Not jnp.clip: its derivative at ±1 itself is ½.)
    return lambda x: kernel(jnp.where(x > 1.0, 1.0, jnp.where(x < -1.0, -1.0, x)))


def _sharper(activation: Activation, order: int) -> np.ndarray | None:
    from theory.declared.dual_kernel import chebyshev

    return chebyshev(activation, order)


def _in_angle(series: np.ndarray) -> Callable[[jax.Array], jax.Array]:
    r"""$\sum_kb_kT_k(2\theta/\pi)$ at $\sin\theta$, by Clenshaw's recurrence (one loop over entries, whatever the terms)."""
    first, *rest = series.tolist()

    def kernel(x: jax.Array) -> jax.Array:
        twice = 4 / math.pi * jnp.arcsin(x)
        last = before = jnp.zeros_like(x)
        for term in reversed(rest):
            last, before = term + twice * last - before, last
        return first + twice / 2 * last - before

    return kernel


class LoweredSystem:
    r"""JAX functions generated from a `System`.

    ``drift(state, parameters)``, ``noise(state, increments, parameters)`` and ``observable(name, state, parameters)``
    take and return dictionaries of arrays with the shapes of the system's indices (overlap flow: t (m, P), c (m, m),
    r (m,), a (P,)); ``covariance(state, parameters)`` returns one array per pair of components.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._drift = {str(target.base): contractions(sums, target) for target, sums in system.drift.items()}
        self._noise = {str(target.base): contractions(sums, target) for target, sums in system.noise.items()}
        self._covariance = {pair: contractions(sums, *pair) for pair, sums in system.covariance.items()}
        self._definitions = {name_of(symbol): contractions(sums, symbol) for symbol, sums in system.definitions.items()}
        self._observables = {name: contractions(sums) for name, sums in system.observables.items()}
        self._kernels = _Kernels(system.activation)

    def drift(self, state: Arrays, parameters: Arrays) -> dict[str, jax.Array]:
        """Time derivative of each state array."""
        evaluation = self._evaluation(state, parameters)
        return {name: evaluation.total(terms, state[name].shape) for name, terms in self._drift.items()}

    def noise(self, state: Arrays, increments: jax.Array, parameters: Arrays) -> dict[str, jax.Array]:
        """Noise term of each state array for the Brownian increments ``B`` (zero where the system has none)."""
        evaluation = self._evaluation(state, {**parameters, "B": increments})
        return {name: evaluation.total(self._noise.get(name, []), value.shape) for name, value in state.items()}

    def covariance(self, state: Arrays, parameters: Arrays) -> dict[tuple[str, str], jax.Array]:
        """Covariance rate of each pair of state arrays that the system lists, with the indices of both."""
        evaluation = self._evaluation(state, parameters)
        return {
            (str(x.base), str(y.base)): evaluation.total(terms, state[str(x.base)].shape + state[str(y.base)].shape)
            for (x, y), terms in self._covariance.items()
        }

    def observable(self, name: str, state: Arrays, parameters: Arrays) -> jax.Array:
        """An exact observable of the system, e.g. ``"loss"``."""
        return self._evaluation(state, parameters).total(self._observables[name], ())

    def _evaluation(self, state: Arrays, parameters: Arrays) -> "_Evaluation":
        """State and parameters with the system's definitions added, one after the other."""
        arrays: dict[str, jax.Array] = {**parameters, **state}
        for name, terms in self._definitions.items():
            arrays[name] = _Evaluation(arrays, self._kernels).sum(terms)
        return _Evaluation(arrays, self._kernels)


class _Kernels:
    """φ, φ′, … of one activation as JAX functions, lowered when first used."""

    def __init__(self, activation: Activation | None) -> None:
        self._activation = activation
        self._lowered: dict[int, Callable[[jax.Array], jax.Array]] = {}

    def __call__(self, order: int) -> Callable[[jax.Array], jax.Array]:
        if order not in self._lowered:
            self._lowered[order] = lower_kernel(self._activation, order)
        return self._lowered[order]


class _Evaluation:
    """One pass over a set of terms: every factor and every contraction is computed once."""

    def __init__(self, arrays: Arrays, kernels: Callable[[int], Callable[[jax.Array], jax.Array]]) -> None:
        self._arrays = arrays
        self._kernels = kernels
        self._factors: dict[str, jax.Array] = {}
        self._contractions: dict[object, jax.Array] = {}

    def total(self, terms: list[Contraction], shape: tuple[int, ...]) -> jax.Array:
        return jnp.zeros(shape) + self.sum(terms)

    def sum(self, terms: list[Contraction]) -> jax.Array:
        """The sum of all terms; an array over the free letters that occur in it."""
        out = jnp.zeros(())
        for term in terms:
            often = math.prod(self._length(letter, terms) for letter in term.idle)
            out = out + often * term.coefficient * self._einsum(term)
        return out

    def _length(self, letter: Index, terms: list[Contraction]) -> int:
        """How far a letter that stands in no factor runs: as far as its like in another term."""
        for found in (x for term in terms for factor in term.factors for x in factor.body.atoms(sp.Indexed)):
            for place, index in enumerate(found.indices):
                if index.length == letter.length:
                    return int(self._arrays[str(found.base)].shape[place])
        raise TypeError(f"no array has the range of {letter}")

    def _einsum(self, term: Contraction) -> jax.Array:
        pieces = [(self._array(x), x.letters) for x in term.outer]
        if term.inner:
            pieces.append((self._contract(term), term.kept))
        result = None
        for array, letters in pieces:
            placed = broadcast(array, letters, term.free)
            result = placed if result is None else result * placed
        return jnp.asarray(1.0) if result is None else result

    def _contract(self, term: Contraction) -> jax.Array:
        """Sum over the bound letters; cached up to renaming of letters, with the output transposed as needed."""
        operands, out = term.operands
        if (operands, out) not in self._contractions:
            subscripts = ",".join(letters for _, letters in operands) + "->" + out
            arrays = [self._array(x) for x in term.inner]
            self._contractions[operands, out] = jnp.einsum(subscripts, *arrays, precision=jax.lax.Precision.HIGHEST)
        order = [out.index(term.renamed[i]) for i in term.kept]
        return jnp.transpose(self._contractions[operands, out], order)

    def _array(self, factor: Factor) -> jax.Array:
        if factor.key not in self._factors:
            self._factors[factor.key] = self._elementwise(factor)
        return self._factors[factor.key]

    def _elementwise(self, factor: Factor) -> jax.Array:
        """A product of powers of indexed symbols and kernels of them, over the factor's letters."""
        result = jnp.ones(())
        for base, power in factor.parts:
            result = result * self._atom(base, factor.letters) ** power
        return result

    def _atom(self, base: sp.Expr, letters: tuple[sp.Symbol, ...]) -> jax.Array:
        if isinstance(base, Dual):
            argument, order = base.args
            return self._kernels(int(order))(self._atom(argument, letters))
        if isinstance(base, sp.Indexed):
            return broadcast(self._arrays[str(base.base)], base.indices, letters)
        if isinstance(base, sp.Symbol):
            return self._arrays[base.name]
        if base.is_number:
            return jnp.asarray(float(base))
        raise TypeError(f"cannot lower {base}: expected products of indexed symbols and kernels")


def broadcast(array: jax.Array, letters: tuple[sp.Symbol, ...], target: tuple[sp.Symbol, ...]) -> jax.Array:
    """View `array`, indexed by `letters` (repeated letters: the diagonal), as an array over `target`, of length 1 where a
    letter of `target` is missing: its shape broadcasts.
    """
    if len(set(letters)) < len(letters):
        return broadcast(jnp.diagonal(array), letters[:1], target)
    order = sorted(range(len(letters)), key=lambda place: target.index(letters[place]))
    shape = [1] * len(target)
    for place, letter in enumerate(letters):
        shape[target.index(letter)] = array.shape[place]
    return jnp.reshape(jnp.transpose(array, order), shape)


def elementwise(factor: Factor, arrays: Arrays) -> jax.Array:
    """A product of powers of indexed symbols (no kernels) over the factor's letters: one axis each, of its shape."""
    return _Evaluation(arrays, _no_kernels)._elementwise(factor)


def _no_kernels(order: int) -> Callable[[jax.Array], jax.Array]:
    raise TypeError("a kernel was not expected here")


@double_precision
def lower(system: System) -> LoweredSystem:
    """JAX code of a derived system, made once per object (so that it is also compiled once), and let go with it."""
    return kept(system, LoweredSystem)


__all__ = ["LoweredSystem", "Sums", "elementwise", "lower", "lower_kernel", "lower_scalar"]
