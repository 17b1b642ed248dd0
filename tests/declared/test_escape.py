"""Escape from the plateau: the linearised growth beside the flow, and when there is none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from dynamics.declared.flow import declared_flow
from emergence.models.declared_problem import DeclaredProblem, resolve
from theory import Activation, InputError
from theory.core.curves import first_crossing
from theory.declared import escape
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
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


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        (made(Z1Z2, committee(H2, 1, rows="sphere"), Correlation()), np.sqrt(2)),
        pytest.param(made(PAIR, committee(H2, 2, 0.05, rows="sphere"), Square()), 0.1, marks=pytest.mark.slow),
        (made(PAIR, committee(H2, 2, 0.02, rows="sphere"), Square(), SPIKED), None),
    ],
    ids=["staircase", "committee", "covariance"],
)
def test_the_flow_leaves_the_plateau_when_the_linear_one_does(model: DeclaredModel, rate: float | None) -> None:
    start = draw_start(model.directions, model.student.width, 1.0, seed=1)
    growth, time = escape.escape(model, start)
    assert growth.value == pytest.approx(rate or growth.value, rel=1e-4)
    assert growth.reasons == []
    times = np.linspace(0, 1.2 * time.value, 400)
    data = declared_flow(model, start, times[-1], times).dataset
    values = np.asarray(model.inputs.eigenvalues)
    X = np.einsum("i,tikp->tkp", values, data.overlap.values)
    C = np.einsum("i,tikk->tk", values, data.gram.values)
    cosine = np.abs(X) / np.sqrt(C[..., None] * np.diag(model.directions.covariance))
    # (What is cubic in the overlaps counts at the end only: 0.3² of a time 1/rate.)
    found = first_crossing(times, cosine.max(axis=(1, 2)), escape.FOUND)
    assert float(found) == pytest.approx(time.value, abs=2 * escape.FOUND**2 / growth.value + times[1])


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
    start = draw_start(model.directions, model.student.width, 0.3, seed=1)
    with pytest.raises(InputError, match=reason):
        list(escape.escape(model, start))
    said = [x.sentence for x in predict(model, start).unknown if x.quantity == escape.ESCAPE]
    assert len(said) == 1
    assert reason in said[0]


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_growth_is_none_beside_the_target_itself_not_in_absolute_terms(size: float) -> None:
    model = made(Polynomial.parse("z1*z2"), committee(H2, 1, size, rows="sphere"), Correlation())
    growth, _ = escape.escape(model, draw_start(PLAIN, 1, 1.0, seed=1))
    assert growth.value == pytest.approx(size * np.sqrt(2), rel=1e-6)
    power = replace(model, target=Polynomial.parse("h4(z1)*z2"), student=committee(Activation.parse("h5"), 1, size))
    with pytest.raises(InputError, match="leap is above 2"):
        list(escape.escape(power, draw_start(PLAIN, 1, 1.0, seed=1)))


def test_what_grows_is_what_there_can_be() -> None:
    """A direction has no part in the other's eigenspace, where rows that repel each other would tear any overlap apart.

    Against small steps from overlaps that there are, their lengths taken off.
    """
    model = made(Additive(H2, (-1.0, -0.6)), committee(H2, 2, 1.0, rows="sphere"), Square(), SPIKED)
    rows = np.array([[0.05, 0.02, 0.9, 0.1, 0.0], [0.03, 0.04, 0.5, 0.8, 0.0]])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    start = Start((rows[:, :1], rows[:, 1:]))
    growth, _ = escape.escape(model, start)
    rates, gram, size = Rates(model), start.grams, 0.02
    overlap = 1e-6 * start.overlaps(SPIKED)
    for _ in range(1000):
        moved = overlap + size * rates(overlap, gram)[0]
        ratio = np.linalg.norm(moved) / np.linalg.norm(overlap)
        overlap = moved / ratio
    assert growth.value == pytest.approx((ratio - 1) / size, rel=1e-6)


def test_a_growth_rate_that_rows_have_changed_is_outside_its_conditions() -> None:
    model = made(PAIR, committee(H2, 2, 0.5), Square())
    growth, time = escape.escape(model, draw_start(PLAIN, 2, 0.3, seed=1))
    assert {x.split(":")[0] for x in growth.reasons} == {"rows"}
    assert time.reasons == []


def crossing(model: DeclaredModel, start: Start, until: float) -> float:
    """When the flow itself, T and Q together and to all orders, has a correlation of `FOUND`; inf if not by then."""
    rates, begin, gram = Rates(model), start.overlaps(model.directions), start.grams

    def parts(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Q = state[begin.size :].reshape(gram.shape)
        return state[: begin.size].reshape(begin.shape), (Q + Q.transpose(0, 2, 1)) / 2

    def speed(time: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([x.ravel() for x in rates(*parts(state))])

    def missing(time: float, state: np.ndarray) -> float:
        X, C = rates.fields(*parts(state))
        return escape.FOUND - np.max(np.abs(X) / np.sqrt(np.diag(C)[:, None] * np.diag(model.directions.covariance)))

    missing.terminal = True  # type: ignore[attr-defined]
    first = np.concatenate([begin.ravel(), gram.ravel()])
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
    growth, time = escape.escape(one.model, one.start)
    assert growth.conditions[0].value > changed
    assert time.reasons == []
    flow = crossing(one.model, one.start, 3 * time.value)
    # (What is left is the share of higher orders, on which the time says its own size.)
    assert abs(flow / time.value - 1) < 2 * time.conditions[0].value


def test_of_a_row_that_turns_into_a_spike_no_escape_is_said() -> None:
    directions = Directions.orthonormal(Inputs.spiked(1000, 8.0), 2, seed=3)
    model = made(Polynomial.parse("z1**2*z2**2"), committee(RELU, 1, 0.3, rows="sphere"), Correlation(), directions)
    start = draw_start(directions, 1, 1.0, seed=3)
    growth, time = escape.escape(model, start)
    assert np.isinf(crossing(model, start, 100 / growth.value))
    assert [x.split(":")[0] for x in time.reasons] == ["linear"]


def test_overlaps_that_shrink_are_not_said_to_wait_for_a_power_of_d() -> None:
    model = made(Polynomial.parse("-h2(z1)"), committee(H2, 1, rows="sphere"), Correlation(), ONE)
    start = draw_start(ONE, 1, 1.0, seed=1)
    with pytest.raises(InputError, match="small overlaps shrink, at a rate of 2 or more"):
        list(escape.escape(model, start))
    assert np.isinf(crossing(model, start, 100.0))
    # (A direction that is in one eigenspace has no overlap in the other, and no rate of 0 there.)
    spiked = replace(model, directions=Directions.eigenvectors(Inputs.spiked(9000, 3.0), (0,)))
    with pytest.raises(InputError, match="small overlaps shrink"):
        list(escape.escape(spiked, start_of(spiked)))


@pytest.mark.parametrize("problem", [
    {"target": "1e-3*z1*z2", "activation": "h2", "inputs": "200", "student_width": 2, "seed": 55},
    {"target": "z1*z2", "activation": "h2", "inputs": "1000000000", "start_scale": 3.0, "student_width": 2},
])  # fmt: skip
def test_overlaps_of_heavy_rows_shrink_until_these_are_light(problem: dict[str, Any]) -> None:
    one = resolve(DeclaredProblem(**problem))
    growth, time = escape.escape(one.model, one.start)
    assert growth.value < 0
    assert [x.split(":")[0] for x in growth.reasons] == ["rows"]
    assert time.reasons == []
    assert crossing(one.model, one.start, 3 * time.value) == pytest.approx(time.value, rel=0.1)


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
    growth, time = escape.escape(one.model, one.start)
    assert np.isfinite(growth.conditions[0].value)
    assert np.isinf(time.value)
    assert not recwarn.list


def test_a_rate_that_is_rounding_is_none() -> None:
    """The activation shares no degree with the target: nothing moves, and nothing says how large a rate would be."""
    model = made(
        Polynomial.parse("h2(z1)+0.1*h4(z2)"), committee(Activation.parse("h3"), 1, 0.3, rows="sphere"), Square()
    )
    with pytest.raises(InputError, match="no overlap grows linearly"):
        list(escape.escape(model, start_of(model)))


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


@pytest.mark.slow
def test_of_random_models_each_valid_time_is_that_of_the_flow() -> None:
    ratios = []
    for seed in range(24):
        model = drawn(seed)
        try:
            _, time = escape.escape(model, start_of(model, seed))
        except InputError:
            continue
        if time.reasons or not time.value:
            continue
        ratios.append(time.value / crossing(model, start_of(model, seed), 5 * time.value))
    assert len(ratios) >= 8
    # (Conditions leave to higher orders a share of 0.2 of the linear rate.)
    assert 0.8 < min(ratios) <= max(ratios) < 1.25


@pytest.mark.parametrize(
    ("activation", "seed", "valid"), [("abs(z)", 0, True), ("abs(z)", 1, True), ("h2-h4", 1, False)]
)
def test_what_overlaps_do_to_the_lengths_of_rows_is_of_higher_order_too(
    activation: str, seed: int, valid: bool
) -> None:
    """Of a 2-homogeneous student T grows at its linear rate all the way, and correlations do not: the rows get longer."""
    shape = {"target": "z1**2*z2**2", "loss": "correlation", "student_width": 1, "inputs": "32"}
    one = resolve(DeclaredProblem(activation=activation, seed=seed, **shape))
    (time,) = [x for x in escape.escape(one.model, one.start) if x.quantity == escape.ESCAPE]
    off = crossing(one.model, one.start, 3 * time.value) / time.value - 1
    (linear,) = time.conditions
    assert off > 0.04
    assert linear.value == pytest.approx(off, rel=0.3)
    assert (time.reasons == []) == valid == (off < 0.2)


@pytest.mark.parametrize(("width", "valid"), [(6, True), (8, False)])
def test_what_rows_of_a_square_loss_do_to_each_other_is_of_higher_order_too(width: int, valid: bool) -> None:
    """They are 18 and 22 % late; the rates of all rows together, at the linear path, said 6 and 5 %, valid."""
    shape = {"target": "z1*z2", "student": "committee", "activation": "h2+0.5*h3", "student_width": width}
    one = resolve(DeclaredProblem(inputs="60", seed=1, **shape))
    (time,) = [x for x in escape.escape(one.model, one.start) if x.quantity == escape.ESCAPE]
    off = crossing(one.model, one.start, 2 * time.value) / time.value - 1
    (linear,) = time.conditions
    assert linear.value == pytest.approx(off, rel=0.1)
    assert (time.reasons == []) == valid == (off < 0.2)


@pytest.mark.parametrize(
    ("target", "rows", "directions"), [("z1**2*z2**2", 1, PLAIN), ("z1*z2", 1, SPIKED), ("z1*z2", 2, SPIKED)]
)
def test_while_little_is_found_higher_orders_move_the_time_by_just_so_much(
    monkeypatch: pytest.MonkeyPatch, target: str, rows: int, directions: Directions
) -> None:
    """Until a correlation of .1, of rows whose lengths grow: the order after it is the square of the share."""
    monkeypatch.setattr(escape, "FOUND", 0.1)
    monkeypatch.setattr(escape, "_ROUGH", 1e-7)
    model = made(Polynomial.parse(target), committee(Activation.parse("abs(z)"), rows, 0.3), Correlation(), directions)
    (time,) = [x for x in escape.escape(model, start_of(model)) if x.quantity == escape.ESCAPE]
    off, (linear,) = crossing(model, start_of(model), 3 * time.value) / time.value - 1, time.conditions
    assert abs(linear.value / off - 1) < 2 * off < 0.06


def test_rows_that_have_times_of_their_own_are_left_to_them() -> None:
    """By the correlation loss, and one row by itself by any."""
    for width, loss in ((2, Correlation()), (1, Square())):
        model = made(PAIR, committee(H2, width, rows="sphere"), loss)
        assert list(escape.escape(model, draw_start(PLAIN, width, 1.0, seed=1))) == []


@pytest.mark.slow_for("h2(z1) + 0.1*h3(z1)-h2+0.2*h3-True")
@pytest.mark.parametrize(("target", "activation", "leads"), [
    ("h2(z1) + 0.1*h3(z1)", "h2+0.2*h3", True), pytest.param("z1*z2", "h2", True, marks=pytest.mark.slow),
    ("0.1*h2(z1) + h3(z1)", "0.3*h2+h3", False),
])  # fmt: skip
def test_the_linear_order_says_how_far_it_leads(target: str, activation: str, leads: bool) -> None:
    """Where it does, the flow's own time is late or early by the share that higher orders have of the rates."""
    shape = {"student": "committee", "rows": "sphere", "student_width": 1 + ("z2" in target), "loss": "correlation"}
    resolved = resolve(DeclaredProblem(inputs="200", target=target, activation=activation, **shape, seed=1))
    (one,) = [x for x in escape.escape(resolved.model, resolved.start) if x.quantity == escape.ESCAPE]
    (share,) = [x.value for x in one.conditions if x.name == "linear"]
    assert (one.reasons == []) == leads
    flow = declared_flow(resolved.model, resolved.start, 3 * one.value, np.linspace(0, 3 * one.value, 6001)).dataset
    cosines = np.abs(flow.overlap.values).max(axis=(1, 2, 3))  # isotropic inputs, rows and directions of length 1
    assert cosines.max() >= escape.FOUND
    off = abs(flow.time.values[np.argmax(cosines >= escape.FOUND)] / one.value - 1)
    assert (share / 2 < off < 2 * share) if leads else off > 0.2
