"""Figures 1 and 2 of arXiv:2504.19983, drawn from what `validation.reproduction` measured."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from validation.figures.common import _INK, _SMALL, _TEXT, PALETTE, _keep_runs
from validation.reproduction import ComputeFrontier, Emergence, Row
from validation.statistics.exponents import Window

_SIZE = (15.0, 4.4)
_FAINT = "#C8C8C8"


def emergence_figure(found: Emergence) -> Figure:
    """Learned shares of single directions; their contributions and the loss; emergence times, measured and predicted."""
    figure, (shares, losses, scatter) = _panels(
        ("time", "learned share of a direction"), ("time", "population loss"), ("predicted time", "measured time")
    )
    count = found.weights.size
    shown = 2 ** np.arange(int(np.log2(count)) + 1) - 1
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, shown.size))
    contributions = 0.5 * found.weights**2 * (1 - found.share) ** 2
    for p in range(count):
        faint: dict[str, Any] = {"color": _FAINT, "lw": 0.5, "zorder": 1, "label": f"_direction {p + 1}"}
        shares.plot(found.times, found.share[:, p], **faint)
        losses.plot(found.times, contributions[:, p], **faint)
    for colour, p in zip(colours, shown.tolist(), strict=True):
        shares.plot(found.times, found.share[:, p], color=colour, lw=1.8, label=f"{p + 1}")
        losses.plot(found.times, contributions[:, p], color=colour, lw=1.2, label=f"_{p + 1}")
        if np.isfinite(found.expected[0, p]):
            shares.axvline(found.expected[0, p], color=colour, ls="--", lw=1.0, label=f"_{p + 1}, predicted")
    shares.set(xscale="log", xlim=(found.times[0], found.times[-1]), ylim=(-0.03, 1.1))
    shares.legend(title="direction", frameon=False, fontsize=8, title_fontsize=8, loc="upper left", ncols=2)
    losses.plot(found.times, found.loss[0], color=PALETTE[1], lw=2.4, label="their sum: the loss")
    losses.plot(found.times, found.predicted[0], color=_INK, ls="--", lw=1.3, label="idealised staircase")
    _guide(losses, found.window, found.times, found.loss[0], found.rows[1])
    losses.set(xscale="log", yscale="log", xlim=(found.times[0], found.times[-1]))
    losses.set_ylim(0.2 * float(np.min(found.weights)) ** 2, 8.0)
    losses.legend(frameon=False, fontsize=_SMALL, loc="lower left")
    _times(scatter, found)
    return figure


def _times(ax: Axes, found: Emergence) -> None:
    both = np.isfinite(found.hits) & np.isfinite(found.expected)
    early = both & (found.expected <= found.window.high)
    for chosen, colour, name in ((both & ~early, PALETTE[4], "later"), (early, PALETTE[0], "up to the window's end")):
        ax.scatter(found.expected[chosen], found.hits[chosen], s=9, color=colour, alpha=0.6, lw=0, label=name)
    ends = np.array([found.hits[both].min(), found.hits[both].max()])
    ax.plot(ends, ends, color=_INK, ls="--", lw=1.2, label="equal")
    ax.set(xscale="log", yscale="log")
    ax.legend(frameon=False, fontsize=_SMALL)
    ax.text(0.97, 0.05, _with_interval(found.rows[2], "ratio"), transform=ax.transAxes, ha="right", fontsize=_SMALL)


def frontier_figure(found: ComputeFrontier) -> Figure:
    """Loss against steps for each width; against compute with the frontier; slopes of frontiers against the size P."""
    figure, (steps, compute, slopes) = _panels(
        ("steps", "population loss"),
        ("compute: width × steps", "population loss"),
        ("teacher width P", "frontier exponent"),
    )
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, found.widths.size))
    for colour, m, runs, ahead in zip(colours, found.widths, found.loss, found.predicted, strict=True):
        mean = runs.mean(axis=0)
        _keep_runs(figure, runs, f"loss_of_runs_m_{m}", step=found.steps)
        low, high = runs.min(axis=0), runs.max(axis=0)
        steps.fill_between(
            found.steps, low, high, color=colour, alpha=0.15, lw=0, label=f"_m = {m}, lowest to highest run"
        )
        steps.plot(found.steps, mean, color=colour, lw=1.8, label=f"m = {m}")
        steps.plot(found.steps, ahead.mean(axis=0), color=colour, lw=1.0, ls="--", label=f"_m = {m}, predicted")
        compute.plot(m * found.steps, mean, color=colour, lw=1.4, label=f"_m = {m}")
    begun = found.steps[np.argmax(found.loss.min(axis=(0, 1)) < 0.99 * found.loss.max())] / 3
    bottom, top = 0.7 * found.loss.min(), 1.8 * found.loss.max()
    steps.set(xscale="log", yscale="log", xlim=(begun, found.steps[-1]), ylim=(bottom, top))
    steps.legend(frameon=False, fontsize=_SMALL, loc="lower left", title="dashed: predicted", title_fontsize=_SMALL)
    compute.plot(found.grid, found.frontier, color=PALETTE[1], lw=3.0, label="frontier")
    compute.plot(found.grid, found.predicted_frontier, color=_INK, lw=1.5, ls="--", label="predicted frontier")
    ends = (min(found.widths[0] * begun, found.window.low / 2), found.widths[-1] * found.steps[-1])
    compute.set(xscale="log", yscale="log", xlim=ends, ylim=(bottom, top))
    _plain(steps)
    _plain(compute)
    _guide(compute, found.window, found.grid, found.frontier, found.rows[1])
    compute.legend(frameon=False, fontsize=_SMALL, loc="lower left")
    _slopes(slopes, found)
    return figure


def _slopes(ax: Axes, found: ComputeFrontier) -> None:
    row = found.rows[1]
    low, high = row.measured.value - row.measured.low, row.measured.high - row.measured.value
    ax.semilogx(found.sizes, found.ideal, color=_INK, ls="--", lw=1.4, label="ideal sum, p from 4 to P/8")
    ax.errorbar(
        [found.teacher_width], [row.measured.value], yerr=[[max(low, 0.0)], [max(high, 0.0)]], fmt="o", color=PALETTE[1],
        capsize=4, label=f"measured, {100 * row.measured.confidence:g} % interval",
    )  # fmt: skip
    ax.plot(
        [found.teacher_width], [row.finite_size], "x", color=PALETTE[0], ms=9, mew=2.2, label="predicted, same runs"
    )
    if row.asymptotic is not None:
        ax.axhline(row.asymptotic, color=PALETTE[2], lw=1.4, label=f"P → ∞: {row.asymptotic:.3f}")
    ax.legend(frameon=False, fontsize=_SMALL, loc="lower right")


def _panels(*labels: tuple[str, str]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = list(figure.subplots(1, len(labels)))
    for letter, ax, (across, up) in zip("abc", axes, labels, strict=True):
        ax.set_xlabel(across, fontsize=_TEXT)
        ax.set_ylabel(up, fontsize=_TEXT)
        ax.set_title(f"({letter})", loc="left", fontsize=_TEXT)
        ax.tick_params(labelsize=_SMALL)
        ax.grid(color="#E4E4E4", lw=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _plain(ax: Axes) -> None:
    """Ticks of a loss that spans less than two decades: 0.02, 0.05, 0.1 …"""
    ax.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _guide(ax: Axes, window: Window, x: np.ndarray, y: np.ndarray, row: Row) -> None:
    """The window, the asymptotic slope beside the curve, and the exponents in words."""
    ax.axvspan(window.low, window.high, color=PALETTE[5], alpha=0.12, lw=0, label="_window of the fit")
    if row.asymptotic is not None:
        ends = np.array([window.low, window.high])
        start = 1.7 * float(np.exp(np.interp(np.log(window.low), np.log(x), np.log(y))))
        label = f"slope {row.asymptotic:.3f} (theorem)"
        ax.plot(ends, start * (ends / ends[0]) ** row.asymptotic, color=PALETTE[2], lw=1.8, ls=":", label=label)
    words = f"{_with_interval(row, 'measured')}\npredicted, same window: {row.finite_size:.3f}"
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2.0}
    ax.text(0.98, 0.98, words, transform=ax.transAxes, ha="right", va="top", fontsize=_SMALL, bbox=paper, zorder=5)


def _with_interval(row: Row, name: str) -> str:
    return f"{name}: {row.measured.value:.3f} [{row.measured.low:.3f}, {row.measured.high:.3f}]"
