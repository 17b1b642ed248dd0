r"""Population gradient flow in overlap coordinates, with hitting times.

The derived overlap flow (`theory.overlap_flow`) is integrated by Diffrax (Tsit5, adaptive). Its state has
$mP+m(m+1)/2$ numbers and no $d$: the dimension enters through the initial overlaps only. Emergence times are located by
Diffrax events with a root finder on the solver's dense output, not read off a grid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

from dynamics.core.checks import check_start, record_times
from dynamics.core.flow import MOST_STEPS, Reached, integrate
from dynamics.core.interrupted import IntegrationError, Progress
from dynamics.core.kept import compiled
from dynamics.core.lowering import LoweredSystem, State, lower, lower_kernel
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive
from dynamics.core.symmetric import COSINES
from dynamics.core.trajectory import Plotted, dataset
from theory import Activation, InitialState, InputError, System, Teacher, overlap_flow

if TYPE_CHECKING:
    import xarray as xr

#: Squared overlap, and share of the target norm, at which a direction counts as recovered.
LEVEL = 0.5
#: Below this a crossing found by the event's root finder still counts as a crossing.
_ROUNDING = 1e-7
#: Vectors that move by less than this until the end are at rest.
_REST = 3e-3
#: Shares of the squared masses: what rounding makes of a loss, and what the sharp tolerance leaves of it.
_ROUNDED, _LEFT = 1e-15, 1e-11
#: What relaxes within a time of 1 costs an explicit integrator a step for each: too many in a run as long as this.
_STIFF = 1e5
#: A run as long as this has steps of 1 at times that are further apart: its clock begins anew after so many steps.
_UNEVEN, _ANEW = 1e12, 64
#: Students that wait lose norm as 1/t. Over t_end, an error in it as large as itself would turn its sign.
_LIGHTEST = 1e-3
#: Tolerance on the way to rest, and the time that is given to it.
_SHARP, _RELAXED = 1e-12, 256.0
#: Of the root finder: relative in time, absolute in squared overlap.
_TIME_TOLERANCE, _OVERLAP_TOLERANCE = 1e-13, 1e-8


@dataclass(frozen=True)
class FlowResult(Plotted):
    """A gradient-flow run.

    Attributes:
        dataset: overlap, norm2, loss on (time, neuron, direction).
        half_time: (P,) first time at which some neuron's squared overlap reaches the level (½); inf if never.
        neuron: (P,) the neuron that reached it, −1 if none.
        loss_time: (P,) first time at which Σ_k r_k t_kq² reaches a_q/2 (half of the direction's norm); inf if never.
        steps: solver steps, rejected ones included.
        evaluations: evaluations of the right-hand side.
    """

    dataset: "xr.Dataset"
    half_time: np.ndarray
    neuron: np.ndarray
    loss_time: np.ndarray
    steps: int
    evaluations: int


def overlaps_of(initial: InitialState) -> State:
    """The flow's initial state (t, c, r) as JAX arrays."""
    return {
        "t": jnp.asarray(initial.overlap),
        "c": jnp.asarray(initial.student_overlap),
        "r": jnp.asarray(initial.norm2),
    }


@lru_cache(maxsize=32)
def lowered_overlap_flow(activation: Activation) -> LoweredSystem:
    """The activation's overlap flow as JAX code (made once)."""
    return lower(overlap_flow(activation))


def _aligned_overlap(state: Mapping[str, jax.Array]) -> jax.Array:
    """(P,) largest squared overlap of any neuron with each direction."""
    return jnp.max(state["t"] ** 2, axis=0)


def _aligned_norm(state: Mapping[str, Any], a: Any) -> Any:
    """(P,) Σ_k r_k t_kq² / a_q: the learned share of each direction's weight; of NumPy's arrays, or of JAX's."""
    return state["r"] @ state["t"] ** 2 / a


def _next_recovery(t: jax.Array, y: State, args: dict, **kwargs: object) -> jax.Array:
    """Positive once an unrecorded direction reaches half its overlap or half its norm (the event's condition)."""
    overlap = jnp.where(args["learned"], -1.0, _aligned_overlap(y) - args["level"])
    norm = jnp.where(args["fitted"], -1.0, _aligned_norm(y, args["a"]) - LEVEL)
    return jnp.maximum(jnp.max(overlap), jnp.max(norm))


class _Crossing(optx.Bisection):
    """Bisection that ends, too, where no time lies between the two: near 1e10 they are 1e-6 apart, and overlaps move more.

    A crossing that is missed by so little is met again at the beginning of the next segment, whose clock begins at 0.
    """

    def terminate(
        self, fn: Any, y: Any, args: Any, options: Any, state: Any, tags: frozenset[object]
    ) -> tuple[jax.Array, optx.RESULTS]:
        """Whether the tolerances are met, or the interval cannot be halved."""
        met, result = super().terminate(fn, y, args, options, state, tags)
        middle = state.lower + 0.5 * (state.upper - state.lower)
        return met | (middle <= state.lower) | (middle >= state.upper), result


@compiled
def segment(
    system: LoweredSystem,
    state: State,
    start: jax.Array,
    end: jax.Array,
    args: dict,
    rtol: float,
    atol: float,
    *,
    max_steps: int,
) -> Reached:
    """From `start` to `end`, or to the next event of a `Recorder` with these `args`; both scalars."""
    finder: optx.AbstractRootFinder = _Crossing(_TIME_TOLERANCE, _OVERLAP_TOLERANCE)  # type: ignore[call-arg]
    drift = COSINES.packed(system.drift)
    event = dfx.Event(_next_recovery, finder, direction=True)
    # Counted from 0, which the flow does not notice: near 1e9 times are 1e-7 apart, too few to find an event between.
    length = end - start
    found = integrate(
        lambda y, x: drift(y, {"a": x["a"]}),
        state,
        jnp.zeros_like(length),
        length,
        args,
        rtol=rtol,
        atol=atol,
        held=COSINES,
        event=event,
        max_steps=max_steps,
    )
    return found._replace(time=jnp.where(found.time == length, end, start + found.time))


@compiled
def overlap_loss(system: LoweredSystem, state: State, a: jax.Array) -> jax.Array:
    """The loss of overlaps t, c, r under a lowered overlap flow; a of shape (P,)."""
    return system.observable("loss", state, {"a": a})


@dataclass
class Recorder:
    """Hitting times collected along the way (host side); arrays of shape (P,)."""

    a: np.ndarray
    level: float
    half_time: np.ndarray
    neuron: np.ndarray
    loss_time: np.ndarray

    @classmethod
    def empty(cls, a: np.ndarray, level: float) -> "Recorder":
        count = len(a)
        return cls(
            np.asarray(a, dtype=float), level, np.full(count, np.inf), np.full(count, -1), np.full(count, np.inf)
        )

    @property
    def args(self) -> dict[str, Any]:
        return {
            "a": self.a,
            "level": np.asarray(self.level),
            "learned": np.isfinite(self.half_time),
            "fitted": np.isfinite(self.loss_time),
        }

    def record(self, state: Mapping[str, Any], time: float) -> None:
        """Takes `time` for the directions that are new at the level, and at half of their norm."""
        state = jax.device_get(state)
        squares = state["t"] ** 2
        new = (squares.max(axis=0) >= self.level - _ROUNDING) & ~np.isfinite(self.half_time)
        self.half_time[new] = time
        self.neuron[new] = squares.argmax(axis=0)[new]
        fitted = (_aligned_norm(state, self.a) >= LEVEL - _ROUNDING) & ~np.isfinite(self.loss_time)
        self.loss_time[fitted] = time


@dataclass
class _Descent:
    r"""The loss of a gradient flow falls; one that rises is wrong numbers, and the flow stops.

    A step's error in each coordinate is within $\epsilon=\sqrt N(\text{rtol}+\text{atol})$ of it (the controller bounds the
    root mean square over N coordinates), which moves the loss $\tfrac12\sum_{AB}w_Aw_B\varphi(C_{AB})$ by at most
    $\epsilon\,(\sum_A|w_A|)^2\,(\varphi(1)+\tfrac12\max|\varphi'|)$. So much is allowed for every step since the lowest loss.
    """

    activation: Activation
    a: np.ndarray
    tolerance: float
    lowest: float = np.inf
    since: int = 0

    @cached_property
    def _steepness(self) -> float:
        slope = np.max(np.abs(lower_kernel(self.activation, 1)(jnp.linspace(-1.0, 1.0, 201))))
        return float(self.activation.second_moment) + 0.5 * float(slope)

    def check(self, state: State, loss: float, steps: int, time: float, t_end: float) -> None:
        """Raises `IntegrationError` if the loss has risen by more than the steps' errors explain."""
        if loss <= self.lowest:
            self.lowest, self.since = loss, steps
            return
        masses = float(np.sum(self.a)) + float(jnp.sum(state["r"]))
        size = sum(x.size for x in state.values())
        allowed = (steps - self.since) * np.sqrt(size) * self.tolerance * masses**2 * self._steepness
        if not loss - self.lowest <= allowed:
            raise IntegrationError(
                f"gradient flow stopped at time {time:g} of {t_end:g}: its loss rose from {self.lowest:.6g} to {loss:.6g}, "
                f"by more than its tolerances explain ({allowed:.1g}); lower rtol"
            )


@dataclass(frozen=True)
class Moment:
    """The flow at some time, with the solver's steps and evaluations so far."""

    state: State
    time: float = 0.0
    steps: int = 0
    evaluations: int = 0


@dataclass(frozen=True)
class _Run:
    """One integration with its watchers."""

    lowered: LoweredSystem
    recorder: Recorder
    descent: _Descent | None
    rtol: float
    atol: float
    stop_when_learned: bool
    t_end: float

    def done(self) -> bool:
        return self.stop_when_learned and bool(np.all(np.isfinite(self.recorder.half_time)))

    def to(self, now: Moment, part: Stretch) -> Moment:
        """The flow at the end of the part, or where it is done; at rest it stays where it is."""
        spent, anew = 0, _ANEW if self.t_end > _UNEVEN else MOST_STEPS
        while now.time < part.end and not self.done():
            end, rtol, atol = part.end, self.rtol, self.atol
            if self.t_end > _STIFF and self.descent is not None and np.all(self.recorder.loss_time < np.inf):
                if self.at_rest(now):
                    return replace(now, time=part.end)
                waited = now.time - float(self.recorder.loss_time.max())
                if waited < _RELAXED:  # sharply: the errors of usual steps would keep it from coming to rest
                    end = min(part.end, now.time + max(1.0, waited, 1e-12 * now.time))
                    rtol, atol = min(rtol, _SHARP), min(atol, 1e-3 * _SHARP)
            start, args = np.asarray(now.time), self.recorder.args
            found = segment(self.lowered, now.state, start, np.asarray(end), args, rtol, atol, max_steps=anew)
            seen: Reached = jax.device_get(found)  # (all at once: each look at a number waits, and takes its time)
            taken = int(seen.steps)
            spent += taken
            if spent >= MOST_STEPS or not seen.more:
                seen._replace(steps=jnp.asarray(spent)).check("gradient flow", self.t_end)
            now = Moment(found.state, float(seen.time), now.steps + taken, now.evaluations + 6 * taken + 2)
            self.recorder.record(seen.state, now.time)
        return now

    def at_rest(self, now: Moment) -> bool:
        r"""Whether no vector moves by `_REST` or more until the end: $|\Delta V|^2\le\Delta t\,L$, as $\dot L=-|\dot V|^2$.

        A loss that is 0 to rounding counts as 0; so does one that is 0 to the sharp tolerance and has had its time.
        """
        loss = float(overlap_loss(self.lowered, now.state, self.recorder.a))
        masses = float(jnp.sum(self.recorder.a) + jnp.sum(now.state["r"]))
        waited = now.time - float(self.recorder.loss_time.max()) >= _RELAXED
        return loss <= max(_REST**2 / self.t_end, (_LEFT if waited else _ROUNDED) * masses**2)

    def look(self, now: Moment) -> tuple[float, jax.Array, jax.Array, float]:
        """Time, overlaps, squared norms and the loss, which must not have risen."""
        loss = float(overlap_loss(self.lowered, now.state, self.recorder.a))
        if self.descent is not None:
            self.descent.check(now.state, loss, now.steps, now.time, self.t_end)
        return now.time, now.state["t"], now.state["r"], loss


@double_precision
def gradient_flow(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    t_end: float,
    times: np.ndarray | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-11,
    level: float = LEVEL,
    stop_when_learned: bool = False,
    step_size: float | None = None,
    system: System | None = None,
    progress: Progress | None = None,
) -> FlowResult:
    r"""Integrate $\dot v_k=-\nabla_{v_k}\tfrac12E(f_*-f)^2$ from `initial` to gradient-flow time `t_end`.

    Exact in d, and in the activation but for what `theory.declared.dual_kernel.left_out` says of its kernel.

    Args:
        times: (n,) times to record, increasing, within [0, t_end]; 201 equidistant ones by default.
        rtol, atol: tolerances of the adaptive integrator, per step; atol at most 1e-3 / t_end, and as it was used in the data.
        level: squared overlap at which `half_time` is taken (½ unless a window is measured).
        stop_when_learned: stop, and record a last time, once every direction has reached `level`.
        step_size: only labels the dataset: its coordinate ``step`` is time / step_size (−1 without it).
        system: integrate this `System` in place of the derived overlap flow (to test a conjecture).
        progress: called with (fraction done, text).

    Returns: `FlowResult`. Cost per right-hand side: three matrix products, m²P + m³ + m²P.

    Raises:
        InputError: t_end not positive and finite, or times not increasing within [0, t_end].
        IntegrationError: the integrator could not go on, or the loss of the derived flow rose by more than the tolerances
            explain (stated with the time reached).
        Interrupted: on Ctrl-C, with the result up to the last recorded time.
    """
    grid = record_times(t_end, times, lambda: np.linspace(0.0, t_end, 201))
    if not 0 < level < 1:
        raise InputError(f"level is {level!r}: give a squared overlap between 0 and 1")
    check_start(initial, teacher)
    lowered = lowered_overlap_flow(activation) if system is None else lower(system)
    descent = _Descent(activation, teacher.a, rtol + atol) if system is None else None
    finest = min(atol, _LIGHTEST / t_end)
    flow = _Run(lowered, Recorder.empty(teacher.a, level), descent, rtol, finest, stop_when_learned, t_end)
    attributes: dict[str, str | float | int] = {
        "what": "gradient-flow",
        "activation": activation.name,
        "dim": teacher.dim,
        "rtol": rtol,
        "atol": finest,
        "precision": "float64",
    }

    def result(track: Track[Moment]) -> FlowResult:
        moments, overlap, norm2, loss = (x[: grid.size] for x in track.columns(axis=0))
        hits, steps = flow.recorder, track.state.steps
        ends = {"half_time": hits.half_time, "half_neuron": hits.neuron, "loss_time": hits.loss_time}
        data = dataset(moments, overlap, norm2, loss, step_size=step_size, attributes=attributes, level=level, **ends)
        return FlowResult(data, hits.half_time, hits.neuron, hits.loss_time, steps, track.state.evaluations)

    start = Moment(overlaps_of(initial))
    flow.recorder.record(start.state, 0.0)
    # (Beyond the last recorded time the flow still runs to t_end, for the sake of the hitting times.)
    moments = [0.0, *grid[grid > 0].tolist(), *([t_end] if grid[-1] < t_end else [])]
    parts = between(moments if grid[0] > 0 or not flow.done() else [])
    told, begun = Told("gradient flow", float(t_end), progress), bool(grid[0] == 0)
    return drive(start, parts, flow.to, flow.look, result, told, done=lambda track: flow.done(), from_start=begun)
