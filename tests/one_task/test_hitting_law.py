"""Law of the emergence time under SGD noise: against simulated paths, and in the limits that have formulas."""

import numpy as np
import pytest
from scipy import integrate

from theory import Activation, HittingLaw, SingleTask, hitting_law, plateau

SLOPES = {"h3": lambda x: 3 * x**2, "h4": lambda x: 4 * x**3}


def simulated(
    text: str, start: float, step_size: float, dim: int, until: float, paths: int = 4000, steps: int = 6000
) -> np.ndarray:
    """Euler–Maruyama hitting times of u² = ½ for du = {aφ'(u)(1−u²) − ηK}dt + √(ηN)dW, a = 1; inf if later."""
    shrinkage, variance = plateau(Activation.parse(text)).laws(1.0, 1.0, dim)
    rng, dt = np.random.default_rng(2), until / steps
    # A path seen at discrete times crosses late; the shifted level corrects this (Broadie, Glasserman, Kou 1997).
    level = np.sqrt(0.5) - 0.5826 * np.sqrt(step_size * variance(np.sqrt(0.5)) * dt)
    u, hit = np.full(paths, start), np.full(paths, np.inf)
    for i in range(1, steps + 1):
        drift = SLOPES[text](u) * (1 - u**2) - step_size * shrinkage(u)
        u = u + drift * dt + np.sqrt(step_size * variance(u) * dt) * rng.standard_normal(paths)
        if text == "h4":
            u = np.abs(u)
        crossed = (u >= level) & ~np.isfinite(hit)
        hit[crossed] = i * dt
        u[np.isfinite(hit)] = level
        if np.isfinite(hit).all():
            break
    return hit


@pytest.mark.slow_for("h4-0.3-64-0.02")
@pytest.mark.parametrize(
    ("text", "start", "dim", "fraction"), [("h4", 0.3, 64, 0.02), ("h4", 0.3, 64, 0.2), ("h3", 0.3, 64, 0.03)]
)
def test_law_of_simulated_paths(text: str, start: float, dim: int, fraction: float) -> None:
    """Mean and spread within 4 standard errors; no noise, or noise of half the variance, is rejected."""
    activation = Activation.parse(text)
    step_size = fraction * plateau(activation).critical_step(1.0, start, 1.0, dim)
    law = hitting_law(activation, 1.0, start, step_size, 1.0, dim)
    times = simulated(text, start, step_size, dim, law.mean + 15 * law.std)
    assert np.isfinite(times).all()
    error = times.std() / np.sqrt(times.size)
    allowance = (law.mean + 15 * law.std) / 6000  # one time step
    assert abs(times.mean() - law.mean) <= allowance + 4 * error
    fourth = np.mean((times - times.mean()) ** 4)
    spread_error = np.sqrt((fourth / times.var() ** 2 - 1) / times.size) * times.std() / 2
    assert abs(times.std() - law.std) <= allowance + 4 * spread_error
    for wrong in (0.0, law.std * np.sqrt(0.5)):
        assert abs(times.std() - wrong) > allowance + 4 * spread_error


def test_noise_delays_the_mean_by_more_than_the_error_bar() -> None:
    """The simulated mean rejects the deterministic time: the comparison above has power."""
    activation, start, dim = Activation.parse("h4"), 0.3, 64
    step_size = 0.2 * plateau(activation).critical_step(1.0, start, 1.0, dim)
    law = hitting_law(activation, 1.0, start, step_size, 1.0, dim)
    times = simulated("h4", start, step_size, dim, law.mean + 15 * law.std)
    assert np.isfinite(times).all()
    still = SingleTask(activation).half_time(1.0, start)
    assert abs(times.mean() - still) > 8 * times.std() / np.sqrt(times.size)


def small_noise_std(text: str, start: float, step_size: float, dim: int) -> float:
    """Leading order in η: Var T = η∫N(u)du/b³ along the deterministic path."""
    _, variance = plateau(Activation.parse(text)).laws(1.0, 1.0, dim)

    def integrand(logarithm: float) -> float:
        u = np.exp(logarithm)
        return variance(u) * u / (SLOPES[text](u) * (1 - u**2)) ** 3

    value, _ = integrate.quad(integrand, np.log(start), np.log(0.5) / 2)
    return float(np.sqrt(step_size * value))


@pytest.mark.parametrize("text", ["h3", "h4"])
@pytest.mark.parametrize("dim", [10**3, 10**5, 10**7, 10**9])
def test_without_noise_it_is_the_deterministic_time(text: str, dim: int) -> None:
    """η → 0: the mean is the exact half time and the spread the small-noise formula, in any dimension."""
    activation, start = Activation.parse(text), 2 / np.sqrt(dim)
    step_size = 1e-8 * plateau(activation).critical_step(1.0, start, 1.0, dim)
    law = hitting_law(activation, 1.0, start, step_size, 1.0, dim)
    assert law.mean == pytest.approx(SingleTask(activation).half_time(1.0, start), rel=1e-3)
    assert law.std == pytest.approx(small_noise_std(text, start, step_size, dim), rel=0.02)


def test_spread_grows_with_the_square_root_of_the_step() -> None:
    activation, start, dim = Activation.parse("h4"), 0.2, 100
    bound = plateau(activation).critical_step(1.0, start, 1.0, dim)
    small, large = (hitting_law(activation, 1.0, start, f * bound, 1.0, dim) for f in (1e-6, 1e-4))
    assert large.std / small.std == pytest.approx(10, rel=0.02)


def test_batches_quiet_the_noise() -> None:
    """A batch of b at step η has the noise and the shrinkage of a single sample at step η/b."""
    activation = Activation.parse("h4")
    batched = hitting_law(activation, 0.8, 0.1, 1e-4, 1.0, 200, batch=10)
    single = hitting_law(activation, 0.8, 0.1, 1e-5, 1.0, 200)
    assert (batched.mean, batched.std) == pytest.approx((single.mean, single.std), rel=1e-9)


def test_sign_matters_for_odd_activations_only() -> None:
    even, odd = Activation.parse("h4"), Activation.parse("h3")
    assert hitting_law(even, 1.0, -0.1, 1e-4, 1.0, 200) == hitting_law(even, 1.0, 0.1, 1e-4, 1.0, 200)
    up, down = (hitting_law(odd, 1.0, sign * 0.1, 1e-4, 1.0, 200) for sign in (1, -1))
    assert down.mean > 2 * up.mean


def test_higher_levels_and_later_starts() -> None:
    activation = Activation.parse("h4")
    laws = [hitting_law(activation, 1.0, 0.1, 1e-4, 1.0, 200, level=level).mean for level in (0.1, 0.5, 0.9)]
    assert laws[0] < laws[1] < laws[2]
    assert hitting_law(activation, 1.0, 0.9, 1e-4, 1.0, 200) == HittingLaw(0.0, 0.0)


def test_hopeless_step_sizes_give_numbers_not_nan() -> None:
    """Far above the stability bound the mean is astronomically large, or infinite, but never nan or negative."""
    activation = Activation.parse("h4")
    bound = plateau(activation).critical_step(1.0, 0.1, 1.0, 400)
    laws = [hitting_law(activation, 1.0, 0.1, factor * bound, 1.0, 400) for factor in (1, 10, 100, 1000)]
    assert all(law.mean > 0 and law.std >= 0 for law in laws)
