r"""Gradient methods on the two-layer linear network: label-noise SGD, gradient descent, sharpness-aware minimisation.

One loss, $\tfrac12(\theta^\top x-\tilde y)^2$ with $\theta=W^\top a$, differentiated automatically; the methods differ in
which samples it is taken on, in the labels, and in where the gradient is evaluated:

* label noise (arXiv:2603.10397, eqs. 1-4): $\tilde y=y+\epsilon$, $\epsilon=\pm\sigma$, a new sign in every step;
* label flips (Algorithm 1 there, two classes): $\tilde y=-y$ with probability τ;
* SAM (section 5 there): the gradient at $B+\rho\nabla\ell/|\nabla\ell|$;
* linearised: $\theta$ replaced by its first-order expansion about the start, the lazy model.

All run in the exact reduction to d + 1 neurons (`dynamics.linear.network`): a step costs O(d²) for any width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch
from dynamics.linear.network import Moments, Network, Seen, effective, look, moments_of, quadratic_loss, reduce
from dynamics.linear.run import DEFAULT_SAVES, DEFAULT_TRACKED, LinearRun, check, group_size, run_networks
from theory import InputError
from theory.linear.task import LinearStart, LinearTask


@dataclass(frozen=True)
class Rule:
    """What is compiled: a method up to its numbers.

    Attributes:
        batch: samples in a step; None for the whole training set (the population if samples are fresh).
        sharpness: SAM. linearised: train the first-order expansion about the start.
    """

    batch: int | None
    fresh: bool
    classes: bool
    sharpness: bool
    linearised: bool


class Dials(NamedTuple):
    """The numbers of a method: step size η, noise σ, flip probability τ, steps of noise on (then as many off), radius ρ."""

    step_size: jax.Array
    noise: jax.Array
    flip: jax.Array
    period: jax.Array
    radius: jax.Array


class Data(NamedTuple):
    """θ* (d,), the training set (n, d) (empty if fresh) and its moments."""

    target: jax.Array
    inputs: jax.Array
    moments: Moments


class Samples(NamedTuple):
    """Inputs (…, batch, d) and labels (…, batch) of one or many steps."""

    inputs: jax.Array
    labels: jax.Array


Loss = Callable[[jax.Array], jax.Array]


# ---------------------------------------------------------------------------- one step


def _linearised(start: Network, network: Network) -> jax.Array:
    """θ to first order about the start."""
    moved = jax.tree.map(jnp.subtract, network, start)
    value, change = jax.jvp(effective, (start,), (moved,))
    return value + change


def _gradient(rule: Rule, dials: Dials, start: Network, network: Network, loss: Loss) -> Network:
    """∇ℓ where the method evaluates it."""
    theta = partial(_linearised, start) if rule.linearised else effective
    gradient = jax.grad(lambda network: loss(theta(network)))
    here = gradient(network)
    if not rule.sharpness:
        return here
    length = jnp.sqrt(jnp.sum(here.first**2) + jnp.sum(here.second**2))
    reach = jnp.where(length > 0, dials.radius / jnp.where(length > 0, length, 1.0), 0.0)
    return gradient(jax.tree.map(lambda w, g: w + reach * g, network, here))


def _step(rule: Rule, dials: Dials, data: Data, start: Network, network: Network, samples: Samples | None) -> Network:
    """One step; without samples on the whole training set."""

    def loss(theta: jax.Array) -> jax.Array:
        if samples is None:
            return quadratic_loss(theta, data.moments)
        return 0.5 * jnp.mean((jnp.sum(samples.inputs * theta, axis=-1) - samples.labels) ** 2)

    gradient = _gradient(rule, dials, start, network, loss)
    return jax.tree.map(lambda w, g: w - dials.step_size * g, network, gradient)


# ----------------------------------------------------------------------------- samples


def _noise_on(dials: Dials, steps: jax.Array) -> jax.Array:
    """Whether labels are noisy in each step: `period` steps with noise, as many without, and so on."""
    return (steps // dials.period) % 2 == 0


def draw_samples(rule: Rule, dials: Dials, data: Data, key: jax.Array, steps: jax.Array) -> Samples:
    """Samples of the given step numbers: training points drawn uniformly with replacement, or fresh ones."""
    assert rule.batch is not None
    input_key, label_key = jax.random.split(key)
    shape = (steps.size, rule.batch)
    if rule.fresh:
        inputs = jax.random.normal(input_key, (*shape, data.target.size))
    else:
        # floor(n·u) with u of 32 bits: the share of a point is off by at most 2⁻³² n of itself.
        bits = jax.random.bits(input_key, shape, jnp.uint32).astype(jnp.uint64)
        inputs = data.inputs[(bits * len(data.inputs)) >> 32]
    clean = jnp.sum(inputs * data.target, axis=-1)
    noisy = _noise_on(dials, steps)[:, None]
    if rule.classes:
        flipped = noisy & (jax.random.uniform(label_key, shape) < dials.flip)
        return Samples(inputs, jnp.where(flipped, -jnp.sign(clean), jnp.sign(clean)))
    sign = jnp.where(jax.random.bits(label_key, shape, jnp.uint8) & 1, 1.0, -1.0)
    return Samples(inputs, clean + jnp.where(noisy, dials.noise * sign, 0.0))


# --------------------------------------------------------------------------- replicas


@partial(jax.jit, static_argnums=(0, 1, 2))
def advance_networks(
    rule: Rule,
    length: int,
    group: int,
    dials: Dials,
    data: Data,
    starts: Network,
    networks: Network,
    keys: jax.Array,
    first: int,
    blocks: int,
    step: int,
) -> Network:
    """`blocks` blocks of `length` steps from block number `first`, which starts at `step`; group after group."""

    def one(job: tuple[Network, Network, jax.Array]) -> Network:
        start, network, key = job

        def block(number: jax.Array, network: Network) -> Network:
            if rule.batch is None:
                return jax.lax.fori_loop(0, length, lambda _, w: _step(rule, dials, data, start, w, None), network)
            steps = step + (number - first) * length + jnp.arange(length)
            samples = draw_samples(rule, dials, data, jax.random.fold_in(key, number), steps)
            return jax.lax.scan(lambda w, x: (_step(rule, dials, data, start, w, x), None), network, samples)[0]

        return jax.lax.fori_loop(first, first + blocks, block, network)

    return jax.lax.map(one, (starts, networks, keys), batch_size=group)


@partial(jax.jit, static_argnums=0)
def _look(
    tracked: int, losses: tuple[Moments, Moments], target: jax.Array, basis: jax.Array, starts: Network, now: Network
) -> Seen:
    """`look` at every replica, its neurons restored by its basis."""

    def one(job: tuple[jax.Array, Network, Network]) -> Seen:
        place, *networks = job
        rows = basis[place % len(basis)]
        start, whole = (Network(rows @ w.first, rows @ w.second) for w in networks)
        return look(losses, target, tracked, start, whole)

    return jax.lax.map(one, (jnp.arange(len(now.second)), starts, now))


def _train(
    rule: Rule, dials: Dials, task: LinearTask, start: LinearStart, *, what: str, steps: int, replicas: int,
    seed: int, saves: int, tracked: int, progress: Progress | None,
) -> LinearRun:  # fmt: skip
    basis, starts = reduce(start, replicas)
    # Without samples nothing is drawn, and numbers stand in for the keys.
    keys = jnp.arange(replicas) if rule.batch is None else replica_keys(seed, replicas, "linear network", "samples")
    inputs = np.zeros((0, task.dim)) if task.inputs is None else task.inputs
    training = moments_of(task)
    data = Data(jnp.asarray(task.target), jnp.asarray(inputs), training)
    losses = (moments_of(task, population=True), training)
    group = group_size(replicas)

    def advance(networks: Network, part: Stretch) -> Network:
        where = (part.first, part.blocks, part.begin)
        return advance_networks(rule, part.length, group, dials, data, starts, networks, keys, *where)

    attributes: dict[str, str | float | int] = {
        "dim": task.dim,
        "width": start.width,
        "step_size": float(dials.step_size),
        "train_size": "fresh" if task.train_size is None else task.train_size,
        "batch": "full" if rule.batch is None else rule.batch,
        "seed": seed,
    } | {name: float(getattr(dials, name)) for name in ("noise", "flip", "radius") if getattr(dials, name) != 0}
    return run_networks(
        starts, advance, lambda now: _look(min(tracked, start.width), losses, data.target, basis, starts, now),
        what=what, steps=steps, saves=saves, width=start.width, step_size=float(dials.step_size),
        attributes=attributes, progress=progress,
    )  # fmt: skip


# ------------------------------------------------------------------------- front doors


def dials_of(
    step_size: float, noise: float = 0.0, flip: float = 0.0, period: int | None = None, radius: float = 0.0
) -> Dials:
    eta, sigma, tau, rho = (jnp.asarray(x, dtype=float) for x in (step_size, noise, flip, radius))
    return Dials(eta, sigma, tau, jnp.asarray(2**62 if period is None else period), rho)


def _not_negative(name: str, value: float, most: float = np.inf) -> None:
    if not (np.isfinite(value) and 0 <= value <= most):
        raise InputError(f"{name} is {value!r}: give a number from 0 to {most:g}" if np.isfinite(most) else
                         f"{name} is {value!r}: give a finite number, 0 or more")  # fmt: skip


@double_precision
def label_noise_sgd(
    task: LinearTask,
    start: LinearStart,
    *,
    step_size: float,
    steps: int,
    noise: float = 0.0,
    flip: float = 0.0,
    period: int | None = None,
    batch: int = 1,
    replicas: int = 1,
    seed: int = 0,
    saves: int = DEFAULT_SAVES,
    tracked: int = DEFAULT_TRACKED,
    linearised: bool = False,
    progress: Progress | None = None,
) -> LinearRun:
    r"""SGD with noisy labels (arXiv:2603.10397, eqs. 1-4, and Algorithm 1 for two classes).

    $w_i\leftarrow w_i-\eta a_i\ell'x$, $a_i\leftarrow a_i-\eta\ell'\langle x,w_i\rangle$ at once, with
    $\ell'=\langle\theta,x\rangle-\tilde y$, averaged over the batch.

    Args:
        step_size: η. steps: SGD steps. batch: samples per step, drawn uniformly with replacement.
        noise: σ of ±σ added to the label. flip: for a task with classes, the probability of the other class.
        period: noise on for so many steps, off for as many, and so on (None: always on).
        seed: the same seed gives the same result, replica by replica, whatever the number of replicas.
        saves: how many times to record, equidistant. tracked: how many neurons are recorded one by one.
        linearised: train the first-order expansion about the start instead (a control).
        progress: called with (fraction, text).

    Returns: `LinearRun`.

    Raises:
        InputError: a number out of range, noise on classes, flips without classes.
        Interrupted: on Ctrl-C, with the result so far.
    """
    check(
        task, start, step_size=step_size, seed=seed, steps=steps, batch=batch, replicas=replicas, saves=saves,
        tracked=tracked, period=1 if period is None else period,
    )  # fmt: skip
    _not_negative("noise", noise)
    _not_negative("flip", flip, 1.0)
    if task.classes and noise:
        raise InputError(f"noise is {noise!r} on class labels: give flip instead, or a task without classes")
    if flip and not task.classes:
        raise InputError(f"flip is {flip!r} on real labels: give noise instead, or a task with classes")
    rule = Rule(batch, task.inputs is None, task.classes, False, linearised)
    return _train(
        rule, dials_of(step_size, noise, flip, period), task, start, what="label-noise", steps=steps, replicas=replicas,
        seed=seed, saves=saves, tracked=tracked, progress=progress,
    )  # fmt: skip


@double_precision
def linear_descent(
    task: LinearTask,
    start: LinearStart,
    *,
    step_size: float,
    steps: int,
    replicas: int = 1,
    saves: int = DEFAULT_SAVES,
    tracked: int = DEFAULT_TRACKED,
    linearised: bool = False,
    progress: Progress | None = None,
) -> LinearRun:
    r"""Noise-free gradient descent on the training set (the population if samples are fresh): phase II.

    $W\leftarrow W-\eta\,a(\Sigma\theta-b)^\top$, $a\leftarrow a-\eta W(\Sigma\theta-b)$ (arXiv:2603.10397, section 4.4).
    Replicas differ only if `start` holds different ones. Arguments and errors as for `label_noise_sgd`.
    """
    return sam(
        task, start, radius=0.0, step_size=step_size, steps=steps, batch=None, replicas=replicas, saves=saves,
        tracked=tracked, linearised=linearised, progress=progress,
    )  # fmt: skip


@double_precision
def sam(
    task: LinearTask,
    start: LinearStart,
    *,
    radius: float,
    step_size: float,
    steps: int,
    batch: int | None = 1,
    replicas: int = 1,
    seed: int = 0,
    saves: int = DEFAULT_SAVES,
    tracked: int = DEFAULT_TRACKED,
    linearised: bool = False,
    progress: Progress | None = None,
) -> LinearRun:
    r"""Sharpness-aware minimisation, clean labels (arXiv:2603.10397, section 5).

    $B\leftarrow B-\eta\nabla\ell(B+\rho\nabla\ell(B)/|\nabla\ell(B)|)$ with ℓ on `batch` samples, or on the whole
    training set (the population if samples are fresh) for ``batch=None``. ``radius=0`` is plain SGD or gradient descent.
    Other arguments and errors as for `label_noise_sgd`.
    """
    check(
        task, start, step_size=step_size, seed=seed, steps=steps, batch=1 if batch is None else batch,
        replicas=replicas, saves=saves, tracked=tracked,
    )  # fmt: skip
    _not_negative("radius", radius)
    rule = Rule(batch, task.inputs is None, task.classes, radius > 0, linearised)
    what = "sam" if radius > 0 else "gradient-descent"
    return _train(
        rule, dials_of(step_size, radius=radius), task, start, what=what, steps=steps, replicas=replicas, seed=seed,
        saves=saves, tracked=tracked, progress=progress,
    )  # fmt: skip
