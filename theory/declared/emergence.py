"""When the directions of an additive target are found, as numbers with their conditions.

The additive model itself (isotropic inputs, orthonormal directions) has its own prediction, intervals and all
(`theory.prediction`); any other covariance, Gram matrix, link, decay or momentum goes by rows that are alone
(`theory.declared.lone_row`). Times are sums of step sizes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np
import scipy

from theory.core.errors import InputError
from theory.declared import lone_row, weight_decay
from theory.declared.additive import additive_parts
from theory.declared.flow import is_quadratic, speed
from theory.declared.known import NUMBER, STEPS, TIME, Known, Unknown, fact, small
from theory.declared.lone_row import Course, Passage, Row, alone, follow
from theory.declared.model import DeclaredModel
from theory.declared.modified_equation import age
from theory.declared.one_direction import REFERENCE
from theory.declared.passage_law import REFERENCE as LAW_REFERENCE
from theory.declared.rule import Rule
from theory.declared.schedule import MOST_STEPS, Schedule, size_along, steps_until
from theory.declared.start import Start
from theory.declared.steps_of_rows import BOUND, LoneRow, given_step, largest_at_the_start, least_step, lone_rows
from theory.declared.target import Additive, as_additive
from theory.declared.whole_flow import ERROR as WAY_ERROR
from theory.declared.whole_flow import REFERENCE as WAY_REFERENCE
from theory.declared.whole_flow import Way, whole_flow
from theory.one_task.hitting_distribution import HittingLaw
from theory.one_task.stability import excess_at_rest
from theory.prediction.greedy import select
from theory.prediction.predict import Prediction, predict
from theory.prediction.rivals import FLUCTUATIONS, NEVER, OWN_TIME, Rivals, rivals, scattered
from theory.prediction.validity import (
    CLOSE,
    WIDEST,
    Condition,
    Validity,
    of_law,
    of_noise,
    of_rest,
    of_step,
    turned,
    validity,
    wide,
)

LEADING, FOUND, FITTED = "emergence, leading order", "emergence", "half of its norm fitted"
FOUND_STEPS, MEAN_STEPS, SPREAD_STEPS = "emergence in steps", "emergence of SGD, mean", "emergence of SGD, spread"
#: Of these the flow of all rows has times.
_OF_WAY = (FOUND, FITTED)
OF_SGD, TURNED_SHARE = "emergence of SGD", "share of SGD that turns to -e"
MEAN_AT_E, SPREAD_AT_E = "emergence of SGD at e, mean", "emergence of SGD at e, spread"
NORM, FLOOR, SGD_FLOOR = "squared norm at rest", "loss at rest", "loss at rest of SGD"
_ADDITIVE = "arXiv:2504.19983, Theorem 2.1; theory.prediction"
#: Directions that are followed at finite size, in the order of learning; and how far, in units of 1/S (exponent 2 or more).
_FOLLOWED, _HORIZON = 6, 40.0
#: Where rows do not see each other any of them may be the first: all are followed up to this many, else the fastest to each.
_ALL, _FASTEST = 16, 3
#: What makes a row light; and the least time of a score.
_MASSLESS, _AT_ONCE = 1e-6, 1e-12
#: Squared cosine of two directions that independent draws hardly reach in dimensions for which P/d is small.
_COSINE = 0.1
#: By so much a rate at the start may be behind and its row yet the first.
_NEAR = 2.0
#: Of steps where no law counts that on labels.
NOISE = "noise: what that on labels moves SGD by is not known"
#: Square of what the second order of a step moves a mean by, beyond which it is not small (of 42 cases within it, 30 to 150
#: dimensions, 41 were within 4 % of 200 runs each, one of 80 steps in 30 dimensions was 6 % off).
_THIRD = 0.03
#: Times of a Gaussian law, equally likely, by which a schedule's steps are averaged: a pause may come between any two.
_TIMES = 64
#: A period of noise, over the steps: by this share its part of their noise may be off.
_FEW_PAUSES = 0.1
#: Age of gradients, over the steps that it takes, that does not matter.
_OLD = 3e-3
_MOVED_BY = "lag: old gradients move these steps by {:.2g} of what they are without"
#: Share of the step that is held from which a mean loss at rest is that of rare runs; and of it that may be left out.
_HELD, _LEFT_OUT = 0.3, 0.05
#: What each of the conditions on the mean of SGD leaves out of it where it just holds.
_TENTH = 0.1
#: By how much other directions and rows may move the flow's time where the law of SGD is that of the pair by itself, which
#: does not know that noise moves them, too (h3, d = 12 and 24, moved by .63 and .35: SGD takes 1.9 and 1.6 times the mean of
#: that law, in the latter a tenth of the runs for ever; of 30 directions moved by less one is out of low to high).
_MOVED = 0.25
#: Largest squared norm, over the target's, at which students that noise keeps there have been seen not to diverge (h3: 0 of
#: 200 at 0.04, 10 of 12 at 0.08).
_GROWN = 0.05


#: The law of a direction's time by a rule, in the time of the entries, and what it rests on; `Rivals` by step size and batch.
_Law = Callable[[Rule, int], tuple[HittingLaw | None, tuple[Condition, ...]]]
_Race = Callable[[float, int], Rivals]


@dataclass(frozen=True, eq=False)
class _Lag:
    """What gradients that are `lag` steps old in the mean make of the steps to each direction."""

    lag: float
    rows: Mapping[int, LoneRow]
    ways: Mapping[int, Way]
    second_moment: float
    pace: float

    def of(
        self, p: int, time: float, steps: float, step_size: float | Schedule
    ) -> tuple[float, float, tuple[Condition, ...]]:
        """Steps by which they are more, what that is known to, and whether it is little."""
        late = self.ways[p].late(p, size_along(step_size, 1)) if p in self.ways else None
        if late is not None:
            later, parts = (float(steps_until(step_size, np.array([time + x]))[0][0]) - steps for x in late)
            held = small("lag", parts / steps, FLUCTUATIONS, _MOVED_BY)
            return (later, parts**2 / steps, (held,)) if held.holds else (0.0, 0.0, (held,))
        if p not in self.rows:
            text = "lag: gradients are as old as {:.2g} of these steps, and how much later that makes them is not known"
            return 0.0, 0.0, (small("lag", self.lag / steps, _OLD, text),)
        later, size = self.rows[p].later(self.lag)
        # (A row that is not light shortens itself.)
        heavy = 4 * self.lag * self.rows[p].norm * self.second_moment * self.pace * time
        return later, size**2 / steps + heavy, (small("lag", (size + heavy) / steps, FLUCTUATIONS, _MOVED_BY),)


def emergence(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """Entries for every direction. Raises `InputError` where nothing is known, with the reason."""
    if model.rule.samples:
        raise InputError(
            f"data set of {model.rule.samples} samples: times are known on fresh samples only; run declared-sgd"
        )
    speed(model.rule)  # refuses rules without a flow
    if isinstance(as_additive(model.target), Additive) and not lone_row.common_degree(model):
        raise InputError("link and activation share no degree: no overlap grows at first order")
    try:
        known = _of_rows_alone(model, start)
    except InputError:  # (rows that pull at each other from the start, and other targets, have their flow alone)
        known = _Told([], _no_law, {})
    entries, ways = _followed(model, start, known.entries)
    # (Rows by themselves know nothing of times that all rows make together.)
    rows = {p: row for p, row in known.rows.items() if p not in ways}
    lag = _Lag(age(model.rule), rows, ways, float(model.student.activation.second_moment), speed(model.rule))
    of_sgd = list(_of_all_rows(model.rule, ways, known.law))
    said = {x.place for x in of_sgd}
    yield from (x for x in entries if x.quantity != OF_SGD or x.place not in said)
    yield from of_sgd
    yield from _in_steps(model.rule, entries, known.law, lag, _is_steady(model.rule), ways)


@dataclass(frozen=True)
class _Told:
    """What rows by themselves tell: entries, the law of SGD, and rows whose steps are known."""

    entries: Sequence[Known | Unknown]
    law: _Law
    rows: Mapping[int, LoneRow]


def _of_rows_alone(model: DeclaredModel, start: Start) -> _Told:
    """Raises `InputError` where rows are no longer light or alone."""
    pace, signal, steady = speed(model.rule), model.rule.signal, _is_steady(model.rule)
    prediction, model = additive_prediction(model, start), lone_row.of_mean_labels(model)
    if model.student.trained:
        raise InputError("the second layer is trained")
    if is_quadratic(model.loss) and not model.student.homogeneous and model.student.width > 1:
        raise InputError(f"{model.student.width} rows pull at each other as strongly as the target does")
    single = model.target.count == model.student.width == 1
    # (Else they would be outside their conditions, after minutes, and give way to the flow of all rows.)
    if prediction is None and not (single or model.directions.have_unit_fields):
        raise InputError(
            "fields of the directions do not have variance 1, so that other degrees of the link count, too"
        )
    law: _Law
    if prediction is not None:
        race = cache(partial(rivals, prediction))
        lone = {} if prediction.has_sgd_law or prediction.teacher.width > 1 else lone_rows(model, start)
        entries = list(_additive(model.rule, prediction, pace, signal, race, steady, lone))
        law = partial(_law_of_row, lone) if lone else partial(_law_of_sgd, prediction, race)
    else:
        entries, lone = list(_by_rows(model, start)), lone_rows(model, start)
        times = {x.place - 1: x.value for x in entries if isinstance(x, Known) and x.quantity == FOUND and x.place}
        entries += [least_step(lone, times)] if lone else []
        law = partial(_law_of_row, lone)
    if single and type(model.rule) is Rule and steady:
        entries += list(_mean_of_row(model.rule, entries, lone))
    return _Told(entries, law, lone_rows(model, start) if age(model.rule) else {})


def _followed(
    model: DeclaredModel, start: Start, entries: Sequence[Known | Unknown]
) -> tuple[Sequence[Known | Unknown], Mapping[int, Way]]:
    """With times of the flow of all rows in the place of those that are not known, or outside their conditions, and of those
    of whose SGD it knows the mean where nothing else does; and the way of these directions. Those outside that it has
    passed, and not seen, are none. Raises `InputError` where neither is known.
    """
    inside = {
        (x.quantity, x.place)
        for x in entries
        if isinstance(x, Known) and x.quantity in _OF_WAY and not (x.reasons or _others_decide(x))
    }
    asked = _OF_WAY if any(x.quantity == FITTED for x in entries) else _OF_WAY[:1]
    means = {x.place for x in entries if x.quantity == MEAN_STEPS}
    if all((x, p + 1) in inside and p + 1 in means for p in range(model.target.count) for x in asked):
        return entries, {}
    try:
        way = whole_flow(model, start)
    except InputError:
        if entries:
            return entries, {}
        raise
    size, batch = size_along(model.rule.step_size, model.rule.batch), model.rule.batch
    for p in {*range(model.target.count)} - {place - 1 for place in means if place}:
        known = 0 < way.found[p] < np.inf and way.of_steps(p, size, batch) is not None
        inside -= {(FOUND, p + 1)} if known and all(x.holds for x in way.of_sgd(p, size, batch)) else set()
    made = {(x.quantity, x.place): x for x in _of_way(way) if (x.quantity, x.place) not in inside}
    entries = [x for x in entries if not (isinstance(x, Known) and x.reasons and _passed(x, way))]
    told = {(x.quantity, x.place) for x in entries if isinstance(x, Known)}
    late = [
        Unknown(
            FOUND,
            f"no row has a squared correlation of 1/2 with it {way.until}",
            p + 1,
        )
        for p in range(model.target.count)
        if not {(FOUND, p + 1)} & ({*made} | told)
    ]
    kept = [x for x in entries if isinstance(x, Unknown) or (x.quantity, x.place) not in made]
    kept = [x for x in kept if isinstance(x, Known) or x.quantity != FOUND]
    return [*kept, *made.values(), *late], {p: way for p in range(model.target.count) if (FOUND, p + 1) in made}


def _others_decide(one: Known) -> bool:
    """Whether a loss time is within an interval that is not narrow."""
    return one.quantity == FITTED and bool(np.isfinite(one.low)) and wide(one.low, one.high) > CLOSE


def _passed(one: Known, way: Way) -> bool:
    """Whether the way went by its time without it."""
    there = dict(zip(_OF_WAY, (way.found, way.fitted), strict=True)).get(one.quantity)
    return there is not None and one.place is not None and one.value < way.end and bool(np.isinf(there[one.place - 1]))


def _of_way(way: Way) -> Iterator[Known]:
    """Its times that come."""
    for quantity, times in zip(_OF_WAY, (way.found, way.fitted), strict=True):
        for p, time in enumerate(times.tolist()):
            if np.isfinite(time):
                low, high = time / (1 + WAY_ERROR), time * (1 + WAY_ERROR)
                level = way.conditions(p) if quantity == FOUND else ()
                yield Known(quantity, time, TIME, WAY_REFERENCE, level, p + 1, low, high)


def _no_law(rule: Rule, p: int) -> tuple[None, tuple[()]]:
    return None, ()


def _of_all_rows(rule: Rule, ways: Mapping[int, Way], law: _Law) -> Iterator[Known | Unknown]:
    """Mean and spread over runs of SGD, where these are near the flow's time; one task's `law` knows whether runs go another
    way, by a schedule's largest step. Its steps are those of the times of a Gaussian law.
    """
    size = size_along(rule.step_size, rule.batch)
    for p, way in ways.items():
        own, conditions = way.of_steps(p, size, rule.batch), way.of_sgd(p, size, rule.batch)
        if own is None or not conditions[0].holds:
            continue
        wider = way.wider(p, size, rule.batch)
        parts = (way.late(p, size_along(rule.step_size, 1)) or (0.0, 0.0))[1] / float(way.found[p])
        beside = way.beyond(p, own, wider) + parts**2 * float(way.found[p])
        steps, largest = steps_until(
            rule.step_size, own.mean + own.std * _normal() + beside * np.array([[-1], [0], [1]])
        )
        low, mean, high = steps.mean(axis=1).tolist()
        if np.isinf(high):
            over = "the schedule of the step size may be over before SGD is there"
            yield Unknown(OF_SGD, over, p + 1)
            continue
        spread = float(steps[1].std())
        old = (small("lag", parts, FLUCTUATIONS, _MOVED_BY),) if parts else ()
        conditions = (*conditions, *law(replace(rule, step_size=largest), p)[1], *old, *_pauses(rule, mean))
        yield Known(MEAN_STEPS, mean, STEPS, LAW_REFERENCE, conditions, p + 1, low, high)
        low, high = (spread * share for share in way.spreads(p, own, wider, size))
        yield Known(SPREAD_STEPS, spread, STEPS, LAW_REFERENCE, conditions, p + 1, low, high)


@cache
def _normal() -> np.ndarray:
    """Standard Gaussian numbers, equally likely, (times,)."""
    found = np.asarray(scipy.special.ndtri((np.arange(_TIMES) + 0.5) / _TIMES))
    return found / found.std()


def _in_steps(
    rule: Rule,
    entries: Sequence[Known | Unknown],
    law: _Law,
    lag: _Lag,
    steady: bool,
    ways: Mapping[int, Way],
) -> Iterator[Known | Unknown]:
    """The flow's times as steps, by the sum of step sizes. Steps of SGD take as long where their own `law`, in flow time, is
    near, or kicks on their `ways` of the flow of all rows are small: the interval holds its mean, give or take its spread, and
    there is none where SGD is more than its own time off. A schedule moves them by no more than its largest step would if all
    were as large. Momentum's old gradients make them more (`theory.declared.passage.late`), give or take that share of it.
    """
    found = [x for x in entries if isinstance(x, Known) and x.quantity == FOUND and x.place is not None]
    times = np.array([x.value for x in found])
    steps, size = steps_until(rule.step_size, times)
    bound = next((x.value for x in entries if isinstance(x, Known) and x.quantity == BOUND), 0.0)
    stable = _stable(size, bound)
    for entry, value in zip(found, steps.tolist(), strict=True):
        if np.isinf(value) and np.isfinite(entry.value):
            last = getattr(rule.step_size, "end", None) or MOST_STEPS
            yield Unknown(
                FOUND_STEPS,
                f"the schedule's first {last} steps add up to less than its time, {entry.value:.4g}",
                entry.place,
            )
            continue
        place = entry.place - 1 if entry.place else 0
        asked = stable.holds and 0 < entry.value < np.inf
        own, kept = law(replace(rule, step_size=size), place) if asked else (None, ())
        own = None if place in ways else own
        near: tuple[Condition, ...] = () if own is None else (scattered(entry.value, own),)
        itself = () if own is None else _by_itself(entry.low, entry.high)
        if place in ways:
            near = ways[place].of_sgd(place, size_along(rule.step_size, rule.batch), rule.batch)
        moved = near[0].value if near else 0.0
        moved = moved if moved <= OWN_TIME else np.nan
        ends = np.array([entry.low / (1 + moved), entry.high * (1 + moved)])
        low, high = steps_until(rule.step_size, ends)[0].tolist()
        over = np.isinf(high) and np.isfinite(entry.high)
        later, beside, waits = 0.0, 0.0, tuple[Condition, ...]()
        if lag.lag and 0 < value < np.inf and entry.place is not None:
            later, beside, waits = lag.of(entry.place - 1, entry.value, value, rule.step_size)
            beside = max(beside, abs(later)) if callable(rule.step_size) else beside
        low, high = max(low + later - beside, 0.0), high + later + beside
        conditions = (
            *([] if place in ways else [*entry.conditions, stable]),
            fact("schedule", not over, "schedule: it may be over before SGD is there"),
            fact("noise", not rule.noise or place in ways or (own is not None and steady), NOISE),
            fact("fluctuations", entry.value < np.inf, NEVER),
            *near,
            *itself,
            *kept,
            *waits,
            *(_pauses(rule, value) if place in ways else ()),
        )
        yield Known(FOUND_STEPS, value + later, STEPS, entry.source, conditions, entry.place, low, high)


def _pauses(rule: Rule, steps: float) -> tuple[Condition, ...]:
    """Of noise that comes and goes the law has half throughout."""
    if not (rule.noise and rule.noise_period and steps):
        return ()
    sentence = "pauses: noise is on until {:.2g} of these steps, and half of it throughout in the law"
    return (small("pauses", rule.noise_period / steps, _FEW_PAUSES, sentence),)


def _is_steady(rule: Rule) -> bool:
    """Whether noise on labels, if there is any, has nothing to do with inputs and steps."""
    return not rule.noise or not (rule.noise_law == "flips" or rule.noise_period)


def _stable(size: float, bound: float) -> Condition:
    """A bound of 0: none is known."""
    none = "step size: no largest one is known for this model: a run at half of it says whether it is small"
    beyond = f"step size: {size:.3g} is beyond the largest, where noise undoes an overlap's growth"
    return Condition("step size", size <= bound, size, bound, beyond if bound > 0 else none)


def _additive(
    rule: Rule,
    prediction: Prediction,
    pace: float,
    signal: float,
    race: _Race,
    steady: bool,
    lone: Mapping[int, LoneRow],
) -> Iterator[Known | Unknown]:
    """By the additive model's own prediction; `steady`: whether the noise is (`_is_steady`); `lone`: of which the largest step
    is, where the second order of a step is not that of the plateau. Weight decay leaves directions as they are while students
    are light.
    """
    found = validity(prediction)
    for p, own in enumerate(found):
        place, conditions = p + 1, own.conditions
        if np.isfinite(prediction.time_leading[p]):
            yield Known(LEADING, prediction.time_leading[p] / pace, TIME, _ADDITIVE, conditions, place)
        time = float(prediction.time_half[p]) / pace
        yield Known(FOUND, time, TIME, _ADDITIVE, conditions, place, own.low / pace, own.high / pace)
        loss_time, low, high = (x / pace for x in (float(prediction.time_loss[p]), *own.fitted))
        source = weight_decay.REFERENCE if prediction.decay else _ADDITIVE
        yield Known(FITTED, loss_time, TIME, source, (*conditions, *own.fits), place, low, high)
        if type(rule) is Rule and not callable(rule.step_size) and steady:
            yield from _of_sgd(prediction, race, rule, p, own)
        if type(rule) is Rule and callable(rule.step_size) and prediction.has_sgd_law:
            constant_only = "the step size is a schedule: the law of SGD's times is known for a constant one only"
            yield Unknown(OF_SGD, constant_only, place)
    yield from _rest(prediction, found, signal)
    constant = not (callable(rule.step_size) or rule.decay or rule.noise_period)
    if type(rule) is Rule and constant and signal == 1:  # (noise of flips knows the input)
        yield from _rest_of_sgd(prediction, rule, found)
    if lone:
        known = least_step(lone, {0: float(prediction.time_half[0]) / pace})
        held = of_rest(prediction, known.value * pace, rule.batch)
        yield replace(known, conditions=(*known.conditions, held))
    elif prediction.learned.any():
        bound, worst = _bound(prediction, rule)
        conditions = (
            fact("momentum", type(rule) is Rule, given_step(rule)),
            fact("noise", steady, "noise: in the bound it is Gaussian, and as much at every step"),
            *of_step(prediction, worst, bound * speed(rule), rule.batch),
            of_rest(prediction, bound * speed(rule), rule.batch),
        )
        source = "second order of one step on the plateau; theory.one_task.plateau"
        yield Known(BOUND, bound, TIME, source, conditions, worst + 1)


def _bound(prediction: Prediction, rule: Rule) -> tuple[float, int]:
    """The largest step size, and the direction that sets it."""
    bound, worst = prediction.stability_bound(rule.batch)
    return bound / speed(rule), worst


def additive_prediction(model: DeclaredModel, start: Start) -> Prediction | None:
    """That of a model that is the additive one, in its own time, `speed` times the sum of step sizes; None of others.

    Raises `InputError` of a rule that has no speed.
    """
    pace = speed(model.rule)
    model = lone_row.of_mean_labels(replace(model, target=as_additive(model.target)))
    parts = additive_parts(model, start)
    return None if parts is None else predict(*parts, model.rule.decay / pace, model.rule.noise)


def largest_step(model: DeclaredModel, start: Start) -> float:
    """`BOUND`, or what stands for it at the start; inf where none is known.

    Raises `InputError` where an additive model has none.
    """
    prediction = additive_prediction(model, start)
    if prediction is not None:
        return _bound(prediction, model.rule)[0]
    rows = lone_rows(model, start)
    return min(one.largest for one in rows.values()) if rows else largest_at_the_start(model, start)


def last_time(model: DeclaredModel, start: Start) -> float:
    """When the last direction that is found, and by a 2-homogeneous student fitted, is, as a sum of step sizes: by the flow of
    all rows, or on a plateau of a 2-homogeneous student by one task or each row alone, where fields of the directions have
    variance 1; 0 where that is not known.
    """
    if model.rule.samples:
        return 0.0
    light = model.student.homogeneous and is_quadratic(model.loss) and isinstance(as_additive(model.target), Additive)
    alone = light and model.directions.have_unit_fields
    if not alone or 0 < lone_row.common_degree(model) < 3:  # (without a plateau rows decide together)
        with suppress(InputError):
            way = whole_flow(model, start)
            times = np.append(way.found, way.fitted)
            return float(np.max(times[np.isfinite(times)], initial=0.0))
    if not alone:
        return 0.0
    prediction = additive_prediction(model, start)
    if prediction is not None:
        return prediction.last_time / speed(model.rule) if prediction.learned.any() else 0.0
    rows = _Rows(lone_row.of_mean_labels(model), start)
    if rows.degree < 2:
        return 0.0
    ends = np.array([rows.alone(row, p).fitted for row, p, _ in rows.pairs[:_FOLLOWED]])
    return float(np.max(ends[np.isfinite(ends)], initial=0.0))


def _law_of_sgd(
    prediction: Prediction, race: _Race, rule: Rule, p: int, end: int = 0
) -> tuple[HittingLaw | None, tuple[Condition, ...]]:
    """In the time of the entries; of momentum, by the effective step. Of the first row that is there; of runs that end at ±e
    (`end`, see `Prediction.sgd_law`), of the pair by itself. None where there is none (`Prediction.has_sgd_law`).
    """
    half = float(prediction.time_half[p])
    if not (prediction.has_sgd_law and 0 < half < np.inf):
        return None, ()
    pace = speed(rule)
    step_size = pace * float(rule.step_size)  # type: ignore[arg-type]
    others = race(step_size, rule.batch)
    law = prediction.sgd_law(p, step_size, rule.batch, end) if end else others.law(p)
    return HittingLaw(law.mean / pace, law.std / pace, law.turned), (others.kept(p),)


def means_of_sgd(
    prediction: Prediction, others: Rivals | None, rule: Rule, told: Sequence[Validity], ways: Mapping[int, Way]
) -> Iterator[Known | Unknown]:
    """Mean and spread of SGD's steps to each direction of an additive prediction, by its `others` at the rule's step size and
    batch, or along those `ways` of all rows that are given; nothing of directions whose law is not known.
    """
    if others is None:
        yield from _of_all_rows(rule, ways, _no_law)
        return

    def race(*_: float) -> Rivals:
        return others

    yield from _of_all_rows(rule, ways, partial(_law_of_sgd, prediction, race))
    for p in sorted({*range(prediction.teacher.width)} - {*ways}):
        yield from _of_sgd(prediction, race, rule, p, told[p])


def _of_sgd(prediction: Prediction, race: _Race, rule: Rule, p: int, flow: Validity) -> Iterator[Known]:
    """Mean and spread over replicas of SGD: at steps up to the largest, where they may be far from the flow's time.

    What finite size moves the flow's time by moves the mean by the same share, give or take the spread's share of that, since
    noise moves other directions, too; and each of the conditions on runs that lose a row and on rare samples stands for a
    tenth of the mean where it just holds: low to high is all of these, and half a step, by which a run without noise ends
    earlier or later, and what is beyond first order of what steps are `Prediction.behind`.
    """
    (law, kept), size = _law_of_sgd(prediction, race, rule, p), float(rule.step_size)  # type: ignore[arg-type]
    if law is None:
        return
    stable = _stable(size, _bound(prediction, rule)[0])
    # Noise adds η²E|g|²r to a squared norm r and its own fit takes 4ηφ(1)r² off: r rests at ηE|g|²/4φ(1), E|g|² ≈ dAφ(1)φ'(1).
    slope, target = float(prediction.activation.kernel_at(1, 1)), float(np.linalg.norm(prediction.teacher.a))
    rest = size * prediction.teacher.dim * prediction.total / target * slope / (4 * rule.batch)
    grown = small(
        "grown", rest, _GROWN, "grown: noise keeps students at {:.2g} of the target's size, where SGD may diverge"
    )
    conditions = (*flow.conditions, stable, grown, *kept, *of_law(prediction, p, size, rule.batch))
    source = "one-task diffusion; theory.one_task.hitting_distribution"
    time, behind = float(prediction.time_half[p]), prediction.behind(p)
    whole = 0.5 + 2 * size * behind**2 / time if behind else 0.0
    found = [(MEAN_STEPS, SPREAD_STEPS, law, conditions)]
    if prediction.activation.parity is None:
        noise = of_noise(prediction, p, size, law, rule.batch)
        alone = (*conditions, race(size, rule.batch).alone(p))
        yield Known(TURNED_SHARE, law.turned, NUMBER, source, (*alone, *noise), p + 1)
        at_e = _law_of_sgd(prediction, race, rule, p, 1)[0]
        found += [(MEAN_AT_E, SPREAD_AT_E, at_e, alone)] if at_e is not None and not np.isnan(at_e.mean) else []
    stays = "stays: it is that of rare runs which noise carries to where the drift turns back, and which stay there"
    # (At exponent 2 rows' times are not independent: the mean is between that of such times and that of the pair by itself.)
    together = float(race(size, rule.batch).mean[p]) if prediction.activation.information_exponent == 2 else 1.0
    for mean, spread, one, held in found:
        own = (*held, fact("stays", np.isfinite(one.std), stays))
        noise = of_noise(prediction, p, size, one, rule.batch)
        own = (*own, *_by_itself(flow.low, flow.high))
        beside = 1 + _TENTH * sum(x.value / x.limit for x in (*kept, noise[1]))
        beside += one.std / one.mean * (wide(flow.low, flow.high) - 1)
        low, high = (one.mean / size * x / time for x in (flow.low, flow.high))
        ends = low / beside - whole, high * beside / (together if one is law else 1.0) + whole
        yield Known(mean, one.mean / size, STEPS, source, (*own, noise[1]), p + 1, *ends)
        yield Known(spread, one.std / size, STEPS, source, (*own, *noise), p + 1)


def _by_itself(low: float, high: float) -> tuple[Condition, ...]:
    """Whether the law of a pair by itself is that of SGD; said where the flow's time has an interval."""
    sentence = "others: other directions and rows move the flow's time by a factor {:.3g}, and noise moves them, too"
    return () if np.isnan(low) else (small("others", wide(low, high), 1 + _MOVED, sentence),)


def _law_of_row(rows: Mapping[int, LoneRow], rule: Rule, p: int) -> tuple[HittingLaw | None, tuple[Condition, ...]]:
    return (rows[p].law(rule) if p in rows else None), ()


def _mean_of_row(
    rule: Rule, entries: Sequence[Known | Unknown], rows: Mapping[int, LoneRow]
) -> Iterator[Known | Unknown]:
    """Mean over runs of SGD of constant steps, of one row and one direction, to second order in the step."""
    found = next((x for x in entries if isinstance(x, Known) and x.quantity == FOUND), None)
    if callable(rule.step_size) or 0 not in rows or found is None or not 0 < found.value < np.inf:
        return
    size, own = float(rule.step_size), rows[0].law(rule)
    moved = own.mean / found.value - 1
    model, heavy = rows[0].model, tuple[Condition, ...]()
    if model.student.homogeneous:
        heavy = (rows[0].light(lone_row.additive_target(model), found.value),)
    third = small("third order", moved**2, _THIRD, "third order: the step moves this by {:.2g} of itself, squared")
    whole = rows[0].whole_steps(rule, own.std / own.mean)
    conditions = (*found.conditions, _stable(size, rows[0].largest), third, whole, *heavy)
    later, beyond = rows[0].behind(rule.batch)
    mean = own.mean / size + later
    yield Known(MEAN_STEPS, mean, STEPS, REFERENCE, conditions, 1, mean - beyond / 3, mean + beyond / 3)


def _rest(prediction: Prediction, found: Sequence[Validity], signal: float) -> Iterator[Known]:
    """Norms at rest, and the loss that is left: of directions that are not fitted, and what decay and flips leave of others.

    The prediction's weights are `signal` times those of the target.
    """
    activation, weights, decay = prediction.activation, prediction.teacher.a, prediction.decay
    centred = (fact("mean", activation.squared_mean == 0, "mean: the activation has one, which all rows fit together"),)
    # (Who learns a direction, and whether anybody does, decides what is fitted.)
    fitted = np.isfinite(prediction.time_loss)
    norms = np.where(fitted, weight_decay.rest_norms(activation, weights, decay), 0.0)
    for p, norm in enumerate(norms):
        yield Known(NORM, float(norm), NUMBER, weight_decay.REFERENCE, (*centred, *found[p].conditions), p + 1)
    missed = float(prediction.loss(np.array([np.inf]))[0]) / signal**2
    floor = missed + weight_decay.floor(activation, weights[fitted], decay, signal)
    yield Known(
        FLOOR,
        floor,
        NUMBER,
        weight_decay.REFERENCE,
        (*centred, *dict.fromkeys(x for one in found for x in one.conditions)),
    )


def _rest_of_sgd(prediction: Prediction, rule: Rule, found: Sequence[Validity]) -> Iterator[Known]:
    """The mean loss about which SGD settles where noise on labels, or what nobody fits, goes on to move its rows."""
    activation, dim = prediction.activation, prediction.teacher.dim
    size = float(rule.step_size)  # type: ignore[arg-type]
    fitted = np.isfinite(prediction.time_loss)
    weights, missed = prediction.teacher.a[fitted].tolist(), float(prediction.loss(np.array([np.inf]))[0])
    variance = rule.noise**2 + 2 * missed
    if variance == 0 or not weights:
        return
    excess, shared = excess_at_rest(activation, weights, dim, size, rule.batch, variance)
    # (By the errors' first order, of what each direction shows.)
    kept = max(excess_at_rest(activation, [w], dim, size, rule.batch, variance)[1] / w**2 for w in weights)
    kept *= variance / (1 - shared) / float(activation.second_moment) if shared < 1 else np.inf
    held = size / prediction.largest_held(rule.batch)
    second, slope = float(activation.second_moment), float(activation.kernel_at(1, 1))
    # What is missed is noise that has to do with x: along its own directions E x²σ² stands for Eσ², of all that kicks a row,
    # 4φ(1) along it and φ'(1) in each dimension across.
    points, chance = activation.gaussian(64)
    square = np.asarray(activation.arrays()(points)) ** 2
    beyond = float(chance @ (points**2 * square)) / float(chance @ square) - 1
    more = 2 * missed / variance * beyond * slope / (4 * second + (dim - 1) * slope)
    # Idle rows rest at r = η d s² φ'(1)/4bφ(1), each with a loss of φ(1)r²/2 of its own.
    idle = prediction.initial.overlap.shape[0] - len(weights)
    rows = idle * second / 2 * (size * dim * variance * slope / (4 * rule.batch * second)) ** 2
    conditions = (
        fact("mean", activation.squared_mean == 0, "mean: the activation has one, which all rows fit together"),
        *dict.fromkeys(x for one in found for x in one.conditions),
        small(
            "rest",
            held,
            _HELD,
            "rest: it is {:.2g} of the step from which runs are thrown off, where rare samples decide",
        ),
        small("missed", more, _LEFT_OUT, "missed: what nobody fits moves rows by {:.2g} more than noise does"),
        small(
            "errors",
            kept,
            _TENTH,
            "errors: of a direction it is {:.2g} of all that is fitted, beyond their first order",
        ),
        small("idle", rows / excess, _LEFT_OUT, "idle: rows that fit nothing keep {:.2g} of it beside it"),
    )
    yield Known(SGD_FLOOR, missed + excess, NUMBER, "derived: theory.one_task.stability", conditions)


# ------------------------------------------------------------------------- rows by themselves


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rates of all pairs, and who finds what, in which order."""

    model: DeclaredModel
    start: Start
    _alone: dict[tuple[int, int], Passage] = field(default_factory=dict)

    @cached_property
    def rates(self) -> np.ndarray:
        return lone_row.growth_rates(self.model, self.start)

    @cached_property
    def paces(self) -> np.ndarray:
        """The rates; of degree 1, where overlaps grow whatever they are, those that an overlap of one has, (m, P)."""
        if self.degree >= 2:
            return self.rates
        eigenvalues, variance = np.asarray(self.model.inputs.eigenvalues), np.diag(self.model.directions.covariance)
        X = np.einsum("i,ikp->kp", eigenvalues, self.start.overlaps(self.model.directions))
        C = np.einsum("i,ikk->k", eigenvalues, self.start.grams)
        return np.abs(self.rates * X) / np.sqrt(np.outer(C, variance))

    @cached_property
    def turning(self) -> np.ndarray:
        return lone_row.turning_rates(self.model, self.start)

    @cached_property
    def leading(self) -> np.ndarray:
        """Times of the leading degree alone, (m, P)."""
        rates = lone_row.growth_rates(lone_row.of_leading_degree(self.model), self.start)
        return lone_row.leading_times(rates, self.degree)

    @cached_property
    def degree(self) -> int:
        return lone_row.common_degree(self.model)

    @cached_property
    def first(self) -> np.ndarray:
        """Which directions any row has found at the start, (P,) bool."""
        found = [lone_row.at_once(self.model, Row.of(self.model, self.start, row)) for row in range(len(self.rates))]
        return np.any(found, axis=0)

    @cached_property
    def followed(self) -> list[int]:
        """Rows whose courses are followed: all, or else the fastest to each direction."""
        count = len(self.rates) if len(self.rates) <= _ALL else _FASTEST
        return np.unique(np.argsort(-self.rates, axis=0)[:count]).tolist()

    @cached_property
    def all_followed(self) -> Condition:
        few = len(self.followed) == len(self.rates)
        return fact("all rows", few, f"all rows: only the {_FASTEST} fastest to each direction are followed")

    @property
    def horizon(self) -> float:
        """Of the slowest direction."""
        best = np.abs(self.paces).max(axis=0)
        return float(_HORIZON / best[best > 0].min()) if np.any(best > 0) else 0.0

    def courses(self, gone: Sequence[tuple[Passage, int, int]] = ()) -> list[Course]:
        """Of the rows that are followed, those `gone` (passage, direction, row) fitted, in the middle, not its own."""
        if not self.horizon:
            return [Course(np.where(self.first, 0.0, np.inf))]
        found = []
        for row in self.followed:
            switched = [(one.switches[0], p) for one, p, owner in gone if owner != row]
            found.append(lone_row.course(self.model, Row.of(self.model, self.start, row), self.horizon, switched))
        return found

    def alone(self, row: int, p: int) -> Passage:
        """Of a row and a direction, all others left out."""
        if (row, p) not in self._alone:
            until, own = _HORIZON / self.paces[row, p], Row.of(self.model, self.start, row)
            self._alone[row, p] = follow(alone(self.model, p), own.towards(p), 0, until)
        return self._alone[row, p]

    @cached_property
    def pairs(self) -> list[tuple[int, int, float]]:
        """(row, direction, lead), greedy by the times at which rows alone find directions: rates at the start say in which
        order to look, since they change on the way, most of rows that lean away.
        """
        score = max(self.degree - 2, 1) * np.maximum(self.paces, 0.0)
        while True:
            chosen = select(score)
            pairs = list(zip(chosen.neurons.tolist(), chosen.directions.tolist(), chosen.lead.tolist(), strict=True))
            near = [
                (k, p)
                for row, p, _ in pairs[:_FOLLOWED]
                for k in np.argsort(-score[:, p], kind="stable")[:_ALL].tolist()
                if score[k, p] * _NEAR >= score[row, p] and (k, p) not in self._alone
            ]
            if self.degree < 3 or not near:
                return pairs
            for k, p in near:
                time = self.alone(k, p).found
                if not np.isnan(time):  # (else by its rate; who it is then is said not to be known)
                    score[k, p] = 1 / max(time, _AT_ONCE)

    def rivals(self, p: int, until: float, taken: Collection[int]) -> list[int]:
        """Rows that are not taken and by themselves find a direction until then, in this order."""
        times = {
            k: one.found for (k, q), one in self._alone.items() if q == p and k not in taken and one.found <= until
        }
        return sorted(times, key=times.__getitem__)

    def passages(
        self, row: int, p: int, gone: Sequence[tuple[Passage, int, int]], ahead: Collection[int] = ()
    ) -> list[Passage]:
        """Of the row alone; of it and all directions, those that are `gone` fitted in the middle, early and late; in the
        company of the rows that fit these, `ahead`, which lean to other directions, too, while they turn and grow; and of a
        massless one.
        """
        model, until = self.model, _HORIZON / self.paces[row, p]
        own = Row.of(model, self.start, row)
        found = [self.alone(row, p)]
        switches = [[(time, q) for time in one.switches] for one, q, _ in gone]
        for switched in zip(*switches, strict=True) if gone else [()]:
            found.append(follow(model, own, p, until, switched))
        if company := sorted({*ahead} - {row}):
            found.append(follow(model, Row.of(model, self.start, row, company=company), p, until))
        if model.student.homogeneous:
            found.append(follow(alone(model, p), Row.of(model, self.start, row, _MASSLESS).towards(p), 0, until))
        return found


@dataclass(frozen=True)
class _Found:
    """One direction, by the row that greedily has it.

    Attributes:
        row, p, lead: of the pair. passages: of the row. low, high: of the time when any row has found it.
        pulled: by which share other rows move it. rivals: other rows that are on their way before it is fitted.
    """

    row: int
    p: int
    lead: float
    passages: tuple[Passage, ...]
    low: float
    high: float
    pulled: float
    rivals: tuple[Passage, ...]

    @property
    def unknown(self) -> bool:
        return any(np.isnan(one.found) for one in self.passages)

    @property
    def fits(self) -> bool:
        """A row that leans away rests at −e, on which it fits the even degrees only."""
        return bool(np.isfinite(self.passages[0].fitted))

    @property
    def fitted(self) -> Passage:
        """That of the row, or of another one where it does not fit it."""
        first = self.passages[0]
        return first if self.fits else min((first, *self.rivals), key=lambda one: one.fitted)

    @property
    def fitted_interval(self) -> tuple[float, float]:
        """Rivals share what is to be fitted, no earlier than the first of them begins."""
        low, high = _interval([one.fitted for one in self.passages], self.pulled)
        return min([low, *(min(one.begun, self.passages[0].begun) for one in self.rivals)]), high

    @property
    def parity(self) -> Condition:
        away = any(np.isinf(one.fitted) for one in (self.passages[0], *self.rivals))
        sentence = "parity: a row that leans away is there, and would rest at −e, which fits the even degrees only"
        return fact("parity", not away or np.isinf(self.fitted.fitted), sentence)


def _finds(rows: _Rows) -> Iterator[_Found]:
    """Pair by pair. Of a direction that two rows may have it is not known which of them is left for later ones."""
    taken, ahead, gone, doubtful = set[int](), set[int](), list[tuple[Passage, int, int]](), 0
    model_fits = rows.model.student.homogeneous
    for row, p, lead in rows.pairs[:_FOLLOWED]:
        own = rows.passages(row, p, gone, ahead)
        pulled = _pull(rows.model, rows.start, row, p, own[0].found) + lone_row.ERROR
        spans = [_interval([one.found for one in own], pulled)]
        for other in rows.rivals(p, spans[0][1], {*taken, row}):
            spans.append(_interval([one.found for one in rows.passages(other, p, gone, ahead)], pulled))
        highs = sorted(high for _, high in spans)
        high = highs[doubtful] if doubtful < len(highs) else np.inf
        if model_fits and np.isinf(own[0].fitted):  # any other row may be the one that fits it
            for other in np.flatnonzero(rows.rates[:, p] > 0).tolist()[:_ALL]:
                rows.alone(other, p)
        others = {k: rows.alone(k, p) for k in rows.rivals(p, own[0].fitted, {*taken, row})}
        found = _Found(row, p, lead, tuple(own), min(low for low, _ in spans), high, pulled, tuple(others.values()))
        yield found
        if found.unknown:
            continue
        gone.append((found.fitted, p, row))
        ahead |= {row} if found.fits else {row, *(k for k, one in others.items() if one is found.fitted)}
        if sum(low < high for low, _ in spans) > 1 or not found.fits:
            doubtful += 1
        else:
            taken.add(row)


def _by_rows(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    rows = _Rows(model, start)
    single = model.target.count == 1 and (model.student.width == 1 or not is_quadratic(model.loss))
    if rows.degree < (1 if single else 2):
        raise InputError("link and activation share degree 1: all rows grow together, at once")
    unit = model.directions.have_unit_fields
    general = _general(rows.degree, unit, single)
    keeps = model.student.homogeneous or model.student.rows != "free"
    kept = fact("rows", keeps, "rows: a free row of a committee changes its length, and so its rate, while it waits")
    if not is_quadratic(model.loss):
        yield from _by_independent_rows(rows, general, kept if unit else None)
        return
    found = list(_finds(rows))
    passing, finder = _passing(rows, found)
    for place, (row, p, _) in enumerate(rows.pairs):
        if rows.degree >= 3 and unit and np.isfinite(rows.leading[row, p]):
            yield Known(LEADING, float(rows.leading[row, p]), TIME, lone_row.REFERENCE, (*general, kept), p + 1)
        if place >= _FOLLOWED:
            yield Unknown(FOUND, f"after the first {_FOLLOWED} directions the leading order is all there is", p + 1)
        elif found[place].unknown or np.isnan(passing[p]):
            yield _stiff(p)
        else:
            yield from _of_pair(rows, found[place], float(passing[p]), general)
    # (A row that is near a tie may come here in place of where it is sent.)
    ties = [_tie(one.low, one.high, one.lead) for one in found]
    begun = min((one.passages[0].begun for one in found), default=np.inf)
    for p in sorted(set(range(model.target.count)) - {p for _, p, _ in rows.pairs}):
        time = float(passing[p])
        if np.isnan(time):
            yield _stiff(p)
            continue
        conditions = (*general, *ties, rows.all_followed, *_at_rest(model, time, begun))
        pulled = lone_row.ERROR + (_pull(model, start, finder[p], p, time) if 0 < time < np.inf else 0.0)
        conditions = (*conditions, *_norms(rows, pulled, time))
        low, high = _interval([time], pulled)
        yield Known(FOUND, time, TIME, lone_row.REFERENCE, conditions, p + 1, low, high)


def _at_rest(model: DeclaredModel, time: float, begun: float) -> tuple[Condition, ...]:
    """Rows rest along correlated directions nearly, and share them: what turns on, or is held, there is not known."""
    if model.student.width == 1 or time <= begun:
        return ()
    held = f"rest: rows that rest near correlated directions from {begun:.3g} on decide when, or whether, it is found"
    return independent(model), fact("rest", np.isinf(time), held)


def independent(model: DeclaredModel) -> Condition:
    """Cosines of directions that are drawn one by one are of order d^-1/2."""
    fields = model.directions.covariance
    cosines = fields**2 / np.outer(np.diag(fields), np.diag(fields)) - np.eye(len(fields))
    sentence = "independent: two directions have squared cosine {:.2g}, and are no independent ones"
    return small("independent", float(cosines.max()), _COSINE, sentence)


def _stiff(p: int) -> Unknown:
    return Unknown(FOUND, "a row is too stiff or gets too short to follow; run declared-flow", p + 1)


def _passing(rows: _Rows, found: Sequence[_Found]) -> tuple[np.ndarray, list[int]]:
    """When any row finds each direction, on its way to another one or on from it, (P,), nan where that is not known; and who.

    Of directions that are not correlated a row has one: it does not turn on. A row that is driven from what nobody has is yet
    followed: rates change, sign included, with its norm and its overlaps.
    """
    fields, paired = rows.model.directions.covariance, [p for _, p, _ in rows.pairs]
    nobody = np.where(rows.first, 0.0, np.inf)
    correlated = not np.allclose(fields, np.diag(np.diag(fields)))
    if not correlated and len(paired) in (len(fields), len(rows.rates)):
        return nobody, [0] * len(fields)
    gone = [(one.fitted, one.p, one.row) for one in found if not one.unknown]
    times = np.array([one.found for one in rows.courses(gone)])
    if not correlated:
        times[:, paired] = nobody[paired]
    return np.where(rows.first, 0.0, times.min(axis=0)), [rows.followed[k] for k in times.argmin(axis=0)]


def _of_pair(rows: _Rows, found: _Found, passing: float, general: tuple[Condition, ...]) -> Iterator[Known | Unknown]:
    """`passing`: when another row may have it."""
    time, low = min(found.passages[0].found, passing), min(found.low, passing / (1 + found.pulled))
    high = 0.0 if passing == 0 else found.high
    conditions = (*general, _tie(low, high, found.lead), *_norms(rows, found.pulled, time))
    source = lone_row.REFERENCE
    yield Known(FOUND, time, TIME, source, conditions, found.p + 1, low, high)
    if rows.model.student.homogeneous:
        low, high = found.fitted_interval
        conditions = (*conditions, _tie(low, high, found.lead), found.parity)
        yield Known(FITTED, found.fitted.fitted, TIME, source, conditions, found.p + 1, low, high)


def _by_independent_rows(
    rows: _Rows, general: tuple[Condition, ...], kept: Condition | None
) -> Iterator[Known | Unknown]:
    """By the correlation loss no row sees another: the first to find a direction decides. Without `kept` no leading order."""
    source, courses = lone_row.REFERENCE, rows.courses()
    free = not (rows.model.student.homogeneous or rows.model.student.rows != "free")
    ends = np.array([one.grown if free else np.inf for one in courses])
    for p, times in enumerate(np.array([one.found for one in courses]).T):
        if np.isnan(times).any():
            yield _stiff(p)
            continue
        row, exact = int(times.argmin()), 1 + lone_row.ERROR
        # (A row that goes elsewhere first, or turns on to p from there, has no leading order of p.)
        goes = np.isfinite(times[row]) and times[row] == courses[row].found.min()
        most = rows.leading[rows.followed[row], p] if goes and rows.degree >= 3 else np.inf
        if kept is not None and np.isfinite(most):
            yield Known(LEADING, float(most), TIME, source, (*general, kept), p + 1)
        time, end = 0.0 if rows.first[p] else float(times[row]), float(np.delete(ends, row).min(initial=np.inf))
        # (The row itself is infinite after it has found the direction, though maybe not in time's last digits.)
        if np.isinf(time):
            end = float(ends.min())
        grown = fact("grown", time * exact < end or np.isinf(end), f"grown: at {end:.4g} a free row is infinite")
        conditions = (*general, rows.all_followed, *([grown] if free else []))
        yield Known(FOUND, time, TIME, source, conditions, p + 1, time / exact, time * exact)


def _general(degree: int, unit: bool, single: bool) -> tuple[Condition, ...]:
    """`single`: each row has one direction and no other row to see."""
    grows = f"exponent: link and activation share degree {degree} first: no plateau; a time by itself needs 3 or more"
    varied = "variance: fields of the directions do not have variance 1, so that other degrees of the link count, too"
    return fact("exponent", degree >= 3 or single, grows), fact("variance", unit, varied)


def _interval(times: Sequence[float], pulled: float) -> tuple[float, float]:
    """What moves a time between these rows, once more for its own second order, and the other rows' pull."""
    spread = max(times) - min(times) if np.isfinite(times).all() else 0.0
    return max(min(times) - spread, 0.0) / (1 + pulled), (max(times) + spread) * (1 + pulled)


def _tie(low: float, high: float, lead: float) -> Condition:
    sentence = f"tie (lead {lead:.3g}): other directions, or its own norm, move the time by a factor {{:.3g}}"
    return small("tie", wide(low, high), WIDEST, sentence)


def _pull(model: DeclaredModel, start: Start, row: int, p: int, time: float) -> float:
    """The other rows' share of the growth: that of each at the start times its mean norm in the wait over that at the start.

    Rows pull at each other by the square loss only.
    """
    if model.student.width == 1 or not is_quadratic(model.loss):
        return 0.0
    pulls = lone_row.pulls(model, start, row, p)
    return float(lone_row.risen(model, start, time) @ pulls) if 0 < time < np.inf else float(pulls.sum())


def _norms(rows: _Rows, pulled: float, time: float) -> tuple[Condition, ...]:
    """Of the other rows' pull, and of rows that turn each other."""
    model, start = rows.model, rows.start
    moves = small("norms", pulled, 0.5, "norms: the other rows' pull moves the time by {:.0%}, to first order")
    if not (0 < time < np.inf and model.student.homogeneous and is_quadratic(model.loss)):
        return (moves,)
    norms = np.einsum("i,ikk->k", np.asarray(model.inputs.eigenvalues) ** model.student.whitened, start.grams)
    exponent = model.student.activation.information_exponent
    return moves, turned(rows.turning, norms * lone_row.risen(model, start, time), time, exponent)
