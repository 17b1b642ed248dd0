r"""The deflated flow: what a prediction leaves out, computed before any coupled flow is run.

A prediction takes each pair by itself. Beyond it the overlap flow has (1) the other directions that a neuron also leans to,
(2) rivals that go on until a direction is fitted, not found, (3) the pull of the other students. A fitted neuron cancels its
teacher (arXiv:2504.19983, section 3), so each teacher is switched off a norm lag after its direction was found: early, in the
middle or late. (Under weight decay that is later, and what is not fitted goes on to pull.) Students keep the directions of
their residuals as long as they are light, so that the rows t are all there is to integrate. Massless rows have (1) and (2).
With `light`, students pull at each other until they fit what they found, with the norms that each would have by itself
(`theory.one_task.lone_path`), but for a mean of the activation, which all of them fit together: that has (3) to first order
in those norms.

`dynamics.deflated_flow` integrates massless rows of any system, compiled; this is for predictions, in NumPy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from theory.additive import flow as additive
from theory.core.activation import Activation
from theory.core.indexed import Sums, Term, k, q, r
from theory.core.indexed import t as overlaps
from theory.core.initial import InitialState
from theory.core.numeric_sums import NumericSums
from theory.core.teacher import Teacher
from theory.one_task.lone_path import lone_path

_RTOL, _ATOL = 1e-8, 1e-11
#: Largest logarithm of a growth that is followed; and how closely a crossing of squared overlap ½ is located.
_MOST_GROWTH, _LEVEL = 500.0, 1e-6
#: The row that found a direction is light until it has this share of what is fitted.
_LIGHT = 0.05
#: Evaluations of the right-hand side in one flow: some seconds.
_MOST_EVALUATIONS = 60_000


class TooLong(Exception):
    """The rows would take longer to integrate than a prediction should."""


@dataclass(frozen=True)
class DeflatedRows:
    """Attributes: half_time (P,) first gradient-flow time of squared overlap ½, inf if not by the end; neuron (P,) who
    reached it, of several at the start the one that fits it first, −1 for none. loss_time (P,) when all students together have
    half of what is fitted of that direction, inf if never, or switched off before: it is watched where the switch is later
    than half.
    """

    half_time: np.ndarray
    neuron: np.ndarray
    loss_time: np.ndarray


def deflated_rows(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    t_end: float,
    *,
    share: float = 0.5,
    light: bool = False,
    decay: float = 0.0,
) -> DeflatedRows:
    """Integrate the rows to `t_end`, each direction switched off at `share` of what is fitted of it.

    Args:
        decay: weight decay κ. light: with the pull of the students that have found nothing; without, they are massless.
    Raises: `TooLong` beyond some ten thousand evaluations: a student that aligns without ever fitting makes the rows stiff.
    """
    (found,) = rows_by_share(activation, teacher, initial, t_end, (share,), light=light, decay=decay)
    return found


def rows_by_share(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    t_end: float,
    shares: Sequence[float],
    *,
    light: bool = False,
    decay: float = 0.0,
) -> list[DeflatedRows]:
    """`deflated_rows` for each of some shares: until a first direction is found they are one flow, integrated once."""
    flows = [_Flow(activation, teacher, initial, share, light, decay) for share in shares]
    first, start = flows[0], np.concatenate([initial.overlap.ravel(), np.zeros(2 * flows[0].count)])
    for flow in flows:
        flow.switch(0.0, start)
    if np.isfinite(first.half).any() or t_end <= 0:
        return [_followed(flow, 0.0, start, t_end) for flow in flows]
    now, y = _leg(first, 0.0, start, t_end)
    for flow in flows:
        flow.evaluations = first.evaluations
    return [_followed(flow, now, y, t_end) for flow in flows]


def _followed(flow: "_Flow", now: float, y: np.ndarray, t_end: float) -> DeflatedRows:
    """From some state on to the end."""
    while True:
        flow.switch(now, y)
        if now >= t_end:
            return DeflatedRows(flow.half, flow.neuron, flow.fitted)
        now, y = _leg(flow, now, y, min(float(np.minimum(flow.due, flow.light_until).min()), t_end))


def _leg(flow: "_Flow", now: float, y: np.ndarray, until: float) -> tuple[float, np.ndarray]:
    """Time and state where the next direction is found, or `until`."""

    def event(time: float, y: np.ndarray) -> float:
        return max(flow.found(y), flow.fit(y))

    event.terminal, event.direction = True, 1  # type: ignore[attr-defined]
    try:
        done = scipy.integrate.solve_ivp(flow.rate, (now, until), y, "DOP853", events=event, rtol=_RTOL, atol=_ATOL)
    except ValueError as error:  # (weights of 1e-100 and 1e100: between two steps there is no number)
        raise TooLong from error
    if not done.success:
        raise TooLong
    return float(done.t[-1]), done.y[:, -1]


@dataclass(frozen=True)
class _Drift:
    """Of the rows by teachers and by students, and of ln r by teachers alone, as NumPy code."""

    teachers: NumericSums
    students: NumericSums
    growth: NumericSums


@lru_cache(maxsize=64)
def _drift(activation: Activation) -> _Drift:
    flow = additive.overlap_drift()
    parts = {
        massive: Sums(term for term in flow[overlaps[k, q]] if term.body.has(r) is massive) for massive in (False, True)
    }
    relative = [Term(term.body / r[k], term.bound) for term in flow[r[k]]]
    growth = Sums(term for term in relative if not term.body.has(r))
    return _Drift(
        NumericSums(parts[False], (k, q), activation),
        NumericSums(parts[True], (k, q), activation),
        NumericSums(growth, (k,), activation),
    )


class _Flow:
    """One integration. Its vector: rows t, growth Φ of every student, and ∫e^Φ, in this order."""

    def __init__(
        self,
        activation: Activation,
        teacher: Teacher,
        initial: InitialState,
        share: float,
        light: bool,
        decay: float,
    ) -> None:
        self.activation, self.share, self.light, self.decay = activation, share, light, decay
        self.start = initial.norm2
        self.drift, self.repulsion = _drift(activation), 4 * float(activation.second_moment)
        self.mean = 4 * float(activation.squared_mean)
        self.count, self.width = initial.overlap.shape
        self.own, self.weights = teacher.a, teacher.a.copy()
        self.half, self.due, self.fitted, self.light_until = np.full((4, self.width), np.inf)
        self.grown = np.zeros(self.width, bool)
        self.neuron, self.evaluations = np.full(self.width, -1), 0
        self.rests = np.array([lone_path(activation, 1).rest(float(weight), decay) for weight in teacher.a])
        rest = initial.student_overlap - initial.overlap @ initial.overlap.T
        size = np.sqrt(np.maximum(np.diag(rest), 0.0))
        size = np.where(size > 0, size, 1.0)  # (of students within the teachers' span there is none)
        self.rest = rest / np.outer(size, size)  # cosines of the residuals

    def split(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = self.count * self.width
        return y[:size].reshape(self.count, self.width), y[size : size + self.count], y[size + self.count :]

    def rate(self, time: float, y: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        if self.evaluations > _MOST_EVALUATIONS:
            raise TooLong
        with np.errstate(over="ignore", invalid="ignore"):  # of a trial step that is too long: its error is no number
            return self._rate(y)

    def _rate(self, y: np.ndarray) -> np.ndarray:
        t, risen, _ = self.split(y)
        arrays = {"t": t, "a": self.weights}
        velocity = self.drift.teachers(arrays)
        if self.light:
            radius = np.sqrt(np.maximum(1 - np.sum(t**2, axis=1), 0.0))
            cosines = t @ t.T + self.rest * np.outer(radius, radius)
            velocity = velocity + self.drift.students(arrays | {"c": cosines, "r": self.norm2(y, idle=True)})
        growth = self.drift.growth(arrays) - 2 * self.decay
        if self.light and self.mean:
            mass = self.norm2(y)
            mass[self.neuron[self.weights != self.own]] = 0.0  # (with their teachers' part of the mean)
            growth = growth - self.mean * (mass.sum() - mass)
        return np.concatenate([velocity.ravel(), growth, np.exp(np.minimum(risen, _MOST_GROWTH))])

    def norm2(self, y: np.ndarray, idle: bool = False) -> np.ndarray:
        """(m,) squared norms: a student's own holds it back; `idle`: 0 for those that fit what they found."""
        _, risen, waited = self.split(y)
        norm2 = self.start * np.exp(np.minimum(risen, _MOST_GROWTH)) / (1 + self.repulsion * self.start * waited)
        if idle:
            norm2[self.neuron[self.grown]] = 0.0
        return norm2

    def found(self, y: np.ndarray) -> float:
        """Positive once a further direction has squared overlap ½."""
        largest = np.max(self.split(y)[0] ** 2, axis=0)
        return float(np.max(np.where(np.isinf(self.half), largest, 0.0)) - 0.5)

    def fit(self, y: np.ndarray) -> float:
        """Positive once a further direction that is found has half of what is fitted of it."""
        return float(np.max(self.share_of(y, self.waiting), initial=0.0) - 0.5)

    @property
    def waiting(self) -> np.ndarray:
        """Directions, from 0, that are found and can still be fitted: not forbidden by decay, nor switched off; none where
        they are switched off by then.
        """
        open_ = (self.weights == self.own) & (self.rests > 0) & (self.share > 0.5)
        return np.flatnonzero(np.isfinite(self.half) & np.isinf(self.fitted) & open_)

    def share_of(self, y: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """What all students have of `directions`, of what is fitted."""
        return (self.norm2(y) @ self.split(y)[0][:, directions] ** 2) / self.rests[directions]

    def fits(self, at: int, overlap: float, norm2: float, share: float) -> float:
        """How long a row that found a direction takes to fit a share of it; inf if never, as one that leans away may."""
        path = lone_path(self.activation, 1 if overlap > 0 else -1)
        return path.loss_time(float(self.own[at]), overlap, norm2, share, self.decay)

    def switch(self, time: float, y: np.ndarray) -> None:
        """Record what was found and fitted, and switch off what is fitted."""
        t, norm2 = self.split(y)[0], self.norm2(y)
        for at in np.flatnonzero(np.isinf(self.half) & (np.max(t**2, axis=0) >= 0.5 - _LEVEL)):
            there = np.flatnonzero(t[:, at] ** 2 >= 0.5 - _LEVEL)
            fits = [self.fits(int(at), float(t[row, at]), float(norm2[row]), self.share) for row in there]
            winner = there[np.lexsort((-(t[there, at] ** 2), fits))[0]]  # (if none fits, the nearest)
            self.half[at], self.neuron[at], self.due[at] = time, winner, time + min(fits)
            self.light_until[at] = time + self.fits(int(at), float(t[winner, at]), float(norm2[winner]), _LIGHT)
        self.grown |= self.light_until <= time
        self.light_until[self.grown] = np.inf
        done = self.waiting
        self.fitted[done[self.share_of(y, done) >= 0.5 - _LEVEL]] = time
        for at in np.flatnonzero(self.due <= time):
            self.weights[at], self.due[at] = self.own[at] - self.rests[at], np.inf
