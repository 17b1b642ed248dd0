r"""Figures of results, files and claims, as matplotlib figures to restyle at will and to save for a paper.

* ``plot.dataset(run.dataset)``: any labelled result (also ``run.plot()``, and `emergence plot FILE.nc`).
* ``plot.file("E7.nc")``: what a file holds: the figure of a claim, drawn again from the data behind it, or a result.
* ``plot.common``, ``plot.scaling``, ``plot.quadratic`` …: the figures of the report as functions of arrays.
* ``plot.paper(figure)``: in the width of a paper's column, with letters that can be read there; ``plot.save`` writes it.

Example:
    >>> from emergence import plot
    >>> figure = plot.scaling.floors([(1.0, [8, 16, 32], [0.2, 0.1, 0.05], [0.21, 0.1, 0.05], [0.1, 0.05, 0.02])])
    >>> figure.axes[0].set_title("floor in width")
    Text(0.5, 1.0, 'floor in width')
    >>> round(float(plot.paper(figure).get_figwidth()), 3)
    3.375
"""

import io
import itertools
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator, MaxNLocator

from dynamics.core.plot import INK, PALETTE, SMALL, TEXT, Plot, colours, covered, shades, wrapped
from dynamics.core.plotted import figure as dataset
from dynamics.core.storage import write_atomically
from emergence.output import PICTURES
from emergence.reading import read
from theory import InputError
from theory.core.typeset import typeset
from validation.figures import (
    baselines,
    common,
    exponents,
    linear,
    networks,
    quadratic,
    reproduction,
    scaling,
    selection,
    steps,
    stiefel,
)
from validation.figures.data import figure_data
from validation.figures.redraw import redraw
from validation.judge.storage import group_of

__all__ = [
    "INK",
    "PALETTE",
    "WIDTHS",
    "Plot",
    "baselines",
    "colours",
    "common",
    "dataset",
    "exponents",
    "figure_data",
    "file",
    "linear",
    "networks",
    "paper",
    "quadratic",
    "redraw",
    "reproduction",
    "save",
    "scaling",
    "selection",
    "shades",
    "steps",
    "stiefel",
]

#: Inches: a column of a page of two, and the whole text.
WIDTHS = {"column": 3.375, "text": 6.75}
#: Ticks of an inch; names of a legend that axes in a column have room for; letters of names that stand two abreast.
_TICKS, _INSIDE, _SHORT = 1.6, 4, 24
_ABOVE = "_above"
#: Lines are not made thinner than by this factor.
_THINNEST = 0.6
_PNG_DPI = 300


def file(
    path: str | Path, *variables: str, number: int | None = None, over: str = "", log: str | None = None
) -> Figure:
    """The figure of a netCDF file.

    Args:
        path: of `emergence validate` (a claim's figures, or its own dataset), `simulate`, `sweep`, `merge`, `reproduce`.
        variables, over, log: as in `dataset`; with them a claim's own dataset is drawn.
        number: which of a claim's figures, counted from 1 (the first if None).

    Raises: `InputError` for a file that is not there or no netCDF, and where it holds nothing to draw.
    """
    tree = _opened(Path(path))
    count = next(n for n in itertools.count() if group_of(n + 1) not in tree.children)
    if number is not None and not 1 <= number <= count:
        remedy = f"use 1 to {count}" if count else "leave it out"
        raise InputError(f"number is {number}: {str(path)!r} holds {count} figures of a claim: {remedy}")
    if count and not (variables or over):
        return _redrawn(path, tree[group_of(number or 1)].to_dataset())
    own = tree["data"] if "claim" in tree.attrs and "data" in tree.children else tree
    return dataset(own.to_dataset(), *variables, over=over, log=log)


def _redrawn(path: str | Path, data: xr.Dataset) -> Figure:
    """A figure of a claim's file. Raises `InputError` for data that are none of ours."""
    try:
        return redraw(data)
    except InputError:
        raise
    except Exception as problem:  # data that somebody made up can raise anything
        raise InputError(f"file {str(path)!r} holds a figure that cannot be drawn: give one of a claim") from problem


def _opened(path: Path) -> xr.DataTree:
    """A netCDF file in memory. Raises `InputError`."""
    try:
        content = read(path)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise InputError(f"file {str(path)!r}: {reason}: give a netCDF file of a run") from problem
    try:
        if content.startswith(b"CDF"):  # it has no groups
            return xr.DataTree(xr.load_dataset(io.BytesIO(content), engine="scipy"))
        with xr.open_datatree(io.BytesIO(content), engine="h5netcdf") as tree:
            return tree.load()
    except Exception as problem:  # bytes that somebody made up can raise anything
        raise InputError(f"file {str(path)!r} is no netCDF file that can be read: give one of a run") from problem


def paper(figure: Figure, width: str | float = "column", font: float = 8.0) -> Figure:
    """The figure in a paper's width: text of `font` points (8 where the page's is 10), lines and marks to match.

    Args:
        width: ``column`` (3.375 inches), ``text`` (6.75), or inches. font: of the axes' labels.

    Returns:
        The same figure, changed. Its proportions stay; a narrower one is not made lower than half its width.

    Raises: `InputError` for another width.
    """
    inches = WIDTHS[width] if isinstance(width, str) and width in WIDTHS else width
    if isinstance(inches, str) or not 0 < inches < 100:
        raise InputError(f"width is {width!r}: use {', '.join(WIDTHS)} or a number of inches")
    before = figure.axes[0].xaxis.label.get_fontsize() if figure.axes else TEXT
    letters, thinner = font / float(before), max(inches / figure.get_figwidth(), _THINNEST)
    figure.set_size_inches(inches, inches * max(figure.get_figheight() / figure.get_figwidth(), 0.5))
    for text in figure.findobj(Text):
        text.set_fontsize(float(text.get_fontsize()) * letters)
    _widen(figure)
    for ax in figure.axes:
        ax.tick_params(labelsize=font * SMALL / TEXT)
        _fit(ax, figure)
        _compact(ax, figure)
    for line in figure.findobj(Line2D):
        line.set_linewidth(line.get_linewidth() * thinner)
        line.set_markersize(line.get_markersize() * thinner)
    for marks in figure.findobj(Collection):
        marks.set_linewidth((np.atleast_1d(marks.get_linewidth()) * thinner).tolist())
    return figure


def _widen(figure: Figure) -> None:
    """Axes without room for legends beside them: these are made anew, and the layout would not give the room back."""
    for ax in figure.axes:
        if legend := ax.get_legend():
            legend.set_in_layout(False)
    figure.draw_without_rendering()


def _fit(ax: Axes, figure: Figure) -> None:
    """Labels in lines no longer than their axis, and few enough ticks."""
    place = ax.get_position()
    sides = (place.width * figure.get_figwidth(), place.height * figure.get_figheight())
    for label, length in zip((ax.xaxis.label, ax.yaxis.label), sides, strict=True):
        label.set_text(wrapped(" ".join(label.get_text().split()), 0.9 * length, float(label.get_fontsize())))
    if isinstance(ax.xaxis.get_major_locator(), AutoLocator):
        ax.xaxis.set_major_locator(MaxNLocator(max(int(figure.get_figwidth() * _TICKS), 3)))


def _compact(ax: Axes, figure: Figure) -> None:
    """The legend with less air; above the axes where it would cover them, the figure higher by as much."""
    legend = ax.get_legend()
    if legend is None or not legend.get_texts():
        return
    size, names = float(legend.get_texts()[0].get_fontsize()), [text.get_text() for text in legend.get_texts()]
    drawn, labels = ax.get_legend_handles_labels()
    known = dict(zip(map(typeset, labels), drawn, strict=True))  # with their markers and bars
    handles: list[Any] = [known.get(name, key) for name, key in zip(names, legend.legend_handles, strict=True)]
    tight: dict[str, Any] = {"handlelength": 1.5, "labelspacing": 0.25, "columnspacing": 1.0, "frameon": False}
    # (Beside the key and the air around it.)
    room = figure.get_figwidth() * (1 - ax.get_position().x0) - 3.5 * size / 72
    names = [wrapped(name, 0.85 * room, size) for name in names]
    tight |= {"fontsize": size, "title_fontsize": size, "title": legend.get_title().get_text() or None}
    columns = 2 if max(map(len, names)) < _SHORT else 1
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
    made = ax.legend(handles, names, **tight, **(above if len(names) > _INSIDE else {"loc": "best"}))
    if outside := len(names) <= _INSIDE and covered(ax):
        made = ax.legend(handles, names, **tight, **above)
    if outside or len(names) > _INSIDE:
        made.set_label(_ABOVE)
        if legend.get_label() != _ABOVE:  # it was not there before
            rows = -(-sum(1 + name.count("\n") for name in names) // columns)
            figure.set_figheight(figure.get_figheight() + rows * (1 + tight["labelspacing"]) * size / 72)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .pdf, .svg, .png or .eps: letters embedded as fonts, the same bytes for the same figure.

    An .eps file alone has its date in it.

    Raises: `InputError` for another ending, or where the file cannot be written.
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in PICTURES:
        raise InputError(f"path is {str(path)!r}: end the name with {', '.join(f'.{name}' for name in PICTURES)}")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "eps": {}, "png": {}}[kind]
    fonts: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "emergence"}
    with matplotlib.rc_context(fonts):
        return write_atomically(
            path, lambda temporary: figure.savefig(temporary, format=kind, dpi=_PNG_DPI, metadata=undated)
        )
