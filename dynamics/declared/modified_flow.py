r"""The modified equation of discrete steps (`theory.declared.modified_equation`), integrated: schedules and momentum.

$F'F$ is the derivative of F along F, by automatic differentiation; all else of the equation is the derived expression, whose
coefficients are read off it, so that one compilation serves the right equation and wrong ones.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.flow import Reached, integrate
from dynamics.core.precision import double_precision
from theory import InputError
from theory.declared import modified_equation as modified
from theory.declared.rule import Momentum, Rule

#: Of order parameters y, one array.
Field = Callable[[jax.Array], jax.Array]


class Fields(NamedTuple):
    """F, $F_2^{cov}$ and $F_2^{mean}$, each a function of y that gives an array like it."""

    first: Field
    covariance: Field
    mean: Field


_PARTS = (modified.F, modified.F_cov, modified.F_mean, modified.curve)
_NUMBERS = (modified.h, modified.lag, modified.slope)
_POWERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1))


def _coefficients(rate: sp.Expr) -> np.ndarray:
    """Of `_PARTS` (rows) and of the monomials `_POWERS` in h, ℓ and the slope. Raises `ValueError` for any other term."""
    found = np.zeros((len(_PARTS), len(_POWERS)))
    for powers, value in sp.Poly(rate, *_PARTS, *_NUMBERS).terms():
        part, rest = powers[: len(_PARTS)], powers[len(_PARTS) :]
        if sum(part) != 1:
            raise ValueError(f"{rate} is not linear in {_PARTS}")
        found[part.index(1), _POWERS.index(rest)] = float(value)
    return found


@lru_cache(maxsize=16)
def _solver(fields: Fields, schedule: Any) -> Callable[..., Reached]:
    """(y, times, coefficients, η, Σκ, ℓ, rtol) → y at the times, compiled once; `schedule`: or None for one step size."""

    def size(number: jax.Array, eta: jax.Array) -> jax.Array:
        return eta + 0.0 * number if schedule is None else jnp.asarray(schedule(number))

    def velocity(state: tuple[jax.Array, jax.Array], known: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        (y, number), (weights, eta, total, lag) = state, known
        drift, bend = jax.jvp(fields.first, (y,), (fields.first(y),))
        now, slope = jax.value_and_grad(size)(number, eta)
        h = now * total
        factors = weights @ jnp.stack([jnp.ones(()), h, h * lag, slope / now])
        moved = jnp.tensordot(factors, jnp.stack([drift, fields.covariance(y), fields.mean(y), bend]), axes=1)
        return moved, 1 / h

    def solve(y: jax.Array, times: jax.Array, *known: jax.Array, rtol: float) -> Reached:
        return integrate(velocity, (y, jnp.zeros(())), 0.0, times[-1], known, rtol=rtol, times=times, meet=True)

    return jax.jit(solve)


@double_precision
def modified_flow(
    fields: Fields,
    start: np.ndarray,
    times: np.ndarray,
    rule: Rule,
    *,
    rate: sp.Expr | None = None,
    begin: sp.Expr | None = None,
    rtol: float = 1e-11,
) -> np.ndarray:
    r"""$y$ at `times` (increasing, in the rule's clock), shape (time, …).

    Args:
        fields: of y, an array like `start`.
        rate, begin: expressions of `theory.declared.modified_equation`: by default those of the sum clock.

    Raises:
        InputError: for a rule without a known memory, and for momentum with a schedule, which the equation does not cover.
        IntegrationError: the solver gave up.
    """
    memory, given = modified.memory(rule), rule.step_size
    schedule: Any = given if callable(given) else None
    if schedule is not None and isinstance(rule, Momentum):
        raise InputError(
            "momentum has a schedule: the modified equation is known for one of both; take a constant step size"
        )
    eta = float(given(0)) if callable(given) else float(given)
    at = sp.lambdify((modified.y, modified.F, modified.h, modified.lag), modified.begin() if begin is None else begin)
    origin = at(start, np.asarray(fields.first(jnp.asarray(start))), eta * memory.total, memory.lag)
    weights = _coefficients(modified.rate() if rate is None else rate)
    numbers = (jnp.asarray(x) for x in (origin, times, weights, eta, memory.total, memory.lag))
    found = _solver(fields, schedule)(*numbers, rtol=rtol)
    found.check("modified equation", float(np.asarray(times)[-1]))
    return np.asarray(found.state[0])
