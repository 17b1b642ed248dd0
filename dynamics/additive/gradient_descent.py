r"""Population gradient descent with a fixed step, in overlap coordinates: what arXiv:2504.19983 plots as experiment.

The map is lowered from `theory.additive.gradient_descent`; its cost per step is 2m³ + 3m²P, whatever the dimension.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.gradient_flow import LEVEL
from dynamics.core.checks import check_start
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled
from dynamics.core.lowering import LoweredSystem, State, lower
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, steps_between
from dynamics.core.symmetric import GRAM
from dynamics.core.trajectory import STEPS, Plotted, variable
from theory import Activation, InitialState, InputError, Teacher
from theory.additive.gradient_descent import descent_map
from theory.core.arguments import check_positive, check_whole

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class DescentResult(Plotted):
    """A run of population gradient descent.

    Attributes:
        steps: (S,) step counts at which the loss was recorded; gradient-flow time is step size × steps.
        loss: (S,) the loss there.
        half_steps: (P,) first step at which a direction's largest squared overlap is ½ or more; inf if never.
        diverged: whether the loss left the finite numbers (a step size beyond the stability limit).
    """

    steps: np.ndarray
    loss: np.ndarray
    half_steps: np.ndarray
    diverged: bool

    @property
    def dataset(self) -> "xr.Dataset":  # type: ignore[override]
        """``loss`` on (step)."""
        import xarray as xr

        loss = variable("step", self.loss, "population loss ½E(f*−f)²")
        return xr.Dataset({"loss": loss}, {"step": variable("step", self.steps, "step of descent", STEPS)})


@lru_cache(maxsize=32)
def _lowered(activation: Activation) -> LoweredSystem:
    return lower(descent_map(activation))


def _learned(y: State) -> jax.Array:
    """(P,) whether some neuron's squared overlap has reached ½."""
    return jnp.max(y["T"] ** 2 / jnp.diagonal(y["Q"])[:, None], axis=0) >= LEVEL


@compiled
def _advance(
    system: LoweredSystem, state: State, half: jax.Array, constants: State, span: tuple[jax.Array, jax.Array]
) -> tuple[State, jax.Array]:
    drift = GRAM.packed(system.drift)

    def body(count: jax.Array, carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        y, seen = carry
        change = drift(y, constants)
        y = {name: y[name] + constants["eta"] * change[name] for name in y}
        return y, jnp.where(_learned(GRAM.open(y)) & ~jnp.isfinite(seen), count + 1.0, seen)

    after, half = jax.lax.fori_loop(*span, body, (GRAM.pack(state), half))
    return GRAM.open(after), half


@compiled
def _loss(system: LoweredSystem, state: State, constants: State) -> jax.Array:
    return system.observable("loss", state, constants)


@double_precision
def gradient_descent(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    saves: np.ndarray | None = None,
    progress: Progress | None = None,
) -> DescentResult:
    r"""$v_k\leftarrow v_k-\eta\nabla_{v_k}\tfrac12E(f_*-f)^2$ for all neurons at once, `steps` times.

    Args:
        saves: (n,) step counts at which the loss is recorded, increasing, from 0 to `steps`; about 200 in geometric
            progression by default.

    Raises:
        InputError: a step size that is not positive, no steps, saves out of range or a foreign initial state.
        Interrupted: on Ctrl-C, with the result so far.
    """
    check_positive(step_size=step_size)
    check_whole(steps=steps)
    marks = np.unique(np.geomspace(1, steps, 200).astype(int)) if saves is None else np.asarray(saves, dtype=int)
    if marks.size == 0 or marks[0] < 0 or marks[-1] > steps or np.any(np.diff(marks) <= 0):
        raise InputError(f"saves must increase within [0, steps = {steps}]: got {marks.size} values")
    check_start(initial, teacher)
    system, norms = _lowered(activation), np.sqrt(initial.norm2)
    constants = {"a": jnp.asarray(teacher.a), "eta": jnp.asarray(float(step_size))}
    raw = norms[:, None] * initial.student_overlap * norms[None, :]
    state = {"T": jnp.asarray(norms[:, None] * initial.overlap), "Q": jnp.asarray(raw)}

    def advance(now: tuple[State, jax.Array], part: Stretch) -> tuple[State, jax.Array]:
        return _advance(system, *now, constants, (jnp.asarray(part.begin), jnp.asarray(part.end)))

    def result(track: Track[tuple[State, jax.Array]]) -> DescentResult:
        losses = np.array(track.seen)
        return DescentResult(np.array(track.at), losses, np.asarray(track.state[1]), not np.isfinite(losses[-1]))

    def done(track: Track[tuple[State, jax.Array]]) -> bool:
        return not np.isfinite(track.seen[-1])

    begun = bool(marks[0] == 0)
    parts, told = (
        steps_between(marks.tolist() if begun else [0, *marks.tolist()]),
        Told("gradient descent", steps, progress),
    )
    start, look = (state, jnp.where(_learned(state), 0.0, jnp.inf)), lambda now: _loss(system, now[0], constants)
    return drive(start, parts, advance, look, result, told, done=done, from_start=begun)
