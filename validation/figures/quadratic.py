"""Figures of quadratic networks: the overlap matrix, emergence curves, risk against time, collapse, compute frontier."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from validation.figures.plot import INK, SMALL, Plot, checked, colour_bar, colours

#: Maps in a row: more could not be read in the width of a column.
_ABREAST = 3


def overlap_maps(matrices: ArrayLike, titles: Sequence[str]) -> Figure:
    """|G(t)| at several times as heat maps on one scale from 0 to 1.

    Args:
        matrices: (T, M, M), T at most 6.
        titles: T names.
    """
    maps = np.abs(np.asarray(matrices, dtype=float))
    checked("titles", np.empty(len(titles)), maps.shape[:1])
    columns, rows = min(len(maps), _ABREAST), math.ceil(len(maps) / _ABREAST)
    figure = Figure(figsize=(2.2 * columns + 0.9, 2.4 * rows + 0.3), layout="compressed")
    every = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for spare in every[len(maps) :]:
        spare.remove()
    panels = every[: len(maps)]
    size = maps.shape[1]
    extent = (0.5, size + 0.5, size + 0.5, 0.5)
    for ax, matrix, title in zip(panels, maps, titles, strict=True):
        image = ax.imshow(matrix, vmin=0, vmax=1, cmap="viridis", extent=extent, label="_|G|")
        ax.set_title(title, fontsize=SMALL)
        ax.set_xlabel("direction", fontsize=SMALL)
        ax.tick_params(labelsize=SMALL)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    for first in panels[::columns]:
        first.set_ylabel("direction", fontsize=SMALL)
    colour_bar(figure, image, "|G|", list(panels), fraction=0.04)
    return figure


def emergence(time: ArrayLike, measured: ArrayLike, law: ArrayLike) -> Figure:
    """G_jj against time with the law, dashed. Shapes (T,), (T, n), (T, n)."""
    measured = np.asarray(measured, dtype=float)
    law = checked("law", law, measured.shape)
    plot = Plot("Riccati time", "G_jj", "x")
    for j, colour in enumerate(colours(measured.shape[1])):
        plot.curve(time, measured[:, j], f"j = {j + 1}", colour)
        plot.theory(time, law[:, j], f"_j = {j + 1}, law", colour, 1.1)
    plot.ax.set_ylim(-0.03, 1.05)
    return plot.done(few=True)


def risk_curves(
    curves: Sequence[tuple[str, ArrayLike, ArrayLike, ArrayLike, float]],
    guide: tuple[ArrayLike, ArrayLike, str] | None = None,
    *,
    log_risk: bool = True,
) -> Figure:
    """Risk against time for several widths, with the law (dashed) and the floor (dotted).

    Args:
        curves: (name, times, measured, law, floor) for each width.
        guide: (times, values, name) of a line to compare slopes with.
        log_risk: logarithmic risk axis.
    """
    plot = Plot("Riccati time", "risk / risk at 0", "xy" if log_risk else "x")
    for (name, time, measured, law, floor), colour in zip(curves, colours(len(curves)), strict=True):
        plot.curve(time, measured, name, colour)
        plot.theory(time, law, f"_{name}, law", INK, 1.0)
        if floor > 0:
            plot.level(floor, f"_{name}, floor", colour)
    if guide is not None:
        plot.theory(*guide, ls="-.")
    return plot.done(("--", "law"))


def slopes_over_dim(curves: Sequence[tuple[float, Sequence[int], Sequence[float], float]]) -> Figure:
    """Measured slopes against d with their limits. Curves: (decay, dims, slopes, asymptotic slope)."""
    plot = Plot("dimension d", "slope of the risk in time", "x")
    for (decay, dims, slopes, limit), colour in zip(curves, colours(len(curves)), strict=True):
        plot.curve(dims, slopes, f"decay {decay:g}", colour, marker="o")
        plot.level(limit, f"_decay {decay:g}, limit", colour, "--")
    return plot.done(("--", "limit"), outside=True)


def collapse(curves: Sequence[tuple[int, ArrayLike, ArrayLike]], limit: tuple[ArrayLike, ArrayLike]) -> Figure:
    """Share of the risk left against rescaled time for several M*. Curves: (M*, times, shares)."""
    plot = Plot("time / (√M* log(d/N))", "risk / risk at 0", "x")
    for (teachers, time, share), colour in zip(curves, colours(len(curves)), strict=True):
        plot.curve(time, share, f"M* = {teachers}", colour)
    plot.theory(*limit, "limit")
    return plot.done()


def frontier(
    panel: tuple[str, Sequence[np.ndarray], Sequence[np.ndarray], np.ndarray, np.ndarray], widths: Sequence[int]
) -> Figure:
    """Risk against compute, one curve for each width, and the envelope of the law. Panel: (name, costs, risks, cost, law)."""
    _, costs, rows, cost, law = panel
    plot = Plot("compute N·t", "risk, tail included", "xy")
    for width, clock, row, colour in zip(widths, costs, rows, colours(len(widths)), strict=True):
        plot.curve(clock, row, f"N = {width}", colour)
    plot.theory(cost, law, "frontier of the law", INK, 1.8)
    return plot.done(few=True)
