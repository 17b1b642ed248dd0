"""Noise of Stiefel SGD: a sample's moments and the norm of a Gaussian matrix, beside draws."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2

from theory import Activation, InputError, Teacher
from theory.core.hermite import z
from theory.quadratic.gradient_noise import (
    N,
    entry_variance,
    few_samples,
    gamma,
    largest_singular_value,
    square,
    teachers_share,
    variance,
)
from theory.quadratic.model import QuadraticModel


def model_of(weights: tuple[float, ...], dim: int, width: int, factor: float, text: str = "z**2-1") -> QuadraticModel:
    return QuadraticModel.of(Activation.parse(text), Teacher.of(weights, dim, normalise=False), width, factor)


@pytest.mark.parametrize("text", ["z**2-1", "h2"])
def test_noise_of_a_sample(text: str) -> None:
    """The gradient of one sample by W, in coordinates: variance of an entry off the teacher, and on it."""
    model, activation = model_of((1.0, 0.9), 24, 4, 0.3, text), Activation.parse(text)
    (own,) = np.unique([float(activation.function.coeff(z, 2))])  # of z²
    rng, samples = np.random.default_rng(3), 400_000
    x = rng.standard_normal((samples, 24))
    gap = own * ((x[:, :2] ** 2 - 1) @ model.teacher.a - 0.3 * (np.sum(x[:, -4:] ** 2, axis=1) - 4))
    squares = (2 * 0.3 * own * gap * x[:, -1])[:, None] ** 2 * x[:, [0, 1, 10]] ** 2
    mean, error = squares.mean(axis=0), squares.std(axis=0) / np.sqrt(samples)
    assert mean[2] == pytest.approx(entry_variance(model), abs=4 * error[2])
    rise = (mean[:2].sum() / mean[2] - 2) / (2 * 20)
    slack = 4 * np.hypot(error[:2].sum(), 2 * error[2]) / mean[2] / (2 * 20)
    assert teachers_share(model) == pytest.approx(rise, abs=slack)
    assert abs(rise) > 3 * slack


@pytest.mark.parametrize("width", [1, 4, 30])
def test_what_the_students_own_labels_add_to_the_noise_of_a_sample(width: int) -> None:
    """By quadrature over the squared length s of a sample's part in the student: E (s − N)²s, beside the teacher's 2S E s."""
    own, first = (chi2(width).expect(f) for f in (lambda s: (s - width) ** 2 * s, lambda s: s))
    found = variance().subs({N: width, gamma: 0.7, square: 0.3})
    assert float(found) == pytest.approx(4 * 0.7**2 * (2 * 0.3 * first + 0.7**2 * own) / width, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "off"), [(60, 8, 0.005), (30, 30, 0.005), (2, 20, 0.02), (7, 6, 0.02), (9, 1, 0.0)]
)
def test_mean_of_the_largest_singular_value(rows: int, columns: int, off: float) -> None:
    """Within the error that it states, below a tenth of the Tracy-Widom shift's size at the first two."""
    tops = np.linalg.norm(np.random.default_rng(7).standard_normal((4000, rows, columns)), 2, axis=(1, 2))
    allowed = 4 * tops.std() / np.sqrt(len(tops)) + off * tops.mean()
    assert largest_singular_value(rows, columns) == pytest.approx(tops.mean(), abs=allowed)
    assert largest_singular_value(columns, rows) == largest_singular_value(rows, columns)


@pytest.mark.parametrize("rows", [100, 200, 400])
def test_two_long_columns_have_the_mean_of_their_own_law(rows: int) -> None:
    r"""Within .12 %, by quadrature of the density $(st)^{n-2}|s^2-t^2|e^{-(s^2+t^2)/2}$ of both singular values; the root of
    the mean eigenvalue is larger than the mean root.
    """
    s, t = np.meshgrid(*[np.linspace(0.0, np.sqrt(rows) + 9, 1001)[1:]] * 2)
    log = (rows - 2) * np.log(s * t) - (s**2 + t**2) / 2
    density = np.abs(s**2 - t**2) * np.exp(log - log.max())
    assert largest_singular_value(rows, 2) == pytest.approx(np.average(np.maximum(s, t), weights=density), rel=1.2e-3)


def test_a_law_of_large_matrices_is_not_told_of_small_ones() -> None:
    with pytest.raises(InputError, match="rows × columns is 2 × 2"):
        largest_singular_value(2, 2)


def test_the_fourth_moment_of_a_sample_is_what_few_samples_are_short_of() -> None:
    model, rng, samples = model_of((1.0, 0.4), 12, 4, 0.7), np.random.default_rng(5), 400_000
    h, on = rng.standard_normal((samples, 4)), rng.standard_normal((samples, 2))
    length = np.sum(h**2, axis=1)
    fourth = (2 * 0.7 * ((on**2 - 1) @ model.teacher.a - 0.7 * (length - 4))) ** 4 * length**2
    fourth *= np.sum(rng.standard_normal((samples, 8)) ** 2, axis=1) ** 2  # (as if P were small beside D = 8)
    rest = 1 / (entry_variance(model) ** 2 * (np.sqrt(8) + 2) ** 4)
    error = fourth.std() * rest / np.sqrt(samples)
    assert few_samples(model, 1) == pytest.approx(fourth.mean() * rest, abs=4 * error)
    assert 4 * error < 0.15 * few_samples(model, 1)  # 8² in place of 8·10 is a fifth less
    assert few_samples(model, 2000) == pytest.approx(few_samples(model, 1) / 2000)
    assert few_samples(model_of((1.0, 0.4), 12, 4, 0.7, "h2"), 1) == pytest.approx(few_samples(model, 1))


@pytest.mark.parametrize("asked", [entry_variance, teachers_share, lambda model: few_samples(model, 10)])
def test_a_student_that_has_no_room_across_the_teacher_is_refused(asked: Callable[[QuadraticModel], float]) -> None:
    with pytest.raises(InputError, match="dim is 5: give 6 or more"):
        asked(model_of((1.0, 0.4), 5, 4, 0.7))
