"""The linear model's exact recursion and the modified equation: derivations, and what they are compared with."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from dynamics.declared.modified_flow import Fields, modified_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation, InputError
from theory.core.derivation import Derivation, DerivationError, equation
from theory.declared import linear_model as exact
from theory.declared import modified_equation as modified
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Clipped, Momentum, Rule
from theory.declared.schedule import Linear, Power
from theory.declared.start import draw_start
from theory.declared.student import committee
from theory.declared.target import Additive

LINE = Activation.parse("z")


@pytest.mark.parametrize("derivation", [exact.derivation(), modified.derivation()], ids=lambda x: x.name)
def test_every_step_holds_and_notices_a_dropped_term(derivation: Derivation) -> None:
    assert derivation.verify() == len(derivation.steps) >= 4
    for step in derivation.steps:
        for term in step.claim.as_ordered_terms():
            broken = replace(step, equation=equation(step.equation.lhs, step.claim - term))
            with pytest.raises(DerivationError):
                broken.verify()


def declared(rule: Rule) -> DeclaredModel:
    directions = Directions.random(Inputs.blocks((1.5, 3), (0.5, 8)), 1, 1.0)
    return DeclaredModel(directions, Additive(LINE, (0.8,)), committee(LINE, 1), rule)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Linear(0.2, 0.05, 12), batch=2, noise=0.5),
        pytest.param(Momentum(0.1, beta=0.6, kind="nesterov", noise=0.5), marks=pytest.mark.slow),
    ],
    ids=["schedule", "nesterov"],
)
def test_the_recursion_is_the_mean_of_the_exact_simulator(rule: Rule) -> None:
    model = declared(rule)
    start = draw_start(model.directions, 1)
    found = exact.linear_model(model, start)
    data = declared_sgd(model, start, steps=12, replicas=20_000, saves=1).dataset.isel(time=-1)
    target = 0.8 * np.sqrt(model.directions.grams[:, 0, 0])
    errors = data["gram"].values[:, :, 0, 0] - 1.6 * data["overlap"].values[:, :, 0, 0] + target**2
    gap = errors.mean(0) - found.path(rule, 12)[-1]
    assert np.abs(gap / (errors.std(0) / np.sqrt(len(errors)))).max() < 4.5
    wrong = replace(found, multiplicities=np.ones(2)).path(rule, 12)[-1]
    assert np.abs((errors.mean(0) - wrong) / (errors.std(0) / np.sqrt(len(errors)))).max() > 10


@pytest.mark.parametrize(("kind", "first"), [("heavy", 1.0), ("average", 0.3), ("nesterov", 1.7)])
def test_memory_is_that_of_the_weights_of_past_gradients(kind: str, first: float) -> None:
    past = np.arange(400)
    later = {"heavy": 0.7**past, "average": 0.3 * 0.7**past, "nesterov": 0.7 ** (past + 1)}[kind]
    weights = np.concatenate([[first], later[1:]])
    found = modified.memory(Momentum(1.0, beta=0.7, kind=kind))
    assert found.total == pytest.approx(weights.sum())
    assert found.lag == pytest.approx(past @ weights / weights.sum())
    assert modified.memory(Rule(1.0)) == modified.Memory(1.0, 0.0, 1.0)


#: Of linear fields, which do not commute: F, the gradient's covariance, the product of its means.
DRIFT = np.array([[-1.0, 0.5], [-0.3, -0.4]])
COVARIANCE, MEAN = np.array([[0.2, 1.0], [0.4, -0.3]]), np.array([[0.5, -0.2], [0.1, 0.7]])
LINEAR = Fields(*(lambda y, matrix=matrix: matrix @ y for matrix in (DRIFT, COVARIANCE, MEAN)))
#: Of fields that do.
RATES = np.array([-1.0, -0.4]), np.array([0.2, 1.0]), np.array([0.5, -0.2])
DIAGONAL = Fields(*(lambda y, rate=rate: rate * y for rate in RATES))


@pytest.mark.parametrize(
    ("rule", "h", "lag"),
    [(Rule(0.2), 0.2, 0.0), (Momentum(0.1, beta=0.6, kind="heavy"), 0.25, 1.5)],  # lag β/(1 − β)
    ids=["plain", "momentum"],
)
def test_the_path_of_linear_fields_is_a_matrix_exponential(rule: Rule, h: float, lag: float) -> None:
    """Of A + h{B + (1 + 2ℓ)(C − ½A²)}, from (1 − ℓhA)y₀."""
    start, times = np.array([0.8, -0.5]), np.array([0.3, 1.0, 2.0])
    whole = DRIFT + h * (COVARIANCE + (1 + 2 * lag) * (MEAN - DRIFT @ DRIFT / 2))
    begin = start - lag * h * DRIFT @ start
    expected = [linalg.expm(whole * t) @ begin for t in times]
    np.testing.assert_allclose(modified_flow(LINEAR, start, times, rule), expected, rtol=1e-8)


def test_the_path_under_a_schedule_in_both_clocks() -> None:
    r"""Sizes $\eta_n=\frac15-\frac{3n}{200}$: the clock is $\int\eta\,dn$, in which commuting fields have
    $\ln y/y_0=at+(b+c-\frac12a^2)\int\eta^2dn$, less $\frac12a(\eta-\eta_0)$ in the integral clock.
    """
    number, start = np.array([2.0, 5.0, 8.0]), np.array([0.8, -0.5])
    size = 0.2 - 0.015 * number
    times = 0.2 * number - 0.0075 * number**2
    squares = (0.2**3 - size**3) / (3 * 0.015)
    drift, covariance, mean = (rate[:, None] for rate in RATES)
    exponent = drift * times + (covariance + mean - drift**2 / 2) * squares
    for clock, more in (("sum", 0.0), ("integral", -drift / 2 * (size - 0.2))):
        found = modified_flow(DIAGONAL, start, times, Rule(Linear(0.2, 0.05, 10)), rate=modified.rate(clock))
        np.testing.assert_allclose(found.T, start[:, None] * np.exp(exponent + more), rtol=1e-8)


def test_a_rate_of_other_terms_is_refused() -> None:
    for rate in (modified.F * modified.F_cov, modified.F * modified.h**2):
        with pytest.raises(ValueError, match=r"linear|not in"):
            modified_flow(LINEAR, np.ones(2), np.ones(1), Rule(0.1), rate=rate)


def test_what_is_not_covered_is_refused() -> None:
    start = draw_start(declared(Rule(0.1)).directions, 1)
    with pytest.raises(InputError, match="moments close for plain SGD"):
        exact.linear_model(declared(Clipped(0.1)), start).path(Clipped(0.1), 3)
    with pytest.raises(InputError, match="activation and link z"):
        exact.linear_model(replace(declared(Rule(0.1)), target=Additive(Activation.parse("h3"), (1.0,))), start)
    with pytest.raises(InputError, match="ends after 5"):
        exact.linear_model(declared(Rule(0.1)), start).path(Rule(Linear(0.1, 0.0, 5)), 6)
    fields = Fields(jnp.negative, jnp.zeros_like, jnp.zeros_like)
    with pytest.raises(InputError, match="one of both"):
        modified_flow(fields, np.ones(1), np.ones(1), Momentum(Power(0.1, 0.5)))
    with pytest.raises(InputError, match="clock"):
        modified.rate("flow")
