"""The integrated flow: against ambient coordinates, closed forms, its own symmetries, and bad input."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
import xarray as xr
from ambient import ambient_gradient_flow
from conftest import Frame, frame_of

from dynamics.additive.ambient_flow import ambient_loss, embed
from dynamics.additive.deflated_flow import bracket
from dynamics.additive.gradient_flow import (
    FlowResult,
    IntegrationError,
    _Crossing,
    gradient_flow,
    lowered_overlap_flow,
    overlaps_of,
)
from dynamics.core.precision import double_precision
from theory import (
    Activation,
    InitialState,
    InputError,
    SingleTask,
    Student,
    Teacher,
    draw_initial_state,
    overlap_flow,
    scores,
    select,
)
from theory.core.indexed import Sums, Term, k, r
from validation.experiments.states import ambient_rates, overlaps_of_vectors, random_vectors

H4 = Activation.from_degree(4)
Make = Callable[..., Frame]


def drift(activation: Activation, initial: InitialState, a: np.ndarray) -> dict[str, np.ndarray]:
    found = compiled_drift(activation)(overlaps_of(initial), {"a": jnp.asarray(a)})
    return {name: np.asarray(x) for name, x in found.items()}


@cache
def compiled_drift(activation: Activation) -> Callable:
    return jax.jit(lowered_overlap_flow(activation).drift)


# ------------------------------------------------------------------------------- ambient coordinates


@pytest.mark.slow_for("erf")
@pytest.mark.parametrize("text", ["h4", "erf"])
def test_overlap_coordinates_agree_with_ambient_ones(text: str) -> None:
    """Three students far from alignment in R^7, until norms and overlaps have moved by much more than 1e-6."""
    activation, teacher = Activation.parse(text), Teacher.of([1, 0.6], 7)
    initial = draw_initial_state(teacher, Student(3, 0.4), 2)
    times = np.array([1.0, 5.0, 20.0])
    vectors = ambient_gradient_flow(activation, teacher, initial, times=times)
    flow = gradient_flow(activation, teacher, initial, t_end=20.0, times=times, rtol=1e-9).dataset
    norm2 = np.sum(vectors**2, axis=2)
    np.testing.assert_allclose(flow["norm2"], norm2, rtol=0, atol=1e-6)
    np.testing.assert_allclose(flow["overlap"], vectors[:, :, :2] / np.sqrt(norm2)[..., None], rtol=0, atol=1e-6)
    assert np.abs(norm2[-1] - initial.norm2).max() > 0.3


@pytest.mark.parametrize("text", ["h4", "h3", "erf"])
def test_rounding_asymmetries_decay_while_students_grow(text: str) -> None:
    """Of a small antisymmetric part A of the students' overlaps, the rate along A, where the teachers pull all students on."""
    cosines = np.array([[0.6, 0.3], [0.5, 0.4], [0.4, 0.5]])
    given = {"t": cosines, "c": (1 + np.eye(3)) / 2, "r": np.full(3, 0.01)}
    state, weights = {name: jnp.asarray(x) for name, x in given.items()}, {"a": jnp.asarray([1.0, 0.6])}
    gap = np.triu(np.ones((3, 3)), 1)
    gap -= gap.T

    def rate(size: float) -> np.ndarray:
        return np.asarray(compiled_drift(Activation.parse(text))({**state, "c": state["c"] + size * gap}, weights)["c"])

    assert np.all(compiled_drift(Activation.parse(text))(state, weights)["r"] > 0)
    assert np.sum((rate(1e-6) - rate(-1e-6)) * gap) < 0


def test_embedding_keeps_the_gram_matrix() -> None:
    teacher = Teacher.of([1, 0.6], 9)
    initial = draw_initial_state(teacher, Student(3, 0.4), 0)
    vectors = embed(initial, 9)
    assert vectors.shape == (3, 9)
    np.testing.assert_allclose(np.sum(vectors**2, axis=1), initial.norm2, rtol=1e-14)
    np.testing.assert_allclose(vectors @ vectors.T, initial.student_overlap * 0.16, atol=1e-15)


# ------------------------------------------------------------------------------------- closed forms


@pytest.mark.slow_for("h3", "quadratic", "erf")
@pytest.mark.parametrize("text", ["h3", "h4", "0.8*h4+0.6*h6", "erf", "quadratic"])
def test_a_lone_neuron_takes_the_single_task_time(text: str) -> None:
    """m = P = 1 from a tiny norm: a neuron's direction does not see its own norm, so the quadrature is exact."""
    activation, teacher = Activation.parse(text), Teacher.of([1.0], 50)
    drawn = draw_initial_state(teacher, Student(1, 1e-6), 5)
    initial = InitialState(np.abs(drawn.on_teachers), drawn.residual)
    exact = SingleTask(activation).half_time(1.0, initial.overlap[0, 0])
    found = gradient_flow(activation, teacher, initial, t_end=1.2 * exact, rtol=1e-10, atol=1e-14)
    assert found.half_time[0] == pytest.approx(exact, rel=1e-6)
    assert found.neuron[0] == 0


def test_a_lone_aligned_neuron_grows_by_the_logistic_law() -> None:
    """From r₀ to a/2 in ln((a − r₀)/r₀)/(4a): the norm lag, for h4 (φ(1) = 1)."""
    teacher = Teacher.of([0.7], 5, normalise=False)
    initial = InitialState(np.array([[0.01]]), np.zeros((1, 1)))
    found = gradient_flow(H4, teacher, initial, t_end=10.0, rtol=1e-10, atol=1e-14)
    assert found.loss_time[0] == pytest.approx(np.log((0.7 - 1e-4) / 1e-4) / (4 * 0.7), rel=1e-8)
    assert found.half_time[0] == 0.0


@pytest.mark.slow_for("1", "0", "3")
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_well_separated_directions_are_learned_by_the_greedy_winners_at_the_exact_times(seed: int) -> None:
    """d = 10⁴, P = 8, m = 32, a ∝ 1/p: within 0.5 % wherever the winner leads by 10 % (largest seen: 0.09 %)."""
    teacher = Teacher.power_law(8, 1.0, 10_000)
    initial = draw_initial_state(teacher, Student(32, 1e-3), seed)
    chosen = select(scores(initial.overlap, teacher, 4))
    single = SingleTask(H4)
    pairs = zip(chosen.neurons, chosen.directions, strict=True)
    exact = np.array([single.half_time(teacher.a[q], initial.overlap[k, q]) for k, q in pairs])
    end = 1.2 * exact.max()
    found = gradient_flow(H4, teacher, initial, t_end=end, times=np.array([end]))
    clear = chosen.lead >= 1.1
    assert clear.sum() >= 5
    np.testing.assert_allclose(found.half_time[chosen.directions][clear], exact[clear], rtol=5e-3)
    assert np.array_equal(found.neuron[chosen.directions][clear], chosen.neurons[clear])
    # The times themselves differ by far more than the tolerance, so they could not be mixed up.
    assert np.min(np.diff(np.sort(exact[clear])) / np.sort(exact[clear])[:-1]) > 0.01


# ----------------------------------------------------------------------------- structure of the flow


@pytest.fixture(scope="module")
def run(frame: Make) -> tuple[Frame, FlowResult]:
    """Five students, three directions in R^30, long enough for all three to be learned."""
    point = frame(5, 3, 30, seed=11, scale=0.3)
    return point, gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=np.linspace(0, 60, 2001))


@pytest.mark.slow
def test_loss_decreases(run: tuple[Frame, FlowResult]) -> None:
    loss = run[1].dataset["loss"].values
    assert np.all(np.diff(loss) < 1e-9)
    assert loss[-1] < 0.01 * loss[0]


def test_hitting_times_agree_with_a_dense_grid(run: tuple[Frame, FlowResult]) -> None:
    """First crossings by linear interpolation of 2001 saved points; none may fall on a saved point by accident."""
    point, result = run
    data, a = result.dataset, point.weights
    time, squares = data["time"].values, data["overlap"].values ** 2
    share = np.einsum("tk,tkq->tq", data["norm2"].values, squares) / a
    assert np.all(np.isfinite(result.half_time))
    assert np.all(np.isfinite(result.loss_time))
    for q in range(3):
        assert result.half_time[q] == pytest.approx(_crossing(time, squares[:, :, q].max(axis=1)), abs=1e-3)
        assert result.loss_time[q] == pytest.approx(_crossing(time, share[:, q]), abs=1e-3)
        later = np.searchsorted(time, result.half_time[q])
        assert result.neuron[q] == squares[later, :, q].argmax()


def _crossing(time: np.ndarray, values: np.ndarray) -> float:
    after = int(np.argmax(values >= 0.5))
    assert 0 < after < time.size
    return float(np.interp(0.5, values[after - 1 : after + 1], time[after - 1 : after + 1]))


def test_hitting_times_do_not_depend_on_the_saved_times(run: tuple[Frame, FlowResult]) -> None:
    point, dense = run
    sparse = gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=np.array([0.0, 60.0]))
    np.testing.assert_allclose(sparse.half_time, dense.half_time, rtol=1e-6)
    np.testing.assert_allclose(sparse.loss_time, dense.loss_time, rtol=1e-6)
    assert sparse.dataset.sizes["time"] == 2


def test_hitting_times_are_found_after_the_last_saved_time(run: tuple[Frame, FlowResult]) -> None:
    point, dense = run
    early = gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=np.array([0.0, 0.1]))
    assert dense.half_time.min() > 0.1
    np.testing.assert_allclose(early.half_time, dense.half_time, rtol=1e-5)


def test_unreached_directions_have_no_time(run: tuple[Frame, FlowResult]) -> None:
    point, dense = run
    stop = np.sort(dense.half_time)[1] * 0.999
    short = gradient_flow(H4, point.teacher, point.initial, t_end=stop)
    late = dense.half_time > stop
    assert late.sum() == 2
    assert np.all(np.isinf(short.half_time[late]))
    assert np.all(short.neuron[late] == -1)
    np.testing.assert_allclose(short.half_time[~late], dense.half_time[~late], rtol=1e-5)


def test_it_stops_when_every_direction_is_learned(run: tuple[Frame, FlowResult]) -> None:
    point, dense = run
    times = np.linspace(0, 60, 13)
    early = gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=times, stop_when_learned=True)
    np.testing.assert_allclose(early.half_time, dense.half_time, rtol=1e-5)
    saved = early.dataset["time"].values
    assert saved[-1] == early.half_time.max()
    np.testing.assert_array_equal(saved[:-1], times[times < early.half_time.max()])
    least = (point.initial.overlap**2).max(axis=0).min()
    at_once = gradient_flow(
        H4, point.teacher, point.initial, t_end=60.0, times=times, level=0.9 * least, stop_when_learned=True
    )
    assert at_once.dataset["time"].values.tolist() == [0.0]


def test_another_level_is_reached_later_and_on_time() -> None:
    teacher = Teacher.of([1.0], 50)
    initial = draw_initial_state(teacher, Student(1, 1e-3), 5)
    exact = SingleTask(H4).half_time(1.0, initial.overlap[0, 0], 0.9)
    found = gradient_flow(H4, teacher, initial, t_end=1.2 * exact, rtol=1e-10, atol=1e-14, level=0.9)
    assert found.half_time[0] == pytest.approx(exact, rel=1e-6)
    assert "squared overlap of 0.9 with" in found.dataset["half_time"].attrs["long_name"]
    assert SingleTask(H4).half_time(1.0, initial.overlap[0, 0]) < exact * 0.99


def test_a_learned_direction_is_switched_off_at_its_share_of_the_norm() -> None:
    """One student alone, whose coupled flow is exact: the law of the norm on the plateau neglects the squared overlap."""
    teacher = Teacher.power_law(1, 1.0, 400)
    initial = draw_initial_state(teacher, Student(1, 0.1), 1)
    times = np.linspace(420.0, 440.0, 1001)
    exact = gradient_flow(H4, teacher, initial, t_end=times[-1], times=times).dataset
    fitted = exact["norm2"].values[:, 0] * exact["overlap"].values[:, 0, 0] ** 2
    found = bracket(H4, teacher, initial, t_end=times[-1])
    off = [flow.off_time[0] for flow in (found.early, found.middle, found.late)]
    np.testing.assert_allclose(
        np.interp(off, times, fitted), [0.05, 0.5, 0.99], rtol=0, atol=initial.overlap[0, 0] ** 2
    )
    assert off[2] - off[1] > off[1] - off[0] > 0  # the logistic's way to 0.99 is longer than that from 0.05
    assert found.move(lambda flow: flow.off_time)[0] == off[2] - off[1]


def test_cost_is_counted(run: tuple[Frame, FlowResult]) -> None:
    """Tsit5 makes six evaluations a step; a tighter tolerance needs more of them."""
    point, tight = run
    loose = gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=np.array([60.0]), rtol=1e-4)
    assert 0 < loose.steps < tight.steps
    assert loose.evaluations >= 6 * loose.steps
    assert tight.evaluations >= 6 * tight.steps


def test_permuting_neurons_permutes_the_run(run: tuple[Frame, FlowResult]) -> None:
    point, result = run
    order = np.array([3, 0, 4, 1, 2])
    moved = frame_of(point.vectors[order], point.weights)
    other = gradient_flow(H4, moved.teacher, moved.initial, t_end=60.0, times=np.array([5.0, 60.0]))
    reference = gradient_flow(H4, point.teacher, point.initial, t_end=60.0, times=np.array([5.0, 60.0]))
    np.testing.assert_allclose(other.dataset["overlap"], reference.dataset["overlap"][:, order], atol=1e-7)
    np.testing.assert_allclose(other.dataset["norm2"], reference.dataset["norm2"][:, order], atol=1e-7)
    np.testing.assert_allclose(other.half_time, result.half_time, rtol=1e-6)
    assert np.array_equal(order[other.neuron], result.neuron)


def test_rotating_what_is_orthogonal_to_the_teachers_changes_nothing(run: tuple[Frame, FlowResult]) -> None:
    """d and the residuals' basis enter through overlaps only; zero coordinates may be added."""
    point, _ = run
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((27, 27)))[0]
    rotated = np.hstack([point.vectors[:, :3], point.vectors[:, 3:] @ rotation, np.zeros((5, 70))])
    initial = frame_of(rotated, point.weights).initial
    assert np.abs(initial.residual - point.initial.residual).max() > 0.1  # another basis (here: other signs)
    found, expected = drift(H4, initial, point.weights), drift(H4, point.initial, point.weights)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-13)


@pytest.mark.parametrize("text", ["h3", "h4", "erf"])
def test_a_neurons_own_norm_does_not_turn_it(text: str, frame: Make) -> None:
    """Scaling v_k leaves its own direction's velocity unchanged; all others feel it."""
    activation, point = Activation.parse(text), frame(4, 3, 9, seed=3)
    scaled = point.vectors * np.array([1.0, 3.0, 1.0, 1.0])[:, None]
    before = drift(activation, point.initial, point.weights)["t"]
    after = drift(activation, frame_of(scaled, point.weights).initial, point.weights)["t"]
    np.testing.assert_allclose(after[1], before[1], rtol=1e-11, atol=1e-13)
    assert np.all(np.abs(after[[0, 2, 3]] - before[[0, 2, 3]]).max(axis=1) > 1e-4)


@pytest.mark.parametrize("text", ["h3", "h4", "erf", "h3+h4/2"])
def test_a_fitted_state_is_stationary(text: str) -> None:
    activation, teacher = Activation.parse(text), Teacher.of([0.9, 0.5], 6, normalise=False)
    fitted = InitialState(np.diag(np.sqrt(teacher.a)), np.zeros((2, 2)))
    for value in drift(activation, fitted, teacher.a).values():
        np.testing.assert_allclose(value, 0.0, atol=1e-14)


def test_a_fitted_state_stays_fitted() -> None:
    teacher = Teacher.of([0.9, 0.5], 6, normalise=False)
    fitted = InitialState(np.diag(np.sqrt(teacher.a)), np.zeros((2, 2)))
    result = gradient_flow(H4, teacher, fitted, t_end=50.0)
    np.testing.assert_allclose(result.dataset["loss"], 0.0, atol=1e-12)
    np.testing.assert_allclose(result.dataset["norm2"][-1], teacher.a, rtol=1e-9)
    assert result.half_time.tolist() == result.loss_time.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("text", ["h3", "h4", "erf", "h3+h4/2+1"])
def test_a_fitted_pair_disappears_for_everyone_else(text: str, frame: Make) -> None:
    """Deflation: with v_0 = √a_0 e_0 the others move as if direction 0 and neuron 0 were absent."""
    activation, point = Activation.parse(text), frame(4, 3, 9, seed=4)
    vectors = point.vectors.copy()
    vectors[0] = np.sqrt(point.weights[0]) * np.eye(9)[0]
    present = drift(activation, frame_of(vectors, point.weights).initial, point.weights)
    absent = drift(activation, frame_of(np.roll(vectors, -1, axis=1)[1:], point.weights[1:]).initial, point.weights[1:])
    np.testing.assert_allclose(present["t"][1:, 1:], absent["t"], atol=1e-13)
    np.testing.assert_allclose(present["c"][1:, 1:], absent["c"], atol=1e-13)
    np.testing.assert_allclose(present["r"][1:], absent["r"], atol=1e-13)
    half = vectors * np.array([0.9, 1, 1, 1])[:, None]  # fitted to 81 % only: still felt
    felt = drift(activation, frame_of(half, point.weights).initial, point.weights)
    assert np.abs(felt["t"][1:, 1:] - absent["t"]).max() > 1e-6


# ----------------------------------------------------------------------------------- result, errors


def test_dataset_is_labelled_and_survives_a_file(run: tuple[Frame, FlowResult], tmp_path: Path) -> None:
    data = run[1].dataset
    assert data["overlap"].dims == ("time", "neuron", "direction")
    assert data["norm2"].dims == ("time", "neuron")
    assert data["loss"].dims == ("time",)
    assert dict(data.sizes) == {"time": 2001, "neuron": 5, "direction": 3}
    assert data["direction"].values.tolist() == [1, 2, 3]
    assert data["neuron"].values.tolist() == [0, 1, 2, 3, 4]
    assert data["time"].values[[0, -1]].tolist() == [0.0, 60.0]
    for name in ("overlap", "norm2", "loss"):
        assert data[name].attrs["units"] == "1"
        assert data[name].attrs["long_name"]
    assert "time" in data["time"].attrs["units"]
    assert data.attrs["what"] == "gradient-flow"
    assert data.attrs["activation"] == "h4"
    assert data.attrs["dim"] == 30
    data.to_netcdf(tmp_path / "flow.nc", engine="h5netcdf")
    back = xr.load_dataset(tmp_path / "flow.nc", engine="h5netcdf")
    xr.testing.assert_identical(back, data)


def test_a_step_size_labels_the_times_with_steps(frame: Make) -> None:
    point, times = frame(2, 2, 6), np.array([0.0, 0.5, 2.0])
    plain, labelled = (
        gradient_flow(H4, point.teacher, point.initial, t_end=2.0, times=times, step_size=x).dataset
        for x in (None, 0.01)
    )
    assert plain["step"].values.tolist() == [-1, -1, -1]
    assert labelled["step"].values.tolist() == [0, 50, 200]
    np.testing.assert_array_equal(plain["overlap"], labelled["overlap"])


def test_first_record_is_the_initial_state(run: tuple[Frame, FlowResult]) -> None:
    point, result = run
    np.testing.assert_allclose(result.dataset["overlap"][0], point.overlap, rtol=1e-12)
    np.testing.assert_allclose(result.dataset["norm2"][0], point.norm2, rtol=1e-12)


@pytest.mark.parametrize("t_end", [0.0, -1.0, np.inf, np.nan])
def test_bad_end_times_are_refused(t_end: float, frame: Make) -> None:
    point = frame(2, 2, 6)
    with pytest.raises(InputError, match="t_end is"):
        gradient_flow(H4, point.teacher, point.initial, t_end=t_end)


@pytest.mark.parametrize(
    "times", [[], [0.0, 0.0], [1.0, 0.5], [-0.1, 1.0], [0.0, 2.1], [[0.0, 1.0]]], ids=lambda x: str(x)
)
def test_bad_record_times_are_refused(times: list, frame: Make) -> None:
    point = frame(2, 2, 6)
    with pytest.raises(InputError, match="times must increase within"):
        gradient_flow(H4, point.teacher, point.initial, t_end=2.0, times=np.array(times))


def test_a_flow_that_blows_up_says_when(frame: Make) -> None:
    r"""ṙ = r² from r₀ explodes at 1/r₀: the error names a time close to it."""
    point = frame(1, 1, 4, scale=1.0)
    system = overlap_flow(H4)
    explosive = replace(system, drift={**system.drift, r[k]: Sums([Term(r[k] ** 2)])})
    blow_up = 1 / point.norm2[0]
    with pytest.raises(IntegrationError, match=r"stopped at time [\d.]+ of") as caught:
        gradient_flow(H4, point.teacher, point.initial, t_end=2 * blow_up, system=explosive)
    assert float(str(caught.value).split()[5]) == pytest.approx(blow_up, rel=1e-2)


def test_a_conjectured_system_is_integrated_in_place_of_the_derived_one(frame: Make) -> None:
    """ṙ = −r: the given system's own solution comes back."""
    point = frame(2, 2, 6)
    system = overlap_flow(H4)
    fading = replace(system, drift={**system.drift, r[k]: Sums([Term(-r[k])])})
    result = gradient_flow(H4, point.teacher, point.initial, t_end=2.0, system=fading)
    np.testing.assert_allclose(result.dataset["norm2"][-1], point.norm2 * np.exp(-2.0), rtol=1e-7)


def test_progress_is_reported(frame: Make) -> None:
    point, seen = frame(2, 2, 6), []
    gradient_flow(
        H4, point.teacher, point.initial, t_end=1.0, times=np.array([0.5, 1.0]), progress=lambda *x: seen.append(x)
    )
    assert [fraction for fraction, _ in seen] == [0.5, 1.0]
    assert all("time" in text for _, text in seen)


@double_precision
def test_a_crossing_is_found_where_no_time_lies_between() -> None:
    """Rounding puts the middle of two neighbours at the one whose last digit is even: now the lower, now the upper end."""
    apart = np.spacing(1.0)
    for begin, after in product((1.0, 1.0 + apart), (1, 2, 3, 4)):
        crossing = begin + after * apart
        found = optx.root_find(
            lambda time, _, crossing=crossing: jnp.where(time >= crossing, 1.0, -1.0),
            _Crossing(0.0, 0.0),  # type: ignore[call-arg]
            jnp.asarray(begin),
            options={"lower": begin, "upper": begin + 4 * apart},
            throw=False,
        )
        assert found.result == optx.RESULTS.successful
        assert abs(float(found.value) - crossing) <= apart


@pytest.mark.parametrize("start", [3e-3, 2e-5])
def test_long_plateaus_end_and_their_events_are_found(start: float) -> None:
    """Near 1e9 doubles are 1e-7 apart, near 1e17 16; what relaxes within a time of 1 would take as many explicit steps."""
    activation, scale = Activation.parse("h6"), 0.03
    initial = InitialState(np.array([[scale * start]]), np.array([[scale * np.sqrt(1 - start**2)]]))
    expected = SingleTask(activation).half_time(0.8, start)
    flow = gradient_flow(activation, Teacher.of([0.8], 4000, False), initial, t_end=1.3 * expected)
    assert flow.dataset.attrs["atol"] == min(1e-11, 1e-3 / (1.3 * expected))
    assert flow.half_time[0] == pytest.approx(expected, rel=1e-4)
    assert flow.half_time[0] <= flow.loss_time[0] < flow.half_time[0] + 100
    assert flow.dataset.loss.values[-1] == pytest.approx(0, abs=1e-14)
    assert flow.dataset.norm2.values[-1, 0] == pytest.approx(0.8, rel=1e-9)


def test_rates_of_vectors_are_those_of_a_small_step_down_their_loss() -> None:
    """What claims hold the flow against: the gradient by differences of the loss, the rates by those of the overlaps."""
    rng, a, small = np.random.default_rng(3), np.array([0.8, 0.5]), 1e-5
    vectors = random_vectors(rng, 2, 5)

    loss = jax.jit(lambda v: ambient_loss(H4, v, jnp.asarray(a)))

    gradient = np.zeros_like(vectors)
    for i, j in np.ndindex(vectors.shape):
        moved = small * np.eye(1, vectors.size, i * vectors.shape[1] + j).reshape(vectors.shape)
        gradient[i, j] = (loss(vectors + moved) - loss(vectors - moved)) / (2 * small)
    ahead, back = (overlaps_of_vectors(jnp.asarray(vectors - way * small * gradient), 2) for way in (1, -1))
    for name, rate in ambient_rates(H4, vectors, a).items():
        np.testing.assert_allclose(rate, (ahead[name] - back[name]) / (2 * small), rtol=1e-5, atol=1e-8)
