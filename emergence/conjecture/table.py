"""What the runs of a conjecture gave beside what theories say of them, quantity by quantity and grid point by grid point.

Independent runs are the seeds (each with a start of its own), or the replicas where there is one seed. Each has its own
prediction, so a theory is held against the runs one by one.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from emergence.conjecture.conjecture import Conjecture, Point, pairs
from emergence.conjecture.formula import Formula
from emergence.conjecture.quantity import EXACT, Axis, Off, Quantity
from emergence.conjecture.runs import Stopped
from emergence.refusal import is_refusal, refuse
from emergence.store import grid
from theory.core.streams import integer_seed
from validation.statistics.exponents import slope_weights
from validation.statistics.standard_errors import share_error

if TYPE_CHECKING:
    import xarray as xr

#: Starts that are tried in place of one of which nothing is known: all fail with chance 1/1000 if half do.
_TURNS = 10


@dataclass(frozen=True)
class Row:
    """One judged quantity.

    Attributes:
        quantity: what is measured. values: of the grid's options. points: its runs' problems.
        measured: (n,) one for each independent run, NaN where it is not known. predicted, allowed: (n,). rivals: name → (n,).
        random: whether the runs differ by chance. total: how many runs there are, replicas counted.
        unit: of the measured numbers.
        lost: why runs gave no number → how many. stopped: what the first integrator that gave up said.
        ends: (n,) each, between which the numbers of all runs are known to lie.
        off: (n,) each, how far off the numbers would be by the lines before and behind the records that they are read between.
    """

    quantity: Quantity
    values: Mapping[str, Any]
    points: tuple[Point, ...]
    measured: np.ndarray
    predicted: np.ndarray
    allowed: np.ndarray
    rivals: Mapping[str, np.ndarray]
    random: bool
    total: int
    unit: str
    lost: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""
    ends: tuple[np.ndarray, np.ndarray] | None = None
    off: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def missing(self) -> int:
        """Runs that gave no number."""
        return sum(self.lost.values())

    @property
    def of_single_runs(self) -> bool:
        """Whether it is no linear function of a curve, and the mean of that of every replica."""
        return (
            self.quantity.kind in ("crossing", "slope") and not self.quantity.mean and self.total > self.measured.size
        )

    @property
    def name(self) -> str:
        """The quantity and its grid point, in words."""
        where = pairs(self.values)
        return f"{self.quantity.name}{f', {where}' if where else ''}"


#: A rival of every prediction other than 0: data that cannot tell it say nothing of the predicted number, however far off
#: the rivals of the file are.
TWICE = "twice the prediction"


@dataclass(frozen=True)
class Centred:
    """All runs as one: prediction, estimate, standard error and allowance in one unit, and what each rival says.

    Attributes:
        stderr: of the difference to the prediction. of_log: of the estimate's logarithm, where logarithms are compared.
    """

    predicted: float
    estimate: float
    stderr: float
    allowance: float
    rivals: Mapping[str, float]
    of_log: float = 0.0

    def beside(self, value: float) -> float:
        """Standard error of the difference to a theory: in this unit that of the logarithms, if they are compared."""
        return self.of_log * _log_mean(self.estimate, value) if self.of_log and value > 0 else self.stderr


def _log_mean(x: float, y: float) -> float:
    """The logarithmic mean (x − y)/(ln x − ln y) of two positive numbers, with x itself for y = x."""
    return (x - y) / np.log1p((x - y) / y) if x != y else x


def centred(row: Row) -> Centred:
    """The mean over runs of measured/predicted, times the geometric mean of the predictions; a rival's number likewise.

    Where the predictions are not all of one sign it is the mean of measured − predicted beside the mean prediction. If
    they are all the same, either is the plain mean.
    """
    theory, signs = row.predicted, np.sign(row.predicted)
    relative = bool(signs[0] != 0 and np.all(signs == signs[0]))
    centre = float(signs[0] * np.exp(np.mean(np.log(np.abs(theory))))) if relative else float(np.mean(theory))

    def scaled(values: np.ndarray) -> np.ndarray:
        return np.asarray(centre * values / theory if relative else centre + values - theory)

    with np.errstate(invalid="ignore"):
        each = scaled(_pooled(row))
        deviation = float(np.std(each, ddof=1)) if each.size > 1 else 0.0
    stderr = deviation / np.sqrt(each.size)
    if row.quantity.kind == "share":
        stderr = max(
            stderr, share_error(float(np.clip(np.mean(row.measured), 0, 1)), row.total, float(np.mean(theory)))
        )
    unit = np.abs(centre / theory) if relative else np.ones(theory.shape)
    allowance = float(np.mean(row.allowed * unit))
    if row.off is not None:  # signs count: what scatters between runs is in the standard error
        allowance += max(abs(float(np.mean(off * unit))) for off in row.off)
    rivals = {name: float(np.mean(scaled(values))) for name, values in row.rivals.items()}
    if centre:
        rivals.setdefault(TWICE, 2 * centre)
    found = Centred(centre, float(np.mean(each)), stderr, allowance, rivals)
    return _by_logarithms(found, row) if row.quantity.kind == "spread" else found


def _by_logarithms(found: Centred, row: Row) -> Centred:
    r"""A spread is compared by its logarithm; of one sample its error is at least that of normal numbers, $1/\sqrt{2(n-1)}$.

    A sample that happens to scatter little says of itself that this is sure, too: the error of the spread is smaller then.
    """
    if not min(found.predicted, found.estimate) > 0:
        return found
    of_log = found.stderr / found.estimate
    if not _clustered(row):
        of_log = max(of_log, 1 / np.sqrt(2 * max(row.measured.size - 1, 1)))
    by_log = replace(found, of_log=float(of_log))
    return replace(by_log, stderr=by_log.beside(found.predicted))


def _clustered(row: Row) -> bool:
    """Whether each of the numbers is of several replicas."""
    return row.total > row.measured.size


def _pooled(row: Row) -> np.ndarray:
    r"""(n,) the measured numbers; spreads of the replicas of several seeds such that their mean ratio to what is predicted is
    $\sqrt{\overline{r^2}}$ of the seeds' ratios r, to first order one by one.

    Variances are unbiased, so that many seeds of few replicas come to the truth; spreads of few replicas are too low.
    """
    if row.quantity.kind != "spread" or not _clustered(row) or not np.all(row.predicted > 0):
        return row.measured
    squares = (row.measured / row.predicted) ** 2
    whole = float(np.sqrt(np.mean(squares)))
    if not 0 < whole < np.inf:
        return row.measured
    return row.predicted * (whole + (squares - whole**2) / (2 * whole))


def bounds(row: Row) -> tuple[Centred, Centred]:
    """The same with every number that is not known at its least, and at its most; infinite where it has no bound.

    Numbers at their bound do not scatter: how many there are of them does, and the mean with it, by so much at least.
    """
    least, most = (centred(replace(row, measured=end)) for end in row.ends or (row.measured, row.measured))
    if row.ends is None:
        return least, most
    share = share_error(row.missing / row.total, row.measured.size)
    return _no_surer(least, share), _no_surer(most, share)


def _no_surer(end: Centred, share: float) -> Centred:
    return replace(end, stderr=max(end.stderr, share * abs(end.estimate))) if np.isfinite(end.stderr) else end


def check(conjecture: Conjecture, points: Sequence[Point]) -> None:
    """Evaluate, before there are data, all that theories and allowances say of these problems without them.

    Raises `InputError` for a formula without a value.
    """
    for one in conjecture.quantities:
        for _, group in _groups(one, points, [None] * len(points)):
            if not conjecture.curve or one.across:
                with _told(conjecture):
                    said(conjecture, one, [point for point, _ in group])


def answered(conjecture: Conjecture, seed: int) -> list[Point]:
    """The problems of a seed. Raises `InputError` if one cannot be run, or theories say nothing of it."""
    points = [conjecture.point(values, seed) for values in grid.points(dict(conjecture.axes))]
    check(conjecture, points)
    return points


def able(conjecture: Conjecture) -> Conjecture:
    """The same with other seeds in place of those that are not `answered`. Raises `InputError` if others are not, too."""
    return replace(conjecture, seeds=tuple(_able(conjecture, seed) for seed in conjecture.seeds))


def _able(conjecture: Conjecture, seed: int) -> int:
    others = (integer_seed(seed, "another start", conjecture.id, turn) for turn in range(_TURNS))
    for other in itertools.chain([seed], others if conjecture.by_chance else ()):
        try:
            answered(conjecture, other)
        except Exception as error:
            if not is_refusal(error):
                raise
            why = error
        else:
            return other
    raise why


def check_chance(conjecture: Conjecture, points: Sequence[Point]) -> None:
    """Refuses, before anything runs, a single run whose start or noise is drawn: its scatter is not known, and 0 is wrong."""
    replicas = getattr(points[0].problem, "replicas", 1) if conjecture.replicated else 1
    alone = replicas == 1 or any(one.mean for one in conjecture.quantities)
    if conjecture.by_chance and alone and len({point.seed for point in points}) == 1:
        _refuse_single(conjecture, points[0])


def _refuse_single(conjecture: Conjecture, point: Point) -> NoReturn:
    mean = any(one.mean for one in conjecture.quantities)
    remedy = "replicas or seeds" if conjecture.replicated and not mean else "several seeds"
    refuse(
        f"{conjecture.where}: data has a single run of chance (seed {point.seed}), which has no standard error: "
        f'give {remedy}, such as seeds = "0:6"'
    )


Said = tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]


def said(conjecture: Conjecture, one: Quantity, points: Sequence[Point]) -> Said:
    """What is predicted (S,), what rivals say and what is allowed, seed by seed, without any data.

    Raises `InputError` for a formula without a value.
    """
    return _said(conjecture, one, _by_seed([(point, None) for point in points]))


def _by_seed(group: list[tuple[Point, Any]]) -> list[list[tuple[Point, Any]]]:
    seeds = dict.fromkeys(point.seed for point, _ in group)
    return [[pair for pair in group if pair[0].seed == seed] for seed in seeds]


def _said(conjecture: Conjecture, one: Quantity, runs: list[list[tuple[Point, Any]]]) -> Said:
    theories = {"": conjecture.predict, **conjecture.rivals}  # the prediction has no name
    found = {name: np.array([_says(conjecture, one, own, x) for own in runs]) for name, x in theories.items()}
    predicted = found.pop("")
    allowed = [_allowed(conjecture, one, own, float(p)) for own, p in zip(runs, predicted, strict=True)]
    return predicted, found, np.array(allowed)


@contextmanager
def _told(conjecture: Conjecture) -> Iterator[None]:
    """Refusals begin with the file."""
    try:
        yield
    except Exception as error:
        if is_refusal(error) and not str(error).startswith(conjecture.where):
            refuse(f"{conjecture.where}: {error}")
        raise


def rows(conjecture: Conjecture, points: Sequence[Point], data: "Sequence[xr.Dataset | Stopped]") -> list[Row]:
    """Every quantity at every grid point; a slope over the grid takes the points of its option together.

    Raises `InputError` for a measure that the data do not have, and a formula without a value.
    """
    found = []
    for one in conjecture.quantities:
        for values, group in _groups(one, points, data):
            with _told(conjecture):
                found.append(_row(conjecture, one, values, group))
    return found


def _groups(
    one: Quantity, points: Sequence[Point], data: Sequence[Any]
) -> Iterator[tuple[dict[str, Any], list[tuple[Point, Any]]]]:
    """Runs that one quantity is read off: of one grid point, the option that a slope is in left aside."""
    place: dict[str, tuple[dict[str, Any], list[tuple[Point, Any]]]] = {}
    for point, run in zip(points, data, strict=True):
        values = {name: value for name, value in point.values.items() if name != one.across}
        place.setdefault(repr(values), (values, []))[1].append((point, run))
    yield from place.values()


def _row(conjecture: Conjecture, one: Quantity, values: dict[str, Any], group: list[tuple[Point, Any]]) -> Row:
    runs = _by_seed(group)
    there = next((run for _, run in group if not isinstance(run, Stopped)), None)
    if there is None and conjecture.curve and not one.across:
        refuse(f"{conjecture.where}: no run came to its end, so the curve has no abscissae: {group[0][1].why}")
    readings = [_readings(conjecture, one, own) for own in runs]  # one for each replica of each seed
    # (A run that stopped is predicted at the times of another.)
    has_times = [[(point, there if isinstance(run, Stopped) else run) for point, run in own] for own in runs]
    predicted, rivals, allowed = _said(conjecture, one, has_times)
    least, most = (_numbers(one.kind, end) for end in _ends(readings))
    if len(runs) == 1:
        predicted, allowed = (np.full(least.shape, x[0]) for x in (predicted, allowed))
        rivals = {name: np.full(least.shape, x[0]) for name, x in rivals.items()}
    if least.size == 1 and conjecture.by_chance:
        _refuse_single(conjecture, group[0][0])
    lost = Counter(x.why for own in readings for x in own if x.why)
    measured, of = np.where(least == most, least, np.nan), tuple(point for point, _ in group)
    unit = "" if there is None else _unit(one, there)
    total, ends = sum(map(len, readings)), (least, most) if lost else None
    stopped = next((run.why for _, run in group if isinstance(run, Stopped)), "")
    before, behind = (_numbers("value", [np.array([x.off[side] for x in own]) for own in readings]) for side in (0, 1))
    off = (before, behind) if np.any(before) or np.any(behind) else None
    return Row(
        one, values, of, measured, predicted, allowed, rivals, least.size > 1, total, unit, lost, stopped, ends, off
    )


@dataclass(frozen=True)
class _Reading:
    """The number of one run lies between `least` and `most`; they differ where it gave none, and `why` says why.

    `off`: see `Quantity.read`.
    """

    least: float
    most: float
    why: str = ""
    off: Off = EXACT


def _unknown(why: str) -> _Reading:
    return _Reading(-np.inf, np.inf, why)


def _ends(readings: list[list[_Reading]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(R,) for each seed, at the least and at the most."""
    return [np.array([x.least for x in own]) for own in readings], [np.array([x.most for x in own]) for own in readings]


def _numbers(kind: str, readings: list[np.ndarray]) -> np.ndarray:
    """(n,) independent numbers: one for each seed, or each replica of a single one."""
    if len(readings) == 1 or (kind == "spread" and readings[0].size == 1):
        every = np.concatenate(readings)
        return _pseudo(every) if kind == "spread" else every
    with np.errstate(invalid="ignore"):
        return np.array([float(np.std(x, ddof=1) if kind == "spread" else np.mean(x)) for x in readings])


def _pseudo(x: np.ndarray) -> np.ndarray:
    """(n,) the jackknife's pseudo-values of the standard deviation: their mean estimates it, their scatter gives its error."""
    n = x.size
    if n < 3:
        refuse(f"data has {n} runs: a spread needs 3 or more, and an error of it many more")
    with np.errstate(invalid="ignore"):
        left_out = np.array([np.std(np.delete(x, k), ddof=1) for k in range(n)])
        return np.asarray(n * np.std(x, ddof=1) - (n - 1) * left_out)


def _readings(conjecture: Conjecture, one: Quantity, runs: list[tuple[Point, Any]]) -> list[_Reading]:
    """Of every replica (one without replicas) of one seed."""
    read = [_each(conjecture, one, point, run) for point, run in runs]
    if not one.across:
        return read[0]
    weights = slope_weights(_abscissae(one, runs))
    return [_slope(weights, own) for own in zip(*read, strict=True)]


def _slope(weights: np.ndarray, readings: Sequence[_Reading]) -> _Reading:
    """Of the readings along a grid: a number that may be larger raises it where its weight is positive, else lowers it."""
    least, most = (np.array([getattr(x, end) for x in readings]) for end in ("least", "most"))
    if np.any(most <= 0):
        return _unknown("gave a number that is not positive, which has no logarithm")
    with np.errstate(all="ignore"):
        low, high = np.log(np.maximum(least, 0.0)), np.log(most)
        ends = [np.where(weights > 0, weights * x, weights * y) for x, y in ((low, high), (high, low))]
    down, up = (float(np.sum(end[weights != 0])) for end in ends)
    if down != up:
        return _Reading(down, up, next((x.why for x in readings if x.why), ""))
    before, behind = (
        float(sum(w * x.off[side] / x.least for w, x in zip(weights, readings, strict=True))) for side in (0, 1)
    )
    return _Reading(down, up, off=(before, behind))


def _each(conjecture: Conjecture, one: Quantity, point: Point, run: "xr.Dataset | Stopped") -> list[_Reading]:
    share = one.kind == "share"
    if isinstance(run, Stopped):
        why = "could not be integrated"
        count = getattr(point.problem, "replicas", 1) if conjecture.replicated and not one.mean else 1
        return list(itertools.repeat(_Reading(0.0, 1.0, why) if share else _unknown(why), count))
    several = "replica" in run.dims and not one.mean
    singles = [run.isel(replica=r) for r in range(run.sizes["replica"])] if several else [run]
    return [_reading(conjecture, one, point, single) for single in singles]


def _reading(conjecture: Conjecture, one: Quantity, point: Point, run: "xr.Dataset") -> _Reading:
    axes = _axes(conjecture, point)
    lost = "diverged" in run and bool(np.any(run["diverged"].values))
    value, off = (np.nan, EXACT) if lost else _number(conjecture, one, run, axes)
    if one.kind == "share":
        return _Reading(float(np.isfinite(value)), float(np.isfinite(value)))
    if np.isfinite(value):
        return _Reading(value, value, off=off)
    if lost:
        return _unknown("diverged")
    end = one.reached(run, axes, _lengths(point)) if value == np.inf and conjecture.function is None else np.nan
    if np.isfinite(end):
        return _Reading(end, np.inf, "ended before they came to it")
    return _unknown("gave no finite number")


def _axes(conjecture: Conjecture, point: Point) -> dict[str, Axis]:
    """The axes of a run of this problem."""
    batch, compute = float(getattr(point.problem, "batch", None) or 1), conjecture.simulation.compute
    own = {} if compute is None else {"compute": (compute[0], float(compute[1](point.resolved)))}
    return {"time": ("time", 1.0), "step": ("step", 1.0), "samples": ("step", batch), **own}


def _lengths(point: Point) -> dict[str, float]:
    """How long the runs of a problem are, by the unit of what they measure."""
    from dynamics.core.trajectory import STEPS, TIME

    echo = point.resolved.echo()
    found = {unit: echo.get(name) for unit, name in ((TIME, "time"), (STEPS, "steps"))}
    return {unit: float(value) for unit, value in found.items() if isinstance(value, int | float)}


def _number(conjecture: Conjecture, one: Quantity, run: "xr.Dataset", axes: Mapping[str, Axis]) -> tuple[float, Off]:
    if conjecture.function is None:
        return one.read(run, axes)
    try:
        return float(conjecture.function(run)), EXACT
    except Exception as error:
        if is_refusal(error):
            raise
        said = " ".join(str(error).split())[:120]
        refuse(
            f"{one.name} raises {type(error).__name__} on a run: {said}: mend it (it has {', '.join(map(str, run))})"
        )


def _abscissae(one: Quantity, runs: list[tuple[Point, Any]]) -> np.ndarray:
    return np.array([float(point.values[one.across]) for point, _ in runs])


def _says(conjecture: Conjecture, one: Quantity, runs: list[tuple[Point, Any]], theory: Formula) -> float:
    """What a theory says of one seed's number."""
    along = conjecture.curve and not one.across
    names = tuple(name for name in theory.names if not along or name not in ("t", one.axis))
    _check_start(conjecture, theory, names, runs[0][0])
    values = [conjecture.symbols(point, one).values(names) for point, _ in runs]
    if along:
        point, run = runs[0]
        return one.curve_slope(run, _axes(conjecture, point), theory, values[0])
    each = [theory.number(own) for own in values]
    if not conjecture.curve:
        if one.across and len(set(each)) > 1:
            refuse(f"{theory.label} is {theory.text!r}: it changes along {one.across}: give predict.curve, or a number")
        return each[0]
    if min(each) <= 0:
        refuse(
            f"{theory.label} is {theory.text!r}: it is not positive everywhere on the grid, so it has no slope: mend it"
        )
    return float(slope_weights(_abscissae(one, runs)) @ np.log(each))


def _check_start(conjecture: Conjecture, theory: Formula, names: Sequence[str], point: Point) -> None:
    """Refuses what is known of one replica's start, where there are others that begin elsewhere."""
    of_first = conjecture.simulation.first.intersection(names)
    replicas = getattr(point.problem, "replicas", 1)
    if of_first and replicas > 1:
        refuse(
            f"{theory.label} is {theory.text!r}: {min(of_first)} is of the first replica's start, and each of {replicas} "
            "has its own: give data.replicas = 1, and seeds"
        )


def _allowed(conjecture: Conjecture, one: Quantity, runs: list[tuple[Point, Any]], predicted: float) -> float:
    """The allowances of one seed's number, added up."""
    total = 0.0
    for allowance in conjecture.allowances:
        if isinstance(allowance, Formula):
            found = [abs(_allowance(conjecture, one, point, allowance, predicted)) for point, _ in runs]
            total += max(found)
            continue
        shares = np.array([_share(conjecture, one, point, allowance) for point, _ in runs])
        total += (
            float(np.abs(slope_weights(_abscissae(one, runs))) @ shares) if one.across else shares[0] * abs(predicted)
        )
    return total


def _allowance(conjecture: Conjecture, one: Quantity, point: Point, allowance: Formula, predicted: float) -> float:
    names = tuple(name for name in allowance.names if name != "predicted")
    return allowance.number({**conjecture.symbols(point, one).values(names), "predicted": predicted})


def _share(conjecture: Conjecture, one: Quantity, point: Point, name: str) -> float:
    """Of a named allowance, for the direction that is measured."""
    shares = np.atleast_1d(np.asarray(conjecture.model.allowances[name].share(point.resolved), dtype=float))
    if shares.size > 1 and one.direction is None:
        refuse(f"judge.allowance is {name!r}, which differs between {shares.size} directions: give quantity.direction")
    share = float(shares[0 if one.direction is None else one.direction - 1])
    if not np.isfinite(share):
        where = point.resolved.headline()
        refuse(
            f"judge.allowance is {name!r}, but theory has no such term here ({where}): give a formula, or other seeds"
        )
    return share


def _unit(one: Quantity, run: "xr.Dataset") -> str:
    if one.kind in ("slope", "share"):
        return "1"
    if one.kind == "crossing":
        return {"time": str(run["time"].attrs.get("units", "")), "step": "steps"}.get(one.axis, one.axis)
    return str(run[one.of.text].attrs.get("units", "")) if one.of.text in run else ""
