"""Figures 1 and 2 of arXiv:2504.19983, drawn from what `validation.reproduction` measured."""

import numpy as np
from matplotlib.figure import Figure

from validation.figures.plot import PALETTE, SMALL, TEXT, Plot, shades
from validation.reproduction import ComputeFrontier, Emergence, Row
from validation.statistics.exponents import Window


def emergence_figure(found: Emergence) -> Figure:
    """Learned shares of single directions; their contributions and the loss; emergence times, measured and predicted."""
    shares, losses, scatter = _panels(
        ("time", "learned share of a direction"), ("time", "population loss"), ("predicted time", "measured time")
    )
    count = found.weights.size
    shown = 2 ** np.arange(int(np.log2(count)) + 1) - 1
    contributions = 0.5 * found.weights**2 * (1 - found.share) ** 2
    for p in range(count):
        for plot, curves in ((shares, found.share), (losses, contributions)):
            plot.curve(found.times, curves[:, p], f"_direction {p + 1}", "#C8C8C8", 0.5, zorder=1)
    for colour, p in zip(shades(shown.size), shown.tolist(), strict=True):
        shares.curve(found.times, found.share[:, p], f"{p + 1}", colour)
        losses.curve(found.times, contributions[:, p], f"_{p + 1}", colour, 1.2)
        shares.vertical(found.expected[0, p], f"_{p + 1}, predicted", colour, lw=1.0)
    losses.curve(found.times, found.loss[0], "their sum: the loss", PALETTE[1], 2.4)
    losses.theory(found.times, found.predicted[0], "idealised staircase")
    _guide(losses, found.window, found.times, found.loss[0], found.rows[1])
    ends = (found.times[0], found.times[-1])
    shares.ax.set(xscale="log", xlim=ends, ylim=(-0.03, 1.1))
    losses.ax.set(xscale="log", yscale="log", xlim=ends, ylim=(0.2 * float(np.min(found.weights)) ** 2, 8.0))
    shares.done(title="direction", fontsize=8, title_fontsize=8, loc="upper left", ncols=2)
    losses.done(loc="lower left", frameon=True, edgecolor="none", framealpha=0.85)  # over the many grey curves
    return _times(scatter, found)


def _times(plot: Plot, found: Emergence) -> Figure:
    both = np.isfinite(found.hits) & np.isfinite(found.expected)
    early = both & (found.expected <= found.window.high)
    for chosen, colour, name in ((both & ~early, PALETTE[4], "later"), (early, PALETTE[0], "up to the window's end")):
        plot.cloud(found.expected[chosen], found.hits[chosen], name, s=9, color=colour, alpha=0.6, lw=0)
    ends = np.array([found.hits[both].min(), found.hits[both].max()])
    plot.theory(ends, ends, "equal")
    plot.ax.set(xscale="log", yscale="log")
    words = _with_interval(found.rows[2], "ratio")
    plot.words(0.97, 0.05, words)
    return plot.done()


def frontier_figure(found: ComputeFrontier) -> Figure:
    """Loss against steps for each width; against compute with the frontier; slopes of frontiers against the size P."""
    steps, compute, slopes = _panels(
        ("steps", "population loss"),
        ("compute: width × steps", "population loss"),
        ("teacher width P", "frontier exponent"),
    )
    for colour, m, runs, ahead in zip(
        shades(found.widths.size), found.widths, found.loss, found.predicted, strict=True
    ):
        steps.runs(found.steps, runs, f"m = {m}", colour, f"loss_of_runs_m_{m}", step=found.steps)
        steps.theory(found.steps, ahead.mean(axis=0), f"_m = {m}, predicted", colour, 1.0)
        compute.curve(m * found.steps, runs.mean(axis=0), f"_m = {m}", colour, 1.4)
    begun = found.steps[np.argmax(found.loss.min(axis=(0, 1)) < 0.99 * found.loss.max())] / 3
    heights = (0.7 * found.loss.min(), 1.8 * found.loss.max())
    ends = (min(found.widths[0] * begun, found.window.low / 2), found.widths[-1] * found.steps[-1])
    compute.curve(found.grid, found.frontier, "frontier", PALETTE[1], 3.0)
    compute.theory(found.grid, found.predicted_frontier, "predicted frontier")
    for plot, reach in ((steps, (begun, found.steps[-1])), (compute, ends)):
        plot.ax.set(xscale="log", yscale="log", xlim=reach, ylim=heights)
    _guide(compute, found.window, found.grid, found.frontier, found.rows[1])
    steps.done(loc="lower left", title="dashed: predicted", title_fontsize=SMALL)
    compute.done(loc="lower left")
    return _slopes(slopes, found)


def _slopes(plot: Plot, found: ComputeFrontier) -> Figure:
    row = found.rows[1]
    bars = np.maximum([[row.measured.value - row.measured.low], [row.measured.high - row.measured.value]], 0.0)
    here = [found.teacher_width]
    plot.theory(found.sizes, found.ideal, "ideal sum, p from 4 to P/8")
    name = f"measured, {100 * row.measured.confidence:g} % interval"
    plot.points(here, [row.measured.value], name, PALETTE[1], bars)
    plot.curve(here, [row.finite_size], "predicted, same runs", PALETTE[0], ls="", marker="x", ms=9, mew=2.2)
    if row.asymptotic is not None:
        plot.level(row.asymptotic, f"P → ∞: {row.asymptotic:.3f}", PALETTE[2], "-")
    plot.ax.set_xscale("log")
    return plot.done(loc="lower right")


def _panels(*labels: tuple[str, str]) -> list[Plot]:
    """Plots side by side, lettered (a), (b) …"""
    axes = Figure(figsize=(15.0, 4.4), layout="constrained").subplots(1, len(labels))
    plots = [Plot(across, up, ax=ax) for ax, (across, up) in zip(axes, labels, strict=True)]
    for letter, plot in zip("abc", plots, strict=False):
        plot.ax.set_title(f"({letter})", loc="left", fontsize=TEXT)
    return plots


def _guide(plot: Plot, window: Window, x: np.ndarray, y: np.ndarray, row: Row) -> None:
    """The window, the asymptotic slope beside the curve, and the exponents in words."""
    plot.ax.axvspan(window.low, window.high, color=PALETTE[5], alpha=0.12, lw=0, label="_window of the fit")
    if row.asymptotic is not None:
        ends = np.array([window.low, window.high])
        start = 1.7 * float(np.exp(np.interp(np.log(window.low), np.log(x), np.log(y))))
        label = f"slope {row.asymptotic:.3f} (theorem)"
        plot.limit(ends, start * (ends / ends[0]) ** row.asymptotic, label, PALETTE[2], 1.8)
    words = f"{_with_interval(row, 'measured')}\npredicted, same window: {row.finite_size:.3f}"
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2.0}
    plot.words(0.98, 0.98, words, va="top", bbox=paper, zorder=5)


def _with_interval(row: Row, name: str) -> str:
    return f"{name}: {row.measured.value:.3f} [{row.measured.low:.3f}, {row.measured.high:.3f}]"
