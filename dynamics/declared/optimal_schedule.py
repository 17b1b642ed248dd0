"""Schedules by gradient: the linear model's risk at the end, differentiated through its exact recursion, minimised by L-BFGS.

The recursion is `theory.declared.linear_model`'s as derived (arXiv:2405.15074), lowered to JAX.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from scipy import optimize

from dynamics.core.precision import double_precision
from theory import InputError
from theory.declared import linear_model as exact
from theory.declared.linear_model import LinearModel
from theory.declared.optimal_schedule import Optimum, best_schedule

#: L-BFGS stops here at the latest.
_ITERATIONS = 400


@lru_cache(maxsize=1)
def _step() -> Callable[..., jax.Array]:
    """C after a step of plain SGD: of C, R, η, λ, n, b and σ."""
    moved = exact.step_equations()["C"].subs(exact.PLAIN)
    names = (exact.C, exact.R, exact.eta, exact.lam, exact.n, exact.batch, exact.sigma)
    lowered: Callable[..., jax.Array] = sp.lambdify(names, moved, modules="jax")
    return lowered


@jax.jit
@jax.value_and_grad
def _log_risk(logs: jax.Array, known: tuple[Any, ...], start: jax.Array) -> jax.Array:
    """ln R after steps of size exp(logs)."""
    lam = known[0]

    def step(c: jax.Array, log: jax.Array) -> tuple[jax.Array, None]:
        return _step()(c, lam @ c, jnp.exp(log), *known), None

    return jnp.log(lam @ jax.lax.scan(step, start, logs)[0])


@double_precision
def optimal_schedule(model: LinearModel, batch: int, steps: int) -> Optimum:
    """The best schedule of plain SGD for this many steps, from the first-order one; exact in the step size.

    Raises `InputError` for a model without label noise, and if L-BFGS has not ended after 400 iterations.
    """
    first = best_schedule(model, batch, steps)
    known = tuple(jnp.asarray(x) for x in (model.eigenvalues, model.multiplicities, float(batch), model.noise))
    start = jnp.asarray(model.start)

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _log_risk(jnp.asarray(logs), known, start)
        return float(value), np.asarray(slope)

    found = optimize.minimize(
        objective,
        np.log(first.step_sizes),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "ftol": 1e-15, "gtol": 1e-9},
    )
    if found.nit >= _ITERATIONS:
        raise InputError(f"steps is {steps}: no best schedule after {_ITERATIONS} iterations; take fewer steps")
    sizes = np.exp(found.x)
    return Optimum(float(np.exp(found.fun)), float(sizes.sum()), sizes)
