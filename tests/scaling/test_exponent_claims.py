"""Claims on exponents at reduced size: right laws agree, wrong data and wrong laws do not; figures are drawn."""

from dataclasses import replace

import numpy as np
import pytest

from theory import Activation, Plateau, plateau
from validation import Context, TheoryUnderTest
from validation.claims.additive import emergence_exponents
from validation.claims.one_task import sample_complexity, step_size_scaling
from validation.claims.one_task.sample_complexity import Family, Threshold
from validation.figures.exponents import Series, slopes

#: Claims run whole, with all their compilation: long.
pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """J = 1 alone, small dimensions."""
    monkeypatch.setattr(sample_complexity, "QUICK", (Family(1, 0.5, 1.0, ((50, 48), (200, 48), (800, 48))),))
    monkeypatch.setattr(
        sample_complexity, "THRESHOLDS_QUICK", (Threshold(1, 1.0, sample_complexity._grid(1.0, 5), (50, 400), 64),)
    )


def test_sample_complexity_agrees_and_rejects(small: None) -> None:
    outcome = sample_complexity.run_samples.run(Context(seed=3))
    verdict = sample_complexity.run_samples.judge(outcome.measurements[0])
    assert verdict.verdict == "agrees"
    assert len(outcome.figures) == 2


def test_data_of_another_exponent_disagree(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that grow as d^1.3 in place of d."""
    right = sample_complexity.recovery_steps
    monkeypatch.setattr(
        sample_complexity, "recovery_steps", lambda c, family, dim, n: right(c, family, dim, n) * (dim / 50) ** 0.3
    )
    measurement = sample_complexity.run_samples.run(Context(seed=3)).measurements[0]
    assert sample_complexity.run_samples.judge(measurement).verdict in ("disagrees", "inconclusive")


def test_critical_step_size_agrees_and_rejects(small: None) -> None:
    outcome = sample_complexity.run_critical.run(Context(seed=3))
    assert sample_complexity.run_critical.judge(outcome.measurements[0]).verdict == "agrees"
    assert len(outcome.figures) == 1


def test_estimator_of_the_critical_step_size() -> None:
    """Runs that fail beyond c = 1.7 at d = 100 and beyond 1.7·10^−0.25 at d = 1000: the exponent is −1.25."""
    case = Threshold(1, 1.0, tuple(np.geomspace(0.5, 4, 41)), (100, 1000), 10)
    shares = np.array([np.clip(0.5 - 3 * np.log(np.array(case.scaled) / top), 0, 1) for top in (1.7, 1.7 * 10**-0.25)])
    _, weights = sample_complexity._critical_weights(case)
    assert np.sum(weights * shares) - 1 == pytest.approx(-1.25, abs=2e-3)


def test_emergence_exponents_at_one_start_per_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(seed=3)  # (at some, a start has no direction to be judged)
    points = emergence_exponents.flow_points(context, 0.8, (1024, 4096), 2)
    exponent = emergence_exponents._measure(points, 0, "p", "p", 0.8, {}, "alone", "")
    assert abs(exponent.estimate - exponent.predicted) < exponent.allowance + 4 * exponent.stderr
    assert exponent.predicted == pytest.approx(0.8, abs=0.02)
    alone = emergence_exponents._measure(replace(points, predicted=points.simple), 0, "p", "p", 0.8, {}, "alone", "")
    assert abs(alone.estimate - alone.predicted) > exponent.allowance + 4 * exponent.stderr
    assert exponent.details["starts"] == 4


def test_weights_are_predicted_by_the_theory_under_test() -> None:
    """Shrinkage ten times too large moves the prediction at a weight of 0.8 by more than 5 %."""

    def heavier(activation: Activation) -> Plateau:
        laws = plateau(activation)
        return replace(laws, shrinkage_law=10 * laws.shrinkage_law)

    case = step_size_scaling.WEIGHTS_QUICK[0]
    right = case.median(Context())
    broken = TheoryUnderTest({plateau: heavier})
    with broken.in_force():
        wrong = case.median(Context(theory=broken))
    assert wrong > 1.05 * right
    assert abs(case.median(Context(), third=True) / right - 1) < 0.5


def test_figure_of_local_slopes_has_a_line_for_each_limit() -> None:
    x = np.array([10.0, 100.0])
    figure = slopes([Series("J = 3", x, x, x, x, x)], [2.0], "d")
    assert "J = 3" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
