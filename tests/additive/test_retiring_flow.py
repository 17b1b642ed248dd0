"""The coupled flow with learned pairs retired: the derivation behind it, its accuracy, its cost, and what it refuses."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import sympy as sp

from dynamics import gradient_flow, retiring_flow
from dynamics.additive import retiring_flow as module
from dynamics.core.interrupted import IntegrationError
from theory import Activation, InitialState, InputError, Student, Teacher, draw_initial_state, predict
from theory.additive import exact_points, retirement
from theory.additive.sourced_flow import sourced_flow
from theory.core.derivation import DerivationError
from theory.core.indexed import Sums

H4 = Activation.from_degree(4)


def problem(dim, width=6, students=12, scale=0.01, seed=0, activation=H4):
    teacher = Teacher.power_law(width, 0.8, dim)
    start = draw_initial_state(teacher, Student(students, scale), seed=seed)
    return activation, teacher, start, predict(activation, teacher, start)


@pytest.mark.parametrize("text", ["h3", "h4", "h6", "0.8*h4+0.6*h6", "quadratic", "erf", "1e3*h3", "1e-3*h4"])
def test_retirement_is_derived_for_any_activation(text):
    assert retirement.derivation(Activation.parse(text)).verify() == 2


@pytest.mark.parametrize("text", ["h4", "erf"])
def test_forces_of_sources_are_derived(text):
    assert sourced_flow(Activation.parse(text)).derivation.verify() == 3


def test_a_force_that_is_left_out_of_the_sources_is_noticed():
    system = sourced_flow(H4)
    for component, sums in system.drift.items():
        lame = Sums(sums[:-1])
        residual = exact_points.coordinate_residual(component, lame, system.definitions, H4)
        assert abs(residual) > 1e-6


@pytest.mark.parametrize("factor", [sp.Rational(21, 20), 0])
def test_a_wrong_projection_is_noticed(monkeypatch, factor):
    right = retirement.projection()
    monkeypatch.setattr(retirement, "projection", lambda: right * factor)
    with pytest.raises(DerivationError, match="tangent projection"):
        retirement.derivation(H4).verify()


def test_the_bound_covers_the_force_it_bounds():
    """|∇_{v̄_k} Π(k, k')| by differentiating the kernel numerically, at random directions."""
    bound = retirement.pull_bound(Activation.parse("0.8*h4+0.6*h6"))
    force, mass = ([sp.lambdify(retirement.x, f, "numpy") for f in side] for side in (bound.force, bound.mass))
    activation = Activation.parse("0.8*h4+0.6*h6")
    kernel = [
        sp.lambdify(
            sp.Symbol("c"), activation.dual_derivative(n).subs(activation.dual.free_symbols.pop(), sp.Symbol("c"))
        )
        for n in range(2)
    ]
    rng = np.random.default_rng(0)

    def pi(u, v):
        radial = kernel[0](u[0]) * kernel[0](v[0]) / kernel[0](1.0)
        return radial + kernel[1](u[0]) * kernel[1](v[0]) * (u @ v - u[0] * v[0]) / kernel[1](1.0)

    for _ in range(50):
        u, v = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 4)) * np.array([3, 1, 1, 1]))
        steps = 1e-6 * np.eye(4)
        gradient = np.array([(pi(u + h, v) - pi(u - h, v)) / 2e-6 for h in steps])
        tangent = gradient - (gradient @ u) * u
        limit = sum(f(u[0]) * g(v[0]) for f, g in zip(force, mass, strict=True))
        assert np.linalg.norm(tangent) <= limit * (1 + 1e-6)


def test_the_bound_covers_what_light_students_do_near_the_direction():
    """At u = e the kernel's own derivative is gone, and of h₃ + h₄ near −e so is φ: what is left is |v − v₀e| = √(1 − v₀²)."""
    activation = Activation.parse("h3+h4")
    bound, kernel = retirement.pull_bound(activation), [activation.kernel_at(retirement.x, n) for n in range(2)]
    force, mass = ([sp.lambdify(retirement.x, f, "numpy") for f in side] for side in (bound.force, bound.mass))
    slope = sp.lambdify(retirement.x, kernel[1], "numpy")
    for v in (-0.999, -0.99, -0.9, 0.05, 0.5):
        exact = abs(slope(v)) * np.sqrt(1 - v**2)  # |φ'(1) φ'(v) (v − v₀e)|/φ'(1)
        assert exact <= sum(f(1.0) * g(v) for f, g in zip(force, mass, strict=True))


@pytest.mark.parametrize("v", [0.0, 0.3, -0.6, 0.95])
def test_the_bound_is_at_most_a_root_of_two_above_the_force(v):
    """Of φ(c) = c, Π(u, v) is u·v, whose gradient on the sphere has length 1 where u is across v and e."""
    bound = retirement.pull_bound(Activation.parse("h1"))
    force, mass = ([float(f.subs(retirement.x, at)) for f in side] for side, at in ((bound.force, 0), (bound.mass, v)))
    assert 1 <= np.dot(force, mass) <= np.sqrt(2) * (1 + 1e-12)


def test_what_moves_a_row_lies_across_it():
    rng = np.random.default_rng(0)
    row, velocity = ({"t": rng.standard_normal((5, 3)), "u": rng.standard_normal((5, 4))} for _ in range(2))
    length = np.sqrt(np.sum(row["t"] ** 2, axis=1) + np.sum(row["u"] ** 2, axis=1))[:, None]
    row = {name: x / length for name, x in row.items()}
    across = module._tangent(velocity, row)
    left = {name: velocity[name] - across[name] for name in row}
    np.testing.assert_allclose(
        np.sum(across["t"] * row["t"], axis=1) + np.sum(across["u"] * row["u"], axis=1), 0, atol=1e-12
    )
    for name in row:  # what is taken away is along the row
        np.testing.assert_allclose(left[name] * row["t"][:, :1], left["t"][:, :1] * row[name], atol=1e-12)


def test_a_share_that_stays_is_its_own_mean():
    """Noted twice on the way to the half time, 2 and 5, of forces of which a quarter is kept all the time."""
    ledger = module._Ledger.empty(1, 1)
    ledger.shared = np.full((1, 1), 0.25)
    state = {"t": np.zeros((1, 1)), "u": np.zeros((1, 1))}
    for now, half in ((2.0, np.inf), (5.0, 5.0), (7.0, 5.0)):
        hits = module.Hits(*(np.array([x]) for x in (half, 0, np.inf, np.inf)))
        cast = SimpleNamespace(sources=np.zeros(1))
        ledger.note(SimpleNamespace(time=now, hits=hits, neglected=np.zeros(1), state=state, taken=0, cast=cast))
    assert ledger.left_out == pytest.approx([0.25])


@pytest.mark.parametrize(
    ("masses", "turned", "acting", "stale"),
    [
        *(((2.0, 1.0), 0.14, False, False), ((2.0, 1.0), 0.16, False, True), ((2.29, 1.0), 0.0, False, False)),
        *(((2.31, 1.0), 0.0, False, True), ((2.0, 0.69), 0.0, False, True), ((2.0, 1.0), 0.0, True, True)),
    ],
)
def test_forces_are_renewed_once_a_tenth_of_the_light_mass_has_moved(masses, turned, acting, stale):
    """A student that turns takes its mass by the angle along, one that becomes a source all of it."""
    start = np.eye(2)
    then = {"t": start[:, :1], "u": start[:, 1:], "r": np.array([2.0, 1.0])}
    rows = np.array([[np.cos(turned), np.sin(turned)], start[1]])
    state = {"t": rows[:, :1], "u": rows[:, 1:], "r": np.array(masses)}
    cast = SimpleNamespace(then=then, sources=np.array([1]), acting=np.array([acting]))
    assert bool(module._Flow.stale(None, jax.tree.map(jax.numpy.asarray, state), cast)) == stale


@pytest.mark.parametrize("text", ["h4", pytest.param("h3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_times_equal_those_of_the_plain_flow_within_the_bound(text, seed):
    activation, teacher, start, prediction = problem(600, seed=seed, activation=Activation.parse(text))
    end = 1.2 * prediction.last_time
    plain = gradient_flow(activation, teacher, start, t_end=end, rtol=1e-9, atol=1e-12)
    flow = retiring_flow(activation, teacher, start, t_end=end, light=0.0)
    students, width = start.overlap.shape
    whole = (4 * students**2 + 16 * students) * (width + students)  # of an evaluation with nothing retired
    assert 0 < flow.flops <= flow.evaluations * whole
    learned = np.isfinite(plain.half_time)
    assert learned.sum() >= 4
    assert np.array_equal(flow.neuron, plain.neuron)
    rounding = 2e-5  # of the integrator at rtol 1e-6 over a plateau
    allowed = rounding + (activation.information_exponent - 2) * flow.neglected[learned]
    assert np.all(np.abs(flow.half_time / plain.half_time - 1)[learned] <= allowed)
    assert np.all(np.abs(flow.loss_time / plain.loss_time - 1)[learned] <= allowed)
    assert np.isfinite(flow.retired[learned]).sum() >= learned.sum() - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "width", "students", "end", "most"), [("h3", 6, 12, None, 0.001), ("h2", 3, 40, 8.0, 0.004)]
)
def test_forces_of_light_students_that_are_kept_cost_less_than_their_share(text, width, students, end, most):
    """A student is light up to 1 % of the smallest weight, and a tenth of it may lag behind: 1e-3. Under h₂ all 40 grow at
    once, which could be 4 %; a tenth of that is asked (forces renewed once in 64 steps moved times by 1.4 %).
    """
    activation, teacher, start, prediction = problem(
        600, width, students, 0.01 if end is None else 0.003, int(end is None), Activation.parse(text)
    )
    end = end or 1.2 * prediction.last_time
    exact, kept = (retiring_flow(activation, teacher, start, t_end=end, light=x) for x in (0.0, 0.01))
    learned = np.isfinite(exact.loss_time)
    assert learned.any()
    assert np.array_equal(exact.neuron, kept.neuron)
    off = np.abs(kept.loss_time[learned] / exact.loss_time[learned] - 1)
    assert 1e-6 < off.max() < most
    assert 0 < kept.light_share.max() < 0.1
    assert kept.share.shape == (kept.times.size, teacher.width)
    assert np.all(kept.share[-1][np.isfinite(kept.retired)] == 1.0)


@pytest.mark.slow
def test_loss_equals_that_of_the_plain_flow():
    activation, teacher, start, prediction = problem(600)
    times = np.linspace(1.0, 1.2 * prediction.last_time, 30)
    plain = gradient_flow(activation, teacher, start, t_end=times[-1], times=times)
    flow = retiring_flow(activation, teacher, start, t_end=times[-1], times=times, tolerance=1e-4)
    loss = plain.dataset["loss"].values
    # Retirement drops what is left of a fitted pair: at most J/2 + 1 tolerances of its a² in the loss.
    assert np.all(np.abs(flow.loss - loss) <= 1e-6 + 3e-4 * loss[0])


@pytest.mark.slow
def test_nothing_is_retired_at_tolerance_zero_and_the_answer_is_the_same():
    activation, teacher, start, prediction = problem(400, width=3, students=6)
    end = 1.1 * prediction.last_time
    kept, flow = (retiring_flow(activation, teacher, start, t_end=end, tolerance=x) for x in (0.0, 1e-3))
    assert np.all(np.isinf(kept.retired))
    assert np.isfinite(flow.retired).any()
    assert flow.steps < kept.steps
    # Tsit5 has six stages a step. With nothing cut, all m = 6 students are sources, of P + rank = 3 + 6 coordinates each.
    assert kept.evaluations == 6 * kept.steps
    assert kept.flops == kept.evaluations * (4 * 6 * 6 * 9 + 16 * 6 * 9)
    learned = np.isfinite(kept.half_time)
    assert np.allclose(flow.half_time[learned], kept.half_time[learned], rtol=1e-4)


@pytest.mark.slow
def test_the_number_of_steps_hardly_grows_with_the_dimension():
    """Plain flows take steps in proportion to d (stiffness of what is learned); here only the plateau's logarithm counts."""
    steps = {}
    for dim in (10**4, 10**6):
        activation, teacher, start, prediction = problem(dim, width=4, students=8)
        flow = retiring_flow(activation, teacher, start, t_end=1.2 * prediction.last_time)
        assert np.allclose(flow.half_time, prediction.time_half, rtol=0.01)
        steps[dim] = flow.steps
    assert steps[10**6] < 2 * steps[10**4] < 4000


@pytest.mark.slow_for("2-2-8-1")
@pytest.mark.parametrize(
    ("width", "students", "seed", "smallest"), [(2, 2, 8, 1), pytest.param(7, 8, 0, 4, marks=pytest.mark.slow)]
)
def test_arrays_are_cut_without_changing_the_answer(monkeypatch, width, students, seed, smallest):
    import importlib

    module = importlib.import_module("dynamics.additive.retiring_flow")
    activation, teacher, start, prediction = problem(500, width=width, students=students, seed=seed)
    end = 1.1 * prediction.last_time
    monkeypatch.setattr(module, "_STALE", 1e-4)  # (a cut looks at light forces anew, which else are a tenth old)
    jax.clear_caches()  # (programs of other tests have the number that was)
    whole = retiring_flow(activation, teacher, start, t_end=end)
    monkeypatch.setattr(module, "_SMALLEST", smallest)
    monkeypatch.setattr(module, "_CUT", 0.5)  # two sizes only: every size is compiled
    cut = retiring_flow(activation, teacher, start, t_end=end)
    assert cut.flops < whole.flops
    assert np.array_equal(np.isfinite(cut.half_time), np.isfinite(whole.half_time))
    learned = np.isfinite(whole.half_time)
    assert np.allclose(cut.half_time[learned], whole.half_time[learned], rtol=1e-6)
    assert np.array_equal(cut.neuron, whole.neuron)
    fitted = np.isfinite(whole.loss_time)
    assert np.allclose(cut.loss_time[fitted], whole.loss_time[fitted], rtol=1e-6)
    assert np.allclose(cut.loss, whole.loss, rtol=1e-5)
    assert np.allclose(cut.share[-1], whole.share[-1], rtol=1e-5)
    for name in ("neglected", "light_share"):
        np.testing.assert_allclose(getattr(cut, name)[learned], getattr(whole, name)[learned], rtol=1e-3)
    data = cut.dataset
    assert np.array_equal(data["loss"], cut.loss)
    assert np.array_equal(data["share"], cut.share)


def test_what_is_cut_keeps_its_inner_products_and_room_doubles():
    u = np.random.default_rng(0).standard_normal((3, 8))
    assert module._compressed(u).shape == (3, 3)
    np.testing.assert_allclose(module._compressed(u) @ module._compressed(u).T, u @ u.T, rtol=1e-12)
    np.testing.assert_array_equal(module._compressed(u.T), u.T)
    assert [module._room(4, strong, 20) for strong in (3, 4, 5, 8, 9, 17)] == [4, 4, 8, 8, 16, 20]


@pytest.mark.slow
def test_more_directions_than_neurons():
    activation, teacher, start, prediction = problem(300, width=8, students=3)
    flow = retiring_flow(activation, teacher, start, t_end=2 * prediction.last_time)
    assert 1 <= np.isfinite(flow.half_time).sum() <= 3
    unlearned = teacher.a[~np.isfinite(flow.half_time)]
    assert flow.loss[-1] == pytest.approx(0.5 * np.sum(unlearned**2), rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t_end": -1.0}, "t_end is -1.0: give a positive finite time"),
        ({"t_end": 1.0, "tolerance": 0.7}, "tolerance is 0.7: give a share"),
        ({"t_end": 1.0, "light": 0.5}, "light is 0.5: give a share"),
        ({"t_end": 1.0, "times": np.array([2.0])}, "times must increase within"),
    ],
)
def test_bad_input_is_refused(options, message):
    activation, teacher, start, _ = problem(100, width=2, students=3)
    with pytest.raises(InputError, match=message):
        retiring_flow(activation, teacher, start, **options)


def test_an_initial_state_of_another_teacher_is_refused():
    activation, teacher, _, _ = problem(100, width=2, students=3)
    with pytest.raises(InputError, match="draw it for this teacher"):
        retiring_flow(activation, teacher, problem(100, width=3, students=3)[2], t_end=1.0)


def test_too_few_steps_are_said():
    activation, teacher, start, prediction = problem(100, width=2, students=3)
    with pytest.raises(IntegrationError, match="max_steps = 10 are done"):
        retiring_flow(activation, teacher, start, t_end=prediction.last_time, max_steps=10)


@pytest.mark.slow
def test_weights_of_a_teacher_that_starts_learned():
    """A direction that is fitted from the start is recorded at time 0 and leaves at once."""
    activation, teacher, start, _ = problem(50, width=2, students=2)
    on_teachers = np.diag(np.sqrt(teacher.a)) * np.array([[1.0], [0.02]])
    fitted = replace(start, on_teachers=on_teachers, residual=np.diag([1e-9, 0.02]))
    flow = retiring_flow(activation, teacher, fitted, t_end=5.0)
    assert flow.half_time[0] == 0.0
    assert flow.retired[0] < 1.0


def test_retirement_times_do_not_depend_on_what_is_recorded():
    activation, teacher, start, prediction = problem(100, width=2, students=3)
    ends = 1.5 * prediction.last_time
    runs = [
        retiring_flow(activation, teacher, start, t_end=ends, times=np.linspace(0, ends, n)[1:], tolerance=1e-4)
        for n in (2, 40)
    ]
    assert np.isfinite(runs[0].retired).any()
    both = np.isfinite(runs[0].retired) & np.isfinite(runs[1].retired)
    # Recorded times end steps, which moves the end of the step in which a pair comes to rest.
    assert np.allclose(runs[0].retired[both], runs[1].retired[both], rtol=0.05)


@pytest.mark.parametrize("whole", [20, 32, 50, 64, 100, 1000])
def test_arrays_are_cut_to_the_smallest_size_that_holds_what_is_left(whole: int) -> None:
    """Sizes halve, so that few are compiled; none is below 32, which no cut would speed up."""
    sizes = [whole]
    while sizes[-1] > 32:
        sizes.append(max(32, -(-sizes[-1] // 2)))
    for count in range(whole + 1):
        assert module._size(count, whole) == min(size for size in sizes if size >= count)


def test_a_student_that_points_away_counts_for_an_activation_of_both_parities():
    """Under h₃ + 2h₄ it learns from −e, too: φ(−1) = 3. On ±e a student is alone: ṙ = 4r(aφ(±1) − rφ(1)), in closed form."""
    teacher = Teacher.of([1.0, 1.0], 10)
    start = InitialState(np.diag([-0.1, 0.1]), np.zeros((2, 2)))
    times = np.array([0.0, 0.5, 3.0])
    flow = retiring_flow(Activation.parse("h3+2*h4"), teacher, start, t_end=3.0, times=times)
    rates, limits = 4 * teacher.a * [3, 5], teacher.a * [3 / 5, 1]
    half = np.log((limits / 0.01 - 1) / (2 * limits / teacher.a - 1)) / rates
    assert flow.half_time.tolist() == [0.0, 0.0]
    assert flow.neuron.tolist() == [0, 1]
    np.testing.assert_allclose(flow.loss_time, half, rtol=1e-5)  # the integrator's, at rtol 1e-6
    assert flow.times.tolist() == times.tolist()
    norms = limits / (1 + (limits / 0.01 - 1) * np.exp(-rates * times[:, None]))
    np.testing.assert_allclose(flow.share, norms / teacher.a, rtol=1e-5)
    assert np.isinf(flow.retired[0])  # what it cannot fit stays in the equations
    assert np.isfinite(flow.retired[1])
