"""How much light students see of each other: the law beside the loss in coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from dynamics.additive.ambient_flow import ambient_loss
from theory import Activation, InputError
from theory.additive.interaction import mean_square, moment_of_cosine

H3 = Activation.parse("h3")


@pytest.mark.parametrize(("power", "dim"), [(2, 3), (4, 7), (6, 20), (3, 5)])
def test_moments_of_a_cosine(power: int, dim: int) -> None:
    moment, total = (
        scipy.integrate.quad(lambda c, n: c**n * (1 - c * c) ** ((dim - 3) / 2), -1, 1, args=(n,))[0]
        for n in (power, 0)
    )
    assert float(moment_of_cosine(power, dim)) == pytest.approx(moment / total, abs=1e-9)


def test_what_students_add_to_each_other_is_that_of_the_loss_in_coordinates() -> None:
    """Rates of overlaps with an axis by differentiating the loss in R^d without a teacher, at rows of random directions."""
    activation, norm2, dim, draws = Activation.parse("h2+0.5*h3"), np.array([1.0, 0.5, 0.2]), 5, 20_000
    rows = np.random.default_rng(2).standard_normal((draws, 3, dim))
    units = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    alone = jax.jit(jax.vmap(jax.grad(lambda v: ambient_loss(activation, v, jnp.zeros(1)))))
    lengths = np.sqrt(norm2)[:, None]
    moved = -np.asarray(alone(jnp.asarray(units * lengths))) / lengths
    across = moved - np.sum(moved * units, axis=2, keepdims=True) * units
    each = np.mean(across[:, :, 0] ** 2 / (1 - units[:, :, 0] ** 2), axis=1)
    assert each.mean() == pytest.approx(mean_square(activation, norm2, dim), abs=4 * each.std() / np.sqrt(draws))


def test_of_students_without_mass_or_company_nothing_is_seen_and_kernels_must_be_sums() -> None:
    assert mean_square(H3, np.zeros(5), 10) == 0
    assert mean_square(H3, np.ones(1), 10) == 0
    with pytest.raises(InputError, match="kernel is no polynomial"):
        mean_square(Activation.parse("erf"), np.ones(3), 10)
    with pytest.raises(InputError, match="norm2 is"):
        mean_square(H3, np.array([1.0, np.nan]), 10)
