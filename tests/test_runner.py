"""Running claims: order, files, interruption, bad input."""

from pathlib import Path

import pytest
import xarray as xr

from theory import InputError
from validation import Context, Outcome, runner, validate
from validation.catalogue import claims
from validation.claim import Claim, Control, Measurement


def _claim(name: str, measured: float = 1.0) -> Claim:
    def run(context: Context) -> Outcome:
        if measured < 0:
            raise KeyboardInterrupt
        return Outcome([Measurement("x", 1.0, measured, 0.1, 0.0, [Control("wrong", 3.0)], "exact")])

    return Claim(name, "title", "statement", "x", "derived", "exact", "always", ("wrong",), run)


def test_each_claim_leaves_its_dataset_and_all_leave_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "claims", lambda: [_claim("E1"), _claim("E2", 2.0)])
    run = validate(out=tmp_path)
    assert [verdict.verdict for verdict in run.verdicts] == ["agrees", "disagrees"]
    assert not run.as_expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["E1.nc", "E2.nc", "report.html"]
    assert float(xr.load_dataset(tmp_path / "E2.nc", engine="h5netcdf")["estimate"][0]) == 2.0


def test_an_interrupted_run_keeps_and_reports_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "claims", lambda: [_claim("E1"), _claim("E2", -1.0), _claim("E3")])
    with pytest.raises(KeyboardInterrupt):
        validate(out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["E1.nc", "report.html"]


@pytest.mark.parametrize("bad", [{"ids": ["E99"]}, {"preset": "huge"}])
def test_bad_input_is_refused_before_anything_runs(bad: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        validate(**bad, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_claim_names_its_controls_and_its_source() -> None:
    for claim in claims():
        assert claim.controls
        assert claim.source
        assert claim.statement.endswith(".")
