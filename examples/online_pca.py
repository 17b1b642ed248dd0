r"""Online PCA: one row that learns the strong direction of its inputs by Oja's rule, with no labels at all.

$x\sim N(0,I_d+\lambda vv^\top)$, $|v|=|w|=1$; one step on a fresh sample is $w\leftarrow(w+\eta hx)/|w+\eta hx|$ with
$h=\langle w,x\rangle$ (Oja 1982). For η → 0 the overlap $u=\langle w,v\rangle$ obeys $\dot u=\lambda u(1-u^2)$, so that
$u^2=\tfrac12$ at $T=\frac1{2\lambda}\ln\frac{1-u_0^2}{u_0^2}$: a plateau of length ln d from a random start. Time unit:
t = η·steps.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from emergence.model import Comparer, Derive, Document, Model, Predictor, Progress, Run, Simulation, Symbol
from emergence.options import Problem, option, options
from emergence.table import Table
from emergence.values import Number, Whole
from theory import Assumption, Derivation, Step
from theory.core.derivation import equation
from theory.core.streams import stream

if TYPE_CHECKING:
    import xarray as xr

    from validation import Case, Measurement

u, u_0, lam = sp.symbols("u u_0 lambda", positive=True)
SAVES = 60


@dataclass(frozen=True)
class PcaProblem(Problem):
    """A spike in white inputs, a random unit row, and a step size."""

    spike: float = option(2.0, Number(), "variance lambda that the strong direction has beyond the others")
    dim: int = option(100, Whole(2), "input dimension d")
    time: float = option(4.0, Number(), "gradient-flow time to run to")
    step_size: float = option(2e-3, Number(), "step size eta; a comparison runs eta and eta / 2")
    replicas: int = option(200, Whole(), "independent runs")
    seed: int = option(0, Whole(0), "random seed")


# ------------------------------------------------------------------- derived, each step checked on a road of its own


def drift() -> sp.Expr:
    """Mean first-order change of u over η: ⟨Σw, v⟩ − u⟨w, Σw⟩ with Σ = I + λvvᵀ, from w = u v + √(1−u²) m."""
    moved = u + lam * u  # ⟨Σw, v⟩
    return sp.factor(moved - u * (1 + lam * u**2))


def half_time() -> sp.Expr:
    """When u² = ½, from u_0."""
    primitive = sp.log(u) - sp.log(1 - u**2) / 2
    assert sp.simplify(sp.diff(primitive, u) * drift() - lam) == 0  # du/dt = drift
    return sp.simplify((primitive.subs(u, 1 / sp.sqrt(2)) - primitive.subs(u, u_0)) / lam)


def explicit(shown: sp.Expr) -> sp.Expr:
    """The shown drift at rows of R³ with rational entries, against one step on the inputs' whole covariance."""
    gaps = []
    for row, spike in ((sp.Matrix([2, 3, 6]) / 7, sp.Rational(5, 2)), (sp.Matrix([1, 4, 8]) / 9, sp.Rational(1, 3))):
        strong = sp.Matrix([1, 0, 0])
        gained = (sp.eye(3) + spike * strong * strong.T) * row
        tangent = gained - row * (row.T * gained)[0]
        gaps.append(abs((strong.T * tangent)[0] - shown.subs({u: row[0], lam: spike})))
    return max(gaps)


def integrated(shown: sp.Expr) -> sp.Expr:
    """The shown time against a numerical integral of du over the drift."""
    at = {u_0: sp.Rational(1, 10), lam: 2}
    return sp.Integral(1 / drift().subs(at), (u, at[u_0], 1 / sp.sqrt(2))).evalf(40) - shown.subs(at)


def derivation() -> Derivation:
    """Flow of the overlap, and the time to squared overlap ½."""
    steps = (
        Step("Flow of the overlap", equation(r"\dot u", drift()), explicit),
        Step("Time to squared overlap ½", equation("T", half_time()), integrated),
    )
    about = (Assumption("x ~ N(0, I + λvvᵀ), fresh samples"), Assumption("step size → 0"))
    return Derivation("online-pca", steps, {str(x.equation.lhs): x.claim for x in steps}, about, "Oja 1982")


# ------------------------------------------------------------------------------------ the problem and its objects


@dataclass(frozen=True)
class Resolved:
    """A problem with its start, a random unit row."""

    problem: PcaProblem
    start: np.ndarray
    warnings: tuple[str, ...] = ()

    @property
    def half_time(self) -> float:
        """0 if the row begins at squared overlap ½ or beyond."""
        return max(0.0, float(half_time().subs({u_0: abs(self.start[0]), lam: self.problem.spike})))

    def echo(self) -> dict[str, Any]:
        return asdict(self.problem)

    def headline(self) -> str:
        one = self.problem
        return (
            f"online PCA, spike {one.spike:g}, d = {one.dim}, overlap {self.start[0]:.3g} at the start, seed {one.seed}"
        )


def resolve(problem: PcaProblem, simulation: Simulation | None = None) -> Resolved:
    """Draw the row."""
    row = stream(problem.seed, "online PCA", "start").standard_normal(problem.dim)
    return Resolved(problem, row / np.linalg.norm(row))


def _dataset(resolved: Resolved, time: np.ndarray, overlap: np.ndarray, dims: tuple[str, ...]) -> "xr.Dataset":
    import xarray as xr

    about = {"long_name": "overlap with the strong direction", "units": "1"}
    excess = resolved.problem.spike / 2 * (1 - overlap**2)
    of_loss = {"long_name": "half of the variance not explained, beyond the least", "units": "1"}
    found = {"overlap": (dims, overlap, about), "loss": (dims, excess, of_loss)}
    return xr.Dataset(found, coords={"time": ("time", time, {"units": "gradient-flow time"})})


def path(resolved: Resolved, time: np.ndarray) -> np.ndarray:
    """The derived drift, integrated: overlaps at times that increase from 0."""
    from scipy.integrate import solve_ivp

    rate = sp.lambdify(u, drift().subs(lam, resolved.problem.spike))
    found = solve_ivp(lambda _, y: rate(y), time[[0, -1]], resolved.start[:1], t_eval=time, rtol=1e-9, atol=1e-12)
    return found.y[0]


def flow(resolved: Resolved, *_: object) -> Run:
    """The path at equidistant times."""
    time = np.linspace(0, resolved.problem.time, SAVES + 1)
    return Run(_dataset(resolved, time, path(resolved, time), ("time",)))


def sgd(resolved: Resolved, progress: Progress | None = None, _: object = None, finer: float = 1) -> Run:
    """Oja's rule in coordinates, all replicas at once: it knows nothing of the flow.

    With `finer` times as many steps (½, 1, 2, …), that much smaller, the records are at the same times.
    """
    problem = resolved.problem
    pairs = math.ceil(problem.time / problem.step_size / 2)
    size = problem.time / pairs / 2 / finer
    marks = int(2 * finer) * np.unique(np.linspace(0, pairs, SAVES + 1).round().astype(int))
    random = stream(problem.seed, "online PCA", "samples", int(marks[-1]))
    scale = np.ones(problem.dim)
    scale[0] = math.sqrt(1 + problem.spike)
    rows = np.tile(resolved.start, (problem.replicas, 1))
    overlap = [rows[:, 0]]
    for before, after in pairwise(marks):
        for _step in range(before, after):
            x = random.standard_normal(rows.shape) * scale
            rows = rows + size * np.sum(rows * x, axis=1, keepdims=True) * x
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        overlap.append(rows[:, 0])
        if progress is not None:
            progress(after / marks[-1], f"Oja's rule, step size {size:g}")
    return Run(_dataset(resolved, size * marks, np.stack(overlap, axis=1), ("replica", "time")))


def _table(resolved: Resolved, run: Run) -> Table:
    mean = (run.data.overlap**2).mean([dim for dim in run.data.overlap.dims if dim != "time"])
    rows = [(float(mean.time[i]), float(mean[i])) for i in np.linspace(0, mean.size - 1, 7).round().astype(int)]
    return Table(("time", "squared overlap"), rows)


def _predicted(resolved: Resolved) -> "xr.Dataset":
    import xarray as xr

    return xr.Dataset({"half_time": resolved.half_time})


def _document(resolved: Resolved) -> Document:
    found = {"problem": resolved.echo(), "half_time": resolved.half_time}
    return Document(found, f"{resolved.headline()}\n\nsquared overlap ½ at time {resolved.half_time:.4g}")


# --------------------------------------------------------------------------------------------------- compared

COLUMNS = ("quantity", "predicted", "measured_mean", "measured_stderr", "verdict")
FLOW, DOUBLE, SGD, HALF = "gradient flow", "SGD, twice the step size", "SGD", "SGD, half the step size"


def measurements(resolved: Resolved, found: Any) -> "list[Measurement]":
    """The flow's half time, if it has one, beside the formula; SGD at 2η, η and η/2, extrapolated to 0, beside the flow at
    the same time; each with a rival."""
    from theory.core.curves import first_crossing
    from validation import Measurement
    from validation.comparisons.step_limit import SECOND_ORDER, step_limit

    time, curve = found[FLOW].data.time.values, found[FLOW].data.overlap.values ** 2
    judged = []
    if 0 < resolved.half_time < time[-1]:
        # A line between two records errs by gap²/8 times the bend of u², at most 2λ²/27^½; its slope at the crossing is λ/2.
        bend = resolved.problem.spike * float(time[1]) ** 2 / (2 * math.sqrt(27))
        rivals = {"rate not doubled for the square": 2 * resolved.half_time}
        crossing, text = float(first_crossing(time, curve, 0.5)), "half time, flow"
        judged = [Measurement(text, resolved.half_time, crossing, 0.0, bend, rivals, "linear between records", "T")]
    marks = found[SGD].data.time.values
    place = int(np.searchsorted(marks, resolved.half_time).clip(1, marks.size - 1))
    limit = step_limit(*(found[name].data.overlap.values[:, place] ** 2 for name in (DOUBLE, SGD, HALF)))
    if limit is None:
        return judged
    _, slow, exact = path(resolved, marks[place] * np.array([0.0, 0.5, 1.0])) ** 2
    text, rivals = f"squared overlap at time {marks[place]:.3g}, SGD", {"half the rate": float(slow)}
    return [*judged, Measurement(text, float(exact), controls=rivals, allowance_from=SECOND_ORDER, key="SGD", **limit)]


def _case(resolved: Resolved) -> "Case":
    from validation import Case, Stage
    from validation.figures.common import mean_paths
    from validation.judge.claim import verdict_of

    def judge(found: Any) -> tuple[list[dict[str, Any]], list[str]]:
        from validation.comparisons.step_limit import TOO_FEW

        judged = measurements(resolved, found)
        values = [(x.quantity, x.predicted, x.estimate, x.stderr, verdict_of(x).verdict) for x in judged]
        keys = {one.key for one in judged}
        missing = [] if "T" in keys else [f"half time {resolved.half_time:.3g} is not within the run: not judged"]
        missing += [] if "SGD" in keys else [TOO_FEW]
        return [dict(zip(COLUMNS, row, strict=True)) for row in values], missing

    def figures(found: Any) -> list[tuple[str, object]]:
        if HALF not in found:
            return []
        data = found[HALF].data
        exact = {"gradient flow": path(resolved, data.time.values) ** 2}
        figure = mean_paths(data.time.values, data.overlap.values**2, exact, {}, "squared overlap")
        return [("Squared overlap under Oja's rule at η/2, and under the flow.", figure)]

    return Case(
        title="Online PCA: prediction, gradient flow and Oja's rule",
        unit="quantities",
        columns=COLUMNS,
        stages=(
            Stage(FLOW, lambda *_: flow(resolved)),
            Stage(DOUBLE, lambda _, progress: sgd(resolved, progress, finer=0.5), judged=False),
            Stage(SGD, lambda _, progress: sgd(resolved, progress)),
            Stage(HALF, lambda _, progress: sgd(resolved, progress, finer=2)),
        ),
        judge=judge,
        known=lambda found: [],
        figures=figures,
        caption="The flow beside the formula; Oja's rule, extrapolated from η and η/2 to η = 0, beside the flow.",
    )


_ALL = frozenset(options(PcaProblem))
_FLOW = _ALL - {"step_size", "replicas"}
MODEL = Model(
    name="online-pca",
    help="one row that learns the strong direction of its inputs",
    problem=PcaProblem,
    resolve=resolve,
    simulations=(
        Simulation("flow", "gradient flow of the overlap", _FLOW, flow, _table, ("overlap", "loss")),
        Simulation("sgd", "Oja's rule, in coordinates", _ALL, sgd, _table, ("overlap", "loss")),
    ),
    predict=Predictor(_document, _predicted, _FLOW - {"time"}, ("half_time",)),
    compare=Comparer(_case, _ALL),
    derivations={"online-pca": Derive(derivation, "h1", fixed=True)},
    symbols={"u0": Symbol("overlap at the start", lambda resolved: abs(resolved.start[0]))},
)
