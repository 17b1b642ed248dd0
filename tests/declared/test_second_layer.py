"""A second layer trained beside its row, and how much light students see of each other: formulas by other roads."""

import numpy as np
import pytest
import scipy
import sympy as sp

from tests.core.test_shown_is_checked import survivors
from theory import Activation, InputError, Teacher
from theory.additive.interaction import mean_square, moment_of_cosine
from theory.declared import second_layer
from theory.declared.second_layer import leading_time, passage_time
from theory.quadratic.gradient_noise import entry_variance, few_samples, largest_singular_value
from theory.quadratic.model import QuadraticModel

H3 = Activation.parse("h3")


def test_its_equations_are_checked() -> None:
    assert survivors(second_layer.derivation()) == []


def test_the_exact_time_tends_to_the_leading_one() -> None:
    symbols = dict(zip("at", (second_layer.a, second_layer.t0), strict=True))
    known = {second_layer.J: 3, second_layer.s: 1, second_layer.one: 1, symbols["a"]: 0.8}
    ratios = [
        passage_time(H3, 0.8, overlap, 0.0) / float(leading_time().subs({**known, symbols["t"]: overlap}))
        for overlap in (0.2, 0.1, 0.05)
    ]
    gaps = np.abs(np.array(ratios) - 1)
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 0.01


@pytest.mark.parametrize(("text", "overlap"), [("h1", 0.1), ("h3", 0.0)])
def test_a_search_that_is_none_or_never_begins_is_refused(text: str, overlap: float) -> None:
    with pytest.raises(InputError):
        passage_time(Activation.parse(text), 1.0, overlap, 0.0)


def test_either_sign_of_the_overlap_will_do() -> None:
    assert passage_time(H3, 1.0, -0.2, 0.0) == pytest.approx(passage_time(H3, 1.0, 0.2, 0.0))


@pytest.mark.parametrize(("power", "dim"), [(2, 3), (4, 7), (6, 20), (3, 5)])
def test_moments_of_a_cosine(power: int, dim: int) -> None:
    moment, total = (
        scipy.integrate.quad(lambda c, n: c**n * (1 - c * c) ** ((dim - 3) / 2), -1, 1, args=(n,))[0]
        for n in (power, 0)
    )
    assert float(moment_of_cosine(power, dim)) == pytest.approx(moment / total, abs=1e-9)


def test_of_students_without_mass_nothing_is_seen_and_kernels_must_be_sums() -> None:
    assert mean_square(H3, np.zeros(5), 10) == 0
    assert mean_square(H3, np.ones(2), 10) == pytest.approx(
        float(9 * (moment_of_cosine(4, 10) - moment_of_cosine(6, 10)) / sp.Integer(9))
    )
    with pytest.raises(InputError, match="no polynomial kernel"):
        mean_square(Activation.parse("erf"), np.ones(3), 10)


def test_noise_of_a_sample_and_its_largest_singular_value() -> None:
    model = QuadraticModel(Teacher.of([1.0, 0.5], 24), 4, 0.5)
    rng, samples = np.random.default_rng(3), 400_000
    x = rng.standard_normal((samples, 24))
    gap = (x[:, :2] ** 2 - 1) @ model.teacher.a - 0.5 * (np.sum(x[:, -4:] ** 2, axis=1) - 4)
    entry = (gap * x[:, -1] * x[:, 10]) ** 2
    assert entry.mean() == pytest.approx(entry_variance(model), abs=4 * entry.std() / np.sqrt(samples))
    tops = np.array([np.linalg.norm(rng.standard_normal((60, 8)), 2) for _ in range(2000)])
    assert tops.mean() == pytest.approx(largest_singular_value(60, 8), rel=5e-3)
    assert few_samples(model, 2000) == pytest.approx(few_samples(model, 1000) / 2)
