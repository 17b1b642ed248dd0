"""The law of SGD's times along the flow of all rows: λ beside perturbed flows, its integrals beside exact steps and SGD."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.stats import norm

import theory.declared.passage_law as module
import theory.declared.whole_flow as followed
from dynamics.declared.simulate import declared_sgd
from tests.declared.test_whole_flow import Problem, correlated, problem, product_target, spread_out, trained
from theory import Activation, InputError
from theory.core.quadrature import gauss_hermite, product_rule
from theory.declared.all_rows import AllRows
from theory.declared.directions import Directions
from theory.declared.emergence import FOUND, FOUND_STEPS, MEAN_STEPS, OF_SGD, SPREAD_STEPS, _of_all_rows
from theory.declared.flow import speed
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.modified_equation import age
from theory.declared.one_step import step_moments
from theory.declared.passage_law import PassageLaw
from theory.declared.predict import predict
from theory.declared.rule import Momentum, Rule
from theory.declared.sample_gradients import SampleGradients
from theory.declared.schedule import Linear, Power, size_along, steps_until
from theory.declared.start import Start, draw_start
from theory.declared.student import committee, two_homogeneous, whitened
from theory.declared.target import Additive, Polynomial, symbols
from theory.declared.whole_flow import whole_flow
from theory.prediction.validity import Condition
from validation.comparisons.declared import emergence_times


def on_a_sphere(given: Problem, rows: str = "sphere") -> Problem:
    model, start = given
    return replace(model, student=replace(model.student, rows=rows)), start


def alone(given: Problem) -> Problem:
    model, start = given
    return replace(model, loss=Correlation()), start


def moved_by(rule: Rule, given: Problem) -> Problem:
    model, start = given
    return replace(model, rule=rule), start


def learned(given: Problem) -> Problem:
    """Rows near the directions, whose labels are fitted but for their noise."""
    model, start = given
    on = np.eye(*start.coordinates[0].shape) + 0.1 * start.coordinates[0]
    return model, Start((on / np.linalg.norm(on, axis=1)[:, None],))


def moved(start: Start, by: list[np.ndarray], size: float, unit: bool) -> Start:
    """The start with rows displaced; `unit`: and scaled to length 1 again."""
    parts = [x + size * y for x, y in zip(start.coordinates, by, strict=True)]
    length = np.sqrt(sum(np.sum(x**2, axis=1) for x in parts))
    return Start(tuple(x / length[:, None] if unit else x for x in parts))


def path_of(given: Problem) -> module._Path:
    flow = AllRows(*given)
    watch = followed._Watch(flow)
    followed._followed(flow, watch, 8000)
    return module._Path(flow, watch.steps, watch.found)


@pytest.mark.slow_for("whitened", "product", "decay", "committee")
@pytest.mark.parametrize(
    "given",
    [
        problem("relu(z)"),
        problem("tanh(z)", decay=0.02),
        problem("erf(z)", "committee"),
        trained(problem("tanh(z)", "committee")),
        moved_by(Momentum(1.0, beta=0.6), trained(problem("tanh(z)", "committee"))),
        on_a_sphere(problem("h1+h3", "committee")),
        alone(on_a_sphere(problem("h2+h3", "committee"))),
        product_target(),
        correlated(),
        spread_out("tanh(z)", "whitened"),
        problem("h1+h3", noise=0.2, noise_law="flips"),
    ],
    ids=[
        "relu",
        "decay",
        "committee",
        "trained",
        "momentum",
        "sphere",
        "correlation",
        "product",
        "eigenvalues",
        "whitened",
        "flips",
    ],
)
def test_costates_are_slopes_of_the_time(given: Problem) -> None:
    """-λ beside central differences of the flow's own time, over displaced rows in coordinates and a displaced second layer
    that is trained; λ·F is 1 at the start. (Slopes are 26 to 1460 times what may be absolute.)
    """
    (model, start), rng = given, np.random.default_rng(0)
    model = replace(model, rule=replace(model.rule, step_size=1.0))
    path = path_of((model, start))
    flow, (row, p, time) = path.flow, path.crossings[min(path.crossings)][0]
    assert time == pytest.approx(whole_flow(model, start).found[p], rel=1e-9)
    costate = module._Costate.at(path, row, p, time, module._Allowed(10**6)).value(0.0)
    G, M, layer = module._opened(flow.shape, costate)
    overlap, gram, second = flow.parts(flow.begin)
    turned, grown, *more = flow.rates.of_all(overlap, gram, second)
    layer = layer * speed(model.rule)
    assert np.sum(M * turned) + np.sum(G * grown) / 2 + np.sum(layer * sum(more)) == pytest.approx(1.0, abs=0.01)
    unit, step = model.student.rows != "free", 1e-3
    for _ in range(3):
        by = [rng.standard_normal(x.shape) for x in start.coordinates]
        slope = 0.0
        for i, (x, y, root) in enumerate(zip(start.coordinates, by, model.directions.roots, strict=True)):
            directions = np.zeros((len(root), x.shape[1]))
            directions[:, : min(root.shape[1], x.shape[1])] = root[:, : x.shape[1]]
            slope -= float(np.sum((G[i] @ x + M[i] @ directions) * y))
        of_layer = rng.standard_normal(len(layer)) * model.student.trained
        slope -= float(layer @ of_layer)
        times = []
        for way in (step, -step):
            made = replace(model.student, second=tuple((second + way * of_layer).tolist()))
            times.append(whole_flow(replace(model, student=made), moved(start, by, way, unit)).found[p])
        assert (times[0] - times[1]) / (2 * step) == pytest.approx(slope, rel=0.02, abs=0.01 * time)


@pytest.mark.parametrize(
    ("given", "steep"),
    [
        (problem("erf(z)", "committee", dim=24, noise=0.5), False),
        (problem("h2", "committee", dim=40), True),
        (problem("h2", dim=24, scale=0.8), True),
        (spread_out("erf(z)", "committee"), False),
        (product_target(), True),
    ],
    ids=["noise", "square", "homogeneous", "eigenvalues", "product"],
)
def test_kicks_of_pairs_are_those_of_a_step(given: Problem, steep: bool) -> None:
    """What the exact mean of one step adds to all products of rows beside the flow, within what points miss of it: 2.1e-2 of
    the largest at most, of h2. Where σ is `steep` d for |x|², and what is along x alone, are rejected.
    """
    model, start = given
    model = replace(model, rule=replace(model.rule, step_size=1.0, batch=1))
    overlap, gram, second = start.overlaps(model.directions), start.grams, np.asarray(model.student.second)
    drift = AllRows(model, start).rates.of_all(overlap, gram, second)[1]
    exact = step_moments(model, start).rows - drift
    gradients = SampleGradients(model, model.rule.noise**2)
    found = gradients.kicks(overlap, gram, gradients.at(overlap, gram, second))
    scale = np.abs(exact).max()
    np.testing.assert_allclose(found, exact, atol=0.03 * scale)
    at = gradients.at(overlap, gram, second)
    sizes = np.asarray(model.inputs.eigenvalues) * np.asarray(model.inputs.multiplicities)
    plain = sizes[:, None, None] * (at.alpha.T @ (at.alpha * at.square[:, None]))
    assert (np.abs(plain - exact).max() > 0.06 * scale) == steep


def in_three(student: str) -> Problem:
    """Two rows and a direction, of inputs in three dimensions."""
    activation, inputs = Activation.parse("h1+h2"), Inputs.isotropic(3)
    if student == "whitened":
        inputs = Inputs.blocks((2.0, 2), (0.5, 1))
    made = {"homogeneous": two_homogeneous, "whitened": whitened}[student](activation, 2)
    directions = Directions.random(inputs, 1)
    return DeclaredModel(directions, Additive(activation, (1.0,)), made, Rule(1.0)), draw_start(directions, 2, 0.8, 0)


@pytest.mark.parametrize("student", ["homogeneous", "whitened"])
def test_kicks_are_products_of_explicit_gradients(student: str) -> None:
    r"""$\delta(\sqrt\rho\sigma'x+(2\sigma-h\sigma')u)$ by product quadrature over x, where a third of it is along rows; points
    miss 4.4e-3 of the largest.
    """
    model, start = in_three(student)
    values = np.repeat(model.inputs.eigenvalues, model.inputs.multiplicities)
    scale = values if student == "whitened" else np.ones(3)
    roots = [
        np.pad(root[0], (0, x.shape[1] - 1)) for root, x in zip(model.directions.roots, start.coordinates, strict=True)
    ]
    rows, direction = np.concatenate(start.coordinates, axis=1), np.concatenate(roots)
    z, mass = product_rule(*3 * [gauss_hermite(10)])
    x, rho = z * np.sqrt(values), np.sum(rows**2 * scale, axis=1)
    h = x @ rows.T / np.sqrt(rho)
    neuron, slope = (model.student.activation.arrays(order)(h) for order in (0, 1))
    along = (np.sqrt(rho) * slope)[..., None] * x[:, None] + (2 * neuron - h * slope)[..., None] * scale * rows
    gradients = (model.target.link.arrays(0)(x @ direction) - neuron @ rho)[:, None, None] * along
    whole = np.einsum("s,ska,sla->akl", mass, gradients, gradients)
    exact = np.add.reduceat(whole, np.cumsum((0, *model.inputs.multiplicities))[:-1])
    overlap, gram, points = start.overlaps(model.directions), start.grams, SampleGradients(model, 0.0)
    found = points.kicks(overlap, gram, points.at(overlap, gram, np.asarray(model.student.second)))
    np.testing.assert_allclose(found, exact, atol=0.006 * np.abs(exact).max())


def steady(directions: np.ndarray, times: np.ndarray, later: np.ndarray, covariance: np.ndarray) -> PassageLaw:
    """With integrands that are constant in a unit of time."""
    nodes, drift, noise = np.array([[0.0, 0.5, 1.0]]), np.tile(later, (1, 3, 1)), np.tile(covariance, (1, 3, 1, 1))
    parts = nodes, drift, 0 * drift, 0 * drift, 0 * drift, noise, np.zeros(2), np.ones(2)
    return PassageLaw(directions, times, *parts, np.zeros(len(times)), 0 * drift, np.ones(len(times)), np.ones(2))


STEPPED = {
    "committee": problem("erf(z)", "committee"),
    "decay": problem("relu(z)", decay=0.05),
    "trained": trained(problem("tanh(z)", "committee")),
    "sphere": on_a_sphere(problem("h2+h3", "committee", decay=0.5)),
    "projected": on_a_sphere(problem("h2+h3", "committee", decay=0.5), "projected"),
    "eigenvalues": spread_out("tanh(z)", "whitened"),
}


@pytest.mark.slow_for(
    "eigenvalues-nesterov-False",
    "trained-heavy-False",
    "sphere-nesterov-False",
    "committee-average-False",
    "decay-nesterov-False",
    "eigenvalues--False",
)
@pytest.mark.parametrize(
    ("given", "kind", "rises"),
    [
        *((one, "", False) for one in STEPPED),
        *((one, "nesterov", False) for one in ("decay", "sphere", "projected", "eigenvalues")),
        ("committee", "average", False),
        ("trained", "average", False),
        ("trained", "heavy", False),
        ("committee", "heavy", True),
    ],
)
def test_whole_steps_and_old_gradients_make_descents_later(given: str, kind: str, rises: bool) -> None:
    """Of the population loss, from 300, 600 and 1200 steps to the limit of many, beside the law of batches without end."""
    (model, start), beta = STEPPED[given], {"beta": 0.6, "kind": kind} if kind else {}
    rule = (Momentum if kind else Rule)(1.0, decay=model.rule.decay, **beta)  # type: ignore[arg-type]
    way, missed, later = whole_flow(replace(model, rule=rule), start), [], []
    for p, time in enumerate(way.found.tolist()):
        for steps in (300, 600, 1200):
            even = time / steps
            size = Linear(0.4 * even, 2.5 * even, 2 * steps) if rises else even
            own = way.of_steps(p, size_along(size, 10**12), 10**12)
            assert own is not None
            ((said, plain), _) = steps_until(size, np.array([own.mean, time]))
            missed.append(descent(replace(model, rule=replace(rule, step_size=size)), start, p) - said)
        later.append(said - plain)
    # (λ is right to a thousandth, and what is of fourth order is left.)
    few, more, many = np.reshape(missed, (-1, 3)).T
    assert np.abs(8 * many - 6 * more + few).max() / 3 < 0.005 * np.abs(later).max()


def products(A: np.ndarray, B: np.ndarray, T: np.ndarray, Q: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Of rows Av + Bw with each other, (L, m, m)."""
    half = A @ T @ B.transpose(0, 2, 1)
    return np.asarray(A @ Q @ A.transpose(0, 2, 1) + half + half.transpose(0, 2, 1) + B @ Z @ B.transpose(0, 2, 1))


def descent(model: DeclaredModel, start: Start, p: int) -> float:
    """Steps of its rule against the mean gradient, in coordinates, until a row has a squared correlation of ½, by cubic
    interpolation.
    """
    student, rule = model.student, model.rule
    free = replace(student, rows="free")
    flow = AllRows(replace(model, student=free, rule=Rule(1.0)), start)
    T, Q, b = flow.parts(flow.begin)
    Z, variance, seen = model.directions.grams, np.diag(model.directions.covariance), list[float]()
    frame = np.linalg.cholesky(np.block([[Z, T.transpose(0, 2, 1)], [T, Q]]))
    w, v = np.split(frame, [Z.shape[1]], axis=1)
    beta, kind = (rule.beta, rule.kind) if isinstance(rule, Momentum) else (0.0, "heavy")
    velocity = np.zeros_like(v)
    while len(seen) < 2 or seen[-2] < 0.5:
        T, Q = v @ w.transpose(0, 2, 1), v @ v.transpose(0, 2, 1)
        X, C = flow.rates.fields(T, Q)
        seen.append(float(np.max(X[:, p] ** 2 / (np.diag(C) * variance[p]))))
        A, B, trained = flow.rates.coefficients(T, Q, b)
        size = rule.step_size(len(seen) - 1) if callable(rule.step_size) else rule.step_size
        pull = A @ v + B @ w
        if student.rows == "projected":
            pull -= v * np.sum(pull * v, axis=(0, 2))[:, None]
        velocity = beta * velocity + (1 - beta if kind == "average" else 1) * pull
        v = (1 - size * rule.decay) * v + size * (pull + beta * velocity if kind == "nesterov" else velocity)
        if student.rows != "free":
            v = v / np.sqrt(np.sum(v**2, axis=(0, 2)))[:, None]
        b = b + size * sum(trained)
    last = np.arange(len(seen) - 4, len(seen))
    return float(np.interp(0.5, seen[-4:], last)) if len(seen) < 8 else float(CubicSpline(seen[-4:], last)(0.5))


@pytest.mark.parametrize("rows", [1, 3])
def test_curvature_of_linear_rows_is_what_they_share(rows: int) -> None:
    """Neurons z of one sum are held by their number."""
    assert module._curvature(path_of(problem("h1", "committee", width=rows)), 1.0) == pytest.approx(rows, rel=1e-6)


def test_curvature_is_the_largest_on_the_way() -> None:
    """It grows with 2-homogeneous rows: until a time it is that of the last step before."""
    path = path_of(problem("relu(z)"))
    time = min(one for crossed in path.crossings.values() for *_, one in crossed)
    steps = path.begins[path.begins < time]
    held = [module._held(path.flow, path.flow.parts(path.state(t))) for t in steps[[0, -2, -1]]]
    assert held[0] < 0.99 * held[1] < 0.99 * held[2]
    assert module._curvature(path, time) == pytest.approx(held[2], rel=1e-9)


def stands(rule: Rule) -> float:
    """The step size at which a linear row's error e, of gradient e, no longer shrinks: spectral radius 1 of its recursion."""
    beta = getattr(rule, "beta", 0.0)
    share = 1 - beta if getattr(rule, "kind", "") == "average" else 1.0

    def beyond(size: float) -> float:
        # (The velocity u' = βu - share·e, and e' = e + η times it, or times βu' - e.)
        velocity = np.array([-share, beta])
        along = beta * velocity - [1, 0] if getattr(rule, "kind", "") == "nesterov" else velocity
        return float(np.abs(np.linalg.eigvals([[1 + size * along[0], size * along[1]], velocity])).max()) - 1

    return float(brentq(beyond, 0.5, 10.0))


@pytest.mark.parametrize(
    "rule", [Rule(1.0), *(Momentum(1.0, beta=0.6, kind=kind) for kind in ("heavy", "average", "nesterov"))]
)
def test_steps_scatter_without_end_where_they_are_lost(rule: Rule) -> None:
    """And at a tenth of that size 1/(1 - .1) times as wide, whatever the batch."""
    model, start = problem("h1", "committee", width=1)
    way = whole_flow(replace(model, rule=rule), start)
    p = int(np.argmin(way.found))
    assert way.wider(p, 0.1 * stands(rule) / 7, 7) == pytest.approx(1 / 9, rel=1e-5)
    assert way.wider(p, 1.001 * stands(rule)) == np.inf


def test_a_time_is_the_first_of_its_rows() -> None:
    """Of two alike and independent, 1/√π of a spread earlier, and √(1 − 1/π) as wide; of one, what is given; of three that one
    number z moves, the least of 2z, z and -z. Points may miss a tenth.
    """
    law = steady(np.array([0, 0, 1]), np.array([5.0, 5.0, 9.0]), np.array([1.0, 1.0, -2.0]), np.diag([4.0, 4.0, 1.0]))
    two, one = law.of(0, 0.01), law.of(1, 0.01)
    assert two is not None
    assert one is not None
    assert (one.mean, one.std) == (pytest.approx(9 - 0.02, abs=1e-4), pytest.approx(0.1, rel=1e-3))
    assert two.mean == pytest.approx(5 + 0.01 - 0.2 / np.sqrt(np.pi), abs=2e-4)
    assert two.std == pytest.approx(0.2 * np.sqrt(1 - 1 / np.pi), rel=2e-3)
    for missed, known in ((1.098, True), (1.102, False), (0.898, False)):
        assert (replace(law, sampled=np.array([missed, 1.0])).of(0, 0.01) is not None) == known
    far = np.array([2.0, 1.0, -1.0])
    least = steady(np.zeros(3, int), np.full(3, 5.0), np.zeros(3), np.outer(far, far)).of(0, 0.01)
    assert least is not None
    assert least.mean == pytest.approx(5 - 0.3 / np.sqrt(2 * np.pi), abs=1e-3)
    assert least.std == pytest.approx(0.1 * np.sqrt(2.5 - 4.5 / np.pi), rel=5e-3)


def one_neuron(width: int = 1, dim: int = 12, rule: Rule | None = None, **student: object) -> Problem:
    """The direction w, and rows of a committee that are free, linear all."""
    linear, directions = Activation.parse("h1"), Directions.orthonormal(Inputs.isotropic(dim), 1)
    made = replace(committee(linear, width), **student)
    model = DeclaredModel(directions, Additive(linear, (1.0,)), made, rule or Rule(1.0))
    return model, draw_start(directions, width, 1.0, 9)


@pytest.mark.parametrize(
    "rule",
    [Rule(1.0), Rule(1.0, noise=0.7, decay=0.4), Momentum(1.0, beta=0.5, decay=0.4)],
    ids=["plain", "noise", "momentum"],
)
def test_the_law_of_a_linear_neuron(rule: Rule) -> None:
    r"""Its flow $\dot v=\nu(w-v)-\kappa v$ is there at t = ln(1 + c(p - T)/ν)/c, c = ν + κ, of v = Tw + pe, so that -∇t is
    λ = (w - e)exp(c(s - t))/ν at time s. With δ = w - v a sample has E|g - δ|² = (d + 1)|δ|² + dτ² and
    Var(λ·g) = |λ|²(|δ|² + τ²) + (λ·δ)², of E(λ·g)² a third less; J is -c, and so is λ·JF; of gradients, which alone are
    old, it is -ν; that there are none before the start is once λ·(F + κv), v·λ = (T - p)exp(-ct)/ν there. By quadrature.
    """
    d, nu, kappa, tau = 12, 1 / (1 - getattr(rule, "beta", 0.0)), rule.decay, rule.noise
    model, start = one_neuron(dim=d, rule=rule)
    T = float(start.overlaps(model.directions)[0, 0, 0])
    p, c, law = np.sqrt(1 - T**2), nu + kappa, whole_flow(model, start).law()
    assert law is not None
    time = np.log(1 + c * (p - T) / nu) / c
    points, weights = np.polynomial.legendre.leggauss(20)
    s, weights = time * (1 + points) / 2, time * weights / 2
    ahead, side = 1 - nu / c - (T - nu / c) * np.exp(-c * s), p * np.exp(-c * s)
    gap, slope = ahead**2 + side**2, np.exp(c * (s - time)) / nu
    noise = 2 * slope**2 * (gap + tau**2) + slope**2 * (ahead + side) ** 2
    drift = slope * ((d + 1) * gap + d * tau**2) / (2 * side)
    spread, later = weights @ noise, weights @ drift
    assert law.times == pytest.approx([time], rel=1e-5)
    assert law.covariance == pytest.approx(np.array([[nu**2 * spread]]), rel=0.01)
    assert law.later == pytest.approx([nu**2 * later], rel=0.01)
    # Of a schedule, the same integrals with the size of the steps at each time: here four times as large at the end. (As much
    # as steady steps of the same sum where neither noise nor decay is, for then both integrands are constant.)
    sizes, own = 0.01 * (1 + 3 * s / time), law.of(0, lambda t: 0.01 * (1 + 3 * t / time))
    assert own is not None
    assert own.std == pytest.approx(nu * np.sqrt(weights @ (sizes * noise)), rel=0.01)
    whole, begun = -c / 2 - nu * age(rule), age(rule) * (1 + kappa * np.exp(-c * time) / nu * (T - p))
    assert own.mean - time == pytest.approx(weights @ (sizes * (nu**2 * drift + whole)) + 0.01 * begun, rel=0.02)
    assert law.begun == pytest.approx([begun], rel=0.01)
    steady = 0.025 * np.array([nu**2 * later + whole * time, nu**2 * spread]) + 0.01 * np.array([begun, 0])
    assert np.all(np.array([own.mean - time, own.std**2]) > 1.05 * steady) == bool(tau)


def test_the_law_of_linear_rows_that_do_not_know_of_each_other() -> None:
    r"""By the correlation loss $v_k=v_k(0)+bwt$ is there at t_k = (p_k - T_k)/b, and -∇t_k is (w - e_k)/b throughout: samples
    move two times together by b²E(w·x)²(λ_k·x)(λ_l·x) = 3 + e_k·e_l, of which 1 is the product of means.
    """
    b, noise, d = 0.5, 0.6, 12
    model, start = alone(one_neuron(4, d, Rule(1.0, noise=noise), second=(b,) * 4))
    T = start.overlaps(model.directions)[0, :, 0]
    p = np.sqrt(1 - T**2)
    times, law = (p - T) / b, whole_flow(model, start).law()
    cosines = (start.grams[0] - np.outer(T, T)) / np.outer(p, p)
    assert law is not None
    there = np.argsort(times)[: len(law.times)]
    assert len(there) == 3
    assert law.times == pytest.approx(times[there], rel=1e-5)
    both = np.minimum.outer(times, times) * (2 + cosines + noise**2 * (1 + cosines))
    assert law.covariance == pytest.approx(both[np.ix_(there, there)], rel=0.01)
    assert law.later == pytest.approx((times * b * (d + 1 + d * noise**2) / (2 * p))[there], rel=0.01)


Pull = tuple[np.ndarray, np.ndarray, np.ndarray]


def sampled_pulls(given: Problem, pulls: list[Pull], count: int = 500_000) -> tuple[np.ndarray, np.ndarray]:
    """E(λ_a·g)(λ_b·g) of explicit inputs, rows and λ = Gv + Mw, and standard errors, (n, n)."""
    (model, start), rng = given, np.random.default_rng(1)
    student, rule, inputs = model.student, model.rule, model.inputs
    second, values = np.array(student.second), inputs.eigenvalues
    norms, variances = np.einsum("ikk->k", start.grams), np.einsum("i,ikk->k", values, start.grams)
    rho = variances if student.whitened else norms if student.homogeneous else np.ones(student.width)
    fields, labels, seen, along = 0.0, 0.0, [0.0 for _ in pulls], [0.0 for _ in pulls]
    for i, (own, root, value) in enumerate(zip(start.coordinates, model.directions.roots, values, strict=True)):
        directions = np.pad(root, ((0, 0), (0, own.shape[1])))[:, : own.shape[1]]
        x = np.sqrt(value) * rng.standard_normal((count, own.shape[1]))
        fields, labels = fields + x @ own.T, labels + x @ directions.T
        for a, (G, M, _) in enumerate(pulls):
            vectors = G[i] @ own + M[i] @ directions
            seen[a] = seen[a] + x @ vectors.T
            along[a] = along[a] + (value if student.whitened else 1.0) * np.sum(vectors * own, axis=1)
    neuron, slope = (student.activation.arrays(order)(fields / np.sqrt(rho)) for order in (0, 1))
    label = model.target.link.arrays(0)(labels) @ np.array(model.target.weights)
    if rule.noise_law == "flips":
        label = label * np.where(rng.random(count) < rule.noise, -1.0, 1.0)
    else:
        label = label + rule.noise * rng.standard_normal(count)
    missed = label - (0.0 if model.loss == Correlation() else neuron @ (second * rho))
    radial = student.homogeneous * (2 * neuron - fields / np.sqrt(rho) * slope)
    moved = [
        missed * ((np.sqrt(rho) * slope * x + radial * y) @ second + neuron @ layer)
        for x, y, (*_, layer) in zip(seen, along, pulls, strict=True)
    ]
    both = np.array([[x * y for x in moved] for y in moved])
    return both.mean(axis=2), both.std(axis=2) / np.sqrt(count)


@pytest.mark.parametrize(
    "given",
    [
        problem("relu(z)", noise=0.5),
        trained(problem("erf(z)", "committee")),
        learned(problem("erf(z)", "committee", width=2, noise=0.4, noise_law="flips")),
        alone(problem("h1+h2", "committee")),
        correlated(),
        spread_out("tanh(z)", "whitened"),
        spread_out("erf(z)", "committee"),
    ],
    ids=["homogeneous", "trained", "flips", "correlation", "correlated", "whitened", "eigenvalues"],
)
def test_what_a_sample_does_to_times_is_that_of_explicit_gradients(given: Problem) -> None:
    """Along any two λ within four standard errors and what points miss: 1.3e-2 of what
    a λ alone has, beside more samples.
    """
    (model, start), rng = given, np.random.default_rng(3)
    flow, m = AllRows(model, start), start.width
    pulls = [
        (
            rng.standard_normal((flow.shape[0], m, m)),
            rng.standard_normal(flow.shape),
            model.student.trained * rng.random(m),
        )
        for _ in range(2)
    ]
    packed = [np.concatenate([x.ravel() for x in one]) for one in pulls]
    found = module._at(flow, SampleGradients(model, flow.kicks.noise), flow.begin, packed, [1.0] * len(packed))[-1]
    found, (mean, error) = found + 1, sampled_pulls(given, pulls)  # (λ·g is taken to be 1 in the mean)
    size = np.sqrt(np.diag(mean))
    assert np.all(np.abs(found - mean) < 4 * error + 0.015 * np.outer(size, size))


@pytest.mark.parametrize(
    "given",
    [
        problem("relu(z)", noise=0.5),
        on_a_sphere(problem("erf(z)", "committee", width=2, noise=0.5)),
        correlated(),
    ],
    ids=["homogeneous", "sphere", "eigenvalues"],
)
def test_kicks_move_times_as_products_of_rows_that_grow(given: Problem) -> None:
    """Rows with what a step adds to their products where nothing else is, and back to length 1 on a sphere: by how much the
    flow is later, in central differences.
    """
    model, start = given
    model = replace(model, rule=replace(model.rule, step_size=1.0))
    path = path_of((model, start))
    (flow, (row, p, time)), unit = (path.flow, path.crossings[min(path.crossings)][0]), model.student.rows != "free"
    costate = module._Costate.at(path, row, p, time, module._Allowed(10**6)).value(0.0)
    gradients, state = SampleGradients(model, flow.kicks.noise), flow.parts(flow.begin)
    means = products(*flow.rates.coefficients(*state)[:2], *state[:2], model.directions.grams)
    kicks = gradients.kicks(*state[:2], gradients.at(*state)) - means
    later = float(module._at(flow, gradients, flow.begin, [costate], [1.0])[0][0])
    size, P, times = 0.005 * time / abs(later), model.directions.count, []
    for way in (size, -size):
        parts = [
            np.concatenate([x[:, :P], np.linalg.cholesky(x[:, P:] @ x[:, P:].T + way * kick)], axis=1)
            for x, kick in zip(start.coordinates, kicks, strict=True)
        ]
        grown = moved(Start(tuple(parts)), [np.zeros_like(x) for x in parts], 0.0, unit)
        times.append(whole_flow(model, grown).found[p])
    assert (times[0] - times[1]) / (2 * size) == pytest.approx(later, rel=0.01)


@pytest.mark.slow_for("homogeneous")
@pytest.mark.parametrize(
    "given",
    [
        problem("erf(z)", "committee", width=3, dim=48),
        trained(problem("relu(z)", "committee", width=2, dim=64)),
        problem("relu(z)", width=4, dim=64),
    ],
    ids=["committee", "trained", "homogeneous"],
)
def test_mean_and_spread_of_sgd(given: Problem) -> None:
    """Each within three standard errors of its interval, which the second order of steps makes; half and twice of the spread
    are rejected.
    """
    model, start = given
    way = whole_flow(model, start)
    p = int(way.found.argmin())
    law = way.law()
    assert law is not None
    own = int(np.flatnonzero(law.directions == p)[0])
    size = 0.05**2 * way.found[p] ** 2 / law.covariance[own, own]
    taken = replace(model, rule=Rule(float(size)))
    said = predict(taken, start)
    mean, spread, steps = (
        next(x for x in said.of_quantity(one) if x.place == p + 1) for one in (MEAN_STEPS, SPREAD_STEPS, FOUND_STEPS)
    )
    assert [x.reasons for x in (mean, spread, steps)] == [[], [], []]
    run = declared_sgd(taken, start, steps=int(1.6 * steps.value), replicas=128, seed=4, saves=800)
    times = emergence_times(taken, run.dataset)[:, p] / size
    assert np.all(np.isfinite(times))
    error = times.std() / np.sqrt(len(times))
    assert mean.low - 3 * error < times.mean() < mean.high + 3 * error
    assert spread.low - 3 * error / np.sqrt(2) < times.std() < spread.high + 3 * error / np.sqrt(2)
    assert spread.value / 2 < times.std() - 3 * error < times.std() + 3 * error < 2 * spread.value
    assert steps.low < times.mean() < steps.high


@pytest.mark.parametrize(("share", "stated"), [(0.2, True), (1.2, False), (1e6, False)])
def test_beyond_its_own_time_no_interval_of_steps_is_stated(share: float, stated: bool) -> None:
    """A spread of so many times the time itself: from one time on the first order says nothing, and is told so."""
    model, start = problem("gelu(z)", "committee", width=3, dim=48)
    way = whole_flow(model, start)
    p, law = int(way.found.argmin()), way.law()
    assert law is not None
    own = int(np.flatnonzero(law.directions == p)[0])
    size = float(share**2 * way.found[p] ** 2 / law.covariance[own, own])
    (one,) = (x for x in predict(replace(model, rule=Rule(size)), start).of_quantity(FOUND_STEPS) if x.place == p + 1)
    assert one.value == pytest.approx(way.found[p] / size)
    assert any("more than its own time off" in x for x in one.reasons) == (not stated)
    assert (bool(np.isfinite([one.low, one.high]).all()), bool(np.isnan([one.low, one.high]).all())) == (
        stated,
        not stated,
    )
    assert not any(x.startswith("schedule") for x in one.reasons)


@pytest.mark.slow_for("True")
@pytest.mark.parametrize("rises", [True, False])
def test_mean_and_spread_of_sgd_by_a_schedule(rises: bool) -> None:
    """From .3 to 3 times the size on the way, and from 2.5 times by a power: as above. The spread of as many steady steps of
    the same sum is rejected, which has too much noise late, or too little early.
    """
    model, start = problem("gelu(z)", "committee", width=3, dim=48)
    way = whole_flow(model, start)
    p, law = int(way.found.argmin()), way.law()
    assert law is not None
    own = int(np.flatnonzero(law.directions == p)[0])
    size = float(0.05**2 * way.found[p] ** 2 / law.covariance[own, own])
    steady = int(way.found[p] / size)
    schedule = Linear(0.3 * size, 3 * size, 2 * steady) if rises else Power(2.5 * size, 0.5, steady / 3)
    taken = replace(model, rule=Rule(schedule))
    said = predict(taken, start)
    mean, spread, steps = (
        next(x for x in said.of_quantity(one) if x.place == p + 1) for one in (MEAN_STEPS, SPREAD_STEPS, FOUND_STEPS)
    )
    assert [x.reasons for x in (mean, spread, steps)] == [[], [], []]
    run = declared_sgd(taken, start, steps=int(1.5 * steps.value), replicas=128, seed=4, saves=800)
    times = steps_until(schedule, emergence_times(taken, run.dataset)[:, p])[0]
    assert np.all(np.isfinite(times))
    error = times.std() / np.sqrt(len(times))
    assert mean.low - 3 * error < times.mean() < mean.high + 3 * error
    assert spread.low - 3 * error / np.sqrt(2) < times.std() < spread.high + 3 * error / np.sqrt(2)
    plain = way.of_steps(p, float(way.found[p] / steps.value))
    assert plain is not None
    assert abs(plain.std * steps.value / way.found[p] - times.std()) > 3 * error / np.sqrt(2)
    over = Power(size, 0.0, end=int(0.97 * steady))  # (a third of the runs are there by then)
    left = predict(replace(model, rule=Rule(over)), start)
    assert [x for x in left.of_quantity(MEAN_STEPS) if x.place == p + 1] == []


def test_a_schedule_says_what_its_steps_do() -> None:
    """One that is steady the same as a number; whether runs go another way is asked of its largest step until then."""
    way = whole_flow(*problem("relu(z)"))
    p, asked = int(way.found.argmin()), list[float]()

    def law(rule: Rule, _: int) -> tuple[None, tuple[Condition, ...]]:
        asked.append(float(rule.step_size))  # type: ignore[arg-type]
        return None, (Condition("lost", False, 0.5, 0.02, "lost: half of the runs"),)

    size = 1e-5
    rules = [Rule(x) for x in (size, Power(size, 0.0), Linear(size / 2, 2 * size, int(3 * way.found[p] / size)))]
    said = [{x.quantity: x for x in _of_all_rows(rule, {p: way}, law)} for rule in rules]
    for one in said:
        assert [x.name for x in one[MEAN_STEPS].conditions if not x.holds] == ["lost"]
        assert {x.place for x in one.values()} == {p + 1}
        assert one[MEAN_STEPS].low < one[MEAN_STEPS].value < one[MEAN_STEPS].high
    (over,) = _of_all_rows(Rule(Power(size, 0.0, end=int(0.97 * way.found[p] / size))), {p: way}, law)
    assert (over.quantity, over.place) == (OF_SGD, p + 1)
    for quantity in (MEAN_STEPS, SPREAD_STEPS):
        pair = ([one[quantity].value, one[quantity].low, one[quantity].high] for one in said[:2])
        np.testing.assert_allclose(*pair, rtol=1e-6)
    assert asked[:2] == [size, size]
    there = said[2][MEAN_STEPS].high / rules[2].step_size.end  # type: ignore[union-attr]
    assert asked[2] == pytest.approx(size * (0.5 + 1.5 * there), rel=0.05)
    assert asked[2] < 1.8 * size


@dataclass(frozen=True)
class Pause:
    """No steps from one to another."""

    size: float
    begin: int
    length: int
    end: int | None = None

    def __call__(self, step: Any) -> Any:
        waits = (np.asarray(step) >= self.begin) & (np.asarray(step) < self.begin + self.length)
        return np.where(waits, 0.0, self.size)


@pytest.mark.parametrize("late", [-0.9, 0.05, 0.5, 1.8])
def test_a_pause_is_waited_for_by_those_who_are_not_there(late: float) -> None:
    """L Φ((m − a)/s) of its steps in the mean: three times of the law had 0, 1/6 or 5/6 (at 1.8: 423, SGD 563 ± 26)."""
    model, start = problem("tanh(z)", "committee", width=1, dim=40)
    way = whole_flow(model, start)
    p, length = int(way.found.argmin()), 4000
    size = float(way.found[p]) / 400

    def said(rule: Rule) -> dict[str, Any]:
        return {x.quantity: x for x in _of_all_rows(rule, {p: way}, lambda *_: (None, ()))}

    plain = said(Rule(size))
    mean, spread = plain[MEAN_STEPS].value, plain[SPREAD_STEPS].value
    pausing = said(Rule(Pause(size, round(mean + late * spread), length)))[MEAN_STEPS]
    for end in ("value", "low", "high"):
        time = getattr(plain[MEAN_STEPS], end)
        waits = norm.sf((mean + late * spread - time) / spread)
        assert (getattr(pausing, end) - time) / length == pytest.approx(waits, abs=1 / 50)


def test_a_schedule_that_begins_with_nothing_has_a_law() -> None:
    """A pause at the beginning is waited for by all; of a rise from 0 the same integrals as of one from next to nothing."""
    way = whole_flow(*problem("tanh(z)", "committee", width=1, dim=40))
    p = int(way.found.argmin())
    size = float(way.found[p]) / 400

    def said(rule: Rule) -> list[float]:
        return [x.value for x in _of_all_rows(rule, {p: way}, lambda *_: (None, ()))]  # type: ignore[union-attr]

    mean, spread = said(Rule(size))
    assert said(Rule(Pause(size, 0, 70))) == pytest.approx([mean + 70, spread], rel=1e-3)
    rises = (Rule(lambda step, first=first: first + size / 300 * np.minimum(step, 300)) for first in (0.0, 1e-6 * size))
    np.testing.assert_allclose(*map(said, rises), rtol=1e-4)


def test_where_no_law_is_known_kicks_say_how_near_sgd_is() -> None:
    """Rare samples decide of h4."""
    way = whole_flow(*problem("h4", "committee", dim=40))
    p = int(way.found.argmin())
    assert (way.of_steps(p, 1e-6), way.late(p, 1e-6)) == (None, None)
    assert way.of_sgd(p, 1e-6)[0].sentence.startswith("fluctuations: steps add")


def test_what_takes_too_long_has_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first direction's λ takes less than a half of the work of both."""
    given = problem("relu(z)")
    path = path_of(given)
    taken, spent = module._Allowed(10**6), []
    for rows in sorted(path.crossings.values(), key=lambda rows: rows[0][2]):
        for one in rows:
            module._Costate.at(path, *one, taken)
            module._Costate.astray(path, *one, taken)
        spent.append(10**6 - taken.left)
    assert 2 * spent[0] < spent[1]
    way = whole_flow(*given)
    first = int(way.found.argmin())
    for allowed, known in ((spent[1], [True, True]), (spent[1] - 1, [True, False]), (spent[0] - 1, [False, False])):
        monkeypatch.setattr(module, "_WORK", (allowed + 0.5) * 2 * path.flow.cost)
        law = module.passage_law(path.flow, path.steps, way.found)
        assert [law.of(p, 1e-6) is not None for p in (first, 1 - first)] == known


def test_what_is_found_where_the_flow_rests_has_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a row that leans to both of z1*z2 alike may; the other directions have theirs."""
    given = problem("relu(z)")
    path = path_of(given)
    (row, p, time), *_ = path.crossings[0]
    still = [np.zeros_like(x) for x in path.flow.parts(path.flow.begin)[:2]]
    with monkeypatch.context() as patched:
        patched.setattr(path.flow.rates, "of_all", lambda *_: still)
        with (
            np.errstate(all="ignore"),
            pytest.raises(InputError, match=f"direction {p + 1} is found where the flow rests"),
        ):
            module._Costate.at(path, row, p, time, module._Allowed(10**6))
    known = module._Costate.at

    def but_the_first(path: module._Path, row: int, p: int, *rest: float) -> module._Costate:
        if p == 0:
            raise InputError("at rest")
        return known(path, row, p, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module._Costate, "at", but_the_first)
    law = module.passage_law(path.flow, path.steps, whole_flow(*given).found)
    assert [law.of(q, 1e-6) is not None for q in (0, 1)] == [False, True]
    model, start = on_a_sphere(problem("h2", "committee", width=1))
    x, y = symbols(2)
    predict(replace(model, target=Polynomial(x * y + x**3 - 3 * x, 2)), start)


def test_what_is_found_from_the_start_has_no_law() -> None:
    """A row that is along one direction; the other direction has its law."""
    model, start = problem("relu(z)")
    on = start.coordinates[0].copy()
    on[0] = 0.3 * np.eye(on.shape[1])[0]
    way = whole_flow(model, Start((on,)))
    law = way.law()
    assert law is not None
    assert (way.found[0], law.of(0, 1e-6)) == (0.0, None)
    assert law.of(1, 1e-6) is not None


def test_momentum_scatters_as_its_effective_step() -> None:
    model, start = problem("relu(z)")
    plain, fast = (whole_flow(replace(model, rule=rule), start) for rule in (Rule(1.0), Momentum(1.0, beta=0.75)))
    one, other = plain.of_steps(0, 4e-5), fast.of_steps(0, 1e-5)
    assert one is not None
    assert other is not None
    assert (other.mean, other.std) == (pytest.approx(one.mean / 4, rel=1e-3), pytest.approx(one.std / 4, rel=5e-3))


def test_steps_of_a_row_that_rests_where_it_is_found_are_not_moved_by_old_gradients() -> None:
    """One that leans to z1 and z2 alike: what is first order there is thousands of times the steps, and no number to add."""
    model, start = on_a_sphere(problem("h2", "committee", width=1, dim=100), "projected")
    x, y = symbols(2)
    model = replace(model, target=Polynomial(x + x * y, 2), rule=Momentum(1e-6))
    said = predict(model, start)
    found = {one.place: one.value for one in said.of_quantity(FOUND)}
    moved = [one for one in said.of_quantity(FOUND_STEPS) if "lag" in {x.split(":")[0] for x in one.reasons}]
    assert moved
    for one in moved:
        assert one.value == pytest.approx(found[one.place] / 1e-6)
        assert np.isnan([one.low, one.high]).all()
    assert not said.of_quantity(MEAN_STEPS)


def test_steps_of_the_flow_by_momentum_are_later_by_what_descents_are() -> None:
    """Than those of plain steps of the same effective size, from 400 and 800 to the limit of many."""
    model, start = problem("erf(z)", "committee")
    rules = (Rule(1.0), Momentum(1.0, beta=0.75))
    p, later, found = 0, [], []
    for steps in (400, 800):
        taken = []
        for rule in rules:
            size = float(whole_flow(replace(model, rule=rule), start).found[p]) / steps
            taken.append(replace(model, rule=replace(rule, step_size=size, batch=10**6)))
        said = [next(x for x in predict(one, start).of_quantity(FOUND_STEPS) if x.place == p + 1) for one in taken]
        assert [one.reasons for one in said] == [[], []]
        later.append(said[1].value - said[0].value)
        plain, old = (descent(one, start, p) for one in taken)
        found.append(old - plain)
    assert later[1] == pytest.approx(2 * found[1] - found[0], rel=0.01)
    assert later[1] > age(rules[1]) + 1
