r"""SDE ensembles of all overlaps: SGD at a finite step size, for m students and P directions.

The diffusion of `dynamics.steps.overlap_diffusion` is stepped by the scheme of `dynamics.core.paths`, each path by its own
clock.

**Step rule.** With drift F and variances $D_{ii}$ of the coordinates, and the lengths over which their laws change,
$\ell=\sqrt{t^2+1/d}\,(1-t^2)$ for an overlap with a direction, $1-c^2$ for one of two students (neither factor below 0.05) and
1 for log r,
$$\Delta t=\delta\Big/\max_i\Big(\frac{|F_i|}{\ell_i}+\frac{D_{ii}}{\ell_i^2}\Big),\qquad
\Delta t\le\tfrac12\Big/\max_k\Big\{\sum_qa_q|\varphi'(t_{kq})t_{kq}|+\sum_lr_l|\varphi'(c_{kl})c_{kl}|\Big\}.$$
The first resolves change: long steps on the plateau, short ones in a transition, whatever d is. The second keeps what is
learned, which relaxes at a rate of order one, stable. No step is shorter than η: a step of that length is one of SGD, with
Gaussian noise. All this depends on the state at the step's start alone. The weak error is of first
order in δ.

**Recovery.** Direction q is recovered when some student's squared overlap reaches the level; within a step its overlap is a
Brownian bridge.

**Paths that fail.** A path that leaves the finite numbers is dropped: its number is in `diverged`, its later values are
NaN, it has no later recovery times. A covariance with a negative eigenvalue beyond rounding
(`overlap_diffusion.TOLERANCE`) is refused.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.gradient_flow import lowered_overlap_flow, overlap_loss, overlaps_of
from dynamics.core.checks import check_start
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled, kept
from dynamics.core.keys import replica_keys
from dynamics.core.paths import Paths, Scheme, hitting_times, run_paths, start_paths
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive
from dynamics.core.trajectory import Plotted, dataset
from dynamics.steps.finite_step import parameters_of
from dynamics.steps.overlap_diffusion import TOLERANCE, OverlapDiffusion
from theory import Activation, InitialState, InputError, System, Teacher, finite_step
from theory.core.arguments import check_positive, check_whole
from theory.core.streams import stream

if TYPE_CHECKING:
    import xarray as xr

#: δ of the step rule.
RESOLUTION = 0.1
#: Least 1 − t² and 1 − c² in the step rule; largest step in units of the relaxation time of what is learned.
_END, _STABLE = 0.05, 0.5
#: Paths held at once, at most; bytes they may take; arrays of the size of a covariance and its tables that a step holds.
_BATCH, _MEMORY, _COPIES = 256, 2e9, 24


@dataclass(frozen=True)
class SdeResult(Plotted):
    """An ensemble of R paths.

    Attributes:
        dataset: overlap, norm2, loss on (replica, time, neuron, direction), with the coordinate ``step``; NaN after a path
            has diverged.
        half_time: (R, P) gradient-flow time at which some student's squared overlap reaches the level; inf if not reached.
        diverged: (R,) bool. steps: (R,) steps of the scheme. resolution: δ of the step rule.
        end: row (R, n) of the last state of each path, see `OverlapDiffusion.split`.
    """

    dataset: "xr.Dataset"
    half_time: np.ndarray
    diverged: np.ndarray
    steps: np.ndarray
    resolution: float
    end: np.ndarray = field(repr=False)


def overlap_scheme(system: System, students: int, directions: int) -> tuple[OverlapDiffusion, Scheme]:
    """The diffusion of a system's overlaps and how it is stepped, made once per system and size (and compiled once).

    Parameters of the scheme: those of `OverlapDiffusion`, with ``level`` and ``resolution``.
    """
    return kept(system, _diffusion_and_scheme, students, directions)


def _diffusion_and_scheme(system: System, students: int, directions: int) -> tuple[OverlapDiffusion, Scheme]:
    diffusion = OverlapDiffusion(system, students, directions)
    return diffusion, _scheme(diffusion)


def _scheme(diffusion: OverlapDiffusion) -> Scheme:
    directions = diffusion.directions

    def at(y: jax.Array, x: dict[str, Any]) -> dict[str, Any]:
        covariance = diffusion.covariance(y, x)
        root, _ = diffusion.root(covariance, diffusion.largest_terms(y, x))
        overlaps = diffusion.split(y)[0]
        nearest = jnp.argmax(jnp.abs(overlaps), axis=0) * directions + jnp.arange(directions)
        variances = jnp.diag(covariance)
        return {
            **x,
            "root": root,
            "ito": diffusion.ito(covariance),
            "variances": variances,
            "leading": variances[nearest],
        }

    def drift(y: jax.Array, x: dict[str, Any]) -> jax.Array:
        return diffusion.drift(y, x) + x["ito"]

    def step(y: jax.Array, x: dict[str, Any]) -> jax.Array:
        overlaps, cosines, sizes = diffusion.split(y)
        away = jnp.maximum(1 - overlaps**2, _END) * jnp.sqrt(overlaps**2 + 1 / x["d"])
        lengths = jnp.concatenate([away.ravel(), jnp.maximum(1 - cosines**2, _END), jnp.ones_like(sizes)])
        rate = jnp.max(jnp.abs(drift(y, x)) / lengths + x["variances"] / lengths**2)
        wanted = jnp.minimum(x["resolution"] / rate, _STABLE / jnp.maximum(diffusion.relaxation(y, x), 1e-300))
        return jnp.maximum(wanted, x["eta_drift"])

    def gap(y: jax.Array, x: dict[str, Any]) -> jax.Array:
        nearest = jnp.max(jnp.abs(diffusion.split(y)[0]), axis=0)
        return jnp.append(x["level"] - nearest, 1.0)  # the last event never comes: paths go on after recovery

    def noise(y: jax.Array, x: dict[str, Any], brownian: jax.Array) -> jax.Array:
        return x["root"] @ brownian

    def gap_variance(y: jax.Array, x: dict[str, Any]) -> jax.Array:
        return jnp.append(x["leading"], 0.0)

    return Scheme(
        drift,
        noise,
        step,
        gap,
        gap_variance,
        diffusion.size,
        at=at,
        keep=diffusion.keep,
        grain=lambda x: x["eta_drift"],
    )


@double_precision
def sde_ensemble(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    time: float,
    paths: int,
    batch: int = 1,
    seed: int = 0,
    saves: int = 100,
    level: float = 0.5,
    resolution: float = RESOLUTION,
    second_order: bool = True,
    fluctuations: bool = True,
    system: System | None = None,
    progress: Progress | None = None,
) -> SdeResult:
    r"""Integrate `paths` paths of the SDE of all overlaps from `initial` to gradient-flow `time`.

    Args:
        step_size: η of SGD. batch: samples per step of SGD. level: squared overlap that counts as recovery.
        saves: times recorded at equal distances, the start included.
        resolution: δ of the step rule.
        second_order, fluctuations: False leaves the second order of the drift, or the noise, out (controls).
        system: a finite-step `System` with fluctuations in place of the derived one (to test a conjecture).

    The Gaussians of path i are a function of (seed, i) and its own step number: more paths leave the first ones as they are.
    Valid while one step moves the overlaps little and many samples matter in one run (`docs/sde.md`). A step costs
    $(m+P)^2m^2$ covariances and the square root of an n × n matrix, $n=mP+m(m+1)/2$: for a few students.

    Raises:
        InputError: a number out of range, an activation that is no polynomial, a covariance with a negative eigenvalue.
        Interrupted: on Ctrl-C, with the result so far.
    """
    _check(step_size, time, paths, saves, level, resolution)
    check_start(initial, teacher)
    chosen = finite_step(activation, batch, fluctuations=True) if system is None else system
    if not chosen.covariance:
        raise InputError("system has no covariance: make it with finite_step(activation, fluctuations=True)")
    diffusion, scheme = overlap_scheme(chosen, *initial.overlap.shape)
    rule = {"eta_drift": step_size if second_order else 0.0, "level": np.sqrt(level), "resolution": float(resolution)}
    numbers = parameters_of(teacher, step_size if fluctuations else 0.0) | {k: jnp.asarray(x) for k, x in rule.items()}
    everyone = {name: jnp.broadcast_to(x, (paths, *x.shape)) for name, x in numbers.items()}
    rows = np.broadcast_to(np.asarray(diffusion.row(overlaps_of(initial))), (paths, diffusion.size))
    ensemble, keys = start_paths(scheme, rows, everyone), replica_keys(seed, paths, "SDE", "increments")
    held = _held_at_once(*initial.overlap.shape)
    least = min(held, 1 << (paths - 1).bit_length())
    about: dict[str, str | float | int] = {
        "what": "sde",
        "activation": activation.name,
        "dim": teacher.dim,
        "step_size": step_size,
        "batch": batch,
        "resolution": resolution,
        "precision": "float64",
    }

    def advance(ensemble: Paths, part: Stretch) -> Paths:
        before = np.asarray(ensemble.diverged)
        ensemble = run_paths(scheme, ensemble, everyone, keys, part.end, batch=held, least=least)
        refuse_negative(diffusion, ensemble, numbers, before)
        return ensemble

    def result(track: Track[Paths]) -> SdeResult:
        overlap, norm2, loss = track.columns()
        ensemble = track.state
        attributes = about | {"steps_per_path": float(ensemble.steps.mean())}
        times = hitting_times(ensemble, stream(seed, "SDE", "crossings"))[:, : teacher.width]
        ends = {"half_time": times, "diverged": np.asarray(ensemble.diverged)}
        at = np.array(track.at)
        data = dataset(at, overlap, norm2, loss, step_size=step_size, attributes=attributes, level=level, **ends)
        return SdeResult(data, times, ends["diverged"], np.asarray(ensemble.steps), resolution, np.asarray(ensemble.y))

    parts = between(np.linspace(0.0, time, saves + 1).tolist())
    told = Told("SDE", float(time), progress, lambda ensemble: f", {int(ensemble.steps.max())} steps")
    return drive(ensemble, parts, advance, lambda y: _look(activation, diffusion, y, numbers["a"]), result, told)


def _held_at_once(width: int, teachers: int) -> int:
    """Paths that fit into the memory set aside: a covariance has n² entries, its tables ((m + P) m)²."""
    size = width * teachers + width * (width + 1) // 2
    each = 8 * _COPIES * (size**2 + ((width + teachers) * width) ** 2)
    return max(1, min(_BATCH, int(_MEMORY / each)))


def _check(step_size: float, time: float, paths: int, saves: int, level: float, resolution: float) -> None:
    check_positive(step_size=step_size, time=time)
    check_whole(paths=paths, saves=saves)
    if not 0 < level < 1:
        raise InputError(f"level is {level!r}: give a squared overlap between 0 and 1")
    if not 0 < resolution <= 0.5:
        raise InputError(f"resolution is {resolution!r}: give a share above 0, at most 0.5")


@compiled
def _observed(
    diffusion: OverlapDiffusion, rows: jax.Array, a: jax.Array, *, activation: Activation
) -> tuple[jax.Array, jax.Array, jax.Array]:
    def one(y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        state = diffusion.state(y)
        return state["t"], state["r"], overlap_loss(lowered_overlap_flow(activation), state, a)

    return jax.vmap(one)(rows)


def _look(
    activation: Activation, diffusion: OverlapDiffusion, ensemble: Paths, a: jax.Array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Overlaps (R, m, P), squared norms (R, m), losses (R,); NaN for paths that have diverged."""
    found = [np.asarray(x) for x in _observed(diffusion, ensemble.y, a, activation=activation)]
    lost = np.asarray(ensemble.diverged)
    return tuple(np.where(lost.reshape(-1, *[1] * (x.ndim - 1)), np.nan, x) for x in found)  # type: ignore[return-value]


@compiled
def _covariance(diffusion: OverlapDiffusion, y: jax.Array, numbers: dict[str, jax.Array]) -> jax.Array:
    return diffusion.covariance(y, numbers)


def refuse_negative(
    diffusion: OverlapDiffusion, ensemble: Paths, numbers: dict[str, jax.Array], before: np.ndarray | bool = False
) -> None:
    """Raises `InputError` if a path was given up because its covariance is none.

    Args:
        numbers: scalars, and a (P,). before: (R,) paths that were given up earlier, which have been looked at.
    """
    for path in np.flatnonzero(np.asarray(ensemble.diverged) & ~np.asarray(before))[:1]:
        y = ensemble.y[path]
        size = diffusion.largest_terms(y, numbers)
        root, least = diffusion.root(_covariance(diffusion, y, numbers), size)
        if np.isfinite(float(least)) and not np.isfinite(np.asarray(root)).all():
            raise InputError(
                f"system: covariance of path {path} at time {float(ensemble.time[path]):.4g} has the eigenvalue "
                f"{float(least):.3g}, below -{TOLERANCE:g} x {float(size):.3g}: it is the covariance of no step"
            )
