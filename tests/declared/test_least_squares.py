"""The end of gradient descent on a fixed data set: by explicit matrices, at edges, and what is refused."""

import numpy as np
import pytest

from theory import InputError
from theory.declared.least_squares import fitted, found_by
from theory.declared.linear_model import LinearModel

RNG = np.random.default_rng(3)


def linear(noise: float, dim: int = 6, value: float = 2.0) -> LinearModel:
    return LinearModel(np.array([value]), np.array([float(dim)]), noise, np.array([1.5]))


@pytest.mark.parametrize("samples", [2, 14])
def test_means_are_those_of_pseudo_inverses(samples: int) -> None:
    """Population loss over 20 000 explicit data sets, inputs of variance 2."""
    model, draws = linear(0.7), 20_000
    error = np.append(np.sqrt(1.5), np.zeros(5))
    x = np.sqrt(2) * RNG.standard_normal((draws, samples, 6))
    noise = 0.7 * RNG.standard_normal((draws, samples))
    ended = error - np.einsum("rin,rn->ri", np.linalg.pinv(x), x @ error - noise)
    losses = np.sum(ended**2, axis=1)  # half of twice their squares
    assert fitted(model, samples).loss == pytest.approx(losses.mean(), abs=4 * losses.std() / np.sqrt(draws))


def test_the_mean_loss_is_infinite_at_the_edge_of_interpolation_where_there_is_noise() -> None:
    assert [fitted(linear(0.5), samples).loss for samples in (5, 6, 7)] == [np.inf] * 3
    assert [fitted(linear(0.0), samples).loss for samples in (3, 6, 9)] == [0.75, 0.0, 0.0]


def test_many_samples_find_what_fresh_ones_find() -> None:
    fresh, slope = found_by(linear(0.0), 0.1, 3)
    assert fresh == pytest.approx(1 - 0.8**3)
    assert slope == pytest.approx(-3 * 0.2**2 * 0.8 * 7)
    assert found_by(linear(0.0), 0.5, 1) == (1, 0)  # all in one step


def test_anisotropic_inputs_are_refused() -> None:
    model = LinearModel(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 0.0, np.ones(2))
    with pytest.raises(InputError, match="2 eigenvalues"):
        fitted(model, 3)
    with pytest.raises(InputError, match="samples is 0"):
        fitted(linear(0.0), 0)
