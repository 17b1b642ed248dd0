"""SDE ensembles with their own clocks against Diffrax at equal accuracy of the law, and the scale of a large dimension."""

import time
from collections.abc import Callable

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Row
from benchmarks.timing import once
from dynamics.one_task.sde import OneTaskPaths, one_task_paths, scheme_of
from theory import Activation, SingleTask
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution

NAME = "sde"
#: Diffrax's time over ours at equal law is at least this: its inverse is the target of the ratio ours / Diffrax's.
SPEED_UP = 50


def problem(dim: int, scaled: float = 0.25) -> tuple[OneTaskDiffusion, float, float]:
    """h4, weight 1, η = scaled/d²: the diffusion, the overlap √(8/d), and three gradient-flow times."""
    diffusion = OneTaskDiffusion(Activation.parse("h4"), 1.0, scaled / dim**2, 1.0, dim)
    overlap = float(np.sqrt(8 / dim))
    return diffusion, overlap, 3 * SingleTask(diffusion.activation).half_time(1.0, overlap)


def ours(dim: int, paths: int, seed: int = 0) -> OneTaskPaths:
    diffusion, overlap, end = problem(dim)
    found = one_task_paths(diffusion, overlap, time=end, paths=paths, seed=seed)
    assert isinstance(found, OneTaskPaths)
    return found


def diffrax_times(dim: int, paths: int, steps: int) -> np.ndarray:
    """Recovery times by Diffrax's Euler on a `VirtualBrownianTree`, constant steps, first grid time past the level."""
    diffusion, overlap, end = problem(dim)
    scheme = scheme_of(diffusion.expressions, True, True)
    numbers = dict(zip(("eta", "a", "A", "d", "b"), diffusion.numbers, strict=True))

    def one(key: jax.Array) -> jax.Array:
        tree = dfx.VirtualBrownianTree(0.0, end, end / steps / 4, (1,), key)
        terms: dfx.AbstractTerm = dfx.MultiTerm(
            dfx.ODETerm(lambda t, y, x: scheme.drift(y, x)),
            dfx.ControlTerm(lambda t, y, x: jnp.diag(scheme.noise(y, x, jnp.ones(1))), tree),
        )
        event = dfx.Event(lambda t, y, x, **_: jnp.abs(y[0]) >= np.sqrt(0.5))
        solution = dfx.diffeqsolve(
            terms,
            dfx.Euler(),
            0.0,
            end,
            end / steps,
            jnp.array([overlap]),
            args=numbers,
            event=event,
            max_steps=steps + 1,
            throw=False,
        )
        return solution.ts[-1]

    return np.asarray(_compiled(one, paths))


def _compiled(one: Callable[[jax.Array], jax.Array], paths: int) -> jax.Array:
    return jnp.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), paths)))


def equal_law(dim: int, paths: int, rival_paths: int, steps: int) -> list[Row]:
    """Seconds per path of both, with the error of the mean recovery time of each."""
    diffusion, overlap, end = problem(dim)
    grid = np.linspace(0, end, 801)
    exact = float(np.trapezoid(1 - hitting_distribution(diffusion, overlap, cells=1000).cdf(grid), grid))
    ours(dim, paths)
    mine = once(lambda: ours(dim, paths, 1).times) / paths
    found = np.minimum(ours(dim, paths, 1).times, end)
    begin = time.perf_counter()
    diffrax_times(dim, rival_paths, steps)
    first = time.perf_counter() - begin
    rival = diffrax_times(dim, rival_paths, steps)
    seconds = (time.perf_counter() - begin - first) / rival_paths
    title = f"d={dim}"
    return [
        Row(NAME, f"{title}, ours, {paths} paths", 1e6 * mine, "µs/path"),
        Row(NAME, f"{title}, ours, error of the mean", abs(float(found.mean()) / exact - 1), ""),
        Row(NAME, f"{title}, Diffrax, {steps} steps", 1e6 * seconds, "µs/path"),
        Row(NAME, f"{title}, Diffrax, error of the mean", abs(float(rival.mean()) / exact - 1), ""),
        Row(NAME, f"{title}, ours / Diffrax", mine / seconds, "", 1 / SPEED_UP),
    ]


def scale(dim: int, paths: int) -> list[Row]:
    """The recovery-time distribution at a large dimension."""
    begin = time.perf_counter()
    found = ours(dim, paths)
    seconds = time.perf_counter() - begin
    return [
        Row(NAME, f"d={dim}, {paths} paths, compilation included", seconds, "s", 60.0),
        Row(NAME, f"d={dim}, steps per path", float(found.steps.mean()), "steps"),
    ]


def run(
    paths: int = 8192, rival_paths: int = 64, steps: int = 2000, dims: tuple[int, ...] = (10**5, 10**6)
) -> list[Row]:
    """All rows."""
    return equal_law(256, paths, rival_paths, steps) + [row for dim in dims for row in scale(dim, paths)]
