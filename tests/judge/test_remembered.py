"""Simulations shared over theories: equal arguments simulate once, whatever could differ simulates again."""

from dataclasses import dataclass
from functools import cached_property, wraps

import numpy as np
import pytest

from theory import Activation, overlap_flow
from theory.linear.alignment import late_rates
from validation.broken import judged
from validation.claims.linear import oscillation_and_alignment as module
from validation.judge.breaks import BREAKS, Broken
from validation.judge.remembered import remembered, simulators_remembered


@pytest.fixture
def calls():
    return []


@pytest.fixture
def simulate(calls):
    def run(*args, **kwargs):
        calls.append((args, kwargs))
        return len(calls)

    return remembered(run)


def test_equal_arguments_run_once_and_others_again(simulate, calls):
    values = [np.arange(3.0), np.arange(3.0) + 1e-15, Activation.parse("h4"), overlap_flow(Activation.parse("h4"))]
    values += [overlap_flow(Activation.parse("h3")), 1, 1.0, "1"]
    found = [simulate(one, seed=seed) for one in values for seed in (0, 1)]
    assert found == list(range(1, 2 * len(values) + 1))
    again = [simulate(one, progress=print, seed=seed) for one in values for seed in (0, 1)]
    assert again == found


def test_what_an_object_has_computed_does_not_matter_and_its_break_does(simulate):
    activation = Activation.parse("tanh(z)")
    before = simulate(activation)
    assert activation.information_exponent == 1
    assert simulate(activation) == before
    system = overlap_flow(Activation.parse("h4"))
    wrong = Broken(BREAKS[0]).entry(lambda: system)()
    assert simulate(wrong) != simulate(system)


@dataclass(frozen=True)
class Box:
    size: float

    @cached_property
    def volume(self):
        return self.size**3


def test_functions_are_told_apart_by_what_they_enclose(simulate):
    def power(n):
        return lambda x: x**n

    def asks_theory():
        def inner(x):
            return late_rates(x)

        inner.__module__ = "validation.claims.own"
        return inner

    def scaled(factor):
        def inner(x, *, factor=factor):
            return factor * x

        return inner

    def unfinished():
        def inner():
            return later

        before = simulate(inner)
        assert simulate(inner) != before  # what it encloses is not there yet
        later = 1

    unfinished()
    assert simulate(scaled(2)) == simulate(scaled(2)) != simulate(scaled(3))
    assert simulate(power(2)) == simulate(power(2)) != simulate(power(3))
    own = asks_theory()
    assert simulate(own) != simulate(own)
    box = Box(2.0)
    before = simulate(box)
    assert box.volume == 8
    assert simulate(box) == before != simulate(Box(3.0))


def test_a_generator_is_advanced_each_time(simulate):
    rng = np.random.default_rng(0)
    assert simulate(rng) != simulate(rng)


def test_a_class_that_stands_for_another_is_not_taken_for_it(simulate):
    stand_in = Broken(BREAKS[0]).entry(Box)
    assert simulate(stand_in(2.0)) != simulate(stand_in(2.0))


def test_breaks_are_judged_alike_and_simulate_once(monkeypatch):
    plain = judged(late_rates, BREAKS[0], "L21")
    descent, ran = module.linear_descent, []

    @wraps(descent)
    def counted(*args, **kwargs):
        ran.append(args)
        return descent(*args, **kwargs)

    monkeypatch.setattr(module, "linear_descent", counted)
    with simulators_remembered():
        assert [judged(late_rates, how, "L21") for how in BREAKS[:1] * 2] == [plain] * 2
        once = len(ran)
        judged(late_rates, BREAKS[1], "L21")
    assert len(ran) == once
    assert module.linear_descent is counted
