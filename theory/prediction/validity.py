r"""What must hold for a prediction, as data: conditions with the size of what was neglected, and intervals.

Each direction's conditions are judged on their own. Where the deflated flow can be had (`theory.prediction.deflation`) it
says how far the neglected terms move a time: the prediction is then the interval that holds the one-task time and the
deflated flow's, with massless students and with light ones, with the switch early and late, give or take what pull and
switch have moved. An interval that reaches from a time to its double could not tell the theory from one with half its
rate: outside. Without the deflated flow the same causes are estimated in closed form, each against the term that it is
    neglected beside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from theory.additive.flow import population_loss
from theory.core.activation import Activation
from theory.core.activation import c as cosine
from theory.core.indexed import Sums, r
from theory.core.lowered import lower_numpy
from theory.core.numeric_sums import NumericSums
from theory.one_task.hitting_distribution import HittingLaw
from theory.one_task.lone_path import log_waited, lone_path
from theory.one_task.plateau import plateau as laws
from theory.one_task.rare_samples import kick_kurtosis, variation
from theory.one_task.single_task import SingleTask
from theory.prediction.deflation import DeflatedRows, TooLong, deflated_rows, rows_by_share
from theory.prediction.greedy import exact_scores
from theory.prediction.predict import Prediction
from theory.scaling import ideal_loss

#: More overlaps than this would make a prediction wait.
MOST_OVERLAPS = 1024
#: Shares of the target norm at which a direction stops pulling: in the middle, at the earliest, at the latest.
_SWITCHES = (0.5, 0.05, 0.99)
#: The deflated flow runs this many times the last predicted time: what comes later is beyond any interval.
HORIZON = 2.0
#: An interval as wide as this, high over low, does not exclude half the time.
WIDEST = 2.0
#: Ratio of the ends that others leave a loss time, within which one task says it: it is seldom half as far off.
CLOSE = 1.1
#: The quadratures and the integration, with room.
_ROUNDING = 1e-6
#: Largest share that finite size may move a time by, of which that is known to hold it.
_SMALL_SHARE = 0.02
#: Why there is none where waits are long.
_STIFF = "the deflated flow is stiff here and would take too long"
#: A stall nearer to 0 than this is at 0: the overlap shrinks.
_SMALL = 1e-6
#: Share of the target's noise that the students' own may have in the mean over the wait; and points of its quadrature.
_OWN_NOISE, _POINTS = 0.2, 64
#: What the leading order in d of a step's second order may leave out; and how far a step may move a student, over its norm.
_LEADING, MOVED = 0.1, 0.3
#: The share by which a run's quadratic variation fluctuates, and that share of what noise moves over the time: up to which a
#: tenth or less of the spread, and of the mean, is left out (h3 and h4, 100 to 1000 dimensions, against the law of real steps:
#: the mean is off by 0.06 to 0.22 times the latter, where it is 12.5 by half of it). Of whole steps the mean is a tenth off at
#: most up to `WHOLE_BY_RARE` (40 problems of one direction, degrees 3 to 6, 24 to 1000 dimensions).
VARIATION, MOVED_BY_RARE, WHOLE_BY_RARE = 0.32, 0.5, 2.0
RARE = "rare samples: a run's noise is that of its few largest samples, and differs by {:.2g} of itself from run to run"
SHIFTED = "rare noise: a run's noise, that of its few largest samples, moves the time by {:.2g} of itself more or less"


@dataclass(frozen=True)
class Condition:
    """A condition of one direction's prediction.

    Attributes:
        name: a word or two. holds: whether it does, that is `value` is within `limit`.
        value: the size of what is neglected. limit: that of what it is neglected beside.
        sentence: the reason in words, if it does not hold.
    """

    name: str
    holds: bool
    value: float
    limit: float
    sentence: str


#: Conditions on terms of a step's second order in which other directions, or more than the leading order in d, have a part.
_OF_OTHERS = ("exponent", "mean", "dimension")


@dataclass(frozen=True)
class Validity:
    """Conditions and interval of one direction.

    Attributes:
        low, high: the half time's interval in gradient-flow time; both inf for "never by the end"; nan without one.
        fitted: the same of the loss time, low and high.
        no_interval: why there is none, "" if there is.
    """

    conditions: tuple[Condition, ...]
    low: float = np.nan
    high: float = np.nan
    no_interval: str = ""
    fitted: tuple[float, float] = (np.nan, np.nan)

    @property
    def broken(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.conditions if not condition.holds)

    @property
    def valid(self) -> bool:
        return not self.broken

    @property
    def reasons(self) -> list[str]:
        """Why the time is outside, in words; empty if it is inside."""
        return [condition.sentence for condition in self.broken]

    @property
    def fits(self) -> tuple[Condition, ...]:
        """Whether what moves the loss time leaves it a time; said where there is an interval."""
        if np.isnan(self.fitted[0]):
            return ()
        width = wide(*self.fitted)
        sentence = f"fitted: other students and directions move the time when half is fitted by a factor {width:.3g}"
        return (Condition("fitted", width <= WIDEST, width, WIDEST, sentence),)


def validity(prediction: Prediction, intervals: bool = True) -> list[Validity]:
    """One entry per direction. `intervals`: integrate the deflated flow, seconds at most; else closed forms alone."""
    general = [
        (_exponent(prediction), *_parity(prediction, q), *_turned(prediction, q))
        for q in range(prediction.teacher.width)
    ]
    flows: list[DeflatedRows] = []
    missing = "none was asked for"
    if intervals:
        flows, missing = _flows(prediction)
    if not flows:
        factors = _tie_limits(prediction)
        return [
            _in_closed_form(
                prediction, q, (*own, *_estimated(prediction, q, factors), *_rest(prediction, q, factors)), missing
            )
            for q, own in enumerate(general)
        ]
    return [_bracketed(prediction, q, own, flows) for q, own in enumerate(general)]


def light(prediction: Prediction, q: int) -> Condition:
    r"""What a step's second order sees of the students themselves while direction q waits, beside the target: neither
    `Prediction.stability_bound` nor `Prediction.sgd_law` counts it.

    To leading order in d a step shrinks the overlap of student k by $\tfrac12dE(f_*-f)^2\sigma'(z_k)^2$. Its own part of
    that is $r_k^2E\sigma^2\sigma'^2$, and of all others and of the target it is $E(\cdot)^2\varphi'(1)$. The value is the
    ratio of students to target in the mean over the wait, each student by itself: what is heavy at the start shrinks.
    """
    _, squares = _waiting_norms(prediction, float(prediction.time_half[q]))
    target = prediction.total * float(prediction.activation.second_moment)
    return own_noise(
        prediction.activation, prediction.initial.student_overlap, np.sqrt(squares), int(prediction.neuron[q]), target
    )


def own_noise(activation: Activation, cosines: np.ndarray, sizes: np.ndarray, row: int, target: float) -> Condition:
    """`light` of a row of students of these cosines (m, m) and squared norms (m,), beside E f_*²."""
    whole = sizes @ lower_numpy(activation.dual, (cosine,))(np.clip(cosines, -1.0, 1.0)) @ sizes
    own = whole + (_own_shrinkage(activation) - float(activation.second_moment)) * sizes[row] ** 2
    share = float(own / target)
    times = f"{float(f'{share:.2g}'):.6g}"  # 1700, not 1.7e+03
    sentence = (
        f"light: while it waits, the students' own noise is {times} times the target's and is not counted, so this is not to "
        "be trusted"
    )
    return Condition("light", share <= _OWN_NOISE, share, _OWN_NOISE, sentence)


def of_law(prediction: Prediction, q: int, step_size: float, batch: int = 1) -> tuple[Condition, ...]:
    """What must hold of `Prediction.sgd_law`: what must of a step's second order, of which whole steps of one direction leave
    nothing out.
    """
    conditions = of_step(prediction, q, step_size, batch)
    alone = prediction.takes_whole_steps and prediction.teacher.width == 1
    return tuple(one for one in conditions if one.name not in _OF_OTHERS) if alone else conditions


def of_step(prediction: Prediction, q: int, step_size: float, batch: int = 1) -> tuple[Condition, ...]:
    r"""What must hold of a step's second order (`theory.one_task.plateau`) while direction q waits: for a law of SGD, and for
    the bound, which is such a step size.

    Of an activation with a mean, or of information exponent 1 or 2, second order has terms that are left out; of one that
    is no polynomial it is the leading order in d, and what that leaves out is to be small. So is the step, with
    $\eta\sqrt{dE f_*^2E\sigma'^2/b}$ over the student's norm: where it is 0.36 or 0.1 at the bound, the drift there is
    0.127 or 0.115 of the flow's, not 0 (h3, 100 dimensions, overlap 0.2; at batch 1, where it is 0.036, rare samples
    leave 0.115 as well).
    """
    activation, teacher = prediction.activation, prediction.teacher
    total, mean = prediction.total, float(activation.squared_mean)
    J = activation.information_exponent
    place = float(teacher.a[q]), float(prediction.overlap[q])
    left = laws(activation).neglected(*place, total, teacher.dim) if J >= 3 and mean == 0 else 0.0
    square = teacher.dim * total * float(activation.second_moment * activation.kernel_at(1, 1)) / batch
    moved = step_size * np.sqrt(square)
    few = f"second order: of information exponent {J} a step sees the other directions' labels, too; it is derived from 3 on"
    one = f"second order: the activation's mean, {np.sqrt(mean):.3g} in size, is left out of it"
    large = f"dimension: the second order of a step is its leading order in d, which leaves out {left:.0%}"
    far = f"whole steps: one of that size moves the student by {moved:.2g} of its norm, beyond second order"
    return (
        Condition("exponent", J >= 3, J, 3, few),
        Condition("mean", mean == 0, mean, 0.0, one),
        Condition("dimension", left <= _LEADING, left, _LEADING, large),
        Condition("whole steps", bool(moved <= MOVED), float(moved), MOVED, far),
        light(prediction, q),
    )


def of_rest(prediction: Prediction, step_size: float, batch: int = 1) -> Condition:
    """That runs with this step size stay with what they have found (`Prediction.largest_held`)."""
    most = prediction.largest_held(batch)
    thrown = f"rest: from {most:.4g} on steps throw single runs off what they have found, beyond it soon most of them"
    return Condition("rest", step_size <= most, step_size, most, thrown)


def of_noise(
    prediction: Prediction, q: int, step_size: float, law: HittingLaw, batch: int = 1, *, whole: bool | None = None
) -> tuple[Condition, Condition]:
    r"""What rare samples leave of the spread of a law of SGD (`Prediction.sgd_law`), and of its mean.

    whole: whether the law is that of whole steps; by default as of `sgd_law`. The samples of the flow's time count where they
    make the law's too long. Known for plain SGD.
    """
    weights, flow = prediction.teacher.a.tolist(), prediction.time_half[q]
    kurtosis = kick_kurtosis(prediction.activation, weights, q, prediction.noise)
    varies = float(variation(kurtosis, step_size, min(flow, law.mean), batch))
    moved = varies * abs(law.mean / float(flow) - 1)
    most = WHOLE_BY_RARE if (prediction.takes_whole_steps if whole is None else whole) else MOVED_BY_RARE
    return (
        Condition("rare samples", varies <= VARIATION, varies, VARIATION, RARE.format(varies)),
        Condition("rare noise", moved <= most, moved, most, SHIFTED.format(moved)),
    )


@lru_cache(maxsize=64)
def _own_shrinkage(activation: Activation) -> float:
    r"""$E\sigma^2\sigma'^2/\varphi'(1)$."""
    points, weights = activation.gaussian(_POINTS)
    value, slope = (np.asarray(activation.arrays(order)(points)) for order in (0, 1))
    return float(weights @ (value * slope) ** 2 / float(activation.kernel_at(1, 1)))


def staircase_reasons(
    prediction: Prediction, validities: Sequence[Validity], falls: np.ndarray | None = None
) -> list[str]:
    """Why the idealised loss, falling at `falls` (P,), by default the prediction's, is outside, in words: a direction that is
    to be learned is, or its loss time, or idle students fit the mean, or it does not begin where the loss does.
    """
    learned = [own for own, is_learned in zip(validities, prediction.learned, strict=True) if is_learned]
    broken = [condition for own in learned for condition in (*own.conditions, *own.fits)]
    start = _start(prediction, prediction.time_loss if falls is None else falls)
    every = (_exponent(prediction), *broken, *_idle(prediction), start)
    return list(dict.fromkeys(x.sentence for x in every if not x.holds))


def _idle(prediction: Prediction) -> tuple[Condition, ...]:
    """What idle students take off the loss by fitting the mean before the last stair, against the least stair."""
    if not prediction.learned.any() or prediction.activation.squared_mean == 0:
        return ()
    mean, scale = float(prediction.activation.squared_mean), float(prediction.activation.second_moment)
    whole, least = prediction.teacher.a.sum(), prediction.teacher.a[prediction.learned].min()
    mass = min(_mean_mass(prediction, prediction.last_time), whole)
    value, limit = 0.5 * mean * (whole**2 - (whole - mass) ** 2), 0.5 * (scale - mean) * least**2
    sentence = f"mean: idle students fit it, which lowers the loss by about {value:.3g} before the last stair"
    return (Condition("mean", value <= limit, value, limit, sentence),)


def _start(prediction: Prediction, falls: np.ndarray) -> Condition:
    """The loss of the students that there are at the start, beside the staircase's, against the least stair of all."""
    activation, teacher, initial = prediction.activation, prediction.teacher, prediction.initial
    of_students = Sums(term for term in population_loss() if term.body.has(r))
    begun = float(
        NumericSums(of_students, (), activation)(
            {"a": teacher.a, "t": initial.overlap, "c": initial.student_overlap, "r": initial.norm2}
        )
    )
    moments = float(activation.second_moment), float(activation.squared_mean)
    nothing, drawn = (
        float(ideal_loss.staircase(np.zeros(1), x, teacher.a, *moments)[0])
        for x in (np.full(teacher.width, np.inf), falls)
    )
    value, limit = abs(nothing + begun - drawn), 0.5 * (moments[0] - moments[1]) * float(teacher.a.min()) ** 2
    sentence = (
        f"start: the loss begins at {nothing + begun:.3g}, where the staircase has {drawn:.3g}: students are heavy"
    )
    return Condition("start", value <= limit, value, limit, sentence)


def _flows(prediction: Prediction) -> tuple[list[DeflatedRows], str]:
    """The deflated flows, or none and why."""
    overlaps = prediction.initial.overlap.size
    if not prediction.learned.any():
        return [], "no direction is predicted to be learned"
    if overlaps > MOST_OVERLAPS:
        return [], f"{overlaps} overlaps of students and teachers are more than {MOST_OVERLAPS}"
    ends = np.concatenate([prediction.time_half, prediction.time_loss])
    until = HORIZON * float(ends[np.isfinite(ends)].max())  # (what decay forbids is found and never fitted)
    try:
        start, decay = (prediction.activation, prediction.teacher, prediction.initial, until), prediction.decay
        massless = deflated_rows(*start, decay=decay)
        return [massless, *rows_by_share(*start, _SWITCHES, light=True, decay=decay)], ""
    except TooLong:
        return [], _STIFF


# ------------------------------------------------------------------------- of every prediction


def _exponent(prediction: Prediction) -> Condition:
    J = prediction.activation.information_exponent
    sentence = (
        f"information exponent {J}: no plateau, so that directions grow together; a time by itself needs 3 or more"
    )
    return Condition("exponent", J >= 3 or prediction.teacher.width == 1, J, 3, sentence)


def _parity(prediction: Prediction, q: int) -> tuple[Condition, ...]:
    overlap = float(prediction.overlap[q])
    if not np.isfinite(overlap):
        return _left(prediction, q)
    fits = overlap > 0 or prediction.activation.parity == "even" or prediction.activation.information_exponent == 1
    sentence = "parity: its neuron leans away, and would turn to −e, which fits the even degrees only"
    return Condition("parity", fits, overlap, 0.0, sentence), *_left(prediction, q), *_stalled(prediction, q)


def _left(prediction: Prediction, q: int) -> tuple[Condition, ...]:
    """A neuron that begins near −e and leaves: it is free for other directions, and its own is left for other neurons."""
    ahead = prediction.overlap < 0
    ahead[ahead] = SingleTask(prediction.activation).speed(prediction.overlap[ahead], 1.0) > 0
    leaves = np.isfinite(prediction.time_half) & ahead
    earlier = np.flatnonzero(leaves & (prediction.time_half <= prediction.time_half[q]) & (np.arange(leaves.size) != q))
    places = ", ".join(str(p + 1) for p in earlier)
    sentence = f"parity: the neuron that begins near −e of direction {places} leaves, and may find this one"
    return () if not earlier.size else (Condition("parity", False, float(earlier.size), 0.0, sentence),)


def _stalled(prediction: Prediction, q: int) -> tuple[Condition, ...]:
    """Degrees of both parities can hold students at an overlap where the teacher's pull is zero, and others' decides."""
    stall = abs(lone_path(prediction.activation, -1).stall) if prediction.activation.information_exponent > 1 else 0.0
    if stall <= _SMALL or stall**2 >= 0.5:
        return ()
    task, weight, wait = (
        SingleTask(prediction.activation),
        float(prediction.teacher.a[q]),
        float(prediction.time_half[q]),
    )
    away = [x for x in prediction.initial.overlap[:, q] if x < 0]
    held = sum(task.passage_time(weight, float(x), stall / 2) < wait for x in away)
    sentence = f"parity: {held} students come to a halt near overlap −{stall:.2g}, where their mutual pull decides"
    return (Condition("parity", held == 0, float(held), 0.0, sentence),)


def _turned(prediction: Prediction, q: int) -> tuple[Condition, ...]:
    """`turned` of the students of the additive model: a student's weight pulls at another one as a teacher's would."""
    activation, time = prediction.activation, float(prediction.time_half[q])
    if not np.isfinite(time) or activation.information_exponent < 3:
        return ()
    cosines = np.clip(prediction.initial.student_overlap, -1.0, 1.0)
    slopes = lower_numpy(activation.dual.diff(cosine), (cosine,))(cosines) * np.ones_like(cosines)
    rates = np.divide(slopes, cosines, out=np.zeros_like(cosines), where=cosines != 0)
    return (turned(rates, _waiting_norms(prediction, time)[0], time, activation.information_exponent),)


def turned(rates: np.ndarray, norms: np.ndarray, time: float, exponent: int) -> Condition:
    r"""Whether students keep the directions of their residuals in a wait, as a pull of first order in their norms has it.

    Student l turns k by $\dot c_{kl}=-r_l\varphi'(c_{kl})$, and k turns l: the logarithm of a cosine changes by
    $T(\bar r_k+\bar r_l)\varphi'(c_{kl})/c_{kl}$, that of their pull $\varphi'$ by J − 1 times that. An interval has room for
    the pull once more: so the limit is 1.

    Args:
        rates: $\varphi'(c_{kl})/c_{kl}$, at which a unit of l's norm changes it, (m, m). norms: $\bar r$, means over the wait,
            (m,). time: T. exponent: J, of the activation.
    """
    moved = np.abs(rates) * norms
    largest = float(np.max((moved + moved.T)[~np.eye(len(norms), dtype=bool)], initial=0.0))
    value = max(exponent - 1, 1) * time * largest
    sentence = f"norms: while it waits, students turn each other, and their pull changes by {value:.2g} of itself"
    return Condition("norms", value <= 1, value, 1.0, sentence)


# ------------------------------------------------------------------------- by the deflated flow


def _bracketed(prediction: Prediction, q: int, general: tuple[Condition, ...], flows: list[DeflatedRows]) -> Validity:
    alone = float(prediction.time_half[q])
    massless, *light = (float(flow.half_time[q]) for flow in flows)
    low, high = _interval(alone, massless, light)
    found = np.array([alone, massless, *light])
    fitted = _fitted(prediction, q, flows, low, high)
    if np.isinf(found).all():
        return Validity(general, low, high, fitted=fitted)
    if np.isinf(found).any():
        settled = np.isinf([alone, massless]).any()
        cause = _tie(prediction, q, np.inf) if settled else _pull(np.inf, np.inf)
        return Validity((*general, cause), low, high, fitted=fitted)
    width = wide(low, high)
    pull = abs(light[0] - massless)
    by_pull = pull > max(light) - min(light) + abs(massless - alone)
    cause = _pull(pull / massless if massless else np.inf, width) if by_pull else _tie(prediction, q, width)
    return Validity((*general, cause), low, high, fitted=fitted)


def _fitted(prediction: Prediction, q: int, flows: list[DeflatedRows], low: float, high: float) -> tuple[float, float]:
    """What holds the loss time: of the pair alone and of all light students, and as far as these are from one another or the
    ends of the half time's interval from one another.
    """
    alone, all_ = float(prediction.time_loss[q]), float(flows[-1].loss_time[q])
    first, last = min(alone, all_), max(alone, all_)
    if np.isinf(last):
        return first, np.inf
    return max(first - (last - first) - (high - low), 0.0), last + (last - first) + high - low


def _interval(alone: float, massless: float, light: Sequence[float]) -> tuple[float, float]:
    """What holds them all: what the light students do, once more for its own second order; the switch's moment, likewise."""
    found = np.array([alone, massless, *light])
    if np.isinf(found).any():
        return float(found.min()), np.inf
    moved = abs(light[0] - massless) + max(light) - min(light)
    return max(float(found.min()) - moved, 0.0) * (1 - _ROUNDING), (float(found.max()) + moved) * (1 + _ROUNDING)


def wide(low: float, high: float) -> float:
    """High over low: 1 of what is at once, or never; inf of what may be from the start on."""
    return 1.0 if low == high else high / low if low > 0 else np.inf


def _tie(prediction: Prediction, q: int, width: float) -> Condition:
    lead = f"lead {prediction.lead[q]:.3g}" if np.isfinite(prediction.lead[q]) else "no neuron by the one-task law"
    sentence = f"near tie ({lead}): finite size decides who learns it, and when"
    return Condition("tie", width < WIDEST, width, WIDEST, sentence)


def _pull(relative: float, width: float) -> Condition:
    moves = f"moves the time by {relative:.0%}" if np.isfinite(relative) else "decides whether it is learned"
    return Condition("norms", width < WIDEST, width, WIDEST, f"norms: the other students' pull {moves}, to first order")


# ------------------------------------------------------------------------- in closed form


def finite_size_share(squared: np.ndarray | float) -> np.ndarray:
    r"""$3M_0\ln(1/M_0)$: the share of its time by which finite size may move an emergence, thrice for safety; elementwise."""
    return -3 * np.asarray(squared) * np.log(squared)


def _in_closed_form(prediction: Prediction, q: int, conditions: tuple[Condition, ...], missing: str) -> Validity:
    """Where the deflated flow is stiff, as dimensions are many, what finite size may move the time by holds it: the largest
    share of all pairs, any of which may be in the way. (h3, h4, h6 and a mixture, 10⁴ dimensions and more, 4 and 16 students:
    the deflated flow's interval is within 0.6 of that share, and rounding of 2·10⁻⁶, in each of 70 cases.)
    """
    alone, found = float(prediction.time_half[q]), np.isfinite(prediction.overlap)
    share = float(np.max(finite_size_share(prediction.overlap[found] ** 2), initial=0.0))
    known = missing == _STIFF and share <= _SMALL_SHARE and 0 < alone < np.inf
    if not (known and all(x.holds for x in conditions)):
        return Validity(conditions, no_interval=missing)
    return Validity(conditions, alone * (1 - share) * (1 - _ROUNDING), alone * (1 + share) * (1 + _ROUNDING))


def _tie_limits(prediction: Prediction) -> np.ndarray:
    """(P,) the lead that a pair needs: rivals go on until a direction is fitted, and finite size moves both times.

    A tie among earlier pairs is in a later pair's lead, so that it takes the largest factor up to its turn.
    """
    limits = np.ones(prediction.teacher.width)
    largest = 1.0
    for q in prediction.selection.directions:
        if prediction.time_half[q] > 0:  # (what is found at once, or who found it, no finite size moves)
            late = prediction.time_loss[q] / prediction.time_half[q]
            largest = max(largest, late * (1 + float(finite_size_share(prediction.overlap[q] ** 2))))
        limits[q] = largest
    return limits


def _estimated(prediction: Prediction, q: int, limits: np.ndarray) -> tuple[Condition, ...]:
    if not 0 < prediction.time_half[q] < np.inf:
        return ()
    lead, share = float(prediction.lead[q]), float(finite_size_share(prediction.overlap[q] ** 2))
    norms = _waiting_norms(prediction, float(prediction.time_half[q]))[0]
    mass = float(np.delete(norms, prediction.neuron[q]).sum() / prediction.teacher.a[q])  # (none turns by its own)
    tie = f"near tie (lead {lead:.3g}, less than {limits[q]:.3g}): finite size decides who learns it, and when"
    heavy = f"norms: while it waits, the other students weigh {mass:.3g} of its weight, and pull like its teacher"
    large = f"dimension: finite size is {share:.0%} of the time"
    return (
        Condition("tie", lead >= limits[q], lead, float(limits[q]), tie),
        Condition("norms", mass <= 0.5, mass, 0.5, heavy),
        Condition("dimension", share <= 0.5, share, 0.5, large),
    )


def _rest(prediction: Prediction, q: int, limits: np.ndarray) -> tuple[Condition, ...]:
    r"""A neuron at −e leaves $\ell=1-\varphi(-1)/\varphi(1)$ of its direction's even degrees; `Selection.lead` has none left.

    The neuron of q, by itself T_k from the one that is found at T, goes there at $T+(T_k-T)/\ell$, to leading order.
    """
    activation, times = prediction.activation, prediction.time_half
    earlier = (prediction.overlap < 0) & (times < times[q])
    if activation.parity or activation.information_exponent % 2 or not earlier.any() or not np.isfinite(times[q]):
        return ()
    left = float(1 - activation.dual.subs(cosine, -1) / activation.second_moment)
    overlap = prediction.initial.overlap[[prediction.neuron[q], *prediction.neuron[earlier]]]
    scored = exact_scores(overlap, prediction.teacher, activation)
    own, found = scored[0], np.diagonal(scored[1:, earlier])
    waits = 1 / found + np.maximum(1 / own[earlier] - 1 / found, 0) / left
    lead, limit = float(np.min(waits) * own[q]), float(limits[q])
    sentence = (
        f"parity: its neuron may go to what one at −e leaves of its direction (lead {lead:.3g}, less than {limit:.3g})"
    )
    return (Condition("parity", lead >= limit, lead, limit, sentence),)


def _mean_mass(prediction: Prediction, time: float) -> float:
    """Of all students, the mean over the time."""
    return float(np.sum(_waiting_norms(prediction, time)[0]))


def _waiting_norms(prediction: Prediction, time: float) -> tuple[np.ndarray, np.ndarray]:
    r"""$\frac1T\int_0^Tr_kdt=\ln(1+b_kr_k(0)I)/(b_kT)$ and $\frac1T\int_0^Tr_k^2dt$, (m,), of students on their plateau.

    $\dot r_k=gr_k-4(\varphi(1)-\varphi(0))r_k^2-4\varphi(0)r_k\sum_lr_l$ with the growth $g=4\varphi(0)\sum a-2\kappa$ that a
    mean, which all fit together, and weight decay give. Ratios of norms tend to 1, so that none is above
    $\dot r=gr-b_kr^2$ with $b_k=4\varphi(1)+4\varphi(0)\sum_{l\ne k}\min(1,r_l(0)/r_k(0))$, and is there if all begin alike:
    $I=(e^{gT}-1)/g$, and $b\int r^2=g\int r-r(T)+r(0)$.
    """
    activation, start = prediction.activation, prediction.initial.norm2
    if time == 0:
        return start, start**2
    mean, scale = 4 * float(activation.squared_mean), 4 * float(activation.second_moment)
    shared = np.minimum(1.0, start / start[:, None]).sum(axis=1) - 1
    repulsion = scale + mean * shared
    rate = mean * float(prediction.teacher.a.sum()) - 2 * prediction.decay
    growth = rate * time
    risen = np.logaddexp(0.0, np.log(repulsion * start) + log_waited(rate, time))
    average, moved = risen / (repulsion * time), start * np.expm1(growth - risen)
    return average, np.maximum(rate * average - moved / time, 0.0) / repulsion
