"""Random and special states on which formulas are checked."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.ambient_flow import ambient_loss
from theory import Activation, InitialState


def random_vectors(rng: np.random.Generator, count: int, dim: int, scale: float = 0.6) -> np.ndarray:
    """Students with generic directions and different norms, shape (m, d)."""
    vectors = rng.standard_normal((count, dim))
    return scale * vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * rng.uniform(0.5, 1.5, (count, 1))


@partial(jax.jit, static_argnums=1)
def overlaps_of_vectors(vectors: jax.Array, width: int) -> dict[str, jax.Array]:
    """t, c, r of explicit vectors."""
    r = jnp.sum(vectors**2, axis=1)
    units = vectors / jnp.sqrt(r)[:, None]
    return {"t": units[:, :width], "c": units @ units.T, "r": r}


def ambient_rates(activation: Activation, vectors: np.ndarray, a: np.ndarray) -> dict[str, np.ndarray]:
    """d/dt of t, c, r along the ambient gradient flow, by automatic differentiation of the ambient loss alone."""
    return {name: np.asarray(value) for name, value in _rates(activation, vectors, a).items()}


@partial(jax.jit, static_argnums=0)
def _rates(activation: Activation, vectors: jax.Array, weights: jax.Array) -> dict[str, jax.Array]:
    velocity = -jax.grad(lambda x: ambient_loss(activation, x, weights))(vectors)
    rates: dict[str, jax.Array]
    _, rates = jax.jvp(lambda x: overlaps_of_vectors(x, weights.size), (vectors,), (velocity,))
    return rates


def single_overlap_state(overlap: float, init_scale: float) -> InitialState:
    """One student whose overlap with the only teacher is `overlap`, exactly."""
    rest = np.sqrt(1.0 - overlap * overlap)
    return InitialState(init_scale * np.array([[overlap]]), init_scale * np.array([[rest]]))
