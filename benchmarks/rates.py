"""What this machine can do, measured in the same run: the numbers that floors are made of."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp

from benchmarks.timing import best_of
from dynamics import precision  # noqa: F401 - double precision first


@partial(jax.jit, static_argnums=1)
def _normals(key: jax.Array, count: int) -> jax.Array:
    return jax.random.normal(key, (count,))


@lru_cache(maxsize=4)
def seconds_per_normal(count: int = 2**18, repeats: int = 15) -> float:
    """Seconds per standard normal in double precision, drawn by the simulator's own generator in one large array."""
    key = jax.random.key(0)
    _normals(key, count).block_until_ready()
    return best_of({"normal": lambda: _normals(key, count)}, repeats)["normal"] / count


@lru_cache(maxsize=4)
def flops_per_second(size: int = 1024, repeats: int = 9) -> float:
    """Rate of a large matrix product in double precision, two operations per multiply-add."""
    matrix = jax.random.normal(jax.random.key(1), (size, size))
    product = jax.jit(jnp.matmul)
    product(matrix, matrix).block_until_ready()
    return 2 * size**3 / best_of({"product": lambda: product(matrix, matrix)}, repeats)["product"]
