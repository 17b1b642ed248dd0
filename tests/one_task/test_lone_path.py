"""Direction and norm of a lone student together, against an integration of the two equations."""

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy import integrate

from theory import Activation, SingleTask
from theory.core.activation import c
from theory.core.initial import InitialState
from theory.core.teacher import Teacher
from theory.declared.weight_decay import loss_time as weight_decay_time
from theory.declared.weight_decay import rest_norms
from theory.one_task.lone_path import log_waited, lone_path, one_sided
from theory.prediction.predict import predict

INF = float("inf")


def integrated(
    text: str, weight: float, overlap: float, norm2: float, end: float = 1e4, decay: float = 0.0
) -> tuple[float, float]:
    """First times of squared overlap ½ and of half of what is fitted, by LSODA on (u, ln r); inf if not by `end`."""
    activation = Activation.parse(text)
    kernel, slope = (sp.lambdify(c, x, "scipy") for x in (activation.dual, activation.dual_derivative()))
    scale = float(activation.second_moment)

    def rate(t: float, y: np.ndarray) -> list[float]:
        u, r = float(np.clip(y[0], -1, 1)), np.exp(y[1])  # relu's kernel ends at 1
        return [weight * slope(u) * (1 - u * u), 4 * (weight * kernel(u) - r * scale) - 2 * decay]

    rest = weight - decay / (2 * scale)
    events = [lambda t, y: y[0] ** 2 - 0.5, lambda t, y: np.exp(y[1]) * y[0] ** 2 - rest / 2]
    start = [overlap, np.log(norm2)]
    done = integrate.solve_ivp(rate, (0, end), start, "LSODA", events=events, rtol=1e-11, atol=1e-13)
    half, loss = (float(found[0]) if found.size else INF for found in done.t_events)
    return half, loss


@pytest.mark.parametrize("scale", [0.003, 0.03, 0.3, 2.0])
@pytest.mark.parametrize(
    ("text", "weight", "overlap"),
    [("h4", 0.8, 0.04), ("h4", 0.3, 0.04), ("h6", 0.8, 0.2), ("h3", 0.7, 0.05), ("h4+0.5", 0.7, 0.05), ("erf", 0.7, -0.05),
     ("relu", 0.7, 0.05), ("0.5*h4-0.7*h5", 0.7, 0.05)],
)  # fmt: skip
def test_times_of_direction_and_norm(text: str, weight: float, overlap: float, scale: float) -> None:
    half, loss = integrated(text, weight, overlap, scale**2)
    path = lone_path(Activation.parse(text), 1)
    if overlap > 0:
        assert path.half_time(np.array([overlap]))[0] / weight == pytest.approx(half, rel=1e-6)
    assert path.loss_time(weight, overlap, scale**2) == pytest.approx(loss, rel=1e-4)
    assert path.loss_time(weight, overlap, scale**2) - half == pytest.approx(loss - half, rel=5e-5)


@pytest.mark.parametrize("text", ["h4", "h3", "h1", "h2", "relu", "h1+h2", "0.56*h3+h4"])
@pytest.mark.parametrize("overlap", [1.0, -1.0])
@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_a_row_that_lies_on_its_direction_only_grows(text: str, overlap: float, decay: float) -> None:
    """All rows of d = 1 do; at -e those that fit it alone."""
    _, loss = integrated(text, 0.7, overlap, 0.09, decay=decay)
    activation, start = Activation.parse(text), InitialState(np.array([[0.3 * overlap]]), np.zeros((1, 1)))
    found = predict(activation, Teacher.of([0.7], 1, normalise=False), start, decay=decay)
    assert found.time_loss[0] == pytest.approx(loss, rel=1e-4)


def test_the_norm_of_a_student_with_a_mean_rests_on_a_plateau_however_long() -> None:
    """It grows by more than e^500 in a part of it, if nothing holds it back."""
    half, loss = integrated("h4+0.5", 0.7, 5e-4, 1e-3, end=1e7)
    path = lone_path(Activation.parse("h4+0.5"), 1)
    assert path.half_time(np.array([5e-4]))[0] / 0.7 == pytest.approx(half, rel=1e-6)
    assert path.loss_time(0.7, 5e-4, 1e-3) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(("text", "overlaps"), [("h4", (1e-4, 1e-7)), ("h5", (1e-3, 1e-5))])
def test_a_norm_comes_after_its_direction_however_long_that_takes(text: str, overlaps: tuple[float, float]) -> None:
    """A wait T leaves 1/4φ(1)T of the norm, so that the rest takes ln(T'/T)/4aφ(1) longer; sums of T lose that to rounding."""
    path, weight = lone_path(Activation.parse(text), 1), 0.7
    half = [float(path.half_time(np.array(x))) / weight for x in overlaps]
    later = [path.loss_time(weight, x, 1e-3) - wait for x, wait in zip(overlaps, half, strict=True)]
    assert 0 < later[0] < later[1]
    assert later[1] - later[0] == pytest.approx(
        np.log(half[1] / half[0]) / (4 * weight), abs=2 * np.spacing(half[1]), rel=1e-3
    )


@pytest.mark.parametrize("scale", [0.003, 0.3])
@pytest.mark.parametrize(
    ("text", "weight", "overlap", "decay"),
    [("h4", 0.8, 0.04, 0.02), ("h3", 0.7, 0.05, 0.3), ("h2", 0.7, 0.05, 0.3), ("relu", 0.7, 0.05, 0.1),
     ("h4", 0.3, 0.04, 0.7)],
)  # fmt: skip
def test_under_decay_half_of_what_is_left_comes_late_or_never(
    text: str, weight: float, overlap: float, decay: float, scale: float
) -> None:
    half, loss = integrated(text, weight, overlap, scale**2, decay=decay)
    path = lone_path(Activation.parse(text), 1)
    assert path.loss_time(weight, overlap, scale**2, decay=decay) == pytest.approx(loss, rel=1e-4)
    assert path.loss_time(weight, overlap, scale**2) < loss
    assert (loss == INF) == (path.rest(weight, decay) == 0) == (decay == 0.7)
    assert path.rest(weight, decay) == rest_norms(path.activation, [weight], decay)[0]
    light = weight_decay_time(path.activation, weight, half, 1e-20, decay) if text in ("h3", "h4") else None
    if light is not None:
        assert path.loss_time(weight, overlap, 1e-20, decay=decay) == pytest.approx(light, rel=1e-4)


@pytest.mark.parametrize("norm2", [9e-6, 0.09])
def test_just_below_the_decay_that_no_norm_outlasts_it_grows_long_after_its_direction(norm2: float) -> None:
    """h4 at κ = 2aφ(1) less ½ %, in artanh u, which does not end at 1 (in u, rounding there would count for so long)."""
    weight, decay, path = 0.7, 1.39, lone_path(Activation.parse("h4"), 1)

    def rate(t: float, state: np.ndarray) -> list[float]:
        u = np.tanh(state[0])
        return [4 * weight * u**3, 4 * (weight * u**4 - np.exp(min(state[1], 0.0))) - 2 * decay]

    fitted = lambda t, state: np.exp(state[1]) * np.tanh(state[0]) ** 2 - (weight - decay / 2) / 2  # noqa: E731
    start = [np.arctanh(0.05), np.log(norm2)]
    done = integrate.solve_ivp(rate, (0, 2e4), start, "Radau", events=fitted, rtol=1e-11, atol=1e-12)
    found = path.loss_time(weight, 0.05, norm2, decay=decay)
    assert found == pytest.approx(float(done.t_events[0][0]), rel=1e-7)
    assert found > 100 * path.loss_time(weight, 0.05, norm2)


def test_the_norm_pays_for_the_wait() -> None:
    """Half the weight is there at the start, and the lag is the same as from a light start: the student has shrunk."""
    path = lone_path(Activation.parse("h4"), 1)
    light, heavy = (path.loss_time(0.3, 0.04, norm2) - path.loss_time(0.3, 0.04, 4.0) for norm2 in (0.09, 0.15))
    assert SingleTask(Activation.parse("h4")).lag(0.3, 0.15) == 0
    assert max(abs(light), abs(heavy)) < 0.02


@pytest.mark.parametrize("text", ["0.6*h3+0.8*h4", "0.2*h2-0.7*h5+h6", "0.56*h3+h4"])
def test_at_the_other_end_half_of_a_weight_is_fitted_late_or_never(text: str) -> None:
    """φ(−1)/φ(1) of it is fitted there: 0.28, 0.36 and 0.52."""
    _, loss = integrated(text, 0.7, -0.8, 1e-4)
    assert lone_path(Activation.parse(text), -1).loss_time(0.7, -0.8, 1e-4) == pytest.approx(loss, rel=1e-4)
    assert (loss == INF) == (text != "0.56*h3+h4")


@pytest.mark.parametrize("text", ["h3", "h4", "h2", "0.8*h4+0.6*h6", "0.5*h4-0.7*h5", "relu-z/2"])
def test_half_times_are_those_of_the_single_task(text: str) -> None:
    """Both signs, stalls included; a start beyond the level takes no time."""
    task = SingleTask(Activation.parse(text))
    sizes = np.array([1e-5, 0.003, 0.1, 0.45, 0.7, 0.71, 0.95])
    for end in (1, -1):
        found = lone_path(task.activation, end).half_time(end * sizes)
        expected = [task.half_time(1.0, end * x) for x in sizes]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_mixed_parity_stalls_only_on_one_side() -> None:
    activation = Activation.parse("0.5*h4-0.7*h5")
    assert np.isfinite(lone_path(activation, 1).half_time(np.array([0.05]))).all()
    assert np.isinf(lone_path(activation, -1).half_time(np.array([-0.05]))).all()
    assert lone_path(activation, -1).loss_time(1.0, -0.05, 1e-3) == INF


@pytest.mark.parametrize(
    ("text", "expected"),
    [("h3", True), ("h4", False), ("h4+0.5", False), ("0.5*h4-0.7*h5", True), ("h4+0.1*h5", False), ("erf", False)],
)
def test_which_activations_compete_by_positive_overlaps_only(text: str, expected: bool) -> None:
    """φ′ changes its sign on the way of 0.5h₄ − 0.7h₅, not before squared overlap ½ for a little h₅."""
    assert one_sided(Activation.parse(text)) is expected


def test_no_way_leads_through_a_point_of_rest() -> None:
    for text in ("h3", "0.8*h3+0.6*h4"):
        path = lone_path(Activation.parse(text), 1)
        assert np.isinf(path.half_time(np.array([-0.2, -1e-9, 0.0]))).all()
        assert path.loss_time(1.0, -0.2, 0.01) == np.inf
    crossing = lone_path(Activation.parse("h1"), 1)
    assert crossing.half_time(np.array([-0.2])) == pytest.approx(np.arctanh(np.sqrt(0.5)) + np.arctanh(0.2))


@pytest.mark.parametrize("text", ["erf", "relu(z)+0.2*h3"])
def test_a_way_across_zero_is_followed_to_the_last_digits(text: str) -> None:
    """By quadrature of 1/φ' in artanh u, on either side of 0."""
    activation = Activation.parse(text)
    slope = sp.lambdify(c, activation.dual_derivative(), "scipy")
    ends = np.arctanh([-0.95, 0.0, np.sqrt(0.5)])
    exact = sum(
        integrate.quad(lambda y: 1 / slope(np.tanh(y)), low, high, epsabs=0, epsrel=1e-11)[0]
        for low, high in pairwise(ends)
    )
    assert lone_path(activation, 1).half_time(np.array([-0.95]))[0] == pytest.approx(exact, rel=1e-10)


def test_a_norm_that_waits_is_that_of_its_own_equation() -> None:
    """dr = (gr − br²)dt: growing, at rest and decaying; and where it has e^800 times as much to pay for."""
    b, start, time, rates = 1.5, 0.2, 1.7, np.array([2.0, 0.0, -3.0])
    moved = integrate.solve_ivp(lambda _, r: rates * r - b * r**2, (0, time), np.full(3, start), rtol=1e-11, atol=1e-13)
    found = start * np.exp(rates * time) / (1 + b * start * np.exp(log_waited(rates, time)))
    np.testing.assert_allclose(found, moved.y[:, -1], rtol=1e-8)
    assert log_waited(400.0, 2.0) == pytest.approx(800 - np.log(400), rel=1e-12)
