r"""The toy losses $(w_*-w^k)^2$ and $(w_*-w_1\cdots w_k)^2$ integrated: the fitted number against time, from many starts.

The derived system (`theory.baselines.toy`) is lowered like every other. The fitted number F ($w^k$, or the product) only
grows, so $y=\ln\frac F{w_*-F}$ is the clock: $dw/dy=\dot w/\dot y$ and $dt/dy=1/\dot y$. In this clock nothing is stiff
and nothing sharp, fourth-order steps of equal width suffice, and the time of any share of the goal is read off at its own
place. The same run with half as many steps says how accurate it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import IntegrationError
from dynamics.core.kept import compiled
from dynamics.core.lowering import LoweredSystem, State, lower
from dynamics.core.precision import double_precision
from dynamics.core.trajectory import Plotted, variable
from theory import InputError, System
from theory.baselines.toy import Toy, target

if TYPE_CHECKING:
    import xarray as xr

LEVELS = (0.1, 0.5, 0.9)
#: The last share of the goal that is recorded.
_LAST = 0.99


@dataclass(frozen=True)
class ToyResult(Plotted):
    """A run from several starts.

    Attributes:
        dataset: ``share`` (fitted number over its goal), ``time`` and ``loss`` on (start, sample).
        times: (start, level) times at which the shares `LEVELS` of the goal are reached.
        sharpness: (start,) (t90 − t10)/t50.
        error: (start,) largest error of a time, estimated from half as many steps.
    """

    dataset: "xr.Dataset"
    times: np.ndarray
    sharpness: np.ndarray
    error: np.ndarray


@lru_cache(maxsize=32)
def _own_code(toy: Toy) -> LoweredSystem:
    return lower(toy.system())


def _fitted(toy: Toy, state: State) -> jax.Array:
    """w^k, or the product of the factors."""
    if toy.shape == "power":
        return state["w"] ** toy.exponent
    return jnp.prod(jnp.stack(list(state.values())), axis=0)


@compiled
def _solve(
    lowered: LoweredSystem, starts: State, shares: jax.Array, goal: jax.Array, substeps: jax.Array, *, toy: Toy
) -> jax.Array:
    """Times (sample − 1, start) from each of the shares (sample, start), the first that of the start itself, to the next."""
    clock = jnp.log(shares / (1 - shares))

    def velocity(y: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        rates = lowered.drift(y[0], {target.name: goal})
        fitted, growth = jax.jvp(lambda z: _fitted(toy, z), (y[0],), (rates,))
        slowness = fitted * (goal - fitted) / goal / growth
        return jax.tree.map(lambda rate: rate * slowness, rates), slowness

    def step(y: tuple[State, jax.Array], width: jax.Array) -> tuple[State, jax.Array]:
        """One step of the classical fourth-order method."""

        def move(k: tuple[State, jax.Array], share: float) -> tuple[State, jax.Array]:
            return jax.tree.map(lambda a, b: a + share * width * b, y, k)

        first = velocity(y)
        second = velocity(move(first, 0.5))
        third = velocity(move(second, 0.5))
        last = velocity(move(third, 1.0))
        mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, first, second, third, last)
        return move(mean, 1.0)

    def between(y: State, span: jax.Array) -> tuple[State, jax.Array]:
        # (Times of their own: the last ones are rounding beside a long plateau.)
        y, passed = jax.lax.fori_loop(0, substeps, lambda _, now: step(now, span / substeps), (y, jnp.zeros_like(span)))
        return y, passed

    return jax.lax.scan(between, starts, jnp.diff(clock, axis=0))[1]


@double_precision
def toy_flow(
    toy: Toy,
    starts: Sequence[float] | np.ndarray,
    *,
    goal: float = 1.0,
    saves: int = 200,
    substeps: int = 16,
    system: System | None = None,
) -> ToyResult:
    r"""Integrate $\dot w=-\partial L/\partial w$ from each start to 99 % of the goal.

    Args:
        starts: (n,) start of the variable, or (n, k) starts of the factors of a product ((n,): balanced).
        goal: $w_*$. saves: shares recorded, equidistant on the clock; those of `LEVELS` besides. substeps: steps between them.
        system: integrate this system in place of the derived one (to test a conjecture).

    Raises:
        InputError: a start or goal that is not positive and finite, a start beyond a tenth of the goal, a wrong shape.
        IntegrationError: a given system whose fitted number does not grow to the goal.
    """
    begin = _checked(toy, starts, goal, saves, substeps)
    state = {variable.name: jnp.asarray(begin[:, i]) for i, variable in enumerate(toy.variables)}
    lowered = _own_code(toy) if system is None else lower(system)
    first = np.asarray(_fitted(toy, state)) / goal
    clocks = np.linspace(np.log(first / (1 - first)), np.log(_LAST / (1 - _LAST)), saves)
    marks = np.broadcast_to(np.array(LEVELS)[:, None], (len(LEVELS), len(begin)))
    shares = np.sort(np.concatenate([1 / (1 + np.exp(-clocks)), marks]), axis=0)
    runs = [
        np.asarray(_solve(lowered, state, jnp.asarray(shares), jnp.asarray(float(goal)), jnp.asarray(count), toy=toy)).T
        for count in (substeps, substeps // 2)
    ]
    shares = shares.T
    times, coarse = (np.cumsum(np.pad(run, ((0, 0), (1, 0))), axis=1) for run in runs)
    if not np.all(np.isfinite(times)) or np.any(runs[0] < 0):
        raise IntegrationError("the toy flow stopped on the way: its fitted number must grow to the goal")
    error = np.max(np.abs(times - coarse), axis=1) / 15  # fourth order: halving the step divides it by 16
    found = np.stack([times[shares == level] for level in LEVELS], axis=1)
    within = (shares[:, :-1] >= LEVELS[0]) & (shares[:, 1:] <= LEVELS[-1])
    sharpness = np.sum(runs[0], axis=1, where=within) / found[:, 1]
    return ToyResult(_dataset(toy, begin, shares, times, goal, found, sharpness), found, sharpness, error)


def _checked(toy: Toy, starts: Sequence[float] | np.ndarray, goal: float, saves: int, substeps: int) -> np.ndarray:
    """Starts as (n, number of variables)."""
    begin, count = np.asarray(starts, dtype=float), len(toy.variables)
    if begin.ndim == 1:
        begin = np.repeat(begin[:, None], count, axis=1)
    if begin.ndim != 2 or begin.size == 0 or begin.shape[1] != count:
        raise InputError(f"starts has shape {np.shape(starts)}: give (n,) or (n, {count}) numbers")
    if not np.all(np.isfinite(begin) & (begin > 0)):
        raise InputError(f"starts holds {begin[~(np.isfinite(begin) & (begin > 0))][0]}: give positive finite numbers")
    if not (np.isfinite(goal) and goal > 0):
        raise InputError(f"goal is {goal!r}: give a positive finite number")
    if not isinstance(saves, int | np.integer) or saves < 2:
        raise InputError(f"saves is {saves!r}: give a whole number, 2 or more")
    if not isinstance(substeps, int | np.integer) or substeps < 2:
        raise InputError(f"substeps is {substeps!r}: give a whole number, 2 or more")
    reached = np.prod(begin, axis=1) if toy.shape == "product" else begin[:, 0] ** toy.exponent
    if np.any(reached >= LEVELS[0] * goal):
        raise InputError(f"starts reach {reached.max() / goal:.3g} of the goal: start below a tenth of it")
    if np.any(reached <= 1e-300 * goal):
        raise InputError(f"starts reach only {reached.min() / goal:.3g} of the goal: start higher")
    return begin


def _dataset(
    toy: Toy,
    starts: np.ndarray,
    shares: np.ndarray,
    times: np.ndarray,
    goal: float,
    found: np.ndarray,
    sharp: np.ndarray,
) -> "xr.Dataset":
    import xarray as xr

    unit, place = "flow time", ("start", "sample")
    return xr.Dataset(
        {
            "time": variable(place, times, "time of the flow −∂L/∂w (no ½) at which a share is reached", unit),
            "share": variable(place, shares, "fitted number over its goal"),
            "loss": variable(place, (goal * (1 - shares)) ** 2, "toy loss"),
            "initial": variable(("start", "factor"), starts, "starts of the variables"),
            "level_time": variable(("start", "level"), found, "time of that flow at which the level is reached", unit),
            "sharpness": variable("start", sharp, "(t90 − t10)/t50"),
        },
        coords={"level": np.array(LEVELS), "start": np.arange(len(starts))},
        attrs={"what": "toy", "shape": toy.shape, "exponent": toy.exponent, "goal": goal, "precision": "float64"},
    )
