r"""The finite-step terms against the exact moments of one real step, by Gauss–Hermite quadrature in $R^3$.

The step is plain SGD on the sample loss, differentiated automatically in ambient coordinates
(`validation.experiments.one_step`): nothing is shared with the derivation. In $R^3$ teachers and students are linearly
dependent, which the formulas allow.
"""

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

from dynamics import finite_step_flow, one_step_mean
from dynamics.additive.gradient_flow import lowered_overlap_flow
from dynamics.core.frame_sums import FrameSums, is_frame_term
from dynamics.steps.finite_step import LoweredFiniteStep, half_times, lowered_step, parameters_of
from dynamics.steps.step_covariance import displacement_covariance
from theory import (
    Activation,
    DerivationError,
    InitialState,
    InputError,
    Student,
    Teacher,
    critical_step,
    draw_initial_state,
    finite_step,
    plateau,
    stability_map,
)  # fmt: skip
from theory.core.frame import noise
from theory.core.indexed import Sums, Term, c, j, k, q, t
from theory.one_task.plateau import a, mass, u
from theory.steps.finite_step import Q, correction_tables, one_step
from theory.steps.moments import of_batch, one_sample
from validation.experiments.one_step import _expanded, _stepped, sampled_step, weighted_inputs
from validation.experiments.states import overlaps_of_vectors

TEXTS = ("quadratic", "h3", "h4", "h3+h4")
WIDTH, STUDENTS, DIM = 2, 3, 3


def grid(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of R³ and weights, exact for polynomials of that degree in each coordinate."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree // 2 + 1)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * DIM, indexing="ij")], axis=1)
    table = np.stack(np.meshgrid(*[weights / weights.sum()] * DIM, indexing="ij"))
    return points, np.prod(table, axis=0).ravel()


class Exact:
    """Students in R³ and the exact moments of one step."""

    def __init__(self, text: str) -> None:
        self.activation = Activation.parse(text)
        self.teacher = Teacher.of([0.9, 0.5], DIM, normalise=False)
        self.vectors = np.random.default_rng(3).standard_normal((STUDENTS, DIM)) * [[0.5], [0.6], [0.4]]
        self.state = overlaps_of_vectors(jnp.asarray(self.vectors), WIDTH)
        points, self.weights = grid(4 * self.activation.degree + 6)
        weights = self.teacher.weights
        rates = _expanded(self.activation, weights, jnp.asarray(self.vectors), jnp.asarray(points))
        self.first, self.second = (np.asarray(x) for x in rates)
        self.points = points

    @property
    def bend(self) -> np.ndarray:
        return self.weights @ self.second

    @property
    def covariance(self) -> np.ndarray:
        mean = self.weights @ self.first
        return (self.first * self.weights[:, None]).T @ self.first - np.outer(mean, mean)


@pytest.fixture(scope="module")
def exact() -> Callable[[str], Exact]:
    made: dict[str, Exact] = {}

    def make(text: str) -> Exact:
        if text not in made:
            made[text] = Exact(text)
        return made[text]

    return make


def row(rates: dict) -> np.ndarray:
    above = np.triu_indices(STUDENTS, 1)
    return np.concatenate([np.asarray(rates["t"]).ravel(), np.asarray(rates["c"])[above], np.asarray(rates["r"])])


def correction(case: Exact, dim: int = DIM, batch: int = 1) -> np.ndarray:
    drift = lowered_step(finite_step(case.activation, batch)).drift
    given = parameters_of(case.teacher, 1.0) | {"d": jnp.asarray(float(dim))}
    return row(drift(case.state, given)) - row(drift(case.state, given | {"eta": jnp.asarray(0.0)}))


@pytest.mark.slow_for("quadratic", "h3+h4")
@pytest.mark.parametrize("text", TEXTS)
def test_second_order_terms_are_the_exact_moments(exact: Callable[[str], Exact], text: str) -> None:
    case = exact(text)
    found, size = correction(case), np.abs(case.bend).max()
    np.testing.assert_allclose(found, case.bend, rtol=1e-10, atol=1e-10 * size)
    assert np.abs(correction(case, DIM + 1) - case.bend).max() > 1e-2 * size


def test_a_batch_mixes_the_sample_with_the_mean(exact: Callable[[str], Exact]) -> None:
    """b = 2 by explicit pairs of points: the displacement is the mean of two, so its square has half the cross terms."""
    case, batch = exact("h3"), 4
    many, own = correction(case, batch=batch), correction(case)
    infinite = (batch * many - own) / (batch - 1)  # what is left when the sample's own part is taken off
    mean = -np.asarray(_mean_gradient(case))
    step = 1e-3
    after = lambda eta: row(overlaps_of_vectors(jnp.asarray(case.vectors + eta * mean), WIDTH))  # noqa: E731
    bend = (after(step) - 2 * after(0.0) + after(-step)) / (2 * step**2)
    np.testing.assert_allclose(infinite, bend, rtol=1e-4, atol=1e-5 * np.abs(bend).max())


def test_sampled_steps_have_the_mean_of_the_quadrature(exact: Callable[[str], Exact]) -> None:
    """Of (T, Q), weighted inputs of twenty blocks against all points of R³; a step that is longer by a tenth is not it."""
    case, size = exact("h3"), 0.05
    given = case.activation, case.teacher.weights, jnp.asarray(case.vectors), jnp.asarray(case.points)
    found = sampled_step(case.activation, case.teacher, case.vectors, size, np.random.default_rng(0), 20)
    gaps = [
        (found.mean - case.weights @ np.asarray(_stepped(*given, jnp.asarray(one)))) / found.stderr
        for one in (size, 1.1 * size)
    ]
    assert np.abs(gaps[0]).max() < 4.5 < np.abs(gaps[1]).max() / 2


def _mean_gradient(case: Exact) -> np.ndarray:
    """Population gradient by quadrature of the sample gradient, from the change of T along a complete basis of R³."""
    teacher = Teacher.of([0.9, 0.5, 1e-300], DIM, normalise=False)  # a third direction without weight: T is V itself
    moved = _stepped(
        case.activation, teacher.weights, jnp.asarray(case.vectors), jnp.asarray(case.points), jnp.asarray(1.0)
    )
    return -(case.weights @ np.asarray(moved)[:, : STUDENTS * DIM]).reshape(STUDENTS, DIM)


def test_the_expansion_of_a_step_is_that_of_small_steps(exact: Callable[[str], Exact]) -> None:
    """Of squared norms, which steps of (T, Q) have too."""
    case, small = exact("h3"), 1e-10
    moved = _stepped(
        case.activation, case.teacher.weights, jnp.asarray(case.vectors), jnp.asarray(case.points), jnp.asarray(small)
    )
    diagonal = STUDENTS * WIDTH + np.array(
        [i for i, (k, h) in enumerate(zip(*np.triu_indices(STUDENTS), strict=True)) if k == h]
    )
    rates = np.asarray(moved)[:, diagonal] / small
    np.testing.assert_allclose(case.first[:, -STUDENTS:], rates, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", TEXTS)
def test_covariance_is_exact(exact: Callable[[str], Exact], text: str) -> None:
    case = exact(text)
    system = finite_step(case.activation, fluctuations=True)
    found = displacement_covariance(system, case.state, parameters_of(case.teacher, 1.0))
    i, h = np.triu_indices(STUDENTS, 1)
    size = STUDENTS * WIDTH
    tt, tr = found["tt"].reshape(size, size), found["tr"].reshape(size, STUDENTS)
    tc = found["tc"].reshape(size, STUDENTS, STUDENTS)[:, i, h]
    cc, cr = found["cc"][i, h][:, i, h], found["cr"][i, h]
    matrix = np.block([[tt, tc, tr], [tc.T, cc, cr], [tr.T, cr.T, found["rr"]]])
    np.testing.assert_allclose(matrix, case.covariance, rtol=1e-9, atol=1e-10 * np.abs(matrix).max())


@pytest.mark.parametrize("text", ["quadratic", "h3", "h4"])
def test_raw_mean_is_exact_at_any_step(exact: Callable[[str], Exact], text: str) -> None:
    """E T′ and E Q′ at a large step, in R⁵ by quadrature in the three dimensions that matter and |x|² apart from them."""
    case, step = exact(text), 0.3
    initial = InitialState(case.vectors[:, :WIDTH], np.hstack([case.vectors[:, WIDTH:], np.zeros((STUDENTS, 2))]))
    after = one_step_mean(case.activation, case.teacher, initial, step)
    moved = _stepped(
        case.activation, case.teacher.weights, jnp.asarray(case.vectors), jnp.asarray(case.points), jnp.asarray(step)
    )
    mean = case.weights @ np.asarray(moved)
    upper = np.triu_indices(STUDENTS)
    before = case.vectors @ case.vectors.T
    np.testing.assert_allclose((after["T"] - case.vectors[:, :WIDTH]).ravel(), mean[: STUDENTS * WIDTH], atol=1e-11)
    np.testing.assert_allclose(
        (after["Q"] - before)[upper], mean[STUDENTS * WIDTH :], rtol=1e-10, atol=1e-10 * np.abs(mean).max()
    )


@pytest.mark.parametrize("text", ["h3", "h4"])
def test_plateau_is_a_special_case(text: str) -> None:
    """One light student, one overlap: the table of t gives −K(u), symbolically."""
    table = correction_tables(one_sample(Activation.parse(text)))["t"]
    total = sp.Integer(0)
    for (joined, ak, al, bk, bl, kl), value in table.items():
        assert joined or (ak + al and bk + bl)  # different teachers never meet
        others = (mass - a**2) * u**kl if ak == al == bk == bl == 0 else sp.Integer(0)
        total += value * (a**2 * u ** (ak + bk + kl) + others)
    assert sp.expand(total + plateau(Activation.parse(text)).shrinkage_law) == 0


def test_plateau_variance_is_a_special_case() -> None:
    """Var du = η²N(u) from the covariance of t at a light student."""
    activation, teacher, overlap = Activation.parse("h4"), Teacher.of([0.8, 0.6], 50), 0.3
    state = {"t": np.array([[overlap, 0.0]]), "c": np.eye(1), "r": np.array([1e-300])}
    found = displacement_covariance(finite_step(activation, fluctuations=True), state, parameters_of(teacher, 1.0))
    _, variance = plateau(activation).laws(0.8, 1.0, 50)
    assert found["tt"][0, 0, 0, 0] == pytest.approx(variance(overlap), rel=1e-12)


def test_step_size_zero_is_the_gradient_flow() -> None:
    activation, teacher = Activation.parse("h4"), Teacher.power_law(3, 1.0, 40)
    start = draw_initial_state(teacher, Student(5, 0.4), 1)
    state = {"t": jnp.asarray(start.overlap), "c": jnp.asarray(start.student_overlap), "r": jnp.asarray(start.norm2)}
    flow = lowered_overlap_flow(activation).drift(state, {"a": jnp.asarray(teacher.a)})
    found = lowered_step(finite_step(activation)).drift(state, parameters_of(teacher, 0.0))
    assert all(np.array_equal(np.asarray(found[x]), np.asarray(flow[x])) for x in flow)


# ------------------------------------------------------------------------------ lowering


def brute_force(sums: Sums, letters: tuple, state: dict, given: dict) -> np.ndarray:
    """Every term by one einsum over the whole frame: no sorting, no symmetry."""
    weights, frame = _frame(state, given)
    names = {"A": "a", "B": "b", "k": "k", "j": "l", "q": "l"}
    columns = {k: frame[:, given["a"].size :], j: frame[:, given["a"].size :], q: frame[:, : given["a"].size]}
    total: np.ndarray | float = 0.0
    for term in sums:
        factor, operands = (
            1.0,
            ["ab"],
        )
        arrays = [np.ones_like(frame)]
        for x in letters:
            operands.append("a" + names[str(x)])
            arrays.append(np.ones_like(columns[x]))
        for part in sp.Mul.make_args(term.body):
            base, power = part.as_base_exp()
            if not isinstance(base, sp.Indexed):
                factor *= float(part.subs({x: float(given[x.name]) for x in part.free_symbols}))
                continue
            array = {"w": weights, "t": state["t"], "c": state["c"], "r": state["r"]}.get(str(base.base))
            if array is None:
                array = frame if len(set(map(str, base.indices)) & {"A", "B"}) == 2 else columns[base.indices[1]]
            operands.append("".join(names[str(i)] for i in base.indices))
            arrays.append(np.asarray(array) ** float(power))
        out = "".join(names[str(x)] for x in letters)
        total = total + factor * np.einsum(",".join(operands) + "->" + out, *arrays, optimize="greedy")
    return np.asarray(total)


def _frame(state: dict, given: dict) -> tuple[np.ndarray, np.ndarray]:
    t_, c_, r_, a_ = (np.asarray(x) for x in (state["t"], state["c"], state["r"], given["a"]))
    return np.concatenate([-a_, r_]), np.block([[np.eye(a_.size), t_.T], [t_, c_]])


@pytest.mark.parametrize(("text", "batch"), [("h3", 1), ("h4", 1), ("h3+h4", 1), ("h4", 3)])
@pytest.mark.parametrize("chunk", [None, 40])
def test_matrix_products_reproduce_every_term(
    text: str, batch: int, chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chunk is not None:  # small chunks, and the looped form
        monkeypatch.setattr("dynamics.core.frame_sums._CHUNK", chunk)
        monkeypatch.setattr("dynamics.core.frame_sums._UNROLLED", 2 if batch == 3 else 16)
    teacher = Teacher.of([0.9, 0.5, 0.4], 12)
    start = draw_initial_state(teacher, Student(5, 0.8), 1)
    state = {"t": jnp.asarray(start.overlap), "c": jnp.asarray(start.student_overlap), "r": jnp.asarray(start.norm2)}
    given = parameters_of(teacher, 0.1)
    for component, sums in finite_step(Activation.parse(text), batch).drift.items():
        framed = Sums(x for x in sums if is_frame_term(x))
        lowered = FrameSums(component, framed)
        assert lowered.symmetric == (component == c[k, j])
        found = np.asarray(lowered.total({**state, "a": given["a"]}, given))
        known = brute_force(framed, component.indices, state, given)
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-13 * np.abs(known).max())


def test_a_table_without_symmetry_is_lowered_too() -> None:
    """A formula broken on purpose (one term dropped) must still be evaluated as written."""
    teacher = Teacher.of([0.9, 0.5], 12)
    start = draw_initial_state(teacher, Student(3, 0.8), 1)
    state = {"t": jnp.asarray(start.overlap), "c": jnp.asarray(start.student_overlap), "r": jnp.asarray(start.norm2)}
    given = parameters_of(teacher, 0.1)
    framed = Sums(x for x in finite_step(Activation.parse("h4")).drift[c[k, j]] if is_frame_term(x))
    for dropped in range(0, len(framed), 5):
        broken = Sums(x for i, x in enumerate(framed) if i != dropped)
        found = np.asarray(FrameSums(c[k, j], broken).total({**state, "a": given["a"]}, given))
        known = brute_force(broken, (k, j), state, given)
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-13 * np.abs(known).max())


def test_label_noise_adds_its_own_shrinkage() -> None:
    """Of a student that sees noise only (no teacher, no mass): −½ς²t E σ′²(|x|²−z²) = −½ς²t(d−1)φ′(1)."""
    activation, teacher = Activation.parse("h4"), Teacher.of([1e-150], 50, normalise=False)
    state = {"t": jnp.array([[0.4]]), "c": jnp.eye(1), "r": jnp.array([1e-300])}
    given = parameters_of(teacher, 1.0) | {str(noise): jnp.asarray(0.7)}
    found = LoweredFiniteStep(finite_step(activation, noisy_labels=True)).drift(state, given)
    assert float(found["t"][0, 0]) == pytest.approx(-0.5 * 0.7 * 0.4 * 49 * 4, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_label_noise_lengthens_a_row_by_its_own_gradients(batch: int) -> None:
    """Of |v|²σ(v̄·x) at a unit row: ς²η²/b times E|∇|² = 4φ(1) + (d − 1)φ′(1), 1 and 3 for h3."""
    activation = Activation.parse("h3")
    with_noise, without = (one_step(activation, batch, noisy_labels=x)[Q[k, j]].as_sympy() for x in (True, False))
    known = {"eta": 0.1, "d": 20, str(noise): 0.7}
    added = sp.expand(with_noise - without).replace(lambda x: isinstance(x, sp.Indexed), lambda x: sp.Integer(1))
    value = added.subs({symbol: known[symbol.name] for symbol in added.free_symbols})
    assert float(value) == pytest.approx(0.7 * 0.1**2 / batch * (4 + 19 * 3))


# --------------------------------------------------------------------------- trajectories


def test_flow_passes_through_the_map_to_second_order() -> None:
    """Their gap falls like η² (by 4, from below, when η is halved); without −½ηF′F it would fall by 2 only."""
    activation, teacher = Activation.parse("quadratic"), Teacher.of([1.0], 30)
    start = draw_initial_state(teacher, Student(1, 0.6), 4)
    gaps, common = [], {"saves": 1, "rtol": 1e-11}
    for steps in (20, 40, 80):
        runs = [
            finite_step_flow(activation, teacher, start, step_size=0.04 / steps, steps=steps, method=method, **common)
            for method in ("map", "flow")
        ]
        gaps.append(float(np.abs(runs[0].dataset.overlap.values[-1] - runs[1].dataset.overlap.values[-1]).max()))
    assert gaps[2] > 1e-9
    ratios = [gaps[0] / gaps[1], gaps[1] / gaps[2]]
    assert 3.0 < ratios[0] < ratios[1] < 4.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step_size": -1.0}, "step_size"),
        ({"steps": 0}, "steps"),
        ({"method": "euler"}, "method"),
        ({"activation": Activation.parse("erf")}, "not a polynomial"),
        ({"batch": 0}, "batch"),
    ],
)
def test_bad_input_is_refused(change: dict, words: str) -> None:
    teacher = Teacher.of([1.0], 20)
    options = {"activation": Activation.parse("h4"), "step_size": 1e-3, "steps": 2} | change
    start = draw_initial_state(teacher, Student(1), 0)
    with pytest.raises(InputError, match=words):
        finite_step_flow(options.pop("activation"), teacher, start, **options)


def test_high_degrees_are_refused() -> None:
    with pytest.raises(InputError, match="degree 14"):
        finite_step(Activation.from_degree(14))


# ------------------------------------------------------------------- derivation, stability


@pytest.mark.parametrize(("text", "batch"), [("h3", 1), ("h4", 2), ("quadratic", 1)])
def test_derivation_holds(text: str, batch: int) -> None:
    steps = finite_step(Activation.parse(text), batch).derivation.steps[-4:]
    assert not any(step.is_definition for step in steps)
    for step in steps:
        step.verify()


def test_a_broken_term_is_noticed() -> None:
    from theory.steps.checks import second_order_residual

    activation = Activation.parse("h3")
    system = finite_step(activation)
    framed = [x for x in system.drift[t[k, q]] if is_frame_term(x)]
    broken = Sums([replace(framed[0], body=framed[0].body * sp.Rational(21, 20)), *framed[1:]])
    assert abs(second_order_residual("t", Sums(framed), activation, 1)) < 1e-30
    assert abs(second_order_residual("t", broken, activation, 1)) > 1e-6
    step = replace(system.derivation.steps[-3], equation=sp.Eq(t[k, q], broken.as_sympy(), evaluate=False))
    with pytest.raises(DerivationError):
        step.verify()


def test_batch_of_one_is_the_sample() -> None:
    activation = Activation.parse("h4")
    assert of_batch(activation, 1) is one_sample(activation)


def test_critical_step_has_the_papers_scaling() -> None:
    """η_c ∝ a d^{−J/2} for starts of order d^{−1/2}; and the closed form on the plateau."""
    dims, weights = [10_000, 40_000, 160_000], [1.0, 0.5]
    found = stability_map(Activation.parse("h4"), dims, weights, reach=3.0)
    slopes = np.diff(np.log(found.critical), axis=0) / np.diff(np.log(dims))[:, None]
    assert np.all(np.abs(slopes + 2) < 0.02)
    assert found.critical[-1, 1] / found.critical[-1, 0] == pytest.approx(0.5, rel=1e-2)
    start = 3.0**2 / dims[-1]  # h4: u^{J-2}
    assert found.critical[-1] == pytest.approx([2 * x * start / (dims[-1] + 7 + 32 * x**2) for x in weights], rel=2e-3)
    assert (found.dims.tolist(), found.weights.tolist()) == (dims, weights)
    small = 1e-6
    closed = float(
        critical_step(Activation.parse("h4")).subs({u: small, a: 0.5, mass: 1, sp.Symbol("d", positive=True): 300})
    )
    assert closed == pytest.approx(2 * 0.5 * small**2 / (300 + 7 + 32 * 0.25), rel=1e-9)


def test_weighted_inputs_average_to_the_gaussian() -> None:
    units = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 3)))[0].T
    x, weight = weighted_inputs(np.random.default_rng(0), 200_000, np.vstack([units, np.eye(12)[:2]]))
    for values, known in ((np.ones(len(x)), 1.0), (np.sum(x**2, axis=1), 12.0), (x[:, 0] ** 8, 105.0)):
        weighted = weight * values
        assert abs(weighted.mean() - known) < 4 * weighted.std() / np.sqrt(len(x))


def test_terms_with_powers_of_a_weight_are_refused() -> None:
    from theory.core.frame import A, B, gram, w

    with pytest.raises(TypeError, match="one weight"):
        FrameSums(t[k, q], Sums([Term(w[A] ** 2 * w[B] * gram[A, k], (A, B))]))


def test_a_diverged_overlap_has_reached_nothing() -> None:
    overlap = np.array([0.1, np.nan, np.inf])[:, None, None]
    assert np.isinf(half_times(np.arange(3.0), overlap)).all()
    learned = np.array([0.1, 0.9, np.nan])[:, None, None]
    assert half_times(np.arange(3.0), learned) == pytest.approx([(0.5 - 0.01) / (0.81 - 0.01)])
