r"""Threefry-2x32 with 20 rounds (Salmon et al. 2011), written out: JAX's own numbers, bit for bit, in a third of the time.

On processors JAX's generator runs its rounds in a loop, which hides them from the compiler: every round is a pass over memory
of its own. Written out they become one pass together with what is made of the numbers.
"""

import math
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_WORDS = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}


_A = TypeVar("_A", jax.Array, np.ndarray)


def _encrypted(key: _A, high: Any, low: _A) -> tuple[_A, _A]:
    """The block cipher of a key (2,) at counters of 64 bits, as two arrays uint32 of one shape."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = high + keys[0], low + keys[1]
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << by) | (y >> (32 - by)))
        x, y = x + keys[(group + 1) % 3], y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _counted(key: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """64 bits for every entry of an array, from its number. (In single precision JAX has no whole numbers beyond 32 bits.)"""
    size = math.prod(shape)
    if size < 2**32:
        return _encrypted(key, jnp.uint32(0), jax.lax.iota(jnp.uint32, size).reshape(shape))
    number = jax.lax.iota(jnp.uint64, size).reshape(shape)
    return _encrypted(key, (number >> 32).astype(jnp.uint32), number.astype(jnp.uint32))


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    high, low = _counted(key, shape)
    if width == 64:
        return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
    return (high ^ low).astype(_WORDS[width])


@partial(jax.jit, static_argnums=1, inline=True)
def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return _apart(jnp.stack(_counted(key, shape), axis=-1))


@partial(jax.jit, inline=True)
def _fold_in(key: jax.Array, number: int | jax.Array) -> jax.Array:
    return _apart(jnp.stack(_encrypted(key, jnp.uint32(0), jnp.asarray(number).astype(jnp.uint32))))


def _apart(key: jax.Array) -> jax.Array:
    """A key in a pass of its own, where jaxlib 0.12 could compile without end: keys of keys, and what is made of their draws.

    (The flipped labels of `dynamics.networks.lazy_rich` did.)
    """
    return jax.lax.optimization_barrier(key)


def folded(key: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The data (n, 2) of a key (2,) with each of the numbers (n,) folded in, all uint32: with nothing to compile."""
    return np.stack(_encrypted(key[:, None], np.zeros_like(numbers), numbers), axis=-1)


def _seed(number: jax.Array) -> jax.Array:
    whole = jnp.asarray(number).astype(jnp.uint64)
    return jnp.stack([(whole >> 32).astype(jnp.uint32), whole.astype(jnp.uint32)])


#: For `jax.random.wrap_key_data`.
THREEFRY = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_bits,
    fold_in=_fold_in,
    name="unrolled_threefry2x32",
    tag="fru",
)
