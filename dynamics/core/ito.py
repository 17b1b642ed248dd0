r"""Ensembles of Itô paths: Euler–Maruyama over many paths at once, with increments that a seed reproduces.

$$ y_{n+1} = y_n + F(y_n)\,h + G(y_n)\,\Delta B_n, \qquad \Delta B_n \sim N(0, h I). $$

Strong order ½ (1 where the noise is additive) and weak order 1 in the step h. The increments of step n of a
path come from the path's key folded with n, so they depend neither on how often the paths are looked at nor on how many
there are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import Arrays, State
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, steps_between
from dynamics.core.trajectory import Plotted, ends, variable
from theory import InputError

if TYPE_CHECKING:
    import xarray as xr

#: Steps whose increments are drawn at once, and how many increments that may be.
_MOST_STEPS, _MOST_INCREMENTS = 64, 2**17


class Law(Protocol):
    """What an ensemble needs of its equation; a `LoweredSystem` with noise is one."""

    def drift(self, state: Arrays, parameters: Arrays) -> State:
        """F(y), each array with the shape of the state's."""

    def noise(self, state: Arrays, increments: jax.Array, parameters: Arrays) -> State:
        """G(y) ΔB for the Brownian increments ΔB of one path."""


@dataclass(frozen=True)
class Ensemble(Plotted):
    """Paths at the times they were looked at.

    Attributes:
        times: (S,) in the units of the law's time, the start included.
        state: name → array (paths, S, …).
        diverged: (paths,) whether a path left the finite numbers.
        dataset: the state by name, a replica for each path, further dimensions ``x_entry``, ``x_entry_2`` … of ``x``.
    """

    times: np.ndarray
    state: dict[str, np.ndarray]
    diverged: np.ndarray

    @cached_property
    def dataset(self) -> "xr.Dataset":  # type: ignore[override]
        """The paths by name."""
        import xarray as xr

        def dims(name: str, further: int) -> tuple[str, ...]:
            return "replica", "time", *(f"{name}_entry" + (f"_{n + 1}" if n else "") for n in range(further))

        values = {name: variable(dims(name, x.ndim - 2), x, name) for name, x in self.state.items()}
        return xr.Dataset(values | ends(diverged=self.diverged), {"time": variable("time", self.times, "time")})


@double_precision
def ito_ensemble(
    law: Law,
    start: Mapping[str, np.ndarray | jax.Array],
    parameters: Mapping[str, np.ndarray | jax.Array | float],
    *,
    step: float,
    steps: int,
    brownian: tuple[int, ...],
    paths: int,
    seed: int,
    saves: int = 100,
    observe: Callable[[State], State] | None = None,
    progress: Progress | None = None,
) -> Ensemble:
    """Integrate `paths` independent paths from one start.

    Args:
        law: drift and noise of one path.
        start: the common initial state, name → array.
        parameters: arrays and numbers that are constant in time.
        step: time step h.
        steps: number of steps; the paths are looked at `saves` times at equal distances (and at the start).
        brownian: shape of one path's Brownian increments.
        seed: the same seed gives the same paths on the same platform, whatever their number.
        observe: what is kept of one path's state (default: all of it).

    Raises:
        InputError: a step that is not positive, or fewer than one step, save or path.
        Interrupted: on Ctrl-C, with the paths so far.
    """
    for name, value in {"step": step, "steps": steps, "paths": paths, "saves": saves}.items():
        if not value > 0:
            raise InputError(f"{name} is {value}: give a positive value")
    start_state = {name: jnp.broadcast_to(jnp.asarray(x), (paths, *np.shape(x))) for name, x in start.items()}
    keys = replica_keys(seed, paths, "Ito ensemble")
    constants = {name: jnp.asarray(x) for name, x in parameters.items()}
    marks = np.unique(np.linspace(0, steps, min(saves, steps) + 1).astype(int))

    def advance(state: State, part: Stretch) -> State:
        span = (jnp.asarray(part.begin), jnp.asarray(part.end))
        return _advance(law, state, constants, jnp.asarray(float(step)), span, keys, brownian=brownian)

    def result(track: Track[State]) -> Ensemble:
        seen = {name: np.stack([x[name] for x in track.seen], axis=1) for name in track.seen[0]}
        finite = [np.isfinite(x).reshape(paths, -1).all(axis=1) for x in jax.device_get(track.state).values()]
        return Ensemble(np.array(track.at) * step, seen, ~np.logical_and.reduce(finite))

    told = Told("Itô ensemble", steps, progress)
    return drive(start_state, steps_between(marks.tolist()), advance, jax.vmap(observe or (lambda y: y)), result, told)


@compiled
def _advance(
    law: Law,
    state: State,
    constants: State,
    step: jax.Array,
    span: tuple[jax.Array, jax.Array],
    keys: jax.Array,
    *,
    brownian: tuple[int, ...],
) -> State:
    """All paths from step span[0] to step span[1]; increments are drawn for several steps at once, which is faster."""
    paths = next(iter(state.values())).shape[0]
    together = max(1, min(_MOST_STEPS, _MOST_INCREMENTS // (paths * math.prod(brownian))))

    def one(y: State, increments: jax.Array) -> State:
        drift, noise = law.drift(y, constants), law.noise(y, increments, constants)
        return {name: y[name] + step * drift[name] + noise[name] for name in y}

    def draw(count: jax.Array) -> jax.Array:
        normals = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, count), brownian))(keys)
        return jnp.sqrt(step) * normals

    def block(number: jax.Array, y: State) -> State:
        first = span[0] + number * together
        increments = jax.vmap(draw)(first + jnp.arange(together))
        count = jnp.minimum(together, span[1] - first)
        return jax.lax.fori_loop(0, count, lambda place, y: jax.vmap(one)(y, increments[place]), y)

    blocks = (span[1] - span[0] + together - 1) // together
    return jax.lax.fori_loop(0, blocks, block, state)
