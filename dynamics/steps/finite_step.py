r"""SGD of finite step size: the overlap map and its equation, to second order in the step size.

The mean of one step is $y+\eta F(y)$ with F the drift of `theory.steps.finite_step`. The map iterates it. As an equation in
time, whose solution passes through the map's points up to $O(\eta^2)$,

$$\dot y=F-\tfrac\eta2F'F,$$

where $F'F$ is the drift's derivative along itself (a step is a step, not a piece of a flow); its derivative is taken by
forward differentiation of the lowered drift.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.additive.gradient_flow import lowered_overlap_flow, overlap_loss, overlaps_of
from dynamics.core.checks import check_start
from dynamics.core.flow import Reached, integrate
from dynamics.core.frame_sums import FrameSums, is_frame_term
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled, kept
from dynamics.core.lowering import Arrays, LoweredSystem, State, lower
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive, marks, steps_between
from dynamics.core.symmetric import COSINES
from dynamics.core.trajectory import Plotted, dataset
from theory import Activation, InitialState, InputError, System, Teacher, finite_step, one_step, overlap_flow
from theory.core.arguments import check_positive
from theory.core.curves import first_crossing
from theory.core.indexed import Sums

if TYPE_CHECKING:
    import xarray as xr


class LoweredFiniteStep:
    """Drift of a finite-step `System`: frame sums by `FrameSums`, everything else by `LoweredSystem`.

    ``drift(state, parameters)`` takes t (m, P), c (m, m), r (m,) and parameters a (P,), eta, d (and varsigma).
    """

    def __init__(self, system: System) -> None:
        self.system = system
        plain = {component: _part(sums, False) for component, sums in system.drift.items()}
        self._plain: LoweredSystem = lower(replace(system, drift=plain, covariance={}))
        framed = {component: _part(sums, True) for component, sums in system.drift.items()}
        self._framed = {str(x.base): FrameSums(x, sums) for x, sums in framed.items() if sums}

    def drift(self, state: Arrays, parameters: Arrays) -> State:
        """Mean of one step over η, each array with the shape of the state's."""
        found = self._plain.drift(state, parameters)
        known = {**state, "a": parameters["a"]}
        return {
            name: value + self._framed[name].total(known, parameters) if name in self._framed else value
            for name, value in found.items()
        }


def _part(sums: Sums, framed: bool) -> Sums:
    return Sums(term for term in sums if is_frame_term(term) == framed)


def lowered_step(system: System) -> LoweredFiniteStep:
    """A finite-step system as JAX code, made once per object (so that it is also compiled once), and let go with it."""
    return kept(system, LoweredFiniteStep)


@lru_cache(maxsize=16)
def _lowered_one_step(activation: Activation, batch: int) -> LoweredFiniteStep:
    components: Mapping[sp.Indexed, Sums] = one_step(activation, batch)
    return LoweredFiniteStep(replace(overlap_flow(activation), drift=components, observables={}))


@double_precision
def one_step_mean(
    activation: Activation, teacher: Teacher, initial: InitialState, step_size: float, batch: int = 1
) -> dict[str, np.ndarray]:
    r"""Exact conditional mean of one step of SGD: $E\,T'$ (m, P) and $E\,Q'$ (m, m), raw overlaps, exact in d.

    Raises `InputError` for an activation that is no polynomial.
    """
    lowered = _lowered_one_step(activation, batch)
    moved = _raw_increments(lowered, overlaps_of(initial), parameters_of(teacher, step_size))
    gram = initial.on_teachers @ initial.on_teachers.T + initial.residual @ initial.residual.T
    return {"T": initial.on_teachers + np.asarray(moved["T"]), "Q": gram + np.asarray(moved["Q"])}


def _raw_increments(lowered: LoweredFiniteStep, state: State, parameters: State) -> State:
    shapes = {"T": state["t"], "Q": state["c"]}
    return lowered.drift({**state, **shapes}, parameters)


def parameters_of(teacher: Teacher, step_size: float) -> State:
    """The system's parameters as arrays."""
    return {"a": jnp.asarray(teacher.a), "eta": jnp.asarray(float(step_size)), "d": jnp.asarray(float(teacher.dim))}


# -------------------------------------------------------------------------- trajectories


@dataclass(frozen=True)
class FiniteStepResult(Plotted):
    """A run: `dataset` with overlap, norm2, loss on (time, neuron, direction) and the coordinate ``step``.

    Attributes:
        half_time: (P,) first recorded time at which some neuron's squared overlap is at least ½ (linear between
            records); inf if never.
        diverged: whether the run left the finite numbers.
    """

    dataset: "xr.Dataset"
    half_time: np.ndarray
    diverged: bool


@compiled
def _iterate(lowered: LoweredFiniteStep, state: State, parameters: State, count: jax.Array) -> State:
    """`count` steps of the map."""

    drift = COSINES.packed(lowered.drift)

    def body(_: jax.Array, y: State) -> State:
        change = drift(y, parameters)
        return _kept({name: y[name] + parameters["eta"] * change[name] for name in y})

    return COSINES.open(jax.lax.fori_loop(0, count, body, COSINES.pack(state)))


def _kept(state: State) -> State:
    """Cosines within ±1, as every step has them: what is cut is of third order."""
    return {"t": jnp.clip(state["t"], -1.0, 1.0), "c": jnp.clip(state["c"], -1.0, 1.0), "r": state["r"]}


def _velocity(lowered: LoweredFiniteStep, y: State, parameters: State) -> State:
    """F − ½ηF′F at a packed state: the equation whose flow passes through the map's points, to second order."""
    packed = COSINES.packed(lowered.drift)
    value, along = jax.jvp(lambda state: packed(state, parameters), (y,), (packed(y, parameters),))
    return jax.tree.map(lambda f, g: f - 0.5 * parameters["eta"] * g, value, along)


@compiled
def _integrate(
    lowered: LoweredFiniteStep, state: State, parameters: State, start: jax.Array, end: jax.Array, rtol: float
) -> Reached:
    return integrate(partial(_velocity, lowered), state, start, end, parameters, rtol=rtol, held=COSINES)


@double_precision
def finite_step_flow(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    saves: int = 200,
    method: str = "flow",
    rtol: float = 1e-8,
    system: System | None = None,
    progress: Progress | None = None,
) -> FiniteStepResult:
    r"""Mean dynamics of online SGD to second order in the step size, from `initial` over `steps` steps.

    Args:
        method: ``map`` iterates the mean of one step (cost: `steps` drifts); ``flow`` integrates the equation of the same
            order in time t = η·steps with an adaptive solver (cost independent of η).
        saves: times recorded at equal distances, the start included.
        system: a finite-step `System` in place of the derived one (to test a conjecture).

    The dimension and the step size enter the drift; fluctuations do not: this is the mean while they are small
    ($\eta N\ll u^2$). Cost per drift: matrix products, and $m^2(m+P)m$ for the pair-indexed ones.

    Raises:
        InputError: a number out of range, an activation that is no polynomial, an unknown method.
        IntegrationError: the solver could not go on.
        Interrupted: on Ctrl-C, with the result so far.
    """
    check_positive(step_size=step_size, steps=steps, saves=saves, batch=batch)
    if method not in ("map", "flow"):
        raise InputError(f"method is {method!r}: use map or flow")
    check_start(initial, teacher)
    lowered = lowered_step(finite_step(activation, batch) if system is None else system)
    parameters = parameters_of(teacher, step_size)

    def advance(state: State, part: Stretch) -> State:
        if method == "map":
            return _iterate(lowered, state, parameters, jnp.asarray(part.end - part.begin))
        begin, end = (jnp.asarray(x * step_size) for x in (part.begin, part.end))
        found = _integrate(lowered, state, parameters, begin, end, rtol)
        found.check("finite-step flow", steps * step_size, "lower step_size")
        return found.state

    return drive(
        overlaps_of(initial),
        (steps_between if method == "map" else between)(marks(steps, saves)),
        advance,
        lambda state: _snapshot(activation, state, teacher),
        lambda track: _result(activation, teacher, track, step_size, batch, method),
        Told("finite step", steps, progress),
        done=lambda track: not np.all(np.isfinite(track.seen[-1][1])),
    )


def _result(
    activation: Activation, teacher: Teacher, track: Track[State], step_size: float, batch: int, method: str
) -> FiniteStepResult:
    overlap, norm2, loss = track.columns(axis=0)
    times = np.array(track.at) * step_size
    attributes: dict[str, str | float | int] = {
        "what": "finite-step",
        "activation": activation.name,
        "dim": teacher.dim,
        "step_size": step_size,
        "batch": batch,
        "method": method,
        "precision": "float64",
    }
    reached, diverged = half_times(times, overlap), not bool(np.all(np.isfinite(norm2)))
    data = dataset(
        times, overlap, norm2, loss, step_size=step_size, attributes=attributes, half_time=reached, diverged=diverged
    )
    return FiniteStepResult(data, reached, diverged)


def _snapshot(activation: Activation, state: State, teacher: Teacher) -> tuple[jax.Array, jax.Array, jax.Array]:
    loss = overlap_loss(lowered_overlap_flow(activation), state, jnp.asarray(teacher.a))
    return state["t"], state["r"], loss


def half_times(times: np.ndarray, overlap: np.ndarray, level: float = 0.5) -> np.ndarray:
    """(P,) time at which the largest squared overlap with each direction first reaches `level`; inf if never."""
    height = np.where(np.isfinite(overlap), overlap**2, -1.0).max(axis=1)  # what has diverged has reached nothing
    return first_crossing(times, height.T, level)
