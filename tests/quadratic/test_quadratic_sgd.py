"""Finite steps of quadratic networks: moments of a plain SGD step, the radial phase, and the comparison command's engine."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dynamics import radial_phase
from dynamics.quadratic.quadratic_flow import quadratic_flow
from theory import (
    Activation,
    InputError,
    QuadraticModel,
    Student,
    Subspace,
    Teacher,
    draw_initial_state,
    draw_subspace,
)
from theory.core.quadrature import gauss_hermite, product_rule
from theory.quadratic.step import growth_shift, mean_step, start_noise
from theory.quadratic.stiefel import largest_step, radial_excess, retraction, step_drift
from validation import compare
from validation.comparison import summary
from validation.comparisons.directions import FLOW, SGD, Runs
from validation.comparisons.quadratic import closed_form, fitted_times, learned_times, quadratic_case


def test_mean_of_a_plain_step_is_the_derived_one() -> None:
    """Explicit steps at the nodes of a rule that is exact for them: of degree 8 in the inputs."""
    rng, dim, step_size = np.random.default_rng(0), 4, 0.05
    w = 0.4 * rng.standard_normal((dim, 2))
    S, M = w @ w.T, np.diag([0.8, 0.6, 0.0, 0.0])
    x, weights = product_rule(*[gauss_hermite(5)] * dim)
    q = np.einsum("ni,ij,nj->n", x, M - S, x) - np.trace(M - S)
    moved = w + 2 * step_size * q[:, None, None] * (x[:, :, None] * (x @ w)[:, None, :] - w)
    mean = np.einsum("n,nik,njk->ij", weights, moved, moved) - S
    np.testing.assert_allclose(mean_step(S, M, step_size), mean, rtol=0, atol=1e-12)


def test_noise_on_a_small_row_is_that_of_its_samples() -> None:
    r"""$E\,q^2x_j^2$ by quadrature, y = ⟨x, w⟩ being independent; heavy columns outside add to it until they have shrunk."""
    a, eta = np.array([0.8, 0.6]), 1e-4
    model, light = QuadraticModel(Teacher((0.8, 0.6), 50), 3), np.full(3, 1e-6)
    x, weights = product_rule(gauss_hermite(8), gauss_hermite(8))
    square = weights @ ((((x**2 - 1) @ a) ** 2)[:, None] * x**2)
    grown = 4 * eta * square / (8 * a)
    np.testing.assert_allclose(start_noise(model, light, eta), grown, rtol=1e-9)
    np.testing.assert_allclose(start_noise(model, light, eta, batch=5), grown / 5, rtol=1e-9)
    heavy = np.array([2.0, 0.5, 0.0])
    times = np.linspace(0.0, 6.0, 200_001)
    outside = np.sum((heavy / (1 + 8 * times[:, None] * heavy)) ** 2, axis=1)
    for j, weight in enumerate(a):
        rate = (2 * (np.sum(a**2) + outside) + 8 * weight**2) * np.exp(-8 * weight * times)
        assert start_noise(model, heavy, eta)[j] == pytest.approx(4 * eta * np.trapezoid(rate, times), rel=1e-6)
    with pytest.raises(InputError, match="start smaller"):
        start_noise(model, np.array([1e90]), eta)


@pytest.mark.parametrize(("batch", "eta"), [(1, 2.5e-4), (8, 1e-3)])
def test_what_kicks_add_to_a_time_is_what_runs_of_one_direction_have(batch: int, eta: float) -> None:
    """Plain SGD of one column in one dimension; drift and noise alone are each rejected, and a noise without overshoot."""
    replicas, begun = 16_000, 0.05
    exact = np.log(1 / begun - 1) / 8
    rng, s = np.random.default_rng(batch), np.full(replicas, begun)
    times = np.full(replicas, np.inf)
    for step in range(1, 3000):
        fourth = np.mean((rng.standard_normal((batch, s.size)) ** 2 - 1) ** 2, axis=0)
        s = s * (1 + 2 * eta * (1 - s) * fourth) ** 2
        times[np.isinf(times) & (s >= 0.5)] = step * eta
        if np.isfinite(times).all():
            break
    model = QuadraticModel(Teacher((1.0,), 9), 1)
    drift, noise = (float(x[0]) for x in growth_shift(model, [exact], np.zeros(1), eta, batch))
    error, late = times.std() / np.sqrt(replicas), times.mean() - exact
    second = abs(noise) * 60 * eta / batch
    assert abs(late - drift - noise) < 4 * error + second
    assert min(abs(late - drift), abs(late - noise)) > 4 * error + second


def test_the_retraction_is_the_polar_factor() -> None:
    """The derived rank-one formula against a singular value decomposition."""
    rng = np.random.default_rng(1)
    w = np.linalg.qr(rng.standard_normal((7, 3)))[0]
    x, step_size, gamma, target = rng.standard_normal(7), 0.05, 0.6, 1.3
    h = w.T @ x
    size, output = np.linalg.norm(h), gamma * (h @ h - 3)
    left, _, right = np.linalg.svd(
        w + 2 * step_size * gamma * (target - output) * np.outer(x - w @ h, h), full_matrices=False
    )
    rule, outside = retraction(), np.linalg.norm(x - w @ h)
    values = dict(
        zip(("eta", "gamma", "h", "s", "y", "f"), (step_size, gamma, size, outside, target, output), strict=True)
    )
    c1, c2 = (float(e.subs({v: values[v.name] for v in e.free_symbols})) for e in (rule.along_self, rule.along_input))
    assert np.allclose(w + np.outer(c1 * w @ h / size + c2 * x, h / size), left @ right, atol=1e-14)


def test_step_drift_does_not_depend_on_the_basis_of_equal_weights() -> None:
    rng = np.random.default_rng(2)
    a, z = np.array([0.6, 0.6, 0.5]), 0.4 * rng.standard_normal((3, 2))
    turn = np.eye(3)
    turn[:2, :2] = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    first, second = (step_drift(G, a, 2, 50, 0.7, 0.1) for G in (z @ z.T, turn @ z @ z.T @ turn.T))
    assert np.allclose(turn @ first @ turn.T, second, atol=1e-13)


def test_the_bound_scales_like_one_over_the_dimension() -> None:
    bounds = [largest_step(QuadraticModel(Teacher.power_law(4, 1.0, dim), 4, 0.5))[0] for dim in (1000, 10_000)]
    assert 9.5 < bounds[0] / bounds[1] < 10.5
    model = QuadraticModel(Teacher.power_law(4, 1.0, 1000), 4, 0.5)
    assert largest_step(model, batch=8)[0] == pytest.approx(8 * bounds[0])


# ------------------------------------------------------------------------------- phase II


def learned_frame(width: int) -> tuple[QuadraticModel, Subspace]:
    model = QuadraticModel(Teacher.power_law(8, 1.0, 500), width, width**-0.5)
    start = draw_subspace(8, width, 500, 0)
    return model, Subspace(np.exp(6 * model.spectrum)[:, None] * start.on_teachers, start.rest).orthonormal()


def test_the_radial_phase_has_the_derived_excess() -> None:
    model, frame = learned_frame(4)
    leading, second = radial_excess(model, frame.on_teachers)
    samples = 400
    fits = [radial_phase(model, frame, samples, seed) for seed in range(300)]
    excess = np.array([fit.unprojected - fit.optimal for fit in fits])
    error = excess.std(ddof=1) / np.sqrt(len(excess))
    predicted = leading / samples + second / samples**2
    assert abs(excess.mean() - predicted) < 4 * error + second / samples**2
    assert abs(excess.mean() - predicted / 2) > 8 * error


@pytest.mark.parametrize("samples", [4, 9, 30])
def test_the_radial_phase_knows_no_basis_of_its_subspace(samples: int) -> None:
    """With fewer samples than its ten entries, too."""
    model, frame = learned_frame(4)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    turned = Subspace(frame.on_teachers @ turn, frame.rest @ turn)
    plain, other = (radial_phase(model, one, samples, 1) for one in (frame, turned))
    assert other.unprojected == pytest.approx(plain.unprojected, rel=1e-9)
    assert other.gram == pytest.approx(turn.T @ plain.gram @ turn, abs=1e-8)


def beyond_leading(model: QuadraticModel, z: np.ndarray, samples: int, rng: np.random.Generator) -> tuple[float, float]:
    """n'² times what the excess of least squares in span z has beyond |g|², whose mean is the leading order; its error."""
    a, (i, j) = model.spectrum, np.triu_indices(z.shape[1])
    x = rng.standard_normal((1_200_000 // samples, samples, a.size))
    u = x @ z
    features = (u[..., i] * u[..., j] - (i == j)) / np.where(i == j, np.sqrt(2), 1.0)
    best = (z.T @ (a[:, None] * z))[i, j] * np.where(i == j, np.sqrt(2), 2.0)
    turned = np.swapaxes(features, 1, 2)
    g = turned @ ((x**2 - 1) @ a - features @ best)[..., None] / samples
    left = np.linalg.solve(turned @ features / samples, g)
    gaps = samples**2 * np.sum(left**2 - g**2, axis=(1, 2))
    return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def test_the_radial_excess_has_its_second_order() -> None:
    """From n' = 80 and 160, so that the third order is gone."""
    model, rng = QuadraticModel(Teacher.power_law(4, 1.0, 50), 3, 1.0), np.random.default_rng(0)
    z = np.linalg.qr(rng.standard_normal((4, 3)))[0]
    (coarse, e1), (fine, e2) = (beyond_leading(model, z, n, rng) for n in (80, 160))
    error = np.hypot(e1, 2 * e2)
    leading, second = radial_excess(model, z)
    assert abs(2 * fine - coarse - second) < 4 * error
    # (27 is E k²/D: what samples would do if their residuals knew nothing of their inputs.)
    assert abs(2 * fine - coarse - 27 * leading) > 4 * error


@pytest.mark.parametrize("angle", [0.0, 0.5, 1.2])
def test_the_excess_of_one_neuron_is_a_gaussian_moment(angle: float) -> None:
    """E r²k in the plane of two teachers, by quadrature: u along the neuron, v across."""
    model = QuadraticModel(Teacher.power_law(2, 1.0, 50), 1, 1.0)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    points, mass = gauss_hermite(12)
    u, v = points[:, None], points[None, :]
    residual = 2 * (along * model.spectrum @ across) * u * v + (across * model.spectrum @ across) * (v**2 - 1)
    leverage = (u**4 - 2 * u**2 + 1) / 2
    known = mass @ (residual**2 * leverage) @ mass
    assert radial_excess(model, along[:, None])[0] == pytest.approx(known, rel=1e-10)
    square = mass @ leverage**2
    known = mass @ (residual**2 * leverage * (3 * square - 2 * leverage - 1)) @ mass
    assert radial_excess(model, along[:, None])[1] == pytest.approx(float(known), rel=1e-10)


def test_the_projection_only_helps_and_many_samples_give_the_best_gram() -> None:
    model, frame = learned_frame(3)
    best = frame.on_teachers.T @ (model.spectrum[:, None] * frame.on_teachers)
    few, many = radial_phase(model, frame, 12, 1), radial_phase(model, frame, 200_000, 1)
    assert few.optimal <= few.risk <= few.unprojected
    assert np.linalg.eigvalsh(few.gram).min() > -1e-12
    assert np.abs(many.gram - best).max() < 0.02
    with pytest.raises(InputError, match="samples is 0"):
        radial_phase(model, frame, 0, 1)


# ----------------------------------------------------------------------------- comparison


def small_problem() -> tuple[Activation, Teacher, object]:
    teacher = Teacher.power_law(2, 1.0, 40)
    return Activation.parse("quadratic"), teacher, draw_initial_state(teacher, Student(4, 0.1), 1)


def test_compare_judges_flow_and_sgd_by_the_closed_form(tmp_path: Path) -> None:
    activation, teacher, initial = small_problem()
    case = quadratic_case(activation, teacher, initial, Runs(step_size=2e-4, steps=12_800, replicas=12, seed=1))
    found = compare(case, out=tmp_path)
    assert [row["verdict"] for row in found.rows] == ["agrees", "agrees"]
    assert found.verdict_ok
    assert not found.diverged
    for row in found.rows:
        assert row["flow"] == pytest.approx(row["predicted"], rel=1e-5)
        assert row["sgd_mean"] != row["predicted"]
    assert found.report is not None
    assert found.report.is_file()


def test_compare_says_so_where_it_cannot_judge() -> None:
    activation, teacher, initial = small_problem()
    case = quadratic_case(activation, teacher, initial, Runs(step_size=2e-4, steps=9600, replicas=12, budget=1e3))
    skipped = compare(case)
    assert "SGD was not run" in skipped.notes[0]
    assert skipped.rows[0]["sgd_mean"] is None
    with pytest.raises(InputError, match="activation is 'h4'"):
        quadratic_case(Activation.parse("h4"), teacher, initial, Runs(step_size=2e-4, steps=10))


@pytest.mark.slow
def test_compare_judges_no_first_times_of_a_start_that_holds_half() -> None:
    """Of heavy columns every first time is 0, of theory and runs alike: not a time, and no agreement."""
    teacher = Teacher.power_law(2, 1.0, 40)
    initial = draw_initial_state(teacher, Student(16, 3.0), 1)
    case = quadratic_case(Activation.parse("quadratic"), teacher, initial, Runs(step_size=1e-5, steps=100, replicas=2))
    found = compare(case)
    assert [row["verdict"] for row in found.rows] == ["not judged", "not judged"]
    assert all(row[name] is None for row in found.rows for name in ("predicted", "flow", "sgd_mean"))
    assert "the start holds half of its weight already" in found.notes[0]


def judged_beside(width: int, init_scale: float, step_size: float, teacher: Teacher, *shares: np.ndarray) -> list:
    """Verdicts where SGD has these shares (replica, P) of the exact times, for each; the flow has the times themselves."""
    initial = draw_initial_state(teacher, Student(width, init_scale), 0)
    model, columns = QuadraticModel(teacher, width), Subspace.of_state(initial)
    exact = learned_times(model, closed_form(model, columns), 8.0)
    runs = Runs(step_size=step_size, steps=int(8.0 / step_size))
    case, flow = quadratic_case(Activation.parse("quadratic"), teacher, initial, runs), SimpleNamespace(loss_time=exact)
    runs_of = [SimpleNamespace(loss_steps=share * exact / step_size, resolution=8) for share in shares]
    return [[row["verdict"] for row in case.judge({FLOW: flow, SGD: sgd})[0]] for sgd in runs_of]


def test_a_right_time_agrees_and_one_that_is_off_by_a_tenth_does_not() -> None:
    scatter = 1 + 0.05 * np.random.default_rng(0).standard_normal((512, 2))
    found = judged_beside(4, 0.1, 2e-5, Teacher.power_law(2, 1.0, 64), scatter, 0.9 * scatter, 1.1 * scatter)
    assert found == [["agrees"] * 2, ["disagrees"] * 2, ["disagrees"] * 2]


def test_where_noise_decides_who_is_learned_nothing_is_judged() -> None:
    """Direction 3 of four on two columns, which half of the runs at this step size never hold (in R^d, too)."""
    times = np.ones((200, 4)) + 0.02 * np.random.default_rng(0).standard_normal((200, 4))
    times[:100, 2] = np.inf
    verdicts = judged_beside(2, 0.1, 1e-4, Teacher.power_law(4, 1.0, 64), times)[0]
    assert verdicts[0] == "agrees"
    assert verdicts[2] == "inconclusive"


def test_predicted_times_are_those_of_the_closed_form() -> None:
    _, teacher, initial = small_problem()
    model, columns = QuadraticModel(teacher, 4), Subspace.of_state(initial)
    flow = quadratic_flow(model.spectrum, columns)
    times = fitted_times(model, flow, 2.0)
    for j, time in enumerate(times):
        held = np.sum(flow.factor(model.riccati_time([time]))[0].on_teachers ** 2, axis=1)[j]
        assert held == pytest.approx(model.spectrum[j] / 2, rel=1e-8)


@pytest.mark.parametrize(("width", "learned"), [(3, 3), (2, 2)])
def test_what_a_short_run_does_not_see_is_predicted_all_the_same(width: int, learned: int) -> None:
    teacher = Teacher.of([3.0, 2.0, 1.0], 10**6)
    model = QuadraticModel(teacher, width)
    columns = Subspace.of_state(draw_initial_state(teacher, Student(width, 0.03), seed=0))
    size = np.sqrt(model.speed_factor / model.norm)
    flow = quadratic_flow(model.spectrum, Subspace(size * columns.on_teachers, size * columns.rest))
    short, long = learned_times(model, flow, 1e-3), fitted_times(model, flow, 60.0)
    assert np.isfinite(short).tolist() == [place < learned for place in range(3)]
    np.testing.assert_allclose(short, long, rtol=1e-8)


def test_a_run_that_ends_early_is_not_called_never() -> None:
    teacher = Teacher.power_law(2, 1.0, 64)
    initial = draw_initial_state(teacher, Student(2, 0.03), seed=0)
    case = quadratic_case(Activation.parse("quadratic"), teacher, initial, Runs(step_size=1e-4, steps=100, budget=0))
    rows, notes = case.judge({FLOW: SimpleNamespace(loss_time=np.full(2, np.inf))})
    assert all(row["verdict"] == "not judged" and np.isfinite(row["predicted"]) for row in rows)
    assert all("the run ends at 0.01" in note for note in notes)


def test_a_mean_over_replicas_is_that_of_most_or_none() -> None:
    assert summary(np.array([1.0, 2.0, 3.0]), "sgd", 4.0) == {"sgd_mean": 2.0, "sgd_stderr": pytest.approx(3**-0.5)}
    assert summary(np.array([1.0, np.inf, np.inf]), "sgd", 4.0) == {}
    assert summary(np.array([1.0]), "sgd", 4.0) == {"sgd_mean": 1.0, "sgd_stderr": None}
