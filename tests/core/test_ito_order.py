"""Strong and weak order of the Itô scheme, against geometric Brownian motion and the Ornstein-Uhlenbeck process."""

import numpy as np
import pytest
import sympy as sp

from dynamics import ito_ensemble, lower
from theory import System
from theory.core.derivation import Derivation
from theory.core.indexed import B, Sums, Term, i

y, b = sp.IndexedBase("y"), sp.IndexedBase("b")
GROWTH, VOLATILITY, SPEED, AMPLITUDE = 1.5, 0.5, 2.0, 0.7
PATHS = 4000


def _system(drift: sp.Expr, noise: sp.Expr) -> System:
    """dy = drift dt + noise, and b, the Brownian path itself."""
    return System(
        name="test",
        activation=None,
        drift={y[i]: Sums([Term(drift)]), b[i]: Sums([])},
        observables={},
        parameters=(),
        derivation=Derivation("test", (), {}, (), "no source"),
        time_unit="1",
        limit="none",
        noise={y[i]: Sums([Term(noise)]), b[i]: Sums([Term(B[i])])},
    )


GEOMETRIC = lower(_system(GROWTH * y[i], VOLATILITY * y[i] * B[i]))
RELAXING = lower(_system(-SPEED * y[i], AMPLITUDE * B[i]))


def _ends(law, steps, seed, start=1.0):
    run = ito_ensemble(
        law, {"y": np.full(1, start), "b": np.zeros(1)}, {}, step=1 / steps, steps=steps, brownian=(1,), paths=PATHS,
        seed=seed, saves=1,
    )  # fmt: skip
    return run.state["y"][:, -1, 0], run.state["b"][:, -1, 0]


def _slope(values, errors, steps):
    """Order p of value ∝ h^p by weighted least squares in logarithms, and its standard error."""
    x, weight = -np.log(steps), (np.array(values) / errors) ** 2
    centre = np.average(x, weights=weight)
    spread = np.sum(weight * (x - centre) ** 2)
    return float(np.sum(weight * (x - centre) * np.log(values)) / spread), float(1 / np.sqrt(spread))


@pytest.mark.parametrize("seed", [0, 1])
def test_weak_order_one_on_geometric_brownian_motion(seed):
    """Against exp(μ − s²/2 + sB(1)) on the scheme's own path; the mean error is known exactly for every step."""
    sizes = np.array([32, 64, 128, 256])
    found, errors = [], []
    for steps in sizes:
        ends, path = _ends(GEOMETRIC, int(steps), seed)
        gap = np.exp(GROWTH - VOLATILITY**2 / 2 + VOLATILITY * path) - ends
        found.append(np.mean(gap))
        errors.append(np.std(gap) / np.sqrt(PATHS))
        exact = np.exp(GROWTH) - (1 + GROWTH / steps) ** steps
        assert abs(found[-1] - exact) < 4 * errors[-1]
    order, error = _slope(found, np.array(errors), sizes)
    assert abs(order - 1) < 4 * error + GROWTH / sizes[0]  # the next order in h
    assert order - 4 * error > 0.5


@pytest.mark.parametrize("seed", [0, 1])
def test_strong_order_one_half_without_drift(seed):
    """Without drift the strong error is s² e^{s²/2}√(h/2) to leading order: order ½, and not 1."""
    law, sizes = lower(_system(sp.Integer(0) * y[i], VOLATILITY * y[i] * B[i])), np.array([16, 64, 256])
    found, errors = [], []
    for steps in sizes:
        ends, path = _ends(law, int(steps), seed)
        gap = ends - np.exp(-(VOLATILITY**2) / 2 + VOLATILITY * path)
        found.append(np.sqrt(np.mean(gap**2)))
        errors.append(np.std(gap**2) / (2 * found[-1] * np.sqrt(PATHS)))
    order, error = _slope(found, np.array(errors), sizes)
    assert abs(order - 0.5) < 4 * error + VOLATILITY**2 / sizes[0]
    assert order + 4 * error < 1
    leading = VOLATILITY**2 * np.exp(VOLATILITY**2 / 2) * np.sqrt(0.5 / sizes)
    assert np.all(np.abs(found - leading) < 4 * np.array(errors) + leading * VOLATILITY**2 * np.sqrt(1 / sizes))


@pytest.mark.parametrize("seed", [0, 1])
def test_weak_order_one_on_the_ornstein_uhlenbeck_process(seed):
    """Mean and variance are the scheme's, whose errors halve with the step; a coarse step is told from the exact law."""
    exact = (np.exp(-SPEED), AMPLITUDE**2 * (1 - np.exp(-2 * SPEED)) / (2 * SPEED))
    gaps = []
    for steps in (4, 8, 64):
        ends, _ = _ends(RELAXING, steps, seed)
        shrink = 1 - SPEED / steps
        mean, variance = shrink**steps, AMPLITUDE**2 / steps * np.sum(shrink ** (2 * np.arange(steps)))
        gaps.append(variance - exact[1])
        error = np.std(ends) / np.sqrt(PATHS)
        assert abs(np.mean(ends) - mean) < 4 * error
        assert abs(np.var(ends) / variance - 1) < 4 * np.sqrt(2 / PATHS)
        if steps == 4:
            assert abs(np.mean(ends) - exact[0]) > 4 * error
            assert abs(np.var(ends) / exact[1] - 1) > 4 * np.sqrt(2 / PATHS)
    assert 6 < gaps[1] / gaps[2] < 10
