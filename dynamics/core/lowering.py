r"""From a derived `System` to JAX code at matrix-product speed.

A derived right-hand side is a sum of products of one- and two-index factors. Each product is split into groups of
factors with equal index sets; a group is lowered to one elementwise function; a one-index group is multiplied into a
two-index group that contains its index; what is left is one `einsum` per term. Contractions that differ only by the
names of their free indices (the two halves of a symmetrised term) are computed once and transposed. No array with three
indices is ever formed by the terms of the overlap flow.

Works under jit, vmap and grad.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import sympy as sp
from jax.scipy import special

from dynamics.core.kept import kept
from dynamics.core.precision import double_precision
from theory.core.activation import Activation
from theory.core.activation import c as kernel_variable
from theory.core.errors import InputError
from theory.core.indexed import Dual, Sums, Term, free_indices
from theory.core.system import System

Arrays = Mapping[str, jax.Array]
#: A state by the names of its components.
State = dict[str, jax.Array]
_SPECIAL = {"erf": special.erf, "erfc": special.erfc, "Heaviside": jnp.heaviside}


def lower_scalar(variable: sp.Symbol, expression: sp.Expr) -> Callable[[jax.Array], jax.Array]:
    """A SymPy expression of one variable as a JAX function, polynomials in Horner form."""
    if expression.is_polynomial(variable):
        expression = sp.horner(expression, variable)
    compiled = sp.lambdify(variable, sp.N(expression, 17), modules=[_SPECIAL, "jax"])
    return lambda x: compiled(x) + jnp.zeros_like(x)  # a constant expression must keep the argument's shape


def lower_function(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., jax.Array]:
    """A SymPy expression as a JAX function of these symbols' values, in order."""
    if len(symbols) == 1:
        return lower_scalar(symbols[0], expression)
    compiled: Callable[..., jax.Array] = sp.lambdify(
        list(symbols), sp.N(expression, 17), modules=[_SPECIAL, "jax"], cse=True
    )
    return compiled


def lower_kernel(activation: Activation | None, order: int = 0) -> Callable[[jax.Array], jax.Array]:
    r"""$\varphi^{(n)}$ of an activation as a JAX function of cosines.

    A cosine beyond ±1 is rounding (of a neuron with itself, say), where kernels such as relu's would not be real: it
    counts as ±1. Raises `InputError` where a system has a kernel in its equations but no activation.
    """
    if activation is None:
        raise InputError("activation is None, but the system's equations hold its kernel: name one")
    kernel = lower_scalar(kernel_variable, activation.dual_derivative(order))
    # (Not jnp.clip: its derivative at ±1 itself is ½.)
    return lambda x: kernel(jnp.where(x > 1.0, 1.0, jnp.where(x < -1.0, -1.0, x)))


@dataclass(frozen=True)
class Factor:
    """One elementwise array: a product of indexed symbols and kernels, over an ordered tuple of index letters."""

    body: sp.Expr
    letters: tuple[sp.Symbol, ...]

    @cached_property
    def key(self) -> str:
        """Equal for factors that differ only by the names of their letters."""
        names = {x: sp.Symbol(f"i{place}") for place, x in enumerate(self.letters)}
        return sp.srepr(self.body.xreplace(names))


def _split(body: sp.Expr) -> tuple[sp.Expr, list[Factor]]:
    """The numerical coefficient of a product and its factors, grouped by index set."""
    coefficient: sp.Expr = sp.Integer(1)
    groups: dict[frozenset[sp.Symbol], sp.Expr] = {}
    for factor in sp.Mul.make_args(body):
        letters = frozenset(free_indices(factor))
        if not letters and factor.is_number and not factor.has(Dual):
            coefficient *= factor
        else:
            groups[letters] = groups.get(letters, sp.Integer(1)) * factor
    return coefficient, _absorb([(_ordered(letters, product), product) for letters, product in groups.items()])


def _ordered(letters: frozenset[sp.Symbol], body: sp.Expr) -> tuple[sp.Symbol, ...]:
    """Letters in the order in which a two-index array carries them; alphabetical if arrays disagree."""
    orders = {x.indices for x in body.atoms(sp.Indexed) if len(x.indices) == len(letters)}
    return next(iter(orders)) if len(orders) == 1 else tuple(sorted(letters, key=str))


def _absorb(groups: list[tuple[tuple[sp.Symbol, ...], sp.Expr]]) -> list[Factor]:
    """Multiply each one-index (or index-free) group into a larger group that contains its letters.

    A group of letters that are all free stays outside: it multiplies the result of the contraction.
    """
    groups = sorted(groups, key=lambda group: len(group[0]))
    factors: list[Factor] = []
    for place, (letters, body) in enumerate(groups):
        host = next((h for h in range(place + 1, len(groups)) if set(letters) < set(groups[h][0])), None)
        if host is None:
            factors.append(Factor(body, letters))
        else:
            groups[host] = (groups[host][0], groups[host][1] * body)
    return factors


@dataclass(frozen=True)
class Contraction:
    """coefficient × einsum over factors, with output letters `free`."""

    coefficient: float
    factors: tuple[Factor, ...]
    free: tuple[sp.Symbol, ...]


def _contraction(term: Term, free: tuple[sp.Symbol, ...]) -> Contraction:
    coefficient, factors = _split(term.body)
    return Contraction(float(coefficient), tuple(sorted(factors, key=lambda factor: factor.key)), free)


def _contractions(sums: Sums, *targets: sp.Symbol | sp.Indexed) -> list[Contraction]:
    """One contraction per term, its output over the indices of `targets` in order."""
    free = tuple(index for target in targets if isinstance(target, sp.Indexed) for index in target.indices)
    return [_contraction(term, free) for term in sums]


def _name(symbol: sp.Symbol | sp.Indexed) -> str:
    return str(symbol.base) if isinstance(symbol, sp.Indexed) else symbol.name


class LoweredSystem:
    r"""JAX functions generated from a `System`.

    ``drift(state, parameters)``, ``noise(state, increments, parameters)`` and ``observable(name, state, parameters)``
    take and return dictionaries of arrays with the shapes of the system's indices (overlap flow: t (m, P), c (m, m),
    r (m,), a (P,)); ``covariance(state, parameters)`` returns one array per pair of components.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._drift = {str(target.base): _contractions(sums, target) for target, sums in system.drift.items()}
        self._noise = {str(target.base): _contractions(sums, target) for target, sums in system.noise.items()}
        self._covariance = {pair: _contractions(sums, *pair) for pair, sums in system.covariance.items()}
        self._definitions = {_name(symbol): _contractions(sums, symbol) for symbol, sums in system.definitions.items()}
        self._observables = {name: _contractions(sums) for name, sums in system.observables.items()}
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
            out = out + term.coefficient * self._einsum(term)
        return out

    def _einsum(self, term: Contraction) -> jax.Array:
        inner = [x for x in term.factors if not set(x.letters) <= set(term.free)]
        outer = [x for x in term.factors if set(x.letters) <= set(term.free)]
        kept = tuple(i for i in term.free if any(i in x.letters for x in inner))
        pieces = [(self._array(x), x.letters) for x in outer]
        if inner:
            pieces.append((self._contract(inner, kept), kept))
        result = None
        for array, letters in pieces:
            placed = broadcast(array, letters, term.free)
            result = placed if result is None else result * placed
        return jnp.asarray(1.0) if result is None else result

    def _contract(self, factors: list[Factor], kept: tuple[sp.Symbol, ...]) -> jax.Array:
        """Sum over the bound letters; cached up to renaming of letters, with the output transposed as needed."""
        rename: dict[sp.Symbol, str] = {}
        for factor in factors:
            for letter in factor.letters:
                rename.setdefault(letter, chr(ord("a") + len(rename)))
        operands = tuple((x.key, "".join(rename[i] for i in x.letters)) for x in factors)
        out = "".join(sorted(rename[i] for i in kept))
        if (operands, out) not in self._contractions:
            subscripts = ",".join(letters for _, letters in operands) + "->" + out
            arrays = [self._array(x) for x in factors]
            self._contractions[operands, out] = jnp.einsum(subscripts, *arrays, precision=jax.lax.Precision.HIGHEST)
        order = [out.index(rename[i]) for i in kept]
        return jnp.transpose(self._contractions[operands, out], order)

    def _array(self, factor: Factor) -> jax.Array:
        if factor.key not in self._factors:
            self._factors[factor.key] = self._elementwise(factor)
        return self._factors[factor.key]

    def _elementwise(self, factor: Factor) -> jax.Array:
        """A product of powers of indexed symbols and kernels of them, over the factor's letters."""
        result = jnp.ones(())
        for part in sp.Mul.make_args(factor.body):
            base, power = part.as_base_exp()
            result = result * self._atom(base, factor.letters) ** (int(power) if power.is_Integer else float(power))
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
