"""One layout for one result, whoever asks for it: Python, `emergence simulate`, or a cell of a sweep after `merge`."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import dynamics
from emergence.cells import compute, configuration
from emergence.models.additive import MODEL, Resolved, resolve
from emergence.models.additive import AdditiveProblem as Problem
from emergence.store import merging
from emergence.store.folder import Store, cell_name

TINY = Problem(activation="h3", dim=64, teacher_width=2, student_width=3, step_size=1e-3, steps=64, replicas=2, seed=1)
FLAGS = ["--activation", "h3", "--dim", "64", "--teacher-width", "2", "--student-width", "3", "--step-size", "1e-3",
         "--steps", "64", "--seed", "1"]  # fmt: skip
OWN = {"online-sgd": ["--replicas", "2"]}
KINDS = {
    "gradient-flow": {"half_time", "half_neuron", "loss_time"},
    "online-sgd": {"half_steps", "loss_steps", "diverged"},
    "finite-step": {"half_time", "diverged"},
}


def _flow(resolved: Resolved) -> Any:
    _, time, _ = resolved.run_length()
    return dynamics.gradient_flow(*resolved.parts, t_end=time, step_size=resolved.step_size)


def _sgd(resolved: Resolved) -> Any:
    problem, (step_size, _, steps) = resolved.problem, resolved.run_length()
    return dynamics.online_sgd(
        *resolved.parts, step_size=step_size, steps=steps, replicas=problem.replicas, seed=problem.seed
    )


def _finite_step(resolved: Resolved) -> Any:
    step_size, _, steps = resolved.run_length()
    return dynamics.finite_step_flow(*resolved.parts, step_size=step_size, steps=steps)


#: The same from Python.
PYTHON = {"gradient-flow": _flow, "online-sgd": _sgd, "finite-step": _finite_step}
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
            asked = configuration(MODEL, what, dataclasses.replace(problem, steps=steps))
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


@pytest.mark.slow_for("finite-step")
@pytest.mark.parametrize("what", KINDS)
def test_python_command_line_and_sweep_give_the_same_dataset(what: str, run: Callable, tmp_path: Path) -> None:
    here = PYTHON[what](resolve(TINY)).dataset
    code, document, _ = run("simulate", what, *FLAGS, *OWN.get(what, ()), "--out", str(tmp_path / "out"), "--quiet")
    assert code == 0
    file = document["file"]
    swept = _from_sweep(what, tmp_path / "store", TINY)
    xr.testing.assert_identical(_bare(xr.load_dataset(file, engine="h5netcdf")), _bare(here))
    xr.testing.assert_identical(_bare(swept), _bare(here))
    assert set(here.data_vars) == {"overlap", "norm2", "loss"} | KINDS[what]
    assert ("replica" in here.dims) == (what == "online-sgd")  # a deterministic run has none
    described = [here[str(name)].attrs for name in [*here.data_vars, "time", "step"]]
    assert all(about["units"] in UNITS and about["long_name"] for about in described)


def test_a_flow_is_plotted_as_it_is(run: Callable, tmp_path: Path) -> None:
    _, document, _ = run("simulate", "gradient-flow", *FLAGS, "--out", str(tmp_path), "--quiet")
    (line,) = xr.load_dataset(document["file"], engine="h5netcdf").loss.plot()
    assert line.axes.get_xlabel().split() == ["time", "of", "the", "flow", "of", "½E(f*−f)²", "[gradient-flow", "time]"]
