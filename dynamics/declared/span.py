r"""Vectors by their coefficients: on what a step begins with (rows and buffers, K kinds of m each) and on its samples.

Inner products follow from those of the frame, so that a rule written in vectors (`theory.declared.rule`) costs what its
coefficients cost, whatever the dimension. Two layouts of what is known: each row with its own kinds only, which most rules
need, or every row with every other, for rules that mix rows with memory (`Norms`). The formulas are derived from bilinearity
alone; where the frame's numbers are from, `dynamics.declared.chain` says.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from theory import InputError

#: Singular values below this share of the largest count as zero in a polar factor.
RANK = 1e-7


class NeedsPairsError(Exception):
    """The rule needs inner products of different rows, which this layout does not carry."""


#: Inner products of kinds i ≤ j: of each row with its own, (m,), or of every row with every other, (m, m). (Apart, not as one
#: array: a step writes each of them once, and the compiler makes slow code of what puts arrays together.)
Norms = dict[tuple[int, int], jax.Array]


class Frame:
    """What a step begins with.

    Attributes:
        fields: inner products with the samples, (K, m, b). norms: `Norms`, with one another. gram: of the samples, (b, b);
            made by `make_gram` when a rule first asks.
    """

    def __init__(self, fields: jax.Array, norms: Norms, make_gram: Callable[[], jax.Array]) -> None:
        self.fields, self.norms, self._make = fields, norms, make_gram

    @cached_property
    def gram(self) -> jax.Array:
        return self._make()

    @property
    def pairs(self) -> bool:
        return self.norms[0, 0].ndim == 2

    def product(self, i: int, j: int) -> jax.Array:
        """Of kind i with kind j, in the layout of `norms`."""
        return self.norms[i, j] if i <= j else self.norms[j, i].T

    def kind(self, number: int) -> "Span":
        """The vectors of one kind."""
        return Span(self, {number: 1.0}, None)


class Span:
    """Σ_i own_i · kind i + Σ_s tail_s x_s; own: a number, one for each row (m,), or a mixture of rows (m, m)."""

    def __init__(self, frame: Frame, own: Mapping[int, Any], tail: jax.Array | None) -> None:
        self.frame, self.own, self.tail = frame, own, tail

    def elementwise(self, function: Any, *others: "Span") -> "Span":
        """Refused: a vector by its coefficients has no coordinates. Raises `InputError`."""
        raise InputError(NO_COORDINATES)

    def weighted(self) -> "Span":
        """Λv: refused, since its coefficients differ by eigenspace. Raises `InputError`."""
        raise InputError(
            "a whitened student moves along Λv, whose coefficients differ by eigenspace: simulate it with method = "
            "'ambient', or run its flow"
        )

    def __jax_array__(self) -> Any:
        raise InputError(NO_COORDINATES)

    def _with(self, other: "Span", sign: int) -> "Span":
        own = dict(self.own)
        for kind, value in other.own.items():
            own[kind] = _plus(own[kind], sign * value) if kind in own else sign * value
        tails = [x for x in (self.tail, None if other.tail is None else sign * other.tail) if x is not None]
        return Span(self.frame, own, sum(tails[1:], start=tails[0]) if tails else None)

    def __add__(self, other: "Span") -> "Span":
        return self._with(other, 1)

    def __sub__(self, other: "Span") -> "Span":
        return self._with(other, -1)

    def __neg__(self) -> "Span":
        return self * -1.0

    def __mul__(self, factor: Any) -> "Span":
        own = {kind: _rows(factor, value) * value for kind, value in self.own.items()}
        return Span(self.frame, own, None if self.tail is None else _rows(factor, self.tail) * self.tail)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "Span":
        return self * (1 / divisor)

    def combination(self, coefficients: jax.Array) -> "Span":
        """Σ_s coefficients_ks x_s; (m, b)."""
        return Span(self.frame, {}, coefficients)

    # ----------------------------------------------------------------- inner products

    def fields(self) -> jax.Array:
        """With the samples, (m, b)."""
        found = [_apply(value, self.frame.fields[kind]) for kind, value in self.own.items()]
        if self.tail is not None:
            found.append(self.tail @ self.frame.gram)
        return sum(found[1:], start=found[0])

    def dot(self, other: "Span") -> jax.Array:
        """Row by row, (m,)."""
        if any(_mixes(x) for x in (*self.own.values(), *other.own.values())):
            return jnp.diagonal(self.gram(other))
        frame, m = self.frame, self.frame.fields.shape[1]
        found = jnp.zeros(m)
        for i, a in self.own.items():
            for j, b in other.own.items():
                norm = jnp.diagonal(frame.product(i, j)) if frame.pairs else frame.product(i, j)
                found = found + a * b * norm
        for one, two in ((self, other), (other, self)):
            if two.tail is not None:
                for i, a in one.own.items():
                    found = found + a * jnp.sum(frame.fields[i] * two.tail, axis=1)
        if self.tail is not None and other.tail is not None:
            found = found + jnp.sum(self.tail * (other.tail @ frame.gram), axis=1)
        return found

    def gram(self, other: "Span") -> jax.Array:
        """Of every row with every row, (m, m). Raises `NeedsPairsError` if the layout lacks them."""
        frame, m = self.frame, self.frame.fields.shape[1]
        if self.own and other.own and not frame.pairs:
            raise NeedsPairsError
        found = jnp.zeros((m, m))
        for i, a in self.own.items():
            for j, b in other.own.items():
                found = found + _apply(a, _apply(b, frame.product(j, i)).T)
        for one, two, turn in ((self, other, False), (other, self, True)):
            if two.tail is not None:
                for i, a in one.own.items():
                    part = _apply(a, frame.fields[i]) @ two.tail.T
                    found = found + (part.T if turn else part)
        if self.tail is not None and other.tail is not None:
            found = found + self.tail @ frame.gram @ other.tail.T
        return found

    def norms(self) -> jax.Array:
        """Lengths (m,)."""
        return jnp.sqrt(jnp.maximum(self.dot(self), 0.0))

    def norm(self) -> jax.Array:
        """Length of all rows together."""
        return jnp.sqrt(jnp.maximum(jnp.sum(self.dot(self)), 0.0))

    def total(self, numbers: jax.Array) -> jax.Array:
        """Sum of numbers, one for each row, (m,)."""
        return jnp.sum(numbers)

    # ------------------------------------------------------------------------ mixtures

    def mixed(self, matrix: jax.Array) -> "Span":
        """Row k becomes Σ_l matrix_kl · row l, (m, m). Raises `NeedsPairsError` if the layout cannot follow."""
        if self.own and not self.frame.pairs:
            raise NeedsPairsError
        own = {kind: matrix * value if jnp.ndim(value) < 2 else matrix @ value for kind, value in self.own.items()}
        return Span(self.frame, own, None if self.tail is None else matrix @ self.tail)

    def polar(self) -> "Span":
        r"""$(GG^\top)^{+1/2}G$."""
        return self.mixed(inverse_root(self.gram(self)))


#: What is said to a rule that asks for coordinates.
NO_COORDINATES = (
    "the rule works on coordinates (signs, Adam's elementwise squares), so it does not turn with the axes and no finite set "
    "of overlaps is closed under it: run it with method = ambient, or write it in inner products (dot, gram, norm)"
)


def inverse_root(gram: jax.Array) -> jax.Array:
    """Pseudo-inverse square root of a Gram matrix (m, m); singular values below `RANK` times the largest are dropped."""
    values, vectors = jnp.linalg.eigh(gram)
    kept = values > RANK**2 * values[-1]
    return (vectors * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)) @ vectors.T


def _mixes(value: Any) -> bool:
    return jnp.ndim(value) == 2


def _rows(factor: Any, of: Any) -> Any:
    """A factor (one number, or one for each row) as it multiplies an array over rows."""
    return factor[:, None] if jnp.ndim(factor) == 1 and jnp.ndim(of) == 2 else factor


def _plus(one: Any, two: Any) -> Any:
    """Sum of coefficients, where one may be a mixture."""
    if _mixes(one) == _mixes(two):
        return one + two
    matrix, rest = (one, two) if _mixes(one) else (two, one)
    return matrix + jnp.diag(jnp.broadcast_to(rest, matrix.shape[:1]))


def _apply(value: Any, array: jax.Array) -> jax.Array:
    """Coefficients on an array with rows in front."""
    return value @ array if _mixes(value) else (value[:, None] * array if jnp.ndim(value) == 1 else value * array)


class Coefficients(NamedTuple):
    """Of K new kinds: on the old ones `own` (K, K, m) or (K, m, K, m), on the samples `tail` (K, m, b)."""

    own: jax.Array
    tail: jax.Array


def dense(kinds: list[Span], frame: Frame) -> Coefficients:
    """The coefficients as arrays."""
    count, m, b = frame.fields.shape

    def place(value: Any) -> jax.Array:
        if frame.pairs:
            return value if _mixes(value) else jnp.diag(jnp.broadcast_to(jnp.asarray(value, dtype=float), (m,)))
        return jnp.broadcast_to(jnp.asarray(value, dtype=float), (m,))

    own = jnp.stack([jnp.stack([place(one.own.get(j, 0.0)) for j in range(count)]) for one in kinds])
    if frame.pairs:
        own = jnp.moveaxis(own, 2, 1)  # (K, K, m, m) → (K, m, K, m)
    return Coefficients(own, jnp.stack([jnp.zeros((m, b)) if one.tail is None else one.tail for one in kinds]))


def norms_of(kinds: list[Span], frame: Frame) -> Norms:
    """Inner products of the new kinds, in the frame's layout."""
    product = Span.gram if frame.pairs else Span.dot
    return symmetric(len(kinds), lambda i, j: product(kinds[i], kinds[j]))


def symmetric(count: int, entry: Callable[[int, int], jax.Array]) -> Norms:
    """`entry(i, j)` for all i ≤ j below `count`."""
    return {(i, j): entry(i, j) for j in range(count) for i in range(j + 1)}
