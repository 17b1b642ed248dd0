r"""Runs a declared model: the exact chain (`dynamics.declared.chain`), or explicit vectors of $R^d$; all replicas at once."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.keys import stream_key
from dynamics.core.lowering import lower_function
from dynamics.core.outside import NO_MISTAKES, Mistakes
from dynamics.core.replicas import Stretch, in_blocks
from dynamics.declared import data_set
from dynamics.declared.chain import BLOCK, Chain, Geometry, Shape, geometry, run_block, summary
from dynamics.declared.rows import Rows
from dynamics.declared.span import NeedsPairsError
from dynamics.declared.step import Parts, Run, Watch, noisy, nothing, places, step_sizes, take
from theory import InputError
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.target import Target

#: Share of a row that weight decay may take in a step: of less than this much, nothing would be left after a block.
_MOST_DECAY = 1 - 1e-9
#: Bytes that the samples of replicas side by side may take: of more, one group goes after the other.
_AT_ONCE = 2e9


def parts_of(model: DeclaredModel) -> Parts:
    """What decides a step; one step size is an argument of the compiled code, not a part of it.

    Raises `InputError` for a weight decay that leaves nothing of a row in a step.
    """
    _check_decay(model.rule)
    rule = model.rule if callable(model.rule.step_size) else replace(model.rule, step_size=1.0)
    # (Where Λ = 1 a whitened student is the plain one, whose rows have coefficients.)
    normed = model.student.whitened and not model.inputs.is_isotropic
    return Parts(replace(model.student, whitened=normed), model.loss, rule)


def _check_decay(rule: Rule) -> None:
    if not callable(rule.step_size) and rule.decay * rule.step_size > _MOST_DECAY:
        raise InputError(
            f"decay is {rule.decay!r} and step_size is {rule.step_size!r}: their product, the share of a row that a step "
            "takes away, must be below 1; lower one of them"
        )


def constant(model: DeclaredModel) -> jax.Array:
    """The one step size, a scalar; 1 in place of a schedule."""
    given = model.rule.step_size
    return jnp.asarray(1.0 if callable(given) else float(given))


def engine_of(
    model: DeclaredModel,
    start: Start,
    method: str,
    block: int,
    mistakes: Mistakes = NO_MISTAKES,
    data: np.ndarray | None = None,
    scatter: int | None = None,
) -> "Exact | Ambient":
    """The exact chain or explicit vectors, ready to run in blocks of `block` steps; `data` (n, d), `scatter`: see `Ambient`.

    Raises `InputError` for a given data set with method ``exact``, and as `Ambient` does.
    """
    if method == "exact" and data is not None:
        raise InputError("data are given as vectors, and the exact simulator has none: use method = ambient")
    return Exact(model, start, block, mistakes) if method == "exact" else Ambient(model, start, mistakes, data, scatter)


def block_length(rule: Rule, width: int, steps: int, given: int | None = None, saves: int | None = None) -> int:
    """Steps of a block, never more than the run is long; with `saves` such that each ends a block.

    8 samples for fewer than 8 vectors, rows and buffers, 16 for fewer than 32, else `BLOCK`: a longer block's Gram matrix
    costs more than it saves, by a factor of two for a few vectors (measured).
    """
    if given is not None:
        return given
    vectors = width * (1 + len(rule.buffers))
    samples = BLOCK >> int(vectors < 32) >> int(vectors < 8)
    most = max(1, min(samples // rule.batch, steps))
    if saves is None:
        return most
    gap, rest = divmod(steps, min(saves, steps))
    return 1 if rest else max(length for length in range(1, most + 1) if gap % length == 0)


def _layout(arrays: Any) -> Any:
    """Shapes and types, which can be a key."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arrays)


@lru_cache(maxsize=256)
def _needs_pairs(shape: Shape, space: Geometry, chain: Chain) -> bool:
    """Whether the rule asks for inner products of different rows; it is traced, with `_layout` for arrays."""
    try:
        sizes, key = jnp.ones(shape.block), stream_key(0, "declared SGD", "shape")
        jax.eval_shape(partial(run_block, shape), space, sizes, chain, key, jnp.asarray(0))
    except NeedsPairsError:
        return True
    return False


class _Replicas:
    """What both engines share."""

    start: Any

    def begin(self, keys: jax.Array, seen: Any = ()) -> Run:
        """Replicas at the start, one for each key; `seen` of one of them."""
        return Run(*_repeated((self.start, seen), keys.size))


@partial(jax.jit, static_argnums=1)
def _repeated(one: Any, count: int) -> Any:
    """Arrays with `count` copies of these."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), one)


class Exact(_Replicas):
    """The chain of Gram matrices."""

    def __init__(self, model: DeclaredModel, start: Start, block: int, mistakes: Mistakes = NO_MISTAKES) -> None:
        self.model, P = model, model.directions.count
        parts = parts_of(model)
        n = start.width * (1 + len(parts.rule.buffers))
        samples = parts.rule.samples or block * parts.rule.batch
        self.space, self.reduced = geometry(model.directions, n, samples, mistakes)
        roots = model.directions.roots[self.reduced]
        orthonormal = bool(np.array_equal(roots, np.broadcast_to(np.eye(P), roots.shape)))
        unit = all(model.inputs.eigenvalues[i] == 1 for i in self.reduced)
        # `forget_known` stands in the geometry alone: the compiled code is the same.
        mistakes = replace(mistakes, forget_known=False)
        shape = Shape(parts, model.target, 1 if parts.rule.samples else block, orthonormal, unit, mistakes=mistakes)
        self.start = self._start(start, n)
        self.shape = replace(shape, pairs=_needs_pairs(shape, _layout(self.space), _layout(self.start)))

    def _start(self, start: Start, n: int) -> Chain:
        P, counts = self.model.directions.count, self.model.inputs.multiplicities
        wide = [start.padded(i, P + n) for i in self.reduced]
        small = [start.padded(i, d) for i, d in enumerate(counts) if i not in self.reduced]
        extra = ((0, n - start.width), (0, 0))
        together = np.stack([np.pad(x, extra) for x in wide]) if wide else np.zeros((0, n, P + n))
        plain = np.pad(np.concatenate([np.zeros((start.width, 0)), *small], axis=1), extra)
        second = np.asarray(self.model.student.second)
        return Chain(*(jnp.asarray(x) for x in (together[:, :, :P], together[:, :, P:], plain, second)))

    def advance(self, keys: jax.Array, watch: Watch = nothing) -> Callable[[Run, Stretch], Run]:
        """All replicas, with these keys (one each), from save to save; `watch` looks at the end of every block."""
        eta = constant(self.model)
        if self.shape.parts.rule.samples:
            return data_set.advance(self.shape, eta, self.space, self.start, keys, watch)

        def run(run: Run, part: Stretch) -> Run:
            shape = replace(self.shape, block=part.length)
            return advance_chains(shape, watch, eta, self.space, run, keys, part.first, part.blocks, part.begin)

        return run

    def onward(self, run: Run, keys: jax.Array, watch: Watch, behind: np.ndarray, blocks: int) -> Run:
        """All replicas, with these keys (one each), by so many blocks from where each is: `behind` it are (replica,) blocks.

        Not for a fixed data set.
        """
        begin = behind * self.shape.block
        return advance_chains(self.shape, watch, constant(self.model), self.space, run, keys, behind, blocks, begin)

    def begin(self, keys: jax.Array, seen: Any = ()) -> Run:
        """As of all engines; a data set is drawn now."""
        run = super().begin(keys, seen)
        if not self.shape.parts.rule.samples:
            return run
        return Run(data_set.begin_all(self.shape, self.space, self.start, keys), run.seen)

    def coordinates(self, state: Chain) -> jax.Array:
        """Rows (replica, m, q) whose products with standard Gaussians (q,) are the fields."""
        m = state.second.shape[-1]
        reduced = jnp.concatenate([state.on, state.off], axis=3) * self.space.scale[:, None, None]
        flat = jnp.moveaxis(reduced, 1, 2).reshape(*reduced.shape[:1], reduced.shape[2], -1)
        return jnp.concatenate([flat, state.plain * self.space.plain_scale], axis=2)[:, :m]

    def look(self, state: Any) -> tuple[jax.Array, ...]:
        """Overlaps (replica, L, m, P) and Gram matrices (replica, L, m, m) by eigenspace, b (replica, m); of a data set the
        mean loss (replica,), too."""
        if isinstance(state, data_set.Fitting):
            chains, loss = data_set.look(self.shape, self.start, state)
            return *self.look(chains), loss
        counts = self.model.inputs.multiplicities
        small = tuple((i, d) for i, d in enumerate(counts) if i not in self.reduced)
        return _look(tuple(self.reduced), small, self.space, state)


@partial(jax.jit, static_argnums=(0, 1))
def advance_chains(
    shape: Shape,
    watch: Watch,
    eta: jax.Array,
    space: Geometry,
    run: Run,
    keys: jax.Array,
    first: jax.Array | int,
    blocks: int,
    step: jax.Array | int,
) -> Run:
    """All replicas, a key (replica,) each, by `blocks` blocks from block number `first`, which begins at step `step`.

    Both are of all replicas, or of each, (replica,).
    """

    def one(run: Run, own: tuple[jax.Array, jax.Array, jax.Array], number: jax.Array) -> Run:
        key, first, step = own
        begin = step + number * shape.block
        sizes = step_sizes(shape.parts, eta, begin + jnp.arange(shape.block))
        chain = run_block(shape, space, sizes, run.vectors, jax.random.fold_in(key, first + number), begin)
        if watch is nothing:
            return Run(chain, run.seen)
        return Run(chain, watch(run.seen, *summary(shape, space, chain), begin + shape.block))

    own = (keys, *(jnp.broadcast_to(x, keys.shape) for x in (first, step)))
    return in_blocks(one, run, own, 0, blocks, _together(shape, space, run.vectors, keys.size))


def _together(shape: Shape, space: Geometry, chains: Chain, replicas: int) -> int:
    """How many replicas go side by side; 0 for all. Of each: samples on what is known, outside it, and their Gram matrix."""
    B, known = shape.samples, shape.target.count + chains.plain.shape[1]
    numbers = B * (space.scale.size * (known + B) + space.plain_scale.size + 2 * B)
    group = max(1, int(_AT_ONCE / (8 * numbers)))
    return group if group < replicas else 0


@partial(jax.jit, static_argnums=(0, 1))
def _look(
    reduced: tuple[int, ...], small: tuple[tuple[int, int], ...], space: Geometry, chain: Chain
) -> tuple[jax.Array, jax.Array, jax.Array]:
    m = chain.second.shape[-1]
    on, off, plain = chain.on[..., :m, :], chain.off[..., :m, :], chain.plain[..., :m, :]
    found: dict[int, tuple[jax.Array, jax.Array]] = {}
    for place, i in enumerate(reduced):
        a, b = on[:, place], off[:, place]
        found[i] = a @ space.directions[place].T, a @ jnp.swapaxes(a, 1, 2) + b @ jnp.swapaxes(b, 1, 2)
    at = 0
    for i, d in small:
        part, directions = plain[..., at : at + d], space.plain_directions[:, at : at + d]
        found[i] = part @ directions.T, part @ jnp.swapaxes(part, 1, 2)
        at += d
    both = [found[i] for i in sorted(found)]
    return jnp.stack([x for x, _ in both], axis=1), jnp.stack([x for _, x in both], axis=1), chain.second


class Vectors(NamedTuple):
    """One replica in coordinates: rows and buffers (K, m, d), and b (m,)."""

    rows: jax.Array
    second: jax.Array


class Ambient(_Replicas):
    """Explicit vectors of R^d, eigenspace after eigenspace, and in each in the coordinates of `Start`.

    `data`: a data set (n, d) in place of one that is drawn. `scatter`: seed of other coordinates outside the directions,
    drawn uniformly (`Start.vectors`), which rules that work on coordinates see. Raises `InputError` for data of another shape
    or with numbers that are not finite, and for mistakes: those are of the exact chain.
    """

    def __init__(
        self,
        model: DeclaredModel,
        start: Start,
        mistakes: Mistakes,
        data: np.ndarray | None = None,
        scatter: int | None = None,
    ) -> None:
        wanted = (model.rule.samples, model.inputs.dim)
        if data is not None and (data.shape != wanted or not wanted[0] or not np.all(np.isfinite(data))):
            raise InputError(
                f"data have shape {data.shape}: give {wanted}, the rule's samples by dimensions, all finite"
            )
        if mistakes != NO_MISTAKES:
            raise InputError("mistakes are those of the exact simulator: leave them out with method = ambient")
        self.model, self.parts = model, parts_of(model)
        counts = model.inputs.multiplicities
        rows = (
            np.concatenate([start.padded(i, d) for i, d in enumerate(counts)], axis=1)
            if scatter is None
            else start.vectors(model.directions, scatter)
        )
        kinds = np.concatenate([rows[None], np.zeros((len(self.parts.rule.buffers), *rows.shape))])
        self.start = Vectors(jnp.asarray(kinds), jnp.asarray(np.asarray(model.student.second)))
        roots = model.directions.roots
        directions = [
            np.pad(root, ((0, 0), (0, max(0, d - len(root)))))[:, :d] for root, d in zip(roots, counts, strict=True)
        ]
        scale = np.sqrt(np.repeat(model.inputs.eigenvalues, counts))
        given = None if data is None else jnp.asarray(data, dtype=float)
        self.space = Space(jnp.asarray(scale), jnp.asarray(np.concatenate(directions, axis=1)), given)

    def advance(self, keys: jax.Array, watch: Watch = nothing) -> Callable[[Run, Stretch], Run]:
        """As `Exact.advance`."""
        eta = constant(self.model)

        def run(run: Run, part: Stretch) -> Run:
            fixed = (self.parts, self.model.target, watch, part.length)
            return advance_vectors(*fixed, eta, self.space, run, keys, part.blocks, part.begin)

        return run

    def coordinates(self, state: Vectors) -> jax.Array:
        """As `Exact.coordinates`."""
        return state.rows[:, 0] * self.space.scale

    def look(self, state: Vectors) -> tuple[jax.Array, ...]:
        """As `Exact.look`, without the loss of a data set."""
        edges = tuple(np.cumsum(self.model.inputs.multiplicities)[:-1].tolist())
        return *_products(edges, state.rows, self.space.directions), state.second


@partial(jax.jit, static_argnums=0)
def _products(edges: tuple[int, ...], kinds: jax.Array, directions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of rows (replica, K, m, d), those of the first kind, by eigenspace: with directions (P, d), and with one another."""
    parts = list(zip(jnp.split(kinds[:, 0], edges, axis=2), jnp.split(directions, edges, axis=1), strict=True))
    overlap = jnp.stack([v @ w.T for v, w in parts], axis=1)
    return overlap, jnp.stack([v @ jnp.swapaxes(v, 1, 2) for v, _ in parts], axis=1)


class Space(NamedTuple):
    """Of R^d: √λ of each coordinate (d,), the directions (P, d), and a data set (n, d) if it is given, not drawn."""

    scale: jax.Array
    directions: jax.Array
    data: jax.Array | None = None


def draw(
    parts: Parts, target: Target, space: Space, key: jax.Array, step: jax.Array, own: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Samples (…, b, d) and labels (…, b) of steps (…), from one key; `own`: the replica's, of its data set."""
    sample_key, noise_key = jax.random.split(key)
    rule, scale = parts.rule, space.scale

    def clean(samples: jax.Array) -> jax.Array:
        return jnp.asarray(target.value(samples @ space.directions.T, lower_function))

    if rule.samples:
        # (A data set that is drawn, from its key again: the compiler takes it out of the loop.)
        known, first_noise = jax.random.split(own)
        whole = space.data
        if whole is None:
            whole = scale * jax.random.normal(known, (rule.samples, scale.size))
        at = places(rule, sample_key, step)
        if not rule.renewed:
            return whole[at], noisy(rule, clean(whole), first_noise)[at]
        samples = whole[at]
    else:
        samples = scale * jax.random.normal(sample_key, (*jnp.shape(step), rule.batch, scale.size))
    return samples, noisy(rule, clean(samples), noise_key, step[..., None])


def vector_step(
    parts: Parts, target: Target, eta: jax.Array, space: Space, state: Vectors, key: jax.Array, number: jax.Array
) -> Vectors:
    """One step of one replica in R^d."""
    samples, labels = draw(parts, target, space, jax.random.fold_in(key, number), number, key)
    buffers = {name: Rows(state.rows[i + 1], samples, space.scale) for i, name in enumerate(parts.rule.buffers)}
    size = step_sizes(parts, eta, number[None])[0]
    moved = take(parts, Rows(state.rows[0], samples, space.scale), state.second, buffers, labels, number, size)
    kinds = [moved.rows, *(moved.buffers[name] for name in parts.rule.buffers)]
    return Vectors(jnp.stack([kind.array for kind in kinds]), moved.second)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def advance_vectors(
    parts: Parts,
    target: Target,
    watch: Watch,
    length: int,
    eta: jax.Array,
    space: Space,
    run: Run,
    keys: jax.Array,
    blocks: int,
    step: int,
) -> Run:
    """All replicas, a key (replica,) each, by `blocks` times `length` steps from step `step`."""

    def one(run: Run, key: jax.Array, block: jax.Array) -> Run:
        begin = step + block * length

        def body(number: jax.Array, state: Vectors) -> Vectors:
            return vector_step(parts, target, eta, space, state, key, number)

        state = jax.lax.fori_loop(begin, begin + length, body, run.vectors)
        if watch is nothing:
            return Run(state, run.seen)
        rows = state.rows[0]
        return Run(state, watch(run.seen, rows @ space.directions.T, jnp.sum(rows**2, axis=1), begin + length))

    return in_blocks(one, run, keys, 0, blocks)
