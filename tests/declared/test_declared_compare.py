"""Flow and SGD of a declared model side by side: what is judged, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.interpolate import CubicSpline

from dynamics.declared.flow import declared_flow
from dynamics.declared.population import declared_loss
from emergence.models.declared_problem import DeclaredProblem, resolve
from theory.declared.emergence import FOUND, MEAN_STEPS
from theory.declared.flow import speed
from theory.declared.known import Condition, Known
from theory.declared.predict import predict
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Linear
from validation.comparisons import declared as compare
from validation.comparisons.declared import (
    DOUBLE,
    FLOW,
    HALF,
    SGD,
    declared_case,
    doubled,
    halved,
    measurements,
    readings,
    rivals,
)
from validation.judge.claim import Measurement, verdict_of

PROBLEM = DeclaredProblem(
    inputs="blocks(2x3, 0.5x8)", student="committee", activation="erf", student_width=2, decay=0.5, step_size="0.02",
    batch=4, time=6, replicas=256, start_scale=1.0,
)  # fmt: skip


@pytest.mark.parametrize("rule", [Rule(0.1), Momentum(Linear(0.1, 0.02, 10), beta=0.5)])
def test_half_the_step_size_is_at_the_same_time_after_twice_the_steps(rule: Rule) -> None:
    size, half = rule.step_size, halved(rule).step_size
    if not callable(size):
        assert (half, type(halved(rule))) == (0.05, Rule)
        return
    assert half.end == 20
    assert np.sum(half(np.arange(20))) == pytest.approx(np.sum(size(np.arange(10))))
    assert half(np.arange(4)).tolist() == pytest.approx([x / 2 for n in (0, 1) for x in (size(n), size(n))])


@pytest.mark.parametrize("steps", [1, 10, 9])
@pytest.mark.parametrize("size", [0.1, Linear(0.1, 0.02, 10)])
def test_twice_the_step_size_is_at_the_same_time_after_half_the_steps(size: float | Linear, steps: int) -> None:
    """After each of its steps, and at the end of an odd number, too."""
    double = doubled(Momentum(size, beta=0.5), steps).step_size
    taken = np.cumsum(np.full(steps, size) if isinstance(size, float) else size(np.arange(steps)))
    assert double.end == (steps + 1) // 2
    at = np.minimum(2 * np.arange(1, double.end + 1), steps) - 1
    assert np.cumsum(double(np.arange(double.end))) == pytest.approx(taken[at], rel=1e-12)


@pytest.fixture(scope="module")
def found() -> dict:
    """What the stages of the comparison hand back."""
    resolved = resolve(PROBLEM)
    case = declared_case(
        resolved.model, resolved.start, steps=resolved.steps, time=resolved.time, replicas=256, seed=0, method="exact"
    )
    ran: dict = {}
    for stage in case.stages:
        ran[stage.name] = stage.run(ran, None)
    return ran | {"case": case, "model": resolved.model}


@pytest.mark.slow
def test_sgd_extrapolated_to_zero_step_size_is_the_flow(found: dict) -> None:
    rows, _ = found["case"].judge(found)
    assert {row["quantity"]: row["verdict"] for row in rows} == {
        "loss, mean over the run": "agrees", "loss at the end": "agrees", "squared norms at the end": "agrees",
        "emergence of direction 1": "agrees", "steps of SGD to direction 1": "agrees",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_runs_that_all_diverge_have_no_picture() -> None:
    resolved = resolve(DeclaredProblem(inputs="16", activation="h3", step_size="5", time=200.0, replicas=2))
    case = declared_case(
        resolved.model, resolved.start, steps=40, time=resolved.time, replicas=2, seed=0, method="ambient"
    )
    ran: dict = {}
    for stage in case.stages:
        ran[stage.name] = stage.run(ran, None)
    assert ran[HALF].diverged.all()
    assert case.figures(ran) == []
    assert "fewer than two replicas" in " ".join(case.judge(ran)[1])


@pytest.mark.slow_for("near zero", "schedule", "rounding")
@pytest.mark.parametrize(
    "given",
    [
        {"loss": "correlation", "step_size": "0.3", "time": 3.0},
        {"noise": 0.3, "step_size": "0.02", "time": 25.0, "start_scale": 1.0},
        {"activation": "z", "train_second": True, "step_size": "0.01", "time": 20.0, "start_scale": 0.5},
        {"step_size": "power(0.05, 0.5)", "time": 8.0, "start_scale": 1.0},
    ],
    ids=["negative", "near zero", "rounding", "schedule"],
)
def test_a_loss_is_judged_beside_what_it_began_with(given: dict) -> None:
    """The right flow agrees and one that ends elsewhere does not, where the loss is negative, where it ends near 0, or at
    what rounding leaves of it. (There the norms say what the second order is: without it they are off by 25 errors.) Of a
    schedule the first records are far apart in time.
    """
    rows = {} if "start_scale" in given else {"rows": "sphere"}
    shape = {"inputs": "20", "teacher_weights": (1.0,), "student": "committee", "activation": "erf", "student_width": 1}
    resolved = resolve(DeclaredProblem(**{**shape, **rows, **given}, batch=2))
    case = declared_case(
        resolved.model, resolved.start, steps=resolved.steps, time=resolved.time, replicas=512, seed=1, method="exact"
    )
    ran: dict = {}
    for stage in case.stages:
        ran[stage.name] = stage.run(ran, None)
    judged = measurements(resolved.model, ran[FLOW], (ran[DOUBLE], ran[SGD], ran[HALF]), {})
    fallen = float(abs(ran[FLOW].dataset.loss[-1] - ran[FLOW].dataset.loss[0]))
    for one in judged:
        assert one.allowance >= 0
        assert verdict_of(one).verdict == "agrees", one
        if one.quantity == "loss at the end":
            wrong = replace(one, predicted=one.predicted + fallen / 4)
            assert verdict_of(wrong).verdict == "disagrees", one


@pytest.mark.slow
def test_sgd_that_is_far_from_its_limit_has_no_verdict() -> None:
    shape = {"inputs": "16", "student": "committee", "activation": "erf", "student_width": 2, "start_scale": 1.0}
    resolved = resolve(
        DeclaredProblem(**shape, teacher_weights=(1.0, 0.5), step_size="power(0.5, 0.9)", time=8.0, batch=4)
    )
    case = declared_case(
        resolved.model, resolved.start, steps=resolved.steps, time=resolved.time, replicas=128, seed=0, method="exact"
    )
    ran: dict = {}
    for stage in case.stages:
        ran[stage.name] = stage.run(ran, None)
    found, notes = case.judge(ran)
    judged = [row for row in found if not row["quantity"].startswith("emergence")]  # (that is of the flow)
    assert [row["verdict"] for row in judged] == ["outside"] * 3
    assert all("off the limit of small steps" in note for note in notes[:3])


@pytest.mark.parametrize(("rows", "judged"), [("free", True), ("sphere", False), ("projected", False)])
def test_norms_that_a_constraint_keeps_are_not_judged(rows: str, judged: bool) -> None:
    resolved = resolve(DeclaredProblem(inputs="8", student="committee", activation="erf", student_width=2, rows=rows))
    flow = declared_flow(resolved.model, resolved.start, 0.1, np.linspace(0, 0.1, 3))
    moved = float(np.ptp(np.einsum("tikk->t", flow.dataset.gram.values)))
    assert (moved > 1e-6) == judged
    assert ("squared norms at the end" in readings(resolved.model, flow)) == judged


def test_a_flow_that_leaves_the_decay_out_disagrees(found: dict) -> None:
    resolved, others = resolve(PROBLEM), rivals(found["model"])
    assert set(others) == {"equal eigenvalues", "no decay"}
    wrong = declared_flow(others["no decay"], resolved.start, resolved.time)
    judged = measurements(found["model"], wrong, (found[DOUBLE], found[SGD], found[HALF]), {})
    assert {verdict_of(replace(x, controls={"none": np.inf})).verdict for x in judged} == {"disagrees"}


def test_rows_notes_and_picture_are_of_what_was_run(found: dict) -> None:
    """The mean in the picture is of the replicas that did not diverge; what runs twice as fast stands in for a rival."""
    known, flow, half = predict(found["model"], resolve(PROBLEM).start), found[FLOW], found[HALF]
    fast = replace(flow, dataset=flow.dataset.assign_coords(time=flow.dataset.time / 2))
    lost = np.arange(256) % 7 == 0
    broken = half.dataset.where(xr.DataArray(~lost, dims="replica"))
    ran = {FLOW: flow, DOUBLE: found[DOUBLE], SGD: found[SGD], HALF: replace(half, dataset=broken, diverged=lost)}
    rows, notes = compare._rows(found["model"], ran, {"no decay": fast}, known)
    judged = measurements(found["model"], flow, (ran[DOUBLE], ran[SGD], ran[HALF]), {"no decay": fast})
    for one in judged:  # of f₀ + aη the limit takes a from f(η) − f(η/2), and aη is twice that
        full, fine = (readings(found["model"], run, flow)[one.quantity][~lost] for run in (ran[SGD], half))
        kept = readings(found["model"], ran[SGD], flow)[one.quantity].mean() - full.mean()
        assert one.details["shift"] == pytest.approx(2 * (full.mean() - fine.mean()) + kept, rel=1e-9)
    *of_sgd, emerged, taken = rows
    assert (emerged["quantity"], emerged["verdict"]) == ("emergence of direction 1", "agrees")
    left = {
        one.quantity: f"37 of 256 replicas diverged, and {one.quantity} of those left is no mean of SGD"
        for one in judged
    }
    assert of_sgd == [
        {
            "quantity": one.quantity, "predicted": one.predicted, "measured_mean": one.estimate,
            "measured_stderr": one.stderr, "verdict": "outside", "reason": f"{left[one.quantity]}: lower step-size",
        }
        for one in judged
    ]  # fmt: skip
    assert (taken["quantity"], taken["verdict"]) == ("steps of SGD to direction 1", "agrees")
    assert notes[-2:] == [
        f"Emergence of direction 1: {emerged['reason']}.", f"Steps of SGD to direction 1: {taken['reason']}.",
    ]  # fmt: skip
    (*whole, _, _), (*_, note) = compare._rows(found["model"], found, {"no decay": fast}, known)
    sound = measurements(found["model"], flow, (found[DOUBLE], found[SGD], half), {"no decay": fast})
    assert [row["verdict"] for row in whole] == [verdict_of(one).verdict for one in sound]
    assert {row["verdict"] for row in whole} == {"inconclusive"}  # a flow in half the time ends where this one does
    assert all(row["reason"].startswith("what is measured does not reject 'no decay', ") for row in whole)
    assert note == notes[-1]
    ((_, figure),) = compare._figures(found["model"], ran, {"no decay": fast})
    curves = {line.get_label(): line.get_xydata().T for line in figure.axes[0].get_lines()}
    at = half.dataset.time.values
    loss = declared_loss(found["model"], *(half.dataset[name].values for name in ("overlap", "gram", "second")))
    (mean,) = (curve for name, curve in curves.items() if name.startswith(f"mean of {256 - lost.sum()}"))
    np.testing.assert_allclose(mean, [at, loss[~lost].mean(axis=0)], rtol=1e-12)
    known = CubicSpline(flow.dataset.time, flow.dataset.loss)
    np.testing.assert_allclose(curves[FLOW], [at, known(at)], rtol=1e-3)
    first = at <= flow.dataset.time.values[-1] / 2
    np.testing.assert_allclose(curves["no decay"][:, first], [at[first], known(2 * at[first])], rtol=1e-3)
    none = replace(half, diverged=np.arange(256) > 0)
    assert compare._figures(found["model"], ran | {HALF: none}, {}) == []


def test_sgd_that_disagrees_far_from_its_limit_is_not_judged() -> None:
    """Beyond 30 % of the larger of prediction and estimate, by what is the farthest off, and only if it disagrees."""
    none = np.zeros(4, dtype=bool)

    def measured(predicted: float, estimate: float, shift: float) -> Measurement:
        return Measurement("loss", predicted, estimate, 0.01, 0.0, {"none": 9.0}, "", details={"shift": shift})

    def verdict(predicted: float, estimate: float, shift: float) -> str:
        one = measured(predicted, estimate, shift)
        return compare._verdict(one, [one], none)[0]

    found = [verdict(1.0, 2.0, shift) for shift in (-0.61, -0.59, 0.59, 0.61)]
    assert found == ["outside", "disagrees", "disagrees", "outside"]
    assert [verdict(2.0, 1.0, shift) for shift in (0.59, 0.61)] == ["disagrees", "outside"]
    assert verdict(1.0, 1.0, 5.0) == "agrees"
    near, norms = measured(1.0, 2.0, 0.1), replace(measured(1.0, -3.0, 12.0), quantity="squared norms")
    told = "squared norms of SGD are 400% off the limit of small steps, too far to extrapolate: lower step-size"
    assert compare._verdict(near, [near, norms], none) == ("outside", told)


@pytest.mark.parametrize(
    ("low", "high", "measured", "end", "verdict"),
    [
        (9.0, 11.0, 8.4, 20.0, "disagrees"),
        (9.0, 11.0, 8.6, 20.0, "agrees"),  # (records are half a unit apart)
        (9.0, 11.0, 11.4, 20.0, "agrees"),
        (9.0, 11.0, 11.6, 20.0, "disagrees"),
        (9.0, 11.0, np.inf, 20.0, "disagrees"),
        (9.0, 11.0, np.inf, 11.0, "not judged"),
        (9.0, 11.0, 9.5, 10.0, "not judged"),
        (9.0, 11.0, 8.9, 10.0, "disagrees"),
        (np.inf, np.inf, np.inf, 10.0, "not judged"),
        (np.inf, np.inf, 9.0, 10.0, "disagrees"),
        (4.9, 20.1, 12.0, 40.0, "inconclusive"),  # (half the prediction and twice it pass, too)
    ],
)
def test_an_emergence_time_is_judged_by_its_interval(
    low: float, high: float, measured: float, end: float, verdict: str
) -> None:
    one = Known(FOUND, 10.0 if high < np.inf else np.inf, "time", "", place=1, low=low, high=high)
    assert compare._judged(one, measured, end, 0.5)["verdict"] == verdict
    outside = replace(one, conditions=(Condition("x", False, 2.0, 1.0, "x is 2"),))
    assert compare._judged(outside, measured, end, 0.5)["verdict"] == "outside"


def test_each_direction_is_judged_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second's prediction beside the second's time; of directions that theory does not know nothing is said."""
    times = np.array([2.0, 5.0, 7.0])
    monkeypatch.setattr(compare, "emergence_times", lambda *_: times)
    known = [Known(FOUND, at, "time", "", place=p, low=at - 0.1, high=at + 0.1) for p, at in ((3, 9.0), (2, 5.1))]
    records = xr.Dataset(coords={"time": [0.0, 0.5, 10.0, 10.25]})
    rows = compare.emergences(None, SimpleNamespace(dataset=records.isel(time=[0, 1, 2, 3])), known)  # type: ignore[arg-type]
    assert [(row["quantity"], row["measured_mean"]) for row in rows] == [
        ("emergence of direction 3", 7.0), ("emergence of direction 2", 5.0),
    ]  # fmt: skip
    dense = xr.Dataset(coords={"time": np.arange(0.0, 10.0, 0.25)})
    rows = compare.emergences(None, SimpleNamespace(dataset=dense), known)  # type: ignore[arg-type]
    assert [row["verdict"] for row in rows] == ["disagrees", "agrees"]


@pytest.mark.parametrize(
    ("mean", "lost", "verdict", "reason"),
    [
        (1000.0, 0, "agrees", "interval 980 to 1040"),
        (1052.0, 0, "agrees", "interval 980 to 1040"),  # (10 of records, and standard errors of 1)
        (1060.0, 0, "disagrees", "interval 980 to 1040"),
        (960.0, 0, "disagrees", "interval 980 to 1040"),
        (1000.0, 2, "not judged", "2 of 64 replicas are not there at the run's end"),
        (1000.0, -2, "not judged", "2 replicas diverged"),
    ],
)
def test_the_mean_of_sgd_is_judged_by_its_interval(
    mean: float, lost: int, verdict: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of steps 0.1 long; wrong theories take half of the steps, and twice as many."""
    steps = mean + 8 * np.tile([-1.0, 1.0], 32)
    steps[: max(lost, 0)] = np.inf
    monkeypatch.setattr(compare, "emergence_times", lambda *_: 0.1 * np.stack([np.full(64, 7.0), steps], axis=1))
    record = np.arange(0, 2001, 10)
    data = xr.Dataset(coords={"time": ("time", 0.1 * record), "step": ("time", record)})
    run: Any = SimpleNamespace(dataset=data, diverged=np.arange(64) < -lost)
    one = Known(MEAN_STEPS, 1010.0, "steps", "", place=2, low=980.0, high=1040.0)
    (row,) = compare.emergences_of_sgd(None, run, [one, replace(one, low=np.nan)])  # type: ignore[arg-type]
    assert (row["verdict"], row["reason"], row["predicted"]) == (verdict, reason, 1010.0)
    if np.isfinite(steps).all():
        assert row["measured_mean"] == pytest.approx(mean)
    outside = replace(one, conditions=(Condition("x", False, 2.0, 1.0, "x is 2"),))
    (row,) = compare.emergences_of_sgd(None, run, [outside])  # type: ignore[arg-type]
    assert (row["verdict"], row["reason"]) == ("outside", "x is 2")
    assert compare._judged_of_sgd(one, np.array([1000.0]), 10.0, np.array([False]))["verdict"] == "not judged"


def test_a_short_emergence_in_a_long_run_is_judged_by_its_interval() -> None:
    """A schedule's default steps last 90 emergence times: by 200 equal records [0.2120, 0.2137] was "agrees" up to 0.31."""
    known = [Known(FOUND, 0.2131, "time", "", place=1, low=0.2120, high=0.2137)]
    times = compare.looked_at(known, 19.85)
    assert (times[0], times[-1]) == (0.0, 19.85)
    near = times[(times > 0.2) & (times < 0.23)]
    assert np.allclose(near, [0.2120, 0.2131, 0.2137])
    for crossing, verdict in ((0.2125, "agrees"), (0.2160, "disagrees"), (0.2180, "disagrees")):
        gram = np.ones((len(times), 1, 1, 1))
        overlap = np.sqrt(np.clip(0.5 + times - crossing, 0, 1)).reshape(-1, 1, 1, 1)
        axes = ("time", "eigenspace", "neuron")
        flow = SimpleNamespace(
            dataset=xr.Dataset(
                {"overlap": ((*axes, "direction"), overlap), "gram": ((*axes, "other"), gram)}, coords={"time": times}
            )
        )
        model = resolve(replace(PROBLEM, inputs="8", teacher_weights=(1.0,), directions="orthonormal")).model
        (row,) = compare.emergences(model, flow, known)  # type: ignore[arg-type]
        assert row["measured_mean"] == pytest.approx(crossing, abs=1e-9)
        assert row["verdict"] == verdict


def test_what_is_special_in_a_rule_is_left_out_by_a_rival() -> None:
    """Flips and momentum: the rival's flow runs at another speed, by the labels that are kept, or by 1/(1 − β)."""
    flips, heavy = (
        replace(resolve(replace(PROBLEM, inputs="8", decay=0.0)).model, rule=rule)
        for rule in (Rule(0.1, noise=0.1, noise_law="flips"), Momentum(0.1, beta=0.6, kind="heavy"))
    )
    assert set(rivals(flips)) == {"flips not counted"}
    assert (flips.rule.signal, rivals(flips)["flips not counted"].rule.signal) == (0.8, 1.0)
    assert set(rivals(heavy)) == {"momentum not counted"}
    assert (speed(heavy.rule), speed(rivals(heavy)["momentum not counted"].rule)) == (pytest.approx(2.5), 1.0)


def test_equal_eigenvalues_are_no_rival_of_isotropic_inputs() -> None:
    assert rivals(resolve(DeclaredProblem(inputs="8")).model) == {}


def test_a_rule_without_a_flow_is_refused(refused: Callable) -> None:
    for argv in (["compare", "--model", "declared"], ["simulate", "declared-flow"]):
        assert "it has no flow" in refused(*argv, "--rule", "sam(0.1)")


def test_rows_on_a_sphere_begin_there(run: Callable) -> None:
    flags = [
        "--student",
        "committee",
        "--activation",
        "erf",
        "--rows",
        "sphere",
        "--student-width",
        "2",
        "--inputs",
        "16",
    ]
    code, document, err = run("simulate", "declared-flow", *flags, "--time", "0.1", "--quiet")
    assert (code, document["problem"]["start_scale"]) == (0, 1.0), err


def test_a_data_set_has_no_flow(refused: Callable) -> None:
    Path("p.toml").write_text('model = "declared"\nsamples = 10\n')
    assert "a fixed data set has no population flow" in refused("compare", "--config", "p.toml")
    assert "--samples is given, but simulate declared-flow does not use it" in refused(
        "simulate", "declared-flow", "--samples", "10"
    )
