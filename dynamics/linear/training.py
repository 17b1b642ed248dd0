r"""Gradient methods on the two-layer linear network: label-noise SGD, gradient descent, sharpness-aware minimisation.

They are declared models (`theory.declared`): the student is a committee with activation z and a trained second layer, the
target has the one direction θ*, the loss is the square loss, and samples, labels and steps are those of
`dynamics.declared`. What is the linear network's own:

* everything runs in the exact reduction to d + 1 neurons (`dynamics.linear.network`): a step costs O(d²) for any width;
* the network knows several samples, or a whole training set, by one vector only, the gradient by θ;
* linearised: $\theta$ replaced by its first-order expansion about the start, the lazy model.

The methods: label noise (arXiv:2603.10397, eqs. 1-4) of fair signs ±σ, label flips (Algorithm 1 there, two classes), and SAM
(section 5 there), whose two layers climb together.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, in_blocks
from dynamics.declared.engine import Space, draw
from dynamics.declared.rows import Rows
from dynamics.declared.step import Parts, follow, gradient
from dynamics.linear.network import (
    Moments,
    Network,
    Seen,
    effective,
    linearised_effective,
    look,
    quadratic_loss,
    reduce,
)
from dynamics.linear.run import DEFAULT_SAVES, DEFAULT_TRACKED, LinearRun, Setting, block_length, group_size
from theory import Activation, InputError
from theory.core.arguments import check_whole
from theory.declared.loss import Correlation, Square
from theory.declared.rule import SAM, Gradient, Here, Rule
from theory.declared.student import committee
from theory.declared.target import Additive, Classes, Target
from theory.linear.task import LinearStart, LinearTask

_LINEAR = Activation.parse("z")


@dataclass(frozen=True)
class Method:
    """What is compiled: the declared parts; gradients on the `whole` training set (or population); `linearised` or not."""

    parts: Parts
    target: Target
    whole: bool
    linearised: bool


class Data(NamedTuple):
    """Step size η, θ* as the one direction, the training set (None if fresh), and its moments."""

    step_size: jax.Array
    space: Space
    moments: Moments


def method_of(task: LinearTask, width: int, rule: Rule, *, whole: bool = False, linearised: bool = False) -> Method:
    """The declared parts of a network of `width` neurons on a task; the rule's data set, if any, is the task's.

    The step size goes beside them (`data_of`), so that one compilation serves all.
    """
    samples = 0 if whole else task.train_size or 0
    rule = replace(rule, step_size=1.0, samples=samples, order="replacement", renewed=True)
    linear = Additive(_LINEAR, (1.0,))
    parts = Parts(committee(_LINEAR, width, trained=True), Square(), rule)
    return Method(parts, Classes(linear) if task.classes else linear, whole, linearised)


def data_of(task: LinearTask, moments: Moments, step_size: float) -> Data:
    """As arrays."""
    inputs = None if task.inputs is None else jnp.asarray(task.inputs)
    space = Space(jnp.ones(task.dim), jnp.asarray(task.target)[None], inputs)
    return Data(jnp.asarray(step_size, dtype=float), space, moments)


# ------------------------------------------------------------------------------- gradients


def _through_theta(
    method: Method, moments: Moments, start: Network, parts: Parts, labels: jax.Array, rows: Rows, second: jax.Array
) -> Gradient:
    r"""∇ℓ by the chain rule: with $r=\nabla_\theta\ell$ it is the gradient of $\langle\theta,r\rangle$.

    That is the correlation loss on the one input r with label −1; and r itself is the gradient of a network of one row, θ.
    """
    here = Network(rows.array, second)
    theta = linearised_effective(start, here) if method.linearised else effective(here)
    if method.whole:
        slope = jax.grad(quadratic_loss)(theta, moments)[None]
    else:
        slope = gradient(parts, labels, Rows(theta[None], rows.samples), jnp.ones(1)).rows.array
    at = start if method.linearised else here
    return gradient(parts._replace(loss=Correlation()), -jnp.ones(1), Rows(at.first, slope), at.second)


# ----------------------------------------------------------------------------------- steps


class Batch(NamedTuple):
    """Samples (…, b, d), labels (…, b) and number of one or many steps."""

    samples: jax.Array
    labels: jax.Array
    step: jax.Array


def samples_of(method: Method, data: Data, key: jax.Array, steps: jax.Array) -> Batch:
    """The declared samples of the given step numbers (n,); none where the whole set is meant."""
    if method.whole:
        return Batch(jnp.zeros((steps.size, 0, 0)), jnp.zeros((steps.size, 0)), steps)
    return Batch(*draw(method.parts, method.target, data.space, key, steps, key), steps)


def take_step(method: Method, data: Data, start: Network, network: Network, batch: Batch) -> Network:
    """The declared step."""
    parts, labels = method.parts, batch.labels
    # (Of one sample the vector r is the sample itself.)
    direct = not method.whole and not method.linearised and parts.rule.batch == 1
    slope = gradient if direct else partial(_through_theta, method, data.moments, start)
    here = Here(
        Rows(network.first, batch.samples),
        network.second,
        {},
        batch.step,
        data.step_size,
        lambda v, b: slope(parts, labels, v, b),
    )
    moved = follow(parts, here)
    return Network(moved.rows.array, moved.second)


# -------------------------------------------------------------------------------- replicas


@partial(jax.jit, static_argnums=(0, 1, 2))
def advance_networks(
    method: Method,
    length: int,
    group: int,
    data: Data,
    starts: Network,
    networks: Network,
    keys: jax.Array,
    first: int,
    blocks: int,
    step: int,
    taken: int,
) -> Network:
    """`blocks` blocks of `length` steps from block number `first`, which starts at `step`; group after group.

    Every array of `starts` and `networks` has the replicas in front: W has shape (R, k, d). `taken`: steps of a block that are
    taken, all but of the last block of a run: so it is the same code.
    """

    def block(network: Network, each: tuple[Network, jax.Array], number: jax.Array) -> Network:
        start, key = each
        steps = step + (number - first) * length + jnp.arange(length)
        # (Without samples, a key is a number.)
        own = key if method.whole else jax.random.fold_in(key, number)
        batches = samples_of(method, data, own, steps)

        def taken_step(place: jax.Array, now: Network) -> Network:
            return take_step(method, data, start, now, jax.tree.map(lambda x: x[place], batches))

        return jax.lax.fori_loop(0, taken, taken_step, network)

    return in_blocks(block, networks, (starts, keys), first, blocks, group)


@partial(jax.jit, static_argnums=(0, 1))
def _look(
    tracked: int,
    linearised: bool,
    losses: tuple[Moments, Moments],
    target: jax.Array,
    basis: jax.Array,
    starts: Network,
    now: Network,
) -> Seen:
    """`look` at every replica, its neurons restored by its basis."""

    def one(job: tuple[jax.Array, Network, Network]) -> Seen:
        place, start, reduced = job
        return look(losses, target, tracked, start, reduced, linearised, basis[place % len(basis)])

    return jax.lax.map(one, (jnp.arange(len(now.second)), starts, now))


def _train(setting: Setting, rule: Rule, what: str, *, whole: bool = False, linearised: bool = False) -> LinearRun:
    task, replicas = setting.task, setting.replicas
    basis, starts = reduce(setting.start, replicas)
    # Without samples nothing is drawn, and numbers stand in for the keys.
    keys = jnp.arange(replicas) if whole else replica_keys(setting.seed, replicas, "linear network", "samples")
    method = method_of(task, starts.second.shape[1], rule, whole=whole, linearised=linearised)
    data, group = data_of(task, setting.losses[1], setting.step_size), group_size(replicas)
    length = block_length(setting.steps, setting.saves)

    def advance(networks: Network, part: Stretch) -> Network:
        where = (part.first, part.blocks, part.begin, part.length)
        return advance_networks(method, length, group, data, starts, networks, keys, *where)

    def seen(now: Network) -> Seen:
        return _look(setting.shown, linearised, setting.losses, data.space.directions[0], basis, starts, now)

    numbers: dict[str, Any] = {"flip" if rule.noise_law == "flips" else "noise": rule.noise}
    numbers["radius"] = rule.radius if isinstance(rule, SAM) else 0.0
    shown = {name: float(value) for name, value in numbers.items() if value}
    return setting.run(starts, advance, seen, what, batch="full" if whole else rule.batch, **shown)


# ------------------------------------------------------------------------- front doors


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
    law, size = ("flips", flip) if task.classes else ("signs", noise)
    rule = Rule(1.0, batch, size, noise_law=law, noise_period=period or 0)
    return _train(setting, rule, "label-noise", linearised=linearised)


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
    return _train(setting, Rule(1.0), "gradient-descent", whole=True, linearised=linearised)


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
    rule = SAM(1.0, batch or 1, radius=radius, layers="both") if radius > 0 else Rule(1.0, batch or 1)
    what = "sam" if radius > 0 else "gradient-descent"
    return _train(setting, rule, what, whole=batch is None, linearised=linearised)
