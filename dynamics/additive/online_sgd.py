r"""Online SGD of the 2-homogeneous student, exact in law, at a cost that does not depend on d.

For isotropic Gaussian data, the students' coordinates $T$ on the teacher directions and the Gram matrix of their
residuals form a Markov chain. A block of samples is drawn in the coordinates that matter: on the teachers ($N(0,1)$), on
an orthonormal basis of the residual span ($N(0,1)$), and outside both, where only the samples' Gram matrix matters: a
Wishart matrix with $D=d-P-m$ degrees of freedom, drawn by its Bartlett factor. Within a block the students move in the
span of what is known, so pre-activations follow from the block's Gram matrix; at its end the residuals, now in
$m+$block coordinates, are expressed in $m$ again by a Cholesky factor of their Gram matrix. Nothing is
approximated: the joint law of $(T, VV^\top)$ at all steps is that of SGD in $R^d$.

Cost per step $O(m(P+m+B))$ with block length B, memory $O(m(P+m)+B^2)$, for any $d\ge P+m$.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.additive.ambient_flow import embed
from dynamics.additive.gradient_flow import LEVEL, Progress, _loss, lowered_overlap_flow
from dynamics.core.interrupted import Interrupted
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import lower_scalar
from dynamics.core.precision import double_precision
from dynamics.core.trajectory import dataset
from theory import Activation, InitialState, InputError, Teacher
from theory.core.arguments import check_positive, check_seed, check_whole
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
class Mistakes:
    """Errors built in on purpose, as controls of the law tests; never set in a real run.

    Attributes:
        forget_known: draw the outside part with d degrees of freedom instead of d − P − m.
        transpose: use Bartlett's factor transposed.
    """

    forget_known: bool = False
    transpose: bool = False


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
    mistakes: Mistakes = Mistakes()
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
def _update_rule(
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


def _gradient_step(
    problem: Problem, step_size: jax.Array, r: jax.Array, h: jax.Array, target: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Coefficients c (m,) and g (m, b) of the update v ← c v + Σ_i g_i x_i, from r (m,), h (m, b), f_* (b,)."""
    output, along_self, along_input = _update_rule(problem.activation, problem.sphere)(r[:, None], h)
    delta = -target if problem.sphere else jnp.sum(output, axis=0) - target
    scale = step_size / problem.batch * delta
    return 1.0 - jnp.sum(scale * along_self, axis=1), -scale * along_input


def _targets(problem: Problem, on_teachers: jax.Array) -> jax.Array:
    """f_* of samples with teacher coordinates (N, P)."""
    sigma = lower_scalar(activation_variable, problem.activation.function)
    return sigma(on_teachers) @ jnp.asarray(problem.weights)


# --------------------------------------------------------------------- exact in law


def outside_factor(key: jax.Array, count: int, freedom: int, transpose: bool = False) -> jax.Array:
    r"""A with $AA^\top$ distributed as the Gram matrix of `count` standard Gaussians of $R^{freedom}$.

    Shape (count, min(count, freedom)). Lower triangular Bartlett factor ($A_{ii}=\chi_{freedom-i+1}$) if
    count ≤ freedom, else the vectors themselves.
    """
    if freedom < count:
        return jax.random.normal(key, (count, freedom))
    below, diagonal = jax.random.split(key)
    chi2 = jax.random.chisquare(diagonal, freedom - jnp.arange(count, dtype=float))
    factor = _strictly_lower(jax.random.normal(below, (count // 2, count - 1 + count % 2)), count)
    factor = factor + jnp.diag(jnp.sqrt(chi2))
    return factor.T if transpose else factor


def _strictly_lower(packed: jax.Array, count: int) -> jax.Array:
    """Fill the strictly lower triangle with `packed` numbers, none wasted: short rows share a line with long ones.

    A line of `packed` holds a row from its left end and another, reversed, from its right end. Reversals and masks
    only: a gather would cost as much as the random numbers it saves.
    """
    if count % 2:  # lines hold row r and row count − r
        lines = [jnp.zeros((1, count)), packed, packed[::-1, ::-1]]
    else:  # lines hold row r and row count − 1 − r, one column short
        lines = [jnp.pad(x, ((0, 0), (0, 1))) for x in (packed, packed[::-1, ::-1])]
    return jnp.tril(jnp.concatenate(lines), -1)


def outside_columns(key: jax.Array, gradients: jax.Array, freedom: int, transpose: bool = False) -> jax.Array:
    r"""Columns appended to R by one batch: $B$ with $BB^\top\sim gWg^\top$, W Wishart of size b, at least cost.

    For b ≤ m: gA. For b > m: LA with g = LQ, A of size m (LQ, since gradients can be rank-deficient).
    """
    width, batch = gradients.shape
    if batch <= width:
        return gradients @ outside_factor(key, batch, freedom, transpose)
    lower = jnp.linalg.qr(gradients.T, mode="r").T
    return lower @ outside_factor(key, width, freedom, transpose)


def _rotate_back(residual: jax.Array) -> jax.Array:
    r"""(m, m) lower triangular L with $LL^\top=RR^\top$: the residuals in a basis of m vectors.

    The law depends on R through its Gram matrix only, so it is the Gram matrix that must be kept to rounding. Rows are
    scaled to unit length, and a ridge of a few rounding errors (its effect on the norms taken out again) keeps the
    factorisation defined when students are parallel; this is as accurate as an LQ factorisation and much faster.
    """
    size = jnp.sqrt(jnp.sum(residual**2, axis=1))
    rows = residual / jnp.where(size > 0, size, 1.0)[:, None]
    ridge = 4 * residual.shape[1] * jnp.finfo(residual.dtype).eps
    gram = rows @ rows.T + ridge * jnp.eye(size.size)
    return size[:, None] / jnp.sqrt(1 + ridge) * jnp.linalg.cholesky(gram)


def _exact_block(problem: Problem, step_size: jax.Array, chain: Chain, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Run one block of steps; returns new T and R."""
    transpose = problem.mistakes.transpose
    known_key, outside_key = jax.random.split(key)
    known = jnp.concatenate([chain.on_teachers, chain.residual], axis=1)
    x = jax.random.normal(known_key, (problem.samples, known.shape[1]))
    targets = _targets(problem, x[:, : len(problem.weights)])
    start = known @ x.T
    r = jnp.sum(known**2, axis=1)
    if problem.block_steps == 1:
        c, g = _gradient_step(problem, step_size, r, start, targets)
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
    return moved[:, :width], _rotate_back(jnp.concatenate([moved[:, width:], appended], axis=1))


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
        c, g = _gradient_step(problem, step_size, r, h, target)
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
        c, g = _gradient_step(problem, step_size, jnp.sum(v**2, axis=1), v @ x.T, targets)
        moved = c[:, None] * v + g @ x
        return (moved / jnp.linalg.norm(moved, axis=1, keepdims=True) if problem.sphere else moved), None

    v, _ = jax.lax.scan(step, chain.on_teachers, jax.random.split(key, problem.block_steps))
    return v, chain.residual


# -------------------------------------------------------------------------- the driver


def _norm2(chain: Chain) -> jax.Array:
    return jnp.sum(chain.on_teachers**2, axis=-1) + jnp.sum(chain.residual**2, axis=-1)


def _overlaps(problem: Problem, chain: Chain) -> dict[str, jax.Array]:
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
def _advance(
    problem: Problem, step_size: jax.Array, chain: Chain, key: jax.Array, first: int, blocks: int, step: int
) -> Chain:
    """Run `blocks` blocks from block number `first`, which starts at step number `step`, all replicas at once."""
    block = _exact_block if problem.method == "exact" else _ambient_block
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
        state = _overlaps(problem, chain)
        return state["t"], state["r"], _loss(lowered, state, jnp.asarray(problem.weights))

    return jax.vmap(one)(chain)


def _block_steps(batch: int, steps: int) -> int:
    """Steps per block: about 32 samples, never more than the run is long."""
    return max(1, min(_BLOCK // batch, steps))


def start_chain(problem: Problem, initial: InitialState, replicas: int) -> Chain:
    """All replicas at the same initial state."""
    width = len(problem.weights)
    if problem.method == "exact":
        first, second = initial.on_teachers, initial.residual
    else:
        first, second = embed(initial, problem.dim), np.zeros((problem.width, 0))
    repeat = lambda x: jnp.repeat(jnp.asarray(x)[None], replicas, axis=0)  # noqa: E731
    unreached = jnp.full((replicas, width), jnp.inf)
    return Chain(repeat(first), repeat(second), unreached, unreached)


def _check(step_size: float, method: str, seed: int, **counts: int) -> None:
    check_positive(step_size=step_size)
    check_whole(**counts)
    check_seed(seed)
    if method not in ("exact", "ambient"):
        raise InputError(f"method is {method!r}: use exact or ambient")


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
    mistakes: Mistakes = Mistakes(),
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
    block = _BLOCK if block_steps is None else block_steps
    _check(step_size, method, seed, steps=steps, batch=batch, replicas=replicas, saves=saves, block_steps=block)
    m, width = initial.on_teachers.shape
    if width != teacher.width:
        raise InputError(f"initial has {width} directions, teacher {teacher.width}: draw it for this teacher")
    if stop_when_learned is not None and not all(0 <= q < width for q in stop_when_learned):
        raise InputError(f"stop_when_learned is {stop_when_learned!r}: directions count from 0 to {width - 1}")
    if teacher.dim < width + m:
        raise InputError(f"dim {teacher.dim} is below teacher width + student width = {width + m}: raise dim")
    inner = _block_steps(batch, steps) if block_steps is None else block_steps
    problem = Problem(activation, teacher.weights, teacher.dim, m, batch, inner, method, mistakes)
    chain = start_chain(problem, initial, replicas)
    keys = replica_keys(seed, replicas, "online SGD")
    eta = jnp.asarray(step_size, dtype=float)
    saved, at = [[np.asarray(x) for x in _observe(problem, chain)]], [0]
    try:
        for part, first, blocks in _schedule(problem, steps, saves):
            chain = _advance(part, eta, chain, keys, first, blocks, at[-1])
            at.append(at[-1] + blocks * part.block_steps)
            saved.append([np.asarray(x) for x in _observe(problem, chain)])
            if progress is not None:
                progress(at[-1] / steps, f"online SGD: step {at[-1]} of {steps}, {replicas} replicas")
            if not np.any(np.isfinite(saved[-1][1]).all(axis=1)) or _all_learned(chain, stop_when_learned):
                break
    except KeyboardInterrupt as stop:
        kept = _result(problem, step_size, saved, np.array(at[: len(saved)]), chain, seed)
        raise Interrupted(kept, f"at step {kept.steps} of {steps}") from stop
    return _result(problem, step_size, saved, np.array(at), chain, seed)


def _schedule(problem: Problem, steps: int, saves: int) -> Iterator[tuple[Problem, int, int]]:
    """(problem, first block, number of blocks) between saves; the last block is shorter if steps do not divide."""
    total, rest = divmod(steps, problem.block_steps)
    marks = np.unique(np.linspace(0, total, min(saves, total) + 1).round().astype(np.int64)).tolist()
    for first, last in pairwise(marks):
        yield problem, first, last - first
    if rest:
        yield replace(problem, block_steps=rest), total, 1


def _all_learned(chain: Chain, wanted: tuple[int, ...] | None) -> bool:
    return wanted is not None and bool(jnp.all(jnp.isfinite(chain.half_step[:, jnp.asarray(wanted, dtype=int)])))


def _result(
    problem: Problem, step_size: float, saved: list[list[np.ndarray]], steps: np.ndarray, chain: Chain, seed: int
) -> SgdResult:
    overlap, norm2, loss = (np.stack(column, axis=1) for column in zip(*saved, strict=True))
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
    half_steps, loss_steps, diverged = np.asarray(chain.half_step), np.asarray(chain.loss_step), lost.any(axis=1)
    data = dataset(
        steps * step_size, overlap, norm2, loss, step_size=step_size, attributes=attributes, half_steps=half_steps,
        loss_steps=loss_steps, diverged=diverged,
    )  # fmt: skip
    return SgdResult(data, half_steps, loss_steps, diverged, int(steps[-1]), problem.block_steps)
