"""Quadratic networks, theory: derivation, risks, subspaces, units, scaling laws, self-consistent law."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import (
    Activation,
    DerivationError,
    InitialState,
    InputError,
    QuadraticModel,
    Subspace,
    Teacher,
    draw_subspace,
)
from theory.core import words
from theory.quadratic import riccati, riccati_checks, scaling
from theory.quadratic.model import (
    decoupled_overlaps,
    decoupled_risk,
    emergence_times,
    floor,
    flow_risk,
    half_times,
    optimal_risk,
    quadratic_moment,
)
from theory.quadratic.occupation import Occupation
from theory.quadratic.subspace import draw_columns
from validation.experiments.quadratic_runs import between


def spectrum(teachers: int, decay: float = 1.0) -> np.ndarray:
    a = np.arange(1, teachers + 1, dtype=float) ** -decay
    return a / np.linalg.norm(a)


# ------------------------------------------------------------------------ derivation


def test_every_step_holds() -> None:
    derivation = riccati.derivation()
    assert derivation.verify() == len(derivation.steps) - 2


def test_the_equation_is_that_of_the_paper() -> None:
    assert sp.expand(riccati.overlap_rate() - (riccati.A * riccati.G + riccati.G * riccati.A)) == sp.expand(
        -2 * riccati.G * riccati.A * riccati.G
    )


@pytest.mark.parametrize(
    "check", [riccati_checks.block_residual, riccati_checks.overlap_residual, riccati_checks.projector_residual]
)
@pytest.mark.parametrize("factor", [1, sp.Rational(41, 20)])
def test_a_wrong_damping_is_noticed(check, factor) -> None:  # type: ignore[no-untyped-def]
    with_factor = lambda matrix, x: matrix * x + x * matrix - factor * x * matrix * x  # noqa: E731
    assert sp.N(check(with_factor)) > 1e-3
    assert check(lambda matrix, x: matrix * x + x * matrix - 2 * x * matrix * x) < 1e-30


def test_a_wrong_closed_form_is_noticed() -> None:
    rate = riccati.as_function(riccati.overlap_rate(), riccati.A, riccati.G)
    form = riccati.as_function(riccati.closed_overlap_of_start(), riccati._E, riccati._G0)
    assert riccati_checks.closed_residual(form, rate) < 1e-30
    assert riccati_checks.closed_residual(lambda e, g: form(e * e, g), rate) > 1e-3


def test_a_broken_step_raises() -> None:
    step = riccati.derivation().steps[3]
    broken = replace(step, residual=lambda _: sp.Integer(1))
    with pytest.raises(DerivationError, match="Gradient flow of W"):
        broken.verify()


@pytest.mark.parametrize(
    "system", [riccati.overlap_system, riccati.factor_system, riccati.product_system, riccati.weight_system]
)
def test_systems_verify_in_components(system) -> None:  # type: ignore[no-untyped-def]
    system().derivation.steps[-1].verify()


def test_components_of_the_riccati_flow() -> None:
    (sums,) = riccati.overlap_system().drift.values()
    assert len(sums) == 3
    assert sum(bool(term.bound) for term in sums) == 1


def test_words_shorten_and_differentiate() -> None:
    x, y = sp.symbols("x y", commutative=False)
    assert words.reduce(2 * x * y * x * y + y, [((x, y), ())]) == 2 + y
    assert words.rate(x**2 * y, {x: y}) == y * x * y + x * y**2


# ------------------------------------------------------------------------------ risks


def dense(start: Subspace, teachers: int) -> tuple[np.ndarray, np.ndarray]:
    rows = start.rows
    a = np.zeros(len(rows))
    a[:teachers] = spectrum(teachers)
    return np.diag(a), rows


@pytest.mark.parametrize("width", [2, 5, 9])
def test_risks_against_dense_matrices(width: int) -> None:
    start = draw_subspace(5, width, 14, width)
    target, rows = dense(start, 5)
    best = rows @ (rows.T @ target @ rows) @ rows.T
    assert optimal_risk(spectrum(5), start.on_teachers) == pytest.approx(2 * np.sum((target - best) ** 2), abs=1e-13)
    columns = draw_columns(5, width, 14, width)
    target, rows = dense(columns, 5)
    expected = 2 * np.sum((target - rows @ rows.T) ** 2)
    assert flow_risk(spectrum(5), columns.on_teachers, columns.rest) == pytest.approx(expected, rel=1e-12)


def test_floor_is_the_best_rank() -> None:
    a = spectrum(6)
    assert floor(a[::-1], 2) == pytest.approx(2 * np.sum(a[2:] ** 2))
    assert floor(a, 6) == 0.0


# -------------------------------------------------------------------------- subspaces


def test_subspace_of_overlap_completes_the_frame() -> None:
    z = draw_subspace(4, 3, 9, 1).on_teachers
    frame = Subspace.of_overlap(z)
    assert np.allclose(frame.rows.T @ frame.rows, np.eye(3), atol=1e-14)


def test_subspace_of_state_is_the_span_of_the_neurons() -> None:
    rng = np.random.default_rng(0)
    state = InitialState(rng.standard_normal((3, 4)), np.tril(rng.standard_normal((3, 3))))
    assert np.array_equal(Subspace.of_state(state).rows, np.hstack([state.on_teachers, state.residual]).T)


@pytest.mark.parametrize(("dim", "width"), [(20, 4), (6, 5), (10**9, 4)])
def test_haar_law_of_the_diagonal(dim: int, width: int) -> None:
    """G₁₁ is Beta(N/2, (d−N)/2): mean N/d, variance 2N(d−N)/(d²(d+2)); a Gaussian guess 2N/d² would fail at d = 6."""
    values = np.array([np.sum(draw_subspace(3, width, dim, i).on_teachers[0] ** 2) for i in range(2000)])
    mean, variance = width / dim, 2 * width * (dim - width) / (dim**2 * (dim + 2.0))
    assert abs(values.mean() - mean) < 4.5 * np.sqrt(variance / 2000)
    kurtosis = np.mean((values - mean) ** 4) / variance**2
    assert abs(values.var() / variance - 1) < 4.5 * np.sqrt((kurtosis - 1) / 2000)


def test_frames_are_orthonormal_with_small_rows() -> None:
    frame = draw_subspace(6, 4, 10**9, 0)
    assert np.allclose(frame.rows.T @ frame.rows, np.eye(4), atol=1e-13)
    assert 0 < np.abs(frame.on_teachers).max() < 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_subspace(3, 12, 10, 0), "student width 12 exceeds dim 10"),
        (lambda: draw_subspace(12, 3, 10, 0), "teacher width 12 exceeds dim 10"),
        (lambda: Subspace.of_overlap(2 * np.eye(2)), "singular value 2"),
        (lambda: Subspace.of_overlap([[np.nan]]), "give a finite matrix"),
        (lambda: Subspace(np.ones((3, 2)), np.zeros((1, 2))).orthonormal(), "linearly dependent"),
        (lambda: Subspace(np.eye(3, 2) * [1, 0], np.zeros((1, 2))).orthonormal(), "linearly dependent"),
        (lambda: QuadraticModel(Teacher.power_law(2, 1.0, 10), 11), "student width 11 exceeds dim 10"),
        (lambda: QuadraticModel(Teacher.power_law(2, 1.0, 10), 2, 0.0), "speed factor is 0.0"),
        (lambda: QuadraticModel(Teacher.power_law(2, 1.0, 10), 2, -1.0), "speed factor is -1.0"),
        (lambda: quadratic_moment(Activation.parse("h4")), "activation is 'h4'"),
        (lambda: scaling.heavy_time(0.7, 0.5), "decay is 0.7"),
        (lambda: Teacher.of([1.0, 0.0], 10), "must all be positive"),
    ],
)
def test_bad_input_is_one_line(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------ units


def test_clocks() -> None:
    teacher = Teacher.of([3.0, 4.0], 100, normalise=False)
    model = QuadraticModel.of(Activation.parse("quadratic"), teacher, 2, 0.5)
    assert model.riccati_rate == pytest.approx(2 * 2 * 5 * 0.5)
    assert QuadraticModel.of(Activation.parse("h2"), teacher, 2).riccati_rate == pytest.approx(2 * 1 * 5)
    assert model.common_time(model.riccati_time([1.0, 2.0])) == pytest.approx([1.0, 2.0])
    assert float(model.loss(2.0)) == pytest.approx(0.5 * 2 * 25)
    assert model.emergence_time == pytest.approx(np.log(50) / (2 * 0.5 * 2 * 2 * np.array([3.0, 4.0])))


def test_emergence_times_and_decoupled_overlaps_agree() -> None:
    a = spectrum(3)
    half = half_times(a, 10**6, 4)
    assert np.diag(decoupled_overlaps(a, 10**6, 4, half)) == pytest.approx([0.5] * 3)
    assert half / emergence_times(a, 10**6, 4) == pytest.approx([1.0] * 3, abs=1e-6)
    assert np.array_equal(half_times(a, 10, 8), np.zeros(3))


# ----------------------------------------------------------------------- scaling laws


def test_exponents() -> None:
    found, b = scaling.exponents(), scaling.beta
    assert sp.simplify(found["time"] - (1 - 2 * b) / b) == 0
    assert sp.simplify(found["width"] - (1 - 2 * b)) == 0
    assert sp.simplify(found["compute"] - (1 - 2 * b) / (1 + b + scaling.power)) == 0
    assert scaling.compute_exponent(1.0, 0.5) == pytest.approx(-0.4)
    assert scaling.time_exponent(0.8) == pytest.approx(-0.75)
    assert scaling.exponent_values(0.4) == {"time": None, "width": None, "compute": None}
    assert scaling.exponent_values(None)["time"] is None


def test_heavy_tail_is_the_staircase_of_the_emergence_times() -> None:
    """At the time at which direction xM* emerges, what is left is the sum over the directions beyond it."""
    decay, teachers = 0.25, 200_000
    a = spectrum(teachers, decay)
    for share in (0.1, 0.5):
        left = np.sum(a[int(share * teachers) :] ** 2)
        time = scaling.heavy_time(decay, share)
        assert float(scaling.heavy_risk(decay, time, 1.0)) == pytest.approx(left, rel=0.01)
        moment = emergence_times(a, 10**9, 1000)[int(share * teachers) - 1]
        assert moment / scaling.heavy_unit(teachers, 10**9, 1000) == pytest.approx(float(time), rel=0.01)


# --------------------------------------------------------------- self-consistent law


def test_law_fills_the_width() -> None:
    law = Occupation(spectrum(30), 10**4, 12)
    for time in (0.0, 3.0, 50.0):
        logit, variance, _ = law._laws([time])
        level = law._level(2 * time * law.spectrum[None, :])
        outside = (10**4 - 30) / (1 + np.exp(-level[0]))
        assert law.diagonal([time]).sum() + outside == pytest.approx(12, rel=1e-10)
        assert variance[0] > 0
        assert logit.shape == (1, 30)
    assert law.diagonal([0.0])[0] == pytest.approx([12 / 10**4] * 30)
    assert law._laws([0.0])[1][0] == pytest.approx(12 * (1 - 12 / 10**4))  # V at the start, where all places are alike


def test_fluctuations_keep_the_mean_of_the_odds() -> None:
    r"""Of a place that is hardly ever taken, whose share is its odds; three points leave out $s^6/120$ of spread s."""
    law = Occupation(spectrum(3), 100, 5, fluctuations=True)
    variance = 4.0
    found = law._mean(np.array([[-20.0]]), np.array([variance]), 1)[0, 0]
    assert found == pytest.approx(np.exp(-20.0), rel=2 * (2 / variance) ** 3 / 120)


def test_law_starts_and_ends_right() -> None:
    a = spectrum(30)
    law = Occupation(a, 10**4, 12)
    assert law.risk([0.0])[0] == pytest.approx(2, abs=1e-2)
    assert law.risk([1e5])[0] == pytest.approx(floor(a, 12), rel=1e-8)
    assert Occupation(a, 100, 100).risk([0.0, 5.0]) == pytest.approx([0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("width", [3, 30, 48])
def test_half_time_of_a_single_direction(width: int) -> None:
    r"""Half a place is taken there, N − ½ of the d − 1 others: $2a\tau=\ln\frac{d-N-1/2}{N-1/2}$, near N = d/2, too."""
    (found,) = Occupation(np.array([1.0]), 100, width).half_times()
    assert found == pytest.approx(np.log((99.5 - width) / (width - 0.5)) / 2, rel=1e-5)


def test_exact_mean_risk_at_the_start() -> None:
    """E tr(ÃGÃG) of a Haar projector is known exactly; the law must agree to relative order 1/d."""
    dim, width, a = 400, 120, spectrum(6)
    p, same = width / dim, 2.0 * width * (dim - width) / (dim**2 * (dim + 2.0))
    off = width * (dim - width) / (dim * (dim - 1.0) * (dim + 2.0))
    exact = 2 * (1 - np.sum(a**2) * (p**2 + same) - off * (np.sum(a) ** 2 - np.sum(a**2)))
    assert Occupation(a, dim, width).risk([0.0])[0] == pytest.approx(exact, rel=5 / dim)


def test_half_times_solve_the_law() -> None:
    law = Occupation(spectrum(40), 10**6, 12)
    times = law.half_times()
    assert np.isfinite(times).sum() == 12
    found = [law.diagonal([times[j]])[0, j] for j in range(12)]
    assert found == pytest.approx([0.5] * 12, abs=1e-5)
    assert np.array_equal(Occupation(spectrum(3), 10, 6).half_times(), np.zeros(3))


@pytest.mark.parametrize(("teachers", "width", "dim"), [(4, 6, 100), (8, 50, 59), (8, 50, 58), (60, 40, 10**9)])
def test_squared_overlaps_need_no_frame(teachers: int, width: int, dim: int) -> None:
    """Triangular and not, many more directions than columns and few more."""
    columns = draw_columns(teachers, width, dim, 1)
    frame = columns.orthonormal().on_teachers
    np.testing.assert_allclose(columns.squared_overlaps(), np.sum(frame**2, axis=1), rtol=1e-12)


def test_squared_overlaps_of_dependent_columns_are_refused() -> None:
    columns = Subspace(np.ones((2, 3)), np.diag([1.0, 0.0, 0.0]))
    with pytest.raises(InputError, match="linearly dependent"):
        columns.squared_overlaps()


def test_the_decoupled_risk_lacks_the_squares_of_what_is_held() -> None:
    """2(1 − Σa²G²): G = N/d at the start, ½ of the first direction at its half time, everything in the end."""
    a, dim, width = np.array([0.8, 0.6]), 60, 3
    other = 1 / (1 + 19 ** (1 - 0.6 / 0.8))
    found = decoupled_risk(a, dim, width, [0.0, half_times(a, dim, width)[0], 100.0])
    assert found == pytest.approx([2 * (1 - 0.05**2), 2 * (1 - 0.64 / 4 - 0.36 * other**2), 0.0], abs=1e-12)


def test_times_between_two_emergences_are_geometric() -> None:
    a = np.array([0.8, 0.5, 0.2])
    found = between(a, 4, 400, 1, 3, 3)
    assert found == pytest.approx(np.log(100) / 2 * np.array([1 / 0.8, 1 / 0.4, 1 / 0.2]))
