"""Rules on vectors as they are: what they do with a gradient of zero, and which numbers they refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, zeta

from dynamics.declared import simulate
from dynamics.declared.engine import constant, parts_of
from dynamics.declared.rows import Rows
from dynamics.declared.simulate import declared_sgd
from dynamics.declared.step import Parts, step_sizes, take
from theory import Activation, InputError
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Square
from theory.declared.model import DeclaredModel
from theory.declared.rule import SAM, Adam, Clipped, Here, Momentum, Moved, Muon, Normalised, Rule
from theory.declared.schedule import Linear, Power, Schedule, check_length, size_along, steps_until
from theory.declared.start import draw_start
from theory.declared.student import committee, two_homogeneous
from theory.declared.target import Additive

ROWS, SAMPLE = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.3]]), np.array([[0.3, -0.4, 1.0]])


@pytest.mark.parametrize("rule", [Normalised(0.1), Normalised(0.1, each="row"), Clipped(0.1), SAM(0.1), Muon(0.1)])
def test_a_gradient_of_zero_moves_nothing(rule: Rule) -> None:
    """The label is what the student says: every rule stands still, and moves for another label."""
    student = committee(Activation.parse("h1"), 2)
    parts, rows = Parts(student, Square(), rule), Rows(jnp.asarray(ROWS), jnp.asarray(SAMPLE))
    buffers = {name: Rows(jnp.zeros((2, 3)), rows.samples) for name in rule.buffers}
    label = jnp.sum(rows.fields(), axis=0)
    still, moved = (
        np.asarray(take(parts, rows, jnp.ones(2), buffers, y, jnp.zeros(()), jnp.asarray(0.1)).rows.array)
        for y in (label, label + 1)
    )
    np.testing.assert_array_equal(still, ROWS)
    assert np.abs(moved - ROWS).max() > 1e-3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Adam(0.1, beta=1.0), "beta is 1.0"),
        (lambda: Momentum(0.1, beta=1.0), "momentum is 1.0"),
        (lambda: Muon(0.1, beta=-0.1), "momentum is -0.1"),
        (lambda: Rule(0.1, batch=5, samples=3), "the data set has 3 samples"),
        (lambda: Rule(0.0), "step_size is 0.0"),
        (lambda: Rule(0.1, noise=-1.0), "noise is -1.0"),
    ],
)
def test_numbers_that_no_run_can_have_are_refused(make: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()  # type: ignore[operator]


@dataclass(frozen=True)
class Forgetful(Rule):
    """Every third step nothing is left of the rows but the step."""

    def step(self, at: Here) -> Moved:
        gradient = at.gradient(at.rows, at.second)
        kept = at.rows * jnp.where(at.step % 3 == 2, 0.0, 1.0)
        return Moved(kept - gradient.rows * at.step_size, at.second)


def declared(rule: Rule, dim: int = 100) -> DeclaredModel:
    activation = Activation.parse("erf")
    directions = Directions.orthonormal(Inputs.isotropic(dim), 1)
    return DeclaredModel(directions, Additive(activation, (1.0,)), committee(activation, 2), rule)


@dataclass(frozen=True)
class Late(Rule):
    """Nothing moves before step 6."""

    def step(self, at: Here) -> Moved:
        gradient = at.gradient(at.rows, at.second)
        return Moved(at.rows - gradient.rows * (at.step_size * jnp.where(at.step >= 6, 1.0, 0.0)), at.second)


def test_a_rule_is_told_the_number_of_its_step_within_a_block() -> None:
    model = declared(Late(0.1), 12)
    start = draw_start(model.directions, 2, 1.0)
    waits, moves = (
        declared_sgd(model, start, steps=n, replicas=4, saves=1, block_steps=n).dataset.overlap.values for n in (6, 8)
    )
    np.testing.assert_allclose(waits[:, -1], waits[:, 0], atol=1e-14)
    assert np.all(np.abs(moves[:, -1] - moves[:, 0]) > 1e-6)


@pytest.mark.parametrize(
    "rule", [pytest.param(Forgetful(0.1), marks=pytest.mark.slow), Rule(Linear(0.5, 0.0, 40), decay=2.0, noise=0.3)]
)
def test_rows_may_be_forgotten(rule: Rule) -> None:
    """A step that leaves nothing of a row: blocks of many steps have the law of explicit vectors."""
    model = declared(rule)
    start = draw_start(model.directions, 2, 1.0)
    lengths = []
    for method in ("exact", "ambient"):
        run = declared_sgd(model, start, steps=9, replicas=2000, seed=1, saves=1, method=method, block_steps=9)
        assert not run.diverged.any()
        lengths.append(np.einsum("riaa->r", run.dataset.gram.values[:, -1]))
    error = np.hypot(*(x.std() / np.sqrt(x.size) for x in lengths))
    assert abs(lengths[0].mean() - lengths[1].mean()) < 4.5 * error


@dataclass(frozen=True)
class Constant:
    """One number for one step and for many."""

    end: int | None = None

    def __call__(self, step: object) -> float:
        return 0.25


def test_a_schedule_may_be_one_number() -> None:
    model = declared(Rule(Constant()), dim=4)
    run = declared_sgd(
        model, draw_start(model.directions, 2, 1.0), steps=8, replicas=1, saves=2, method="ambient", block_steps=1
    )
    assert run.dataset.time.values.tolist() == [0.0, 1.0, 2.0]
    assert step_sizes(parts_of(model), constant(model), jnp.arange(3)).tolist() == [0.25] * 3


def test_what_has_diverged_has_diverged_even_if_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least squares without a target beyond its stability: the squared norm is a product of random factors, up and down."""
    line, directions = Activation.parse("z"), Directions.orthonormal(Inputs.isotropic(20), 1)
    model = DeclaredModel(directions, Additive(line, (1e-9,)), committee(line, 1), Rule(2.15 / 22))

    def run() -> np.ndarray:
        start = draw_start(directions, 1, 30.0)
        run = declared_sgd(model, start, steps=400, replicas=40, saves=50, method="ambient")
        return run.dataset.gram.values[..., 0, 0, 0]

    monkeypatch.setattr(simulate, "BLOW_UP", 1e6 / 30.0**2)  # of the squared norm at the start
    marked = run()
    monkeypatch.setattr(simulate, "BLOW_UP", np.inf)
    whole = run()
    beyond = np.maximum.accumulate(whole, axis=1) > 1e6
    assert np.any(beyond & (whole < 1e6))
    np.testing.assert_array_equal(marked, np.where(beyond, np.nan, whole))


@pytest.mark.slow
def test_what_diverges_does_not_depend_on_the_unit_of_the_target() -> None:
    """With weights, squared norms and 1/η in units of s the run is the same."""
    directions = Directions.orthonormal(Inputs.isotropic(20), 1)
    square = Activation.parse("h2")

    def run(unit: float) -> np.ndarray:
        model = DeclaredModel(directions, Additive(square, (unit,)), two_homogeneous(square, 1), Rule(0.2 / unit))
        start = draw_start(directions, 1, 0.5 * np.sqrt(unit))
        run = declared_sgd(model, start, steps=12, replicas=16, saves=12, method="ambient")
        return run.dataset.gram.values[..., 0, 0, 0] / unit

    plain = run(1.0)
    assert 0 < np.isnan(plain[:, -1]).mean() < 1
    for unit in (1e-7, 1e7):
        np.testing.assert_allclose(run(unit), plain, rtol=1e-6)


@pytest.mark.parametrize("method", ["exact", "ambient"])
def test_a_decay_that_leaves_nothing_is_refused(method: str) -> None:
    model = declared(Rule(0.5, decay=2.0))
    with pytest.raises(InputError, match=r"decay is 2.0 and step_size is 0.5: their product"):
        declared_sgd(model, draw_start(model.directions, 2, 1.0), steps=3, method=method)


@pytest.mark.parametrize(
    ("schedule", "sums"),
    [
        (Power(0.2, 1.0), lambda n: 0.2 * (digamma(n + 1) - digamma(1))),
        (Power(0.2, 2.0, 50.0), lambda n: 0.2 * 50**2 * (zeta(2.0, 50.0) - zeta(2.0, 50.0 + n))),
        (Power(0.2, -1.0, 50.0), lambda n: 0.2 * (n + n * (n - 1) / 100)),
        (Linear(0.1, 0.4, 6000), lambda n: 0.1 * n + 0.3 * n * (n - 1) / 12000),
        (Linear(0.1, 0.0, 6000), lambda n: 0.1 * n - 0.1 * n * (n - 1) / 12000),
    ],
)
def test_steps_of_a_schedule_add_up_as_known_sums_do(schedule: Schedule, sums: Callable[[int], float]) -> None:
    """Harmonic and Hurwitz sums, and triangular numbers; within a step its size is spent evenly. What comes later is not
    counted to the largest size, be it one of thousands of steps or of three.
    """
    begun, rest = np.array([0, 1, 2, 1023, 1024, 1025, 3071, 3072, 3073, 5000]), np.array([0.0, 1.0, 0.25])
    ends = np.array([float(sums(n)) for n in [*begun, *(begun + 1)]]).reshape(2, -1)
    times = ends[0] + np.diff(ends, axis=0) * (rest[:, None] + np.array([1e-9, -1e-9, 0.0])[:, None])
    found, _ = steps_until(schedule, times)
    np.testing.assert_allclose(found, begun + rest[:, None], rtol=1e-11, atol=2e-9)
    for n, asked in zip(begun, times[2], strict=True):
        assert steps_until(schedule, np.array([asked, 0.0, np.inf]))[1] == max(schedule(0), schedule(n))
        assert size_along(schedule, 5)(np.array([asked])) == pytest.approx(schedule(n + 0.25) / 5, rel=1e-9)  # type: ignore[operator]


@pytest.mark.parametrize("end", [1, 1500, 2048])
def test_a_schedule_is_not_asked_beyond_its_end(end: int) -> None:
    """A table has no more numbers."""

    class Table:
        sizes = np.full(end, 0.25)

        def __init__(self, end: int) -> None:
            self.end = end

        def __call__(self, step: Any) -> Any:
            return self.sizes[np.asarray(step, dtype=int)]

    found, largest = steps_until(Table(end), np.array([end / 4, end / 4 + 0.1, 0.125]))
    np.testing.assert_array_equal(found, [end, np.inf, 0.5])
    assert largest == 0.25


def test_a_schedule_that_is_over_or_says_one_number_is_counted_as_it_is() -> None:
    """2^-2 adds up without rounding."""
    over = Power(0.25, 0.0, end=1500)
    found, largest = steps_until(over, np.array([0.0, 374.5, 375.0, 375.1, np.nan, np.inf]))
    np.testing.assert_array_equal(found, [0.0, 1498.0, 1500.0, np.inf, np.nan, np.inf])
    assert largest == 0.25
    begins = steps_until(lambda step: np.where(step < 70, 0.0, 0.25), np.array([0.0, 0.25, 0.5]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(begins[0], [0.0, 71.0, 72.0])  # (not a number at 0)
    rises = Linear(0.1, 0.4, 3000)
    assert steps_until(rises, np.array([1e9]))[1] == rises(2999)
    assert size_along(rises, 2)(np.array([1e9])) == 0.2  # type: ignore[operator]
    constant = steps_until(lambda step: 0.25, np.array([2.0, 750.125]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(constant[0], steps_until(0.25, np.array([2.0, 750.125]))[0])
    assert constant[1] == 0.25
    check_length(rises, 3000)
    with pytest.raises(InputError, match="ends after 3000"):
        check_length(rises, 3001)


def test_rules_of_coordinates_see_rows_that_are_uniform_on_the_sphere() -> None:
    """Adam from one start, in R^d beside a loop in NumPy whose every replica draws the coordinates that directions leave: the
    squared length at the end, within 4 standard errors. A row in two coordinates alone ends a fifth above.
    """
    dim, eta, steps, replicas, length, batch = 150, 2e-3, 80, 250, 0.5, 8
    model = DeclaredModel(
        Directions.orthonormal(Inputs.isotropic(dim), 1),
        Additive(Activation.parse("tanh"), (1.0,)),
        committee(Activation.parse("tanh"), 1),
        Adam(eta, batch, beta2=0.99),
    )
    start = draw_start(model.directions, 1, length, 0)
    run = declared_sgd(model, start, steps=steps, replicas=replicas, saves=1, method="ambient")
    found = run.dataset.gram.values[:, -1, 0, 0, 0]
    rng = np.random.default_rng(1)
    row = rng.standard_normal((replicas, dim))
    row[:, 0] = 0
    on = float(start.overlaps(model.directions)[0, 0, 0])
    row *= np.sqrt(length**2 - on**2) / np.linalg.norm(row, axis=1)[:, None]
    row[:, 0] = on
    mean, square = np.zeros_like(row), np.zeros_like(row)
    for n in range(1, steps + 1):
        x = rng.standard_normal((batch, replicas, dim))
        field = np.tanh(np.sum(row * x, axis=2))
        gradient = np.mean(((field - np.tanh(x[..., 0])) * (1 - field**2))[..., None] * x, axis=0)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        row = row - eta * mean / (1 - 0.9**n) / (np.sqrt(square / (1 - 0.99**n)) + 1e-8)
    expected = np.sum(row**2, axis=1)
    error = np.hypot(found.std(), expected.std()) / np.sqrt(replicas)
    assert error < 0.006 * expected.mean()
    assert abs(found.mean() - expected.mean()) < 4 * error


def test_rows_of_another_basis_have_the_same_products() -> None:
    """And no coordinate outside the directions is special: mean fourth powers are those of the uniform law on n = 29."""
    inputs = Inputs.blocks((2.0, 3), (1.0, 30))
    directions = Directions.random(inputs, 1, 1.0, seed=2)
    start = draw_start(directions, 3, 1.0, 4)
    outside = []
    for seed in range(200):
        rows = start.vectors(directions, seed)
        parts = np.split(rows, [3], axis=1)
        np.testing.assert_allclose([x @ x.T for x in parts], start.grams, atol=1e-14)
        np.testing.assert_array_equal([x[:, 0] for x in parts], [x[:, 0] for x in start.coordinates])
        outside.append(parts[1][0, 1:] / np.linalg.norm(parts[1][0, 1:]))
    fourth = np.mean(np.array(outside) ** 4, axis=0)
    # Of one coordinate u: E u⁴ = 3/(n(n + 2)), E u⁸ = 105/(n(n + 2)(n + 4)(n + 6)); 29 means of 200.
    n = 29
    law, eighth = 3 / (n * (n + 2)), 105 / (n * (n + 2) * (n + 4) * (n + 6))
    assert np.max(np.abs(fourth - law)) < 4.5 * np.sqrt((eighth - law**2) / 200)
