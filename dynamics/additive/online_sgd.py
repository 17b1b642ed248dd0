r"""Online SGD of the 2-homogeneous student, exact in law, at a cost that does not depend on d.

For isotropic Gaussian data, the students' coordinates $T$ on the teacher directions and the Gram matrix of their
residuals form a Markov chain. A block of samples is drawn in the coordinates that matter: on the teachers ($N(0,1)$), on
an orthonormal basis of the residual span ($N(0,1)$), and outside both, where only the samples' Gram matrix matters: a
Wishart matrix with $D=d-P-m$ degrees of freedom, drawn by its Bartlett factor (Bartlett 1933). Within a block the students
move in the span of what is known, so pre-activations follow from the block's Gram matrix; at its end the residuals, now in
$m+$block coordinates, are expressed in $m$ again by a Cholesky factor of their Gram matrix. Nothing is
approximated: the joint law of $(T, VV^\top)$ at all steps is that of SGD in $R^d$.

Cost per step $O(m(P+m+B))$ with block length B, memory $O(m(P+m)+B^2)$, for any $d\ge P+m$.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.additive.ambient_flow import embed
from dynamics.additive.gradient_flow import LEVEL, lowered_overlap_flow, overlap_loss
from dynamics.core.checks import check_run, check_start
from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import State, lower_scalar
from dynamics.core.outside import NO_MISTAKES, Mistakes, outside_columns, outside_factor, rotate_back
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, stretches
from dynamics.core.trajectory import dataset
from theory import Activation, InitialState, InputError, Teacher
from theory.core.arguments import check_whole
from theory.core.hermite import z as activation_variable
from theory.steps import neuron as neuron_model

if TYPE_CHECKING:
    import xarray as xr

#: A replica whose squared norms exceed this has diverged (teachers have unit total weight).
BLOW_UP = 1e6
#: The loss −f_*·f of students on the unit sphere, in place of ½(f_* − f)² of the 2-homogeneous student.
CORRELATION = "correlation"
_DEFAULT_SAVES = 200
_BLOCK = 32


class Chain(NamedTuple):
    """State of one replica: T (m, P) and R (m, m) (exact) or V (m, d) (ambient, R empty), and recovery steps."""

    on_teachers: jax.Array
    residual: jax.Array
    half_step: jax.Array
    loss_step: jax.Array


@dataclass(frozen=True)
class Problem:
    """Static description of a run (hashable, so that one compilation serves many calls)."""

    activation: Activation
    weights: tuple[float, ...]
    dim: int
    width: int
    batch: int
    block_steps: int
    method: str
    mistakes: Mistakes = NO_MISTAKES
    loss: str = "mse"

    @property
    def sphere(self) -> bool:
        """Whether students stay on the unit sphere (correlation loss): every step ends with a normalisation."""
        return self.loss == CORRELATION

    @property
    def samples(self) -> int:
        return self.batch * self.block_steps

    @property
    def outside(self) -> int:
        """Degrees of freedom outside teachers and students."""
        return self.dim if self.mistakes.forget_known else self.dim - len(self.weights) - self.width


@dataclass(frozen=True)
class SgdResult:
    """A set of SGD replicas.

    Attributes:
        dataset: overlap, norm2, loss on (replica, time, neuron, direction); coordinate ``step``.
        half_steps: (replica, P) first step (to `resolution`) with a squared overlap ≥ ½; inf if not reached.
        loss_steps: (replica, P) first step with Σ_k r_k t_kq² ≥ a_q/2; inf if not reached.
        diverged: (replica,) bool.
        steps: steps run. resolution: recovery is looked at every so many steps.
    """

    dataset: "xr.Dataset"
    half_steps: np.ndarray
    loss_steps: np.ndarray
    diverged: np.ndarray
    steps: int
    resolution: int


# ------------------------------------------------------------------------ the update


@lru_cache(maxsize=32)
def update_rule(
    activation: Activation, sphere: bool = False
) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]:
    """(r, h) → output F, coefficient 2F_r of v and F_h of x, lowered from the derived neuron."""
    model = neuron_model.directional() if sphere else neuron_model.two_homogeneous()
    sigma = lower_scalar(activation_variable, activation.function)
    slope = lower_scalar(activation_variable, sp.diff(activation.function, activation_variable))
    names = (neuron_model.r, neuron_model.z, neuron_model.value, neuron_model.slope)
    compiled = sp.lambdify(names, [model.output, model.along_self, model.along_input], modules="jax", cse=True)

    def rule(r: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        z = h / jnp.sqrt(r)
        return compiled(r, z, sigma(z), slope(z))

    return rule


def gradient_step(
    problem: Problem, step_size: jax.Array, r: jax.Array, h: jax.Array, target: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Coefficients c (m,) and g (m, b) of the update v ← c v + Σ_i g_i x_i, from r (m,), h (m, b), f_* (b,)."""
    output, along_self, along_input = update_rule(problem.activation, problem.sphere)(r[:, None], h)
    delta = -target if problem.sphere else jnp.sum(output, axis=0) - target
    scale = step_size / problem.batch * delta
    return 1.0 - jnp.sum(scale * along_self, axis=1), -scale * along_input


def _targets(problem: Problem, on_teachers: jax.Array) -> jax.Array:
    """f_* of samples with teacher coordinates (N, P)."""
    sigma = lower_scalar(activation_variable, problem.activation.function)
    return sigma(on_teachers) @ jnp.asarray(problem.weights)


# --------------------------------------------------------------------- exact in law


def exact_block(problem: Problem, step_size: jax.Array, chain: Chain, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Run one block of steps; returns the new T (m, P) and R (m, m)."""
    transpose = problem.mistakes.transpose
    known_key, outside_key = jax.random.split(key)
    known = jnp.concatenate([chain.on_teachers, chain.residual], axis=1)
    x = jax.random.normal(known_key, (problem.samples, known.shape[1]))
    targets = _targets(problem, x[:, : len(problem.weights)])
    start = known @ x.T
    r = jnp.sum(known**2, axis=1)
    if problem.block_steps == 1:
        c, g = gradient_step(problem, step_size, r, start, targets)
        appended = outside_columns(outside_key, g, problem.outside, transpose)
        moved = c[:, None] * known + g @ x
    else:
        beyond = outside_factor(outside_key, problem.samples, problem.outside, transpose)
        gram = x @ x.T + beyond @ beyond.T
        scale, g = _sequence(problem, step_size, r, start, gram, targets)
        moved = scale[:, None] * (known + g @ x)
        appended = scale[:, None] * (g @ beyond)
    if problem.sphere:
        moved, appended = _on_sphere(moved, appended)
    width = len(problem.weights)
    return moved[:, :width], rotate_back(jnp.concatenate([moved[:, width:], appended], axis=1))


def _on_sphere(moved: jax.Array, appended: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Both parts of each row over the row's norm."""
    size = jnp.sqrt(jnp.sum(moved**2, axis=1) + jnp.sum(appended**2, axis=1))[:, None]
    return moved / size, appended / size


def _sequence(
    problem: Problem, step_size: jax.Array, r: jax.Array, start: jax.Array, gram: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""The steps of a block, in the block's own coordinates.

    After some steps $v_k = S_k(v_k^0+\sum_iG_{ki}x_i)$; pre-activations on sample j are
    $S_k(\langle v_k^0,x_j\rangle+\sum_iG_{ki}\langle x_i,x_j\rangle)$. Returns S (m,) and G (m, samples).
    """
    batch, steps = problem.batch, problem.block_steps

    def step(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
        scale, r, g_block = carry
        first, before, rows, target = inputs
        # g_block is still zero for samples to come, so the full product sees the past only.
        h = scale[:, None] * (before + jnp.sum(g_block[:, None, :] * rows[None, :, :], axis=2))
        c, g = gradient_step(problem, step_size, r, h, target)
        within = jax.lax.dynamic_slice(rows, (0, first), (batch, batch))
        r = c**2 * r + 2 * c * jnp.sum(g * h, axis=1) + jnp.sum(g * (g @ within), axis=1)
        if problem.sphere:
            size = jnp.sqrt(r)
            c, g, r = c / size, g / size[:, None], jnp.ones_like(r)
        scale = c * scale
        return (scale, r, jax.lax.dynamic_update_slice(g_block, g / scale[:, None], (0, first))), None

    firsts = jnp.arange(steps) * batch
    rows = gram.reshape(steps, batch, steps * batch)
    inputs = (firsts, jnp.moveaxis(start.reshape(-1, steps, batch), 1, 0), rows, targets.reshape(steps, batch))
    (scale, _, g_block), _ = jax.lax.scan(step, (jnp.ones_like(r), r, jnp.zeros_like(start)), inputs)
    return scale, g_block


# ---------------------------------------------------------------------------- ambient


def _ambient_block(problem: Problem, step_size: jax.Array, chain: Chain, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same steps with explicit vectors of R^d (chain.on_teachers holds V, shape (m, d))."""

    def step(v: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        x = jax.random.normal(key, (problem.batch, problem.dim))
        targets = _targets(problem, x[:, : len(problem.weights)])
        c, g = gradient_step(problem, step_size, jnp.sum(v**2, axis=1), v @ x.T, targets)
        moved = c[:, None] * v + g @ x
        return (moved / jnp.linalg.norm(moved, axis=1, keepdims=True) if problem.sphere else moved), None

    v, _ = jax.lax.scan(step, chain.on_teachers, jax.random.split(key, problem.block_steps))
    return v, chain.residual


# -------------------------------------------------------------------------- the driver


def _norm2(chain: Chain) -> jax.Array:
    return jnp.sum(chain.on_teachers**2, axis=-1) + jnp.sum(chain.residual**2, axis=-1)


def overlaps_of_chain(problem: Problem, chain: Chain) -> State:
    """t, c, r of one replica, as the overlap flow's state."""
    r = _norm2(chain)
    size = jnp.sqrt(r)
    gram = chain.on_teachers @ chain.on_teachers.T + chain.residual @ chain.residual.T
    cosines = jnp.clip(gram / (size[:, None] * size[None, :]), -1.0, 1.0)  # kernels may end at ±1
    return {
        "t": jnp.clip(chain.on_teachers[:, : len(problem.weights)] / size[:, None], -1.0, 1.0),
        "c": jnp.where(jnp.eye(r.size, dtype=bool), 1.0, cosines),
        "r": r,
    }


@partial(jax.jit, static_argnums=0)
def advance_chains(
    problem: Problem, step_size: jax.Array, chain: Chain, key: jax.Array, first: int, blocks: int, step: int
) -> Chain:
    """Run `blocks` blocks from block number `first`, which starts at step number `step`, all replicas at once.

    Every array of `chain` has the replicas in front: T has shape (R, m, P).
    """
    block = exact_block if problem.method == "exact" else _ambient_block
    a = jnp.asarray(problem.weights)

    def one(chain: Chain, key: jax.Array, number: jax.Array) -> Chain:
        on_teachers, residual = block(problem, step_size, chain, jax.random.fold_in(key, number))
        moved = Chain(on_teachers, residual, chain.half_step, chain.loss_step)
        r = _norm2(moved)
        squares = on_teachers[:, : a.size] ** 2
        now = step + (number - first + 1.0) * problem.block_steps
        # An exploding replica passes through all overlaps: nothing it does counts as recovery.
        sane = jnp.max(r) < BLOW_UP
        overlap = jnp.where(sane, jnp.max(squares / r[:, None], axis=0), 0.0)
        norm = jnp.where(sane, jnp.sum(squares, axis=0) / a, 0.0)
        return moved._replace(
            half_step=jnp.where(overlap >= LEVEL, jnp.minimum(chain.half_step, now), chain.half_step),
            loss_step=jnp.where(norm >= LEVEL, jnp.minimum(chain.loss_step, now), chain.loss_step),
        )

    everyone = jax.vmap(one, in_axes=(0, 0, None))
    return jax.lax.fori_loop(first, first + blocks, lambda i, state: everyone(state, key, i), chain)


@partial(jax.jit, static_argnums=0)
def _observe(problem: Problem, chain: Chain) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Overlaps, squared norms and loss of every replica."""
    lowered = lowered_overlap_flow(problem.activation)

    def one(chain: Chain) -> tuple[jax.Array, jax.Array, jax.Array]:
        state = overlaps_of_chain(problem, chain)
        return state["t"], state["r"], overlap_loss(lowered, state, jnp.asarray(problem.weights))

    return jax.vmap(one)(chain)


def start_chain(problem: Problem, initial: InitialState, replicas: int) -> Chain:
    """All replicas at the same initial state."""
    width = len(problem.weights)
    if problem.method == "exact":
        first, second = initial.on_teachers, initial.residual
    else:
        first, second = embed(initial, problem.dim), np.zeros((problem.width, 0))
    on_teachers, residual = (jnp.repeat(jnp.asarray(x)[None], replicas, axis=0) for x in (first, second))
    unreached = jnp.full((replicas, width), jnp.inf)
    return Chain(on_teachers, residual, unreached, unreached)


def sgd_problem(
    activation: Activation, teacher: Teacher, initial: InitialState, steps: int, batch: int, method: str,
    block_steps: int | None, mistakes: Mistakes = NO_MISTAKES, loss: str = "mse",
) -> Problem:  # fmt: skip
    """The run's description; about 32 samples a block, never more than the run is long. Raises `InputError`."""
    check_whole(block_steps=1 if block_steps is None else block_steps)
    check_start(initial, teacher, rows=True)
    block = max(1, min(_BLOCK // batch, steps)) if block_steps is None else block_steps
    width = initial.on_teachers.shape[0]
    return Problem(activation, teacher.weights, teacher.dim, width, batch, block, method, mistakes, loss)


def stepping(problem: Problem, step_size: float, keys: jax.Array) -> Callable[[Chain, Stretch], Chain]:
    """How all replicas, with these keys (one per replica), go from save to save."""
    eta = jnp.asarray(step_size, dtype=float)

    def advance(chain: Chain, part: Stretch) -> Chain:
        own = problem if part.length == problem.block_steps else replace(problem, block_steps=part.length)
        return advance_chains(own, eta, chain, keys, part.first, part.blocks, part.begin)

    return advance


def all_learned(chain: Chain, wanted: tuple[int, ...] | None) -> bool:
    """Whether all replicas have recovered these directions."""
    return wanted is not None and bool(jnp.all(jnp.isfinite(chain.half_step[:, jnp.asarray(wanted, dtype=int)])))


@double_precision
def online_sgd(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    replicas: int = 32,
    seed: int = 0,
    method: str = "exact",
    saves: int = _DEFAULT_SAVES,
    stop_when_learned: tuple[int, ...] | None = None,
    block_steps: int | None = None,
    mistakes: Mistakes = NO_MISTAKES,
    progress: Progress | None = None,
) -> SgdResult:
    r"""Online SGD, $v_k\leftarrow v_k-\eta\nabla_{v_k}\tfrac12(f_*-f)^2(x)$ with fresh samples, many replicas.

    All replicas start at `initial` and differ in their samples.

    Args:
        step_size: η. steps: SGD steps. batch: fresh samples averaged per step.
        seed: the same seed gives the same result, replica by replica, whatever the number of
            replicas (up to the last bits of rounding).
        method: ``exact`` (exact in law, cost independent of d) or ``ambient`` (explicit vectors of R^d).
        saves: how many times to record, equidistant. stop_when_learned: indices (from 0) of directions; stop once all
            replicas have recovered them.
        block_steps: steps per block (default: about 32 samples); recovery is looked at once per block.
        mistakes: built-in errors for controls. progress: called with (fraction, text).

    Returns: `SgdResult`; a replica that blows up is marked in `diverged` and is NaN from there on.

    Raises:
        InputError: a number out of range, or d < P + m.
        Interrupted: on Ctrl-C, with the result so far.
    """
    check_run(step_size, seed, method, steps=steps, batch=batch, replicas=replicas, saves=saves)
    problem = sgd_problem(activation, teacher, initial, steps, batch, method, block_steps, mistakes)
    if stop_when_learned is not None and not all(0 <= q < teacher.width for q in stop_when_learned):
        raise InputError(f"stop_when_learned is {stop_when_learned!r}: directions count from 0 to {teacher.width - 1}")

    def done(track: Track[Chain]) -> bool:
        lost = not np.any(np.isfinite(track.seen[-1][1]).all(axis=1))
        return lost or all_learned(track.state, stop_when_learned)

    advance = stepping(problem, step_size, replica_keys(seed, replicas, "online SGD"))
    chain, parts = start_chain(problem, initial, replicas), stretches(steps, saves, problem.block_steps)
    told = Told("online SGD", steps, progress, f", {replicas} replicas")
    return drive(
        chain, parts, advance, partial(_observe, problem), partial(_result, problem, step_size, seed), told, done=done
    )


def _result(problem: Problem, step_size: float, seed: int, track: Track[Chain]) -> SgdResult:
    overlap, norm2, loss = track.columns()
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(norm2).all(axis=2) | (norm2.max(axis=2) > BLOW_UP)
    for values in (overlap, norm2, loss):
        values[lost] = np.nan
    attributes: dict[str, str | float | int] = {
        "what": "online-sgd",
        "activation": problem.activation.name,
        "dim": problem.dim,
        "step_size": step_size,
        "batch": problem.batch,
        "method": problem.method,
        "seed": seed,
        "precision": "float64",
        "recovery_resolution_steps": problem.block_steps,
    }
    chain, steps = track.state, np.array(track.at)
    half_steps, loss_steps, diverged = np.asarray(chain.half_step), np.asarray(chain.loss_step), lost.any(axis=1)
    ends = {"half_steps": half_steps, "loss_steps": loss_steps, "diverged": diverged}
    data = dataset(steps * step_size, overlap, norm2, loss, step_size=step_size, attributes=attributes, **ends)
    return SgdResult(data, half_steps, loss_steps, diverged, int(steps[-1]), problem.block_steps)
