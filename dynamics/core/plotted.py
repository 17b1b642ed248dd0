"""Any labelled result as a figure: its dimensions say what curves run along, what is averaged, and what makes a family.

Curves run along ``over`` (time where there is one; where each curve has times of its own, against these); replicas and seeds
are averaged, with the range that they span; of the neurons of an overlap the best one is shown for each direction; every other
dimension makes a family of curves.
"""

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dynamics.core.plot import INK, TEXT, Plot, colours, covered, wrapped
from theory import InputError
from theory.core.errors import did_you_mean

#: Dimensions that are averaged over.
AVERAGED = ("replica", "seed")
#: Dimensions that number things, along which no curve runs of its own accord; the first is the least unlikely.
COUNTED = ("direction", "neuron", "eigenspace", "other", "input", *AVERAGED)
#: Variables with these dimensions are matrices: shown only when asked for.
_MATRICES = ("other", "input")
#: What is shown first where nothing is asked for.
_FIRST = ("loss", "risk", "overlap", "diagonal", "share", "mean_norm", "mean_alignment", "time_half", "overlap2")
_PANELS = 3
#: Recorded at points that are this uneven, or spread over this factor, an axis is logarithmic.
_UNEVEN, _SPREAD = 1.5, 30.0
_WIDTH, _HEIGHT = 7.0, 2.9
#: What rises from near 0 to 1 is shown on a linear axis.
_LINEAR = ("overlap", "diagonal", "share")
#: So few points are shown as such.
_FEW = 20


def figure(data: xr.Dataset, *variables: str, over: str = "", log: str | None = None) -> Figure:
    """A dataset's variables, one pair of axes each, above one another.

    Args:
        data: a result's ``dataset``, or what a file of `emergence simulate`, `sweep` or `merge` holds.
        variables: names; without any, the loss, overlaps and the like, at most three.
        over: the dimension along which curves run.
        log: which axes are logarithmic, some of ``"xy"``; None decides by the values.

    Returns:
        A matplotlib figure, to restyle at will: ``figure.axes`` are the panels.

    Raises: `InputError` for a variable or a dimension that is not there, and where nothing can be drawn.
    """
    over = over or axis_of(data)
    if over not in data.dims:
        raise InputError(f"over is {over!r}: {did_you_mean(over, map(str, data.dims))}use one of {_listed(data.dims)}")
    names = variables or _default(data, over)
    for name in names:
        if name not in data.data_vars:
            hint = did_you_mean(name, map(str, data.data_vars))
            raise InputError(f"variable {name!r} is not in the data: {hint}use some of {_listed(data.data_vars)}")
        if over not in data[name].dims:
            raise InputError(
                f"variable {name!r} does not run along {over!r}: use over, one of {_listed(data[name].dims)}"
            )
    drawn = Figure(figsize=(_WIDTH, _HEIGHT * len(names) + 0.5), layout="constrained")
    panels = drawn.subplots(len(names), 1, sharex=True, squeeze=False).ravel()
    x = _places(data, over)
    for name, ax in zip(names, panels, strict=True):
        shown, text = _reduced(data[name])
        text = wrapped(text, _HEIGHT - 0.6, TEXT)
        plot = Plot(_label(x, over) if ax is panels[-1] else "", text, _scales(x, shown, log), ax=ax)
        _families(plot, x, shown, over, _predicted(data, name, over))
        beside = data.get(f"predicted_{name}")
        if beside is not None and beside.dims == (over,) and x.ndim == 1:
            plot.theory(x, beside, "predicted")
        if x.dtype.kind == "i" and ax.get_xscale() == "linear":
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        plot.done(few=True)
        if covered(ax):
            plot.done(few=True, outside=True)
    return drawn


def _clock(data: xr.Dataset) -> xr.DataArray | None:
    """Times that are a variable, since each curve has its own; its last dimension numbers them."""
    return data["time"] if "time" in data.data_vars and data["time"].dims else None


def _places(data: xr.Dataset, over: str) -> xr.DataArray:
    """Where the points of curves along `over` are: at their times, else at the labels of the dimension, else numbered."""
    clock = _clock(data)
    if clock is not None and over == clock.dims[-1]:
        return clock
    return data.coords[over] if over in data.coords else xr.DataArray(np.arange(data.sizes[over]), dims=over)


def axis_of(data: xr.Dataset) -> str:
    """The dimension that curves run along: time, else the first that is measured, else a counted one.

    Raises `InputError` for data without a dimension of two points.
    """
    long = [str(dim) for dim, size in data.sizes.items() if size > 1]
    if not long:
        raise InputError("the data have no dimension of two points or more: there is no curve to draw")
    clock = _clock(data)
    if clock is not None and clock.dims[-1] in long:
        return str(clock.dims[-1])
    measured = [dim for dim in long if dim in data.coords and data[dim].dtype.kind in "fi" and dim not in COUNTED]
    counted = [dim for dim in COUNTED if dim in long]
    return "time" if "time" in long else next(iter((*measured, *counted, *long)))


def _default(data: xr.Dataset, over: str) -> tuple[str, ...]:
    # Of a sweep, over its options, what is known at the end: not what has a time beside.
    clock = _clock(data)
    unwanted = {*_MATRICES, "time", *([] if clock is None else clock.dims[-1:])} - {over}
    drawable = [
        str(name)
        for name, one in data.data_vars.items()
        if over in one.dims
        and name != "time"
        and not unwanted & set(one.dims)
        and one.dtype.kind in "fi"
        and np.isfinite(one).any()
    ]
    if not drawable:
        raise InputError(f"nothing in the data runs along {over!r}: give over, one of {_listed(data.dims)}")
    rank = {name: place for place, name in enumerate(_FIRST)}
    drawable.sort(key=lambda name: rank.get(name, len(rank)))
    known = [name for name in drawable if name in rank]
    return tuple((known or drawable)[:_PANELS])


def _reduced(one: xr.DataArray) -> tuple[xr.DataArray, str]:
    """Of overlaps the best neuron's, squared; anything else as it is; with its name."""
    text = str(one.attrs.get("long_name", str(one.name).replace("_", " "))).split(":")[0].split(" (")[0].strip()
    if {"neuron", "direction"} <= set(one.dims):
        short = text.removeprefix("normalised ").split(" of ")[0]  # (overlaps are cosines, unless they say otherwise)
        return (one**2).max("neuron"), f"squared {short}, best neuron"
    unit = str(one.attrs.get("units", "1"))
    return one, text if unit == "1" else f"{text} [{unit}]"


def _label(x: xr.DataArray, over: str) -> str:
    unit = str(x.attrs.get("units", ""))
    return unit if unit not in ("", "1") else over.replace("_", " ")


def _scales(x: xr.DataArray, shown: xr.DataArray, log: str | None) -> str:
    if log is not None:
        return log
    place, values = np.asarray(x, dtype=float), np.asarray(shown, dtype=float)
    gaps = np.diff(place.ravel() if place.ndim == 1 else place.reshape(-1, place.shape[-1])[0])
    gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
    uneven = gaps.size > 1 and gaps.max() > _UNEVEN * gaps.min()
    return "x" * bool(uneven and _wide(place[place > 0])) + "y" * bool(
        shown.name not in _LINEAR and np.nanmin(values) > 0 and _wide(values)
    )


def _wide(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return bool(finite.size and finite.max() > _SPREAD * finite.min())


def _families(plot: Plot, x: xr.DataArray, shown: xr.DataArray, over: str, marks: Mapping[str, float]) -> None:
    """One curve for each member of the family, in its colour, with the prediction of its place where there is one."""
    others = [dim for dim in shown.dims if dim != over and dim not in AVERAGED]
    members = list(_members(shown, others))
    for (name, place), colour in zip(members, colours(len(members)), strict=True):
        at = np.asarray(x.isel({k: v for k, v in place.items() if k in x.dims}), dtype=float)
        runs = np.asarray(shown.isel(place).transpose(..., over), dtype=float).reshape(-1, shown.sizes[over])
        if at.ndim > 1:  # each seed recorded at times of its own: they are the same up to rounding, or it has none
            at = np.nanmean(at.reshape(-1, at.shape[-1]), axis=0)
        runs = np.where(np.isfinite(runs), runs, np.nan)
        mean = _mean(runs)
        label = name or ("mean of runs" if len(runs) > 1 else str(shown.name))
        if len(runs) > 1:
            plot.band(at, _ends(runs, np.fmin), _ends(runs, np.fmax), f"_{label}, lowest to highest run", colour, 0.2)
        style: dict[str, Any] = {"marker": "o", "ms": 4} if at.size <= _FEW else {}
        plot.curve(at, mean, label if len(members) > 1 or len(runs) > 1 else f"_{label}", colour, **style)
        if name in marks:
            plot.vertical(marks[name], f"_{name}, predicted", colour if len(members) > 1 else INK)


def _mean(runs: np.ndarray) -> np.ndarray:
    count = np.sum(np.isfinite(runs), axis=0)
    return np.where(count > 0, np.nansum(runs, axis=0) / np.maximum(count, 1), np.nan)


def _ends(runs: np.ndarray, which: np.ufunc) -> np.ndarray:
    return np.asarray(which.reduce(runs, axis=0))


def _members(shown: xr.DataArray, dims: Sequence[Hashable]) -> Iterator[tuple[str, dict[Hashable, int]]]:
    """(name, positions) of every combination of the other dimensions."""
    labels = {dim: _names(shown, dim) for dim in dims}
    for place in itertools.product(*(range(shown.sizes[dim]) for dim in dims)):
        words = [
            labels[dim][i] for dim, i in zip(dims, place, strict=True) if dim in shown.coords or shown.sizes[dim] > 1
        ]
        yield ", ".join(words), dict(zip(dims, place, strict=True))


def _names(shown: xr.DataArray, dim: Hashable) -> list[str]:
    """Of each place: its label; without labels, by what else is known along the dimension and tells places apart (an
    eigenspace by its eigenvalue), else its index."""
    along = [name for name, one in shown.coords.items() if one.dims == (dim,) and len(np.unique(one)) == one.size]
    name = dim if dim in shown.coords else next(iter(along), dim)
    values = shown[name].values.tolist() if name in shown.coords else range(shown.sizes[dim])
    return [f"{str(name).replace('_', ' ')} {_short(value)}" for value in values]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _predicted(data: xr.Dataset, name: str, over: str) -> dict[str, float]:
    """Predicted times of each direction, for a figure of overlaps over time."""
    times = data.get("predicted_half_time")
    if over != "time" or "direction" not in data[name].dims or times is None or times.dims != ("direction",):
        return {}
    return {word: float(times.isel(place)) for word, place in _members(times, ["direction"])}


def _listed(names: object) -> str:
    return ", ".join(map(str, names))  # type: ignore[call-overload]
