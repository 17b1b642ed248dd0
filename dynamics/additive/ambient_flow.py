r"""Gradient flow in ambient coordinates, as a cross-check of the overlap flow.

The loss is written in the vectors $v_k\in R^d$ and differentiated by JAX: nothing of the derived drift is used.
"""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.flow import Reached, integrate
from dynamics.core.lowering import lower_kernel
from dynamics.core.precision import double_precision
from theory import Activation, InitialState, Teacher


def embed(initial: InitialState, dim: int) -> np.ndarray:
    """Vectors v_k in R^d, shape (m, d), with the teachers as e_1 … e_P and the residuals on the next m axes."""
    width = initial.on_teachers.shape[0]
    rest = dim - initial.on_teachers.shape[1] - width
    return np.hstack([initial.on_teachers, initial.residual, np.zeros((width, rest))])


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
    return 0.5 * mass @ jnp.where(itself, float(activation.second_moment), kernel(angles)) @ mass


@lru_cache(maxsize=32)
def _solver(activation: Activation) -> Callable[..., Reached]:
    """(vectors, a, times, rtol) → the vectors at the times, compiled once."""

    def solve(vectors: jax.Array, a: jax.Array, times: jax.Array, rtol: float) -> Reached:
        descent = jax.grad(lambda v: ambient_loss(activation, v, a))
        return integrate(lambda v, _: -descent(v), vectors, 0.0, times[-1], rtol=rtol, times=times, meet=True)

    return jax.jit(solve)


@double_precision
def ambient_gradient_flow(
    activation: Activation, teacher: Teacher, initial: InitialState, *, times: np.ndarray, rtol: float = 1e-9
) -> np.ndarray:
    """Vectors v_k at `times` (increasing, > 0), shape (time, m, d). Raises `IntegrationError` if the solver fails."""
    start = jnp.asarray(embed(initial, teacher.dim))
    found = _solver(activation)(start, jnp.asarray(teacher.a), jnp.asarray(times), rtol)
    found.check("ambient gradient flow", float(times[-1]))
    return np.asarray(found.state)
