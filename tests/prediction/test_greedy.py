"""Greedy selection and gaps against brute force straight from their definitions."""

import itertools

import numpy as np
import pytest

from theory import Teacher, scores, select
from theory.prediction.greedy import reorder, row_gap_bound, row_gap_probability
from theory.scaling.selection_draws import selected_gaps


def brute_pairs(score: np.ndarray) -> list[tuple[int, int]]:
    """Scan all free pairs, take the first largest; neurons and directions in order of their index."""
    pairs: list[tuple[int, int]] = []
    while True:
        rows, columns = {k for k, _ in pairs}, {q for _, q in pairs}
        free = [
            (k, q)
            for k, q in itertools.product(range(score.shape[0]), range(score.shape[1]))
            if k not in rows and q not in columns and score[k, q] > 0
        ]
        if not free:
            return pairs
        pairs.append(max(free, key=lambda pair: (score[pair], -pair[0], -pair[1])))


def brute_gaps(score: np.ndarray, wanted: int) -> tuple[float, float, float]:
    """Lemma 3.1: rivals later in the order of learning, with the neurons and directions never used at the end."""
    pairs = brute_pairs(score)
    wanted = min(wanted, len(pairs))
    neurons = [k for k, _ in pairs] + [k for k in range(score.shape[0]) if k not in {i for i, _ in pairs}]
    directions = [q for _, q in pairs] + [q for q in range(score.shape[1]) if q not in {i for _, i in pairs}]
    row, column, threshold = [np.inf], [np.inf], [np.inf]
    for i in range(wanted):
        own = score[neurons[i], directions[i]]
        row += [own / score[neurons[i], q] for q in directions[i + 1 :] if score[neurons[i], q] > 0]
        column += [own / score[k, directions[i]] for k in neurons[i + 1 :] if score[k, directions[i]] > 0]
        late = itertools.product(neurons[wanted:], directions[wanted:])
        threshold += [own / score[k, q] for k, q in late if score[k, q] > 0]
    return min(row) - 1, min(column) - 1, min(threshold) - 1


def matrices() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = [(1, 1), (1, 5), (5, 1), (3, 3), (7, 3), (3, 7), (6, 6)]
    smooth = [rng.random(shape) for shape in shapes for _ in range(4)]
    tied = [rng.integers(0, 4, shape).astype(float) for shape in shapes for _ in range(6)]
    return [*smooth, *tied, np.zeros((3, 4)), np.ones((3, 4)), np.diag([1.0, 0.0, 2.0])]


@pytest.mark.parametrize("score", matrices(), ids=lambda score: f"{score.shape[0]}x{score.shape[1]}")
def test_selection_is_brute_force_selection(score: np.ndarray) -> None:
    before = score.copy()
    chosen = select(score)
    pairs = brute_pairs(score)
    assert list(zip(chosen.neurons.tolist(), chosen.directions.tolist(), strict=True)) == pairs
    np.testing.assert_array_equal(chosen.scores, [score[pair] for pair in pairs])
    assert np.all(np.diff(chosen.scores) <= 0)
    assert np.all(chosen.lead >= 1)
    np.testing.assert_array_equal(score, before)  # the argument is not written to


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3)])
def test_lead_is_what_it_takes_to_reorder_a_pair(shape: tuple[int, int]) -> None:
    """No change of all scores by factors within its root touches the pair; mostly a slightly larger one can."""
    rng, tight = np.random.default_rng(7), []
    signs = np.array(list(itertools.product([-0.5, 0.5], repeat=shape[0] * shape[1]))).reshape(-1, *shape)
    for _ in range(6):
        score = rng.random(shape)
        chosen = select(score)
        for neuron, direction, lead in zip(chosen.neurons, chosen.directions, chosen.lead, strict=True):
            kept = [
                all(select(score * factor**sign).neuron_of(shape[1])[direction] == neuron for sign in signs)
                for factor in (0.999 * lead, 1.001 * lead)
                if np.isfinite(lead)
            ]
            assert kept[:1] in ([], [True])
            tight += [not one for one in kept[1:]]
    assert np.mean(tight) > 0.7


def test_a_near_tie_casts_doubt_on_what_follows_from_it() -> None:
    """Neuron 0 nearly goes to direction 1; then neuron 1 is free for direction 0, which neuron 0 leaves."""
    chosen = select(np.array([[5.0, 4.9, 0.0], [4.0, 3.0, 1.0], [0.5, 1.0, 0.4]]))
    assert chosen.lead[0] == pytest.approx(5 / 4.9)
    assert chosen.lead[1] == pytest.approx(5 / 4.9)  # direction 1 without neuron 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 3), (7, 3), (3, 7), (15, 7)])
def test_gaps_of_many_draws_are_the_lemma(shape: tuple[int, int]) -> None:
    draws = np.random.default_rng(3).random((6, *shape))
    for wanted in {1, min(shape)}:
        found = selected_gaps(draws, wanted)
        each = np.stack([found["row"], found["column"], found["threshold"]], axis=1)
        np.testing.assert_allclose(each, [brute_gaps(score, wanted) for score in draws], rtol=1e-12)


@pytest.mark.parametrize("exponent", [3, 4, 5, 6])
def test_near_ties_of_a_row_by_draws(exponent: int) -> None:
    """Two overlaps of one neuron; a negative one scores nothing for an odd activation."""
    draws, gap = 400_000, 0.2
    pairs = np.random.default_rng(exponent).standard_normal((draws, 2))
    score = np.sort(scores(pairs, Teacher.of([1.0, 1.0], 10), exponent), axis=1)
    low, high = score.T
    share = np.mean((low > 0) & (high < (1 + gap) * low))
    expected = row_gap_probability(gap, exponent)
    # The larger over the smaller: two orders, each with this probability.
    assert abs(share - 2 * expected) < 4 * np.sqrt(2 * expected / draws)


@pytest.mark.parametrize(("exponent", "share"), [(3, 4), (4, 1), (5, 4), (6, 1)])
def test_the_bound_on_near_ties_of_a_row_is_tight_for_small_gaps(exponent: int, share: int) -> None:
    """For even degrees; four times the probability for odd ones."""
    assert row_gap_bound(1e-5, exponent) == pytest.approx(share * row_gap_probability(1e-5, exponent), rel=1e-4)
    assert row_gap_bound(1.0, exponent) > share * row_gap_probability(1.0, exponent)


def test_reordered_diagonal_beats_everything_below_and_to_the_right() -> None:
    score = np.random.default_rng(1).random((8, 5))
    ordered, n = reorder(score)
    assert n == 5
    assert sorted(ordered.ravel()) == sorted(score.ravel())
    for i in range(n):
        assert ordered[i, i] == ordered[i:, i:].max()


def test_unselected_directions_are_marked() -> None:
    chosen = select(np.array([[0.1, 0.9, 0.5]]))
    np.testing.assert_array_equal(chosen.neuron_of(3), [-1, 0, -1])
    assert chosen.neuron_of(3).dtype.kind == "i"
    assert select(np.zeros((2, 2))).neurons.size == 0


def test_greedy_is_not_the_column_maximum() -> None:
    """Neuron 0 is best for both directions; direction 1 must make do with its second best."""
    chosen = select(np.array([[5.0, 4.0], [1.0, 3.0], [0.5, 2.0]]))
    np.testing.assert_array_equal(chosen.neuron_of(2), [0, 1])
    np.testing.assert_allclose(chosen.lead, [5 / 4, 5 / 4])  # if neuron 0 took direction 1, neuron 1 would not


@pytest.mark.parametrize("exponent", [3, 4, 5, 6])
def test_scores_order_by_emergence_time(exponent: int) -> None:
    """T_p ∝ 1/(a|u|^{J−2}); a negative overlap never grows for odd J."""
    teacher = Teacher.of([3.0, 1.0], 10, normalise=False)
    overlap = np.array([[0.2, -0.5], [-0.1, 0.3]])
    found = scores(overlap, teacher, exponent)
    for (k, q), value in np.ndenumerate(overlap):
        reach = abs(value) if exponent % 2 == 0 else max(value, 0.0)
        assert found[k, q] == pytest.approx(teacher.weights[q] * reach ** (exponent - 2))


def test_a_row_at_minus_e_finds_nothing_by_its_own_slope() -> None:
    """Of exponent 1 overlaps of both signs grow, the more the larger they are, from −1 on, where nothing moves."""
    teacher, overlap = Teacher.of([0.8, 0.6], 10), np.array([[-1.0, -1.0], [-0.9, 0.2], [0.1, 0.1]])
    found = scores(overlap, teacher, 1)
    np.testing.assert_allclose(found[0], 0.0, atol=1e-15)
    assert np.all(found[1:] > 0)
    assert np.argmax(found, axis=0).tolist() == [2, 1]
    np.testing.assert_allclose(found[2] / found[2, 0], [1.0, 0.6 / 0.8])
