"""The data stored for a figure are those that it shows: whatever is drawn is found again, under a name."""

import importlib
import inspect
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from test_reproduction import PROBLEM, descents, flows

from theory import InputError
from validation import Context, reproduction
from validation.figures.data import figure_data, has_data, keep
from validation.figures.drawn import Curve, panels
from validation.figures.exponents import Series
from validation.figures.redraw import redraw
from validation.figures.stiefel import Curve as StiefelCurve
from validation.judge.runner import select_claims

X = np.array([1.0, 2.0, 4.0, 8.0])
#: Long names that an artist gets only if nobody named it.
KINDS = {"curve", "points", "band", "bars", "box", "vertical", "level", "contour", "colour"}


def _wave(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape)


def _networks() -> xr.Dataset:
    arms, models = ["small", "large"], ["network", "linearised"]
    return xr.Dataset(
        {
            "loss_train": (("arm", "model", "replica", "step"), _wave(2, 2, 3, 4)),
            "test_accuracy": (("arm", "replica", "epoch"), _wave(2, 3, 4)),
            "accuracy_by_share": (("arm", "replica", "kept_by_share"), _wave(2, 3, 4)),
        },
        {"arm": arms, "model": models, "step": X, "epoch": X, "kept_by_share": X / 8},
        {"plateau": 0.5},
    )


Y, PAIR, SERIES = _wave(4), _wave(4, 2), Series("h4", X, _wave(4), _wave(4) / 2, _wave(4) * 2, _wave(4, seed=1))
RISKS = [("N = 2", X, Y, Y / 2, 0.1), ("N = 4", X, Y / 3, Y / 4, 0.05)]
SUMS = [(0.8, X, _wave(3, 4), Y, Y / 2), (1.2, X, _wave(3, 4, seed=1), Y, Y / 3)]
#: One call of every figure of the vocabulary: module → function → arguments.
CALLS = {
    "common": {
        "overlap_curves": ((X, PAIR, [2.0, np.nan], ["a", "b"], [2.1, np.inf]), {}),
        "staircase": ((X, Y, [1.0, 3.0], [0.5, 0.2], _wave(5, 4)), {}),
        "score_matrix": ((np.array([[8.0, 2.0, 1.0], [4.0, 5.0, 0.0]]), 2), {}),
        "recovery_histogram": (([1.0, 2.0, 2.5, 3.0, np.inf], 2.4, 0.7, "steps"), {}),
        "mean_paths": ((X, _wave(5, 4), {"theory": Y}, {"rival": Y / 2}, "squared overlap"), {}),
    },
    "baselines": {
        "coverage": ((Y, Y / 2, Y / 3, 50), {}),
        "toy_curves": (({"k = 2": (X, X / 8), "k = 3": (X, X**2 / 64)},), {}),
        "learning_curves": (({"h2": (X, Y, Y / 9, Y / 2), "h3": (X, Y / 2, Y / 9, Y / 3)},), {}),
        "against_width": ((X, Y, Y / 9, Y / 2), {}),
    },
    "exponents": {
        "power_laws": (([SERIES], "d", "samples"), {}),
        "slopes": (([SERIES], [-1.0], "d"), {}),
        "collapse": ((X, [Y], [Y / 2], ["d = 8"], 0.5), {}),
        "learned_shares": ((X, PAIR.T, PAIR.T / 2, PAIR.T / 9, ["η = 1", "η = 2"]), {}),
    },
    "steps": {
        "recovery_times": ((np.array([1.0, 2.0, np.inf]), np.array([1.5, 2.5]), X, Y, 2.0), {}),
        "recovery_of_directions": ((np.array([[1.0, np.inf], [2.0, 3.0]]), {"SDE": PAIR, "rival": PAIR / 2}, 8.0), {}),
        "stability_map": (
            (X, np.array([8.0, 16.0, 32.0]), _wave(3, 4), Y[:3], [1.0, 2.0], [8, 16], [0.1, 0.9], 0.5),
            {},
        ),
    },
    "linear": {
        "norm_and_alignment": (
            (X, _wave(3, 4), _wave(3, 4, seed=1)),
            {"predicted": (Y, Y / 2), "marks": {"escape": 2.0, "never": np.nan}},
        ),
        "neuron_paths": ((PAIR, PAIR / 2, X), {}),
        "alternating": ((X, Y, Y / 2, 2), {"predicted": Y / 3}),
        "curves": ((X, [Y, Y / 2], ["run", "theory of it"], "loss"), {}),
    },
    "networks": {
        "loss_curves": ((_networks(),), {}),
        "accuracy_curves": ((_networks(),), {}),
        "pruning_curves": ((_networks(),), {}),
    },
    "quadratic": {
        "overlap_maps": ((_wave(2, 3, 3), ["t = 0", "t = 1"]), {}),
        "emergence": ((X, PAIR, PAIR / 2), {}),
        "risk_curves": ((RISKS, (X, Y, "slope")), {}),
        "slopes_over_dim": (([(0.5, [8, 16], [0.1, 0.2], 0.3)],), {}),
        "collapse": (([(2, X, Y), (4, 2 * X, Y / 2)], (X[1:], Y[1:])), {}),
        "frontier": ((("p", [X, 2 * X], [Y, Y / 2], X, Y / 3), [1, 2]), {}),
    },
    "reproduction": {
        "emergence_figure": (lambda: [reproduction.emergence(flows(), PROBLEM)], {}),
        "frontier_figure": (lambda: [reproduction.compute_frontier(descents(), PROBLEM)], {}),
    },
    "scaling": {
        "loss_sums": ((SUMS,), {}),
        "floors": (([(0.8, X, Y, Y / 2, Y / 3)],), {}),
        "frontier": (([1, 2, 4], [X, 2 * X, 4 * X], [Y, Y / 2, Y / 3], X, Y / 4, Y / 5, -0.5), {}),
        "collapse": (([(8, X, Y), (16, 2 * X, Y / 2)], (X, Y / 3)), {}),
        "retuned": ((X, [(0.1, Y), (0.2, Y / 2)], Y / 3, Y / 4), {}),
    },
    "selection": {
        "predicted_and_measured": (
            ({"a": (X, Y), "b": (X, Y / 2)}, {"a": (X, Y, Y / 9)}, "m", "share"),
            {"rivals": {"r": (X, Y / 3)}},
        ),
    },
    "stiefel": {
        "measured_and_theory": (
            ([StiefelCurve("k = 1", X, Y, Y / 9, Y / 2)], "n", "risk"),
            {"limit": ("limit", X, Y / 3)},
        ),
    },
}
CASES = [(module, name) for module, calls in CALLS.items() for name in calls]


@cache
def _pickled(module: str, name: str) -> bytes:
    arguments, options = CALLS[module][name]
    maker = getattr(importlib.import_module(f"validation.figures.{module}"), name)
    return pickle.dumps(maker(*(arguments() if callable(arguments) else arguments), **options))


def _figure(module: str, name: str) -> Figure:
    """As it comes from another process."""
    return pickle.loads(_pickled(module, name))


def _stored_curves(data: xr.Dataset) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(x, y) of every curve of a dataset, read as a person would: by its labels."""
    for name, variable in data.data_vars.items():
        if variable.dims and str(variable.dims[0]).startswith("curve"):
            names, over = variable.dims
            across = (
                next(c for c in data.coords if c != over and data[c].dims == variable.dims) if over == "point" else over
            )
            for number in range(variable.sizes[names]):
                yield data[across].values[number] if over == "point" else data[across].values, data[name].values[number]


def _same(drawn: np.ndarray, stored: np.ndarray) -> bool:
    end = drawn.size
    return bool(np.array_equal(drawn, stored[:end], equal_nan=True) and np.isnan(stored[end:]).all())


def _assert_lines_are_stored(figure: Figure, data: xr.Dataset) -> None:
    stored = list(_stored_curves(data))
    for ax in figure.axes:
        for line in ax.lines if ax.get_label() != "<colorbar>" else ():
            x, y = line.get_xydata().T
            if x.size and line.get_transform() == ax.transData:
                # The caps of an error bar are lines, too: they lie at its ends, which are stored as low and high.
                assert any(_same(x, across) and _same(y, up) for across, up in stored), (line.get_label(), x, y)


def _assert_named(data: xr.Dataset) -> None:
    """Everything drawn has a name of its own."""
    for dim in data.dims:
        kind = str(dim).rstrip("_0123456789")
        if kind in {"curve", "vertical", "level", "box"}:
            names = data[dim].values.tolist()
            assert not KINDS & set(names), names
            if kind != "box":  # the bars of one histogram share a name
                assert len(set(names)) == len(names), names
    for variable in data.data_vars.values():
        assert variable.attrs.get("long_name") not in KINDS | {""}


def test_every_figure_of_the_vocabulary_is_here() -> None:
    for path in (Path(__file__).parents[2] / "validation" / "figures").glob("*.py"):
        if path.stem in {"data", "drawn", "plot", "redraw"}:  # what is read off figures, and what they are made of
            continue
        module = importlib.import_module(f"validation.figures.{path.stem}")
        makers = {
            name
            for name, one in vars(module).items()
            if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
        }
        assert makers == set(CALLS.get(path.stem, {})), path.stem


@pytest.mark.slow_for("reproduction-frontier_figure", "reproduction-emergence_figure")
@pytest.mark.parametrize(("module", "name"), CASES)
def test_the_stored_data_redraw_the_figure(module: str, name: str, tmp_path: Path) -> None:
    figure = _figure(module, name)
    data = figure_data(figure, "A caption.")
    assert has_data(data), data
    data.to_netcdf(tmp_path / "figure.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "figure.nc", engine="h5netcdf") as stored:
        assert stored.attrs == {"caption": "A caption.", "not_stored": ""}
        _assert_lines_are_stored(figure, stored.load())
        _assert_named(stored)


@pytest.mark.parametrize(("module", "name"), CASES)
def test_a_figure_is_drawn_again_from_its_data(module: str, name: str) -> None:
    """Every curve, in its colour, under its name, between the limits and at the ticks that were set; a second vertical axis
    becomes axes of its own."""
    figure = _figure(module, name)
    again = redraw(figure_data(figure))

    def curves(one: Figure) -> list[Curve]:
        return sorted(
            (x for panel in panels(one) for x in panel.curves), key=lambda x: (x.name, x.style, x.x.tobytes())
        )

    before, after = curves(figure), curves(again)
    assert [x.name for x in after] == [x.name for x in before]
    for old, new in zip(before, after, strict=True):
        for side in {"", "low", "high"} & old.values.keys():
            shown = np.isfinite(old.x) & np.isfinite(old.values[side])
            kept = np.isfinite(new.x) & np.isfinite(new.values[side])
            np.testing.assert_allclose(new.values[side][kept], old.values[side][shown])
        assert new.look == old.look or not old.look[0]
    assert {panel.xlabel for panel in panels(again)} == {panel.xlabel for panel in panels(figure)}
    assert _set_by_hand(again) == _set_by_hand(figure)


def _set_by_hand(figure: Figure) -> dict[tuple[str, str, str], dict[str, dict[str, str]]]:
    return {(panel.title, panel.xlabel, panel.ylabel): panel.fixed for panel in panels(figure)}


def test_data_of_no_figure_are_refused() -> None:
    with pytest.raises(InputError, match="no curve, no bars and no map"):
        redraw(xr.Dataset({"x": 1.0}))


def test_curves_are_found_by_their_name_over_their_axis() -> None:
    data = figure_data(_figure("common", "overlap_curves"))
    np.testing.assert_array_equal(data.squared_overlap.sel(curve="b"), PAIR[:, 1])
    np.testing.assert_array_equal(data.time, X)
    assert data.time_marked.sel(vertical="a, predicted") == 2.0
    assert (data.time.attrs["long_name"], data.time.attrs["scale"]) == ("time", "linear")


def test_bars_bands_images_and_boxes_are_stored_with_their_ends() -> None:
    points = figure_data(_figure("selection", "predicted_and_measured"))
    share = points.share.sel(curve="a")
    low, high = (points[f"share_{end}"].sel(curve="a") for end in ("low", "high"))
    np.testing.assert_allclose(high - share, Y / 9)
    np.testing.assert_allclose(share - low, Y / 9)
    band = figure_data(_figure("common", "staircase"))
    runs = CALLS["common"]["staircase"][0][4]
    lower = band.population_loss_low.sel(curve="5–95 % of 5 runs")
    np.testing.assert_allclose(lower, np.quantile(runs, 0.05, axis=0))
    np.testing.assert_array_equal(band.runs, runs)  # every replica, not only the band that is drawn
    assert band.runs.dims == ("replica", "time")
    matrix = figure_data(_figure("common", "score_matrix"))
    np.testing.assert_array_equal(matrix.score.values, [[8.0, 2.0, 1.0], [4.0, 5.0, np.nan]])
    np.testing.assert_allclose(matrix.direction_in_order_of_learning, [1, 2, 3])
    np.testing.assert_allclose(matrix.left.sel(box="selected 2"), 1.5)
    histogram = figure_data(_figure("common", "recovery_histogram"))
    spans = histogram.sel(box="predicted ± 1 std")
    np.testing.assert_allclose([spans.left, spans.right], [1.7, 3.1])
    assert histogram.sel(box="4 runs (1 more never recovered)").top.sum() == 4


def test_twin_axes_share_the_axis_and_keep_their_names() -> None:
    data = figure_data(_figure("linear", "norm_and_alignment"))
    np.testing.assert_array_equal(data.mean_alignment_cos.isel(curve_2=0), _wave(3, 4, seed=1).mean(axis=0))
    assert data.mean_alignment_cos.dims[1] == "step"
    assert data.step_marked.vertical.values.tolist() == ["escape"]


def test_a_cloud_of_points_does_not_pad_the_lines_beside_it() -> None:
    data = figure_data(_figure("linear", "neuron_paths"))
    assert data.norm_of_the_neuron.sizes == {"curve": 2, "point": X.size}
    np.testing.assert_array_equal(data.alignment_cos.sel(curve="neuron 2"), PAIR[:, 1] / 2)
    np.testing.assert_array_equal(data.step.values.ravel(), np.repeat(X, 2))


def test_bars_without_points_stand_for_their_middles() -> None:
    """With bars along both axes, too."""
    figure = Figure()
    ax = figure.add_subplot(xlabel="time", ylabel="share")
    ax.errorbar([1.0, 2.0], [3.0, 5.0], yerr=[0.5, 1.0], fmt="none", label="one")
    ax.errorbar([1.0, 2.0], [7.0, 5.0], xerr=[0.1, 0.3], yerr=[0.5, 1.0], fmt="none", label="both")
    data = figure_data(figure)
    np.testing.assert_allclose(data.time, [1, 2])
    np.testing.assert_allclose(data.share, [[3, 5], [7, 5]])
    np.testing.assert_allclose([data.share_low, data.share_high], [[[2.5, 4], [6.5, 4]], [[3.5, 6], [7.5, 6]]])
    both = data.sel(curve="both")
    np.testing.assert_allclose([both.time_low, both.time_high], [[0.9, 1.7], [1.1, 2.3]])


def test_what_is_not_understood_is_named_and_counts_as_missing() -> None:
    figure = Figure()
    ax = figure.add_subplot()
    ax.plot(X, Y)
    ax.pie([1, 2])
    data = figure_data(figure)
    assert data.attrs["not_stored"] == "Wedge"
    assert not has_data(data)
    assert not has_data(figure_data(Figure()))


def test_names_of_other_dimensions_are_left_alone() -> None:
    figure = Figure()
    ax = figure.add_subplot(xlabel="quantity", ylabel="2 × $d^2$ / ²")
    ax.plot(X, Y, label="one")
    keep(figure, runs=xr.DataArray(_wave(2, 4), {"any": X}, ("replica", "any")))
    data = figure_data(figure, reserved=("quantity",))
    assert data.runs.dims == ("replica", "quantity_2")
    assert data["_2_d_2_2"].sel(curve="one").dims == ("quantity_2",)


def test_panels_of_a_figure_are_kept_apart() -> None:
    names = {panel.title for panel in panels(_figure("reproduction", "emergence_figure"))}
    assert names == {"(a)", "(b)", "(c)"}


@pytest.mark.slow_for("E26", "L17", "Q19")
@pytest.mark.parametrize("name", ["E26", "L17", "Q19", "S5"])
def test_the_figures_of_claims_are_stored_as_they_are_drawn(name: str) -> None:
    (claim,) = select_claims([name])
    figures = claim.run(Context()).figures
    assert figures
    for caption, figure in figures:
        assert isinstance(figure, Figure)
        data = figure_data(figure, caption)
        assert has_data(data)
        _assert_lines_are_stored(figure, data)
        _assert_named(data)


def test_a_figure_drawn_again_says_what_its_dashes_are():
    """As the first one did; what is dashed beside no named curve has no key."""
    first = importlib.import_module("validation.figures.exponents").power_laws([SERIES], "x", "y")
    texts = [
        [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        for figure in (first, redraw(figure_data(first)))
    ]
    assert texts == [["h4", "predicted"]] * 2
    assert redraw(figure_data(first)).axes[0].get_legend().legend_handles[1].get_linestyle() == "--"
