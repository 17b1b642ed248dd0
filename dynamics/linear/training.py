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
from dynamics.linear.network import Moments, Network, Seen, effective, look, quadratic_loss, reduce
from dynamics.linear.run import DEFAULT_SAVES, DEFAULT_TRACKED, LinearRun, Setting, group_size
from theory import InputError
from theory.core.arguments import check_whole
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
    """Samples of the given step numbers: training points drawn uniformly with replacement, or fresh ones; `steps`: (n,)."""
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
    """`blocks` blocks of `length` steps from block number `first`, which starts at `step`; group after group.

    Every array of `starts` and `networks` has the replicas in front: W has shape (R, k, d).
    """

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


def _train(rule: Rule, dials: Dials, setting: Setting, what: str) -> LinearRun:
    task, replicas = setting.task, setting.replicas
    basis, starts = reduce(setting.start, replicas)
    # Without samples nothing is drawn, and numbers stand in for the keys.
    samples = ("linear network", "samples")
    keys = jnp.arange(replicas) if rule.batch is None else replica_keys(setting.seed, replicas, *samples)
    inputs = np.zeros((0, task.dim)) if task.inputs is None else task.inputs
    data, group = Data(jnp.asarray(task.target), jnp.asarray(inputs), setting.losses[1]), group_size(replicas)

    def advance(networks: Network, part: Stretch) -> Network:
        where = (part.first, part.blocks, part.begin)
        return advance_networks(rule, part.length, group, dials, data, starts, networks, keys, *where)

    def seen(now: Network) -> Seen:
        return _look(setting.shown, setting.losses, data.target, basis, starts, now)

    numbers = {name: float(getattr(dials, name)) for name in ("noise", "flip", "radius") if getattr(dials, name) != 0}
    return setting.run(starts, advance, seen, what, batch="full" if rule.batch is None else rule.batch, **numbers)


# ------------------------------------------------------------------------- front doors


def dials_of(
    step_size: float, noise: float = 0.0, flip: float = 0.0, period: int | None = None, radius: float = 0.0
) -> Dials:
    """The numbers as JAX scalars; without a period the noise stays on."""
    eta, sigma, tau, rho = (jnp.asarray(x, dtype=float) for x in (step_size, noise, flip, radius))
    return Dials(eta, sigma, tau, jnp.asarray(2**62 if period is None else period), rho)


def _not_negative(name: str, value: float, most: float = np.inf) -> None:
    if not (np.isfinite(value) and 0 <= value <= most):
        wanted = f"a number from 0 to {most:g}" if np.isfinite(most) else "a finite number, 0 or more"
        raise InputError(f"{name} is {value!r}: give {wanted}")


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
    setting = Setting(task, start, step_size, steps, replicas, seed, saves, tracked, progress)
    check_whole(batch=batch, period=1 if period is None else period)
    _not_negative("noise", noise)
    _not_negative("flip", flip, 1.0)
    if task.classes and noise:
        raise InputError(f"noise is {noise!r} on class labels: give flip instead, or a task without classes")
    if flip and not task.classes:
        raise InputError(f"flip is {flip!r} on real labels: give noise instead, or a task with classes")
    rule = Rule(batch, task.inputs is None, task.classes, False, linearised)
    return _train(rule, dials_of(step_size, noise, flip, period), setting, "label-noise")


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
    setting = Setting(task, start, step_size, steps, replicas, 0, saves, tracked, progress)
    return _steepest(setting, 0.0, None, linearised)


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
    Other arguments, and what is raised, as for `label_noise_sgd`.
    """
    setting = Setting(task, start, step_size, steps, replicas, seed, saves, tracked, progress)
    check_whole(batch=1 if batch is None else batch)
    _not_negative("radius", radius)
    return _steepest(setting, radius, batch, linearised)


def _steepest(setting: Setting, radius: float, batch: int | None, linearised: bool) -> LinearRun:
    """Clean labels, with or without sharpness awareness."""
    rule = Rule(batch, setting.task.inputs is None, setting.task.classes, radius > 0, linearised)
    what = "sam" if radius > 0 else "gradient-descent"
    return _train(rule, dials_of(setting.step_size, radius=radius), setting, what)
