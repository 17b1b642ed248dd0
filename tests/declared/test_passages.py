"""Times of passage over dimensions: exponents and error bars against known laws."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dynamics.core.keys import replica_keys
from dynamics.declared.engine import Exact, block_length
from dynamics.declared.lanes import until_ended
from dynamics.declared.simulate import declared_sgd
from theory.declared.model import DeclaredModel
from theory.declared.rule import Ahead, Rule
from theory.declared.start import Start
from validation.experiments.emergences import emergences
from validation.experiments.links import Again
from validation.experiments.passages import (
    LEVEL,
    START,
    FirstPassage,
    Passages,
    case_of,
    passages,
    run_case,
    run_points,
)

X = np.array([10.0, 20.0, 40.0, 80.0])
TERMS = np.array([[2.0, 0.5, 0.1]] * 4) * X[:, None] ** np.array([1.5, 2.0, 3.0])


def drawn(replicas: int, seed: int, exponent: float = 1.7) -> Passages:
    """Exponential times whose mean grows as a power."""
    times = np.random.default_rng(seed).exponential(size=(4, replicas))
    return Passages(X, times * X[:, None] ** exponent, TERMS)


def test_a_medians_error_bar_is_read_off_the_order_statistics_about_it() -> None:
    """ln n = q² at the quantiles q: the median is ¼, and the standard error of q = ½ there, 1/(2√n), moves it by as much."""
    count = 10_000
    logs = ((np.arange(count) + 0.5) / count) ** 2
    values, errors = Passages(X[:1], np.exp(logs)[None], TERMS[:1]).medians()
    assert values[0] == pytest.approx(0.25, rel=1e-3)
    assert errors[0] == pytest.approx(0.5 / np.sqrt(count), rel=0.01)


def test_error_bars_of_both_slopes_are_as_long_as_their_scatter() -> None:
    runs = [drawn(400, seed) for seed in range(300)]
    for which in (Passages.slope, Passages.mean_slope):
        values, errors = np.array([which(run) for run in runs]).T
        assert abs(values.mean() - 1.7) < 4 * values.std() / np.sqrt(len(runs))
        # The scatter of 300 is known to 4 %, an error bar from two order statistics of 400 is up to some per cent off.
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(ddof=1), rel=0.16)


def test_runs_that_have_missed_leave_the_median() -> None:
    run = drawn(40_001, 1)
    logs = np.sort(run.steps, axis=1)
    missed = np.where(np.arange(40_001) < 36_000, logs, np.inf)
    value, error = Passages(X, missed, TERMS).mean_slope()
    assert Passages(X, missed, TERMS).found == pytest.approx(0.9, abs=1e-4)
    assert abs(value - 1.7) < 4 * error
    # A Gaussian of the same quartiles, ln(ln 4/ln(4/3)) = 1.5725 apart, whose median scatters √(π/2) more than its mean.
    known = np.sqrt(np.pi / 2) * 1.5725 / 1.349 / np.sqrt(40_001) / np.sqrt(np.sum((np.log(X) - np.log(X).mean()) ** 2))
    assert error == pytest.approx(known, rel=0.02)


def test_what_is_predicted_adds_its_orders() -> None:
    run = Passages(X, np.ones((4, 4)), TERMS)
    by_hand = [float(np.polyfit(np.log(X), np.log(TERMS[:, :n].sum(axis=1)), 1)[0]) for n in (1, 2, 3)]
    assert [run.theory(n) for n in (1, 2, 3)] == pytest.approx(by_hand, rel=1e-9)
    assert run.left_out() == pytest.approx(by_hand[1] - by_hand[0] + by_hand[2] - by_hand[1], rel=1e-9)


def test_a_look_ahead_that_goes_with_the_step_size_is_one_of_that_length() -> None:
    """`Ahead` by η² × ratio / η; plain SGD goes elsewhere."""
    size, ratio = 0.02, 3.0
    model = case_of("sgd", "h3").model(10, size)
    start = Start((np.array([[0.6, 0.8]]),))
    rules = Again(size, ratio=ratio), Ahead(size, ahead=ratio * size), Rule(size)
    again, ahead, plain = (
        declared_sgd(replace(model, rule=rule), start, steps=3, replicas=2, seed=0).dataset.overlap for rule in rules
    )
    np.testing.assert_allclose(again, ahead, rtol=1e-12)
    assert float(abs(again - plain).max()) > 1e-3


@pytest.mark.parametrize(
    ("dim", "replicas", "most"), [(30, 500, 300), pytest.param(40, 2000, 800, marks=pytest.mark.slow)]
)
def test_first_passages_have_the_law_of_explicit_vectors(dim: int, replicas: int, most: int) -> None:
    """Plain SGD on h3; runs of a step half as large again are told from it."""
    one = case_of("sgd", "h3")
    size, start = one.step_size(dim), START / np.sqrt(dim)

    def explicit(step_size: float) -> np.ndarray:
        """y = h3 of the first coordinate, σ = h3, correlation loss; rows come back to the sphere."""
        rng, found = np.random.default_rng(5), np.full(replicas, np.inf)
        rows = np.zeros((replicas, dim))
        rows[:, :2] = start, np.sqrt(1 - start**2)
        for step in range(1, most + 1):
            x = rng.normal(size=rows.shape)
            z, label = np.sum(rows * x, axis=1), (x[:, 0] ** 3 - 3 * x[:, 0]) / np.sqrt(6)
            pull = label * (z**2 - 1) * np.sqrt(1.5)
            rows = rows + step_size * pull[:, None] * (x - z[:, None] * rows)
            rows /= np.linalg.norm(rows, axis=1)[:, None]
            found = np.where(np.isinf(found) & (np.abs(rows[:, 0]) >= LEVEL), step, found)
        return found

    steps = passages(one.model(dim, size), start, LEVEL, most, replicas, 3)
    chance = [
        stats.ks_2samp(np.minimum(steps, most + 1), np.minimum(explicit(x), most + 1)).pvalue
        for x in (size, 1.5 * size)
    ]
    assert chance[0] > 1e-4 > chance[1]
    half = int(np.median(steps))
    cut = passages(one.model(dim, size), start, LEVEL, half, replicas, 3)
    np.testing.assert_array_equal(cut, np.where(steps <= half, steps, np.inf))


@pytest.mark.slow
def test_runs_and_their_prediction_go_from_the_same_overlap() -> None:
    r"""Plain SGD on h3, whose drift is $3u^2(1-u^2)$: from $2/\sqrt d$ to 0.4, by hand, and the mean of 200 runs."""
    one, dim = case_of("sgd", "h3"), 100
    size = one.step_size(dim) / 4
    run = run_points([1.0, 2.0], [(one, dim, size)] * 2, 100, 1)
    assert not np.any(run.steps[0] == run.steps[1])  # each point has samples of its own
    first, second, _ = run.predicted[0]

    def flow(start: float) -> float:
        return (1 / start - 1 / 0.4 + np.arctanh(0.4) - np.arctanh(start)) / (3 * size)

    assert first == pytest.approx(flow(2 / np.sqrt(dim)), rel=1e-6)
    error, beyond = run.steps.std() / np.sqrt(run.steps.size), second**2 / first
    assert abs(run.steps.mean() - first - second) < 4 * error + beyond
    for wrong in (2 / dim, 1 / np.sqrt(dim)):
        assert abs(run.steps.mean() - flow(wrong) - second) > 2 * (4 * error + beyond)


def test_points_are_run_from_their_starts_for_eight_times_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with samples of its own and in its place."""
    runs: list[tuple] = []

    def noted(model: DeclaredModel, overlap: float, level: float, steps: int, replicas: int, seed: int) -> np.ndarray:
        runs.append((model, overlap, level, steps, seed))
        return np.full(replicas, float(model.inputs.dim))

    monkeypatch.setattr("validation.experiments.passages.passages", noted)
    dims, one = (36, 64), case_of("sgd", "h3")
    found = run_case(one, dims, 3, 1)
    np.testing.assert_array_equal(found.x, dims)
    np.testing.assert_array_equal(found.steps, [[36.0] * 3, [64.0] * 3])
    for (model, overlap, level, steps, _), dim, terms in zip(runs, dims, found.predicted, strict=True):
        assert (overlap, level) == (2 / np.sqrt(dim), 0.4)
        assert model.rule.step_size == one.step_size(dim)
        assert steps == int(8 * terms.sum())
        time = 1 / overlap - 1 / 0.4 + np.arctanh(0.4) - np.arctanh(overlap)  # of u̇ = 3u²(1 − u²)
        assert terms[0] == pytest.approx(time / (3 * one.step_size(dim)), rel=1e-6)
    assert len({seed for *_, seed in runs} | {1}) == 3


def test_the_first_passage_is_noted_on_either_side_and_once() -> None:
    cases = [(0, 0.39, 0), (0, 0.4, 7), (0, -0.5, 7), (3, 0.1, 3), (3, 0.9, 3)]
    for seen, overlap, noted in cases:
        found = FirstPassage(0.4)(jnp.asarray(seen), jnp.array([[overlap]]), jnp.ones(1), jnp.asarray(7))
        assert int(found) == noted


def test_a_ratio_is_to_a_step_size_of_one() -> None:
    """Reuse looks ahead by 2/d, whatever the step size; the second layer's own step is 1."""
    for name, ratio in (("reuse", 2 / 50), ("alternating", 1.0)):
        for size in (0.01, 0.004):
            rule = case_of(name, "h3").model(50, size).rule
            assert rule.step_size == size
            assert rule.ratio * size == pytest.approx(ratio, rel=1e-8)  # type: ignore[attr-defined]


def clock(seen: Any, overlap: Any, size: Any, step: Any) -> Any:
    """What is seen is the step."""
    return step


@pytest.mark.slow_for("2", "5")
@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_replicas_that_never_end_run_all_their_steps_and_no_more(lanes: int) -> None:
    """Five of them, one lane after the other; 512 steps are two to a look."""
    one, dim = case_of("sgd", "h3"), 40
    engine = Exact(one.model(dim, 1e-4), Start((np.array([[0.3, np.sqrt(0.91)]]),)), 1)
    keys, begin = replica_keys(0, 5, "clock"), np.zeros((), dtype=int)
    found = until_ended(
        engine, keys, clock, begin, lambda seen: jnp.zeros(seen.shape, dtype=bool), steps=512, what="clock", lanes=lanes
    )
    np.testing.assert_array_equal(found, 512)


@pytest.mark.parametrize(("steps", "saves", "run"), [(6100, 200, 6400), (12_201, 200, 12_800), (700, 200, 700)])
def test_runs_until_a_direction_is_found_draw_their_samples_in_long_blocks(
    monkeypatch: pytest.MonkeyPatch, steps: int, saves: int, run: int
) -> None:
    """Where as many saves do not divide the steps, each step was a block of its own, which takes three times as long."""
    taken = []

    def simulated(model: DeclaredModel, start: Start, *, steps: int, saves: int, **_: Any) -> None:
        taken.append((steps, block_length(model.rule, start.width, steps, None, saves)))
        raise InterruptedError

    monkeypatch.setattr("validation.experiments.emergences.declared_sgd", simulated)
    model = case_of("sgd", "h3").model(64, 1e-3)
    with pytest.raises(InterruptedError):
        emergences(model, Start((np.array([[0.2, np.sqrt(0.96)]]),)), 0, steps, 2, 0, saves)
    assert taken == [(run, 1 if steps == 700 else 8)]
