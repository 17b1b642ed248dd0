r"""The coupled overlap flow with hundreds of directions: learned pairs leave the equations.

What makes a long gradient flow stiff is what has been learned: a fitted neuron relaxes at the rate of its weight while
the next direction takes $d^{J/2-1}$ times longer. But a fitted neuron cancels its teacher for all others
(`theory.retirement`), so the pair is taken out, and the rest is the same derived flow with fewer neurons and directions:
steps grow, arrays shrink. A pair that does not come to rest within the tolerance stays in: correct, if slow.

Masked entries are zero (norms, weights, overlaps), which the derived drift treats as absent; when enough of them have
gathered, the arrays are cut to the next of a few sizes, so that few programs are compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

from dynamics.gradient_flow import LEVEL, IntegrationError, lowered_overlap_flow, overlaps_of
from dynamics.lowering import LoweredSystem, lower_scalar
from theory import Activation, InitialState, InputError, Teacher
from theory.activation import c as kernel_variable
from theory.retirement import pull_bound
from theory.retirement import x as overlap_symbol

Progress = Callable[[float, str], None]
State = dict[str, jax.Array]
Kernel = Callable[[jax.Array], jax.Array]
Profiles = tuple[tuple[Kernel, ...], ...]
#: Arrays are cut when at least this share of neurons or directions has left, but never below _SMALLEST.
_CUT, _SMALLEST = 0.3, 32
#: Steps between two looks by the host (progress, cuts).
_LEG = 64
_BISECTIONS = 40
#: Unaligned neurons may hold this many tolerances of a direction that is retired.
_LIGHT = 10.0


class Hits(NamedTuple):
    """Per direction: first time at ½ squared overlap, by which neuron, and at ½ of its norm (inf, −1, inf: never)."""

    half: jax.Array
    neuron: jax.Array
    fitted: jax.Array


class Carry(NamedTuple):
    """All that the integrator carries from step to step."""

    time: jax.Array
    step: jax.Array
    state: State
    a: jax.Array
    alive: jax.Array
    open: jax.Array
    hits: Hits
    pull: jax.Array
    neglected: jax.Array
    solver: Any
    jumped: jax.Array
    taken: jax.Array
    failed: jax.Array


@dataclass(frozen=True)
class RetiringResult:
    r"""A long gradient flow.

    Attributes:
        times: (S,) gradient-flow times of ½E(f*−f)².
        loss: (S,) the loss at `times`.
        half_time, neuron, loss_time: (P,) as in `FlowResult`.
        retired: (P,) time at which the direction's pair left the equations; inf if it never did.
        neglected: (P,) bound on the angle by which what retirement neglects had turned the direction's neuron when it
            reached ½: the relative error of its emergence time is at most about (J − 2) times this.
        steps: solver steps, rejected ones included. evaluations: of the right-hand side.
        flops: of the matrix products in those evaluations, 2·(m²P + m³ + m²P) each at the sizes of their time.
    """

    times: np.ndarray
    loss: np.ndarray
    half_time: np.ndarray
    neuron: np.ndarray
    loss_time: np.ndarray
    retired: np.ndarray
    neglected: np.ndarray
    steps: int
    evaluations: int
    flops: float


@lru_cache(maxsize=32)
def _lowered_bound(activation: Activation) -> tuple[Profiles, Kernel]:
    """The scalar profiles of what retirement neglects, and φ, as JAX functions (made once)."""
    bound = pull_bound(activation)
    profiles = tuple(tuple(lower_scalar(overlap_symbol, f) for f in side) for side in (bound.force, bound.mass))
    return profiles, lower_scalar(kernel_variable, activation.dual)


class _Flow(eqx.Module):
    """The masked flow of one activation with the solver that integrates it."""

    system: LoweredSystem = eqx.field(static=True)
    profiles: Profiles = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)
    even: bool = eqx.field(static=True)
    rtol: float = eqx.field(static=True)
    atol: float = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def drift(self, state: State, a: jax.Array, alive: jax.Array, open: jax.Array) -> State:
        return _masked(self.system.drift(state, {"a": a}), alive, open)

    @property
    def term(self) -> dfx.ODETerm:
        return dfx.ODETerm(lambda time, state, x: self.drift(state, *x))

    @property
    def controller(self) -> dfx.PIDController:
        # The largest error counts: a mean over a million overlaps would not see the one that is emerging.
        return dfx.PIDController(rtol=self.rtol, atol=self.atol, norm=optx.max_norm)

    def aligned(self, t: jax.Array, level: float) -> jax.Array:
        """(m, P) which neurons point at which direction, up to a squared overlap of `level`."""
        return (t**2 >= level) if self.even else (jnp.maximum(t, 0.0) ** 2 >= level)

    def pull(self, state: State, new: jax.Array) -> jax.Array:
        """(m,) bound on the force that retiring the directions `new` neglects, on each neuron that is left."""
        t = state["t"]
        forces, masses = ([f(t) for f in side] for side in self.profiles)
        per_direction = [jnp.where(new, state["r"] @ mass, 0.0) for mass in masses]
        total = sum(force @ share for force, share in zip(forces, per_direction, strict=True))
        return jnp.asarray(total)


def _masked(state: State, alive: jax.Array, open: jax.Array) -> State:
    """Zero wherever a retired neuron or direction is concerned."""
    return {
        "t": jnp.where(alive[:, None] & open[None, :], state["t"], 0.0),
        "c": jnp.where(alive[:, None] & alive[None, :], state["c"], 0.0),
        "r": jnp.where(alive, state["r"], 0.0),
    }


@eqx.filter_jit
def _leg(flow: _Flow, carry: Carry, target: jax.Array) -> Carry:
    """Some steps towards `target`: until it is reached, `_LEG` steps are done, or the solver gives up."""
    limit = carry.taken + _LEG

    def going(x: Carry) -> jax.Array:
        return (x.time < target) & (x.taken < limit) & ~x.failed

    return jax.lax.while_loop(going, lambda x: _one_step(flow, x, target), carry)


def _one_step(flow: _Flow, x: Carry, target: jax.Array) -> Carry:
    solver, controller, args = dfx.Tsit5(), flow.controller, (x.a, x.alive, x.open)
    end = jnp.minimum(x.time + x.step, target)
    after, error, _, solver_state, _ = solver.step(flow.term, x.time, end, x.state, args, x.solver, x.jumped)
    order = solver.order(flow.term)
    memory = (jnp.asarray(1.0), jnp.asarray(1.0), jnp.asarray(True))
    keep, _, proposed, _, _, _ = controller.adapt_step_size(x.time, end, x.state, after, args, error, order, memory)
    step = proposed - jnp.where(keep, end, x.time)
    # A step cut short by the target says nothing against the longer one that was planned.
    step = jnp.where(keep & (end >= target), jnp.maximum(step, x.step), step)
    failed = ~(step > 1e-14 * jnp.maximum(x.time, 1e-300)) | ~jnp.isfinite(step)
    tried = x._replace(step=step, taken=x.taken + 1, failed=failed)
    return jax.lax.cond(
        keep,
        lambda y: _accepted(flow, y, end, after, solver_state),
        lambda y: y._replace(jumped=jnp.asarray(False)),
        tried,
    )


def _accepted(flow: _Flow, x: Carry, end: jax.Array, after: State, solver_state: Any) -> Carry:
    """Record what was crossed on the way, then retire what has come to rest."""
    hits = _crossings(flow, x, end, after)
    neglected = x.neglected + (end - x.time) * jnp.where(x.alive, x.pull, 0.0)
    moved = x._replace(
        time=end, state=after, solver=solver_state, hits=hits, neglected=neglected, jumped=jnp.asarray(False)
    )
    done, members = _at_rest(flow, after, x.a, x.open)
    return jax.lax.cond(jnp.any(done), lambda y: _retire(flow, y, done, members), lambda y: y, moved)


def _observed(flow: _Flow, state: State, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(m, P) squared overlaps and (P,) learned shares Σ_k r_k t_kq² / a_q (0 where there is no direction)."""
    squares = state["t"] ** 2 if flow.even else jnp.maximum(state["t"], 0.0) ** 2
    return squares, state["r"] @ squares / jnp.where(a > 0, a, jnp.inf)


def _crossings(flow: _Flow, x: Carry, end: jax.Array, after: State) -> Hits:
    """Times at which overlaps and shares cross ½ within the step, on the cubic through values and slopes at its ends."""
    squares, shares = _observed(flow, after, x.a)
    neuron = jnp.argmax(squares, axis=0)
    top = jnp.take_along_axis(squares, neuron[None], axis=0)[0]
    crossed, fitted = (top >= LEVEL) & ~jnp.isfinite(x.hits.half), (shares >= LEVEL) & ~jnp.isfinite(x.hits.fitted)

    def locate() -> Hits:
        def view(state: State) -> jax.Array:
            seen, share = _observed(flow, state, x.a)
            return jnp.stack([jnp.take_along_axis(seen, neuron[None], axis=0)[0], share])

        ends = []
        for state in (x.state, after):
            ends.append(jax.jvp(view, (state,), (flow.drift(state, x.a, x.alive, x.open),)))
        times = x.time + (end - x.time) * _root(ends[0], ends[1], end - x.time)
        return Hits(
            jnp.where(crossed, times[0], x.hits.half),
            jnp.where(crossed, neuron, x.hits.neuron),
            jnp.where(fitted, times[1], x.hits.fitted),
        )

    return jax.lax.cond(jnp.any(crossed | fitted), locate, lambda: x.hits)


def _root(start: tuple[jax.Array, jax.Array], end: tuple[jax.Array, jax.Array], width: jax.Array) -> jax.Array:
    """Where on [0, 1] the Hermite cubic crosses `LEVEL`, by bisection."""
    (y0, f0), (y1, f1) = start, end

    def cubic(s: jax.Array) -> jax.Array:
        slope0, slope1 = width * f0 * s * (1 - s) ** 2, width * f1 * s**2 * (s - 1)
        return (1 + 2 * s) * (1 - s) ** 2 * y0 + s**2 * (3 - 2 * s) * y1 + slope0 + slope1

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        below = cubic(middle) < LEVEL
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    return jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros_like(y0), jnp.ones_like(y0)))[1]


def _at_rest(flow: _Flow, state: State, a: jax.Array, open: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""(P,) directions at rest, and (m, P) the neurons aligned with them.

    At rest a fitted neuron obeys $\sum_kr_k\varphi(t_{kq})=a_q\varphi(1)$, light neurons that lean on the direction
    included; what those hold must be small, since they stay behind.
    """
    members = flow.aligned(state["t"], 1 - flow.tolerance) & open[None, :]
    share = state["r"][:, None] * flow.kernel(state["t"]) / flow.kernel(jnp.asarray(1.0))
    held, leaning = jnp.sum(share, axis=0), jnp.sum(jnp.where(members, 0.0, jnp.abs(share)), axis=0)
    rest = (jnp.abs(held - a) <= flow.tolerance * a) & (leaning <= _LIGHT * flow.tolerance * a)
    return open & rest & jnp.any(members, axis=0), members


def _retire(flow: _Flow, x: Carry, done: jax.Array, members: jax.Array) -> Carry:
    leaving = jnp.any(members & done[None, :], axis=1)
    alive, open = x.alive & ~leaving, x.open & ~done
    left = {**x.state, "r": jnp.where(leaving, 0.0, x.state["r"])}
    pull = x.pull + flow.pull(left, done)
    state = _masked(x.state, alive, open)
    return x._replace(
        alive=alive, open=open, a=jnp.where(done, 0.0, x.a), state=state, pull=pull, jumped=jnp.asarray(True)
    )


@eqx.filter_jit
def _start(flow: _Flow, state: State, a: jax.Array) -> Carry:
    width, count = state["t"].shape
    never = jnp.full(count, jnp.inf)
    alive, open = jnp.ones(width, bool), jnp.ones(count, bool)
    squares, shares = _observed(flow, state, a)
    half = jnp.where(squares.max(axis=0) >= LEVEL, 0.0, never)
    hits = Hits(half, jnp.where(jnp.isfinite(half), squares.argmax(axis=0), -1), jnp.where(shares >= LEVEL, 0.0, never))
    zero = jnp.asarray(0.0)
    step, _ = flow.controller.init(
        flow.term, zero, zero + 1.0, state, None, (a, alive, open), dfx.Tsit5().func, dfx.Tsit5().order(flow.term)
    )
    step = jnp.asarray(step)
    solver = dfx.Tsit5().init(flow.term, zero, step, state, (a, alive, open))
    nothing = jnp.zeros(width)
    return Carry(
        zero, step, state, a, alive, open, hits, nothing, nothing, solver, jnp.asarray(True), jnp.asarray(0),
        jnp.asarray(False),
    )  # fmt: skip


@eqx.filter_jit
def _loss(flow: _Flow, carry: Carry) -> jax.Array:
    return flow.system.observable("loss", carry.state, {"a": carry.a})


@dataclass
class _Ledger:
    """What is kept on the host, in the numbering of the whole problem, while arrays shrink."""

    neurons: np.ndarray
    directions: np.ndarray
    hits: dict[str, np.ndarray]
    retired: np.ndarray
    neglected: np.ndarray
    flops: float = 0.0
    counted: int = 0
    saved: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def empty(cls, width: int, count: int) -> "_Ledger":
        never = np.full(count, np.inf)
        hits = {"half": never.copy(), "neuron": np.full(count, -1), "fitted": never.copy()}
        return cls(np.arange(width), np.arange(count), hits, never.copy(), np.zeros(count))

    def note(self, carry: Carry) -> None:
        """Copy hits (once) and retirements, and count the work done since the last note."""
        half, neuron, fitted = (np.asarray(x)[: len(self.directions)] for x in carry.hits)
        new = np.isfinite(half) & ~np.isfinite(self.hits["half"][self.directions])
        self.hits["half"][self.directions[new]] = half[new]
        self.hits["neuron"][self.directions[new]] = self.neurons[neuron[new]]
        self.neglected[self.directions[new]] = np.asarray(carry.neglected)[neuron[new]]
        self.hits["fitted"][self.directions] = np.minimum(self.hits["fitted"][self.directions], fitted)
        gone = ~np.asarray(carry.open)[: len(self.directions)]
        self.retired[self.directions[gone]] = np.minimum(self.retired[self.directions[gone]], float(carry.time))
        m, count = carry.state["t"].shape
        taken = int(carry.taken)
        self.flops += 6.0 * (taken - self.counted) * 2 * (2 * m * m * count + m**3)
        self.counted = taken


def _size(count: int, whole: int) -> int:
    """The smallest of the sizes whole·(1 − _CUT)^i, at least `_SMALLEST`, that holds `count`."""
    size = whole
    while size > _SMALLEST and max(_SMALLEST, int(np.ceil(size * (1 - _CUT)))) >= count:
        size = max(_SMALLEST, int(np.ceil(size * (1 - _CUT))))
        if size == _SMALLEST:
            break
    return size


def _cut(flow: _Flow, carry: Carry, ledger: _Ledger) -> Carry:
    """The same state in smaller arrays, if enough has retired."""
    alive, open = np.asarray(carry.alive), np.asarray(carry.open)
    m, count = _size(int(alive.sum()), alive.size), _size(int(open.sum()), open.size)
    if (m, count) == carry.state["t"].shape:
        return carry
    k, q = _kept(alive, m), _kept(open, count)
    ledger.neurons, ledger.directions = ledger.neurons[k], ledger.directions[q]
    state = {
        "t": carry.state["t"][k][:, q],
        "c": carry.state["c"][k][:, k],
        "r": carry.state["r"][k],
    }
    hits = _renumbered(carry.hits, k, q)
    small = carry._replace(
        state=state, a=carry.a[q], alive=carry.alive[k], open=carry.open[q], hits=hits, pull=carry.pull[k],
        neglected=carry.neglected[k], jumped=jnp.asarray(True),
    )  # fmt: skip
    solver = dfx.Tsit5().init(flow.term, small.time, small.time + small.step, state, (small.a, small.alive, small.open))
    return small._replace(solver=solver)


def _kept(mask: np.ndarray, size: int) -> np.ndarray:
    """Indices of all that is left, filled up with retired ones (which are zero) to `size`, in order."""
    return np.sort(np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])[:size])


def _renumbered(hits: Hits, k: np.ndarray, q: np.ndarray) -> Hits:
    """Hits of the directions that stay; a neuron that left is no longer named here (the ledger has it)."""
    place = {int(old): new for new, old in enumerate(k)}
    neuron = np.array([place.get(int(old), 0) for old in np.asarray(hits.neuron)[q]])
    return Hits(hits.half[q], jnp.asarray(neuron), hits.fitted[q])


def retiring_flow(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    t_end: float,
    times: np.ndarray | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    tolerance: float = 1e-3,
    max_steps: int = 200_000,
    progress: Progress | None = None,
) -> RetiringResult:
    r"""Gradient flow of $\tfrac12E(f_*-f)^2$ to `t_end`, learned pairs being retired on the way.

    Args:
        times: times at which the loss is recorded, increasing, within [0, t_end]; 201 in geometric progression by
            default, as staircases are looked at on logarithmic axes.
        rtol, atol: tolerances per step, in the largest component.
        tolerance: a direction is retired when its aligned neurons ($1-t_{kq}^2$ below this) are at rest, up to this
            share of its weight. 0 retires nothing: the plain coupled flow by the same integrator.
        max_steps: give up beyond this many solver steps.

    Returns: `RetiringResult`. Cost per right-hand side: m²P + m³ + m²P of what is left.

    Raises:
        InputError: t_end, times or tolerance out of range, or an initial state of another teacher.
        IntegrationError: the step size fell to rounding, or `max_steps` were not enough.
    """
    grid = _checked_times(t_end, times, tolerance)
    if initial.overlap.shape[1] != teacher.width:
        raise InputError(
            f"initial has {initial.overlap.shape[1]} directions, teacher {teacher.width}: draw it for this teacher"
        )
    lowered, (profiles, kernel) = lowered_overlap_flow(activation), _lowered_bound(activation)
    flow = _Flow(lowered, profiles, kernel, activation.parity == "even", rtol, atol, tolerance)
    carry = _start(flow, overlaps_of(initial), jnp.asarray(teacher.a))
    ledger = _Ledger.empty(*initial.overlap.shape)
    for target in [*grid, *([t_end] if grid[-1] < t_end else [])]:
        while float(carry.time) < target:
            carry = _leg(flow, carry, jnp.asarray(target))
            ledger.note(carry)
            _complain(carry, max_steps, t_end)
            carry = _cut(flow, carry, ledger)
            if progress is not None:
                learned = int(np.isfinite(ledger.hits["half"]).sum())
                progress(
                    float(carry.time) / t_end, f"time {float(carry.time):.4g}: {learned} of {teacher.width} learned"
                )
        if target <= grid[-1]:
            ledger.saved.append((float(carry.time), float(_loss(flow, carry))))
    saved_times, loss = np.array(ledger.saved).T
    return RetiringResult(
        saved_times, loss, ledger.hits["half"], ledger.hits["neuron"], ledger.hits["fitted"], ledger.retired,
        ledger.neglected, ledger.counted, 6 * ledger.counted, ledger.flops,
    )  # fmt: skip


def _checked_times(t_end: float, times: np.ndarray | None, tolerance: float) -> np.ndarray:
    if not (np.isfinite(t_end) and t_end > 0):
        raise InputError(f"t_end is {t_end!r}: give a positive finite time")
    if not 0 <= tolerance < 0.5:
        raise InputError(f"tolerance is {tolerance!r}: give a share between 0 and 0.5")
    grid = np.geomspace(1e-3 * t_end, t_end, 201) if times is None else np.asarray(times, dtype=float)
    if grid.ndim != 1 or grid.size == 0 or grid[0] < 0 or grid[-1] > t_end * (1 + 1e-12) or np.any(np.diff(grid) <= 0):
        raise InputError(f"times must increase within [0, t_end = {t_end:g}]: got {grid.size} values")
    return np.minimum(grid, t_end)


def _complain(carry: Carry, max_steps: int, t_end: float) -> None:
    if bool(carry.failed):
        raise IntegrationError(f"gradient flow stopped at time {float(carry.time):g} of {t_end:g}: step size vanished")
    if int(carry.taken) >= max_steps:
        raise IntegrationError(
            f"gradient flow stopped at time {float(carry.time):g} of {t_end:g}: max_steps = {max_steps} are done"
        )
