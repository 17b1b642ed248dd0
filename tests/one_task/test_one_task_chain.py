"""The law of real steps: against the diffusion where steps are small, and against SGD where they are not."""

import numpy as np
import pytest

from dynamics import online_sgd
from dynamics.one_task.chain import ChainLaw, one_task_chain, step_generator
from dynamics.one_task.one_step_drift import one_step_drift
from theory import Activation, InputError, Teacher
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution
from validation.experiments.states import single_overlap_state

H2, H3, H4 = (Activation.parse(name) for name in ("h2", "h3", "h4"))


def test_moments_of_a_law_that_is_known() -> None:
    """An exponential of mean 1 up to H = 60, and the scatter of its samples' standard deviation."""
    times = np.linspace(0, 60, 20_001)
    law = ChainLaw(times, np.exp(-times))
    assert law.cdf(np.array([0.0, 1.0, 61.0])) == pytest.approx([0.0, 1 - np.exp(-1), np.nan], rel=1e-5, nan_ok=True)
    assert [law.moment(k) for k in (1, 2, 3, 4)] == pytest.approx([1, 2, 6, 24], rel=1e-5)
    assert (law.mean, law.std) == pytest.approx((1, 1), rel=1e-5)
    assert law.std_error(50) == pytest.approx(np.sqrt((9 - 1) / (4 * 50)), rel=1e-4)  # the fourth central moment is 9


def test_moments_of_a_time_of_whole_steps() -> None:
    """Steps of 0.1 that succeed one time in a hundred; what is 1/12 of a step's square is that of a time between two."""
    steps = np.arange(0, 6001, 2)
    law = ChainLaw(0.1 * steps, 0.99**steps, 0.1)
    assert law.mean == pytest.approx(0.1 / 0.01, rel=1e-4)  # within the two steps of a cell all is as likely
    assert law.std == pytest.approx(0.1 * np.sqrt(0.99) / 0.01, rel=1e-4)


def test_small_steps_are_the_diffusion() -> None:
    """With the grid's error, of second order in the cell, taken out."""
    dim, step_size, start = 1000, 0.1 / 1000**1.5, float(np.sqrt(8 / 1000))
    coarse, fine = (
        one_task_chain(H3, Teacher.of([1.0], dim), 0, start, step_size, time=10.0, cells=n, order=48)
        for n in (150, 300)
    )
    diffusion = hitting_distribution(OneTaskDiffusion(H3, 1.0, step_size, 1.0, dim), start)
    mean, std = diffusion.cut_moments(10.0)
    assert fine.mean + (fine.mean - coarse.mean) / 3 == pytest.approx(mean, rel=1e-3)
    assert fine.std + (fine.std - coarse.std) / 3 == pytest.approx(std, rel=1e-2)


def test_a_step_of_the_chain_has_the_mean_of_a_real_step() -> None:
    teacher, step_size = Teacher.of([0.8, 0.6], 40), 1e-3
    grid = np.linspace(-0.7, 0.7, 41)
    generator = step_generator(H3, teacher, 0, step_size, grid, 24)
    gone = -generator.sum(axis=1)
    assert gone[20] == pytest.approx(0, abs=1e-6)  # far from the ends
    assert gone[40] == gone.max() == pytest.approx(0.5, abs=0.1)  # at the level half of the kicks lead beyond
    mean = generator @ grid / step_size
    for i in (22, 25):  # far from the ends, which cut jumps short
        assert mean[i] == pytest.approx(one_step_drift(H3, teacher, 0, grid[i], step_size, order=24), rel=1e-3)


def test_a_few_large_steps_have_the_law_of_vectors() -> None:
    """h2 at d = 30 from u = ½ at η = 0.01, some 57 steps: step after step, f* h₂'s gradient on what matters of v and x.

    e^{n(P−1)} in the place of Pⁿ would make the spread 5 % too large, ten standard errors.
    """
    dim, start, eta, steps, replicas = 30, 0.5, 0.01, 200, 40_000
    law = one_task_chain(H2, Teacher.of([1.0], dim), 0, start, eta, time=steps * eta, cells=120, order=48)
    rng = np.random.default_rng(0)
    u, hit = np.full(replicas, start), np.full(replicas, np.inf)
    for step in range(1, steps + 1):
        x, y = rng.standard_normal((2, replicas))
        across = np.sqrt(1 - u**2)
        h, push = u * x + across * y, eta * (x**2 - 1)  # √2 η f*
        on, beside = (1 - push) * u + push * h * x, (1 - push) * across + push * h * y
        u = on / np.sqrt(on**2 + beside**2 + (push * h) ** 2 * rng.chisquare(dim - 2, replicas))
        hit = np.where(u**2 >= 0.5, np.minimum(hit, step), hit)
    times = eta * np.minimum(hit, steps)
    assert abs(times.mean() - law.mean) < 4 * law.std / np.sqrt(replicas)
    assert abs(times.std() - law.std) < 4 * law.std_error(replicas)
    early = np.mean(hit <= 10)
    assert abs(early - law.cdf(np.array([10 * eta]))[0]) < 4 * np.sqrt(early / replicas)


def test_the_grid_hardly_matters_where_kicks_are_large() -> None:
    """They end beyond the level or before it, not on the way: of second order in the cell."""
    laws = [one_task_chain(H2, Teacher.of([1.0], 30), 0, 0.5, 0.05, time=8.0, cells=n, order=48) for n in (50, 200)]
    assert laws[0].mean == pytest.approx(laws[1].mean, rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "dim", "scaled"), [(H4, 32, 0.5), (H3, 40, 1.0)])
def test_large_steps_have_the_law_of_sgd(activation: Activation, dim: int, scaled: float) -> None:
    """Where the diffusion of second order is a tenth or more off in the mean."""
    step_size, start, replicas = scaled / dim ** (activation.information_exponent / 2), float(np.sqrt(8 / dim)), 2000
    steps = 1600
    law = one_task_chain(activation, Teacher.of([1.0], dim), 0, start, step_size, time=steps * step_size)
    runs = online_sgd(
        activation, Teacher.of([1.0], dim), single_overlap_state(start, 1e-3), step_size=step_size, steps=steps,
        replicas=replicas, saves=1, block_steps=4, seed=1,
    )  # fmt: skip
    times = np.minimum(runs.half_steps[:, 0], steps) * step_size
    late = 4 * step_size  # recovery is looked at once in four steps
    assert abs(times.mean() - law.mean) < 4 * law.std / np.sqrt(replicas) + late
    assert abs(times.std() - law.std) < 4 * law.std_error(replicas) + late
    wrong, _ = hitting_distribution(OneTaskDiffusion(activation, 1.0, step_size, 1.0, dim), start).cut_moments(
        steps * step_size
    )
    assert abs(times.mean() - wrong) > 6 * law.std / np.sqrt(replicas)


def test_the_grid_hardly_matters() -> None:
    laws = [one_task_chain(H4, Teacher.of([1.0], 64), 0, 0.3, 1e-4, time=2.0, cells=n, order=48) for n in (60, 120)]
    assert laws[0].mean == pytest.approx(laws[1].mean, rel=2e-3)
    assert np.all(np.diff(laws[1].cdf(np.linspace(0, 2, 30))) >= 0)
    assert np.isnan(laws[0].cdf(np.array([2.1]))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overlap": 0.8}, "level is 0.5"),
        ({"time": 0.0}, "time is 0.0"),
        ({"cells": 1}, "cells is 1: give a whole number, 2 or more"),
        ({"teacher": Teacher.of([1.0, 1.0, 1.0], 9)}, "teacher width is 3"),
    ],
)
def test_bad_input_is_one_line(change: dict, message: str) -> None:
    asked = {"teacher": Teacher.of([1.0], 20), "direction": 0, "overlap": 0.3, "step_size": 1e-3, "time": 1.0} | change
    with pytest.raises(InputError, match=message) as refused:
        one_task_chain(H4, **asked)
    assert "\n" not in str(refused.value)
