r"""Q12–Q15, Q18, Q20: Stiefel SGD of quadratic networks against the Riccati flow, its sample complexity, the radial phase.

Step sizes are quoted as the paper does, for the loss ⅛(f*−f)²: $\eta d$ below is 4 times the toolkit's step size times d.
Theory is the mean drift of a step to second order (`theory.quadratic.stiefel.step_drift`), exact in d; its first order is the
Riccati flow. Late, where G is stationary, whole steps and the fluctuations of G are in the prediction too
(`theory.quadratic.stationary`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy.optimize import brentq

from dynamics.quadratic.radial_phase import radial_phase
from dynamics.quadratic.riccati import RiccatiFlow, riccati_flow
from dynamics.quadratic.stiefel_sgd import StiefelResult, stiefel_sgd
from theory import QuadraticModel, Subspace, Teacher, draw_subspace
from theory.core.curves import first_crossing, linear_weights, log_slope
from theory.core.streams import Word
from theory.quadratic.model import half_times
from theory.quadratic.passage import passages
from theory.quadratic.stationary import Stationary, stationary
from theory.quadratic.stiefel import PAPER_STEP, mean_flow, projected_risk, radial_excess, single_passage
from validation.figures.stiefel import Curve, measured_and_theory
from validation.judge.claim import Control, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.exponents import slope_weights
from validation.statistics.readings import Reading, carried_slope, read_mean
from validation.statistics.standard_errors import bootstrap_error, mean_and_error

COST = 34

_SOURCE = "arXiv:2508.03688"


#: Steps are a multiple of a block, so that one compilation serves all runs of a shape.
_BLOCK = 32


def _model(count: int, width: int, dim: int, decay: float = 1.0) -> QuadraticModel:
    """γ = N^{-1/2}, the paper's normalisation."""
    return QuadraticModel(Teacher.power_law(count, decay, dim), width, width**-0.5)


def _starts(context: Context, model: QuadraticModel, replicas: int, *name: Word) -> list[Subspace]:
    """Independent uniform subspaces."""
    rng = context.rng(*name, "starts", model.teacher.dim, model.teacher.width, model.width)
    return [draw_subspace(model.teacher.width, model.width, model.teacher.dim, rng) for _ in range(replicas)]


def _stacked(starts: list[Subspace]) -> np.ndarray:
    return np.stack([start.on_teachers for start in starts])


def _steps(model: QuadraticModel, riccati_time: float, step_size: float) -> int:
    return max(1, round(riccati_time / (model.riccati_rate * step_size) / _BLOCK)) * _BLOCK


# --------------------------------------------------------------------- Q12: tracking

COUNT, DIM, LATE = 3, 128, 36.0
MIDDLE = 4.0
#: Relaxation times after which nothing is left of the start, and the share of a run that is averaged over from then on.
_RELAXED, _AVERAGED = 15, 0.25
_SAVES = 48


@dataclass(frozen=True)
class Tracked:
    """Runs at one step size beside theory; times in Riccati time, risks averaged over starts or (replica, time).

    excess: (replica, time) risk less that of the Riccati flow from the same start.
    late: where risks are stationary. state: what is predicted there.
    """

    load: float
    state: Stationary
    times: np.ndarray
    risk: np.ndarray
    mean_drift: np.ndarray
    riccati: np.ndarray
    excess: np.ndarray

    @property
    def late(self) -> np.ndarray:
        return self.times >= (1 - _AVERAGED) * self.times[-1]

    @property
    def late_excess(self) -> np.ndarray:
        """(replica,)."""
        return self.excess[:, self.late].mean(axis=1)

    @property
    def late_riccati(self) -> float:
        return float(self.riccati[self.late].mean())

    @property
    def late_gap(self) -> float:
        """Predicted."""
        return self.state.risk - self.late_riccati


_NEXT_ORDER = computed_by(
    Stationary.next_order, "square of what fluctuations and whole angles do, the next order in 1/d"
)


@lru_cache(maxsize=2)
def _common(context: Context) -> tuple[list[Subspace], int]:
    """Starts and samples of the runs at all step sizes, whose gaps then differ by the step size alone."""
    return _starts(context, _model(COUNT, COUNT, DIM), 64, "Q12"), context.seed_for("Q12", "SGD")


@lru_cache(maxsize=8)
def _tracked(context: Context, load: float, batch: int = 1) -> Tracked:
    """Stiefel SGD at ηd/b = `load`, one uniform start a replica: the batch divides the second order, up to 1/d."""
    model = _model(COUNT, COUNT, DIM)
    starts, seed = _common(context)
    step_size = load / DIM / PAPER_STEP
    state = stationary(model, batch * step_size, batch)
    end = max(LATE, _RELAXED / state.rate) / (1 - _AVERAGED)
    progress = context.within(f"ηd/b = {load:g}, b = {batch}")
    run = stiefel_sgd(
        model,
        starts,
        step_size=batch * step_size,
        batch=batch,
        steps=_steps(model, end, batch * step_size),
        saves=round(_SAVES * end * (1 - _AVERAGED) / LATE),
        seed=seed,
        progress=progress,
    )
    times = run.dataset.riccati_time.values
    drift = projected_risk(model.spectrum, mean_flow(model, _stacked(starts), times, step_size=step_size))
    riccati = np.array([riccati_flow(model.spectrum, start).risk(times) for start in starts])
    return Tracked(load, state, times, run.risk, drift.mean(axis=1), riccati.mean(axis=0), run.risk - riccati)


@claim(
    id="Q12",
    title="Stiefel SGD tracks the Riccati flow",
    statement="As ηd → 0 the risk of online Stiefel SGD is that of the Riccati flow; the gap is the second-order "
    "drift's, ∝ ηd.",
    latex=r"\dot G=\tilde AG+G\tilde A-2G\tilde AG+\tfrac\epsilon4K(G),\qquad\epsilon=\gamma\eta",
    source=f"{_SOURCE}, sample complexity theorem; second-order drift derived",
    kind="asymptotic",
    regime="ηd small, d ≫ M* + N",
    controls=(
        "no second-order drift (Riccati risk)",
        "shrinkage of the projector twice as strong",
        "shrinkage half as strong",
        "gap ∝ √(ηd): fluctuations alone",
        "gap ∝ (ηd)²",
        "γ forgotten (time √N times faster)",
        "loss without its factor ¼ (time twice as fast)",
        "time half as fast",
        "not extrapolated: the risk at one step size",
    ),
)
def run_tracking(context: Context) -> Iterator[Part]:
    """Risk of Stiefel SGD early and late, and how the late gap to the Riccati flow shrinks with ηd."""
    loads = (0.8, 0.4, 0.2, 0.1, 0.05) if context.full else (0.8, 0.4, 0.2)
    runs = [_tracked(context, load) for load in loads]
    model = _model(COUNT, COUNT, DIM)
    for run in runs:
        gap, stderr = mean_and_error(run.late_excess)
        controls = {
            "no second-order drift (Riccati risk)": 0.0,
            "shrinkage of the projector twice as strong": _late_gap(model, context, run, 2.0),
            "shrinkage half as strong": _late_gap(model, context, run, 0.5),
        }
        allowed = run.state.next_order(run.late_gap)
        text = f"late risk above the Riccati risk, ηd = {run.load:g}"
        details = {
            "SGD risk": float(run.risk[:, run.late].mean()),
            "Riccati risk": run.late_riccati,
            "mean drift alone": float(run.mean_drift[-1]),
            "from Riccati time": float(run.times[run.late][0]),
        }
        yield Measurement(text, run.late_gap, gap, stderr, allowed, controls, _NEXT_ORDER, f"late{run.load:g}", details)
    yield _trend(context, runs)
    yield _tracking_in_time(model, context, *runs[-2:])
    figure = measured_and_theory(
        [_curve(run) for run in runs],
        "Riccati time",
        "risk with the best radial part",
        limit=("Riccati flow (ηd → 0)", runs[-1].times, runs[-1].riccati),
        theory_name="drift to second order",
    )
    yield f"Stiefel SGD, d = {DIM}, M* = N = {COUNT}, decay 1, 64 starts.", figure


def _curve(run: Tracked) -> Curve:
    shown = run.times <= LATE / (1 - _AVERAGED)
    risk = run.risk[:, shown]
    error = risk.std(axis=0, ddof=1) / np.sqrt(len(risk))
    return Curve(f"SGD, ηd = {run.load:g}", run.times[shown], risk.mean(axis=0), error, run.mean_drift[shown])


def _late_gap(model: QuadraticModel, context: Context, run: Tracked, factor: float) -> float:
    """The predicted late gap if the second-order term were `factor` times itself."""
    starts = _common(context)[0][:4]  # at late times all starts agree
    flow = mean_flow(model, _stacked(starts), run.times, step_size=factor * run.load / DIM / PAPER_STEP)
    return float(projected_risk(model.spectrum, flow[-1]).mean() - run.late_riccati)


def _trend(context: Context, runs: list[Tracked]) -> Measurement:
    """Exponent of the late gap in ηd over the step sizes."""
    loads = [run.load for run in runs]
    gaps = np.stack([run.late_excess for run in runs], axis=1)

    slope = partial(log_slope, loads)
    expected = slope(np.array([run.late_gap for run in runs]))
    slack = np.array([run.state.next_order(run.late_gap) / run.late_gap for run in runs[::-1]])
    allowance = float(np.abs(slope_weights(loads[::-1])) @ slack)
    controls = {"gap ∝ √(ηd): fluctuations alone": 0.5 * expected, "gap ∝ (ηd)²": 2 * expected}
    estimate, stderr = read_mean(gaps, slope, context.rng("Q12", "error"))
    text = "exponent of the late gap in ηd"
    details = {"limit ηd → 0": 1.0}
    return Measurement(text, expected, estimate, stderr, allowance, controls, _NEXT_ORDER, "exponent", details)


def _tracking_in_time(model: QuadraticModel, context: Context, coarse: Tracked, run: Tracked) -> Measurement:
    """The risk in the middle of learning, extrapolated from the two smallest step sizes, against the Riccati flow itself.

    There the fluctuations of G, which the mean drift leaves out, move the risk as much as that drift does, to first order in
    ηd: twice the excess at half the step size less that at the whole one is free of both.
    """
    places = [int(np.argmin(np.abs(one.times - MIDDLE))) for one in (coarse, run)]
    at, riccati = places[1], float(run.riccati[places[1]])
    pairs = list(zip((coarse, run), places, strict=True))
    excess_whole, excess_fine = (one.excess[:, place] for one, place in pairs)
    drift_whole, drift_fine = (float(one.mean_drift[place] - one.riccati[place]) for one, place in pairs)
    drift = 2 * drift_fine - drift_whole
    gap, stderr = mean_and_error(2 * excess_fine - excess_whole)
    single, single_error = mean_and_error(run.excess[:, at])
    starts, _ = _common(context)

    def wrong(factor: float) -> float:
        time = factor * run.times[at : at + 1]
        return float(np.mean([riccati_flow(model.spectrum, start).risk(time)[0] for start in starts]))

    controls: dict[str, Control | float] = {
        "γ forgotten (time √N times faster)": wrong(model.width**0.5),
        "loss without its factor ¼ (time twice as fast)": wrong(2.0),
        "time half as fast": wrong(0.5),
        "not extrapolated": Control(riccati, riccati + single, single_error),
    }
    text = f"risk at Riccati time {run.times[at]:.3g}, ηd = {coarse.load:g} and {run.load:g} extrapolated to 0"
    source = computed_by(mean_flow, "second order in ηd: what the same extrapolation leaves of the mean drift's shift")
    details = {f"risk at ηd = {run.load:g}": riccati + single}
    return Measurement(text, riccati, riccati + gap, stderr, abs(drift), controls, source, "middle", details)


@claim(
    id="Q20",
    title="Stiefel SGD with a batch of d samples",
    statement="A batch of b samples at b times the step size tracks the Riccati flow as one sample does: samples count.",
    latex=r"\dot G=\tilde AG+G\tilde A-2G\tilde AG+\tfrac{\epsilon}{4b}K(G),\qquad\epsilon=\gamma\eta",
    source="talk on arXiv:2508.03688 (simulations with a batch of d samples); law derived",
    kind="asymptotic",
    regime="ηd/b small; d ≫ M* + N",
    controls=(
        "no second-order drift (Riccati risk)",
        "a batch averages amplitudes: √b times the gap's drift",
        "second-order drift of twice the size",
        "second-order drift of half the size",
        "steps of a batch as small as one sample's",
    ),
)
def run_batches(context: Context) -> Iterator[Part]:
    """Late gap to the Riccati flow at one ηd/b, for batches of 16 samples and of d."""
    model, load = _model(COUNT, COUNT, DIM), 0.2
    for batch in (16, DIM):
        run = _tracked(context, load, batch)
        gap, stderr = mean_and_error(run.late_excess)
        controls = {
            "no second-order drift": 0.0,
            "a batch averages amplitudes": _late_gap(model, context, run, batch**0.5),
            "second-order drift of twice": _late_gap(model, context, run, 2.0),
            "second-order drift of half": _late_gap(model, context, run, 0.5),
        }
        if batch == DIM:
            controls["steps of a batch as small"] = stationary(model, load / DIM / PAPER_STEP).risk - run.late_riccati
        text = f"late risk above the Riccati risk, batch {batch}, ηd/b = {load:g}, d = {DIM}"
        step = float(model.riccati_rate * batch * load / DIM / PAPER_STEP)
        allowed = run.state.next_order(run.late_gap) + batch / DIM * abs(run.state.kicks)
        source = f"{_NEXT_ORDER}; pairs of samples, relative b/d of what whole angles do"
        details = {"step in Riccati time": step, "mean drift alone": float(run.mean_drift[-1])}
        yield Measurement(text, run.late_gap, gap, stderr, allowed, controls, source, f"b{batch}", details)


# ------------------------------------------------------- Q13, Q18: samples against dimension

LOAD = 0.2
#: Limit of a run, in half-times of the last direction, and looks in each. A run ends once all replicas are there; the
#: slowest of some hundreds, whose only overlap starts near 0, takes nine or so.
_LIMIT, _LOOKS = 32, 40


@dataclass(frozen=True)
class Samples:
    """Samples to a fixed risk over dimensions, (replica, size), of the same starts.

    Attributes:
        measured: by SGD. riccati: by the Riccati flow. drift: by the mean drift. theory: by the drift and its noise.
    """

    dims: np.ndarray
    measured: np.ndarray
    theory: np.ndarray
    drift: np.ndarray
    riccati: np.ndarray

    def read(self, reading: Reading, rng: np.random.Generator) -> tuple[float, float]:
        """A reading of the mean samples, and the error of measured less predicted: what starts differ by is in both."""
        both = np.stack([self.measured, self.theory], axis=1)
        gap = partial(_gap_of, reading)
        return reading(self.measured.mean(axis=0)), bootstrap_error(both, lambda x: gap(x.mean(axis=0)), rng)


def _gap_of(reading: Reading, both: np.ndarray) -> float:
    return reading(both[0]) - reading(both[1])


@lru_cache(maxsize=8)
def _samples(context: Context, count: int, width: int, target: float, dims: tuple[int, ...]) -> Samples:
    measured, theory, drift, riccati = [], [], [], []
    for dim in dims:
        model = _model(count, width, dim)
        # A single direction starts from one overlap, whose spread is wider.
        starts = _starts(context, model, 480 if width == 1 else 64, "Q13-Q18")
        step_size = LOAD / dim / PAPER_STEP
        per_step = model.riccati_rate * step_size
        horizon = _LIMIT * float(np.max(half_times(model.spectrum, dim, width)[:width]))
        times = np.linspace(0.0, horizon, 2 * _LIMIT * _LOOKS)
        hits = [_hitting_time(riccati_flow(model.spectrum, start), target, horizon) for start in starts]
        means = projected_risk(model.spectrum, mean_flow(model, _stacked(starts), times, step_size=step_size)).T
        riccati.append(np.array(hits) / per_step)
        drift.append(first_crossing(times, means, target, falling=True) / per_step)
        if count == width == 1:  # risk 2(1 − m⁴)
            overlaps = _stacked(starts)[:, 0, 0]
            level = float((1 - target / 2) ** 0.25)
            theory.append(single_passage(model, overlaps, level, step_size=step_size) / per_step)
        else:
            theory.append(_passages(context, model, starts, target))
        run = stiefel_sgd(
            model,
            starts,
            step_size=step_size,
            steps=_steps(model, horizon, step_size),
            saves=_LIMIT * _LOOKS,
            stop_at_risk=target,
            seed=context.seed_for("Q13-Q18", "SGD", dim, count, width),
            progress=context.within(f"d = {dim}"),
        )
        measured.append(run.steps_to(target))
    return Samples(np.array(dims), *(np.stack(x, axis=1) for x in (measured, theory, drift, riccati)))


def _passages(
    context: Context,
    model: QuadraticModel,
    starts: list[Subspace],
    target: float,
    noise: float = 1.0,
    early: bool = False,
) -> np.ndarray:
    """Samples of each start with the noise of a step, or with what of it comes before the first direction emerges."""
    step_size = LOAD / model.teacher.dim / PAPER_STEP
    times = passages(
        model,
        _stacked(starts),
        [target],
        step_size=step_size,
        until=float(half_times(model.spectrum, model.teacher.dim, model.width)[0]) if early else np.inf,
        seed=context.seed_for("Q13-Q18", "passages", model.teacher.dim),
    )
    return times[0] / (model.riccati_rate * step_size)


def _hitting_time(flow: RiccatiFlow, target: float, end: float) -> float:
    """First time at or below the target, inf if after `end`; the risk only falls, so bisection finds it."""

    def excess(time: float) -> float:
        return float(flow.risk(time)[0]) - target

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, end)) if excess(end) <= 0 else np.inf


def _judge_exponent(context: Context, found: Samples, name: str, allowed: float, source: str) -> Measurement:
    estimate, error = np.inf, 0.0
    slope = partial(log_slope, found.dims)
    if np.all(np.isfinite(found.measured)):
        estimate, error = found.read(slope, context.rng("Q13-Q18", "resampling", name))
    predicted, drift, riccati = (slope(x.mean(axis=0)) for x in (found.theory, found.drift, found.riccati))
    controls = {
        "d without the logarithm": 1.0,
        "step size ∝ d^{−3/2}": predicted + 0.5,
        "step size ∝ d^{−2}, as at information exponent 4": predicted + 1.0,
        "√d samples": predicted - 0.5,
    }
    text = f"exponent of the samples to a fixed risk in d, {name}, ηd = {LOAD:g}"
    details = {
        "limit d → ∞": 1.0,
        "Riccati flow": riccati,
        "mean drift": drift,
        "dimensions": found.dims,
        "samples over d": found.measured.mean(axis=0) / found.dims,
    }
    return Measurement(text, predicted, estimate, error, allowed, controls, source, key="exponent", details=details)


def _samples_figure(found: Samples) -> object:
    error = found.measured.std(axis=0, ddof=1) / np.sqrt(len(found.measured)) / found.dims
    curve = Curve(
        "SGD", found.dims, found.measured.mean(axis=0) / found.dims, error, found.theory.mean(axis=0) / found.dims
    )
    limit = ("Riccati flow", found.dims.astype(float), found.riccati.mean(axis=0) / found.dims)
    return measured_and_theory(
        [curve],
        "input dimension d",
        "samples / d",
        limit=limit,
        points=True,
        log_x=True,
        log_y=False,
        theory_name="drift to second order, and its noise",
    )


_NO_SECOND, _NO_NOISE = "no second order of a step (Riccati flow)", "second-order drift without its noise"


@claim(
    id="Q13",
    title="Samples of Stiefel SGD, decay above ½",
    statement="With η ∝ 1/d the samples to a fixed risk grow like d up to logarithms.",
    latex=r"\eta^{-1}\asymp d,\qquad n\asymp d\log d",
    source=f"{_SOURCE}, sample complexity theorem, decay above ½",
    kind="asymptotic",
    regime="exponent compared with its finite-size value",
    controls=(
        "d without the logarithm",
        "step size ∝ d^{−3/2}",
        "step size ∝ d^{−2}, as at information exponent 4",
        "√d samples",
        _NO_SECOND,
        _NO_NOISE,
    ),
)
def run_samples(context: Context) -> Iterator[Part]:
    """Samples to a fixed risk against d at fixed ηd, decay 1."""
    dims = (32, 64, 128, 256, 512, 1024, 2048, 4096) if context.full else (32, 64, 128, 256, 512)
    found = _samples(context, 3, 3, 0.6, dims)
    caption = "Samples to risk 0.6 over d: a straight line on this axis is d log d (M* = N = 3, decay 1)."
    source = computed_by(passages, "noise after the first direction has emerged: all of it, at each d")
    early = np.empty(len(dims))
    for size, dim in enumerate(dims):
        model = _model(3, 3, dim)
        starts = _starts(context, model, 64, "Q13-Q18")
        early[size] = _passages(context, model, starts, 0.6, early=True).mean()
    predicted, riccati = found.theory.mean(axis=0), found.riccati.mean(axis=0)
    of_slope = float(np.abs(slope_weights(found.dims)) @ np.abs(early / predicted - 1))
    yield _judge_exponent(context, found, "M* = N = 3, decay 1", of_slope, source)

    def excess(samples: np.ndarray) -> float:
        return float(np.mean(samples / riccati))

    estimate, error = found.read(excess, context.rng("Q13-Q18", "resampling", "excess"))
    controls = {_NO_SECOND: 1.0, _NO_NOISE: excess(found.drift.mean(axis=0))}
    allowed, expected = excess(np.abs(early - predicted)), excess(predicted)
    text = f"samples over the Riccati flow's, mean over d, M* = N = 3, ηd = {LOAD:g}"
    yield Measurement(text, expected, estimate, error, allowed, controls, source, key="samples")
    yield caption, _samples_figure(found)


@claim(
    id="Q18",
    title="One direction: phase retrieval",
    statement="For M* = 1 the samples to a fixed risk are d log d.",
    latex=r"n\simeq\frac{1}{2\eta}\log d",
    source=f"{_SOURCE}, the case M* = 1; drift and noise of a step derived",
    kind="asymptotic",
    regime="M* = N = 1, ηd fixed",
    controls=(
        "d without the logarithm",
        "step size ∝ d^{−3/2}",
        "step size ∝ d^{−2}, as at information exponent 4",
        "√d samples",
        "no logarithm",
        "d log² d: slope at the largest d",
        "loss without its ½ (a quarter of the samples)",
        _NO_SECOND,
        _NO_NOISE,
    ),
)
def run_phase_retrieval(context: Context) -> Iterator[Part]:
    """M* = N = 1: d log d samples."""
    dims = (32, 128, 512, 2048, 8192) if context.full else (32, 128, 512)
    found = _samples(context, 1, 1, 1.0, dims)
    slack = 2 / found.dims  # (M* + N)/d
    source = computed_by(single_passage, "whole steps and kicks that are not Gaussian, relative (M* + N)/d")
    of_slope = float(np.abs(slope_weights(found.dims)) @ slack)
    yield _judge_exponent(context, found, "M* = N = 1", of_slope, source)
    yield _judge_slope(context, found, slack, source)
    yield _judge_samples(context, found, slack, source)
    caption = "Phase retrieval (M* = N = 1): samples to half the initial risk over d."
    yield caption, _samples_figure(found)


def _judge_slope(context: Context, found: Samples, slack: np.ndarray, source: str) -> Measurement:
    """Coefficient of log d in samples / d."""
    weights = linear_weights(np.log(found.dims)[:, None], np.ones(len(found.dims)))[0] / found.dims
    slope = weights.dot
    predicted, riccati = (float(slope(x.mean(axis=0))) for x in (found.theory, found.riccati))
    controls = {
        "no logarithm": 0.0,
        "d log² d: slope at the largest d": 2 * predicted,
        "loss without its ½ (a quarter of the samples)": predicted / 4,
    }
    estimate, stderr = found.read(slope, context.rng("Q18", "resampling"))
    allowed = float(np.abs(weights) @ (slack * found.theory.mean(axis=0)))
    text = f"coefficient of ln d in samples / d, M* = N = 1, ηd = {LOAD:g}"
    details = {"Riccati flow": riccati, "limit ηd → 0": 0.5 / LOAD}
    return Measurement(text, predicted, estimate, stderr, allowed, controls, source, key="coefficient", details=details)


def _judge_samples(context: Context, found: Samples, slack: np.ndarray, source: str) -> Measurement:
    """Samples at the largest d over those of the Riccati flow from the same starts: what drift and noise of a step add."""
    measured, theory, drift, riccati = (x[:, -1] for x in (found.measured, found.theory, found.drift, found.riccati))
    whole = float(riccati.mean())
    predicted = float(theory.mean()) / whole
    gap, stderr = mean_and_error((measured - theory) / whole)
    controls = {_NO_SECOND: 1.0, _NO_NOISE: float(drift.mean()) / whole}
    text = f"samples over the Riccati flow's, d = {found.dims[-1]}, M* = N = 1, ηd = {LOAD:g}"
    return Measurement(
        text, predicted, predicted + gap, stderr, float(slack[-1]) * predicted, controls, source, key="samples"
    )


# ------------------------------------------------------------- Q14: largest usable step size

#: The rule, stated beforehand: usable is a step size whose mean risk, at 1.5 times the decoupled time of the last
#: direction, exceeds the Riccati risk by at most a tenth of the initial risk 2.
EXCESS, HORIZON, RATIO = 0.2, 1.5, 16
GRID = (0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True)
class Usable:
    """Excess risk over a grid of ηd: measured (replica, grid) and by the mean drift (grid,)."""

    count: int
    measured: np.ndarray
    drift: np.ndarray


def _usable(context: Context, decay: float, count: int, replicas: int) -> Usable:
    """M* = N = `count`, d = 16 M*, γ = N^{-1/2}."""
    model = _model(count, count, RATIO * count, decay)
    starts = _starts(context, model, replicas, "Q14", f"{decay:g}")
    end = HORIZON * float(np.max(half_times(model.spectrum, model.teacher.dim, count)))
    riccati = np.array([riccati_flow(model.spectrum, start).risk(np.array([end]))[0] for start in starts])
    seed = context.seed_for("Q14", "SGD", f"{decay:g}", count)  # one for all step sizes
    measured, drift = [], []
    for load in GRID:
        step_size = load / model.teacher.dim / PAPER_STEP
        progress = context.within(f"M* = {count}, ηd = {load:g}")
        steps = _steps(model, end, step_size)
        run: StiefelResult = stiefel_sgd(
            model, starts, step_size=step_size, steps=steps, saves=1, seed=seed, progress=progress
        )
        times = np.array([0.0, run.dataset.riccati_time.values[-1]])
        flow = mean_flow(model, _stacked(starts[:4]), times, step_size=step_size, rtol=1e-6)[-1]
        measured.append(run.risk[:, -1] - riccati)
        drift.append(float(np.mean(projected_risk(model.spectrum, flow) - riccati[:4])))
    return Usable(count, np.stack(measured, axis=1), np.array(drift))


def _largest(excess: np.ndarray) -> float:
    """ln of the ηd at which the excess (grid,) passes the rule's threshold; linear in ln ηd between grid points."""
    grid = np.log(GRID)
    return float(np.interp(EXCESS, np.maximum.accumulate(excess), grid))


@claim(
    id="Q14",
    title="Largest usable step size, decay below ½",
    statement="As the teacher widens, the largest usable step size shrinks more slowly than n ∝ d·M*^{1+β} samples "
    "ask for (open).",
    latex=r"\eta_{\max}d\propto M_*^{e},\quad n\propto d\,M_*^{1-e},\quad -\beta\le e\le0",
    source=f"{_SOURCE}, sample complexity theorem, decay below ½ (an upper bound; said to be probably not sharp)",
    kind="open",
    regime=f"M* = N, d = {RATIO} M*, γ = N^(−1/2); rule: excess risk {EXCESS:g} at {HORIZON:g} × the last direction's time",
    controls=("samples d·M*^{1+β} needed",),
)
def run_largest_step(context: Context) -> Iterator[Part]:
    """Exponent of the largest usable ηd in M*, for decay 0 and below ½."""
    counts = (4, 8, 16, 32) if context.full else (4, 8, 16)
    curves = []
    for decay in (0.0, 0.25, 0.4) if context.full else (0.0, 0.4):
        cells = [_usable(context, decay, count, max(8, context.pick(128, 256) // count)) for count in counts]
        sizes = np.log(counts)
        largest = np.array([_largest(cell.measured.mean(axis=0)) for cell in cells])
        theory = np.array([_largest(cell.drift) for cell in cells])
        rng = context.rng("Q14", "resampling", f"{decay:g}")
        spread = np.array(
            [bootstrap_error(cell.measured, lambda rows: _largest(rows.mean(axis=0)), rng, 200) for cell in cells]
        )
        error = float(np.sqrt(slope_weights(counts) ** 2 @ spread**2))
        predicted, estimate = (float(np.polyfit(sizes, values, 1)[0]) for values in (theory, largest))
        text = f"exponent of the largest usable ηd in M*, decay {decay:g}, d = {RATIO} M*"
        controls = {"samples d·M*^{1+β} needed": -decay} if decay else {}
        details = {
            "M*": counts,
            "largest ηd": np.exp(largest),
            "by the mean drift": np.exp(theory),
            "interval": [estimate - 2 * error, estimate + 2 * error],
            "exponent of the samples over d": 1 - estimate,
            "upper bound of the paper": 1 + decay,
            "rule": f"excess risk at most {EXCESS:g} at {HORIZON:g} times the last decoupled time",
        }
        source = "none: an open question"
        yield Measurement(text, predicted, estimate, error, 0.0, controls, source, f"decay{decay:g}", details)
        bars = np.exp(largest) * spread
        curves.append(Curve(f"decay {decay:g}", np.array(counts), np.exp(largest), bars, np.exp(theory)))
    figure = measured_and_theory(
        curves,
        "teacher width M* = N",
        "largest usable ηd",
        points=True,
        log_x=True,
        theory_name="drift to second order",
    )
    caption = f"Largest usable step size: excess risk {EXCESS:g} at {HORIZON:g} times the last direction's time."
    yield caption, figure


# ------------------------------------------------------------------------ Q15: phase II

PER_ENTRY = (2, 4, 8, 16, 32)
RADIAL_TIME = 6.0


@claim(
    id="Q15",
    title="Samples of the radial phase",
    statement="The radial least-squares fit has N(N+1)/2 parameters: its excess risk is set by n'/N², and does not see d.",
    latex=r"R(n')-R_{opt}\simeq\frac1{n'}\Big[\tfrac{N(N+1)}2R_{opt}+8(N+1)\|U^\top\mathsf M(I-UU^\top)\|_F^2\Big]",
    source=f"{_SOURCE}, phase II; constants derived",
    kind="asymptotic",
    regime="n' ≫ N(N+1)/2; before the projection to positive semidefinite",
    controls=(
        "N parameters in place of N(N+1)/2",
        "residual variance halved",
        "N² parameters",
        "n' ∝ N",
        "n' ∝ N³",
        "n' independent of N",
    ),
)
def run_radial(context: Context) -> Iterator[Part]:
    """Excess risk of the radial least-squares fit against the number of samples, at three widths."""
    curves, needed, wanted, errors, slack = [], [], [], [], []
    widths = (3, 6, 12)
    for width in widths:
        model = _model(16, width, 2000)
        start = draw_subspace(16, width, 2000, context.rng("Q15", "start", width))
        z = riccati_flow(model.spectrum, start).factor([RADIAL_TIME])[0]
        frame = Subspace.of_overlap(z)
        entries = width * (width + 1) // 2
        leading, second = radial_excess(model, z)
        rng = context.rng("Q15", "samples", width)
        rows = np.array(
            [
                [_excess(model, frame, share * entries, rng) for share in PER_ENTRY]
                for _ in range(context.pick(160, 1000))
            ]
        )
        samples = np.array(PER_ENTRY) * entries
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        theory = leading / samples + second / samples**2
        curves.append(Curve(f"N = {width}", samples / width**2, mean, error, theory))
        last, n = float(theory[-1]), int(samples[-1])
        text, source = (
            f"excess risk of the radial fit, N = {width}, n' = {n}",
            computed_by(radial_excess, "the second order in 1/n', the last one kept"),
        )
        controls = {
            "N parameters in place of N(N+1)/2": last * width / entries,
            "residual variance halved": last / 2,
            "N² parameters": last * width**2 / entries,
        }
        allowed = abs(second) / n**2
        yield Measurement(text, last, float(mean[-1]), float(error[-1]), allowed, controls, source, f"excess{width}")
        needed.append(n * mean[-1])
        wanted.append(n * last)
        errors.append(error[-1] / mean[-1])
        slack.append(allowed / last)
    yield _judge_width_exponent(widths, needed, wanted, errors, slack)
    figure = measured_and_theory(
        curves, "samples of phase II over N²", "excess risk", log_x=True, theory_name="theory, two orders in 1/n'"
    )
    yield "Phase II: excess risk of the radial least-squares fit (before projection).", figure


def _excess(model: QuadraticModel, frame: Subspace, samples: int, rng: np.random.Generator) -> float:
    fit = radial_phase(model, frame, samples, rng)
    return fit.unprojected - fit.optimal


def _judge_width_exponent(
    widths: tuple[int, ...], needed: list[float], wanted: list[float], errors: list[float], slack: list[float]
) -> Measurement:
    """Exponent in N of the samples for a given excess, n' × excess over the risk that is left."""
    estimate, stderr, allowance = carried_slope(widths, needed, errors, slack)
    predicted, entries = (carried_slope(widths, x)[0] for x in (wanted, [n * (n + 1) / 2 for n in widths]))
    text = "exponent in N of the samples for a given excess risk"
    controls = {"n' ∝ N": predicted - 1, "n' ∝ N³": predicted + 1, "n' independent of N": predicted - 2}
    source = computed_by(radial_excess, "the second order in 1/n', the last one kept, at each width")
    details = {"N(N+1)/2 alone": entries, "limit at fixed remaining risk": 2.0}
    return Measurement(text, predicted, estimate, stderr, allowance, controls, source, key="exponent", details=details)
