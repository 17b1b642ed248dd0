r"""When the flow of all rows together finds each direction, by integrating it, where no closed form says so.

The derived equations (`theory.declared.flow`) from one start: no row and no direction is left out, so that what is found when
rows pull at each other, on targets that are not additive, and without a plateau is what the flow finds. What whole steps of
SGD do beside it is estimated as kicks: a step of size η moves row k by $\eta^2E|g_k|^2/B$ of its squared norm
(`theory.declared.kicks`), and each of its overlaps by as large a share of that of a random row (derived).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import scipy

from theory.core.curves import passed_between
from theory.core.errors import InputError
from theory.declared.all_rows import AllRows
from theory.declared.directions import Directions
from theory.declared.flow import is_quadratic, speed
from theory.declared.known import small
from theory.declared.lone_row import FOUND
from theory.declared.loss import Correlation, Square
from theory.declared.model import DeclaredModel
from theory.declared.near_misses import straying, turning_back
from theory.declared.numeric_flow import of_no_rows
from theory.declared.passage_law import PassageLaw, Steps, passage_law
from theory.declared.population import check_target
from theory.declared.rule import Rule
from theory.declared.schedule import Size
from theory.declared.start import Start
from theory.declared.student import Student
from theory.declared.target import Additive, Polynomial
from theory.one_task.hitting_distribution import HittingLaw
from theory.prediction.rivals import FLUCTUATIONS, scattered
from theory.prediction.validity import Condition

REFERENCE = "derived; the declared flow of all rows, integrated"

#: Tolerances of a step, by which a time is right to `ERROR`.
_RTOL, _ATOL, ERROR = 1e-6, 1e-11, 1e-3
#: The relative one of implicit steps over that: their errors add up (exp(z/2), four directions in 1e9 inputs: a time is 5e-3
#: off at 1, 7e-4 at .1, 1e-4 at .03).
_CLOSER = 0.03
#: `Way.near` up to which it is: a squared correlation 5 `_RTOL` off moves a time by that over a tenth of ½ of it.
_PASSED = 0.1 * 0.5 * ERROR / (5 * _RTOL)
#: Products of pairs that are formed on the way, at most (some seconds); and evaluations for which they must suffice, and that
#: there are at most.
_WORK, _FEW, _MANY = 1e8, 300, 8000
#: What steps of an implicit method take from start to end, about: evaluations, and as many more for each number of the state.
_IMPLICIT, _JACOBIANS = 600, 5
#: Time until which a flow is followed, and at which nothing moves any longer.
_LAST = 1e12
AT_REST = "there all rows rest"
#: By so many times what steps add to squared norms the mean of SGD may be off the flow's time (measured on the random problems
#: of `kicked`: all 106 within two standard errors of it).
MOVED_MEAN = 2.5
#: What the second order of steps, and the scatter of overlaps, move a mean of SGD by, over the squares of what the first order
#: moves it by and of its spread: of 158 times of random problems within the conditions, 96 runs each, 1.4 at most beyond two
#: standard errors (2.6 of a second direction of relu), of 118 more, of single rows, spheres, momentum, schedules, decay, 7.0
#: (a second direction of sin(z) in 24 inputs, whose scatter does more than its kicks). And by which share, over that of the
#: time in the condition, a spread is less (1.6; 5.7 of a second direction, whose spread stops growing with the step) and more
#: (1.3). The last 81 of the 158 were drawn after the spread's were chosen.
_SECOND, _NARROWER, _WIDER = 6.0, 6.0, 2.0
#: Why a way ends before it is done.
_LEFT = "there it gets too stiff, too short or too long to follow, or errors make it that of no rows"
#: By how many times what straying rows make a mean later it may make a spread wider (1.8 to 3.1 in five sets of about 100 runs
#: of h₂, three rows in 37 inputs, one of which begins without an overlap with the first direction).
_STRAYED = 4.0
#: Squared correlations beside that of what is found; and the correlation at which a direction has left the plateau.
_BEFORE, _BEYOND = 0.9 * FOUND, 1.1 * FOUND
LEFT = 0.3
#: Share of the runs that may be later than the law has them (of 53 times of random problems whose spread is more than .12 of
#: them, most led by h₂, 16 are beyond: of 10 of these 2 to 12 in 100 runs take more than twice the time; of the others that
#: are not lost at most 1.7 do).
_RESTING = 0.05
_CURVED = (
    "curvature: rows are held so fast that whole steps scatter wider than the law of small ones, by {:.2g} of that"
)
#: Steps of the solver, at most, on which kicks are summed.
_INTERVALS = 24


@dataclass(frozen=True)
class Way:
    r"""What the flow finds; times are sums of step sizes.

    Attributes:
        found: first times at which some row's squared correlation with each direction is ½, (P,); inf if not by the end.
        rows: which row that is, (P,). fitted: first times at which rows have half of what rests along each direction alone,
            $\sum_k\rho_k\mathrm{Corr}^2$, of 2-homogeneous students of an additive target; inf of others. Rows that lean
            away count where the activation is even or odd. aligned: the same, all rows counted.
        kicks: what steps add to that row's squared norm until then, over itself and η/B, (P,). near: by which share of the
            time it comes sooner or later where a squared correlation a tenth off ½ is asked for, (P,); inf if not by `end`.
        left: first times at which any squared correlation is .9, 1 and 1.1 times `LEFT` squared, (3,). plateau: the rows'
            Gram matrices at the second, or at the end, (L, m, m).
        end: time until which it was followed. stopped: why it was not any longer; "" if all was found. law: that of SGD along
            it (`theory.declared.passage_law`; a second or so), None where it is not known.
    """

    found: np.ndarray
    rows: np.ndarray
    fitted: np.ndarray
    aligned: np.ndarray
    kicks: np.ndarray
    near: np.ndarray
    left: np.ndarray
    plateau: np.ndarray
    end: float
    stopped: str
    law: Callable[[], PassageLaw | None]

    def conditions(self, p: int) -> tuple[Condition, ...]:
        """Of the flow's own time for direction p, which is right to `ERROR` unless the row all but rests there."""
        return (passing(float(self.near[p]), _PASSED),)

    @property
    def until(self) -> str:
        """How far it was followed, why not further, and what to do, in words."""
        remedy = "" if self.stopped == AT_REST else "; run declared-flow for longer"
        return f"by {self.end:.4g}: {self.stopped}{remedy}"

    @property
    def escape(self) -> float:
        """First time at which some row's correlation with a direction is `LEFT`; inf if not by the end."""
        return float(self.left[1])

    @property
    def of_escape(self) -> tuple[Condition, ...]:
        """Of that time, which is right to `ERROR` unless the row all but rests there."""
        return (passing(float(_near(*self.left)), _PASSED * LEFT**2 / FOUND, LEFT**2),)

    def of_sgd(self, p: int, size: Size, batch: int = 1) -> tuple[Condition, ...]:
        """That SGD finds direction p when the flow does, with steps of this size over the batch (of a schedule, where no law
        is known, of its largest until then).
        """
        own, near = self.of_steps(p, size, batch), float(self.near[p])
        if own is None:
            return kicked(self._largest(p, size) * float(self.kicks[p])), passing(near)
        # (How slow it is there is in the law; by what old gradients make it later, if that is little, in its steps.)
        wider, time = small("curvature", self.wider(p, size, batch), FLUCTUATIONS, _CURVED), float(self.found[p])
        late, parts = (batch * x for x in self.late(p, size) or (0.0, 0.0))
        law = self.law()
        assert law is not None
        sooner = law.sooner(p, size, batch)
        others = [straying(law.lost(p, size)), resting(law.resting(p, size, batch))]
        others += [turning_back(*sooner)] if sooner else []
        return scattered(time + late * (parts <= FLUCTUATIONS * time), own), passing(near, _PASSED), wider, *others

    def of_steps(self, p: int, size: Size, batch: int = 1) -> HittingLaw | None:
        """Mean and spread of SGD's time to direction p, to first order in the size over the batch; None where not known."""
        law = self.law()
        return None if law is None else law.of(p, size, batch)

    def late(self, p: int, size: Size) -> tuple[float, float] | None:
        """By what old gradients make the flow's row later, as a sum of step sizes, and the sum of its parts' sizes; None where
        that is not known.
        """
        law = self.law()
        return None if law is None or law.of(p, size) is None else law.late(p, size)

    def wider(self, p: int, size: Size, batch: int = 1) -> float:
        """By which share whole steps scatter wider than the first order of them, where rows are held; inf if without end."""
        law = self.law()
        half = 0.0 if law is None else self._largest(p, size) * batch * float(law.curvature[p]) / 2
        return half / (1 - half) if half < 1 else np.inf

    def beyond(self, p: int, own: HittingLaw, wider: float) -> float:
        """What `of_steps` may miss of the mean: so many times the squares of its shift and spread, over the time, and what is
        `wider` of both.
        """
        time = float(self.found[p])
        later = abs(own.mean - time)
        return time * (ERROR + _SECOND * ((later / time) ** 2 + (own.std / time) ** 2)) + wider * (later + own.std)

    def spreads(self, p: int, own: HittingLaw, wider: float, size: Size) -> tuple[float, float]:
        """Between which shares of it the spread is: the first order is off by more, where it is a larger share of the time.
        Of rows that stray few runs, which stray far, make it wider.
        """
        moved, law = scattered(float(self.found[p]), own).value, self.law()
        strayed = 0.0 if law is None else _STRAYED * law.strayed(p, size) / own.std
        return 1 / (1 + _NARROWER * moved), (1 + _WIDER * moved) * (1 + wider) + strayed

    def _largest(self, p: int, size: Size) -> float:
        return float(np.max(size(np.linspace(0.0, self.found[p], _INTERVALS)))) if callable(size) else size


def whole_flow(model: DeclaredModel, start: Start) -> Way:
    """All rows from a start, until all directions are found and fitted, or `_WORK` is done.

    Exact in the dimensions of all eigenspaces, for steps that tend to 0 at a fixed sum (`kicked` says how near SGD is).
    Raises `InputError` for models without a flow, for data sets, and for more rows and directions than can be followed.
    """
    if model.rule.samples:
        raise InputError(f"samples is {model.rule.samples}: a fixed data set has no population flow: leave it out")
    speed(model.rule)  # refuses rules without a flow
    # (No step size and no batch is in it.)
    rule = replace(model.rule, step_size=1.0, batch=1)
    target, quadratic = check_target(model.target), is_quadratic(model.loss)
    return _way(model.directions, target, model.student, rule, quadratic, start)


@lru_cache(maxsize=4)  # (each holds its steps, for the law of SGD)
def _way(
    directions: Directions,
    target: Additive | Polynomial,
    student: Student,
    rule: Rule,
    quadratic: bool,
    start: Start,
) -> Way:
    model = DeclaredModel(directions, target, student, rule, Square() if quadratic else Correlation())
    start.check(directions)
    flow = AllRows(model, start)
    evaluations = int(min(_WORK / flow.cost, _MANY))
    if evaluations < _FEW:
        raise InputError(
            f"{start.width} rows and {model.target.count} directions are too many to follow here; run declared-flow"
        )
    watch = _Watch(flow)
    with np.errstate(all="ignore"):  # a trial step may leave the positive; what is not finite ends the way
        end, stopped = _followed(flow, watch, evaluations)
    law = cache(partial(_law, flow, watch.steps, watch.found))
    return Way(
        watch.found,
        watch.rows,
        watch.fitted,
        watch.aligned,
        watch.kicks(),
        _near(watch.sooner, watch.found, watch.later),
        watch.left,
        watch.plateau,
        end,
        stopped,
        law,
    )


def _near(sooner: np.ndarray, found: np.ndarray, later: np.ndarray) -> np.ndarray:
    """`Way.near` of times at a tenth below a level, at it, and above."""
    with np.errstate(invalid="ignore", divide="ignore"):  # (of what is there at once, or never)
        far = np.maximum(found - sooner, later - found) / found
    return np.where(found > 0, far, 0.0)


def _law(flow: AllRows, steps: Steps, found: np.ndarray) -> PassageLaw | None:
    if not steps:  # all directions are there from the start
        return None
    with suppress(InputError), np.errstate(all="ignore"):  # (what is not finite is no law)
        return passage_law(flow, steps, found)
    return None


def _followed(flow: AllRows, watch: "_Watch", evaluations: int) -> tuple[float, str]:
    """The time until which `watch` saw the flow, within so many evaluations, and why not longer.

    Explicit steps are the cheaper where they are as long as the rates allow, and never end where fast rates only hold rows to
    each other (softplus, sigmoid: their mean and slope are fitted at once). So they may take what implicit ones would: the
    way is at most twice the cheaper one.
    """
    implicit = _IMPLICIT + _JACOBIANS * flow.begin.size
    stages = [(scipy.integrate.DOP853, 1.0, evaluations)]
    if 2 * implicit < evaluations:
        stages = [(scipy.integrate.DOP853, 1.0, implicit), (scipy.integrate.BDF, _CLOSER, evaluations)]
    time, y = 0.0, flow.begin
    for method, closer, most in stages:
        solver = method(flow.rate, time, y, _LAST, rtol=_RTOL * closer, atol=_ATOL)
        while not watch.done and flow.evaluations < most and solver.status == "running":
            if not _stepped(solver) or flow.lost(solver.y) or of_no_rows(flow.parts(solver.y)[1], _RTOL):
                return float(solver.t), _LEFT
            watch.see(solver.t_old, solver.t, solver.y, solver.dense_output())
        time, y = float(solver.t), solver.y
    return time, "" if watch.done else AT_REST if time >= _LAST else "so far is it followed"


def _stepped(solver: scipy.integrate.OdeSolver) -> bool:
    """Whether it could make a step. (An implicit one raises an error where a derivative is not finite.)"""
    try:
        return solver.step() is None
    except ValueError:
        return False


def kicked(share: float) -> Condition:
    """That SGD is near the flow's time where its steps add this share to squared norms (of 106 times of random problems, .03
    each, the mean is moved by that share at most, give or take two standard errors, in 101, and the spread is at most 1.1
    times its root, likewise, in 101).
    """
    moved = share + np.sqrt(share)
    sentence = (
        f"fluctuations: steps add {share:.2g} to squared norms by then, and may move SGD by {moved:.2g} of the time"
    )
    return Condition("fluctuations", bool(moved <= FLUCTUATIONS), float(moved), FLUCTUATIONS, sentence)


def passing(near: float, limit: float = FLUCTUATIONS, level: float = FOUND) -> Condition:
    """That a row goes on beyond a squared correlation of `level` (`Way.near`, up to `limit`). Where it comes to rest there, as
    one that leans as much to each of two directions, rounding or a little noise decides when it is there.
    """
    when = f"is there {near:.2g} of the time sooner or later" if np.isfinite(near) else "is not there"
    sentence = f"level: a squared correlation a tenth off {level:g} {when}: the row comes to rest near it"
    return Condition("level", bool(near <= limit), float(near), limit, sentence)


def resting(share: float) -> Condition:
    """That the row goes on beyond a squared correlation of ½ by more than noise takes off it."""
    more = f"level: {share:.2g} more of the runs than the law has are later than {1 + FLUCTUATIONS:g} of the time"
    return Condition("level", share <= _RESTING, share, _RESTING, f"{more}: the row comes to rest near it")


@dataclass
class _Watch:
    """First crossings, from one step of the solver to the next."""

    flow: AllRows
    found: np.ndarray = field(init=False)
    rows: np.ndarray = field(init=False)
    fitted: np.ndarray = field(init=False)
    aligned: np.ndarray = field(init=False)
    sooner: np.ndarray = field(init=False)
    later: np.ndarray = field(init=False)
    left: np.ndarray = field(init=False)
    plateau: np.ndarray = field(init=False)
    steps: Steps = field(default_factory=list)
    _now: float = 0.0

    def __post_init__(self) -> None:
        flow = self.flow
        now = np.abs(flow.correlations(flow.begin))
        self.rows = now.argmax(axis=0)
        self.sooner, self.found, self.later = (
            np.where(now.max(axis=0) >= level, 0.0, np.inf) for level in (_BEFORE, FOUND, _BEYOND)
        )
        self.fitted, self.aligned = (
            np.where(measure(flow.begin) >= FOUND, 0.0, np.inf) for measure in (flow.fit, flow.aligned)
        )
        self.left = np.where(self._leaving(flow.begin) >= FOUND, 0.0, np.inf)
        self.plateau = flow.parts(flow.begin)[1]

    @property
    def done(self) -> bool:
        waiting = np.isinf(self.found) | (np.isinf(self.fitted) & np.isfinite(self.flow.rests))
        slow = np.isinf(self.later) & (self._now <= (1 + _PASSED) * self.found)
        soon = self._now <= (1 + FLUCTUATIONS) * self.found
        return not (waiting | slow | soon).any()

    def see(self, before: float, now: float, y: np.ndarray, between: Callable[[float], np.ndarray]) -> None:
        """What was crossed in a step, which began and ended then."""
        flow = self.flow
        measures = (
            (self._largest, _BEFORE, self.sooner),
            (self._largest, FOUND, self.found),
            (self._largest, _BEYOND, self.later),
            (flow.fit, FOUND, self.fitted),
            (flow.aligned, FOUND, self.aligned),
            (self._leaving, FOUND, self.left),
        )
        for measure, level, times in measures:
            for p in np.flatnonzero(np.isinf(times) & (measure(y) >= level)):
                times[p] = passed_between(partial(_excess, measure, between, level, p), before, now)
                if times is self.found:
                    self.rows[p] = np.abs(flow.correlations(y))[:, p].argmax()
        if before < self.left[1]:
            self.plateau = flow.parts(between(min(now, self.left[1])))[1]
        self._now = now
        if np.isinf(self.found).any() or before < (1 + FLUCTUATIONS) * self.found.max():
            self.steps.append((before, now, between))

    def kicks(self) -> np.ndarray:
        """What steps add to the squared norm of the row that finds each direction, until then, (P,); 0 if none does."""
        return np.array([self._kicked(p) if 0 < self.found[p] < np.inf else 0.0 for p in range(len(self.found))])

    def _kicked(self, p: int) -> float:
        """By Simpson's rule, on a share of the solver's steps and their middles."""
        ends = [before for before, *_ in self.steps if before < self.found[p]]
        kept = np.unique(np.linspace(0, len(ends) - 1, _INTERVALS).round().astype(int))
        nodes = np.append(np.array(ends)[kept], self.found[p])
        rates = [
            self.flow.kick(self.steps[np.searchsorted(ends, t, "right") - 1][2](t), int(self.rows[p]))
            for t in _with_middles(nodes)
        ]
        return float(scipy.integrate.simpson(rates, x=_with_middles(nodes)))

    def _largest(self, y: np.ndarray) -> np.ndarray:
        return np.abs(self.flow.correlations(y)).max(axis=0)

    def _leaving(self, y: np.ndarray) -> np.ndarray:
        """The largest over those of `Way.left`, in units in which `FOUND` is there, (3,)."""
        return self._largest(y).max() * FOUND / (LEFT**2 * np.array([0.9, 1.0, 1.1]))


def _excess(measure: Callable, between: Callable, level: float, p: Any, time: float) -> float:
    return float(measure(between(time))[p] - level)


def _with_middles(nodes: np.ndarray) -> np.ndarray:
    return np.sort(np.concatenate([nodes, (nodes[1:] + nodes[:-1]) / 2]))
