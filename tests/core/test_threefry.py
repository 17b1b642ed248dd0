"""The generator written out gives the numbers of JAX's own, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynamics.core.keys import replica_keys, stream_key
from dynamics.core.precision import double_precision
from dynamics.core.threefry import THREEFRY

SEEDS = (0, 7, 2**31 + 5, 2**40 + 3)


def same_keys(seed: int) -> tuple[jax.Array, jax.Array]:
    return jax.random.key(seed, impl="threefry2x32"), jax.random.key(seed, impl=THREEFRY)


def equal(theirs: jax.Array, ours: jax.Array) -> bool:
    return np.array_equal(jax.random.key_data(theirs), jax.random.key_data(ours))


@double_precision
@pytest.mark.parametrize("seed", SEEDS)
def test_bits_of_every_width_are_those_of_jax(seed: int) -> None:
    theirs, ours = same_keys(seed)
    assert equal(theirs, ours)
    for width in (jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64):
        for shape in ((), (1,), (3, 5), (0,)):
            assert np.array_equal(jax.random.bits(theirs, shape, width), jax.random.bits(ours, shape, width))


@double_precision
@pytest.mark.parametrize("seed", SEEDS)
def test_keys_split_and_folded_are_those_of_jax(seed: int) -> None:
    theirs, ours = same_keys(seed)
    assert equal(jax.random.split(theirs, (4, 3)), jax.random.split(ours, (4, 3)))
    for number in (0, 1, 2**31 - 1, 2**32 - 1):
        assert equal(jax.random.fold_in(theirs, number), jax.random.fold_in(ours, number))
    numbers = jnp.arange(6)
    both = [jax.jit(jax.vmap(lambda i, key=key: jax.random.fold_in(key, i)))(numbers) for key in (theirs, ours)]
    assert equal(*both)


@double_precision
def test_what_is_made_of_bits_is_that_of_jax() -> None:
    theirs, ours = same_keys(11)
    for draw in (
        lambda key: jax.random.normal(key, (50,)),
        lambda key: jax.random.uniform(key, (50,), jnp.float32),
        lambda key: jax.random.permutation(key, 50),
        lambda key: jax.random.choice(key, 50, (9,), replace=False),
    ):
        assert np.array_equal(draw(theirs), draw(ours))


@pytest.mark.parametrize("double", [False, True])
def test_single_precision_draws_the_same_words(double: bool) -> None:
    with jax.enable_x64(double):
        theirs, ours = same_keys(7)
        assert equal(jax.random.split(theirs, 5), jax.random.split(ours, 5))
        assert np.array_equal(jax.random.bits(theirs, (9,), jnp.uint32), jax.random.bits(ours, (9,), jnp.uint32))
        assert np.array_equal(jax.random.normal(theirs, (9,)), jax.random.normal(ours, (9,)))


def test_streams_are_made_by_it() -> None:
    assert stream_key(0, "x").dtype == jax.random.key(0, impl=THREEFRY).dtype


@double_precision
def test_keys_of_replicas_are_the_key_of_the_name_with_their_numbers_folded_in() -> None:
    one, many = stream_key(3, "a", 2), replica_keys(3, 5, "a", 2)
    theirs = jax.random.wrap_key_data(jax.random.key_data(one), impl="threefry2x32")
    assert equal(jnp.stack([jax.random.fold_in(theirs, i) for i in range(5)]), many)
