"""A conjecture as a `Claim`, judged as those of the catalogue are: its runs, its quantities, its rivals as controls."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from emergence.arguments import PRESETS
from emergence.conjecture import disagreement, lock
from emergence.conjecture.conjecture import Conjecture
from emergence.conjecture.formula import Formula
from emergence.conjecture.runs import Runs
from emergence.conjecture.symbols import LETTERS
from emergence.conjecture.table import TWICE, Centred, Row, able, bounds, centred, check_chance, rows
from emergence.options import written
from emergence.refusal import is_refusal, refuse
from emergence.values import shown
from validation.figures.plot import PALETTE, Plot
from validation.judge.claim import Claim, Control, Measurement, Part, percent, share_used, verdict_of
from validation.report.numerals import plain
from validation.statistics import power
from validation.statistics.standard_errors import sigmas

if TYPE_CHECKING:
    import xarray as xr

    from validation.judge.context import Context

#: Ratios that differ by more than this factor are on a logarithmic axis.
_FAR = 10.0
#: Standard errors outside the allowance beyond which it is said how many runs would reject the prediction.
_BEYOND = 2.0
#: A factor that no run of a right prediction is off by, all to the same side.
_OFF = 2.0


@dataclass(frozen=True)
class Judging:
    """What runs a conjecture's claim.

    Attributes:
        lock: whether it is locked, in words. base: the seed of a context under which the conjecture's own seeds are run.
    """

    conjecture: Conjecture
    runs: Runs
    lock: str = ""
    base: int = 0

    def __call__(self, context: "Context") -> Iterator[Part]:
        """The measurements, a figure, and what every run gave; under another seed, of other runs."""
        if context.seed != self.base:
            own = replace(self, conjecture=able(self.conjecture.under(context.seed - self.base)), base=context.seed)
            yield from own(context)
            return
        conjecture = self.conjecture
        points = conjecture.points
        check_chance(conjecture, points)
        found = rows(conjecture, points, self.runs.of(conjecture, points))
        keys = _keys(found)
        measurements = [self._measurement(row, key, len(found)) for row, key in zip(found, keys, strict=True)]
        if conjecture.expected == "agrees" and conjecture.kind != "open":
            measurements = self._explained(found, measurements)
        yield from measurements
        yield (
            "Measured over predicted, with the standard errors that are allowed; small: every run; diamonds: the rivals.",
            _figure(measurements, found),
        )
        yield _dataset(found, keys)

    def _explained(self, found: list[Row], measurements: list[Measurement]) -> list[Measurement]:
        """The measurements, with what their disagreement looks like where they disagree."""
        wrong = [place for place, x in enumerate(measurements) if verdict_of(x).verdict == "disagrees"]
        if not wrong:
            return self._suspected(found, measurements)
        about: dict[str, object] = {}
        if (form := disagreement.shape(self.conjecture, found)) is not None:
            about["it looks like"] = form.words
            if known := disagreement.known(self.conjecture, form, found):
                about["known to do that"] = known
        if near := disagreement.statements(self.conjecture.statement):
            about["nearest statements of the catalogue"] = ", ".join(near)
        about["smallest problem that still disagrees"] = disagreement.smallest(self.conjecture, self._disagrees)
        explained = list(measurements)
        for place in wrong:
            x = measurements[place]
            ratio = {"estimate / predicted": f"{x.estimate / x.predicted:.4g}"} if x.predicted else {}
            explained[place] = replace(x, details={**x.details, **ratio, **about})
        return explained

    def _suspected(self, found: list[Row], measurements: list[Measurement]) -> list[Measurement]:
        """The measurements, with what is off by a factor of two or more in every run, and what explains that by a power.

        Where single runs scatter by more than their mean, a mean of them rejects nothing.
        """
        off = [
            place for place, row in enumerate(found) if row.random and row.total == row.measured.size and _all_off(row)
        ]
        off = [place for place in off if verdict_of(measurements[place]).verdict == "inconclusive"]
        form = disagreement.shape(self.conjecture, [found[place] for place in off]) if off else None
        if form is None or not form.symbol:
            return measurements
        words = {"it looks like": f"{form.words}; no run is within a factor of two"}
        return [replace(x, details={**x.details, **words}) if i in off else x for i, x in enumerate(measurements)]

    def _disagrees(self, smaller: Conjecture) -> bool:
        """Whether a smaller problem disagrees, too: anywhere on its grid."""
        points = smaller.points
        found = rows(smaller, points, self.runs.of(smaller, points))
        judged = (verdict_of(self._measurement(row, "", len(found))) for row in found)
        return any(one.verdict == "disagrees" for one in judged)

    def _measurement(self, row: Row, key: str, count: int) -> Measurement:
        conjecture = self.conjecture
        allowed = sigmas(row.measured.size, conjecture.false_alarms / count)
        own = _held(row, allowed)
        details: dict[str, object] = {"runs": row.total, "estimator": _estimator(row)}
        if row.random:
            details["standard errors allowed"] = round(allowed, 3)
        if self.lock:
            details["lock"] = self.lock
        if row.missing:
            details["not measured"] = _lost(row, own)
        if signs := _signs(conjecture, row):
            details["signs"] = signs
        words = f"{row.name}{f' ({row.unit})' if row.unit not in ('', '1') else ''}"
        measurement = Measurement(
            f"{words}, {own.side}" if own.side else words,
            own.predicted, own.estimate, own.stderr, own.allowance, own.controls,
            _allowance_text(conjecture, row), key, details, allowed,
        )  # fmt: skip
        if not row.missing:
            details |= _seen(conjecture, row, own, measurement, count)
        return measurement


@dataclass(frozen=True)
class _Held(Centred):
    """The numbers that a row is judged by. `side`: which end of what is known the estimate is, if it is one."""

    controls: Mapping[str, Control | float] = field(default_factory=dict)
    side: str = ""


def _all_off(row: Row) -> bool:
    """Whether all runs are above twice what is predicted of them, or all below half of it."""
    if np.any(row.predicted == 0):
        return False
    ratios = row.measured / row.predicted
    return bool(np.all(ratios > _OFF) or np.all((ratios > 0) & (ratios < 1 / _OFF)))


def _held(row: Row, sigmas: float) -> _Held:
    """Runs that gave no number lie between bounds: what is said of a row must be true wherever between them they are.

    So a theory is rejected by the end that is nearer to it, and agrees only if both ends do. Else nothing is estimated (NaN).
    """
    least, most = bounds(row)
    if not row.missing:
        own = {name: _rival(row, name, least, sigmas) for name in least.rivals}
        return _Held(**vars(least), controls=own)
    ends = {"at least": least, "at most": most}

    def off(end: Centred, value: float) -> float:
        return share_used(end.estimate, value, end.allowance, end.beside(value), sigmas)

    def rejecting(value: float) -> str:
        found = {"at least": value < least.estimate, "at most": value > most.estimate}
        return next((side for side, beyond in found.items() if beyond and off(ends[side], value) > 1), "")

    theory = least.predicted
    side = rejecting(theory)
    if not side and off(least, theory) <= 1 and off(most, theory) <= 1:
        side = max(ends, key=lambda name: off(ends[name], theory))
    controls: dict[str, Control | float] = {}
    for name, value in least.rivals.items():
        end = ends.get(rejecting(value) if side else "")
        # (What is not measured rejects nothing.)
        unsaid = Control(value, value, 0.0, 0.0)
        controls[name] = unsaid if end is None else Control(value, end.estimate, end.beside(value))
    found = ends.get(side, replace(least, estimate=math.nan, stderr=math.nan))
    return _Held(**vars(found), controls=controls, side=side)


def _rival(row: Row, name: str, found: Centred, sigmas: float) -> Control:
    """A rival beside what was estimated with the prediction, or with the rival in its place, whichever rejects it more.

    Where the prediction is wrong from run to run its ratios scatter, which is no error of the rival's; and the other way.
    """
    value = found.rivals[name]
    beside = Control(value, stderr=found.beside(value))
    if name not in row.rivals:  # a multiple of the prediction has its ratios
        return beside
    own = centred(replace(row, predicted=row.rivals[name], rivals={}))
    used = share_used(found.estimate, value, found.allowance, found.beside(value), sigmas)
    if share_used(own.estimate, own.predicted, own.allowance, own.stderr, sigmas) > used:
        return Control(own.predicted, own.estimate, own.stderr, own.allowance)
    return beside


def _lost(row: Row, own: _Held) -> str:
    """How many runs gave no number and why, what is known in spite of them, and what to do."""
    least, most = bounds(row)
    known = [
        f"{side} {end.estimate:.4g}"
        for side, end in (("at least", least), ("at most", most))
        if math.isfinite(end.estimate)
    ]
    between = f"the mean is {' and '.join(known)}" if known else "so the mean is not known"
    remedy = (
        "" if row.quantity.kind == "share" else ": give a longer time or more steps in [problem], or measure a share"
    )
    return f"{missing(row)}; {between}{remedy if not own.side else ''}"


def missing(row: Row) -> str:
    """How many runs gave no number, and why; nothing if all did."""
    said = (f"{count} of {row.total} runs ({percent(count / row.total)}) {why}" for why, count in row.lost.items())
    return "; ".join(said) + (f" ({row.stopped})" if row.stopped else "")


def claim_of(conjecture: Conjecture, runs: Runs, lock: str = "", base: int = 0) -> Claim:
    """The claim of a conjecture. `lock`: whether it is locked, in words; it stands in the report beside the source.

    `base`: see `Judging`.
    """
    return Claim(
        id=conjecture.id,
        title=conjecture.title,
        statement=conjecture.statement,
        latex=_latex(conjecture),
        source=f"{conjecture.source} ({lock})" if lock else conjecture.source,
        kind=conjecture.kind,
        regime=_regime(conjecture),
        controls=tuple(dict.fromkeys((*conjecture.rivals, *([TWICE] if conjecture.predict.expression != 0 else [])))),
        runner=Judging(conjecture, runs, lock, base),
        expected=conjecture.expected,
    )


def check_preset(claims: Iterable[object], preset: str) -> None:
    """Raises `InputError` if a preset other than the usual one is asked for of a conjecture, which has one size."""
    for claim in claims:
        if preset != PRESETS[0] and isinstance(claim, Claim) and isinstance(claim.runner, Judging):
            refuse(
                f"--preset is {preset}, but claim {claim.id} of {claim.runner.conjecture.where} has one size: leave --preset "
                "out, and give seeds and replicas in [data]"
            )


def stored_claim(conjecture: Conjecture) -> Claim:
    """The claim as a store of verdicts takes it: its text tells one version from another, the code of its runs included.

    Raises `InputError` for a problem that cannot be run.
    """
    text = {**lock.canonical(conjecture), "run": conjecture.cell(conjecture.points[0]).name}
    return replace(claim_of(conjecture, Runs()), text=json.dumps(text, sort_keys=True))


def _regime(conjecture: Conjecture) -> str:
    given = {**conjecture.fixed, **{name: list(values) for name, values in conjecture.axes.items()}}
    given |= {name: one.text for name, one in conjecture.tied.items()}
    given |= {} if conjecture.replicas is None else {"replicas": conjecture.replicas}
    words = [f"{written(name)} = {value if isinstance(value, str) else shown(value)}" for name, value in given.items()]
    parts = [*words, seeds_in_words(conjecture)]
    return f"{conjecture.simulation.name} of the model {conjecture.model.name}: {', '.join(parts)}"


def seeds_in_words(conjecture: Conjecture) -> str:
    """Of the data."""
    first, last, count = conjecture.seeds[0], conjecture.seeds[-1], len(conjecture.seeds)
    several = conjecture.seeds == tuple(range(first, last + 1)) and count > 2
    return f"seeds {first} to {last}" if several else f"{count} seeds: {', '.join(map(str, conjecture.seeds))}"


def _latex(conjecture: Conjecture) -> str:
    """The prediction of all that is measured; letters with a number behind them get it as an index, words stand upright."""
    name = re.sub(r"[^A-Za-z0-9,.;:()*/+=-]+", " ", conjecture.measured).strip() or "x"
    theory = conjecture.predict.expression
    words = {x: rf"\text{{{str(x).replace('_', ' ')}}}" for x in theory.free_symbols if "_" in str(x)}
    said = sp.latex(theory, symbol_names=words)
    return rf"\text{{{name}: that of }}{said}" if conjecture.curve else rf"\text{{{name}}} = {said}"


def _allowance_text(conjecture: Conjecture, row: Row) -> str:
    texts = [
        f"the formula {one.text}" if isinstance(one, Formula) else f"{one}: {conjecture.model.allowances[one].text}"
        for one in conjecture.allowances
    ]
    between = [] if row.off is None else ["a line between records, by the lines before and behind them"]
    return "; ".join(texts + between) or "none"


def _estimator(row: Row) -> str:
    n = row.measured.size
    over = "a single run without chance" if n == 1 else f"{n} independent runs, each against its own prediction"
    if n > 1 and len({point.seed for point in row.points}) == 1:
        over = f"{n} replicas of one seed, so of one start, or data set, where a seed draws one for all"
    if row.quantity.kind == "spread" and row.total > n > 1:
        over = f"{n} seeds, of the spread over the {row.total // n} replicas of each (root mean square)"
    curves = ', of every replica\'s own curve (`mean = "replicas"`: of their mean)' if row.of_single_runs else ""
    return f"mean over {over}{curves}" if n > 1 else over


def _keys(found: list[Row]) -> list[str]:
    """Suffixes of the ids: nothing for a single quantity, else what sets the rows apart."""
    if len(found) == 1:
        return [""]
    return [re.sub(r"[^\w.+-]", "_", ".".join(_parts(row))) or str(place + 1) for place, row in enumerate(found)]


def _parts(row: Row) -> list[str]:
    values: dict[str, Any] = {LETTERS.get(name, written(name)): value for name, value in row.values.items()}
    one = row.quantity
    values |= {"p": one.direction} if one.direction is not None else {}
    values |= one.symbols
    several = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
    return [f"{name}{'-'.join(x if isinstance(x, str) else shown(x) for x in own)}" for name, own in several.items()]


def _seen(conjecture: Conjecture, row: Row, own: Centred, x: Measurement, count: int) -> dict[str, object]:
    """The smallest error that was sure to be seen, the nearest rival, and the runs that would tell it."""
    name, distance = nearest(own)
    seen, away = (told(gap, x.predicted) for gap in (x.allowance + x.sigmas * x.stderr, distance))
    details: dict[str, object] = {"smallest error seen": seen, "nearest rival": f"{name}, {away} away"}
    judged = verdict_of(x)
    alive = [control.name for control in judged.controls if not control.rejected]
    if alive and judged.used > 1:
        details["told apart"] = f"the prediction is rejected, and {', '.join(alive)} is not"
    elif alive:
        runs, asked = math.sqrt(row.measured.size), (conjecture.false_alarms / count, conjecture.power)
        enough = power.needed(distance, x.allowance, own.beside(own.rivals[name]) * runs, *asked)
        remedy = _remedy(enough, told(x.allowance, x.predicted), row, distance > x.allowance)
        if row.random and abs(judged.z) > _BEYOND:
            rejecting = power.needed(abs(x.estimate - x.predicted), x.allowance, x.stderr * runs, *asked)
            if rejecting is not None and (enough is None or rejecting < enough):
                remedy += f"; {_grouped(rejecting)} would reject it if what they give stays"
        whole = " of the prediction" if x.predicted else ""
        details["underpowered"] = f"{seen}{whole} could have been seen, the nearest rival is {away} away, {remedy}"
    return details


def _signs(conjecture: Conjecture, row: Row) -> str:
    """What is of both signs where what is measured is of one, by which a formula may be wrong; nothing if nothing is."""
    sign = np.sign(row.measured[0])
    other = int(np.sum(np.sign(row.predicted) == -sign))
    if sign == 0 or not np.all(np.sign(row.measured) == sign) or not 0 < other < row.measured.size:
        return ""
    names = [name for name in conjecture.predict.names if _both_signs(conjecture, row, name)]
    about = f": {', '.join(names)} is of both signs: write abs({names[0]}) if its size is meant" if names else ""
    return f"{other} of {row.measured.size} predictions have the sign that no run has{about}"


def _both_signs(conjecture: Conjecture, row: Row, name: str) -> bool:
    try:
        values = [conjecture.symbols(point, row.quantity).value(name) for point in row.points]
    except Exception as error:
        if is_refusal(error):
            return False
        raise
    return min(values) < 0 < max(values)


def _remedy(enough: int | None, allowance: str, row: Row, beyond: bool) -> str:
    if enough is None and beyond:
        return f"{_grouped(power.MOST)} runs would not do: they scatter too much"
    if enough is None:
        return f"no number of runs would do: the allowance is {allowance}"
    return f"{_grouped(enough)} runs would do" if row.random else "give more seeds, or a smaller allowance"


def nearest(own: Centred) -> tuple[str, float]:
    """The rival that is hardest to tell from the prediction, and how far it is from it."""
    gaps = {name: abs(value - own.predicted) for name, value in own.rivals.items()}
    name = min(gaps, key=lambda key: gaps[key])
    return name, gaps[name]


def told(gap: float, predicted: float) -> str:
    """A difference as a share of a prediction, in words; of a prediction of 0, which has no shares, as it is."""
    return percent(gap / abs(predicted)) if predicted else plain(gap, 2)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _figure(measurements: list[Measurement], found: list[Row]) -> object:
    """Ratios to the prediction in the order of the quantities, differences where a prediction is 0.

    Ratios that are far apart, as those of a far rival, are on a logarithmic axis.
    """
    place = np.arange(1, len(measurements) + 1, dtype=float)
    zero = any(x.predicted == 0 for x in measurements)

    def shifted(value: float, x: Measurement) -> float:
        return value - x.predicted if zero else value / x.predicted

    plot = Plot("quantity, in the order of the table", "measured − predicted" if zero else "measured / predicted")
    plot.level(0.0 if zero else 1.0, "prediction", ls="--")
    with np.errstate(all="ignore"):
        runs = [row.measured - row.predicted if zero else row.measured / row.predicted for row in found]
    beside = [at + np.linspace(0.08, 0.3, run.size) for at, run in zip(place, runs, strict=True)]
    plot.cloud(np.concatenate(beside), np.concatenate(runs), "single runs", color=PALETTE[0], s=9, alpha=0.5, lw=0)
    bars = np.array([x.sigmas * x.stderr / (1.0 if zero else abs(x.predicted)) for x in measurements])
    plot.points(place, [shifted(x.estimate, x) for x in measurements], "measured", PALETTE[0], np.nan_to_num(bars))
    drawn = list(runs)
    for rival, name in enumerate(measurements[0].controls):
        each = [verdict_of(x).controls[rival].predicted for x in measurements]
        values = [shifted(value, x) for value, x in zip(each, measurements, strict=True)]
        plot.limit(place, values, name, PALETTE[1 + rival % 7], marker="D", fillstyle="none")
        drawn.append(np.array(values))
    ratios = np.concatenate(drawn)
    ratios = ratios[np.isfinite(ratios)]
    if not zero and ratios.size and 0 < _FAR * ratios.min() < ratios.max():
        plot.ax.set_yscale("log")
    plot.ax.set_xticks(place)
    plot.ax.set_xlim(0.5, len(measurements) + 0.5)
    return plot.done()


def _dataset(found: list[Row], keys: list[str]) -> "xr.Dataset":
    """Every run: what was measured, predicted and allowed, and what the rivals say, along ``row`` and ``run``."""
    import xarray as xr

    runs = max(row.measured.size for row in found)

    def padded(values: list[np.ndarray]) -> np.ndarray:
        return np.stack(
            [np.pad(np.asarray(x, dtype=float), (0, runs - x.size), constant_values=np.nan) for x in values]
        )

    names = list(found[0].rivals)
    return xr.Dataset(
        {
            "measured": (("row", "run"), padded([row.measured for row in found])),
            "predicted": (("row", "run"), padded([row.predicted for row in found])),
            "allowed": (("row", "run"), padded([row.allowed for row in found])),
            "rival_predicted": (
                ("rival", "row", "run"),
                np.stack([padded([row.rivals[n] for row in found]) for n in names]),
            ),
            "words": ("row", np.array([row.name for row in found], dtype=object)),
        },
        coords={"row": np.array([key or "all" for key in keys], dtype=object), "rival": np.array(names, dtype=object)},
    )
