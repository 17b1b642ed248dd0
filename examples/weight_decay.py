r"""The additive model under weight decay: SGD on $\tfrac12E(f_*-f)^2+\tfrac\kappa2\sum_k\|v_k\|^2$ (after arXiv:2504.19983).

A step of SGD is $v_k\leftarrow(1-\eta\kappa)v_k-\eta\hat g_k$. In overlaps t, c and squared norms r the penalty is
$\tfrac\kappa2\sum_kr_k$: it pulls along $\bar v_k$, turns no direction, and adds $-2\kappa r_k$ to $\dot r_k$. So a student
that is alone with a direction of weight $a$ (φ: the dual kernel, $\varphi(1)=E\sigma^2$)

* finds it when it would without decay, but its norm, $\dot r=r\,(4a\varphi(u)-2\kappa-4\varphi(1)r)$, and the loss are late;
* comes to rest at $r_*=a-\kappa/(2\varphi(1))$, or vanishes where that is negative: soft thresholding of the weights;
* leaves a loss of $\sum_p\tfrac12\varphi(1)(a_p-r_{*p})^2$, where $r_{*p}=0$ for a direction that nobody fits.

Time unit: gradient-flow time of the penalised loss; one step of size η advances it by η. Valid for η → 0, information
exponents of 3 and more, light students, and while the greedy order is clear (`theory.predict`).
"""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from scipy.integrate import solve_ivp

import theory
from emergence.model import Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation
from emergence.options import Problem, option, options
from emergence.table import Table, render
from emergence.values import Expression, Number, Numbers, Whole
from theory.additive import flow as additive
from theory.core.activation import c as cosine
from theory.core.hermite import z
from theory.core.indexed import Sums, Term, c, evaluate, j, k, l, p, q, r, t
from theory.one_task.single_task import SingleTask, r0, u
from theory.prediction.validity import validity

if TYPE_CHECKING:
    import xarray as xr

    from validation import Case, Context, Measurement, Outcome

kappa, a = sp.Symbol("kappa", positive=True), sp.Symbol("a", positive=True)
#: A run ends when what still moves is down to this share. Records of SGD.
SETTLED, SAVES = 3e-3, 400


@dataclass(frozen=True)
class DecayProblem(Problem):
    """A teacher, a light student, and decay; the default has one direction too weak to be fitted."""

    activation: str = option("h3", Expression(), "activation, of information exponent 3 or more")
    weights: tuple[float, ...] = option((1.0, 0.7, 0.1), Numbers(), "teacher weights a_p")
    decay: float = option(0.4, Number(), "weight decay kappa")
    dim: int = option(16, Whole(), "input dimension d, at least teacher width + student width")
    student_width: int = option(6, Whole(), "student width m")
    init_scale: float = option(0.1, Number(), "initial norm sigma_0 of a student neuron (not its square)")
    time: float | None = option(None, Number(), "time to run to (default: until everything has settled)")
    step_size: float = option(1e-3, Number(), "SGD step size eta; a comparison runs eta and eta / 2")
    batch: int = option(32, Whole(), "samples in one SGD step")
    replicas: int = option(16, Whole(), "independent SGD runs")
    seed: int = option(0, Whole(0), "random seed")


# ------------------------------------------------------------------- the system, derived


def penalty(strength: sp.Expr = kappa) -> Sums:
    r"""$\tfrac\kappa2\sum_kr_k$."""
    return Sums([Term(strength * r[k] / 2, (k,))])


@lru_cache(maxsize=16)
def decayed_flow(activation: theory.Activation, strength: sp.Expr = kappa) -> theory.System:
    """The overlap flow and what the penalty's own gradient adds to it, for a decay that is a number or a symbol."""
    free, pull = theory.overlap_flow(activation), additive.velocity(penalty(strength))
    moved = {coordinate: pull.dot(frame) for coordinate, frame in additive.frame_gradients(k).items()}
    turned = moved[c[k, l]].renamed({l: j})
    added = {
        t[k, q]: moved[t[k, p]].renamed({p: q}),
        c[k, j]: turned + turned.renamed({k: j, j: k}),
        r[k]: moved[r[k]],
    }
    drift = {name: Sums([*free.drift[name], *more]) for name, more in added.items()}

    def step(title: str, left: str, right: sp.Expr, residual: Any = None) -> theory.Step:
        return theory.Step(title, sp.Eq(sp.Symbol(left), right, evaluate=False), residual, activation.check_tolerance)

    norm = fitted_norm(activation)
    steps = (
        step("Weight decay descends a penalty, too", "R", penalty(strength).as_sympy()),
        *(
            step(f"Chain rule for {name}", rf"\dot {name.base}", sums.as_sympy(), partial(_drift_gap, activation, name))
            for name, sums in drift.items()
        ),
        step("An aligned student comes to rest", "r_*", norm, partial(_rest_gap, activation)),
    )
    about = (additive.GAUSSIAN, additive.ORTHONORMAL, theory.Assumption("for r_*: a student alone on its direction"))
    reference = "arXiv:2504.19983, Lemma B.1, without decay; with it derived"
    equations = {str(one.equation.lhs): one.claim for one in steps}
    return theory.System(
        name="weight-decay",
        activation=activation,
        drift=drift,
        observables={**free.observables, "penalised": free.observables["loss"] + penalty(strength)},
        parameters=free.parameters,
        derivation=theory.Derivation("weight-decay", steps, equations, about, reference),
        time_unit="gradient-flow time of the penalised loss; one SGD step of size η advances it by η",
        limit=free.limit,
    )


@lru_cache(maxsize=16)
def lone_growth(activation: theory.Activation) -> sp.Expr:
    """d ln r/dt of a lone student of squared norm r_0 at overlap u: that of the single task, and the penalty's."""
    (pulled,) = additive.velocity(penalty()).dot(additive.frame_gradients(k)[r[k]])
    return sp.cancel((SingleTask(activation).norm_rate + pulled.body.xreplace({r[k]: r0})) / r0)


def fitted_norm(activation: theory.Activation) -> sp.Expr:
    r"""$r_*=a-\kappa/(2\varphi(1))$: where the growth of an aligned student ends."""
    return sp.solve(lone_growth(activation).subs(u, 1), r0)[0]


# ------------------- checks at explicit vectors, by plain differentiation in their coordinates


def _objective(activation: theory.Activation, rows: sp.Matrix, weights: list[sp.Expr]) -> sp.Expr:
    """½E(f*−f)² + κ/2 Σ|v|² of students as rows, teachers being the first axes."""
    students = [rows.row(i) for i in range(rows.rows)]
    frame = [(sp.eye(rows.cols).row(i), -weight) for i, weight in enumerate(weights)]
    frame += [(v / sp.sqrt(v.dot(v)), v.dot(v)) for v in students]
    pairs = [(x, y, 1 if i == h else x[0].dot(y[0])) for i, x in enumerate(frame) for h, y in enumerate(frame)]
    loss = sum(x[1] * y[1] * activation.dual.subs(cosine, inner) / 2 for x, y, inner in pairs)
    return loss + kappa / 2 * sum(v.dot(v) for v in students)


@lru_cache(maxsize=8)
def _explicit(activation: theory.Activation) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """t, c, r of two students in R⁴ under two teachers, to 50 digits, and their rates along minus the gradient."""
    V = sp.Matrix(2, 4, lambda i, h: sp.Symbol(f"v_{i}{h}", real=True))
    weights, point = [sp.Rational(4, 5), sp.Rational(3, 5)], sp.Matrix([[1, -2, 3, 2], [2, 1, -1, 3]]) / 5
    known = dict(zip(V, point, strict=True)) | {kappa: sp.Rational(2, 7)}
    length = [sp.sqrt(V.row(i).dot(V.row(i))) for i in range(2)]
    coordinates = {
        "t": [[V[i, h] / length[i] for h in range(2)] for i in range(2)],
        "c": [[V.row(i).dot(V.row(h)) / length[i] / length[h] for h in range(2)] for i in range(2)],
        "r": [x**2 for x in length],
    }
    velocity = {x: -sp.diff(_objective(activation, V, weights), x).subs(known) for x in V}
    number = np.vectorize(lambda y: sp.N(y.subs(known), 50), otypes=[object])
    rate = np.vectorize(lambda y: number(sum(sp.diff(y, x) * speed for x, speed in velocity.items())), otypes=[object])
    values = {name: number(np.array(value, dtype=object)) for name, value in coordinates.items()}
    values |= {"a": np.array(weights, dtype=object), "kappa": np.array(known[kappa], dtype=object)}
    return values, {name: rate(np.array(value, dtype=object)) for name, value in coordinates.items()}


def _drift_gap(activation: theory.Activation, name: sp.Indexed, shown: sp.Expr) -> sp.Expr:
    values, rates = _explicit(activation)
    kernel = lambda x, order: sp.N(activation.dual_derivative(int(order)).subs(cosine, x), 50)  # noqa: E731
    found = evaluate(Sums.read(shown), tuple(name.indices), values, kernel)
    return max(abs(x) for x in (found - rates[str(name.base)]).ravel())


def _rest_gap(activation: theory.Activation, shown: sp.Expr) -> sp.Expr:
    """The objective's slope at the student √r_*·e_1 under the teacher a·e_1."""
    x, known = sp.Symbol("x", positive=True), {kappa: sp.Rational(2, 7), a: sp.Rational(3, 4)}
    slope = sp.diff(_objective(activation, sp.Matrix([[x, 0]]), [a]), x)
    return sp.N(slope.subs(x, sp.sqrt(shown)).subs(known), 50)


# --------------------------------------------------------------------------- predictions


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects and what is predicted of it, per direction: arrays (P,)."""

    problem: DecayProblem
    activation: theory.Activation
    teacher: theory.Teacher
    initial: theory.InitialState
    prediction: theory.Prediction
    warnings: tuple[str, ...] = ()

    @cached_property
    def norm(self) -> np.ndarray:
        """r_*, 0 for directions that are never fitted."""
        rest = sp.lambdify((a, kappa), fitted_norm(self.activation))(self.teacher.a, self.problem.decay)
        return np.where(self.prediction.learned, np.maximum(rest, 0.0), 0.0)

    @property
    def unit(self) -> float:
        """φ(1)."""
        return float(self.activation.second_moment)

    def floor(self, norm: np.ndarray) -> float:
        """The loss that students of these norms leave, each on its own direction."""
        return self.unit / 2 * float(np.sum((self.teacher.a - norm) ** 2))

    @cached_property
    def loss_time(self) -> np.ndarray:
        """When half of each weight is learned; inf where it never is."""
        learned = [self._loss_time(i) if norm > own / 2 else math.inf for i, (norm, own) in self._pairs()]
        return np.array(learned)

    def _pairs(self) -> enumerate[tuple[float, float]]:
        return enumerate(zip(self.norm.tolist(), self.teacher.a.tolist(), strict=True))

    def _loss_time(self, i: int) -> float:
        """Overlap and log norm of the selected student alone, until r·u² = a/2."""
        task, weight = SingleTask(self.activation), float(self.teacher.a[i])
        growth = sp.lambdify((u, r0), lone_growth(self.activation).subs({kappa: self.problem.decay, a: weight}))

        def half(_: float, y: np.ndarray) -> float:
            return y[1] + math.log(2 * y[0] ** 2 / weight)

        half.terminal = True  # type: ignore[attr-defined]
        start = (self.prediction.overlap[i], math.log(self.initial.norm2[self.prediction.neuron[i]]))
        rates = lambda _, y: (task.speed(y[0], weight), growth(y[0], math.exp(y[1])))  # noqa: E731
        longest = 100 * self.prediction.time_loss[i]
        path = solve_ivp(rates, (0, longest), start, events=half, method="LSODA", rtol=1e-9, atol=1e-12)
        return float(path.t[-1]) if path.status == 1 else math.inf

    @property
    def last(self) -> float:
        """When the last direction is fitted."""
        return float(max(self.loss_time[np.isfinite(self.loss_time)], default=0.0))

    @property
    def time(self) -> float:
        """To run to: what settles last are light students, whose norms fall at rate 2κ."""
        return self.problem.time or self.last - math.log(SETTLED) / (2 * self.problem.decay)

    @property
    def unsettled(self) -> float:
        """Share of the norms that has not settled by then; all of it where the run ends before the last direction."""
        return min(1.0, math.exp(-2 * self.problem.decay * (self.time - self.last)))

    def echo(self) -> dict[str, Any]:
        return asdict(self.problem) | {"time": self.time}

    def headline(self) -> str:
        one = self.problem
        return f"weight decay {one.decay:g}, {one.activation}, m = {one.student_width}, d = {one.dim}, seed {one.seed}"


def resolve(problem: DecayProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw the start and predict. Raises `InputError` for an information exponent below 3."""
    activation = theory.Activation.parse(problem.activation)
    activation.require_exponent(3, "weight-decay (directions that emerge one by one)")
    teacher = theory.Teacher.of(problem.weights, problem.dim, normalise=False)
    student = theory.Student(problem.student_width, problem.init_scale)
    initial = theory.draw_initial_state(teacher, student, problem.seed)
    return Resolved(problem, activation, teacher, initial, theory.predict(activation, teacher, initial))


def _predicted(resolved: Resolved) -> "xr.Dataset":
    import xarray as xr

    columns = {"half_time": resolved.prediction.time_half, "loss_time": resolved.loss_time, "norm": resolved.norm}
    found = {name: ("direction", value) for name, value in columns.items()} | {"floor": resolved.floor(resolved.norm)}
    return xr.Dataset(found, coords={"direction": np.arange(1, resolved.teacher.width + 1)})


def _document(resolved: Resolved) -> Document:
    data = _predicted(resolved)
    columns = {name: data[name].values.tolist() for name in ("direction", "half_time", "loss_time", "norm")}
    floor = float(data.floor)
    text = render(tuple(columns), list(zip(*columns.values(), strict=True)))
    content = {"problem": resolved.echo(), "directions": columns, "floor": floor}
    return Document(
        content,
        f"{resolved.headline()}\n\n{text}\n\nthe loss ends at {floor:.4g}; loss times are of a student alone: "
        "others that share a direction's norm bring them forward",
    )


# --------------------------------------------------------------------------- simulations


def _flow(resolved: Resolved, progress: Progress | None = None, _: object = None) -> Run:
    from dynamics import gradient_flow

    parts, t_end = (resolved.activation, resolved.teacher, resolved.initial), resolved.time
    system = decayed_flow(resolved.activation, sp.Rational(resolved.problem.decay))
    times = np.linspace(0, t_end, SAVES + 1)
    return Run(gradient_flow(*parts, t_end=t_end, times=times, system=system, progress=progress).dataset)


@lru_cache(maxsize=8)
def _stepper(activation: theory.Activation, batch: int) -> Any:
    """Steps `first` to `last` of all replicas, vectors (R, m, d): plain SGD with decay in coordinates."""
    import jax
    import jax.numpy as jnp

    from dynamics.core.lowering import lower_scalar

    sigma, slope = lower_scalar(z, activation.function), lower_scalar(z, sp.diff(activation.function, z))

    def one(v: Any, key: Any, number: Any, rates: Any) -> Any:
        x = jax.random.normal(jax.random.fold_in(key, number), (batch, v.shape[1]))
        length = jnp.linalg.norm(v, axis=1)
        field = x @ (v / length[:, None]).T
        height, along = sigma(field), slope(field)
        gap = (height @ length**2 - sigma(x[:, : rates["a"].size]) @ rates["a"]) / batch
        gradient = (gap @ (2 * height - along * field))[:, None] * v + (gap[:, None] * along * length).T @ x
        return (1 - rates["eta"] * rates["kappa"]) * v - rates["eta"] * gradient

    everyone = jax.vmap(one, in_axes=(0, 0, None, None))

    @jax.jit
    def steps(v: Any, keys: Any, first: Any, last: Any, rates: Any) -> Any:
        return jax.lax.fori_loop(first, last, lambda number, v: everyone(v, keys, number, rates), v)

    return steps


def _sgd(resolved: Resolved, progress: Progress | None = None, _: object = None, share: float = 1.0) -> Run:
    """SGD with a `share` of the step size; its loss is the population's, of the overlaps on the way."""
    import jax
    import jax.numpy as jnp

    from dynamics import lower
    from dynamics.additive.ambient_flow import embed
    from dynamics.core.keys import replica_keys
    from dynamics.core.trajectory import dataset

    problem, weights = resolved.problem, jnp.asarray(resolved.teacher.a)
    step_size, count = share * problem.step_size, weights.size
    marks = np.linspace(0, math.ceil(resolved.time / step_size), SAVES + 1).round().astype(int)
    rates = {"a": weights, "eta": step_size, "kappa": problem.decay}
    keys = replica_keys(problem.seed, problem.replicas, "weight decay", int(marks[-1]))
    start = jnp.asarray(embed(resolved.initial, problem.dim))
    vectors, seen = (
        [jnp.broadcast_to(start, (problem.replicas, *start.shape))],
        _stepper(resolved.activation, problem.batch),
    )
    for place in range(SAVES):
        vectors.append(seen(vectors[-1], keys, marks[place], marks[place + 1], rates))
        if progress is not None:
            progress((place + 1) / SAVES, f"SGD, step size {step_size:g}")
    paths = jnp.stack(vectors, axis=1)
    norm2 = jnp.sum(paths**2, axis=-1)
    units = paths / jnp.sqrt(norm2)[..., None]
    state = {"t": units[..., :count], "c": jnp.einsum("...ki,...ji->...kj", units, units), "r": norm2}
    system = lower(decayed_flow(resolved.activation))
    loss = jax.vmap(jax.vmap(lambda y: system.observable("loss", y, {"a": weights})))(state)
    diverged = ~np.isfinite(np.asarray(loss)).all(axis=1)
    arrays = (np.asarray(x) for x in (state["t"], norm2, loss))
    data = dataset(step_size * marks, *arrays, step_size=step_size, diverged=diverged)
    return Run(data, int(diverged.sum()))


def measured(resolved: Resolved, data: "xr.Dataset") -> dict[str, np.ndarray]:
    """Of a run, per replica if it has any: half and loss times and fitted norms by direction, and the loss in the end."""
    from theory.core.curves import first_crossing

    squared = (data.overlap**2).transpose(..., "direction", "neuron", "time").values
    fitted = np.einsum("...qkt,...tk->...qt", squared, data.norm2.values)
    return {
        "half_time": first_crossing(data.time.values, squared.max(axis=-2), 0.5),
        "loss_time": first_crossing(data.time.values, fitted / resolved.teacher.a[:, None], 0.5),
        "norm": fitted[..., -1],
        "floor": data.loss.values[..., -1:],
    }


def _table(resolved: Resolved, run: Run) -> Table:
    """Predicted beside measured, means over replicas."""
    found, expected = measured(resolved, run.data), _predicted(resolved)
    lead = tuple(range(found["floor"].ndim - 1))
    means = {name: np.atleast_1d(value.mean(axis=lead)).tolist() for name, value in found.items()}
    rows = [
        (name, i, own, mean)
        for name, value in means.items()
        for i, (own, mean) in enumerate(zip(np.atleast_1d(expected[name]).tolist(), value, strict=True), start=1)
    ]
    return Table(("quantity", "direction", "predicted", "measured"), rows)


# ------------------------------------------------------------------ comparison and claim


def measurements(resolved: Resolved, flow: "xr.Dataset", *sgd: "xr.Dataset") -> "list[Measurement]":
    """The flow beside the prediction, and SGD at 2η, η and η/2, extrapolated to η = 0, beside the flow."""
    from validation.comparisons.step_limit import SECOND_ORDER, step_limit
    from validation.judge.claim import Measurement

    of_flow, of_sgd = measured(resolved, flow), [measured(resolved, one) for one in sgd]
    found = []
    for name, i, predicted, allowance, controls in _expected(resolved):
        exact, text = float(of_flow[name][i]), f"{name} {i + 1}" if name != "floor" else name
        found.append(
            Measurement(f"{text}, flow", predicted, exact, 0.0, allowance, controls, "theory", f"{name}{i}.flow")
        )
        if not of_sgd:
            continue
        limit = step_limit(*(one[name][:, i] for one in of_sgd))
        if limit is not None:
            judged = Measurement(
                f"{text}, SGD", exact, controls=controls, allowance_from=SECOND_ORDER, key=f"{name}{i}.sgd", **limit
            )
            found.append(judged)
    return found


def _expected(resolved: Resolved) -> list[tuple[str, int, float, float, dict[str, float]]]:
    """Quantity, direction from 0, prediction, allowance and rivals, of directions whose conditions hold.

    Emergence may be off by what finite size moves it by, as `validity` states, and by one record; a loss time is judged where
    no other student shares the direction's norm. What has not settled may be missing at the end.
    """
    weights, strength, norm, scale = resolved.teacher.a, resolved.problem.decay, resolved.norm, resolved.unit
    rest = {"without decay": weights, "r_* = a − κ": np.maximum(weights - strength, 0)}
    unclipped = np.where(resolved.prediction.learned, weights - strength / (2 * scale), 0)
    floors = rest | ({"no threshold": unclipped} if np.any(unclipped < 0) else {})
    unsettled = resolved.unsettled * (weights + resolved.initial.norm2.sum())
    found: list[tuple[str, int, float, float, dict[str, float]]] = []
    for i, own in enumerate(validity(resolved.prediction)):
        if not own.valid or not np.isfinite(resolved.loss_time[i]) or own.no_interval:
            continue
        time, lost = float(resolved.prediction.time_half[i]), float(resolved.prediction.time_loss[i])
        width = max(own.high - time, time - own.low) + resolved.time / SAVES
        slowed = -math.log1p(-strength * time) / strength if strength * time < 1 else math.inf
        told_apart = {"direction slowed": slowed} if slowed > time + 2 * width else {}
        found.append(("half_time", i, time, width, {"halved": time / 2} | told_apart))
        if resolved.problem.student_width == 1:
            found.append(("loss_time", i, float(resolved.loss_time[i]), width, {"without decay": lost}))
        rivals = {name: float(value[i]) for name, value in rest.items()}
        found.append(("norm", i, float(norm[i]), float(unsettled[i]), rivals))
    rivals = {name: resolved.floor(value) for name, value in floors.items()}
    return [*found, ("floor", 0, resolved.floor(norm), scale * float((weights - norm) @ unsettled), rivals)]


COLUMNS = ("quantity", "predicted", "measured_mean", "measured_stderr", "verdict")
FLOW, DOUBLE, SGD, HALF = "gradient flow", "SGD, twice the step size", "SGD", "SGD, half the step size"


def _case(resolved: Resolved) -> "Case":
    from validation import Case, Stage
    from validation.figures.common import mean_paths
    from validation.judge.claim import verdict_of

    def rows(found: Any) -> tuple[list[dict[str, Any]], list[str]]:
        from validation.comparisons.step_limit import TOO_FEW

        judged = measurements(resolved, *(found[name].data for name in (FLOW, DOUBLE, SGD, HALF)))
        return [
            dict(zip(COLUMNS, (x.quantity, x.predicted, x.estimate, x.stderr, verdict_of(x).verdict), strict=True))
            for x in judged
        ], [] if any(x.key.endswith(".sgd") for x in judged) else [TOO_FEW]

    def figures(found: Any) -> list[tuple[str, object]]:
        if HALF not in found:
            return []
        flow, time = found[FLOW].data, found[HALF].data.time.values
        rest = {"floor": np.full(time.size, resolved.floor(resolved.norm))}
        curves = {"gradient flow": np.interp(time, flow.time.values, flow.loss.values), **rest}
        return [
            (
                "Loss of SGD at η/2 and of the flow; it ends at the predicted floor.",
                mean_paths(time, found[HALF].data.loss.values, curves, {}, "loss"),
            )
        ]

    return Case(
        title=f"Weight decay {resolved.problem.decay:g}: prediction, gradient flow and SGD",
        unit="quantities",
        columns=COLUMNS,
        stages=(
            Stage(FLOW, lambda _, progress: _flow(resolved, progress)),
            Stage(DOUBLE, lambda _, progress: _sgd(resolved, progress, share=2.0), judged=False),
            Stage(SGD, lambda _, progress: _sgd(resolved, progress)),
            Stage(HALF, lambda _, progress: _sgd(resolved, progress, share=0.5)),
        ),
        judge=rows,
        known=lambda found: [],
        figures=figures,
        caption="The flow beside the prediction; SGD, extrapolated from η and η/2 to η = 0, beside the flow.",
    )


def run_claim(context: "Context") -> "Outcome":
    """Three directions, one too weak, from one start under SGD of this seed; and the flow of a student alone."""
    from validation import Outcome

    resolved = resolve(DecayProblem(seed=1))
    again = replace(resolved, problem=replace(resolved.problem, seed=context.seed_for("weight decay", "SGD")))
    runs = _flow(again), *(_sgd(again, share=share) for share in (2.0, 1.0, 0.5))
    alone = resolve(DecayProblem(seed=1, weights=(1.0,), student_width=1))
    found = measurements(again, *(run.data for run in runs))
    return Outcome([*found, *(replace(x, key=f"alone.{x.key}") for x in measurements(alone, _flow(alone).data))])


def __getattr__(name: str) -> Any:
    """``CLAIMS``, for `validation.validate`, made once they are asked for: importing `validation` takes seconds."""
    if name != "CLAIMS":
        raise AttributeError(name)
    from validation import Claim

    rivals = ("halved", "direction slowed by decay", "without decay", "r_* = a − κ", "no threshold")
    return [
        Claim(
            id="weight-decay",
            title="Weight decay thresholds the weights",
            statement="Weight decay leaves emergence times as they are, lowers fitted norms by κ/(2φ(1)), and fits no less.",
            latex=r"r_*=a-\kappa/(2\varphi(1)),\quad\mathcal L_\infty=\sum_p\tfrac12\varphi(1)(a_p-r_{*p})^2",
            source="derived; without decay arXiv:2504.19983",
            kind="asymptotic",
            regime="η → 0, light students, information exponent 3 or more",
            controls=rivals,
            runner=run_claim,
        )
    ]


_FLOW = frozenset(options(DecayProblem)) - {"step_size", "batch", "replicas"}
_SGD, _STATE = frozenset(options(DecayProblem)), ("overlap", "norm2", "loss")
MODEL = Model(
    name="weight-decay",
    help="the additive model under weight decay",
    problem=DecayProblem,
    resolve=resolve,
    simulations=(
        Simulation("flow", "gradient flow of all overlaps", _FLOW, _flow, _table, _STATE),
        Simulation("sgd", "SGD with decay, in coordinates", _SGD, _sgd, _table, (*_STATE, "diverged")),
    ),
    predict=Predictor(_document, _predicted, _FLOW, ("half_time", "loss_time", "norm", "floor")),
    compare=Comparer(_case, _SGD),
    derivations={"weight-decay": Derive(lambda activation: decayed_flow(activation).derivation, "h3")},
)
