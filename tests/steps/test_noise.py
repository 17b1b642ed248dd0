r"""Covariance of one step's displacements against every product of one sample's gradients, exactly, in NumPy.

Three students and two teachers in $R^3$, all distinct, no student at right angles to another or to a teacher: any index
that is not the one that is meant changes an entry ($D^k_{xe}$ itself is symmetric in x and e). Displacements are those of
the loss's gradient by hand; a Gauss–Hermite rule of enough points integrates their products exactly.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynamics.steps.step_covariance import displacement_covariance
from theory import Activation
from theory.core.quadrature import gauss_hermite, product_rule
from theory.steps.noise import step_covariance

WEIGHTS, VECTORS = np.array([0.9, 0.5]), np.random.default_rng(7).standard_normal((3, 3)) * [[0.5], [0.7], [0.4]]
NORMS = np.sum(VECTORS**2, axis=1)
UNITS = VECTORS / np.sqrt(NORMS)[:, None]


def displacements(activation: Activation, noise: bool) -> np.ndarray:
    """Covariance of t (3 × 2) and r (3) over η, of one sample; or what unit noise on its label adds."""
    points, weights = product_rule(*[gauss_hermite(2 * activation.degree + 3)] * 3)
    value, slope = (activation.arrays(order) for order in (0, 1))
    fields = points @ UNITS.T
    missed = np.ones(len(points)) if noise else value(fields) @ NORMS - value(points[:, :2]) @ WEIGHTS
    tangent = points[:, None, :] - fields[:, :, None] * UNITS
    turned = -(missed[:, None] * slope(fields))[:, :, None] * tangent[:, :, :2]
    grown = 2 * NORMS * (-2 * missed[:, None] * value(fields))
    rows = np.concatenate([turned.reshape(len(points), -1), grown], axis=1)
    mean = 0 if noise else weights @ rows
    return (rows - mean).T @ ((rows - mean) * weights[:, None])


def derived(covariance: Any) -> np.ndarray:
    state = {"t": UNITS[:, :2], "c": UNITS @ UNITS.T, "r": NORMS}
    given = {"a": WEIGHTS, "eta": 1.0, "varsigma": 1.0}
    found = displacement_covariance(SimpleNamespace(covariance=covariance), state, given)  # type: ignore[arg-type]
    mixed = found["tr"].reshape(6, 3)
    return np.block([[found["tt"].reshape(6, 6), mixed], [mixed.T, found["rr"]]])


@pytest.mark.parametrize("text", ["h2", "h3", "h2+h3"])
def test_covariance_of_a_step_is_that_of_one_samples_gradients(text: str) -> None:
    activation = Activation.parse(text)
    exact, found = displacements(activation, False), derived(step_covariance(activation))
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-10 * np.abs(exact).max())
    noisy = derived(step_covariance(activation, noisy_labels=True)) - found
    added = displacements(activation, True)
    np.testing.assert_allclose(noisy, added, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(derived(step_covariance(activation, batch=3)), found / 3, rtol=1e-12)
