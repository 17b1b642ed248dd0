r"""SGD of a declared model, exact in law at a cost free of d: the chain of all vectors' Gram matrices by eigenspace.

In an eigenspace with $d_i$ dimensions all that matters of a sample are its coordinates on what is known (directions, rows,
buffers) and, outside, the samples' Gram matrix: a Wishart matrix with $d_i$ minus as many degrees of freedom as are known,
drawn by its Bartlett factor (Bartlett 1933). A block of samples is drawn so; its steps are taken in coefficients
(`dynamics.declared.span`); at its end the vectors, now in $n+$block coordinates of each eigenspace, are expressed in n again.
Eigenspaces of at most that many dimensions are kept in plain coordinates, all of them side by side. Nothing is approximated.

With n = K·m vectors (K − 1 buffers), a block of B samples and L eigenvalues a block costs $O(Ln(P+n)B+mB^2+Ln^2(n+B))$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.lowering import lower_function
from dynamics.core.outside import (
    NO_MISTAKES,
    Mistakes,
    drawn_once,
    outside_columns,
    outside_factor,
    rotate_back,
)
from dynamics.declared import span
from dynamics.declared.span import Frame, Norms, Span
from dynamics.declared.step import Parts, noisy, take
from theory.declared.directions import Directions
from theory.declared.rule import Rule
from theory.declared.target import Target

#: Samples of a block, about.
BLOCK = 32


class Geometry(NamedTuple):
    r"""Where inputs and directions lie, as arrays.

    Attributes:
        scale: $\sqrt{\lambda_i}$ of reduced eigenspaces, (L,). freedom: $d_i-P-n$, (L,). directions: their coordinates, (L, P,
        P). plain_scale: $\sqrt\lambda$ of each plain coordinate, (D,). plain_directions: (P, D).
    """

    scale: jax.Array
    freedom: jax.Array
    directions: jax.Array
    plain_scale: jax.Array
    plain_directions: jax.Array


class Chain(NamedTuple):
    """One replica. on: coordinates of all n vectors on the directions, (L, n, P); off: outside them, (L, n, n); plain: (n, D);
    second: b (m,)."""

    on: jax.Array
    off: jax.Array
    plain: jax.Array
    second: jax.Array


@dataclass(frozen=True)
class Shape:
    """What decides the compiled code.

    Attributes:
        parts, target: of the model. block: steps of a block. orthonormal: whether reduced directions' coordinates are the
            identity. unit: whether inputs have unit variance there. pairs: the layout that the rule needs.
        mistakes: errors built in on purpose.
    """

    parts: Parts
    target: Target
    block: int
    orthonormal: bool
    unit: bool
    pairs: bool = False
    mistakes: Mistakes = NO_MISTAKES

    @property
    def kinds(self) -> int:
        """K, rows and buffers."""
        return 1 + len(self.parts.rule.buffers)

    @property
    def samples(self) -> int:
        """Drawn together: of a block, or a data set."""
        return self.parts.rule.samples or self.parts.rule.batch * self.block


def geometry(
    directions: Directions, vectors: int, samples: int, mistakes: Mistakes = NO_MISTAKES
) -> tuple[Geometry, list[int]]:
    """Which eigenspaces are reduced, and the arrays; `vectors` = K·m. The list: numbers of the reduced eigenspaces."""
    inputs, P = directions.inputs, directions.count
    reduced = [i for i, d in enumerate(inputs.multiplicities) if d > P + vectors + samples]
    small = [i for i in range(len(inputs.multiplicities)) if i not in reduced]
    values, counts = np.asarray(inputs.eigenvalues), np.asarray(inputs.multiplicities)
    roots = directions.roots
    columns = [np.pad(roots[i], ((0, 0), (0, max(0, counts[i] - P))))[:, : counts[i]] for i in small]
    known = 0 if mistakes.forget_known else P + vectors
    return Geometry(
        jnp.asarray(np.sqrt(values[reduced])),
        jnp.asarray(counts[reduced] - known, dtype=float),
        jnp.asarray(roots[reduced]),
        jnp.asarray(np.sqrt(np.repeat(values[small], counts[small]))),
        jnp.asarray(np.concatenate([np.zeros((P, 0)), *columns], axis=1)),
    ), reduced


class Drawn(NamedTuple):
    """A block of B samples in coordinates: known (B, L, P + n), on everything known; plain (B, D); labels (B,)."""

    known: jax.Array
    plain: jax.Array
    labels: jax.Array


def draw(
    shape: Shape, space: Geometry, n: int, key: jax.Array, noise_key: jax.Array, first: jax.Array | int = 0
) -> Drawn:
    """The samples on what is known, (B, L, P + n) and (B, D), and their labels (B,); of steps from number `first`."""
    P, B = shape.target.count, shape.samples
    blocks, coordinates = space.scale.size, space.plain_scale.size
    ready = jnp.all(space.freedom > 0)
    known = drawn_once(lambda: jax.random.normal(key, (B * blocks * (P + n),)), ready).reshape(B, blocks, P + n)
    plain = space.plain_scale * jax.random.normal(jax.random.fold_in(key, 1), (B, coordinates)) if coordinates else None
    fields = jnp.zeros((B, P))
    if blocks:
        known = known if shape.unit else space.scale[:, None] * known
        on = known[:, :, :P]
        fields = jnp.sum(on, axis=1) if shape.orthonormal else jnp.einsum("biq,ipq->bp", on, space.directions)
    if plain is not None:
        fields = fields + plain @ space.plain_directions.T
    labels = shape.target.value(fields, lower_function)
    if not shape.parts.rule.renewed:
        labels = noisy(shape.parts.rule, labels, noise_key, first + jnp.arange(B) // shape.parts.rule.batch)
    return Drawn(known, jnp.zeros((B, 0)) if plain is None else plain, labels)


def run_block(
    shape: Shape, space: Geometry, step_sizes: jax.Array, chain: Chain, key: jax.Array, first: jax.Array
) -> Chain:
    """`shape.block` steps, from step number `first`, with these step sizes (block,)."""
    known_key, outside_key = jax.random.split(key)
    noise_key = jax.random.fold_in(outside_key, 2**31 - 1)
    drawn = draw(shape, space, chain.plain.shape[0], known_key, noise_key, first)
    before = fields(chain, drawn).reshape(shape.kinds, -1, shape.samples)
    beyond: list[jax.Array] = []

    def among() -> jax.Array:
        beyond.append(outside(shape, space, outside_key))
        return gram(drawn, beyond[0])

    if shape.block == 1:
        frame = Frame(before, start_norms(shape, chain), among)
        # (Normalised below, in coordinates: in coefficients that would ask for the samples' Gram matrix.)
        kinds, second = one_step(shape, frame, chain.second, drawn.labels, first, step_sizes[0], unit=False)
        after = After(*span.dense(kinds, frame), second)
    else:
        begin = Begin(jnp.moveaxis(before, 1, 2), start_norms(shape, chain), chain.second)
        after = _sequence(shape, begin, among(), drawn.labels, first, step_sizes)
    tail = after.tail.reshape(-1, shape.samples)
    appended = tail @ beyond[0] if beyond else _columns(shape, space, outside_key, tail)
    moved = moved_by(after.own, tail, reduced(chain), drawn.known)
    plain = moved_by(after.own, tail, chain.plain, drawn.plain)
    if shape.block == 1 and shape.parts.student.rows != "free":
        norm2 = jnp.sum(moved**2, axis=(1, 2)) + jnp.sum(appended**2, axis=(0, 2)) + jnp.sum(plain**2, axis=1)
        size = jnp.where(jnp.arange(norm2.size) < chain.second.size, jnp.sqrt(norm2), 1.0)[:, None]
        moved, appended, plain = moved / size[:, None], appended / size, plain / size
    on, off = split(moved, shape.target.count)
    return Chain(on, _each(rotate_back, jnp.concatenate([off, appended], axis=2)), plain, after.second)


def reduced(chain: Chain) -> jax.Array:
    """All vectors on everything known, (n, L, P + n): eigenspaces side by side, so that one matrix product serves them all."""
    return jnp.moveaxis(jnp.concatenate([chain.on, chain.off], axis=2), 1, 0)


def split(vectors: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Vectors (n, L, P + n) on P = `count` directions, (L, n, P), and outside them, (L, n, n)."""
    by_space = jnp.moveaxis(vectors, 1, 0)
    return by_space[:, :, :count], by_space[:, :, count:]


def fields(chain: Chain, drawn: Drawn) -> jax.Array:
    """Inner products of all vectors with the samples, (n, B)."""
    return _flat(reduced(chain)) @ _flat(drawn.known).T + chain.plain @ drawn.plain.T


def summary(shape: Shape, space: Geometry, chain: Chain) -> tuple[jax.Array, jax.Array]:
    """Of one replica: overlaps with the directions (m, P) and squared norms (m,), over all eigenspaces."""
    m = chain.second.size
    on, off, plain = chain.on[:, :m], chain.off[:, :m], chain.plain[:m]
    turned = on if shape.orthonormal else on @ jnp.swapaxes(space.directions, 1, 2)
    overlap = jnp.sum(turned, axis=0) + plain @ space.plain_directions.T
    return overlap, jnp.sum(on**2, axis=(0, 2)) + jnp.sum(off**2, axis=(0, 2)) + jnp.sum(plain**2, axis=1)


class Begin(NamedTuple):
    """What a block begins with: fields (K, B, m), rows last as the long axis of a step; norms in the rule's layout; and b."""

    fields: jax.Array
    norms: Norms
    second: jax.Array


class After(NamedTuple):
    """Where a block ends: coefficients on what it began with, on its samples (K, m, B), and b."""

    own: jax.Array
    tail: jax.Array
    second: jax.Array


def one_step(
    shape: Shape,
    frame: Frame,
    second: jax.Array,
    labels: jax.Array,
    number: jax.Array,
    step_size: jax.Array,
    unit: bool = True,
) -> tuple[list[Span], jax.Array]:
    """The rule on a frame, labels (batch,): all kinds of vectors after it, and b (m,)."""
    names = shape.parts.rule.buffers
    buffers = {name: frame.kind(i + 1) for i, name in enumerate(names)}
    moved = take(shape.parts, frame.kind(0), second, buffers, labels, number, step_size, unit)
    return [moved.rows, *(moved.buffers[name] for name in names)], moved.second


def start_norms(shape: Shape, chain: Chain) -> Norms:
    """Inner products of all vectors, in the layout of the rule."""
    K = shape.kinds

    def of(x: jax.Array) -> Norms:
        kinds = x.reshape(len(x), K, x.shape[1] // K, x.shape[2])
        if shape.pairs:
            return span.symmetric(K, lambda k, l: jnp.einsum("imq,inq->mn", kinds[:, k], kinds[:, l]))
        return span.symmetric(K, lambda k, l: jnp.sum(kinds[:, k] * kinds[:, l], axis=(0, 2)))

    parts = of(chain.on), of(chain.off), of(chain.plain[None])
    return jax.tree.map(lambda *x: _sum(list(x)), *parts)


def scaled(shape: Shape, space: Geometry, array: jax.Array) -> jax.Array:
    """Times the inputs' standard deviation in each eigenspace, (L, …)."""
    return array if shape.unit else space.scale[:, None, None] * array


def outside(shape: Shape, space: Geometry, key: jax.Array) -> jax.Array:
    """Bartlett factors of the samples outside what is known, (L, B, B)."""

    def factor(key: jax.Array, freedom: jax.Array) -> jax.Array:
        return outside_factor(key, shape.samples, freedom, shape.mistakes.transpose)

    return _beyond(shape, space, key, factor)


def _columns(shape: Shape, space: Geometry, key: jax.Array, tail: jax.Array) -> jax.Array:
    """What a batch appends to the vectors, (L, n, ≤ b), where only its law matters."""

    def columns(key: jax.Array, freedom: jax.Array) -> jax.Array:
        return outside_columns(key, tail, freedom, shape.mistakes.transpose)

    return _beyond(shape, space, key, columns)


def _beyond(shape: Shape, space: Geometry, key: jax.Array, make: Callable[..., jax.Array]) -> jax.Array:
    """What `make` makes of a key and the degrees of freedom of each eigenspace, times its standard deviation."""
    count = space.scale.size
    alike = count == 1 or shape.mistakes.share_outside
    keys = jnp.broadcast_to(key, (count, *key.shape)) if alike else jax.random.split(key, count)
    found = _each(make, keys, space.freedom)
    return found if shape.mistakes.forget_scale else scaled(shape, space, found)


def _each(make: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
    """`make` of every eigenspace; of a single one without the overhead of many."""
    return make(*[x[0] for x in arrays])[None] if len(arrays[0]) == 1 else jax.vmap(make)(*arrays)


def gram(drawn: Drawn, beyond: jax.Array) -> jax.Array:
    """Inner products of the samples, (B, B)."""
    outside = beyond[0] @ beyond[0].T if len(beyond) == 1 else jnp.einsum("isq,itq->st", beyond, beyond)
    return drawn.plain @ drawn.plain.T + _flat(drawn.known) @ _flat(drawn.known).T + outside


def _flat(vectors: jax.Array) -> jax.Array:
    return vectors.reshape(len(vectors), -1)


def moved_by(own: jax.Array, tail: jax.Array, vectors: jax.Array, samples: jax.Array) -> jax.Array:
    """Vectors (n, …) of all kinds by coefficients on them, (K, K, m) or (K, m, K, m), and on samples (B, …), (n, B)."""
    flat, kinds = _flat(vectors), own.shape[0]
    stayed = on_kinds(own, flat.reshape(kinds, len(flat) // kinds, flat.shape[1])).reshape(flat.shape)
    return (stayed + tail @ _flat(samples)).reshape(vectors.shape)


def _sum(parts: list[jax.Array]) -> jax.Array:
    # Sums over kinds are written out: as matrix products of K × K they would be m calls each.
    return sum(parts[1:], start=parts[0])


# -------------------------------------------------------------------- the steps of a block


def _sequence(
    shape: Shape, begin: Begin, gram: jax.Array, labels: jax.Array, first: jax.Array, step_sizes: jax.Array
) -> After:
    r"""The steps of a block, in the block's own coordinates.

    Coefficients that each step multiplies, $v=Cv^0+Gx$, are those of a part of the block, whose first vectors are $v^0$; at
    its end they multiply those of all parts before it, once. So a step costs what its part's samples cost.
    """
    batch, steps = shape.parts.rule.batch, shape.block
    K, B, m = begin.fields.shape
    # (Each part multiplies its own columns at every step, and all columns once.)
    whole = _scaled(shape) or steps < 4
    part = steps if whole else min((n for n in range(2, steps + 1) if steps % n == 0), key=lambda n: n + steps / n)
    if part == steps:
        after, _ = _steps(shape, begin, gram, labels, first, step_sizes)
        return after._replace(tail=jnp.moveaxis(after.tail, 1, 2))
    columns = part * batch

    def run(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
        own, tail, norms, second = carry
        begins, before, rows, label, sizes = inputs
        # Columns of samples to come are still zero, so the full product sees the past only.
        past = rows @ tail
        within = jax.lax.dynamic_slice(rows, (0, begins), (columns, columns))
        now = Begin(on_samples(own, before) + past, norms, second)
        after, norms = _steps(shape, now, within, label, first + begins // batch, sizes)
        tail = jax.lax.dynamic_update_slice(on_samples(after.own, tail), after.tail, (0, begins, 0))
        return (composed(after.own, own), tail, norms, after.second), None

    count = steps // part
    inputs = (
        jnp.arange(count) * columns,
        jnp.moveaxis(begin.fields.reshape(K, count, columns, m), 1, 0),
        gram.reshape(count, columns, B),
        labels.reshape(count, columns),
        step_sizes.reshape(count, part),
    )
    start = identity(shape, K * m), jnp.zeros((K, B, m)), begin.norms, begin.second
    (own, tail, _, second), _ = jax.lax.scan(run, start, inputs)
    return After(own, jnp.moveaxis(tail, 1, 2), second)


def _scaled(shape: Shape) -> bool:
    """Whether a row is a number times what it began with and samples, $S(v^0+Gx)$."""
    return shape.kinds == 1 and not shape.pairs and _keeps_rows(shape)


def _steps(
    shape: Shape, begin: Begin, gram: jax.Array, labels: jax.Array, first: jax.Array, step_sizes: jax.Array
) -> tuple[After, Norms]:
    r"""So many steps as there are `step_sizes`; the tail, rows last (K, n, m), and norms; `gram` (n, n) of their samples.

    One kind, each row with itself and never without: $v_k=S_k(v_k^0+\sum_iG_{ki}x_i)$, so that only new columns of G are
    written. Otherwise $v=Cv^0+Gx$ with C and G multiplied by each step's own coefficients.
    """
    batch, steps = shape.parts.rule.batch, step_sizes.size
    K, B, m = begin.fields.shape
    scaled = _scaled(shape)

    def packed(own: jax.Array, tail: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (own[0, 0], tail[0]) if scaled else (own, tail)

    def opened(own: jax.Array, tail: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (own[None, None], tail[None]) if scaled else (own, tail)

    def step(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
        (own, tail), norms, second = opened(*carry[:2]), *carry[2:]
        begins, number, before, rows, label, step_size = inputs
        # Columns of samples to come are still zero, so the full product sees the past only.
        past = jnp.sum(tail[:, None] * rows[:, :, None], axis=2)
        now = jnp.moveaxis(own[0, 0] * (before + past) if scaled else on_samples(own, before) + past, 1, 2)
        within = jax.lax.dynamic_slice(rows, (0, begins), (batch, batch))
        frame = Frame(now, norms, lambda: within)
        kinds, second = one_step(shape, frame, second, label, number, step_size)
        change = span.dense(kinds, frame)
        norms = span.norms_of(kinds, frame)
        own = composed(change.own, own)
        new = jnp.moveaxis(change.tail, 1, 2)
        tail, new = (tail, new / own[0, 0]) if scaled else (on_samples(change.own, tail), new)
        return (*packed(own, jax.lax.dynamic_update_slice(tail, new, (0, begins, 0))), norms, second), None

    number = jnp.arange(steps)
    inputs = (
        number * batch,
        first + number,
        jnp.moveaxis(begin.fields.reshape(K, steps, batch, m), 1, 0),
        gram.reshape(steps, batch, B),
        labels.reshape(steps, batch),
        step_sizes,
    )
    start = (*packed(identity(shape, K * m), jnp.zeros((K, B, m))), begin.norms, begin.second)
    (*end, norms, second), _ = jax.lax.scan(step, start, inputs)
    own, tail = opened(*end)
    return After(own, own[0, 0] * tail if scaled else tail, second), norms


def _keeps_rows(shape: Shape) -> bool:
    """Whether what a block leaves of a row stays clear of zero: it can be divided by. Nobody knows of others' rules."""
    rule = shape.parts.rule
    bounded = not callable(rule.step_size) and shape.block <= BLOCK
    return type(rule).__module__ == Rule.__module__ and (bounded or not rule.decay)


def identity(shape: Shape, n: int) -> jax.Array:
    """The coefficients of n = K·m vectors that have not moved, (K, K, m), or with `pairs` (K, m, K, m)."""
    K, m = shape.kinds, n // shape.kinds
    return jnp.eye(n).reshape(K, m, K, m) if shape.pairs else jnp.eye(K)[:, :, None] * jnp.ones(m)


def on_kinds(own: jax.Array, arrays: jax.Array) -> jax.Array:
    """Coefficients on arrays (K, m, …) of all kinds."""
    if own.ndim == 4:
        return jnp.einsum("kmln,lnb->kmb", own, arrays)
    return _sum([own[:, l, :, None] * arrays[l] for l in range(own.shape[1])])


def on_samples(own: jax.Array, arrays: jax.Array) -> jax.Array:
    """The same on arrays (K, B, m) with a row's numbers on B samples."""
    if own.ndim == 4:
        return jnp.einsum("kmln,lbn->kbm", own, arrays)
    return _sum([own[:, l, None, :] * arrays[l] for l in range(own.shape[1])])


def composed(change: jax.Array, own: jax.Array) -> jax.Array:
    """Coefficients after coefficients, both (K, K, m) or both (K, m, K, m)."""
    if own.ndim == 4:
        return jnp.einsum("kmln,lnjo->kmjo", change, own)
    return _sum([change[:, l, None, :] * own[None, l] for l in range(own.shape[0])])
