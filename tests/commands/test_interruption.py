"""Ctrl-C: exit status 130, and what the last line says was kept is there; nothing that was whole before is replaced."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from emergence.cli import main
from emergence.files import file_name
from emergence.progress import Progress

SMALL = ["--activation", "h3", "--dim", "64", "--teacher-width", "2", "--student-width", "3"]
QUADRATIC = ["--dim", "40", "--teacher-width", "3", "--student-width", "2", "--replicas", "4"]
LINEAR = ["--dim", "4", "--student-width", "5", "--step-size", "0.005", "--noise", "2", "--replicas", "2"]
SIMULATED = {
    "gradient-flow": [*SMALL, "--time", "20"],
    "online-sgd": [*SMALL, "--steps", "400", "--replicas", "2"],
    "finite-step": [*SMALL, "--steps", "400"],
    "sde": [*SMALL[:4], "--teacher-width", "1", "--student-width", "1", "--step-size", "1e-4", "--time", "0.1",
            "--replicas", "2"],
    "riccati": QUADRATIC,
    "stiefel-sgd": [*QUADRATIC, "--steps", "400", "--step-size", "1e-3"],
    "label-noise": [*LINEAR, "--steps", "400"],
    "layer-wise": [*SMALL, "--steps", "400", "--step-size", "1e-4", "--replicas", "2"],
    "kernel-ridge": ["--dim", "8", "--samples", "4", "8", "12", "--replicas", "2"],
    "toy": ["--exponents", "2", "3"],
}  # fmt: skip


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command whose progress is answered by Ctrl-C from a share of the work on; the last line on standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*argv: str, share: float = 0.3, at: str = "") -> str:
        def press(self: Progress, fraction: float, text: str = "") -> None:
            if fraction >= share and at in text:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Progress, "__call__", press)
            assert main([*argv, "--quiet"]) == 130
        said = capsys.readouterr()
        assert said.out == ""
        return said.err.splitlines()[-1]

    return call


@pytest.mark.slow_for("finite-step", "sde", "stiefel-sgd", "layer-wise", "label-noise")
@pytest.mark.parametrize("what", SIMULATED)
def test_a_simulation_keeps_what_it_has_beside_the_whole(what: str, stopped: Callable[..., str]) -> None:
    said = stopped("simulate", what, *SIMULATED[what])
    found = re.fullmatch(r"emergence: interrupted: (.*): what was finished is kept in (.*)", said)
    assert found is not None, said
    path = Path(found[2])
    data = xr.load_dataset(path, engine="h5netcdf")
    assert data.attrs["interrupted"] == found[1]
    problem = json.loads(data.attrs["problem"])
    assert path.name == file_name(what, problem).replace(".nc", ".unfinished.nc")
    assert os.listdir("emergence-out") == [path.name]


def test_what_an_interrupted_flow_keeps_is_the_start_of_the_whole(
    stopped: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SMALL, "--time", "20"]
    part = xr.load_dataset(stopped("simulate", "gradient-flow", *flags).split(" kept in ")[1], engine="h5netcdf")
    assert main(["simulate", "gradient-flow", *flags, "--quiet", "--json"]) == 0
    whole = xr.load_dataset(json.loads(capsys.readouterr().out)["file"], engine="h5netcdf")
    assert 0.3 * whole.sizes["time"] < part.sizes["time"] < 0.4 * whole.sizes["time"]
    for name in ("overlap", "norm2", "loss"):
        xr.testing.assert_identical(part[name], whole[name].isel(time=slice(part.sizes["time"])))


def test_a_flow_that_its_integrator_gives_up_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dynamics.additive import gradient_flow as module

    segment = module.segment

    def tired(*given: Any, **more: Any) -> Any:
        found = segment(*given, **more)
        return found._replace(good=found.time < 5.0)

    monkeypatch.setattr(module, "segment", tired)
    flags = [*SMALL, "--time", "20", "--out", str(tmp_path), "--quiet"]
    assert main(["simulate", "gradient-flow", *flags]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    found = re.search(
        r"stopped at time 5 of 20: \d+ steps did not suffice; end before, or raise rtol; at time (.*) of 20: ", said
    )
    assert found is not None, said
    data = xr.load_dataset(said.split(" kept in ")[1], engine="h5netcdf")
    assert float(found[1]) == pytest.approx(data.time.values[-1])
    assert data.time.values[-1] < 5.0
    assert os.listdir(tmp_path) == [Path(said.split(" kept in ")[1]).name]


@pytest.mark.slow_for("flags2-online SGD-in SGD, at")
@pytest.mark.parametrize(
    ("flags", "at", "there"),
    [
        (SMALL, "gradient flow", "in gradient flow, at time"),
        ([*SMALL, "--steps", "4000", "--replicas", "2"], "online SGD", "in SGD, at step"),
        (["--activation", "quadratic", *SMALL[2:], "--steps", "4000", "--replicas", "2"], "online SGD", "in SGD, at"),
        (["--model", "linear", *LINEAR, "--steps", "400"], "label-noise", "in the first run, at step"),
    ],
)
def test_compare_keeps_its_finished_parts_and_judges_nothing(
    flags: list[str], at: str, there: str, stopped: Callable[..., str]
) -> None:
    said = stopped("compare", *flags, at=at, share=0.05)
    assert f"interrupted: {there}" in said
    path = Path(said.split(" kept in ")[1])
    assert path.name.endswith(".unfinished.html")
    page = path.read_text(encoding="utf-8")
    assert "nothing is judged" in page
    assert "disagrees" not in page
    assert os.listdir("emergence-out") == [path.name]


def test_commands_say_what_there_is_when_nothing_or_everything_is_kept(
    stopped: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import theory

    sweep = ["sweep", "predict", *SMALL, "--over", "seed=0:4", "--workers", "1"]
    assert "the cells so far are kept in emergence-out/sweep: the same command goes on" in stopped(*sweep)
    assert len(list(Path("emergence-out/sweep").glob("predict-*.nc"))) >= 1
    assert stopped("merge", "emergence-out/sweep", share=0.0).endswith("interrupted: nothing was written")

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(theory.Activation, "parse", press)
    for argv in (["predict"], ["derive", "loss"], ["compare"], ["simulate", "gradient-flow"]):
        assert stopped(*argv) == "emergence: interrupted: nothing was written"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "word"),
    [
        pytest.param(
            ["simulate", "gradient-flow", "--dim", "4096", "--teacher-width", "48", "--student-width", "192"],
            "flow: time",
            marks=pytest.mark.slow,
        ),
        (["compare", *SMALL, "--step-size", "1e-5", "--time", "60"], "online SGD: step"),
    ],
)
def test_a_real_ctrl_c(argv: list[str], word: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "emergence", *argv, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            process.send_signal(signal.SIGINT)
            break
    said = process.stderr.read().splitlines()[-1]
    assert process.wait(timeout=60) == 130
    kept = Path(said.split(" kept in ")[1])
    assert kept.parent == tmp_path
    assert kept.stat().st_size > 1000


@pytest.mark.slow
def test_a_long_run_answers_sigterm_at_once(tmp_path: Path) -> None:
    """17 hours of work, 300 seconds of a processor from save to save; batch systems kill half a minute after it."""
    flags = ["--activation", "h3", "--dim", "256", "--student-width", "8", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "emergence", "simulate", "online-sgd", *flags], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert any("SGD: step" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1].splitlines()[-1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    kept = Path(said.split(" kept in ")[1])
    assert kept.name.endswith(".unfinished.nc")
    assert xr.load_dataset(kept, engine="h5netcdf").attrs["interrupted"].startswith("at step 0 of 1")
