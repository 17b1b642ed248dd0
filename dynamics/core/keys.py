"""JAX keys of named random streams: the rule is that of `theory.core.streams`."""

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.threefry import THREEFRY, folded
from theory.core import streams
from theory.core.streams import Word


def stream_key(seed: int, *words: Word) -> jax.Array:
    """The key of a name, a scalar. Raises `InputError` unless the seed is a whole number ≥ 0."""
    return _key(_data(seed, *words))


def replica_keys(seed: int, replicas: int, *words: Word) -> jax.Array:
    """One key per replica, shape (replicas,): the key of the name with the replica's number folded in.

    A replica's path then does not depend on how many others run.
    """
    return _key(folded(_data(seed, *words), np.arange(replicas, dtype=np.uint32)))


def _data(seed: int, *words: Word) -> np.ndarray:
    return streams.sequence(seed, *words, use="key").generate_state(2, np.uint32)


def _key(data: np.ndarray) -> jax.Array:
    return jax.random.wrap_key_data(jnp.asarray(data), impl=THREEFRY)
