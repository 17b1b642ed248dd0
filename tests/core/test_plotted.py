"""Results draw themselves: what is drawn is what the dataset holds, in colours that everyone tells apart."""

import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

import dynamics
from dynamics.core.plot import INK, PALETTE, shades, wrapped
from dynamics.core.plotted import figure
from dynamics.core.trajectory import Plotted, dataset
from emergence import plot
from theory import Activation, InputError, Subspace
from theory.core.derivation import Step, equation

TIME = np.array([0.0, 1.0, 2.0, 3.0])


def _data(replicas: int = 0) -> xr.Dataset:
    """Three neurons, two directions: neuron 2 learns direction 1."""
    overlap = np.zeros((4, 3, 2))
    overlap[:, 1, 0], overlap[:, 2, 1] = [0.1, -0.4, -0.8, -1.0], [0.1, 0.1, 0.2, 0.3]
    norm2, loss = np.ones((4, 3)), np.array([0.5, 0.4, 0.2, 0.1])
    if replicas:
        scale = np.arange(1, replicas + 1) / replicas
        overlap, norm2, loss = (np.multiply.outer(scale, one) for one in (overlap, norm2, loss))
    return dataset(TIME, overlap, norm2, loss, step_size=0.1, predicted_half_time=np.array([1.5, np.inf]))


def test_a_step_that_no_integer_counts_is_no_step() -> None:
    """From 2⁶³ steps on; the time stays."""
    long = dataset(2.0**63 * np.array([0.5, 1.0]), np.zeros((2, 1, 1)), np.ones((2, 1)), np.ones(2), step_size=1.0)
    assert long["step"].values.tolist() == [2**62, -1]


def _solid(ax):
    return {line.get_label(): line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 4}


def test_loss_and_overlaps_of_a_run_are_drawn_over_time():
    above, below = figure(_data()).axes
    assert (above.get_ylabel(), below.get_ylabel()) == ("population loss ½E(f*−f)²", "squared overlap, best neuron")
    assert below.get_xlabel() == "gradient-flow time"
    curves = _solid(below)
    np.testing.assert_allclose(curves["direction 1"].get_ydata(), [0.01, 0.16, 0.64, 1.0])
    np.testing.assert_allclose(curves["direction 2"].get_ydata(), [0.01, 0.01, 0.04, 0.09])
    (mark,) = [line for line in below.lines if line.get_linestyle() == "--"]  # what is never learned has none
    assert mark.get_xdata()[0] == 1.5
    assert mark.get_color() == curves["direction 1"].get_color()


def test_times_are_marked_where_their_own_curve_is_at_half():
    """An overlap, and the share of a direction's weight, which comes later; neither along other variables."""
    rising = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    kinds = {name: ("direction", times) for name, times in (("half", [0.5, 1.5]), ("loss", [1.5, 2.5]))}
    data = xr.Dataset(
        {"share": (("time", "direction"), rising), **{f"predicted_{x}_time": own for x, own in kinds.items()}},
        {"time": TIME, "direction": [1, 2]},
    )
    (ax,) = figure(data).axes
    marks = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    halves = [np.interp(0.5, line.get_ydata(), TIME) for line in _solid(ax).values()]
    np.testing.assert_array_equal(marks, halves)


def test_of_a_subspace_what_its_frame_does_not_change_is_drawn():
    """Turning the columns changes the best one's overlap, which may be a tenth of the length of the projection."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    drawn = []
    for frame in (np.eye(3), turn):
        data = _data()
        overlap = np.einsum("tkp,kl->tlp", data.overlap.values, frame)
        data["overlap"] = (data.overlap.dims, overlap)
        data["diagonal"] = (("time", "direction"), np.sum(overlap**2, axis=1))
        drawn.append([line.get_ydata() for ax in figure(data).axes for line in _solid(ax).values()])
    np.testing.assert_allclose(*drawn)
    assert len(drawn[0]) == 3


def test_replicas_are_averaged_with_the_range_that_they_span():
    (ax,) = figure(_data(4), "loss").axes
    np.testing.assert_allclose(_solid(ax)["mean of runs"].get_ydata(), np.array([0.5, 0.4, 0.2, 0.1]) * 0.625)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.025), 0.5)


def test_a_sweep_is_drawn_over_its_option_with_what_is_known_at_the_end():
    widths, seeds = [8, 16, 32], [0, 1]
    values = np.arange(6.0).reshape(3, 2) + 1
    data = xr.Dataset(
        {
            "half_time": (("student_width", "seed"), values),
            "loss": (("student_width", "seed", "time"), np.ones((3, 2, 4))),
        },
        {"student_width": widths, "seed": seeds, "time": TIME},
    )
    (ax,) = figure(data, over="student_width").axes
    assert ax.get_xlabel() == "student width"
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), values.mean(axis=1))


def test_a_prediction_beside_what_was_measured_is_dashed():
    data = xr.Dataset({"loss": ("time", 1 / (1 + TIME)), "predicted_loss": ("time", TIME)}, {"time": TIME})
    (ax,) = figure(data, "loss").axes
    dashed = next(line for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_array_equal(dashed.get_ydata(), TIME)


def test_curves_with_times_of_their_own_are_drawn_against_these():
    times = np.array([[0.0, 1.0, 4.0, 5.0], [0.0, 10.0, 80.0, 90.0]])
    share = np.array([[0.01, 0.1, 0.5, 0.9], [0.001, 0.1, 0.5, 0.9]])
    clock = (("start", "sample"), times, {"units": "flow time"})
    data = xr.Dataset({"time": clock, "share": (("start", "sample"), share)}, {"start": [0.01, 0.001]})
    (ax,) = figure(data).axes
    assert ax.get_xlabel() == "flow time"
    assert [line.get_label() for line in ax.lines] == ["start 0.01", "start 0.001"]
    for line, at, values in zip(ax.lines, times, share, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), at)
        np.testing.assert_array_equal(line.get_ydata(), values)


def _seeds_at_times_of_their_own(ends: list[float], slopes: list[float]) -> xr.Dataset:
    """Of each seed a straight line, recorded at five times until an end of its own."""
    times = np.outer(ends, np.linspace(0, 1, 5))
    clock = (("seed", "time"), times, {"units": "flow time"})
    return xr.Dataset({"loss": (("seed", "time"), times * np.array(slopes)[:, None])}, {"time": clock})


def test_seeds_with_times_of_their_own_are_averaged_at_equal_times_as_far_as_all_go():
    slopes = [1.0, 3.0, 8.0, np.nan]  # (the last one's cell is missing)
    (ax,) = figure(_seeds_at_times_of_their_own([4.0, 13.0, 1.0, np.nan], slopes), log="").axes
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(line.get_ydata(), 4.0 * line.get_xdata())
    edges = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == (0.0, 8.0)
    assert ax.get_xlabel() == "flow time, as far as all runs of a curve go"
    assert line.get_label() == "mean of runs, 15 of 20 finite"


def test_times_that_differ_by_rounding_are_one_axis():
    (ax,) = figure(_seeds_at_times_of_their_own([4.0, 4.0 * (1 - 1e-14)], [1.0, 3.0])).axes
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), [0.0, 2.0, 4.0, 6.0, 8.0])
    assert (ax.get_xlabel(), line.get_label()) == ("flow time", "mean of runs")


INF, NAN = np.inf, np.nan


def test_a_logarithmic_axis_says_what_it_does_not_show():
    times, runs = np.array([0.0, 1.0, 10.0, 100.0]), np.array([[3.0, -1.0, 0.1, 0.02], [3.0, -1.0, -0.05, 0.02]])
    data = xr.Dataset({"gap": (("replica", "time"), runs)}, {"time": times})
    (ax,) = figure(data, "gap", log="xy").axes
    assert ax.get_ylabel() == "gap\n1 of 4 points are not above 0: not shown"  # of the mean, that is drawn
    assert ax.get_xlabel() == "time, 1 of 4 points are 0: not shown"
    (ax,) = figure(data, "gap", log="").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "gap")


@pytest.mark.parametrize("log", ["", "y"])
def test_what_has_not_come_by_the_end_counts_in_the_median_and_opens_the_range(log):
    """Half of the runs of width 8 have not come, so that their median is not known either."""
    steps = [[1.0, 2.0, 4.0, INF], [2.0, 3.0, 5.0, 9.0], [1.0, 2.0, INF, INF], [1.0, 2.0, 3.0, NAN]]
    known = {"student_width": [4, 6, 8, 10]}
    (ax,) = figure(xr.Dataset({"half_steps": (("student_width", "seed"), steps)}, known), log=log).axes
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), [3.0, 4.0, NAN, 2.0])
    assert line.get_label() == "median of runs, 12 of 16 finite"
    corners = ax.collections[0].get_paths()[0].vertices
    high = {x: max(y for at, y in corners if at == x) for x in known["student_width"]}
    top = ax.get_ylim()[1]
    assert top > 9.0
    assert high == {4: top, 6: 9.0, 8: top, 10: 3.0}
    assert ax.get_ylim()[0] < 1.0


def test_a_member_of_which_nothing_has_come_is_named_all_the_same():
    steps = xr.DataArray([[[1.0, INF], [2.0, INF]], [[3.0, INF], [INF, INF]]], dims=("width", "seed", "direction"))
    (ax,) = figure(xr.Dataset({"half_steps": steps}), over="width").axes
    names = [line.get_label() for line in ax.lines]
    assert names == ["direction 0, median, 3 of 4 finite", "direction 1, median, 0 of 4 finite"]


def _by_eigenspace(eigenvalues: list[float]) -> xr.Dataset:
    """Inner products that go up and down all over the axes."""
    count = len(eigenvalues)
    waves = 1 + np.sin(np.arange(60.0)[:, None] * (1 + np.arange(2 * count)))
    overlap = waves.reshape(60, count, 1, 2)
    text = {"long_name": "inner product with a direction"}
    dims = ("time", "eigenspace", "neuron", "direction")
    known = {"time": np.arange(60.0), "direction": [1, 2], "eigenvalue": ("eigenspace", eigenvalues)}
    return xr.Dataset({"overlap": (dims, overlap, text)}, known)


@pytest.mark.parametrize(
    ("eigenvalues", "names"),
    [
        ([5.0, 1.0], ["eigenvalue 5, direction 1", "eigenvalue 5, direction 2", "eigenvalue 1, direction 1"]),
        ([1.0, 1.0], ["eigenspace 0, direction 1", "eigenspace 0, direction 2", "eigenspace 1, direction 1"]),
        ([1.0], ["direction 1", "direction 2"]),
    ],
)
def test_an_eigenspace_is_named_by_its_eigenvalue(eigenvalues, names):
    (ax,) = figure(_by_eigenspace(eigenvalues)).axes
    assert [line.get_label() for line in ax.lines][: len(names)] == names
    assert " ".join(ax.get_ylabel().split()) == "squared inner product with a direction, best neuron"


@pytest.mark.parametrize("narrow", [False, True])
def test_a_legend_lies_on_no_curve(narrow):
    full, empty = (figure(data) for data in (_by_eigenspace([5.0, 1.0]), _data()))
    spread = xr.Dataset({"loss": (("seed", "time"), [[1e2] * 9, [1e4] * 9])}, {"time": np.arange(9.0)})
    for drawn, outside in ((full, True), (empty, False), (figure(spread, log="y"), True)):
        if narrow:
            plot.paper(drawn)
        drawn.draw_without_rendering()
        (ax, legend) = (drawn.axes[-1], drawn.axes[-1].get_legend())
        assert legend.get_window_extent().overlaps(ax.get_window_extent()) != outside


def test_along_an_option_of_texts_its_values_are_the_ticks() -> None:
    """Of a sweep over rules, say: they are no numbers (it was an internal error)."""
    data = xr.Dataset({"loss": ("rule", [0.3, 0.1, 0.2])}, coords={"rule": ["clipped(5)", "momentum(0.5)", "sgd"]})
    (ax,) = figure(data, "loss", over="rule").axes
    assert [text.get_text() for text in ax.get_xticklabels()] == ["clipped(5)", "momentum(0.5)", "sgd"]
    assert ax.get_lines()[0].get_xydata().tolist() == [[0, 0.3], [1, 0.1], [2, 0.2]]
    assert ax.get_lines()[0].get_linestyle() == "None"  # (no curve from one rule to another)


def test_along_texts_runs_have_bars_from_the_lowest_to_the_highest() -> None:
    runs = [[0.3, 0.1, 0.2], [0.5, 0.2, 0.2]]
    data = xr.Dataset({"loss": (("replica", "arm"), runs)}, coords={"arm": ["sgd", "label-noise", "sam"]})
    (ax,) = figure(data, "loss").axes  # (not along the replicas)
    ((_, _, (bars,)),) = ax.containers
    assert np.allclose([one[:, 1] for one in bars.get_segments()], [[0.3, 0.5], [0.1, 0.2], [0.2, 0.2]])


def test_long_names_leave_the_axes_their_width_on_paper() -> None:
    """Legends are in lines as long as the paper is wide: in one line each they took half of the axes' width."""
    rules = [
        "momentum(0.5), eigenspace 0, direction 1, 1075 of 1608 finite",
        "sgd",
        "clipped(5)",
        "sam(0.2)",
        "muon(0.5)",
    ]
    data = xr.Dataset(
        {"loss": (("rule", "time"), np.outer(np.arange(1, 6), TIME))}, coords={"rule": rules, "time": TIME}
    )
    drawn = plot.paper(figure(data, "loss"))
    drawn.draw_without_rendering()
    (ax,) = drawn.axes
    assert ax.get_position().width > 0.6
    assert ax.get_legend().get_window_extent().x1 <= drawn.bbox.x1


@pytest.mark.parametrize(
    ("data", "names", "over", "message"),
    [
        (_data(), ("los",), "", "variable 'los' is not in the data: did you mean loss"),
        (_data(), (), "tim", "over is 'tim': did you mean time"),
        (_data(), ("loss",), "neuron", "variable 'loss' does not run along 'neuron': use over, one of time"),
        (
            xr.Dataset({"half_steps": ("width", [INF, NAN])}),
            ("half_steps",),
            "",
            "'half_steps' has no finite value to draw",
        ),
        (xr.Dataset({"half_steps": ("width", [INF, INF])}), (), "", "nothing finite in the data runs along 'width'"),
        (xr.Dataset({"a": 1.0}), (), "", "no dimension of two points"),
        (xr.Dataset({"name": ("time", ["a", "b"])}), (), "", "nothing finite in the data runs along 'time'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(data, names, over, message):
    with pytest.raises(InputError, match=message):
        figure(data, *names, over=over)


def test_texts_and_axes_without_positive_numbers_are_refused():
    data = xr.Dataset({"z": ("time", -TIME), "name": ("time", TIME.astype(str))}, coords={"time": TIME})
    with pytest.raises(InputError, match="variable 'name' holds no numbers"):
        figure(data, "name")
    with pytest.raises(InputError, match="log is 'xy', but the values along y are no positive numbers: leave y out"):
        figure(data, "z", log="xy")
    with pytest.raises(InputError, match="along x are no positive numbers: leave x out"):
        figure(data.assign_coords(time=-TIME), "z", log="x")
    with pytest.raises(InputError, match="along x are no positive numbers: leave x out"):
        figure(data.assign_coords(time=TIME.astype(str)), "z", log="x")


def test_what_a_refusal_offers_to_draw_over_can_be_drawn():
    data = xr.Dataset(
        {"loss": (("rule", "time"), np.outer([1.0, 2.0], TIME)), "name": ("rule", ["a", "b"])},
        coords={"rule": ["sgd", "muon"], "time": TIME},
    )
    for over, names in (("rule", ()), ("tine", ()), ("tine", ("loss",))):
        with pytest.raises(InputError, match="one of") as refusal:
            figure(data, *names, over=over)
        offered = str(refusal.value).split("one of ")[1].split(", ")
        assert all(figure(data, *names, over=one).axes for one in offered)


def test_places_whose_labels_differ_between_runs_are_numbered():
    data = xr.Dataset(
        {"loss": (("rate", "time"), np.outer([1.0, 2.0], TIME[1:4]))},
        coords={"rate": [0.1, 0.2], "time": (("rate", "time"), np.outer([1.0, 2.0], TIME[1:4]))},
    )
    (ax,) = figure(data, "loss", over="rate").axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"time point {n}" for n in range(3)]


def test_every_result_with_a_dataset_draws_it():
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(dynamics.__path__, "dynamics.")]
    found = {
        one
        for module in modules
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__ and "dataset" in inspect.get_annotations(one)
    }
    assert len(found) > 10
    assert [one.__name__ for one in found if not issubclass(one, Plotted)] == []


def test_a_run_without_a_dataset_of_its_own_has_one_to_draw():
    run = dynamics.DescentResult(np.array([1, 10]), np.array([0.5, 0.1]), np.array([5.0]), False)
    (line,) = run.plot().axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 10])


def test_long_labels_are_broken_between_words_not_in_formulas():
    assert wrapped("norm of the first layer", 1.0, 10) == "norm of the\nfirst layer"
    assert wrapped("step size × $d ^ {1.5}$ of it", 0.9, 10) == "step size ×\n$d ^ {1.5}$\nof it"


#: Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
BLIND = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def _lab(colour: str, kind: str) -> np.ndarray:
    """CIE L*a*b* of a colour as that eye sees it."""
    plain = np.array(to_rgb(colour))
    linear = np.where(plain <= 0.04045, plain / 12.92, ((plain + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(BLIND[kind]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.asarray(to_xyz) @ seen / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", BLIND)
def test_colours_are_told_apart_by_every_eye(kind):
    """Distances well above what is just noticed (2.3), from one another and from white paper."""
    seen = {colour: _lab(colour, kind) for colour in (*PALETTE, INK)}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)
    assert min(np.linalg.norm(lab - [100, 0, 0]) for lab in seen.values()) > 35


@pytest.mark.parametrize("kind", BLIND)
def test_shades_of_a_family_grow_lighter_for_every_eye(kind):
    assert np.all(np.diff([_lab(colour, kind)[0] for colour in shades(12)]) > 0)


def test_objects_show_themselves_as_formulas():
    activation = Activation.parse("0.8*h4+0.6*h6")
    assert activation._repr_latex_() == r"$\displaystyle \sigma(z) = \frac{4 h_{4}}{5} + \frac{3 h_{6}}{5}$"
    assert r"\operatorname{erf}" in Activation.parse("erf")._repr_latex_()
    assert Activation.from_function(np.abs)._repr_latex_().endswith(r" + \cdots$")
    step = Step("a step", equation("x", equation("y", activation.coefficients[4])))
    assert step._repr_latex_().startswith(r"$$\begin{aligned}")


def test_a_closed_form_is_drawn_at_the_times_asked_for_or_until_all_has_emerged():
    flow = dynamics.riccati_flow([1.0, 0.5], Subspace.of_overlap([[0.1, 0.0], [0.0, 0.1]]))
    risk, shares = flow.plot(times=[0.0, 2.0, 4.0]).axes
    np.testing.assert_array_equal([line.get_ydata() for line in shares.lines], flow.diagonal([0.0, 2.0, 4.0]).T)
    np.testing.assert_array_equal(risk.lines[0].get_ydata(), flow.risk([0.0, 2.0, 4.0]))
    end = flow.plot("diagonal").axes[0].lines[0].get_xdata()[-1]
    early, late = flow.diagonal([0.35 * end, end])[:, 1]  # of the direction that comes last
    assert early < 0.5
    assert late > 0.9


def test_deflation_shows_when_each_direction_comes_and_when_it_is_switched_off():
    inf = np.inf
    overlap = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.1]])
    run = dynamics.DeflatedFlow(
        np.array([1.0, 3.0, inf]), np.array([0, 1, -1]), np.array([2.0, inf, inf]), overlap, np.ones(2)
    )
    half, off = run.plot().axes[0].lines
    np.testing.assert_array_equal(half.get_ydata(), [1.0, 3.0, np.nan])
    np.testing.assert_array_equal(off.get_ydata(), [2.0, np.nan, np.nan])
    (squares,) = run.plot("overlap").axes[0].lines
    np.testing.assert_allclose(squares.get_ydata(), [1.0, 0.36, 0.01])


def test_paths_are_drawn_by_component():
    state = {"x": np.arange(12.0).reshape(2, 3, 2), "y": np.ones((2, 3))}
    run = dynamics.Ensemble(np.array([0.0, 1.0, 2.0]), state, np.zeros(2, bool))
    x, y = run.plot().axes
    assert _solid_names(x) == {"x entry 0": [3.0, 5.0, 7.0], "x entry 1": [4.0, 6.0, 8.0]}
    assert _solid_names(y) == {"mean of runs": [1.0, 1.0, 1.0]}


def _solid_names(ax):
    return {line.get_label(): list(line.get_ydata()) for line in ax.lines}
