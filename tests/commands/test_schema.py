"""One layout for one result, whoever asks for it: Python, `emergence simulate`, or a cell of a sweep after `merge`."""

import dataclasses
import json
from pathlib import Path

import pytest
import xarray as xr

from emergence.cells import compute, configuration
from emergence.cli import main
from emergence.commands import simulate
from emergence.problem import Problem
from emergence.resolve import Resolved, resolve
from emergence.store import merging
from emergence.store.folder import Store, cell_name

TINY = Problem(activation="h3", dim=64, teacher_width=2, student_width=3, step_size=1e-3, steps=64, replicas=2, seed=1)
FLAGS = ["--activation", "h3", "--dim", "64", "--teacher-width", "2", "--student-width", "3", "--step-size", "1e-3",
         "--steps", "64", "--seed", "1"]  # fmt: skip
OWN = {"online-sgd": ["--replicas", "2"]}
KINDS = {
    "gradient-flow": (simulate.run_gradient_flow, {"half_time", "half_neuron", "loss_time"}),
    "online-sgd": (simulate.run_online_sgd, {"half_steps", "loss_steps", "diverged"}),
    "finite-step": (simulate.run_finite_step, {"half_time", "diverged"}),
}
#: Short enough for the label of an axis.
UNITS = {"1", "steps", "gradient-flow time", "Riccati time", "flow time"}


def _bare(data: xr.Dataset) -> xr.Dataset:
    """Without provenance: the attributes of the whole."""
    return data.drop_attrs(deep=False)


def _from_sweep(what: str, store: Path, problem: Problem) -> xr.Dataset:
    """The problem's cell among two that record at other times."""
    assert problem.steps is not None
    axes = {"steps": (problem.steps, 2 * problem.steps)}
    with Store(store) as opened:
        for steps in axes["steps"]:
            asked = configuration(what, dataclasses.replace(problem, steps=steps))
            opened.write(cell_name(asked), compute(asked))
        plan = merging.plan(asked, axes)
        opened.record(merging.plan_name(plan), plan)
    (experiment,), _ = merging.experiments([(p.name, p.read_bytes()) for p in store.glob("sweep-*.json")])
    data = merging.merge(store, experiment).data
    assert data is not None
    assert data.time.dims == ("steps", "time")
    data.to_netcdf(store / "merged.nc", engine="h5netcdf")
    merged = xr.load_dataset(store / "merged.nc", engine="h5netcdf")
    return merged.sel(steps=problem.steps, drop=True).dropna("time", how="all").set_xindex("time")


@pytest.mark.parametrize("what", KINDS)
def test_python_command_line_and_sweep_give_the_same_dataset(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, ends = KINDS[what]
    resolved: Resolved = resolve(TINY)
    here: xr.Dataset = run(resolved).dataset
    assert (
        main(["simulate", what, *FLAGS, *OWN.get(what, ()), "--out", str(tmp_path / "out"), "--quiet", "--json"]) == 0
    )
    file = json.loads(capsys.readouterr().out)["file"]
    swept = _from_sweep(what, tmp_path / "store", TINY)
    xr.testing.assert_identical(_bare(xr.load_dataset(file, engine="h5netcdf")), _bare(here))
    xr.testing.assert_identical(_bare(swept), _bare(here))
    assert set(here.data_vars) == {"overlap", "norm2", "loss"} | ends
    assert ("replica" in here.dims) == (what == "online-sgd")  # a deterministic run has none
    described = [here[str(name)].attrs for name in [*here.data_vars, "time", "step"]]
    assert all(about["units"] in UNITS and about["long_name"] for about in described)


def test_a_flow_is_plotted_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", "gradient-flow", *FLAGS, "--out", str(tmp_path), "--quiet", "--json"])
    (line,) = xr.load_dataset(json.loads(capsys.readouterr().out)["file"], engine="h5netcdf").loss.plot()
    assert line.axes.get_xlabel().split() == ["time", "of", "the", "flow", "of", "½E(f*−f)²", "[gradient-flow", "time]"]
