r"""The toy losses $(w_*-w^k)^2$ and $(w_*-w_1\cdots w_k)^2$ integrated: the fitted number against time, from many starts.

The derived system (`theory.toy`) is lowered like every other. The fitted number F ($w^k$, or the product) only grows, so
$\ln F$ is the clock: $dw/d\ln F=\dot w/\frac{d}{dt}\ln F$ and $dt/d\ln F=1/\frac{d}{dt}\ln F$ are integrated by Diffrax, and
the time of any share of the goal is read off at its own place, without interpolation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dynamics.gradient_flow import IntegrationError
from dynamics.lowering import LoweredSystem, lower
from theory import InputError, System
from theory.toy import Toy, target

if TYPE_CHECKING:
    import xarray as xr

LEVELS = (0.1, 0.5, 0.9)
#: The last share of the goal that is recorded.
_LAST = 0.99
_MAX_STEPS = 200_000
State = dict[str, jax.Array]


@dataclass(frozen=True)
class ToyResult:
    """A run from several starts.

    Attributes:
        dataset: ``share`` (fitted number over its goal), ``time`` and ``loss`` on (start, sample).
        times: (start, level) times at which the shares `LEVELS` of the goal are reached.
        sharpness: (start,) (t90 − t10)/t50.
    """

    dataset: "xr.Dataset"
    times: np.ndarray
    sharpness: np.ndarray


@lru_cache(maxsize=32)
def _own_code(toy: Toy) -> LoweredSystem:
    return lower(toy.system())


def _fitted(toy: Toy, state: State) -> jax.Array:
    """w^k, or the product of the factors."""
    if toy.shape == "power":
        return state["w"] ** toy.exponent
    return jnp.prod(jnp.stack(list(state.values())), axis=0)


@eqx.filter_jit
def _solve(
    toy: Toy, lowered: LoweredSystem, starts: State, shares: jax.Array, goal: jax.Array, rtol: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Times (start, sample) of the shares (start, sample), the first of which is that of the start itself."""

    def velocity(clock: jax.Array, y: tuple[State, jax.Array], args: None) -> tuple[State, jax.Array]:
        state, _ = y
        rates = lowered.drift(state, {target.name: goal})
        _, speed = jax.jvp(lambda z: jnp.log(_fitted(toy, z)), (state,), (rates,))
        return jax.tree.map(lambda rate: rate / speed, rates), 1 / speed

    def one(state: State, grid: jax.Array) -> tuple[jax.Array, jax.Array]:
        inside = {name: value[None] for name, value in state.items()}
        clock = jnp.log(grid)
        solution = dfx.diffeqsolve(
            dfx.ODETerm(velocity),
            dfx.Tsit5(),
            clock[0],
            clock[-1],
            None,
            (inside, jnp.zeros(1)),
            stepsize_controller=dfx.PIDController(rtol=rtol, atol=0.0),
            saveat=dfx.SaveAt(ts=clock),
            max_steps=_MAX_STEPS,
            throw=False,
        )
        assert solution.ys is not None
        return solution.ys[1][:, 0], dfx.is_okay(solution.result)

    return jax.vmap(one)(starts, shares)


def toy_flow(
    toy: Toy,
    starts: Sequence[float] | np.ndarray,
    *,
    goal: float = 1.0,
    saves: int = 200,
    rtol: float = 1e-10,
    system: System | None = None,
) -> ToyResult:
    r"""Integrate $\dot w=-\partial L/\partial w$ from each start to 99 % of the goal.

    Args:
        starts: (n,) start of the variable, or (n, k) starts of the factors of a product ((n,): balanced).
        goal: $w_*$. saves: shares recorded, equidistant in their logarithm; those of `LEVELS` besides.
        system: integrate this system in place of the derived one (to test a conjecture).

    Raises:
        InputError: a start or goal that is not positive and finite, a start beyond a tenth of the goal, a wrong shape.
        IntegrationError: the solver could not go on.
    """
    begin = _checked(toy, starts, goal, saves)
    state = {variable.name: jnp.asarray(begin[:, i]) for i, variable in enumerate(toy.variables)}
    lowered = _own_code(toy) if system is None else lower(system)
    first = np.asarray(_fitted(toy, state)) / goal
    shares = np.sort([np.append(np.geomspace(share, _LAST, saves), LEVELS) for share in first], axis=1)
    moment, good = _solve(
        toy, lowered, state, jnp.asarray(shares * goal), jnp.asarray(float(goal)), jnp.asarray(float(rtol))
    )
    times = np.asarray(moment)
    if not np.all(good) or not np.all(np.isfinite(times)):
        raise IntegrationError("the toy flow stopped on the way: its fitted number must grow to the goal")
    found = np.stack([times[shares == level] for level in LEVELS], axis=1)
    sharpness = (found[:, 2] - found[:, 0]) / found[:, 1]
    return ToyResult(_dataset(toy, begin, shares, times, goal, found, sharpness), found, sharpness)


def _checked(toy: Toy, starts: Sequence[float] | np.ndarray, goal: float, saves: int) -> np.ndarray:
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
    reached = np.prod(begin, axis=1) if toy.shape == "product" else begin[:, 0] ** toy.exponent
    if np.any(reached >= LEVELS[0] * goal):
        raise InputError(f"starts reach {reached.max() / goal:.3g} of the goal: start below a tenth of it")
    if np.any(reached <= 1e-300 * goal):
        raise InputError(f"starts reach only {reached.min() / goal:.3g} of the goal: start higher")
    return begin


def _dataset(
    toy: Toy, starts: np.ndarray, shares: np.ndarray, times: np.ndarray, goal: float, found: np.ndarray, sharp: np.ndarray
) -> "xr.Dataset":
    import xarray as xr

    unit = "time of the flow −∂L/∂w of the toy loss (no ½)"
    place = ("start", "sample")
    return xr.Dataset(
        {
            "time": (place, times, {"long_name": "time at which a share is reached", "units": unit}),
            "share": (place, shares, {"long_name": "fitted number over its goal", "units": "1"}),
            "loss": (place, (goal * (1 - shares)) ** 2, {"long_name": "toy loss", "units": "1"}),
            "initial": (("start", "factor"), starts, {"long_name": "starts of the variables", "units": "1"}),
            "level_time": (("start", "level"), found, {"long_name": "time at which the level is reached", "units": unit}),
            "sharpness": ("start", sharp, {"long_name": "(t90 − t10)/t50", "units": "1"}),
        },
        coords={"level": np.array(LEVELS), "start": np.arange(len(starts))},
        attrs={"what": "toy", "shape": toy.shape, "exponent": toy.exponent, "goal": goal, "precision": "float64"},
    )
