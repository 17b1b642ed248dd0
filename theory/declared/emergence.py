"""When the directions of an additive target are found, as numbers with their conditions.

The additive model itself (isotropic inputs, orthonormal directions) has its own prediction, intervals and all
(`theory.prediction`); any other covariance, Gram matrix, link, decay or momentum goes by rows that are alone
(`theory.declared.lone_row`). Times are sums of step sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory.core.errors import InputError
from theory.declared import lone_row, weight_decay
from theory.declared.additive import additive_parts
from theory.declared.flow import is_quadratic, speed
from theory.declared.known import NUMBER, STEPS, TIME, Known, Unknown, fact, small
from theory.declared.lone_row import Passage, Row, alone, follow
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.schedule import MOST_STEPS, steps_until
from theory.declared.start import Start
from theory.prediction.greedy import select
from theory.prediction.predict import Prediction, predict
from theory.prediction.validity import WIDEST, Condition, Validity, light, validity

LEADING, FOUND, FITTED = "emergence, leading order", "emergence", "half of its norm fitted"
FOUND_STEPS, MEAN_STEPS, SPREAD_STEPS = "emergence in steps", "emergence of SGD, mean", "emergence of SGD, spread"
OF_SGD = "emergence of SGD"
BOUND, NORM, FLOOR = "largest step size", "squared norm at rest", "loss at rest"
_ADDITIVE = "arXiv:2504.19983, Theorem 2.1; theory.prediction"
#: Directions that are followed at finite size, in the order of learning; and how far, in units of 1/S (exponent 2 or more).
_FOLLOWED, _HORIZON = 6, 40.0
#: Where rows do not see each other any of them may be the first: all are followed up to this many, else the fastest to each.
_ALL, _FASTEST = 16, 3
#: What makes a row light.
_MASSLESS = 1e-6


def emergence(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    """Entries for every direction. Raises `InputError` where nothing is known, with the reason."""
    if model.rule.samples:
        raise InputError(
            f"data set of {model.rule.samples} samples: times are known on fresh samples only; run declared-sgd"
        )
    pace, signal = speed(model.rule), model.rule.signal
    prediction, model = additive_prediction(model, start), lone_row.of_mean_labels(model)
    if model.student.trained:
        raise InputError("the second layer is trained: rows are no longer light or alone; run declared-flow")
    if is_quadratic(model.loss) and not model.student.homogeneous and model.student.width > 1:
        raise InputError(
            f"{model.student.width} rows of a committee pull at each other as strongly as the target does; run declared-flow, "
            "or predict the correlation loss"
        )
    additive = None if prediction is None else _additive(model.rule, prediction, pace, signal)
    entries = list(_by_rows(model, start) if additive is None else additive)
    yield from entries
    yield from _in_steps(model.rule, entries)


def _in_steps(rule: Rule, entries: Sequence[Known | Unknown]) -> Iterator[Known | Unknown]:
    """Times as steps, by the sum of step sizes."""
    found = [x for x in entries if isinstance(x, Known) and x.quantity == FOUND]
    times = np.array([(x.value, x.low, x.high) for x in found]).reshape(-1, 3)
    steps, size = steps_until(rule.step_size, times)
    bound = next((x.value for x in entries if isinstance(x, Known) and x.quantity == BOUND), np.inf)
    stable = small(
        "step size", size, bound, "step size: {:.3g} is beyond the largest, where noise undoes an overlap's growth"
    )
    for entry, (value, low, high) in zip(found, steps.tolist(), strict=True):
        if np.isinf(value) and np.isfinite(entry.value):
            ends = getattr(rule.step_size, "end", None) or MOST_STEPS
            yield Unknown(
                FOUND_STEPS,
                f"direction {entry.place}: the schedule's first {ends} steps add up to less than its time, {entry.value:.4g}",
            )
            continue
        yield Known(FOUND_STEPS, value, STEPS, entry.source, (*entry.conditions, stable), entry.place, low, high)


def _additive(rule: Rule, prediction: Prediction, pace: float, signal: float) -> Iterator[Known | Unknown]:
    """By the additive model's own prediction. Weight decay leaves directions as they are while students are light."""
    found = validity(prediction)
    for p, own in enumerate(found):
        place, conditions = p + 1, own.conditions
        if np.isfinite(prediction.time_leading[p]):
            yield Known(LEADING, prediction.time_leading[p] / pace, TIME, _ADDITIVE, conditions, place)
        time = float(prediction.time_half[p]) / pace
        yield Known(FOUND, time, TIME, _ADDITIVE, conditions, place, own.low / pace, own.high / pace)
        loss_time, low, high = (x / pace for x in (float(prediction.time_loss[p]), *own.fitted))
        source = weight_decay.REFERENCE if prediction.decay else _ADDITIVE
        yield Known(FITTED, loss_time, TIME, source, (*conditions, *_fitted(low, high)), place, low, high)
        if type(rule) is Rule and not callable(rule.step_size) and not rule.noise:
            yield from _of_sgd(prediction, p, float(rule.step_size), rule.batch, conditions)
    if type(rule) is Rule and callable(rule.step_size) and prediction.activation.information_exponent >= 3:
        yield Unknown(OF_SGD, "the step size is a schedule: the law of SGD's times is known for a constant one only")
    yield from _rest(prediction, found, signal)
    if prediction.learned.any():
        bound, worst = _bound(prediction, rule)
        conditions = (
            fact("momentum", type(rule) is Rule, _given_step(rule)),
            fact("noise", not rule.noise, "noise: that on labels is not in the bound"),
            light(prediction, worst),
        )
        source = "second order of one step on the plateau; theory.one_task.plateau"
        yield Known(BOUND, bound, TIME, source, conditions, worst + 1)


def _given_step(rule: Rule) -> str:
    """Which step size `BOUND` is of where momentum adds steps up: η, of the effective step η/(1 − β)."""
    share = 1 / speed(rule)
    return (
        f"momentum: it is the step size as given, {share:.3g} of the effective step, whose bound is that of plain SGD, to "
        "first order in it"
    )


def _bound(prediction: Prediction, rule: Rule) -> tuple[float, int]:
    """The largest step size, and the direction that sets it."""
    bound, worst = prediction.stability_bound(rule.batch)
    return bound / speed(rule), worst


def additive_prediction(model: DeclaredModel, start: Start) -> Prediction | None:
    """That of a model that is the additive one, in its own time, `speed` times the sum of step sizes; None of others.

    Raises `InputError` of a rule that has no speed.
    """
    pace, model = speed(model.rule), lone_row.of_mean_labels(model)
    parts = additive_parts(model, start)
    return None if parts is None else predict(*parts, model.rule.decay / pace)


def largest_step(model: DeclaredModel, start: Start) -> float:
    """`BOUND` of a model that is the additive one; inf of others. Raises `InputError` where it has none."""
    prediction = additive_prediction(model, start)
    return np.inf if prediction is None else _bound(prediction, model.rule)[0]


def last_time(model: DeclaredModel, start: Start) -> float:
    """When the last direction of an additive model is fitted, as a sum of step sizes; 0 where that is not known."""
    prediction = None if model.rule.samples else additive_prediction(model, start)
    return 0.0 if prediction is None or not prediction.learned.any() else prediction.last_time / speed(model.rule)


def _of_sgd(
    prediction: Prediction, p: int, size: float, batch: int, conditions: tuple[Condition, ...]
) -> Iterator[Known]:
    """Mean and spread over replicas of SGD, to first order in the step size."""
    half = float(prediction.time_half[p])
    if not np.isfinite(half) or half == 0 or prediction.activation.information_exponent < 3:
        return
    law = prediction.sgd_law(p, size, batch)
    shift = abs(law.mean - half) / half
    few = small("step size", shift, 0.3, "step size: fluctuations move the time by {:.0%}, beyond first order")
    conditions = (*conditions, few, light(prediction, p))
    source = "one-task diffusion; theory.one_task.hitting_distribution"
    yield Known(MEAN_STEPS, law.mean / size, STEPS, source, conditions, p + 1)
    yield Known(SPREAD_STEPS, law.std / size, STEPS, source, conditions, p + 1)


def _fitted(low: float, high: float) -> tuple[Condition, ...]:
    """Whether what moves the time when a direction is fitted leaves it a time; said where there is an interval."""
    sentence = "fitted: other students and directions move that time by a factor {:.3g}"
    return () if np.isnan(low) else (small("fitted", _wide(low, high), WIDEST, sentence),)


def _wide(low: float, high: float) -> float:
    """High over low: 1 of what is at once, or never; inf of what may be from the start on."""
    return 1.0 if low == high else high / low if low > 0 else np.inf


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


# ------------------------------------------------------------------------- rows by themselves


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rates of all pairs, and who finds what, in which order, by the square loss."""

    model: DeclaredModel
    start: Start

    @cached_property
    def rates(self) -> np.ndarray:
        return lone_row.growth_rates(self.model, self.start)

    @cached_property
    def degree(self) -> int:
        return lone_row.common_degree(self.model)

    @cached_property
    def pairs(self) -> list[tuple[int, int, float]]:
        """(row, direction, lead), greedy."""
        chosen = select(np.maximum(self.rates, 0.0))
        return list(zip(chosen.neurons.tolist(), chosen.directions.tolist(), chosen.lead.tolist(), strict=True))

    @cached_property
    def independent(self) -> np.ndarray:
        """By the correlation loss: when each row finds each direction, (m, P), nan where it is not known; inf of rows that
        are not followed and have not found it at once.
        """
        directions = self.model.directions
        eigenvalues = np.asarray(self.model.inputs.eigenvalues)
        fields = np.einsum("i,ikp->kp", eigenvalues, self.start.overlaps(directions))
        sizes = np.einsum("i,ikk->k", eigenvalues, self.start.grams)[:, None] * np.diag(directions.covariance)
        times = np.where(fields**2 >= lone_row.FOUND * sizes, 0.0, np.inf)
        count = len(times) if len(times) <= _ALL else _FASTEST
        best = self.rates.max(axis=0)
        if np.any(best > 0):
            until = _HORIZON / best[best > 0].min()
            for row in np.unique(np.argsort(-self.rates, axis=0)[:count]).tolist():
                times[row] = lone_row.found_times(self.model, Row.of(self.model, self.start, row), until)
        return times

    def passages(self, row: int, p: int, gone: Sequence[tuple[Passage, int]]) -> list[Passage]:
        """Of the row alone; of it and all directions, those that are `gone` fitted in the middle, early and late; and of a
        massless one.
        """
        model, until = self.model, _HORIZON / self.rates[row, p]
        own = Row.of(model, self.start, row)
        found = [follow(alone(model, p), own.towards(p), 0, until)]
        switches = [[(time, q) for time in one.switches] for one, q in gone]
        for switched in zip(*switches, strict=True) if gone else [()]:
            found.append(follow(model, own, p, until, switched))
        if model.student.homogeneous:
            found.append(follow(alone(model, p), Row.of(model, self.start, row, _MASSLESS).towards(p), 0, until))
        return found


def _by_rows(model: DeclaredModel, start: Start) -> Iterator[Known | Unknown]:
    rows = _Rows(model, start)
    if rows.degree < 2:
        raise InputError(
            "link and activation share no degree: no overlap grows at first order"
            if rows.degree == 0
            else "link and activation share degree 1: all rows grow together, at once; run declared-flow"
        )
    unit = np.allclose(np.diag(model.directions.covariance), 1.0)
    source, general, gone = lone_row.REFERENCE, _general(rows.degree, unit), list[tuple[Passage, int]]()
    ties: list[Condition] = []
    keeps = model.student.homogeneous or model.student.rows != "free"
    kept = fact("rows", keeps, "rows: a free row of a committee changes its length, and so its rate, while it waits")
    if not is_quadratic(model.loss):
        yield from _by_independent_rows(rows, general, kept if unit else None)
        return
    for place, (row, p, lead) in enumerate(rows.pairs):
        if rows.degree >= 3 and unit:
            leading = float(lone_row.leading_times(rows.rates[row, p], rows.degree))
            yield Known(LEADING, leading, TIME, source, (*general, kept), p + 1)
        if place >= _FOLLOWED:
            yield Unknown(FOUND, f"direction {p + 1} is after the first {_FOLLOWED}: its leading order is all there is")
            continue
        passages = rows.passages(row, p, gone)
        times = [one.found for one in passages]
        if np.isnan(times).any():
            yield Unknown(
                FOUND, f"direction {p + 1}: its row is too stiff or gets too short to follow; run declared-flow"
            )
            continue
        pulled = _pull(model, start, row, p, times[0]) + lone_row.ERROR
        low, high = _interval(times, pulled)
        ties.append(_tie(low, high, lead))
        conditions = (*general, ties[-1], _norms(pulled))
        yield Known(FOUND, times[0], TIME, source, conditions, p + 1, low, high)
        if model.student.homogeneous:
            low, high = _interval([one.fitted for one in passages], pulled)
            conditions = (*conditions, _tie(low, high, lead))
            yield Known(FITTED, passages[0].fitted, TIME, source, conditions, p + 1, low, high)
        gone.append((passages[0], p))
    for p in sorted(set(range(model.target.count)) - {p for _, p, _ in rows.pairs}):
        # (A row that is near a tie may come here in place of where it is sent.)
        yield Known(FOUND, np.inf, TIME, source, (*general, *ties), p + 1, np.inf, np.inf)


def _by_independent_rows(
    rows: _Rows, general: tuple[Condition, ...], kept: Condition | None
) -> Iterator[Known | Unknown]:
    """By the correlation loss no row sees another: the first to find a direction decides. Without `kept` no leading order."""
    source = lone_row.REFERENCE
    all_ = fact(
        "all rows", len(rows.rates) <= _ALL, f"all rows: only the {_FASTEST} fastest to each direction are followed"
    )
    for p, times in enumerate(rows.independent.T):
        most = rows.rates[:, p].max()
        if rows.degree >= 3 and kept is not None and most > 0:
            leading = float(lone_row.leading_times(most, rows.degree))
            yield Known(LEADING, leading, TIME, source, (*general, kept), p + 1)
        if np.isnan(times).any():
            yield Unknown(
                FOUND, f"direction {p + 1}: a row is too stiff or gets too short to follow; run declared-flow"
            )
            continue
        time, exact = float(times.min()), 1 + lone_row.ERROR
        yield Known(FOUND, time, TIME, source, (*general, all_), p + 1, time / exact, time * exact)


def _general(degree: int, unit: bool) -> tuple[Condition, ...]:
    grows = f"exponent: link and activation share degree {degree} first: no plateau; a time by itself needs 3 or more"
    varied = "variance: fields of the directions do not have variance 1, so that other degrees of the link count, too"
    return fact("exponent", degree >= 3, grows), fact("variance", unit, varied)


def _interval(times: Sequence[float], pulled: float) -> tuple[float, float]:
    """What moves a time between these rows, once more for its own second order, and the other rows' pull."""
    spread = max(times) - min(times) if np.isfinite(times).all() else 0.0
    return max(min(times) - spread, 0.0) / (1 + pulled), (max(times) + spread) * (1 + pulled)


def _tie(low: float, high: float, lead: float) -> Condition:
    sentence = f"tie (lead {lead:.3g}): other directions, or its own norm, move the time by a factor {{:.3g}}"
    return small("tie", _wide(low, high), WIDEST, sentence)


def _pull(model: DeclaredModel, start: Start, row: int, p: int, time: float) -> float:
    r"""The other rows' share of the growth: that at the start times their mean norm while it waits over that at the start.

    A light 2-homogeneous row alone shrinks, $\int_0^Tr\,dt=\ln(1+4\varphi(1)r(0)T)/(4\varphi(1))$; rows pull at
    each other by the square loss only.
    """
    if model.student.width == 1 or not is_quadratic(model.loss):
        return 0.0
    norms, waited = np.einsum("ikk->k", start.grams), 4 * float(model.student.activation.second_moment) * time
    mean = np.log1p(norms * waited).sum() / (norms * waited).sum() if 0 < waited < np.inf else 1.0
    return float(mean) * lone_row.pull(model, start, row, p)


def _norms(pulled: float) -> Condition:
    return small("norms", pulled, 0.5, "norms: the other rows' pull moves the time by {:.0%}, to first order")
