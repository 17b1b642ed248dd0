"""Rows that race for a direction, and directions that race for a row, beside SGD of light rows in coordinates."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from theory import Activation
from theory.declared.directions import Directions
from theory.declared.emergence import MEAN_STEPS, SPREAD_STEPS, additive_prediction
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.predict import predict
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive
from theory.one_task.hitting_distribution import HittingLaw, hitting_distribution
from theory.prediction import rivals as race
from theory.prediction.rivals import Rivals, rivals

H3, DIM = Activation.parse("h3"), 32


def model_of(weights: tuple[float, ...], overlaps: np.ndarray, step_size: float) -> tuple[DeclaredModel, Start]:
    """Rows (m, P) that are at right angles but for what they have of the directions."""
    directions = Directions.orthonormal(Inputs.isotropic(DIM), len(weights))
    rest = np.diag(np.sqrt(1 - np.sum(overlaps**2, axis=1)))
    start = Start((0.01 * np.concatenate([overlaps, rest], axis=1),))
    return DeclaredModel(directions, Additive(H3, weights), two_homogeneous(H3, len(overlaps)), Rule(step_size)), start


def first_steps(
    weights: tuple[float, ...], overlaps: np.ndarray, step_size: float, steps: int, replicas: int, seed: int = 0
) -> np.ndarray:
    """When each row's squared overlap with each direction first is ½, (replicas, m, P); no later than of all runs the first,
    and `steps` + 1 where not by then.
    """
    rng, rows = np.random.default_rng(seed), np.zeros((replicas, len(overlaps), DIM))
    P = len(weights)
    rows[:, :, :P] = overlaps
    for k, row in enumerate(overlaps):
        rows[:, k, P + k] = np.sqrt(1 - row @ row)
    found = np.full((replicas, *overlaps.shape), steps + 1)
    for step in range(1, steps + 1):
        x = rng.standard_normal((replicas, 1, DIM))
        label = step_size * ((x[..., :P] ** 3 - 3 * x[..., :P]) / np.sqrt(6)) @ np.array(weights)
        z = np.sum(rows * x, axis=-1)
        along, slope = label * (z**3 - 3 * z) / np.sqrt(6), label * (3 * z**2 - 3) / np.sqrt(6)
        rows = rows * (1 + 2 * along - slope * z)[..., None] + slope[..., None] * x
        rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
        found = np.where(rows[..., :P] ** 2 >= 0.5, np.minimum(found, step), found)
        if np.all(found.min(axis=(1, 2)) <= step):
            break
    return found


def test_the_first_of_four_rows_is_sooner_than_the_pair_by_itself() -> None:
    """By its law the pair alone takes nearly twice as long; what rare samples leave of a mean is a tenth."""
    overlaps, step_size, replicas = np.array([[0.3], [0.28], [0.26], [0.24]]), 0.0016, 400
    model, start = model_of((1.0,), overlaps, step_size)
    mean, spread = (predict(model, start).of_quantity(name)[0] for name in (MEAN_STEPS, SPREAD_STEPS))
    prediction = additive_prediction(model, start)
    assert prediction is not None
    alone = prediction.sgd_law(0, step_size)
    steps = first_steps((1.0,), overlaps, step_size, int(8 * mean.value), replicas).min(axis=(1, 2))
    error = steps.std() / np.sqrt(replicas)
    assert not mean.reasons
    assert abs(steps.mean() - mean.value) < 4 * error + 0.1 * mean.value
    assert alone.mean / step_size - steps.mean() > 20 * error
    assert abs(spread.value / steps.std() - 1) < 0.4 < 3 < alone.std / step_size / steps.std()


def test_the_first_of_two_equal_rows_is_there_as_the_law_of_one_says() -> None:
    """By its square: P(T > t)² integrated, by the inverted transform. Slow runs, one in 300 beyond eight spreads, make the
    spread of a row by itself: cut there, the first of two was 1.09 times as spread, and its mean 1.01 times as late.
    """
    step_size, overlap = 0.0016, 0.3
    prediction = additive_prediction(*model_of((1.0,), np.array([[overlap], [overlap]]), step_size))
    assert prediction is not None
    alone = prediction.sgd_law(0, step_size)
    found = rivals(prediction, step_size).law(0)
    times = np.append(0.0, np.geomspace(0.01 * alone.mean, 12 * alone.std, 300))
    law = hitting_distribution(prediction.diffusion(0, step_size), overlap, cells=500)
    left = (1 - law.cdf(times)) ** 2
    mean, square = float(np.trapezoid(left, times)), 2 * float(np.trapezoid(times * left, times))
    share = (
        1 - step_size * prediction.behind(0) / alone.mean
    )  # (what whole steps are behind is of the diffusion's mean, too)
    assert found.mean * share == pytest.approx(mean, rel=1e-3)
    assert found.std == pytest.approx(np.sqrt(square - mean**2), rel=2e-3)
    assert alone.std > 4 * found.std


def test_a_row_is_lost_to_the_direction_that_noise_brings_first() -> None:
    overlaps, step_size, replicas, weights = np.array([[0.24, 0.2]]), 0.0016, 400, (1.0, 0.9)
    model, start = model_of(weights, overlaps, step_size)
    prediction = additive_prediction(model, start)
    assert prediction is not None
    lost = float(rivals(prediction, step_size).lost[0])
    steps = first_steps(weights, overlaps, step_size, 6000, replicas)[:, 0]
    share = float(np.mean(steps[:, 1] < steps[:, 0]))
    assert abs(share - lost) < 4 * np.sqrt(lost * (1 - lost) / replicas)
    reasons = predict(model, start).of_quantity(MEAN_STEPS)[0].reasons
    assert "lost" in {reason.split(":")[0] for reason in reasons}


def test_without_noise_there_is_no_race() -> None:
    """Spreads of a millionth of the time, below any step of the times."""
    model, start = model_of((1.0, 0.9), np.array([[0.24, 0.2], [0.2, 0.21]]), 1e-12)
    prediction = additive_prediction(model, start)
    assert prediction is not None
    found = rivals(prediction, 1e-15)
    np.testing.assert_allclose(found[:3], [[1, 1], [1, 1], [0, 0]], atol=1e-4)


#: Row 1 has direction 0 first, row 0 direction 1.
RATES = np.array([[0.2, 0.4], [1.0, 0.3]])


def exponential(monkeypatch: pytest.MonkeyPatch, half: tuple[float, float], ever: float = 1.0) -> Any:
    r"""A prediction of two rows and two directions, where $P(T_{kp}>t)=1-c+ce^{-\lambda_{kp}t}$, c = `ever`."""
    monkeypatch.setattr(race, "_found", lambda _, times, *steps: ever * (1 - np.exp(-RATES[..., None] * times)))
    return SimpleNamespace(
        teacher=SimpleNamespace(width=2),
        selection=SimpleNamespace(directions=np.array([0, 1])),
        activation=SimpleNamespace(information_exponent=3),
        time_half=np.array(half),
        last_time=2.0,
        neuron=np.array([1, 0]),
        sgd_law=lambda p, step_size, batch: HittingLaw(1 / RATES[1 - p, p], 1 / RATES[1 - p, p], 0.0),
    )


def test_a_race_of_exponential_times_has_closed_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 3 % in time leave .03²/6 of a mean.

    Of the first direction rows and directions race all the time. Of the second they do until the first is found:
    $1-G_e=1-g+ge^{-st}$, s = λ_e + λ_10, g = λ_e/s.
    """
    prediction = exponential(monkeypatch, (0.9, 2.0))
    found = rivals(prediction, 1e-3)
    times = race._times(prediction, {p: prediction.sgd_law(p, 1e-3, 1) for p in range(2)})
    assert race._moments(np.exp(-times / 2), times) == pytest.approx([2, 2], rel=5e-4)
    (other, row), own = (RATES[1, 1], RATES[0, 0]), RATES[0, 1]
    for e, of in ((other, found.lost[0]), (row, 1 - found.mean[0]), (row, 1 - found.spread[0])):
        assert of == pytest.approx(e / (1 + e), rel=5e-4)
    (g, rate), (h, later) = ((e / (e + 1), e + 1 + own) for e in (row, other))
    assert found.lost[1] == pytest.approx(1 - (1 - found.lost[0]) * (1 - g + g * own / rate), rel=5e-4)
    mean, square = (1 - h + h * (own / later) ** n for n in (1, 2))
    assert [found.mean[1], found.spread[1]] == pytest.approx([mean, np.sqrt(2 * square - mean**2)], rel=5e-4)


def test_a_row_that_no_direction_gets_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """With times that are infinite in a fifth of the runs, and a second direction that the flow does not find."""
    c, other = 0.8, RATES[1, 1]
    found = rivals(exponential(monkeypatch, (0.9, np.inf), c), 1e-3)
    assert found.lost[0] == pytest.approx(1 - c * (1 - c + c / (1 + other)) - (1 - c) ** 2, rel=5e-4)
    assert np.isnan([x[1] for x in found[:3]]).all()


def test_with_a_linear_term_no_row_overtakes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    prediction = exponential(monkeypatch, (0.9, 2.0))
    prediction.activation.information_exponent = 1
    np.testing.assert_array_equal(rivals(prediction, 1e-3)[:3], [[1, 1], [1, 1], [0, 0]])


def test_a_tenth_off_the_mean_a_fiftieth_of_the_runs_and_three_tenths_of_the_flows_time_are_little() -> None:
    found = Rivals(np.array([0.902, 0.898]), np.ones(2), np.array([0.0198, 0.0202]), {})
    laws = [HittingLaw(mean, 0.4, 0.0) for mean in (1.81, 1.79, 2.19, 2.21)]  # beside 2
    for conditions, values, holds in (
        ([found.alone(p) for p in range(2)], [0.098, 0.102], [True, False]),
        ([found.kept(p) for p in range(2)], [0.0198, 0.0202], [True, False]),
        ([race.scattered(2.0, law) for law in laws], [0.295, 0.305, 0.295, 0.305], [True, False, True, False]),
    ):
        assert [one.value for one in conditions] == pytest.approx(values)
        assert [one.holds for one in conditions] == holds
