"""The data of a figure as a labelled dataset: what is drawn is what is stored, since it is read from what is drawn.

A curve is found by its name, against the axis it is drawn over: ``data.squared_overlap.sel(curve="direction 1").plot()``.
A maker that has more than it draws, such as the replicas behind a mean, hands it over with `keep`.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynamics.core.plot import KEPT, keep, keep_runs
from validation.figures.drawn import Box, Curve, Mark, Panel, panels

__all__ = ["figure_data", "has_data", "keep", "keep_runs"]

_LONGEST = 40
#: Sides of a box, and the axis that each lies on.
_SIDES = {"left": "x", "right": "x", "bottom": "y", "top": "y"}


def figure_data(figure: Figure, caption: str = "", reserved: Collection[str] = ()) -> xr.Dataset:
    """Everything that is drawn, and what was kept beside it.

    Args:
        figure: any matplotlib figure. caption: what it shows. reserved: names that dimensions must not have.

    Returns:
        Per pair of axes, named by their labels (here ``time`` and ``loss``):

        * ``loss`` (curve, time): curves and points over a common x, ``curve`` their names; where they have bars or a
          band ``loss_low``, ``loss_high``; ``curve_style``, ``curve_colour`` and ``curve_listed`` (in the legend) say how
          each is drawn. Curves that have x of their own are ``loss`` (curve, point) with the coordinate ``time`` (curve,
          point), NaN after the end of the shorter ones;
        * ``time_marked`` (vertical), ``loss_marked`` (level): lines right across; ``left``, ``right``, ``bottom``, ``top``
          (box): bars of a histogram, shaded spans, outlines;
        * the values behind an image, over its two axes.

        Attributes of a variable: ``long_name``, ``scale``, and the ``limits`` and ``ticks`` of its axis if they were set by
        hand. Of the dataset: ``caption``, and ``not_stored``, kinds of artists that were not
        understood (empty for our figures).
    """
    build = _Builder(reserved)
    shown = panels(figure)
    for panel in shown:
        build.panel(panel)
    for name, array in vars(figure).get(KEPT, {}).items():
        build.kept(name, array)
    unread = sorted({kind for panel in shown for kind in panel.unread})
    return xr.Dataset(build.variables, build.coordinates, {"caption": caption, "not_stored": ", ".join(unread)})


def has_data(data: xr.Dataset) -> bool:
    """Whether there is at least one number, and nothing that was drawn is missing."""
    numbers = any(np.isfinite(one).any() for one in data.data_vars.values() if one.dtype.kind == "f")
    return numbers and not data.attrs.get("not_stored")


class _Builder:
    """Variables and coordinates under names that are free; equal coordinates are shared."""

    def __init__(self, reserved: Collection[str]) -> None:
        self.reserved = set(reserved)
        self.variables: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {}
        self.coordinates: dict[str, tuple[str | tuple[str, ...], np.ndarray, dict[str, str]]] = {}

    def panel(self, panel: Panel) -> None:
        """Add everything of one pair of axes."""
        across, up = _slug(panel.xlabel), _slug(panel.ylabel)
        about = {"x": _about(panel.xlabel, panel.xscale), "y": _about(panel.ylabel, panel.yscale)}
        about = {axis: text | panel.fixed.get(axis, {}) for axis, text in about.items()}
        panel_title = {"panel": panel.title} if panel.title else {}
        for group in _grouped(panel.curves):
            self._curves(group, across, up, about, panel_title)
        self._marks(panel.verticals, "vertical", across, about["x"] | panel_title)
        self._marks(panel.levels, "level", up, about["y"] | panel_title)
        self._boxes(panel.boxes, about, panel_title)
        for one in panel.fields:
            over = self._axis(across, one.x, about["x"])
            dims = (self._axis(up, one.y, about["y"], other_than=over), over)
            self._add(_slug(one.name), dims, one.values, {"long_name": one.name} | panel_title)

    def kept(self, name: str, array: xr.DataArray) -> None:
        """Add an array with its own coordinates."""
        labels = {str(d): np.asarray(array[d] if d in array.coords else np.arange(n)) for d, n in array.sizes.items()}
        dims = tuple(self._drawn_axis(values) or self._axis(dim, values, {}) for dim, values in labels.items())
        self._add(name, dims, np.asarray(array, dtype=float), {str(k): str(v) for k, v in array.attrs.items()})

    def _curves(
        self, group: Sequence[Curve], across: str, up: str, about: dict[str, dict[str, str]], extra: dict[str, str]
    ) -> None:
        names = self._names("curve", [curve.name for curve in group])
        self._looks(names, group)
        length = max(curve.x.size for curve in group)
        if all(_equal(curve.x, group[0].x) for curve in group):
            over = self._axis(across, group[0].x, about["x"])
        else:
            over = self._axis("point", np.arange(length), {})
            own = np.stack([_padded(curve.x, length) for curve in group])
            self.coordinates[self._free(across)] = ((names, over), own, about["x"])
        for key in dict.fromkeys(key for curve in group for key in curve.values):
            name, attributes = _part(key, across, up, about, next((c.colour_name for c in group if c.colour_name), ""))
            values = np.stack([_padded(curve.values.get(key, np.empty(0)), length) for curve in group])
            self._add(name, (names, over), values, attributes | extra)

    def _marks(self, marks: Sequence[Mark], kind: str, axis: str, attributes: dict[str, str]) -> None:
        if marks:
            names = self._names(kind, [mark.name for mark in marks])
            self._add(f"{axis}_marked", (names,), np.array([mark.at for mark in marks]), attributes)

    def _boxes(self, boxes: Sequence[Box], about: dict[str, dict[str, str]], extra: dict[str, str]) -> None:
        if boxes:
            names = self._names("box", [box.name for box in boxes])
            for side, axis in _SIDES.items():
                self._add(side, (names,), np.array([getattr(box, side) for box in boxes]), about[axis] | extra)

    def _add(self, name: str, dims: tuple[str, ...], values: np.ndarray, attributes: dict[str, str]) -> None:
        self.variables[self._free(name)] = (dims, np.asarray(values, dtype=float), attributes)

    def _axis(self, wish: str, values: np.ndarray, attributes: dict[str, str], other_than: str = "") -> str:
        """Name of the coordinate with these values: one that is there already, or a new one."""
        for name, (_, known, _) in self.coordinates.items():
            if name != other_than and re.fullmatch(rf"{re.escape(wish)}(_\d+)?", name) and _equal(known, values):
                return name
        name = self._free(wish)
        self.coordinates[name] = (name, values, attributes)
        return name

    def _drawn_axis(self, values: np.ndarray) -> str | None:
        """The axis of a panel that has just these values, if they are real numbers (counts are equal by accident)."""
        if values.dtype.kind != "f":
            return None
        axes = {name: known for name, (dim, known, _) in self.coordinates.items() if dim == name}
        return next((name for name, known in axes.items() if _equal(known, values)), None)

    def _names(self, kind: str, names: Sequence[str]) -> str:
        dim = self._free(kind)
        self.coordinates[dim] = (dim, np.array(names, dtype=object), {})
        return dim

    def _looks(self, dim: str, group: Sequence[Curve]) -> None:
        looks = {
            "style": np.array([curve.style for curve in group], dtype=object),
            "colour": np.array([curve.look[0] for curve in group], dtype=object),
            "listed": np.array([curve.look[1] for curve in group], dtype=np.int8),
        }
        self.coordinates |= {f"{dim}_{name}": (dim, values, {}) for name, values in looks.items()}

    def _free(self, wish: str) -> str:
        name, number = wish, 1
        while name in self.reserved or name in self.variables or name in self.coordinates:
            number += 1
            name = f"{wish}_{number}"
        return name


def _part(key: str, across: str, up: str, about: dict[str, dict[str, str]], colour: str) -> tuple[str, dict[str, str]]:
    """Name and attributes of one part of a group of curves; see `Curve.values`."""
    if key == "colour":
        return _slug(colour or "colour"), {"long_name": colour}
    if key.startswith("x_"):
        return f"{across}_{key.removeprefix('x_')}", about["x"]
    return f"{up}_{key}" if key else up, about["y"]


def _grouped(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Curves with the same x together, in the order of their first; then those that share theirs with no other, by parts.

    Lines are kept apart from clouds of coloured points: padded to their number they would fill the file.
    """
    groups: dict[bytes, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.x.tobytes(), []).append(curve)
    alone: dict[tuple[str, ...], list[Curve]] = {}
    for curve in (group[0] for group in groups.values() if len(group) == 1):
        alone.setdefault(tuple(curve.values), []).append(curve)
    return [*(group for group in groups.values() if len(group) > 1), *alone.values()]


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.pad(values, (0, length - values.size), constant_values=np.nan)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _about(label: str, scale: str) -> dict[str, str]:
    return {"long_name": label, "scale": scale}


def _slug(label: str) -> str:
    """A label as a name that Python and netCDF take: ``"loss / initial loss"`` → ``"loss_initial_loss"``."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", re.sub(r"[${}\\|]", "", label)))
    name = words[0] if words else "value"
    for word in words[1:]:
        if len(name) + len(word) >= _LONGEST:
            break
        name = f"{name}_{word}"
    return name if name.isidentifier() else f"_{name}"
