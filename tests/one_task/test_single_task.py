"""One task alone: constants, closed forms and times against direct integration of the ODE."""

from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp
from scipy import integrate

from theory import Activation, InputError, SingleTask
from theory.one_task.single_task import M0, M, a, eps, r0, time, u

#: φ'(u) written out by hand: the integrations below share nothing with the derivation.
SLOPES: dict[str, Callable[[float], float]] = {
    "h3": lambda x: 3 * x**2,
    "h4": lambda x: 4 * x**3,
    "h5": lambda x: 5 * x**4,
    "h6": lambda x: 6 * x**5,
    "0.8*h4+0.6*h6": lambda x: 4 * 0.64 * x**3 + 6 * 0.36 * x**5,
    "h3+h4": lambda x: 3 * x**2 + 4 * x**3,
    "2*h4": lambda x: 16 * x**3,
    "quadratic": lambda x: 4 * x,
    "h1": lambda x: 1.0,
    "erf": lambda x: 2 / np.pi * (2 / 3) / np.sqrt(1 - 4 * x**2 / 9),
    "relu": lambda x: (np.pi - np.arccos(x)) / (2 * np.pi),
    "relu**2": lambda x: 2 / np.pi * (np.sqrt(1 - x**2) + x * (np.pi - np.arccos(x))),  # four times the kernel of relu
}


def integrated_time(slope: Callable[[float], float], weight: float, start: float, end: float) -> float:
    """Time of du/dt = aφ'(u)(1−u²) from `start` to |u| = `end`, by an ODE solver with an event; inf if never."""

    def arrival(t: float, y: np.ndarray) -> float:
        return abs(y[0]) - end

    arrival.terminal = True  # type: ignore[attr-defined]
    done = integrate.solve_ivp(
        lambda t, y: weight * slope(y[0]) * (1 - y**2), (0, 1e5), [start], events=arrival, rtol=1e-10, atol=1e-14
    )
    return float(done.t_events[0][0]) if done.t_events[0].size else float("inf")


@pytest.mark.parametrize(
    ("text", "constant"),
    [("h3", 3), ("h4", 8), ("h5", 15), ("h6", 24), ("h8", 48), ("0.8*h4+0.6*h6", 8 * sp.Rational(16, 25)),
     ("0.6*h4-0.8*h6", 8 * sp.Rational(9, 25)), ("2*h4", 32)],
)  # fmt: skip
def test_emergence_time_constants(text: str, constant: sp.Expr) -> None:
    """T_p = 1/(J(J−2)σ̂² a |u|^{J−2})."""
    task = SingleTask(Activation.parse(text))
    power = sp.Rational(task.exponent - 2, 2)
    assert sp.simplify(task.emergence_time * constant * a * M0**power - 1) == 0
    assert task.leading_time(0.5, 0.2) == pytest.approx(float(1 / (constant * sp.Rational(1, 2) * 0.2 ** (2 * power))))


@pytest.mark.parametrize("text", ["h3", "h4", "h6", "0.8*h4+0.6*h6"])
def test_pre_recovery_solves_the_plateau_equation(text: str) -> None:
    """Against integration of the leading rate without its 1 − M, up to nine tenths of T_p."""
    task = SingleTask(Activation.parse(text))
    J, strength, weight, start = task.exponent, float(task.activation.leading), 0.7, 0.01
    until = 0.9 * task.leading_time(weight, start**0.5)
    done = integrate.solve_ivp(
        lambda t, y: 2 * J * strength * weight * y ** (J / 2), (0, until), [start], rtol=1e-11, atol=1e-16
    )
    closed = float(task.pre_recovery.subs({time: until, M0: start, a: weight}))
    assert closed == pytest.approx(done.y[0, -1], rel=1e-7)
    assert closed > 3 * start


@pytest.mark.parametrize("text", ["h1", "quadratic", "h3", "h4", "h5", "h6", "h8"])
def test_implicit_solution_is_the_ode(text: str) -> None:
    """[F(M₁) − F(M₀)]/(2Jσ̂²a) is the time between two levels, for a pure degree."""
    task = SingleTask(Activation.parse(text))
    J, strength = task.exponent, float(task.activation.leading)
    expected = integrated_time(lambda x: J * strength * x ** (J - 1), 0.6, 0.3, 0.9)
    found = task.implicit_time(sp.Rational(9, 100), sp.Rational(81, 100)).subs(a, sp.Rational(3, 5))
    assert float(found) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("start", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("text", SLOPES)
def test_half_time_is_the_ode_with_every_degree(text: str, start: float) -> None:
    expected = integrated_time(SLOPES[text], 0.7, start, np.sqrt(0.5))
    assert SingleTask(Activation.parse(text)).half_time(0.7, start) == pytest.approx(expected, rel=1e-7)


def test_mixtures_need_every_degree() -> None:
    """The leading degree alone is too slow by far more than the tolerance above."""
    mixture = SingleTask(Activation.parse("0.8*h4+0.6*h6"))
    leading = integrated_time(lambda x: 4 * 0.64 * x**3, 1.0, 0.2, np.sqrt(0.5))
    assert leading > 1.05 * mixture.half_time(1.0, 0.2)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.99])
def test_other_levels(level: float) -> None:
    expected = integrated_time(SLOPES["0.8*h4+0.6*h6"], 0.7, 0.1, np.sqrt(level))
    assert SingleTask(Activation.parse("0.8*h4+0.6*h6")).half_time(0.7, 0.1, level) == pytest.approx(expected, rel=1e-7)


def test_even_activations_do_not_see_the_sign() -> None:
    task = SingleTask(Activation.parse("h4"))
    assert task.half_time(0.7, -0.1) == task.half_time(0.7, 0.1)
    assert task.leading_time(0.7, -0.1) == task.leading_time(0.7, 0.1)


@pytest.mark.parametrize("text", ["h3", "h5", "h3+h4"])
def test_negative_overlaps_stall_where_the_leading_degree_is_odd(text: str) -> None:
    task = SingleTask(Activation.parse(text))
    assert task.half_time(0.7, -0.1) == float("inf")
    assert task.leading_time(0.7, -0.1) == float("inf")
    assert integrated_time(SLOPES[text], 0.7, -0.1, np.sqrt(0.5)) == float("inf")
    assert np.isfinite(task.half_time(0.7, 0.1))


def test_mixed_parity_beyond_the_barrier_runs_away_from_it() -> None:
    """h3 + h4: φ'(u) = 3u² + 4u³ changes sign at −3/4; beyond it the overlap goes to −1."""
    task = SingleTask(Activation.parse("h3+h4"))
    assert task.half_time(1.0, -0.74, 0.9) == float("inf")
    expected = integrated_time(SLOPES["h3+h4"], 1.0, -0.78, np.sqrt(0.9))
    assert task.half_time(1.0, -0.78, 0.9) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("text", ["h1", "erf", "relu", "relu**2"])
@pytest.mark.parametrize("start", [-0.3, -0.05, 0.0])
def test_exponent_one_has_no_barrier(text: str, start: float) -> None:
    """φ'(0) > 0: a negative overlap crosses zero and emerges all the same, only later."""
    expected = integrated_time(SLOPES[text], 0.7, start, np.sqrt(0.5))
    assert np.isfinite(expected)
    assert SingleTask(Activation.parse(text)).half_time(0.7, start) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("dim", [10, 1000, 10**6, 10**9])
def test_low_exponents_have_closed_half_times(dim: int) -> None:
    """From M₀ = 1/d: J = 2 logistic, ln(d−1)/(4σ̂²a); J = 1: [artanh √½ − artanh √(1/d)]/(σ̂²a)."""
    start = dim**-0.5
    assert SingleTask(Activation.parse("h2")).half_time(0.3, start) == pytest.approx(np.log(dim - 1) / 1.2, rel=1e-9)
    assert SingleTask(Activation.parse("quadratic")).half_time(0.3, start) == pytest.approx(
        np.log(dim - 1) / 2.4, rel=1e-9
    )
    line = (np.arctanh(np.sqrt(0.5)) - np.arctanh(start)) / 0.3
    assert SingleTask(Activation.parse("h1")).half_time(0.3, start) == pytest.approx(line, rel=1e-9)


@pytest.mark.parametrize("text", ["h1", "quadratic", "relu", "erf"])
def test_there_is_no_transition_below_exponent_three(text: str) -> None:
    with pytest.raises(InputError, match="information exponent"):
        SingleTask(Activation.parse(text)).leading_time(1.0, 0.1)


@pytest.mark.parametrize("start", [1e-5, 1e-3, 0.02])
def test_leading_time_is_the_limit_of_the_half_time(start: float) -> None:
    """J = 4: T_{1/2}/T_p = 1 + M₀(ln((1−M₀)/M₀) − 2)."""
    task = SingleTask(Activation.parse("h4"))
    ratio = task.half_time(0.4, start) / task.leading_time(0.4, start)
    squared = start**2
    assert ratio == pytest.approx(1 + squared * (np.log((1 - squared) / squared) - 2), rel=1e-9)


@pytest.mark.parametrize("text", ["h3", "h4", "h6"])
def test_window_is_the_time_from_a_tenth_to_nine_tenths(text: str) -> None:
    task = SingleTask(Activation.parse(text))
    expected = integrated_time(SLOPES[text], 0.6, np.sqrt(0.1), np.sqrt(0.9))
    assert float(task.window.subs(a, sp.Rational(3, 5))) == pytest.approx(expected, rel=1e-7)
    relative = float(task.relative_window.subs(M0, 0.01))
    assert relative == pytest.approx(expected / task.leading_time(0.6, 0.1), rel=1e-7)


@pytest.mark.parametrize("text", ["h4", "0.8*h4+0.6*h6", "erf", "2*h4"])
def test_convergence_rate_is_the_late_decay(text: str) -> None:
    """1 − M falls by e^{−rate·t}: between 1 − 10⁻⁶ and 1 − 10⁻⁸."""
    task = SingleTask(Activation.parse(text))
    passage = task.passage_time(0.7, float(np.sqrt(1 - 1e-6)), float(np.sqrt(1 - 1e-8)))
    assert float(task.convergence_rate.subs(a, 0.7)) == pytest.approx(np.log(100) / passage, rel=1e-5)
    assert float(task.convergence_rate.subs(a, 0.7)) == pytest.approx(1.4 * SLOPES[text](1.0), rel=1e-9)


@pytest.mark.parametrize(("text", "second"), [("h4", 1.0), ("quadratic", 2.0), ("erf", 2 / np.pi * np.arcsin(2 / 3))])
@pytest.mark.parametrize("init", [1e-6, 1e-2])
def test_norm_lag_is_the_logistic(text: str, second: float, init: float) -> None:
    """dr/dt = 4rφ(1)(a − r), from σ₀² to half of a, and to (1−ε)a."""
    task, weight = SingleTask(Activation.parse(text)), 0.6

    def reached(share: float) -> float:
        def arrival(t: float, y: np.ndarray) -> float:
            return y[0] - share * weight

        arrival.terminal = True  # type: ignore[attr-defined]
        rate = lambda t, y: 4 * y * second * (weight - y)  # noqa: E731
        done = integrate.solve_ivp(rate, (0, 1e3), [init], events=arrival, rtol=1e-11, atol=1e-16)
        return float(done.t_events[0][0])

    assert task.lag(weight, init) == pytest.approx(reached(0.5), rel=1e-6)
    closed = float(task.norm_lag.subs({a: weight, r0: init, eps: sp.Rational(1, 10)}))
    assert closed == pytest.approx(reached(0.9), rel=1e-6)


def test_a_norm_that_is_there_already_has_no_lag() -> None:
    task = SingleTask(Activation.parse("h4"))
    assert task.lag(0.6, 0.3) == 0.0
    assert task.lag(0.6, 5.0) == 0.0
    assert 0 < task.lag(0.6, 0.299) < 0.01


def test_norm_rate_of_an_unaligned_student() -> None:
    """4r(aφ(u) − rφ(1))."""
    task = SingleTask(Activation.parse("0.8*h4+0.6*h6"))
    found = float(task.norm_rate.subs({a: 0.7, r0: 0.2, u: 0.5}))
    assert found == pytest.approx(4 * 0.2 * (0.7 * (0.64 * 0.5**4 + 0.36 * 0.5**6) - 0.2), rel=1e-12)


def test_what_is_printed_of_a_norm_tells_it_from_its_start() -> None:
    """The law of the plateau solves the printed rate at u = 0, and starts from r₀, which the rate does not know."""
    shown = SingleTask(Activation.parse("h4")).norm_derivation().equations
    rate, law, norm = shown[r"\dot r"], shown["r(t)"], sp.Symbol("r", positive=True)
    assert sp.simplify(sp.diff(law, time) - rate.subs({u: 0, norm: law})) == 0
    assert law.subs(time, 0) == r0
    assert not rate.has(r0)


def test_norm_and_direction_are_tied_by_invariants() -> None:
    """Along the joint ODE of a light student of h4, r(1−M)^{1/2} stays put while M goes from 0.1 to nearly 1."""
    task = SingleTask(Activation.parse("h4"))
    numbers = sp.lambdify((u, r0), [task.rate.subs(a, 0.7), task.norm_rate.subs(a, 0.7)])
    done = integrate.solve_ivp(lambda t, y: numbers(*y), (0, 4.6), [0.3, 1e-9], rtol=1e-11, atol=1e-18)
    first, last = ((y[1] * (1 - y[0] ** 2) ** 0.5) for y in (done.y[:, 0], done.y[:, -1]))
    assert done.y[1, -1] > 3e-9
    assert last == pytest.approx(first, rel=1e-6)


def test_a_start_beyond_the_level_takes_no_time() -> None:
    assert SingleTask(Activation.parse("h4")).half_time(1.0, 0.8) == 0.0
    assert SingleTask(Activation.parse("h4")).half_time(1.0, -0.8) == 0.0


def test_a_start_at_zero_never_leaves_the_plateau() -> None:
    task = SingleTask(Activation.parse("h4"))
    assert task.half_time(1.0, 0.0) == float("inf")
    assert task.leading_time(1.0, 0.0) == float("inf")


def test_squared_rate_is_two_u_times_the_rate() -> None:
    task = SingleTask(Activation.parse("0.8*h4+0.6*h6"))
    expected = 2 * a * (1 - M) * (4 * sp.Rational(16, 25) * M**2 + 6 * sp.Rational(9, 25) * M**3)
    assert sp.expand(task.squared_rate - expected) == 0


@pytest.mark.parametrize(("text", "start"), [("h4", 0.1), ("h3", 0.05), ("0.8*h4+0.6*h6", 0.2)])
def test_explicit_steps_lag_as_said(text: str, start: float) -> None:
    """Ascent of one light student v on ‖v‖²φ(u), steps to u² = ½ (a share of the last by the flow), as the step size falls."""
    activation = Activation.parse(text)
    task, end = SingleTask(activation), float(np.sqrt(0.5))
    lags = []
    for step in (0.02, 0.01):
        v, count = np.array([start, np.sqrt(1 - start**2)]), 0.0
        while v[0] ** 2 < end**2 * (v @ v):
            before, u = v, v[0] / np.linalg.norm(v)
            slope = float(task.speed(u, 1.0)) / (1 - u**2)
            pull = np.array([1.0, 0.0]) - u * v / np.linalg.norm(v)
            v = v + step * (2 * float(activation.kernel_at(u, 0)) * v + slope * np.linalg.norm(v) * pull)
            count += 1
        last, now = (w[0] / np.linalg.norm(w) for w in (before, v))
        count -= 1 - task.passage_time(1.0, last, end) / task.passage_time(1.0, last, now)
        lags.append(count - task.half_time(1.0, start) / step)
    extrapolated = 2 * lags[1] - lags[0]
    assert extrapolated == pytest.approx(task.step_lag(start, end), rel=2e-3)


@pytest.mark.parametrize(("degree", "sharp"), [(1, False), (2, False), (3, True), (4, True)])
def test_an_emergence_time_is_derived_from_degree_three_on(degree: int, sharp: bool) -> None:
    """Below, a squared overlap grows at a rate that does not vanish with it: there is no plateau."""
    assert ("T_p" in SingleTask(Activation.from_degree(degree)).derivation().equations) == sharp
