"""Any rule with the population's gradient: the flow as its limit, what closes, and the lone row of a polar step."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics.declared.descent import population_descent
from dynamics.declared.flow import declared_flow
from theory import Activation, InputError
from theory.core.derivation import DerivationError, equation
from theory.declared import polar_emergence
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import SAM, Adam, Momentum, Rule
from theory.declared.start import Start, draw_start
from theory.declared.student import Student, committee, whitened
from theory.declared.target import Additive

ERF, H3 = Activation.parse("erf"), Activation.parse("h3+0.3*h1")
INPUTS = Inputs.blocks((2.0, 5), (1.0, 9), (0.3, 2))
DIRECTIONS = Directions.random(INPUTS, 2, seed=1)
STUDENTS = {
    "whitened": whitened(H3, 3),
    "trained, projected": committee(ERF, 3, 0.5, trained=True, rows="projected"),
}


@pytest.mark.slow_for("trained, projected")
@pytest.mark.parametrize("name", STUDENTS)
def test_small_steps_are_the_flow(name: str) -> None:
    """Extrapolated from two step sizes."""
    student: Student = STUDENTS[name]
    model = DeclaredModel(DIRECTIONS, Additive(student.activation, (1.0, 0.6)), student, Rule(0.1, decay=0.2))
    start = draw_start(DIRECTIONS, 3, 1.0)
    flow = declared_flow(model, start, 1.0, np.array([1.0])).dataset
    ends = []
    for steps in (40, 80):
        small = replace(model, rule=Rule(1 / steps, decay=0.2))
        ends.append(population_descent(small, start, steps=steps, saves=1).isel(time=-1))
    for quantity in ("overlap", "gram", "loss"):
        known = flow[quantity].values[-1]
        first, second = (np.abs(x[quantity].values - known).max() for x in ends)
        limit = np.abs(2 * ends[1][quantity].values - ends[0][quantity].values - known).max()
        assert 5 * limit < second < 0.6 * first


def test_tolerances_of_the_flow_are_relative_and_absolute() -> None:
    r"""A unit row of h₂: $\dot u=2as\,u(1-u^2)$, so that u²/(1 − u²) grows as $e^{4ast}$, here from 10⁻¹⁴ to beyond 1."""
    H2, overlap, times = Activation.parse("h2"), 1e-7, np.array([0.0, 5.0, 24.0])
    student = committee(H2, 1, 0.5, rows="projected")
    model = DeclaredModel(Directions.orthonormal(Inputs.isotropic(50), 1), Additive(H2, (0.7,)), student, Rule(0.1))
    start = Start((np.array([[overlap, np.sqrt(1 - overlap**2)]]),))
    odds = overlap**2 / (1 - overlap**2) * np.exp(4 * 0.7 * 0.5 * times)
    found = declared_flow(model, start, times[-1], times, rtol=1e-5, atol=1e-14).dataset.overlap.values[:, 0, 0, 0]
    np.testing.assert_allclose(found, np.sqrt(odds / (1 + odds)), rtol=1e-4)


def test_the_dimension_does_not_enter_but_by_the_start() -> None:
    """One start in 20 and in a million dimensions; SAM and momentum keep the vectors in its span."""
    for rule in (SAM(0.1, radius=0.3), Momentum(0.1, beta=0.5)):
        ends = []
        for dim in (20, 10**6):
            directions = Directions.orthonormal(Inputs.isotropic(dim), 2)
            model = DeclaredModel(directions, Additive(ERF, (1.0, 0.6)), committee(ERF, 2), rule)
            start = Start((np.array([[0.1, 0.2, 0.5, 0.0], [0.3, -0.1, 0.2, 0.4]]),))
            ends.append(population_descent(model, start, steps=5, saves=1).gram.values[-1])
        np.testing.assert_array_equal(*ends)
    with pytest.raises(InputError, match="coordinates"):
        population_descent(replace(model, rule=Adam(0.1)), start, steps=2)


@pytest.mark.parametrize("kind", ["heavy", "average", "nesterov"])
def test_momentum_written_out_where_the_gradient_is_linear(kind: str) -> None:
    """A row of h₁ alone has the loss ½|v − ae|², and so the gradient v − ae."""
    H1, eta, beta, steps = Activation.parse("h1"), 0.2, 0.6, 6
    row, aim, u = np.array([0.3, -0.8]), np.array([0.9, 0.0]), np.zeros(2)
    directions = Directions.orthonormal(Inputs.isotropic(12), 1)
    model = DeclaredModel(directions, Additive(H1, (0.9,)), committee(H1, 1, 1.0), Momentum(eta, beta=beta, kind=kind))
    found = population_descent(model, Start((row[None],)), steps=steps, saves=steps)
    for now in range(1, steps + 1):
        gradient = row - aim
        u = beta * u - (1 - beta if kind == "average" else 1) * gradient
        row = row + eta * (beta * u - gradient if kind == "nesterov" else u)
        at = found.isel(time=now)
        assert float(at.overlap.squeeze()) == pytest.approx(row[0], rel=1e-12)
        assert float(at.gram.squeeze()) == pytest.approx(row @ row, rel=1e-12)


def test_the_lone_row_of_a_polar_step() -> None:
    derivation = polar_emergence.derivation()
    assert derivation.verify() == 2
    for step in derivation.steps:
        broken = replace(step, equation=equation(step.equation.lhs, step.claim + polar_emergence.x / 9))
        with pytest.raises(DerivationError):
            broken.verify()
    light = [polar_emergence.half_time(Activation.from_degree(J), 0.7, 1e-6, 0.01, light=True) for J in (3, 4, 6)]
    assert light == pytest.approx([0.00899, 0.00860, 0.00828], abs=1e-5)
    assert polar_emergence.half_time(Activation.from_degree(4), 0.7, 1e-5, 0.1) == pytest.approx(0.1, rel=1e-3)
    assert polar_emergence.half_time(Activation.from_degree(4), 0.7, 0.5**0.5 - 1e-9, 0.1) == pytest.approx(0, abs=1e-8)
    with pytest.raises(InputError):
        polar_emergence.half_time(Activation.from_degree(4), 0.7, 0.8, 0.1)
