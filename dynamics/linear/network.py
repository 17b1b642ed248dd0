r"""The two-layer linear network in $d+1$ neurons: an exact reduction, whatever its width.

A rotation $B\mapsto O^\top B$ of the neurons, $B=[W\ a]\in R^{m\times(d+1)}$ and $O$ orthogonal, changes neither
$\theta=W^\top a$ nor the length of a gradient, so every gradient method commutes with it. With the thin QR decomposition
$B(0)=QC(0)$ the network of $\min(m,d+1)$ neurons $C$ is trained in place of $B$, and $B(t)=QC(t)$ at all times: per-neuron
quantities cost one matrix product whenever they are looked at, and nothing in between. Derived here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from theory.linear.task import LinearStart, LinearTask


class Network(NamedTuple):
    """W (k, d) and a (k,): the whole network, or its reduction to k = d + 1 neurons."""

    first: jax.Array
    second: jax.Array


class Moments(NamedTuple):
    r"""Σ (d, d), b (d,), c of a quadratic loss $\tfrac12(\theta^\top\Sigma\theta-2b^\top\theta+c)$."""

    covariance: jax.Array
    cross: jax.Array
    constant: jax.Array


class Seen(NamedTuple):
    """What is recorded of one replica at one time; ``neurons`` only for the first few, ``displaced`` for all.

    ``displaced`` is $|w_i(t)-w_i(0)|$, the distance that defines the lazy regime (arXiv:2603.10397, definition 4.1).
    """

    theta: jax.Array
    loss: jax.Array
    train_loss: jax.Array
    frobenius2: jax.Array
    second_norm2: jax.Array
    top_share: jax.Array
    mean_norm: jax.Array
    mean_alignment: jax.Array
    norm2: jax.Array
    alignment: jax.Array
    second: jax.Array
    displaced: jax.Array


def effective(network: Network) -> jax.Array:
    r"""$\theta=W^\top a$, shape (d,)."""
    return jnp.sum(network.second[:, None] * network.first, axis=0)


def linearised_effective(start: Network, network: Network) -> jax.Array:
    """θ to first order about the start, shape (d,): that of the lazy model."""
    moved = jax.tree.map(jnp.subtract, network, start)
    value, change = jax.jvp(effective, (start,), (moved,))
    return value + change


def quadratic_loss(theta: jax.Array, moments: Moments) -> jax.Array:
    r"""$\tfrac12(\theta^\top\Sigma\theta-2b^\top\theta+c)$, θ (d,): the loss of a training set or the population."""
    return 0.5 * (theta @ moments.covariance @ theta - 2 * moments.cross @ theta + moments.constant)


def moments_of(task: LinearTask, population: bool = False) -> Moments:
    """Of the training set (of the population if there is none, or if asked for)."""
    return Moments(*(jnp.asarray(x, dtype=float) for x in (task.population if population else task.moments)))


def reduce(start: LinearStart, replicas: int) -> tuple[jax.Array, Network]:
    """Q (replica or 1, m, k) and the reduced networks (replica, k, …), with B = Q C.

    k = min(m, d + 1); a start without a replica axis is shared by all replicas.
    """
    joint = np.concatenate([start.first, start.second[..., None]], axis=-1)
    joint = joint[None] if joint.ndim == 2 else joint
    basis, reduced = np.linalg.qr(joint)
    reduced = np.broadcast_to(reduced, (replicas, *reduced.shape[1:]))
    return jnp.asarray(basis), Network(jnp.asarray(reduced[..., :-1]), jnp.asarray(reduced[..., -1]))


def look(
    task_loss: tuple[Moments, Moments],
    target: jax.Array,
    tracked: int,
    start: Network,
    now: Network,
    linearised: bool = False,
    rows: jax.Array | None = None,
) -> Seen:
    """Everything that is recorded, from a network now and at its start; `tracked` neurons are kept one by one.

    θ and the losses are those of the network, or of its first-order expansion about the start if that is what is trained.
    Of a reduction, `rows` (m, k) are those of Q, which restore its neurons; what a rotation leaves alone needs none.

    Alignments are cosines between $w_i$ and θ*, the `target` (d,), their mean is over absolute values; ``top_share`` is
    $s_1/|W|_F$.
    """
    population, training = task_loss
    theta = linearised_effective(start, now) if linearised else effective(now)
    moved, first, second = now.first - start.first, now.first, now.second
    if rows is not None:
        moved, first, second = rows @ moved, rows @ first, rows[:tracked] @ second
    norm2 = jnp.sum(first**2, axis=1)
    frobenius2 = jnp.sum(now.first**2)
    alignment = first @ (target / jnp.linalg.norm(target)) / jnp.sqrt(jnp.where(norm2 > 0, norm2, 1.0))
    top = jnp.linalg.eigvalsh(now.first.T @ now.first)[-1]
    return Seen(
        theta,
        jnp.maximum(quadratic_loss(theta, population), 0.0),
        jnp.maximum(quadratic_loss(theta, training), 0.0),
        frobenius2,
        jnp.sum(now.second**2),
        jnp.sqrt(top / frobenius2),
        jnp.mean(jnp.sqrt(norm2)),
        jnp.mean(jnp.abs(alignment)),
        norm2[:tracked],
        alignment[:tracked],
        second[:tracked],
        jnp.sqrt(jnp.sum(moved**2, axis=1)),
    )
