"""The integral over one variable against sums over samples, at batch 2, and refusals."""

import numpy as np
import pytest

from theory import Activation, InputError
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.loss import Correlation
from theory.declared.normalised_batch import normalised_drift
from theory.declared.student import committee
from theory.declared.target import Additive

STUDENT = committee(Activation.parse("z+sin(z)/2"), 1, rows="sphere")
TARGET = Additive(Activation.parse("sin(z)+2"), (1.0,))


def test_two_samples_by_quadrature() -> None:
    """Of two samples count p and q of the first and p of the second, p > 0."""
    u, (points, weights) = 0.3, product_rule(gauss_hermite(48), gauss_hermite(48))
    z, q = points.T
    p = (np.sin(u * z + np.sqrt(1 - u * u) * q) + 2) * (1 + np.cos(z) / 2)
    length = np.sqrt(p[:, None] ** 2 + p[None, :] ** 2)
    known = 2 * np.sqrt(1 - u * u) * np.einsum("i,j,i,ij->", weights, weights, q * p, 1 / length)
    assert normalised_drift(STUDENT, TARGET, Correlation(), 2, u) == pytest.approx(known, rel=1e-6)


def test_gradients_whose_mean_is_zero_by_two_samples() -> None:
    """An odd link without overlap: p is as often positive as negative, and only its square sets the scale."""
    target, draws = Additive(Activation.parse("sin(z)"), (1.0,)), np.random.default_rng(3).normal(size=(2, 2, 400_000))
    p = np.sin(draws[1]) * (1 + np.cos(draws[0]) / 2)
    along = (draws[1] * p).sum(axis=0) / np.sqrt((p**2).sum(axis=0))
    error = along.std(ddof=1) / np.sqrt(along.size)
    known = normalised_drift(STUDENT, target, Correlation(), 2, 0.0)
    assert abs(known - along.mean()) < 4 * error < 0.01 * known


@pytest.mark.parametrize("size", [0.1, 10.0])
def test_a_step_of_one_length_knows_no_unit_of_labels(size: float) -> None:
    """Only the direction of the batch's gradient counts, which the correlation loss scales by the labels' unit."""
    target = Additive(Activation.parse("sin(z)+2"), (size,))
    plain = Additive(Activation.parse("sin(z)+2"), (1.0,))
    known = normalised_drift(STUDENT, plain, Correlation(), 3, 0.3)
    assert normalised_drift(STUDENT, target, Correlation(), 3, 0.3) == pytest.approx(known, rel=1e-9)


def test_a_single_sample_and_overlaps_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="batch"):
        normalised_drift(STUDENT, TARGET, Correlation(), 1, 0.1)
    with pytest.raises(InputError, match="give one direction"):
        normalised_drift(STUDENT, TARGET, Correlation(), 2, 0.51)
