r"""Online SGD of the 2-homogeneous student, exact in law, at a cost that does not depend on d.

The declared model (`dynamics.declared.chain`) of isotropic inputs, orthonormal teachers, the student's own activation as link
and plain SGD, with a watch for recovery. Cost per step $O(m(P+m+B))$ with block length B, memory $O(m(P+m)+B^2)$, for any
$d\ge P+m$.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynamics.additive.gradient_flow import LEVEL, lowered_overlap_flow, overlap_loss
from dynamics.core.checks import check_run, check_start
from dynamics.core.interrupted import Progress
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import State
from dynamics.core.outside import NO_MISTAKES, Mistakes
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Told, Track, drive, for_good, stretches
from dynamics.core.trajectory import Plotted, dataset
from dynamics.declared.engine import Ambient, Exact, block_length, engine_of
from dynamics.declared.lanes import until_ended
from dynamics.declared.simulate import BLOW_UP, natural_size
from dynamics.declared.step import Run
from theory import Activation, InitialState, InputError, Teacher
from theory.core.arguments import check_whole
from theory.declared.additive import additive_model, start_of
from theory.declared.loss import Loss, Square
from theory.declared.rule import Rule
from theory.declared.student import Student, two_homogeneous

if TYPE_CHECKING:
    import xarray as xr

_DEFAULT_SAVES = 200


class Recovered(NamedTuple):
    """First steps (P,) of a squared overlap ≥ ½ and of Σ_k r_k t_kq² ≥ a_q/2; inf if not reached."""

    half_step: jax.Array
    loss_step: jax.Array


@dataclass(frozen=True)
class Recovery:
    """Watches for recovery of directions with these weights, by replicas whose squared norms are all below `limit`."""

    weights: tuple[float, ...]
    limit: float

    def start(self) -> Recovered:
        """Nothing yet."""
        return Recovered(*[jnp.full(len(self.weights), jnp.inf)] * 2)

    def __call__(self, seen: Recovered, overlap: jax.Array, norm2: jax.Array, now: jax.Array) -> Recovered:
        """From overlaps (m, P) and squared norms (m,) at step `now`."""
        squares = overlap**2
        # An exploding replica passes through all overlaps: nothing it does counts as recovery.
        sane = jnp.max(norm2) < self.limit
        share = jnp.where(sane, jnp.max(squares / norm2[:, None], axis=0), 0.0)
        norm = jnp.where(sane, jnp.sum(squares, axis=0) / jnp.asarray(self.weights), 0.0)
        return Recovered(
            jnp.where(share >= LEVEL, jnp.minimum(seen.half_step, now), seen.half_step),
            jnp.where(norm >= LEVEL, jnp.minimum(seen.loss_step, now), seen.loss_step),
        )


@dataclass(frozen=True)
class SgdResult(Plotted):
    """A set of SGD replicas.

    Attributes:
        dataset: overlap, norm2, loss on (replica, time, neuron, direction); coordinate ``step``.
        half_steps: (replica, P) first step (to `resolution`) with a squared overlap ≥ ½; inf if not reached.
        loss_steps: (replica, P) first step with Σ_k r_k t_kq² ≥ a_q/2; inf if not reached.
        diverged: (replica,) whether a squared norm was above 10⁶ times the largest at the start, or the norm of the weights,
            when it was looked at, or anything not finite; NaN from there on.
        steps: steps run. resolution: recovery is looked at every so many steps.
    """

    dataset: "xr.Dataset"
    half_steps: np.ndarray
    loss_steps: np.ndarray
    diverged: np.ndarray
    steps: int
    resolution: int


@dataclass(frozen=True)
class Problem:
    """A run of the additive teacher, ready.

    Attributes:
        activation, teacher: of the model. engine: runs it. watch: for recovery. block: steps of a block.
    """

    activation: Activation
    teacher: Teacher
    engine: Exact | Ambient
    watch: Recovery
    block: int

    @classmethod
    def of(
        cls,
        activation: Activation,
        teacher: Teacher,
        initial: InitialState,
        rule: Rule,
        *,
        steps: int,
        method: str = "exact",
        block_steps: int | None = None,
        student: Student | None = None,
        loss: Loss | None = None,
        mistakes: Mistakes = NO_MISTAKES,
    ) -> "Problem":
        """By default of the 2-homogeneous student and the square loss. Raises `InputError`."""
        check_whole(block_steps=1 if block_steps is None else block_steps)
        check_start(initial, teacher, rows=True)
        width = initial.on_teachers.shape[0]
        block = block_length(rule, width, steps, block_steps)
        own = two_homogeneous(activation, width) if student is None else student
        model = additive_model(activation, teacher, own, rule, Square() if loss is None else loss)
        start = start_of(initial)
        watch = Recovery(teacher.weights, BLOW_UP * natural_size(model, start))
        return cls(activation, teacher, engine_of(model, start, method, block, mistakes), watch, block)

    def begin(self, keys: jax.Array) -> Run:
        """Replicas at the start, one for each key, which may have recovered directions."""
        run = self.engine.begin(keys, self.watch.start())
        overlap, gram, _ = self.engine.look(run.vectors)
        norm2 = jnp.diagonal(jnp.sum(gram, axis=1), axis1=1, axis2=2)
        seen = jax.vmap(self.watch, (0, 0, 0, None))(run.seen, jnp.sum(overlap, axis=1), norm2, jnp.asarray(0))
        return run._replace(seen=seen)

    def overlaps(self, run: Run) -> State:
        """t, c, r of all replicas, as the overlap flow's state."""
        overlap, gram, _ = self.engine.look(run.vectors)
        return _cosines(overlap, gram)


@jax.jit
def _cosines(overlap: jax.Array, gram: jax.Array) -> State:
    """From inner products by eigenspace, (R, L, m, P) and (R, L, m, m)."""
    overlap, gram = jnp.sum(overlap, axis=1), jnp.sum(gram, axis=1)
    r = jnp.diagonal(gram, axis1=1, axis2=2)
    size = jnp.sqrt(r)
    cosines = jnp.clip(gram / (size[:, :, None] * size[:, None, :]), -1.0, 1.0)  # kernels may end at ±1
    return {
        "t": jnp.clip(overlap / size[:, :, None], -1.0, 1.0),
        "c": jnp.where(jnp.eye(r.shape[1], dtype=bool), 1.0, cosines),
        "r": r,
    }


def all_learned(seen: Recovered, wanted: tuple[int, ...] | None) -> bool:
    """Whether all replicas have recovered these directions."""
    return wanted is not None and bool(np.isfinite(np.asarray(seen.half_step)[:, np.array(wanted, dtype=int)]).all())


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
        saves: how many times to record, at equal distances but for whole blocks, and at the end.
        stop_when_learned: indices (from 0) of directions; stop once all replicas have recovered them.
        block_steps: steps per block (default: 8 to 32 samples, by width); recovery is looked at once per block.
        mistakes: built-in errors for controls. progress: called with (fraction, text).

    Returns: `SgdResult`; a replica that blows up is marked in `diverged` and is NaN from there on.

    Raises:
        InputError: a number out of range, or d < P + m.
        Interrupted: on Ctrl-C, with the result so far.
    """
    check_run(step_size, seed, method, steps=steps, batch=batch, replicas=replicas, saves=saves)
    rule = Rule(float(step_size), batch)
    problem = Problem.of(
        activation, teacher, initial, rule, steps=steps, method=method, block_steps=block_steps, mistakes=mistakes
    )
    _check_directions(teacher, stop_when_learned=stop_when_learned or ())

    def done(track: Track[Run]) -> bool:
        lost = not np.any(np.isfinite(track.seen[-1][1]).all(axis=1))
        return lost or all_learned(track.state.seen, stop_when_learned)

    keys = replica_keys(seed, replicas, "online SGD")
    advance = problem.engine.advance(keys, problem.watch)
    parts = stretches(steps, saves, problem.block)
    told = Told("online SGD", steps, progress, f", {replicas} replicas")
    result = partial(_result, problem, rule, method, seed)
    return drive(problem.begin(keys), parts, advance, partial(_observe, problem), result, told, done=done)


@double_precision
def recovery_steps(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    directions: Sequence[int],
    batch: int = 1,
    replicas: int = 32,
    seed: int = 0,
    block_steps: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """`SgdResult.half_steps`, (replica, P), of the replicas of `online_sgd`, each of which ends once it has these directions.

    No replica waits for the slowest, and nothing is recorded on the way. Recovery is looked at at the ends of blocks
    (`block_steps`, by default 8 to 32 samples), so that steps are multiples of a block, late by less than one. `steps`: at
    most; inf is what was not seen at the end of a block by then.

    Raises: as `online_sgd`; `Interrupted` with the steps of the replicas that had ended, and inf.
    """
    check_run(step_size, seed, "exact", steps=steps, batch=batch, replicas=replicas)
    rule = Rule(float(step_size), batch)
    problem = Problem.of(activation, teacher, initial, rule, steps=steps, block_steps=block_steps)
    _check_directions(teacher, directions=directions)
    wanted = np.array(directions, dtype=int)
    assert isinstance(problem.engine, Exact)
    keys = replica_keys(seed, replicas, "online SGD")
    found = until_ended(
        problem.engine,
        keys,
        problem.watch,
        jax.tree.map(lambda x: x[0], problem.begin(keys[:1]).seen),
        lambda seen: np.isfinite(np.asarray(seen.half_step)[:, wanted]).all(axis=1),
        steps=steps,
        what="online SGD",
        progress=progress,
    ).half_step
    return np.where(found <= steps, found, np.inf)


def _check_directions(teacher: Teacher, **given: Sequence[int]) -> None:
    for name, directions in given.items():
        if not all(0 <= q < teacher.width for q in directions):
            raise InputError(f"{name} is {directions!r}: directions count from 0 to {teacher.width - 1}")


def _observe(problem: Problem, run: Run) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Overlaps, squared norms and loss of every replica."""
    state = problem.overlaps(run)
    return state["t"], state["r"], _losses(problem.activation, state, jnp.asarray(problem.teacher.weights))


@partial(jax.jit, static_argnums=0)
def _losses(activation: Activation, state: State, a: jax.Array) -> jax.Array:
    lowered = lowered_overlap_flow(activation)
    return jax.vmap(lambda one: overlap_loss(lowered, one, a))(state)


def attributes(problem: Problem, rule: Rule, what: str, method: str, seed: int) -> dict[str, Any]:
    """What a run's data say of it."""
    return {
        "what": what,
        "activation": problem.activation.name,
        "dim": problem.teacher.dim,
        "step_size": rule.step_size,
        "batch": rule.batch,
        "method": method,
        "seed": seed,
        "precision": "float64",
        "recovery_resolution_steps": problem.block,
    }


def _result(problem: Problem, rule: Rule, method: str, seed: int, track: Track[Run]) -> SgdResult:
    overlap, norm2, loss = track.columns()
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(norm2).all(axis=2) | (norm2.max(axis=2) > problem.watch.limit)
    lost = for_good(lost)
    for values in (overlap, norm2, loss):
        values[lost] = np.nan
    seen, steps, eta = track.state.seen, np.array(track.at), float(rule.step_size)  # type: ignore[arg-type]
    half_steps, loss_steps, diverged = np.asarray(seen.half_step), np.asarray(seen.loss_step), lost.any(axis=1)
    ends = {"half_steps": half_steps, "loss_steps": loss_steps, "diverged": diverged}
    about = attributes(problem, rule, "online-sgd", method, seed)
    data = dataset(steps * eta, overlap, norm2, loss, step_size=eta, attributes=about, **ends)
    return SgdResult(data, half_steps, loss_steps, diverged, int(steps[-1]), problem.block)
