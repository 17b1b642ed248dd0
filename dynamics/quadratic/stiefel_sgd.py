r"""Online Stiefel SGD of a quadratic network, exact in law, at a cost that does not depend on d.

One fresh sample a step, the Riemannian gradient, the polar retraction (arXiv:2508.03688, phase I). As in
`dynamics.online_sgd` the coordinates of W on the teachers (Y, shape (N, P)) and on some orthonormal basis of the residual
span (R, shape (N, N)), $W^\top W=YY^\top+RR^\top=I$, form a Markov chain: samples are standard normal in the known
coordinates, and outside only their Gram matrix enters, a Wishart matrix with $d-P-N$ degrees of freedom.

The polar factor of a one-sample step is a rank-one correction (`theory.quadratic.stiefel`), so a block of B samples needs,
step by step, only the pre-activations $H=W^\top X$ (N, B): $H\leftarrow H+\hat h(c_1\hat h^\top H+c_2\langle x,X\rangle)$.
At the block's end all steps are applied at once: $W\leftarrow W+C^\top\hat H^\top$ with one triangular solve for C. Cost
per step $O(N(P+N+B))$ plus $O(N^2(P+N)/B)$ for bringing R back to N columns and W back to the manifold, for any d ≥ P + N.
Mini-batches take one step a block and the general polar factor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.core.checks import check_run
from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.outside import NO_MISTAKES, Mistakes, drawn_once, outside_columns, outside_factor, rotate_back
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, in_blocks, stretches
from dynamics.core.trajectory import Plotted, dataset, variable
from dynamics.quadratic.riccati import DIAGONAL
from theory import InputError, QuadraticModel, Subspace
from theory.core.curves import first_crossing
from theory.quadratic import stiefel as step_theory

if TYPE_CHECKING:
    import xarray as xr

_DEFAULT_SAVES = 200
#: Samples in a block: at least these, and half as many as neurons; more cost more than they save (measured).
_BLOCK = 8


class Frames(NamedTuple):
    """W of one replica: on_teachers (N, P) and residual (N, N); ambient: on_teachers (N, d), residual (N, 0)."""

    on_teachers: jax.Array
    residual: jax.Array


class Scales(NamedTuple):
    """Numbers that may change without a new compilation: a (P,), γ, η, degrees of freedom outside."""

    weights: jax.Array
    speed_factor: jax.Array
    step_size: jax.Array
    freedom: jax.Array


@dataclass(frozen=True)
class Shape:
    """What a compilation depends on. `few`: degrees of freedom outside, where they are no more than a block's samples."""

    teacher_width: int
    width: int
    batch: int
    block_steps: int
    method: str
    dim: int | None
    few: int | None
    mistakes: Mistakes

    @property
    def samples(self) -> int:
        return self.batch * self.block_steps


@dataclass(frozen=True)
class StiefelResult(Plotted):
    r"""A set of Stiefel SGD replicas.

    Attributes:
        dataset: overlap (normalised, = Y), norm2 (= γ, every neuron's effective weight), loss (½E(f*−f)² before any
            radial phase), diagonal (G_jj, the squared length of direction j on the subspace) and risk (2‖M̃ − UΩΩᵀUᵀ‖² with the
            best Ω, 2 at f = 0) on (replica, time, neuron, direction); coordinates time (common), step, riccati_time.
        frames: final W of each replica, on_teachers (replica, P, N) and rest (replica, N, N).
        steps: steps run.
    """

    dataset: "xr.Dataset"
    frames: tuple[Subspace, ...]
    steps: int

    @property
    def risk(self) -> np.ndarray:
        """(replica, time)."""
        return np.asarray(self.dataset.risk.values)

    def steps_to(self, risk: float) -> np.ndarray:
        """(replica,) steps to a risk, linear between saves; inf where it is not reached."""
        return first_crossing(self.dataset.step.values, self.risk, risk, falling=True)


# ------------------------------------------------------------------------ the update


@lru_cache(maxsize=1)
def _update_rule() -> Callable:
    """(η, γ, ‖h‖, s, f*, f) → c₁, c₂ of the rank-one retraction, from the derived expressions."""
    rule = step_theory.retraction()
    size, outside = step_theory.length, step_theory.outside
    names = (step_theory.eta, step_theory.gamma, size, outside, step_theory.target, step_theory.output)
    return sp.lambdify(names, [rule.along_self, rule.along_input], modules="jax", cse=True)


@lru_cache(maxsize=1)
def _push() -> Callable:
    """(η, γ, f*, f) → coefficient of (x − Wh) hᵀ in a plain gradient step, before any retraction."""
    rule = step_theory.retraction()
    push = sp.simplify(rule.tilt / (step_theory.outside * step_theory.length))
    return sp.lambdify(
        (step_theory.eta, step_theory.gamma, step_theory.target, step_theory.output), push, modules="jax"
    )


def _coefficients(
    scales: Scales, h2: jax.Array, norm2: jax.Array, target: jax.Array, width: int
) -> tuple[jax.Array, jax.Array]:
    output = scales.speed_factor * (h2 - width)
    outside = jnp.sqrt(jnp.maximum(norm2 - h2, 0.0))
    return _update_rule()(scales.step_size, scales.speed_factor, jnp.sqrt(h2), outside, target, output)


def _targets(scales: Scales, on_teachers: jax.Array) -> jax.Array:
    """f_* of samples with teacher coordinates (…, P)."""
    return (on_teachers**2 - 1.0) @ scales.weights


# --------------------------------------------------------------------- exact in law


def _outside(shape: Shape, scales: Scales, key: jax.Array) -> jax.Array:
    """Factor A (samples, ·) of the Gram matrix of a block's samples outside everything known."""
    freedom = scales.freedom if shape.few is None else shape.few
    return outside_factor(key, shape.samples, freedom, shape.mistakes.transpose)


def _known(shape: Shape, scales: Scales, count: int, key: jax.Array) -> jax.Array:
    """`count` coordinates of each of a block's samples, (samples, count)."""
    row = drawn_once(lambda: jax.random.normal(key, (shape.samples * count,)), scales.step_size > 0)
    return row.reshape(shape.samples, count)


def _exact_block(shape: Shape, scales: Scales, frames: Frames, key: jax.Array) -> Frames:
    """One block of steps, batch 1."""
    known_key, outside_key = jax.random.split(key)
    known = jnp.concatenate(frames, axis=1)
    x = _known(shape, scales, known.shape[1], known_key)
    beyond = _outside(shape, scales, outside_key)
    units, along_self, along_input = _sequence(shape, scales, known @ x.T, x @ x.T + beyond @ beyond.T, x)
    # Row t of C is what step t adds along ĥ_t: c₁ ĥᵀ(W before it) + c₂ x. W before it holds the rows of earlier steps.
    mixing = jnp.eye(shape.samples) - along_self[:, None] * jnp.tril(units @ units.T, -1)
    right = jnp.concatenate(
        [along_self[:, None] * (units @ known) + along_input[:, None] * x, along_input[:, None] * beyond], axis=1
    )
    rows = jax.scipy.linalg.solve_triangular(mixing, right, lower=True, unit_diagonal=True)
    moved = jnp.concatenate([known, jnp.zeros((shape.width, beyond.shape[1]))], axis=1) + units.T @ rows
    return _settle(shape, moved)


def _sequence(
    shape: Shape, scales: Scales, start: jax.Array, gram: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Directions $\hat h_t$ (B, N) and coefficients $c_1,c_2$ (B,) of a block's steps, from $H=W^\top X$ at its start."""
    targets = _targets(scales, x[:, : shape.teacher_width])

    def step(current: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        number, row, target = inputs
        h = jax.lax.dynamic_index_in_dim(current, number, axis=1, keepdims=False)
        h2 = jnp.sum(h**2)
        norm2 = jax.lax.dynamic_index_in_dim(row, number, keepdims=False)
        c1, c2 = _coefficients(scales, h2, norm2, target, shape.width)
        unit = h / jnp.sqrt(h2)
        current = current + unit[:, None] * (c1 * (unit @ current) + c2 * row)[None, :]
        return current, (unit, c1, c2)

    _, found = jax.lax.scan(step, start, (jnp.arange(shape.samples), gram, targets))
    return found


def _exact_batch(shape: Shape, scales: Scales, frames: Frames, key: jax.Array) -> Frames:
    """One step with a mini-batch: tangent $\\Delta=\\sum_ig_i(x_i-Wh_i)^\\top$ and the general polar factor."""
    known_key, outside_key = jax.random.split(key)
    known = jnp.concatenate(frames, axis=1)
    x = _known(shape, scales, known.shape[1], known_key)
    h = known @ x.T
    output = scales.speed_factor * (jnp.sum(h**2, axis=0) - shape.width)
    push = _push()(scales.step_size, scales.speed_factor, _targets(scales, x[:, : shape.teacher_width]), output)
    g = h * (push / shape.batch)
    tangent = g @ (x - h.T @ known)
    if shape.few is not None:
        appended = outside_columns(outside_key, g, shape.few, shape.mistakes.transpose)
    else:
        appended = _wishart_columns(shape, scales, g, outside_key)
    return _settle(shape, _polar(jnp.concatenate([known + tangent, appended], axis=1)))


def _wishart_columns(shape: Shape, scales: Scales, g: jax.Array, key: jax.Array) -> jax.Array:
    """B (N, min(b, N)) with BBᵀ ~ gWgᵀ: the batch's columns, compressed by an LQ factor of g if b > N."""
    if shape.batch <= shape.width:
        return g @ _outside(shape, scales, key)
    lower = jnp.linalg.qr(g.T, mode="r").T
    return lower @ _outside(replace(shape, batch=shape.width), scales, key)


def _polar(rows: jax.Array) -> jax.Array:
    r"""$(\tilde W^\top\tilde W)^{-1/2}\tilde W^\top$ for rows $\tilde W^\top$."""
    values, vectors = jnp.linalg.eigh(rows @ rows.T)
    return (vectors / jnp.sqrt(values)) @ (vectors.T @ rows)


def _settle(shape: Shape, rows: jax.Array) -> Frames:
    """Rows with extra columns, back to N residual columns and, against rounding, onto the manifold."""
    on_teachers = rows[:, : shape.teacher_width]
    residual = rotate_back(rows[:, shape.teacher_width :])
    # One Newton–Schulz step of the polar factor: errors of a block's rounding, 1e-15, are squared away.
    defect = 0.5 * (jnp.eye(shape.width) - on_teachers @ on_teachers.T - residual @ residual.T)
    return Frames(on_teachers + defect @ on_teachers, residual + defect @ residual)


# ---------------------------------------------------------------------------- ambient


def _ambient_block(shape: Shape, scales: Scales, frames: Frames, key: jax.Array) -> Frames:
    """The same steps with explicit vectors of R^d and the general polar factor."""

    def step(w: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        x = jax.random.normal(key, (shape.batch, w.shape[1]))
        h = w @ x.T
        output = scales.speed_factor * (jnp.sum(h**2, axis=0) - shape.width)
        push = _push()(scales.step_size, scales.speed_factor, _targets(scales, x[:, : shape.teacher_width]), output)
        return _polar(w + (h * (push / shape.batch)) @ (x - h.T @ w)), None

    w, _ = jax.lax.scan(step, frames.on_teachers, jax.random.split(key, shape.block_steps))
    return Frames(w, frames.residual)


# -------------------------------------------------------------------------- the driver


@partial(jax.jit, static_argnums=0)
def _advance(shape: Shape, scales: Scales, frames: Frames, keys: jax.Array, first: int, blocks: int) -> Frames:
    """Run `blocks` blocks from block number `first`, all replicas at once."""
    block = _ambient_block if shape.method == "ambient" else _exact_batch if shape.batch > 1 else _exact_block

    def one(state: Frames, key: jax.Array, number: jax.Array) -> Frames:
        return block(shape, scales, state, jax.random.fold_in(key, number))

    return in_blocks(one, frames, keys, first, blocks)


@partial(jax.jit, static_argnums=0)
def _observe(shape: Shape, scales: Scales, frames: Frames) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Overlaps (…, N, P), ½E(f*−f)² = ‖M − γWWᵀ‖²_F, and ‖M − U UᵀMU Uᵀ‖²_F = ½ of the risk in units of the weights."""
    a, speed = scales.weights, scales.speed_factor
    overlap = frames.on_teachers[..., : shape.teacher_width]
    inner = jnp.einsum("...kp,p,...lp->...kl", overlap, a, overlap)
    total = jnp.sum(a**2)
    loss = total - 2 * speed * jnp.trace(inner, axis1=-2, axis2=-1) + speed**2 * shape.width
    return overlap, loss, total - jnp.sum(inner**2, axis=(-2, -1))


def _start(shape: Shape, start: Sequence[Subspace]) -> Frames:
    on_teachers = np.stack([frame.on_teachers.T for frame in start])
    rest = np.stack([_padded(frame.compact().rest.T, shape.width) for frame in start])
    if shape.method == "exact":
        return Frames(jnp.asarray(on_teachers), jnp.asarray(rest))
    assert shape.dim is not None
    blank = np.zeros((len(start), shape.width, shape.dim - shape.teacher_width - shape.width))
    full = np.concatenate([on_teachers, rest, blank], axis=2)
    return Frames(jnp.asarray(full), jnp.zeros((len(start), shape.width, 0)))


def _padded(rest: np.ndarray, width: int) -> np.ndarray:
    return np.hstack([rest, np.zeros((width, width - rest.shape[1]))])


@double_precision
def stiefel_sgd(
    model: QuadraticModel,
    start: Subspace | Sequence[Subspace],
    *,
    step_size: float,
    steps: int,
    batch: int = 1,
    replicas: int | None = None,
    seed: int = 0,
    method: str = "exact",
    saves: int = _DEFAULT_SAVES,
    stop_at_risk: float | None = None,
    block_steps: int | None = None,
    mistakes: Mistakes = NO_MISTAKES,
    progress: Progress | None = None,
) -> StiefelResult:
    r"""Online SGD on the Stiefel manifold, $W\leftarrow\mathrm{polar}(W-\eta\nabla_{St}\tfrac12(f_*-f)^2(x))$, replicated.

    arXiv:2508.03688, phase I. The paper's loss is ⅛(f*−f)²; its step size is 4η.

    Args:
        model: teacher, width N, speed factor γ. start: one orthonormal frame for all replicas, or one a replica.
        step_size: η of the loss ½(f*−f)². steps: SGD steps. batch: fresh samples averaged per step.
        replicas: independent runs (default: 32, or as many as there are starts).
        seed: the same seed gives the same replicas, whatever their number.
        method: ``exact`` (exact in law, cost independent of d) or ``ambient`` (explicit vectors of R^d).
        saves: how many times to record, equidistant. stop_at_risk: stop once all replicas' risk is at or below it.
        block_steps: steps per block (default: 8, or half the width; 1 with mini-batches). mistakes: controls of tests.

    Returns: `StiefelResult`. The retraction keeps W on the manifold (to 1e-12 after any number of steps), so nothing
    diverges: too large a step shows as a risk that stays up.

    Raises:
        InputError: a number out of range, frames that are not orthonormal, or d < P + N.
        Interrupted: on Ctrl-C, with the result so far.
    """
    frames = [start] * (32 if replicas is None else replicas) if isinstance(start, Subspace) else list(start)
    check_run(step_size, seed, method, steps=steps, batch=batch, replicas=len(frames), saves=saves)
    _check(model, frames)
    if replicas not in (None, len(frames)):
        raise InputError(f"replicas is {replicas}, but {len(frames)} starts are given: leave replicas out")
    shape = _shape(model, batch, steps, method, block_steps, mistakes)
    count, width = model.teacher.width, model.width
    outside = model.teacher.dim if mistakes.forget_known else model.teacher.dim - count - width
    # σ = z² − 1 has φ(1) = 2; another multiple of it scales both networks, hence the loss and the step.
    scale = model.second_moment / 2
    scales = Scales(
        jnp.asarray(model.teacher.a),
        jnp.asarray(model.speed_factor, dtype=float),
        jnp.asarray(step_size * scale, dtype=float),
        jnp.asarray(outside, dtype=float),
    )
    keys = replica_keys(seed, len(frames), "Stiefel SGD")
    wanted = None if stop_at_risk is None else stop_at_risk * model.norm**2 / 2

    def advance(state: Frames, part: Stretch) -> Frames:
        own = shape if part.length == shape.block_steps else replace(shape, block_steps=part.length)
        return _advance(own, scales, state, keys, part.first, part.blocks)

    def done(track: Track[Frames]) -> bool:
        return wanted is not None and bool(np.all(track.seen[-1][2] <= wanted))

    parts, told = (
        stretches(steps, saves, shape.block_steps),
        Told("Stiefel SGD", steps, progress, f", {len(frames)} replicas"),
    )
    result = partial(_result, model, shape, step_size, seed, scale)
    return drive(_start(shape, frames), parts, advance, partial(_observe, shape, scales), result, told, done=done)


def _shape(
    model: QuadraticModel, batch: int, steps: int, method: str, block_steps: int | None, mistakes: Mistakes
) -> Shape:
    count, width, dim = model.teacher.width, model.width, model.teacher.dim
    inner = block_steps or max(1, min(max(_BLOCK, width // 2), steps))
    if batch > 1 and method == "exact":
        inner = 1
    needed = min(batch, width) if batch > 1 else inner
    outside = dim if mistakes.forget_known else dim - count - width
    few = outside if outside <= needed else None
    return Shape(count, width, batch, inner, method, dim if method == "ambient" else None, few, mistakes)


def _check(model: QuadraticModel, frames: list[Subspace]) -> None:
    count, width = model.teacher.width, model.width
    if model.teacher.dim < count + width:
        raise InputError(f"dim {model.teacher.dim} is below teacher width + student width = {count + width}: raise dim")
    for frame in frames:
        if frame.on_teachers.shape != (count, width):
            raise InputError(f"start has shape {frame.on_teachers.shape}, not {(count, width)}: draw it for this model")
        defect = np.abs(frame.rows.T @ frame.rows - np.eye(width)).max()
        if not defect < 1e-10:
            raise InputError(f"start is off the Stiefel manifold by {defect:.2g}: use its orthonormal() frame")


def _result(
    model: QuadraticModel, shape: Shape, step_size: float, seed: int, scale: float, track: Track[Frames]
) -> StiefelResult:
    overlap, loss, missing = track.columns()
    attributes: dict[str, str | float | int] = {
        "what": "stiefel-sgd",
        "dim": model.teacher.dim,
        "speed_factor": model.speed_factor,
        "step_size": step_size,
        "paper_step_size": step_theory.PAPER_STEP * step_size,
        "batch": shape.batch,
        "method": shape.method,
        "seed": seed,
        "precision": "float64",
    }
    time = np.array(track.at) * step_size
    norm2 = np.full(overlap.shape[:3], model.speed_factor)
    data = dataset(time, overlap, norm2, scale * loss, step_size=step_size, attributes=attributes)
    data["diagonal"] = variable(("replica", "time", "direction"), np.sum(overlap**2, axis=2), DIAGONAL)
    data["risk"] = variable(
        ("replica", "time"), 2 * missing / model.norm**2, "risk with the best radial part (2 at f = 0)"
    )
    clock = variable("time", model.riccati_time(time), "time of the normalised Riccati flow", "Riccati time")
    data = data.assign_coords(riccati_time=clock)
    return StiefelResult(data, _frames(shape, track.state), int(track.at[-1]))


def _frames(shape: Shape, state: Frames) -> tuple[Subspace, ...]:
    on_teachers, residual = np.asarray(state.on_teachers), np.asarray(state.residual)
    count = shape.teacher_width
    if shape.method == "ambient":
        on_teachers, residual = on_teachers[..., :count], on_teachers[..., count:]
    return tuple(Subspace(top.T, low.T).compact() for top, low in zip(on_teachers, residual, strict=True))
