"""E20–E22: heavy tails, step sizes re-tuned to the horizon, and the compute frontier of the idealised loss sum."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynamics.additive.retiring_flow import retiring_flow
from theory import Activation, Prediction, Student, Teacher, draw_initial_state, predict
from theory.scaling import frontiers
from theory.scaling.competition import Competition
from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.loss_sums import smooth_loss
from theory.scaling.power_law_loss import PowerLawLoss
from theory.scaling.scaling_laws import exponent_value
from theory.scaling.selection import selection_law
from validation.claims.scaling.scaling import (
    BIAS,
    DECAYS,
    FAR,
    FIRST,
    NEURONS,
    PAPER,
    REASON,
    SHARE,
    TOLERANCE,
    greedy_share,
    limit_measurement,
    log_bias,
    name,
    slope_measurement,
    sums_measurement,
    time_at,
    window_times,
)
from validation.experiments.loss_draws import (
    greedy_scores,
    independent_scores,
    independent_staircases,
    staircases,
    weights_of,
)
from validation.figures import scaling as figures
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.controls import TENTH, off_by_a_tenth
from validation.statistics.exponents import Window, exponent_of, extrapolate, fit_exponent, slope_weights
from validation.statistics.frontier import Frontier, lower_envelope
from validation.statistics.readings import read_mean
from validation.statistics.standard_errors import mean_and_error


@dataclass(frozen=True)
class HeavySize:
    """One heavy-tailed teacher: simulated staircases beside the exact sum.

    Attributes:
        law: the loss sum. left: (starts, parts) share of the loss left where `_PARTS` of the teacher are learned; exact:
        (parts,) predicted; limit: (parts,) for P → ∞. times, losses: (K,), (starts, K) the staircases. half: time at which
        half of the loss is left, times the norm of the weights; half_error: its relative stderr; expected_half: predicted.
    """

    law: PowerLawLoss
    left: np.ndarray
    exact: np.ndarray
    limit: np.ndarray
    times: np.ndarray
    losses: np.ndarray
    half: float
    half_error: float
    expected_half: float

    @property
    def gap(self) -> tuple[float, float, float]:
        """Distance of the first part's share from its limit: measured, relative stderr, predicted."""
        estimate, stderr = mean_and_error(self.left[:, 0])
        gap = estimate - float(self.limit[0])
        return gap, stderr / gap, float(self.exact[0] - self.limit[0])


#: Shares of the teacher's loss at whose times the heavy tail is read.
_PARTS = np.array([0.05, 0.3])


def _heavy_size(context: Context, decay: float, teachers: int, rng: np.random.Generator) -> HeavySize:
    law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
    times = np.geomspace(float(law.time_of(0.02 * teachers)), float(law.time_of(0.8 * teachers)), 24)
    scores = independent_scores(decay, teachers, NEURONS, context.pick(900, 2000), rng)
    at = law.time_of(_PARTS * teachers)
    # At these times the limit law has learned x of the teacher, x in units of the typical overlap.
    limit = law.heavy_limit((at / teachers**decay) ** (1 / decay))
    losses = staircases(scores, decay, times)
    unit = np.sqrt(law.norm2)
    half, half_error = read_mean(losses, lambda x: time_at(times, x, 0.5), rng, 100)
    return HeavySize(
        law,
        staircases(scores, decay, at),
        law.share(at),
        limit,
        times,
        losses,
        float(half * unit),
        half_error / half,
        time_at(times, law.share(times), 0.5) * unit,
    )


def _heavy_exponents(decay: float, sizes: np.ndarray, found: Sequence[HeavySize]) -> Iterator[Measurement]:
    """Exponents in P of the approach to the limit and of the unit of time."""
    weights = slope_weights(sizes)
    gaps, errors, expected = np.array([one.gap for one in found]).T
    half_errors = np.array([one.half_error for one in found])
    predicted = float(weights @ np.log([one.expected_half for one in found]))
    theory = float(weights @ np.log(expected))
    estimate = float(weights @ np.log(gaps))
    stderr = float(np.sqrt(weights**2 @ errors**2))
    allowed = float(np.abs(weights) @ errors**2) / 2
    text = f"exponent in P of the distance from the limit, β = {decay:g}"
    controls = {"1/P": -1.0, "P^(−β)": -decay}
    details = {"asymptotic": 2 * decay - 1}
    yield Measurement(text, theory, estimate, stderr, allowed, controls, BIAS, f"{name(decay)}.approach", details)
    estimate = float(weights @ np.log([one.half for one in found]))
    stderr = float(np.sqrt(weights**2 @ half_errors**2))
    allowed = float(np.abs(weights) @ half_errors**2) / 2
    text = f"exponent in P of the time at which half of the loss is left, β = {decay:g}"
    controls = {**off_by_a_tenth(predicted), "P^β: the norm of the weights forgotten": decay, "P": 1.0}
    key = f"{name(decay)}.unit"
    yield Measurement(text, predicted, estimate, stderr, allowed, controls, BIAS, key, {"asymptotic": 0.5})


@claim(
    id="E20",
    title="Heavy tail",
    statement="For β < ½ the loss falls within one unit of time √P, by the share of the teacher learned.",
    latex=r"\frac{\mathcal L(t)}{\mathcal L(0)}\to1-\Big(\frac{p(t)}P\Big)^{1-2\beta},\quad t\propto\sqrt P",
    source="derived",
    kind="asymptotic",
    regime="β = ¼ and 0.4, P to 1e4; against the exact finite sum",
    controls=(
        *TENTH,
        "1 − x: equal weights",
        "1 − x^(1−β): weights, not their squares",
        "1/P",
        "P^(−β)",
        "P^β: the norm of the weights forgotten",
        "P",
    ),
)
def run_heavy_tail(context: Context) -> Iterator[Part]:
    """Share left at fixed parts of the teacher, its approach to the limit, and the unit of time; β = ¼ and 0.4."""
    sizes = np.array([100, 1000, 10_000])
    swept = {}
    for decay in (0.25, 0.4):
        rows = [_heavy_size(context, decay, int(p), context.rng("E20", name(decay), int(p))) for p in sizes]
        last = rows[-1]
        yield from [
            _heavy_share(decay, part, *pair)
            for part, *pair in zip(_PARTS, last.left.T, last.exact, last.limit, strict=True)
        ]
        yield from _heavy_exponents(decay, sizes, rows)
        swept[decay] = rows
    shown = swept[0.25]
    curves = [(int(p), one.times / p**0.25, one.losses.mean(axis=0)) for p, one in zip(sizes, shown, strict=True)]
    law, grid = shown[0].law, np.geomspace(curves[0][1][0], curves[0][1][-1], 80)
    caption = (
        "β = ¼: loss against time in units of the time of the last direction, for several P, and the limit (dashed)."
    )
    yield caption, figures.collapse(curves, (grid, law.heavy_limit(grid ** (1 / law.decay))))


def _heavy_share(decay: float, part: float, left: np.ndarray, exact: float, limit: float) -> Measurement:
    estimate, stderr = mean_and_error(left)
    text = f"share of the loss left when {part:g} of the teacher is learned, β = {decay:g}, P = 1e4"
    controls = {"1 − x: equal weights": 1 - part, "1 − x^(1−β): weights, not their squares": 1 - part ** (1 - decay)}
    source = "quadrature of the exact sum"
    details = {"limit P → ∞": float(limit)}
    return Measurement(text, exact, estimate, stderr, 1e-9, controls, source, f"{name(decay)}.x{part:g}", details)


@claim(
    id="E21",
    title="Step size re-tuned to the horizon",
    statement="With the best step size for each horizon the exponent in samples is halved.",
    latex=r"\min_\eta\mathcal L(n)\asymp\Big(\frac n{d^{J-1}}\Big)^{(1-2\beta)/(2\beta)}",
    source=f"{PAPER}, Corollary 2.3; finite sums derived",
    kind="asymptotic",
    regime="each direction learned by steps up to a constant times its score; against the exact sums",
    controls=(*TENTH, "fixed step size"),
)
def run_retuned(context: Context) -> Iterator[Part]:
    """Frontier over step sizes of the loss after n samples, and the least loss at one number of them."""
    teachers, replicas = context.pick(2048, 10**4), context.pick(24, 100)
    for decay in DECAYS:
        law, rng = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS)), context.rng("E21", name(decay))
        times = window_times(law, teachers / SHARE)
        samples = times**2
        steps = 1 / np.geomspace(times[0], times[-1], 17)
        weights = weights_of(decay, teachers)
        families = []
        for step in steps:
            scores = independent_scores(decay, teachers, NEURONS, replicas, rng)
            families.append(np.array([frontiers.stepped_loss(row, weights, step, samples) for row in scores]))
        losses = [2 * x / np.sum(weights**2) for x in families]
        curve = Frontier([samples] * len(steps), losses, samples, rng=rng)
        fit = fit_exponent(curve, Window(samples[0], samples[-1], REASON))
        exact = [_stepped_share(law, step, samples) for step in steps]
        expected, _ = lower_envelope([samples] * len(steps), exact, samples)
        predicted = fit.finite_size(expected)
        fixed = exponent_value("time", decay)
        text = f"slope of the loss in samples, best step size for each, β = {decay:g}, P = {teachers}"
        asymptotic, retuned = exponent_value("samples_unstable", decay), frontiers.unstable_share(law, samples)
        one = slope_measurement(text, curve, fit, predicted, asymptotic, {"fixed step size": fixed}, name(decay))
        yield replace(one, details={**one.details, "all step sizes": exponent_of(samples, retuned)})
        place = 3 * samples.size // 4
        best = int(np.argmin([x[place] for x in exact]))  # in theory: no minimum over noise
        yield Measurement(
            f"least share left after {samples[place]:.3g} samples, step size {steps[best]:.3g}, β = {decay:g}",
            float(expected[place]), *mean_and_error(losses[best][:, place]), 0.0,
            {"fixed step size": float(expected[0] * (samples[place] / samples[0]) ** fixed)},
            "none: exact sum", key=f"{name(decay)}.level",
        )  # fmt: skip
        if decay == 0.8:
            single = [(steps[i], losses[i].mean(axis=0)) for i in (0, 4, 8, 12, 16)]
            panel = figures.retuned(samples, single, retuned, expected[0] * (samples / samples[0]) ** fixed)
    caption = (
        "Loss against samples for single step sizes (β = 0.8): each stops at the directions its step is too large for; "
        "the best step size for each number of samples (dashed)."
    )
    yield caption, panel


def _stepped_share(law: PowerLawLoss, step: float, samples: np.ndarray) -> np.ndarray:
    """Expected share left after `samples` steps of one size."""
    return law.share(1 / np.maximum(step, 1 / (step * samples)))


@claim(
    id="E22",
    title="Compute frontier",
    statement="The least loss at compute C = m·t is a power of C.",
    latex=r"\min_m\mathcal L\asymp C^{(1-2\beta)/(1+\beta)},\quad m\propto C^{1/(1+\beta)}",
    source=f"{PAPER}, section 2.4; finite sums derived",
    kind="asymptotic",
    regime="fixed step size; directions 4 to P/8 learned; against the exact sums",
    controls=(
        *TENTH,
        "exponent in time",
        "β 10 % larger",
        "m ∝ C: no more time",
        "m fixed",
        "no dependence on P",
        "re-tuned step sizes",
    ),
)
def run_frontier(context: Context) -> Iterator[Part]:
    """Least loss at given compute m·t, over widths: slope, optimal width, trend over P; under competition; coupled flow."""
    panels = []
    teachers = context.pick(4096, 10**5)
    for decay in DECAYS:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        run = _Widths(law, context.pick(32, 64), context.rng("E22", "curves", name(decay)))
        fit = run.fit
        predicted = fit.finite_size(run.expected.share)
        wrong = PowerLawLoss(1.1 * decay, teachers, law.law)
        controls: Controls = {"exponent in time": exponent_value("time", decay)}
        if decay < 1.5:
            controls["β 10 % larger"] = fit.finite_size(frontiers.frontier(wrong, run.costs, run.widths).share)
        text, asymptotic = (
            f"slope of the compute frontier, β = {decay:g}, P = {teachers}",
            exponent_value("compute", decay),
        )
        yield slope_measurement(text, run.curve, fit, predicted, asymptotic, controls, name(decay))
        yield run.width_exponent(context.rng("E22", "best width", name(decay)), f"{name(decay)}.width")
        yield run.level(wrong, f"{name(decay)}.level")
        if decay == 0.8:
            panels.append(_panel(run, teachers))
    yield from _trend(context, 0.8)
    yield _greedy(context, 0.8)
    if context.full:
        yield from _coupled(context, 0.8)
    yield from panels


def _grids(law: PowerLawLoss, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Widths, and costs of the window."""
    low, high = (float(frontiers.cost_of(law, x)) for x in (FIRST, law.teachers / SHARE))
    return np.unique(np.geomspace(FIRST / 2, law.teachers / 4, count).astype(int)), np.geomspace(low, high, 40)


class _Widths:
    """Drawn loss curves of students of many widths over one grid of costs, and what exact sums say of them."""

    def __init__(self, law: PowerLawLoss, replicas: int, rng: np.random.Generator, count: int = 16) -> None:
        self.law = law
        self.widths, self.costs = _grids(law, count)
        self.losses = [independent_staircases(law, self.costs / m, replicas, rng, int(m)) for m in self.widths]
        self.curve = Frontier([self.costs] * len(self.losses), self.losses, self.costs, rng=rng)
        self.fit = fit_exponent(self.curve, Window(self.costs[0], self.costs[-1], REASON))
        self.expected = frontiers.frontier(law, self.costs, self.widths)

    def width_exponent(self, rng: np.random.Generator, key: str) -> Measurement:
        """Slope of the best width in compute."""
        runs, replicas = np.array(self.losses), self.losses[0].shape[0]

        def reading(losses: np.ndarray) -> float:
            return exponent_of(self.costs, _best_width(self.widths, losses))

        draws = [
            reading(np.array([row[rng.integers(replicas, size=replicas)].mean(axis=0) for row in runs]))
            for _ in range(100)
        ]
        unbiased = np.sqrt(replicas / (replicas - 1))  # (resamples scatter about the sample's mean)
        law, decay = self.law, self.law.decay
        predicted, estimate = (
            reading(np.array([law.share(self.costs / m, float(m)) for m in self.widths])),
            reading(runs.mean(axis=1)),
        )
        stderr = float(unbiased * np.std(draws, ddof=1))
        allowed = float(abs(np.mean(draws) - estimate))
        text = f"slope of the best width in compute, β = {decay:g}, P = {int(self.law.teachers)}"
        controls = {**off_by_a_tenth(predicted), "m ∝ C: no more time": 1.0, "m fixed": 0.0}
        source = "bootstrap estimate of the bias"
        details = {"asymptotic": 1 / (1 + decay)}
        return Measurement(text, predicted, estimate, stderr, allowed, controls, source, key=key, details=details)

    def level(self, wrong: PowerLawLoss, key: str) -> Measurement:
        """Least loss three quarters up the costs, at the width that is best in theory: no minimum over noise."""
        place = 3 * self.costs.size // 4
        width, predicted = int(self.expected.width[place]), float(self.expected.share[place])
        losses = self.losses[int(np.flatnonzero(self.widths == width)[0])][:, place]
        text = f"least share left at compute {self.costs[place]:.3g}, width {width}, β = {self.law.decay:g}"
        controls = {"β 10 % larger": float(wrong.share(self.costs[place] / width, float(width)))}
        return Measurement(text, predicted, *mean_and_error(losses), 0.0, controls, "none: exact sum", key=key)


def _best_width(widths: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Widths of least loss (n,) from losses (W, n): the vertex of the parabola through the lowest point and its neighbours
    on logarithmic axes; an outermost width stands as it is."""
    x, y = np.log(widths), np.log(losses)
    best = np.argmin(losses, axis=0)
    middle, column = np.clip(best, 1, widths.size - 2), np.arange(losses.shape[1])
    x0, x1, x2 = (x[middle + i] for i in (-1, 0, 1))
    y0, y1, y2 = (y[middle + i, column] for i in (-1, 0, 1))
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    vertex = (x0 + x1) / 2 - left * (x2 - x0) / 2 / (right - left)
    return np.exp(np.where(best == middle, vertex, x[best]))


def _panel(run: _Widths, teachers: int) -> tuple[str, object]:
    slope = frontiers.exponent(run.law.decay)
    # The infinite teacher in the units of this one.
    infinite = PowerLawLoss(run.law.decay, np.inf, run.law.law)
    power_law = frontiers.corrected_frontier(infinite, run.costs) * infinite.norm2 / run.law.norm2
    caption = (
        f"Loss against compute m·t for students of several widths (β = {run.law.decay:g}, P = {teachers}), the frontier "
        "of the exact sums (dashed), and that of an infinite teacher (dotted)."
    )
    means = [x.mean(axis=0) for x in run.losses]
    return caption, figures.frontier(
        list(run.widths), [run.costs] * len(means), means, run.costs, run.expected.share, power_law, slope
    )


def _trend(context: Context, decay: float) -> Iterator[Measurement]:
    """Slope of the frontier over P, and its limit."""
    sizes = (10**3, 10**5, 10**7) if context.full else (10**3, 10**4, 10**5)
    runs = []
    for teachers in sizes:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        runs.append(
            _Widths(law, int(min(1000, max(8, 6 * 10**6 // teachers))), context.rng("E22", "trend", teachers), 12)
        )
    slopes, errors = (np.array([getattr(x.fit.slope, part) for x in runs]) for part in ("value", "stderr"))
    predicted = np.array([x.fit.finite_size(x.expected.share) for x in runs])
    allowed = [log_bias(x.curve, x.fit.weights) for x in runs]
    lengths = np.log(np.array(sizes) / (SHARE * FIRST))
    measured, sums = (extrapolate(lengths, x, errors, power=2.0) for x in (slopes, predicted))
    asymptotic = exponent_value("compute", decay)
    details: dict[str, object] = {
        "P": list(sizes),
        "measured": slopes.tolist(),
        "exact sums": predicted.tolist(),
        "asymptotic": asymptotic,
    }
    expected = predicted[-1] - predicted[0]
    estimate = slopes[-1] - slopes[0]
    stderr = float(np.hypot(errors[0], errors[-1]))
    allowance = allowed[0] + allowed[-1]
    text = f"slope of the frontier at P = {sizes[-1]:.0e} less that at P = {sizes[0]:.0e}, β = {decay:g}"
    controls = {"no dependence on P": 0.0}
    yield Measurement(text, expected, estimate, stderr, allowance, controls, BIAS, key="trend", details=details)
    wrong: Controls = {"re-tuned step sizes": exponent_value("compute_unstable", decay)}
    yield limit_measurement(decay, measured.limit, sums.limit.value, max(allowed), wrong, details)

    def slope_of(teachers: float) -> float:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        widths, costs = _grids(law, 12)
        return exponent_of(costs, frontiers.frontier(law, costs, widths).share)

    yield sums_measurement(decay, slope_of, asymptotic, wrong)


def _greedy(context: Context, decay: float) -> Measurement:
    """The frontier when m neurons compete for P directions: overlaps depend on the width as well."""
    teachers, replicas = context.pick(96, 256), 320
    widths = np.array([6, 12, 24, 48] if not context.full else [8, 16, 32, 64, 128])
    weights, rng = weights_of(decay, teachers), context.rng("E22", "greedy")
    law = PowerLawLoss(decay, teachers, LargestOverlap(int(widths[-1])))
    low, high = (float(frontiers.cost_of(law, x)) for x in (FIRST, teachers / 3))
    costs = np.geomspace(low, high, 24)
    losses, exact, plain = [], [], []
    for width in widths:
        scores = greedy_scores(decay, teachers, int(width), FAR, replicas, rng)
        losses.append(staircases(scores, decay, costs / width))
        selection = selection_law(Competition.of(weights, int(width), 4))
        exact.append(greedy_share(selection, weights, costs / width))
        plain.append(greedy_share(selection, weights, costs / width, corrected=False))
    curve = Frontier([costs] * len(widths), losses, costs, rng=rng)
    fit = fit_exponent(curve, Window(costs[0], costs[-1], f"directions {FIRST} to P/3"))
    expected, fluid = (lower_envelope([costs] * len(widths), x, costs)[0] for x in (exact, plain))
    slack, source = (
        float(np.abs(fit.weights) @ np.log(expected / fluid) ** 2),
        "square of the law's finite-size correction",
    )
    text = f"slope of the frontier, neurons compete, β = {decay:g}, P = {teachers}"
    predicted, asymptotic = fit.finite_size(expected), exponent_value("compute", decay)
    controls: Controls = {"exponent in time": exponent_value("time", decay)}
    return slope_measurement(text, curve, fit, predicted, asymptotic, controls, "greedy", slack, source)


def _coupled(context: Context, decay: float) -> Iterator[Measurement]:
    """Coupled flows of several widths to their end: floors and frontier against loss sums of their own overlaps."""
    activation, widths, size = Activation.parse("h4"), (16, 32, 64, 128), 256
    teacher = Teacher.power_law(size, decay, FAR)
    floors, sums, curves, ideal = [], [], [], []
    for width in widths:
        context.progress(f"coupled flow of {width} neurons for {size} directions")
        start = draw_initial_state(teacher, Student(width, 0.003), context.rng("E22", "coupled", width))
        prediction = predict(activation, teacher, start)
        end = 1.2 * prediction.last_time
        times = _between_stairs(prediction, end)
        flow = retiring_flow(activation, teacher, start, t_end=end, times=times)
        floors.append(float(flow.loss[-1]))
        sums.append(float(prediction.loss(np.array([end]))[0]))
        curves.append((width * times, flow.loss))
        ideal.append((width * times, smooth_loss(teacher.a, prediction.time_loss, times)))
    # After its last stair a narrow student stays where it is.
    ends = 2 * max(x[-1] for x, _ in curves)
    costs = np.geomspace(curves[0][0][0], curves[-1][0][size // 4], 24)
    flow_frontier, sum_frontier = (
        lower_envelope([np.append(x, ends) for x, _ in family], [np.append(y, y[-1]) for _, y in family], costs)[0]
        for family in (curves, ideal)
    )
    predicted, measured = exponent_of(costs, sum_frontier), exponent_of(costs, flow_frontier)
    floor_slope = exponent_of(widths, sums)
    slack = 2 * float(np.abs(slope_weights(costs)).sum()) * TOLERANCE
    text = f"slope of the frontier of coupled flows, P = {size}, d = 1e6, β = {decay:g}"
    controls = off_by_a_tenth(predicted)
    details = {"asymptotic": exponent_value("compute", decay)}
    yield Measurement(text, predicted, measured, 0.0, slack, controls, "tolerance of retirement", "coupled", details)
    estimate = exponent_of(widths, floors)
    allowed = 2 * float(np.abs(slope_weights(widths)).sum()) * TOLERANCE
    text = f"slope of the coupled flow's final loss in width, P = {size}, d = 1e6, β = {decay:g}"
    controls = off_by_a_tenth(floor_slope)
    source = "tolerance of retirement"
    details = {"asymptotic": 1 - 2 * decay}
    yield Measurement(text, floor_slope, estimate, 0.0, allowed, controls, source, key="coupled.floor", details=details)


def _between_stairs(prediction: Prediction, end: float) -> np.ndarray:
    """Times between predicted stairs, and the end."""
    due = np.sort(prediction.time_loss[np.isfinite(prediction.time_loss)])
    return np.append(np.sqrt(due[1:] * due[:-1]), end)
