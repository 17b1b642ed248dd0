"""The closed forms of the Riccati flow: against high precision, against integration, and without overflow."""

import warnings

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from ambient import ambient_gradient_flow

from dynamics import quadratic_flow, riccati_flow
from dynamics.additive.ambient_flow import ambient_loss
from dynamics.quadratic.riccati import _ROUNDING, Echelon
from dynamics.quadratic.riccati_data import riccati_dataset
from dynamics.quadratic.riccati_integration import integrate, integrate_overlap
from theory import Activation, InputError, QuadraticModel, Student, Subspace, Teacher, draw_initial_state, draw_subspace
from theory.quadratic.occupation import Occupation
from theory.quadratic.riccati import product_system, weight_system
from theory.quadratic.subspace import draw_columns


def spectrum(teachers: int, decay: float = 1.0) -> np.ndarray:
    a = np.arange(1, teachers + 1, dtype=float) ** -decay
    return a / np.linalg.norm(a)


def tied_spectrum(teachers: int = 40) -> np.ndarray:
    """Slow decay, equal and nearly equal entries, shuffled."""
    a = np.arange(1, teachers + 1, dtype=float) ** -0.25
    a[5], a[7], a[20:24] = a[4], a[6] * (1 - 1e-9), a[20]
    return np.random.default_rng(1).permutation(a / np.linalg.norm(a))


def in_high_precision(a: np.ndarray, start: Subspace, time: float) -> np.ndarray:
    """ΘᵀΠΘ of span(e^{τM}W₀): explicit exponentials and a Cholesky factor with enough digits for their range."""
    rates = sorted([*a, *[0.0] * len(start.rest)], reverse=True)
    digits = 80 + int(2.2 * time * (rates[0] - rates[start.width - 1]) / np.log(10))
    with mp.workdps(digits):
        weights = [mp.exp(time * (mp.mpf(x) - mp.mpf(rates[0]))) for x in [*a.tolist(), *[0.0] * len(start.rest)]]
        rows = [[w * mp.mpf(x) for x in row] for w, row in zip(weights, start.rows.tolist(), strict=True)]
        columns = list(zip(*rows, strict=True))
        basis: list[list[mp.mpf]] = []
        for column in columns:  # Gram–Schmidt, exact enough at these digits
            left = list(column)
            for known in basis:
                along = mp.fdot(known, column)
                left = [x - along * y for x, y in zip(left, known, strict=True)]
            size = mp.sqrt(mp.fdot(left, left))
            basis.append([x / size for x in left])
        z = np.array([[float(x) for x in known[: a.size]] for known in basis]).T
    return z @ z.T


@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize("time", [0.0, 30.0, 1e4])
def test_against_high_precision(width: int, time: float) -> None:
    a, dim = tied_spectrum(), 10**6
    start = draw_columns(40, width, dim, width)
    found, exact = riccati_flow(a, start).matrix([time])[0], in_high_precision(a, start, time)
    assert np.linalg.norm(found - exact, 2) <= 1e-10 * np.linalg.norm(exact, 2)


def test_the_comparison_can_fail() -> None:
    a = tied_spectrum()
    start = draw_columns(40, 5, 10**6, 5)
    exact = in_high_precision(a, start, 30.0)
    close = riccati_flow(a, start).matrix([30.0 * (1 + 1e-8)])[0]
    assert np.linalg.norm(close - exact, 2) > 1e-10 * np.linalg.norm(exact, 2)


@pytest.mark.parametrize("width", [1, 7, 30, 45])
@pytest.mark.parametrize("dim", [60, 10**9])
def test_properties_at_any_time(width: int, dim: int) -> None:
    a = spectrum(30)
    times = np.array([0.0, 1e-9, 1.0, 1e2, 1e4, 1e8, 1e300])
    for g in riccati_flow(a, draw_subspace(30, width, dim, 3)).matrix(times):
        assert np.all(np.isfinite(g))
        assert np.array_equal(g, g.T)
        values = np.linalg.eigvalsh(g)
        assert values.min() > -1e-13
        assert values.max() < 1 + 1e-13
    assert np.trace(g) == pytest.approx(min(width, 30), rel=1e-12)
    late = quadratic_flow(a, draw_columns(30, width, dim, 3)).risk(times)
    assert np.all(np.isfinite(late))


@pytest.mark.slow_for("9")
@pytest.mark.parametrize("width", [2, 9])
def test_against_integration(width: int) -> None:
    a, times = spectrum(4), np.array([0.0, 0.5, 2.0, 8.0])
    start = draw_columns(4, width, 12, width)
    start = Subspace(0.1 * start.on_teachers, 0.1 * start.rest)
    rates = np.concatenate([a, np.zeros(len(start.rest))])
    w = integrate(weight_system(), start.rows, rates, times, rtol=1e-11, atol=1e-13, symmetric=False)
    product, transposed = w @ np.swapaxes(w, 1, 2), np.swapaxes(w, 1, 2)
    flow = riccati_flow(a, start)
    assert np.allclose(quadratic_flow(a, start).matrix(times), product, atol=1e-9)
    assert np.allclose(integrate_overlap(a, start, times, rtol=1e-11, atol=1e-13), flow.matrix(times), atol=1e-8)
    polar = w @ np.linalg.solve(transposed @ w, transposed)
    assert np.allclose(polar[:, :4, :4], flow.matrix(times), atol=1e-9)


def test_product_system_integrates_to_the_same() -> None:
    a, times = spectrum(3), np.array([0.5, 3.0])
    start = draw_columns(3, 2, 8, 0)
    rates = np.concatenate([a, np.zeros(len(start.rest))])
    found = integrate(product_system(), start.rows @ start.rows.T, rates, times, rtol=1e-11, atol=1e-13)
    assert np.allclose(found, quadratic_flow(a, start).matrix(times), atol=1e-9)


@pytest.mark.slow
def test_same_as_the_additive_models_gradient_flow() -> None:
    """Ambient gradient flow of the additive model with σ = z² − 1, in common time, has the loss of the closed form."""
    quadratic, teacher = Activation.parse("quadratic"), Teacher.power_law(3, 1.0, 8)
    state = draw_initial_state(teacher, Student(2, 0.5), 1)
    times = np.array([0.4, 1.0])
    vectors = ambient_gradient_flow(quadratic, teacher, state, times=times)
    loss = [float(ambient_loss(quadratic, jnp.asarray(v), jnp.asarray(teacher.a))) for v in vectors]
    model = QuadraticModel.of(quadratic, teacher, 2)
    full = quadratic_flow(model.spectrum, Subspace.of_state(state))
    assert np.allclose(loss, model.loss(full.risk(model.riccati_time(times))), rtol=1e-7)
    assert not np.allclose(loss, model.loss(full.risk(times)), rtol=1e-2)


def test_diagonal_and_risk_are_those_of_the_matrix() -> None:
    a, times = spectrum(6), np.array([0.0, 2.0, 9.0])
    flow = riccati_flow(a, draw_subspace(6, 3, 100, 0))
    g, (diagonal, risk) = flow.matrix(times), flow.curves(times)
    assert np.allclose(diagonal, np.diagonal(g, axis1=1, axis2=2), atol=1e-15)
    assert np.allclose(flow.diagonal(times), diagonal)
    assert np.allclose(risk, [2 * (1 - np.trace(np.diag(a) @ x @ np.diag(a) @ x)) for x in g])
    assert np.allclose(flow.risk(times), risk)
    assert np.allclose(flow.factor(times) @ np.swapaxes(flow.factor(times), 1, 2), g)


def test_a_start_without_a_direction_never_finds_it() -> None:
    """Rank-deficient top block: the echelon form must look further down."""
    z = np.zeros((4, 2))
    z[1, 0] = z[2, 1] = 0.1
    flow = riccati_flow(spectrum(4), Subspace.of_overlap(z))
    assert flow.diagonal([1e3])[0] == pytest.approx([0, 1, 1, 0], abs=1e-12)


def nearly_lower_rank(seed: int, delta: float) -> tuple[Subspace, np.ndarray]:
    """One column reaches the teacher, the others by `delta`; and G of the frame as given."""
    columns = np.random.default_rng(seed).standard_normal((12, 3))
    columns[:4, 1:] *= delta
    frame = np.linalg.qr(columns)[0]
    return Subspace(frame[:4], np.linalg.qr(frame[4:])[1]), frame[:4] @ frame[:4].T


@pytest.mark.parametrize("delta", [0.0, 1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
def test_a_teacher_block_of_nearly_lower_rank(delta: float) -> None:
    """G(0) to rounding, and later as far as rounding of the start determines it: 1e-16/δ once the remainder has grown."""
    a, times = spectrum(4), np.array([0.0, 2.0, 10.0, 40.0, 200.0, 220.0])
    for seed in range(40):
        start, g = nearly_lower_rank(seed, delta)
        assert np.allclose(riccati_flow(a, start).matrix([0.0])[0], g, rtol=0, atol=1e-12)
        whole = quadratic_flow(a, start)
        assert np.allclose(whole.matrix([0.0])[0], start.rows @ start.rows.T, rtol=0, atol=1e-12)
        assert whole.risk([0.0])[0] == pytest.approx(2 * (1 - 2 * a @ np.diag(g) + 3), abs=1e-11)
    flow = riccati_flow(a, start)
    allowed = flow.uncertainty(times)
    assert allowed[0] < 1e-11
    assert allowed.max() * delta < 1e-12
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = flow.matrix(times)
    assert len(told) == (allowed.max() > 1e-3) == (delta < 1e-15)  # (once, not at each time)
    for g, time, slack in zip(found, times, allowed, strict=True):
        assert np.linalg.norm(g - in_high_precision(a, start, time), 2) <= 2 * slack + 1e-12


def test_the_worst_errors_of_the_columns_move_the_frame_as_far_as_is_said() -> None:
    """Of X = AB⁻¹, entry by entry: all errors of one relative size, with the signs that add up."""
    rng, small = np.random.default_rng(4), 1e-7
    columns = rng.standard_normal((7, 3)) * [1.0, 1e-3, 1e3]
    echelon = Echelon.of(spectrum(4), Subspace(columns[:4], columns[4:]))
    rows = np.vstack([columns[:4][echelon.order], columns[4:]])
    on, off = rows[echelon.pivots], rows[echelon.rest]
    frame, inverse = off @ np.linalg.inv(on), np.linalg.inv(on)
    np.testing.assert_allclose(echelon.frame, frame, rtol=1e-9)
    for i, j in np.ndindex(frame.shape):
        signs = np.sign(inverse[:, j])
        bent = on * (1 - small * np.outer(np.sign(frame[i]), signs) * np.sign(on))
        moved = (off[i] * (1 + small * signs * np.sign(off[i]))) @ np.linalg.inv(bent)
        assert moved[j] - frame[i, j] == pytest.approx(echelon.rounding[i, j] * small / _ROUNDING, rel=1e-4)


def test_small_overlaps_are_not_rounding() -> None:
    """A direction seen by 1e-30 of a column emerges when its logarithm says, and so does one of 1e-30 columns."""
    z, a = np.diag([0.5, 1e-30, 0.0]), spectrum(3)
    time = np.log(1e30) / a[1]
    flow = riccati_flow(a, Subspace.of_overlap(z))
    assert flow.diagonal([time])[0] == pytest.approx([1, 0.5, 0], abs=1e-12)
    assert flow.uncertainty([time])[0] < 1e-12
    start = draw_columns(4, 3, 9, 0)
    lengths = np.array([1.0, 1e-30, 1e30])
    scaled = Subspace(start.on_teachers * lengths, start.rest * lengths)
    assert np.allclose(*(riccati_flow(spectrum(4), x).matrix([0.0, 3.0]) for x in (start, scaled)), rtol=0, atol=1e-12)
    assert np.allclose(scaled.orthonormal().rows.T @ scaled.orthonormal().rows, np.eye(3), atol=1e-14)


def test_columns_as_many_as_directions_hold_all_of_them_at_any_time() -> None:
    start = Subspace(np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0], np.zeros((0, 3)))
    flow = riccati_flow(spectrum(3), start)
    np.testing.assert_allclose(flow.matrix([0.0, 2.0, 50.0]), [np.eye(3)] * 3, atol=1e-12)


def test_order_of_the_weights_does_not_matter() -> None:
    a, start = spectrum(5), draw_subspace(5, 3, 50, 0)
    turned = Subspace(start.on_teachers[::-1], start.rest)
    assert np.allclose(riccati_flow(a, start).diagonal([3.0])[:, ::-1], riccati_flow(a[::-1], turned).diagonal([3.0]))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_self_consistent_law_is_the_mean_over_starts(seed: int) -> None:
    """Within 4 standard errors and terms of order 1/N; the decoupled law is far off at late times."""
    a, dim, width = spectrum(100, 0.25), 10**6, 50
    times = np.array([15.0, 25.0, 40.0])
    runs = np.stack([riccati_flow(a, draw_columns(100, width, dim, 100 * seed + i)).risk(times) for i in range(12)])
    law, more = Occupation(a, dim, width), Occupation(a, dim, width, fluctuations=True)
    allowed = np.abs(law.risk(times) - more.risk(times))
    assert np.all(np.abs(runs.mean(axis=0) - law.risk(times)) < allowed + 4 * runs.std(axis=0, ddof=1) / np.sqrt(12))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: riccati_flow(spectrum(3), draw_subspace(3, 2, 9, 0)).risk([-1.0]), "time is -1"),
        (lambda: riccati_flow(spectrum(3), draw_subspace(3, 2, 9, 0)).risk([np.inf]), "time is inf"),
        (
            lambda: riccati_flow(spectrum(3), draw_subspace(3, 2, 9, 0)).risk([[1.0], [2.0]]),
            r"times have shape \(2, 1\)",
        ),
        (lambda: riccati_flow([1.0, -1.0, 1.0], draw_subspace(3, 2, 9, 0)), "positive finite"),
        (lambda: riccati_flow(spectrum(4), draw_subspace(3, 2, 9, 0)), "3 teacher rows, spectrum 4"),
        (lambda: riccati_flow(spectrum(3), Subspace(np.ones((3, 2)), np.ones((1, 2)))), "linearly dependent"),
        (lambda: integrate_overlap(spectrum(3), draw_subspace(3, 2, 9, 0), [2.0, 1.0]), "must increase"),
    ],
)
def test_bad_input_is_one_line(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_dataset_has_the_contracts_fields() -> None:
    model = QuadraticModel(Teacher.power_law(4, 1.0, 100), 3)
    data = riccati_dataset(model, np.linspace(0, 5, 6), replicas=2, seed=0)
    assert data["overlap"].dims == ("replica", "time", "neuron", "direction")
    assert data["overlap"].shape == (2, 6, 3, 4)
    assert np.allclose((data["overlap"] ** 2).sum("neuron"), data["diagonal"])
    assert float(data["loss"][0, 0]) == pytest.approx(1.0, abs=0.1)
    assert "overlap" not in riccati_dataset(model, np.linspace(0, 5, 6), replicas=2, seed=0, frame=False)
