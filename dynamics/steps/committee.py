r"""The committee machine with a fixed second layer: its order parameters in time, and online SGD exact in law.

The mean of one step is $y+\eta F(y)$ for $y=(T,Q)$, with F the drift of `theory.steps.committee.committee`. The map
iterates it; the flow integrates the equation whose solution passes through the map's points up to $O(\eta^2)$,
$\dot y=F(y-\tfrac\eta2F(y))=F-\tfrac\eta2F'F+O(\eta^2)$ (a step is a step, not a piece of a flow). `committee_sgd` is
plain SGD and knows nothing of this.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from jax.scipy import special

from dynamics.core.checks import check_start
from dynamics.core.flow import Reached, integrate
from dynamics.core.interrupted import Progress
from dynamics.core.kept import compiled, kept
from dynamics.core.keys import replica_keys
from dynamics.core.lowering import Arrays, State, broadcast, lower_scalar
from dynamics.core.precision import double_precision
from dynamics.core.replicas import Stretch, Told, Track, drive, marks, stretches
from dynamics.core.symmetric import GRAM, UNIT_GRAM, Symmetric
from dynamics.core.trajectory import Plotted, time_axis, variable
from dynamics.declared.engine import block_length, engine_of
from dynamics.declared.rows import Rows
from dynamics.declared.step import Parts, Run, take
from theory import Activation, InitialState, InputError, System, Teacher
from theory.core.arguments import check_positive
from theory.core.hermite import z
from theory.core.indexed import Sums, Term, j, k, q
from theory.declared.additive import additive_model, start_of
from theory.declared.loss import Square
from theory.declared.rule import SGD
from theory.declared.student import Student
from theory.declared.student import committee as declared_committee
from theory.steps.committee import ROWS, committee

if TYPE_CHECKING:
    import xarray as xr

#: Elements of a term over all its letters that are formed at once; more are taken one student at a time.
_CHUNK = 2**20


# --------------------------------------------------------------------------- lowering


class _Body:
    """One term: its body compiled over the arrays that occur in it, broadcast over its letters and summed."""

    def __init__(self, term: Term, free: tuple[sp.Symbol, ...]) -> None:
        self._atoms = sorted(term.body.atoms(sp.Indexed), key=str)
        self._scalars = sorted((x for x in term.body.free_symbols if x.name in ("eta", "d")), key=str)
        self._letters = (*free, *term.bound)
        self._bound = tuple(range(len(free), len(self._letters)))
        symbols = [*self._atoms, *self._scalars]
        self._compiled = sp.lambdify(symbols, sp.N(term.body, 17), modules=[{"erf": special.erf}, "jax"], cse=True)

    def total(self, arrays: Arrays) -> jax.Array:
        placed = [broadcast(arrays[str(x.base)], x.indices, self._letters) for x in self._atoms]
        sizes = jnp.broadcast_shapes(*[x.shape for x in placed])
        if self._letters and self._letters[0] == k and np.prod(sizes) > _CHUNK:
            by_student = [jnp.broadcast_to(x, (sizes[0], *x.shape[1:]))[:, None] for x in placed]
            return jax.lax.map(lambda one: self._sum(one, arrays), by_student)[:, 0]
        return self._sum(placed, arrays)

    def _sum(self, placed: Sequence[jax.Array], arrays: Arrays) -> jax.Array:
        return jnp.sum(self._compiled(*placed, *[arrays[x.name] for x in self._scalars]), axis=self._bound)


class LoweredCommittee:
    """JAX code of a committee `System`: ``drift(state, parameters)`` and ``loss(state, parameters)``.

    State: T (m, P), Q (m, m). Parameters: a (P,), b (m,), eta, d. An evaluation costs $m^2(m+P)^2$ integrals (the
    four-point function of erf does not factor); memory is bounded by going through the students one by one.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        free = {"T": (k, q), "Q": (k, j)}
        self._drift = {
            str(component.base): [_Body(term, free[str(component.base)]) for term in sums]
            for component, sums in system.drift.items()
        }
        loss: Sums = system.observables["loss"]
        self._loss = [_Body(term, ()) for term in loss]

    def drift(self, state: Arrays, parameters: Arrays) -> State:
        """Mean of one step over η."""
        arrays = frame_arrays(state, parameters)
        return {
            name: sum((body.total(arrays) for body in bodies), start=jnp.zeros_like(state[name]))
            for name, bodies in self._drift.items()
        }

    def loss(self, state: Arrays, parameters: Arrays) -> jax.Array:
        """Population loss ½E(f*−f)²."""
        arrays = frame_arrays(state, parameters)
        return sum((body.total(arrays) for body in self._loss), start=jnp.zeros(()))


def frame_arrays(state: Arrays, parameters: Arrays) -> State:
    """Weights and covariances of the frame of teachers and students."""
    T, Q = state["T"], state["Q"]
    width = T.shape[1]
    gram = jnp.block([[jnp.eye(width), T.T], [T, Q]])
    weights = jnp.concatenate([-parameters["a"], parameters["b"]])
    return {**state, **parameters, "C": gram, "X": gram[width:], "Z": gram[:, :width], "w": weights}


def lowered_committee(system: System) -> LoweredCommittee:
    """A committee system as JAX code, made once per object (so that it is also compiled once), and let go with it."""
    return kept(system, LoweredCommittee)


def committee_parameters(
    teacher: Teacher, student_weights: Sequence[float], step_size: float, dim: float | None = None
) -> State:
    """The system's parameters as arrays; `dim` in place of the teacher's."""
    return {
        "a": jnp.asarray(teacher.a),
        "b": jnp.asarray(np.asarray(student_weights, dtype=float)),
        "eta": jnp.asarray(float(step_size)),
        "d": jnp.asarray(float(teacher.dim if dim is None else dim)),
    }


def order_parameters(initial: InitialState) -> State:
    """T = W W*ᵀ and Q = W Wᵀ of a start."""
    T = jnp.asarray(initial.on_teachers)
    return {"T": T, "Q": T @ T.T + jnp.asarray(initial.residual @ initial.residual.T)}


# ------------------------------------------------------------------------- trajectories


@dataclass(frozen=True)
class CommitteeResult(Plotted):
    """A run: `dataset` with T, Q and loss over time (with a leading ``replica`` for SGD) and the coordinate ``step``.

    Attributes:
        diverged: whether it left the finite numbers.
    """

    dataset: "xr.Dataset"
    diverged: bool


@compiled
def _iterate(
    lowered: LoweredCommittee,
    state: State,
    parameters: State,
    step_size: jax.Array,
    count: jax.Array,
    *,
    gram: Symmetric,
) -> State:
    """`count` steps of the map; the parameters' own eta is that of the drift's second order."""
    drift = gram.packed(lowered.drift)

    def body(_: jax.Array, y: State) -> State:
        change = drift(y, parameters)
        return {name: y[name] + step_size * change[name] for name in y}

    return gram.open(jax.lax.fori_loop(0, count, body, gram.pack(state)))


def _gram(unit: bool) -> Symmetric:
    """How Q is held: rows of unit norm keep it."""
    return UNIT_GRAM if unit else GRAM


def map_steps(lowered: LoweredCommittee, state: State, parameters: State, count: int, unit: bool) -> State:
    """State after `count` steps of the map; one compiled code for every count, shared with `committee_flow`."""
    return _iterate(lowered, state, parameters, parameters["eta"], jnp.asarray(count), gram=_gram(unit))


def _velocity(drift: Callable[..., State], y: State, parameters: State) -> State:
    """F(y − ½ηF(y)); as a loop of two rounds, so that the drift is compiled once."""

    def round_(_: jax.Array, velocity: State) -> State:
        back = jax.tree.map(lambda x, v: x - 0.5 * parameters["eta"] * v, y, velocity)
        return drift(back, parameters)

    return jax.lax.fori_loop(0, 2, round_, jax.tree.map(jnp.zeros_like, y))


@compiled
def _integrate(
    lowered: LoweredCommittee, state: State, parameters: State, times: jax.Array, rtol: float, *, gram: Symmetric
) -> Reached:
    drift = gram.packed(lowered.drift)
    return integrate(
        lambda y, x: _velocity(drift, y, x), state, times[0], times[-1], parameters, rtol=rtol, times=times, held=gram
    )


@compiled
def losses(lowered: LoweredCommittee, states: State, parameters: State) -> jax.Array:
    """Population losses (n,) of states T (n, m, P), Q (n, m, m); compiled for each n."""
    return jax.lax.map(lambda y: lowered.loss(y, parameters), states)


@double_precision
def committee_flow(
    activation: Activation,
    teacher: Teacher,
    student_weights: Sequence[float],
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    rows: str = "free",
    saves: int = 100,
    method: str = "flow",
    second_order: bool = True,
    rtol: float = 1e-8,
    system: System | None = None,
    progress: Progress | None = None,
) -> CommitteeResult:
    r"""Mean order parameters of online SGD on a committee machine, from `initial` over `steps` steps.

    Args:
        student_weights: the fixed $b_k$, (m,).
        rows: ``free``, ``sphere`` or ``projected`` (`theory.steps.committee`).
        method: ``map`` iterates the mean of one step; ``flow`` integrates the equation of the same order in t = η·steps.
        second_order: False leaves the O(η²) terms out: gradient flow (with method ``map`` its Euler steps).
        system: a committee `System` in place of the derived one (to test a conjecture).

    The dimension and the step size enter; fluctuations do not (they are of relative order 1/d at η ~ 1/d).

    Raises:
        InputError: a number out of range, weights and start that do not fit, rows that are not of unit norm where they
            must be, an activation without closed integrals.
        IntegrationError: the solver could not go on.
        Interrupted: on Ctrl-C, of the map, with the result so far.
    """
    if method not in ("map", "flow"):
        raise InputError(f"method is {method!r}: use map or flow")
    system = committee(activation, rows) if system is None else system
    _check(teacher, student_weights, initial, rows, {"step_size": step_size, "steps": steps, "saves": saves})
    lowered, state = lowered_committee(system), order_parameters(initial)
    parameters = committee_parameters(teacher, student_weights, step_size if second_order else 0.0)
    about = _about(
        activation, teacher, rows, {"what": "committee-flow", "method": method, "second_order": int(second_order)}
    )
    gram = _gram(rows != "free")
    if method == "flow":
        at = np.array(marks(steps, saves))
        found = _integrate(lowered, state, parameters, jnp.asarray(at * step_size), rtol, gram=gram)
        found.check("committee flow", steps * step_size, "lower step_size")
        return _result(found.state, losses(lowered, found.state, parameters), at, step_size, about)

    def advance(state: State, part: Stretch) -> State:
        count = jnp.asarray(part.end - part.begin)
        return _iterate(lowered, state, parameters, jnp.asarray(step_size), count, gram=gram)

    def result(track: Track[State]) -> CommitteeResult:
        states = {name: jnp.stack([y[name] for y in track.seen]) for name in state}
        return _result(states, losses(lowered, states, parameters), np.array(track.at), step_size, about)

    told = Told("committee map", steps, progress)
    return drive(state, stretches(steps, saves), advance, lambda y: y, result, told)


def _about(activation: Activation, teacher: Teacher, rows: str, extra: dict) -> dict:
    return {"activation": activation.name, "dim": teacher.dim, "rows": rows, "precision": "float64", **extra}


def _check(
    teacher: Teacher, student_weights: Sequence[float], initial: InitialState, rows: str, numbers: dict[str, float]
) -> None:
    check_positive(**numbers)
    if rows not in ROWS:
        raise InputError(f"rows is {rows!r}: use one of {', '.join(ROWS)}")
    width = initial.on_teachers.shape[0]
    weights = np.asarray(student_weights, dtype=float)
    if weights.shape != (width,) or not np.all(np.isfinite(weights)):
        raise InputError(f"student_weights has shape {weights.shape}: give {width} finite numbers, one for each row")
    check_start(initial, teacher, rows=True)
    norm2 = np.sum(initial.on_teachers**2, axis=1) + np.sum(initial.residual**2, axis=1)
    if rows != "free" and np.abs(norm2 - 1).max() > 1e-9:
        raise InputError(f"initial has squared norms {norm2.tolist()}: give unit rows for rows={rows!r}")


def _result(states: State, loss: jax.Array, at: np.ndarray, step_size: float, about: dict) -> CommitteeResult:
    import xarray as xr

    T, Q, height = np.asarray(states["T"]), np.asarray(states["Q"]), np.asarray(loss)
    leading = ("replica", "time") if T.ndim == 4 else ("time",)
    data = xr.Dataset(
        {
            "T": variable((*leading, "neuron", "direction"), T, "inner product of row and teacher direction"),
            "Q": variable((*leading, "neuron", "other"), Q, "overlap of two rows"),
            "loss": variable(leading, height, "population loss ½E(f*−f)²"),
        },
        coords={
            **time_axis(at * step_size, at),
            "neuron": np.arange(T.shape[-2]),
            "direction": np.arange(1, T.shape[-1] + 1),
        },
        attrs={**about, "step_size": step_size},
    )
    return CommitteeResult(data, not bool(np.all(np.isfinite(height))))


# ----------------------------------------------------------------------------------- SGD


def _student(activation: Activation, student_weights: Sequence[float], rows: str) -> Student:
    return declared_committee(activation, len(student_weights), student_weights, rows=rows)


def sgd_step(activation: Activation, rows: str, rates: State, vectors: jax.Array, x: jax.Array) -> jax.Array:
    r"""One step on explicit rows (m, d) with one input (d,): $w_k-\eta b_k\delta\sigma'(z_k)x$, then the rule for rows.

    `rates` holds a, b and eta.
    """
    label = rates["a"] @ lower_scalar(z, activation.function)(x[: rates["a"].size])
    parts = Parts(_student(activation, (1.0,) * len(vectors), rows), Square(), SGD(1.0))
    moved = take(parts, Rows(vectors, x[None]), rates["b"], {}, label[None], jnp.zeros(()), rates["eta"])
    found: jax.Array = moved.rows.array
    return found


@double_precision
def committee_sgd(
    activation: Activation,
    teacher: Teacher,
    student_weights: Sequence[float],
    initial: InitialState,
    *,
    step_size: float,
    steps: int,
    rows: str = "free",
    replicas: int = 32,
    saves: int = 100,
    seed: int = 0,
    method: str = "exact",
    progress: Progress | None = None,
) -> CommitteeResult:
    r"""Online SGD of a committee machine, one fresh sample a step, all replicas at once from the same start.

    The declared model (`dynamics.declared`): `method` is ``exact`` in law at any d, or ``ambient``, with rows of R^d. The loss
    is the population loss of the rows, in closed form.

    Raises:
        InputError: a number out of range, weights and start that do not fit, or rows that are not of unit norm.
        Interrupted: on Ctrl-C, with the result so far.
    """
    numbers = {"step_size": step_size, "steps": steps, "saves": saves, "replicas": replicas}
    _check(teacher, student_weights, initial, rows, numbers)
    parameters = committee_parameters(teacher, student_weights, step_size)
    rule = SGD(float(step_size))
    model = additive_model(activation, teacher, _student(activation, student_weights, rows), rule)
    block = block_length(rule, len(student_weights), steps, saves=saves)
    engine = engine_of(model, start_of(initial), method, block)
    lowered = lowered_committee(committee(activation, rows))

    def look(run: Run) -> State:
        overlap, gram, _ = engine.look(run.vectors)
        return {"T": jnp.sum(overlap, axis=1), "Q": jnp.sum(gram, axis=1)}

    def result(track: Track[Run]) -> CommitteeResult:
        states = {name: jnp.stack([y[name] for y in track.seen], axis=1) for name in ("T", "Q")}
        # One replica at a time: the same shape, and so the same compiled code, as a flow with as many records.
        each = [{name: value[i] for name, value in states.items()} for i in range(replicas)]
        loss = jnp.stack([losses(lowered, path, parameters) for path in each])
        about = _about(activation, teacher, rows, {"what": "committee-sgd", "seed": seed, "method": method})
        return _result(states, loss, np.array(track.at), step_size, about)

    keys = replica_keys(seed, replicas, "committee SGD")
    told = Told("committee SGD", steps, progress, f", {replicas} replicas")
    parts = stretches(steps, saves, block)
    return drive(engine.begin(keys), parts, engine.advance(keys), look, result, told)
