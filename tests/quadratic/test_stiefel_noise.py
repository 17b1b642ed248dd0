"""Noise of Stiefel SGD: moments of one step, the stationary risk with whole steps and fluctuations, passages."""

from dataclasses import replace

import numpy as np
import pytest
import scipy

from dynamics.quadratic.stiefel_sgd import stiefel_sgd
from theory import InputError, QuadraticModel, Subspace, Teacher, draw_subspace
from theory.core.curves import first_crossing
from theory.core.quadrature import chi_squared, gauss_hermite, product_rule
from theory.quadratic.passage import frame_shrinkage, passages, start_noise
from theory.quadratic.stationary import coordinates, mean_map, sample_moments, stationary
from theory.quadratic.stiefel import largest_step, mean_flow, projected_risk, second_order, single_passage, step_drift


def model_of(dim: int, width: int, count: int) -> QuadraticModel:
    return QuadraticModel(Teacher.power_law(count, 1.0, dim), width, width**-0.5)


def some_frame(width: int, count: int) -> np.ndarray:
    """Overlaps (P, N) of an orthonormal frame, none of them special."""
    turned = np.linalg.qr(np.random.default_rng(3).standard_normal((width, width)))[0]
    return np.asarray((0.8 * np.eye(count, width) + 0.05 * np.ones((count, width))) @ turned)


def test_coordinates_are_those_of_symmetric_matrices_and_keep_lengths() -> None:
    basis = coordinates(3)
    root = np.random.default_rng(0).standard_normal((3, 3))
    symmetric = root + root.T
    at = np.einsum("ij,cij->c", symmetric, basis)
    assert len(basis) == 6
    np.testing.assert_allclose(np.einsum("c,cij->ij", at, basis), symmetric, atol=1e-12)
    assert abs(at @ at - np.sum(symmetric**2)) < 1e-12


def test_mean_map_of_one_sample_is_the_mean_drift_and_of_many_the_retracted_mean() -> None:
    """The latter with explicit frames: W goes up (I − WWᵀ)MW by ε and is made orthonormal again."""
    model, Z, step_size = model_of(60, 4, 3), some_frame(4, 3), 0.1
    epsilon = model.riccati_rate * step_size
    speed = model.speed_factor / model.norm
    one = Z @ Z.T + epsilon * step_drift(Z @ Z.T, model.spectrum, 4, 60, speed, epsilon)
    np.testing.assert_allclose(mean_map(Z @ Z.T, model, step_size), one, rtol=1e-13, atol=1e-15)
    frame = Subspace.of_overlap(Z)
    W = np.vstack([frame.on_teachers, frame.rest])
    M = np.diag(np.append(model.spectrum, np.zeros(len(W) - 3)))
    moved = W + epsilon * (np.eye(len(W)) - W @ W.T) @ M @ W
    many = (moved @ np.linalg.solve(moved.T @ moved, moved.T))[:3, :3]
    np.testing.assert_allclose(mean_map(Z @ Z.T, model, step_size, 10**14), many, rtol=1e-11)
    assert np.abs(one - many).max() > 0.01


def test_noise_of_a_small_step_is_that_of_its_moments() -> None:
    r"""Cov of $q\,x^\top Sx$ by the cumulants of quadratic forms, $2^{n-1}\sum\mathrm{tr}$ over cyclic orders."""
    model, Z, step_size = model_of(60, 4, 3), some_frame(4, 3), 1e-8
    values, vectors = np.linalg.eigh(Z @ Z.T)
    inside, outside = ((vectors * np.sqrt(x)) @ vectors.T for x in (values, 1 - values))
    teachers, held = np.vstack([inside, outside]), np.diag(np.repeat([1.0, 0.0], 3))
    B = teachers @ np.diag(model.spectrum) @ teachers.T - model.speed_factor / model.norm * held
    forms = [held @ teachers @ E @ teachers.T @ (np.eye(6) - held) for E in coordinates(3)]
    forms = [F + F.T for F in forms]
    beyond = 2 * (model.speed_factor / model.norm) ** 2  # Var q of the fourth column, which no form sees
    expected = np.empty((6, 6))
    for i, S in enumerate(forms):
        for j, T in enumerate(forms):
            fourth = 16 * np.trace(2 * B @ B @ S @ T + B @ S @ B @ T)
            pairs = (2 * np.trace(B @ B) + beyond) * 2 * np.trace(S @ T) + 8 * np.trace(B @ S) * np.trace(B @ T)
            expected[i, j] = fourth + pairs - 4 * np.trace(B @ S) * np.trace(B @ T)
    found, kick = sample_moments(Z @ Z.T, model, step_size)
    found = found / (model.riccati_rate * step_size / 2) ** 2
    np.testing.assert_allclose(found, expected, atol=0.01 * expected.max())
    assert np.abs(kick).max() < 1e-20


def test_to_second_order_pairs_of_a_batch_are_samples_or_not() -> None:
    """Of b samples, whose tangents are averaged, the square has 1/b of that of one and the rest of that of many."""
    model, Z = model_of(60, 4, 3), some_frame(4, 3)
    step = 1e-3 / model.riccati_rate

    def square(batch: int) -> np.ndarray:
        ends = (mean_map(Z @ Z.T, model, way * step, batch) for way in (1, -1))
        return np.asarray((sum(ends) - 2 * Z @ Z.T) / 1e-6)

    one, several, many = (square(batch) for batch in (1, 3, 10**14))
    np.testing.assert_allclose(several, one / 3 + 2 / 3 * many, atol=1e-4 * np.abs(one).max())
    assert np.abs(one - many).max() > 0.1 * np.abs(one).max()


@pytest.mark.parametrize("dim", [5, 6])
def test_a_whole_step_turns_the_frame_of_explicit_inputs(dim: int) -> None:
    """Few dimensions by product quadrature; W + qx̂(Wᵀx)ᵀ, made orthonormal again, is what a sample makes of W."""
    model, Z, step_size = model_of(dim, 3, 2), some_frame(3, 2), 0.01
    frame, epsilon = Subspace.of_overlap(Z), model.riccati_rate * step_size
    W = np.vstack([frame.on_teachers, frame.rest, np.zeros((dim - 2 - len(frame.rest), 3))])
    x, mass = product_rule(*dim * [gauss_hermite(7)])
    inside = x @ W
    q = (x[:, :2] ** 2 - 1) @ model.spectrum - model.speed_factor / model.norm * (np.sum(inside**2, axis=1) - 3)
    taken = W + (epsilon / 2 * q)[:, None, None] * (x - inside @ W.T)[:, :, None] * inside[:, None]
    whole = taken @ np.linalg.solve(np.swapaxes(taken, 1, 2) @ taken, np.swapaxes(taken, 1, 2))
    moved = np.einsum("sij,cij->sc", whole[:, :2, :2] - Z @ Z.T, coordinates(2))
    mean = mass @ moved
    covariance = (moved.T * mass) @ moved - np.outer(mean, mean)
    found, kick = sample_moments(Z @ Z.T, model, step_size)
    drift = np.einsum("ij,cij->c", mean_map(Z @ Z.T, model, step_size) - Z @ Z.T, coordinates(2))
    np.testing.assert_allclose(found, covariance, atol=0.01 * covariance.max())
    np.testing.assert_allclose(kick, mean - drift, atol=0.03 * np.abs(kick).max())
    assert np.abs(kick).max() > 0.03 * np.abs(mean).max()


def test_stationary_moments_close_themselves() -> None:
    """A Gaussian of this mean and covariance, by points that have both, keeps its mean in a step, whole angles and all, and
    has the risk that is stated: to the next order, which the corrections are of as of them the gap.
    """
    dim, batch = 400, 4
    model, step_size = model_of(dim, 3, 2), 0.2 / dim
    found, basis = stationary(model, step_size, batch), coordinates(2)
    values, vectors = np.linalg.eigh(found.covariance)
    along = [np.sqrt(3 * x) * np.einsum("c,cij->ij", y, basis) for x, y in zip(values, vectors.T, strict=True)]
    points = [found.mean + way * x for x in along for way in (1, -1)]
    kick = np.einsum("c,cij->ij", batch * sample_moments(found.fixed_point, model, step_size / batch)[1], basis)
    bend = np.mean([mean_map(x, model, step_size, batch) for x in points], axis=0) - mean_map(
        found.mean, model, step_size, batch
    )
    back = found.mean - mean_map(found.mean, model, step_size, batch)
    np.testing.assert_allclose(back, bend + kick, atol=1e-3 * np.abs(kick).max())
    assert min(np.abs(bend).max(), np.abs(kick).max()) > 0.1 * np.abs(back).max()
    corrections, gap = found.risk - found.drift, found.drift
    over = np.mean([projected_risk(model.spectrum, x) for x in points]) - gap
    assert over == pytest.approx(corrections, abs=found.next_order(gap))
    assert found.next_order(gap) < 0.01 * abs(corrections)
    one_way = replace(found, kicks=-0.02, fluctuation=-0.01)
    assert one_way.next_order(0.6) / 0.03 == pytest.approx(0.03 / 0.6)


def test_late_deviations_swing_and_decay_as_is_said() -> None:
    """Of what is linear in G the variance is that of C; a mean that is displaced comes back at the rate."""
    model, step_size, batch = model_of(32, 2, 2), 0.1, 32
    found, basis = stationary(model, step_size, batch), coordinates(2)
    S = np.array([[1.0, 0.5], [0.5, -2.0]])
    s = np.einsum("ij,cij->c", S, basis)
    assert found.swing(lambda x: np.sum(S * x)) == pytest.approx(np.sqrt(s @ found.covariance @ s), rel=1e-6)
    at, left = found.fixed_point - 1e-4 * np.eye(2), []
    steps = int(4 / (found.rate * model.riccati_rate * step_size))
    for _ in range(2):
        for _ in range(steps):
            at = mean_map(at, model, step_size, batch)
        left.append(np.abs(at - found.fixed_point).max())
    assert np.log(left[0] / left[1]) == pytest.approx(steps * found.rate * model.riccati_rate * step_size, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "step_size"), [(1, 0.01), (16, 0.05)])
def test_moments_of_a_whole_step_are_those_of_sgd(batch: int, step_size: float) -> None:
    """One step from one start, 2·10⁵ times: mean, with all and with half of what is beyond the drift, and covariance."""
    dim, replicas = 24, 200_000
    model, Z = model_of(dim, 2, 2), some_frame(2, 2)
    run = stiefel_sgd(
        model, Subspace.of_overlap(Z), step_size=step_size, steps=1, batch=batch, replicas=replicas, saves=1
    )
    y = run.dataset.overlap.values[:, -1]
    moved = np.einsum("rki,rkj,cij->rc", y, y, coordinates(2))
    noise, kick = sample_moments(Z @ Z.T, model, step_size / batch)
    second = np.einsum("ij,cij->c", mean_map(Z @ Z.T, model, step_size, batch), coordinates(2))
    mean, error = moved.mean(axis=0), moved.std(axis=0) / np.sqrt(replicas)
    epsilon = model.riccati_rate * step_size
    drift = step_drift(Z @ Z.T, model.spectrum, 2, dim, model.speed_factor / model.norm, epsilon / batch)
    small = np.einsum("ij,cij->c", Z @ Z.T + epsilon * drift, coordinates(2))
    whole = second + batch * kick
    assert np.abs((mean - whole) / error).max() < 4.5
    assert np.abs((mean - (whole + small) / 2) / error).max() > 12
    if batch == 1:
        np.testing.assert_allclose(np.cov(moved.T), noise, atol=0.02 * noise.max())


def test_corrections_of_the_stationary_risk_go_like_the_step() -> None:
    """At fixed ηd all are ∝ 1/d, hence ∝ η; the fixed point stays."""
    parts = []
    for dim in (2000, 4000):
        found = stationary(model_of(dim, 3, 3), 0.2 / dim / 4)
        parts.append([found.fluctuation, found.kicks, 1e-3 * found.drift])
    np.testing.assert_allclose(np.divide(*parts), [2, 2, 1], rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.4, 0.2])
def test_stationary_risk_is_that_of_sgd(load: float) -> None:
    """A batch of d samples: neither the mean drift, nor half of what is added to it, is what SGD does."""
    dim = batch = 32
    model, step_size = model_of(dim, 2, 2), load / 4
    state = stationary(model, step_size, batch)
    alone = stationary(model, step_size / batch).drift
    start = Subspace.of_overlap(np.linalg.cholesky(state.fixed_point))
    steps = int(150 / (model.riccati_rate * step_size))
    run = stiefel_sgd(model, start, step_size=step_size, batch=batch, steps=steps, replicas=1024, saves=100)
    late = run.risk[:, 20:].mean(axis=1)
    mean, error = late.mean(), late.std(ddof=1) / 32
    assert abs(mean - state.risk) < 4 * error + state.next_order(state.risk)
    assert abs(mean - (state.risk + alone) / 2) > 8 * error


@pytest.mark.parametrize(("dim", "width", "share"), [(60, 5, 0.6), (24, 3, 0.6), (120, 3, 0.9)])
def test_near_the_largest_step_kicks_are_those_at_the_mean_that_they_move(dim: int, width: int, share: float) -> None:
    """One direction, whose overlap is a chain by itself: 2000 of it. By kicks at G* risks were 1.247, .903 and 1.663."""
    model = QuadraticModel(Teacher.of([1.0], dim), width, width**-0.5)
    size, rng = share * largest_step(model)[0], np.random.default_rng(1)
    state, push = stationary(model, size), 2 * size * model.speed_factor
    settled = int(10 / (state.rate * model.riccati_rate * size))
    G, risk = np.full(2000, float(state.fixed_point[0, 0])), np.zeros(2000)
    for step in range(3 * settled):
        (h, n), (rest, beside) = (
            rng.standard_normal((2, G.size)),
            (rng.chisquare(k, G.size) for k in (width - 1, dim - width - 1)),
        )
        inside, outside = h**2 + rest, n**2 + beside
        missed = (np.sqrt(G) * h + np.sqrt(1 - G) * n) ** 2 - 1 - model.speed_factor * (inside - width)
        tilt = push * missed * np.sqrt(inside * outside)
        before, after = np.sqrt(G / inside) * h, np.sqrt((1 - G) / outside) * n
        G = np.clip(G - before**2 + (before + tilt * after) ** 2 / (1 + tilt**2), 0, 1)
        risk += (step >= settled) * 2 * (1 - G**2) / (2 * settled)
    assert abs(risk.mean() - state.risk) < 3 * risk.std() / np.sqrt(G.size) + state.next_order(state.risk)


@pytest.mark.parametrize(("dim", "width", "count"), [(100, 9, 9), (100, 2, 3), (4, 3, 2)])
def test_what_has_no_stationary_law_is_refused(dim: int, width: int, count: int) -> None:
    with pytest.raises(InputError, match=f"{count} .*directions"):
        stationary(model_of(dim, width, count), 1e-6)


# ------------------------------------------------------------------------------------ passages


@pytest.mark.parametrize("width", [2, 3, 5])
def test_shrinkage_of_a_frame_is_that_of_its_projector(width: int) -> None:
    model, Z = model_of(60, width, 3), np.random.default_rng(1).standard_normal((2, 3, width)) / 5
    G = Z @ np.swapaxes(Z, 1, 2)
    _, loss = second_order(G, model.spectrum, width, 60, model.speed_factor / model.norm)
    np.testing.assert_allclose(frame_shrinkage(Z, model) @ np.swapaxes(Z, 1, 2), loss, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("width", "dim", "until"), [(2, 12, np.inf), (4, 40, 1.7), (4, 40, 0.2)])
def test_noise_of_a_start_is_that_of_steps_from_nothing_learned(width: int, dim: int, until: float) -> None:
    r"""By quadrature over x: the spread of a step, $2\eta\gamma(f_*-f)\,t_jh$, and the turn $\tau^2/2$ that takes from Z."""
    model, step_size = model_of(dim, width, 2), 0.1 / dim
    sides = *3 * [gauss_hermite(5)], chi_squared(width - 1, 5), chi_squared(dim - width - 2, 5)
    x, mass = product_rule(*sides)
    t, h, others, rest = x[:, :2], x[:, 2], x[:, 3], x[:, 4]
    push = 2 * step_size * model.speed_factor
    kick = push * ((t**2 - 1) @ model.teacher.a - model.speed_factor * (h**2 + others - width))
    spread = mass @ (kick * h * t.T).T ** 2
    turn = mass @ (kick**2 * (np.sum(t**2, axis=1) + rest) * h**2) / 2
    growth, per = 2 * push * model.teacher.a - turn, model.riccati_rate * step_size
    ends = min(until / per, 30 / growth.min())
    expected, _ = scipy.integrate.quad_vec(lambda s: spread * np.exp(-2 * growth * s), 0, ends)
    np.testing.assert_allclose(start_noise(model, step_size, until), expected, rtol=1e-6)
    assert np.all(turn > 0.02 * growth)


def test_passages_of_one_row_are_those_of_its_law() -> None:
    """Within 0.6 %, where the mean drift is 12 % short, and half the noise without its share of the drift 1.8 % long."""
    model, step_size = model_of(512, 1, 1), 0.2 / 512 / 4
    Z = np.stack([draw_subspace(1, 1, 512, seed).on_teachers for seed in range(64)])
    law = single_passage(model, Z[:, 0, 0], 0.5**0.25, step_size=step_size).mean()
    found, half = (passages(model, Z, [1.0], step_size=step_size, noise=x, draws=64).mean() for x in (1.0, 0.5))
    times = np.linspace(0.0, 60.0, 1201)
    risks = projected_risk(model.spectrum, mean_flow(model, Z, times, step_size=step_size))
    alone = first_crossing(times, risks.T, 1.0, falling=True).mean()
    assert found == pytest.approx(law, rel=0.006)
    assert found == passages(model, Z, [1.0], step_size=step_size, draws=64).mean()
    assert half > 1.012 * law
    assert alone < 0.92 * law


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.2, 0.1])
def test_passages_of_several_rows_are_those_of_sgd(load: float) -> None:
    dim, width = 64, 3
    model, step_size = model_of(dim, width, 3), load / dim / 4
    starts = [draw_subspace(3, width, dim, seed) for seed in range(1024)]
    Z = np.stack([start.on_teachers for start in starts])
    per = model.riccati_rate * step_size
    run = stiefel_sgd(model, starts, step_size=step_size, steps=int(150 / per), saves=2000, stop_at_risk=0.6, seed=4)
    measured = run.steps_to(0.6) * per
    for noise, right in ((1.0, True), (0.5, False)):
        gap = measured - passages(model, Z, [0.6], step_size=step_size, noise=noise)[0]
        error = gap.std(ddof=1) / np.sqrt(gap.size)
        assert (abs(gap.mean()) < 4 * error) == right, (load, noise, gap.mean(), error)


def test_a_step_at_which_a_row_does_not_grow_has_no_passages() -> None:
    with pytest.raises(InputError, match="direction 3 does not grow"):
        passages(model_of(100, 3, 3), np.eye(3)[None] / 10, [0.6], step_size=0.8 / 100 / 4)


@pytest.mark.parametrize("given", [{"draws": 1}, {"draws": 3}, {"noise": -1.0}])
def test_bad_numbers_of_a_passage_are_named(given: dict) -> None:
    with pytest.raises(InputError, match=next(iter(given))):
        passages(model_of(100, 3, 3), np.eye(3)[None] / 10, [0.6], step_size=1e-4, **given)
