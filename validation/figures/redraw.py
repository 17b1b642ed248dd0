"""A figure from the data that were stored with it, see `validation.figures.data`: to look at again, or in another style."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from dynamics.core.plot import INK, PALETTE, Plot
from theory import InputError

_STYLES = {"solid": "-", "dashed": "--", "dotted": ":", "dash-dotted": "-.", "contour": "-"}
_PART = re.compile(r"_(low|high)(_\d+)?$")
_WIDTH, _HEIGHT = 7.0, 4.2


@dataclass(frozen=True)
class _Place:
    """Which pair of axes: its title and labels, and their scales. `axes`: x and y, of which one may have been set by hand."""

    title: str
    xlabel: str
    ylabel: str
    log: str
    axes: tuple[xr.DataArray, xr.DataArray] = field(compare=False)


def redraw(data: xr.Dataset) -> Figure:
    """The figure behind a stored dataset, one pair of axes for each that it had, above one another.

    Args:
        data: a group ``figure1``, ``figure2`` … of a claim's file, or what `figure_data` returned.

    Returns:
        A matplotlib figure, to restyle at will: curves, points with bars, bands, marks and maps under their names. A second
        vertical axis has axes of its own.

    Raises: `InputError` for a dataset that holds no curve, no bars and no map.
    """
    curves: dict[_Place, list[str]] = {}
    for dim in _dims(data, "curve"):
        curves.setdefault(_place_of(data, dim), []).append(dim)
    boxes: dict[_Place, list[str]] = {}
    for dim in _dims(data, "box"):
        boxes.setdefault(_box_place(data, dim), []).append(dim)
    maps = {_map_place(data[name]): str(name) for name in data.data_vars if _is_map(data[name])}
    places = list(dict.fromkeys((*curves, *maps, *boxes)))
    if not places:
        raise InputError("the data hold no curve, no bars and no map: give those of a figure")
    figure = Figure(figsize=(_WIDTH, _HEIGHT if len(places) == 1 else 3.2 * len(places)), layout="constrained")
    for place, ax in zip(places, figure.subplots(len(places), 1, squeeze=False).ravel(), strict=True):
        plot = Plot(place.xlabel, place.ylabel, place.log, grid=place not in maps, ax=ax)
        ax.set_title(place.title, fontsize="medium")
        if place in maps:
            _draw_map(plot, data[maps[place]])
        for dim in boxes.get(place, []):
            _draw_boxes(plot, data, dim, outlined=place in maps)
        for dim in curves.get(place, []):
            _draw_group(plot, data, dim)
        _draw_marks(plot, data, place)
        plot.done(*_keys(ax), few=True)
        _fix(ax, place)
    return figure


def _keys(ax: Axes) -> list[tuple[str, str]]:
    """What a style of line means, (style, word): of curves that are called "NAME, word" beside a named curve NAME."""
    named = set(ax.get_legend_handles_labels()[1])
    hidden = [
        (str(line.get_linestyle()), str(line.get_label()).removeprefix("_").rpartition(", ")) for line in ax.get_lines()
    ]
    return list(dict.fromkeys((style, word) for style, (name, _, word) in hidden if name in named))


def _fix(ax: Axes, place: _Place) -> None:
    """Limits and ticks that were set by hand."""
    for axis, of in zip((ax.xaxis, ax.yaxis), place.axes, strict=True):
        if ticks := _numbers(of, "ticks"):
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set(
        **{f"{name}lim": found for name, of in zip("xy", place.axes, strict=True) if (found := _numbers(of, "limits"))}
    )


def _numbers(of: xr.DataArray, name: str) -> list[float]:
    return [float(word) for word in str(of.attrs.get(name, "")).split()]


def _dims(data: xr.Dataset, kind: str) -> list[str]:
    return [str(dim) for dim in data.dims if re.fullmatch(rf"{kind}(_\d+)?", str(dim))]


def _parts(data: xr.Dataset, dim: str) -> dict[str, xr.DataArray]:
    """Of a group of curves: ``y``, and ``low`` and ``high`` of bars or a band; bars of x and colours are left out."""
    found: dict[str, xr.DataArray] = {}
    x = _x(data, dim)
    for name, one in data.data_vars.items():
        if one.dims[:1] == (dim,) and one.ndim == 2:
            part = _PART.search(str(name))
            if (
                part
                and one.attrs.get("long_name") == x.attrs.get("long_name")
                and not found.keys() & {"low"}
                and "y" in found
            ):
                continue  # bars along x
            found.setdefault(part[1] if part else "y", one)
    return found


def _x(data: xr.Dataset, dim: str) -> xr.DataArray:
    """Abscissae of a group: an axis that all share, or (curve, point)."""
    one = next(one for one in data.data_vars.values() if one.dims[:1] == (dim,) and one.ndim == 2)
    own = [coord for coord in data.coords.values() if coord.dims == one.dims]
    return own[0] if own else data[one.dims[1]]


def _place_of(data: xr.Dataset, dim: str) -> _Place:
    x, y = _x(data, dim), next(iter(_parts(data, dim).values()))
    return _place(y, x, y)


def _place(one: xr.DataArray, x: xr.DataArray, y: xr.DataArray) -> _Place:
    """Of something drawn, over x and y."""
    return _Place(str(one.attrs.get("panel", "")), _text(x), _text(y), _log(x, y), (x, y))


def _map_place(one: xr.DataArray) -> _Place:
    y, x = (one[dim] for dim in one.dims)
    return _place(one, x, y)


def _box_place(data: xr.Dataset, dim: str) -> _Place:
    left, _, bottom, _ = (one for one in data.data_vars.values() if one.dims == (dim,))
    return _place(left, left, bottom)


def _is_map(one: xr.DataArray) -> bool:
    return one.ndim == 2 and all(dim in one.coords and "scale" in one[dim].attrs for dim in one.dims)


def _text(one: xr.DataArray) -> str:
    return str(one.attrs.get("long_name", one.name))


def _log(x: xr.DataArray, y: xr.DataArray) -> str:
    return "x" * (x.attrs.get("scale") == "log") + "y" * (y.attrs.get("scale") == "log")


def _draw_group(plot: Plot, data: xr.Dataset, dim: str) -> None:
    x, parts = _x(data, dim), _parts(data, dim)
    for i, (name, style, colour, listed) in enumerate(_looks(data, dim)):
        at = np.asarray(x.isel({dim: i}) if dim in x.dims else x, dtype=float)
        seen = np.isfinite(at)
        y, low, high = (np.asarray(parts[k].isel({dim: i}))[seen] if k in parts else None for k in ("y", "low", "high"))
        label = name if listed else f"_{name}"
        if style == "band" and low is not None and high is not None:
            plot.band(at[seen], low, high, label, colour)
        elif y is not None and low is not None and high is not None and np.isfinite(low).any():
            plot.points(at[seen], y, label, colour, np.abs(np.stack([y - low, high - y])))
        elif y is not None:
            dashes = next((_STYLES[word] for word in style.split() if word in _STYLES), "")
            marked = "points" in style or not dashes
            steps: dict[str, Any] = {"drawstyle": "steps-post"} if "steps" in style else {}
            plot.curve(at[seen], y, label, colour, ls=dashes or "none", marker="o" if marked else "", ms=4, **steps)


def _looks(data: xr.Dataset, dim: str) -> Iterator[tuple[str, str, str, bool]]:
    """(name, style, colour, whether the legend names it) of each curve of a group."""
    count = data.sizes[dim]
    styles, colours, listed = (
        data.coords[f"{dim}_{what}"].values if f"{dim}_{what}" in data.coords else np.full(count, usual, dtype=object)
        for what, usual in (("style", "solid"), ("colour", ""), ("listed", 1))
    )
    for i, name in enumerate(data[dim].values):
        yield str(name), str(styles[i]), str(colours[i]) or PALETTE[i % len(PALETTE)], bool(listed[i])


def _draw_marks(plot: Plot, data: xr.Dataset, place: _Place) -> None:
    for kind, label, draw in (("vertical", place.xlabel, plot.vertical), ("level", place.ylabel, plot.level)):
        for dim in _dims(data, kind):
            for one in data.data_vars.values():
                if one.dims == (dim,) and (_text(one), str(one.attrs.get("panel", ""))) == (label, place.title):
                    for name, at in zip(one[dim].values, one.values, strict=True):
                        draw(float(at), f"_{name}", INK, "--" if kind == "vertical" else ":", 1.1)


def _draw_boxes(plot: Plot, data: xr.Dataset, dim: str, outlined: bool) -> None:
    """Bars and outlines; what reaches from edge to edge is a shaded span."""
    sides = [one.values for one in data.data_vars.values() if one.dims == (dim,)]
    for name, *ends in zip(data[dim].values, *sides, strict=True):
        left, right, bottom, top = map(float, ends)
        if np.isfinite([bottom, top]).all():
            look: dict[str, Any] = (
                {"fill": False, "ec": PALETTE[1], "lw": 1.8} if outlined else {"fc": PALETTE[4], "ec": "w"}
            )
            plot.ax.add_patch(Rectangle((left, bottom), right - left, top - bottom, label=f"_{name}", **look))
        else:
            plot.ax.axvspan(left, right, color=PALETTE[5], alpha=0.3, lw=0, label=f"_{name}")
    plot.ax.autoscale_view()


def _draw_map(plot: Plot, one: xr.DataArray) -> None:
    y, x = (np.asarray(one[dim], dtype=float) for dim in one.dims)
    image = plot.ax.pcolormesh(x, y, np.ma.masked_invalid(one.values), cmap="viridis", shading="nearest", label="_map")
    plot.colour_bar(image, _text(one))
    for axis, values in ((plot.ax.xaxis, x), (plot.ax.yaxis, y)):
        if axis.get_scale() == "linear" and np.array_equal(values, values.round()):
            axis.set_major_locator(MaxNLocator(5, integer=True))
