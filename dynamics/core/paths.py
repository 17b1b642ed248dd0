r"""Ensembles of Itô paths, each with its own clock.

$dy=F(y)\,dt+G(y)\,dW$ is stepped by $y'=y+F\Delta t+G\,\Delta W$, $y\leftarrow y+\tfrac12(F(y)+F(y'))\Delta t+G\,\Delta W$:
the drift is averaged over the step, the noise is taken at its start (Itô); weak order one, and second order where noise is
weak. The step $\Delta t$ is a function of the state at the step's start, so that the scheme stays non-anticipating; each
path chooses its own. Events are zeros of gaps. Within a step a gap is a Brownian bridge: whether it crossed zero between
its ends, and when, is drawn from the bridge's law (exact for constant coefficients), so that hitting times have no bias
of order √Δt. A path ends when all its events have happened.

The Gaussians of path i, step n are a function of (seed, i, n) alone: a path does not depend on how many others run, nor on
how they are divided into batches. Paths that have ended are retired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled

#: Steps between two looks at which paths have ended.
_ROUND = 16
#: A batch is cut by this factor as soon as it can be; never below the least size.
_SHRINK, _LEAST = 16, 256


@dataclass(frozen=True, eq=False)
class Scheme:
    r"""What is integrated (equal only to itself, so that one object is compiled once).

    Attributes:
        drift: (y, parameters) → F, shape (n,).
        noise: (y, parameters, x) → G x for x of shape (size,), shape (n,).
        step: (y, parameters) → Δt.
        gap: (y, parameters) → (events,) distances from the events.
        gap_variance: (y, parameters) → (events,) variance of each gap per unit of time.
        size: how many independent Wiener processes drive a path.
        euler: leave the averaging of the drift out (Euler–Maruyama).
        at: (y, parameters) → the parameters together with what several of these functions need of the step's start,
            computed once per step; all of them are given it, the drift at the step's end too.
        keep: y → y, puts a state that a step has left outside its domain back onto it.
        grain: parameters → h, where F is the mean of one step of length h of a chain, over h. A step is a step and not a
            piece of a flow: the equation with the same mean has the drift $F-\tfrac h2F'F$, which averaging with the weight
            $\tfrac12(1-h/\Delta t)$ of the end gives without a derivative; a step of length h is then the chain's.
    """

    drift: Callable[[jax.Array, Any], jax.Array]
    noise: Callable[[jax.Array, Any, jax.Array], jax.Array]
    step: Callable[[jax.Array, Any], jax.Array]
    gap: Callable[[jax.Array, Any], jax.Array]
    gap_variance: Callable[[jax.Array, Any], jax.Array]
    size: int
    euler: bool = False
    at: Callable[[jax.Array, Any], Any] | None = None
    keep: Callable[[jax.Array], jax.Array] | None = None
    grain: Callable[[Any], jax.Array] | None = None


class Paths(NamedTuple):
    """State of an ensemble of R paths.

    Attributes:
        y: (R, n). time: (R,) clocks. steps: (R,) steps taken. diverged: (R,) bool, y is the last finite state.
        crossed: (R, events, 4) the bridge in which each event happened: time, step, gap before and after.
        variance: (R, events) that bridge's variance; negative before the event.
    """

    y: jax.Array
    time: jax.Array
    steps: jax.Array
    diverged: jax.Array
    crossed: jax.Array
    variance: jax.Array

    @property
    def ended(self) -> jax.Array:
        return jnp.all(self.variance >= 0, axis=-1) | self.diverged


def start_paths(scheme: Scheme, y: np.ndarray, parameters: Any) -> Paths:
    """An ensemble at time 0; y of shape (R, n). Events whose gap is not positive have happened at time 0."""
    count = y.shape[0]
    gaps = jax.vmap(scheme.gap)(jnp.asarray(y), parameters)
    crossed = jnp.zeros((*gaps.shape, 4))
    variance = jnp.where(gaps > 0, jnp.full_like(gaps, -1.0), 0.0)
    nothing = jnp.zeros(count)
    return Paths(jnp.asarray(y), nothing, nothing.astype(int), nothing.astype(bool), crossed, variance)


def _one_step(scheme: Scheme, path: Paths, until: jax.Array, parameters: Any, normals: jax.Array) -> Paths:
    """One step of one path; nothing if it has ended or its clock has reached `until`."""
    active = (path.time < until) & ~path.ended
    if scheme.at is not None:
        parameters = scheme.at(path.y, parameters)
    wanted, left = scheme.step(path.y, parameters), until - path.time
    last = wanted >= left
    dt = jnp.where(last, left, wanted)
    events = path.variance.shape[-1]
    kick = scheme.noise(path.y, parameters, jnp.sqrt(dt) * normals[: scheme.size])
    slope = scheme.drift(path.y, parameters)
    moved = path.y + slope * dt + kick
    if not scheme.euler:
        share = 0.5 if scheme.grain is None else 0.5 * jnp.maximum(1 - scheme.grain(parameters) / dt, 0.0)
        moved = path.y + ((1 - share) * slope + share * scheme.drift(moved, parameters)) * dt + kick
    sound = jnp.all(jnp.isfinite(moved))
    if scheme.keep is not None:
        moved = scheme.keep(jnp.where(sound, moved, path.y))
    before, after = scheme.gap(path.y, parameters), scheme.gap(moved, parameters)
    variance = scheme.gap_variance(path.y, parameters) * dt
    # A bridge between two positive gaps touches zero with probability exp(−2xy/v).
    chance = jnp.exp(-2 * before * jnp.maximum(after, 0.0) / jnp.maximum(variance, 1e-300))
    rank = jax.scipy.special.ndtr(normals[scheme.size :])
    new = active & sound & (path.variance < 0) & ((after <= 0) | (rank < chance))
    bridge = jnp.stack([jnp.full(events, path.time), jnp.full(events, dt), before, after], axis=-1)
    return Paths(
        jnp.where(active & sound, moved, path.y),
        jnp.where(active, jnp.where(last, until, path.time + dt), path.time),
        path.steps + active,
        path.diverged | (active & ~sound),
        jnp.where(new[:, None], bridge, path.crossed),
        jnp.where(new, variance, path.variance),
    )


@compiled
def _round(scheme: Scheme, paths: Paths, until: jax.Array, parameters: Any, keys: jax.Array) -> Paths:
    """Up to `_ROUND` steps of every path."""
    everyone = jax.vmap(partial(_one_step, scheme))
    shape = (scheme.size + paths.variance.shape[-1],)
    draw = jax.vmap(lambda key, number: jax.random.normal(jax.random.fold_in(key, number), shape))

    def unfinished(carry: tuple[jax.Array, jax.Array, Paths]) -> jax.Array:
        count, _, paths = carry
        return (count < _ROUND) & jnp.any((paths.time < until) & ~paths.ended)

    # The Gaussians of the next step travel in the carry: drawn within the step, the compiler would draw them anew for
    # every array that they enter.
    def advance(carry: tuple[jax.Array, jax.Array, Paths]) -> tuple[jax.Array, jax.Array, Paths]:
        count, normals, paths = carry
        moved = everyone(paths, until, parameters, normals)
        return count + 1, draw(keys, moved.steps), moved

    return jax.lax.while_loop(unfinished, advance, (jnp.asarray(0), draw(keys, paths.steps), paths))[2]


def run_paths(
    scheme: Scheme,
    paths: Paths,
    parameters: Any,
    keys: jax.Array,
    until: float | np.ndarray,
    *,
    batch: int = 4096,
    least: int = _LEAST,
    progress: Progress | None = None,
) -> Paths:
    """Advance every path until its clock reads `until` (a number, or one per path) or it has ended.

    Args:
        parameters: pytree of arrays with a leading axis of length R: each path has its own.
        keys: one per path. batch: paths held at once, `least`: size of the smallest batch (both change nothing but memory
            and speed).
    """
    count = paths.time.shape[0]
    ends = jnp.broadcast_to(jnp.asarray(until, float), count)
    done: list[Paths] = []
    for first in range(0, count, batch):
        part = np.arange(first, min(first + batch, count))
        mine, until_, numbers, own = _take((paths, ends, parameters, keys), part)
        report = None if progress is None else partial(progress, first / count)
        done.append(_run_batch(scheme, mine, until_, numbers, own, least, report))
    return done[0] if len(done) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x), *done)


def _run_batch(
    scheme: Scheme,
    paths: Paths,
    until: jax.Array,
    parameters: Any,
    keys: jax.Array,
    least: int,
    report: Callable | None,
) -> Paths:
    """One batch; the paths still under way are gathered into a smaller batch whenever they fit into the next size below."""
    count = paths.time.shape[0]
    # Sizes from a short ladder, so that few are compiled: filled up with copies of a path that count as ended.
    size = least
    while size < count:
        size *= _SHRINK
    filled = np.minimum(np.arange(size), count - 1)
    paths, until, parameters, keys = _take((paths, until, parameters, keys), filled)
    paths = paths._replace(diverged=paths.diverged | (np.arange(size) >= count))
    where = np.arange(size)
    working, everyone = (paths, until, parameters, keys), paths
    while True:
        working = (_round(scheme, *working), *working[1:])
        current, ends = working[:2]
        going = np.flatnonzero(np.asarray((current.time < ends) & ~current.ended))
        if report is not None:
            report(f"SDE: {going.size} paths under way, step {int(current.steps.max())}")
        smaller = max(-(-where.size // _SHRINK), least)
        if going.size == 0 or (going.size <= smaller < where.size):
            everyone = _put(everyone, where, current)
            if going.size == 0:
                return _take(everyone, np.arange(count))
            # Filled up with paths that have ended: they stand still.
            rest = np.setdiff1d(np.arange(where.size), going)[: smaller - going.size]
            kept = np.sort(np.concatenate([going, rest]))
            where = where[kept]
            working = _take(working, kept)


@jax.jit
def _take(tree: Any, places: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[places], tree)


@jax.jit
def _put(everyone: Paths, places: np.ndarray, some: Paths) -> Paths:
    return jax.tree.map(lambda all_, new: all_.at[places].set(new), everyone, some)


def hitting_times(paths: Paths, rng: np.random.Generator) -> np.ndarray:
    r"""(R, events) times of the events, inf for those that have not happened.

    Given that a Brownian bridge of variance v from $x>0$ to $y$ touches zero, $\tau/(1-\tau)$, τ the share of the step,
    is inverse Gaussian of mean $x/|y|$ and shape $x^2/v$. `rng` is drawn from path after path.
    """
    start, dt, before, after = np.moveaxis(np.asarray(paths.crossed), -1, 0)
    variance = np.asarray(paths.variance)
    draws = rng.random((*variance.shape, 2))
    crossing = (variance >= 0) & (before > 0)  # elsewhere harmless numbers stand in
    x, y, v = (np.where(crossing, value, 1.0) for value in (before, np.abs(after), variance))
    mean = x / np.maximum(y, 1e-12 * x)
    noise = np.minimum(special.ndtri(draws[..., 0]) ** 2 * (v / x) / x, 1e100)
    # Michael, Schucany and Haas (1976): the smaller root of the transform, or its partner.
    root = mean / (1 + 0.5 * mean * noise + np.sqrt(mean * noise + 0.25 * (mean * noise) ** 2))
    ratio = np.where(draws[..., 1] * (mean + root) <= mean, root, mean**2 / root)
    share = np.where(before > 0, ratio / (1 + ratio), 0.0)  # (without noise the ratio is its mean)
    return np.where(variance >= 0, start + dt * share, np.inf)
