"""Before the data: how many runs tell a conjecture from its nearest rival, how long they take here, where it is hopeless.

The runs of a pilot have seeds of their own stream; they are thrown away, but for the scatter between runs. As a pilot's
scatter is itself uncertain, its upper limit at 80 % of normal numbers is planned with (of skewed ones at 60 to 70 %).
How sure a spread is 16 runs do not tell: its error is that of times of escape at least. That of a share is known before.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from emergence.conjecture.conjecture import Conjecture, Point
from emergence.conjecture.judging import missing, nearest, told
from emergence.conjecture.runs import Runs, Stopped
from emergence.conjecture.table import Centred, Row, Said, answered, centred, rows, said
from emergence.options import options, written
from emergence.refusal import is_refusal
from emergence.store import grid
from emergence.values import MAX_WHOLE
from theory.core.streams import integer_seed
from validation.statistics import power

if TYPE_CHECKING:
    import xarray as xr

#: Independent runs of a pilot.
PILOT = 16
#: How far towards the rival a share is that is off by as much as the power allows, whose error counts then; and of a share of
#: all or none, whose error is one count, of how many it is one: at least so many over the rival's distance.
_TOWARDS, _COUNTS = 0.3, 4
#: Standard deviation √((κ − 1)/4) of ln of a spread, over √n: by Gumbel's law of times of escape, κ = 27/5, at least.
_GUMBEL = math.sqrt(1.1)
#: Sizes are doubled so often in search of one at which a rival is told.
_DOUBLINGS = 20


@dataclass(frozen=True)
class Planned:
    """The plan for one quantity.

    Attributes:
        name: in words. predicted: of the pilot's problems. rival: the nearest one. distance: of it from the prediction.
        allowance, deviation: of a run, by the pilot; all in one unit. runs: independent ones that are needed; None if no
            number will do. have: those that the claim asks for. power: that these have. size: an option and the least value of
            it, of those tried, at which the rival is further off than the allowance; None if there is none. lost: how many
        runs of the pilot gave no number, and why, if any did: then nothing is planned.
    """

    name: str
    predicted: float
    rival: str
    distance: float
    allowance: float
    deviation: float
    runs: int | None
    have: int
    power: float
    size: tuple[str, int] | None
    lost: str = ""


@dataclass(frozen=True)
class Plan:
    """Plans for all quantities. `unit`: what an independent run is, ``seeds`` or ``replicas``.

    Attributes:
        pilot: its runs. spent, each: seconds of the pilot, and of one further run at all grid points.
    """

    rows: tuple[Planned, ...]
    unit: str
    pilot: int
    spent: float
    each: float

    @property
    def runs(self) -> int | None:
        """Independent runs that all quantities need; None if no number will do for some."""
        found = [row.runs for row in self.rows]
        return None if None in found else max(x for x in found if x is not None)

    def seconds(self, workers: int) -> float | None:
        """How long the data would take here."""
        return None if self.runs is None else self.runs * self.each / max(workers, 1)


def plan(conjecture: Conjecture, runs: Runs, pilot: int = PILOT) -> Plan:
    """Plan a conjecture by a pilot of so many independent runs. Raises `InputError` as judging does."""
    by_seeds = not _replicated(conjecture)
    trial = conjecture if by_seeds else replace(conjecture, replicas=pilot)
    points, data = _runs(trial, runs, pilot if by_seeds else 1)
    found = rows(trial, points, data)
    if len(runs.seconds) == 1:  # which compiled, too
        runs.again(trial, points[0])
    cells = grid.size(dict(trial.axes))
    each = float(np.median(runs.seconds[1:])) * cells / (1 if by_seeds else pilot)
    have = len(conjecture.seeds) if by_seeds else _replicas(conjecture)
    planned = tuple(_planned(conjecture, row, len(found), have) for row in found)
    return Plan(planned, "seeds" if by_seeds else "replicas", pilot, sum(runs.seconds), each)


def _runs(conjecture: Conjecture, runs: Runs, count: int) -> "tuple[list[Point], list[xr.Dataset | Stopped]]":
    """The pilot's runs, of seeds of its own; starts that cannot be run, or of which theories say nothing, are passed over,
    as often as there are others.

    Raises `InputError` if too few can.
    """
    found: list[tuple[list[Point], list[xr.Dataset | Stopped]]] = []
    why: Exception | None = None
    for seed in _seeds(conjecture, 2 * count):
        try:
            points = answered(conjecture, seed)
            found.append((points, runs.part(len(found), count).of(conjecture, points)))
        except Exception as error:
            if not is_refusal(error):
                raise
            why = error
        if len(found) == count:
            break
    if (why is not None and len(found) < max(2, count // 2) and count > 1) or not found:
        assert why is not None
        raise why
    return [point for points, _ in found for point in points], [run for _, own in found for run in own]


def _replicated(conjecture: Conjecture) -> bool:
    """Whether replicas are the independent runs: one seed, and a simulation that has them."""
    return len(conjecture.seeds) == 1 and conjecture.replicated


def _replicas(conjecture: Conjecture) -> int:
    return conjecture.replicas or int(getattr(conjecture.points[0].problem, "replicas", 1))


def _seeds(conjecture: Conjecture, count: int) -> list[int]:
    """Seeds of a stream of their own, none of them the data's."""
    if not conjecture.by_chance:
        return list(conjecture.seeds)
    drawn = (integer_seed(0, "pilot", conjecture.id, place) for place in range(10 * count))
    return [seed for seed in dict.fromkeys(drawn) if seed not in conjecture.seeds][:count]


def _planned(conjecture: Conjecture, row: Row, count: int, have: int) -> Planned:
    pilot = centred(row)
    own = _on_its_problems(conjecture, row) or pilot
    rival, distance = nearest(own)
    n, alone = row.measured.size, row.total == row.measured.size
    deviation = power.upper_deviation(pilot.beside(pilot.rivals[rival]) * math.sqrt(n), n)
    if row.quantity.kind == "share" and alone and 0 <= own.predicted <= 1:
        rejected = own.predicted + _TOWARDS * (own.rivals[rival] - own.predicted)
        deviation = math.sqrt(max(*(x * (1 - x) for x in (own.predicted, rejected)), distance / _COUNTS))
    elif row.quantity.kind == "spread" and alone and pilot.of_log:
        deviation = max(deviation, replace(pilot, estimate=pilot.predicted, of_log=_GUMBEL).beside(pilot.rivals[rival]))
    if np.all(row.predicted != 0) and pilot.predicted != 0:  # in proportion, where runs are compared in proportion
        deviation *= abs(own.predicted / pilot.predicted)
    rate = conjecture.false_alarms / count
    known = math.isfinite(deviation)
    needed = power.needed(distance, own.allowance, deviation, rate, conjecture.power) if known else None
    has = power.power(have, distance, own.allowance, deviation, rate) if known else 0.0
    size = _separating(conjecture, row) if distance <= own.allowance else None
    lost = missing(row)
    return Planned(row.name, own.predicted, rival, distance, own.allowance, deviation, needed, have, has, size, lost)


def _on_its_problems(conjecture: Conjecture, row: Row) -> Centred | None:
    """What theories say of the claim's own starts, not of the pilot's; None of a curve in time, which needs its times."""
    if conjecture.curve and not row.quantity.across:
        return None
    values = {name: value for point in row.points for name, value in point.values.items()}
    grids = [dict(point.values) for point in row.points] if row.quantity.across else [values]
    distinct = [dict(x) for x in dict.fromkeys(tuple(one.items()) for one in grids)]
    points = [conjecture.point(one, seed) for one in distinct for seed in conjecture.seeds]
    return _centred(row, said(conjecture, row.quantity, points))


def _centred(row: Row, found: Said) -> Centred:
    predicted, rivals, allowed = found
    shares = (
        None if row.off is None else [np.mean(off / np.where(row.predicted, row.predicted, 1.0)) for off in row.off]
    )
    off = None if shares is None else (shares[0] * predicted, shares[1] * predicted)
    return centred(replace(row, measured=predicted, predicted=predicted, rivals=rivals, allowed=allowed, off=off))


def _separating(conjecture: Conjecture, row: Row) -> tuple[str, int] | None:
    """The least dimension, of doubled ones, at which every rival is further off than the allowance."""
    if "dim" not in options(conjecture.model.problem) or "dim" in (row.quantity.across, *conjecture.tied):
        return None
    dim = int(getattr(row.points[0].problem, "dim"))  # noqa: B009
    for _ in range(_DOUBLINGS):
        dim *= 2
        if dim > MAX_WHOLE:
            return None
        try:
            points = [conjecture.point({**row.values, "dim": dim}, seed) for seed in conjecture.seeds]
            larger = _centred(row, said(conjecture, row.quantity, points))
        except Exception as error:
            if is_refusal(error):
                return None
            raise
        if nearest(larger)[1] > larger.allowance:
            return "dim", dim
    return None


def words(one: Planned, unit: str) -> str:
    """One plan in a sentence."""
    away = f"the nearest rival, {one.rival}, is {told(one.distance, one.predicted)} away"
    if one.lost:
        return f"{one.name}: not planned: of the pilot {one.lost}: give a longer time or more steps in [problem]"
    if one.runs is None:
        hopeless = f"{one.name}: hopeless: {away}, the allowance is {told(one.allowance, one.predicted)}"
        return hopeless + (f": {written(one.size[0])} = {one.size[1]} would separate them" if one.size else "")
    enough = "enough" if one.have >= one.runs else "too few"
    return f"{one.name}: {one.runs} {unit} needed, {one.have} asked for ({enough}, power {one.power:.3f}); {away}"
