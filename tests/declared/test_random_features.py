"""Random features: the exact risk, the deterministic equivalent, and the balance of phases."""

import numpy as np
import pytest
import scipy
from scipy.special import zeta

from theory import InputError
from theory.declared.random_features import RandomFeatures, Trained, crossing, phase_exponents
from theory.declared.rule import Rule


def test_the_risk_of_a_drawn_spectrum_is_the_recursions() -> None:
    features = RandomFeatures(0.75, 0.6, 20, 200)
    drawn, steps, step_size = features.draw(1), np.array([1, 10, 300]), 0.5 / features.trace
    path = drawn.model.path(Rule(step_size, batch=2), 300)[steps]
    assert drawn.risk(step_size, steps, batch=2) == pytest.approx(path @ drawn.values + drawn.least, rel=1e-9)
    assert np.all(
        drawn.risk(step_size, steps, batch=2, kernel=False)[1:] < 0.95 * drawn.risk(step_size, steps, batch=2)[1:]
    )


@pytest.mark.parametrize(
    ("alpha", "width", "hidden"),
    [
        *((0.75, width, np.inf) for width in (1, 2, 6, 30)),
        *((1.0, 10**5, np.inf), (0.4, 20, 160), (0.1, 100, 400), (0.1, 100, 1600), (0.4, 20, 2000), (4.0, 20, 400)),
        *((0.2, 300, 330), (0.75, 100, 101), (0.01, 1000, 1001), (0.75, 10**9, 10**9 + 1)),
    ],
)
def test_the_equivalent_has_the_trace_and_as_many_eigenvalues(alpha: float, width: int, hidden: float) -> None:
    features = RandomFeatures(alpha, 0.8, width, hidden)
    found = features.equivalent()
    if hidden <= 10**4:
        assert features.trace == pytest.approx(np.sum(np.arange(1.0, hidden + 1) ** (-2 * alpha)), rel=3e-7)
    assert found.count.sum().real == pytest.approx(width, rel=1e-10)
    assert (found.count * found.values).sum().real == pytest.approx(features.trace, rel=1e-8)


@pytest.mark.parametrize(("alpha", "beta"), [(0.501, 0.3), (0.51, 0.05), (0.55, 0.3), (0.75, 0.6)])
def test_however_slowly_variance_falls_all_of_it_counts(alpha: float, beta: float) -> None:
    """By Riemann's function; the first 10¹⁶ coordinates have half of Tr D at α = .51."""
    features = RandomFeatures(alpha, beta, 100)
    cut = features.truncated()
    assert features.trace == pytest.approx(float(zeta(2 * alpha)), rel=3e-7)
    assert cut.least + cut.signal.sum() == pytest.approx(float(zeta(2 * alpha + 2 * beta)), rel=3e-7)
    # (Coordinates as they are have the target's own weights, j^(−β).)
    assert cut.signal / cut.values == pytest.approx(np.arange(1.0, 101) ** (-2 * beta))
    assert features.equivalent().least > cut.least


def test_many_coordinates_are_as_good_as_all_where_their_rest_has_no_variance() -> None:
    risks = [RandomFeatures(0.55, 0.3, 100, v).equivalent().risk(0.04, [10, 1000]) for v in (np.inf, 1e100, 1e16)]
    np.testing.assert_allclose(risks[0], risks[1], rtol=1e-7)
    assert risks[0][1] > 1.02 * risks[2][1]
    # Σj^(−s) up to v is v^(1−s)/(1−s) + ζ(s), but for v^(−s).
    assert RandomFeatures(0.4, 0.3, 100, 1e20).trace == pytest.approx(5 * 1e4 - 4.43754, rel=3e-7)


@pytest.mark.parametrize(("width", "hidden"), [(100, 101), (100, 400), (3, 3000)])
def test_the_spectrum_of_equal_coordinates_ends_as_marchenko_and_pastur_say(width: int, hidden: int) -> None:
    root = np.sqrt(hidden / width)
    assert RandomFeatures(1e-12, 1.0, width, hidden).support == pytest.approx(
        ((root - 1) ** 2, (root + 1) ** 2), rel=1e-8
    )


@pytest.mark.parametrize(("width", "more"), [(10**13, 1), (10**14, 100), (10**15, 100), (10**15, 10**4)])
def test_a_few_coordinates_more_than_features_are_told_apart_or_refused(width: int, more: int) -> None:
    """Marchenko and Pastur's lower end, (√(v/d) − 1)²; rounding δ of v costs a share of up to 2δ/(v − d)."""
    low, _ = RandomFeatures(1e-12, 1.0, width, width + more).support
    rounding = np.finfo(float).eps * width * np.log(width)
    assert low == pytest.approx((more / (2 * width)) ** 2, rel=2 * rounding / more)
    with pytest.raises(InputError, match=rf"width is {10**15}, hidden 1 more: .*; take fewer features"):
        RandomFeatures(1.0, 0.3, 10**15, 10**15 + 1).equivalent()


@pytest.mark.parametrize(("alpha", "hidden"), [(0.75, 101), (0.75, 400), (0.2, 1600)])
def test_drawn_eigenvalues_lie_in_the_support(alpha: float, hidden: int) -> None:
    """But for the features' fluctuations: 99 of 100 of 20 draws, and only in a support that is no longer than that."""
    features = RandomFeatures(alpha, 1.0, 100, hidden)
    low, high = features.support
    values = np.concatenate([features.draw(seed).values for seed in range(20)])
    assert np.mean((values > low) & (values < high)) > 0.99
    assert np.mean((values > low * 4) & (values < high / 1.5)) < 0.99


@pytest.mark.parametrize(
    ("alpha", "beta", "width", "hidden"),
    [(0.1, 0.9, 100, 1600), (0.2, 0.9, 100, 1600), (0.4, 0.8, 20, 2000), (0.2, 0.9, 300, 330), (0.75, 0.6, 4, 3000)],
)
def test_the_risk_of_wide_and_of_narrow_spectra_is_that_of_drawn_features(
    alpha: float, beta: float, width: int, hidden: int
) -> None:
    """Flat spectra, few features, and nearly as many as coordinates: the least risk, and that of SGD."""
    features = RandomFeatures(alpha, beta, width, hidden)
    found, step_size, steps = features.equivalent(), 0.3 / features.trace, np.array([3, 30, 3000])
    spectra = [features.draw(seed) for seed in range(24)]
    drawn = np.array([[one.least, *one.risk(step_size, steps)] for one in spectra])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    expected = np.array([found.least, *found.risk(step_size, steps)])
    assert np.all(abs(drawn.mean(axis=0) - expected) < 4 * error + drawn.mean(axis=0) / width)


@pytest.mark.parametrize(("alpha", "beta", "width", "hidden"), [(1.14, 0.83, 5, 13), (1.24, 0.78, 12, 30)])
def test_few_features_risk_more_than_their_equivalent_by_what_is_marked(
    alpha: float, beta: float, width: int, hidden: int
) -> None:
    """By a fifth and more of the mark, at most twice that; which goes as 1/d."""
    features = RandomFeatures(alpha, beta, width, hidden)
    step_size, steps = 0.15 / features.trace, np.array([10, 100, 3000])
    drawn = np.array([features.draw(seed).risk(step_size, steps) for seed in range(1500)])
    expected, mark = features.equivalent().risk(step_size, steps), features.width_error(step_size, steps)
    excess, error = drawn.mean(axis=0) / expected - 1, drawn.std(axis=0) / np.sqrt(len(drawn)) / expected
    assert np.all(excess - 4 * error < 2 * mark)
    assert np.all(excess + 4 * error > 0.2 * mark)
    assert np.all(excess[1:] > 4 * error[1:])
    many = [RandomFeatures(alpha, beta, d, 3 * d).width_error(step_size, np.array([10**9]))[0] for d in (400, 800)]
    assert many[0] / many[1] == pytest.approx(2, rel=0.05)


def test_without_a_neighbour_or_beside_the_edge_of_stability_the_mark_is_infinite() -> None:
    assert np.all(np.isinf(RandomFeatures(1.0, 0.6, 1, 2).width_error(0.01, np.array([1, 9]))))
    features = RandomFeatures(1.0, 0.6, 8, 20)
    edge = 0.5 / features.trace
    assert np.isfinite(features.equivalent().risk(edge, 9))
    assert np.isinf(features.width_error(edge, 9))


def test_no_mark_is_given_where_one_drawn_matrix_in_twenty_is_unstable() -> None:
    """The equivalent is stable, also of eigenvalues a deviation up: the mark was .67 of the risk after 300 steps."""
    features = RandomFeatures(1.28, 0.74, 28, 36)
    steps, step_size = np.array([3, 300]), 0.55 / features.trace
    found, spread = features.equivalent(), np.sqrt(2 / 28)
    assert np.all(np.isfinite(found.risk(step_size * np.exp(spread), steps)))
    assert np.all(np.isinf(features.width_error(step_size, steps)))
    drawn = [features.draw(seed) for seed in range(200)]
    grow = sum(float(np.sum(one.values / (2 / step_size - 2 * one.values))) >= 1 for one in drawn)
    assert 2 <= grow <= 30


@pytest.mark.parametrize(
    ("alpha", "width", "hidden"), [(0.75, 100, 101), (0.2, 100, 1600), (0.75, 30, np.inf), (1.0, 1, 2)]
)
def test_what_no_feature_sees_is_the_rest_of_the_signal(alpha: float, width: int, hidden: float) -> None:
    """The least risk and the whole signal sum up to the target's variance."""
    found = RandomFeatures(alpha, 0.6, width, hidden).equivalent()
    j = np.arange(1, min(hidden, 10**7) + 1)
    whole = np.sum(j ** (-2 * alpha - 1.2)) + (
        0 if np.isfinite(hidden) else scipy.special.zeta(2 * alpha + 1.2, j[-1] + 1)
    )
    assert found.least + found.signal.sum().real == pytest.approx(whole, rel=1e-7)
    assert found.least < 0.999 * whole


def test_the_least_risk_is_positive_below_the_rounding_of_the_whole() -> None:
    """It falls as d^(−2α) for β > ½, from 1e-16 of the whole here."""
    features = [RandomFeatures(2.0, 2.0, width) for width in (10**4, 2 * 10**4, 4 * 10**4)]
    least = np.array([one.equivalent().least for one in features])
    assert np.diff(np.log2(least)) == pytest.approx([-4, -4], abs=1e-3)


def test_a_curve_that_loses_eigenvalues_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theory.declared.random_features._DENSITY", 2)
    with pytest.raises(InputError, match=r"eigenvalues of sum .* in the place of 300 of sum"):
        RandomFeatures(0.2, 0.9, 300, 330).equivalent()


def test_the_models_noise_is_the_mean_over_widths_of_the_equivalents() -> None:
    features = RandomFeatures(0.75, 0.6, 150, 1500)
    least = np.array([features.draw(seed).least for seed in range(8)])
    error = least.std(ddof=1) / np.sqrt(8)
    assert abs(least.mean() - features.equivalent().least) < 4 * error + least.mean() / 150
    truncated = features.truncated().least
    assert truncated == pytest.approx(np.sum(np.arange(151.0, 1501.0) ** -2.7), rel=1e-4)  # of what is cut off
    assert abs(least.mean() - truncated) > 4 * error + least.mean() / 150


@pytest.mark.parametrize(
    ("alpha", "beta", "risk", "width"),
    [
        (0.75, 0.3, -1.1 / 2.5, 0.4),
        (0.75, 0.6, -1.7 / 2.7, 0.6 / 1.35),
        (0.75, 1.2, -2 / 3, 0.5),
        (0.75, 0.51, -1.52 / 2.52, 0.51 / 1.26),  # each phase up to its end
        (0.51, 1.2, -1.04 / 2.04, 0.5),
        (0.4, 0.51, -0.4, 0.5),
        (0.4, 0.3, 0.5 - 0.4 - 0.3, 0.5),  # Ib
        (0.2, 0.9, 0.2 * 1.2 / (0.2 * (1.8 - 3) - 1.8 + 1), 1.2 / (4 * 0.04 + 1.2 * 1.6)),  # Ic
        (0.4, 0.8, -0.4, 0.5),  # IVa
        (0.27, 0.8, 0.46 * 1.14 / (2 * (0.432 + 0.27 - 1.6)), (0.27 - 0.8) / (0.432 + 0.27 - 1.6)),  # IVb
    ],
)
def test_the_balance_gives_the_papers_exponents(alpha: float, beta: float, risk: float, width: float) -> None:
    assert phase_exponents(alpha, beta) == pytest.approx((risk, width), abs=1e-12)


def test_the_equivalent_of_heavy_tails_is_the_mean_of_drawn_features() -> None:
    features = RandomFeatures(0.4, 0.8, 100, 400)
    step_size, steps = 0.5 / features.trace, np.array([30, 300, 3000])
    drawn = np.log([features.draw(seed).risk(step_size, steps) for seed in range(8)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(8)
    expected = np.log(features.equivalent().risk(step_size, steps))
    assert np.all(abs(drawn.mean(axis=0) - expected) < 4 * error + 1 / 100)
    quiet = np.log(features.equivalent().risk(step_size, steps, kernel=False))
    assert np.all(abs(quiet - expected)[1:] > 4 * error[1:] + 1 / 100)


def test_where_two_widths_cross_the_wider_becomes_the_better_one() -> None:
    """On a grid of compute in steps of 2 %, drawn features of 20 and 60 out of 300."""
    two = [Trained(width, RandomFeatures(0.75, 0.6, width, 300).draw(2), 0.002) for width in (20, 60)]
    found = crossing(*two)
    compute = found.compute * np.geomspace(1e-2, 1e2, 460)
    better = two[1].risk(compute) < two[0].risk(compute)
    assert np.array_equal(better, compute > found.compute)
    assert found.risk == pytest.approx(two[1].risk(found.compute), rel=1e-9)
    assert found.width == pytest.approx(np.sqrt(1200))


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"alpha is 0\.4"):
        RandomFeatures(0.4, 0.3, 10)
    with pytest.raises(InputError, match=r"hidden is 10\.5: give a whole number"):
        RandomFeatures(0.75, 0.3, 10, 10.5)
    with pytest.raises(InputError, match=r"alpha is 0\.5"):
        phase_exponents(0.5, 1.0)
    with pytest.raises(InputError, match="raise one of them"):
        phase_exponents(0.2, 0.3)
    with pytest.raises(InputError, match="hidden"):
        RandomFeatures(0.75, 0.3, 10).draw()
    with pytest.raises(InputError, match="mean square grows"):
        RandomFeatures(0.75, 0.3, 10, 100).draw().risk(2.0, [10])
