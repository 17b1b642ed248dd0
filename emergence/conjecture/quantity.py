"""Measured quantities: what is read off one run, by name; unit, estimator and error are said, never chosen after the data."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from emergence.conjecture.formula import Formula, formula
from emergence.model import Simulation
from emergence.refusal import is_refusal, refuse
from emergence.values import Choice, Number, Text, Whole, shown
from theory.core.curves import crossing_time
from theory.core.errors import did_you_mean
from validation.statistics.exponents import Window, exponent_of

if TYPE_CHECKING:
    import xarray as xr

#: Axes of a curve's own, beside the options of a problem that a grid varies.
AXES = ("time", "step", "samples", "compute")
#: What an axis of a run is: a coordinate of its data, and what one of it counts for.
Axis = tuple[str, float]
#: How far off a number would be that is read between two records, if the line through the records before them were the curve,
#: and if that through the records behind them were.
Off = tuple[float, float]
#: Of a number that is read at records.
EXACT: Off = (0.0, 0.0)
OVER = ("max", "mean", "min", "sum")


@dataclass(frozen=True)
class Measure:
    """What `measure` may be.

    Attributes:
        text: what it is of a run. unit: in words. error: how its standard error is estimated.
        keys: further keys that it takes; those in `needs` must be given.
    """

    text: str
    unit: str
    error: str
    keys: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


_MEAN = "mean over independent runs, error of the mean"
_BETWEEN = "linear between records (what the nearer of the lines before and behind them leaves is allowed)"
MEASURES = {
    "value": Measure("the variable `of` itself, of variables without a time", "of the variable", _MEAN, (), ("of",)),
    "level": Measure(
        f"the curve `of` at the time `at` (default: the end), {_BETWEEN}", "of the curve", _MEAN,
        ("at", "in", "mean"), ("of",),
    ),
    "crossing": Measure(
        f"the first time at which the curve `of` reaches `level`, {_BETWEEN}", "of the axis `in`", _MEAN,
        ("level", "in", "mean"), ("of", "level"),
    ),
    "slope": Measure(
        "least-squares slope of ln `of` in ln `in` over `window`: in time, step, samples or compute; or in an option that "
        "varies: of the number `of`, of the curve's value `at`, or of when it reaches `level` (`along` such an axis)",
        "1", _MEAN, ("in", "window", "at", "level", "along", "mean"), ("of", "in"),
    ),
    "spread": Measure(
        "standard deviation of `of` over runs", "of the variable",
        "of its logarithm: jackknife over runs, that of normal numbers at least",
    ),
    "share": Measure("share of runs in which `of` is finite", "1", "binomial"),
}  # fmt: skip
#: Other names, and the variable that they are of where a simulation has it.
ALIASES = {
    "recovery_steps": ("value", ("half_steps",)),
    "spread": ("spread", ("half_time", "half_steps")),
    "share_recovered": ("share", ("half_time", "half_steps")),
}
#: Dimensions that are keys by themselves, and the first place there; keys that any measure takes.
_PLACES = {"direction": 1, "neuron": 0}
_COMMON = ("measure", "of", *_PLACES, "select", "over")
#: Measures of numbers, not of curves.
_PLAIN = ("value", "spread", "share")
#: Keys whose lists make several quantities.
_LISTS = ("direction", "at", "level")


@dataclass(frozen=True)
class Quantity:
    """One number of each run.

    Attributes:
        kind: of `MEASURES`. of: a formula in the variables of the run. select: dimension → coordinate. over: how dimensions
            that remain are reduced, or nothing. axis: of `AXES`, or the option (its field's name) of a slope over the grid.
        window: of a slope along a curve. at: when (None: the end). level: that is crossed. along: of `AXES`, what `at` and
        `level` of a slope over the grid are in. mean: whether it is of the mean over a seed's replicas, not of single runs.
        name: in words.
    """

    kind: str
    of: Formula
    select: Mapping[str, Any]
    over: str = ""
    axis: str = "time"
    window: Window | None = None
    at: float | None = None
    level: float | None = None
    along: str = "time"
    mean: bool = False
    name: str = ""

    @property
    def direction(self) -> int | None:
        """From 1, if one is named."""
        return self.select.get("direction")

    @property
    def across(self) -> str:
        """The option that a slope over the grid is in; nothing for other measures."""
        return self.axis if self.kind == "slope" and self.axis not in AXES else ""

    @property
    def symbols(self) -> dict[str, float]:
        """What it adds to the symbols of formulas."""
        found = {"t": self.at, "level": self.level}
        return {name: value for name, value in found.items() if value is not None}

    def of_run(self, run: "xr.Dataset", axes: Mapping[str, Axis]) -> float:
        """The number of `read`."""
        return self.read(run, axes)[0]

    def read(self, run: "xr.Dataset", axes: Mapping[str, Axis]) -> tuple[float, Off]:
        """The number of one run (a dataset without replicas, but of their mean); of one grid point for a slope over the grid.

        `axes`: of `AXES`, those that the simulation has.

        Raises `InputError` for dimensions that are left over, times that are not there, a slope of what is not positive.
        """
        values = self._values(run)
        if not values.dims:
            if self.kind in ("level", "crossing") or (self.kind == "slope" and not self.across):
                refuse(f"{self.of.label} is {self.of.text!r}, a number, no curve: measure its value")
            return float(values), EXACT
        if self.kind in _PLAIN:
            _refuse_curve(self.of)
        x, y = self._axis(run, axes), np.asarray(values, dtype=float)
        if self.kind == "slope" and not self.across:
            return _slope(x, y, self.window), EXACT
        return self._at(x, y) if self.level is None else _crossing(x, y, self.level)

    def reached(self, run: "xr.Dataset", axes: Mapping[str, Axis], lengths: Mapping[str, float]) -> float:
        """What the number of a run exceeds that has not come to it by its end (inf): the end, in its unit; NaN if unknown.

        `lengths`: of runs, by the unit of variables. Raises `InputError` for an axis that the simulation does not have.
        """
        if self.level is not None:
            return float(self._axis(run, axes)[-1])
        name = self.of.text
        end = lengths.get(run[name].attrs.get("units", ""), np.nan) if name in run else np.nan
        if not np.isfinite(end):
            return np.nan
        # A mean over directions exceeds that of the ones which came and the end in place of the others, not the end.
        return self.of_run(run.assign({name: run[name].where(run[name] != np.inf, end)}), axes)

    def curve_slope(
        self, run: "xr.Dataset", axes: Mapping[str, Axis], curve: Formula, values: Mapping[str, float]
    ) -> float:
        """The same estimator on a predicted curve at the abscissae of a run. Raises `InputError` as `of_run` does."""
        x = self._axis(run, axes)
        predicted = np.asarray(curve.value({**values, **dict.fromkeys(("t", self.axis), x)}), dtype=float)
        return _slope(x, np.broadcast_to(predicted, x.shape), self.window)

    def _axis(self, run: "xr.Dataset", axes: Mapping[str, Axis]) -> np.ndarray:
        key, name = ("along", self.along) if self.across else ("in", self.axis)
        if name in run.dims:
            return np.asarray(run[name].values, dtype=float)
        coordinate, each = axes.get(name, ("", 0.0))
        if coordinate not in run.coords or np.any(run[coordinate].values < 0):
            refuse(f"quantity.{key} is {name!r}, but this simulation counts no {name.removesuffix('s')}s: use time")
        return np.asarray(run[coordinate].values, dtype=float) * each

    def _curve(self, dims: Any) -> str:
        """The dimension that a curve runs along: numbers of samples where a simulation has them, else time."""
        own = self.along if self.across else self.axis
        return own if own in dims else "time"

    def _at(self, x: np.ndarray, y: np.ndarray) -> tuple[float, Off]:
        if self.at is None:
            return float(y[-1]), EXACT
        if not x[0] <= self.at <= x[-1] * (1 + 1e-9):
            refuse(
                f"quantity.at is {self.at:g}, outside the run, {x[0]:g} to {x[-1]:g}: give one inside, or a longer run"
            )
        found, place = float(np.interp(self.at, x, y)), int(np.searchsorted(x, self.at))
        if place == x.size or np.any(np.isclose(x[max(place - 1, 0) : place + 1], self.at, rtol=1e-9, atol=0.0)):
            return found, EXACT
        before, behind = _lines(x, y, place)
        since, until = self.at - x[place - 1], x[place] - self.at
        return found, _known((y[place - 1] + since * before - found, y[place] - until * behind - found))

    def _values(self, run: "xr.Dataset") -> Any:
        import xarray as xr

        lacking = [name for name in self.of.names if name not in run]
        if lacking:
            refuse(f"{self.of.label} is {self.of.text!r}: this run has no {lacking[0]}: use {', '.join(map(str, run))}")
        arrays = {name: self._chosen(run[name]) for name in self.of.names}
        found = self.of.value(arrays)
        values = found if isinstance(found, xr.DataArray) else xr.DataArray(found)
        curve = self._curve(values.dims)
        kept = (curve, "replica") if self.mean else (curve,)
        rest = [dim for dim in values.dims if dim not in kept and values.sizes[dim] > 1]
        if rest and not self.over:
            sizes = ", ".join(f"{dim} ({values.sizes[dim]})" for dim in rest)
            key = f"quantity.{rest[0]}" if rest[0] in _PLACES else f"quantity.select, of {rest[0]} a coordinate"
            refuse(f"{self.of.label} is {self.of.text!r}, with several {sizes}: give {key}, or quantity.over")
        if rest:
            values = getattr(values, self.over)(rest, skipna=False)  # what is not known is not left out
        if self.mean and "replica" in values.dims:
            values = values.mean("replica", skipna=False)
        return values.squeeze([dim for dim in values.dims if dim != curve])

    def _chosen(self, array: "xr.DataArray") -> "xr.DataArray":
        for dim, place in self.select.items():
            if dim not in array.dims:
                continue
            try:
                array = array.sel({dim: place})
            except (KeyError, TypeError, ValueError):
                have = array[dim].values.tolist()
                refuse(f"quantity.{dim} is {shown(place)}: use one of {shown(have)}")
        return array


def _refuse_curve(of: Formula) -> NoReturn:
    refuse(
        f"{of.label} is {of.text!r}, a curve, of which this measure takes no number: "
        f'write measure = "level" with of = "{of.text}" (or crossing, slope)'
    )


def _crossing(x: np.ndarray, y: np.ndarray, level: float) -> tuple[float, Off]:
    """First abscissa at which the curve reaches the level from where it starts; inf if it never does, NaN if unknown.

    It is between two records however the curve goes there: lines that would reach the level elsewhere do so at one of them.
    """
    found = crossing_time(x, y, level, falling=bool(y[0] > level))
    if np.any(np.isnan(y[x < found])):
        return np.nan, EXACT
    place = int(np.searchsorted(x, found))
    if place in (0, x.size) or y[place] == level:
        return found, EXACT
    since, until = level - y[place - 1], y[place] - level
    gap = x[place] - x[place - 1]
    with np.errstate(all="ignore"):
        # (A line that goes the other way, or nowhere, leaves the whole way between the records to the other one.)
        ways = [np.maximum(slope / way, 0.0) for slope, way in zip(_lines(x, y, place), (since, until), strict=True)]
        before, behind = (np.minimum(1 / way, gap) for way in ways)
    return found, _known((x[place - 1] + before - found, x[place] - behind - found))


def _lines(x: np.ndarray, y: np.ndarray, place: int) -> tuple[float, float]:
    """Slopes of a curve before the record `place` − 1, and behind the record `place`; NaN where there is none."""
    before = (y[place - 1] - y[place - 2]) / (x[place - 1] - x[place - 2]) if place > 1 else np.nan
    behind = (y[place + 1] - y[place]) / (x[place + 1] - x[place]) if place + 1 < x.size else np.nan
    return float(before), float(behind)


def _known(off: Off) -> Off:
    """With the other in place of one that is not known, and of one that says more to the same side: a curve bent to one side
    is between the line through the records and the nearer of the two. As much as nothing where neither is known.
    """
    known = sorted((float(one) for one in off if np.isfinite(one)), key=abs)
    if len(known) == 2 and known[0] * known[1] < 0:
        return float(off[0]), float(off[1])
    return (known[0], known[0]) if known else EXACT


def _slope(x: np.ndarray, y: np.ndarray, window: Window | None) -> float:
    kept = x > 0
    inside = np.full(kept.sum(), True)
    if window is not None:
        try:
            inside = window.places(x[kept])
        except Exception as error:
            if is_refusal(error):
                refuse(
                    f"quantity.{error}: the run is from {x[0]:g} to {x[-1]:g}: widen the window, or give a longer run"
                )
            raise
    if np.any(~(y[kept][inside] > 0)):
        return float("nan")
    with np.errstate(all="ignore"):
        return exponent_of(x[kept], y[kept], window)


# ------------------------------------------------------------------------------ reading a table


def read(table: Mapping[str, Any], simulation: Simulation, options: Sequence[str], where: str) -> list[Quantity]:
    """The quantities of a table [quantity]: several, where a key has a list.

    Args:
        options: of the problem, that a slope may be in (fields' names). where: what refusals begin with.

    Raises `InputError` for an unknown measure, variable or key, a key that is missing, or a value of the wrong kind.
    """
    kind, of = _kind(table, simulation, where)
    measure = MEASURES[kind]
    known = (*_COMMON, *measure.keys)
    for key in table:
        if key not in known:
            refuse(
                f"{where}.{key} is {shown(table[key])}, no key of {kind}: {did_you_mean(key, known)}use {', '.join(known)}"
            )
    given = {**table, "of": of}
    for key in measure.needs:
        if given.get(key) is None:
            refuse(f"{where} has no {key}, which the measure {kind} needs: give it")
    lists = {key: table[key] for key in _LISTS if isinstance(table.get(key), list)}
    for key, values in lists.items():
        if not values or len(values) > 100:
            refuse(f"{where}.{key} has {len(values)} values: give from 1 to 100")
        again = next((value for place, value in enumerate(values) if value in values[:place]), None)
        if again is not None:
            refuse(f"{where}.{key} has {shown(again)} twice: each value is a quantity of its own: drop one")
    axis = str(Text("time").check(f"{where}.in", table.get("in", "time"))).replace("-", "_")
    if axis not in AXES and (kind != "slope" or axis not in options):
        refuse(
            f"{where}.in is {shown(table['in'])}: use {', '.join(AXES)}"
            + (", or an option that the problem varies" if kind == "slope" else "")
        )
    if kind == "slope":
        _of_slope(table, axis, where)
    if "mean" in table:
        Choice(("replicas",)).check(f"{where}.mean", table["mean"])
        if "replicas" not in simulation.uses:
            refuse(f"{where}.mean is 'replicas', but {simulation.name} has no replicas: leave it out")
    window = _window(table, kind, axis, where)
    # (A variable's own name is a measure, and then it is that key that is wrong, if any.)
    source = formula(f"{where}.{'of' if 'of' in table or kind != 'value' else 'measure'}", of, simulation.variables)
    points = (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
    found = [_one(kind, source, {**table, **point}, axis, window, where) for point in points]
    if kind in _PLAIN and set(source.names) & set(simulation.curves) and "time" not in found[0].select:
        _refuse_curve(source)
    return found


def together(table: Mapping[str, Any], simulation: Simulation, where: str) -> str:
    """All quantities of a table that `read` takes in one name: lists stand in it as they are given.

    Raises `InputError` for what is no measure.
    """
    kind, of = _kind(table, simulation, where)
    lists = {key: ", ".join(map(shown, table[key])) for key in _LISTS if isinstance(table.get(key), list)}
    return _name(kind, str(of), {**table, **lists}, str(table.get("in", "time")).replace("-", "_"))


def _kind(table: Mapping[str, Any], simulation: Simulation, where: str) -> tuple[str, object]:
    """Of `MEASURES`, and what it is of: a variable's own name is a measure, too."""
    name, of = table.get("measure"), table.get("of")
    if not isinstance(name, str):
        refuse(
            f"{where}.measure is {shown(name)}: give the name of a measure: `emergence judge --quantities` lists them"
        )
    name = name.replace("-", "_")
    kind, defaults = ALIASES.get(name, (name, ()))
    if name in simulation.variables:
        return "value", name
    if kind not in MEASURES:
        known = [*simulation.variables, *MEASURES, *ALIASES]
        refuse(
            f"{where}.measure is {shown(name)}: {did_you_mean(name, known)}use one of {', '.join(dict.fromkeys(known))}"
        )
    default = next((x for x in defaults if x in simulation.variables), None)
    if of is None and defaults and default is None:
        refuse(
            f"{where}.measure is {shown(name)}, and {simulation.name} has no {defaults[0]}: say of what in quantity.of"
        )
    return kind, default if of is None else of


def _of_slope(table: Mapping[str, Any], axis: str, where: str) -> None:
    """Refuses what says at which place of a curve a number is taken, where the slope is the curve's own."""
    for key in ("at", "level", "along"):
        if key in table and axis in AXES:
            refuse(f"{where}.{key} is {shown(table[key])}, but a slope in {axis} is of the whole curve: leave it out")
    if "at" in table and "level" in table:
        refuse(f"{where}.at is {shown(table['at'])}, and level is given: drop one")
    Choice(AXES).check(f"{where}.along", table.get("along", "time"))


def _window(table: Mapping[str, Any], kind: str, axis: str, where: str) -> Window | None:
    window = table.get("window")
    if window is None:
        if kind == "slope" and axis in AXES:
            refuse(f"{where} has no window: a slope needs one, given in advance, such as window = [10, 1000]")
        return None
    if axis not in AXES:
        refuse(f"{where}.window is given, but the window of a slope in {axis} is the grid of the problem: leave it out")
    if not isinstance(window, list) or len(window) != 2 or not all(Number().accepts(x) for x in window):
        refuse(f"{where}.window is {shown(window)}: give two numbers above 0, such as [10, 1000]")
    if not window[0] < window[1]:
        refuse(f"{where}.window is {shown(window)}: give increasing ends")
    return Window(float(window[0]), float(window[1]), "given in advance")


def _one(kind: str, of: Formula, table: Mapping[str, Any], axis: str, window: Window | None, where: str) -> Quantity:
    select = dict(table.get("select", {})) if isinstance(table.get("select", {}), dict) else None
    if select is None or not all(isinstance(x, str | int | float) and not isinstance(x, bool) for x in select.values()):
        refuse(
            f"{where}.select is {shown(table['select'])}: give dimensions and their coordinates, such as {{toy = 'power3'}}"
        )
    for key, least in _PLACES.items():
        if key in table:
            select[key] = Whole(least).check(f"{where}.{key}", table[key])
    numbers = {key: _number(f"{where}.{key}", table[key]) for key in ("at", "level") if table.get(key) is not None}
    over = Choice(OVER).check(f"{where}.over", table["over"]) if "over" in table else ""
    along = str(table.get("along", "time"))
    name, mean = _name(kind, of.text, table, axis), "mean" in table
    return Quantity(kind, of, select, over, axis, window, **numbers, along=along, mean=mean, name=name)


def _number(label: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e100:
        refuse(f"{label} is {shown(value)}: give a finite number")
    return float(value)


def _place(of: str, table: Mapping[str, Any]) -> str:
    """What a slope is of, in words."""
    along = table.get("along", "time")
    if "level" in table:
        return f"{along} at which {of} reaches {table['level']}"
    return f"{of} at {along} {table['at']}" if "at" in table else of


def _name(kind: str, of: str, table: Mapping[str, Any], axis: str) -> str:
    of = f"mean {of}" if "mean" in table else of
    words = {
        "value": of,
        "level": f"{of} at {axis} {table.get('at', 'the end')}",
        "crossing": f"{axis} at which {of} reaches {table.get('level')}",
        "slope": f"slope of ln({_place(of, table)}) in ln({axis.replace('_', '-')})"
        + (f" over {shown(table['window'])}" if "window" in table else ""),
        "spread": f"spread of {of} over runs",
        "share": f"share of runs with {of}",
    }[kind]
    several = "s" if "," in str(table.get("direction")) else ""
    return words + (f", direction{several} {table['direction']}" if "direction" in table else "")
