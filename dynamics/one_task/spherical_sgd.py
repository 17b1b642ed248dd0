r"""Spherical online SGD on a single-index target, exact in law: one number per replica, whatever the dimension.

The step of `theory.one_task.spherical_step` moves the overlap $u=\langle v,e\rangle$ by
$$u'=\frac{u+\eta g(x-uz)}{\sqrt{1+\eta^2g^2(|x|^2-z^2)}},\qquad z=ux+\sqrt{1-u^2}\,\zeta,\qquad
|x|^2=x^2+\zeta^2+s^2,$$
with x and ζ standard Gaussians (the sample along e and along the rest of the student) and $s^2\sim\chi^2_{d-2}$, all
independent of each other and of the past. The overlap is therefore a Markov chain by itself: three random numbers and some
twenty operations per step, at any d, with the law of SGD in $R^d$. For a direction of weight a among others (noise s, see
there) g holds $a\{\sigma(x)-\sigma(z)\}+s\xi$, with one Gaussian ξ more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from numpy.random import SFC64, Generator

from dynamics.core.interrupted import Progress
from dynamics.core.lowering import lower_scalar
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, between, drive
from theory import Activation, InputError
from theory.core.arguments import check_positive, check_whole
from theory.core.hermite import z as activation_variable
from theory.core.streams import sequence

#: Random numbers held at once.
_HELD = 2**19


@dataclass(frozen=True)
class SphericalRuns:
    """Replicas of spherical SGD.

    Attributes:
        hitting_steps: (R,) first step after which the overlap is at `level` or above; inf if not by the end.
        overlap: (R,) where it has arrived, or at the end of the run. steps: steps run (fewer than asked for if all arrived).
    """

    hitting_steps: np.ndarray
    overlap: np.ndarray
    steps: int


@lru_cache(maxsize=32)
def _functions(activation: Activation) -> tuple[Callable, Callable]:
    sigma = activation.function
    return lower_scalar(activation_variable, sigma), lower_scalar(
        activation_variable, sp.diff(sigma, activation_variable)
    )


@partial(jax.jit, static_argnums=0)
def advance_overlaps(
    activation: Activation,
    step_size: jax.Array,
    level: jax.Array,
    chain: tuple,
    samples: jax.Array,
    target: jax.Array | tuple[float, float] = (1.0, 0.0),
    limit: jax.Array | float = np.inf,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The steps of `samples` (steps, 3 or 4, R): x, ζ, |x_rest|², ξ. Chain: overlap, hitting step, steps done.

    `target`: (2,) weight of the direction and noise of the others. Nothing moves from step number `limit` on, so that
    blocks of one shape serve runs of every length, nor what has arrived.
    """
    sigma, slope = _functions(activation)
    even = activation.parity == "even"

    def step(chain: tuple, sample: jax.Array) -> tuple[tuple, None]:
        u, hit, done = chain
        x, other, rest, *noise = sample
        z = u * x + jnp.sqrt(jnp.maximum(1 - u * u, 0.0)) * other
        gap = target[0] * (sigma(x) - sigma(z)) + sum(target[1] * one for one in noise)
        move = step_size * gap * slope(z)
        across = x * x + other * other - z * z + rest
        running = (done < limit) & (hit == jnp.inf)
        u = jnp.where(running, (u + move * (x - u * z)) / jnp.sqrt(1 + move * move * across), u)
        arrived = running & ((jnp.abs(u) if even else u) >= level)
        return (u, jnp.where(arrived, done + 1, hit), done + 1), None

    return jax.lax.scan(step, chain, samples)[0]


@double_precision
def spherical_sgd(
    activation: Activation,
    dim: int,
    overlap: float,
    *,
    step_size: float,
    steps: int,
    replicas: int,
    level: float = 0.7,
    seed: int = 0,
    weight: float = 1.0,
    noise: float = 0.0,
    progress: Progress | None = None,
) -> SphericalRuns:
    r"""Run until every replica's overlap has reached `level` (either sign for even activations), or for `steps` steps.

    Args:
        dim: d. overlap: u at the start. step_size: η, of ½(σ(x_e) − σ(z))². level: overlap, not squared.
        seed: replica i is the same whatever the number of replicas, and a longer run begins with a shorter one.
        weight, noise: a and s of a direction among others (`theory.one_task.spherical_step.noise_of_others`).

    Cost: three random numbers per replica and step, at any d. Times are steps, one fresh sample each.

    Raises:
        InputError: a number out of range.
        Interrupted: on Ctrl-C, with the result so far.
    """
    _check(dim, overlap, step_size, steps, replicas, level)
    _check_target(weight, noise)
    # Gaussians step after step, lengths from a generator of their own: how many are drawn at once does not matter.
    # (SFC64 draws faster than NumPy's default, and nothing else is done here.)
    seeds = [sequence(seed, "spherical SGD", replica=i) for i in range(replicas)]
    streams = [(Generator(SFC64(one)), Generator(SFC64(one.spawn(1)[0]))) for one in seeds]
    reached = overlap >= level or (activation.parity == "even" and -overlap >= level)
    hit = jnp.full(replicas, 0.0 if reached else jnp.inf)
    chain = (jnp.full(replicas, float(overlap)), hit, jnp.asarray(0.0))
    count = 3 if noise > 0 else 2
    block = max(1, min(steps, _HELD // ((count + 1) * replicas)))
    gaussians, halves = np.empty((replicas, block, count)), np.empty((replicas, block))
    eta, height, target = jnp.asarray(float(step_size)), jnp.asarray(float(level)), jnp.asarray([weight, noise])
    limit = jnp.asarray(float(steps))

    def advance(chain: tuple, _: Stretch) -> tuple:
        # (What has arrived stands still, and needs no new numbers.)
        for i in np.flatnonzero(np.isinf(np.asarray(chain[1]))):
            streams[i][0].standard_normal(out=gaussians[i])
            streams[i][1].standard_gamma((dim - 2) / 2, out=halves[i])
        drawn = np.empty((block, count + 1, replicas))
        drawn[:, :2] = gaussians[..., :2].transpose(1, 2, 0)
        np.multiply(halves.T, 2, out=drawn[:, 2])
        drawn[:, 3:] = gaussians[..., 2:].transpose(1, 2, 0)
        return advance_overlaps(activation, eta, height, chain, jnp.asarray(drawn), target, limit)

    def result(track: Track[tuple]) -> SphericalRuns:
        return SphericalRuns(np.asarray(track.state[1]), np.asarray(track.state[0]), int(track.at[-1]))

    def done(track: Track[tuple]) -> bool:
        return bool(np.all(np.isfinite(track.seen[-1])))

    parts = () if reached else between([*range(0, steps, block), steps])
    told = Told("spherical SGD", steps, progress, f" at most, {replicas} replicas")
    return drive(chain, parts, advance, lambda chain: chain[1], result, told, done=done)


def _check(dim: int, overlap: float, step_size: float, steps: int, replicas: int, level: float) -> None:
    check_whole(3, dim=dim)
    check_whole(steps=steps, replicas=replicas)
    if not abs(overlap) <= 1:
        raise InputError(f"overlap is {overlap!r}: give a cosine between -1 and 1")
    check_positive(step_size=step_size)
    if not 0 < level < 1:
        raise InputError(f"level is {level!r}: give an overlap between 0 and 1")


def _check_target(weight: float, noise: float) -> None:
    check_positive(weight=weight)
    if not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise is {noise!r}: give a finite number, 0 or more")
