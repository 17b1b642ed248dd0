"""Initial states: the law of uniform vectors on the sphere, without vectors."""

import numpy as np
import pytest
from scipy import stats

from theory import InputError, Student, Teacher, draw_initial_state
from theory.core import initial

DIM, TEACHERS, STUDENTS, DRAWS = 6, 3, 3, 6000
#: Probability of a false alarm of one test; a wrong law must be rejected far beyond it.
LEVEL = 1e-4


def sample(dim: int = DIM, seed: int = 0, scale: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps with the teacher (draws, m, P), overlaps between students (draws, m, m)."""
    teacher, rng = Teacher.of([1.0] * TEACHERS, dim), np.random.default_rng(seed)
    states = [draw_initial_state(teacher, Student(STUDENTS, scale), rng) for _ in range(DRAWS)]
    return np.array([s.overlap for s in states]), np.array([s.student_overlap for s in states])


@pytest.fixture(scope="module")
def right() -> tuple[np.ndarray, np.ndarray]:
    return sample()


def one_coordinate(values: np.ndarray, dim: int = DIM) -> float:
    """p-value of values² against Beta(½, (d−1)/2), the law of one squared coordinate on the sphere."""
    return float(stats.kstest(values**2, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue)


@pytest.mark.parametrize(("neuron", "direction"), [(0, 0), (1, 2), (2, 0), (2, 2)])
def test_overlaps_are_coordinates_of_a_uniform_vector(
    right: tuple[np.ndarray, np.ndarray], neuron: int, direction: int
) -> None:
    values = right[0][:, neuron, direction]
    assert one_coordinate(values) > LEVEL
    assert abs(values.mean()) < 4 / np.sqrt(DIM * DRAWS)


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (1, 2)])
def test_cosines_between_students_have_the_same_law(
    right: tuple[np.ndarray, np.ndarray], pair: tuple[int, int]
) -> None:
    values = right[1][:, pair[0], pair[1]]
    assert one_coordinate(values) > LEVEL
    assert abs(values.mean()) < 4 / np.sqrt(DIM * DRAWS)
    np.testing.assert_array_equal(values, right[1][:, pair[1], pair[0]])


def test_share_on_the_teacher_space(right: tuple[np.ndarray, np.ndarray]) -> None:
    """Σ_p u_p² ~ Beta(P/2, (d−P)/2)."""
    share = np.sum(right[0][:, 1] ** 2, axis=1)
    assert stats.kstest(share, stats.beta(TEACHERS / 2, (DIM - TEACHERS) / 2).cdf).pvalue > LEVEL


def test_joint_law_of_overlaps_and_cosines(right: tuple[np.ndarray, np.ndarray]) -> None:
    """Against explicit vectors of R^d: E t_kp t_lp c_kl = 1/d², and a two-sample test of the product."""
    vectors = np.random.default_rng(9).standard_normal((DRAWS, 2, DIM))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    direct = vectors[:, 0, 0] * vectors[:, 1, 0] * np.einsum("ni,ni->n", vectors[:, 0], vectors[:, 1])
    found = right[0][:, 0, 0] * right[0][:, 1, 0] * right[1][:, 0, 1]
    assert abs(found.mean() - 1 / DIM**2) < 4 * found.std() / np.sqrt(DRAWS)
    assert found.mean() > 8 * found.std() / np.sqrt(DRAWS)  # zero is far away
    assert stats.ks_2samp(found, direct).pvalue > LEVEL


@pytest.mark.parametrize("shift", [TEACHERS, -1])
def test_wrong_degrees_of_freedom_are_rejected(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    """Wishart with d (not d − P) degrees of freedom, or with one too few."""
    bartlett = initial.bartlett
    monkeypatch.setattr(initial, "bartlett", lambda rng, width, freedom: bartlett(rng, width, freedom + shift))
    dim = DIM + 1  # room for one degree less
    overlap, cosines = sample(dim)
    assert one_coordinate(overlap[:, 0, 0], dim) < LEVEL**2
    assert one_coordinate(cosines[:, 0, 1], dim) < LEVEL


def test_constant_degrees_of_freedom_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Bartlett factor whose diagonal forgets to lose one degree a row."""

    def wrong(rng: np.random.Generator, width: int, freedom: int) -> np.ndarray:
        factor = np.tril(rng.standard_normal((width, width)), k=-1)
        np.fill_diagonal(factor, np.sqrt(rng.chisquare(np.full(width, freedom))))
        return factor

    monkeypatch.setattr(initial, "bartlett", wrong)
    assert one_coordinate(sample()[0][:, 2, 0]) < LEVEL**2


def test_bartlett_factor_has_wishart_moments() -> None:
    """E AAᵀ = n I, E (AAᵀ)_12² = n."""
    rng, freedom = np.random.default_rng(3), 7
    drawn = np.array([(lambda f: f @ f.T)(initial.bartlett(rng, 3, freedom)) for _ in range(20_000)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - freedom * np.eye(3)) < 4.5 * error)
    square = drawn[:, 0, 1] ** 2
    assert abs(square.mean() - freedom) < 4 * square.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize("scale", [1e-8, 0.03, 2.0])
def test_norms_are_exact_and_the_triangle_is_lower(scale: float) -> None:
    state = draw_initial_state(Teacher.of([1.0, 0.5], 40), Student(7, scale), 0)
    np.testing.assert_allclose(state.norm2, scale**2, rtol=1e-13)
    np.testing.assert_array_equal(state.residual, np.tril(state.residual))
    assert (state.on_teachers.shape, state.residual.shape) == ((7, 2), (7, 7))
    np.testing.assert_array_equal(np.diag(state.student_overlap), 1.0)
    gram = np.linalg.eigvalsh(state.student_overlap - state.overlap @ state.overlap.T)
    assert gram.min() > -1e-12


def test_dimension_enters_only_as_a_number() -> None:
    dim = 10**9
    state = draw_initial_state(Teacher.of([1.0] * 20, dim), Student(200), 1)
    assert one_coordinate(state.overlap.ravel(), dim) > LEVEL
    assert np.sum(state.overlap**2, axis=1).mean() == pytest.approx(20 / dim, rel=0.1)


def test_seeds_reproduce_and_differ() -> None:
    teacher, student = Teacher.of([1.0, 0.5], 40), Student(5)
    first, again, other = (draw_initial_state(teacher, student, seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.on_teachers, again.on_teachers)
    np.testing.assert_array_equal(first.residual, again.residual)
    assert not np.any(first.on_teachers == other.on_teachers)
    generator = draw_initial_state(teacher, student, np.random.default_rng(4))
    np.testing.assert_array_equal(generator.on_teachers, first.on_teachers)


def test_too_small_a_dimension_is_refused() -> None:
    draw_initial_state(Teacher.of([1.0, 0.5], 7), Student(5), 0)
    with pytest.raises(InputError, match=r"dim 6 is below .* = 7"):
        draw_initial_state(Teacher.of([1.0, 0.5], 6), Student(5), 0)
