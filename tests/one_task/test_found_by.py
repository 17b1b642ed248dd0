"""Chances of all starts at once, beside images of a Brownian path and the law of a single start."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr

from theory import Activation
from theory.one_task.diffusion import Diffusion, OneTaskDiffusion
from theory.one_task.found_by import found_by
from theory.one_task.hitting_distribution import hitting_distribution
from theory.one_task.single_task import SingleTask
from theory.one_task.whole_step import LightStep


@dataclass(frozen=True)
class _Brownian(Diffusion):
    activation: Activation
    weight: float = 1.0
    step_size: float = 1.0

    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros_like(overlap), np.ones_like(overlap)


@pytest.mark.parametrize("name", ["h3", "h4"])
def test_a_brownian_path_leaves_an_interval_as_its_images_say(name: str) -> None:
    """From u it is within ±1 at t with probability Σ(−1)ⁿ of those of the images; reflected at 0 or not."""
    starts, times = np.array([-0.6, 0.05, 0.3]), np.geomspace(0.004, 3.0, 200)
    u, t, n = starts[:, None, None], np.sqrt(times)[:, None], np.arange(-12, 13)
    within = ndtr((1 - (-1.0) ** n * u - 2 * n) / t) - ndtr((-1 - (-1.0) ** n * u - 2 * n) / t)
    exact = 1 - np.sum((-1.0) ** n * within, axis=-1)
    found = found_by(_Brownian(Activation.parse(name)), starts, times, 1.0)
    assert np.abs(found - exact).max() < 2e-3
    assert np.abs(found - exact[::-1]).max() > 0.1


@pytest.mark.parametrize(("name", "step_size"), [("h3", 2e-4), ("h4", 1e-5), ("0.8*h3+0.6*h4", 4e-5)])
def test_it_is_the_law_of_a_single_start(name: str, step_size: float) -> None:
    diffusion = OneTaskDiffusion(Activation.parse(name), 0.8, step_size, 1.0, 64)
    starts = np.array([0.25, 0.1, -0.1])
    times = np.geomspace(0.05, 40.0, 260)
    found = found_by(diffusion, starts, times, np.sqrt(0.5))
    for start, own in zip(starts, found, strict=True):
        exact = hitting_distribution(diffusion, float(start), cells=500).cdf(times[::20])
        assert np.abs(own[::20] - exact).max() < 5e-3
    assert np.all(np.diff(found, axis=1) >= -1e-9)


@pytest.mark.parametrize(("name", "step_size"), [("h3", 5e-7), ("h4", 3e-8)])
def test_where_noise_is_small_cells_do_not_widen_the_spread(name: str, step_size: float) -> None:
    """By themselves they spread times by a tenth, at any step size."""
    diffusion = OneTaskDiffusion(Activation.parse(name), 0.8, step_size, 1.0, 5000)
    exact = hitting_distribution(diffusion, 0.1).moments()
    times = exact.mean * np.geomspace(0.01, 2, 800)
    (found,) = found_by(diffusion, np.array([0.1]), times, np.sqrt(0.5))
    share, at = np.diff(found), 0.5 * (times[1:] + times[:-1])
    mean = float(share @ at)
    assert exact.std < 0.05 * exact.mean
    assert mean == pytest.approx(exact.mean, rel=0.01)
    assert np.sqrt(share @ (at - mean) ** 2) == pytest.approx(exact.std, rel=0.06)


def test_what_is_beyond_the_level_is_found() -> None:
    found = found_by(_Brownian(Activation.parse("h3")), np.array([-1.2, 1.0]), np.array([0.1]), 1.0)
    assert found.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("degree", [20, 30, 40])
def test_where_noise_holds_runs_for_ever_none_is_there(degree: int) -> None:
    """Noise of any feasible size outweighs a slope of u to the (J − 1)-th power: the mean is beyond all numbers, so of runs
    that take no longer than the flow's time none has ended, however many times they turn back meanwhile.
    """
    activation = Activation.parse(f"h{degree}")
    flow = SingleTask(activation).half_time(0.8, 0.04)
    diffusion = LightStep(activation, 0.8, 10.0 ** (-2 * degree), 1.0, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = found_by(diffusion, np.array([0.04, 0.01]), flow * np.geomspace(0.01, 1, 160), np.sqrt(0.5))
    assert np.isinf(hitting_distribution(diffusion, 0.04).moments().mean)
    assert found.max() < 1e-3
