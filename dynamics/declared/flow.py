r"""The population flow of a declared model in time.

The derived equations (`theory.declared.flow`) are integrated by Diffrax, for unit rows and logarithms of their squared norms:
one that waits under weight decay loses 50 orders of magnitude and no digit. The state has $Lm(P+(m+1)/2)+m$ numbers and no d.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.checks import record_times
from dynamics.core.flow import Reached, integrate
from dynamics.core.interrupted import IntegrationError, Progress
from dynamics.core.kept import compiled
from dynamics.core.lowering import State
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive
from dynamics.core.symmetric import Symmetric
from dynamics.core.trajectory import Plotted, time_axis, variable
from dynamics.declared.population import LoweredPopulation, lowered_population, parameters_of
from theory import InputError, System
from theory.core.arguments import check_positive
from theory.declared.flow import speed
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import of_no_rows
from theory.declared.start import Start

if TYPE_CHECKING:
    import xarray as xr


class _Blocks(Symmetric):
    """Gram matrices (L, m, m), each held by what lies on and above its diagonal."""

    def above(self, array: jax.Array) -> jax.Array:
        return jax.vmap(partial(Symmetric.above, self))(array)

    def full(self, held: jax.Array) -> jax.Array:
        return jax.vmap(partial(Symmetric.full, self))(held)


#: How Q is held; and the smallest logarithm of a squared norm with which forces are computed: lighter rows turn alike, and
#: powers of their products underflow (from −118 on for h6).
_GRAMS, _LIGHTEST = _Blocks("Q", False), -50.0


class _Held:
    r"""A state as it is integrated: $T/\sqrt{\rho_k}$, $Q/\sqrt{\rho_k\rho_j}$ and $\ln\rho_k$ (``size``)."""

    @staticmethod
    @jax.jit
    def of(state: State) -> State:
        """Of a state T, Q and, if trained, b."""
        rho = jnp.einsum("ikk->k", state["Q"])
        return _GRAMS.pack({**_divided(state, jnp.sqrt(rho)), "size": jnp.log(rho)})

    @staticmethod
    def open(held: State, lightest: float = _LIGHTEST) -> State:
        """The state, rows no lighter than that."""
        whole = dict(_GRAMS.open(held))
        return _divided(whole, jnp.exp(-jnp.maximum(whole.pop("size"), lightest) / 2))

    @staticmethod
    def velocity(lowered: LoweredPopulation, held: State, parameters: State) -> State:
        """Of what is held. (Rows that errors made no unit ones stay as they are: they are made unit before anything else.)"""
        state = _Held.open(held)
        size = jnp.sqrt(jnp.einsum("ikk->k", state["Q"]))
        unit, moved = _divided(state, size), _divided(lowered.drift(state, parameters), size)
        growth = jnp.einsum("ikk->k", moved["Q"])
        along = (growth[:, None] + growth) / 2
        turned = {"T": moved["T"] - growth[:, None] / 2 * unit["T"], "Q": moved["Q"] - along * unit["Q"]}
        return _GRAMS.pack({**moved, **turned, "size": growth})


def _divided(state: State, size: jax.Array) -> State:
    """T and Q of rows (m,) times shorter."""
    return {**state, "T": state["T"] / size[:, None], "Q": state["Q"] / (size[:, None] * size)}


@dataclass(frozen=True)
class DeclaredFlow(Plotted):
    """A population flow.

    Attributes:
        dataset: `overlap` (time, eigenspace, neuron, direction), `gram` (time, eigenspace, neuron, other), `second` (time,
            neuron), `loss` (time); named as the replicas of `dynamics.declared.simulate`. steps: of the solver.
    """

    dataset: "xr.Dataset"
    steps: int


@compiled
def _segment(
    lowered: LoweredPopulation,
    state: State,
    start: jax.Array,
    times: jax.Array,
    parameters: State,
    rtol: float,
    atol: float,
) -> Reached:
    velocity = partial(_Held.velocity, lowered)
    return integrate(velocity, state, start, times[-1], parameters, rtol=rtol, atol=atol, times=times, meet=True)


#: Recorded times of one call at most; and pairs of rows, or of row and direction, times eigenspaces and steps that one takes,
#: about (a second or less): while it goes on, Ctrl-C waits. (Not a second: a run would depend on the machine's speed.)
_TOGETHER, _CALL = 32, 1e6


@dataclass
class _Ahead:
    """States at recorded times, several from one call of the integrator: each call begins with small steps anew.

    Attributes:
        segment: from a state at a time to `_TOGETHER` times (always as many: it is compiled once). times: all.
        end: that of the run. rtol: its tolerance. size: pairs times eigenspaces. steps: of the solver. ready: states that
            nobody has asked for yet.
    """

    segment: Callable[[State, float, np.ndarray], Reached]
    times: np.ndarray
    end: float
    rtol: float
    size: int
    steps: int = 0
    ready: list[State] = field(default_factory=list)
    _found: int = 0
    _count: int = 1
    _stop: Reached | None = None

    def to(self, state: State, part: Stretch) -> State:
        """The state at the end of the part, the next of the times. Raises `IntegrationError`."""
        while not self.ready:
            self._call(state, float(part.begin))
        found = self.ready.pop(0)
        if of_no_rows(np.asarray(_GRAMS.open(found)["Q"]), self.rtol):
            why = "errors have made its inner products those of no rows"
            raise IntegrationError(
                f"declared flow stopped at time {float(part.end):g} of {self.end:g}: {why}; end before, lower rtol, or run SGD"
            )
        return found

    def _call(self, state: State, now: float) -> None:
        """As many times as take about `_CALL`; what comes before a stop is kept, and one at a time follows it, if any can."""
        if self._stop is not None:
            self._stop.check("declared flow", self.end)
        chosen = self.times[self._found : self._found + self._count]
        padding = np.full(_TOGETHER - chosen.size, chosen[-1])
        found = self.segment(state, now, np.concatenate([chosen, padding]))
        self.steps += int(found.steps)
        done = _finite(found.state, chosen.size)
        self._stop = found if done < chosen.size and (found.lost or chosen.size == 1) else None
        states = jax.device_get(found.state)
        self.ready = [{name: x[i] for name, x in states.items()} for i in range(done)]
        self._found += done
        fast = int(found.steps) * self.size < _CALL / 2
        self._count = 1 if done < chosen.size else min(2 * self._count, _TOGETHER) if fast else max(1, self._count // 2)


def _finite(states: State, count: int) -> int:
    """How many of the first `count` states there are, one after the other."""
    whole = [np.isfinite(np.asarray(x[:count])).reshape(count, -1).all(axis=1) for x in states.values()]
    return int(np.sum(np.logical_and.accumulate(np.all(whole, axis=0))))


@compiled
def _seen(lowered: LoweredPopulation, held: State, parameters: State) -> tuple[jax.Array, ...]:
    state = _Held.open(held, -600.0)
    return state["T"], state["Q"], {**parameters, **state}["b"], lowered.loss(_Held.open(held), parameters)


def flow_state(model: DeclaredModel, start: Start) -> State:
    """T (L, m, P), Q (L, m, m) and, if trained, b (m,) of a start. Raises `InputError` for one that does not fit."""
    start.check(model.directions)
    student = model.student
    if start.width != student.width:
        raise InputError(f"start has {start.width} rows, the student {student.width}: draw one for this student")
    gram = start.grams
    size = np.einsum("ikk->k", gram)
    if student.rows != "free" and np.abs(size - 1).max() > 1e-9:
        raise InputError(f"start has squared norms {size.tolist()}: give unit rows (scale 1) for rows={student.rows!r}")
    state = {"T": jnp.asarray(start.overlaps(model.directions)), "Q": jnp.asarray(gram)}
    return {**state, "b": jnp.asarray(np.asarray(student.second))} if student.trained else state


@double_precision
def declared_flow(
    model: DeclaredModel,
    start: Start,
    t_end: float,
    times: np.ndarray | None = None,
    *,
    rtol: float = 1e-8,
    atol: float | None = None,
    system: System | None = None,
    progress: Progress | None = None,
) -> DeclaredFlow:
    r"""The limit $\eta\to0$ of the model's rule, from `start` to time `t_end`; time is the sum of the step sizes.

    Momentum moves the rows $1/(1-\beta)$ times as fast (heavy ball, Nesterov), its second layer as plain SGD. Batch and label
    noise of mean zero do not matter in this limit, labels that flip show (1 − 2p)·f*, and of a schedule only its sum counts.

    Args:
        times: (n,) times to record, increasing, within [0, t_end]; 101 equidistant ones by default.
        rtol: tolerance of a step, relative. atol: absolute, of products of unit rows, of logarithms of squared norms and of
            a trained second layer; a thousandth of `rtol` by default.
        system: integrate this `System` in place of the derived one (to test a conjecture).

    Raises:
        InputError: a number out of range; a start that does not fit, or is not of unit rows on a sphere; an activation,
            target, loss or rule without a flow.
        IntegrationError: the integrator could not go on, or errors grew until inner products were those of no rows, with the
            result so far.
        Interrupted: on Ctrl-C, with the result up to the last recorded time.
    """
    least = 1e-3 * rtol if atol is None else atol
    check_positive(rtol=rtol, atol=least)
    grid = record_times(t_end, times, lambda: np.linspace(0.0, t_end, 101))
    pace, lowered = speed(model.rule), lowered_population(model, system)
    parameters, plain = parameters_of(model, pace, model.rule.signal), parameters_of(model, pace)
    state, moments = _Held.of(flow_state(model, start)), grid[grid > 0]

    def segment(state: State, now: float, to: np.ndarray) -> Reached:
        return _segment(lowered, state, jnp.asarray(now), jnp.asarray(to), parameters, rtol, least)

    L, m, P = start.overlaps(model.directions).shape
    ahead = _Ahead(segment, moments, float(t_end), rtol, L * m * (m + P))

    def look(state: State) -> tuple[jax.Array, ...]:
        return _seen(lowered, state, plain)

    def result(track: Track[State]) -> DeclaredFlow:
        axis = time_axis(np.array(track.at, dtype=float))
        return DeclaredFlow(path_of(model, axis, track, what="declared-flow", rtol=rtol), ahead.steps)

    parts = between([0.0, *moments.tolist()])
    told = Told("declared flow", float(t_end), progress)
    return drive(state, parts, ahead.to, look, result, told, from_start=bool(grid[0] == 0))


def path_of(model: DeclaredModel, axis: dict[str, Any], track: Track[Any], **attributes: Any) -> "xr.Dataset":
    """Overlaps, Gram matrices, second layer and loss that were looked at, in that order, on a time `axis`."""
    import xarray as xr

    overlap, gram, second, loss = track.columns(axis=0)
    return xr.Dataset(
        {
            "overlap": variable(
                ("time", "eigenspace", "neuron", "direction"), overlap, "inner product with a direction"
            ),
            "gram": variable(("time", "eigenspace", "neuron", "other"), gram, "inner product of two rows"),
            "second": variable(("time", "neuron"), second, "second layer"),
            "loss": variable("time", loss, "population loss, label noise left out"),
        },
        coords={
            **axis,
            "eigenvalue": variable("eigenspace", model.inputs.eigenvalues, "variance of the inputs"),
            "multiplicity": variable("eigenspace", model.inputs.multiplicities, "dimensions of the eigenspace"),
            "direction": np.arange(1, model.target.count + 1),
        },
        attrs={"dim": model.inputs.dim, "precision": "float64", **attributes},
    )
