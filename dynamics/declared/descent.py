r"""Any rule with the population's gradient: SGD of a declared model with an infinite batch, at any d.

A rule that turns with the axes keeps rows and buffers in the span of the rows and directions that it began with (derivation:
a reflection of all else changes nothing). In each eigenspace that span has $\min(P+m,d_i)$ dimensions, in which all vectors
are explicit and the gradient is that of the derived flow (`theory.declared.flow`). Exact at any step size.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.checks import check_run
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled
from dynamics.core.lowering import State
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, stretches
from dynamics.core.trajectory import time_axis
from dynamics.declared.engine import constant, parts_of
from dynamics.declared.flow import flow_state, path_of
from dynamics.declared.population import LoweredPopulation, lowered_population, parameters_of
from dynamics.declared.rows import Rows
from dynamics.declared.simulate import step_times
from dynamics.declared.span import NO_COORDINATES
from dynamics.declared.step import Parts, follow, step_sizes
from theory import InputError
from theory.declared.model import DeclaredModel
from theory.declared.rule import Gradient, Here
from theory.declared.schedule import check_length
from theory.declared.start import Start

if TYPE_CHECKING:
    import xarray as xr


class _Spanned(Rows):
    """Coordinates of the span: in R^d they are others, so that no rule may use them."""

    def _new(self, array: jax.Array) -> "_Spanned":
        return _Spanned(array, self.samples)

    def elementwise(self, function: Any, *others: Rows) -> Rows:
        """Raises `InputError`."""
        raise InputError(NO_COORDINATES)


class _Vectors(NamedTuple):
    """Rows and buffers (K, m, L·n), and b (m,)."""

    kinds: jax.Array
    second: jax.Array


@double_precision
def population_descent(
    model: DeclaredModel, start: Start, *, steps: int, saves: int = 200, progress: Progress | None = None
) -> "xr.Dataset":
    r"""Steps of the model's rule along the gradient of its population loss.

    Returns: `overlap` (time, eigenspace, neuron, direction), `gram` (time, eigenspace, neuron, other), `second` (time,
    neuron), `loss` (time); coordinates ``time`` (sum of the step sizes) and ``step``. Batch and label noise
    of mean zero do not matter; labels that flip show (1 − 2p)·f*.

    Raises:
        InputError: numbers out of range, a start that does not fit, a run longer than its schedule, a rule of coordinates, and
            models without closed integrals (see `theory.declared.flow.population_system`).
        Interrupted: on Ctrl-C, with the result so far.
    """
    check_run(1.0, 0, "exact", steps=steps, replicas=1, saves=saves)
    check_length(model.rule.step_size, steps)
    flow_state(model, start)  # refuses what does not fit
    P, L = model.directions.count, len(model.inputs.eigenvalues)
    wide = P + start.width
    rows = np.concatenate([start.padded(i, wide) for i in range(L)], axis=1)
    roots = model.directions.roots
    directions = jnp.asarray(np.pad(roots, ((0, 0), (0, 0), (0, start.width))))
    parts, free = parts_of(model), replace(model, student=replace(model.student, rows="free"))
    lowered, shown = lowered_population(free), lowered_population(model)
    # (The rule itself decays the rows.)
    plain, parameters = (
        {**parameters_of(free, signal=signal), "kappa": jnp.asarray(0.0)} for signal in (1.0, model.rule.signal)
    )
    extra = np.zeros((len(parts.rule.buffers), *rows.shape))
    begin = _Vectors(
        jnp.asarray(np.concatenate([rows[None], extra])), jnp.asarray(np.array(model.student.second, dtype=float))
    )

    def advance(state: _Vectors, part: Stretch) -> _Vectors:
        return _advance(lowered, constant(model), directions, state, parameters, part.begin, part.end, parts=parts)

    def look(state: _Vectors) -> tuple[jax.Array, ...]:
        return _look(shown, directions, state, plain, trained=parts.student.trained)

    def result(track: Track[_Vectors]) -> "xr.Dataset":
        at = np.array(track.at)
        return path_of(model, time_axis(step_times(model, at), at), track, what="population-descent")

    told = Told("population descent", steps, progress)
    return drive(begin, stretches(steps, saves), advance, look, result, told)


def _split(rows: jax.Array, blocks: int) -> jax.Array:
    """(m, L·n) as (L, m, n)."""
    return jnp.moveaxis(rows.reshape(rows.shape[0], blocks, -1), 1, 0)


@compiled
def _look(
    lowered: LoweredPopulation, directions: jax.Array, state: _Vectors, parameters: State, *, trained: bool
) -> tuple[jax.Array, ...]:
    rows = _split(state.kinds[0], directions.shape[0])
    seen = {"T": rows @ jnp.swapaxes(directions, 1, 2), "Q": rows @ jnp.swapaxes(rows, 1, 2)}
    own = {"b": state.second}
    loss = lowered.loss({**seen, **own} if trained else seen, {**parameters, **own})
    return seen["T"], seen["Q"], state.second, loss


@compiled
def _advance(
    lowered: LoweredPopulation,
    eta: jax.Array,
    directions: jax.Array,
    state: _Vectors,
    parameters: State,
    begin: int,
    end: int,
    *,
    parts: Parts,
) -> _Vectors:
    blocks = directions.shape[0]

    def gradient(rows: Rows, second: jax.Array) -> Gradient:
        given = {"b": second} if parts.student.trained else {}
        found = lowered.velocity(_split(rows.array, blocks), directions, given, parameters)
        along = rows._new(-jnp.moveaxis(found["T"], 0, 1).reshape(rows.array.shape))
        along = parts.student.tangent(along, rows)
        return Gradient(along, -found["b"] if parts.student.trained else jnp.zeros_like(second))

    def step(number: jax.Array, state: _Vectors) -> _Vectors:
        kinds = [_Spanned(x, directions) for x in state.kinds]
        buffers = dict(zip(parts.rule.buffers, kinds[1:], strict=True))
        size = step_sizes(parts, eta, jnp.asarray(number)[None])[0]
        moved = follow(parts, Here(kinds[0], state.second, buffers, number, size, gradient))
        new = [moved.rows, *(moved.buffers[name] for name in parts.rule.buffers)]
        return _Vectors(jnp.stack([x.array for x in new]), moved.second)

    return jax.lax.fori_loop(begin, end, step, state)
