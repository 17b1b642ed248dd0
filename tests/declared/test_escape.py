"""Escape from the plateau: the flow beside closed forms, the linearised growth, and when there is none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from emergence.models.declared_problem import DeclaredProblem, resolve
from theory import Activation
from theory.declared import escape
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.known import Known, Unknown
from theory.declared.loss import Correlation, Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.numeric_flow import Rates
from theory.declared.predict import predict
from theory.declared.rule import Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import Student, committee
from theory.declared.target import Additive, Polynomial, Target

H2, ERF, RELU = (Activation.parse(text) for text in ("h2", "erf", "relu"))
SPIKED = Directions.eigenvectors(Inputs.spiked(9000, 3.0), (0, 1))
PLAIN, ONE = (Directions.orthonormal(Inputs.isotropic(9000), count) for count in (2, 1))
Z1Z2, PAIR = Polynomial.parse("z1*z2"), Additive(H2, (1.0, 0.6))


def made(target: Target, student: Student, loss: Loss, directions: Directions = PLAIN) -> DeclaredModel:
    return DeclaredModel(directions, target, student, Rule(1e-5), loss)


def entries(model: DeclaredModel, start: Start) -> tuple[Known | None, Known | None]:
    """Rate and time, as far as they are known."""
    known = {x.quantity: x for x in escape.escape(model, start) if isinstance(x, Known)}
    return known.get(escape.GROWTH), known.get(escape.ESCAPE)


def both(model: DeclaredModel, start: Start) -> tuple[Known, Known]:
    growth, time = entries(model, start)
    assert growth
    assert time
    return growth, time


@pytest.mark.parametrize("seed", [1, 2])
def test_a_row_that_a_matrix_turns_has_a_closed_form(seed: int) -> None:
    r"""On a sphere by the correlation loss of z1 z2 and h2: w(t) is along $e^{t\sqrt2 M}w(0)$, M = e1 e2ᵀ + e2 e1ᵀ."""
    model = made(Z1Z2, committee(H2, 1, rows="sphere"), Correlation())
    start = draw_start(PLAIN, 1, 1.0, seed)
    growth, time = both(model, start)
    assert growth.value == pytest.approx(np.sqrt(2), rel=1e-4)
    assert growth.reasons == time.reasons == []
    begin = start.overlaps(PLAIN).ravel()
    turned = scipy.linalg.expm(np.sqrt(2) * time.value * np.array([[0.0, 1.0], [1.0, 0.0]])) @ begin
    found = np.abs(turned).max() / np.sqrt(turned @ turned + 1 - begin @ begin)
    # (Correlations grow at √2 (1 − ρ²), about, so that this is what an error of the time moves them by.)
    assert found == pytest.approx(escape.LEFT, rel=escape.ERROR * np.sqrt(2) * time.value)


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        (made(PAIR, committee(H2, 2, 0.05, rows="sphere"), Square()), 0.1),
        pytest.param(made(PAIR, committee(H2, 2, 0.02, rows="sphere"), Square(), SPIKED), None, marks=pytest.mark.slow),
    ],
    ids=["committee", "covariance"],
)
def test_rows_that_stand_still_leave_at_their_rate(model: DeclaredModel, rate: float | None) -> None:
    """From a start that is half as long overlaps grow for ln 2 over the rate longer."""
    start = draw_start(model.directions, model.student.width, 1.0, seed=1)
    growth, time = both(model, start)
    assert growth.value == pytest.approx(rate or growth.value, rel=1e-4)
    assert growth.reasons == time.reasons == []
    assert crossing(model, start, 2 * time.value) == pytest.approx(time.value, rel=escape.ERROR)
    shorter = Start(tuple(np.hstack([block[:, :2] / 2, block[:, 2:]]) for block in start.coordinates))
    later = both(model, shorter)[1].value - time.value
    # (What other directions have by then, .6 of its rate or less, differs.)
    assert later * growth.value == pytest.approx(np.log(2), rel=0.01)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (made(Additive(ERF, (1.0, 1.0)), committee(ERF, 2), Square()), "first leap is 1"),
        (made(Polynomial.parse("h2(z1)*z2"), committee(Activation.parse("h3"), 1), Correlation()), "leap is above 2"),
        (made(PAIR, committee(H2, 2, trained=True), Square()), "the second layer is trained"),
    ],
    ids=["at once", "power", "trained"],
)
def test_where_nothing_grows_linearly_it_says_why(model: DeclaredModel, reason: str) -> None:
    """What grows at once, as a power of the start, or with the second layer, leaves when the flow does, too."""
    start = draw_start(model.directions, model.student.width, 0.3, seed=5)
    told = [x.sentence for x in predict(model, start).unknown if x.quantity == escape.GROWTH]
    assert len(told) == 1
    assert reason in told[0]
    growth, time = entries(model, start)
    assert growth is None
    assert time
    assert time.value > 0
    assert crossing(model, start, 2 * time.value) == pytest.approx(time.value, rel=escape.ERROR)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_growth_is_none_beside_the_target_itself_not_in_absolute_terms(size: float) -> None:
    model = made(Polynomial.parse("z1*z2"), committee(H2, 1, size, rows="sphere"), Correlation())
    growth, _ = both(model, draw_start(PLAIN, 1, 1.0, seed=1))
    assert growth.value == pytest.approx(size * np.sqrt(2), rel=1e-6)
    power = replace(model, target=Polynomial.parse("h4(z1)*z2"), student=committee(Activation.parse("h5"), 1, size))
    assert entries(power, draw_start(PLAIN, 1, 1.0, seed=1))[0] is None


def test_what_grows_is_what_there_can_be() -> None:
    """A direction has no part in the other's eigenspace, where rows that repel each other would tear any overlap apart.

    Against small steps from overlaps that there are, their lengths taken off.
    """
    model = made(Additive(H2, (-1.0, -0.6)), committee(H2, 2, 1.0, rows="sphere"), Square(), SPIKED)
    rows = np.array([[0.05, 0.02, 0.9, 0.1, 0.0], [0.03, 0.04, 0.5, 0.8, 0.0]])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    start = Start((rows[:, :1], rows[:, 1:]))
    growth, _ = both(model, start)
    rates, gram, size = Rates(model), start.grams, 0.02
    overlap = 1e-6 * start.overlaps(SPIKED)
    for _ in range(1000):
        moved = overlap + size * rates(overlap, gram)[0]
        ratio = np.linalg.norm(moved) / np.linalg.norm(overlap)
        overlap = moved / ratio
    assert growth.value == pytest.approx((ratio - 1) / size, rel=1e-6)


def test_a_growth_rate_that_rows_have_changed_is_outside_its_conditions() -> None:
    model = made(PAIR, committee(H2, 2, 0.5), Square())
    growth, time = both(model, draw_start(PLAIN, 2, 0.3, seed=1))
    assert {x.split(":")[0] for x in growth.reasons} == {"rows"}
    assert time.reasons == []


def crossing(model: DeclaredModel, start: Start, until: float) -> float:
    """When the flow of T, Q and b themselves, by another method, has a correlation of `LEFT`; inf if not by then."""
    rates, begin, gram, second = Rates(model), start.overlaps(model.directions), start.grams, model.student.second
    variances = np.diag(model.directions.covariance)

    def parts(state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        T, Q, b = np.split(state, np.cumsum([begin.size, gram.size]))
        return T.reshape(begin.shape), (Q := Q.reshape(gram.shape)) / 2 + Q.transpose(0, 2, 1) / 2, b

    def speed(time: float, state: np.ndarray) -> np.ndarray:
        moved = np.concatenate([x.ravel() for x in rates.of_all(*parts(state))])
        return np.append(moved, np.zeros(len(state) - len(moved)))  # (a second layer that is fixed)

    def missing(time: float, state: np.ndarray) -> float:
        X, C = rates.fields(*parts(state)[:2])
        return escape.LEFT - np.max(np.abs(X) / np.sqrt(np.diag(C)[:, None] * variances))

    missing.terminal = True  # type: ignore[attr-defined]
    first = np.concatenate([begin.ravel(), gram.ravel(), second])
    way = scipy.integrate.solve_ivp(speed, (0, until), first, "LSODA", events=missing, rtol=1e-7, atol=1e-11)
    assert way.success
    return float(way.t[-1]) if way.status == 1 else np.inf


@pytest.mark.parametrize(("problem", "changed"), [
    ({"target": "h2(z1)-0.7*h2(z2)", "activation": "h2", "inputs": "10000", "second": (1.0, -1.0)}, 0.3),
    ({"target": "h2(z1)-0.7*h2(z2)", "activation": "h2", "inputs": "blocks(2x5, .5x5000)", "second": (1.0, -1.0)}, 0.3),
    ({"target": "z1*z2", "activation": "h2+0.5*h4", "inputs": "1000", "second": (-1.0, 1.0)}, 0.3),
    ({"target": "z1*z2", "activation": "h2+0.5*h4", "inputs": "1000", "second": (-1.0, 1.0), "seed": 2}, 0.3),
])  # fmt: skip
def test_rows_that_attract_each_other_make_the_plateau_longer(problem: dict[str, Any], changed: float) -> None:
    """Rows of opposite sign meet, and act as one that is weaker: up to 3 times as long as with the rate at the start."""
    one = resolve(DeclaredProblem(student="committee", rows="sphere", student_width=2, **problem))
    growth, time = both(one.model, one.start)
    assert growth.conditions[0].value > changed
    assert time.reasons == []
    assert crossing(one.model, one.start, 3 * time.value) == pytest.approx(time.value, rel=escape.ERROR)


def test_of_a_row_that_turns_into_a_spike_no_escape_is_said() -> None:
    directions = Directions.orthonormal(Inputs.spiked(1000, 8.0), 2, seed=3)
    model = made(Polynomial.parse("z1**2*z2**2"), committee(RELU, 1, 0.3, rows="sphere"), Correlation(), directions)
    start = draw_start(directions, 1, 1.0, seed=3)
    growth, time = entries(model, start)
    assert growth
    assert np.isinf(crossing(model, start, 100 / growth.value))
    assert time is None


def test_overlaps_that_shrink_are_not_said_to_wait_for_a_power_of_d() -> None:
    model = made(Polynomial.parse("-h2(z1)"), committee(H2, 1, rows="sphere"), Correlation(), ONE)
    start = draw_start(ONE, 1, 1.0, seed=1)
    rate, time = escape.escape(model, start)
    assert isinstance(rate, Unknown)
    assert "small overlaps shrink, at a rate of 2 or more" in rate.sentence
    assert isinstance(time, Unknown)
    assert np.isinf(crossing(model, start, 100.0))
    # (A direction that is in one eigenspace has no overlap in the other, and no rate of 0 there.)
    spiked = replace(model, directions=Directions.eigenvectors(Inputs.spiked(9000, 3.0), (0,)))
    rate, _ = escape.escape(spiked, start_of(spiked))
    assert isinstance(rate, Unknown)
    assert "small overlaps shrink" in rate.sentence


@pytest.mark.parametrize("problem", [
    {"target": "1e-3*z1*z2", "activation": "h2", "inputs": "200", "student_width": 2, "seed": 55},
    {"target": "z1*z2", "activation": "h2", "inputs": "1000000000", "start_scale": 3.0, "student_width": 2},
])  # fmt: skip
def test_overlaps_of_heavy_rows_shrink_until_these_are_light(problem: dict[str, Any]) -> None:
    one = resolve(DeclaredProblem(**problem))
    growth, time = both(one.model, one.start)
    assert growth.value < 0
    assert [x.split(":")[0] for x in growth.reasons] == ["rows"]
    assert time.reasons == []
    assert crossing(one.model, one.start, 3 * time.value) == pytest.approx(time.value, rel=escape.ERROR)


def test_rows_that_vanish_on_the_way_end_it(recwarn: pytest.WarningsRecorder) -> None:
    """An odd activation has nothing of an even target: decay takes its rows away."""
    one = resolve(
        DeclaredProblem(
            activation="h3+0.5*h1",
            target="h2(z1)+0.5*h2(z2)",
            student="committee",
            student_width=2,
            seed=55,
            inputs="200",
            decay=0.05,
        )
    )
    growth, time = entries(one.model, one.start)
    assert growth
    assert np.isfinite(growth.conditions[0].value)
    assert time is None
    assert not recwarn.list


def test_a_rate_that_is_rounding_is_none() -> None:
    """The activation shares no degree with the target: nothing moves, and nothing says how large a rate would be."""
    model = made(
        Polynomial.parse("h2(z1)+0.1*h4(z2)"), committee(Activation.parse("h3"), 1, 0.3, rows="sphere"), Square()
    )
    rate, _ = escape.escape(model, start_of(model))
    assert isinstance(rate, Unknown)
    assert "no overlap grows linearly" in rate.sentence


def start_of(model: DeclaredModel, seed: int = 1) -> Start:
    return draw_start(model.directions, model.student.width, 1.0, seed)


def drawn(seed: int) -> DeclaredModel:
    rng = np.random.default_rng(seed)
    inputs = [Inputs.isotropic(1000), Inputs.spiked(1000, 3.0), Inputs.isotropic(10_000)][rng.integers(3)]
    target = Polynomial.parse(str(rng.choice(["z1*z2", "h2(z1)-h2(z2)", "z1*z2-z2*z3", "h2(z1)+h3(z1)", "h2(z1)"])))
    activation = Activation.parse(str(rng.choice(["h2", "h2+h3", "h2-0.5*h4", "h2+0.3", "relu"])))
    second = tuple(rng.choice([1.0, -1.0, 0.3], rng.integers(2, 4)).tolist())
    rows = str(rng.choice(["sphere", "projected", "free"]))
    student = committee(activation, len(second), second, rows=rows)
    return made(target, student, Square(), Directions.orthonormal(inputs, target.count, seed))


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 24), marks=pytest.mark.slow)])
def test_of_random_models_each_time_is_that_of_the_flow(seeds: range) -> None:
    """Rows whose lengths change, that pull at each other, or see no slope at all."""
    found = 0
    for seed in seeds:
        model = drawn(seed)
        _, time = entries(model, start_of(model, seed))
        if time and time.value:
            found += 1
            assert crossing(model, start_of(model, seed), 5 * time.value) == pytest.approx(time.value, rel=escape.ERROR)
    assert found >= len(seeds) // 2


def test_rows_that_have_times_of_their_own_are_left_to_them() -> None:
    """By the correlation loss, and one row by itself by any."""
    for width, loss in ((2, Correlation()), (1, Square())):
        model = made(PAIR, committee(H2, width, rows="sphere"), loss)
        assert list(escape.escape(model, draw_start(PLAIN, width, 1.0, seed=1))) == []
