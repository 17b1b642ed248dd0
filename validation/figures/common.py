"""Figures that several claims share. Each raises `InputError` where shapes do not match."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from theory import InputError
from validation.figures.data import keep_runs
from validation.figures.plot import PALETTE, Plot, checked, colours


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
    time, each = np.asarray(time, dtype=float), (len(labels),)
    overlap2 = checked("overlap2", overlap2, (time.size, *each))
    plot = Plot("time", "squared overlap", "x" * log_time)
    kept = time > 0 if log_time else np.full(time.shape, True)
    families = zip(labels, colours(*each), overlap2.T, checked("predicted", predicted, each), strict=True)
    for label, colour, curve, expected in families:
        plot.curve(time[kept], curve[kept], label, colour)
        plot.vertical(expected, f"_{label}, predicted", colour)
    if half_times is not None:
        half = checked("half_times", half_times, each)
        seen = np.isfinite(half)
        chosen = [colour for colour, shown in zip(colours(*each), seen, strict=True) if shown]
        level = np.full(int(seen.sum()), 0.5)
        plot.cloud(half[seen], level, "_measured half times", c=chosen, edgecolors="white", s=45, zorder=4)
    plot.ax.set_ylim(-0.03, 1.05)
    return plot.done(few=True)


def staircase(
    time: ArrayLike,
    loss: ArrayLike,
    ideal_time: ArrayLike,
    ideal_loss: ArrayLike,
    replicas: ArrayLike | None = None,
    *,
    log: bool = True,
    names: tuple[str, str] = ("measured", ""),
) -> Figure:
    """Loss against time with the idealised staircase.

    Args:
        time: (n,) times, increasing.
        loss: (n,) measured loss (gradient flow, or the mean of the replicas).
        ideal_time: (k,) times at which the idealised loss is given, usually 0 and the jumps.
        ideal_loss: (k,) its value from that time on, just after each jump.
        replicas: (R, n) loss of independent runs, drawn as the band between the 5 % and 95 % quantiles.
        log: both axes logarithmic (times and losses ≤ 0 are left out).
        names: of the curve, and what stands before "5–95 % of R runs".
    """
    time, ideal_time = np.asarray(time, dtype=float), np.asarray(ideal_time, dtype=float)
    ideal_loss = checked("ideal_loss", ideal_loss, ideal_time.shape)
    plot = Plot("time", "population loss")
    if replicas is not None:
        runs = checked("replicas", replicas, (len(np.asarray(replicas)), time.size))
        keep_runs(plot.figure, runs, time=time)
        low, high = np.quantile(runs, [0.05, 0.95], axis=0)
        plot.band(time, low, high, f"{names[1]}5–95 % of {len(runs)} runs", PALETTE[4], 0.35)
    plot.curve(time, checked("loss", loss, time.shape), names[0], PALETTE[0])
    # The last stair is drawn to the end of the data, the first from its beginning.
    shown = time[time > 0] if log else time
    steps = np.append(np.maximum(ideal_time, shown[0]) if ideal_time.size else ideal_time, time[-1])
    plot.theory(steps, np.append(ideal_loss, ideal_loss[-1:]), "idealised", drawstyle="steps-post")
    if log:
        plot.ax.set_xscale("log", nonpositive="mask")
        plot.ax.set_yscale("log", nonpositive="mask")
    return plot.done()


def score_matrix(scores_reordered: ArrayLike, n_selected: int) -> Figure:
    """The greedy score matrix as a heat map, selected pairs outlined on the diagonal.

    Args:
        scores_reordered: (m, P) scores, rows and columns in the order of learning (cf. arXiv:2504.19983, Figure 3).
        n_selected: the first entries of the diagonal that are selected; each should exceed all below and right of it.

    Raises `InputError` for more pairs than rows or columns, or without a positive score.
    """
    scores = np.asarray(scores_reordered, dtype=float)
    if scores.ndim != 2 or not 0 <= n_selected <= min(scores.shape):
        raise InputError(
            f"n_selected: {n_selected} with scores of shape {scores.shape}: use at most one pair per row and column"
        )
    if not np.any(scores > 0):
        raise InputError("scores_reordered: no score is positive: nothing is selected, leave the figure out")
    plot = Plot("direction, in order of learning", "neuron, in order of learning", grid=False)
    shown = np.ma.masked_less_equal(scores, 0.0)
    image = plot.ax.imshow(shown, norm=LogNorm(shown.min(), shown.max()), cmap="viridis", aspect="auto", origin="upper")
    image.set_extent((0.5, scores.shape[1] + 0.5, scores.shape[0] + 0.5, 0.5))
    for p in range(1, n_selected + 1):
        place = (p - 0.5, p - 0.5)
        plot.ax.add_patch(Rectangle(place, 1, 1, fill=False, ec=PALETTE[1], lw=1.8, label=f"_selected {p}"))
    plot.ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    plot.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    plot.colour_bar(image, "score")
    return plot.figure


def recovery_histogram(samples: ArrayLike, predicted_mean: float, predicted_std: float, label: str) -> Figure:
    """Distribution of recovery times over replicas, with the predicted mean and spread.

    Args:
        samples: (R,) recovery times; runs that never recovered (nan or inf) are counted in the legend.
        predicted_mean: dashed vertical.
        predicted_std: half width of the shaded band.
        label: name of the time axis, with its unit.

    Raises `InputError` if no time is finite.
    """
    samples = np.asarray(samples, dtype=float)
    times = samples[np.isfinite(samples)]
    if times.size == 0:
        raise InputError(f"samples: none of {samples.size} recovery times is finite: run longer")
    plot = Plot(label, "runs")
    keep_runs(plot.figure, samples)
    lost = samples.size - times.size
    name = f"{times.size} runs" + (f" ({lost} more never recovered)" if lost else "")
    bins = int(np.clip(np.ceil(2 * times.size ** (1 / 3)), 5, 40))
    plot.ax.hist(times, bins=bins, color=PALETTE[4], edgecolor="white", lw=0.6, label=name)
    plot.vertical(float(times.mean()), "mean of the runs", PALETTE[0], ls="-", lw=1.8)
    plot.vertical(predicted_mean, "predicted mean", lw=1.5)
    left, right = predicted_mean - predicted_std, predicted_mean + predicted_std
    plot.ax.axvspan(left, right, color=PALETTE[5], alpha=0.3, lw=0, zorder=0, label="predicted ± 1 std")
    plot.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return plot.done()


def mean_paths(
    time: ArrayLike, runs: ArrayLike, theory: Mapping[str, ArrayLike], rivals: Mapping[str, ArrayLike], ylabel: str
) -> Figure:
    """Mean over replicas with its band of ± 4 standard errors, the theory's curve (dashed), and rival theories (dotted).

    Args:
        time: (n,) gradient-flow time. runs: (R, n). theory, rivals: name → (n,).
    """
    time = np.asarray(time, dtype=float)
    runs = checked("runs", runs, (len(np.asarray(runs)), time.size))
    plot = Plot("time η·steps", ylabel)
    keep_runs(plot.figure, runs, time=time)
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    plot.band(time, mean - 4 * error, mean + 4 * error, "± 4 stderr", PALETTE[4], 0.4)
    plot.curve(time, mean, f"mean of {len(runs)} SGD runs", PALETTE[0])
    for name, curve in theory.items():
        plot.theory(time, curve, name)
    for colour, (name, curve) in zip(PALETTE[1:], rivals.items(), strict=False):
        plot.limit(time, curve, name, colour, 2.0)
    return plot.done()
