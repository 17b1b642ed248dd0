"""A second layer trained beside its row: formulas by other roads."""

import numpy as np
import pytest

from dynamics.declared.flow import declared_flow
from tests.core.test_shown_is_checked import survivors
from theory import Activation, InputError
from theory.declared import second_layer
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.second_layer import leading_time, passage_time
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Additive

H3 = Activation.parse("h3")


def test_its_equations_are_checked() -> None:
    assert second_layer.derivation().verify() > 0
    assert survivors(second_layer.derivation()) == []


def test_the_exact_time_tends_to_the_leading_one() -> None:
    symbols = dict(zip("at", (second_layer.a, second_layer.t0), strict=True))
    known = {second_layer.J: 3, second_layer.s: 1, second_layer.one: 1, symbols["a"]: 0.8}
    ratios = [
        passage_time(H3, 0.8, overlap, 0.0) / float(leading_time().subs({**known, symbols["t"]: overlap}))
        for overlap in (0.2, 0.1, 0.05)
    ]
    gaps = np.abs(np.array(ratios) - 1)
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 0.01


@pytest.mark.parametrize("overlap", [1e-2, 1e-3])
def test_long_searches_end_and_are_longer_by_the_next_order(overlap: float) -> None:
    r"""By $\tfrac{2J-2}{2J-4}t_0^2$, from $1/(1-t^2)$; of 1e28 no clock of a double's digits sees the end."""
    symbols = {second_layer.J: 6, second_layer.s: 1, second_layer.one: 1, second_layer.a: 0.8, second_layer.t0: overlap}
    time = passage_time(Activation.parse("h6"), 0.8, overlap, 0.0)
    assert time / float(leading_time().subs(symbols)) - 1 == pytest.approx(1.25 * overlap**2, rel=2 * overlap, abs=1e-7)


@pytest.mark.parametrize(("text", "overlap", "second"), [("h3", 0.2, 0.3), ("h2+0.5*h3+0.5", -0.1, -0.2)])
def test_the_exact_time_is_that_of_the_declared_flow(text: str, overlap: float, second: float) -> None:
    """Of activations with a mean, too: its squared overlap is ½ then."""
    activation, directions = Activation.parse(text), Directions.orthonormal(Inputs.isotropic(50), 1)
    student = committee(activation, 1, second, trained=True, rows="sphere")
    model = DeclaredModel(directions, Additive(activation, (0.7,)), student, Rule(1.0))
    start = Start((np.array([[overlap, np.sqrt(1 - overlap**2)]]),))
    time = passage_time(activation, 0.7, overlap, second)
    flow = declared_flow(model, start, time, np.array([time]), rtol=1e-10).dataset
    assert float(flow.overlap[-1, 0, 0, 0]) ** 2 == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "weight", "overlap", "level", "said"),
    [
        ("h1", 1.0, 0.1, 0.5, "activation is 'h1'"),
        ("h3", 1.0, 0.0, 0.5, "overlap is 0.0"),
        ("h3", 0.0, 0.1, 0.5, "weight is 0.0"),
        ("h3", np.nan, 0.1, 0.5, "weight is nan"),
        ("h3", 1.0, 0.8, 0.5, "level is 0.5"),
        ("h3", 1.0, 0.1, 1.0, "level is 1.0"),
    ],
)
def test_a_search_that_is_none_or_never_begins_is_refused(
    text: str, weight: float, overlap: float, level: float, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        passage_time(Activation.parse(text), weight, overlap, 0.0, level)


def test_either_sign_of_the_overlap_will_do() -> None:
    assert passage_time(H3, 1.0, -0.2, 0.0) == pytest.approx(passage_time(H3, 1.0, 0.2, 0.0))
