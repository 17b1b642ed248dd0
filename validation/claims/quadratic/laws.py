"""Q6–Q10, Q16, Q17, Q19: scaling laws of quadratic networks, from random starts in up to 10⁹ dimensions.

Every quantity is read off replicas of the Riccati flow and off the self-consistent law of `theory.quadratic.occupation` in
the same way; the asymptotic law stands beside it. The allowance is the size of the law's corrections of order 1/N.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from theory import QuadraticModel, Teacher
from theory.core.curves import crossing_time, first_crossing, log_slope
from theory.quadratic import scaling
from theory.quadratic.model import decoupled_risk, emergence_times, floor
from theory.quadratic.occupation import Occupation
from validation.claims.quadratic.exact import PAPER
from validation.experiments.quadratic_runs import between, diagonals, power_law, risks
from validation.figures import quadratic as figures
from validation.judge.claim import Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.readings import Reading, carried_slope, read_mean
from validation.statistics.standard_errors import mean_and_error

COST = 11

_FROM = computed_by(Occupation, "terms of order 1/N: fluctuating odds, and change of the law when N changes by one")


def _laws(context: Context, spectrum: np.ndarray, dim: int, width: int) -> list[Occupation]:
    """The law at N; with the fluctuations of the odds; at N + ½ and N − ½."""
    law = Occupation(spectrum, dim, width)
    return [
        law,
        *(
            replace(law, **change)
            for change in ({"fluctuations": True}, {"width": width + 0.5}, {"width": width - 0.5})
        ),
    ]


def _spread(values: Sequence[float]) -> float:
    """Allowance from a reading at the four laws: the correction by fluctuations, and the change when N changes by one."""
    at, fluctuating, more, less = values
    return abs(at - fluctuating) + abs(more - less)


def _read_law(reading: Reading, laws: Sequence[Occupation], times: np.ndarray) -> tuple[float, float]:
    """A reading of the law's risk curve, and its allowance."""
    values = [reading(law.risk(times)) for law in laws]
    return values[0], _spread(values)


@claim(
    id="Q6",
    title="Emergence times of a quadratic network",
    statement="A direction emerges at a time inversely proportional to its weight and logarithmic in d/N.",
    latex=r"T_j=\frac{\|A\|_F}{2\gamma a_j}\log\frac dN",
    source=f"{PAPER}; constant derived",
    kind="asymptotic",
    regime="d to 1e9, N = 30; compared with the self-consistent law",
    controls=(
        "log d in place of log(d/N)",
        "factor 2 of 2Ã left out",
        "weights without their norm",
        "T_j doubled",
        "T_j halved",
    ),
)
def run_emergence(context: Context) -> Iterator[Part]:
    """Half-times of G_jj over the leading T_j, at growing d, and their limit in 1/log(d/N)."""
    a, width = power_law(60, 1.0), 30
    dims = (10**3, 10**5, 10**7, 10**9)
    for direction in (1, 4):
        laws, runs, spreads = [], [], []
        for dim in dims:
            leading = float(emergence_times(a, dim, width)[direction - 1])
            times = np.geomspace(0.65 * leading, 1.5 * leading, 24)
            law = _laws(context, a, dim, width)
            reading = partial(crossing_time, times, level=0.5, log_time=True)
            half = [reading(x.diagonal(times)[:, direction - 1]) / leading for x in law]
            curves = diagonals(context, a, width, dim, times, context.pick(28, 100))[:, :, direction - 1]
            estimate, stderr = read_mean(curves, reading, context.rng("Q6", direction, dim, "resampling"), 200)
            laws.append(half)
            runs.append(estimate / leading)
            spreads.append(stderr / leading)
        predicted, allowed = laws[-1][0], _spread(laws[-1])
        grid = (np.log(1.5 / 0.65) / 23) ** 2  # the crossing is interpolated linearly between neighbours in log time
        controls = {
            "log d in place of log(d/N)": float(np.log(dims[-1]) / np.log(dims[-1] / width)),
            "factor 2 of 2Ã left out": 2 * predicted,
            "weights without their norm": predicted / float(a[0] * np.sqrt(np.sum((a / a[0]) ** 2)) / a[0]),
        }
        text = f"half-time of G_jj over T_j, j = {direction}, d = 1e9"
        details = {"d": list(dims), "measured": runs, "law": laws}
        key = f"j{direction}"
        yield Measurement(text, predicted, runs[-1], spreads[-1], allowed + grid, controls, _FROM, key, details)
        yield _limit(dims, width, runs, spreads, laws, direction)


def _limit(
    dims: Sequence[int], width: int, runs: list[float], spreads: list[float], laws: list[list[float]], direction: int
) -> Measurement:
    """Intercept of the ratio in 1/log(d/N); the allowance is what the law's own curvature makes of it.

    That is how far its intercept of first order lies from that of second: an error of T_j alone moves both alike.
    """
    x = 1 / np.log(np.array(dims) / width)
    weights, bent = (np.linalg.pinv(x[:, None] ** np.arange(order + 1))[0] for order in (1, 2))
    law = np.array(laws)  # (dims, four laws)
    curvature = abs(float((weights - bent) @ law[:, 0]))
    shift = _spread([float(weights @ column) for column in law.T])
    estimate = float(weights @ np.array(runs))
    stderr = float(np.sqrt(weights**2 @ np.array(spreads) ** 2))
    allowed = curvature + shift
    text = f"limit of that ratio as d → ∞, j = {direction}"
    controls = {"T_j doubled": 0.5, "T_j halved": 2.0}
    source = computed_by(
        Occupation, "curvature of the self-consistent law over these d, and its own corrections of order 1/N"
    )
    return Measurement(text, 1.0, estimate, stderr, allowed, controls, source, key=f"j{direction}.limit")


def _steep_slope(spectrum: np.ndarray, decay: float, times: np.ndarray) -> Reading:
    """Slope of the risk with the teacher's tail beyond M* added, so that M* does not bend it."""
    missing = scaling.tail_beyond(decay, spectrum.size) / scaling.partial_norm2(decay, spectrum.size)
    return lambda risk: log_slope(times, risk + 2 * missing)


@claim(
    id="Q7",
    title="Loss in time, decay above one half",
    statement="The risk falls as a power of time with exponent (1 − 2β)/β.",
    latex=r"\mathcal L(t)\sim t^{(1-2\beta)/\beta}",
    source=f"{PAPER}, time-complexity theorem",
    kind="asymptotic",
    regime="between T_2 and T_{N/4}; compared with the self-consistent law",
    controls=(
        "exponent of the width, 1 − 2β",
        "re-tuned steps, (1 − 2β)/(2β)",
        "loss ∝ learned amplitude, (1 − β)/β",
        "decay wrong by a quarter",
        "no dependence on d",
    ),
)
def run_time_exponent(context: Context) -> Iterator[Part]:
    """Slopes of R_opt between T_2 and T_{N/4} for three decays, and their trend over d."""
    curves = []
    teachers, width = context.pick(300, 800), context.pick(64, 200)  # (d = 10³ must hold all directions)
    dims = (10**3, 10**5, 10**7, 10**9)
    for decay in (0.75, 1.0, 1.5):
        a = power_law(teachers, decay)
        asymptotic = float(scaling.time_exponent(decay))
        trend = {}
        for dim in dims:
            times = between(a, width, dim, 2, width // 4, 10)
            reading = _steep_slope(a, decay, times)
            predicted, allowed = _read_law(reading, _laws(context, a, dim, width), times)
            runs = risks(context, a, width, dim, times, context.pick(32, 48))
            estimate, stderr = read_mean(runs, reading, context.rng("Q7", _name(decay), dim, "resampling"), 200)
            trend[dim] = (predicted, estimate, stderr, allowed)
            if dim in (10**5, 10**9):
                controls = {
                    "loss ∝ learned amplitude, (1 − β)/β": (1 - decay) / decay,
                    "decay wrong by a quarter": float(scaling.time_exponent(1.25 * decay)),
                }
                if decay == 1.0:
                    controls["re-tuned steps, (1 − 2β)/(2β)"] = asymptotic / 2
                else:
                    controls["exponent of the width, 1 − 2β"] = 1 - 2 * decay
                text, key = (
                    f"slope of R_opt in time, β = {decay:g}, d = {dim:.0e}",
                    f"{_name(decay)}.d1e{len(str(dim)) - 1}",
                )
                details = {"asymptotic": asymptotic}
                yield Measurement(text, predicted, estimate, stderr, allowed, controls, _FROM, key, details)
        yield _trend(decay, trend)
        curves.append((decay, dims, [trend[x][1] for x in dims], asymptotic))
    caption = "Slopes of the risk in time over d, and their limits (dashed)."
    panels = [_risk_figure(context, 1.0, 200, (5, 20, 80), 10**6), (caption, figures.slopes_over_dim(curves))]
    yield from panels


def _name(decay: float) -> str:
    return f"beta{decay:g}"


def _trend(decay: float, trend: dict[int, tuple[float, float, float, float]]) -> Measurement:
    """Change of the slope from d = 10³ to 10⁹."""
    far, near = trend[10**3], trend[10**9]
    stderr = float(np.hypot(far[2], near[2]))
    text = f"slope at d = 1e9 less slope at d = 1e3, β = {decay:g}"
    controls = {"no dependence on d": 0.0}
    details = {"d": list(trend), "slopes": [x[1] for x in trend.values()], "law": [x[0] for x in trend.values()]}
    predicted = near[0] - far[0]
    key = f"{_name(decay)}.trend"
    return Measurement(text, predicted, near[1] - far[1], stderr, far[3] + near[3], controls, _FROM, key, details)


def _risk_figure(context: Context, decay: float, teachers: int, widths: Sequence[int], dim: int) -> tuple[str, object]:
    """Risk of one start for several widths, with the law, the floors, and the asymptotic law of the decay."""
    a = power_law(teachers, decay)
    curves = []
    for width in widths:
        times = np.geomspace(0.4 * emergence_times(a, dim, width)[0], 3 * emergence_times(a, dim, width)[-1], 60)
        law = Occupation(a, dim, width).risk(times) / 2
        curves.append((f"N = {width}", times, risks(context, a, width, dim, times, 1)[0] / 2, law, floor(a, width) / 2))
    times = curves[-1][1]
    if decay > 0.5:
        late = times[(times > emergence_times(a, dim, widths[-1])[2])]
        slope_of_law = float(scaling.time_exponent(decay))
        level = 1.6 * Occupation(a, dim, widths[-1]).risk(late[:1])[0] / 2
        guide = (late, level * (late / late[0]) ** slope_of_law, f"slope {slope_of_law:.3g}")
    else:
        unit = scaling.heavy_unit(teachers, dim, widths[-1])
        guide = (times, scaling.heavy_risk(decay, times / unit, widths[-1] / teachers), "limit law, largest N")
    caption = (
        f"Risk against time, β = {decay:g}, M* = {teachers}, d = {dim:.0e}: one start for each width, the self-consistent "
        "law (dashed), the floors (dotted) and the asymptotic law (dash-dotted)."
    )
    return caption, figures.risk_curves(curves, guide, log_risk=decay > 0.5)


@claim(
    id="Q8",
    title="Width floor",
    statement="At late times the risk is that of the best fit with N directions.",
    latex=r"\tfrac12R\to\sum_{j>N}\tilde a_j^2\sim N^{1-2\beta}",
    source=f"{PAPER}, time-complexity theorem; constant derived",
    kind="exact",
    regime="after the gap between directions N and N + 1 has opened",
    controls=(
        "top N + 1",
        "top N − 1",
        "integral in place of the sum",
        "sum of the directions beyond N",
        "exponent in time, (1 − 2β)/β at β = 0.75",
        "1 − β",
    ),
)
def run_floor(context: Context) -> Iterator[Part]:
    """Risk long after the last gap has opened, and the exponent of its level in N."""
    decay, dim = 1.0, 10**6
    a = power_law(200, decay)
    levels = []
    for width in (5, 10, 20, 39, 40):
        gap = a[width - 1] - a[width]
        # e^{−2τ gap} d/N = 1e−10: what is left of the transient, up to a factor of order N.
        late = np.array([np.log(1e10 * dim / width) / (2 * gap)])
        runs = risks(context, a, width, dim, late, 4)[:, 0]
        level = floor(a, width)
        estimate, stderr = mean_and_error(runs)
        levels.append(estimate)
        if width in (5, 20):
            controls = {
                "top N + 1": floor(a, width + 1),
                "top N − 1": floor(a, width - 1),
                "integral in place of the sum": scaling.floor_integral(decay, width),
            }
            text = f"late risk, β = 1, M* = 200, N = {width}"
            source = "transient left at the chosen time"
            yield Measurement(text, level, estimate, stderr, 1e-10 * width**2, controls, source, key=f"N{width}")
    yield _integral(decay, a.size, levels.pop(-2), levels[-1])
    widths = np.array([5.0, 10.0, 20.0, 40.0])
    rest = 2 * scaling.tail_beyond(decay, a.size) / scaling.partial_norm2(decay, a.size)
    predicted = log_slope(widths, np.array([floor(a, int(x)) for x in widths]) + rest)
    measured = log_slope(widths, np.array(levels) + rest)
    text = "exponent of the late risk in N, β = 1, tail beyond M* added"
    wrong = {"exponent in time, (1 − 2β)/β at β = 0.75": -2 / 3, "1 − β": 0.0}
    source = "transient left at the chosen time"
    details = {"asymptotic": 1 - 2 * decay}
    yield Measurement(text, predicted, measured, 0.0, 1e-8, wrong, source, key="exponent", details=details)


def _integral(decay: float, teachers: int, before: float, level: float) -> Measurement:
    """The leading form of the floor: an integral, which the mean of the sums beyond N − 1 and beyond N = 40 meets."""
    width, kept, rest = 40, scaling.partial_norm2(decay, teachers), scaling.tail_beyond(decay, teachers)
    # The infinite teacher in its own units.
    estimate = ((before + level) / 2 * kept + 2 * rest) / (kept + rest)
    predicted = scaling.floor_integral(decay, width)
    # Of the trapezoidal rule beyond N: at most an eighth of the slope there.
    allowed = predicted * decay * (2 * decay - 1) / (4 * width**2)
    controls = {"sum of the directions beyond N": 2 * scaling.tail_beyond(decay, width) / (kept + rest)}
    text = "late risk for M* to infinity, β = 1, mean of N = 39 and 40"
    source = "error of the trapezoidal rule"
    return Measurement(text, predicted, estimate, 0.0, allowed, controls, source, key="integral")


def _half_of_first(risk: np.ndarray) -> float:
    return float(risk[0]) / 2


@claim(
    id="Q9",
    title="Loss in time, decay below one half",
    statement="With a heavy tail nearly all of the risk falls within one time unit, down to a plateau set by N/M*.",
    latex=r"\tfrac12R=1-\min(x,\varphi)^{1-2\beta},\quad\tau=\frac{\sqrt{M_*}\,x^\beta}{2\gamma\sqrt{1-2\beta}}\log\frac dN",
    source=f"{PAPER}, time-complexity theorem; constants derived",
    kind="asymptotic",
    regime="β = ¼, N = M*/2, d = 1e8; against the self-consistent law",
    controls=(
        "decoupled directions",
        "exponent in time of β > ½",
        "unit log(d/N) without √M*",
        "unit M* log(d/N) at γ = 1",
        "limit 1 − φ^{1−2β}",
        "half the width",
    ),
)
def run_heavy_tail(context: Context) -> Iterator[Part]:
    """β = ¼: the risk at several times in units of √M* log(d/N), and its plateau; several M* collapse."""
    decay, dim, shown = 0.25, 10**8, []
    replicas = context.pick(10, 40)
    for teachers in (100, 200, 400):
        a, width = power_law(teachers, decay), int(0.5 * teachers)
        unit = scaling.heavy_unit(teachers, dim, width)
        grid = np.geomspace(0.15, 6.0, 24)
        runs = risks(context, a, width, dim, unit * grid, replicas)
        shown.append((teachers, grid, runs.mean(axis=0) / 2))
    a, width = power_law(200, decay), 100
    law, unit = _laws(context, a, dim, width), scaling.heavy_unit(200, dim, width)
    for place, share in (("early", 0.2), ("middle", 0.4), ("plateau", 1.0)):
        at = np.array([unit * scaling.heavy_time(decay, share) if place != "plateau" else 8 * unit])
        predicted, allowed = _read_law(_half_of_first, law, at)
        estimate, stderr = read_mean(
            risks(context, a, width, dim, at, replicas), _half_of_first, context.rng("Q9", place, "resampling"), 200
        )
        asymptotic = scaling.heavy_risk(decay, scaling.heavy_time(decay, min(share, 0.5)), 0.5)
        controls = (
            {
                "decoupled directions": float(decoupled_risk(a, dim, width, at)[0]) / 2,
                "exponent in time of β > ½": float(scaling.heavy_time(decay, share) ** scaling.time_exponent(decay)),
            }
            if place != "early"
            else {
                "unit log(d/N) without √M*": float(Occupation(a, dim, width).risk(at / np.sqrt(200))[0]) / 2,
                "unit M* log(d/N) at γ = 1": float(Occupation(a, dim, width).risk(at * np.sqrt(200))[0]) / 2,
            }
        )
        text = f"share of the risk left, β = ¼, M* = 200, N = 100, {place}"
        details = {"asymptotic": asymptotic}
        yield Measurement(text, predicted, estimate, stderr, allowed, controls, _FROM, key=place, details=details)
    top_n = floor(a, width) / 2
    late = np.array([np.log(1e10 * dim / width) / (2 * (a[width - 1] - a[width]))])
    estimate, stderr = mean_and_error(risks(context, a, width, dim, late, 4)[:, 0] / 2)
    controls = {"limit 1 − φ^{1−2β}": 1 - 0.5**0.5, "half the width": floor(a, width // 2) / 2}
    text = "share of the risk left at the end, φ = ½"
    source = "transient left at the chosen time"
    details = {"asymptotic": 1 - 0.5**0.5}
    yield Measurement(text, top_n, estimate, stderr, 1e-10 * width**2, controls, source, key="end", details=details)
    curve = (np.geomspace(0.15, 6.0, 200), scaling.heavy_risk(decay, np.geomspace(0.15, 6.0, 200), 0.5))
    caption = "β = ¼, N = M*/2, d = 1e8: risk in units of √M* log(d/N); dashed: the limit as log d → ∞."
    panels = [_risk_figure(context, decay, 200, (40, 100, 200), dim), (caption, figures.collapse(shown, curve))]
    yield from panels


def _half_time(
    context: Context, teachers: int, dim: int, width: int, speed: float
) -> tuple[np.ndarray, Occupation, float]:
    """Common times around the middle of the heavy-tailed drop, the law, and the level in the middle."""
    model = QuadraticModel(Teacher.power_law(teachers, 0.25, dim), width, speed)
    unit = float(model.common_time(scaling.heavy_unit(teachers, dim, width)))
    return np.geomspace(0.2, 2.0, 24) * unit, Occupation(model.spectrum, dim, width), model.riccati_rate


_LEVEL = 1.3


def _half_times(
    context: Context, sizes: Sequence[tuple[int, int]], speed: Callable[[int], float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times at which R = 1.3 for (M*, d), N = M*/2: law, its change with N, mean and error over replicas; common time."""
    columns = []
    for teachers, dim in sizes:
        width = teachers // 2
        times, law, rate = _half_time(context, teachers, dim, width, speed(width))
        fallen = partial(first_crossing, times, level=_LEVEL, falling=True, log_time=True)
        found = [float(fallen(x.risk(rate * times))) for x in _laws(context, law.spectrum, dim, width)]
        at, change = found[0], _spread(found)
        runs = risks(context, law.spectrum, width, dim, rate * times, context.pick(8, 40))
        mean, error = mean_and_error(fallen(runs))
        columns.append((at, change, mean, error))
    table = np.array(columns)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


@claim(
    id="Q10",
    title="Time unit of the heavy tail",
    statement="The time unit grows as √M* for γ = 1 and as M* for a student normalised by N^(−1/2).",
    latex=r"t\propto\sqrt{M_*}\log\frac dN/\gamma",
    source=f"{PAPER}, time-complexity theorem; speed factor derived",
    kind="asymptotic",
    regime="d/N fixed, β = ¼",
    controls=("the other parametrisation", "time ∝ M*^β, the norm forgotten"),
)
def run_time_unit(context: Context) -> Iterator[Part]:
    """Exponent of the half-time in M* at fixed d/N, for both parametrisations."""
    sizes = [(x, 10**4 * x) for x in (50, 100, 200, 400)]
    teachers = np.array([float(x) for x, _ in sizes])
    for key, speed, limit in (("unit", lambda width: 1.0, 0.5), ("normalised", lambda width: width**-0.5, 1.0)):
        at, change, mean, error = _half_times(context, sizes, speed)
        predicted = carried_slope(teachers, at)[0]
        estimate, stderr, allowed = carried_slope(teachers, mean, error / mean, change / mean)
        controls = {
            "the other parametrisation": predicted + (0.5 if limit == 0.5 else -0.5),
            "time ∝ M*^β, the norm forgotten": 0.25 if limit == 0.5 else 0.75,
        }
        text = f"exponent of the time to R = 1.3 in M*, γ = {'1' if key == 'unit' else 'N^(−1/2)'}, β = ¼"
        yield Measurement(text, predicted, estimate, stderr, allowed, controls, _FROM, key, {"asymptotic": limit})


@claim(
    id="Q16",
    title="Logarithms vanish when M* grows like d",
    statement="The logarithm in the emergence times is that of d/N, not of d.",
    latex=r"T\propto\sqrt{M_*}\log(d/N)",
    source=f"{PAPER}, time-complexity theorem; derived",
    kind="asymptotic",
    regime="d = 20 M*, and M* fixed; β = ¼",
    controls=("time ∝ √M* log d", "no dependence on d"),
)
def run_vanishing_logs(context: Context) -> Iterator[Part]:
    """d/M* fixed: time over √M* does not grow with d; M* fixed: it grows as log(d/N)."""
    proportional = [(x, 20 * x) for x in (50, 100, 200, 400)]
    fixed = [(100, 10**k) for k in (4, 5, 6, 8)]
    for key, sizes in (("proportional", proportional), ("fixed", fixed)):
        dims = np.array([float(x) for _, x in sizes])
        root = np.array([float(x) for x, _ in sizes]) ** 0.5
        at, change, mean, error = (x / root for x in _half_times(context, sizes, lambda width: 1.0))
        predicted = carried_slope(dims, at)[0]
        estimate, stderr, allowed = carried_slope(dims, mean, error / mean, change / mean)
        log_d = carried_slope(dims, np.log(dims))[0]
        if key == "proportional":
            controls = {"time ∝ √M* log d": log_d}
        else:
            controls = {"no dependence on d": 0.0, "time ∝ √M* log d": log_d}
        what = "d = 20 M*" if key == "proportional" else "M* = 100"
        text = f"exponent of (time to R = 1.3)/√M* in d, {what}"
        details = {"log(d/N) alone": carried_slope(dims, np.log(dims / (root**2 / 2)))[0]}
        yield Measurement(text, predicted, estimate, stderr, allowed, controls, _FROM, key=key, details=details)


@claim(
    id="Q17",
    title="Compute frontier",
    statement="The least risk at compute C = N·t is a power of C that depends on γ.",
    latex=r"\min_NR\sim C^{(1-2\beta)/(1+\beta)}\ (\gamma=1),\quad C^{(1-2\beta)/(\beta+3/2)}\ (\gamma=N^{-1/2})",
    source="derived",
    kind="asymptotic",
    regime="β = 1, widths 4 to 64, d = 1e8; against the self-consistent law",
    controls=("exponent in time", "the other parametrisation"),
)
def run_frontier(context: Context) -> Iterator[Part]:
    """Least risk over the width at given compute N·t, for both parametrisations, from the same runs."""
    teachers, decay, dim = context.pick(400, 1500), 1.0, 10**8
    widths = [4, 6, 8, 12, 16, 24, 32, 48, 64]
    a, replicas = power_law(teachers, decay), context.pick(8, 24)
    missing = 2 * scaling.tail_beyond(decay, teachers) / scaling.partial_norm2(decay, teachers)
    rows: list[np.ndarray] = []
    laws: list[list[np.ndarray]] = [[], [], [], []]
    grids = [between(a, width, dim, 2, 3 * width, 24) for width in widths]
    for width, times in zip(widths, grids, strict=True):
        rows.append(risks(context, a, width, dim, times, replicas) + missing)
        for curves, law in zip(laws, _laws(context, a, dim, width), strict=True):
            curves.append(law.risk(times) + missing)
    panels = []
    for key, power in (("unit", 0.0), ("normalised", 0.5)):
        clocks = [times * width ** (1 + power) for width, times in zip(widths, grids, strict=True)]
        # From where the second width has begun to pay to where the last but two would.
        cost = np.geomspace(clocks[1][6], clocks[-3][15], 12)

        def reading(curves: Iterable[np.ndarray], clocks: list = clocks, cost: np.ndarray = cost) -> float:
            return log_slope(cost, _envelope(clocks, curves, cost))

        read = [reading(x) for x in laws]
        predicted, changed = read[0], _spread(read)
        rng = context.rng("Q17", key, "resampling")
        estimate, error = read_mean(np.stack(rows, axis=1), reading, rng, 100)
        asymptotic = float(scaling.compute_exponent(decay, power))
        other = float(scaling.compute_exponent(decay, 0.5 - power))
        controls = {
            "exponent in time": float(scaling.time_exponent(decay)),
            "the other parametrisation": predicted + other - asymptotic,
        }
        text = f"slope of the frontier in N·t, γ = {'N^(−1/2)' if power else '1'}, β = 1"
        details = {"asymptotic": asymptotic}
        yield Measurement(text, predicted, estimate, error, changed, controls, _FROM, key, details)
        panels.append((key, clocks, [x.mean(axis=0) for x in rows], cost, _envelope(clocks, laws[0], cost)))
    caption = "Risk (with the teacher's tail) against compute N·t at γ = 1, by width; dashed: the law's frontier."
    yield caption, figures.frontier(panels[0], widths)


def _envelope(clocks: Sequence[np.ndarray], curves: Iterable[np.ndarray], cost: np.ndarray) -> np.ndarray:
    """Least risk at each cost over curves given at their own costs (log-log interpolation)."""
    inside = [
        np.where(
            (cost >= clock[0]) & (cost <= clock[-1]),
            np.exp(np.interp(np.log(cost), np.log(clock), np.log(curve))),
            np.inf,
        )
        for clock, curve in zip(clocks, curves, strict=True)
    ]
    return np.min(inside, axis=0)


@claim(
    id="Q19",
    title="No sharp transition at information exponent 2",
    statement="The relative width of the emergence of a direction shrinks only as 1/log d.",
    latex=r"\frac{t_{90\%}-t_{10\%}}{t_{50\%}}\approx\frac{\ln81}{\log(d/N)}",
    source=f"{PAPER}; constant derived",
    kind="asymptotic",
    regime="d to 1e9; against the self-consistent law",
    controls=("sharp, as for information exponent 4: 13.28/d", "ln 9 in place of ln 81"),
)
def run_window(context: Context) -> Iterator[Part]:
    """10–90 % window of G_11 over its half-time, at two dimensions."""
    a, width = power_law(80, 1.0), 40
    values = {}
    for dim in (10**4, 10**9):
        leading = float(emergence_times(a, dim, width)[0])
        times = np.geomspace(0.3 * leading, 2.2 * leading, 120)

        def reading(g: np.ndarray, times: np.ndarray = times) -> float:
            low, half, high = first_crossing(times, np.stack([g] * 3), (0.1, 0.5, 0.9), log_time=True)
            return float((high - low) / half)

        read = [reading(x.diagonal(times)[:, 0]) for x in _laws(context, a, dim, width)]
        at = read[0]
        runs = diagonals(context, a, width, dim, times, context.pick(24, 100))[:, :, 0]
        estimate, stderr = read_mean(runs, reading, context.rng("Q19", dim, "resampling"), 200)
        values[dim] = estimate
        controls = {"sharp, as for information exponent 4: 13.28/d": 13.28 / dim, "ln 9 in place of ln 81": at / 2}
        text = f"window of G_11 over its half-time, d = {dim:.0e}"
        details = {"ln 81 / log(d/N)": float(np.log(81) / np.log(dim / width))}
        key = f"d{dim:.0e}".replace("+0", "")
        yield Measurement(text, at, estimate, stderr, _spread(read), controls, _FROM, key, details)
    yield _emergence_figure(context)


def _emergence_figure(context: Context) -> tuple[str, object]:
    a, width, dim = power_law(40, 1.0), 12, 10**6
    times = np.geomspace(0.2, 4, 120) * float(emergence_times(a, dim, width)[3])
    curves = diagonals(context, a, width, dim, times, 2)[0][:, :8]
    law = Occupation(a, dim, width).diagonal(times)[:, :8]
    caption = "G_jj of one start (M* = 40, N = 12, d = 1e6, β = 1) and the self-consistent law (dashed), j = 1 … 8."
    return caption, figures.emergence(times, curves, law)
