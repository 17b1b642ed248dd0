r"""The coupled overlap flow with hundreds of directions: learned pairs leave the equations.

What makes a long gradient flow stiff is what has been learned: a fitted neuron relaxes at the rate of its weight while
the next direction takes $d^{J/2-1}$ times longer. But a fitted neuron cancels its teacher for all others
(`theory.additive.retirement`), so the pair is taken out, and the rest is the same derived flow with fewer neurons and
directions: steps grow, arrays shrink. A pair that does not come to rest within the tolerance stays in: correct, if slow.

What makes it wide is that everyone acts on everyone. But a student acts in proportion to its mass, so only those that are
growing or fitted (sources) act at every evaluation (`theory.additive.sourced_flow`); the force of the many light ones is
kept, and computed anew whenever they have grown, shrunk or turned by a share of themselves.

Masked entries are zero (norms, weights, overlaps), which the derived drift treats as absent; when enough of them have
gathered, the arrays are cut to the next of a few sizes, so that few programs are compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

from dynamics.additive.gradient_flow import LEVEL, lowered_overlap_flow
from dynamics.core.checks import check_start, record_times
from dynamics.core.interrupted import IntegrationError, Progress
from dynamics.core.lowering import LoweredSystem, State, lower, lower_kernel, lower_scalar
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive
from dynamics.core.trajectory import Plotted, ends, time_axis, variable
from theory import Activation, InitialState, InputError, Teacher
from theory.additive.retirement import pull_bound
from theory.additive.retirement import x as overlap_symbol
from theory.additive.sourced_flow import sourced_flow

if TYPE_CHECKING:
    import xarray as xr

Kernel = Callable[[jax.Array], jax.Array]
Profiles = tuple[tuple[Kernel, ...], ...]
#: Arrays are cut when at least this share of neurons or directions has left, but never below _SMALLEST.
_CUT, _SMALLEST = 0.5, 32
#: Room for sources at first; doubled whenever it does not suffice.
_SOURCES = 32
#: Steps between two looks by the host (progress, cuts).
_LEG = 64
#: The kept force of light students is computed anew once they have changed by this share of their mass.
_STALE = 0.1
_BISECTIONS = 40
#: Unaligned neurons may hold this many tolerances of a direction that is retired.
_LIGHT = 10.0


class Hits(NamedTuple):
    """Per direction: first time at ½ squared overlap, by which neuron, at ½ of its norm, and retired (inf or −1: never)."""

    half: jax.Array
    neuron: jax.Array
    fitted: jax.Array
    retired: jax.Array


class Cast(NamedTuple):
    """Who takes part: weights (0: retired), neurons and directions that are left, and who of them are sources.

    `sources` are S indices of neurons, filled up with 0; `acting` says which of them are meant. `kept` is the force of all
    others as it was when last computed: on t and u, and on ln r; and `then` where they were, r being 0 of sources.
    """

    a: jax.Array
    alive: jax.Array
    open: jax.Array
    sources: jax.Array
    acting: jax.Array
    kept: State
    then: State


class Carry(NamedTuple):
    """All that the integrator carries from step to step."""

    time: jax.Array
    step: jax.Array
    state: State
    cast: Cast
    hits: Hits
    pull: jax.Array
    neglected: jax.Array
    solver: Any
    jumped: jax.Array
    taken: jax.Array
    failed: jax.Array
    crowded: jax.Array
    stale: jax.Array


@dataclass(frozen=True)
class RetiringResult(Plotted):
    r"""A long gradient flow.

    Attributes:
        times: (S,) gradient-flow times of ½E(f*−f)².
        loss: (S,) the loss at `times`.
        half_time, neuron, loss_time: (P,) as in `FlowResult`; of an odd activation, by positive overlaps alone.
        retired: (P,) time at which the direction's pair left the equations; inf if it never did.
        neglected: (P,) bound on the angle by which what retirement neglects had turned the direction's neuron when it
            reached ½: the relative error of its emergence time is at most about (J − 2) times this.
        light_share: (P,) forces of light students over those of all others on the overlap of the direction's neuron with it,
            at most 1, averaged over the time to ½: leaving them out would change its `half_time` by about this share, where
            what they do to masses does not matter.
        share: (S, P) learned share $\sum_kr_kt_{kq}^2/a_q$ of each direction at `times`, of the same overlaps (1 once its
            pair has left).
        steps: solver steps, rejected ones included. evaluations: of the right-hand side.
        flops: of those evaluations, 4·m·S·(P + rank) for the matrix products and 16·m·(P + rank) for everything else, at
            the sizes of their time.
    """

    times: np.ndarray
    loss: np.ndarray
    half_time: np.ndarray
    neuron: np.ndarray
    loss_time: np.ndarray
    retired: np.ndarray
    neglected: np.ndarray
    light_share: np.ndarray
    share: np.ndarray
    steps: int
    evaluations: int
    flops: float

    @property
    def dataset(self) -> "xr.Dataset":  # type: ignore[override]
        """``loss`` on (time), ``share`` on (time, direction), and the times of directions."""
        import xarray as xr

        return xr.Dataset(
            {
                "loss": variable("time", self.loss, "population loss ½E(f*−f)²"),
                "share": variable(("time", "direction"), self.share, "learned share of the direction's weight"),
                **ends(half_time=self.half_time, loss_time=self.loss_time),
            },
            time_axis(self.times) | {"direction": np.arange(1, len(self.half_time) + 1)},
        )


@lru_cache(maxsize=32)
def _lowered_bound(activation: Activation) -> tuple[Profiles, Kernel]:
    """The scalar profiles of what retirement neglects, and φ, as JAX functions (made once)."""
    bound = pull_bound(activation)
    profiles = tuple(tuple(lower_scalar(overlap_symbol, f) for f in side) for side in (bound.force, bound.mass))
    return profiles, lower_kernel(activation)


@lru_cache(maxsize=32)
def _lowered(activation: Activation) -> LoweredSystem:
    return lower(sourced_flow(activation))


class _Flow(eqx.Module):
    """The masked flow of one activation with the solver that integrates it; `heavy` is the least mass of a source."""

    system: LoweredSystem = eqx.field(static=True)
    whole: LoweredSystem = eqx.field(static=True)
    profiles: Profiles = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)
    parity: str | None = eqx.field(static=True)
    rtol: float = eqx.field(static=True)
    atol: float = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    heavy: jax.Array

    def drift(self, state: State, cast: Cast) -> State:
        """Of the directions that the rows stand for, along the sphere: their length is no coordinate, and nothing moves it.

        (Of rows taken as they are, a length that rounding has changed goes on changing at a rate of order one: it grows
        wherever a student shrinks.)
        """
        state = _on_sphere(state)
        parameters = {f"source_{name}": state[name][cast.sources] for name in ("t", "u")}
        parameters["source_r"] = jnp.where(cast.acting, state["r"][cast.sources], 0.0)
        drift = self.system.drift(state, {"a": cast.a, "light": _silent(state, cast), **parameters})
        kept = {**cast.kept, "r": state["r"] * cast.kept["r"]}
        return _masked(_tangent({name: drift[name] + kept[name] for name in drift}, state), cast.alive)

    def stale(self, state: State, cast: Cast) -> jax.Array:
        """Whether the light students have grown, shrunk, turned, become sources or left by `_STALE` of their mass."""
        now, then = _silent(state, cast) * state["r"], cast.then["r"]
        moved = {name: state[name] - cast.then[name] for name in ("t", "u")}
        turned = jnp.sqrt(_along(moved, moved))[:, 0]
        return jnp.sum(jnp.abs(now - then) + jnp.minimum(now, then) * turned) > _STALE * jnp.sum(then)

    def sources(self, state: State, alive: jax.Array, room: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(room,) indices of the sources, which of them are meant, and whether there are more than that."""
        strong = alive & (state["r"] > self.heavy)
        count = jnp.sum(strong)
        return jnp.nonzero(strong, size=room, fill_value=0)[0], jnp.arange(room) < count, count > room

    @property
    def term(self) -> dfx.ODETerm:
        return dfx.ODETerm(lambda time, state, cast: self.drift(state, cast))

    @property
    def controller(self) -> dfx.PIDController:
        # The largest error counts: a mean over a million overlaps would not see the one that is emerging.
        return dfx.PIDController(rtol=self.rtol, atol=self.atol, norm=optx.max_norm)

    def aligned(self, t: jax.Array, level: float) -> jax.Array:
        """(m, P) which neurons may fit which direction, up to a squared overlap of `level`: of −e, only even ones."""
        return (t**2 >= level) if self.parity == "even" else (jnp.maximum(t, 0.0) ** 2 >= level)

    def pull(self, state: State, new: jax.Array) -> jax.Array:
        """(m,) bound on the force that retiring the directions `new` neglects, on each neuron that is left."""
        t = state["t"]
        forces, masses = ([f(t) for f in side] for side in self.profiles)
        per_direction = [jnp.where(new, state["r"] @ mass, 0.0) for mass in masses]
        total = sum(force @ share for force, share in zip(forces, per_direction, strict=True))
        return jnp.asarray(total)


def _silent(state: State, cast: Cast) -> jax.Array:
    """(m,) 1 for a student that is no source, else 0."""
    return jnp.ones_like(state["r"]).at[cast.sources].add(-1.0 * cast.acting)


def _any_light(state: State, cast: Cast) -> jax.Array:
    return jnp.any(_silent(state, cast) * state["r"] > 0)


def _masked(state: State, alive: jax.Array) -> State:
    """Zero wherever a retired neuron is concerned. Overlaps with a retired direction are coordinates like others."""
    return {
        "t": jnp.where(alive[:, None], state["t"], 0.0),
        "u": jnp.where(alive[:, None], state["u"], 0.0),
        "r": jnp.where(alive, state["r"], 0.0),
    }


def _along(x: State, y: State) -> jax.Array:
    """(m, 1) inner products of the rows (t, u) of two states."""
    return jnp.sum(x["t"] * y["t"], axis=1, keepdims=True) + jnp.sum(x["u"] * y["u"], axis=1, keepdims=True)


def _on_sphere(state: State) -> State:
    """The state with rows (t, u) of unit length; rows that are zero (retired) stay zero."""
    length = jnp.sqrt(_along(state, state))
    scale = 1.0 / jnp.where(length > 0, length, 1.0)
    return {**state, "t": state["t"] * scale, "u": state["u"] * scale}


def _tangent(velocity: State, state: State) -> State:
    """The part of a velocity across the rows of a state on the sphere."""
    radial = _along(velocity, state)
    return {**velocity, "t": velocity["t"] - radial * state["t"], "u": velocity["u"] - radial * state["u"]}


@eqx.filter_jit
def _leg(flow: _Flow, carry: Carry, target: jax.Array) -> Carry:
    """Some steps towards `target`: until it is reached, `_LEG` steps are done, a look is due, or the solver gives up."""
    limit = carry.taken + _LEG

    def going(x: Carry) -> jax.Array:
        return (x.time < target) & (x.taken < limit) & ~x.failed & ~x.crowded & ~x.stale

    return jax.lax.while_loop(going, lambda x: _one_step(flow, x, target), carry)


def _one_step(flow: _Flow, x: Carry, target: jax.Array) -> Carry:
    solver, controller = dfx.Tsit5(), flow.controller
    end = jnp.minimum(x.time + x.step, target)
    after, error, _, solver_state, _ = solver.step(flow.term, x.time, end, x.state, x.cast, x.solver, x.jumped)
    order = solver.order(flow.term)
    memory = (jnp.asarray(1.0), jnp.asarray(1.0), jnp.asarray(True))
    keep, _, proposed, _, _, _ = controller.adapt_step_size(x.time, end, x.state, after, x.cast, error, order, memory)
    step = proposed - jnp.where(keep, end, x.time)
    # A step cut short by the target says nothing against the longer one that was planned.
    step = jnp.where(keep & (end >= target), jnp.maximum(step, x.step), step)
    failed = ~(step > 1e-14 * jnp.maximum(x.time, 1e-300)) | ~jnp.isfinite(step)
    tried = x._replace(step=step, taken=x.taken + 1, failed=failed)
    return jax.lax.cond(
        keep,
        lambda y: _accepted(flow, y, end, _on_sphere(after), solver_state),
        lambda y: y._replace(jumped=jnp.asarray(False)),
        tried,
    )


def _accepted(flow: _Flow, x: Carry, end: jax.Array, after: State, solver_state: Any) -> Carry:
    """Record what was crossed on the way, then retire what has come to rest."""
    hits = _crossings(flow, x, end, after)
    neglected = x.neglected + (end - x.time) * jnp.where(x.cast.alive, x.pull, 0.0)
    moved = x._replace(
        time=end, state=after, solver=solver_state, hits=hits, neglected=neglected, jumped=jnp.asarray(False)
    )
    done, members = _at_rest(flow, after, x.cast.a, x.cast.open)
    rest = jax.lax.cond(jnp.any(done), lambda y: _retire(flow, y, done, members), lambda y: y, moved)
    return _recast(flow, rest, x.cast.sources.size)


def _recast(flow: _Flow, x: Carry, room: int) -> Carry:
    """The same with its sources chosen anew."""
    sources, acting, crowded = flow.sources(x.state, x.cast.alive, room)
    same = jnp.array_equal(sources, x.cast.sources) & jnp.array_equal(acting, x.cast.acting)
    cast = x.cast._replace(sources=sources, acting=acting)
    stale = x.stale | flow.stale(x.state, cast)
    return x._replace(cast=cast, crowded=crowded, jumped=x.jumped | ~same, stale=stale)


def _observed(flow: _Flow, state: State, a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(m, P) squared overlaps and (P,) learned shares Σ_k r_k t_kq² / a_q (0 where there is no direction)."""
    squares = jnp.maximum(state["t"], 0.0) ** 2 if flow.parity == "odd" else state["t"] ** 2
    return squares, state["r"] @ squares / jnp.where(a > 0, a, jnp.inf)


def _crossings(flow: _Flow, x: Carry, end: jax.Array, after: State) -> Hits:
    """Times at which overlaps and shares cross ½ within the step, on the cubic through values and slopes at its ends."""
    squares, shares = _observed(flow, after, x.cast.a)
    neuron = jnp.argmax(squares, axis=0)
    top = jnp.take_along_axis(squares, neuron[None], axis=0)[0]
    crossed, fitted = (top >= LEVEL) & ~jnp.isfinite(x.hits.half), (shares >= LEVEL) & ~jnp.isfinite(x.hits.fitted)

    def locate() -> Hits:
        def view(state: State) -> jax.Array:
            seen, share = _observed(flow, state, x.cast.a)
            return jnp.stack([jnp.take_along_axis(seen, neuron[None], axis=0)[0], share])

        ends = []
        for state in (x.state, after):
            ends.append(jax.jvp(view, (state,), (flow.drift(state, x.cast),)))
        times = x.time + (end - x.time) * _root(ends[0], ends[1], end - x.time)
        return Hits(
            jnp.where(crossed, times[0], x.hits.half),
            jnp.where(crossed, neuron, x.hits.neuron),
            jnp.where(fitted, times[1], x.hits.fitted),
            x.hits.retired,
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
    alive, open = x.cast.alive & ~leaving, x.cast.open & ~done
    left = {**x.state, "r": jnp.where(leaving, 0.0, x.state["r"])}
    pull = x.pull + flow.pull(left, done)
    state = _masked(x.state, alive)
    cast = x.cast._replace(alive=alive, open=open, a=jnp.where(done, 0.0, x.cast.a))
    hits = x.hits._replace(retired=jnp.where(done, x.time, x.hits.retired))
    return x._replace(cast=cast, state=state, pull=pull, hits=hits, jumped=jnp.asarray(True))


@eqx.filter_jit
def _start(flow: _Flow, state: State, a: jax.Array, room: int) -> Carry:
    width, count = state["t"].shape
    never = jnp.full(count, jnp.inf)
    alive, open = jnp.ones(width, bool), jnp.ones(count, bool)
    squares, shares = _observed(flow, state, a)
    half = jnp.where(squares.max(axis=0) >= LEVEL, 0.0, never)
    neuron, fitted = jnp.where(jnp.isfinite(half), squares.argmax(axis=0), -1), jnp.where(shares >= LEVEL, 0.0, never)
    hits = Hits(half, neuron, fitted, never)
    zero, solver = jnp.asarray(0.0), dfx.Tsit5()
    sources, acting, crowded = flow.sources(state, alive, room)
    zeros = {name: jnp.zeros_like(x) for name, x in state.items()}
    cast = Cast(a, alive, open, sources, acting, kept=zeros, then=zeros)
    step, _ = flow.controller.init(flow.term, zero, zero + 1.0, state, None, cast, solver.func, solver.order(flow.term))
    step = jnp.asarray(step)
    nothing = jnp.zeros(width)
    return Carry(
        zero, step, state, cast, hits, nothing, nothing, solver.init(flow.term, zero, step, state, cast),
        jnp.asarray(True), jnp.asarray(0), jnp.asarray(False), crowded, _any_light(state, cast),
    )  # fmt: skip


@eqx.filter_jit
def _seen(flow: _Flow, carry: Carry) -> tuple[jax.Array, jax.Array]:
    """The loss, and the learned shares of the directions that are left."""
    t, u, r = (carry.state[name] for name in ("t", "u", "r"))
    overlaps = {"t": t, "c": t @ t.T + u @ u.T, "r": r}
    return flow.whole.observable("loss", overlaps, {"a": carry.cast.a}), _observed(flow, carry.state, carry.cast.a)[1]


@eqx.filter_jit
def _look(flow: _Flow, carry: Carry) -> tuple[Carry, jax.Array]:
    """The same with the force of the light students computed anew; and (m, P) its share of that of all others on overlaps."""
    nothing = {name: jnp.zeros_like(x) for name, x in carry.state.items()}
    cast = carry.cast._replace(kept=nothing)
    whole = cast._replace(sources=jnp.arange(cast.alive.size), acting=cast.alive)
    everyone, few = flow.drift(carry.state, whole), flow.drift(carry.state, cast)
    kept = {name: everyone[name] - few[name] for name in few}
    mass = carry.state["r"]
    kept["r"] = jnp.where(mass > 0, kept["r"] / jnp.where(mass > 0, mass, 1.0), 0.0)
    along, missing = jnp.abs(few["t"]), jnp.abs(kept["t"])
    share = jnp.where(missing >= along, 1.0 * (missing > 0), missing / jnp.where(along == 0, 1.0, along))
    cast = cast._replace(kept=kept, then={**carry.state, "r": _silent(carry.state, cast) * mass})
    return carry._replace(cast=cast, jumped=jnp.asarray(True), stale=jnp.asarray(False)), share


@dataclass
class _Ledger:
    """What is kept on the host, in the numbering of the whole problem, while arrays shrink."""

    neurons: np.ndarray
    directions: np.ndarray
    hits: dict[str, np.ndarray]
    retired: np.ndarray
    neglected: np.ndarray
    light: np.ndarray
    left_out: np.ndarray
    shared: np.ndarray
    noted: float = 0.0
    flops: float = 0.0
    counted: int = 0

    @classmethod
    def empty(cls, width: int, count: int) -> "_Ledger":
        never = np.full(count, np.inf)
        hits = {"half": never.copy(), "neuron": np.full(count, -1), "fitted": never.copy()}
        return cls(
            np.arange(width),
            np.arange(count),
            hits,
            never.copy(),
            np.zeros(count),
            np.zeros((width, count)),
            np.zeros(count),
            np.zeros((width, count)),
        )

    @property
    def learned(self) -> int:
        """How many directions."""
        return int(np.isfinite(self.hits["half"]).sum())

    def whole(self, shares: np.ndarray) -> np.ndarray:
        """The learned shares of all directions of the whole problem; 1 of those that have left."""
        every = np.ones(self.retired.size)
        kept = ~np.isfinite(self.retired[self.directions])
        every[self.directions[kept]] = shares[kept]
        return every

    def note(self, carry: Carry) -> None:
        """Copy hits (once) and retirements, and count the work done since the last note."""
        now = float(carry.time)
        self.light[np.ix_(self.neurons, self.directions)] += self.shared * (now - self.noted)
        self.noted = now
        half, neuron, fitted, retired = (np.asarray(x)[: len(self.directions)] for x in carry.hits)
        new = np.isfinite(half) & ~np.isfinite(self.hits["half"][self.directions])
        self.hits["half"][self.directions[new]] = half[new]
        self.hits["neuron"][self.directions[new]] = self.neurons[neuron[new]]
        self.neglected[self.directions[new]] = np.asarray(carry.neglected)[neuron[new]]
        left_out = self.light[self.neurons[neuron[new]], self.directions[new]]
        self.left_out[self.directions[new]] = left_out / np.maximum(half[new], 1e-300)
        self.hits["fitted"][self.directions] = np.minimum(self.hits["fitted"][self.directions], fitted)
        self.retired[self.directions] = np.minimum(self.retired[self.directions], retired)
        m, rank = carry.state["u"].shape
        taken, room = int(carry.taken), carry.cast.sources.size
        self.flops += 6.0 * (taken - self.counted) * m * (4 * room + 16) * (carry.state["t"].shape[1] + rank)
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
    """The same state in smaller arrays if enough has retired, and with more room for sources if they need it."""
    alive, open = np.asarray(carry.cast.alive), np.asarray(carry.cast.open)
    m, count = _size(int(alive.sum()), alive.size), _size(int(open.sum()), open.size)
    strong = int(np.sum(alive & (np.asarray(carry.state["r"]) > float(flow.heavy))))
    room = _room(carry.cast.sources.size, strong, m)
    if (m, count, room) == (*carry.state["t"].shape, carry.cast.sources.size):
        return carry
    k, q = _kept(alive, m), _kept(open, count)
    ledger.neurons, ledger.directions = ledger.neurons[k], ledger.directions[q]
    gone = np.setdiff1d(np.arange(open.size), q)
    residual = np.concatenate([np.asarray(carry.state["u"])[k], np.asarray(carry.state["t"])[k][:, gone]], axis=1)
    state = {"t": carry.state["t"][k][:, q], "u": _compressed(residual), "r": carry.state["r"][k]}
    nothing = {name: jnp.zeros_like(x) for name, x in state.items()}
    old = carry.cast
    cast = old._replace(a=old.a[q], alive=old.alive[k], open=old.open[q], kept=nothing, then=nothing)
    small = carry._replace(
        state=state,
        cast=cast,
        hits=_renumbered(carry.hits, k, q),
        pull=carry.pull[k],
        neglected=carry.neglected[k],
    )
    small = _recast(flow, small, room)
    small = small._replace(jumped=jnp.asarray(True), stale=_any_light(small.state, small.cast))
    solver = dfx.Tsit5().init(flow.term, small.time, small.time + small.step, state, small.cast)
    return small._replace(solver=solver)


def _room(room: int, strong: int, width: int) -> int:
    """Twice the room for sources until all fit, at most everyone."""
    while room < strong:
        room *= 2
    return min(room, width)


def _compressed(u: np.ndarray) -> jax.Array:
    """The same residuals in a basis of their own span, if that is smaller: u = LQ with orthonormal rows of Q."""
    m, rank = u.shape
    return jnp.asarray(u if m >= rank else np.transpose(np.linalg.qr(u.T)[1]))


def _kept(mask: np.ndarray, size: int) -> np.ndarray:
    """Indices of all that is left, filled up with retired ones (which are zero) to `size`, in order."""
    return np.sort(np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])[:size])


def _renumbered(hits: Hits, k: np.ndarray, q: np.ndarray) -> Hits:
    """Hits of the directions that stay; a neuron that left is no longer named here (the ledger has it)."""
    place = {int(old): new for new, old in enumerate(k)}
    neuron = np.array([place.get(int(old), 0) for old in np.asarray(hits.neuron)[q]])
    return Hits(hits.half[q], jnp.asarray(neuron), hits.fitted[q], hits.retired[q])


@double_precision
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
    light: float = 0.01,
    max_steps: int = 200_000,
    progress: Progress | None = None,
) -> RetiringResult:
    r"""Gradient flow of $\tfrac12E(f_*-f)^2$ to `t_end`, learned pairs being retired on the way.

    Args:
        times: (n,) times at which the loss is recorded, increasing, within [0, t_end]; 201 in geometric progression by
            default, as staircases are looked at on logarithmic axes.
        rtol, atol: tolerances per step, in the largest component.
        tolerance: a direction is retired when its aligned neurons ($1-t_{kq}^2$ below this) are at rest, up to this
            share of its weight. 0 retires nothing.
        light: the forces of students of a mass below this share of the smallest weight are computed anew only once those
            students have changed by a tenth of their mass, at the end of the step that does it. 0: at every evaluation;
            with `tolerance` 0, the plain coupled flow.
        max_steps: give up beyond this many solver steps.

    Returns: `RetiringResult`. Cost per right-hand side: m·S·(P + rank) of what is left, S of it being sources.

    Raises:
        InputError: t_end, times, tolerance or light out of range, or an initial state of another teacher.
        IntegrationError: the step size fell to rounding, or `max_steps` were not enough (with the result so far).
        Interrupted: on Ctrl-C, with the result so far.
    """
    grid = record_times(t_end, times, lambda: np.geomspace(1e-3 * t_end, t_end, 201))
    if not 0 <= tolerance < 0.5:
        raise InputError(f"tolerance is {tolerance!r}: give a share between 0 and 0.5")
    if not 0 <= light <= 0.1:
        raise InputError(f"light is {light!r}: give a share of the smallest weight between 0 and 0.1")
    check_start(initial, teacher)
    flow = _flow(activation, rtol, atol, tolerance, light * float(teacher.a.min()) if light else -1.0)
    width = initial.overlap.shape[0]
    ledger = _Ledger.empty(*initial.overlap.shape)

    def advance(carry: Carry, part: Stretch) -> Carry:
        while float(carry.time) < part.end:
            if bool(carry.stale):
                carry, share_of_light = _look(flow, carry)
                ledger.shared = np.asarray(share_of_light)
            carry = _leg(flow, carry, jnp.asarray(part.end))
            ledger.note(carry)
            _complain(carry, max_steps, t_end)
            before, carry = carry, _cut(flow, carry, ledger)
            if carry is not before:  # a new basis: the forces that were kept were in the old one
                ledger.shared = np.zeros(carry.state["t"].shape)
        return carry

    def look(now: Carry) -> tuple[float, float, np.ndarray]:
        loss, shares = _seen(flow, now)
        return float(now.time), float(loss), ledger.whole(np.asarray(shares))

    def result(track: Track[Carry]) -> RetiringResult:
        times, loss, share = (x[: grid.size] for x in track.columns(axis=0))
        return RetiringResult(
            times, loss, ledger.hits["half"], ledger.hits["neuron"], ledger.hits["fitted"], ledger.retired,
            ledger.neglected, ledger.left_out, share, ledger.counted, 6 * ledger.counted, ledger.flops,
        )  # fmt: skip

    start = _start(flow, coordinates_of(initial), jnp.asarray(teacher.a), min(width, _SOURCES) if light else width)
    moments = [0.0, *grid[grid > 0].tolist(), *([t_end] if grid[-1] < t_end else [])]
    told = Told("gradient flow", float(t_end), progress, lambda now: f": {ledger.learned} of {teacher.width} learned")
    return drive(start, between(moments), advance, look, result, told, from_start=bool(grid[0] == 0))


def _flow(activation: Activation, rtol: float, atol: float, tolerance: float, heavy: float) -> _Flow:
    profiles, kernel = _lowered_bound(activation)
    return _Flow(
        _lowered(activation), lowered_overlap_flow(activation), profiles, kernel, activation.parity,
        rtol, atol, tolerance, jnp.asarray(heavy),
    )  # fmt: skip


def coordinates_of(initial: InitialState) -> State:
    """The initial state (t, u, r) of the flow in coordinates as JAX arrays."""
    residual = initial.residual / np.sqrt(initial.norm2)[:, None]
    return {"t": jnp.asarray(initial.overlap), "u": jnp.asarray(residual), "r": jnp.asarray(initial.norm2)}


def _complain(carry: Carry, max_steps: int, t_end: float) -> None:
    where = f"gradient flow stopped at time {float(carry.time):g} of {t_end:g}"
    if bool(carry.failed):
        raise IntegrationError(f"{where}: step size vanished; end before, or raise rtol")
    if int(carry.taken) >= max_steps:
        raise IntegrationError(f"{where}: max_steps = {max_steps} are done; end before, or raise max_steps or rtol")
