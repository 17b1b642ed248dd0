"""Growth in whole steps and in a tube: limits, refusals, and the law against a plain random walk."""

import numpy as np
import pytest
import sympy as sp

from theory import InputError
from theory.one_task.noisy_growth import (
    OVERSHOOT,
    NoisyGrowth,
    alpha,
    end,
    leaving_probability,
    passage_density,
    start,
    steps_of_growth,
    survival_slope,
)


def test_orders_of_the_number_of_steps() -> None:
    first, lag, after = steps_of_growth(3)
    assert sp.simplify(first - (start**-2 - end**-2) / (2 * alpha)) == 0
    assert sp.simplify(sp.expand_log(lag - sp.Rational(3, 2) * sp.log(end / start), force=True)) == 0
    assert sp.simplify(after + alpha * 15 * (end**2 - start**2) / 24) == 0


def test_the_lag_of_exponential_growth_is_that_of_the_logarithm() -> None:
    steps = np.log(8) / np.log1p(0.01)
    found = sum(float(x.subs({alpha: 0.01, start: 1.0, end: 8.0})) for x in steps_of_growth(1))
    assert found == pytest.approx(steps, rel=1e-6)


@pytest.mark.parametrize("power", [1, 3])
def test_steps_are_those_of_the_recursion(power: int) -> None:
    growth = NoisyGrowth(power, 1e-3, 1.0, 3.0, 1e-4, 0.01)
    x, count = growth.start, 0
    while x < growth.end:
        x, count = x + growth.rate * x**power, count + 1
    assert growth.steps == pytest.approx(count, abs=1)


@pytest.mark.parametrize(("power", "end"), [(1, 3.0), (2, 3.0), (5, 1.5)])
def test_the_variance_is_that_of_kicks_that_the_recursion_carries_back(power: int, end: float) -> None:
    """Each is divided by what the recursion makes of a small change until then; at small steps, from another start than 1."""
    growth = NoisyGrowth(power, 1e-4, 0.8, end, 1e-5, 0.02)
    x, grown, kicks = growth.start, 1.0, 0.0
    while x < growth.end:
        grown *= 1 + growth.rate * power * x ** (power - 1)
        x += growth.rate * x**power
        kicks += grown**-2
    assert growth.share == pytest.approx(kicks * (growth.noise / (growth.width * growth.start)) ** 2, rel=2e-3)


def test_leaving_probability_has_both_limits() -> None:
    assert leaving_probability(0.01) == pytest.approx(0, abs=1e-20)
    assert [leaving_probability(s) for s in (30.0, 1e3, 1e5)] == pytest.approx([1] * 3, abs=1e-12)
    near = [leaving_probability(1 + x) for x in (-1e-9, 1e-9)]  # by one form, and by the other
    assert near[0] == pytest.approx(near[1], abs=2e-9)
    series = 1 - 4 / np.pi * (np.exp(-(np.pi**2) / 8) - np.exp(-9 * np.pi**2 / 8) / 3)
    assert leaving_probability(1.0) == pytest.approx(series, abs=1e-6)


def test_where_all_kicks_count_alike_the_barrier_is_as_far_as_a_plain_walk_overshoots() -> None:
    """A hundred steps, hardly any growth: an edge that is farther off by as much as every step overshoots it."""
    walks, steps, edge = 100_000, 100, 15
    growth = NoisyGrowth(1, 1e-9, 1.0, 1 + steps * 1e-9, 0.01, 0.01 * edge)
    position, outside = np.zeros(walks), np.zeros(walks, dtype=bool)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        position += rng.standard_normal(walks)
        outside |= np.abs(position) > edge
    middle, half = growth.leaves()
    error = outside.std() / np.sqrt(walks)
    assert growth.overshoot == pytest.approx(OVERSHOOT / edge, rel=1e-6)  # (it grows by 1e-7)
    assert abs(outside.mean() - middle) < 4 * error
    assert half < 3 * error
    assert leaving_probability(steps / edge**2) - outside.mean() > 10 * error
    assert growth.doob == pytest.approx(steps / edge**2)  # (Kolmogorov's bound)
    assert (
        pytest.approx(0.5826, abs=5e-5) == OVERSHOOT
    )  # a Gaussian walk's mean overshoot of a far barrier (Chernoff 1965)


@pytest.mark.parametrize("time", [0.3, 1.0, 5.0])
def test_an_edge_farther_off_is_reached_as_the_reflection_principle_says(time: float) -> None:
    r"""$\int pg\,du$ is what the probability loses per shift of both edges; p by itself is its rate."""
    nodes, mass = np.polynomial.legendre.leggauss(60)
    v = (1 + nodes) / 2
    lost = time * np.sum(mass * v * passage_density(time * (1 - v**2)) * survival_slope(time * v**2))
    moved = [leaving_probability(time / (1 + x) ** 2) for x in (-1e-4, 1e-4)]
    assert lost == pytest.approx((moved[0] - moved[1]) / 2e-4, rel=1e-5)
    later = [leaving_probability(time + x) for x in (-1e-4, 1e-4)]
    assert passage_density(np.array([time])) == pytest.approx((later[1] - later[0]) / 2e-4, rel=1e-5)


def test_kicks_that_count_less_and_less_overshoot_less() -> None:
    """Fifth powers to twice the start in fifty steps: told from edges that stay as far off as at first, and from none."""
    walks, growth = 200_000, NoisyGrowth(5, 0.0045, 1.0, 2.0, 2.6e-4, 1e-3)
    rng, at, edges = np.random.default_rng(2), np.ones(walks), np.array([0.999, 1.001])
    left = np.zeros(walks, dtype=bool)
    for _ in range(growth.steps):
        at = at + growth.rate * at**5 + growth.noise * rng.standard_normal(walks)
        edges = edges + growth.rate * edges**5
        left |= (at < edges[0]) | (at > edges[1])
        at[left] = 1.0
    error = left.std() / np.sqrt(walks)
    middle, half = growth.leaves()
    at_first = leaving_probability(growth.share / (1 + OVERSHOOT * growth.noise / growth.width) ** 2)
    assert abs(left.mean() - middle) < half + 4 * error
    assert abs(left.mean() - at_first) > half + 8 * error
    assert abs(left.mean() - leaving_probability(growth.share)) > half + 8 * error


def test_noisy_recursions_leave_the_tube_as_often_as_the_law_says() -> None:
    """Cubic growth to thrice the start; edges that follow the recursion themselves; by either, and by the lower one first."""
    walks, growth = 40_000, NoisyGrowth(3, 1e-3, 1.0, 3.0, 2.9e-3, 0.05)
    rng, at, edges = np.random.default_rng(1), np.ones(walks), np.array([0.95, 1.05])
    left = np.zeros((2, walks), dtype=bool)
    for _ in range(growth.steps):
        at = at + 1e-3 * at**3 + 2.9e-3 * rng.standard_normal(walks)
        edges = edges + 1e-3 * edges**3
        inside = ~left.any(axis=0)
        left |= np.stack([at < edges[0], at > edges[1]]) & inside
        at = np.where(left.any(axis=0), edges.mean(), at)
    for count, share in ((2, left.any(axis=0).mean()), (1, left[0].mean())):
        middle, half = growth.leaves(count)
        error = np.sqrt(share * (1 - share) / walks)
        assert abs(share - middle) < half + 4 * error
    assert abs(left[0].mean() - growth.leaves(2)[0]) > 10 * error


def test_the_width_of_the_tube_moves_the_law_as_another_start_does() -> None:
    """Of many small steps, whose overshoot is nothing: from an edge of the tube, as far from it as it is wide."""
    growth = NoisyGrowth(3, 1e-7, 1.0, 2.0, 2.9e-5, 0.05)
    moved = [NoisyGrowth(3, 1e-7, x, 2.0, 2.9e-5, 0.05 / x) for x in (0.95, 1.05)]
    more, less = (leaving_probability(one.share) for one in moved)
    assert growth.leaves()[1] == pytest.approx((more - less) / 2, rel=0.02)
    assert growth.leaves(1)[1] == pytest.approx((more - less) / 4, rel=0.02)


def test_refusals_name_argument_value_and_remedy() -> None:
    with pytest.raises(InputError, match=r"end is 0\.5: growth ends above its start"):
        NoisyGrowth(3, 1e-3, 1.0, 0.5, 1e-4, 0.01)
    with pytest.raises(InputError, match=r"width is 0\.2: the tube's upper edge explodes"):
        NoisyGrowth(3, 1e-3, 1.0, 3.0, 1e-4, 0.2)
