"""Figures of quadratic networks: the overlap matrix, emergence curves, risk against time, collapse, compute frontier."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from validation.figures.common import _INK, _SMALL, _TEXT, _axes, _colours, _floats, _match, _name_curves


def _log_time(ax: Axes) -> None:
    """A logarithmic horizontal axis with labels at powers of ten only, so that none overlap."""
    ax.set_xscale("log")
    ax.xaxis.set_minor_formatter(NullFormatter())


def overlap_maps(matrices: ArrayLike, titles: Sequence[str]) -> Figure:
    """|G(t)| at several times as heat maps on one scale from 0 to 1.

    Args:
        matrices: (T, M, M), T at most 6.
        titles: T names.
    """
    maps = np.abs(_floats(matrices))
    _match("titles", np.empty(len(titles)), (len(maps),))
    figure = Figure(figsize=(2.4 * len(maps) + 0.9, 2.9), layout="compressed")
    panels = np.atleast_1d(figure.subplots(1, len(maps), sharey=True))
    size = maps.shape[1]
    for ax, matrix, title in zip(panels, maps, titles, strict=True):
        image = ax.imshow(
            matrix, vmin=0, vmax=1, cmap="viridis", extent=(0.5, size + 0.5, size + 0.5, 0.5), label="_|G|"
        )
        ax.set_title(title, fontsize=_SMALL)
        ax.set_xlabel("direction", fontsize=_SMALL)
        ax.tick_params(labelsize=_SMALL)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    panels[0].set_ylabel("direction", fontsize=_SMALL)
    bar = figure.colorbar(image, ax=list(panels), fraction=0.04)
    bar.set_label("|G|", fontsize=_TEXT)
    return figure


def emergence(time: ArrayLike, measured: ArrayLike, law: ArrayLike) -> Figure:
    """G_jj against time with the law, dashed. Shapes (T,), (T, n), (T, n)."""
    time, measured, law = _floats(time), _floats(measured), _floats(law)
    _match("law", law, measured.shape)
    figure, ax = _axes("Riccati time", "G_jj")
    for j, colour in enumerate(_colours(measured.shape[1])):
        ax.plot(time, measured[:, j], color=colour, lw=1.8, label=f"j = {j + 1}")
        ax.plot(time, law[:, j], color=colour, lw=1.1, ls="--", label=f"_j = {j + 1}, law")
    _log_time(ax)
    ax.set_ylim(-0.03, 1.05)
    _name_curves(ax)
    return figure


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
    figure, ax = _axes("Riccati time", "risk / risk at 0")
    for (name, time, measured, law, level), colour in zip(curves, _colours(len(curves)), strict=True):
        ax.plot(_floats(time), _floats(measured), color=colour, lw=1.8, label=name)
        ax.plot(_floats(time), _floats(law), color=_INK, lw=1.0, ls="--", label=f"_{name}, law")
        if level > 0:
            ax.axhline(level, color=colour, lw=1.0, ls=":", label=f"_{name}, floor")
    if guide is not None:
        ax.plot(_floats(guide[0]), _floats(guide[1]), color=_INK, lw=1.6, ls="-.", label=guide[2])
    _log_time(ax)
    ax.set_yscale("log" if log_risk else "linear")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def slopes_over_dim(curves: Sequence[tuple[float, Sequence[int], Sequence[float], float]]) -> Figure:
    """Measured slopes against d with their limits. Curves: (decay, dims, slopes, asymptotic slope)."""
    figure, ax = _axes("dimension d", "slope of the risk in time")
    for (decay, dims, slopes, limit), colour in zip(curves, _colours(len(curves)), strict=True):
        ax.plot(_floats(dims), _floats(slopes), "o-", color=colour, lw=1.8, label=f"decay {decay:g}")
        ax.axhline(limit, color=colour, ls="--", lw=1.1, label=f"_decay {decay:g}, limit")
    _log_time(ax)
    ax.legend(frameon=False, fontsize=_SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def collapse(curves: Sequence[tuple[int, ArrayLike, ArrayLike]], limit: tuple[ArrayLike, ArrayLike]) -> Figure:
    """Share of the risk left against rescaled time for several M*. Curves: (M*, times, shares)."""
    figure, ax = _axes("time / (√M* log(d/N))", "risk / risk at 0")
    for (teachers, time, share), colour in zip(curves, _colours(len(curves)), strict=True):
        ax.plot(_floats(time), _floats(share), color=colour, lw=1.8, label=f"M* = {teachers}")
    ax.plot(_floats(limit[0]), _floats(limit[1]), color=_INK, ls="--", lw=1.3, label="limit")
    _log_time(ax)
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def frontier(
    panel: tuple[str, Sequence[np.ndarray], Sequence[np.ndarray], np.ndarray, np.ndarray], widths: Sequence[int]
) -> Figure:
    """Risk against compute, one curve for each width, and the envelope of the law. Panel: (name, costs, risks, cost, law)."""
    _, costs, rows, cost, law = panel
    figure, ax = _axes("compute N·t", "risk, tail included")
    for width, clock, row, colour in zip(widths, costs, rows, _colours(len(widths)), strict=True):
        ax.plot(clock, row, color=colour, lw=1.5, label=f"N = {width}")
    ax.plot(cost, law, color=_INK, ls="--", lw=1.8, label="frontier of the law")
    _log_time(ax)
    ax.set_yscale("log")
    _name_curves(ax)
    return figure
