"""Exponents from replicas: unbiased on power laws, intervals that cover, drifts that are seen, bad input refused."""

import numpy as np
import pytest

from theory import InputError
from validation.statistics.exponents import (
    LocalSlopes,
    Window,
    exponent_of,
    extrapolate,
    fit_exponent,
    local_slopes,
    slope_weights,
)
from validation.statistics.frontier import Frontier, lower_envelope
from validation.statistics.resampling import IndependentSamples, ReplicaCurves

X = np.geomspace(1, 100, 8)
ALL = Window(1, 100, "test")
DRAWS, RESAMPLES = 500, 200
#: Four binomial standard errors of a coverage of 95 % over `DRAWS` draws.
MISS = 4 * np.sqrt(0.95 * 0.05 / DRAWS)


def replicas(rng: np.random.Generator, kind: str, count: int, x: np.ndarray = X) -> np.ndarray:
    """Replicas with mean x^−1: correlated along the curve; noise that is Gaussian in the logarithm, or heavy-tailed."""
    tilt = 0.3 * rng.standard_normal((count, 1)) * np.log(x / x[0]) / np.log(100)
    if kind == "lognormal":
        noise = tilt + rng.standard_normal((count, 1)) + 0.5 * rng.standard_normal((count, x.size))
        return np.exp(noise) / np.exp(0.5 * (0.09 * (np.log(x / x[0]) / np.log(100)) ** 2 + 1.25)) / x
    # Pareto with tail exponent 3: finite variance, infinite third moment; mean 1.5.
    return (1 + rng.pareto(3, (count, x.size))) / 1.5 / x


@pytest.mark.parametrize("kind", ["lognormal", "pareto"])
def test_interval_of_the_mean_covers(kind: str) -> None:
    rng = np.random.default_rng(1)
    hits, errors, slopes, jackknife = 0, [], [], []
    for _ in range(DRAWS):
        fit = fit_exponent(ReplicaCurves(X, replicas(rng, kind, 60), rng=rng, resamples=RESAMPLES), ALL, pieces=1)
        hits += fit.slope.covers(-1.0)
        slopes.append(fit.slope.value)
        errors.append(fit.slope.stderr)
        jackknife.append(fit.jackknife)
    # Where the logarithm of a replica has a standard deviation of 1.1, coverage is 93–95 %.
    assert 0.93 - MISS <= hits / DRAWS <= 0.95 + MISS
    assert np.mean(errors) == pytest.approx(np.std(slopes), rel=0.15)
    assert np.mean(jackknife) == pytest.approx(np.mean(errors), rel=0.1)
    assert abs(np.mean(slopes) + 1) < 4 * np.std(slopes) / np.sqrt(DRAWS) + 0.01  # bias of ln of a mean: O(1/R)


def test_interval_of_medians_covers() -> None:
    rng = np.random.default_rng(2)
    x, hits, slopes = X[::3], 0, []
    for _ in range(DRAWS):
        samples = [value**2 * np.exp(rng.standard_normal(45)) / (1 + rng.random(45)) for value in x]
        fit = fit_exponent(IndependentSamples(x, samples, rng=rng, resamples=RESAMPLES), Window(1, 100, "test"))
        hits += fit.slope.covers(2.0)
        slopes.append(fit.slope.value)
    assert abs(hits / DRAWS - 0.95) <= MISS
    assert abs(np.mean(slopes) - 2) < 4 * np.std(slopes) / np.sqrt(DRAWS)


def test_errors_from_points_of_a_curve_would_not_cover() -> None:
    """The scatter about the line says nothing of how replicas differ: its interval misses most of the time."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        tilt = 0.3 * rng.standard_normal((8, 1))
        y = ReplicaCurves(X, X ** (-1 + tilt) * np.exp(0.01 * rng.standard_normal((8, 8))), rng=rng, resamples=20)
        weights = slope_weights(X)
        rest = y.logs - y.logs.mean() - (weights @ y.logs) * (np.log(X) - np.log(X).mean())
        naive = np.sqrt(rest @ rest / 6) * np.sqrt(weights @ weights)
        hits += abs(weights @ y.logs + 1) < 2.45 * naive
    assert hits / 200 < 0.5


def test_correction_to_scaling_matches_its_finite_size_prediction() -> None:
    """y = x^−1(1 + 3/x): far from −1 on the window, and found where the same estimator puts it."""
    rng = np.random.default_rng(4)
    truth = (1 + 3 / X) / X
    y = truth * np.exp(0.2 * rng.standard_normal((200, X.size)) - 0.02)
    fit = fit_exponent(ReplicaCurves(X, y, rng=rng), Window(1, 100, "test"))
    assert fit.finite_size(truth) == pytest.approx(exponent_of(X, truth), rel=1e-12)
    assert abs(fit.slope.value - fit.finite_size(truth)) < 4 * fit.slope.stderr
    assert abs(fit.slope.value + 1) > 10 * fit.slope.stderr
    assert fit.local is not None
    assert fit.local.flagged
    assert fit.local.drift.value > 0.3
    late = fit_exponent(ReplicaCurves(X, X**-1.0 * y / truth, rng=rng), Window(1, 100, "test"))
    assert late.local is not None
    assert not late.local.flagged
    assert late.prefactor == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(("errors", "flagged"), [(4.05, True), (3.95, False), (-4.05, True), (-3.95, False)])
def test_a_drift_is_flagged_from_four_of_its_own_errors_on(errors: float, flagged: bool) -> None:
    """A bend at the start of the last piece changes the drift of a mean logarithm, and not its error."""
    logs = 0.2 * np.random.default_rng(14).standard_normal((30, X.size)) - np.log(X)

    def local(bend: float) -> LocalSlopes:
        bent = np.exp(logs + bend * np.maximum(np.log(X / X[-3]), 0))
        curves = ReplicaCurves(X, bent, rng=np.random.default_rng(1), statistic="log-mean", resamples=20)
        found = local_slopes(curves, ALL, pieces=2)
        assert found is not None
        return found

    straight, bent = local(0.0).drift, local(1.0).drift
    bend = (errors * straight.stderr - straight.value) / (bent.value - straight.value)
    found = local(bend)
    assert found.drift.value == pytest.approx(errors * found.drift.stderr)
    assert found.flagged == flagged


def test_window_and_importance_choose_the_points() -> None:
    rng = np.random.default_rng(5)
    y = np.where(X < 5, 1.0, X**-2) * np.exp(1e-6 * rng.standard_normal((5, X.size)))
    curve = ReplicaCurves(X, y, rng=rng, statistic="log-mean")
    assert fit_exponent(curve, Window(5, 100, "tail")).slope.value == pytest.approx(-2, abs=1e-5)
    assert np.all(fit_exponent(curve, Window(5, 100, "tail")).weights[X < 5] == 0)
    only_tail = fit_exponent(curve, ALL, importance=(X >= 5).astype(float), pieces=1)
    assert only_tail.slope.value == pytest.approx(-2, abs=1e-5)
    assert fit_exponent(curve, Window(X[0], X[1], "two points")).local is None


def test_replicas_that_do_not_arrive_count_in_the_median() -> None:
    rng = np.random.default_rng(6)
    samples = [np.where(np.arange(21) < 3, np.inf, value * (1 + 0.1 * rng.random(21))) for value in (1.0, 10.0)]
    fit = fit_exponent(IndependentSamples([1, 10], samples, rng=rng), Window(1, 10, "test"))
    assert fit.slope.value == pytest.approx(1, abs=0.05)
    assert np.isnan(fit.jackknife)


def test_extrapolation_finds_limit_coefficient_and_its_error() -> None:
    sizes, rng = np.array([1e3, 1e4, 1e5, 1e6]), np.random.default_rng(7)
    slopes = -1 / 3 - 2 * sizes**-0.5
    exact = extrapolate(sizes, slopes, power=0.5)
    assert exact.limit.value == pytest.approx(-1 / 3, abs=1e-12)
    assert exact.coefficient == pytest.approx(-2)
    assert exact.limit.stderr == 0
    assert abs(exact.shift) < 1e-12
    errors = np.array([0.02, 0.01, 0.01, 0.02])
    draws = [extrapolate(sizes, slopes + errors * rng.standard_normal(4), errors, power=0.5) for _ in range(600)]
    assert np.std([x.limit.value for x in draws]) == pytest.approx(draws[0].limit.stderr, rel=0.12)
    assert np.mean([x.chi2 for x in draws]) == pytest.approx(2, rel=0.2)
    assert draws[0].dof == 2
    assert abs(np.mean([x.limit.covers(-1 / 3) for x in draws]) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 600)
    wrong = extrapolate(sizes, slopes, power=None)
    assert abs(wrong.shift) > 1e-3  # a wrong correction shows when the smallest size is left out
    assert extrapolate(sizes[:2], slopes[:2], power=0.5).limit.value == pytest.approx(-1 / 3, abs=1e-12)
    by_logarithm = extrapolate(sizes, 0.5 + 3 / np.log(sizes), power=None)
    assert (by_logarithm.limit.value, by_logarithm.coefficient) == pytest.approx((0.5, 3.0))


def family(widths: np.ndarray, x: np.ndarray, beta: float = 1.0) -> list[np.ndarray]:
    """Loss against compute C = m t: m^(1−2β) + t^((1−2β)/β)."""
    return [m ** (1 - 2 * beta) + (x / m) ** ((1 - 2 * beta) / beta) for m in widths]


def test_frontier_has_the_slope_of_the_balance() -> None:
    x, widths = np.geomspace(1e1, 1e7, 121), np.geomspace(2, 3000, 40)
    grid = np.geomspace(1e3, 1e6, 25)
    y = family(widths, x)
    envelope, lowest = lower_envelope([x] * 40, y, grid)
    assert exponent_of(grid, envelope) == pytest.approx(-0.5, abs=0.01)  # (1−2β)/(1+β)
    assert np.all(np.diff(lowest) >= 0)
    rng = np.random.default_rng(8)
    runs = [
        curve * np.exp(0.05 * rng.standard_normal((12, 1)) + 0.02 * rng.standard_normal((12, x.size))) for curve in y
    ]
    frontier = Frontier([x] * 40, runs, grid, rng=rng, resamples=200)
    fit = fit_exponent(frontier, Window(1e3, 1e6, "balance of width and time"))
    assert fit.slope.low < fit.slope.value < fit.slope.high
    assert abs(fit.slope.value - fit.finite_size(envelope)) < 4 * fit.slope.stderr
    assert fit.slope.stderr == pytest.approx(fit.jackknife, rel=0.1)
    assert frontier.replicas == 12
    level = frontier.contrast(np.eye(grid.size)[3])
    assert level.confidence == 0.95
    assert level.low < level.value < level.high
    assert level.high - level.low == pytest.approx(2 * 1.96 * level.stderr, rel=0.25)  # of 12 replicas, 200 draws


def test_curves_of_one_seed_are_one_cluster() -> None:
    """Replica r of all curves has a factor in common: only then does the frontier's level feel it undiminished."""
    x, grid, count = np.geomspace(1e1, 1e7, 61), np.geomspace(1e3, 1e6, 25), 400
    curves, rng = family(np.geomspace(2, 3000, 10), x), np.random.default_rng(12)
    common = np.exp(0.1 * rng.standard_normal((count, 1)))
    level = np.full(grid.size, 1 / grid.size)
    paired, apart = (
        Frontier([x] * 10, [y * common for y in curves], grid, rng=rng, resamples=400, paired=together)
        for together in (True, False)
    )
    truth = 0.1 / np.sqrt(count)
    found = paired.contrast(level)
    assert found.stderr == pytest.approx(truth, rel=5 / np.sqrt(2 * count))
    assert paired.jackknife(level) == pytest.approx(found.stderr, rel=0.02)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(truth, rel=0.2)
    assert apart.contrast(level).stderr < 0.7 * truth
    with pytest.raises(InputError, match="as many of each"):
        Frontier([x] * 2, [curves[0] * common, curves[1] * common[:9]], grid, rng=rng, paired=True)


def test_frontier_does_not_extrapolate() -> None:
    x = [np.geomspace(1, 10, 5), np.geomspace(5, 100, 5)]
    y = [x[0] ** -1.0, 0.5 / x[1]]
    envelope, lowest = lower_envelope(x, y, np.geomspace(1, 100, 7))
    assert lowest.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert envelope[0] == pytest.approx(1)
    assert envelope[-1] == pytest.approx(0.005)
    with pytest.raises(InputError, match="no curve reaches 1000"):
        lower_envelope(x, y, np.array([2.0, 1000.0]))


def test_same_seed_same_interval() -> None:
    y = replicas(np.random.default_rng(9), "pareto", 20)
    first, second = (fit_exponent(ReplicaCurves(X, y, rng=np.random.default_rng(1)), ALL).slope for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda r: Window(3, 2, "x"), "window"),
        (lambda r: ReplicaCurves([1, 2], [[1, 2]], rng=r), "1 replica given"),
        (lambda r: ReplicaCurves([1, 2], [[1, 2, 3]] * 3, rng=r), "y has shape"),
        (lambda r: ReplicaCurves([1, 2], [[1, -2]] * 3, rng=r), "not positive"),
        (lambda r: ReplicaCurves([2, 1], [[1, 2]] * 3, rng=r), "increasing"),
        (lambda r: ReplicaCurves([1, 2], [[1, 2]] * 3, rng=r, statistic="mode"), "statistic is 'mode'"),
        (lambda r: ReplicaCurves([1, 2], [[1, 2]] * 3, rng=r, confidence=2), "confidence is 2"),
        (lambda r: ReplicaCurves([1, 2], [[1, 2]] * 3, rng=r, resamples=2), "resamples is 2"),
        (lambda r: IndependentSamples([1, 2], [[1, 2]], rng=r), "1 given for 2"),
        (lambda r: IndependentSamples([1, 2], [[1, np.inf]] * 2, rng=r, statistic="mean"), "not positive"),
        (lambda r: fit_exponent(ReplicaCurves(X, np.ones((3, 8)), rng=r), Window(200, 300, "x")), "holds 0 abscissae"),
        (
            lambda r: fit_exponent(ReplicaCurves(X, np.ones((3, 8)), rng=r), ALL).finite_size([1.0]),
            "predicted has shape",
        ),
        (
            lambda r: fit_exponent(ReplicaCurves(X, np.ones((3, 8)), rng=r), ALL).finite_size(-X),
            "predicted is not positive",
        ),
        (lambda r: extrapolate([1, 2], [1, 2, 3]), "slopes has shape"),
        (lambda r: extrapolate([1, 2], [1, 2]), "above 1"),
        (lambda r: extrapolate([2, 3], [1, 2], [1, 0]), "not positive"),
        (lambda r: extrapolate([2, 3], [1, 2], power=-1), "power is -1"),
        (lambda r: slope_weights([1, 2], [1, 0]), "importance"),
        (lambda r: Frontier([[1, 2]], [[1, 2]], [1, 2], rng=r), "two replicas"),
        (lambda r: Frontier([[1, 2]], [[[1, 2]] * 2] * 2, [1, 2], rng=r), "as many of both"),
        (lambda r: Frontier([[1, 2]], [[[1, 2]] * 2], [1, 2], rng=r, statistic="mode"), "statistic is 'mode'"),
    ],
)
def test_bad_input_is_refused_in_one_line(broken, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        broken(np.random.default_rng(0))
    assert "\n" not in str(caught.value)
