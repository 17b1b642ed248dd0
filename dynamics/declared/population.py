r"""The derived population flow and loss of declared models as JAX code.

Integrals (`theory.declared.population`) are elementwise functions of the fields' covariance; the drift of
`theory.declared.flow` is lowered to matrix products. An evaluation costs $O(m(m+P))$ integrals and $O(Lm(m+P)^2)$ products:
linear in the number of eigenvalues.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.kept import compiled, kept
from dynamics.core.lowering import SPECIAL, LoweredSystem, State
from dynamics.core.precision import double_precision
from theory import InputError, System
from theory.declared import population
from theory.declared.flow import integrals_of, is_quadratic, population_system
from theory.declared.model import DeclaredModel
from theory.declared.population import Integrals

#: Entries of all kernels that are formed at once where losses of many states are asked for.
_AT_ONCE = 2**20


@lru_cache(maxsize=64)
def lower_many(expressions: Sequence[sp.Expr], names: Sequence[sp.Symbol]) -> Callable[..., Any]:
    """Expressions (a tuple) as one function of JAX arrays."""
    return sp.lambdify(list(names), [sp.N(x, 17) for x in expressions], modules=[SPECIAL, "jax"], cse=True)


class LoweredPopulation:
    """``drift(state, parameters)`` and ``loss(state, parameters)`` of a population system.

    State: T (L, m, P), Q (L, m, m) and, if trained, b (m,). Parameters: see `parameters_of`.
    """

    def __init__(self, system: System, integrals: Integrals, square: bool) -> None:
        self._system, self._integrals, self._square = LoweredSystem(system), integrals, square
        self._source = system

    @cached_property
    def _rows(self) -> LoweredSystem:
        """The system without Q, whose drift is of products with directions, too."""
        drift = {component: rate for component, rate in self._source.drift.items() if str(component.base) != "Q"}
        return LoweredSystem(replace(self._source, drift=drift))

    def _arrays(self, state: State, parameters: State) -> State:
        """Parameters and all that follows from the state."""
        X = jnp.einsum("i,ikp->kp", parameters["lambda"], state["T"])
        C = jnp.einsum("i,ikl->kl", parameters["lambda"], state["Q"])
        rho = jnp.einsum("ikk->k", state["Q"])
        found = self._integrals.at(lower_many, X, C, rho, parameters, self._square)
        return {**parameters, "X": X, "C": C, "rho": rho, **found}

    def drift(self, state: State, parameters: State) -> State:
        """Time derivative of the state."""
        return self._system.drift(state, self._arrays(state, parameters))

    def velocity(self, rows: jax.Array, directions: jax.Array, second: State, parameters: State) -> State:
        """Of free rows (L, m, n) in coordinates by eigenspace in which the directions are (L, P, n): ``T``; ``b`` if trained.

        The derived drift of overlaps, with the unit vectors of the coordinates in the place of directions.
        """
        transposed = jnp.swapaxes(rows, 1, 2)
        state = {"T": rows @ jnp.swapaxes(directions, 1, 2), "Q": rows @ transposed, **second}
        arrays = self._arrays(state, parameters)
        return self._rows.drift({**state, "T": rows}, {**arrays, "Z": directions})

    def loss(self, state: State, parameters: State) -> jax.Array:
        """Population loss, label noise left out."""
        return self._system.observable("loss", state, self._arrays(state, parameters))


def lowered_population(model: DeclaredModel, system: System | None = None) -> LoweredPopulation:
    """A model's flow and loss as JAX code, or those of a `system` in its place, made once for these equations.

    Raises `InputError` as `population_system`.
    """
    return kept(system or population_system(model), LoweredPopulation, integrals_of(model), is_quadratic(model.loss))


def parameters_of(model: DeclaredModel, speed: float = 1.0, signal: float = 1.0) -> State:
    """Eigenvalues, directions and numbers of the target as arrays, with the second layer where it is fixed.

    `signal`: what labels show of the target in the mean; 1 for the loss, which leaves their noise out.

    Raises `InputError` for a target or link without closed integrals.
    """
    numbers = population.shown(population.constants(integrals_of(model), model.directions), signal)
    found = {
        "lambda": model.inputs.eigenvalues,
        "Z": model.directions.grams,
        "nu": speed,
        "kappa": model.rule.decay,
        "S": numbers.pop("square"),
        **numbers,
    }
    if not model.student.trained:
        found["b"] = model.student.second
    return {name: jnp.asarray(np.asarray(value, dtype=float)) for name, value in found.items()}


@compiled
def _losses(lowered: LoweredPopulation, states: State, parameters: State, *, at_once: int) -> jax.Array:
    return jax.lax.map(lambda state: lowered.loss(state, parameters), states, batch_size=at_once)


@double_precision
def declared_loss(model: DeclaredModel, overlap: Any, gram: Any, second: Any) -> np.ndarray:
    r"""Population loss of states of a declared model: $\tfrac12E(f_*-f)^2$ or $-E f_*f$, label noise left out.

    Args:
        overlap, gram, second: as a run's dataset has them, (…, L, m, P), (…, L, m, m) and (…, m).

    Returns: (…); NaN where a state is. Exact, at a cost of m(m + P) integrals for each state.

    Raises `InputError` for models without closed integrals (see `theory.declared.flow.population_system`), or arrays that do
    not fit.
    """
    T, Q, b = (np.asarray(x, dtype=float) for x in (overlap, gram, second))
    m, P, blocks = model.student.width, model.target.count, len(model.inputs.eigenvalues)
    leading = b.shape[:-1]
    if (T.shape, Q.shape, b.shape) != ((*leading, blocks, m, P), (*leading, blocks, m, m), (*leading, m)):
        raise InputError(
            f"overlap, gram and second have shapes {T.shape}, {Q.shape}, {b.shape}: give (…, {blocks}, {m}, {P}), "
            f"(…, {blocks}, {m}, {m}) and (…, {m})"
        )
    states = {"T": T.reshape(-1, *T.shape[-3:]), "Q": Q.reshape(-1, *Q.shape[-3:]), "b": b.reshape(-1, m)}
    at_once = max(1, min(_AT_ONCE // (m * (m + P)), b.size // m))
    given = {name: jnp.asarray(value) for name, value in states.items()}
    found = _losses(lowered_population(model), given, parameters_of(model), at_once=at_once)
    return np.asarray(found).reshape(leading)
