"""Figures from the command line and from Python: drawn from what is stored, in a paper's width, refused in one line."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.text import Text

from dynamics.core.trajectory import dataset
from emergence import plot
from theory import InputError
from validation.judge.claim import Claim, Measurement, Outcome
from validation.judge.storage import claim_tree

SMALL = ["--dim", "64", "--teacher-width", "2", "--student-width", "3", "--quiet"]


def _claim_file(path: Path) -> Path:
    claim = Claim(
        id="X1",
        title="t",
        statement="s",
        latex="x",
        source="derived",
        kind="exact",
        regime="r",
        controls=("c",),
        runner=lambda context: Outcome([]),
    )
    measurement = Measurement("q", 1.0, 1.0, 0.1, 0.0, {"c": 9.0}, "none")
    first, second = (plot.common.mean_paths([0, 1], np.ones((2, 2)), {"law": [0, end]}, {}, "y") for end in (1, 2))
    own = xr.Dataset({"size": ("time", [1.0, 2.0, 4.0])}, {"time": [0.0, 1.0, 2.0]})
    outcome = Outcome([measurement], own, [("first", first), ("second", second)])
    claim_tree(claim, outcome, [claim.judge(measurement)], {}).to_netcdf(path, engine="h5netcdf")
    return path


def _run_file(path: Path, engine: str = "h5netcdf") -> Path:
    overlap = np.linspace(0, 1, 16).reshape(4, 2, 2)
    dataset(np.arange(4.0), overlap, np.ones((4, 2)), np.ones(4)).to_netcdf(path, engine=engine)
    return path


def _law(figure: Figure) -> float:
    return next(line.get_ydata()[-1] for line in figure.axes[0].lines if line.get_label() == "law")


def test_legends_take_no_room_from_the_axes_beside_them() -> None:
    """Two panels whose names stand above them, first drawn with legends at their side."""
    waves = 1e-3 * np.sin(np.arange(40.0)[:, None, None] * np.arange(1, 7).reshape(3, 2))
    named = {"student_width": [4, 6, 8], "direction": [1, 2]}
    over, dims = np.arange(40.0) / 100, ("time", "student_width", "direction")
    data = xr.Dataset({"loss": (dims[:2], waves[..., 0]), "share": (dims, waves)}, {"time": over, **named})
    figure = plot.paper(plot.dataset(data))
    figure.draw_without_rendering()
    assert min(ax.get_position().width for ax in figure.axes) > 0.6
    labels = [text.get_window_extent() for text in figure.axes[-1].get_xticklabels() if text.get_text()]
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(labels))


def test_a_claim_s_figures_are_drawn_again(tmp_path: Path) -> None:
    path = _claim_file(tmp_path / "X1.nc")
    assert [_law(plot.file(path, number=number)) for number in (None, 1, 2)] == [1, 1, 2]
    (line,) = plot.file(path, "size").axes[0].lines  # its own dataset
    np.testing.assert_array_equal(line.get_ydata(), [1, 2, 4])
    with pytest.raises(InputError, match=r"number is 3: .* holds 2 figures"):
        plot.file(path, number=3)


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_a_run_s_file_is_drawn(tmp_path: Path, engine: str) -> None:
    figure = plot.file(_run_file(tmp_path / "run.nc", engine), "loss", "norm2")
    assert [ax.get_ylabel().split()[0] for ax in figure.axes] == ["population", "squared"]


@pytest.mark.parametrize("width", ["column", "text", 5.0])
def test_a_figure_fits_a_paper(width: str | float) -> None:
    drawn = plot.common.overlap_curves([0, 1, 2], np.ones((3, 6)), np.ones(6), [f"direction {p}" for p in range(6)])
    figure = plot.paper(drawn, width)
    figure.draw_without_rendering()
    inches = plot.WIDTHS.get(width, width) if isinstance(width, str) else width
    assert figure.get_figwidth() == inches
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    sizes = [text.get_fontsize() for text in texts]
    assert min(sizes) >= 6.5  # readable where the page has 10 points
    assert max(sizes) <= 10
    box = figure.get_tightbbox()
    assert box.x0 > -0.05
    assert box.x1 < inches + 0.05
    assert figure.axes[0].get_position().height * figure.get_figheight() > 0.3 * inches  # the legend takes none of it
    before, height = sizes[0], figure.get_figheight()
    again = plot.paper(figure, width)
    assert again.get_figheight() == pytest.approx(height)
    assert next(text.get_fontsize() for text in again.findobj(Text) if text.get_text()) == pytest.approx(before)


def test_a_width_that_is_none_is_refused() -> None:
    for wrong in ("wide", 0, float("nan")):
        with pytest.raises(InputError, match="width is"):
            plot.paper(Figure(), wrong)


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, kind: str) -> None:
    figure = plot.linear.curves([0, 1], [[1, 2]], ["a"], "d^2")
    first, second = (plot.save(figure, tmp_path / f"{name}.{kind}").read_bytes() for name in "ab")
    assert first == second
    if kind == "pdf":  # letters that journals take
        assert b"/Type3" not in first
        assert b"/FontFile2" in first
    with pytest.raises(InputError, match=r"end the name with \.pdf"):
        plot.save(figure, tmp_path / "a.gif")


def test_the_figures_of_the_report_are_public() -> None:
    for name in plot.__all__:
        assert getattr(plot, name) is not None
    assert plot.scaling.floors.__doc__


def test_plot_writes_one_file(run: Callable, tmp_path: Path) -> None:
    path = _run_file(tmp_path / "run.nc")
    code, document, _ = run("plot", str(path), "-o", "new/f.pdf", "--variables", "loss", "--width", "text")
    assert (code, document) == (0, {"file": str(path), "figure": "new/f.pdf"})
    assert Path("new/f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["none.nc", "-o", "f.pdf"], "No such file"),
        (["text.nc", "-o", "f.pdf"], "no netCDF file that can be read"),
        (["half.nc", "-o", "f.pdf"], "no netCDF file that can be read"),
        (["pipe", "-o", "f.pdf"], "no regular file"),
        (["run.nc", "-o", "f.gif"], "-o is 'f.gif': end the name with .pdf"),
        (["run.nc", "-o", "text.nc/f.pdf"], "is not a folder"),
        (["run.nc"], "-o is not given"),
        (["run.nc", "-o", "f.pdf", "--variables", "los"], "did you mean loss"),
        (["run.nc", "-o", "f.pdf", "--over", "tim"], "did you mean time"),
        (["run.nc", "-o", "f.pdf", "--width", "0"], "width is 0"),
        (["run.nc", "-o", "f.pdf", "--number", "1"], "holds 0 figures"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(run: Callable, tmp_path: Path, arguments: list[str], named: str) -> None:
    content = _run_file(Path("run.nc")).read_bytes()
    Path("text.nc").write_text("no data")
    Path("half.nc").write_bytes(content[: len(content) // 2])
    os.mkfifo("pipe")
    code, _, err = run("plot", *arguments)
    assert code == 2
    assert named in err
    assert len(err.splitlines()) == 1
    assert not Path("f.pdf").exists()


def test_figure_of_a_prediction_a_run_and_a_sweep(run: Callable) -> None:
    code, document, _ = run("predict", *SMALL, "--figure", "p.svg")
    assert (code, document["figure"]) == (0, "p.svg")
    assert Path("p.svg").read_bytes().lstrip().startswith(b"<?xml")
    over = ["--over", "student-width=3,4", "--over", "seed=0:2", "--workers", "1"]
    small = [*SMALL[:4], "--quiet"]
    code, document, _ = run("sweep", "predict", *small, *over, "--figure", "w.pdf")
    assert (code, document["figure"]) == (0, "w.pdf")
    code, document, _ = run("simulate", "gradient-flow", *SMALL, "--time", "1", "--figure", "new/s.png")
    assert (code, document["figure"]) == (0, "new/s.png")
    assert Path("new/s.png").read_bytes().startswith(b"\x89PNG")


def test_an_answer_without_anything_to_draw_is_an_answer(run: Callable) -> None:
    one = ["--dim", "64", "--teacher-width", "1", "--student-width", "3", "--quiet"]
    plain = run("predict", *one)
    code, document, err = run("predict", *one, "--figure", "p.svg")
    assert (code, document) == plain[:2] == (0, document)
    assert err.startswith("emergence: warning: no figure is drawn: the data have no dimension of two points or more")
    assert not Path("p.svg").exists()


@pytest.mark.parametrize("asked", ["predict", "simulate gradient-flow", "compare", "sweep predict"])
def test_a_figure_that_could_not_be_written_is_refused_before_anything_runs(run: Callable, asked: str) -> None:
    over = ["--over", "seed=0:2"] if "sweep" in asked else []
    code, _, err = run(*asked.split(), *SMALL, *over, "--figure", "f.gif")
    assert code == 2
    assert err.strip() == "emergence: error: --figure is 'f.gif': end the name with .pdf, .svg, .png, .eps"
    assert not list(Path().iterdir())
