r"""SGD on a fixed data set, exact in law at any d: the samples' Gram matrix is drawn once, then all is algebra.

The data set is drawn as a block of `dynamics.declared.chain` is. Rows and buffers stay in the span of what they began with and
of the n samples: $v=Cv^0+Gx$. A step costs $O(Kmn)$ in the coefficients and the samples' Gram matrix, a replica's memory is
$O(n^2)$, at any dimension.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dynamics.core.replicas import Stretch
from dynamics.declared import chain as chains
from dynamics.declared import span
from dynamics.declared.chain import Chain, Drawn, Geometry, Shape
from dynamics.declared.span import Frame, Norms, Span
from dynamics.declared.step import Run, Watch, mean_loss, noisy, nothing, places, step_sizes


class Fitting(NamedTuple):
    """One replica.

    Attributes:
        drawn, beyond: the data set in coordinates. fields (K, m, n), gram (n, n): inner products of what vectors began with,
            and of samples, with samples. own, tail (K, m, n): the vectors' coefficients.
        norms: their inner products. second: b.
    """

    drawn: Drawn
    beyond: jax.Array
    fields: jax.Array
    gram: jax.Array
    own: jax.Array
    tail: jax.Array
    norms: Norms
    second: jax.Array


def begin(shape: Shape, space: Geometry, chain: Chain, key: jax.Array) -> Fitting:
    """The data set of a key."""
    known_key, outside_key = jax.random.split(key)
    n = chain.plain.shape[0]
    drawn = chains.draw(shape, space, n, known_key, jax.random.fold_in(outside_key, 2**31 - 1))
    beyond = chains.outside(shape, space, outside_key)
    fields = chains.fields(chain, drawn).reshape(shape.kinds, -1, shape.samples)
    own = chains.identity(shape, n)
    gram = chains.gram(drawn, beyond)
    norms = chains.start_norms(shape, chain)
    return Fitting(drawn, beyond, fields, gram, own, jnp.zeros_like(fields), norms, chain.second)


def vectors(shape: Shape, chain: Chain, fit: Fitting) -> tuple[list[Span], Frame]:
    """All kinds by their coefficients on the start and on the whole data set."""
    frame = Frame(fit.fields, chains.start_norms(shape, chain), lambda: fit.gram)
    own = jnp.moveaxis(fit.own, 2, 1) if shape.pairs else fit.own
    return [Span(frame, dict(enumerate(own[i])), fit.tail[i]) for i in range(shape.kinds)], frame


def steps(
    shape: Shape, eta: jax.Array, chain: Chain, fit: Fitting, key: jax.Array, begins: jax.Array, ends: jax.Array
) -> Fitting:
    """One replica from step number `begins` to `ends`, both scalars, as η is where the rule has no schedule."""
    # (Keys of a split are those of 0, 1, … folded in: the noise of step 0 would be numbers of the data, which are split off.)
    rule, noises = shape.parts.rule, jax.random.fold_in(key, 2**31 - 1)

    def body(number: jax.Array, now: Fitting) -> Fitting:
        own, tail = now.own, now.tail
        # Norms follow step by step; from the coefficients, so that rounding does not add up, once in as many steps as cost as
        # much. (At which ones depends on nothing but their number: runs are cut anywhere.)
        norms = jax.lax.cond(number % rule.samples == 0, measured, lambda now: now.norms, now)
        order, noise = jax.random.split(jax.random.fold_in(key, number))[0], jax.random.fold_in(noises, number)
        at = places(rule, order, number)
        rows = fit.gram[:, at]
        frame = Frame(chains.on_kinds(own, fit.fields[:, :, at]) + tail @ rows, norms, lambda: rows[at])
        labels = fit.drawn.labels[at]
        labels = noisy(rule, labels, noise, number) if rule.renewed else labels
        size = step_sizes(shape.parts, eta, number[None])[0]
        kinds, second = chains.one_step(shape, frame, now.second, labels, number, size)
        change = span.dense(kinds, frame)
        tail = chains.on_kinds(change.own, tail).at[:, :, at].add(change.tail)
        own, norms = chains.composed(change.own, own), span.norms_of(kinds, frame)
        return now._replace(own=own, tail=tail, norms=norms, second=second)

    def measured(now: Fitting) -> Norms:
        kinds, frame = vectors(shape, chain, now)
        return span.norms_of(kinds, frame)

    found: Fitting = jax.lax.fori_loop(begins, ends, body, fit)
    return found


def as_chain(chain: Chain, fit: Fitting) -> Chain:
    """The vectors in coordinates, those outside what is known as many as there are samples."""
    tail = fit.tail.reshape(-1, fit.gram.shape[0])
    on, off = chains.split(chains.moved_by(fit.own, tail, chains.reduced(chain), fit.drawn.known), chain.on.shape[2])
    plain = chains.moved_by(fit.own, tail, chain.plain, fit.drawn.plain)
    return Chain(on, jnp.concatenate([off, tail @ fit.beyond], axis=2), plain, fit.second)


@partial(jax.jit, static_argnums=0)
def begin_all(shape: Shape, space: Geometry, chain: Chain, keys: jax.Array) -> Fitting:
    """Data sets of all replicas."""
    return jax.vmap(lambda key: begin(shape, space, chain, key))(keys)


@partial(jax.jit, static_argnums=(0, 1))
def advance_all(
    shape: Shape,
    watch: Watch,
    eta: jax.Array,
    space: Geometry,
    chain: Chain,
    run: Run,
    keys: jax.Array,
    begins: jax.Array,
    ends: jax.Array,
) -> Run:
    """All replicas from step `begins` to `ends` (scalars), with a key (replica,) each; `watch` looks at the end."""

    def one(run: Run, key: jax.Array) -> Run:
        fit = steps(shape, eta, chain, run.vectors, key, begins, ends)
        if watch is nothing:
            return Run(fit, run.seen)
        return Run(fit, watch(run.seen, *chains.summary(shape, space, as_chain(chain, fit)), ends))

    return jax.vmap(one)(run, keys)


def advance(
    shape: Shape, eta: jax.Array, space: Geometry, chain: Chain, keys: jax.Array, watch: Watch
) -> Callable[[Run, Stretch], Run]:
    """From save to save, with a key (replica,) each; η is a scalar."""

    def go(run: Run, part: Stretch) -> Run:
        return advance_all(shape, watch, eta, space, chain, run, keys, jnp.asarray(part.begin), jnp.asarray(part.end))

    return go


@partial(jax.jit, static_argnums=0)
def look(shape: Shape, chain: Chain, fits: Fitting) -> tuple[Chain, jax.Array]:
    """All replicas as chains, and the mean loss (replica,) over each data set, noise that is drawn anew left out."""

    def one(fit: Fitting) -> tuple[Chain, jax.Array]:
        kinds, _ = vectors(shape, chain, fit)
        return as_chain(chain, fit), mean_loss(shape.parts, kinds[0], fit.second, fit.drawn.labels)

    found: Any = jax.vmap(one)(fits)
    return found
