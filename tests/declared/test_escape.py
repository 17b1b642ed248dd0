"""Escape from the plateau: the linearised growth beside the flow, and when there is none."""

import numpy as np
import pytest

from dynamics.declared.flow import declared_flow
from theory import Activation, InputError
from theory.core.curves import first_crossing
from theory.declared import escape
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation, Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.predict import predict
from theory.declared.rule import Rule
from theory.declared.start import draw_start
from theory.declared.student import Student, committee
from theory.declared.target import Additive, Polynomial, Target

H2, ERF = Activation.parse("h2"), Activation.parse("erf")
SPIKED = Directions.eigenvectors(Inputs.spiked(9000, 3.0), (0, 1))
PLAIN = Directions.orthonormal(Inputs.isotropic(9000), 2)
Z1Z2, PAIR = Polynomial.parse("z1*z2"), Additive(H2, (1.0, 0.6))


def made(target: Target, student: Student, loss: Loss, directions: Directions = PLAIN) -> DeclaredModel:
    return DeclaredModel(directions, target, student, Rule(1e-5), loss)


@pytest.mark.parametrize(
    ("model", "rate"),
    [
        (made(Z1Z2, committee(H2, 1, rows="sphere"), Correlation()), np.sqrt(2)),
        (made(PAIR, committee(H2, 2, 0.05, rows="sphere"), Square()), 0.1),
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
        (made(Additive(ERF, (1.0, 1.0)), committee(ERF, 2), Square()), "leap 1"),
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


def test_free_rows_and_rows_that_move_are_outside_its_conditions() -> None:
    model = made(PAIR, committee(H2, 2, 0.5), Square())
    growth, _ = escape.escape(model, draw_start(PLAIN, 2, 0.3, seed=1))
    assert {x.split(":")[0] for x in growth.reasons} == {"rows", "sphere"}


def test_rows_that_have_times_of_their_own_are_left_to_them() -> None:
    model = made(PAIR, committee(H2, 2, rows="sphere"), Correlation())
    assert list(escape.escape(model, draw_start(PLAIN, 2, 1.0, seed=1))) == []
