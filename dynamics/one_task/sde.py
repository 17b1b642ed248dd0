r"""Ensembles of the one-task diffusion: recovery times of one direction under SGD, at any dimension.

The drift and the diffusion are those that `theory.one_task.diffusion` derives, lowered once per activation with η, a, Σa²,
d and b as arguments, so that one call can run paths of many problems.

**Step rule.** With $\ell=\sqrt{u^2+w^2}\,(1-u^2)$, the length over which drift and diffusion change, and the noise scale
$w$ of `OneTaskDiffusion.noise_scale`,
$$\Delta t=\delta\Big/\Big(\frac{|b(u)|}\ell+\frac{D(u)}{\ell^2}\Big):$$
a step moves the overlap by at most the share δ of ℓ by drift, and √δ of it by noise. On the plateau, where the overlap
needs a time $\sim u^{2-J}$ to change, steps are long; in the transition they are short, whatever d is. It depends on the
state at the step's start alone. The weak error is of first order in δ (`tests/test_one_task_sde.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.paths import Scheme, hitting_times, run_paths, start_paths
from dynamics.core.precision import double_precision
from theory import InputError
from theory.core.arguments import check_whole
from theory.core.streams import stream
from theory.one_task.diffusion import ARGUMENTS, OneTaskDiffusion

#: δ of the step rule.
RESOLUTION = 0.05
#: 1 − u² in the step rule is never taken smaller than this: beyond it the overlap has long recovered.
_END = 0.05


@dataclass(frozen=True)
class OneTaskPaths:
    """Recovery times of an ensemble.

    Attributes:
        times: (R,) gradient-flow time at which u² reached the level; inf where it did not by the end of the run.
        overlap: (R,) u at the end of the path. clock: (R,) when that was.
        steps: (R,) steps taken. diverged: (R,) bool.
        resolution: δ of the step rule.
    """

    times: np.ndarray
    overlap: np.ndarray
    clock: np.ndarray
    steps: np.ndarray
    diverged: np.ndarray
    resolution: float


@lru_cache(maxsize=32)
def scheme_of(expressions: tuple[sp.Expr, sp.Expr], even: bool, euler: bool) -> Scheme:
    """The equation of one path; parameters: dictionary of numbers, state: [u]."""
    drift, diffusion = (_lower(x) for x in expressions)

    def step(y: jax.Array, x: dict) -> jax.Array:
        length = jnp.sqrt(y[0] ** 2 + x["scale"] ** 2) * jnp.maximum(1 - y[0] ** 2, _END)
        rate = jnp.abs(drift(y[0], x)) / length + diffusion(y[0], x) / length**2
        return x["resolution"] / rate

    def gap(y: jax.Array, x: dict) -> jax.Array:
        return x["level"] - (jnp.abs(y) if even else y)

    return Scheme(
        lambda y, x: drift(y, x),
        lambda y, x, brownian: jnp.sqrt(diffusion(y, x)) * brownian,
        step,
        gap,
        lambda y, x: diffusion(y, x),
        1,
        euler,
    )


def _lower(expression: sp.Expr) -> Callable[[jax.Array, dict], jax.Array]:
    """An expression in `ARGUMENTS` as a JAX function of (u, parameters), in Horner form."""
    compiled = sp.lambdify(ARGUMENTS, sp.N(sp.horner(sp.expand(expression), ARGUMENTS[0]), 17), modules="jax")
    names = [symbol.name for symbol in ARGUMENTS[1:]]
    return lambda u, x: compiled(u, *(x[name] for name in names)) + 0.0 * u


@double_precision
def one_task_paths(
    diffusions: OneTaskDiffusion | Sequence[OneTaskDiffusion],
    overlap: float | Sequence[float],
    *,
    time: float | Sequence[float],
    paths: int,
    seed: int = 0,
    level: float = 0.5,
    resolution: float = RESOLUTION,
    euler: bool = False,
    batch: int = 4096,
    progress: Progress | None = None,
) -> OneTaskPaths | list[OneTaskPaths]:
    r"""Integrate `paths` paths of each diffusion from `overlap` until $u^2$ reaches `level`, or to gradient-flow `time`.

    Args:
        diffusions: one problem, or several of one activation (then `overlap` and `time` may be sequences too, and a list
            is returned); they run together.
        overlap: signed initial overlap(s). time: when to give up. level: squared overlap.
        resolution: δ of the step rule. euler: Euler–Maruyama, without the averaged drift.
        batch: paths held at once; changes no path.

    Raises `InputError` for numbers out of range, and for problems that do not share one pair of expressions.
    """
    problems = [diffusions] if isinstance(diffusions, OneTaskDiffusion) else list(diffusions)
    starts, ends = (np.broadcast_to(np.asarray(x, float), len(problems)) for x in (overlap, time))
    _check(problems, starts, ends, paths, level, resolution)
    scheme = scheme_of(problems[0].expressions, problems[0].even, euler)
    columns = [
        dict(zip([x.name for x in ARGUMENTS[1:]], problem.numbers, strict=True))
        | {"scale": problem.noise_scale, "level": np.sqrt(level), "resolution": resolution}
        for problem in problems
    ]
    parameters = {name: jnp.asarray(np.repeat([x[name] for x in columns], paths)) for name in columns[0]}
    # Path i of every problem has the same Gaussians: differences between problems are sharper than either.
    keys = jnp.tile(replica_keys(seed, paths, "one-task SDE", "increments"), len(problems))
    ensemble = start_paths(scheme, np.repeat(starts, paths)[:, None], parameters)
    ensemble = run_paths(scheme, ensemble, parameters, keys, np.repeat(ends, paths), batch=batch, progress=progress)
    found = []
    for place in range(len(problems)):
        mine = jax.tree.map(lambda x, first=place * paths: x[first : first + paths], ensemble)
        times = hitting_times(mine, stream(seed, "one-task SDE", "crossings"))[:, 0]
        last, clock, steps, diverged = (np.asarray(x) for x in (mine.y[:, 0], mine.time, mine.steps, mine.diverged))
        found.append(OneTaskPaths(times, last, clock, steps, diverged, resolution))
    return found[0] if isinstance(diffusions, OneTaskDiffusion) else found


def _check(
    problems: list[OneTaskDiffusion], starts: np.ndarray, ends: np.ndarray, paths: int, level: float, resolution: float
) -> None:
    if not problems or any(x.expressions != problems[0].expressions for x in problems):
        raise InputError(f"diffusions: {len(problems)} given: use one or more, all of the same activation and laws")
    if not (np.all(np.isfinite(ends)) and np.all(ends > 0)):
        raise InputError(f"time is {ends.tolist()!r}: give a positive finite gradient-flow time")
    if not np.all(np.abs(starts) < 1):
        raise InputError(f"overlap is {starts.tolist()!r}: give a cosine between -1 and 1")
    check_whole(paths=paths)
    if not 0 < level < 1:
        raise InputError(f"level is {level!r}: give a squared overlap between 0 and 1")
    if not 0 < resolution <= 0.5:
        raise InputError(f"resolution is {resolution!r}: give a share above 0, at most 0.5")
