"""Itô ensembles of systems with noise: the lowering of definitions, noise and covariance, and the laws they give."""

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from dynamics import ito_ensemble, lower
from theory import InputError, System
from theory.core.derivation import Derivation
from theory.core.indexed import B, Sums, Term, h, i

y, e, theta, speed = sp.IndexedBase("y"), sp.IndexedBase("e"), sp.Symbol("theta"), sp.Symbol("speed")


def _system(noise: sp.Expr) -> System:
    """dy_i = −speed e_i dt + noise_i dB_i with e_i = y_i − θ, and Cov(dy_i, dy_h) = y_i y_h dt."""
    return System(
        name="test",
        activation=None,
        drift={y[i]: Sums([Term(-speed * e[i])])},
        observables={"square": Sums([Term(e[i] ** 2, (i,))])},
        parameters=("theta", "speed"),
        derivation=Derivation("test", (), {}, (), "no source"),
        time_unit="1",
        limit="none",
        definitions={e[i]: Sums([Term(y[i]), Term(-theta)])},
        noise={y[i]: Sums([Term(noise * B[i])])},
        covariance={(y[i], y[h]): Sums([Term(y[i] * y[h])])},
    )


ADDITIVE, MULTIPLICATIVE = _system(sp.Integer(2)), _system(y[i] / 2)
PARAMETERS = {"theta": jnp.asarray(0.5), "speed": jnp.asarray(3.0)}


def test_definitions_noise_and_covariance_are_lowered():
    law, state, increments = lower(MULTIPLICATIVE), {"y": jnp.array([1.0, 2.0])}, jnp.array([0.1, -0.2])
    assert np.allclose(law.drift(state, PARAMETERS)["y"], [-1.5, -4.5])
    assert np.allclose(law.noise(state, increments, PARAMETERS)["y"], [0.05, -0.2])
    assert np.allclose(law.covariance(state, PARAMETERS)["y", "y"], [[1, 2], [2, 4]])
    assert np.allclose(law.observable("square", state, PARAMETERS), 0.25 + 2.25)


def _paths(law, steps, saves=4, seed=0, paths=4000):
    start = {"y": np.array([1.0, 2.0])}
    return ito_ensemble(
        law, start, PARAMETERS, step=1.0 / steps, steps=steps, brownian=(2,), paths=paths, seed=seed, saves=saves
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_an_ornstein_uhlenbeck_process_has_the_law_of_its_euler_scheme(seed):
    """Exact for the scheme: mean θ + (y₀ − θ)(1 − λh)ⁿ, variance 4h Σ (1 − λh)^{2j}."""
    steps = 64
    ends = _paths(lower(ADDITIVE), steps, seed=seed).state["y"][:, -1]
    shrink = 1 - 3 / steps
    variance = 4 / steps * np.sum(shrink ** (2 * np.arange(steps)))
    mean = 0.5 + (np.array([1.0, 2.0]) - 0.5) * shrink**steps
    assert np.all(np.abs(ends.mean(axis=0) - mean) < 4 * np.sqrt(variance / len(ends)))
    assert np.all(np.abs(ends.var(axis=0, ddof=1) / variance - 1) < 4 * np.sqrt(2 / len(ends)))
    assert abs(np.corrcoef(ends.T)[0, 1]) < 4 / np.sqrt(len(ends))  # components have noises of their own


def test_multiplicative_noise_is_read_in_the_sense_of_ito():
    """E y follows the drift alone; in the sense of Stratonovich the rate 3 would be 3 − 1/8."""
    steps = 256
    ends = _paths(lower(MULTIPLICATIVE), steps).state["y"][:, -1]
    mean = 0.5 + (np.array([1.0, 2.0]) - 0.5) * (1 - 3 / steps) ** steps
    error = ends.std(axis=0, ddof=1) / np.sqrt(len(ends))
    assert np.all(np.abs(ends.mean(axis=0) - mean) < 4 * error)
    stationary, rate = 0.5 * 3 / (3 - 1 / 8), 3 - 1 / 8
    stratonovich = stationary + (np.array([1.0, 2.0]) - stationary) * np.exp(-rate)
    assert np.all(np.abs(ends.mean(axis=0) - stratonovich) > 4 * error)


def test_looking_more_often_does_not_change_the_paths():
    law = lower(ADDITIVE)
    few, many = _paths(law, 32, saves=1, paths=3), _paths(law, 32, saves=32, paths=3)
    assert np.array_equal(few.state["y"][:, -1], many.state["y"][:, -1])
    assert few.times.tolist() == [0.0, 1.0]  # and nowhere else
    assert many.times.shape == (33,)
    assert not np.array_equal(many.state["y"], _paths(law, 32, saves=32, seed=1, paths=3).state["y"])


def test_a_diverging_path_is_reported():
    unstable = {"theta": jnp.asarray(0.0), "speed": jnp.asarray(1e300)}
    run = ito_ensemble(
        lower(ADDITIVE), {"y": np.ones(2)}, unstable, step=1.0, steps=4, brownian=(2,), paths=2, seed=0, saves=1
    )
    assert run.diverged.all()


@pytest.mark.parametrize("name", ["step", "steps", "paths", "saves"])
def test_bad_sizes_are_refused(name):
    sizes = {"step": 0.1, "steps": 4, "paths": 2, "saves": 1} | {name: 0}
    with pytest.raises(InputError, match=f"{name} is 0: give a positive value"):
        ito_ensemble(lower(ADDITIVE), {"y": np.ones(2)}, PARAMETERS, brownian=(2,), seed=0, **sizes)
