"""A claim's file says all that was judged, how it was made, and holds the data of its figures."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from dynamics.core.storage import write_dataset
from theory import InputError
from validation import Context, stored, validate
from validation.figures.common import overlap_curves
from validation.judge import runner
from validation.judge.claim import Claim, Control, Measurement, Outcome, share_used, standard_score
from validation.judge.storage import claim_tree

TIME = np.linspace(0.0, 1.0, 5)


def _figure() -> Figure:
    return overlap_curves(TIME, TIME[:, None] ** [1, 2], [0.5, 0.7], ["1", "2"])


def _claim(name: str = "E1", figures: int = 2, dataset: xr.Dataset | None = None) -> Claim:
    outcome = Outcome(
        [
            Measurement("a ratio", 1.0, 1.1, 0.05, 0.0, {"far": 3.0, "own data": Control(1.0, 5.0, 0.1)}, "", "a"),
            Measurement("an exact time", 2.0, 2.01, 0.0, 0.04, {"near": 2.02}, "the step size", "b", {"n": 3}),
        ],
        dataset,
        [("What is seen.", _figure()) for _ in range(figures)],
    )
    texts = {"title": "t", "statement": "s.", "latex": "x", "source": "derived", "regime": "always"}
    controls = ("far", "own data", "near")
    return Claim(id=name, kind="exact", controls=controls, runner=lambda _: outcome, **texts)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.DataTree:
    own = xr.Dataset({"loss": ("time", TIME)}, {"time": TIME})
    monkeypatch.setattr(runner, "catalogue", lambda: [_claim(dataset=own)])
    run = validate(out=tmp_path, seed=7)
    return xr.open_datatree(run.files["E1"], engine="h5netcdf").load()


def test_verdicts_and_controls_are_variables(tree: xr.DataTree) -> None:
    data = tree.to_dataset()
    assert data["quantity"].values.tolist() == ["E1.a", "E1.b"]
    first = data.sel(quantity="E1.a")
    assert (first.description, first.verdict, first.expected) == ("a ratio", "agrees", "agrees")
    np.testing.assert_allclose([first.predicted, first.estimate, first.stderr, first.allowance], [1.0, 1.1, 0.05, 0.0])
    np.testing.assert_allclose([first.used, first.z], [0.5, 2.0])
    second = data.sel(quantity="E1.b")
    assert (second.verdict, second.allowance_from) == ("inconclusive", "the step size")
    assert math.isnan(second.z)
    assert json.loads(second.details.item()) == {"n": 3}
    assert data["control"].values.tolist() == ["far", "own data", "near"]
    assert data.control_of.values.tolist() == ["E1.a", "E1.a", "E1.b"]
    np.testing.assert_allclose(data.control_used, [1.9 / 0.2, 4 / 0.4, 0.01 / 0.04])
    np.testing.assert_allclose(data.control_z, [-38.0, 40.0, np.nan])
    assert data.control_rejected.values.tolist() == [True, True, False]


def test_the_file_says_how_it_was_made(tree: xr.DataTree) -> None:
    assert (tree.attrs["claim"], tree.attrs["seed"], tree.attrs["preset"]) == ("E1", 7, "quick")
    assert {"emergence_version", "commit", "command", "date", "machine", "python", "libraries"} <= set(tree.attrs)


def test_figures_and_the_runners_own_dataset_are_groups(tree: xr.DataTree) -> None:
    assert set(tree.children) == {"figure1", "figure2", "data"}
    np.testing.assert_array_equal(tree["data"].loss, TIME)
    figure = tree["figure2"].to_dataset()
    assert figure.attrs["caption"] == "What is seen."
    np.testing.assert_allclose(figure.squared_overlap.sel(curve="2"), TIME**2)


def test_the_same_seed_gives_the_same_file_but_for_its_making(tmp_path: Path) -> None:
    claim = _claim()
    verdicts = [claim.judge(x) for x in claim.run(Context()).measurements]
    files = [claim_tree(claim, claim.run(Context()), verdicts, {"date": date}) for date in ("1", "1", "2")]
    first, again, later = (write_dataset(tmp_path / f"{n}.nc", file).read_bytes() for n, file in enumerate(files))
    assert first == again
    assert first != later


def test_a_dataset_that_would_clash_with_the_verdicts_is_refused() -> None:
    claim = _claim(dataset=xr.Dataset({"loss": ("quantity", TIME)}))
    with pytest.raises(InputError, match="claim E1: its dataset has the dimension 'quantity'"):
        claim_tree(claim, claim.run(Context()), [], {})


def test_a_figure_without_data_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = _claim(figures=1)
    outcome = claim.run(Context())
    write_dataset(tmp_path / "E1.nc", claim_tree(claim, outcome, [], {}))
    xr.Dataset().to_netcdf(tmp_path / "simulation.nc", engine="h5netcdf")
    assert stored.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 claims, 1 figures, 0 without data\n"
    outcome.figures.append(("nothing on it", Figure()))
    write_dataset(tmp_path / "E1.nc", claim_tree(claim, outcome, [], {}))
    assert stored.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "E1: figure2 has no data\n1 claims, 2 figures, 1 without data\n"
    assert stored.main([str(tmp_path / "none")]) == 2
    assert "holds no file of a claim: run `emergence validate` first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("numbers", "used", "z"),
    [
        ((1.1, 1.0, 0.0, 0.05), 0.5, 2.0),
        ((0.7, 1.0, 0.1, 0.05), 1.0, -4.0),  # the edge of the rule is at |z| = 4, whatever the allowance
        ((1.05, 1.0, 0.1, 0.05), 1 / 6, 0.0),
        ((1.05, 1.0, 0.1, 0.0), 0.5, math.nan),
        ((1.0, 1.0, 0.0, 0.0), 0.0, math.nan),
        ((1.1, 1.0, 0.0, 0.0), math.inf, math.nan),
        ((math.nan, 1.0, 0.1, 0.1), math.nan, math.nan),
        ((math.inf, 1.0, 0.1, 0.0), math.nan, math.nan),
    ],
)
def test_the_share_used_and_z(numbers: tuple[float, float, float, float], used: float, z: float) -> None:
    np.testing.assert_allclose(share_used(*numbers), used)
    np.testing.assert_allclose(standard_score(*numbers), z)


def test_beside_agrees_the_share_is_at_most_one_and_z_at_most_four() -> None:
    rng, claim = np.random.default_rng(0), _claim(figures=0)
    for estimate, allowance, stderr in rng.exponential([[2.0, 1.0, 0.3]], (200, 3)):
        verdict = claim.judge(Measurement("x", 0.0, estimate, stderr, allowance, {"far": 1e9}, ""))
        assert (verdict.verdict == "agrees") == (verdict.used <= 1) == (abs(verdict.z) <= 4)


@pytest.mark.parametrize(
    ("predicted", "stderr", "title"),
    [
        (1.0, 0.05, "x"),
        (-1.0, 0.0501, "x (notices errors above 20 % only)"),
        (0.5, 0.1, "x (notices errors above 80 % only)"),
        (0.0, 0.1, "x"),
        (math.nan, 0.1, "x"),
    ],
)
def test_a_quantity_that_notices_large_errors_only_says_so(predicted: float, stderr: float, title: str) -> None:
    assert Measurement("x", predicted, 1.0, stderr, 0.0, {"far": 9.0}, "").title == title
