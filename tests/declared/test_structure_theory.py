"""Emergence under a covariance, and weight decay: derivations that notice a change, limits that are known otherwise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import Activation, InputError, SingleTask
from theory.core.derivation import Derivation, DerivationError, equation
from theory.declared import anisotropic_emergence as emergence
from theory.declared import population_sam as sam
from theory.declared import weight_decay as decay
from theory.declared.inputs import Inputs
from theory.one_task.lone_path import lone_path

H4 = Activation.parse("h4")


@pytest.mark.parametrize("derive", [emergence.derivation, decay.derivation, sam.derivation], ids=lambda x: x.__module__)
def test_every_step_holds_and_notices_a_changed_term(derive: Callable[[], Derivation]) -> None:
    derivation = derive()
    assert derivation.verify() == len(derivation.steps)
    for step in derivation.steps:
        for term in step.claim.as_ordered_terms():
            broken = replace(step, equation=equation(step.equation.lhs, step.claim + term / 7))
            with pytest.raises(DerivationError):
                broken.verify()


@pytest.mark.parametrize("name", ["h3", "h4", "0.8*h4+0.6*h6"])
def test_isotropic_inputs_are_the_known_single_task(name: str) -> None:
    activation, overlap = Activation.parse(name), 0.05
    task = SingleTask(activation)
    found = emergence.emergence_time(activation, 0.7, 1.0, 1 / overlap**2)
    assert found == pytest.approx(task.leading_time(0.7, overlap), rel=1e-12)
    assert emergence.half_time(activation, 0.7, 1.0, overlap, 1.0) == pytest.approx(task.half_time(0.7, overlap))
    assert emergence.rates()[1].subs({emergence.lam: 1, emergence.mu: 1}).has(emergence.phi)


def test_a_negative_cosine_of_an_even_activation_is_a_positive_one_and_of_an_odd_one_grows_never() -> None:
    for name, same in (("h4", True), ("h3", False)):
        activation = Activation.parse(name)
        found, mirrored = (emergence.half_time(activation, 1.0, 1.0, x, 0.5) for x in (0.1, -0.1))
        assert np.isfinite(found)
        assert mirrored == (pytest.approx(found) if same else np.inf)


def test_the_time_falls_with_the_mean_of_the_rest() -> None:
    times = [emergence.half_time(H4, 1.0, 0.5, 0.07, rest) for rest in (0.0, 0.5, 1.0, 3.0)]
    assert np.all(np.diff(times) < 0)


@pytest.mark.parametrize("name", ["h3", "h4", "0.8*h4+0.6*h6", "2*h4"])
def test_without_decay_the_loss_falls_as_on_the_known_path(name: str) -> None:
    activation = Activation.parse(name)
    path = lone_path(activation, 1)
    half, norm2 = float(path.half_time(np.array(0.1))) / 0.6, 1e-12
    known = path.loss_time(0.6, 0.1, norm2)
    assert decay.loss_time(activation, 0.6, half, norm2, 0.0) == pytest.approx(known, rel=1e-3)
    without_lag = decay.loss_time_law().subs({decay.kappa: 0, decay.switch: half, decay.r0: norm2, decay.a: 0.6})
    assert float(without_lag.subs(decay.one, activation.second_moment)) != pytest.approx(known, rel=3e-3)


def test_floor_of_many_directions_follows_its_power_law() -> None:
    weights = np.arange(1, 200_001) ** -1.5
    found = [decay.floor(H4, weights, x) for x in (1e-3, 2e-3)]
    law = decay.floor_law().subs({decay.one: 1, decay.beta: 1.5})
    assert found == pytest.approx([float(law.subs(decay.kappa, x)) for x in (1e-3, 2e-3)], rel=0.01)
    assert float(decay.floor_exponent().subs(decay.beta, sp.Rational(3, 2))) == pytest.approx(4 / 3)
    assert np.isinf(decay.loss_time(H4, 0.2, 10.0, 1e-4, 0.5))


def test_numbers_out_of_range_are_refused() -> None:
    for call in (
        lambda: emergence.emergence_time(Activation.parse("h2"), 1.0, 1.0, 10.0),
        lambda: emergence.emergence_time(H4, [1.0, -1.0], 1.0, 10.0),
        lambda: emergence.half_time(H4, 1.0, 1.0, 0.8, 1.0),
        lambda: emergence.effective_dimension(Inputs.isotropic(9), [1.0, 0.0]),
        lambda: decay.rest_norms(H4, [1.0], -0.1),
        lambda: decay.loss_time(H4, 1.0, -3.0, 1e-3, 0.1),
        lambda: decay.growth_lag(Activation.parse("h2")),
    ):
        with pytest.raises(InputError):
            call()
