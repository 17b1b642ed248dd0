"""Several exponents at once: slopes, clustered errors, bad input."""

import numpy as np
import pytest

from theory import InputError
from validation.statistics.regression import regress


def _points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = p^0.8 d^1.5 with a disturbance per cluster of each slope, 12 clusters."""
    columns, logs, names = [], [], []
    for cluster in range(12):
        x = np.log(np.stack([rng.integers(1, 9, 10), rng.choice([100, 1000, 10000], 10)], axis=1))
        slopes = np.array([0.8, 1.5]) + np.array([0.1, 0.03]) * rng.standard_normal(2)
        columns.append(x)
        logs.append(x @ slopes + 2.0 + 0.01 * rng.standard_normal(10))
        names += [cluster] * 10
    return np.concatenate(columns), np.concatenate(logs), np.array(names)


def test_slopes_and_their_clustered_errors() -> None:
    rng = np.random.default_rng(1)
    fits = [regress(*_points(rng)) for _ in range(300)]
    slopes, errors = np.array([x.slopes for x in fits]), np.array([x.stderr for x in fits])
    assert np.all(np.abs(slopes.mean(axis=0) - [0.8, 1.5]) < 4 * slopes.std(axis=0) / np.sqrt(300))
    assert np.allclose(np.sqrt(np.mean(errors**2, axis=0)), slopes.std(axis=0), rtol=0.25)


def test_the_same_estimator_on_a_prediction() -> None:
    columns, logs, names = _points(np.random.default_rng(2))
    fit = regress(columns, logs, names)
    assert np.allclose(fit.of(columns @ [0.8, 1.5] - 7), [0.8, 1.5])
    assert np.allclose(fit.of(logs), fit.slopes)
    assert fit.clusters == 12


def test_bad_input_is_refused() -> None:
    columns, logs, names = _points(np.random.default_rng(3))
    with pytest.raises(InputError, match="do not fit"):
        regress(columns, logs[:-1], names)
    with pytest.raises(InputError, match="1 cluster"):
        regress(columns, logs, 0 * names)
    with pytest.raises(InputError, match="cannot be told apart"):
        regress(np.concatenate([columns, columns[:, :1]], axis=1), logs, names)
