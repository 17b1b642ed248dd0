"""Figures of the report: matplotlib objects, no pyplot, so nothing global changes.

Every function returns a `matplotlib.figure.Figure` and raises `InputError` where shapes do not match. Colours are those
of Okabe and Ito, told apart by colour-blind readers; theory is dashed and dark, measurement solid and coloured.
"""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from theory import InputError
from validation.figures.data import keep

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6D31", "#7F7F7F")
_INK = "#333333"
_TEXT, _SMALL = 11, 10
#: A longer legend hides the curves; the colours then run through a sequential map and the legend names a few.
_MOST_NAMES = len(PALETTE)


def overlap_curves(
    time: ArrayLike,
    overlap2: ArrayLike,
    predicted: ArrayLike,
    labels: Sequence[str],
    half_times: ArrayLike | None = None,
    *,
    log_time: bool = False,
) -> Figure:
    """Squared overlap of each direction's neuron against time, dashed verticals at the predicted times.

    Args:
        time: (n,) gradient-flow time or steps, increasing.
        overlap2: (n, P) squared overlaps, in [0, 1].
        predicted: (P,) predicted times to squared overlap ½; nan or inf where a direction is not learned.
        labels: P names.
        half_times: (P,) measured times to squared overlap ½, drawn as circles on the level ½.
        log_time: logarithmic time axis (times ≤ 0 are left out).
    """
    time, overlap2, predicted = _floats(time), _floats(overlap2), _floats(predicted)
    _match("overlap2", overlap2, (time.size, len(labels)))
    _match("predicted", predicted, (len(labels),))
    figure, ax = _axes("time", "squared overlap")
    colours = _colours(len(labels))
    kept = time > 0 if log_time else np.full(time.shape, True)
    for p in range(len(labels)):
        ax.plot(time[kept], overlap2[kept, p], color=colours[p], lw=1.8, label=labels[p])
        if np.isfinite(predicted[p]):
            ax.axvline(predicted[p], color=colours[p], ls="--", lw=1.1, label=f"_{labels[p]}, predicted")
    if half_times is not None:
        half = _floats(half_times)
        _match("half_times", half, (len(labels),))
        seen = np.isfinite(half)
        chosen = [colour for colour, shown in zip(colours, seen, strict=True) if shown]
        level = np.full(int(seen.sum()), 0.5)
        ax.scatter(half[seen], level, c=chosen, edgecolors="white", s=45, zorder=4, label="_measured half times")
    ax.set_ylim(-0.03, 1.05)
    ax.set_xscale("log" if log_time else "linear")
    _name_curves(ax)
    return figure


def staircase(
    time: ArrayLike,
    loss: ArrayLike,
    ideal_time: ArrayLike,
    ideal_loss: ArrayLike,
    replicas: ArrayLike | None = None,
    *,
    log: bool = True,
) -> Figure:
    """Loss against time with the idealised staircase.

    Args:
        time: (n,) times, increasing.
        loss: (n,) measured loss (gradient flow, or the mean of the replicas).
        ideal_time: (k,) times at which the idealised loss is given, usually 0 and the jumps.
        ideal_loss: (k,) its value from that time on, just after each jump.
        replicas: (R, n) loss of independent runs, drawn as the band between the 5 % and 95 % quantiles.
        log: both axes logarithmic (times and losses ≤ 0 are left out).
    """
    time, loss, ideal_time, ideal_loss = (_floats(x) for x in (time, loss, ideal_time, ideal_loss))
    _match("loss", loss, time.shape)
    _match("ideal_loss", ideal_loss, ideal_time.shape)
    figure, ax = _axes("time", "population loss")
    if replicas is not None:
        runs = _floats(replicas)
        _match("replicas", runs, (len(runs), time.size))
        _keep_runs(figure, runs, time=time)
        low, high = np.quantile(runs, [0.05, 0.95], axis=0)
        ax.fill_between(time, low, high, color=PALETTE[4], alpha=0.35, lw=0, label=f"5–95 % of {len(runs)} runs")
    ax.plot(time, loss, color=PALETTE[0], lw=1.8, label="measured")
    # The last stair is drawn to the end of the data, the first from its beginning.
    shown = time[time > 0] if log else time
    steps = np.append(np.maximum(ideal_time, shown[0]) if ideal_time.size else ideal_time, time[-1])
    ax.step(steps, np.append(ideal_loss, ideal_loss[-1:]), where="post", color=_INK, ls="--", lw=1.4, label="idealised")
    if log:
        ax.set_xscale("log", nonpositive="mask")
        ax.set_yscale("log", nonpositive="mask")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def score_matrix(scores_reordered: ArrayLike, n_selected: int) -> Figure:
    """The greedy score matrix as a heat map, selected pairs outlined on the diagonal.

    Args:
        scores_reordered: (m, P) scores, rows and columns in the order of learning (cf. arXiv:2504.19983, Figure 3).
        n_selected: the first entries of the diagonal that are selected; each should exceed all below and right of it.
    """
    scores = _floats(scores_reordered)
    if scores.ndim != 2 or not 0 <= n_selected <= min(scores.shape):
        raise InputError(
            f"n_selected: {n_selected} with scores of shape {scores.shape}: use at most one pair per row and column"
        )
    if not np.any(scores > 0):
        raise InputError("scores_reordered: no score is positive: nothing is selected, leave the figure out")
    figure, ax = _axes("direction, in order of learning", "neuron, in order of learning", grid=False)
    shown = np.ma.masked_less_equal(scores, 0.0)
    image = ax.imshow(shown, norm=LogNorm(shown.min(), shown.max()), cmap="viridis", aspect="auto", origin="upper")
    image.set_extent((0.5, scores.shape[1] + 0.5, scores.shape[0] + 0.5, 0.5))
    for p in range(1, n_selected + 1):
        ax.add_patch(Rectangle((p - 0.5, p - 0.5), 1, 1, fill=False, ec=PALETTE[1], lw=1.8, label=f"_selected {p}"))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    bar = figure.colorbar(image, ax=ax)
    bar.set_label("score", fontsize=_TEXT)
    bar.ax.tick_params(labelsize=_SMALL)
    return figure


def prediction_scatter(predicted: ArrayLike, measured: ArrayLike, stderr: ArrayLike) -> Figure:
    """Measured over predicted against predicted, with bars of one standard error and the line at 1.

    Args:
        predicted: (n,) non-zero predictions.
        measured: (n,) estimates.
        stderr: (n,) or one number, standard errors of the estimates.
    """
    predicted, measured = _floats(predicted), _floats(measured)
    _match("measured", measured, predicted.shape)
    if np.any(predicted == 0):
        raise InputError("predicted: it contains 0, to which no ratio exists: leave those quantities out")
    error = np.broadcast_to(_floats(stderr), predicted.shape)
    figure, ax = _axes("predicted", "measured / predicted")
    ax.axhline(1.0, color=_INK, ls="--", lw=1.2, label="theory")
    ax.errorbar(
        predicted, measured / predicted, yerr=np.abs(error / predicted),
        fmt="o", ms=5, color=PALETTE[0], ecolor=PALETTE[0], elinewidth=1.3, capsize=3, label="measured ± 1 stderr",
    )  # fmt: skip
    finite = predicted[np.isfinite(predicted)]
    if finite.size and finite.min() > 0 and finite.max() > 10 * finite.min():
        ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def recovery_histogram(samples: ArrayLike, predicted_mean: float, predicted_std: float, label: str) -> Figure:
    """Distribution of recovery times over replicas, with the predicted mean and spread.

    Args:
        samples: (R,) recovery times; runs that never recovered (nan or inf) are counted in the legend.
        predicted_mean: dashed vertical.
        predicted_std: half width of the shaded band.
        label: name of the time axis, with its unit.
    """
    samples = _floats(samples)
    times = samples[np.isfinite(samples)]
    if times.size == 0:
        raise InputError(f"samples: none of {samples.size} recovery times is finite: run longer")
    figure, ax = _axes(label, "runs")
    _keep_runs(figure, samples)
    lost = samples.size - times.size
    name = f"{times.size} runs" + (f" ({lost} more never recovered)" if lost else "")
    bins = int(np.clip(np.ceil(2 * times.size ** (1 / 3)), 5, 40))
    ax.hist(times, bins=bins, color=PALETTE[4], edgecolor="white", lw=0.6, label=name)
    ax.axvline(float(times.mean()), color=PALETTE[0], lw=1.8, label="mean of the runs")
    ax.axvline(predicted_mean, color=_INK, ls="--", lw=1.5, label="predicted mean")
    left, right = predicted_mean - predicted_std, predicted_mean + predicted_std
    ax.axvspan(left, right, color=PALETTE[5], alpha=0.3, lw=0, zorder=0, label="predicted ± 1 std")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def mean_paths(
    time: ArrayLike,
    runs: ArrayLike,
    theory: Mapping[str, ArrayLike],
    rivals: Mapping[str, ArrayLike],
    ylabel: str,
) -> Figure:
    """Mean over replicas with its band of ± 4 standard errors, the theory's curve (dashed), and rival theories (dotted).

    Args:
        time: (n,) gradient-flow time. runs: (R, n). theory, rivals: name → (n,).
    """
    time, runs = _floats(time), _floats(runs)
    _match("runs", runs, (len(runs), time.size))
    figure, ax = _axes("time η·steps", ylabel)
    _keep_runs(figure, runs, time=time)
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    ax.fill_between(time, mean - 4 * error, mean + 4 * error, color=PALETTE[4], alpha=0.4, lw=0, label="± 4 stderr")
    ax.plot(time, mean, color=PALETTE[0], lw=2.0, label=f"mean of {len(runs)} SGD runs")
    for name, curve in theory.items():
        ax.plot(time, _floats(curve), color=_INK, ls="--", lw=1.6, label=name)
    for place, (name, curve) in enumerate(rivals.items()):
        ax.plot(time, _floats(curve), color=PALETTE[1 + place], ls=":", lw=2.0, label=name)
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def two_sample(sample_a: ArrayLike, sample_b: ArrayLike, labels: Sequence[str], *, quantity: str = "value") -> Figure:
    """Two empirical distribution functions, with the place of their largest distance (Kolmogorov–Smirnov).

    Args:
        sample_a: (n,) finite values.
        sample_b: (k,) finite values.
        labels: their two names.
        quantity: name of the horizontal axis.
    """
    a, b = np.sort(_floats(sample_a)), np.sort(_floats(sample_b))
    if a.size == 0 or b.size == 0 or not np.all(np.isfinite(a[[0, -1]]) & np.isfinite(b[[0, -1]])):
        raise InputError(f"samples: sizes {a.size} and {b.size} or not finite: give two non-empty finite samples")
    figure, ax = _axes(quantity, "fraction of runs up to here")
    for sample, name, colour, dashes in ((a, labels[0], PALETTE[0], "-"), (b, labels[1], PALETTE[1], "--")):
        ax.ecdf(sample, label=f"{name} ({sample.size})", color=colour, ls=dashes, lw=1.8)
    both = np.concatenate([a, b])
    share_a, share_b = np.searchsorted(a, both, "right") / a.size, np.searchsorted(b, both, "right") / b.size
    worst = int(np.argmax(np.abs(share_a - share_b)))
    gap = abs(share_a[worst] - share_b[worst])
    ax.plot([both[worst]] * 2, [share_a[worst], share_b[worst]], color=_INK, lw=1.4, label=f"distance {gap:.3f}")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def _axes(xlabel: str, ylabel: str, *, grid: bool = True) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlabel(xlabel, fontsize=_TEXT)
    ax.set_ylabel(ylabel, fontsize=_TEXT)
    ax.tick_params(labelsize=_SMALL)
    if grid:
        ax.grid(color="#DDDDDD", lw=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _keep_runs(figure: Figure, runs: np.ndarray, name: str = "runs", **axes: np.ndarray) -> None:
    """Store every replica with the figure that shows their mean or histogram. Shape (replica, *axes)."""
    keep(figure, **{name: xr.DataArray(runs, {**axes}, ("replica", *axes), attrs={"long_name": "every replica"})})


def _colours(count: int) -> list[str | tuple[float, ...]]:
    if count <= _MOST_NAMES:
        return list(PALETTE[:count])
    # Stops short of the map's pale end, which vanishes on white.
    return [tuple(c) for c in matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, count))]


def _name_curves(ax: Axes) -> None:
    handles, names = ax.get_legend_handles_labels()
    picked = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_NAMES)).astype(int))
    ax.legend([handles[i] for i in picked], [names[i] for i in picked], frameon=False, fontsize=_SMALL)


def _floats(values: ArrayLike) -> np.ndarray:
    return np.asarray(values, dtype=float)


def _match(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InputError(f"{name}: shape {array.shape}, but {shape} was expected: transpose or select the same entries")
