"""The law of the flow with norms, against the closed form of the flow from many random starts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import scipy
import sympy as sp

from dynamics.quadratic.quadratic_flow import QuadraticFlow, quadratic_flow
from dynamics.quadratic.riccati import riccati_flow
from emergence.models.quadratic import MODEL, QuadraticProblem, resolve
from theory import InputError, Subspace
from theory.quadratic.filling import fermi, level, moved_by_a_column
from theory.quadratic.flow_law import FlowLaw
from theory.quadratic.occupation import Occupation
from theory.quadratic.subspace import draw_subspace

ONE_OVER = 1 / np.arange(1.0, 9.0)
EQUAL = np.ones(6)


def law(weights: np.ndarray, width: int, dim: int = 300, norm2: float = 1e-4) -> FlowLaw:
    return FlowLaw(weights / np.linalg.norm(weights), dim, width, norm2)


def drawn(made: FlowLaw, count: int, seed: int = 0) -> Iterator[QuadraticFlow]:
    """The flow from random columns."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        columns = generator.standard_normal((made.dim, made.width))
        columns *= np.sqrt(made.norm2) / np.linalg.norm(columns, axis=0)
        rest = np.linalg.qr(columns[made.spectrum.size :], mode="r")
        yield quadratic_flow(made.spectrum, Subspace(columns[: made.spectrum.size], rest))


def held_by(flows: Iterable[QuadraticFlow], times: np.ndarray) -> np.ndarray:
    """S_jj, (count, T, M*)."""
    return np.array([[np.sum(one.on_teachers**2, axis=1) for one in flow.factor(times)] for flow in flows])


@pytest.mark.parametrize(
    ("weights", "width", "norm2"),
    [(ONE_OVER, 20, 1e-4), (ONE_OVER, 40, 3.0), (EQUAL, 12, 1e-3)],
    ids=["light", "heavy", "equal"],
)
def test_means_of_random_starts_are_the_law_up_to_one_over_the_width(
    weights: np.ndarray, width: int, norm2: float
) -> None:
    """And not to that of a student a quarter wider."""
    made = law(weights, width, norm2=norm2)
    times = np.append(0.0, np.geomspace(0.3, 3, 7) * np.log(made.dim / norm2) / (2 * made.spectrum[0]))
    flows, count = list(drawn(made, 40)), np.sqrt(40)
    held, risks = held_by(flows, times), np.array([flow.risk(times) for flow in flows])
    share, error = (held / made.spectrum).mean(axis=0), (held / made.spectrum).std(axis=0, ddof=1) / count
    whole, its_error = risks.mean(axis=0), risks.std(axis=0, ddof=1) / count

    def fits(one: FlowLaw) -> bool:
        expected, loss = one.diagonal(times) / one.spectrum, one.risk(times)
        shares = np.abs(share - expected) <= 4.5 * error + 0.5 / width * np.maximum(expected[0], expected)
        return bool(np.all(shares) and np.all(np.abs(whole - loss) <= 4.5 * its_error + loss / width))

    assert fits(made)
    assert not fits(replace(made, width=width * 5 // 4))


def test_it_begins_at_the_moments_of_random_columns() -> None:
    made = law(ONE_OVER, 12, norm2=0.7)
    a, N, d, rho = made.spectrum, 12, 300, 0.7
    assert made.diagonal([0.0])[0] == pytest.approx(rho * N / d * np.ones(8))
    square = N * rho**2 + N * (N - 1) * rho**2 / d
    exact = 2 * (1 - 2 * a.sum() * rho * N / d + square)
    assert made.risk([0.0])[0] == pytest.approx(exact, rel=2 / d)


@pytest.mark.parametrize("width", [4, 8, 40])
def test_it_ends_at_the_best_fit_of_its_width(width: int) -> None:
    made = law(ONE_OVER, width)
    late = 3e3 * np.log(made.dim / made.norm2)
    assert made.risk([late])[0] == pytest.approx(2 * np.sum(made.spectrum[width:] ** 2), abs=1e-3)
    assert np.isfinite(made.half_times()).tolist() == [j < width for j in range(8)]
    assert np.all(np.isfinite(made.risk([1e6 * late])))


@pytest.mark.parametrize("norm2", [1e-8, 1e-2, 5.0])
def test_half_times_are_crossings_of_the_law(norm2: float) -> None:
    made = law(ONE_OVER, 12, norm2=norm2)
    found = made.half_times()
    for j in np.flatnonzero(found > 0):
        before, after = made.diagonal(found[j] * np.array([0.999, 1.001]))[:, j] / made.spectrum[j]
        assert before < 0.5 < after
    assert np.all(found > 0)


@pytest.mark.slow
def test_heavy_columns_hold_a_direction_when_it_is_back() -> None:
    """From columns of norm 2 directions 2 to 4 start above half, shrink, and come back: medians of the closed form.

    The band of a median of 100, 5 standard errors of 1.25 σ/√100, is about 6 %. Where nothing drops below, the time is 0.
    """
    made = law(1 / np.arange(1.0, 5.0), 32, dim=400, norm2=4.0)
    times = np.append(0.0, np.geomspace(1e-2, 20, 250))
    held = held_by(drawn(made, 100), times)
    above = held >= made.spectrum / 2
    assert above[:, 0].mean(axis=0)[1:].min() > 0.95
    last = len(times) - 1 - np.argmax(~above[:, ::-1], axis=1)  # (count, M*), the last time below
    back = np.median(np.sqrt(times[last] * times[last + 1]), axis=0)
    assert made.half_times() == pytest.approx(back, rel=0.06)
    assert np.array_equal(law(np.ones(1), 300, norm2=4.0).half_times(), [0.0])


@pytest.mark.slow
def test_medians_of_few_columns_are_its_times() -> None:
    """Within 3 % where one column more or less moves them by less than 10 %, at four columns; the decoupled time is not."""
    made = law(1 / np.arange(1.0, 7.0), 4, dim=1000)
    found, moved = made.half_times(), made.moved_by_a_column()
    times = np.append(0.0, np.geomspace(0.3 * found[0], 3 * found[2], 200))
    held = held_by(drawn(made, 200, seed=3), times)
    share = held / made.spectrum
    after = np.argmax(share >= 0.5, axis=1)
    first = np.sqrt(times[after] * times[np.maximum(after - 1, 1)])  # (count, M*), between two times 2 % apart
    kept = np.flatnonzero((moved <= 0.1) & np.isfinite(found))
    assert kept.tolist() == [0, 1, 2]
    assert np.median(first[:, kept], axis=0) == pytest.approx(found[kept], rel=0.03)
    alone = np.log(made.spectrum * 1000 / (made.norm2 * 4) - 1) / (2 * made.spectrum)
    assert np.median(first[:, 2]) > 1.05 * alone[2]


def test_a_column_decides_about_the_last_direction_that_is_held() -> None:
    made = law(1 / np.arange(1.0, 7.0), 4, dim=1000)
    moved = made.moved_by_a_column()
    assert np.isinf(moved).tolist() == [False, False, False, True, True, False]
    assert moved[5] == 0  # neither four nor five hold it
    fewer, more = (replace(made, width=n).half_times()[:3] for n in (3, 5))
    own = made.half_times()[:3]
    assert moved[:3] == pytest.approx(np.maximum(fewer / own - 1, 1 - more / own))
    assert np.isinf(law(ONE_OVER, 8, dim=8).moved_by_a_column()).tolist() == 7 * [False] + [True]  # no wider one exists


@pytest.mark.parametrize(("count", "width"), [(7, 2), (7, 5), (30, 12), (30, 20)])
def test_the_start_decides_who_has_a_width_that_equal_weights_share(count: int, width: int) -> None:
    """The late subspace is uniform among the P directions: G_jj has the law Beta(N/2, (P − N)/2)."""
    share = scipy.stats.beta.cdf(0.5, width / 2, (count - width) / 2)
    rare = min(share, 1 - share)
    assert rare > 0.08
    assert law(np.ones(count), width, dim=1000).undecided() == pytest.approx(np.full(count, rare), rel=1e-3)
    assert np.all(law(ONE_OVER, 8, dim=1000).undecided() < 1e-9)


def test_what_is_displaced_later_is_held_for_a_while() -> None:
    """Direction 15 and on of twenty close weights, fourteen columns: in the mean of starts above half, and not in the end."""
    made = law(np.arange(1, 21.0) ** -0.02, 14)
    assert made.held_for_a_while().tolist() == [j >= 14 for j in range(20)]
    held = held_by(drawn(made, 20), np.array([1.5 * made.half_times()[0], 2e4]))[:, :, 15:] / made.spectrum[15:]
    assert held[:, 0].mean() > 0.55
    assert held[:, 1].max() < 0.5
    assert not law(ONE_OVER, 4).held_for_a_while().any()


def test_a_dimension_may_be_any_whole_number() -> None:
    """Beyond those of a machine, too: times grow by ln d, as they do between smaller ones."""
    at = [law(ONE_OVER, 12, dim=d).half_times()[:3] for d in (10**30, 10**60, 10**90)]
    assert np.diff(at, axis=0)[1] == pytest.approx(np.diff(at, axis=0)[0], rel=1e-3)
    half = [Occupation(ONE_OVER / np.linalg.norm(ONE_OVER), d, 12).half_times()[:3] for d in (10**30, 10**60, 10**90)]
    assert np.diff(half, axis=0) == pytest.approx(np.diff(at, axis=0), rel=1e-3)


@pytest.mark.parametrize(("width", "norm2"), [(0, 1.0), (301, 1.0), (4, 0.0), (4, -1.0)])
def test_what_is_no_start_is_refused(width: int, norm2: float) -> None:
    with pytest.raises(InputError):
        law(ONE_OVER, width, norm2=norm2)


def test_predictions_of_narrow_students_and_large_steps_say_what_they_are() -> None:
    """Equal weights that share a width have a default time; steps that no SGD could take are the flow's."""
    shared = QuadraticProblem(student_width=4, dim=200, teacher_exponent=0.0)
    text = MODEL.predict.document(resolve(shared)).text
    assert np.isinf(resolve(shared).half_time).all()
    assert "outside, direction 1-8: width: one of 4 columns" in text
    assert "outside, direction 1-8: start: more than 5% of starts" in text
    close = MODEL.predict.document(resolve(replace(shared, teacher_exponent=0.01, student_width=6, dim=10**6))).text
    assert "outside, direction 7, 8: others: it is held for a while only" in close
    wide, far = (
        QuadraticProblem(student_width=4, dim=100, teacher_weights=(1.0, 0.5), step_size=x) for x in (1e-4, 0.5)
    )
    assert resolve(wide).warnings == ()
    assert "step-size is 0.5, beyond 0.0004999, the bound of Stiefel SGD" in resolve(far).warnings[0]
    entries = MODEL.predict.document(resolve(replace(wide, dim=10**4))).content
    assert [one["valid"] for one in entries["directions"]] == [True, True]
    assert entries["loss"]["flow"][0] == pytest.approx(1.0, rel=1e-3)  # ½φ(1)‖a‖², the student being light


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mean_loss_over_starts_is_within_what_a_column_moves(seed: int) -> None:
    """And not the law's: of six columns for six directions the slow starts leave a fifth more and above."""
    weights = np.linspace(1.0, 0.3, 6)
    made = law(weights, 6, dim=500)
    own = Occupation(made.spectrum, made.dim, made.width)
    times = np.array([0.8, 1.5]) * own.half_times()[4]
    starts = [draw_subspace(6, 6, made.dim, generator) for generator in np.random.default_rng(seed).spawn(200)]
    measured = np.array([riccati_flow(made.spectrum, x).risk(times) for x in starts])
    mean, error = measured.mean(axis=0), measured.std(axis=0, ddof=1) / len(measured) ** 0.5
    off = np.abs(mean - own.risk(times))
    assert np.all(off <= own.risk_error(times) + 3 * error), (off, own.risk_error(times), error)
    assert off[1] > 4 * error[1]


def test_the_loss_of_a_law_is_moved_by_the_column_that_moves_it_more() -> None:
    """One column has none less, as many as dimensions none more, and one in one dimension no other."""
    times = np.array([3.0, 9.0])
    made = law(ONE_OVER, 1)
    np.testing.assert_array_equal(made.risk_error(times), np.abs(law(ONE_OVER, 2).risk(times) - made.risk(times)))
    wider = np.abs([law(ONE_OVER, n).risk(times) - law(ONE_OVER, 5).risk(times) for n in (4, 6)])
    np.testing.assert_array_equal(law(ONE_OVER, 5).risk_error(times), wider.max(axis=0))
    full = FlowLaw(np.ones(1), 1, 1, 0.1)
    np.testing.assert_array_equal(full.risk_error(times), np.zeros(2))


def test_predict_says_how_far_the_losses_of_starts_are_from_the_law() -> None:
    found = MODEL.predict.document(resolve(QuadraticProblem(student_width=6, teacher_width=6, dim=500)))
    loss = found.content["loss"]
    for name in ("error", "flow_error"):
        assert loss[name][-1] > 0
        assert f"± {loss[name][-1]:.4g}" in found.text


def test_a_half_time_is_judged_by_what_a_column_does_to_it() -> None:
    """Not by what it does to the loss: light norms grow for long, and the loss's times do not know the columns then."""
    assert scipy.stats.beta.sf(0.5, 49 / 2, 51 / 2) > 0.4  # so many starts of 49 columns hold half at time 0
    many = QuadraticProblem(student_width=49, dim=100, teacher_weights=(1.0, 0.5))
    few = replace(many, student_width=3, dim=30, init_scale=1e-30)
    for problem in (many, few):
        resolved = resolve(problem)
        assert np.all(resolved.flow_law.moved_by_a_column() < 0.02)
        entries = MODEL.predict.document(resolved).content["directions"]
        assert all("columns more or less" in one["valid"][0] for one in entries)


@pytest.mark.parametrize(("count", "own"), [(7.0, 0.0), (0.0, 0.0), (7.0, 2.0), (0.0, 2.0), (2.0, 0.05)])
@pytest.mark.parametrize("width", [1.5, 4.0])
def test_level_fills_the_width_at_early_and_late_times(count: float, own: float, width: float) -> None:
    energy = np.array([
        [0.0, 0.1, 0.3, 0.2, 0.0], [3.0, 40.0, 7.0, 7.0, 1e-3], [90.0, 600.0, 80.0, 30.0, 20.0], [-9.0, -7.0, -8.0, -8.5, -6.0]
    ])  # fmt: skip
    others = np.array([0.0, 0.0, 0.0, -5.0])
    found = level(energy, others, count, width, own)
    filled = fermi(energy + found[:, None])[0].sum(axis=1) + count * fermi(others + found)[0] + own * np.exp(found)
    np.testing.assert_allclose(filled, width, rtol=1e-12)


def test_a_width_that_all_directions_fill_leaves_the_rest_to_what_grows_by_itself() -> None:
    """At equal energies E: 7/(1 + e^{E+ℓ}) = ωe^ℓ; without it there is no level."""
    energy, others = np.full((2, 5), [[0.3], [4.0]]), np.array([0.3, 4.0])
    assert np.all(np.isinf(level(energy, others, 2.0, 7.0)))
    found = level(energy, others, 2.0, 7.0, 0.05)
    np.testing.assert_allclose(7 / (1 + np.exp(others + found)), 0.05 * np.exp(found), rtol=1e-11)


@pytest.mark.parametrize(("width", "dim", "moved"), [
    (3, 10, [1 / 2, np.inf, 1.0, 0.0, 0.0]),  # by 1/2 with a column less, 1/4 with one more
    (3, 3, [1 / 2, np.inf, 0.0, 0.0, 0.0]),
    (2, 3, [1.0, np.inf, 0.0, 0.0, 0.0]),  # the last column there may be
    (1, 10, [np.inf, 0.0, np.inf, np.inf, 0.0]),  # no column, no half times
])  # fmt: skip
def test_what_a_column_moves_is_relative_and_the_larger_of_both_sides(width: int, dim: int, moved: list) -> None:
    def half_times(n: float) -> np.ndarray:
        return np.array([10 / n, np.inf if n < 3 else 1.0, 0.0 if n < 4 else 2.0, 5.0, np.inf])

    np.testing.assert_allclose(moved_by_a_column(half_times(width), half_times, width, dim), moved, rtol=1e-14)


@pytest.mark.parametrize("x", [-800.0, -40.0, -1.0, 0.0, 0.3, 40.0, 800.0])
def test_fermi_is_exact_in_both_tails(x: float) -> None:
    exact = 1 / (1 + sp.exp(-sp.Rational(str(x)))), 1 / (1 + sp.exp(sp.Rational(str(x))))
    np.testing.assert_allclose(np.ravel(fermi(np.array([x]))), [float(y) for y in exact], rtol=1e-15)


def test_default_length_near_half_of_the_dimensions_is_that_of_its_neighbours() -> None:
    """There a direction is at ½ from nearly the start, and a run of 1.3 times that showed nothing: .034, .325 at N = 51."""
    ends = [resolve(QuadraticProblem(student_width=n, dim=100, teacher_width=4)).time for n in (47, 48, 49, 50, 51)]
    np.testing.assert_allclose(ends[1:], ends[:-1], rtol=0.1)
