r"""The Markov oscillation algorithm: gradient descent on the first layer, second-layer weights that jump.

$W\leftarrow W-\eta\,a(\Sigma\theta-b)^\top$ while every $a_i$ follows, independently, the chain $\pm c\to0$ surely and
$0\to\pm c$ with probability ½ each, $c=\eta^{1/4}$ (arXiv:2603.10397, eqs. 6-7), started from its stationary law.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, in_blocks
from dynamics.declared.step import draw_signs
from dynamics.linear.network import Moments, Network, Seen, look
from dynamics.linear.run import DEFAULT_SAVES, DEFAULT_TRACKED, LinearRun, Setting, block_length, group_size
from dynamics.linear.training import Batch, Data, Method, data_of, method_of, take_step
from theory.core.streams import stream
from theory.declared.rule import Rule
from theory.linear.task import LinearStart, LinearTask


def jump(level: jax.Array, second: jax.Array, signs: jax.Array) -> jax.Array:
    """One step of the chain: ±c → 0, and 0 → c·sign; elementwise."""
    return jnp.where(second == 0, level * signs, 0.0)


def stationary_second(step_size: float, width: int, rng: np.random.Generator) -> np.ndarray:
    """a (m,) from the stationary law: c, 0, −c with probabilities ¼, ½, ¼."""
    return step_size**0.25 * rng.choice([1.0, 0.0, 0.0, -1.0], size=width)


def drawn_second(step_size: float, width: int, seed: int, replicas: int) -> np.ndarray:
    """The second layers (replicas, m) that runs start with."""
    draws = [stream(seed, "oscillation", "second layer", replica=i) for i in range(replicas)]
    return np.stack([stationary_second(step_size, width, rng) for rng in draws])


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    method: Method,
    length: int,
    group: int,
    data: Data,
    networks: Network,
    keys: jax.Array,
    first: int,
    blocks: int,
    taken: int,
) -> Network:
    """`blocks` blocks from number `first`, of whose `length` steps `taken` are taken: see `training.advance_networks`."""

    def block(network: Network, key: jax.Array, number: jax.Array) -> Network:
        signs = draw_signs(jax.random.fold_in(key, number), (length, network.second.size))

        def step(place: jax.Array, now: Network) -> Network:
            moved = take_step(method, data, now, now, Batch(jnp.zeros((0, 0)), jnp.zeros(0), jnp.asarray(0)))
            return Network(moved.first, jump(data.step_size**0.25, now.second, signs[place]))

        return jax.lax.fori_loop(0, taken, step, network)

    return in_blocks(block, networks, keys, first, blocks, group)


@partial(jax.jit, static_argnums=0)
def _look(tracked: int, losses: tuple[Moments, Moments], target: jax.Array, starts: Network, now: Network) -> Seen:
    return jax.lax.map(lambda pair: look(losses, target, tracked, *pair), (starts, now))


@double_precision
def oscillation(
    task: LinearTask,
    start: LinearStart,
    *,
    step_size: float,
    steps: int,
    replicas: int = 1,
    seed: int = 0,
    saves: int = DEFAULT_SAVES,
    tracked: int = DEFAULT_TRACKED,
    progress: Progress | None = None,
) -> LinearRun:
    """The oscillation algorithm from `start.first`; `start.second` is replaced by draws from the stationary law.

    Arguments, result and errors as for `dynamics.label_noise_sgd`. A step costs O(m d): jumps single out the neurons,
    so that there is no reduction to fewer of them.
    """
    setting = Setting(task, start, step_size, steps, replicas, seed, saves, tracked, progress)
    second = drawn_second(step_size, start.width, seed, replicas)
    first = np.broadcast_to(start.first, (replicas, start.width, task.dim))
    starts = Network(jnp.asarray(first), jnp.asarray(second))
    keys, group = replica_keys(seed, replicas, "oscillation", "signs"), group_size(replicas)
    method = method_of(task, start.width, Rule(1.0), whole=True)
    data, length = data_of(task, setting.losses[1], step_size), block_length(steps, saves)

    def advance(networks: Network, part: Stretch) -> Network:
        return _advance(method, length, group, data, networks, keys, part.first, part.blocks, part.length)

    def seen(now: Network) -> Seen:
        return _look(setting.shown, setting.losses, jnp.asarray(task.target), starts, now)

    return setting.run(starts, advance, seen, "oscillation")
