r"""E18, E19, E23, S10: scaling of the idealised loss with time and width, from random initial overlaps.

Losses are staircases of drawn overlaps (or of the coupled flow); what they must match is the exact finite sum, read by the
same estimator on the same window. The asymptotic exponent stands beside it. Windows are whole ranges of directions: from
the fourth on, so that no single stair matters much, to an eighth of all.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from sympy import Rational, lambdify

from dynamics.additive.retiring_flow import retiring_flow
from theory import Activation, Prediction, SingleTask, Student, Teacher, draw_initial_state, predict, scores
from theory.core import power_sums
from theory.core.curves import crossing_time
from theory.one_task import single_task
from theory.prediction.validity import finite_size_share
from theory.scaling.competition import Competition
from theory.scaling.extreme_overlaps import OverlapLaw
from theory.scaling.finite_dim_loss import FiniteDimLoss
from theory.scaling.largest_overlap import FixedOverlap, LargestOverlap
from theory.scaling.loss_sums import LossSum, smooth_loss
from theory.scaling.power_law_loss import PowerLawLoss
from theory.scaling.scaling_laws import exponent_value
from theory.scaling.selection import SelectionLaw, selection_law
from validation.experiments.loss_draws import greedy_scores, independent_staircases, staircases, weights_of
from validation.figures import scaling as figures
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.controls import TENTH, off_by_a_tenth
from validation.statistics.exponents import ExponentFit, Window, exponent_of, extrapolate, fit_exponent, slope_weights
from validation.statistics.readings import read_mean
from validation.statistics.resampling import Estimate, IndependentSamples, LogCurve, ReplicaCurves

PAPER = "arXiv:2504.19983"
DECAYS = (0.6, 0.8, 1.0, 1.5, 2.0)
#: Overlaps that a direction chooses from.
NEURONS = 1000
#: The window in directions, its upper end a share of P; points in it.
FIRST, SHARE, POINTS = 4, 8, 40
#: Far enough that overlaps are Gaussian and no transition has a visible width.
FAR = 10**6
#: Share of a direction's weight up to which the coupled flow leaves learned pairs to themselves.
TOLERANCE = 1e-3
REASON = f"directions {FIRST} to P/{SHARE}: beyond the first stairs, before the end of the teacher"


def log_bias(curve: LogCurve, weights: np.ndarray) -> float:
    """ln of a mean over replicas is low by half its relative variance: that bias of weights · logs, to leading order."""
    used = np.flatnonzero(weights)
    errors = np.array([curve.contrast(np.eye(weights.size)[j]).stderr for j in used])
    return float(0.5 * np.abs(weights[used] @ errors**2))


BIAS = computed_by(log_bias, "bias of the logarithm of a mean over replicas")


def slope_measurement(
    quantity: str,
    curve: LogCurve,
    fit: ExponentFit,
    predicted: float,
    asymptotic: float,
    controls: Controls,
    key: str,
    slack: float = 0.0,
    slack_from: str = "",
) -> Measurement:
    """A fitted exponent beside its finite-size prediction; the asymptotic exponent in the details."""
    details: dict[str, object] = {
        "asymptotic": asymptotic,
        "window": [fit.window.low, fit.window.high],
        "interval": [fit.slope.low, fit.slope.high],
        "jackknife error": fit.jackknife,
    }
    if fit.local is not None:
        details |= {"local slopes": fit.local.slopes.tolist(), "drift": fit.local.drift.value}
    slope, stderr, allowed = fit.slope.value, fit.slope.stderr, log_bias(curve, fit.weights) + slack
    source = f"{slack_from}, and {BIAS}" if slack_from else BIAS
    wrong = off_by_a_tenth(predicted) | controls
    return Measurement(quantity, predicted, slope, stderr, allowed, wrong, source, key, details)


def window_times(law: PowerLawLoss, last: float, points: int = POINTS) -> np.ndarray:
    """Reduced times of the window, uniform in their logarithm."""
    return np.geomspace(float(law.time_of(FIRST)), float(law.time_of(last)), points)


def name(decay: float) -> str:
    """Suffix of an id."""
    return f"beta{decay:g}"


@claim(
    id="E18",
    title="Power law in time",
    statement="Staircases of random heights in time add up to a power law in time.",
    latex=r"\mathcal L(t)\asymp\big(\eta t\,d^{1-J/2}\big)^{(1-2\beta)/\beta}",
    source=f"{PAPER}, Proposition 2.2; finite sums derived",
    kind="asymptotic",
    regime="directions 4 to P/8 learned; against the exact finite sum, the coupled flow against its own stairs",
    controls=(
        *TENTH,
        "β 10 % larger",
        "every overlap the root mean square",
        "every overlap √(2 ln n)",
        "no dependence on P",
        "exponent in width, 1 − 2β",
        "every direction has neurons of its own",
        "no deflation: every neuron to its own best direction",
    ),
)
def run_time(context: Context) -> Iterator[Part]:
    """Slopes in time for five decays, their level, their trend over P, and greedy selection."""
    shown = []
    teachers, replicas = context.pick(10**4, 10**5), 64
    for decay in DECAYS:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        times = window_times(law, teachers / SHARE)
        rng = context.rng("E18", "slopes", name(decay))
        losses = independent_staircases(law, times, replicas, rng)
        curve = ReplicaCurves(times, losses, rng=rng)
        fit = fit_exponent(curve, Window(times[0], times[-1], REASON))
        predicted = fit.finite_size(law.share(times))
        wrong = PowerLawLoss(1.1 * decay, teachers, law.law)
        asymptotic = exponent_value("time", decay)
        text = f"slope of the loss in time, β = {decay:g}, P = {teachers:.0e}"
        controls: Controls = {"β 10 % larger": fit.finite_size(wrong.share(times))}
        yield slope_measurement(text, curve, fit, predicted, asymptotic, controls, name(decay))
        yield _level(curve, law, times, name(decay))
        shown.append((decay, times, losses, law.share(times), law.limit(times)))
    yield from _trend(context, 0.8)
    yield from _greedy(context, 0.8)
    yield _coupled(context, 0.8)
    caption = (
        f"Loss sums of {replicas} draws of random overlaps (P = {teachers:.0e}, mean), the exact expected sum (dashed) and "
        "the power law of an infinite teacher (dotted), whose slope is the asymptotic exponent."
    )
    yield caption, figures.loss_sums(shown)


def _level(curve: LogCurve, law: PowerLawLoss, times: np.ndarray, key: str) -> Measurement:
    """Logarithm of the loss at the end of the window: here random overlaps show, as E[g^q] in place of a power."""
    at = np.eye(1, times.size, times.size - 1)[0]
    found, square = curve.contrast(at), law.law.moment(2)
    replaced = {
        "every overlap the root mean square": float(np.sqrt(square)),
        "every overlap √(2 ln n)": float(np.sqrt(2 * np.log(NEURONS))),
    }
    controls = {
        title: float(np.log(PowerLawLoss(law.decay, law.teachers, FixedOverlap(value)).share(times[-1])))
        for title, value in replaced.items()
    }
    predicted = float(np.log(law.share(times[-1])))
    allowed = log_bias(curve, at)
    text = f"logarithm of the loss when about P/{SHARE} directions are learned, β = {law.decay:g}"
    details = {"two-term law": float(np.log(law.corrected(times[-1]))), "E[g^q]^(1/q)": law.typical_overlap}
    return Measurement(text, predicted, found.value, found.stderr, allowed, controls, BIAS, f"{key}.level", details)


def _trend(context: Context, decay: float) -> Iterator[Measurement]:
    """Slopes over P: how they change, and their limit."""
    sizes = (10**3, 10**4, 10**5, 10**6, 10**7) if context.full else (10**3, 10**4, 10**5)
    slopes, errors, predicted, allowed = [], [], [], []
    for teachers in sizes:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        times, rng = window_times(law, teachers / SHARE), context.rng("E18", "trend", teachers)
        replicas = int(min(1800, max(8, 25 * 10**6 // teachers)))
        losses = independent_staircases(law, times, replicas, rng)
        curve = ReplicaCurves(times, losses, rng=rng)
        fit = fit_exponent(curve, Window(times[0], times[-1], REASON))
        slopes.append(fit.slope.value)
        errors.append(fit.slope.stderr)
        predicted.append(fit.finite_size(law.share(times)))
        allowed.append(log_bias(curve, fit.weights))
    asymptotic = exponent_value("time", decay)
    # The end of the teacher bends only the last directions of the window: on a window of length L in ln p that moves the
    # least-squares slope by a term of order 1/L².
    lengths = np.log(np.array(sizes) / (SHARE * FIRST))
    measured, sums = (extrapolate(lengths, x, errors, power=2.0) for x in (slopes, predicted))
    details: dict[str, object] = {
        "P": list(sizes),
        "measured": slopes,
        "exact sums": predicted,
        "asymptotic": asymptotic,
    }
    expected = predicted[-1] - predicted[0]
    estimate = slopes[-1] - slopes[0]
    stderr = float(np.hypot(errors[0], errors[-1]))
    allowance = allowed[0] + allowed[-1]
    text = f"slope at P = {sizes[-1]:.0e} less slope at P = {sizes[0]:.0e}, β = {decay:g}"
    controls = {"no dependence on P": 0.0}
    yield Measurement(text, expected, estimate, stderr, allowance, controls, BIAS, key="trend", details=details)
    wrong: Controls = {"exponent in width, 1 − 2β": 1 - 2 * decay}
    yield limit_measurement(decay, measured.limit, sums.limit.value, max(allowed), wrong, details)

    def slope_of(teachers: float) -> float:
        law = PowerLawLoss(decay, teachers, LargestOverlap(NEURONS))
        times = window_times(law, teachers / SHARE)
        return exponent_of(times, law.share(times))

    yield sums_measurement(decay, slope_of, asymptotic, wrong)


def limit_measurement(
    decay: float, found: Estimate, predicted: float, bias: float, controls: Controls, details: dict[str, object]
) -> Measurement:
    """Measured slopes taken to P → ∞, beside what the same extrapolation, sizes and weights, makes of the exact sums."""
    text = f"slope extrapolated in 1/ln(P/{SHARE * FIRST})², β = {decay:g}"
    wrong = off_by_a_tenth(predicted) | controls
    return Measurement(text, predicted, found.value, found.stderr, bias, wrong, BIAS, "limit", details)


#: Numbers of directions of the exact sums: ln P doubles.
_SUMS = (1e3, 1e6, 1e12)


def sums_measurement(
    decay: float, slope_of: Callable[[float], float], asymptotic: float, controls: Controls
) -> Measurement:
    """Slopes of the exact sums taken to P → ∞ from two sizes; what half the logarithms give differs by more than is left."""
    slopes = np.array([slope_of(teachers) for teachers in _SUMS])
    lengths = np.log(np.array(_SUMS) / (SHARE * FIRST))
    coarse, fine = (extrapolate(lengths[x], slopes[x], power=2.0).limit.value for x in (slice(2), slice(1, 3)))
    text = f"slope of the exact sums extrapolated in 1/ln(P/{SHARE * FIRST})², P = 1e6 and 1e12, β = {decay:g}"
    wrong = off_by_a_tenth(asymptotic) | controls
    details: dict[str, object] = {"P": list(_SUMS), "slopes": slopes.tolist()}
    source = "change from P = 1e3 and 1e6, of half the logarithms"
    return Measurement(text, asymptotic, fine, 0.0, abs(fine - coarse), wrong, source, "sums", details)


def _greedy(context: Context, decay: float) -> Iterator[Measurement]:
    """Neurons compete: slope up to half of the directions, and the loss when about all are learned."""
    teachers, neurons, replicas = context.pick(96, 256), context.pick(192, 512), context.pick(64, 100)
    independent = PowerLawLoss(decay, teachers, LargestOverlap(neurons))
    times = window_times(independent, teachers)
    rng = context.rng("E18", "greedy")
    curve = ReplicaCurves(
        times, staircases(greedy_scores(decay, teachers, neurons, FAR, replicas, rng), decay, times), rng=rng
    )
    fit = fit_exponent(
        curve, Window(times[0], float(independent.time_of(teachers / 2)), "the middle: directions 4 to P/2")
    )
    weights = weights_of(decay, teachers)
    law = selection_law(Competition.of(weights, neurons, 4))
    expected, plain = (greedy_share(law, weights, times, corrected) for corrected in (True, False))
    predicted = fit.finite_size(expected)
    # Where the correction of first order in the inverse size is c, the next is of the order of c².
    second = np.log(expected / plain) ** 2
    at = np.eye(1, times.size, times.size - 1)[0]
    end, title = curve.contrast(at), f"P = {teachers}, {neurons} neurons compete, β = {decay:g}"
    slack = "square of the law's finite-size correction"
    text, asymptotic = f"slope of the loss in time, {title}", exponent_value("time", decay)
    missing = float(np.abs(fit.weights) @ second)
    yield slope_measurement(text, curve, fit, predicted, asymptotic, {}, "greedy", missing, slack)
    theory = float(np.log(expected[-1]))
    allowed = float(second[-1]) + log_bias(curve, at)
    text = f"logarithm of the loss when P directions are due, {title}"
    controls = {"every direction has neurons of its own": float(np.log(independent.share(times[-1])))}
    yield Measurement(text, theory, end.value, end.stderr, allowed, controls, f"{slack}, and {BIAS}", "greedy.level")


def greedy_share(law: SelectionLaw, weights: np.ndarray, times: np.ndarray, corrected: bool = True) -> np.ndarray:
    """Expected share of the loss left at reduced times under greedy selection, by its fluid limit."""
    return np.array([law.residual(weights**2, 1 / time, corrected) for time in times]) / np.sum(weights**2)


def _coupled(context: Context, decay: float) -> Measurement:
    """The coupled flow, hundreds of overlaps at once, against the loss sum from its own initial overlaps."""
    size = context.pick(32, 128)
    activation, teacher = Activation.parse("h4"), Teacher.power_law(size, decay, FAR)
    slopes, sums, slack, alone = [], [], [], []
    for number in range(1, context.pick(2, 4) + 1):
        context.progress(f"coupled flow of {size} neurons, start {number}")
        start = draw_initial_state(teacher, Student(size, 0.003), context.rng("E18", "coupled", number))
        prediction = predict(activation, teacher, start)
        # Between two stairs, where the moment of a jump does not matter.
        due = np.sort(prediction.time_loss)[1 : size // 2 + 1]
        times = np.sqrt(due[1:] * due[:-1])
        flow = retiring_flow(activation, teacher, start, t_end=float(times[-1]), times=times)
        steps, smooth = prediction.loss(times), smooth_loss(teacher.a, prediction.time_loss, times)
        weights = slope_weights(times)
        slopes.append(float(weights @ np.log(flow.loss)))
        sums.append(float(weights @ np.log(smooth)))
        slack.append(float(np.abs(weights) @ (_under_way(prediction, times) / steps + TOLERANCE)))
        alone.append(exponent_of(times, _without_deflation(prediction, start.overlap, times)))
    predicted = float(np.mean(sums))
    allowed = float(np.mean(slack))
    text = f"slope of the coupled flow's loss, directions 2 to P/2, P = m = {size}, β = {decay:g}, d = 1e6"
    controls = {
        **off_by_a_tenth(predicted),
        "no deflation: every neuron to its own best direction": float(np.mean(alone)),
    }
    source = computed_by(
        _under_way, "transitions under way, their lateness at finite size, and the tolerance of retirement"
    )
    details = {"asymptotic": exponent_value("time", decay), "slopes": slopes}
    return Measurement(text, predicted, float(np.mean(slopes)), 0.0, allowed, controls, source, "coupled", details)


def _under_way(prediction: Prediction, times: np.ndarray) -> np.ndarray:
    """By how much the loss may be off its stairs at `times`: those that are near each other do not cancel here.

    A direction's stair is as wide as its transition, and as late as finite size makes it: by M₀ ln(1/M₀) of its time, up to
    the factor that `well_separated` takes.
    """
    found = np.zeros(len(times))
    for weight, due, squared in zip(prediction.teacher.a, prediction.time_loss, prediction.overlap**2, strict=True):
        if np.isfinite(due):
            a, late = np.array([weight]), finite_size_share(squared)
            stair = LossSum.of(a, np.array([due]))(times)
            shifted = [smooth_loss(a, np.array([share * due]), times) for share in (1 - late, 1.0, 1 + late)]
            found += np.max(np.abs(np.array(shifted) - stair), axis=0)
    return found


def _without_deflation(prediction: Prediction, overlap: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The staircase if learned directions went on attracting: a direction is learned by neurons whose best it is."""
    score = scores(overlap, prediction.teacher, prediction.activation.information_exponent)
    own = np.where(score == score.max(axis=1, keepdims=True), score, 0.0).max(axis=0)
    # Scores and times are inversely proportional; the selected pairs say with which constant.
    chosen = prediction.selection
    constant = float(np.median(prediction.time_loss[chosen.directions] * chosen.scores))
    with np.errstate(divide="ignore"):
        return LossSum.of(prediction.teacher.a, constant / own)(times)


@claim(
    id="E19",
    title="Floor in width",
    statement="A student of width m leaves a loss that falls as a power of m.",
    latex=r"\mathcal L(m,\infty)\asymp m^{1-2\beta}",
    source=f"{PAPER}, Proposition 2.2; law of greedy selection derived",
    kind="asymptotic",
    regime="greedy selection, m < P/2; against its fluid limit with the first finite-size correction",
    controls=("exponent 10 % larger", "exponent 10 % smaller"),
)
def run_width(context: Context) -> Iterator[Part]:
    """Loss that a student of width m < P leaves in the end under greedy selection: its slope in m."""
    shown = []
    teachers = context.pick(96, 256)
    # A strong direction is missed rarely and at a great cost, the more so the steeper the weights and the narrower the
    # student: means need more draws there.
    widths = np.array([16, 32, 48] if not context.full else [16, 32, 64, 128])
    for decay in DECAYS:
        replicas = context.pick(240, 600) if decay < 2 else context.pick(2400, 4800)
        weights, rng = weights_of(decay, teachers), context.rng("E19", name(decay))
        total = np.sum(weights**2)
        losses, laws = [], []
        for width in widths:
            scores = greedy_scores(decay, teachers, int(width), FAR, replicas, rng)
            losses.append(np.sum(weights**2 * (scores == 0), axis=1) / total)
            laws.append(selection_law(Competition.of(weights, int(width), 4)))
        curve = IndependentSamples(widths, losses, rng=rng, statistic="mean")
        fit = fit_exponent(curve, Window(widths[0], widths[-1], "all widths, each below P/2"))
        expected, plain = (np.array([x.residual(weights**2, corrected=c) for x in laws]) / total for c in (True, False))
        ideal = power_sums.power_sum(2 * decay, widths, teachers) / total
        second = np.log(expected / plain) ** 2
        slack = "square of the law's finite-size correction"
        text = f"slope of the final loss in width, β = {decay:g}, P = {teachers}, greedy"
        predicted, asymptotic = fit.finite_size(expected), exponent_value("width", decay)
        missing = float(np.abs(fit.weights) @ second)
        yield slope_measurement(text, curve, fit, predicted, asymptotic, {}, name(decay), missing, slack)
        shown.append((decay, widths, np.exp(curve.logs), expected, ideal))
    caption = (
        f"Loss left by a student of width m (P = {teachers}, mean over draws), the law of greedy selection "
        "(dashed) and what the first m directions leave (dotted)."
    )
    yield caption, figures.floors(shown)


#: Relative error of the interpolated exact one-task time.
_TABLE = 1e-6


@claim(
    id="E23",
    title="The exponent does not depend on the dimension",
    statement="The dimension sets the unit of time, not the slope.",
    latex=r"\mathcal L=\ell\big(\eta t\,d^{1-J/2}\big)",
    source=f"{PAPER}, Proposition 2.2; exact one-task law derived",
    kind="asymptotic",
    regime="d = 400 to 4e5, decoupled directions; against exact overlaps and one-task times",
    controls=(
        *TENTH,
        "a tenth steeper at large d",
        "a tenth flatter at large d",
        "√d",
        "d^(J/2)",
        "10 % larger",
        "10 % smaller",
    ),
)
def run_dimension(context: Context) -> Iterator[Part]:
    """Slopes in time at several d, from finite-dimensional overlaps and exact one-task times; the time unit's exponent."""
    decay, teachers, neurons, replicas = 1.0, 256, 100, context.pick(100, 400)
    dims = np.array([400.0, 4000.0, 40_000.0, 400_000.0])
    activation = Activation.parse("h4")
    fits, times_at, laws_at, errors = [], [], [], []
    for place, dim in enumerate(dims):
        law = FiniteDimLoss(activation, decay, teachers, LargestOverlap(neurons, OverlapLaw(float(dim))))
        rng, times = context.rng("E23", int(dim)), window_times(law.limit, teachers / SHARE)
        losses = staircases(_exact_scores(law, replicas, rng), decay, times)
        curve = ReplicaCurves(times, losses, rng=rng)
        fit = fit_exponent(curve, Window(times[0], times[-1], REASON))
        expected = law.share(times)
        fits.append((curve, fit, fit.finite_size(expected)))
        level = float(law.limit.share(law.limit.time_of(teachers / 16)))
        reached, error = read_mean(losses, partial(time_at, times, level=level), rng, 200)
        times_at.append(reached * law.unit)
        laws_at.append(time_at(times, expected, level) * law.unit)
        errors.append(error / reached)
        if place in (0, dims.size - 1):
            text, asymptotic = (
                f"slope of the loss in time, exact one-task law, β = 1, d = {dim:.0e}",
                exponent_value("time", decay),
            )
            source = "interpolated exact one-task time"
            yield slope_measurement(text, curve, fit, fits[-1][2], asymptotic, {}, f"d{place}", _TABLE, source)
    first, last = fits[0], fits[-1]
    change = last[2] - first[2]
    estimate = last[1].slope.value - first[1].slope.value
    stderr = float(np.hypot(first[1].slope.stderr, last[1].slope.stderr))
    allowed = sum(log_bias(curve, fit.weights) for curve, fit, _ in (first, last)) + 2 * _TABLE
    text = f"slope at d = {dims[-1]:.0e} less slope at d = {dims[0]:.0e}"
    controls = {
        f"a tenth {word} at large d": change + sign * 0.1 * last[2] for word, sign in (("steeper", 1), ("flatter", -1))
    }
    source = f"interpolated exact one-task time, and {BIAS}"
    yield Measurement(text, change, estimate, stderr, allowed, controls, source, key="change")
    weights = slope_weights(dims)
    predicted = float(weights @ np.log(laws_at))
    estimate = float(weights @ np.log(times_at))
    stderr = float(np.sqrt(weights**2 @ np.square(errors)))
    allowed = float(np.abs(weights) @ np.square(errors)) / 2 + _TABLE
    text = "exponent in d of the time at which a fixed share of the loss is left"
    controls = {"√d": 0.5, "d^(J/2)": 2.0, "10 % larger": 1.1, "10 % smaller": 0.9}
    source = f"interpolated exact one-task time, and {BIAS}"
    yield Measurement(text, predicted, estimate, stderr, allowed, controls, source, "unit", {"asymptotic": 1.0})


def _exact_scores(law: FiniteDimLoss, replicas: int, rng: np.random.Generator) -> np.ndarray:
    """Inverse reduced times from drawn coordinates of unit vectors and the closed implicit solution of one task."""
    dim, start, weight = law.law.law.dim, single_task.M0, single_task.a
    half_time = lambdify((start, weight), SingleTask(law.activation).implicit_time(start, Rational(1, 2)))
    squares = [rng.beta(0.5, (dim - 1) / 2, (law.law.count, law.teachers)).max(axis=0) for _ in range(replicas)]
    return law.unit / half_time(np.array(squares), weights_of(law.decay, law.teachers))


def time_at(times: np.ndarray, losses: np.ndarray, level: float) -> float:
    """When a decreasing curve passes a level, linear in the logarithms; its end if it does not."""
    found = crossing_time(times, np.log(losses), np.log(level), falling=True, log_time=True)
    return min(found, float(times[-1]))


@claim(
    id="S10",
    title="What p directions leave",
    statement="The loss after p directions is the tail of the squared weights.",
    latex=r"\mathcal L(T_p)\approx\int_p^\infty s^{-2\beta}ds=\frac{p^{1-2\beta}}{2\beta-1}",
    source="slides of arXiv:2504.19983",
    kind="asymptotic",
    regime="equal overlaps; against the Euler–Maclaurin expansion with its bound",
    controls=("the integral ∫ s^(−2β) ds alone", "p^(1−2β) without 1/(2β−1)", "counted before the p-th jump"),
)
def run_tail(context: Context) -> Iterator[Part]:
    """The loss just after p directions: in their order with equal overlaps, and in the order of drawn times."""
    teachers = 10**6
    for decay in (0.8, 1.5):
        weights = weights_of(decay, teachers)
        steps = LossSum.of(weights, 1 / weights)
        p = 100
        infinite = 2 * float(steps(1 / weights[p - 1])) + float(power_sums.power_sum(2 * decay, teachers))
        numbers = {power_sums.s: 2 * decay, power_sums.n: p}
        predicted, bound = (float(x.subs(numbers)) for x in (power_sums.expansion(1), power_sums.remainder_bound(1)))
        leading = p ** (1 - 2 * decay) / (2 * decay - 1)
        allowed = bound + teachers * 2e-16 * infinite
        text = f"loss after p = {p} directions, tail beyond P = 1e6 added, β = {decay:g}"
        controls = {
            "the integral ∫ s^(−2β) ds alone": leading,
            "p^(1−2β) without 1/(2β−1)": p ** (1 - 2 * decay),
            "counted before the p-th jump": predicted + p ** (-2 * decay),
        }
        source = "first term left out of the Euler–Maclaurin expansion, and rounding"
        details = {"integral over sum": leading / infinite}
        yield Measurement(text, predicted, infinite, 0.0, allowed, controls, source, key=name(decay), details=details)
