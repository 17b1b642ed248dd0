"""Labels as training sees them: one-hot, flipped afresh at every visit (`theory.linear.label_flips`)."""

import jax
import jax.numpy as jnp

from theory.linear.label_flips import LabelFlips


def flipped(key: jax.Array, labels: jax.Array, flips: LabelFlips) -> jax.Array:
    """Class numbers after flips, any shape: with probability τ another class, or any class, uniformly.

    arXiv:2603.10397, Algorithm 1 (``other``). The same key gives the same flips.
    """
    replace_key, draw_key = jax.random.split(key)
    replaced = jax.random.uniform(replace_key, labels.shape) < flips.probability
    if flips.replacement == "any":
        drawn = jax.random.randint(draw_key, labels.shape, 0, flips.classes)
    else:
        drawn = (labels + jax.random.randint(draw_key, labels.shape, 1, flips.classes)) % flips.classes
    return jnp.where(replaced, drawn, labels).astype(labels.dtype)
