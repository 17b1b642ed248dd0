"""One direction among others: the law of its whole step, the chain, and the claims that use them."""

from dataclasses import replace
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from dynamics import online_sgd
from dynamics.one_task.spherical_sgd import advance_overlaps, spherical_sgd
from theory import Activation, InitialState, InputError, Teacher
from theory.core.quadrature import gauss_hermite, product_rule
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import hitting_distribution, hitting_law
from theory.one_task.plateau import plateau
from theory.one_task.spherical_step import WholeSphericalStep, spherical_step
from theory.one_task.stability import excess_at_rest, largest_held, largest_held_by_all
from theory.one_task.third_order import third_order, with_third_order
from theory.one_task.whole_step import noise_of_others
from validation.claims.one_task import step_size_boundary
from validation.judge.claim import agrees
from validation.judge.context import Context
from validation.statistics.standard_errors import share_error

H3 = Activation.parse("h3")


def test_one_step_among_others_has_the_mean_and_variance_of_the_law() -> None:
    """300 000 chains: one step at overlap 0.4, weight 0.3, and without the noise of the others the variance is wrong."""
    dim, weight, start, count, eta = 20, 0.3, 0.4, 300_000, 0.3 / 20**1.5
    rng, others = np.random.default_rng(3), noise_of_others(H3, weight, 1.0)
    assert others == pytest.approx(np.sqrt(1 - weight**2))
    sample = np.stack([*rng.standard_normal((2, count)), rng.chisquare(dim - 2, count), rng.standard_normal(count)])
    chain = (jnp.full(count, start), jnp.full(count, jnp.inf), jnp.asarray(0.0))
    moved = np.asarray(
        advance_overlaps(H3, jnp.asarray(eta), jnp.asarray(0.7), chain, jnp.asarray(sample[None]), (weight, others))[0]
    )
    law = spherical_step(H3).among_others(weight, eta, dim)
    drift, variance = (float(x[0]) * eta for x in law.coefficients(np.array([start])))
    tail = np.mean((moved - moved.mean()) ** 4) / moved.var() ** 2
    tolerance = 4 * np.sqrt((tail - 1) / count)
    assert abs(moved.mean() - start - drift) < 4 * moved.std() / np.sqrt(count)
    assert moved.var() == pytest.approx(variance, rel=tolerance + 1e-3)
    quiet = replace(law, total=weight**2).coefficients(np.array([start]))[1]
    assert abs(float(quiet[0]) * eta / moved.var() - 1) > tolerance


def test_whole_steps_need_a_smooth_activation_and_three_dimensions() -> None:
    smooth = Activation.parse("tanh")
    drift, _ = WholeSphericalStep(smooth, 1.0, 1e-7, 1.0, 20).coefficients(np.array([0.1]))
    assert drift[0] == pytest.approx(float(smooth.kernel_at(0.1, 1)) * (1 - 0.1**2), rel=1e-5)  # that of the flow
    for text, dim, said in (("relu", 20, "is not smooth"), ("abs(z)", 20, "is not smooth"), ("h3", 2, "dim is 2")):
        with pytest.raises(InputError, match=said):
            WholeSphericalStep(Activation.parse(text), 1.0, 1e-3, 1.0, dim)


def test_quadrature_among_others_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    law = spherical_step(H3).among_others(0.2, 0.4 / 32**1.5, 32)
    at = np.array([0.05, 0.4])
    before = law.coefficients(at)
    monkeypatch.setattr("theory.one_task.whole_step._NODES_NOISY", 60)
    monkeypatch.setattr("theory.one_task.whole_step._NODES_OTHERS", 16)
    for first, second in zip(before, law.coefficients(at), strict=True):
        assert np.allclose(first, second, rtol=5e-3)


def test_runs_end_at_their_last_step_inside_a_block() -> None:
    """300 replicas come in blocks of 436 steps."""
    options = {"step_size": 0.002, "replicas": 300, "seed": 4, "weight": 0.5, "noise": 0.8}
    short, long = (spherical_sgd(H3, 30, 0.4, steps=n, **options) for n in (500, 1000))
    early = long.hitting_steps <= 500
    assert short.steps == 500
    assert 0 < early.sum() < np.isfinite(long.hitting_steps).sum()
    assert np.array_equal(np.isfinite(short.hitting_steps), early)


@pytest.mark.parametrize(("name", "value"), [("weight", 0.0), ("noise", -1.0)])
def test_bad_targets_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} is"):
        spherical_sgd(H3, 30, 0.3, step_size=0.01, steps=5, replicas=2, **{name: value})


def test_cut_moments_are_those_of_the_backward_equations() -> None:
    """At a horizon beyond every arrival the moments are those that `hitting_law` solves for; before any, the horizon's."""
    law = hitting_distribution(OneTaskDiffusion(H3, 0.8, 2e-5, 1.0, 64), 0.35, cells=200)
    moments = hitting_law(H3, 0.8, 0.35, 2e-5, 1.0, 64)
    assert law.cut_moments(5.0) == pytest.approx((moments.mean, moments.std), rel=2e-3)
    assert law.cut_moments(1e-3) == pytest.approx((1e-3, 0.0), abs=1e-6)


def test_third_order_enters_with_the_step_size() -> None:
    laws = plateau(H3)
    changed = with_third_order(laws, 0.6, 0.3, 1e-3, 64)
    before, after = (float(x.laws(0.6, 1.0, 64)[0](0.3)) for x in (laws, changed))
    assert after - before == pytest.approx(-1e-3 * third_order(H3, 0.6, 0.8, 0.3, 64))


def test_a_law_without_the_other_directions_is_rejected() -> None:
    """Direction 4 at the largest step size: the law agrees with SGD, the one that forgets the others' noise does not."""
    plan = replace(step_size_boundary.QUICK, scaled=(0.4,), replicas=(192,), directions=(4,))
    measured = step_size_boundary.measured_shares(Context(), plan)[0, 0]
    weight, step_size = float(plan.weights[0]), plan.step_size(0.4)
    predicted = step_size_boundary.predicted_share(plan, weight, step_size)
    alone = replace(spherical_step(H3).among_others(weight, step_size, plan.dim), total=weight**2)
    wrong = step_size_boundary._in_time(plan, alone, 40)
    error = share_error(predicted, 192)
    assert agrees(measured, predicted, 0.0, error)
    assert not agrees(measured, wrong, 0.0, error)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("text", "weight"), [("h3", 0.9), ("0.8*h4+0.6*h3", 0.4)])
def test_from_the_largest_held_step_on_mean_squares_about_rest_grow(text: str, weight: float, batch: int) -> None:
    """d = 3: the mean of A ⊗ A over inputs, A = 1 − η gg', with g the gradient of rσ(z) in coordinates by differences; and
    what noise on labels keeps at half of it, beyond the leading order in the step.
    """
    activation, dim = Activation.parse(text), 3
    x, mass = product_rule(*[gauss_hermite(20)] * dim)
    sigma, rest, small = activation.arrays(0), np.sqrt(weight) * np.eye(dim)[0], 1e-5

    def output(row: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(row)
        return np.asarray(size**2 * sigma(x @ row / size))

    g = np.stack([(output(rest + e) - output(rest - e)) / (2 * small) for e in small * np.eye(dim)], axis=1)
    held, stiffness = largest_held(activation, weight, dim, batch), (g.T * mass) @ g

    def moved(eta: float) -> np.ndarray:
        step = np.eye(dim) - eta * g[:, :, None] * g[:, None, :]
        single = np.einsum("n,nij,nkl->ikjl", mass, step, step).reshape(dim**2, -1)
        mean = np.einsum("n,nij->ij", mass, step)
        return np.asarray(single / batch + (1 - 1 / batch) * np.kron(mean, mean))

    assert np.max(np.abs(np.linalg.eigvals(moved(held)))) == pytest.approx(1, abs=1e-6)
    half, variance = held / 2, 0.3
    spread = np.linalg.solve(np.eye(dim**2) - moved(half), half**2 * variance / batch * stiffness.ravel())
    excess, _ = excess_at_rest(activation, [weight], dim, half, batch, variance)
    assert excess == pytest.approx(spread @ stiffness.ravel() / 2, rel=1e-6)


def test_rows_at_rest_together_hold_less_than_each_alone() -> None:
    """Four rows of tanh in 12 dimensions, all coordinates: mean squares grow from there on (within 0.95 to 1.2 of it), by
    gradients of samples; up to three times that if each is alone. Of descent it is two over the stiffness.
    """
    activation, dim, weights, rng = Activation.parse("tanh"), 12, [0.5] * 4, np.random.default_rng(5)
    x = rng.standard_normal((8000, dim))
    value, slope = (activation.arrays(order)(x[:, :4]) for order in (0, 1))
    rows = slope[:, :, None] * x[:, None]
    rows[:, np.arange(4), np.arange(4)] = 2 * value
    g = np.sqrt(0.5) * rows.reshape(len(x), -1)
    stiffness = g.T @ g / len(x)

    def grows(eta: float) -> bool:
        mean_square = np.eye(len(stiffness))
        for _ in range(60):
            kicked = (g.T * np.einsum("ni,ij,nj->n", g, mean_square, g, optimize=True)) @ g / len(x)
            moved = mean_square - eta * (stiffness @ mean_square + mean_square @ stiffness) + eta**2 * kicked
            size = np.trace(moved) / np.trace(mean_square)
            mean_square = moved / np.trace(moved)
        return bool(size > 1)

    held, alone = largest_held_by_all(activation, weights, dim), largest_held(activation, 0.5, dim)
    assert not grows(held / 1.2)
    assert grows(held / 0.95)
    assert alone > 2.5 * held
    descent = 2 / np.linalg.eigvalsh(stiffness)[-1]
    assert largest_held_by_all(activation, weights, dim, np.inf) == pytest.approx(descent, rel=0.08)
    assert largest_held(activation, 0.5, dim, np.inf) > 1.5 * descent


@pytest.mark.parametrize("text", ["relu", "softplus", "h3", "0.5*h1+h2"])
def test_of_descent_rows_at_rest_together_hold_two_over_their_stiffness(text: str) -> None:
    """Of any weights, with what rows have in common: a mean, slopes, and turns to each other; g of all rows by quadrature."""
    activation, weights, dim = Activation.parse(text), np.array([0.8, 0.5, 0.3]), 4
    x, mass = product_rule(*[gauss_hermite(14 if activation.is_polynomial else 40)] * 3)
    value, slope = (activation.arrays(order)(x) for order in (0, 1))
    rows = np.concatenate(
        [slope[:, :, None] * x[:, None], slope[:, :, None]], axis=2
    )  # (the fourth is a factor of E x² = 1)
    rows[:, np.arange(3), np.arange(3)] = 2 * value
    rows *= np.sqrt(weights)[:, None]
    inside, outside = rows[:, :, :3].reshape(len(x), -1), rows[:, :, 3]
    stiffness = max(np.linalg.eigvalsh((g.T * mass) @ g)[-1] for g in (inside, outside))
    held = largest_held_by_all(activation, weights.tolist(), dim, np.inf)
    assert held == pytest.approx(2 / stiffness, rel=1e-5 if activation.is_polynomial else 0.01)


@pytest.mark.parametrize(
    ("text", "weights", "dim", "batch"),
    [
        ("h3", (1.0, 0.8), 3, 1),
        ("h1+h2", (1.0, 0.5, 0.5), 4, 1),
        ("z**2", (1.0, 0.9), 2, 4),
        ("h1+0.3*h3", (1.0, 1.0), 3, 32),
    ],
)
def test_mean_squares_of_all_rows_stay_at_the_step_that_all_hold(
    text: str, weights: tuple[float, ...], dim: int, batch: int
) -> None:
    """Of all errors, by quadrature over all inputs; by what each row keeps by itself steps were 3 to 20 % too large."""
    activation, count = Activation.parse(text), len(weights)
    x, mass = product_rule(*[gauss_hermite(2 * activation.degree + 3)] * dim)
    value, slope = (np.broadcast_to(activation.arrays(order)(x[:, :count]), (len(x), count)) for order in (0, 1))
    rows = slope[:, :, None] * x[:, None]
    rows[:, np.arange(count), np.arange(count)] = 2 * value
    g = (rows * np.sqrt(weights)[:, None]).reshape(len(x), -1)
    size, one = g.shape[1], np.eye(g.shape[1])
    products = (g[:, :, None] * g[:, None]).reshape(len(x), -1)
    H, fourth = (mass @ products).reshape(size, size), (products.T * mass) @ products
    held = largest_held_by_all(activation, weights, dim, batch)
    moved = np.eye(size**2) - held * (np.kron(H, one) + np.kron(one, H))
    moved += held**2 * ((1 - 1 / batch) * np.kron(H, H) + fourth / batch)
    rates = np.linalg.eigvals(moved)
    assert np.abs(rates).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_steps_that_are_held_go_as_one_over_the_weights(unit: float) -> None:
    """Whatever their size; a weight that is nothing beside the others holds any step that they do."""
    activation = Activation.parse("tanh")
    held = largest_held_by_all(activation, [0.8, 0.6], 100)
    assert largest_held_by_all(activation, [0.8 * unit, 0.6 * unit, unit / 1e99], 100) * unit == pytest.approx(held)


def test_descent_holds_up_to_two_over_the_stiffness() -> None:
    """Of h4 the norm is as stiff as the direction: 4aEσ² = aEσ'²; of h3 it is the norm."""
    for text in ("h3", "h4"):
        assert largest_held(Activation.parse(text), 0.5, 50, np.inf) == pytest.approx(1.0)


def test_no_step_is_named_for_what_jumps_between_the_points() -> None:
    """Of erf(10⁴z) they see no slope, as of a jump: no number would hold."""
    assert np.isinf(largest_held(Activation.parse("erf(10000*z)"), 0.5, 50))


@pytest.mark.parametrize("text", ["tanh(2*z)", "tanh(5*z)", "erf(10*z)", "selu", "softplus(10*z)", "Max(Min(z,1),-1)"])
def test_of_a_steep_activation_the_step_that_is_held_is_that_of_its_moments(text: str) -> None:
    """Adaptive integrals in the closed form, d = 100: 80 Gauss–Hermite points had 1.02, 2.71, 312, … times it."""
    activation, dim = Activation.parse(text), 100
    sigma, slope = (activation.arrays(order) for order in (0, 1))

    def mean(i: int, j: int) -> float:
        def density(z: float) -> float:
            return float(sigma(z)) ** i * float(slope(z)) ** j * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

        edges = (-12, -1, -0.1, 0, 0.1, 1, 12)
        return sum(float(scipy.integrate.quad(density, *ends)[0]) for ends in pairwise(edges))

    radial, tangent, feed = 16 * mean(4, 0), (dim + 1) * mean(0, 4), (dim - 1) * 16 * mean(2, 2) ** 2
    rates = 2 * 4 * mean(2, 0), 2 * mean(0, 2)
    roots = np.roots([radial * tangent - feed, -(rates[0] * tangent + rates[1] * radial), rates[0] * rates[1]])
    assert largest_held(activation, 1.0, dim) == pytest.approx(float(roots.real.min()), rel=0.01)


@pytest.mark.slow
def test_beyond_the_largest_held_step_runs_lose_what_they_found() -> None:
    """h4, d = 64, a row at rest for time 20: below it none is lost, at the boundary of the drift most are."""
    activation, dim, weight = Activation.parse("h4"), 64, 0.9
    held = largest_held(activation, weight, dim)
    start = InitialState(np.array([[np.sqrt(weight)]]), np.array([[0.1]]))
    lost = {
        share: np.mean(
            online_sgd(
                activation, Teacher.of([weight], dim, normalise=False), start, step_size=share * held,
                steps=int(20 / (share * held)), replicas=64, seed=1
            ).diverged
        )
        for share in (0.3, 2.7)
    }  # fmt: skip
    assert lost[0.3] == 0
    assert lost[2.7] > 0.6
