"""Labels that flip: the flow sees (1 − 2p) of the target, SGD follows it, and predictions know; the usual step size."""

from dataclasses import replace

import numpy as np
import pytest

from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from emergence.models.declared import MODEL
from emergence.models.declared_problem import DeclaredProblem, resolve
from theory import Activation, InputError
from theory.declared.directions import Directions
from theory.declared.emergence import BOUND, FITTED, FLOOR, FOUND
from theory.declared.inputs import Inputs
from theory.declared.lone_row import growth_rates
from theory.declared.model import DeclaredModel
from theory.declared.predict import largest_step, predict
from theory.declared.rule import Momentum, Rule
from theory.declared.start import draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive, Polynomial

H2, H4 = Activation.parse("h2"), Activation.parse("h4")
DIRECTIONS = Directions.orthonormal(Inputs.isotropic(12), 2)
FLIPS = Rule(2e-3, 16, noise=0.2, noise_law="flips")


@pytest.mark.parametrize(
    ("target", "period"),
    [pytest.param(Additive(H2, (1.0, 0.6)), 0, marks=pytest.mark.slow), (Polynomial.parse("h2(z1) + z1*z2"), 3)],
    ids=["additive", "polynomial, half of the time"],
)
def test_sgd_on_labels_that_flip_follows_the_flow_of_their_mean(target: Additive | Polynomial, period: int) -> None:
    model = DeclaredModel(DIRECTIONS, target, committee(H2, 2, 0.5, rows="sphere"), replace(FLIPS, noise_period=period))
    start = draw_start(DIRECTIONS, 2, 1.0, seed=3)
    run = declared_sgd(model, start, steps=150, replicas=400, seed=1, saves=1, loss=True).dataset.isel(time=-1)
    moved = run.overlap.values[:, 0] - start.overlaps(DIRECTIONS)[0]
    mean, error = moved.mean(axis=0), moved.std(axis=0) / np.sqrt(len(moved))
    ends = {}
    for name, one in {"flips": model, "none": replace(model, rule=Rule(2e-3))}.items():
        flow = declared_flow(one, start, 0.3, np.array([0.3])).dataset.isel(time=-1)
        ends[name] = flow.overlap.values[0] - start.overlaps(DIRECTIONS)[0], float(flow.loss)
    # (Of second order in the step size: a share of some per cent of how far it has come.)
    slack = 4 * error + 0.03 * np.abs(ends["flips"][0])
    assert np.all(np.abs(mean - ends["flips"][0]) <= slack)
    assert np.any(np.abs(mean - ends["none"][0]) > 2 * slack)
    assert float(run.loss.mean()) == pytest.approx(ends["flips"][1], rel=0.05)


def test_of_a_fitted_direction_a_share_of_the_loss_is_left() -> None:
    rule = Rule(1e-3, noise=0.25, noise_law="flips")
    directions = Directions.orthonormal(Inputs.isotropic(60), 2)
    model = DeclaredModel(directions, Additive(H4, (1.0, 0.7)), two_homogeneous(H4, 4), rule)
    start = draw_start(directions, 4, 0.05, seed=5)
    found = predict(model, start)
    weaker = replace(model, target=Additive(H4, (0.5, 0.35)), rule=Rule(1e-3))
    plain = predict(weaker, start)
    times = [[one.value for one in x.of_quantity(FOUND)] for x in (found, plain)]
    np.testing.assert_allclose(times[0], times[1])
    np.testing.assert_allclose(growth_rates(model, start), growth_rates(weaker, start))
    flow = declared_flow(model, start, 3 * max(one.value for one in found.of_quantity(FITTED))).dataset
    # Half of each weight is fitted, half is left: ½Σ(a/2)².
    (floor,) = found.of_quantity(FLOOR)
    assert floor.value == pytest.approx(0.125 * (1 + 0.49), rel=1e-9)
    assert float(flow.loss[-1]) == pytest.approx(floor.value, rel=1e-3)
    (bound,) = found.of_quantity(BOUND)
    assert "noise" in " ".join(bound.reasons)


def test_labels_that_say_nothing_are_not_predicted() -> None:
    model = DeclaredModel(DIRECTIONS, Additive(H4, (1.0, 0.6)), two_homogeneous(H4, 2), replace(FLIPS, noise=0.5))
    start = draw_start(DIRECTIONS, 2, 0.1, seed=3)
    sentence = next(x.sentence for x in predict(model, start).unknown if x.quantity == FOUND)
    assert "mean is 0" in sentence
    still = declared_flow(model, start, 1.0, np.array([1.0])).dataset.overlap.values[0, 0]
    # Without a signal each row shrinks and the rows repel each other, whatever the target is.
    other = replace(model, target=Additive(H4, (0.1, 2.0)))
    np.testing.assert_allclose(still, declared_flow(other, start, 1.0, np.array([1.0])).dataset.overlap.values[0, 0])


@pytest.mark.parametrize(("noise", "period", "signal"), [(0.3, 0, 0.4), (0.3, 5, 0.7), (1.0, 0, -1.0)])
def test_the_signal_is_what_the_labels_mean(noise: float, period: int, signal: float) -> None:
    rule = Rule(0.1, noise=noise, noise_law="flips", noise_period=period)
    assert rule.signal == pytest.approx(signal)
    assert replace(rule, noise_law="signs").signal == 1


@pytest.mark.parametrize("rule", ["sgd", "momentum(0.9)"])
def test_the_usual_step_size_is_one_that_theory_allows(rule: str) -> None:
    resolved = resolve(DeclaredProblem(rule=rule))
    (bound,) = predict(resolved.model, resolved.start).of_quantity(BOUND)
    assert bound.value == pytest.approx(largest_step(resolved.model, resolved.start))
    size = resolved.model.rule.step_size
    assert not callable(size)
    assert size <= 0.26 * bound.value
    assert bound.value < 0.02 / 128 if rule == "sgd" else isinstance(resolved.model.rule, Momentum)


def test_a_given_step_size_and_one_without_a_bound_stay() -> None:
    assert resolve(DeclaredProblem(step_size="0.001")).model.rule.step_size == 0.001
    assert resolve(DeclaredProblem(activation="h2")).model.rule.step_size == pytest.approx(0.02 / 128)
    assert resolve(DeclaredProblem(rule="adam")).model.rule.step_size == pytest.approx(0.02 / 128)


def test_the_flow_refuses_noise_that_it_does_not_know() -> None:
    flow = next(x for x in MODEL.simulations if x.name == "declared-flow")
    flow.requires(resolve(DeclaredProblem(noise=0.1, noise_law="flips")))
    with pytest.raises(InputError, match="does not move the flow"):
        flow.requires(resolve(DeclaredProblem(noise=0.1)))
