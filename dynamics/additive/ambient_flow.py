r"""The loss in ambient coordinates $v_k\in R^d$, whose derivatives check the overlap flow: nothing derived is used."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.lowering import lower_kernel
from theory import Activation, InitialState


def embed(initial: InitialState, dim: int) -> np.ndarray:
    """Vectors v_k in R^d, shape (m, d), with the teachers as e_1 … e_P and the residuals on the next m axes."""
    width = initial.on_teachers.shape[0]
    rest = dim - initial.on_teachers.shape[1] - width
    return np.hstack([initial.on_teachers, initial.residual, np.zeros((width, rest))])


@partial(jax.jit, static_argnums=0)
def ambient_loss(activation: Activation, vectors: jax.Array, a: jax.Array) -> jax.Array:
    r"""$\tfrac12\sum_{ij}w_iw_j\varphi(\langle u_i,u_j\rangle)$ over teachers ($w=-a_p$) and students `vectors` (m, d)
    ($w=\|v_k\|^2$).

    A vector's own term is $\varphi(1)w_i^2$: its angle with itself does not move, and relu's kernel has no slope there.
    """
    norm2 = jnp.sum(vectors**2, axis=1)
    units = vectors / jnp.sqrt(norm2)[:, None]
    everyone = jnp.vstack([jnp.eye(a.size, vectors.shape[1]), units])
    mass = jnp.concatenate([-a, norm2])
    kernel = lower_kernel(activation)
    itself = jnp.eye(mass.size, dtype=bool)
    angles = jnp.where(itself, 0.0, everyone @ everyone.T)
    return 0.5 * mass @ jnp.where(itself, kernel(jnp.ones(())), kernel(angles)) @ mass
