"""Random and special states on which formulas are checked."""

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.ambient_flow import ambient_loss
from theory import Activation, InitialState


def random_vectors(rng: np.random.Generator, count: int, dim: int, scale: float = 0.6) -> np.ndarray:
    """Students with generic directions and different norms, shape (m, d)."""
    vectors = rng.standard_normal((count, dim))
    return scale * vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * rng.uniform(0.5, 1.5, (count, 1))


def overlaps_of_vectors(vectors: jax.Array, width: int) -> dict[str, jax.Array]:
    """t, c, r of explicit vectors."""
    r = jnp.sum(vectors**2, axis=1)
    units = vectors / jnp.sqrt(r)[:, None]
    return {"t": units[:, :width], "c": units @ units.T, "r": r}


def ambient_rates(activation: Activation, vectors: np.ndarray, a: np.ndarray) -> dict[str, np.ndarray]:
    """d/dt of t, c, r along the ambient gradient flow, by automatic differentiation of the ambient loss alone."""
    v, weights = jnp.asarray(vectors), jnp.asarray(a)
    velocity = -jax.grad(lambda x: ambient_loss(activation, x, weights))(v)
    _, rates = jax.jvp(lambda x: overlaps_of_vectors(x, weights.size), (v,), (velocity,))
    return {name: np.asarray(value) for name, value in rates.items()}


def single_overlap_state(overlap: float, init_scale: float) -> InitialState:
    """One student whose overlap with the only teacher is `overlap`, exactly."""
    rest = np.sqrt(1.0 - overlap * overlap)
    return InitialState(init_scale * np.array([[overlap]]), init_scale * np.array([[rest]]))
