"""Experiments with networks on the command line, and claims that need an extra."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr

import validation.judge.runner
from emergence.cli import main
from theory import InputError

LAZY = ["simulate", "lazy-rich", "--images", "6", "--hidden", "8", "--steps", "20", "--replicas", "2", "--quiet"]
NET = ["--epochs", "1", "--batch", "128", "--widths", "2", "3", "--replicas", "2", "--quiet"]


def test_lazy_rich_writes_its_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text("images = 5\nreplicas = 9\n")
    assert main([*LAZY, "--config", str(tmp_path / "p.toml"), "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["variables"]["loss_train"] == ["replica", "arm", "model", "time"]
    assert document["problem"]["images"] == 6
    data = xr.load_dataset(document["file"])
    assert dict(data.sizes) == {"replica": 2, "arm": 2, "model": 2, "time": 21}


def test_pruning_reuses_what_was_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "label-noise-network", *NET, "--out", str(tmp_path)]) == 0
    (checkpoints,) = tmp_path.glob("checkpoints-*")
    files = sorted(checkpoints.iterdir())
    before = [file.read_bytes() for file in files]
    assert [file.name for file in files][:2] == ["label-noise-0.1-0.npz", "label-noise-0.1-1.npz"]
    assert main(["simulate", "pruning", *NET, "--resume", "--json", "--out", str(tmp_path)]) == 0
    assert [file.read_bytes() for file in files] == before
    assert json.loads(capsys.readouterr().out.split("nc\n", 1)[-1])["what"] == "pruning"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["lazy-rich", "--epochs", "3"], "--epochs is given, but simulate lazy-rich does not use it"),
        (["lazy-rich", "--activation", "h4"], "--activation is given"),
        (["pruning", "--hidden", "3"], "--hidden is given"),
        (["online-sgd", "--hidden", "3"], "--hidden is given, but simulate online-sgd"),
        (["lazy-rich", "--flip-probability", "0.1", "0.2"], "lazy-rich takes one"),
        (["lazy-rich", "--flip-probability", "1.5"], "flip probability is 1.5"),
        (["pruning", "--widths", "2.5"], "--widths is 2.5"),
        (["lazy-rich", "--data", "nowhere"], "'nowhere', which is no folder"),
    ],
)
def test_bad_options_cost_one_line(
    argv: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *argv, "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("emergence: error: ")
    assert named in captured.err
    assert captured.err.count("\n") == 1


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation.judge.runner, "_installed", lambda package: False)


def test_claims_without_their_extra(without_extra: None) -> None:
    runnable: Callable = validation.judge.runner._runnable
    claims = validation.judge.runner.select_claims(None)
    with pytest.warns(UserWarning, match=r"left out L23, L23-printed, L24, L25: scikit-learn is not installed"):
        kept = runnable(claims, named=False)
    assert [claim.id for claim in claims if claim not in kept] == ["L23", "L23-printed", "L24", "L25"]
    with pytest.raises(InputError, match=r"claim L24: scikit-learn is not installed: \S+ -m pip install scikit-learn"):
        validation.judge.runner.validate(["L24"])
