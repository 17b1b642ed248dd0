"""The law of greedy selection against closed forms, brute-force selection and draws."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import integrate, stats

from theory import Activation, InputError, Teacher, select
from theory.baselines.winner import (
    covering_probability,
    weakest_wins,
    width_exponent,
    winning_probabilities,
)
from theory.prediction.greedy import exact_scores
from theory.scaling.competition import Competition
from theory.scaling.extreme_overlaps import GAUSSIAN, OverlapLaw
from theory.scaling.selection import (
    EqualWeights,
    selection_law,
    selection_probability,
    success_probability,
    well_separated_success,
)
from theory.scaling.selection_count import none_missed
from theory.scaling.selection_draws import draw_overlaps, draw_selected_scores, selected_scores
from theory.scaling.selection_gaps import GAPS, GapLaw
from theory.scaling.selection_sets import MOST_DIRECTIONS, free_sets
from validation import Context, catalogue
from validation.figures.selection import predicted_and_measured

#: Probability of a false alarm of one test.
LEVEL = 1e-4


def power_law(count: int, decay: float, width: int, exponent: int = 4) -> Competition:
    return Competition.of(np.arange(1, count + 1.0) ** -decay, width, exponent)


# ------------------------------------------------------------------------------- draws


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 9), (9, 4), (6, 6)])
def test_all_draws_at_once_is_one_pair_at_a_time(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    score = rng.random((20, *shape)) * (rng.random((20, *shape)) < 0.8)  # some scores are 0
    before = score.copy()
    found = selected_scores(score)
    for one, mine in zip(score, found, strict=True):
        chosen = select(one)
        expected = np.zeros(shape[1])
        expected[chosen.directions] = chosen.scores
        np.testing.assert_array_equal(mine, expected)
    np.testing.assert_array_equal(score, before)


def test_drawn_overlaps_are_coordinates_of_unit_vectors() -> None:
    overlaps = draw_overlaps(3, 4, 9, 3000, np.random.default_rng(4))
    assert stats.kstest(overlaps[:, 1, 2] ** 2, stats.beta(0.5, 4).cdf).pvalue > LEVEL
    assert stats.kstest(np.sum(overlaps[:, 0] ** 2, axis=1), stats.beta(2, 2.5).cdf).pvalue > LEVEL
    np.testing.assert_allclose(np.sum(draw_overlaps(2, 5, 5, 3, np.random.default_rng(0)) ** 2, axis=2), 1.0)


@pytest.mark.parametrize(("width", "count", "exponent"), [(3, 6, 4), (6, 4, 6), (4, 5, 3)])
def test_chain_has_the_law_of_the_matrix(width: int, count: int, exponent: int) -> None:
    problem, rng, draws = power_law(count, 0.8, width, exponent), np.random.default_rng(5), 4000
    chain = draw_selected_scores(problem, draws, rng)
    block = rng.standard_normal((draws, width, count))
    reach = np.maximum(block, 0) if exponent % 2 else np.abs(block)
    matrix = selected_scores(problem.a * reach**problem.power)
    for q in (0, count - 1):
        assert stats.ks_2samp(chain[:, q], matrix[:, q]).pvalue > LEVEL
    # A chain that forgets to use up neurons would give the last direction another law.
    forgetful = draw_selected_scores(power_law(count, 0.8, 3 * width, exponent), draws, rng)
    assert stats.ks_2samp(forgetful[:, -1], matrix[:, -1]).pvalue < LEVEL


def test_chain_takes_any_width() -> None:
    scores = draw_selected_scores(power_law(3, 1.0, 10**12), 50, np.random.default_rng(1))
    assert np.all(np.sqrt(scores[:, 0]) > 6)


# ------------------------------------------------------------------------------- fluid limit


def test_equal_weights_solve_the_logistic_equation() -> None:
    r"""$d\phi/dH=-(M+P\phi)\phi$ with M = m − P < 0 has $\phi=M/((M+P)e^{MH}-P)$."""
    width, count = 12, 30
    law = selection_law(Competition.of(np.ones(count), width, 4), fluctuations=False)
    score = np.geomspace(0.1, 8, 9)
    level = -law.competition.log_cdf(score)
    spare = width - count
    expected = spare / (width * np.exp(spare * level) - count)
    np.testing.assert_allclose(law.free(score), expected, rtol=2e-5)


@pytest.mark.parametrize(("width", "count"), [(5, 20), (16, 64)])
def test_number_missed_is_conserved(width: int, count: int) -> None:
    for fluctuations in (False, True):
        law = selection_law(power_law(count, 1.0, width), fluctuations)
        assert law.missed.sum() == pytest.approx(count - width, abs=1e-5)
        assert np.all(np.diff(law.missed) > 0)


def test_many_neurons_make_directions_independent() -> None:
    law = selection_law(power_law(3, 1.0, 10**6))
    score = np.array([3.0, 8.0, 20.0])
    np.testing.assert_allclose(law.free(score), np.exp(10**6 * law.competition.log_cdf(score)), atol=1e-4)


def test_first_correction_brings_the_law_to_the_draws() -> None:
    problem = power_law(32, 0.8, 8)
    law, square = selection_law(problem), problem.a**2
    scores = draw_selected_scores(problem, 6000, np.random.default_rng(6))
    for score in (0.0, law.score_of_rank(4.0)):
        lost = (scores <= score) @ square
        error = lost.std() / np.sqrt(len(lost))
        assert abs(law.residual(square, score) - lost.mean()) < 4 * error
        assert abs(law.residual(square, score, corrected=False) - lost.mean()) > 5 * error
    missed = np.hstack([scores == 0, np.ones((len(scores), 1), dtype=bool)]).argmax(axis=1) + 1
    error = missed.std() / np.sqrt(len(missed))
    allowance = abs(law.first_missed() - law.first_missed(correlated=False))
    assert abs(law.first_missed() - missed.mean()) < 4 * error + allowance
    assert allowance < 0.05 * missed.mean()


@pytest.mark.parametrize(
    ("width", "count", "exponent"), [(1, 2, 4), (2, 2, 3), (3, 4, 3), (4, 4, 3), (5, 6, 4), (9, 6, 5)]
)
def test_who_is_selected_of_few_is_as_drawn_matrices_say(width: int, count: int, exponent: int) -> None:
    """By leading scores, which in so many dimensions are those of exact times."""
    problem, draws = power_law(count, 1.0, width, exponent), 20_000
    block = np.random.default_rng(8).standard_normal((draws, width, count))
    reach = np.maximum(block, 0) if exponent % 2 else np.abs(block)
    selected = selected_scores(problem.a * reach**problem.power) > 0
    teacher = Teacher.of(problem.a, 10**9, normalise=False)
    drawn = np.column_stack([selected, np.logical_and.accumulate(selected, axis=1)]).mean(axis=0)
    law = selection_law(problem)
    found = selection_probability(teacher, width, Activation.from_degree(exponent))
    stated = np.concatenate([found, law.all_selected()[1:]])
    error = np.sqrt(stated * (1 - stated) / draws)
    assert np.all(np.abs(drawn - stated) <= 4.5 * error + 1e-7)
    independent = np.abs(drawn - np.concatenate([1 - law.missed, law.all_selected(correlated=False)[1:]]))
    assert np.any(independent > 5 * error + 1e-3)


def test_all_of_equal_directions_are_selected_as_often_as_is_solved() -> None:
    for count, width in ((2, 2), (5, 6), (8, 8), (3, 10**9)):
        law = OverlapLaw(signed=True)
        sets = free_sets(Competition(tuple([1.0] * count), width, 1.0, law))
        assert sets.all_selected[-1] == pytest.approx(EqualWeights(count, width, law).success(0.0), abs=1e-6)
        assert sets.probability.sum() == pytest.approx(1.0, abs=1e-7)
    with pytest.raises(InputError, match="goes up to"):
        free_sets(power_law(MOST_DIRECTIONS + 1, 1.0, 3))


def test_no_more_are_all_selected_than_there_are_neurons() -> None:
    found = selection_law(power_law(12, 1.0, 7)).all_selected()
    assert np.all(found[:8] > 0)
    np.testing.assert_array_equal(found[8:], 0.0)


@pytest.mark.slow_for("31-32-0.7")
@pytest.mark.parametrize(("width", "count", "decay"), [(10, 12, 1.0), (31, 32, 0.7), (8, 16, 1.0)])
def test_how_often_all_are_selected_although_each_takes_a_neuron_from_the_others(
    width: int, count: int, decay: float
) -> None:
    """The product of pairs is up to .06, .17 and .016 off."""
    problem, draws = power_law(count, decay, width), 10_000
    scores = draw_selected_scores(problem, draws, np.random.default_rng(3))
    drawn = np.logical_and.accumulate(scores > 0, axis=1).mean(axis=0)
    found = selection_law(problem).all_selected()[1:]
    assert np.all(np.abs(found - drawn) < 0.021 + 4 * np.sqrt(drawn * (1 - drawn) / draws))
    np.testing.assert_array_equal(found[width:], 0.0)


def test_none_is_missed_of_independent_and_of_exclusive_directions() -> None:
    """Independent: the product; all exclusive, or the number fixed: 1 less the sum, and 0."""
    missed = np.array([0.1, 0.25, 0.4])
    np.testing.assert_allclose(none_missed(missed, np.zeros((3, 3))), np.cumprod([1, 0.9, 0.75, 0.6]), rtol=1e-8)
    exclusive = -np.outer(missed, missed)
    np.testing.assert_allclose(none_missed(missed, exclusive), 1 - np.cumsum([0, *missed]), atol=1e-3)
    assert none_missed(np.array([0.5, 0.5]), np.full((2, 2), -0.25))[2] == pytest.approx(0.0, abs=1e-3)
    assert none_missed(np.array([0.0, 1.0]), np.zeros((2, 2))).tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("covariance", [-0.1, -0.05, 0.0])
def test_none_of_two_is_missed_as_their_covariance_says(covariance: float) -> None:
    """Exactly: mean and variance of a number of at most two are all of its law."""
    pair = np.array([[0.0, covariance], [covariance, 0.0]])
    assert none_missed(np.array([0.3, 0.6]), pair)[2] == pytest.approx(0.7 * 0.4 + covariance, rel=1e-7)


def test_none_of_two_is_missed_where_both_hardly_ever_are() -> None:
    """To the second order, which pairs are: (1 − p)² of independent ones, 1 − 2p of exclusive ones, 1 − p of one."""
    p = 4e-4
    for covariance, none in ((0.0, (1 - p) ** 2), (-(p**2), 1 - 2 * p), (p * (1 - p), 1 - p)):
        pair = np.array([[0.0, covariance], [covariance, 0.0]])
        assert none_missed(np.array([p, p]), pair)[2] == pytest.approx(none, abs=1e-13)


def test_odd_activations_may_leave_directions_without_a_neuron() -> None:
    law = selection_law(power_law(2, 0.5, 3, exponent=3), fluctuations=False)
    assert 0.05 < law.missed.sum() < 0.5
    assert selection_law(power_law(2, 0.5, 3), fluctuations=False).missed.sum() < 1e-4


# ------------------------------------------------------------------------------- success


def test_success_of_one_and_of_two_directions() -> None:
    """One direction: the best of m. Two: the sum of two exponentials of rates 2m and m − 1."""
    stay = float(np.exp(GAUSSIAN.log_cdf(1.0)))
    assert EqualWeights(1, 5).success(1.0) == pytest.approx(1 - stay**5)
    fast, slow = 2 * 6, 5
    expected = 1 - (fast * stay**slow - slow * stay**fast) / (fast - slow)
    assert EqualWeights(2, 6).success(1.0) == pytest.approx(expected)
    assert well_separated_success(2, 6, 1.0) == pytest.approx((1 - stay**5) * (1 - stay**6))


@pytest.mark.parametrize(("directions", "width", "reach"), [(64, 164, 3.0), (64, 164, 2.5), (200, 600, 2.7)])
def test_success_of_wide_students_keeps_its_digits(directions: int, width: int, reach: float) -> None:
    """The alternating terms are large there."""
    spare = width - directions
    with mpmath.workdps(200):
        level = mpmath.exp(mpmath.mpf(float(GAUSSIAN.log_cdf(reach))))
        exact = 1 - mpmath.fsum(
            (-1) ** (j - 1) * mpmath.binomial(directions, j) * mpmath.mpf(spare + 2 * j) / (spare + j)
            * mpmath.factorial(width) * mpmath.factorial(spare + j)
            / (mpmath.factorial(spare) * mpmath.factorial(width + j)) * level ** (j * (spare + j))
            for j in range(1, directions + 1)
        )  # fmt: skip
    assert EqualWeights(directions, width).success(reach) == pytest.approx(float(exact), rel=1e-10, abs=1e-20)


def test_success_depends_on_the_spare_neurons_alone() -> None:
    few, many, more = (EqualWeights(count, count + 10).success(1.0) for count in (4, 200, 4000))
    assert many == pytest.approx(more, abs=0.01)
    assert few > many > 0.8


@pytest.mark.parametrize("reach", [0.9, 1.0, 1.1])
def test_rare_failures_are_poisson(reach: float) -> None:
    for spare in (8, 15, 25):
        law = selection_law(Competition.of(np.ones(16), 16 + spare, 4))
        exact = EqualWeights(16, 16 + spare).success(reach)
        assert success_probability(law, reach) == pytest.approx(exact, abs=np.log(exact) ** 2 / 2 + 1e-6)


def test_as_many_of_many_equal_directions_are_selected_as_there_are_neurons() -> None:
    """Beyond what is counted exactly; of two weights the heavier ones are selected more often."""
    h4 = Activation.from_degree(4)
    found = selection_probability(Teacher.of(np.ones(12), 10**9, normalise=False), 5, h4)
    np.testing.assert_allclose(found, 5 / 12, atol=0.01)
    found = selection_probability(Teacher.of([2.0] * 6 + [1.0] * 6, 10**9, normalise=False), 5, h4)
    assert found.sum() == pytest.approx(5, abs=0.1)
    assert found[:6].min() > found[6:].max() + 0.1


# ------------------------------------------------------------------------------- gaps


@pytest.mark.parametrize("overlaps", [GAUSSIAN, OverlapLaw(4)])
@pytest.mark.parametrize("gap", GAPS)
def test_first_gap_is_an_integral(gap: str, overlaps: OverlapLaw) -> None:
    """P_* = 1: one level, an exponential of rate mP; the rest of its row, its column, or of the matrix below it."""
    m, count, size = 9, 6, 0.3
    law = GapLaw(EqualWeights(count, m, overlaps), 1)
    rivals = {"row": count - 1, "column": m - 1, "threshold": (m - 1) * (count - 1)}[gap]

    def integrand(level: float) -> float:
        lower = overlaps.from_tail(-np.expm1(-level)) / np.sqrt(1 + size)
        drop = -level - float(overlaps.log_cdf(lower))
        return float(m * count * np.exp(-m * count * level - rivals * drop))

    exact = np.log(integrate.quad(integrand, 0, np.inf, limit=200)[0])
    assert law.log_survival(gap, size) == pytest.approx(exact, rel=1e-4)
    assert law.log_survival(gap, law.median(gap)) == pytest.approx(-np.log(2), rel=1e-5)


@pytest.mark.parametrize("gap", GAPS)
def test_the_logarithm_is_nearly_linear_in_the_levels_of_many_pairs(gap: str) -> None:
    law = GapLaw(EqualWeights(200, 300), 20)
    size = law.median(gap)
    assert law.log_survival(gap, size, exact=False) == pytest.approx(-np.log(2), rel=0.01)
    assert law.median(gap, exact=False) == pytest.approx(size, rel=0.01)


def test_medians_reach_their_leading_form() -> None:
    """Up to corrections of relative order 1/g² and P_*/P."""
    law = GapLaw(EqualWeights(10**4, 10**4), 10**3)
    for gap in GAPS:
        assert law.log_survival(gap, law.leading(gap)) == pytest.approx(-np.log(2), rel=0.1)


# ------------------------------------------------------------------------------- tensor power


def test_winners_are_a_distribution() -> None:
    for exponent, dim in ((4, np.inf), (6, 40.0)):
        problem = Competition.of([3.0, 2.0, 2.0, 1.0], 5, exponent, dim)
        found = winning_probabilities(problem)
        assert found.sum() == pytest.approx(1, abs=1e-9)
        assert found[1] == found[2]
    assert covering_probability(problem)[0] == 1.0


def test_directions_are_covered_as_coupons_are_collected() -> None:
    """Equal weights: inclusion and exclusion of the directions that nobody prefers, for a Poisson number of neurons."""
    width, count = 6, 4
    found = covering_probability(Competition.of(np.ones(count), width, 4))
    missed = [
        [(-1) ** j * math.comb(q, j) * np.exp(-width * j / count) for j in range(q + 1)] for q in range(count + 1)
    ]
    np.testing.assert_allclose(found, [sum(terms) for terms in missed], rtol=1e-9)


@pytest.mark.parametrize("condition", [1.0, 2.0, 7.0])
def test_two_directions_are_an_angle(condition: float) -> None:
    expected = 2 / np.pi * np.arctan(condition**-0.5)
    assert weakest_wins(condition, 2) == pytest.approx(expected, rel=1e-10)
    # A competition that is told no power is the one of fourth degree, too.
    assert winning_probabilities(Competition((condition, 1.0), 1))[1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("dim", [2, 3])
def test_the_weaker_of_two_wins_on_the_circle_and_on_the_sphere(dim: int) -> None:
    """At d = 3 reaches are uniform up to √3: 1/2√κ. At d = 2 they are the sines of uniform angles."""
    condition = 3.0
    expected = 1 / (2 * np.sqrt(condition))
    if dim == 2:
        angle = integrate.quad(lambda x: np.arcsin(np.sin(x) / np.sqrt(condition)), 0, np.pi / 2, epsabs=1e-13)[0]
        expected = angle / (np.pi / 2) ** 2
    problem = Competition.of([condition, 1.0], 1, 4, dim)
    np.testing.assert_allclose(winning_probabilities(problem), [1 - expected, expected], rtol=1e-7)
    # One neuron selects what it prefers.
    np.testing.assert_allclose(1 - free_sets(problem).missed, [1 - expected, expected], atol=1e-6)


def test_width_exponents_of_the_baseline() -> None:
    found = [width_exponent(condition, 128) for condition in (1.0, 2.0, 3.0, 4.0)]
    np.testing.assert_allclose(found, [1.0, 1.67, 2.25, 2.77], atol=0.005)
    assert width_exponent(4.0, 128, power=4.0) == pytest.approx(found[1])


# ------------------------------------------------------------------------------- refusals, figure, claims


def test_bad_input_is_refused() -> None:
    for wrong, message in (
        (lambda: Competition((1.0, 0.0), 3), "weights"),
        (lambda: Competition((1.0,), 0), "width is 0"),
        (lambda: Competition((1.0,), 1, 0.0), "power"),
        (lambda: Competition.of([1.0], 1, 1), "information exponent is 1"),
        (lambda: EqualWeights(4, 3), "width is 3"),
        (lambda: GapLaw(EqualWeights(4, 4), 4), "wanted is 4"),
        (lambda: GapLaw(EqualWeights(4, 4, OverlapLaw(signed=True)), 2), "law is signed"),
        (lambda: GapLaw(EqualWeights(4, 4), 2).log_survival("middle", 1.0), "gap is 'middle'"),
        (lambda: weakest_wins(0.5, 10), "condition 0.5"),
        (lambda: selection_law(power_law(4, 1.0, 2), False).score_of_rank(3.0), "rank is 3.0"),
        (lambda: predicted_and_measured({}, {}, "x", "y"), "nothing to draw"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


def test_figure_shows_theory_and_points() -> None:
    line = ([1, 2], [1.0, 2.0])
    figure = predicted_and_measured({"a": line}, {"a": (*line, [0.1, 0.1])}, "x", "y", rivals={"wrong": line}, log="xy")
    assert isinstance(figure, Figure)
    assert figure.axes[0].get_xscale() == "log"


@pytest.mark.slow_for("E27")
@pytest.mark.parametrize("name", ["E27", "S7"])
def test_cheap_claims_agree(name: str) -> None:
    claim = next(claim for claim in catalogue() if claim.id == name)
    outcome = claim.run(Context(seed=3))
    assert {claim.judge(x).verdict for x in outcome.measurements} == {"agrees"}
    assert len(outcome.figures) == 1


@pytest.mark.slow
def test_prediction_says_how_likely_each_direction_is(run: Callable) -> None:
    found = {}
    for width in ("3", "12"):
        code, document, _ = run("predict", "--dim", "400", "--teacher-width", "12", "--student-width", width)
        assert code == 0
        found[width] = np.array([row["selection_probability"] for row in document["directions"]])
    np.testing.assert_array_equal(found["12"], 1.0)
    assert found["3"].sum() == pytest.approx(3, abs=1e-4)
    assert np.all(np.diff(found["3"]) < 0)
    code, document, _ = run("predict", "--activation", "h1", "--dim", "400")
    assert (code, document["directions"][0]["selection_probability"]) == (0, None)


def test_one_neuron_selects_by_the_angle_in_the_plane_of_its_teachers() -> None:
    """Of an angle in that plane, scores in many dimensions are a cos⁴θ and b sin⁴θ: the weaker if tan⁴θ > a/b."""
    teacher = Teacher.of(np.array([3.0, 1.0]), 10**9)
    weaker = 1 - 2 / np.pi * np.arctan(3**0.25)
    found = selection_probability(teacher, 1, Activation.from_degree(6))
    np.testing.assert_allclose(found, [1 - weaker, weaker], atol=1e-6)


def test_degree_two_selects_by_the_odds_of_the_squared_overlap() -> None:
    r"""$\dot u=2au(1-u^2)$: squared overlap ½ is reached at $\ln(1/o)/4a$ of the odds $o=u^2/(1-u^2)$, so that a direction
    of half the weight is found only if its odds squared are above the other's.
    """
    dim = 400

    def heavier_is_behind(reach: float) -> float:
        odds = (reach**2 / (dim - reach**2)) ** 2
        return 2 * stats.norm.pdf(reach) * (2 * stats.norm.cdf(math.sqrt(dim * odds / (1 + odds))) - 1)

    lighter = integrate.quad(heavier_is_behind, 0, 12, epsabs=1e-10)[0]
    found = selection_probability(Teacher.of([2.0, 1.0], dim), 1, Activation.from_degree(2))
    np.testing.assert_allclose(found, [1 - lighter, lighter], atol=1e-5)
    assert lighter < 0.05  # (by scores a|u| one in three)


@pytest.mark.parametrize(
    ("text", "width", "count", "spare", "off"),
    [
        ("0.1*h3+h4", 2, 2, 20, 0.0),  # the third degree alone would leave a quarter of all starts without a neuron
        ("h4+0.5*h5", 2, 3, 20, 0.01),
        ("h2-0.3*h4", 3, 5, 5, 0.01),
        ("h6", 2, 4, 2, 0.03),
        ("h3", 4, 4, 1, 0.12),
    ],
)
def test_directions_are_selected_as_often_as_drawn_starts_select_them(
    text: str, width: int, count: int, spare: int, off: float
) -> None:
    activation, draws = Activation.parse(text), 10_000
    teacher = Teacher.of(np.array([1.0, 0.6, 0.4, 0.3, 0.1])[:count], spare * (width + count))
    overlap = draw_overlaps(width, count, teacher.dim, draws, np.random.default_rng(3))
    score = exact_scores(overlap.reshape(-1, count), teacher, activation).reshape(overlap.shape)
    drawn = np.mean(selected_scores(score) > 0, axis=0)
    stated = selection_probability(teacher, width, activation)
    assert np.all(np.abs(drawn - stated) < off + 4.5 * np.sqrt(drawn * (1 - drawn) / draws) + 1e-3)


def test_selection_by_overlap_needs_a_plateau() -> None:
    with pytest.raises(InputError, match="information exponent of 2"):
        selection_probability(Teacher.of([1.0, 0.5], 100), 1, Activation.parse("h1+h3"))


def test_law_takes_the_dimension() -> None:
    assert OverlapLaw(30.0) == Competition.of([1.0], 2, 4, 30.0).law
    assert Competition.of([1.0], 2, 3).law.signed


@pytest.mark.slow_for("64")
@pytest.mark.parametrize("width", [16, 64])
def test_the_table_of_narrow_students_is_the_corrected_law(width: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "selection.md").read_text()
    (row,) = re.findall(rf"^\| {width} \|(.*)\|$", page, re.MULTILINE)
    shown, found = [float(x) for x in row.split("|")], []
    for decay in (0.8, 1.2):
        weights = np.arange(1, 4 * width + 1.0) ** -decay
        law = selection_law(Competition.of(weights, width=width, information_exponent=4))
        found += [law.first_missed() / width, law.residual(weights**2) / np.sum(weights[width:] ** 2)]
    assert shown == pytest.approx(found, abs=0.00051)
