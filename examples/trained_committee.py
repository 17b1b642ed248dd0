r"""A committee machine that trains its second layer, too: $f(x)=\sum_kb_k\sigma(\langle w_k,x\rangle)$, free rows.

The target is $\sum_pa_p\sigma(\langle e_p,x\rangle)$, $x\sim N(0,I_d)$, the loss ½E(f*−f)². One step on a fresh sample is
$w_k\leftarrow w_k-\eta\,b_k\delta\sigma'(z_k)x$, $b_k\leftarrow b_k-\rho\eta\,\delta\sigma(z_k)$ with δ = f − f*, both from
the old weights (arXiv:1906.08632). For η → 0 the order parameters $T_{kq}=\langle w_k,e_q\rangle$ and
$Q_{kj}=\langle w_k,w_j\rangle$ follow the first order of the committee with a fixed second layer (Saad and Solla 1995), and b
descends the loss in them,
$$\dot b_k=-\rho\,\partial_{b_k}\mathcal L=-\rho\sum_Aw_A\,I_2(k,A),\qquad w=(-a,b),$$
over the frame of teachers and students, $I_2=E\sigma\sigma$. It is differentiated here from the system's own loss.

Time unit: gradient-flow time t = η·steps. Valid for η·d ≪ 1, d ≥ P + m, and erf or polynomials of degree up to 6.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

import theory
from emergence.model import Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation
from emergence.options import Problem, option, options
from emergence.table import Table, render
from emergence.values import Expression, Number, Numbers, Whole
from theory.core.frame import A, B, N, eta, gram, w
from theory.core.hermite import z
from theory.core.indexed import Index, Sums, collect, differentiate, evaluate, k
from theory.steps.committee import Q, b, committee, reach

if TYPE_CHECKING:
    import xarray as xr

    from validation import Case, Context, Measurement, Outcome

rho = sp.Symbol("rho", positive=True)
#: Records of a run, and points per coordinate of the quadrature that checks the equations.
SAVES, NODES = 60, 48


@dataclass(frozen=True)
class CommitteeProblem(Problem):
    """A teacher, a student of random rows and equal second-layer weights, and two learning rates."""

    activation: str = option("erf", Expression(), "erf, or a polynomial of degree up to 6")
    weights: tuple[float, ...] = option((1.0, 0.6), Numbers(), "teacher weights a_p")
    second_rate: float = option(1.0, Number(zero=True), "learning rate rho of the second layer, over that of the first")
    second_start: float = option(0.3, Number(), "second-layer weights b_k at the start")
    init_scale: float = option(1.0, Number(), "norm of the rows at the start")
    student_width: int = option(3, Whole(), "student width m")
    dim: int = option(12, Whole(), "input dimension d, at least teacher width + student width")
    time: float = option(6.0, Number(), "gradient-flow time to run to")
    step_size: float = option(0.01, Number(), "SGD step size eta; a comparison runs eta and eta / 2")
    replicas: int = option(400, Whole(), "independent SGD runs")
    seed: int = option(0, Whole(0), "random seed")


# ------------------------------------------------------------------- the system, derived


def second_layer(system: theory.System) -> Sums:
    r"""$-\rho\,\partial_{b_k}\mathcal L$ of the system's loss: a student's place F in the frame has the weight $w_F=b_k$."""
    F = Index("F", N)
    slope = differentiate(system.observables["loss"], w[F])
    of_student = {gram[F, F]: Q[k, k], w[F]: b[k]}
    of_student |= {place: reach[k, other] for other in (A, B) for place in (gram[F, other], gram[other, F])}
    terms = Sums(replace(term, body=-rho * term.body.xreplace(of_student)) for term in slope)
    return collect(terms.renamed({B: A}))


@lru_cache(maxsize=8)
def trained_committee(activation: theory.Activation) -> theory.System:
    """Rows as with a fixed second layer, without the terms in η; the second layer down the loss."""
    fixed = committee(activation, "free")
    first = {name: Sums(term for term in sums if not term.body.has(eta)) for name, sums in fixed.drift.items()}
    drift = {**first, b[k]: second_layer(fixed)}
    steps = [
        theory.Step(
            f"Gradient flow of {name}",
            sp.Eq(sp.Symbol(rf"\dot {name}"), sums.as_sympy(), evaluate=False),
            partial(_gap, activation, name),
            1e-10,  # the quadrature's
        )
        for name, sums in drift.items()
    ]
    loss = fixed.observables["loss"].as_sympy()
    shown = sp.Eq(sp.Symbol(r"\mathcal{L}"), loss, evaluate=False)
    about = (*fixed.assumptions[:2], theory.Assumption("both layers trained, step size to 0"))
    return theory.System(
        name="trained-committee",
        activation=activation,
        drift=drift,
        observables=fixed.observables,
        parameters=("a", "rho"),
        derivation=theory.Derivation(
            "trained-committee",
            (theory.Step("Loss", shown, partial(_gap, activation, None), 1e-10), *steps),
            {str(step.equation.lhs): step.claim for step in steps},
            about,
            "arXiv:1906.08632; for fixed b Saad and Solla 1995, Phys. Rev. E 52, 4225",
        ),
        time_unit=fixed.time_unit,
        limit="step size to 0; exact in d",
    )


@lru_cache(maxsize=8)
def _explicit(activation: theory.Activation) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Order parameters of two explicit rows in R³ and one teacher; loss and rates by quadrature over x."""
    from scipy import special

    rows, second, weight, rate = np.array([[0.3, 0.5, 0.1], [-0.2, 0.2, 0.4]]), np.array([0.7, -0.4]), 0.8, 1.7
    point, mass = np.polynomial.hermite_e.hermegauss(NODES)
    x = np.stack(np.meshgrid(*[point] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.einsum("i,j,k->ijk", *[mass / mass.sum()] * 3).ravel()
    modules = [{"erf": special.erf}, "numpy"]
    sigma, slope = (sp.lambdify(z, y, modules) for y in (activation.function, sp.diff(activation.function, z)))
    delta = second @ sigma(rows @ x.T) - weight * sigma(x[:, 0])
    moved = -np.einsum("n,n,kn,ni->ki", mass, delta, second[:, None] * slope(rows @ x.T), x)
    known = np.eye(1, 3)
    T, Q_ = rows @ known.T, rows @ rows.T
    C = np.block([[np.eye(1), T.T], [T, Q_]])
    values = {"T": T, "Q": Q_, "C": C, "X": C[1:], "Z": C[:, :1], "b": second, "w": np.append(-weight, second)}
    rates = {
        "T": moved @ known.T,
        "Q": moved @ rows.T + rows @ moved.T,
        "b": -rate * sigma(rows @ x.T) @ (mass * delta),
    }
    return {**values, "rho": np.array(rate)}, {**rates, "": np.array(mass @ delta**2 / 2)}


def _gap(activation: theory.Activation, name: sp.Indexed | None, shown: sp.Expr) -> sp.Expr:
    """The shown rate (or the loss) at the explicit rows, against the quadrature."""
    values, rates = _explicit(activation)
    free, base = ((), "") if name is None else (tuple(name.indices), str(name.base))
    found = evaluate(Sums.read(shown), free, values, lambda *_: sp.nan)
    return max(abs(sp.N(x)) for x in np.ravel(found - rates[base]))


# --------------------------------------------------------------------------- the problem


@dataclass(frozen=True)
class Resolved:
    """A problem with its objects. `dataset` of a run: T, Q, b, loss."""

    problem: CommitteeProblem
    activation: theory.Activation
    teacher: theory.Teacher
    initial: theory.InitialState
    warnings: tuple[str, ...] = ()

    @property
    def start(self) -> dict[str, Any]:
        """T, Q, b as JAX arrays."""
        import jax.numpy as jnp

        from dynamics.steps.committee import order_parameters

        one = self.problem
        return {**order_parameters(self.initial), "b": jnp.full(one.student_width, one.second_start)}

    @cached_property
    def lowered(self) -> "Lowered":
        return Lowered(self.activation, self.teacher.a)

    def echo(self) -> dict[str, Any]:
        return asdict(self.problem)

    def headline(self) -> str:
        one = self.problem
        sizes = f"P = {self.teacher.width}, m = {one.student_width}, d = {one.dim}"
        return f"committee with a trained second layer, {one.activation}, {sizes}, rho = {one.second_rate:g}, seed {one.seed}"


def resolve(problem: CommitteeProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw the rows. Raises `InputError` for an activation without closed integrals."""
    from theory.steps.slope_integrals import slope_integrals

    activation = theory.Activation.parse(problem.activation)
    slope_integrals(activation)
    teacher = theory.Teacher.of(problem.weights, problem.dim, normalise=False)
    student = theory.Student(problem.student_width, problem.init_scale)
    return Resolved(problem, activation, teacher, theory.draw_initial_state(teacher, student, problem.seed))


class Lowered:
    """The system as JAX functions of y = {T, Q, b}."""

    def __init__(self, activation: theory.Activation, weights: np.ndarray) -> None:
        import jax.numpy as jnp

        from dynamics.steps.committee import LoweredCommittee

        whole = trained_committee(activation)
        rows = {name: sums for name, sums in whole.drift.items() if name.base != b}
        self._rows, self._a = LoweredCommittee(replace(whole, drift=rows)), jnp.asarray(weights)

    def loss(self, y: Mapping[str, Any]) -> Any:
        return self._rows.loss(y, {"a": self._a, "b": y["b"]})

    def drift(self, y: Mapping[str, Any], rate: Any) -> dict[str, Any]:
        """Rates of T, Q and b, the last by differentiating the loss."""
        import jax

        down = jax.grad(lambda second: self.loss({**y, "b": second}))(y["b"])
        return {**self._rows.drift(y, {"a": self._a, "b": y["b"]}), "b": -rate * down}

    @cached_property
    def integrated(self) -> Callable[..., tuple[dict[str, Any], Any]]:
        """(start, times, ρ) ↦ states and losses at the times, compiled once."""
        import diffrax as dfx
        import jax

        from dynamics.core.symmetric import GRAM

        drift = GRAM.packed(self.drift)
        term, control = dfx.ODETerm(lambda _, y, rate: drift(y, rate)), dfx.PIDController(rtol=1e-8, atol=1e-11)

        @jax.jit
        def path(start: Any, times: Any, rate: Any) -> Any:
            found = dfx.diffeqsolve(
                term, dfx.Tsit5(), times[0], times[-1], None, GRAM.pack(start), args=rate, stepsize_controller=control,
                saveat=dfx.SaveAt(ts=times), max_steps=100_000,
            )  # fmt: skip
            states = jax.vmap(GRAM.open)(found.ys)
            return states, jax.vmap(self.loss)(states)

        return path


# --------------------------------------------------------------------------- simulations


def _dataset(resolved: Resolved, y: Mapping[str, Any], loss: Any, time: np.ndarray, **attributes: Any) -> "xr.Dataset":
    import xarray as xr

    from dynamics.core.trajectory import time_axis, variable

    lead = ("replica", "time") if np.ndim(loss) == 2 else ("time",)
    rows, other = (*lead, "neuron"), resolved.teacher.width
    return xr.Dataset(
        {
            "T": variable((*rows, "direction"), y["T"], "inner product of row and teacher direction"),
            "Q": variable((*rows, "other"), y["Q"], "overlap of two rows"),
            "b": variable(rows, y["b"], "second-layer weight"),
            "loss": variable(lead, loss, "population loss ½E(f*−f)²"),
        },
        coords=time_axis(time) | {"direction": np.arange(1, other + 1)},
        attrs=attributes,
    )


def flow(resolved: Resolved, rate: float | None = None) -> "xr.Dataset":
    """The order parameters under gradient flow; `rate` in place of the problem's ρ (0: a fixed second layer)."""
    times = np.linspace(0, resolved.problem.time, SAVES + 1)
    second_rate = resolved.problem.second_rate if rate is None else rate
    path, loss = resolved.lowered.integrated(resolved.start, times, second_rate)
    return _dataset(resolved, path, loss, times, second_rate=second_rate)


def _flow(resolved: Resolved, *_: object) -> Run:
    return Run(flow(resolved))


@lru_cache(maxsize=8)
def _stepper(activation: theory.Activation) -> Callable[..., Any]:
    """Steps `first` to `last` of all replicas, rows (R, m, d) and second layers (R, m): plain SGD in coordinates."""
    import jax

    from dynamics.core.lowering import lower_scalar

    sigma, slope = lower_scalar(z, activation.function), lower_scalar(z, sp.diff(activation.function, z))

    def one(network: Any, key: Any, number: Any, rates: Any) -> Any:
        rows, second = network
        x = jax.random.normal(jax.random.fold_in(key, number), rows.shape[1:])
        field = rows @ x
        moved = -rates["eta"] * (second @ sigma(field) - rates["a"] @ sigma(x[: rates["a"].size]))
        return rows + moved * (second * slope(field))[:, None] * x, second + rates["rho"] * moved * sigma(field)

    everyone = jax.vmap(one, in_axes=(0, 0, None, None))

    @jax.jit
    def steps(networks: Any, keys: Any, first: Any, last: Any, rates: Any) -> Any:
        return jax.lax.fori_loop(first, last, lambda number, y: everyone(y, keys, number, rates), networks)

    return steps


def _sgd(resolved: Resolved, progress: Progress | None = None, _: object = None, share: float = 1.0) -> Run:
    """SGD with a `share` of the step size; its loss is the population's."""
    import jax
    import jax.numpy as jnp

    from dynamics.additive.ambient_flow import embed
    from dynamics.core.keys import replica_keys

    problem, step_size = resolved.problem, share * resolved.problem.step_size
    total = math.ceil(problem.time / step_size)
    marks = np.linspace(0, total, SAVES + 1).round().astype(int)
    rates = {"a": jnp.asarray(resolved.teacher.a), "eta": problem.time / total, "rho": problem.second_rate}
    keys = replica_keys(problem.seed, problem.replicas, "trained committee", total)
    rows = jnp.asarray(embed(resolved.initial, problem.dim))
    start = rows, resolved.start["b"]
    networks = [tuple(jnp.broadcast_to(x, (problem.replicas, *x.shape)) for x in start)]
    for place in range(SAVES):
        networks.append(_stepper(resolved.activation)(networks[-1], keys, marks[place], marks[place + 1], rates))
        if progress is not None:
            progress((place + 1) / SAVES, f"SGD, step size {step_size:g}")
    paths, second = (jnp.stack(x, axis=1) for x in zip(*networks, strict=True))
    y = {"T": paths[..., : resolved.teacher.width], "Q": jnp.einsum("...ki,...ji->...kj", paths, paths), "b": second}
    loss = np.asarray(jax.jit(jax.vmap(jax.vmap(resolved.lowered.loss)))(y))
    diverged = ~np.isfinite(loss).all(axis=1)
    return Run(_dataset(resolved, y, loss, rates["eta"] * marks, step_size=step_size), int(diverged.sum()))


def _table(_: Resolved, run: Run) -> Table:
    """Loss and second layer at a few times, means over replicas."""
    data = run.data.mean("replica") if "replica" in run.data.dims else run.data
    places = range(0, SAVES + 1, SAVES // 6)
    rows = [(float(data.time[i]), float(data.loss[i]), " ".join(f"{x:.3f}" for x in data.b.values[i])) for i in places]
    return Table(("time", "loss", "second layer"), rows)


# --------------------------------------------------------------------------- predictions


@dataclass(frozen=True)
class Early:
    """Of the start: loss, its rate, the part of the rate that the second layer has (∝ ρ), and the least loss of any b.

    With a fast second layer, ρ → ∞, the loss falls to the least at once, at rates ρ times the eigenvalues of $I_2$.
    """

    loss: float
    loss_rate: float
    second_layer_rate: float
    least_loss: float


def early(resolved: Resolved, rate: float | None = None) -> Early:
    """With `rate` in place of the problem's ρ."""
    import jax
    import jax.numpy as jnp

    y, lowered = resolved.start, resolved.lowered
    change = lowered.drift(y, resolved.problem.second_rate if rate is None else rate)
    own = {**jax.tree.map(jnp.zeros_like, change), "b": change["b"]}
    loss, whole = jax.jvp(lowered.loss, (y,), (change,))
    _, second = jax.jvp(lowered.loss, (y,), (own,))
    of_second = lambda x: lowered.loss({**y, "b": x})  # noqa: E731 - a quadratic
    nothing = jnp.zeros_like(y["b"])
    best = -jnp.linalg.solve(jax.hessian(of_second)(nothing), jax.grad(of_second)(nothing))
    return Early(float(loss), float(whole), float(second), float(of_second(best)))


def _predicted(resolved: Resolved) -> "xr.Dataset":
    import xarray as xr

    return xr.Dataset(asdict(early(resolved)))


def _document(resolved: Resolved) -> Document:
    found = asdict(early(resolved))
    text = render(("at the start", "predicted"), list(found.items()))
    return Document({"problem": resolved.echo(), "start": found}, f"{resolved.headline()}\n\n{text}")


# ------------------------------------------------------------------ comparison and claim

COLUMNS = ("quantity", "predicted", "measured_mean", "measured_stderr", "verdict")
FLOW, DOUBLE, SGD, HALF = "gradient flow", "SGD, twice the step size", "SGD", "SGD, half the step size"


def rivals(resolved: Resolved) -> dict[str, float]:
    """Wrong rates of the second layer."""
    rate = resolved.problem.second_rate
    return {"second layer fixed": 0.0, "ρ doubled": 2 * rate, "wrong sign of ḃ": -rate} if rate else {"ρ = 1": 1.0}


def measurements(resolved: Resolved, curve: "xr.Dataset", *sgd: "xr.Dataset") -> "list[Measurement]":
    """The flow's first fall of the loss beside the predicted rate; SGD at 2η, η and η/2, extrapolated, beside the flow."""
    from validation.comparisons.step_limit import SECOND_ORDER, step_limit
    from validation.judge.claim import Measurement

    wrong = rivals(resolved)
    paths = {name: flow(resolved, rate).loss.values for name, rate in wrong.items()}
    loss, step = curve.loss.values, float(curve.time[1])
    first = float(-3 * loss[0] + 4 * loss[1] - loss[2]) / (2 * step)
    third = abs(float(loss[3] - 3 * loss[2] + 3 * loss[1] - loss[0])) / step
    controls = {name: early(resolved, rate).loss_rate for name, rate in wrong.items()}
    text = "rate of the loss at the start, flow"
    why = "third order of the difference quotient"
    found = [Measurement(text, early(resolved).loss_rate, first, 0.0, third, controls, why, "start")]
    limit = step_limit(*(one.loss.values[:, -1] for one in sgd))
    if limit is None:
        return found
    controls = {name: float(path[-1]) for name, path in paths.items()}
    text = f"loss at time {float(curve.time[-1]):g}, SGD"
    end = Measurement(text, float(loss[-1]), controls=controls, allowance_from=SECOND_ORDER, key="end", **limit)
    return [*found, end]


def _case(resolved: Resolved) -> "Case":
    from validation import Case, Stage
    from validation.figures.common import mean_paths
    from validation.judge.claim import verdict_of

    def judge(found: Any) -> tuple[list[dict[str, Any]], list[str]]:
        from validation.comparisons.step_limit import TOO_FEW

        judged = measurements(resolved, *(found[name].data for name in (FLOW, DOUBLE, SGD, HALF)))
        values = [(x.quantity, x.predicted, x.estimate, x.stderr, verdict_of(x).verdict) for x in judged]
        missing = [] if len(judged) == 2 else [TOO_FEW]
        return [dict(zip(COLUMNS, row, strict=True)) for row in values], missing

    def figures(found: Any) -> list[tuple[str, object]]:
        if HALF not in found:
            return []
        paths = {name: flow(resolved, rate).loss.values for name, rate in rivals(resolved).items()}
        data, exact = found[HALF].data, {"gradient flow": found[FLOW].data.loss.values}
        figure = mean_paths(data.time.values, data.loss.values, exact, paths, "loss")
        return [("Loss of SGD at η/2, of the flow, and of flows with wrong second layers.", figure)]

    return Case(
        title="A committee with a trained second layer: gradient flow and SGD",
        unit="quantities",
        columns=COLUMNS,
        stages=(
            Stage(FLOW, lambda *_: _flow(resolved)),
            Stage(DOUBLE, lambda _, progress: _sgd(resolved, progress, share=2.0), judged=False),
            Stage(SGD, lambda _, progress: _sgd(resolved, progress)),
            Stage(HALF, lambda _, progress: _sgd(resolved, progress, share=0.5)),
        ),
        judge=judge,
        known=lambda found: [],
        figures=figures,
        caption="The flow beside the predicted rate; SGD, extrapolated from η and η/2 to η = 0, beside the flow.",
    )


def run_claim(context: "Context") -> "Outcome":
    """The default problem from one start, inputs of this seed."""
    from validation import Outcome

    resolved = resolve(CommitteeProblem())
    resolved = replace(resolved, problem=replace(resolved.problem, seed=context.seed_for("trained committee", "SGD")))
    runs = (_sgd(resolved, share=share).data for share in (2.0, 1.0, 0.5))
    return Outcome(measurements(resolved, flow(resolved), *runs))


def __getattr__(name: str) -> Any:
    """``CLAIMS``, for `validation.validate`, made once they are asked for: importing `validation` takes seconds."""
    if name != "CLAIMS":
        raise AttributeError(name)
    from validation import Claim

    return [
        Claim(
            id="trained-committee",
            title="A committee that trains its second layer",
            statement="As η → 0 SGD on both layers follows the order parameters and a second layer that descends the loss.",
            latex=r"\dot b_k=-\rho\,\partial_{b_k}\mathcal L",
            source="arXiv:1906.08632; for fixed b Saad and Solla 1995, Phys. Rev. E 52, 4225",
            kind="asymptotic",
            regime="η·d → 0",
            controls=("second layer fixed", "ρ doubled", "wrong sign of ḃ"),
            runner=run_claim,
        )
    ]


_ALL = frozenset(options(CommitteeProblem))
_FLOW = _ALL - {"step_size", "replicas"}
_STATE = ("T", "Q", "b", "loss")
MODEL = Model(
    name="trained-committee",
    help="a committee machine that trains its second layer",
    problem=CommitteeProblem,
    resolve=resolve,
    simulations=(
        Simulation("flow", "gradient flow of the order parameters", _FLOW, _flow, _table, _STATE),
        Simulation("sgd", "SGD on both layers, in coordinates", _ALL, _sgd, _table, _STATE),
    ),
    predict=Predictor(_document, _predicted, _FLOW - {"time"}, tuple(Early.__annotations__)),
    compare=Comparer(_case, _ALL),
    derivations={
        "trained-committee": Derive(lambda activation: trained_committee(activation).derivation, "erf", kernel=False)
    },
)
