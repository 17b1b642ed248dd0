"""The additive model is found however it is written, and has the same answers."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics import gradient_flow
from theory import Activation
from theory.declared import lone_row
from theory.declared.additive import additive_parts, start_of
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Square
from theory.declared.model import DeclaredModel
from theory.declared.predict import predict
from theory.declared.rule import Ahead, Here, Momentum, Moved, Reuse, Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive, Polynomial, as_additive
from theory.declared.whole_flow import ERROR, REFERENCE

WEIGHTS, DIM, WIDTH = (0.8, 0.5), 1000, 4
PLAIN = Inputs.isotropic(DIM)


def declared(
    activation: str,
    link: str,
    weights: tuple[float, ...] = WEIGHTS,
    signs: tuple[int, ...] = (1, 1),
    inputs: Inputs = PLAIN,
) -> tuple[DeclaredModel, Start]:
    """On directions ±e of one start."""
    sigma, directions = Activation.parse(activation), Directions.orthonormal(inputs, len(weights))
    rows = draw_start(Directions.orthonormal(PLAIN, len(weights)), WIDTH, 0.05).coordinates[0].copy()
    rows[:, : len(weights)] *= signs
    student = two_homogeneous(sigma, WIDTH)
    model = DeclaredModel(directions, Additive(Activation.parse(link), weights), student, Rule(1e-6), Square())
    return model, Start((rows,))


WRITTEN = [
    ("h3", {"link": "h3", "weights": (0.8, -0.5), "signs": (1, -1)}),
    ("h3", {"link": "-h3/2", "weights": (1.6, -1.0), "signs": (-1, 1)}),
    ("h4", {"link": "2*h4", "weights": (0.4, 0.25)}),
    ("h4", {"link": "-h4", "weights": (-0.8, -0.5)}),
    ("0.8*h3 + 0.6*h4", {"link": "0.6*h4 - 0.8*h3", "signs": (-1, -1)}),
    ("relu", {"link": "2*relu", "weights": (0.4, 0.25)}),
    ("h4", {"link": "h4", "inputs": Inputs.isotropic(DIM, 1 + 1e-10)}),
    ("h3", {"link": "h3", "inputs": Inputs.isotropic(DIM, 1 - 1e-12)}),
]


@pytest.mark.parametrize(("activation", "written"), WRITTEN)
def test_one_function_written_in_two_ways_is_one_problem(activation: str, written: dict) -> None:
    plain, other = (additive_parts(*declared(activation, **x)) for x in ({"link": activation}, written))
    assert plain is not None
    assert other is not None
    assert plain[0] == other[0]
    np.testing.assert_allclose(plain[1].weights, other[1].weights, rtol=1e-12)
    for one, same in ((plain[2].on_teachers, other[2].on_teachers), (plain[2].residual, other[2].residual)):
        np.testing.assert_allclose(one, same, atol=1e-15)


@pytest.mark.parametrize("place", [1, 5])
def test_one_problem_has_one_answer(place: int) -> None:
    activation, written = WRITTEN[place]
    plain, other = (predict(*declared(activation, **x), 1000) for x in ({"link": activation}, written))
    assert plain.unknown == other.unknown
    for one, same in zip(plain.known, other.known, strict=True):
        assert (one.quantity, one.place) == (same.quantity, same.place)
        assert [(x.name, x.holds) for x in one.conditions] == [(x.name, x.holds) for x in same.conditions]
        np.testing.assert_allclose((one.value, one.low, one.high), (same.value, same.low, same.high), rtol=1e-6)


@pytest.mark.slow_for(
    "h4 + 0.5-0.8*h4(z1) + 0.5*h4(z2) + 0.65-h4 + 0.5-weights2",
    "h4-0.3*h3(z1) + 0.7*h4(z1) + 0.15*h3(z2) + 0.35*h4(z2)-0.3*h3 + 0.7*h4-weights4",
)
@pytest.mark.parametrize(
    ("activation", "text", "link", "weights"),
    [
        ("h3", "0.8*h3(z1) - 0.5*h3(z2)", "h3", (0.8, -0.5)),
        ("0.8*h3 + 0.6*h4", "1.6*h3(z1) + 1.2*h4(z1) + 0.8*h3(z2) + 0.6*h4(z2)", "0.8*h3 + 0.6*h4", (2.0, 1.0)),
        ("h4 + 0.5", "0.8*h4(z1) + 0.5*h4(z2) + 0.65", "h4 + 0.5", (0.8, 0.5)),
        ("h3", "0.8*(z1**3 - 3*z1)/6**0.5 + 0.5*(z2**3 - 3*z2)/6**0.5", "h3", (0.8, 0.5)),
        ("h4", "0.3*h3(z1) + 0.7*h4(z1) + 0.15*h3(z2) + 0.35*h4(z2)", "0.3*h3 + 0.7*h4", (1.0, 0.5)),
    ],
)
def test_a_polynomial_that_is_a_sum_of_one_link_is_additive(
    activation: str, text: str, link: str, weights: tuple[float, ...]
) -> None:
    """Everything that is known of it, times included, by either writing: rows that are integrated to the solver's tolerance in
    their intervals (it may take other steps where rounding differs: of h4 one moves by 2.4e-6).
    """
    plain, start = declared(activation, link, weights)
    written = replace(plain, target=Polynomial.parse(text))
    one, other = (predict(x, start, 1000) for x in (plain, written))
    assert one.unknown == other.unknown
    assert any(np.isfinite(x.value) for x in other.of_quantity("emergence"))
    for left, right in zip(one.known, other.known, strict=True):
        assert (left.quantity, left.place) == (right.quantity, right.place)
        assert [(x.name, x.holds) for x in left.conditions] == [(x.name, x.holds) for x in right.conditions]
        closed = ERROR / 10 if left.source == REFERENCE else 1e-9 if additive_parts(plain, start) else 1e-6
        interval = lone_row._RTOL if left.source == lone_row.REFERENCE else closed
        np.testing.assert_allclose(left.value, right.value, rtol=closed)
        np.testing.assert_allclose((left.low, left.high), (right.low, right.high), rtol=interval)


@pytest.mark.parametrize(
    "text", ["h3(z1) + 0.5*h4(z2)", "h1(z1)*h2(z2)", "h3(z1) - h3(z2) + 1", "h3(z1) + h3(z2) + 1e-6*z1"]
)
def test_other_polynomials_stay_what_they_are(text: str) -> None:
    target = Polynomial.parse(text)
    assert as_additive(target) is target


def test_blocks_of_eigenvalues_that_are_1_are_one() -> None:
    inputs = Inputs.blocks((1.0, 300), (1 - 1e-11, 2))
    directions = Directions.orthonormal(inputs, 3, seed=1)
    start = draw_start(directions, WIDTH, 0.05)
    model = DeclaredModel(
        directions,
        Additive(Activation.parse("h3"), (0.8, 0.5, -0.3)),
        two_homogeneous(Activation.parse("h3"), WIDTH),
        Rule(1e-6),
        Square(),
    )
    parts = additive_parts(model, start)
    assert parts is not None
    _, teacher, initial = parts
    assert teacher.weights == (0.8, 0.5, 0.3)
    np.testing.assert_allclose(initial.on_teachers, start.overlaps(directions).sum(axis=0) * (1, 1, -1), atol=1e-15)
    grams = start_of(initial).grams[0]
    np.testing.assert_allclose(grams, start.grams.sum(axis=0), atol=1e-15)


@pytest.mark.parametrize(
    ("activation", "link", "weights"),
    [
        ("relu", "relu", (0.8, -0.5)),
        ("h4", "h4 + 1e-3*h6", WEIGHTS),
        ("0.8*h3 + 0.6*h4", "0.8*h3 - 0.6*h4", (-0.8, 0.5)),
        ("h4", "h4", (0.8, 0.0)),
    ],
)
def test_what_no_turn_of_a_direction_makes_is_another_model(
    activation: str, link: str, weights: tuple[float, ...]
) -> None:
    assert additive_parts(*declared(activation, link, weights)) is None


@pytest.mark.slow
def test_rows_of_an_even_activation_are_driven_back_from_a_negative_weight() -> None:
    """That direction is never found, and the others are within the intervals; but one that a row has may be."""
    model, start = declared("h4", "-2*h4", (-0.4, 0.25))
    parts = additive_parts(model, start)
    assert parts is not None
    np.testing.assert_allclose(parts[1].weights, (0.8, -0.5), rtol=1e-12)
    found = {x.place: x for x in predict(model, start).of_quantity("emergence")}
    assert (found[2].low, found[2].value, found[2].high, found[2].reasons) == (np.inf, np.inf, np.inf, [])
    flow = gradient_flow(*parts, t_end=1.5 * found[1].value)
    assert found[1].low <= flow.half_time[0] <= found[1].high < 1.02 * found[1].low
    assert flow.half_time[1] == np.inf
    rows = start.coordinates[0].copy()
    rows[0, 1] = 1.0
    assert additive_parts(model, Start((rows,))) is None


class _Lazy(Momentum):
    """Of one's own: what it does is its own affair."""

    def step(self, at: Here) -> Moved:
        return Moved(at.rows, at.second, at.buffers)


@pytest.mark.parametrize(
    ("rule", "plain"),
    [
        (Momentum(0.1, 4, beta=0.0, decay=0.2), True),
        (Momentum(0.1, 4, beta=0.0, kind="nesterov", decay=0.2), True),
        (Reuse(0.1, 4, passes=1, decay=0.2), True),
        (Ahead(0.1, 4, ahead=0.0, decay=0.2), True),
        (Momentum(0.1, 4, beta=1e-9), False),
        (Reuse(0.1, 4), False),
        (_Lazy(0.1, 4, beta=0.0), False),
    ],
)
def test_a_rule_that_is_plain_sgd_is_served_as_such(rule: Rule, plain: bool) -> None:
    model, _ = declared("h3", "h3")
    assert replace(model, rule=rule).rule == (Rule(0.1, 4, decay=0.2) if plain else rule)


def test_momentum_of_0_is_predicted_as_plain_sgd() -> None:
    """With a law of SGD and a bound on its steps of its own; samples of the leap are those of plain SGD."""
    model, start = declared("relu", "relu")
    plain, same = (predict(replace(model, rule=rule), start) for rule in (Rule(1e-6), Momentum(1e-6, beta=0.0)))
    assert repr(same) == repr(plain)


def test_directions_that_fill_their_eigenspace_are_their_own_coordinates() -> None:
    """As where there is room, so that it is direction 1 that the first coordinate is of."""
    for dim in (2, 3):
        np.testing.assert_array_equal(Directions.orthonormal(Inputs.isotropic(dim), 2).roots[0], np.eye(2))
