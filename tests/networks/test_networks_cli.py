"""Experiments with networks on the command line, and claims that need an extra."""

from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr

import validation.judge.runner
from theory import InputError

LAZY = ["simulate", "lazy-rich", "--images", "6", "--hidden", "8", "--steps", "20", "--replicas", "2", "--quiet"]
NET = ["--epochs", "1", "--batch", "128", "--widths", "2", "3", "--replicas", "2", "--quiet"]


def test_lazy_rich_writes_its_dataset(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("images = 5\nreplicas = 9\n")
    code, document, _ = run(*LAZY, "--config", "p.toml")
    assert code == 0
    assert document["variables"]["loss_train"] == ["replica", "arm", "model", "time"]
    assert document["problem"]["images"] == 6
    data = xr.load_dataset(document["file"])
    assert dict(data.sizes) == {"replica": 2, "arm": 2, "model": 2, "time": 21}


def test_lazy_rich_says_how_well_runs_know_what_is_expected(run: Callable) -> None:
    """Beside an expectation that is exact for each start: of what flips leave, over replicas."""
    arms = {row["arm"]: row for row in run(*LAZY)[1]["table"]}
    data = xr.load_dataset(run(*LAZY)[1]["file"]).isel(time=-1).sel(arm="label-noise")
    off = (data.loss_train.sel(model="linearised") - data.expected_loss).values
    assert arms["label-noise"]["±"] == pytest.approx(abs(off[0] - off[1]) / 2)
    assert arms["clean"]["±"] is None
    assert abs(off.mean()) < 20 * arms["label-noise"]["±"]


@pytest.mark.slow
def test_pruning_reuses_what_was_trained(run: Callable, tmp_path: Path) -> None:
    assert run("simulate", "label-noise-network", *NET)[0] == 0
    (checkpoints,) = (tmp_path / "emergence-out").glob("checkpoints-*")
    files = sorted(checkpoints.iterdir())
    before = [file.read_bytes() for file in files]
    assert [file.name for file in files][:2] == ["label-noise-0.1-0.npz", "label-noise-0.1-1.npz"]
    code, document, _ = run("simulate", "pruning", *NET, "--resume")
    assert (code, document["what"]) == (0, "pruning")
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["lazy-rich", "--epochs", "3"], "--epochs is given, but simulate lazy-rich does not use it"),
        (["lazy-rich", "--activation", "h4"], "--activation is given"),
        (["pruning", "--hidden", "3"], "--hidden is given"),
        (["online-sgd", "--hidden", "3"], "--hidden is given, but simulate online-sgd"),
        (["lazy-rich", "--flip-probability", "0.1", "0.2"], "unrecognized arguments: 0.2"),
        (["lazy-rich", "--flip-probability", "1.5"], "--flip-probability is 1.5: give"),
        (["pruning", "--widths", "8"], "--widths holds one stage, which pruning leaves as it is: give two or more"),
        (["pruning", "--widths", "2.5"], "--widths is ['2.5']"),
        (["lazy-rich", "--data", "nowhere"], "'nowhere', which is no folder"),
    ],
)
def test_bad_options_cost_one_line(argv: list[str], named: str, refused: Callable) -> None:
    assert named in refused("simulate", *argv)


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation.judge.runner, "_installed", lambda package: False)


def test_claims_without_their_extra(without_extra: None) -> None:
    runnable: Callable = validation.judge.runner.runnable
    claims = validation.judge.runner.select_claims(None)
    with pytest.warns(UserWarning, match=r"left out L23, L23-printed, L24, L25: scikit-learn is not installed"):
        kept = runnable(claims, named=False)
    assert [claim.id for claim in claims if claim not in kept] == ["L23", "L23-printed", "L24", "L25"]
    with pytest.raises(InputError, match=r"claim L24: scikit-learn is not installed: \S+ -m pip install scikit-learn"):
        validation.judge.runner.validate(["L24"])
