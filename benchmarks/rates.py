"""What this machine can do, measured in the same run: the numbers that floors are made of."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp

from benchmarks.timing import best_of
from dynamics.core import precision  # noqa: F401 - double precision first
from dynamics.core.keys import replica_keys


@partial(jax.jit, static_argnums=1)
def _normals(keys: jax.Array, count: int, rounds: int) -> jax.Array:
    """`rounds` times `count` normals from every key, summed so that each round is needed and memory is reused."""

    def draw(key: jax.Array, number: int) -> jax.Array:
        return jax.random.normal(jax.random.fold_in(key, number), (count,))

    def body(i: int, total: jax.Array) -> jax.Array:
        return total + jax.vmap(draw, in_axes=(0, None))(keys, i)

    return jax.lax.fori_loop(0, rounds, body, jnp.zeros((keys.size, count)))


@lru_cache(maxsize=4)
def seconds_per_normal(replicas: int = 64, count: int = 1024, rounds: int = 100, repeats: int = 9) -> float:
    """Seconds per standard normal in double precision, drawn as the simulator does: one key per replica, all cores."""
    keys = replica_keys(0, replicas, "rate of normals")
    _normals(keys, count, 1).block_until_ready()
    seconds = best_of({"normals": lambda: _normals(keys, count, rounds)}, repeats)["normals"]
    return seconds / (replicas * count * rounds)


@lru_cache(maxsize=4)
def flops_per_second(size: int = 1024, repeats: int = 9) -> float:
    """Rate of a large matrix product in double precision, two operations per multiply-add."""
    matrix = jax.random.normal(jax.random.key(1), (size, size))
    product = jax.jit(jnp.matmul)
    product(matrix, matrix).block_until_ready()
    return 2 * size**3 / best_of({"product": lambda: product(matrix, matrix)}, repeats)["product"]
