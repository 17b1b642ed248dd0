r"""Q12–Q15, Q18: Stiefel SGD of quadratic networks against the Riccati flow, its sample complexity, the radial phase.

Step sizes are quoted as the paper does, for the loss ⅛(f*−f)²: $\eta d$ below is 4 times the toolkit's step size times d.
Theory is the mean drift of a step to second order (`theory.quadratic.stiefel.step_drift`), exact in d; its first order is the
Riccati flow. What it leaves out are fluctuations of G.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from dynamics.additive.gradient_flow import Progress
from dynamics.quadratic.radial_phase import radial_phase
from dynamics.quadratic.riccati import RiccatiFlow, riccati_flow
from dynamics.quadratic.stiefel_sgd import StiefelResult, stiefel_sgd
from theory import QuadraticModel, Subspace, Teacher, draw_subspace
from theory.core.streams import Word
from theory.quadratic.model import half_times
from theory.quadratic.stiefel import PAPER_STEP, mean_flow, projected_risk, radial_excess
from validation.figures.stiefel import Curve, measured_and_theory
from validation.judge.claim import Claim, Control, Measurement, Outcome
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error, mean_and_error

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


def _note(context: Context, where: str) -> Progress:
    return lambda fraction, text: context.progress(f"{where}: {text}")


# --------------------------------------------------------------------- Q12: tracking

COUNT, DIM, LATE = 3, 128, 36.0
MIDDLE = 4.0


@dataclass(frozen=True)
class Tracked:
    """Runs at one step size beside theory; times in Riccati time, risks averaged over starts or (replica, time)."""

    load: float
    times: np.ndarray
    risk: np.ndarray
    mean_drift: np.ndarray
    riccati: np.ndarray


@lru_cache(maxsize=2)
def _common(context: Context) -> tuple[list[Subspace], int]:
    """Starts and samples of the runs at all step sizes, whose gaps then differ by the step size alone."""
    return _starts(context, _model(COUNT, COUNT, DIM), 64, "Q12"), context.seed_for("Q12", "SGD")


@lru_cache(maxsize=8)
def _tracked(context: Context, load: float) -> Tracked:
    """Stiefel SGD at ηd = `load`, one uniform start a replica."""
    model = _model(COUNT, COUNT, DIM)
    starts, seed = _common(context)
    step_size = load / DIM / PAPER_STEP
    run = stiefel_sgd(
        model, starts, step_size=step_size, steps=_steps(model, LATE, step_size), saves=36,
        seed=seed,
        progress=_note(context, f"ηd = {load:g}"),
    )  # fmt: skip
    times = run.dataset.riccati_time.values
    drift = projected_risk(model.spectrum, mean_flow(model, _stacked(starts), times, step_size=step_size))
    riccati = np.mean([riccati_flow(model.spectrum, start).risk(times) for start in starts], axis=0)
    return Tracked(load, times, run.risk, drift.mean(axis=1), riccati)


def run_tracking(context: Context) -> Outcome:
    """Risk of Stiefel SGD early and late, and how the late gap to the Riccati flow shrinks with ηd."""
    loads = (0.8, 0.4, 0.2, 0.1, 0.05) if context.full else (0.8, 0.4, 0.2)
    runs = [_tracked(context, load) for load in loads]
    model = _model(COUNT, COUNT, DIM)
    relative = (COUNT + model.width) / DIM
    found = []
    for run in runs:
        gap, stderr = mean_and_error(run.risk[:, -1] - run.riccati[-1])
        predicted = float(run.mean_drift[-1] - run.riccati[-1])
        controls = [
            Control("no second-order drift (Riccati risk)", 0.0),
            Control("shrinkage of the projector twice as strong", _late_gap(model, context, run, 2.0)),
            Control("shrinkage half as strong", _late_gap(model, context, run, 0.5)),
        ]
        found.append(
            Measurement(
                f"risk above the Riccati risk at time {LATE:g}, ηd = {run.load:g}", predicted, gap, stderr,
                relative * predicted, controls, "fluctuations of G, relative (M* + N)/d", key=f"late{run.load:g}",
                details={"SGD risk": float(run.risk[:, -1].mean()), "Riccati risk": float(run.riccati[-1])},
            )
        )  # fmt: skip
    found += [_trend(context, runs), _tracking_in_time(model, context, runs[-1])]
    figure = measured_and_theory(
        [_curve(run) for run in runs], "Riccati time", "risk with the best radial part",
        limit=("Riccati flow (ηd → 0)", runs[-1].times, runs[-1].riccati), theory_name="drift to second order",
    )  # fmt: skip
    return Outcome(found, figures=[(f"Stiefel SGD, d = {DIM}, M* = N = {COUNT}, decay 1, 64 starts.", figure)])


def _curve(run: Tracked) -> Curve:
    error = run.risk.std(axis=0, ddof=1) / np.sqrt(len(run.risk))
    return Curve(f"SGD, ηd = {run.load:g}", run.times, run.risk.mean(axis=0), error, run.mean_drift)


def _late_gap(model: QuadraticModel, context: Context, run: Tracked, factor: float) -> float:
    """The predicted late gap if the second-order term were `factor` times itself."""
    starts = _common(context)[0][:4]  # at late times all starts agree
    flow = mean_flow(model, _stacked(starts), run.times, step_size=factor * run.load / DIM / PAPER_STEP)
    return float(projected_risk(model.spectrum, flow[-1]).mean() - run.riccati[-1])


def _trend(context: Context, runs: list[Tracked]) -> Measurement:
    """Exponent of the late gap in ηd over the step sizes."""
    loads = np.log([run.load for run in runs])
    gaps = np.stack([run.risk[:, -1] - run.riccati[-1] for run in runs], axis=1)
    slope = lambda rows: float(np.polyfit(loads, np.log(rows.mean(axis=0)), 1)[0])  # noqa: E731
    predicted = np.array([run.mean_drift[-1] - run.riccati[-1] for run in runs])
    expected = float(np.polyfit(loads, np.log(predicted), 1)[0])
    # A relative error of up to (M* + N)/d at either end of the range of log ηd.
    allowance = 2 * (COUNT + COUNT) / DIM / float(np.ptp(loads))
    controls = [Control("gap ∝ √(ηd): fluctuations alone", 0.5 * expected), Control("gap ∝ (ηd)²", 2 * expected)]
    return Measurement(
        "exponent of the late gap in ηd", expected, slope(gaps), bootstrap_error(gaps, slope, context.rng("Q12", "error")),
        allowance, controls, "fluctuations of G, relative (M* + N)/d at either end", key="exponent",
        details={"limit ηd → 0": 1.0},
    )  # fmt: skip


def _tracking_in_time(model: QuadraticModel, context: Context, run: Tracked) -> Measurement:
    """The risk in the middle of learning at the smallest step size, against the Riccati flow itself."""
    at = int(np.argmin(np.abs(run.times - MIDDLE)))
    shift = abs(float(run.mean_drift[at] - run.riccati[at]))
    estimate, stderr = mean_and_error(run.risk[:, at])
    starts, _ = _common(context)

    def wrong(factor: float) -> float:
        time = factor * run.times[at : at + 1]
        return float(np.mean([riccati_flow(model.spectrum, start).risk(time)[0] for start in starts]))

    controls = [
        Control("γ forgotten (time √N times faster)", wrong(model.width**0.5)),
        Control("loss without its factor ¼ (time twice as fast)", wrong(2.0)),
        Control("time half as fast", wrong(0.5)),
    ]
    return Measurement(
        f"risk at Riccati time {run.times[at]:.3g}, ηd = {run.load:g}", float(run.riccati[at]), estimate, stderr, shift,
        controls, "the second-order drift's own shift of the risk",
        key="middle",
    )  # fmt: skip


# ------------------------------------------------------- Q13, Q18: samples against dimension

LOAD = 0.2
#: Limit of a run, in half-times of the last direction, and looks in each. A run ends once all replicas are there; the
#: slowest of some hundreds, whose only overlap starts near 0, takes nine or so.
_LIMIT, _LOOKS = 32, 40


@dataclass(frozen=True)
class Samples:
    """Samples to a fixed risk over dimensions: measured (replica, size), by the mean drift and by the Riccati flow."""

    dims: np.ndarray
    measured: np.ndarray
    drift: np.ndarray
    riccati: np.ndarray


@lru_cache(maxsize=8)
def _samples(context: Context, count: int, width: int, target: float, dims: tuple[int, ...]) -> Samples:
    measured, drift, riccati = [], [], []
    for dim in dims:
        model = _model(count, width, dim)
        # A single direction starts from one overlap, whose spread is wider.
        starts = _starts(context, model, 256 if width == 1 else 64, "Q13-Q18")
        step_size = LOAD / dim / PAPER_STEP
        per_step = model.riccati_rate * step_size
        horizon = _LIMIT * float(np.max(half_times(model.spectrum, dim, width)[:width]))
        times = np.linspace(0.0, horizon, 2 * _LIMIT * _LOOKS)
        hits = [_hitting_time(riccati_flow(model.spectrum, start), target, horizon) for start in starts]
        means = projected_risk(model.spectrum, mean_flow(model, _stacked(starts), times, step_size=step_size)).T
        riccati.append(float(np.mean(hits)) / per_step)
        drift.append(_crossing(times, means, target).mean() / per_step)
        run = stiefel_sgd(
            model, starts, step_size=step_size, steps=_steps(model, horizon, step_size), saves=_LIMIT * _LOOKS,
            stop_at_risk=target, seed=context.seed_for("Q13-Q18", "SGD", dim, count, width),
            progress=_note(context, f"d = {dim}"),
        )  # fmt: skip
        measured.append(run.steps_to(target))
    return Samples(np.array(dims), np.stack(measured, axis=1), np.array(drift), np.array(riccati))


def _hitting_time(flow: RiccatiFlow, target: float, end: float) -> float:
    """First time at or below the target, inf if after `end`; the risk only falls, so bisection finds it."""
    excess = lambda time: float(flow.risk(time)[0]) - target  # noqa: E731
    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, end)) if excess(end) <= 0 else np.inf


def _crossing(times: np.ndarray, risk: np.ndarray, target: float) -> np.ndarray:
    """First time at or below the target, linear between times; (replica,) from (replica, time); inf if never."""
    found = np.full(len(risk), np.inf)
    for i, row in enumerate(risk):
        k = int(np.argmax(row <= target))
        if row[k] <= target:
            found[i] = times[k] if k == 0 else np.interp(-target, -row[k - 1 : k + 1], times[k - 1 : k + 1])
    return found


def _exponent(dims: np.ndarray, samples: np.ndarray) -> float:
    return float(np.polyfit(np.log(dims), np.log(samples), 1)[0])


def _judge_exponent(context: Context, found: Samples, name: str) -> Measurement:
    estimate, error = np.inf, 0.0
    if np.all(np.isfinite(found.measured)):
        statistic = lambda rows: _exponent(found.dims, rows.mean(axis=0))  # noqa: E731
        rng = context.rng("Q13-Q18", "resampling", name)
        estimate, error = statistic(found.measured), bootstrap_error(found.measured, statistic, rng)
    predicted, first_order = (_exponent(found.dims, values) for values in (found.drift, found.riccati))
    controls = [
        Control("d without the logarithm", 1.0),
        Control("step size ∝ d^{−3/2}", predicted + 0.5),
        Control("step size ∝ d^{−2}, as at information exponent 4", predicted + 1.0),
        Control("√d samples", predicted - 0.5),
    ]
    return Measurement(
        f"exponent of the samples to a fixed risk in d, {name}, ηd = {LOAD:g}", predicted, estimate, error,
        abs(predicted - first_order), controls, "the second-order drift's own change of the exponent", key="exponent",
        details={
            "limit d → ∞": 1.0, "Riccati flow": first_order, "dimensions": found.dims,
            "samples over d": found.measured.mean(axis=0) / found.dims,
        },
    )  # fmt: skip


def _samples_figure(found: Samples) -> object:
    error = found.measured.std(axis=0, ddof=1) / np.sqrt(len(found.measured)) / found.dims
    curve = Curve("SGD", found.dims, found.measured.mean(axis=0) / found.dims, error, found.drift / found.dims)
    limit = ("Riccati flow", found.dims.astype(float), found.riccati / found.dims)
    return measured_and_theory(
        [curve], "input dimension d", "samples / d", limit=limit, points=True, log_x=True, log_y=False,
        theory_name="drift to second order",
    )  # fmt: skip


def run_samples(context: Context) -> Outcome:
    """Samples to a fixed risk against d at fixed ηd, decay 1."""
    dims = (32, 64, 128, 256, 512, 1024, 2048, 4096) if context.full else (32, 64, 128, 256, 512)
    found = _samples(context, 3, 3, 0.6, dims)
    caption = "Samples to risk 0.6 over d: a straight line on this axis is d log d (M* = N = 3, decay 1)."
    return Outcome(
        [_judge_exponent(context, found, "M* = N = 3, decay 1")], figures=[(caption, _samples_figure(found))]
    )


def run_phase_retrieval(context: Context) -> Outcome:
    """M* = N = 1: d log d samples."""
    dims = (32, 128, 512, 2048, 8192) if context.full else (32, 128, 512)
    found = _samples(context, 1, 1, 1.0, dims)
    judged = [_judge_exponent(context, found, "M* = N = 1"), _judge_slope(context, found)]
    caption = "Phase retrieval (M* = N = 1): samples to half the initial risk over d."
    return Outcome(judged, figures=[(caption, _samples_figure(found))])


def _judge_slope(context: Context, found: Samples) -> Measurement:
    """Coefficient of log d in samples / d."""
    slope = lambda values: float(np.polyfit(np.log(found.dims), values / found.dims, 1)[0])  # noqa: E731
    statistic = lambda rows: slope(rows.mean(axis=0))  # noqa: E731
    predicted, first_order = slope(found.drift), slope(found.riccati)
    controls = [
        Control("no logarithm", 0.0),
        Control("d log² d: slope at the largest d", 2 * predicted),
        Control("loss without its ½ (a quarter of the samples)", predicted / 4),
    ]
    return Measurement(
        f"coefficient of ln d in samples / d, M* = N = 1, ηd = {LOAD:g}", predicted, statistic(found.measured),
        bootstrap_error(found.measured, statistic, context.rng("Q18", "resampling")), abs(predicted - first_order), controls,
        "the second-order drift's own change of the coefficient", key="coefficient",
        details={"Riccati flow": first_order, "limit ηd → 0": 0.5 / LOAD},
    )  # fmt: skip


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
        run: StiefelResult = stiefel_sgd(
            model, starts, step_size=step_size, steps=_steps(model, end, step_size), saves=1,
            seed=seed,
            progress=_note(context, f"M* = {count}, ηd = {load:g}"),
        )  # fmt: skip
        times = np.array([0.0, run.dataset.riccati_time.values[-1]])
        flow = mean_flow(model, _stacked(starts[:4]), times, step_size=step_size, rtol=1e-6)[-1]
        measured.append(run.risk[:, -1] - riccati)
        drift.append(float(np.mean(projected_risk(model.spectrum, flow) - riccati[:4])))
    return Usable(count, np.stack(measured, axis=1), np.array(drift))


def _largest(excess: np.ndarray) -> float:
    """ln of the ηd at which the excess (grid,) passes the rule's threshold; linear in ln ηd between grid points."""
    grid = np.log(GRID)
    return float(np.interp(EXCESS, np.maximum.accumulate(excess), grid))


def run_largest_step(context: Context) -> Outcome:
    """Exponent of the largest usable ηd in M*, for decay 0 and below ½."""
    counts = (4, 8, 16, 32) if context.full else (4, 8, 16)
    found, curves = [], []
    for decay in (0.0, 0.25, 0.4) if context.full else (0.0, 0.4):
        cells = [_usable(context, decay, count, max(8, context.pick(128, 256) // count)) for count in counts]
        sizes = np.log(counts)
        slope = lambda values, sizes=sizes: float(np.polyfit(sizes, values, 1)[0])  # noqa: E731
        largest = np.array([_largest(cell.measured.mean(axis=0)) for cell in cells])
        theory = np.array([_largest(cell.drift) for cell in cells])
        rng = context.rng("Q14", "resampling", f"{decay:g}")
        draws = [[_resampled(cell, rng) for cell in cells] for _ in range(200)]
        error = float(np.std([slope(np.array(draw)) for draw in draws], ddof=1))
        estimate = slope(largest)
        found.append(
            Measurement(
                f"exponent of the largest usable ηd in M*, decay {decay:g}, d = {RATIO} M*", slope(theory), estimate, error,
                0.0, [Control("samples d·M*^{1+β} needed", -decay)] if decay else [], "none: an open question",
                key=f"decay{decay:g}",
                details={
                    "M*": counts, "largest ηd": np.exp(largest), "by the mean drift": np.exp(theory),
                    "interval": [estimate - 2 * error, estimate + 2 * error],
                    "exponent of the samples over d": 1 - estimate, "upper bound of the paper": 1 + decay,
                    "rule": f"excess risk at most {EXCESS:g} at {HORIZON:g} times the last decoupled time",
                },
            )
        )  # fmt: skip
        spread = np.std([np.exp(draw) for draw in draws], axis=0, ddof=1)
        curves.append(Curve(f"decay {decay:g}", np.array(counts), np.exp(largest), spread, np.exp(theory)))
    figure = measured_and_theory(
        curves,
        "teacher width M* = N",
        "largest usable ηd",
        points=True,
        log_x=True,
        theory_name="drift to second order",
    )
    caption = f"Largest usable step size: excess risk {EXCESS:g} at {HORIZON:g} times the last direction's time."
    return Outcome(found, figures=[(caption, figure)])


def _resampled(cell: Usable, rng: np.random.Generator) -> float:
    count = len(cell.measured)
    return _largest(cell.measured[rng.integers(0, count, count)].mean(axis=0))


# ------------------------------------------------------------------------ Q15: phase II

PER_ENTRY = (2, 4, 8, 16, 32)
RADIAL_TIME = 6.0


def run_radial(context: Context) -> Outcome:
    """Excess risk of the radial least-squares fit against the number of samples, at three widths."""
    found, curves, needed, wanted, errors = [], [], [], [], []
    widths = (3, 6, 12)
    for width in widths:
        model = _model(16, width, 2000)
        start = draw_subspace(16, width, 2000, context.rng("Q15", "start", width))
        z = riccati_flow(model.spectrum, start).factor([RADIAL_TIME])[0]
        frame = Subspace.of_overlap(z)
        entries = width * (width + 1) // 2
        scale, next_order = radial_excess(model, z)
        rng = context.rng("Q15", "samples", width)
        rows = np.array([[_excess(model, frame, share * entries, rng) for share in PER_ENTRY]
                         for _ in range(context.pick(160, 1000))])  # fmt: skip
        samples = np.array(PER_ENTRY) * entries
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        theory = scale / samples * (1 + next_order / samples)
        curves.append(Curve(f"N = {width}", samples / width**2, mean, error, theory))
        last, n = float(theory[-1]), int(samples[-1])
        found.append(
            Measurement(
                f"excess risk of the radial fit, N = {width}, n' = {n}", last, float(mean[-1]), float(error[-1]),
                scale / n * next_order / n, [
                    Control("N parameters in place of N(N+1)/2", last * width / entries if width > 3 else last / 2),
                    Control("residual variance halved", last / 2), Control("N² parameters", last * width**2 / entries),
                ], "the next order in 1/n'", key=f"excess{width}",
            )
        )  # fmt: skip
        needed.append(n * mean[-1])
        wanted.append(n * last)
        errors.append(error[-1] / mean[-1])
    found.append(_judge_width_exponent(widths, needed, wanted, errors, found))
    figure = measured_and_theory(
        curves, "samples of phase II over N²", "excess risk", log_x=True, theory_name="theory, two orders in 1/n'"
    )
    return Outcome(
        found, figures=[("Phase II: excess risk of the radial least-squares fit (before projection).", figure)]
    )


def _excess(model: QuadraticModel, frame: Subspace, samples: int, rng: np.random.Generator) -> float:
    fit = radial_phase(model, frame, samples, rng)
    return fit.unprojected - fit.optimal


def _judge_width_exponent(
    widths: tuple[int, ...], needed: list[float], wanted: list[float], errors: list[float], found: list[Measurement]
) -> Measurement:
    """Exponent in N of the samples for a given excess, n' × excess over the risk that is left."""
    log_width = np.log(widths)
    weights = (log_width - log_width.mean()) / np.sum((log_width - log_width.mean()) ** 2)
    slope = lambda values: float(weights @ np.log(values))  # noqa: E731
    allowance = float(np.abs(weights) @ [x.allowance / x.predicted for x in found])
    predicted, estimate = slope(wanted), slope(needed)
    return Measurement(
        "exponent in N of the samples for a given excess risk", predicted, estimate,
        float(np.sqrt(np.sum((weights * errors) ** 2))), allowance,
        [Control("n' ∝ N", predicted - 1), Control("n' ∝ N³", predicted + 1), Control("n' independent of N", predicted - 2)],
        "the next order in 1/n' at each width", key="exponent",
        details={"N(N+1)/2 alone": slope([n * (n + 1) / 2 for n in widths]), "limit at fixed remaining risk": 2.0},
    )  # fmt: skip


_SOURCE = "arXiv:2508.03688"
CLAIMS = [
    Claim(
        "Q12",
        "Stiefel SGD tracks the Riccati flow",
        "As ηd → 0 the risk of online Stiefel SGD is that of the Riccati flow; the gap is the second-order drift's, ∝ ηd.",
        r"\dot G=\tilde AG+G\tilde A-2G\tilde AG+\tfrac\epsilon4K(G),\qquad\epsilon=\gamma\eta",
        f"{_SOURCE}, sample complexity theorem; second-order drift derived",
        "asymptotic",
        "ηd small, d ≫ M* + N",
        (
            "no second-order drift (Riccati risk)", "shrinkage of the projector twice as strong", "shrinkage half as strong",
            "gap ∝ √(ηd): fluctuations alone", "gap ∝ (ηd)²", "γ forgotten (time √N times faster)",
            "loss without its factor ¼ (time twice as fast)", "time half as fast",
        ),
        run_tracking,
    ),
    Claim(
        "Q13",
        "Samples of Stiefel SGD, decay above ½",
        "With η ∝ 1/d the samples to a fixed risk grow like d up to logarithms.",
        r"\eta^{-1}\asymp d,\qquad n\asymp d\log d",
        f"{_SOURCE}, sample complexity theorem, decay above ½",
        "asymptotic",
        "exponent compared with its finite-size value",
        ("d without the logarithm", "step size ∝ d^{−3/2}", "step size ∝ d^{−2}, as at information exponent 4", "√d samples"),
        run_samples,
    ),
    Claim(
        "Q14",
        "Largest usable step size, decay below ½",
        "As the teacher widens, the largest usable step size shrinks more slowly than n ∝ d·M*^{1+β} samples ask for (open).",
        r"\eta_{\max}d\propto M_*^{e},\quad n\propto d\,M_*^{1-e},\quad -\beta\le e\le0",
        f"{_SOURCE}, sample complexity theorem, decay below ½ (an upper bound; said to be probably not sharp)",
        "open",
        f"M* = N, d = {RATIO} M*, γ = N^(−1/2); rule: excess risk {EXCESS:g} at {HORIZON:g} × the last direction's time",
        ("samples d·M*^{1+β} needed",),
        run_largest_step,
    ),
    Claim(
        "Q15",
        "Samples of the radial phase",
        "The radial least-squares fit has N(N+1)/2 parameters: its excess risk is set by n'/N², and does not see d.",
        r"R(n')-R_{opt}\simeq\frac1{n'}\Big[\tfrac{N(N+1)}2R_{opt}+8(N+1)\|U^\top\mathsf M(I-UU^\top)\|_F^2\Big]",
        f"{_SOURCE}, phase II; constants derived",
        "asymptotic",
        "n' ≫ N(N+1)/2; before the projection to positive semidefinite",
        (
            "N parameters in place of N(N+1)/2", "residual variance halved", "N² parameters",
            "n' ∝ N", "n' ∝ N³", "n' independent of N",
        ),
        run_radial,
    ),
    Claim(
        "Q18",
        "One direction: phase retrieval",
        "For M* = 1 the samples to a fixed risk are d log d.",
        r"n\simeq\frac{1}{2\eta}\log d",
        f"{_SOURCE}, the case M* = 1; coefficient with its second-order drift derived",
        "asymptotic",
        "M* = N = 1, ηd fixed",
        (
            "d without the logarithm", "step size ∝ d^{−3/2}", "step size ∝ d^{−2}, as at information exponent 4",
            "√d samples", "no logarithm", "d log² d: slope at the largest d",
            "loss without its ½ (a quarter of the samples)",
        ),
        run_phase_retrieval,
    ),
]  # fmt: skip
