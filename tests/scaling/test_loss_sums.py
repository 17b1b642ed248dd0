"""Loss sums: exact staircases, power sums with their bound, random overlaps, limits, frontiers, and their derivation."""

from dataclasses import dataclass, replace

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from sympy import lambdify

from benchmarks import loss_sum
from theory import Activation, DerivationError, InputError, SingleTask
from theory.core import power_sums
from theory.core.power_sums import power_sum
from theory.one_task import single_task
from theory.scaling import frontiers, scaling_laws
from theory.scaling.extreme_overlaps import OverlapLaw
from theory.scaling.finite_dim_loss import FiniteDimLoss
from theory.scaling.largest_overlap import FixedOverlap, LargestOverlap
from theory.scaling.loss_sums import LossSum, smooth_loss, step_shape
from theory.scaling.power_law_loss import PowerLawLoss
from validation import TheoryUnderTest
from validation.claims.scaling import budgets as scaling_budgets
from validation.judge.context import Context

H4 = Activation.parse("h4")

# ------------------------------------------------------------------------------ sums


@pytest.mark.parametrize("power", [0.4, 0.999, 1.0, 1.2, 2.0, 4.0])
def test_power_sums_are_the_sums(power: float) -> None:
    p = np.arange(1, 5001.0) ** -power
    for after, last in ((0, 1), (0, 16), (3, 17), (16, 17), (20, 20), (40, 30), (15, 5000), (4990, 5000)):
        assert power_sum(power, after, last) == pytest.approx(p[after:last].sum(), rel=2e-13, abs=0)


@pytest.mark.parametrize(
    ("power", "after", "last"),
    [
        (8.0, 15, np.inf),
        (20.0, 15, np.inf),
        (10.0, 16, np.inf),
        (16.0, 20, 400),
        (1.6, 10**7 - 1, 10**7),
        (0.3, 15, 16),
    ],
)
def test_power_sums_keep_their_digits(power: float, after: float, last: float) -> None:
    """Large powers, sums that begin late, and short ones: where differences and the expansion lose most."""
    with mpmath.workdps(50):
        exact = mpmath.zeta(power, after + 1) - (0 if np.isinf(last) else mpmath.zeta(power, last + 1))
        assert float(abs(power_sum(power, after, last) / exact - 1)) < 1e-13


def test_infinite_power_sums_are_zeta() -> None:
    found = power_sum(1.2, np.array([0, 10, 1000]))
    np.testing.assert_allclose(found, [float(mpmath.zeta(1.2, n)) for n in (1, 11, 1001)], rtol=1e-13)
    assert power_sum(1.2, np.inf) == 0
    with pytest.raises(InputError, match="above 1"):
        power_sum(1.0, 0)


@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("power", [1.2, 2.0, 3.5])
def test_remainder_is_within_its_bound_and_not_far_below(terms: int, power: float) -> None:
    at = {power_sums.s: power, power_sums.n: 7}
    with mpmath.workdps(30):
        error = abs(float(mpmath.zeta(power, 8) - mpmath.mpf(str(power_sums.expansion(terms).subs(at).evalf(30)))))
    bound = float(power_sums.remainder_bound(terms).subs(at))
    assert 0.5 * bound < error < bound


def test_loss_sum_is_its_definition_in_any_order() -> None:
    rng = np.random.default_rng(1)
    weights, emergence, times = (
        rng.random(40),
        rng.permutation(np.append(rng.random(38), [np.inf, 0.5])),
        rng.random((3, 5)),
    )
    found = LossSum.of(weights, emergence, 1.7)(times)
    expected = [[0.85 * np.sum(weights**2 * (t < emergence)) for t in row] for row in times]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert LossSum.of([2.0], [1.0])(1.0) == 0.0
    assert LossSum.of([2.0], [1.0])(np.nextafter(1.0, 0)) == 2.0


def test_late_losses_keep_their_digits() -> None:
    weights = np.array([1.0, 1e-9])
    assert LossSum.of(weights, [1.0, 2.0])(1.5) == pytest.approx(0.5e-18, rel=1e-14)


def test_loss_sum_refuses_what_does_not_fit() -> None:
    with pytest.raises(InputError, match="one time for each"):
        LossSum.of([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="not numbers"):
        LossSum.of([1.0], [np.nan])


def test_steps_have_the_shape_of_the_derived_norm_equation() -> None:
    """Integrate the derived rate of an aligned student's norm; (a − r)² must be a²D."""
    task, weight, start = SingleTask(H4), 0.7, 1e-3
    rate = lambdify(single_task.r0, task.norm_rate.subs({single_task.u: 1, single_task.a: weight}))
    times = np.linspace(0, 6, 7)
    flow = integrate.solve_ivp(lambda t, r: rate(r), (0, 6), [start], t_eval=times, rtol=1e-9, atol=1e-12).y[0]
    half = task.lag(weight, start)
    np.testing.assert_allclose((1 - flow / weight) ** 2, step_shape(4 * weight * (times - half)), atol=1e-7)
    assert smooth_loss([weight], [half], np.array([half]))[0] == pytest.approx(0.5 * weight**2 / 4)


def test_what_is_never_learned_stays() -> None:
    weights, hit = np.array([1.0, 0.5]), np.array([1.0, np.inf])
    np.testing.assert_allclose(smooth_loss(weights, hit, np.array([0.0, np.inf])), [0.5 * np.sum(
        weights**2 * np.array([float(step_shape(-4.0)), 1.0])), 0.125])  # fmt: skip


def test_sharp_steps_are_the_staircase() -> None:
    weights, emergence, times = np.array([3.0, 2.0]), np.array([1e6, 2e6]), np.array([5e5, 1.5e6, 3e6])
    np.testing.assert_allclose(
        smooth_loss(weights, emergence, times), LossSum.of(weights, emergence)(times), atol=1e-12
    )


# -------------------------------------------------------------------------- overlaps


def test_moments_of_the_largest_overlap() -> None:
    assert LargestOverlap(1).moment(2) == pytest.approx(1, rel=1e-12)
    assert LargestOverlap(1).moment(-0.5) == pytest.approx(
        2**-0.25 * float(mpmath.gamma(0.25) / mpmath.sqrt(mpmath.pi)), rel=1e-10
    )
    assert LargestOverlap(1).moment(-1) == np.inf
    signed = LargestOverlap(2, OverlapLaw(signed=True))
    normal = stats.norm
    above, _ = integrate.quad(lambda u: 2 * normal.cdf(u) * normal.pdf(u) * np.exp(-u), 0, np.inf)
    assert signed.expect(lambda g: np.exp(-g)) == pytest.approx(0.25 + above, rel=1e-9)
    assert signed.expect(lambda g: g**2) == pytest.approx(signed.moment(2), rel=1e-9)
    for law in (LargestOverlap(3), LargestOverlap(1000), LargestOverlap(50, OverlapLaw(40))):
        assert law.expect(np.ones_like) == pytest.approx(1, rel=1e-12)
        drawn = law.quantile(np.random.default_rng(0).random(20_000))
        for power in (-1.5, 2.0):
            assert np.mean(drawn**power) == pytest.approx(law.moment(power), abs=5 * np.std(drawn**power) / 20_000**0.5)


@pytest.mark.parametrize(
    ("count", "power"), [(1, -0.5), (1, -0.99), (1, -0.999), (5, -4.999), (1000, -3.0), (1000, 2.0)]
)
def test_moments_down_to_the_one_that_diverges(count: int, power: float) -> None:
    def density(y: mpmath.mpf) -> mpmath.mpf:
        g = mpmath.exp(y)
        return count * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-g * g / 2 + y * (power + 1)) * mpmath.erf(
            g / mpmath.sqrt(2)) ** (count - 1)  # fmt: skip

    low = -12.0  # below it, a power of g
    exact = mpmath.quad(density, list(np.linspace(low, 3, 60))) + density(low) / (count + power)
    assert LargestOverlap(count).moment(power) == pytest.approx(float(exact), rel=1e-7)
    assert LargestOverlap(count).moment(-float(count)) == np.inf


@pytest.mark.parametrize(("dim", "digits"), [(3, 11), (4, 11), (6, 11), (12, 11), (1024, 11)])
def test_moments_of_a_finite_dimension(dim: int, digits: float) -> None:
    """One overlap: E g² = 1 and E g⁴ = 3d/(d + 2)."""
    law = LargestOverlap(1, OverlapLaw(dim=dim))
    assert law.moment(2.0) == pytest.approx(1, rel=10**-digits)
    assert law.moment(4.0) == pytest.approx(3 * dim / (dim + 2), rel=10**-digits)


@pytest.mark.slow_for("5000")
@pytest.mark.parametrize("dim", [12, 40, 5000])
def test_every_moment_of_one_overlap(dim: int) -> None:
    """E g^q is a ratio of beta functions; down to the one that diverges, where g² underflows."""
    half, law = mpmath.mpf(dim - 1) / 2, LargestOverlap(1, OverlapLaw(dim))
    for power in (-0.999, -0.9, -0.8, -0.76, -0.75, -0.5, 0.0, 1.0, 3.3):
        exact = mpmath.mpf(dim) ** (power / 2) * mpmath.beta((1 + power) / 2, half) / mpmath.beta(0.5, half)
        assert law.moment(power) == pytest.approx(float(exact), rel=1e-11)


def test_overlaps_that_may_be_0_have_no_negative_moments() -> None:
    law = LargestOverlap(2, OverlapLaw(12, signed=True))
    assert law.moment(0.0) == pytest.approx(1, rel=1e-11)
    assert law.moment(-0.5) == np.inf


@pytest.mark.parametrize("power", [-3.0, -1.5, 2.0])
def test_expansion_for_many_overlaps_has_an_error_of_sixth_order(power: float) -> None:
    scaled = []
    for count in (10**3, 10**6, 10**9):
        law = LargestOverlap(count)
        scaled.append((law.asymptotic_moment(power) / law.moment(power) - 1) * law.gumbel().location ** 6)
    assert max(np.abs(scaled)) < 1.7 * min(np.abs(scaled))


# ------------------------------------------------------------------------- loss laws


def brute(law: PowerLawLoss, times: np.ndarray, width: float = np.inf) -> np.ndarray:
    p = np.arange(1, law.teachers + 1.0)
    waiting = law.law.cdf((p**law.decay / times[:, None]) ** (1 / (law.exponent - 2)))
    return np.where(p <= width, waiting, 1.0) @ p ** (-2 * law.decay) / np.sum(p ** (-2 * law.decay))


@pytest.mark.parametrize("decay", [0.25, 0.5, 0.8, 2.0])
@pytest.mark.parametrize("count", [8, 1000])
@pytest.mark.parametrize("exponent", [4, 6])
def test_expected_share_is_the_sum(decay: float, count: int, exponent: int) -> None:
    law = PowerLawLoss(decay, 20_000, LargestOverlap(count), exponent)
    times = law.time_of(np.geomspace(0.1, 18_000, 9))
    np.testing.assert_allclose(law.share(times), brute(law, times), rtol=1e-9)
    np.testing.assert_allclose(law.share(times, 3000), brute(law, times, 3000), rtol=1e-9)


def test_expected_share_is_the_mean_of_drawn_staircases() -> None:
    law, rng = PowerLawLoss(0.8, 300, LargestOverlap(20)), np.random.default_rng(3)
    times, weights = law.time_of(np.array([2, 20, 200])), np.arange(1, 301.0) ** -0.8
    runs = np.array(
        [
            2 * LossSum.of(weights, 1 / (weights * law.law.quantile(rng.random(300)) ** 2))(times) / law.norm2
            for _ in range(400)
        ]
    )
    gap, error = runs.mean(axis=0) - law.share(times), runs.std(axis=0) / 20
    assert np.all(np.abs(gap) < 4 * error)
    equal = PowerLawLoss(0.8, 300, FixedOverlap(law.typical_overlap))
    assert abs(runs.mean(axis=0)[0] - equal.share(times)[0]) > 4 * error[0]


def test_equal_overlaps_jump_at_the_emergence_times() -> None:
    assert FixedOverlap(2.0).cdf([1.9, 2.0, 2.1]).tolist() == [0.0, 1.0, 1.0]
    law = PowerLawLoss(1.3, 50, FixedOverlap(2.0))
    p = np.arange(1, 51)
    left = np.array([power_sum(2.6, n, 50) for n in p]) / law.norm2
    np.testing.assert_allclose(law.share(law.time_of(p)), left, rtol=1e-12)
    np.testing.assert_allclose(law.share(law.time_of(p) * 0.999)[1:], left[:-1], rtol=1e-12)


@pytest.mark.parametrize("decay", [0.3, 0.6, 0.8, 2.0])
def test_two_term_law_and_the_infinite_teacher(decay: float) -> None:
    law = PowerLawLoss(decay, 10**8, LargestOverlap(10**6))
    times = law.time_of(np.array([1e3, 1e4]))
    np.testing.assert_allclose(law.corrected(times), law.share(times), rtol=1e-9)
    if decay > 0.5:
        infinite = replace(law, teachers=np.inf)
        np.testing.assert_allclose(infinite.limit(times), infinite.share(times), rtol=1e-8)
        assert infinite.limit(times)[0] / infinite.limit(times)[1] == pytest.approx(10 ** (2 * decay - 1))


def test_heavy_tail_tends_to_its_limit_as_stated() -> None:
    gaps = []
    for teachers in (10**4, 10**6):
        law = PowerLawLoss(0.25, teachers, LargestOverlap(100))
        gaps.append(float(law.share((0.01 * teachers) ** 0.25) - law.heavy_limit(0.01)))
    assert gaps[0] / gaps[1] == pytest.approx(10.0, rel=0.05)  # P^(2β − 1)
    assert PowerLawLoss(0.25, 100).heavy_limit(0.09) == pytest.approx(0.7)


def test_reduced_times_are_the_leading_emergence_times() -> None:
    law, dim, overlap = PowerLawLoss(0.8, 6), 500, 0.1
    weights = np.arange(1, 7.0) ** -0.8 / np.sqrt(law.norm2)
    leading = [SingleTask(H4).leading_time(float(a), overlap) for a in weights]
    reduced = np.arange(1, 7.0) ** 0.8 / (overlap * np.sqrt(dim)) ** 2
    np.testing.assert_allclose(law.unit(dim) * reduced, leading, rtol=1e-12)


def test_loss_laws_refuse_what_has_no_meaning() -> None:
    for arguments, said in (
        ((-1.0, 10), "decay"), ((1.0, 2.5), "teachers"), ((0.4, np.inf), "one half"),
        ((1.0, 10, FixedOverlap(), 2), "exponent"), ((1.0, 10, LargestOverlap(3, OverlapLaw(signed=True))), "signed"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            PowerLawLoss(*arguments)
    with pytest.raises(InputError, match="no moment"):
        PowerLawLoss(2.0, 100, LargestOverlap(2)).limit(1.0)
    with pytest.raises(InputError, match="above one half"):
        PowerLawLoss(0.4, 100).limit(1.0)
    with pytest.raises(InputError, match="below one half"):
        PowerLawLoss(0.8, 100).heavy_limit(0.1)
    with pytest.raises(InputError, match="logarithm"):
        PowerLawLoss(0.5, 100).corrected(1.0)


@pytest.mark.parametrize("dim", [3, 4])
def test_in_few_dimensions_starts_beyond_half_are_learned_at_once(dim: int) -> None:
    r"""And just below after the time in closed form, of h4: $8K=\ln((1-M)/M)+1/M-2$ from M to ½."""
    law = FiniteDimLoss(H4, 1.0, 1, LargestOverlap(5, OverlapLaw(dim)))
    squared = np.array([0.5, 0.4999, 0.49, 0.3, 0.05])
    times = (np.log((1 - squared) / squared) + 1 / squared - 2) / 8 / law.unit
    expected = stats.beta(0.5, (dim - 1) / 2).cdf(squared) ** 5
    np.testing.assert_allclose(law.share(times), expected, rtol=1e-6)


def test_finite_dimension_uses_exact_times_and_overlaps() -> None:
    mixture = Activation.parse("0.8*h4+0.6*h6")
    law = FiniteDimLoss(mixture, 1.0, 30, LargestOverlap(50, OverlapLaw(200.0)))
    time = 0.7
    needed = law.needed(time)
    for p in (1, 4, 30):  # an overlap of this size is learned at that time
        assert SingleTask(mixture).half_time(1 / p, float(needed[p - 1])) == pytest.approx(time * law.unit, rel=1e-6)
    far = FiniteDimLoss(H4, 1.0, 30, LargestOverlap(50, OverlapLaw(1e7)))
    times = far.limit.time_of(np.array([2, 9]))
    np.testing.assert_allclose(far.share(times), far.limit.share(times), rtol=1e-4)
    near = FiniteDimLoss(H4, 1.0, 30, LargestOverlap(50, OverlapLaw(200.0)))
    assert abs(float(near.share(times)[0] / near.limit.share(times)[0]) - 1) > 0.01


# ------------------------------------------------------------------------- frontiers


@pytest.mark.parametrize(("schedule", "power"), [("fixed", 1), ("unstable", 2)])
def test_frontier_is_the_least_over_all_widths(schedule: str, power: int) -> None:
    """Of the cost m neurons have the time (C/m)^(1/κ)."""
    law = PowerLawLoss(0.8, 60, LargestOverlap(30))
    costs = frontiers.cost_of(law, np.array([3, 10, 30]), schedule)
    np.testing.assert_allclose((costs / [3, 10, 30]) ** (1 / power), law.time_of([3, 10, 30]), rtol=1e-13)
    found = frontiers.frontier(law, costs, np.arange(1, 61), schedule)
    every = np.array([brute(law, (costs / m) ** (1 / power), m) for m in range(1, 61)])
    np.testing.assert_allclose(found.share, every.min(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(found.cost, costs)
    assert list(found.width) == list(every.argmin(axis=0) + 1)


@pytest.mark.parametrize(("schedule", "power"), [("fixed", 1), ("unstable", 2)])
def test_what_random_overlaps_change_of_a_frontier_is_the_mean_over_draws(schedule: str, power: int) -> None:
    """J = 6, where g enters by its fourth power: of draws of the largest of 40 overlaps, over a grid of w."""
    law = PowerLawLoss(0.9, np.inf, LargestOverlap(40), 6)
    draws = np.abs(np.random.default_rng(0).standard_normal((20_000, 40))).max(axis=1)
    slope = (1 - 2 * 0.9) / (1 + power * 0.9)
    w = np.geomspace(3, 300, 60)
    kept = np.maximum(1.0, (w[:, None] / draws**4) ** (0.8 / 0.9))
    level = w ** (power * slope) * kept.mean(axis=1)
    best = int(np.argmin(level))
    error = w[best] ** (power * slope) * kept[best].std() / np.sqrt(len(draws))
    constant = frontiers.constant(law, schedule)
    assert abs(level[best] - constant) < 4 * error + 1e-3 * constant
    assert error < 0.005 * constant
    costs = np.array([1e8, 1e10])
    tail = constant * costs**slope / (0.8 * float(mpmath.zeta(1.8)))
    np.testing.assert_allclose(frontiers.corrected_frontier(law, costs, schedule), tail, rtol=1e-9)


def test_a_step_learns_what_survives_it_and_has_the_samples() -> None:
    """Direction by direction: a score below the step is lost, and growth by η·score a sample takes 1/(η·score) of them."""
    rng = np.random.default_rng(5)
    score, weights = rng.random(400), rng.random(400)
    for step, samples in ((0.05, 30.0), (0.3, 30.0), (0.02, 2000.0), (0.5, 3.0)):
        left = sum(w**2 / 2 for s, w in zip(score, weights, strict=True) if s < step or samples * step * s < 1)
        assert frontiers.stepped_loss(score, weights, step, samples) == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize("schedule", frontiers.SCHEDULES)
def test_frontier_tends_to_its_law(schedule: str) -> None:
    law = PowerLawLoss(0.8, 10**6, LargestOverlap(500))
    cost = frontiers.cost_of(law, np.array([2000.0]), schedule)
    found = frontiers.frontier(law, cost, np.unique(np.geomspace(1000, 3500, 40).astype(int)), schedule)
    assert found.share[0] == pytest.approx(frontiers.corrected_frontier(law, cost, schedule)[0], rel=1e-3)
    assert frontiers.exponent(0.8, schedule) == pytest.approx({"fixed": -1 / 3, "unstable": -3 / 13}[schedule])


def test_equal_overlaps_learn_as_many_directions_as_neurons() -> None:
    for overlap in (3.0, 0.005):
        law = PowerLawLoss(0.8, 1000, FixedOverlap(overlap))
        assert frontiers.constant(law) == pytest.approx(overlap ** (2 * frontiers.exponent(0.8)), rel=1e-6)


def test_a_frontier_of_few_directions_lacks_the_tail_of_their_squares() -> None:
    """By the midpoint rule, off by β(2β − 1)/12P² of it."""
    few, all_ = (PowerLawLoss(0.8, count, LargestOverlap(10)) for count in (30, np.inf))
    lost = [frontiers.corrected_frontier(law, [50.0], "fixed")[0] * law.norm2 for law in (all_, few)]
    assert lost[0] - lost[1] == pytest.approx(float(mpmath.zeta(1.6, 31)), rel=2 * 0.8 * 0.6 / 12 / 30**2)


def test_best_step_size_is_the_geometric_mean() -> None:
    rng = np.random.default_rng(2)
    score, weights, samples = rng.random(50), rng.random(50), np.array([3.0, 100.0])
    best = np.min(
        [frontiers.stepped_loss(score, weights, step, samples) for step in np.geomspace(0.01, 3, 4001)], axis=0
    )
    exact = LossSum.of(weights, 1 / score)(np.sqrt(samples))
    np.testing.assert_allclose(best, exact, rtol=1e-12)
    with pytest.raises(InputError, match="schedule"):
        frontiers.exponent(0.8, "wild")


# ------------------------------------------------------------ derivation, claim, speed


@pytest.mark.parametrize("text", ["h4", "0.8*h4+0.6*h6", "h8"])
def test_every_law_of_the_derivation_holds(text: str) -> None:
    assert scaling_laws.derivation(Activation.parse(text)).verify() == 16


def test_derivation_refuses_other_activations_and_wrong_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("h3", "h2"):
        with pytest.raises(InputError, match=r"Theorem 2\.1"):
            scaling_laws.derivation(Activation.parse(text))
    right = PowerLawLoss.corrected
    monkeypatch.setattr(PowerLawLoss, "corrected", lambda self, times: 1.0001 * right(self, times))
    with pytest.raises(DerivationError, match="missing tail"):
        scaling_laws.derivation(H4).verify()


def test_local_exponent_has_its_limit_at_one_half() -> None:
    times = np.array([3.0, 30.0])
    at, near = (scaling_laws.local_exponent(PowerLawLoss(x, 10**6), times) for x in (0.5, 0.5 + 1e-7))
    np.testing.assert_allclose(at, near, rtol=1e-5)
    np.testing.assert_allclose(at, -2 / np.log((10**6 + 0.5) / times**2))
    np.testing.assert_allclose(scaling_laws.local_exponent(PowerLawLoss(0.8, np.inf), times), -0.75)


def test_local_exponent_of_few_directions_is_the_slope_of_their_exact_sum() -> None:
    """Of 30, 6 to 10 of which are learned: the missing tail begins half a direction after the last."""
    law, step = PowerLawLoss(0.8, 30, LargestOverlap(1000)), 1e-3
    times = law.time_of(np.array([6.0, 8.0, 10.0]))
    shares = [law.share(times * np.exp(x)) for x in (step, -step)]
    slope = np.log(shares[0] / shares[1]) / (2 * step)
    np.testing.assert_allclose(scaling_laws.local_exponent(law, times), slope, rtol=5e-4)


@pytest.mark.parametrize("law", [FixedOverlap(), LargestOverlap(10)])
def test_shares_at_the_ends_of_time(law: FixedOverlap | LargestOverlap) -> None:
    for teachers in (50, np.inf):
        np.testing.assert_allclose(PowerLawLoss(1.0, teachers, law).share([0.0, np.inf]), [1.0, 0.0], atol=1e-12)
    left = power_sum(2.0, 20, 50) / power_sum(2.0, 0, 50)
    assert PowerLawLoss(1.0, 50, law).share(np.inf, 20) == pytest.approx(float(left))
    for times, width, says in ((-1.0, 20, "negative"), (np.nan, 20, "no numbers"), (1.0, 20.5, "whole number")):
        with pytest.raises(InputError, match=says):
            PowerLawLoss(1.0, 50, law).share(times, width)


def test_slopes_of_a_finite_teacher() -> None:
    found = scaling_laws.window_exponents(0.8, 4096, 5000, H4)
    assert found is not None
    assert found["directions"] == [4.0, 512.0]
    law = PowerLawLoss(0.8, 4096, LargestOverlap(5000))
    middle = law.time_of(np.sqrt(4 * 512))
    assert found["time"] == pytest.approx(float(scaling_laws.local_exponent(law, middle)), abs=0.03)
    np.testing.assert_allclose(found["compute"], -0.359, atol=0.003)  # the same window, other widths: claim E22
    for arguments in ((None, 100, 100, H4), (0.4, 100, 100, H4), (0.8, 63, 100, H4), (0.8, 100, 63, H4)):
        assert scaling_laws.window_exponents(*arguments) is None
    assert scaling_laws.window_exponents(0.8, 100, 100, Activation.parse("h3")) is None


@dataclass(frozen=True)
class Slow(PowerLawLoss):
    """A conjecture whose directions take p^{1.05β}."""

    def share(self, times: np.ndarray, width: float = np.inf) -> np.ndarray:
        return super().share(np.asarray(times) ** (1 / 1.05), width)


def test_a_wrong_loss_law_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_budgets, "DECAYS", (0.8,))
    claim = scaling_budgets.run_retuned
    for law, verdict in ((PowerLawLoss, "agrees"), (Slow, "disagrees")):
        found = claim.run(Context(theory=TheoryUnderTest({PowerLawLoss: law}))).measurements
        assert {claim.judge(x).verdict for x in found} == {verdict}


def test_benchmark_at_a_small_size() -> None:
    rows = loss_sum.run(2000, 300, 1)
    assert [row.target for row in rows] == [0.2, None, None, None]
    assert all(row.value > 0 for row in rows)


def test_one_schedule_pays_its_price_at_any_number_of_samples() -> None:
    """Twice the samples for any score; of many directions the loss is a power of them."""
    law = PowerLawLoss(0.8, np.inf, LargestOverlap(20))
    samples = law.time_of(np.array([300.0, 3000.0])) ** 2
    shares = frontiers.one_schedule_share(law, samples) / frontiers.unstable_share(law, samples)
    np.testing.assert_allclose(shares, frontiers.one_schedule_price(0.8), rtol=1e-5)
    np.testing.assert_allclose(
        frontiers.one_schedule_share(law, 2 * samples), frontiers.unstable_share(law, samples), rtol=1e-12
    )
