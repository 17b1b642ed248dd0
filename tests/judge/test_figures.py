"""The figures show what they say: curves, positions, bands and names."""

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle

from theory import InputError
from validation.figures import common as figures
from validation.figures import quadratic, scaling
from validation.figures.data import figure_data
from validation.figures.plot import Plot


def _verticals(ax):
    return [
        line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--" and len(set(line.get_xdata())) == 1
    ]


def _names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def _curves(directions=3):
    time = np.linspace(0, 10, 50)
    centres = 2.0 + 2.0 * np.arange(directions)
    return time, 1 / (1 + np.exp(-4 * (time[:, None] - centres))), centres


def test_overlap_curves_draws_each_direction_with_its_predicted_time():
    time, overlap2, centres = _curves()
    figure = figures.overlap_curves(time, overlap2, [centres[0], np.nan, centres[2]], ["a", "b", "c"])
    (ax,) = figure.axes
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(solid) == 3
    np.testing.assert_array_equal(solid[1].get_ydata(), overlap2[:, 1])
    assert _verticals(ax) == [centres[0], centres[2]]  # a direction that is not learned has no line
    assert [v.get_color() for v in ax.lines if v.get_linestyle() == "--"] == [
        solid[0].get_color(),
        solid[2].get_color(),
    ]
    assert _names(ax) == ["a", "b", "c"]


def test_overlap_curves_marks_measured_half_times_and_drops_time_zero_on_a_log_axis():
    time, overlap2, centres = _curves()
    ax = figures.overlap_curves(time, overlap2, centres, "abc", half_times=[2.1, np.inf, 6.2], log_time=True).axes[0]
    (marks,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    np.testing.assert_allclose(marks.get_offsets(), [[2.1, 0.5], [6.2, 0.5]])
    assert ax.get_xscale() == "log"
    assert ax.lines[0].get_xdata()[0] == time[1]


def test_overlap_curves_names_a_few_of_many_directions():
    time, overlap2, centres = _curves(40)
    ax = figures.overlap_curves(time, overlap2, centres, [str(p) for p in range(40)]).axes[0]
    assert len(ax.lines) == 80
    assert len(_names(ax)) == 8
    assert {"0", "39"} <= set(_names(ax))


def test_overlap_curves_refuses_transposed_overlaps():
    time, overlap2, centres = _curves()
    with pytest.raises(InputError, match=r"overlap2: shape \(3, 50\), but \(50, 3\)"):
        figures.overlap_curves(time, overlap2.T, centres, "abc")


def test_staircase_steps_down_at_the_jumps_and_runs_to_the_end_of_the_data():
    time = np.linspace(0, 9, 10)
    replicas = np.vstack([np.full(10, value) for value in np.linspace(0.0, 1.0, 21)])
    ax = figures.staircase(time, np.ones(10), [0, 3, 5], [0.5, 0.2, 0.1], replicas, log=False).axes[0]
    step = next(line for line in ax.lines if line.get_label() == "idealised")
    assert step.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(step.get_xdata(), [0, 3, 5, 9])
    np.testing.assert_array_equal(step.get_ydata(), [0.5, 0.2, 0.1, 0.1])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(0.05)
    assert band.max() == pytest.approx(0.95)
    assert "5–95 % of 21 runs" in _names(ax)


def test_staircase_on_log_axes_starts_at_the_first_positive_time():
    time = np.array([0.0, 0.1, 1.0, 10.0])
    ax = figures.staircase(time, [0.5, 0.5, 0.4, 0.1], [0, 1], [0.5, 0.1]).axes[0]
    step = next(line for line in ax.lines if line.get_label() == "idealised")
    np.testing.assert_array_equal(step.get_xdata(), [0.1, 1, 10])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_score_matrix_outlines_the_selected_diagonal_on_a_log_scale():
    scores = np.array([[8.0, 2.0, 1.0], [4.0, 5.0, 0.0], [1.0, 0.5, 0.25], [1.0, 0.5, 0.125]])
    ax = figures.score_matrix(scores, 2).axes[0]
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [box.get_xy() for box in boxes] == [(0.5, 0.5), (1.5, 1.5)]
    (image,) = ax.images
    assert (image.norm.vmin, image.norm.vmax) == (0.125, 8.0)
    assert image.get_array().mask[1, 2]  # a score of 0 is blank, not the smallest colour
    assert ax.get_ylim() == (4.5, 0.5)  # the first pair learned stands top left
    with pytest.raises(InputError, match="n_selected: 4"):
        figures.score_matrix(scores, 4)
    with pytest.raises(InputError, match="no score is positive"):
        figures.score_matrix(np.zeros((2, 2)), 1)


def test_recovery_histogram_counts_every_run_and_tells_of_the_lost_ones():
    samples = np.array([1.0, 2.0, 2.5, 3.0, 4.0, np.inf])
    ax = figures.recovery_histogram(samples, 2.4, 0.7, "steps").axes[0]
    *bars, band = ax.patches
    assert sum(bar.get_height() for bar in bars) == 5
    assert (band.get_x(), band.get_width()) == pytest.approx((1.7, 1.4))
    assert _verticals(ax) == [2.4]
    assert ax.lines[0].get_xdata()[0] == pytest.approx(2.5)
    assert "5 runs (1 more never recovered)" in _names(ax)
    assert ax.get_xlabel() == "steps"
    with pytest.raises(InputError, match="run longer"):
        figures.recovery_histogram([np.inf], 1.0, 1.0, "steps")


def test_drawing_changes_no_global_setting():
    before = dict(matplotlib.rcParams)
    time, overlap2, centres = _curves()
    figures.overlap_curves(time, overlap2, centres, "abc")
    assert dict(matplotlib.rcParams) == before


def test_a_curve_needs_as_many_values_as_abscissae():
    plot = Plot("x", "y")
    for draw in (plot.curve, plot.theory, plot.limit, plot.points):
        with pytest.raises(InputError, match=r"gap: shape \(2,\), but \(3,\)"):
            draw([1, 2, 3], [1, 2], "gap", "black")


@pytest.mark.parametrize(
    ("end", "labels"), [(3, None), (50, ["1", "2", "5", "10", "20", "50"]), (1e6, []), (1e-4, None)]
)
def test_labels_of_logarithmic_axes_do_not_overlap(end, labels):
    """Plain numbers below two decades, powers of ten beyond; a span too short for either is left to matplotlib."""
    plot = Plot("x", "y", "x")
    plot.curve([min(end, 1.0) / (1 if end > 1 else 8), end], [0, 1], "one", "black")
    figure = plot.done()
    figure.draw_without_rendering()
    (low, high), axis = plot.ax.get_xlim(), plot.ax.xaxis
    shown = [label.get_text() for label in axis.get_ticklabels() if low <= label.get_position()[0] <= high]
    minor = [label.get_text() for label in axis.get_ticklabels(minor=True) if label.get_text()]
    if labels:
        assert shown == labels
    if labels is not None or end < 1:
        assert minor == []
    else:
        assert minor


def test_shares_count_runs_that_never_arrive():
    plot = Plot("time", "share")
    plot.shares(np.array([3.0, np.inf, 1.0, np.nan]), "some", "black", end=9.0)
    (line,) = plot.ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 3, 9])
    np.testing.assert_array_equal(line.get_ydata(), [0, 0.25, 0.5, 0.5])


def test_the_mean_of_runs_is_drawn_with_the_range_they_span():
    plot, runs = Plot("step", "loss"), np.array([[1.0, 2.0], [3.0, 8.0]])
    plot.runs(np.array([0.0, 1.0]), runs, "loss", "black", "every", step=np.array([0.0, 1.0]))
    data = figure_data(plot.done())
    np.testing.assert_array_equal(data.loss.sel(curve="loss"), [2.0, 5.0])
    np.testing.assert_array_equal(data.loss_high.sel(curve="loss, lowest to highest run"), [3.0, 8.0])
    np.testing.assert_array_equal(data.every, runs)


def test_labels_say_formulas_not_variables():
    plot = Plot("time / (unit · P^β)", "‖W‖²_F")
    plot.curve([1, 2], [1, 2], "η d^(3/2) = 1e-05", "black")
    figure = plot.done((":", "slope -0.5"))
    assert (plot.ax.get_xlabel(), plot.ax.get_ylabel()) == ("time / (unit · $P^{β}$)", r"$\|W\|_F^2$")
    assert _names(plot.ax) == ["η $d^{3/2}$ = $10^{-5}$", "slope −0.5"]
    figure.draw_without_rendering()  # matplotlib refuses a formula that it cannot set
    assert list(figure_data(figure).data_vars) == ["W_F_2"]
    assert figure_data(figure).curve == ["η d^(3/2) = 1e-05"]  # data are found by the plain name


def test_ticks_that_a_figure_sets_have_no_others_between():
    widths = np.array([16.0, 32.0, 48.0])
    figure = scaling.floors([(1.0, widths, 1 / widths, 1 / widths, 1 / widths)])
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    assert [label.get_text() for label in axis.get_ticklabels(which="both") if label.get_text()] == ["16", "32", "48"]


def test_maps_stand_three_abreast():
    figure = quadratic.overlap_maps(np.ones((5, 4, 4)), list("abcde"))
    assert [ax.get_title() for ax in figure.axes if ax.get_label() != "<colorbar>"] == list("abcde")
    assert figure.get_size_inches()[0] < 8
