"""The vocabulary of figures: curves, theory, points with bars, bands and marks on one pair of axes, in one style.

matplotlib objects, no pyplot, so nothing global changes. Colours are those of Okabe and Ito, and two more that colour-blind
readers tell from them. Measurement is solid or points, and coloured; theory is dashed; limits and rivals are dotted. A name
that begins with an underscore stays out of the legend, not out of the data that are stored with the figure.
"""

import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from theory import InputError
from theory.core.typeset import typeset

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#663300", "#8033FF")
INK = "#333333"
#: The attribute of a figure that holds what is stored beside what it shows.
KEPT = "kept_data"
TEXT, SMALL = 11, 10
#: A longer legend hides the curves; the colours then run through a sequential map and the legend names a few.
_MOST_NAMES = len(PALETTE)
#: Mean width of a letter over its height.
_ADVANCE = 0.5


def colours(count: int) -> list[str]:
    """One colour for each of `count` curves."""
    return list(PALETTE[:count]) if count <= _MOST_NAMES else shades(count)


def shades(count: int) -> list[str]:
    """Colours of an ordered family. They stop short of the map's pale end, which vanishes on white."""
    return [to_hex(colour) for colour in matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, count))]


def keep(figure: Figure, **arrays: xr.DataArray) -> None:
    """Attach arrays to a figure, to be stored with what it shows; they are pickled with it."""
    vars(figure)[KEPT] = vars(figure).get(KEPT, {}) | arrays


def keep_runs(figure: Figure, runs: np.ndarray, name: str = "runs", **axes: np.ndarray) -> None:
    """Store every replica with the figure that shows their mean or histogram. Shape (replica, *axes)."""
    keep(figure, **{name: xr.DataArray(runs, {**axes}, ("replica", *axes), attrs={"long_name": "every replica"})})


def wrapped(text: str, inches: float, size: float) -> str:
    """Words in lines that fit a length, at `size` points; formulas are not broken."""
    most, lines = max(int(inches / (_ADVANCE * size / 72)), 8), [""]
    for word in re.findall(r"\S*\$[^$]*\$\S*|\S+", text):
        if lines[-1] and len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def covered(ax: Axes) -> bool:
    """Whether the legend, where it is drawn, lies over a curve or a band (lines right across the axes do not count)."""
    legend, figure = ax.get_legend(), ax.get_figure(root=True)
    if legend is None or not isinstance(figure, Figure):
        return False
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    curves = [
        (line.get_path(), line.get_transform(), False) for line in ax.lines if line.get_transform() == ax.transData
    ]
    bands = [(path, band.get_transform(), True) for band in ax.collections for path in band.get_paths()]
    # (`cleaned` itself would leave out what a logarithmic axis does.)
    drawn = ((place.transform_path(path), filled) for path, place, filled in (*curves, *bands))
    paths = ((path.cleaned(remove_nans=True), filled) for path, filled in drawn)
    return any(path.intersects_bbox(box, filled=filled) for path, filled in paths)


def checked(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """As numbers. Raises `InputError` unless they have this shape."""
    array = np.asarray(values, dtype=float)
    if array.shape != shape:
        raise InputError(f"{name}: shape {array.shape}, but {shape} was expected: transpose or select the same entries")
    return array


class Plot:
    """One pair of axes: a figure of its own, or the given `ax` of a larger one. `log`: logarithmic axes, some of "xy"."""

    def __init__(self, xlabel: str, ylabel: str, log: str = "", *, grid: bool = True, ax: Axes | None = None) -> None:
        self.ax = Figure(figsize=(7.0, 4.2), layout="constrained").add_subplot() if ax is None else ax
        self.figure: Figure = self.ax.get_figure(root=True)  # type: ignore[assignment]
        self.ax.set_xlabel(typeset(xlabel), fontsize=TEXT)
        self.ax.set_ylabel(typeset(ylabel), fontsize=TEXT)
        self.ax.tick_params(labelsize=SMALL)
        self.ax.set_xscale("log" if "x" in log else "linear")
        self.ax.set_yscale("log" if "y" in log else "linear")
        if grid:
            self.ax.grid(color="#E4E4E4", lw=0.6)
            self.ax.set_axisbelow(True)
        self.ax.spines[["top", "right"]].set_visible(False)

    def twin(self, ylabel: str, colour: str) -> "Plot":
        """Another vertical axis, on the right, over the same horizontal one."""
        other = Plot("", ylabel, grid=False, ax=self.ax.twinx())
        other.ax.yaxis.label.set_color(colour)
        other.ax.spines[["right", "left"]].set_visible([True, False])
        return other

    def curve(self, x: ArrayLike, y: ArrayLike, name: str, colour: str, lw: float = 1.8, **style: Any) -> None:
        """y over x, joined, shapes (n,). Raises `InputError` if they are not as many."""
        self.ax.plot(np.asarray(x, float), checked(name, y, np.shape(x)), color=colour, lw=lw, label=name, **style)

    def theory(self, x: ArrayLike, y: ArrayLike, name: str, colour: str = INK, lw: float = 1.4, **style: Any) -> None:
        """A predicted curve, dashed; shapes (n,)."""
        self.curve(x, y, name, colour, lw, **{"ls": "--", **style})

    def limit(self, x: ArrayLike, y: ArrayLike, name: str, colour: str = INK, lw: float = 1.4, **style: Any) -> None:
        """A limiting law, or a rival of theory, dotted; shapes (n,)."""
        self.curve(x, y, name, colour, lw, **{"ls": ":", **style})

    def points(self, x: ArrayLike, y: ArrayLike, name: str, colour: str, error: ArrayLike | None = None) -> None:
        """Measured points; with bars where `error` gives their half lengths (n,), or those below and above (2, n)."""
        if error is None:
            self.curve(x, y, name, colour, ls="", marker="o", ms=5)
        else:
            style: dict[str, Any] = {"fmt": "o", "ms": 5, "elinewidth": 1.3, "capsize": 3, "label": name}
            self.ax.errorbar(np.asarray(x, float), checked(name, y, np.shape(x)), yerr=error, color=colour, **style)

    def cloud(self, x: ArrayLike, y: ArrayLike, name: str, **style: Any) -> PathCollection:
        """Points (n,) in the style of matplotlib's scatter; `c` may be numbers, shown by a colour bar."""
        return self.ax.scatter(np.asarray(x, float), checked(name, y, np.shape(x)), label=name, **style)

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, name: str, colour: str, alpha: float = 0.25) -> None:
        """What lies between two curves, shaded; shapes (n,)."""
        self.ax.fill_between(np.asarray(x, float), low, high, color=colour, alpha=alpha, lw=0, label=name)

    def runs(self, x: np.ndarray, runs: ArrayLike, name: str, colour: str, keep: str = "", **axis: np.ndarray) -> None:
        """Mean over replicas (R, n) with the range that they span; all are stored, under the name `keep`."""
        values = checked(name, runs, (len(np.asarray(runs)), len(x)))
        if keep:
            keep_runs(self.figure, values, keep, **axis)
        if len(values) > 1:
            self.band(x, values.min(axis=0), values.max(axis=0), f"_{name}, lowest to highest run", colour, 0.2)
        self.curve(x, values.mean(axis=0), name, colour)

    def shares(
        self, times: np.ndarray, name: str, colour: str, lw: float = 1.8, end: float | None = None, **style: Any
    ) -> None:
        """Share of runs that have arrived by each time (inf: never), times (R,), drawn on to `end`."""
        found = np.sort(times[np.isfinite(times)])
        share = np.arange(found.size + 1) / times.size
        x, y = np.append(0.0, found), share
        if end is not None:
            x, y = np.append(x, end), np.append(y, share[-1])
        self.curve(x, y, name, colour, lw, drawstyle="steps-post", **style)

    def vertical(self, at: float, name: str, colour: str = INK, ls: str = "--", lw: float = 1.3) -> None:
        """A line right across at one x, where that is finite."""
        if np.isfinite(at):
            self.ax.axvline(at, color=colour, ls=ls, lw=lw, label=name)

    def level(self, at: float, name: str, colour: str = INK, ls: str = ":", lw: float = 1.3) -> None:
        """A line right across at one y."""
        self.ax.axhline(at, color=colour, ls=ls, lw=lw, label=name)

    def words(self, x: float, y: float, text: str, **style: Any) -> None:
        """Text that ends at (x, y), in shares of the axes."""
        self.ax.text(x, y, typeset(text), transform=self.ax.transAxes, ha="right", fontsize=SMALL, **style)

    def colour_bar(self, image: ScalarMappable, label: str) -> None:
        """What the colours of an image or of points stand for."""
        colour_bar(self.figure, image, label, [self.ax])

    def done(
        self,
        *keys: tuple[str, str],
        few: bool = False,
        outside: bool = False,
        over: "Plot | None" = None,
        **options: Any,
    ) -> Figure:
        """The figure, with a legend: the curves by name, then what a style of line means, (style, name), in `keys`.

        Args:
            few: name a few of many curves. outside: right of the axes. over: a twin whose curves are named too.
            options: of matplotlib's legend.
        """
        handles, names = self.ax.get_legend_handles_labels()
        if over is not None:
            more = over.ax.get_legend_handles_labels()
            handles, names = [*handles, *more[0]], [*names, *more[1]]
        if few:
            picked = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_NAMES)).astype(int))
            handles, names = [handles[i] for i in picked], [names[i] for i in picked]
        handles += [Line2D([], [], color=INK, ls=style, lw=1.4) for style, _ in keys]
        if outside:
            options |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        texts = [typeset(name) for name in (*names, *(name for _, name in keys))]
        self.ax.legend(handles, texts, **{"frameon": False, "fontsize": SMALL} | options)
        _readable(self.ax.xaxis)
        _readable(self.ax.yaxis)
        return self.figure


def _readable(axis: XAxis | YAxis) -> None:
    """Labels of a logarithmic axis that do not overlap: 1, 2, 5 … below two decades, beyond them powers of ten only.

    Below a factor of five every digit has room.
    """
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() != "log":
        return
    plain = low > 1e-3 and high < 1e5
    own = not isinstance(axis.get_major_locator(), LogLocator)
    if own or high >= 5 * low:
        axis.set_minor_formatter(NullFormatter())
    elif plain:
        axis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    if plain and not own and high < 100 * low:
        axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if high >= 5 * low else (1.0,)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def colour_bar(figure: Figure, image: ScalarMappable, label: str, axes: Sequence[Axes], **options: Any) -> None:
    """A colour bar beside `axes`."""
    bar = figure.colorbar(image, ax=list(axes), **options)
    bar.set_label(typeset(label), fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL)
