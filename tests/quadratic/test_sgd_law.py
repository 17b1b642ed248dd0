"""What is predicted of Stiefel SGD beside the flow: late levels, passages, their conditions, and how `predict` states them."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq

from dynamics.quadratic.stiefel_sgd import stiefel_sgd
from emergence.models.quadratic import MODEL, QuadraticProblem, resolve
from theory import InputError, QuadraticModel, Teacher
from theory.declared.known import Knowledge, Unknown
from theory.quadratic.passage import passages
from theory.quadratic.sgd_law import FOUND, LATE_LOSS, LATE_RISK, stiefel_law
from theory.quadratic.stationary import mean_map
from theory.quadratic.stiefel import largest_step, projected_risk
from theory.quadratic.subspace import draw_subspaces

SMALL = ["predict", "--model", "quadratic", "--dim", "128", "--teacher-width", "2", "--student-width", "2"]


def law_of(count: int, width: int, dim: int, share: float, batch: int) -> tuple[QuadraticModel, float, Knowledge]:
    """At a share of the largest step."""
    model = QuadraticModel(Teacher.power_law(count, 1.0, dim), width, width**-0.5)
    step_size = share * largest_step(model, batch)[0]
    return model, step_size, Knowledge.of(stiefel_law(model, step_size, batch))


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "share", "batch"), [(64, 0.3, 1), (200, 0.3, 16)])
def test_late_levels_and_passages_are_those_of_sgd(dim: int, share: float, batch: int) -> None:
    """Beside the flow's: its late risk is 0, and it is there a tenth or more too early."""
    model, step_size, known = law_of(2, 2, dim, share, batch)
    assert not any(one.reasons for one in known.known)
    places = known.of_quantity(FOUND)
    assert [one.place for one in places] == [1, 2]
    replicas, steps = 256, int(5 * places[-1].value)
    starts = list(draw_subspaces(2, 2, dim, 5, replicas))
    run = stiefel_sgd(model, starts, step_size=step_size, batch=batch, steps=steps, saves=2000, seed=3)
    for quantity, curves in ((LATE_RISK, run.risk), (LATE_LOSS, run.dataset.loss.values)):
        late = curves[:, 1300:].mean(axis=1)
        error = late.std(ddof=1) / replicas**0.5
        (one,) = known.of_quantity(quantity)
        assert abs(late.mean() - one.value) < 4 * error, (quantity, late.mean(), error, one.value)
    frames = np.stack([x.on_teachers for x in starts])
    flow = passages(model, frames, _levels(model), step_size=1e-12, draws=2) / (model.riccati_rate * step_size)
    for one, level, alone in zip(places, _levels(model), flow, strict=True):
        reached = run.steps_to(level)
        error = reached.std(ddof=1) / replicas**0.5
        assert one.low - 3 * error < reached.mean() < one.high + 3 * error, (one, reached.mean(), error)
        assert reached.mean() - alone.mean() > 4 * (reached - alone).std(ddof=1) / replicas**0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_late_levels_of_few_dimensions_are_within_the_next_order(seed: int) -> None:
    """Of three columns in twelve inputs, near the largest step, the risk is 2 % above what the first orders say."""
    model = QuadraticModel(Teacher.of((0.905, 0.424), 12, normalise=False), 3, 3**-0.5)
    step_size = 0.8 * largest_step(model)[0]
    known = Knowledge.of(stiefel_law(model, step_size))
    run = stiefel_sgd(model, list(draw_subspaces(2, 3, 12, seed, 256)), step_size=step_size, steps=30_000, seed=seed)
    late = (run.risk[:, 40:].mean(axis=1), run.dataset.loss.values[:, 40:].mean(axis=1))
    for quantity, own in zip((LATE_RISK, LATE_LOSS), late, strict=True):
        (one,) = known.of_quantity(quantity)
        mean, error = own.mean(), own.std(ddof=1) / len(own) ** 0.5
        assert one.value < mean - 4 * error, (quantity, one.value, mean, error)
        assert one.low < one.value
        assert mean - 2 * error < one.high < 1.05 * mean, (quantity, one.high, mean, error)


@pytest.mark.parametrize("count", [1, 2])
def test_a_student_that_can_be_its_teacher_comes_to_rest_without_risk(count: int) -> None:
    """P = N, equal weights: no noise is left there. The first direction is found as SGD does, and not as late as the flow."""
    model = QuadraticModel(Teacher.power_law(count, 0.0, 40), count, count**-0.5)
    known = Knowledge.of(stiefel_law(model, 5e-4))
    assert not any(one.reasons for one in known.known)
    assert {one.value for quantity in (LATE_RISK, LATE_LOSS) for one in known.of_quantity(quantity)} == {0.0}
    starts = list(draw_subspaces(count, count, 40, 5, 512))
    run = stiefel_sgd(model, starts, step_size=5e-4, steps=8000, seed=3)
    assert np.median(run.risk[:, -1]) < 1e-3
    level = 2 - 0.5 / count
    reached, first = run.steps_to(level), known.of_quantity(FOUND)[0]
    error = reached.std(ddof=1) / len(starts) ** 0.5
    frames = np.stack([x.on_teachers for x in starts])
    flow = passages(model, frames, [level], step_size=1e-12, draws=2)[0] / (model.riccati_rate * 5e-4)
    assert first.low - 3 * error < reached.mean() < first.high + 3 * error
    assert (reached - flow).mean() > 3 * (reached - flow).std(ddof=1) / len(starts) ** 0.5


def test_beyond_the_largest_step_the_reason_names_the_step_that_was_given() -> None:
    model = QuadraticModel(Teacher.power_law(2, 1.0, 40), 2, 2.0)
    (reason,) = [one.sentence for one in Knowledge.of(stiefel_law(model, 1e-3, 4)).unknown if one.quantity == FOUND]
    assert reason == "step size: 0.001 is beyond 0.000904, from which direction 2 does not grow"


def _levels(model: QuadraticModel) -> list[float]:
    """Of two directions: a quarter of the square of each beside the lighter ones' squares."""
    first, second = model.spectrum**2
    return [1.5 * first + 2 * second, 1.5 * second]


def test_passages_near_the_late_level_or_of_great_steps_are_not_valid() -> None:
    """Four directions on eight columns: the third is found at risk 0.205, late it is 0.195, and SGD is there 31 % earlier."""
    *_, known = law_of(4, 8, 64, 0.3, 4)
    third = known.of_quantity(FOUND)[2]
    assert "fluctuations" in [x.name for x in third.conditions if not x.holds]
    assert [one.place for one in known.unknown] == [4]
    *_, known = law_of(2, 2, 32, 0.3, 512)  # (a step as long as its time, which is 42 % more by SGD)
    first = known.of_quantity(FOUND)[0]
    assert "whole steps" in [x.name for x in first.conditions if not x.holds]
    assert all(one.reasons for one in known.of_quantity(LATE_RISK))


def test_a_correction_by_a_third_leaves_its_square_to_the_next_order() -> None:
    """One sample a step, d = 8: what is left out is to what corrects the fixed point's risk as that is to the risk."""
    model, step_size, known = law_of(1, 2, 8, 0.6, 1)
    (late,) = known.of_quantity(LATE_RISK)
    (left,) = [one for one in late.conditions if one.name == "next order"]
    at = brentq(lambda g: mean_map(np.array([[g]]), model, step_size).item() - g, 0.5, 1)
    uncorrected = projected_risk(model.spectrum, np.array([[at]]))
    assert uncorrected / late.value > 1.3
    assert left.value == pytest.approx((uncorrected / late.value - 1) ** 2, rel=0.05)
    assert not left.holds


def test_a_direction_keeps_its_place_whatever_the_order_of_the_weights() -> None:
    found = []
    for weights in ((2.0, 1.0), (1.0, 2.0)):
        model = QuadraticModel(Teacher.of(weights, 256), 2, 2**-0.5)
        found.append({one.place: one.value for one in Knowledge.of(stiefel_law(model, 1e-4)).of_quantity(FOUND)})
    assert found[0][1] < found[0][2]
    assert found[1][2] < found[1][1]
    assert found[1][2] == pytest.approx(found[0][1], rel=0.2)  # (of other starts)


def test_a_start_that_never_comes_to_a_risk_has_no_passage() -> None:
    model = QuadraticModel(Teacher.power_law(1, 1.0, 100), 2, 2**-0.5)
    found = passages(model, np.array([[[0.2, 0.2]]]), [1.0, 1e-3], step_size=1e-3, draws=2)[:, 0]
    assert np.isfinite(found).tolist() == [True, False]


def test_a_wide_student_whose_law_starts_above_half_has_passages() -> None:
    """One direction without noise: the odds of $g=|Z|^2$ grow at rate 2."""
    model = QuadraticModel(Teacher.power_law(1, 1.0, 4), 3, 3**-0.5)
    found = passages(model, np.array([[[0.5, 0.0, 0.0]]]), [2 * (1 - 0.8**2)], step_size=1e-12, draws=2)
    assert found.item() == pytest.approx(np.log((0.8 / 0.2) / (0.25 / 0.75)) / 2, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"student_width": 1}, "below 2 teacher directions"), ({"dim": 3}, "raise dim"), ({"step_size": 1.0}, "lower it")],
)
def test_what_is_not_known_of_sgd_is_said(given: dict, said: str) -> None:
    small = {"teacher_width": 2, "student_width": 2, "dim": 128, "step_size": 1e-4} | given
    (one,) = resolve(QuadraticProblem(**small)).sgd.unknown
    assert said in one.sentence


def test_predict_states_it_at_a_step_size_and_a_batch(run: Callable, refused: Callable) -> None:
    """Of the same samples a step of twice as many is twice as long, and does much the same to the mean."""
    assert run(*SMALL)[1]["sgd"] == {"known": [], "unknown": []}
    assert "batch is 2 without step-size" in refused(*SMALL, "--batch", "2")
    one, two = (
        run(*SMALL, "--step-size", size, "--batch", batch)[1]["sgd"]["known"]
        for size, batch in (("1e-4", "1"), ("2e-4", "2"))
    )
    for first, second in zip(one, two, strict=True):
        per = 1 if first["unit"] == "1" else 2
        assert second["value"] * per == pytest.approx(first["value"], rel=1e-3)
    data = MODEL.predict.data(resolve(QuadraticProblem(dim=128, teacher_width=2, student_width=2, step_size=1e-4)))
    assert data.sgd_mean.values.tolist() == [x["value"] for x in one if x["direction"] is not None]
    assert float(data.late_loss) == next(x["value"] for x in one if x["quantity"] == LATE_LOSS)
    assert set(data.data_vars) == set(MODEL.predict.variables)


@pytest.mark.parametrize("given", [{"step_size": 0.0}, {"step_size": np.nan}, {"step_size": 1e-4, "batch": 0}])
def test_bad_numbers_of_a_law_are_named(given: dict) -> None:
    model = QuadraticModel(Teacher.power_law(2, 1.0, 64), 2, 2**-0.5)
    with pytest.raises(InputError, match="batch" if "batch" in given else "step_size"):
        next(stiefel_law(model, **given))


def test_no_frame_of_rows_beside_the_directions_has_no_law() -> None:
    (one,) = stiefel_law(QuadraticModel(Teacher.power_law(2, 1.0, 3), 2), 1e-4)
    assert one == Unknown(
        "Stiefel SGD", "dim is 3, below teacher width + student width = 4: raise dim or lower a width"
    )
