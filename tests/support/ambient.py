"""Gradient flow in explicit vectors, against which the overlap flow is held: nothing of the derived drift is used."""

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.ambient_flow import ambient_loss, embed
from dynamics.core.flow import integrate
from theory import Activation, InitialState, Teacher


def ambient_gradient_flow(
    activation: Activation, teacher: Teacher, initial: InitialState, *, times: np.ndarray
) -> np.ndarray:
    """Vectors v_k at `times` (increasing, > 0), shape (time, m, d)."""
    start, a, at = jnp.asarray(embed(initial, teacher.dim)), jnp.asarray(teacher.a), jnp.asarray(times)
    descent = jax.grad(lambda v: ambient_loss(activation, v, a))
    found = integrate(lambda v, _: -descent(v), start, 0.0, at[-1], rtol=1e-9, times=at, meet=True)
    found.check("ambient gradient flow", float(times[-1]))
    return np.asarray(found.state)
