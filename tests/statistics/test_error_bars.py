"""Error bars are as long as the scatter that they stand for: known answers, and simulations of what is estimated.

Each compares a mean of squared errors over many repetitions with the variance of the estimate over the same repetitions,
within four standard errors of that ratio: an error bar twice or half as long, a degree of freedom more or less, does not pass.
"""

import numpy as np
import pytest
from scipy import stats

from theory import InputError
from theory.core.streams import generator
from validation.claims.scaling.scaling import log_bias
from validation.judge.claim import Control, Measurement, verdict_of
from validation.statistics.exponents import continued, extrapolate, slope_weights
from validation.statistics.frontier import Frontier
from validation.statistics.readings import carried_slope, deviation, read_mean
from validation.statistics.regression import regress
from validation.statistics.resampling import IndependentSamples, ReplicaCurves, jackknife_variance, spread_of
from validation.statistics.standard_errors import bootstrap_error, draws_to_see, mean_and_error, share_error, sigmas
from validation.statistics.two_samples import compare_samples


def _ratio(squares: np.ndarray, estimates: np.ndarray) -> tuple[float, float]:
    """Mean of squared errors over the variance of the estimates, and the standard error of that ratio."""
    variance = np.var(estimates, ddof=1)
    scatter = (estimates - estimates.mean()) ** 2
    ratio = squares.mean() / variance
    spread = np.std(squares / squares.mean() - scatter / scatter.mean(), ddof=1)
    return float(ratio), float(ratio * spread / np.sqrt(len(estimates)))


def _assert_honest(squares: np.ndarray, estimates: np.ndarray, bias: float = 0.0) -> None:
    ratio, error = _ratio(np.asarray(squares), np.asarray(estimates))
    assert error < 0.08, "too few repetitions to tell n from n - 1"
    assert abs(ratio - 1) < 4 * error + bias, (ratio, error)


# ------------------------------------------------------------------------------ means and shares


def test_the_error_of_a_mean() -> None:
    draws = generator(1).standard_normal((4000, 5)) * 3
    found = np.array([mean_and_error(row) for row in draws])
    _assert_honest(found[:, 1] ** 2, found[:, 0])
    value, error = mean_and_error(np.array([1.0, 2.0, 6.0]))
    assert (value, error) == pytest.approx((3.0, np.sqrt(7.0 / 3.0)))
    for wrong in (draws[0, :1], draws[:2]):  # numbers of one run are not independent
        with pytest.raises(ValueError, match="two independent values"):
            mean_and_error(wrong)


@pytest.mark.parametrize("replicas", [4, 6, 8])
def test_the_bootstrap_error_of_a_mean_is_its_standard_error(replicas: int) -> None:
    """Var of a resampled mean is Σ(x − x̄)²/n² exactly, of which n/(n − 1) makes the variance of the mean."""
    values = generator(2).exponential(size=replicas)
    count = 40_000
    found = bootstrap_error(values, lambda x: float(np.mean(x)), generator(3), resamples=count)
    assert found == pytest.approx(mean_and_error(values)[1], rel=4 * np.sqrt(1 / (2 * count)) * 1.5)
    with pytest.raises(ValueError, match="two independent replicas"):
        bootstrap_error(values[:1], np.mean, generator(3))


def test_a_reading_of_a_mean_and_its_error() -> None:
    """Of a linear reading, from five replicas."""
    rng = generator(4)
    count, replicas = 1500, 5
    found = [
        read_mean(rng.standard_normal((replicas, 3)), lambda x: float(x[0] - 2 * x[1]), rng, 100) for _ in range(count)
    ]
    values, errors = np.array(found).T
    _assert_honest(errors**2, values)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_error_of_a_share(share: float) -> None:
    count = 50
    found = generator(5).binomial(count, share, size=20_000) / count
    squares = np.array([share_error(x, count) ** 2 for x in np.unique(found)])[np.searchsorted(np.unique(found), found)]
    _assert_honest(squares * count / (count - 1), found)


def test_the_error_of_a_share_of_nothing_is_that_of_one_count() -> None:
    assert share_error(0.0, 20) == share_error(1.0, 20) == pytest.approx(share_error(1 / 20, 20))
    assert share_error(1 / 20, 20) == pytest.approx(np.sqrt(0.05 * 0.95 / 20))


@pytest.mark.parametrize(("share", "count"), [(0.02, 200), (0.05, 100), (0.97, 150), (0.5, 20)])
def test_few_counts_of_a_known_share_lie_within_its_error(share: float, count: int) -> None:
    """By the binomial law, beyond four errors no more often than a normal number; by the measured share's own more often."""
    found = np.arange(count + 1)
    law, normal = stats.binom.pmf(found, count, share), 2 * stats.norm.sf(4)

    def beyond(*predicted: float) -> float:
        return float(
            sum(
                p
                for k, p in zip(found, law, strict=True)
                if abs(k / count - share) > 4 * share_error(k / count, count, *predicted)
            )
        )

    assert beyond(share) <= normal
    assert beyond() > 30 * normal


def test_a_deviation_is_of_one_sample() -> None:
    assert deviation(np.array([0.0, 2.0])) == pytest.approx(np.sqrt(2.0))


# ------------------------------------------------------------------------------ jackknife, regression, slopes


def test_the_jackknife_of_a_mean_is_its_squared_error() -> None:
    values = generator(6).standard_normal(7)
    left_out = (values.sum() - values) / 6
    assert np.sqrt(jackknife_variance(left_out)) == pytest.approx(mean_and_error(values)[1])


def test_the_error_of_a_regression_by_clusters() -> None:
    """Each cluster has an error of its own, common to its points: they count as one. (The jackknife errs by 2/clusters.)"""
    rng, clusters, points = generator(7), 20, 3
    names = np.repeat(np.arange(clusters), points)
    at = rng.standard_normal((clusters, 1)).repeat(points, axis=0)
    noise = (rng.standard_normal(clusters).repeat(points) + 0.1 * rng.standard_normal(names.size) for _ in range(1200))
    found = [regress(at, 2.0 * at[:, 0] + one, names) for one in noise]
    assert np.mean([one.slopes[0] for one in found]) == pytest.approx(2.0, abs=0.02)
    _assert_honest(
        np.array([one.stderr[0] ** 2 for one in found]), np.array([one.slopes[0] for one in found]), 4 / clusters
    )


def test_what_errors_and_slacks_of_values_make_of_a_slope() -> None:
    rng, x = generator(8), np.geomspace(1, 30, 5)
    errors, slack = np.array([0.05, 0.2, 0.05, 0.1, 0.02]), np.array([0.01, 0.02, 0.0, 0.01, 0.03])
    curves = x**1.5 * np.exp(errors * rng.standard_normal((4000, x.size)))
    found = np.array([carried_slope(x, curve, errors, slack) for curve in curves])
    _assert_honest(found[:, 1] ** 2, found[:, 0])
    worst = x**1.5 * np.exp(np.sign(slope_weights(x)) * slack)
    plain = carried_slope(x, x**1.5)
    assert plain[1:] == (0.0, 0.0)
    assert carried_slope(x, worst)[0] - plain[0] == pytest.approx(found[0, 2])


def test_the_error_of_a_limit() -> None:
    rng, sizes = generator(9), np.array([10.0, 20.0, 40.0, 80.0])
    errors = np.array([0.01, 0.02, 0.02, 0.05])
    truth = 0.7 + 2 / sizes
    found = [extrapolate(sizes, truth + errors * rng.standard_normal(4), errors, power=1.0) for _ in range(3000)]
    _assert_honest(np.array([x.limit.stderr**2 for x in found]), np.array([x.limit.value for x in found]))
    misfits = np.array([x.chi2 for x in found])
    assert misfits.mean() == pytest.approx(found[0].dof, abs=4 * np.std(misfits) / np.sqrt(len(found)))


# ------------------------------------------------------------------------------ curves of replicas

X = np.array([1.0, 2.0, 4.0])


def _correlated(rng: np.random.Generator, replicas: int) -> np.ndarray:
    """Curves whose points move together, (R, 3), positive."""
    common = rng.standard_normal((replicas, 1))
    return np.exp(0.2 * common + 0.1 * rng.standard_normal((replicas, X.size))) * X**2


@pytest.mark.parametrize("statistic", ["mean", "log-mean"])
@pytest.mark.parametrize("weights", [slope_weights(X), np.array([0.0, 0.0, 1.0])], ids=["slope", "point"])
def test_the_clustered_error_and_the_jackknife_of_a_contrast(statistic: str, weights: np.ndarray) -> None:
    rng = generator(10)
    curves = [ReplicaCurves(X, _correlated(rng, 20), rng=rng, statistic=statistic, resamples=20) for _ in range(2500)]
    values = np.array([weights @ curve.logs for curve in curves])
    _assert_honest(np.array([curve.stderr(weights) ** 2 for curve in curves]), values, 0.05 * (statistic == "mean"))
    _assert_honest(np.array([curve.jackknife(weights) ** 2 for curve in curves]), values, 0.05 * (statistic == "mean"))


@pytest.mark.parametrize(
    ("statistic", "replicas", "known"),
    [
        *((one, count, count >= 4) for one in ("mean", "log-mean") for count in (2, 3, 4)),
        *(("median", count, count >= 6) for count in (2, 5, 6)),
    ],
)
def test_intervals_of_few_replicas_hold_the_truth(statistic: str, replicas: int, known: bool) -> None:
    """Resamples of one replica alone know no error; with two or three replicas there are too many of them for an interval.
    A median is outside of five replicas in 2·2⁻⁵ of samples, more than 5 %.
    """
    rng, count, truth = generator(18), 200, np.array([1.0, 2.0, 4.0])
    runs = truth * np.exp(0.1 * rng.standard_normal((count, replicas, 3)))
    found = [
        ReplicaCurves(X, one, rng=rng, statistic=statistic, resamples=400).contrast(slope_weights(X)) for one in runs
    ]
    covered = np.mean([one.covers(float(slope_weights(X) @ np.log(truth))) for one in found])
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / count)
    assert all(np.isinf(one.high) != known for one in found)
    frontier = Frontier([X], [runs[0]], X, rng=rng, statistic=statistic, resamples=20).contrast(slope_weights(X))
    assert np.isfinite([frontier.low, frontier.high]).all() == (replicas >= 6)


def test_a_mean_of_logarithms_has_one_error_either_way() -> None:
    """It is linear in the replicas: to leave one out at a time is to look at how they scatter, at any number of them."""
    curve = ReplicaCurves(X, _correlated(generator(16), 3), rng=generator(17), statistic="log-mean", resamples=20)
    assert curve.jackknife(slope_weights(X)) == pytest.approx(curve.stderr(slope_weights(X)), rel=1e-12)


def test_the_error_of_a_median() -> None:
    """By its bootstrap, which at 41 replicas is some per cent long: π/2 of the mean's for a Gaussian."""
    rng = generator(11)
    found = []
    for _ in range(700):
        samples = [np.exp(0.1 * rng.standard_normal(41)) for _ in range(2)]
        curve = IndependentSamples(X[:2], samples, rng=rng, resamples=100)
        found.append((curve.logs[1], curve.stderr(np.array([0.0, 1.0]))))
    values, errors = np.array(found).T
    assert np.std(values) == pytest.approx(0.1 * np.sqrt(np.pi / 2 / 41), rel=0.12)
    assert 0.85 < np.mean(errors) / np.std(values) < 1.25


@pytest.mark.parametrize("censored", [0.0, 0.1])
def test_the_error_of_a_median_of_runs_that_may_never_arrive(censored: float) -> None:
    """Of 24 runs at each of four places: a number, as long as the slope's scatter; so is the interval."""
    rng, x = generator(21), np.array([1.0, 2.0, 4.0, 8.0])
    weights, found = slope_weights(x), []
    for _ in range(120):
        samples = [one * np.exp(0.5 * rng.standard_normal(24)) for one in x]
        samples = [np.where(sample > np.quantile(sample, 1 - censored), np.inf, sample) for sample in samples]
        estimate = IndependentSamples(x, samples, rng=rng, resamples=200).contrast(weights)
        found.append((estimate.value, estimate.stderr, estimate.high - estimate.low))
    slopes, errors, widths = np.array(found).T
    assert np.all(np.isfinite(errors))
    assert np.all(np.isfinite(widths))
    assert slopes.mean() == pytest.approx(1.0, abs=4 * slopes.std() / np.sqrt(120))
    assert 0.85 < np.sqrt(np.mean(errors**2)) / slopes.std(ddof=1) < 1.35


def test_draws_that_are_mostly_infinite_have_no_error() -> None:
    draws = np.where(np.arange(100) < 30, np.inf, generator(22).standard_normal(100))
    assert spread_of(draws) == np.inf
    few = np.where(np.arange(10_000) < 100, np.inf, generator(23).standard_normal(10_000))
    assert spread_of(few) == pytest.approx(1.0, abs=0.05)
    normal = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    assert spread_of(np.where(normal > 3, np.inf, normal)) == pytest.approx(1.0, rel=1e-3)
    assert spread_of(few[100:]) == np.std(few[100:], ddof=1)


def test_independent_samples_add_their_variances() -> None:
    rng = generator(12)
    samples = [rng.exponential(size=30), rng.exponential(size=50)]
    curve = IndependentSamples(X[:2], samples, rng=rng, statistic="mean", resamples=20)
    relative = [np.var(x, ddof=1) / x.size / x.mean() ** 2 for x in samples]
    assert curve.stderr(np.array([-1.0, 1.0])) == pytest.approx(np.sqrt(sum(relative)))


@pytest.mark.parametrize("replicas", [10, 40, 160])
def test_the_allowance_for_the_bias_of_a_logarithm(replicas: int) -> None:
    """E ln ȳ − ln E y = −½ Var y/(R E²y) to leading order, for every number of replicas: neither half of it nor thrice."""
    rng, weights, sigma, count = generator(13), np.array([1.0, 0.0, 0.0]), 0.5, 4000
    draws = np.exp(sigma * rng.standard_normal((count, replicas)))
    logs = np.log(draws.mean(axis=1))
    bias, error = sigma**2 / 2 - logs.mean(), np.std(logs) / np.sqrt(count)
    curves = (ReplicaCurves(X, np.stack([row] * 3, axis=1), rng=rng, resamples=20) for row in draws[:200])
    allowed = np.mean([log_bias(curve, weights) for curve in curves])
    expected = np.expm1(sigma**2) / (2 * replicas)
    assert bias == pytest.approx(expected, abs=4 * error + 3 * expected / replicas)
    assert 0.7 * expected < allowed < 1.5 * expected


# ------------------------------------------------------------------------------ two samples, and the rule


def test_scores_of_two_samples_of_one_law() -> None:
    """Of different sizes and variances: Welch's z is standard."""
    rng = generator(14)
    scores = [compare_samples(rng.standard_normal((100, 1)), rng.standard_normal((200, 1))).z[0] for _ in range(400)]
    assert np.var(scores) == pytest.approx(1.0, abs=4 * np.sqrt(2 / 400) + 0.02)
    moved = compare_samples(rng.standard_normal((100, 1)), 2.0 + 2 * rng.standard_normal((200, 1))).z[0]
    assert abs(moved) > 4


def test_sizes_of_two_samples_of_one_skewed_law() -> None:
    """Small beside large, means and squares of a log-normal number differ far more often than they say: refused."""
    rng, repetitions = generator(21), 600
    alarms = np.mean(
        [
            compare_samples(*(np.exp(rng.standard_normal((n, 2))) for n in (100, 200))).p < 0.01
            for _ in range(repetitions)
        ]
    )
    assert alarms < 0.01 + 4 * np.sqrt(0.01 / repetitions)
    with pytest.raises(InputError, match="100 and 201 replicas: give at most twice as many"):
        compare_samples(np.ones((100, 2)), np.ones((201, 2)))


def test_two_samples_of_signs() -> None:
    """Balanced, their squares about the mean do not vary: that says nothing, and hides nothing of another observable."""
    signs, other = np.resize([1.0, -1.0], 200), generator(22).standard_normal((2, 200))
    one, same, moved = (np.column_stack([signs, x]) for x in (other[0], other[1], other[1] + 1))
    assert compare_samples(one, same).p > 1e-3
    assert compare_samples(one, moved).p < 1e-9


def test_samples_are_compared_about_their_mean() -> None:
    """Where zero lies says nothing: products of observables are those of their deviations."""
    rng = generator(18)
    one, other = rng.standard_normal((200, 2)), 1.2 * rng.standard_normal((300, 2))
    far = compare_samples(one + 50.0, other + 50.0)
    np.testing.assert_allclose(far.z, compare_samples(one, other).z, rtol=1e-8)


def _measured(**changed: float | dict[str, float | Control]) -> Measurement:
    values = {"predicted": 1.0, "estimate": 1.0, "stderr": 0.1, "allowance": 0.5, "allowance_from": "here"}
    return Measurement("x", **({"controls": {"far": 9.0}} | values | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "agrees"),
        ({"estimate": 1.899}, "agrees"),
        ({"estimate": 1.901}, "disagrees"),
        ({"estimate": 0.101}, "agrees"),
        ({"estimate": 0.099}, "disagrees"),
        ({"controls": {}}, "inconclusive"),
        ({"controls": {"far": 9.0, "near": 1.2}}, "inconclusive"),
        ({"controls": {"near": 1.2}}, "inconclusive"),
        ({"controls": {"far": 9.0, "just": 1.901}}, "agrees"),
        ({"controls": {"far": 9.0, "just": 1.899}}, "inconclusive"),
        ({"controls": {"own": Control(1.2, stderr=0.01, allowance=0.1)}}, "agrees"),
        ({"estimate": 5.0, "controls": {"near": 5.1}}, "disagrees"),
        ({"estimate": 5.0, "controls": {}}, "inconclusive"),
        ({"estimate": 5.0, "stderr": float("nan"), "controls": {"near": 5.1}}, "inconclusive"),
        ({"estimate": float("nan"), "controls": {"own": Control(5.1, 5.1)}}, "inconclusive"),
        ({"controls": {"never": float("inf")}}, "agrees"),
        ({"estimate": float("nan")}, "disagrees"),
        ({"stderr": float("nan")}, "inconclusive"),
        ({"stderr": float("inf")}, "inconclusive"),
        ({"controls": {"far": 9.0, "nothing": float("nan")}}, "inconclusive"),
        ({"controls": {"own": Control(9.0, estimate=float("nan"))}}, "inconclusive"),
    ],
)
def test_the_rule_of_a_verdict(changed: dict[str, float], verdict: str) -> None:
    assert verdict_of(_measured(**changed)).verdict == verdict


def test_repetitions_would_notice_another_error_bar() -> None:
    """The comparison itself: a bar of twice, half, or a degree of freedom off is refused."""
    draws = generator(15).standard_normal((4000, 5))
    honest = np.var(draws, axis=1, ddof=1) / 5
    _assert_honest(honest, draws.mean(axis=1))
    for factor in (4, 1 / 4, 5 / 4, 4 / 5):
        with pytest.raises(AssertionError):
            _assert_honest(factor * honest, draws.mean(axis=1))


def test_a_series_of_changes_goes_on_to_its_limit_or_has_none() -> None:
    """1 + 2^−k, alternating too; changes that grow, or stay, lead nowhere; a value that rests is its own limit."""
    steps = np.arange(5.0)
    limit, added = continued(np.stack([1 + 0.5**steps, 1 + (-0.5) ** steps, 2.0**steps, steps, 0 * steps + 3], axis=1))
    np.testing.assert_allclose(limit, [1.0, 1.0, np.nan, np.nan, 3.0], rtol=1e-14)
    np.testing.assert_allclose(added, [0.0625, 0.0625, np.nan, np.nan, 0.0], rtol=1e-14)
    with pytest.raises(InputError, match="2 given"):
        continued([1.0, 2.0])


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_so_many_draws_see_a_share_to_so_much(share: float) -> None:
    draws = draws_to_see(share, 0.05)
    shares = np.random.default_rng(0).binomial(draws, share, size=20_000) / draws
    assert 4 * shares.std() / share == pytest.approx(0.05, rel=4 / np.sqrt(2 * 20_000) + 0.001)


def test_what_independent_runs_may_be_off_is_exceeded_as_often_as_is_said() -> None:
    """By means of three normal runs over their own error; of very many, as of one with a known error, by a normal number."""
    runs = np.random.default_rng(0).standard_normal((200_000, 3))
    off = np.abs(runs.mean(axis=1)) / (runs.std(axis=1, ddof=1) / np.sqrt(3))
    assert np.mean(off > sigmas(3, 0.05)) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 / 200_000))
    assert sigmas(1, 0.05) == pytest.approx(sigmas(10**8, 0.05), rel=1e-6)
    assert np.mean(np.abs(runs) > sigmas(1, 0.05)) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 / 600_000))
