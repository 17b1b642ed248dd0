"""Systems in files of the user's own: every command serves them, and their claims agree."""

import importlib.util
import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import validation
from emergence.cli import main
from emergence.commands import sweep
from emergence.store.engine import Here
from validation.judge.claim import verdict_of

FOLDER = Path(__file__).parent.parent / "examples"
#: File, its derivation, its options at a tiny size, and what a comparison of it judges.
FILES = [
    (
        "weight_decay",
        "weight-decay",
        ["--weights", "1", "--dim", "8", "--student-width", "1", "--seed", "1", "--time", "4"],
        ["--batch", "4", "--step-size", "0.02", "--replicas", "3"],
        {"half_time 1, flow", "loss_time 1, flow", "norm 1, SGD", "floor, flow"},
    ),
    (
        "trained_committee",
        "trained-committee",
        ["--activation", "h2", "--weights", "1", "--dim", "6", "--student-width", "2", "--init-scale", "0.5"],
        ["--time", "0.5", "--step-size", "0.05", "--replicas", "3"],
        {"rate of the loss at the start, flow", "loss at time 0.5, SGD"},
    ),
    (
        "online_pca",
        "online-pca",
        ["--dim", "8", "--seed", "1"],
        ["--time", "2", "--step-size", "0.02", "--replicas", "3"],
        {"half time, flow"},
    ),
]
#: What a sweep of each goes through.
GRIDS = {"weight_decay": "decay=0.1,0.4", "trained_committee": "second-rate=0.5,1", "online_pca": "spike=1,2"}
EACH = pytest.mark.parametrize(("name", "derivation", "problem", "run", "judged"), FILES)


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(command, *argv):
        code = main([*command.split(), *argv, "--json", *([] if command.startswith("derive") else ["--quiet"])])
        out, err = capsys.readouterr()
        assert code in (0, 1), err
        return code, json.loads(out)

    return call


@pytest.mark.slow_for("trained_committee-trained-committee-problem1-run1-judged1")
@EACH
def test_theory_of_a_file(call, name, derivation, problem, run, judged):
    file = str(FOLDER / f"{name}.py")
    code, document = call(f"derive {derivation} --model {file}")
    assert code == 0
    assert document["name"] == derivation
    _, document = call("predict", "--model", file, *problem[2 * (name == "trained_committee") :])
    assert len(document) >= 2


@pytest.mark.slow_for(
    "trained_committee-trained-committee-problem1-run1-judged1", "online_pca-online-pca-problem2-run2-judged2"
)
@EACH
def test_runs_of_a_file(call, monkeypatch, name, derivation, problem, run, judged):
    if name != "online_pca":  # cells of one file are computed in a process of their own, which takes seconds to import
        monkeypatch.setattr(sweep, "Workers", lambda _: nullcontext(Here()))
    file = str(FOLDER / f"{name}.py")
    for what, own in (("flow", problem), ("sgd", [*problem, *run])):
        code, document = call(f"simulate {what}", "--model", file, *own)
        assert code == 0
        with xr.open_dataset(document["file"]) as data:
            assert ("replica" in data.loss.dims) == (what == "sgd")
    call("sweep predict", "--model", file, *problem, "--over", GRIDS[name], "--workers", "1", "--store", "cells")
    _, document = call("merge", "cells")
    with xr.open_dataset(document["experiments"][0]["file"]) as data:
        assert 2 in data.sizes.values()
    _, document = call("compare", "--model", file, *problem, *run)
    rows = {row["quantity"]: row for row in document["quantities"]}
    assert judged <= set(rows)
    assert Path(document["report"]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weight_decay", "trained_committee"])
def test_claims_of_a_file(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = validation.validate(module.CLAIMS)
    assert run.as_expected
    assert all(control.rejected for verdict in run.verdicts for control in verdict.controls)


def test_claims_of_a_file_are_validated_by_its_path(call, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from validation import Claim, Measurement, Outcome\n"
        "def run(context):\n    return Outcome([Measurement('one', 1.0, 1.0, 0.0, 0.1, {'two': 2.0}, 'given')])\n"
        "CLAIMS = [Claim(id='X1', title='t', statement='s', latex='x', source='own', kind='exact', regime='all',\n"
        "                controls=('two',), runner=run)]\n"
    )
    code, document = call("validate", "mine.py")
    assert (code, [entry["verdict"] for entry in document["claims"]]) == (0, ["agrees"])
    assert main(["validate", str(FOLDER / "README.py")]) == 2


@pytest.fixture(scope="module")
def online_pca():
    spec = importlib.util.spec_from_file_location("online_pca", FOLDER / "online_pca.py")
    module = sys.modules["online_pca"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_finer_run_is_recorded_at_the_same_times_up_to_the_end(online_pca):
    problem = online_pca.PcaProblem(dim=4, time=1.0, step_size=0.0126, replicas=2)  # 80 steps of 1 / 80
    runs = [online_pca.sgd(online_pca.resolve(problem), finer=finer).data for finer in (0.5, 1, 2)]
    assert [run.time.values[-1] for run in runs] == pytest.approx([1.0] * 3, rel=1e-12)
    for run in runs[1:]:
        np.testing.assert_allclose(run.time, runs[0].time, rtol=1e-12)
    few = online_pca.sgd(online_pca.resolve(replace(problem, step_size=0.1))).data
    assert few.time.size == 6  # (every second step, so that twice the step size is recorded then, too)


@pytest.mark.parametrize(("time", "judged"), [(0.5, 1), (2.0, 2)])
def test_a_half_time_beyond_the_run_is_not_judged(online_pca, time, judged):
    problem = online_pca.PcaProblem(dim=50, time=time, step_size=2e-3, replicas=50)
    resolved = online_pca.resolve(problem)
    assert (resolved.half_time < time) == (judged == 2)
    found = {
        online_pca.FLOW: online_pca.flow(resolved),
        online_pca.DOUBLE: online_pca.sgd(resolved, finer=0.5),
        online_pca.SGD: online_pca.sgd(resolved),
        online_pca.HALF: online_pca.sgd(resolved, finer=2),
    }
    measured = online_pca.measurements(resolved, found)
    assert len(measured) == judged
    assert all(verdict_of(one).verdict != "disagrees" for one in measured)


def test_one_run_is_said_to_be_too_few(call):
    file = str(FOLDER / "online_pca.py")
    _, document = call("compare", "--model", file, "--dim", "20", "--time", "2", "--replicas", "1")
    assert [row["quantity"] for row in document["quantities"]] == ["half time, flow"]
    assert ["fewer than two replicas" in note for note in document["notes"]] == [True]


def test_a_row_that_begins_beyond_half_is_there_at_once(online_pca):
    resolved = replace(online_pca.resolve(online_pca.PcaProblem(dim=2)), start=np.array([0.8, 0.6]))
    assert resolved.half_time == 0.0
