"""How the claims on the coupled flow choose their starts, before any flow is looked at; what their controls could see."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from theory import Activation, InitialState, Teacher, overlap_flow, predict
from validation import Context
from validation.claims.additive import coupled_flow, emergence_exponents
from validation.claims.additive.coupled_flow import Excess, Windows
from validation.experiments import coupled_flow as experiment
from validation.experiments.coupled_flow import (
    coupled_run,
    coupled_start,
    leads_throughout,
    light_pull,
    teachers_pull,
    well_separated,
    without_deflation,
)


def excess(undeflated: float) -> Excess:
    return Excess(1.0227, 0.0002, {"no excess": 1.0, "no deflation": undeflated})


def test_theory_sees_a_control_that_is_two_allowances_away() -> None:
    """One that differs by less may survive data that agree with theory."""
    assert not excess(1.0229).sees
    assert excess(1.0232).sees
    assert excess(float("inf")).sees


def test_starts_are_added_until_theory_sees_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coupled_flow, "coupled_run", lambda context, dim, number, scale=0.03: number)
    monkeypatch.setattr(Excess, "of", lambda context, dim, runs: excess(1.0227 + 0.0001 * len(runs)))
    runs, theory = coupled_flow._seeing(Context(), 256)
    assert runs == [0, 1, 2, 3, 4]
    assert theory.sees


def test_a_theory_that_is_its_own_control_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coupled_flow, "coupled_run", lambda context, dim, number, scale=0.03: number)
    monkeypatch.setattr(Excess, "of", lambda context, dim, runs: excess(1.0227))
    assert len(coupled_flow._seeing(Context(), 256)[0]) == 12


def test_a_start_is_that_of_its_number_in_its_dimension() -> None:
    (first, prediction), (second, _) = (coupled_start(Context(), 128, number) for number in (3, 4))
    assert prediction.teacher.dim == 128
    assert np.sum(first.overlap**2, axis=1) == pytest.approx(8 / 128, abs=6 * np.sqrt(2 * 8) / 128)
    assert not np.allclose(first.overlap, second.overlap)


@pytest.mark.slow
def test_a_flow_that_learns_too_early_is_what_the_control_of_the_windows_says() -> None:
    """E39: each of two theories holds for the flow that it is right of, and fails for the other one."""
    right = Windows.of(coupled_run(Context(), 256, 0))
    run, delta = right.run, right.predicted + right.slack
    times = run.flow.dataset.time.values
    early = run.flow.dataset.assign_coords(time=times * (1 - 2 * delta))
    wrong = replace(right, run=replace(run, flow=replace(run.flow, dataset=early)))
    assert (right.held(), wrong.held(-2.0)) == (1.0, 1.0)
    assert max(right.held(-2.0), wrong.held()) < 1.0


@pytest.mark.parametrize("other", [0.0, 0.3])
def test_teachers_hold_a_winner_back_by_what_it_has_of_them(other: float) -> None:
    """h4's u̇ = 4a(1 − u²)u³ is less by 4b·v³·uv, of a second teacher b = a/2 that the neuron has v of."""
    activation, teacher = Activation.parse("h4"), Teacher.of([1.0, 0.5], 30, normalise=False)
    initial = InitialState(np.array([[0.4, other]]) * 1e-3, np.array([[np.sqrt(1 - 0.16 - other**2)]]) * 1e-3)
    pull = teachers_pull(predict(activation, teacher, initial), initial, overlap_flow(activation))
    assert pull[0] == pytest.approx(0.5 * other**4 * 0.4 / (0.84 * 0.4**3), abs=1e-9)


def test_another_student_pulls_on_a_winner_by_its_mass() -> None:
    """h4: −4r c³(v − cu) of a student of norm r with overlap v and cosine c, over 4au³(1 − u²) of the teacher."""
    activation, teacher = Activation.parse("h4"), Teacher.of([2.0], 30, normalise=False)
    on_teachers, residual = np.array([[0.1], [0.4]]), np.array([[0.9, 0.0], [0.5, 0.3]])
    initial = InitialState(on_teachers, residual)
    vectors = np.hstack([on_teachers, residual])
    (r, own), cosine = np.sum(vectors**2, axis=1), vectors[0] @ vectors[1] / np.prod(np.linalg.norm(vectors, axis=1))
    v, u = 0.1 / np.sqrt(r), 0.4 / np.sqrt(own)
    prediction = predict(activation, teacher, initial)
    assert prediction.neuron.tolist() == [1]
    pull = light_pull(prediction, initial, overlap_flow(activation))
    assert pull[0] == pytest.approx(abs(r * cosine**3 * (v - cosine * u) / (2.0 * u**3 * (1 - u**2))), rel=1e-9)


def test_a_coupled_run_ends_a_quarter_after_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does the run without deflation; both go from the same start."""
    asked: dict[str, tuple] = {}

    def noted(name: str, given: tuple, options: dict) -> Any:
        asked[name] = given, options
        return SimpleNamespace(name=name)

    for name in ("gradient_flow", "bracket", "deflated_flow"):
        monkeypatch.setattr(experiment, name, lambda *x, name=name, **o: noted(name, x, o))
    context = Context(seed=77)
    run, _ = coupled_run(context, 128, 5), without_deflation(context, 128, 5)
    start, prediction = coupled_start(context, 128, 5)
    assert {given[2] is start for given, _ in asked.values()} == {True}
    assert run.t_end == 1.25 * prediction.last_time
    assert {options["t_end"] for _, options in asked.values()} == {run.t_end}
    assert asked["deflated_flow"][1]["deflate"] is False
    times = asked["gradient_flow"][1]["times"]
    assert (times[0], times[-1]) == pytest.approx((0.2 * np.min(prediction.time_half[prediction.learned]), run.t_end))
    np.testing.assert_allclose(np.diff(np.log(times)), np.log(times[1] / times[0]), rtol=1e-9)
    system = overlap_flow(prediction.activation)
    np.testing.assert_allclose(run.light, light_pull(prediction, start, system), rtol=1e-12)
    np.testing.assert_allclose(run.others, teachers_pull(prediction, start, system), rtol=1e-12)


@pytest.mark.slow
def test_the_pull_of_light_students_goes_with_their_norms_and_that_of_teachers_does_not() -> None:
    heavy, light = (coupled_run(Context(), 256, 0, scale) for scale in (0.03, 0.003))  # squares a hundred times smaller
    assert heavy.light.max() > 20 * light.light.max()
    assert min(heavy.others.max(), light.others.max()) > 0.01


@pytest.mark.slow
def test_without_deflation_the_first_direction_is_learned_all_the_same() -> None:
    run, free = coupled_run(Context(), 256, 0), without_deflation(Context(), 256, 0)
    first = np.argmin(run.deflated.half_time)
    assert free.half_time[first] == pytest.approx(run.deflated.half_time[first], rel=1e-6)
    assert np.max(np.abs(np.log(free.half_time / run.deflated.half_time))) > 0.1  # some later, or never


@pytest.mark.slow
def test_a_record_that_ends_before_a_direction_is_learned_does_not_hold_it() -> None:
    right = Windows.of(coupled_run(Context(), 256, 0))
    run = right.run
    first = float(run.prediction.time_leading[run.separated].min())
    short = run.flow.dataset.sel(time=run.flow.dataset.time < 0.9 * first)
    assert replace(right, run=replace(run, flow=replace(run.flow, dataset=short))).held() == 0.0


@pytest.mark.parametrize(
    ("rival", "favourite", "leads"), [(0.14, 0.01, False), (0.10, 0.01, True), (0.10, 0.08, False)]
)
def test_a_pair_leads_throughout_if_no_other_of_its_row_or_column_is_ahead(
    rival: float, favourite: float, leads: bool
) -> None:
    """Of the greedy choice too: the heavy direction's neuron may be nearer, or the light one's like the heavy one better."""
    overlap = np.array([[0.4, rival], [favourite, 0.12]])
    initial = InitialState(overlap, np.diag(np.sqrt(1 - np.sum(overlap**2, axis=1))))
    prediction = predict(Activation.parse("h4"), Teacher.of([1.0, 0.5], 64), initial)
    assert prediction.neuron.tolist() == [0, 1]
    assert well_separated(prediction)[1]
    assert leads_throughout(prediction, initial).tolist() == [True, leads]


def test_the_error_of_an_exponent_is_that_of_its_gap_to_theory() -> None:
    """E17: points that lie on theory have no error, however far apart they lie themselves."""
    rng = np.random.default_rng(1)
    columns, scatter = rng.normal(size=(24, 1)), rng.normal(size=24)
    points = emergence_exponents.Points(columns, scatter, scatter, scatter, np.zeros(24), np.repeat(np.arange(6), 4))
    found = emergence_exponents._measure(points, 0, "x", "x", 1.0, {}, "the same", "none")
    assert (found.estimate, found.stderr) == (found.predicted, 0.0)
