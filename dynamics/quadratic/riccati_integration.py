r"""The derived matrix flows of quadratic networks, integrated by Diffrax: an independent check of the closed forms.

The right-hand sides are lowered from the systems of `theory.quadratic.riccati`; nothing is typed a second time. Riccati time.
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dynamics.core.flow import Reached
from dynamics.core.flow import integrate as solve
from dynamics.core.kept import compiled
from dynamics.core.lowering import LoweredSystem, lower
from dynamics.core.precision import double_precision
from dynamics.core.symmetric import Symmetric
from dynamics.quadratic.riccati import checked_spectrum, checked_times
from theory import InputError, Subspace, System
from theory.quadratic.riccati import overlap_system

_MAX_STEPS = 1_000_000


@compiled
def _solve(
    system: LoweredSystem, state: dict, parameters: dict, times: jax.Array, errors: dict, *, held: Symmetric | None
) -> Reached:
    drift, start = held.packed(system.drift) if held else system.drift, jnp.zeros(())
    options = {"times": times, "held": held, "max_steps": _MAX_STEPS, **errors}
    return solve(drift, state, start, times[-1], parameters, **options)


@double_precision
def integrate(
    system: System,
    state: np.ndarray,
    rates: ArrayLike,
    times: ArrayLike,
    rtol: float = 1e-8,
    atol: float = 1e-11,
    symmetric: bool = True,
) -> np.ndarray:
    """One matrix of a system of `theory.quadratic.riccati` at increasing times; shape (T, *state.shape). `symmetric`: it
    stays so.

    Raises `InputError` for times that do not increase from 0 or more, `IntegrationError` if the integrator gives up.
    """
    grid = checked_times(times)
    if np.any(np.diff(grid) <= 0):
        raise InputError(f"times must increase: got {grid.size} values that do not")
    name = system.state[0]
    parameters = {"a": jnp.asarray(rates, dtype=float)}
    lowered = lower(system)
    last = grid[-1] == 0.0  # an interval without length is not integrated
    moment = jnp.asarray(np.append(grid, 1.0) if last else grid)
    held, start = Symmetric(name, unit=False) if symmetric else None, {name: jnp.asarray(state)}
    found = _solve(
        lowered, start, parameters, moment, {"rtol": jnp.asarray(rtol), "atol": jnp.asarray(atol)}, held=held
    )
    found.check(system.name, float(grid[-1]), f"loosen rtol = {rtol:g} or shorten it")
    return np.asarray(found.state[name])[: grid.size]


@double_precision
def integrate_overlap(
    spectrum: ArrayLike,
    start: Subspace,
    times: ArrayLike,
    *,
    rtol: float = 1e-8,
    atol: float = 1e-11,
    system: System | None = None,
) -> np.ndarray:
    """G at increasing Riccati times, shape (T, M*, M*); `system` replaces the derived Riccati flow (a conjecture)."""
    z = start.orthonormal().on_teachers
    return integrate(system or overlap_system(), z @ z.T, checked_spectrum(spectrum, start), times, rtol, atol)
