"""Steps until one direction is found: against integrals in closed form, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
import scipy

from theory import Activation, InputError
from theory.core.quadrature import gauss_legendre
from theory.declared.damage import damage, step_means
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation, Loss, Square
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import Drift, drift, drift_of
from theory.declared.passage import Wandering, allowed_step, behind, overshoot, passage_steps
from theory.declared.rule import Momentum, Rule
from theory.declared.student import committee
from theory.declared.target import Additive
from theory.one_task.hitting_distribution import hitting_distribution

DIM, START, LEVEL = 400.0, 0.05, 0.4
#: As of a ψ² that is 2 whatever the sample.
LINEAR = Drift(np.array([0.0, 0.3]), np.array([2.0]), np.array([0.0]))


@pytest.mark.parametrize("ratio", [0.02, 0.3, 1.0, 4.0])
def test_the_last_step_of_a_random_walk_goes_beyond(ratio: float) -> None:
    """Drawn: Gaussian walks of mean 1 to a level which is far in units of their noise, and no multiple of the mean."""
    rng = np.random.default_rng(0)
    levels = 10 * max(ratio, 1) ** 2 + rng.random(10_000)
    at, beyond = np.zeros(levels.size), np.full(levels.size, np.nan)
    while np.isnan(beyond).any():
        at += 1 + ratio * rng.standard_normal(levels.size)
        now = np.isnan(beyond) & (at >= levels)
        beyond[now] = (at - levels)[now]
    assert abs(beyond.mean() - overshoot(ratio)) < 4 * beyond.std() / 100


def test_steps_are_later_than_their_diffusion() -> None:
    """Drawn: chains with the mean and variance of a step; of 30 steps the law of a diffusion has one too few, .43 by noise."""
    size, start, level, runs, rng = 0.1, 0.4, 0.7, 40_000, np.random.default_rng(0)
    quiet = replace(LINEAR, squares=np.array([0.05]))
    walk = Wandering(quiet, 6.0, size, Activation.parse("h2"))
    u, steps = np.full(runs, start), np.full(runs, np.inf)
    for step in range(1, 300):
        mean, variance = walk.coefficients(u)
        u = u + size * mean + np.sqrt(size * variance) * rng.standard_normal(runs)
        steps[(u >= level) & np.isinf(steps)] = step
        u[np.isfinite(steps)] = level
    law = hitting_distribution(walk, start, level**2).moments().mean / size
    later, noise = behind(quiet, 6.0, 1, start, level)
    error = float(steps.std() / np.sqrt(runs))
    assert abs(steps.mean() - law - later) < 4 * error < noise / 2


def test_a_linear_drift_in_closed_form() -> None:
    """f = ν(1 − u²)u: ∫du/f is the difference of ln(u/√(1 − u²))/ν; the next order term by term, with f' = ν(1 − 3u²)."""
    step = 1e-4
    first, second = passage_steps(LINEAR, DIM, step, START, LEVEL)
    ends = np.array([START, LEVEL])
    logarithm = np.log(ends / np.sqrt(1 - ends**2))
    assert first == pytest.approx(np.diff(logarithm)[0] / 0.3 / step)
    u = np.geomspace(START, LEVEL, 400_001)
    f, slope = 0.3 * (1 - u**2) * u, 0.3 * (1 - 3 * u**2)
    later = (u * (DIM - 1) + f * slope / 2) / f**2 + ((1 - u**2) * 2.0 - f**2) * slope / (2 * f**3)
    assert second == pytest.approx(np.trapezoid(later, u), rel=1e-6)


@pytest.mark.parametrize("start", [0.05, 0.0, -0.3])
def test_a_drift_that_is_none_nowhere_is_passed_through_zero(start: float) -> None:
    """f = ν(1 − u²): ∫du/f is the difference of artanh u over ν; below 0 shrinkage is on its side, and bounds no step."""
    constant = replace(LINEAR, coefficients=np.array([0.3]))
    first, _ = passage_steps(constant, DIM, 1e-4, start, LEVEL)
    assert first == pytest.approx((np.arctanh(LEVEL) - np.arctanh(start)) / 0.3 / 1e-4, rel=1e-10)
    largest = 0.3 * (1 - LEVEL**2) / (LEVEL * (DIM - 1))  # K = u(d − 1)Eψ²/2
    assert allowed_step(constant, DIM, start, LEVEL) == pytest.approx(largest, rel=2e-2)


def test_at_the_whole_step_size_drift_and_shrinkage_meet() -> None:
    largest = allowed_step(LINEAR, DIM, START, LEVEL)
    assert largest == pytest.approx(0.3 * 2 * (1 - LEVEL**2) / (2.0 * (DIM - 1)), rel=1e-2)
    assert allowed_step(LINEAR, DIM, START, LEVEL, 0.25) == pytest.approx(largest / 4)


def test_where_steps_help_the_drift_they_are_bounded_by_nothing() -> None:
    """ψ = σ'(z)f(a): K(0) = E∂f²·E zσ'² < 0 for h1 + h2/5 by a row of h1 − h2/2, and K = 0 at .06: no error."""
    link, sigma = Activation.parse("h1+0.2*h2"), Activation.parse("h1-0.5*h2")
    found = drift(committee(sigma, 1, rows="sphere"), Additive(link, (1.0,)), Correlation(), Rule(1e-3), 10.0)
    assert np.all(found.second_order(10.0, np.array([0.01, 0.05]))[0] < 0)
    assert allowed_step(found, 10.0, 0.01, 0.05) == np.inf
    assert np.isfinite(passage_steps(found, 10.0, 1e-3, 0.01, 0.05)).all()
    assert allowed_step(found, 10.0, 0.01, 0.5) < np.inf


def test_no_way_over_a_barrier_and_none_from_nowhere() -> None:
    with pytest.raises(InputError, match="is not found from"):
        allowed_step(replace(LINEAR, coefficients=np.array([0.0, -0.1, 0.5])), DIM, START, LEVEL)
    with pytest.raises(InputError, match="-1 < start < level < 1"):
        passage_steps(LINEAR, DIM, 1e-4, 0.5, 0.4)


@pytest.mark.parametrize("loss", [Correlation(), Square()])
@pytest.mark.parametrize("link", ["h2", "0.8*h2+0.6*h3"])
def test_the_next_order_is_that_of_one_step_size_throughout(link: str, loss: Loss) -> None:
    """By sums of Hermite tables here, by quadrature over samples at each overlap there; Eψ² varies with the overlap."""
    dim, step, activation = 50, 1e-4, Activation.parse(link)
    student, target = committee(activation, 1, rows="sphere"), Additive(activation, (1.0,))
    directions = Directions.orthonormal(Inputs.isotropic(dim), 1)
    model = DeclaredModel(directions, target, student, Rule(step), loss)
    found = drift_of(model)
    first, second = passage_steps(found, dim, step, 0.3, 0.7)
    other = damage(model, 0.3, 0.7)
    assert first == pytest.approx(other.length / step, rel=1e-8)
    assert second == pytest.approx(other.delay @ other.spans, rel=1e-6)
    square = found.squares_at(0.7)[0] / found.square
    assert abs(square - 1) > 0.3
    f, shrinkage, _ = step_means(model, np.linspace(0.3, 0.7, 50))
    assert allowed_step(found, dim, 0.3, 0.7) == pytest.approx(np.min(f / shrinkage), rel=2e-3)


def shrunk(rows: str, rule: Rule, loss: Loss, dim: int, u: float) -> float:
    """K of h3 by quadrature over samples that the row takes part by part; ± a step, so that only squares stay."""
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    z, q = np.meshgrid(points, points, indexing="ij")
    rest, size = np.full_like(z, np.sqrt(dim - 2)), 1e-6
    # Along the row, beside it towards the direction, and all else.
    x, direction = np.stack([z, q, rest]), np.array([u, np.sqrt(1 - u**2), 0.0])
    a = np.tensordot(direction, x, 1)
    label, field = ((y**3 - 3 * y) / np.sqrt(6) for y in (a, z))
    slope = 3 * (z**2 - 1) / np.sqrt(6)
    pull = (label - field if isinstance(loss, Square) else label) * slope
    along = x.copy()
    if rows == "projected":
        along[0] = 0.0
    if rows == "light":
        along, along[0] = pull * along, 2 * label * field
    else:
        along = pull * along
    beta = rule.beta if isinstance(rule, Momentum) else 0.0
    found = np.zeros_like(z)
    for sign in (1, -1):
        row, velocity = np.zeros_like(x), along
        row[0] = 1.0
        for _ in range(60 if beta else 1):
            row = row + sign * size * velocity
            if rows != "light":
                row = row / np.linalg.norm(row, axis=0)
            velocity = beta * velocity
        found = found + np.tensordot(direction, row / np.linalg.norm(row, axis=0), 1) - u
    return -float(weights @ found @ weights) / (2 * np.pi) / (2 * size**2)


@pytest.mark.parametrize("rule", [Rule(1e-3), Momentum(1e-3, beta=0.6)])
@pytest.mark.parametrize(
    ("rows", "loss"),
    [("sphere", Correlation()), ("sphere", Square()), ("projected", Correlation()), ("light", Correlation())],
)
def test_a_row_that_a_step_lengthens_turns_less(rows: str, loss: Loss, rule: Rule) -> None:
    """By the correlation loss K is twice that of projected rows here, by which the largest step was twice too large."""
    h3, dim, u = Activation.parse("h3"), 32, 0.3
    student = committee(h3, 1, rows="projected" if rows == "projected" else "sphere")
    found = drift(student, Additive(h3, (1.0,)), loss, rule, dim, light=rows == "light")
    assert found.second_order(dim, u)[0] == pytest.approx(shrunk(rows, rule, loss, dim, u), rel=1e-3)


def drift_of_a_chain(u: np.ndarray) -> np.ndarray:
    """That of `LINEAR`."""
    return 0.3 * (1 - u**2) * u


def mean_of_a_chain(dim: float, step: float, start: float, level: float) -> float:
    """Of Gaussian steps with the moments of `LINEAR`: the linear equation of the mean at 1000 overlaps, which hardly fall."""
    edges = np.linspace(start - 0.2, level, int((level - start + 0.2) / (1.5 * step)) + 1)
    points, weights = gauss_legendre(edges[:-1], edges[1:], 6)
    u = np.append(points, start)
    f = drift_of_a_chain(u)
    mean = u + step * f - step**2 * u * (dim - 1)
    spread = step * np.sqrt((1 - u**2) * 2.0 - f**2)
    chances = scipy.stats.norm.pdf(points.ravel(), mean[:, None], spread[:, None]) * weights.ravel()
    left = np.linalg.solve(np.eye(points.size) - chances[:-1], np.ones(points.size))
    return float(1 + chances[-1] @ left)


def beyond(level: float) -> float:
    """Steps by which a chain's last one goes too far: a Gaussian walk of drift θ ends (.5826 + θ/4) standard deviations beyond
    a level (Siegmund 1985)."""
    walk = drift_of_a_chain(level) / np.sqrt((1 - level**2) * 2.0 - drift_of_a_chain(level) ** 2)
    return (0.5826 + walk / 4) / walk


#: Of chains; what is linear in them goes out of two, and of the other two, by which it is known how well.
STEPS = np.array([3.2e-3, 1.6e-3, 8e-4])


@pytest.mark.parametrize(("dim", "start", "level"), [(2.0, 0.5, 0.6), (10.0, 0.6, 0.75)])
def test_a_chain_takes_both_orders_and_what_its_last_step_goes_too_far(dim: float, start: float, level: float) -> None:
    orders = np.array([passage_steps(LINEAR, dim, step, start, level) for step in STEPS])
    gaps = np.array([mean_of_a_chain(dim, step, start, level) for step in STEPS]) - orders[:, 0]
    rough, fine = 2 * gaps[1:] - gaps[:-1]
    error = abs(fine - rough)
    assert fine == pytest.approx(orders[0, 1] + beyond(level), abs=error)
    assert error < min(beyond(level) / 10, 0.05 * orders[0, 1])


def test_the_diffusion_has_what_both_orders_leave_out() -> None:
    """76 steps of 669, where a step's shrinkage is up to .46 of its drift; whole steps of the drift alone are early, too."""
    dim, start, level, square = 20.0, 0.6, 0.75, Activation.parse("h2")
    chain = np.array([mean_of_a_chain(dim, step, start, level) for step in STEPS])
    walks = [
        hitting_distribution(Wandering(LINEAR, dim, step, square), start, level**2).moments().mean for step in STEPS
    ]
    early = np.log(drift_of_a_chain(level) / drift_of_a_chain(start)) / 2
    gaps = chain - np.array(walks) / STEPS - beyond(level) - early
    rough, fine = 2 * gaps[1:] - gaps[:-1]
    left = chain[0] - sum(passage_steps(LINEAR, dim, STEPS[0], start, level)) - beyond(level)
    assert abs(fine) < abs(fine - rough) < 0.01 * left
    assert abs(gaps[0]) < 0.05 * left
