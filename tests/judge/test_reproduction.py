"""Figures 1 and 2 of arXiv:2504.19983: estimates recover known exponents, runs are kept, bad input is refused."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from emergence import models
from emergence import reproduction as experiments
from emergence.cli import main
from emergence.commands import reproduce
from theory import InputError, Teacher
from validation import reproduction
from validation.figures.reproduction import emergence_figure, frontier_figure

P, DECAY, SEEDS = 64, 0.8, 3
PROBLEM = {"activation": "h4", "teacher_width": P, "teacher_exponent": DECAY, "dim": 200}
WEIGHTS = Teacher.power_law(P, DECAY, 200).a


def staircase(times, hits):
    return 0.5 * np.sum((times[:, None] < hits) * WEIGHTS**2, axis=1)


def flows(spread=0.05, bias=1.0, end=200.0):
    """Runs whose directions emerge at p^β, with independent scatter over seeds; measured times `bias` too late."""
    rng = np.random.default_rng(0)
    times = np.geomspace(0.5, end, 300)
    expected = np.arange(1, P + 1) ** DECAY * np.exp(spread * rng.standard_normal((SEEDS, P)))
    hits = bias * expected
    share = (times[:, None] >= hits[:, None, :]).astype(float)
    return xr.Dataset(
        {
            "loss": (("seed", "time"), [staircase(times, x) + 1e-9 for x in hits]),
            "predicted_loss": (("seed", "time"), [staircase(times, x) + 1e-9 for x in expected]),
            "share": (("seed", "time", "direction"), share),
            "loss_time": (("seed", "direction"), hits),
            "predicted_loss_time": (("seed", "direction"), expected),
        },
        coords={"time": (("seed", "time"), np.tile(times, (SEEDS, 1)))},
    )


def descents(end=400):
    """Students of width m that learn the first m directions, each at time p^β."""
    steps, widths, rng = np.unique(np.geomspace(1, end, 300).round()), np.array([8, 16, 32]), np.random.default_rng(1)
    loss = np.empty((widths.size, SEEDS, steps.size))
    for row, m in enumerate(widths):
        for seed in range(SEEDS):
            hits = np.where(
                np.arange(P) < m, np.arange(1, P + 1) ** DECAY * np.exp(0.03 * rng.standard_normal(P)), np.inf
            )
            loss[row, seed] = staircase(steps, hits)
    axes = ("student_width", "seed", "time")
    same = np.broadcast_to(steps, loss.shape)
    expected = np.broadcast_to(np.arange(1, P + 1) ** DECAY, (widths.size, SEEDS, P))
    return xr.Dataset(
        {
            "loss": (axes, loss),
            "predicted_loss": (axes, loss),
            "predicted_loss_time": (("student_width", "seed", "direction"), expected),
        },
        coords={"step": (axes, same), "time": (axes, same), "student_width": widths},
    )


def test_emergence_exponents_are_those_of_the_staircase():
    found = reproduction.emergence(flows(), PROBLEM)
    times, loss, ratio = found.rows
    assert times.difference.value == pytest.approx(0.0, abs=1e-12)
    assert times.finite_size == pytest.approx(DECAY, abs=0.1)
    assert times.asymptotic == DECAY
    assert loss.measured.value == pytest.approx(loss.finite_size, abs=1e-6)
    assert loss.asymptotic == pytest.approx(-0.75)
    assert loss.finite_size < -0.75  # the sum ends at P
    assert ratio.measured.value == pytest.approx(1.0)
    assert isinstance(emergence_figure(found), Figure)


def test_times_that_are_late_are_seen_as_late():
    ratio = reproduction.emergence(flows(bias=1.1), PROBLEM).rows[2]
    assert ratio.measured.value == pytest.approx(1.1)
    assert not ratio.difference.covers(0.0)


def test_frontier_exponent_matches_its_own_finite_size_prediction():
    found = reproduction.compute_frontier(descents(), PROBLEM)
    floor, frontier = found.rows
    assert frontier.measured.value == pytest.approx(
        frontier.finite_size, abs=2e-3
    )  # a mean is interpolated, or averaged
    assert frontier.asymptotic == pytest.approx(-1 / 3)
    assert frontier.difference.value == pytest.approx(0.0, abs=1e-12)
    assert floor.asymptotic == pytest.approx(-0.6)
    assert np.all(found.frontier <= found.frontier[0])
    assert isinstance(frontier_figure(found), Figure)


def test_frontier_of_the_ideal_sum_approaches_the_theorem():
    """About −.38, −.35, −.34 at P = 10³, 10⁵, 10⁷; the theorem's is −1/3."""
    slopes = [reproduction.ideal_frontier_slope(0.8, size) for size in (10**3, 10**5, 10**7)]
    assert np.allclose(slopes, [-0.3733, -0.3476, -0.3404], atol=1e-3)
    p = np.arange(1.0, 10**5 + 1)
    tail = np.cumsum((p**-1.6)[::-1])[::-1]
    x = np.unique(np.geomspace(4, 10**5 / 8, 60).round()).astype(int)
    assert slopes[1] == pytest.approx(np.polyfit(1.8 * np.log(x), np.log(tail[x]), 1)[0], abs=1e-9)


@pytest.mark.parametrize(
    ("measure", "data", "message"),
    [
        (lambda x: reproduction.emergence(x, PROBLEM), flows(end=4.0), "run longer"),
        (
            lambda x: reproduction.emergence(x, PROBLEM),
            flows().assign_coords(time=flows().time * xr.DataArray([1, 1, 2], dims="seed")),
            "time differs between runs",
        ),
    ],
)
def test_bad_runs_are_refused(measure, data, message):
    with pytest.raises(InputError, match=message):
        measure(data)


def _offer(monkeypatch: pytest.MonkeyPatch, figure: experiments.Figure):
    """As if the additive model had this figure, too."""
    offered = {**models.figures(), figure.name: (models.default(), figure)}
    monkeypatch.setattr(models, "figures", lambda: offered)


def _put(monkeypatch: pytest.MonkeyPatch, grid: experiments.Grid):
    """These runs behind figure 2."""
    _offer(monkeypatch, replace(experiments.FIG2, presets={"quick": grid}))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch):
    """The command with experiments of a toy size, computed in this process."""
    from inline import Inline

    from emergence.cells import compute

    engine = Inline(compute)
    monkeypatch.setattr(reproduce, "Workers", lambda count: contextlib.nullcontext(engine))
    # time 60 is past the emergence of direction P/8 = 8
    _put(monkeypatch, experiments.frontier_runs(64, 200, (16, 24), 60.0, 2))
    return engine


def test_the_command_draws_resumes_and_says_what_it_found(small, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["reproduce", "fig2", "--out", str(tmp_path), "--json", "--quiet"]
    assert main(argv) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["computed"], first["found"]) == (4, 0)
    assert Path(first["image"]).read_bytes().startswith(b"\x89PNG")
    data = xr.load_dataset(first["file"], engine="h5netcdf")
    assert dict(data.loss.sizes)["student_width"] == 2
    assert {panel["panel"] for panel in first["panels"]} == {"a", "b"}
    next((tmp_path / "reproduce").glob("gradient-descent-*.nc")).unlink()  # as if killed before the last run
    assert main(argv) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["computed"], second["found"]) == (1, 3)
    assert second["panels"] == first["panels"]


def test_no_figure_without_its_runs(small, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    wild = experiments.frontier_runs(64, 200, (16,), 2000.0, 2)
    _put(monkeypatch, experiments.Grid({**wild.problem, "step_size": 40.0}, wild.axes))
    assert main(["reproduce", "fig2", "--out", str(tmp_path), "--quiet"]) == 1
    assert "2 diverged: no figure" in capsys.readouterr().out


def test_a_third_figure_needs_no_edit_of_the_command(small, tmp_path: Path, monkeypatch, capsys):
    rows = reproduction.compute_frontier(descents(), PROBLEM).rows
    seen = []

    def measure(data, problem):
        seen.append((dict(data.sizes)["student_width"], problem["teacher_width"]))
        return SimpleNamespace(rows=rows)

    _, second = models.figures()["fig2"]
    _offer(monkeypatch, replace(second, name="fig3", measure=measure, draw=lambda found: Figure()))
    assert main(["reproduce", "fig3", "--out", str(tmp_path), "--json", "--quiet"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["figure"], len(document["panels"]), seen) == ("fig3", 2, [(2, 64)])
    assert main(["reproduce", "fig3", "--preset", "full", "--out", str(tmp_path), "--quiet"]) == 2
    assert "fig3 has quick" in capsys.readouterr().err


def test_an_unknown_figure_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", "fig9"]) == 2
    assert "fig1" in capsys.readouterr().err


def test_intervals_over_seeds_are_students():
    estimate = reproduction.student(np.array([1.0, 2.0, 3.0]))
    assert (estimate.value, estimate.stderr) == (2.0, pytest.approx(1 / np.sqrt(3)))
    assert estimate.high - estimate.value == pytest.approx(4.3027 / np.sqrt(3), rel=1e-4)
