"""The distribution of hitting times: against its own moments, exact solutions, simulated paths, and in limits."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy
import sympy as sp

import theory.one_task.hitting_distribution as module
from theory import Activation, InputError, hitting_law, plateau
from theory.one_task.diffusion import Diffusion, OneTaskDiffusion
from theory.one_task.hitting_distribution import HittingDistribution, hitting_distribution, through_cell
from theory.one_task.plateau import u


def problem(text: str = "h4", dim: int = 64, scaled: float = 0.5) -> tuple[OneTaskDiffusion, float]:
    """A diffusion at η = scaled/d², and the overlap √(6/d)."""
    return OneTaskDiffusion(Activation.parse(text), 1.0, scaled / dim**2, 1.0, dim), float(np.sqrt(6 / dim))


@pytest.mark.slow_for("h3-64-0.5")
@pytest.mark.parametrize(("text", "dim", "scaled"), [("h4", 64, 0.1), ("h4", 1000, 0.02), ("h3", 64, 0.5)])
def test_moments_are_those_of_the_backward_equations(text: str, dim: int, scaled: float) -> None:
    """Mean and spread from the distribution and from `hitting_law`, two different equations.

    The window is long: at d = 64 runs that noise threw back to u ≈ 0 take very long, and weigh on the spread.
    """
    diffusion, start = problem(text, dim, scaled)
    law = hitting_law(diffusion.activation, 1.0, start, diffusion.step_size, 1.0, dim)
    times = np.linspace(0, law.mean + 200 * law.std, 12001)
    later = 1 - hitting_distribution(diffusion, start, cells=500).cdf(times)
    mean = np.trapezoid(later, times)
    assert mean == pytest.approx(law.mean, rel=1e-3)
    assert np.sqrt(2 * np.trapezoid(times * later, times) - mean**2) == pytest.approx(law.std, rel=5e-3)


def test_a_barrier_that_is_hardly_met_leaves_the_moments_finite() -> None:
    """0.3h₃ − h₄ in 10¹² dimensions: mean of du = (0.27u² − ku)dt + √D dW to infinity by its double integral. Behind
    u = −0.07 the drift turns back, and there the mean exceeds every number.
    """
    dim = 10**12
    diffusion = OneTaskDiffusion(Activation.parse("0.3*h3-h4"), 1.0, 0.1 * dim**-1.5, 1.0, dim)
    start = dim**-0.5
    drift, noise = (float(x[0]) for x in diffusion.coefficients(np.array([start])))
    v = np.linspace(-12, 12, 24001)  # in units of the start
    potential = 2 * start / noise * (0.27 * start**2 * v**3 / 3 - (0.27 * start**2 - drift) * v**2 / 2)
    reached = scipy.integrate.cumulative_trapezoid(np.exp(potential), v, initial=0)
    later = v >= 1
    mean = 2 * start**2 / noise * np.trapezoid((np.exp(-potential) * reached)[later], v[later]) + 1 / (
        0.27 * 12 * start
    )
    law = hitting_distribution(diffusion, start, 0.7).moments()
    assert law.mean == pytest.approx(mean, rel=0.02)
    assert 0.9 < law.std / law.mean < 0.95


def test_brownian_motion_with_drift() -> None:
    """A cell of constant coefficients: E e^{−sT} = exp{−x(√(b²+2Ds) − b)/D} far from the reflecting end."""
    s = np.array([0.3 + 0.2j, 2.0 + 5.0j])
    for drift in (0.7, -0.4):
        slope, gain = np.zeros_like(s), np.zeros_like(s)
        slope, _ = through_cell(slope, s, drift, 0.1, 50.0)
        _, gain = through_cell(slope, s, drift, 0.1, 1.0)
        exact = (np.sqrt(drift**2 + 0.2 * s) - drift) / 0.1
        np.testing.assert_allclose(gain, exact, rtol=1e-12)


def test_quantiles_invert_the_distribution_and_its_error_is_small() -> None:
    diffusion, start = problem()
    law = hitting_distribution(diffusion, start)
    for probability in (0.01, 0.5, 0.9):
        assert law.cdf(np.array([law.quantile(probability)]))[0] == pytest.approx(probability, abs=1e-7)
    times = np.linspace(0.1, 20, 50)
    assert np.all(np.diff(law.cdf(times)) > 0)
    fine = HittingDistribution(diffusion, start, law.level, 2 * law.cells)
    assert np.max(np.abs(fine.cdf(times) - law.cdf(times))) <= law.error(times) < 1e-5


def test_from_no_overlap_at_all() -> None:
    """Noise leaves the reflecting end: the limit of starts ever nearer to it, whose deterministic times grow beyond bounds."""
    even, start = problem()
    laws = [hitting_distribution(even, share * start, cells=200) for share in (0.0, 1e-4, 1e-2)]
    none, *near = (law.quantile(0.5) for law in laws)
    assert near == pytest.approx([none, none], rel=1e-3)
    assert none > hitting_distribution(even, start).quantile(0.5)
    times = np.array([0.0, none, 1e4 * none])
    assert laws[0].cdf(times) == pytest.approx([0, 0.5, 1], abs=1e-4)
    assert laws[0].cdf(times[[0, 2]]) == pytest.approx([0, 1], abs=1e-4)


def test_sign_and_late_starts() -> None:
    even, start = problem()
    assert hitting_distribution(even, -start).quantile(0.5) == hitting_distribution(even, start).quantile(0.5)
    odd, start = problem("h3", 64, 0.5)
    assert hitting_distribution(odd, -start).quantile(0.5) > hitting_distribution(odd, start).quantile(0.5)
    for late in (0.9, hitting_distribution(even, start).level, -0.9):
        assert hitting_distribution(even, late).quantile(0.3) == 0.0
        assert hitting_distribution(even, late).cdf(np.array([-1.0, 0.0, 1.0])).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.slow
def test_beyond_the_boundary_recovery_is_rare_and_a_quantile_may_be_infinite() -> None:
    diffusion, start = problem("h4", 400, 200.0)
    assert diffusion.step_size > 5 * plateau(diffusion.activation).critical_step(1.0, start, 1.0, 400)
    law = hitting_distribution(diffusion, start, cells=100)
    assert law.cdf(np.array([100.0]))[0] < 1e-3
    assert law.quantile(0.5) > 100


@pytest.mark.parametrize(
    ("change", "text"),
    [({"level": 1.5}, "level"), ({"level": 0.0}, "level")],
)
def test_bad_level(change: dict, text: str) -> None:
    diffusion, start = problem()
    with pytest.raises(InputError, match=text):
        hitting_distribution(diffusion, start, **change)


def test_bad_probability_and_no_noise() -> None:
    diffusion, start = problem()
    with pytest.raises(InputError, match="probability"):
        hitting_distribution(diffusion, start).quantile(1.0)
    still = OneTaskDiffusion(diffusion.activation, 1.0, 1e-4, 1.0, 64, with_noise=False)
    with pytest.raises(InputError, match="with_noise"):
        hitting_distribution(still, start)


def test_a_variance_that_is_not_positive_is_refused() -> None:
    """Laws of one's own may have one: a derived variance is cut at some order in η."""
    diffusion, start = problem()
    laws = diffusion.laws
    cut = replace(diffusion, constants=replace(laws, variance_law=laws.variance_law * (sp.Rational(2, 5) - u)))
    with pytest.raises(InputError, match=r"step_size is 0\.00012.*not positive at overlap 0\.4"):
        hitting_distribution(cut, start).quantile(0.5)


@dataclass(frozen=True)
class Steady(Diffusion):
    """Constant drift and noise, of a neuron of both parities."""

    drift: float
    noise: float
    activation: Activation
    weight: float = 1.0
    step_size: float = 1.0

    def coefficients(self, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.drift + 0 * overlap, self.noise + 0 * overlap


@pytest.mark.parametrize("drift", [0.3, -0.2])
def test_a_run_ends_at_either_end(drift: float) -> None:
    """Brownian motion with drift between −h and h: shares, transform and mean have closed forms."""
    noise, h, start = 0.2, float(np.sqrt(0.5)), 0.1
    law = hitting_distribution(Steady(drift, noise, Activation.parse("h3-h4")), start)
    scale = lambda x: -np.expm1(-2 * drift * (x + h) / noise)  # noqa: E731
    turned = 1 - scale(start) / scale(h)
    found, up, down = (law.moments(end) for end in (0, 1, -1))
    assert found.turned == up.turned == pytest.approx(turned, rel=1e-6)
    assert found.mean == pytest.approx((h * (1 - 2 * turned) - start) / drift, rel=1e-4)
    s = np.array([0.5 + 1j, 3.0 - 2j])
    # Of what ends at h and at −h, and of both its slope at s = 0.
    root = lambda s: np.sqrt(drift**2 + 2 * noise * s) / noise  # noqa: E731
    ends = [
        lambda s, x=start, e=e: np.exp(drift * (e * h - x) / noise) * np.sinh(root(s) * (h + e * x)) / np.sinh(2 * root(s) * h)
        for e in (1, -1)
    ]  # fmt: skip
    np.testing.assert_allclose(law.transform(s), ends[0](s) + ends[1](s), rtol=1e-9)
    edge = -h * (1 - 1e-5)  # a hair inside −h, from where all of the way to h is still there
    left = 1 - hitting_distribution(law.diffusion, edge).transform(s)
    np.testing.assert_allclose(left, 1 - ends[0](s, edge) - ends[1](s, edge), rtol=1e-6)
    for one, end in zip((up, down), ends, strict=True):
        logs = np.log(end(np.array([1e-3, 0.0, -1e-3])))
        assert one.mean == pytest.approx((logs[2] - logs[0]) / 2e-3, rel=1e-4)
        assert one.std**2 == pytest.approx((logs[0] - 2 * logs[1] + logs[2]) / 1e-6, rel=1e-3)


def test_a_neuron_of_both_parities_may_turn_to_minus_e() -> None:
    """0.3h₃ − h₄ from +0.2, by the slope of its transform and by moments' equations; h₃ does not turn."""
    mixed = OneTaskDiffusion(Activation.parse("0.3*h3-h4"), 1.0, 4e-4, 1.0, 64)
    law = hitting_distribution(mixed, 0.2, cells=500)
    found, up, down = (law.moments(end) for end in (0, 1, -1))
    assert 0.01 < found.turned < 0.99
    assert found.mean == pytest.approx((1 - found.turned) * up.mean + found.turned * down.mean, rel=1e-6)
    assert up.mean < found.mean < down.mean
    s = 1e-3 / found.mean
    beside = law.transform(np.array([-s, s])).real
    assert (beside[0] - beside[1]) / (2 * s) == pytest.approx(found.mean, rel=1e-3)
    odd, start = problem("h3", 64, 0.1)
    assert hitting_distribution(odd, start).moments().turned < 1e-9
    assert np.isnan(hitting_distribution(odd, 0.9).moments(-1).mean)
    assert hitting_distribution(odd, -0.9).moments().turned == 1
    never = hitting_distribution(replace(odd, step_size=1e-9), 0.3).moments(-1)
    np.testing.assert_array_equal([never.mean, never.std, never.turned], [np.nan, np.nan, 0.0])
    with pytest.raises(InputError, match="end is 2"):
        law.moments(2)


@pytest.mark.parametrize("step_size", [1e-9, 1e-14])
def test_runs_that_turn_to_the_other_end_take_the_time_of_their_drift(step_size: float) -> None:
    r"""Without much noise $\int du/|b|$, with a spread of $(\int D/|b|^3du)^{1/2}$, however small noise is."""
    diffusion = OneTaskDiffusion(Activation.parse("h4 + 0.2*h5"), 0.5, step_size, 0.25, 1000)
    law = hitting_distribution(diffusion, -0.1).moments()
    way = np.linspace(-(0.5**0.5), -0.1, 200_001)
    drift, noise = diffusion.coefficients(way)
    assert law.turned == pytest.approx(1.0)
    assert law.mean == pytest.approx(np.trapezoid(1 / np.abs(drift), way), rel=1e-3)
    assert law.std == pytest.approx(np.sqrt(np.trapezoid(noise / np.abs(drift) ** 3, way)), rel=0.01)


def test_a_level_that_is_reached_already_is_reached_at_once() -> None:
    diffusion, _ = problem()
    for start in (0.8, -0.8):
        law = HittingDistribution(diffusion, start, 0.7, 50)
        np.testing.assert_array_equal(law.transform(np.array([0.5 + 2j, 3.0])), 1.0)
        assert law.cdf(np.array([-1.0, 0.0, 2.0])).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("steepness", [0.01, 1.0, 30.0, 400.0])
def test_cells_are_the_same_one_by_one_and_in_stretches(steepness: float) -> None:
    """Up and down, over barriers that no number holds; a cell by itself beyond what a stretch may grow by."""
    rng = np.random.default_rng(0)
    exponent, gains = steepness * rng.standard_normal(2000), 3 * rng.standard_normal(2000)
    grown = np.cumsum(np.minimum(np.abs(exponent), 2 * module._STRETCH))
    one, many = module._by_cell(exponent, gains), module._by_stretch(exponent, gains, grown)
    assert one[0] == many[0] == -np.inf
    np.testing.assert_allclose(many[1:], one[1:], atol=1e-11 * np.abs(one[1:]).max())
