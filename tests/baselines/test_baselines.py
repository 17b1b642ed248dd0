"""Baselines: toy losses, correlation loss and layer-wise training, kernel ridge regression."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
import sympy as sp
import xarray as xr

from dynamics.baselines.kernel_ridge import fitted_risk, kernel_ridge
from dynamics.baselines.layer_wise import LayerWiseResult, layer_wise_sgd, neuron_ends, second_layer
from dynamics.baselines.toy_flow import LEVELS, toy_flow
from dynamics.core.lowering import lower
from emergence.model import Run
from emergence.models import layer_wise
from theory import Activation, InitialState, InputError, Student, Teacher, draw_initial_state
from theory.baselines import gegenbauer
from theory.baselines.correlation import (
    correlation_flow,
    derivation,
    expected_cover,
    settled_loss,
    spherical_plateau,
    undeflated_winners,
    win_probabilities,
)
from theory.baselines.kernel_ridge import Kernel, KernelRidge
from theory.baselines.sample_pairs import conditions, pairs
from theory.baselines.toy import Toy
from theory.baselines.toy import derivation as toy_derivation
from theory.core import hermite
from theory.core.activation import c as cosine
from theory.core.derivation import DerivationError, Step
from theory.one_task.plateau import plateau, u
from theory.one_task.single_task import SingleTask
from theory.prediction.greedy import scores

H3, H4 = Activation.parse("h3"), Activation.parse("h4")

# --------------------------------------------------------------------------------- toys


@pytest.mark.parametrize("shape", ["power", "product"])
@pytest.mark.parametrize("exponent", [1, 2, 3, 5])
def test_toy_derivation_holds(exponent: int, shape: str) -> None:
    toy = Toy(exponent, shape)
    assert toy.derivation().verify() >= 2


def test_a_wrong_toy_rate_is_noticed() -> None:
    toy = Toy(3, "product")
    broken = Toy(3, "product")
    broken.__dict__["rates"] = tuple(rate * sp.Rational(21, 20) for rate in toy.rates)
    with pytest.raises(DerivationError):
        broken.derivation().verify()


def test_toy_sharpness_is_the_printed_one() -> None:
    assert Toy(1).sharpness(1e-9) == pytest.approx(np.log(9) / np.log(2), rel=1e-6)
    assert Toy(2).sharpness(0.01) == pytest.approx(np.log(81) / np.log(1e4 - 1), rel=1e-9)
    assert Toy(3).sharpness(0.01) == pytest.approx(0.0203, abs=5e-5)
    assert Toy(3).sharpness(0.001) == pytest.approx(0.00201, abs=5e-6)
    assert Toy(4).sharpness(1e-3) == pytest.approx(Toy(4).leading_sharpness(1e-3), rel=1e-4)
    for k in (1, 2, 3):
        assert Toy(k).sharpness(1e-5, 8.0) == pytest.approx(Toy(k).leading_sharpness(1e-5, 8.0), rel=1e-4)
    assert Toy(3, "product").sharpness(0.01) == pytest.approx(Toy(3).sharpness(0.01), rel=1e-10)


def test_a_sharpness_is_no_rounding_beside_a_long_plateau() -> None:
    """Of the exact times, of a product and of the flow: (t90 − t10)/t50 down to 1e-40."""
    for k in (5, 7, 10):
        for start in (1e-3, 1e-5):
            limit = Toy(k).leading_sharpness(start, 2.0)
            assert Toy(k).sharpness(start, 2.0) == pytest.approx(limit, rel=1e-4)
            assert Toy(k, "product").product_sharpness([start] * k, 2.0) == pytest.approx(limit, rel=1e-4)
            assert toy_flow(Toy(k), [start], goal=2.0).sharpness[0] == pytest.approx(limit, rel=1e-4)


def test_product_from_unequal_starts() -> None:
    toy = Toy(3, "product")
    assert toy.product_time([0.02] * 3, 0.5, 8.0) == pytest.approx(toy.passage_time(0.02, 0.5, 8.0), rel=1e-9)
    assert toy.product_time([0.9, 0.9, 0.9], 0.5) == 0
    for begun in np.linspace(0.01, 0.49, 40):  # one factor alone relaxes exponentially
        alone = Toy(1, "product").product_time([begun], 0.5)
        assert alone == pytest.approx(np.log((1 - begun) / 0.5) / 2, rel=1e-9)
    # Two factors so large that they hardly move multiply the speed of the third, which relaxes exponentially.
    assert toy.product_time([1e-6, 1e3, 1e3], 0.5, 8.0) == pytest.approx(np.log((8 - 1) / 4) / (2 * 1e12), rel=1e-4)
    with pytest.raises(InputError, match="starts has 2 numbers"):
        toy.product_time([0.1, 0.1], 0.5)
    with pytest.raises(InputError, match="starts reach half the goal 1"):
        toy.product_sharpness([0.9, 0.9, 0.9])


def test_sharpness_of_a_product_is_that_of_its_flow() -> None:
    """Factors integrated one by one, ẇ_i = 2(W − Πw)Πw/w_i."""
    starts, goal = np.array([0.1, 0.2, 0.4]), 1.5

    def rate(_: float, w: np.ndarray) -> np.ndarray:
        return 2 * (goal - np.prod(w)) * np.prod(w) / w

    levels = [lambda _, w, level=level: np.prod(w) - level * goal for level in (0.1, 0.5, 0.9)]
    flow = scipy.integrate.solve_ivp(rate, (0, 50), starts, "DOP853", events=levels, rtol=1e-11, atol=1e-13)
    early, half, late = (float(times[0]) for times in flow.t_events)
    assert Toy(3, "product").product_sharpness(starts.tolist(), goal) == pytest.approx((late - early) / half, rel=1e-7)


def test_toy_times_have_the_goals_unit() -> None:
    """w = W^{1/k} x scales all times by W^{2/k − 2}, a start above 1 included."""
    for start in (0.02, 1.5):
        assert Toy(3).passage_time(start, 0.5, 8.0) == pytest.approx(
            Toy(3).passage_time(start / 2, 0.5) * 8 ** (2 / 3 - 2), rel=1e-9
        )


def test_toy_flow_reaches_its_levels_in_time() -> None:
    toy, starts = Toy(3, "product"), [0.05, 0.01]
    result = toy_flow(toy, starts)
    exact = np.array([[toy.passage_time(start, level) for level in LEVELS] for start in starts])
    error = np.abs(result.times - exact).max(axis=1)
    assert np.all(error < 10 * result.error + 1e-10 * exact[:, 1])
    assert np.all(error < 1e-6 * exact[:, 1])
    assert np.all(result.error < 1e-6 * exact[:, 1])
    loss = result.dataset.loss.values
    assert np.all(np.diff(loss, axis=1) < 0)


def test_unbalanced_factors_are_less_sharp_and_conserve_their_squares() -> None:
    """From unequal starts w_i² − w_j² is kept, so factors grow by the same amount of squares and the time differs."""
    toy = Toy(3, "product")
    result = toy_flow(toy, [[0.01, 0.01, 0.01], [0.001, 0.01, 0.1]])
    assert result.times[1, 1] < result.times[0, 1]
    assert toy.product_time([0.001, 0.01, 0.1], 0.5) == pytest.approx(result.times[1, 1], rel=1e-6)
    assert result.sharpness[1] > 1.5 * result.sharpness[0]


@pytest.mark.parametrize("starts", [[0.9], [-0.1], [0.01, np.nan], [[0.1, 0.1]], []])
def test_toy_flow_refuses_bad_starts(starts: list) -> None:
    with pytest.raises(InputError, match="starts"):
        toy_flow(Toy(3), starts)


@pytest.mark.parametrize("exponent", [0, 11, 2.0, True])
def test_toy_refuses_bad_exponents(exponent: float) -> None:
    with pytest.raises(InputError, match="exponent"):
        Toy(exponent)  # type: ignore[arg-type]


def test_toy_derivation_takes_the_information_exponent() -> None:
    assert r"\dot w_{3}" in toy_derivation(H3).equations
    assert r"\dot w_{4}" in toy_derivation(H4).equations


# ---------------------------------------------------------------------- correlation loss


@pytest.mark.parametrize("text", ["h3", "h4", "0.8*h4+0.6*h6", "h1+h2"])
def test_correlation_derivation_holds(text: str) -> None:
    found = derivation(Activation.parse(text))
    assert found.verify() >= 3
    assert ("q^*" in found.equations) == (text[:2] != "h1")  # of exponent 1 the largest weight wins from any start


def test_a_wrong_step_of_it_is_noticed() -> None:
    found = derivation(H4)
    right = next(step for step in found.steps if "ratio" in step.title)
    wrong = Step(right.title, right.equation, lambda shown: right.residual(shown) + sp.Rational(1, 10**20))  # type: ignore[misc]
    with pytest.raises(DerivationError):
        replace(found, steps=(wrong,)).verify()


def test_neurons_end_where_the_tensor_power_rule_says() -> None:
    teacher = Teacher.power_law(4, 1.0, 30)
    overlap = draw_initial_state(teacher, Student(25, 1.0), 3).overlap
    ends = neuron_ends(H4, teacher, np.concatenate([overlap, np.zeros((1, 4))]))
    assert np.array_equal(ends[25], np.zeros(4))  # where nothing pulls, its clock stands still
    ends = ends[:25]
    winner = np.argmax(scores(overlap, teacher, 4), axis=1)
    assert np.all(ends[np.arange(25), winner] ** 2 > 0.999)
    assert not np.array_equal(winner, np.argmax(np.abs(overlap), axis=1))  # weights matter in this draw


def test_the_first_neuron_at_each_direction_is_the_fastest_that_goes_there() -> None:
    teacher = Teacher.power_law(4, 1.0, 30)
    initial = draw_initial_state(teacher, Student(6, 1.0), 3)
    ends = np.argmax(neuron_ends(H4, teacher, initial.overlap) ** 2, axis=1)
    neuron, time = undeflated_winners(H4, teacher, initial)
    assert np.array_equal(np.isinf(time), [q not in ends for q in range(4)])
    assert np.isinf(time).any()  # in this draw not every direction is taken
    for q in set(ends):
        alone = [SingleTask(H4).half_time(float(teacher.a[q]), float(initial.overlap[i, q])) for i in range(6)]
        assert ends[neuron[q]] == q
        assert time[q] == alone[neuron[q]] == min(alone[i] for i in np.flatnonzero(ends == q))


def climbed(coefficients: dict[int, float], weights: tuple[float, ...], start: np.ndarray, end: float) -> np.ndarray:
    """Overlaps (P, times) of one neuron by the correlation flow written out, φ' = Σ j σ_j² u^(j−1), on 2001 times to `end`."""
    a = np.array(weights)

    def velocity(_: float, t: np.ndarray) -> np.ndarray:
        pull = a * sum(j * c**2 * t ** (j - 1) for j, c in coefficients.items())
        return np.asarray(pull - t * (pull @ t))

    times = np.linspace(0, end, 2001)
    return np.asarray(scipy.integrate.solve_ivp(velocity, (0, end), start, t_eval=times, rtol=1e-9, atol=1e-12).y)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_of_several_degrees_a_neuron_goes_where_it_would_be_first(seed: int) -> None:
    """By the flow of each; leading scores, of h3, send one elsewhere in each of these draws (in 17 of 30)."""
    activation, teacher = Activation.parse("0.3*h3+h4"), Teacher.power_law(3, 0.3, 200)
    initial, first = draw_initial_state(teacher, Student(6, 1.0), seed), np.full((6, 3), np.inf)
    neuron, time = undeflated_winners(activation, teacher, initial)
    last = 1.2 * float(np.max(time, initial=0.0, where=np.isfinite(time)))
    for k, start in enumerate(initial.overlap):
        path = climbed({3: 0.3, 4: 1.0}, teacher.weights, start, last) ** 2 >= 0.5
        first[k] = np.where(path.any(axis=1), np.argmax(path, axis=1) * last / 2000, np.inf)
    assert np.array_equal(neuron, np.where(np.isinf(first.min(axis=0)), -1, np.argmin(first, axis=0)))


def test_below_exponent_3_no_score_says_where_a_neuron_goes() -> None:
    """At J = 2 all end at the largest weight, at J = 1 between all, as fast as no single direction would pull."""
    teacher = Teacher((1.0, 0.5), 64)
    initial = draw_initial_state(teacher, Student(6, 1.0), 1)
    by_score = np.argmax(scores(initial.overlap, teacher, 2), axis=1)
    ends = [np.argmax(climbed({2: 1.0}, (1.0, 0.5), start, 60.0)[:, -1] ** 2) for start in initial.overlap]
    assert by_score.max() == 1
    assert ends == [0] * 6
    mixed = climbed({1: 1.0}, (1.0, 0.5), initial.overlap[0], 60.0)[:, -1]
    assert mixed == pytest.approx(np.array([1.0, 0.5]) / np.hypot(1.0, 0.5))
    for link in ("h2", "h1+0.3*h3"):
        with pytest.raises(InputError, match="needs 3 or more"):
            undeflated_winners(Activation.parse(link), teacher, initial)


@pytest.mark.parametrize("link", ["h2", "h1+0.3*h3"])
def test_of_one_direction_the_time_is_known_at_any_exponent(link: str) -> None:
    activation, teacher = Activation.parse(link), Teacher((1.0,), 64)
    initial = draw_initial_state(teacher, Student(6, 1.0), 1)
    neuron, time = undeflated_winners(activation, teacher, initial)
    coefficients = {j: float(c) for j, c in activation.coefficients.items()}
    path = climbed(coefficients, (1.0,), initial.overlap[neuron[0]], 10.0)[0]
    assert time[0] == pytest.approx(float(np.interp(0.5, path**2, np.linspace(0, 10.0, 2001))), abs=1e-3)


@pytest.mark.slow_for("1")
@pytest.mark.parametrize("seed", [0, 1])
def test_layer_wise_steps_are_those_of_all_directions_with_their_conditions(seed: int) -> None:
    """Beside the overlaps' own equations, dt_q/dτ = 3a_q t_q² − 3t_q Σ_p a_p t_p³, of the first row that is there."""
    resolved = layer_wise.resolve(layer_wise.LayerWiseProblem(seed=seed))
    a, start = resolved.teacher.a, resolved.initial.overlap
    known, steps = layer_wise._in_steps(resolved), []
    for p in range(2):

        def found(_: float, t: np.ndarray, p: int = p) -> float:
            return float(t[p] ** 2 - 0.5)

        found.terminal = True  # type: ignore[attr-defined]
        runs = [
            scipy.integrate.solve_ivp(
                lambda _, t: 3 * (a * t**2 - t * (a @ t**3)), (0.0, 50.0), row, events=found, rtol=1e-9, atol=1e-12
            )
            for row in start
        ]
        steps.append(min(run.t_events[0][0] for run in runs if len(run.t_events[0])) / resolved.step_size)
    assert [known[1].value, known[2].value] == pytest.approx(steps, rel=1e-3)
    assert resolved.predicted / resolved.step_size != pytest.approx(np.array(steps), rel=1e-3)  # one direction alone
    # At the default step noise moves a time by a third and more.
    assert [x.name for x in known[2].conditions if not x.holds] == ["fluctuations"]


def test_a_run_whose_times_are_not_known_says_why() -> None:
    resolved = layer_wise.resolve(
        layer_wise.LayerWiseProblem(activation="h2", dim=16, teacher_width=2, student_width=2)
    )
    assert resolved.steps > 0
    result = SimpleNamespace(half_steps=np.full((2, 2), np.nan), steps=resolved.steps)
    shown = layer_wise._table(
        resolved, Run(xr.Dataset({"loss": (("replica", "time"), np.ones((2, 2)))}), result=result)
    ).text
    assert "no steps predicted: activation 'h2' has information exponent 2" in shown
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith(("1 ", "2 "))]
    assert [row[2:7] for row in rows] == [["-"] * 5] * 2


def test_win_probabilities_against_draws() -> None:
    weights = np.array([1.0, 0.5, 0.2])
    g = np.random.default_rng(0).standard_normal((200_000, 3))
    for exponent, score in ((4, weights * g**2), (3, weights * g)):
        wins = np.bincount(np.argmax(score, axis=1)[score.max(axis=1) > 0], minlength=3) / len(g)
        assert win_probabilities(weights, exponent) == pytest.approx(wins, abs=4 * 0.5 / np.sqrt(len(g)))
    assert win_probabilities(weights, 4).sum() == pytest.approx(1)
    assert win_probabilities(weights, 3).sum() == pytest.approx(1 - 2**-3)
    assert expected_cover(np.ones(5), 4, 7) == pytest.approx(5 * (1 - 0.8**7))


def test_width_exponents_of_the_slides() -> None:
    """ln(1/π)/ln P for one weak direction among P = 128 whose others are κ times as large."""
    found = []
    for ratio in (1, 2, 3, 4):
        weights = np.full(128, float(ratio))
        weights[0] = 1.0
        found.append(-np.log(win_probabilities(weights, 4)[0]) / np.log(128))
    assert found == pytest.approx([1.00, 1.67, 2.25, 2.77], abs=0.006)


def test_noise_of_a_spherical_step_against_quadrature() -> None:
    """K(u) and N(u) for h3 and two teachers, by exact quadrature in coordinates; those of the 2-homogeneous step differ."""
    dim, weight, at = 20, 0.8, 0.4
    shrinkage, variance = spherical_plateau(H3).laws(weight, 1.0, dim)
    nodes, mass = np.polynomial.hermite_e.hermegauss(12)
    x, other, own = np.meshgrid(nodes, nodes, nodes, indexing="ij")
    p = np.einsum("i,j,k->ijk", mass, mass, mass) / mass.sum() ** 3
    z = at * x + np.sqrt(1 - at**2) * own
    label = weight * hermite.values(x, 3)[3] + 0.6 * hermite.values(other, 3)[3]
    push = label * np.sqrt(3) * hermite.values(z, 2)[2]
    outside = x**2 + other**2 + own**2 - z**2 + dim - 3
    assert float(shrinkage(at)) == pytest.approx(0.5 * at * np.sum(p * push**2 * outside), rel=1e-10)
    move = push * (x - at * z)
    assert float(variance(at)) == pytest.approx(np.sum(p * move**2) - np.sum(p * move) ** 2, rel=1e-10)
    assert float(plateau(H3).laws(weight, 1.0, dim)[0](at)) != pytest.approx(float(shrinkage(at)), rel=1e-3)


def test_a_mean_or_no_polynomial_is_refused() -> None:
    with pytest.raises(InputError, match="mean"):
        correlation_flow(Activation.parse("z**2"))
    with pytest.raises(InputError, match="polynomial"):
        spherical_plateau(Activation.parse("erf"))
    with pytest.raises(InputError, match="exponent"):
        win_probabilities(np.ones(2), 2)


# ----------------------------------------------------------------------------- layer-wise

DIM, STEPS = 12, 160
TEACHER = Teacher.of([0.8, 0.6], DIM)
START = draw_initial_state(TEACHER, Student(3, 1.0), 5)
LOWERED = lower(correlation_flow(H3))
REPLICAS = 200


@pytest.fixture(scope="module")
def runs() -> dict[str, LayerWiseResult]:
    """The same problem exactly in law and in coordinates."""
    return {
        method: layer_wise_sgd(
            H3, TEACHER, START, step_size=4e-3, steps=STEPS, batch=4, replicas=REPLICAS, seed=3, method=method, saves=2,
            samples=100 if method == "exact" else None,
        )
        for method in ("exact", "ambient")
    }  # fmt: skip


def test_both_methods_have_the_same_law(runs: dict[str, LayerWiseResult]) -> None:
    means, errors = {}, {}
    for method, run in runs.items():
        end = run.dataset.overlap.values[:, -1].reshape(REPLICAS, -1)
        values = np.concatenate([end, end**2, run.dataset.loss.values[:, -1:]], axis=1)
        means[method], errors[method] = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(REPLICAS)
    score = (means["exact"] - means["ambient"]) / np.hypot(errors["exact"], errors["ambient"])
    assert np.abs(score).max() < 4
    moved = np.abs(means["exact"][:6] - START.overlap.ravel()) / errors["exact"][:6]
    assert moved.max() > 10  # the run does move


@pytest.mark.parametrize("activation", [H3, H4], ids=["h3", "h4"])
def test_the_loss_settles_where_drift_and_shrinkage_balance(activation: Activation) -> None:
    """To first order in the step: at two step sizes, what is left out falls with the step."""
    weights, dim, left = np.array([0.8, 0.6]), 50, []
    degree = activation.information_exponent  # φ(u) = u^J
    for step_size in (1e-7, 1e-8):
        lost = 0.0
        for weight in weights:
            shrinkage, _ = spherical_plateau(activation).laws(weight, 1.0, dim)

            def excess(u: float, weight: float = weight, step: float = step_size, law: Callable = shrinkage) -> float:
                return weight * degree * u ** (degree - 1) * (1 - u * u) - step * float(law(u))

            u = scipy.optimize.brentq(excess, 0.9, 1.0, xtol=1e-15)
            lost += weight**2 * (1 - u ** (2 * degree)) / 2
        left.append(abs(settled_loss(activation, weights, step_size, dim) / lost - 1))
    assert left[0] < 0.02
    assert left[1] < 0.2 * left[0]


def test_only_the_directions_of_the_start_count() -> None:
    """Longer rows, each in its own way, begin and go on as those of length 1."""
    size = np.array([[2.0], [0.5], [1.5]])
    start = InitialState(size * START.on_teachers, size * START.residual)
    setting = {"step_size": 4e-3, "steps": 8, "replicas": 3, "seed": 3, "saves": 2}
    one, longer = (layer_wise_sgd(H3, TEACHER, x, **setting).dataset for x in (START, start))
    np.testing.assert_allclose(longer.overlap, one.overlap, rtol=1e-10)
    np.testing.assert_allclose(longer.norm2, 1.0, rtol=1e-10)
    np.testing.assert_allclose(longer.loss, one.loss, rtol=1e-10)


def test_a_fit_to_samples_costs_more_than_the_population_fit(runs: dict[str, LayerWiseResult]) -> None:
    data = runs["exact"].dataset
    assert np.all(data.fitted_loss.values > data.loss.values[:, -1])


def test_neurons_stay_on_the_sphere(runs: dict[str, LayerWiseResult]) -> None:
    for run in runs.values():
        assert np.abs(run.dataset.norm2.values - 1).max() < 1e-12


def test_second_layer_is_the_least_squares_fit() -> None:
    """Against explicit normal equations of the kernel."""
    t, c = START.overlap, START.student_overlap
    weights, loss = second_layer(LOWERED, jnp.asarray(t), jnp.asarray(c), jnp.asarray(TEACHER.a), jnp.asarray(1e-3))
    expected = np.linalg.solve(c**3 + 1e-3 * np.eye(3), t**3 @ TEACHER.a)
    assert np.asarray(weights) == pytest.approx(expected, rel=1e-9)
    assert float(loss) == pytest.approx(
        0.5 * (1 - 2 * expected @ t**3 @ TEACHER.a + expected @ c**3 @ expected), rel=1e-9
    )
    assert float(loss) < 0.5


def test_perfect_neurons_leave_no_loss() -> None:
    weights, loss = second_layer(LOWERED, jnp.eye(3)[:, :2], jnp.eye(3), jnp.asarray(TEACHER.a), jnp.asarray(1e-12))
    assert np.asarray(weights) == pytest.approx([0.8, 0.6, 0.0])
    assert float(loss) == pytest.approx(0, abs=1e-10)


def test_settled_loss_is_linear_in_the_step() -> None:
    assert settled_loss(H3, np.array([0.8, 0.6]), 2e-4, 50) == pytest.approx(
        2 * settled_loss(H3, np.array([0.8, 0.6]), 1e-4, 50)
    )


def test_below_exponent_3_neurons_settle_at_a_direction_only_if_it_is_the_only_one() -> None:
    h2 = Activation.parse("h2")
    assert settled_loss(h2, np.array([0.8]), 1e-4, 50) > 0
    for weights, total in (([0.8, 0.5], None), ([0.8], 1.0)):
        with pytest.raises(InputError, match="has information exponent 2, but where neurons settle"):
            settled_loss(h2, np.array(weights), 1e-4, 50, total)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"step_size": -1.0}, "step_size"),
        ({"samples": 0}, "samples"),
        ({"method": "x"}, "method"),
    ],
)
def test_layer_wise_refuses_bad_input(options: dict, named: str) -> None:
    with pytest.raises(InputError, match=named):
        layer_wise_sgd(H3, TEACHER, START, **({"step_size": 1e-3, "steps": 1} | options))


# -------------------------------------------------------------------------- kernel ridge


def test_gegenbauer_addition_theorem() -> None:
    """E Q_k(⟨x,y⟩)Q_l(⟨x,y'⟩) = δ_kl Q_k(⟨y,y'⟩)/B_k by sampling; the recurrences agree."""
    rng, dim = np.random.default_rng(0), 5
    x = rng.standard_normal((400_000, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y, w = np.eye(dim)[0], np.array([0.6, 0.8, 0, 0, 0])
    left, right = (gegenbauer.values(x @ v, 3, dim) for v in (y, w))
    found = left @ right.T / len(x)
    expected = np.diag(gegenbauer.values(np.array(0.6), 3, dim) / [gegenbauer.multiplicity(dim, k) for k in range(4)])
    assert found == pytest.approx(expected, abs=4e-3)
    points, coefficients = np.linspace(-1, 1, 9), rng.standard_normal(7)
    assert gegenbauer.series(points, coefficients, dim) == pytest.approx(
        coefficients @ gegenbauer.values(points, 6, dim)
    )


def test_a_series_leaves_out_what_is_below_rounding_and_no_more() -> None:
    points, dim, eps = np.linspace(-1, 1, 9), 5, np.finfo(float).eps
    falling = 0.2 ** np.arange(60)
    falling[7] = 0.0
    whole = falling @ gegenbauer.values(points, 59, dim)
    assert np.max(np.abs(gegenbauer.series(points, falling, dim) - whole)) < 8 * eps * falling.sum()
    # One late term above rounding is there; Q_k(1) = 1.
    late = np.array([1.0, *np.zeros(20), 64 * eps])
    assert gegenbauer.series(np.array([1.0]), late, dim)[0] - 1 == pytest.approx(64 * eps, abs=8 * eps)
    assert np.array_equal(gegenbauer.series(points, np.zeros(4), dim), np.zeros(9))


def test_energies_are_those_of_the_target() -> None:
    """Σ_k F_k² = E f_*² on the sphere, by sampling; for h2 all of it at degree 2."""
    problem = KernelRidge(Activation.parse("h2+h3"), Teacher.of([1.0, 0.5], 6), Kernel.parse("exp"))
    x = np.random.default_rng(0).standard_normal((400_000, 6))
    x *= np.sqrt(6) / np.linalg.norm(x, axis=1, keepdims=True)
    h = hermite.values(x[:, :2], 3)
    label = (h[2] + h[3]) @ problem.teacher.a
    assert problem.total == pytest.approx(np.mean(label**2), abs=4 * np.std(label**2) / np.sqrt(len(x)))
    pure = KernelRidge(Activation.parse("h2"), Teacher.of([1.0], 6), Kernel.parse("exp"))
    assert pure.energies[2] == pytest.approx(pure.total)


@pytest.mark.parametrize("dim", [12, 100, 1000, 10**4, 10**8])
def test_weights_of_a_squared_cosine_at_any_dimension(dim: int) -> None:
    """s² = 1/d + (1 − 1/d)Q₂: nothing is left for a ridge."""
    problem = KernelRidge(Activation.parse("h2"), Teacher.of([1.0], dim), Kernel.parse("h2"))
    expected = np.zeros_like(problem.kernel_weights)
    expected[[0, 2]] = 1 / dim, 1 - 1 / dim
    assert problem.kernel_weights == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert problem.effective_ridge == pytest.approx(problem.ridge, rel=1e-10)
    # n = B₂/2 samples hold half of one degree, up to the ridge and the constant.
    assert problem.risk(problem.multiplicities[2] / 2) == pytest.approx(problem.total / 2, rel=0.05)


@pytest.mark.parametrize("dim", [5, 100])
def test_weights_of_the_exponential_are_bessel_functions(dim: int) -> None:
    """Gegenbauer's expansion of the plane wave: w_k = B_k Γ(d/2) 2^{d/2−1} I_{k+d/2−1}(1)."""
    k = np.arange(9)
    counts = np.array([float(gegenbauer.multiplicity(dim, one)) for one in k])
    unit = np.exp(scipy.special.gammaln(dim / 2) + (dim / 2 - 1) * np.log(2))
    expected = counts * unit * scipy.special.iv(k + dim / 2 - 1, 1.0)
    found = KernelRidge(H3, Teacher.of([1.0], dim), Kernel.parse("exp")).kernel_weights[:9]
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", ["relu", "gelu", "erf"])
@pytest.mark.parametrize("dim", [3, 7])
def test_weights_of_kernels_of_activations_are_means_over_the_sphere(name: str, dim: int) -> None:
    """w_k = B_k E k(s)Q_k(s), by adaptive quadrature at small dimensions, where little cancels."""
    kernel, degrees = Kernel.parse(name), 13
    counts = np.array([float(gegenbauer.multiplicity(dim, k)) for k in range(degrees)])

    def integrand(angle: float) -> np.ndarray:
        s = np.array(np.cos(angle))
        law = np.sin(angle) ** (dim - 2)
        return law * np.append(kernel.function(s) * gegenbauer.values(s, degrees - 1, dim), 1.0)

    found, _ = scipy.integrate.quad_vec(integrand, 0.0, np.pi, epsabs=1e-14, limit=500)
    weights = KernelRidge(H3, Teacher.of([1.0], dim), kernel).kernel_weights[:degrees]
    assert weights == pytest.approx(counts * found[:-1] / found[-1], abs=1e-11)


@pytest.mark.parametrize(("degree", "dim"), [(4, 50), (8, 1000), (20, 40), (20, 10**6)])
def test_the_energy_of_a_hermite_polynomial_is_its_mean_square(degree: int, dim: int) -> None:
    """From the moments of a coordinate, in fractions: E(√d s)^2i = Π_l (2l + 1)d/(d + 2l)."""
    square = (sp.hermite_prob(degree, hermite.z) ** 2).as_poly(hermite.z)
    moments = lambda i: sp.prod([sp.Rational((2 * m + 1) * dim, dim + 2 * m) for m in range(i)])  # noqa: E731
    expected = sum(value * moments(power // 2) for (power,), value in square.terms()) / sp.factorial(degree)
    problem = KernelRidge(Activation.from_degree(degree), Teacher.of([1.0], dim), Kernel.parse("exp"))
    assert problem.total == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.slow
def test_the_equivalent_is_the_mean_of_fits_at_larger_dimension() -> None:
    """Fits in NumPy of h2 with the kernel s², whose error is a quadratic form's; d = 80."""
    dim, samples, ridge, replicas = 80, 2800, 1e-3, 6
    rng, risk = np.random.default_rng(0), []
    for _ in range(replicas):
        x = rng.standard_normal((samples, dim))
        x *= np.sqrt(dim) / np.linalg.norm(x, axis=1, keepdims=True)
        alpha = scipy.linalg.solve(
            (x @ x.T / dim) ** 2 + ridge * np.eye(samples), (x[:, 0] ** 2 - 1) / np.sqrt(2), assume_a="pos"
        )
        # f* − f̂ = xᵀMx − 1/√2, |x|² = d
        form = -(x.T * alpha) @ x / dim**2
        form[0, 0] += 1 / np.sqrt(2)
        trace = np.trace(form)
        risk.append((trace**2 + 2 * np.sum(form**2)) * dim / (dim + 2) - np.sqrt(2) * trace + 0.5)
    error = np.std(risk, ddof=1) / np.sqrt(replicas)
    problem = KernelRidge(Activation.parse("h2"), Teacher.of([1.0], dim), Kernel.parse("h2"), ridge)
    assert problem.risk(samples) == pytest.approx(np.mean(risk), abs=4 * error)
    assert error < 0.06 * np.mean(risk)


def test_exact_risk_against_a_test_set() -> None:
    """The population error of a fit, against fresh points."""
    problem = KernelRidge(H3, Teacher.of([1.0, 1.0], 6), Kernel.parse("exp"), ridge=1e-2)
    exact = fitted_risk(problem, 60, np.random.default_rng(7))
    points = np.random.default_rng(7).standard_normal((60, 6))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    fresh = np.random.default_rng(8).standard_normal((100_000, 6))
    fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
    target = lambda x: hermite.values(np.sqrt(6) * x[:, :2], 3)[3] @ problem.teacher.a  # noqa: E731
    alpha = np.linalg.solve(np.exp(points @ points.T) + 1e-2 * np.eye(60), target(points))
    error = (np.exp(fresh @ points.T) @ alpha - target(fresh)) ** 2
    assert exact == pytest.approx(error.mean(), abs=4 * error.std() / np.sqrt(len(error)))
    assert error.std() / np.sqrt(len(error)) < 0.02 * exact


def test_deterministic_equivalent_and_its_limits() -> None:
    problem = KernelRidge(H3, Teacher.of([1.0], 10), Kernel.parse("exp"))
    assert problem.risk(1e-6) == pytest.approx(problem.total, rel=1e-3)
    assert problem.risk(1e5) < 1e-3 * problem.total
    assert problem.risk(problem.samples_to(0.3)) == pytest.approx(0.3)
    assert problem.staircase(5) == pytest.approx(problem.total)
    assert problem.staircase(10**4) == 0
    blind = KernelRidge(H3, Teacher.of([1.0], 10), Kernel.parse("h1+h2"))  # a kernel without degree 3
    assert blind.risk(1e5) >= blind.energies[3]


def test_pairs_are_what_the_equivalent_leaves_out_of_many_samples() -> None:
    """v'C⁻²v of sample covariances C of the products x_a x_b, whitened: N = 15 harmonics, of degrees 0 and 2, all learned.

    By Δ = C − 1, XX = N X for a sample's X, E v'Δ²v = (N − 1)/n, E v'Δ³v = (N² − 3N + 2)/n² and
    E v'Δ⁴v = (2(N − 1)² + e − 2N + 1)/n² + O(n⁻³), 5e/n² being `pairs`; beside (1 − N/n)⁻³ that is −3/n + (5e − 9N + 7)/n².
    """
    dim, samples, replicas, rng = 5, 320, 12_000, np.random.default_rng(0)
    i, j = np.triu_indices(dim)
    second = np.diag(np.where(i == j, 2.0, 1.0)) + np.outer(i == j, i == j)
    whitener = np.linalg.inv(np.linalg.cholesky(second / (dim * (dim + 2))))
    # A product of two coordinates, x_a x_b of a ≠ b: of degree 2, and of unit mean square.
    v = np.eye(i.size)[i != j] * np.sqrt(dim * (dim + 2.0)) @ np.linalg.inv(whitener)
    found = np.empty(replicas)
    for one in range(replicas):
        x = rng.standard_normal((samples, dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        fields = (x[:, i] * x[:, j]) @ whitener.T
        found[one] = np.mean(np.sum(np.linalg.solve(fields.T @ fields / samples, v.T) ** 2, axis=0))
    share = i.size / samples
    moved = found * (1 - share) ** 3 - 1
    error = float(np.std(moved)) / np.sqrt(replicas)
    added = pairs(KernelRidge(Activation.parse("h2"), Teacher.of([1.0], dim), Kernel.parse("h2"), 1e-9), samples).value
    nested = -3 / samples + (7 - 9 * i.size) / samples**2
    allowed = 4 * error + 10 * share**3
    assert np.mean(moved) == pytest.approx(nested + added, abs=allowed)
    assert np.mean(moved) != pytest.approx(nested, abs=allowed)


@pytest.mark.parametrize(
    ("activation", "kernel", "dim", "samples", "holds"),
    [
        ("h1", "exp", 6, 60, False),
        ("h3", "h1+h2+h3", 4, 47, False),
        ("h3", "h1+h2", 5, 24, False),
        ("h4", "h1+h2+h3", 3, 45, False),
        ("h5", "h1+h3+h4", 3, 72, False),
        ("h1", "exp", 24, 48, True),
        ("h3", "exp", 8, 60, True),
        ("h2", "h1", 20, 60, True),
    ],
)
def test_kernel_ridge_says_where_its_mean_is_off(
    activation: str, kernel: str, dim: int, samples: int, holds: bool
) -> None:
    problem = KernelRidge(Activation.parse(activation), Teacher.of([1.0], dim), Kernel.parse(kernel))
    run = kernel_ridge(problem, [samples], replicas=300)
    off, error = run.risk.mean() / problem.risk(samples) - 1, run.risk.std() / problem.risk(samples) / np.sqrt(300)
    assert bool(run.dataset.predicted_valid[0]) == holds == (abs(off) < 0.1)
    assert abs(abs(off) - 0.1) > 2 * error  # the runs do say it


@pytest.mark.slow
def test_pairs_move_the_risk_of_what_is_not_learned() -> None:
    """h4 by a kernel of degrees 0 and 2, N = 6 harmonics, all learned of 60 samples: higher orders are some ϱ = N/n of it."""
    problem, samples = KernelRidge(H4, Teacher.of([1.0], 3), Kernel.parse("h2"), 1e-6), 60
    moved = kernel_ridge(problem, [samples], replicas=6000, seed=1).risk[:, 0] / problem.risk(samples) - 1
    value, error = pairs(problem, samples).value, moved.std() / np.sqrt(moved.size)
    assert moved.mean() == pytest.approx(value, abs=4 * error + 3 * 0.1 * value)
    assert moved.mean() > 5 * error


@pytest.mark.parametrize("seed", [0, 1])
def test_one_sample_is_fitted_exactly(seed: int) -> None:
    """α = f*(x)/(k(1) + λ), its error against points of the sphere: the equivalent is 21 % high."""
    dim, ridge, count = 4, 0.02, 60_000
    problem = KernelRidge(
        Activation.parse("0.447*h2+0.637*h4"),
        Teacher.of([1.0, 1.0, 1.0], dim),
        Kernel.parse("1.4*h0+0.2*h1+0.9*h3"),
        ridge,
    )
    x, fresh = np.random.default_rng(seed).standard_normal((2, count, dim))
    x, fresh = (y / np.linalg.norm(y, axis=1, keepdims=True) for y in (x, fresh))
    target = lambda y: [0.447, 0.637] @ hermite.values(np.sqrt(dim) * y[:, :3], 4)[2::2].sum(axis=2) / 3**0.5  # noqa: E731
    k = lambda s: 1.96 + 0.04 * s + 0.81 * s**3  # noqa: E731
    risk = (target(fresh) - k(np.sum(x * fresh, axis=1)) * target(x) / (k(1.0) + ridge)) ** 2
    assert problem.risk(1) == pytest.approx(risk.mean(), abs=4 * risk.std() / np.sqrt(count))
    assert problem.risk(1 + 1e-9) > 1.2 * problem.risk(1) > 1.2 * 40 * risk.std() / np.sqrt(count)
    assert not conditions(problem, 1)


@pytest.mark.slow_for("relu")
@pytest.mark.parametrize("kernel", ["relu", "h1+h2"])
def test_a_degree_that_the_kernel_does_not_have_is_always_left(kernel: str) -> None:
    """The fit itself leaves it, whatever n; with many samples no more. h5 has a part of degree 1 as well, which is learned."""
    problem = KernelRidge(Activation.parse("h5"), Teacher.of([1.0], 8), Kernel.parse(kernel), 1e-6)
    left = problem.energies[3] + problem.energies[5]
    assert problem.staircase(1e5) == pytest.approx(left)
    assert problem.staircase(5) == pytest.approx(problem.total)  # the constant alone
    assert 0.02 * problem.total < problem.energies[1] == pytest.approx(problem.total - problem.staircase(10))
    fits = kernel_ridge(problem, [1500], replicas=5).risk[:, 0]
    error = fits.std(ddof=1) / np.sqrt(fits.size)
    assert fits.min() > left * (1 - 1e-9)  # (the mean over the sphere is an exact integral; rounding made .37 of .4)
    assert abs(fits.mean() - problem.risk(1500)) < 5 * error < 0.1 * left


def test_harmonics_that_the_kernel_does_not_have_need_no_samples() -> None:
    """In d = 6 degrees 0 to 4 have 1, 6, 20, 50, 105 harmonics: an even kernel resolves 4 from 126 on, not 182."""
    even, every = (KernelRidge(H4, Teacher.of([1.0], 6), Kernel.parse(one), 1e-9) for one in ("h2+h4+2", "exp"))
    assert even.staircase(125) > 0 == even.staircase(127)
    assert every.staircase(181) > 0 == every.staircase(183)
    assert even.risk(160) < 1e-3 * even.total < 1e-2 * every.risk(160)


def test_kernel_ridge_is_reproducible() -> None:
    problem = KernelRidge(H3, Teacher.of([1.0], 6), Kernel.parse("relu"))
    first, again = kernel_ridge(problem, [20, 40], replicas=3), kernel_ridge(problem, [20], replicas=2)
    assert np.array_equal(first.risk[:2, 0], again.risk[:, 0])
    assert first.dataset.risk.dims == ("replica", "samples")
    done: list[float] = []
    kernel_ridge(problem, [10, 20], replicas=2, progress=lambda share, _: done.append(share))
    assert done == [0.25, 0.5, 0.75, 1.0]


def test_kernel_ridge_refuses_bad_input() -> None:
    teacher = Teacher.of([1.0], 6)
    with pytest.raises(InputError, match="ridge"):
        KernelRidge(H3, teacher, Kernel.parse("exp"), 0.0)
    with pytest.raises(InputError, match="polynomial"):
        KernelRidge(Activation.parse("erf"), teacher, Kernel.parse("exp"))
    with pytest.raises(InputError, match="dim"):
        KernelRidge(H3, Teacher.of([1.0], 2), Kernel.parse("exp"))
    with pytest.raises(InputError, match=r"kernel is 'cos'.*power series"):
        KernelRidge(H3, teacher, Kernel("cos", sp.cos(cosine)))
    with pytest.raises(InputError, match="samples"):
        kernel_ridge(KernelRidge(H3, teacher, Kernel.parse("exp")), [10**6])


# -------------------------------------------------------------------------- command line


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["toy", "--starts", "0.9"], "--starts"),
        (["toy", "--exponents", "2.5"], "--exponents"),
        (["toy", "--exponents", "30"], "exponent"),
        (["toy", "--dim", "5"], "--dim"),
        (["kernel-ridge", "--steps", "4"], "--steps"),
        (["kernel-ridge", "--ridge", "0"], "--ridge"),
        (["kernel-ridge", "--kernel", "nonsense"], "nonsense"),
        (["kernel-ridge", "--samples", "1e9"], "--samples"),
        (["layer-wise", "--activation", "relu"], "relu"),
        (["layer-wise", "--samples", "3", "4"], "unrecognized arguments: 4"),
        (["layer-wise", "--step-size", "10"], "step-size"),
        (["gradient-flow", "--kernel", "exp"], "--kernel"),
        (["pruning", "--ridge", "1"], "--ridge"),
    ],
)
def test_bad_input_is_one_line(argv: list[str], named: str, refused: Callable) -> None:
    assert named in refused("simulate", *argv)


@pytest.mark.parametrize(
    ("argv", "variables"),
    [
        (["toy", "--exponents", "3"], {"share", "time", "loss", "sharpness", "level_time"}),
        (["kernel-ridge", "--samples", "20", "40", "--replicas", "2"], {"risk", "predicted", "staircase"}),
        (["layer-wise", "--dim", "12", "--teacher-weights", "0.8", "0.6", "--student-width", "3", "--batch", "4",
          "--steps", "16", "--replicas", str(REPLICAS), "--samples", "100"],
         {"overlap", "norm2", "loss", "second_layer", "fitted_loss"}),
    ],
)  # fmt: skip
def test_simulations_write_what_they_say(argv: list[str], variables: set[str], run: Callable) -> None:
    code, document, _ = run("simulate", *argv, "--quiet")
    assert code == 0
    assert variables <= set(document["variables"])
    data = xr.load_dataset(document["file"])
    assert {name: list(data[name].dims) for name in document["variables"]} == document["variables"]
    assert json.loads(data.attrs["problem"]) == document["problem"] | document["decided"]


def test_a_configuration_file_speaks(run: Callable, tmp_path: Path) -> None:
    text = 'activation = "h2"\ndim = 8\nkernel = "relu"\nsamples = [10]\nreplicas = 2\n'
    (tmp_path / "problem.toml").write_text(text)
    code, document, _ = run("simulate", "kernel-ridge", "--config", "problem.toml", "--dim", "6", "--quiet")
    assert (code, document["problem"]["dim"]) == (0, 6)


def test_shrinkage_of_the_sphere_vanishes_at_zero_overlap() -> None:
    assert spherical_plateau(H4).shrinkage_law.subs(u, 0) == 0


def test_the_flow_without_deflation_is_that_of_massless_students() -> None:
    """The correlation flow is the overlap flow with all masses zero."""
    from theory import overlap_flow

    state = {"t": jnp.asarray(START.overlap), "c": jnp.asarray(START.student_overlap), "r": jnp.zeros(3)}
    a = {"a": jnp.asarray(TEACHER.a)}
    own, other = (
        jax.tree.map(np.asarray, lower(make(H3)).drift(state, a)) for make in (correlation_flow, overlap_flow)
    )
    assert own["t"] == pytest.approx(other["t"], abs=1e-14)
    off = ~np.eye(3, dtype=bool)
    assert own["c"][off] == pytest.approx(other["c"][off], abs=1e-14)
