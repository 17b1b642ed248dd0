"""What is drawn on the axes of a matplotlib figure, read back as named arrays: whoever drew it, and whatever it was called.

Names are the labels of the artists. matplotlib leaves labels that begin with an underscore out of legends, so a curve that
needs no entry there (a dashed prediction beside its measured points) is still named: ``label="_predicted, d = 64"``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator

#: What matplotlib calls an artist that nobody named.
_NAMELESS = re.compile(r"_child\d+|_nolegend_|_container\d+|")
_STYLES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dash-dotted"}


@dataclass(frozen=True)
class Curve:
    """Points (x, y), joined or not: `x` (n,), `values` (n,) each, by what they are.

    Keys of `values`: ``""`` for y itself, ``low`` and ``high`` for the ends of its bars or band, ``x_low`` and ``x_high``
    for those of x, ``colour`` for the number that the colour stands for (`colour_name`). `style`: ``solid``, ``points`` …
    `look`: its colour (``#0072b2``, nothing for many), and whether the legend names it.
    """

    name: str
    x: np.ndarray
    values: dict[str, np.ndarray]
    style: str = ""
    colour_name: str = ""
    look: tuple[str, bool] = ("", True)


@dataclass(frozen=True)
class Box:
    """A bar of a histogram, a shaded span or an outline; a side that is the frame of the axes is infinite."""

    name: str
    left: float
    right: float
    bottom: float
    top: float


@dataclass(frozen=True)
class Mark:
    """A line right across the axes, at one value of x or y."""

    name: str
    at: float


@dataclass(frozen=True)
class Field:
    """Values (k, n) as colours over x (n,) and y (k,)."""

    name: str
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray


@dataclass
class Panel:
    """One pair of axes.

    `fixed`: of ``x`` and ``y``, the ``limits`` and ``ticks`` that were set by hand, numbers between spaces. `unread`: kinds
    of artists that this module does not know; their data are not here.
    """

    title: str
    xlabel: str
    ylabel: str
    xscale: str
    yscale: str
    fixed: dict[str, dict[str, str]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    verticals: list[Mark] = field(default_factory=list)
    levels: list[Mark] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def panels(figure: Figure) -> list[Panel]:
    """What each pair of axes of the figure shows, colour bars left out, in the order in which they were made."""
    return [_panel(ax) for ax in _all_axes(figure.axes) if ax.get_label() != "<colorbar>"]


def _all_axes(axes: Iterable[Axes]) -> Iterator[Axes]:
    for ax in axes:
        yield ax
        yield from _all_axes(child for child in ax.child_axes if isinstance(child, Axes))


def _panel(ax: Axes) -> Panel:
    titles = [title for side in ("left", "center", "right") if (title := ax.get_title(loc=side))]
    found = Panel(" ".join(titles), _label(ax, "x"), _label(ax, "y"), ax.get_xscale(), ax.get_yscale(), _fixed(ax))
    done: set[Artist] = set()
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            found.curves.append(_with_bars(container))
            done |= set(_flat(container))
        elif isinstance(container, BarContainer):
            labelled = [
                _name(one, "bars") for one in (container, *container.patches)
            ]  # a histogram names its first bar
            name = next((label for label in labelled if label != "bars"), "bars")
            found.boxes += [_box(ax, patch, name) for patch in container.patches if isinstance(patch, Rectangle)]
            done |= set(container.patches)
    for artist in [*ax.lines, *ax.collections, *ax.patches, *ax.images, *ax.artists, *ax.tables]:
        if artist not in done:
            _read(ax, artist, found)
    return found


def _fixed(ax: Axes) -> dict[str, dict[str, str]]:
    """For `Panel.fixed`."""
    found: dict[str, dict[str, str]] = {"x": {}, "y": {}}
    for name, axis, chosen in (("x", ax.xaxis, ax.get_autoscalex_on()), ("y", ax.yaxis, ax.get_autoscaley_on())):
        if not chosen:
            found[name]["limits"] = _spaced(axis.get_view_interval())
        if isinstance(axis.get_major_locator(), FixedLocator):
            found[name]["ticks"] = _spaced(axis.get_majorticklocs())
    return found


def _spaced(values: Iterable[float]) -> str:
    return " ".join(f"{float(value)!r}" for value in values)


def _label(ax: Axes, which: str) -> str:
    """The label of an axis, or that of a sibling that shares it: of subplots in a row only the first is labelled."""
    shared = ax.get_shared_x_axes() if which == "x" else ax.get_shared_y_axes()
    labels = [one.get_xlabel() if which == "x" else one.get_ylabel() for one in [ax, *shared.get_siblings(ax)]]
    return next((label for label in labels if label), which)


def _read(ax: Axes, artist: Artist, found: Panel) -> None:
    """Sort one artist into the panel."""
    if isinstance(artist, Line2D):
        _line(ax, artist, found)
    elif isinstance(artist, Rectangle):
        found.boxes.append(_box(ax, artist, _name(artist, "box")))
    elif isinstance(artist, AxesImage):
        found.fields.append(_image(artist))
    elif isinstance(artist, QuadMesh) and (mesh := _mesh(artist)):
        found.fields.append(mesh)
    elif isinstance(artist, QuadContourSet):
        found.curves += _contours(artist)
    elif isinstance(artist, PathCollection):
        found.curves.append(_scatter(artist))
    elif isinstance(artist, PolyCollection) and (bands := _bands(artist)):
        found.curves += bands
    else:
        found.unread.append(type(artist).__name__)


def _line(ax: Axes, line: Line2D, found: Panel) -> None:
    x, y = _numbers(line.get_xdata(orig=False)), _numbers(line.get_ydata(orig=False))
    along_x, along_y = line.get_transform().contains_branch_seperately(ax.transData)
    if x.size == 0:
        return  # a key of the legend
    if along_x and along_y:
        dashes, marker = line.get_linestyle(), line.get_marker()
        style = [_STYLES.get(str(dashes), "" if dashes in ("None", "", " ") else str(dashes))]
        style += ["steps"] if line.get_drawstyle().startswith("steps") else []
        style += ["points"] if marker not in (None, "None", "", " ") else []
        found.curves.append(
            Curve(_name(line, "curve"), x, {"": y}, " ".join(filter(None, style)), look=_look(line, line.get_color()))
        )
    elif along_x:
        found.verticals.append(Mark(_name(line, "vertical"), float(x[0])))
    elif along_y:
        found.levels.append(Mark(_name(line, "level"), float(y[0])))


def _with_bars(container: ErrorbarContainer) -> Curve:
    line, _, bars = container
    values: dict[str, np.ndarray] = {}
    directions = ["x"] * container.has_xerr + ["y"] * container.has_yerr
    for direction, collection in zip(directions, bars, strict=True):
        ends = np.array([path.vertices for path in collection.get_paths()])  # (n, 2, 2)
        across = 0 if direction == "x" else 1
        prefix = "x_" if direction == "x" else ""
        values |= {f"{prefix}low": ends[:, 0, across], f"{prefix}high": ends[:, 1, across]}
    if line is None:
        x, middle = ends[:, :, 0].mean(axis=1), ends[:, :, 1].mean(axis=1)
    else:
        x, middle = _numbers(line.get_xdata(orig=False)), _numbers(line.get_ydata(orig=False))
    look = _look(container, "" if line is None else line.get_color())
    return Curve(_name(container, "points"), x, {"": middle, **values}, "points with bars", look=look)


def _scatter(points: PathCollection) -> Curve:
    place = _numbers(points.get_offsets())
    values = {"": place[:, 1]}
    if points.get_array() is not None:
        values["colour"] = _filled(points).ravel()
    colours = np.asarray(points.get_facecolor())
    look = _look(points, colours[0] if len(colours) == 1 and "colour" not in values else "")
    return Curve(_name(points, "points"), place[:, 0], values, "points", _colour_name(points), look)


def _bands(collection: PolyCollection) -> list[Curve]:
    """Lower and upper edge of what ``fill_between`` filled; empty if the outline is not of that kind.

    Its outline: a corner, the lower edge from left to right, a corner, the upper edge from right to left.
    """
    found = []
    for path in collection.get_paths():
        outline = np.asarray(path.vertices, dtype=float)
        count = (len(outline) - 3) // 2
        lower, upper = outline[1 : count + 1], outline[count + 2 : 2 * count + 2][::-1]
        if count < 1 or not np.array_equal(lower[:, 0], upper[:, 0]):
            return []
        values = {"low": np.minimum(lower[:, 1], upper[:, 1]), "high": np.maximum(lower[:, 1], upper[:, 1])}
        look = _look(collection, np.asarray(collection.get_facecolor())[0])
        found.append(Curve(_name(collection, "band"), lower[:, 0], values, "band", look=look))
    return found


def _contours(contours: QuadContourSet) -> list[Curve]:
    """One curve per level; where it comes in pieces, NaN between them."""
    found = []
    for level, path in zip(np.asarray(contours.levels), contours.get_paths(), strict=True):
        pieces = [piece for polygon in path.to_polygons(closed_only=False) for piece in (polygon, [[np.nan, np.nan]])]
        outline = np.concatenate([np.empty((0, 2)), *pieces[:-1]])
        name = f"{_name(contours, 'contour')} at {level:g}"
        found.append(Curve(name, outline[:, 0], {"": outline[:, 1]}, "contour"))
    return found


def _mesh(mesh: QuadMesh) -> Field | None:
    """Values at the crossings of a rectangular mesh (gouraud shading); None for values between them."""
    corners, values = np.asarray(mesh.get_coordinates(), dtype=float), _filled(mesh)
    return Field(_colour_name(mesh), corners[0, :, 0], corners[:, 0, 1], values) if _grid(corners, values) else None


def _grid(corners: np.ndarray, values: np.ndarray) -> bool:
    straight = np.all(corners[..., 0] == corners[0, :, 0]) and np.all(corners[..., 1] == corners[:, :1, 1])
    return corners.shape[:2] == values.shape and bool(straight)


def _image(image: AxesImage) -> Field:
    values = _filled(image)
    left, right, bottom, top = image.get_extent()
    rows, columns = values.shape[:2]
    x = left + (right - left) * (np.arange(columns) + 0.5) / columns
    y = bottom + (top - bottom) * (np.arange(rows) + 0.5) / rows
    return Field(_colour_name(image), x, y[::-1] if image.origin == "upper" else y, values)


def _box(ax: Axes, patch: Rectangle, name: str) -> Box:
    (left, bottom), right, top = patch.get_xy(), patch.get_x() + patch.get_width(), patch.get_y() + patch.get_height()
    along_x, along_y = patch.get_transform().contains_branch_seperately(ax.transData)
    sides = (left, right) if along_x else (-np.inf, np.inf)
    ends = (bottom, top) if along_y else (-np.inf, np.inf)
    return Box(name, *map(float, sides), *map(float, ends))


def _filled(coloured: Collection | AxesImage) -> np.ndarray:
    """The numbers behind the colours, NaN where masked."""
    return _numbers(coloured.get_array())


def _numbers(values: object) -> np.ndarray:
    return np.asarray(np.ma.filled(np.ma.masked_array(values, dtype=float), np.nan))


def _colour_name(coloured: Collection | AxesImage) -> str:
    """What the colour bar says, or the artist's own label."""
    bar = coloured.colorbar
    along = () if bar is None else (bar.ax.get_ylabel(), bar.ax.get_xlabel())
    return next((label for label in along if label), _name(coloured, "colour"))


def _name(artist: object, kind: str) -> str:
    """The label, without the underscore that keeps it out of the legend; the kind if there is none."""
    label = str(artist.get_label())  # type: ignore[attr-defined]
    return kind if _NAMELESS.fullmatch(label) else label.removeprefix("_")


def _look(artist: object, colour: Any) -> tuple[str, bool]:
    """For `Curve.look`."""
    listed = not str(artist.get_label()).startswith("_")  # type: ignore[attr-defined]
    return "" if isinstance(colour, str) and not colour else to_hex(colour), listed


def _flat(container: Iterable[object]) -> Iterator[Artist]:
    for part in container:
        if isinstance(part, Artist):
            yield part
        elif isinstance(part, tuple | list):
            yield from _flat(part)
