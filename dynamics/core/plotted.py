"""Any labelled result as a figure: its dimensions say what curves run along, what is averaged, and what makes a family.

Curves run along ``over`` (time where there is one; where each curve has times of its own, against these); replicas and seeds
are averaged, with the range that they span; of the neurons of an overlap the best one is shown for each direction, or of a
subspace, whose frame may be turned, the ``diagonal``; every other dimension makes a family of curves.

Seeds that were recorded at times of their own are interpolated before they are averaged, over the times that all of them have.
Where some runs of a variable are inf (an event that has not come by the end), the median stands in place of the mean, with inf
counted, and the range is open above. A legend counts the values that are finite, where some are not; an axis that is to be
logarithmic, the points that it does not show.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
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
#: What is shown only when asked for.
_UNASKED = ("time", "diverged")
_PANELS = 3
#: Recorded at points that are this uneven, or spread over this factor, an axis is logarithmic.
_UNEVEN, _SPREAD = 1.5, 30.0
_WIDTH, _HEIGHT = 7.0, 2.9
#: What rises from near 0 to 1 is shown on a linear axis.
_LINEAR = ("overlap", "diagonal", "share")
#: So few points are shown as such.
_FEW = 20
#: Markers that are ends of bars.
_CAPS = ("_", "|")
#: Share of a time that is rounding.
_ROUNDING = 1e-9


def figure(data: xr.Dataset, *variables: str, over: str = "", log: str | None = None) -> Figure:
    """A dataset's variables, one pair of axes each, above one another.

    Args:
        data: a result's ``dataset``, or what a file of `emergence simulate`, `sweep` or `merge` holds.
        variables: names; without any, the loss, overlaps and the like, at most three.
        over: the dimension along which curves run.
        log: which axes are logarithmic, some of ``"xy"``; None decides by the values.

    Returns:
        A matplotlib figure, to restyle at will: ``figure.axes`` are the panels.

    Raises: `InputError` for a variable or a dimension that is not there, and where nothing finite can be drawn.
    """
    over = over or axis_of(data)
    if over not in data.dims:
        able = _able(data, variables)
        raise InputError(f"over is {over!r}: {did_you_mean(over, able)}use one of {_listed(able)}")
    names = variables or _default(data, over)
    for name in names:
        if name not in data.data_vars:
            hint = did_you_mean(name, map(str, data.data_vars))
            raise InputError(f"variable {name!r} is not in the data: {hint}use some of {_listed(data.data_vars)}")
        if over not in data[name].dims:
            raise InputError(
                f"variable {name!r} does not run along {over!r}: use over, one of {_listed(data[name].dims)}"
            )
        if not _numbers(data[name]):
            raise InputError(f"variable {name!r} holds no numbers to draw: leave it out")
        if data[name].dtype.kind == "f" and not np.isfinite(data[name]).any():
            raise InputError(f"variable {name!r} has no finite value to draw: leave it out, or make the runs longer")
    drawn = Figure(figsize=(_WIDTH, _HEIGHT * len(names) + 0.5), layout="constrained")
    panels = drawn.subplots(len(names), 1, sharex=True, squeeze=False).ravel()
    x = _places(data, over)
    for name, ax in zip(names, panels, strict=True):
        shown, text = _reduced(data[name])
        text = wrapped(text, _HEIGHT - 0.6, TEXT)
        texts = over in data.coords and not _numbers(data[over])
        for axis, values in (("x", -abs(x) if texts else x), ("y", shown)):
            if axis in (log or "") and not (values > 0).any():
                raise InputError(
                    f"log is {log!r}, but the values along {axis} are no positive numbers: leave {axis} out"
                )
        plot = Plot(_label(x, over) if ax is panels[-1] else "", text, _scales(x, shown, log), ax=ax)
        beside = data.get(f"predicted_{name}")
        beside = beside if beside is not None and beside.dims == (over,) and x.ndim == 1 else None
        top = _open_top(plot, shown, beside)
        _families(plot, x, shown, over, _predicted(data, name, over), top, joined=not texts)
        if beside is not None:
            plot.theory(x, beside, "predicted")
        if np.isfinite(top):
            ax.set_ylim(top=top)
        if log:  # (by itself a scale leaves out no more than what is at time 0)
            ax.set_ylabel("\n".join(filter(None, [ax.get_ylabel(), _left_out(ax, "y")])))
            ax.set_xlabel(", ".join(filter(None, [ax.get_xlabel(), _left_out(ax, "x")])) if ax is panels[-1] else "")
        if x.dtype.kind == "i" and ax.get_xscale() == "linear":
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        plot.done(few=True)
        if texts:
            ax.set_xticks(x.values, [wrapped(str(one), 1.0, TEXT) for one in data[over].values])
        if covered(ax):
            plot.done(few=True, outside=True)
        if ax.get_yscale() == "linear":  # (a common offset would stand where the legend may)
            ax.ticklabel_format(axis="y", useOffset=False)
    return drawn


def _left_out(ax: Axes, axis: str) -> str:
    """How many points of curves a logarithmic axis does not show, in words; nothing if it shows all."""
    if getattr(ax, f"get_{axis}scale")() != "log":
        return ""
    lines = [line for line in ax.lines if line.get_transform() == ax.transData and line.get_marker() not in _CAPS]
    points = np.concatenate([np.array(line.get_xydata(), dtype=float) for line in lines])
    values = points[np.isfinite(points).all(axis=1), "xy".index(axis)]
    lost = values <= 0
    what = "0" if np.all(values[lost] == 0) else "not above 0"
    return f"{lost.sum()} of {values.size} points are {what}: not shown" if lost.any() else ""


def _clock(data: xr.Dataset) -> xr.DataArray | None:
    """Times that are a variable, since each curve has its own; its last dimension numbers them."""
    return data["time"] if "time" in data.data_vars and data["time"].dims else None


def _places(data: xr.Dataset, over: str) -> xr.DataArray:
    """Where the points of curves along `over` are: at their times, else at the labels of the dimension, else numbered."""
    clock = _clock(data)
    if clock is not None and over == clock.dims[-1]:
        return clock
    numbered = xr.DataArray(np.arange(data.sizes[over]), dims=over)
    return data.coords[over] if over in data.coords and _numbers(data[over]) else numbered


def _numbers(values: xr.DataArray) -> bool:
    """And no texts, such as rules that a sweep goes through."""
    return values.dtype.kind in "iufb"


def axis_of(data: xr.Dataset) -> str:
    """The dimension that curves run along: time, else the first that is measured, else a counted one; runs last of all.

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
    found = ["time"] * ("time" in long) + [*measured, *counted, *long]
    return next((dim for dim in found if dim not in AVERAGED), found[0])


def _default(data: xr.Dataset, over: str) -> tuple[str, ...]:
    """What is drawn over a dimension where nothing is asked for. Raises `InputError` if there is nothing."""
    drawable = _drawable(data, over)
    if not drawable:
        able = _able(data)
        apart = " but what runs along time" if "time" in data.dims and over != "time" else ""
        remedy = f"give over, one of {_listed(able)}" if able else "make the runs longer"
        raise InputError(f"nothing finite in the data runs along {over!r}{apart}: {remedy}")
    rank = {name: place for place, name in enumerate(_FIRST)}
    if "diagonal" in drawable:
        drawable = [name for name in drawable if name != "overlap"]
    drawable.sort(key=lambda name: rank.get(name, len(rank)))
    known = [name for name in drawable if name in rank]
    return tuple((known or drawable)[:_PANELS])


def _drawable(data: xr.Dataset, over: str) -> list[str]:
    # Of a sweep, over its options, what is known at the end: not what has a time beside.
    clock = _clock(data)
    unwanted = {*_MATRICES, "time", *([] if clock is None else clock.dims[-1:])} - {over}
    return [
        str(name)
        for name, one in data.data_vars.items()
        if over in one.dims
        and name not in _UNASKED
        and not unwanted & set(one.dims)
        and one.dtype.kind in "fi"
        and np.isfinite(one).any()
    ]


def _able(data: xr.Dataset, variables: Sequence[str] = ()) -> list[str]:
    """Dimensions along which there is something to draw: these variables, or what is drawn where nothing is asked for."""
    known = [set(data[name].dims) for name in variables if name in data.data_vars]
    return [str(dim) for dim in data.dims if (all(dim in one for one in known) if known else _drawable(data, str(dim)))]


def _reduced(one: xr.DataArray) -> tuple[xr.DataArray, str]:
    """Of overlaps the best neuron's, squared; anything else as it is; with its name."""
    text = str(one.attrs.get("long_name", str(one.name).replace("_", " "))).split(":")[0].split(" (")[0]
    text = text.split(", inf")[0].strip()
    if {"neuron", "direction"} <= set(one.dims):
        short = text.removeprefix("normalised ").split(" of ")[0]  # (overlaps are cosines, unless they say otherwise)
        return (one**2).max("neuron"), f"squared {short}, best neuron"
    unit = str(one.attrs.get("units", "1"))
    return one, text if unit == "1" else f"{text} [{unit}]"


def _label(x: xr.DataArray, over: str) -> str:
    unit = str(x.attrs.get("units", ""))
    name = unit if unit not in ("", "1") else over.replace("_", " ")
    averaged = [dim for dim in AVERAGED if dim in x.dims and dim != over]
    apart = averaged and _apart(x.transpose(*averaged, ...).values.reshape(-1, *x.shape[len(averaged) :]))
    return f"{name}, as far as all runs of a curve go" if apart else name


def _apart(places: np.ndarray) -> bool:
    """Whether runs, along the first axis, have points of their own, by more than rounding; those without any do not count."""
    low, high = np.fmin.reduce(places, axis=0), np.fmax.reduce(places, axis=0)
    return bool(np.any(high - low > _ROUNDING * np.fmax(abs(low), abs(high))))


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


def _families(
    plot: Plot,
    x: xr.DataArray,
    shown: xr.DataArray,
    over: str,
    marks: Mapping[str, float],
    top: float,
    joined: bool = True,
) -> None:
    """One curve for each member of the family, in its colour, with the prediction of its place where there is one.

    `top`: where the axes end above if some runs are inf, else inf. `joined`: else points, with bars from the lowest run to the
    highest, as there is nothing between two texts.
    """
    others = [dim for dim in shown.dims if dim != over and dim not in AVERAGED]
    members = list(_members(shown, others))
    late = np.isfinite(top)
    for (name, place), colour in zip(members, colours(len(members)), strict=True):
        own = x.isel({k: v for k, v in place.items() if k in x.dims})
        at, runs = _aligned(*(_rows(one, over) for one in xr.broadcast(own, shown.isel(place))))
        count, kind = _counted(runs), ("median" if late else "mean") if len(runs) > 1 else ""
        words = (name, kind if late else "", count) if name else (f"{kind} of runs" if kind else str(shown.name), count)
        label = ", ".join(filter(None, words))
        style: dict[str, Any] = {"marker": "o", "ms": 4} if at.size <= _FEW else {}
        told = len(members) > 1 or len(runs) > 1 or count
        middle = _each(runs, np.median if late else np.mean)
        middle, shown_as = np.where(np.isfinite(middle), middle, np.nan), label if told else f"_{label}"
        low, high = (np.minimum(_each(runs, end), top) for end in (np.min, np.max))
        if joined:
            if len(runs) > 1:
                plot.band(at, low, high, f"_{label}, lowest to highest run", colour, 0.2)
            plot.curve(at, middle, shown_as, colour, **style)
        else:
            bars = np.maximum([middle - low, high - middle], 0.0) if len(runs) > 1 else None
            plot.points(at, middle, shown_as, colour, bars)
        if name in marks:
            plot.vertical(marks[name], f"_{name}, predicted", colour if len(members) > 1 else INK)


def _rows(one: xr.DataArray, over: str) -> np.ndarray:
    """Every run, shape (runs, points)."""
    return np.asarray(one.transpose(..., over), dtype=float).reshape(-1, one.sizes[over])


def _aligned(at: np.ndarray, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (n,) that all runs have, and the runs there, (runs, n), of which each was recorded at points of its own.

    Where these differ by more than rounding: those of the run that ends first, from where all have begun, and the others
    interpolated between their own. A run without points is not known anywhere.
    """
    if not _apart(at):
        return np.fmax.reduce(at, axis=0), runs
    known = np.isfinite(at)
    some = known.any(axis=1)
    begins, ends = np.fmin.reduce(at, axis=1), np.fmax.reduce(at, axis=1)
    first = int(np.nanargmin(ends))
    common = at[first][known[first] & (at[first] >= np.nanmax(begins))]
    moved = [
        np.interp(common, own[here], run[here]) if one else np.full(common.size, np.nan)
        for own, run, here, one in zip(at, runs, known, some, strict=True)
    ]
    return common, np.array(moved)


def _open_top(plot: Plot, shown: xr.DataArray, beside: xr.DataArray | None) -> float:
    """Where the axes end above if some runs are inf, so that a range that is open there reaches their edge; else inf."""
    if not np.isposinf(shown).any():
        return float(np.inf)
    values = np.concatenate([np.ravel(one) for one in (shown, beside) if one is not None])
    low, high = (float(end(values[np.isfinite(values)])) for end in (np.min, np.max))
    return 1.3 * high if plot.ax.get_yscale() == "log" else high + 0.1 * ((high - low) or abs(high) or 1.0)


def _counted(runs: np.ndarray) -> str:
    """How many values are finite where any run has one, of (runs, n); nothing if all are."""
    known = runs[:, ~np.isnan(runs).all(axis=0)]
    count = int(np.isfinite(known).sum())
    return "" if count == known.size else f"{count} of {known.size} finite"


def _each(runs: np.ndarray, what: Callable[[np.ndarray], Any]) -> np.ndarray:
    """At each point, of the runs that are known there; NaN where none is."""
    known = (one[~np.isnan(one)] for one in runs.T)
    return np.array([what(one) if one.size else np.nan for one in known], dtype=float)


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
    if name in shown.coords and shown[name].dims != (dim,):  # each run has its own, and none is that of the place
        return [f"{str(name).replace('_', ' ')} point {place}" for place in range(shown.sizes[dim])]
    values = shown[name].values.tolist() if name in shown.coords else range(shown.sizes[dim])
    return [f"{str(name).replace('_', ' ')} {_short(value)}" for value in values]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _predicted(data: xr.Dataset, name: str, over: str) -> dict[str, float]:
    """Predicted times of each direction, for a figure over time: of its share those to half of it, else of its overlap."""
    times = data.get("predicted_loss_time" if name == "share" else "predicted_half_time")
    if over != "time" or "direction" not in data[name].dims or times is None or times.dims != ("direction",):
        return {}
    return {word: float(times.isel(place)) for word, place in _members(times, ["direction"])}


def _listed(names: object) -> str:
    return ", ".join(map(str, names))  # type: ignore[call-overload]
