r"""Closed-form predictions for one problem: who learns what, when, and the staircase loss. No integration.

Each formula has its own module: `theory.prediction.greedy`, `theory.prediction.deflation`, `theory.one_task.lone_path`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.core.initial import InitialState
from theory.core.teacher import Teacher
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import HittingLaw, hitting_distribution
from theory.one_task.lone_path import lone_path
from theory.one_task.plateau import plateau
from theory.one_task.single_task import SingleTask
from theory.one_task.stability import largest_held_by_all
from theory.one_task.whole_step import LightStep
from theory.prediction.greedy import Selection, exact_scores, select
from theory.scaling import ideal_loss


@dataclass(frozen=True)
class Prediction:
    """Per direction (arrays of shape (P,), inf or −1 where a direction is not learned); gradient-flow time.

    Attributes:
        neuron: greedily selected neuron, −1 if none.
        overlap: its signed initial overlap (nan if none).
        time_leading: T_p (nan for an information exponent below 3).
        time_half: exact time to squared overlap ½, all degrees.
        time_loss: exact one-task time to half of what is fitted at +e of this direction, the norm's own decay included; inf
            of a neuron that turns to −e and fits less of it.
        lead: by which factor the greedy pair is clear of any tie (see `Selection.lead`); near 1: a tie.
        selection: the greedy pairs in the order of learning.
        initial: the start it was made from. What must hold for these numbers, and how far they may be off, says
            `theory.prediction.validity`.
        decay: weight decay κ of the students, which turns none of them. noise: deviation ς of Gaussian noise on the labels,
            which flows do not see.
    """

    teacher: Teacher
    activation: Activation
    neuron: np.ndarray
    overlap: np.ndarray
    time_leading: np.ndarray
    time_half: np.ndarray
    time_loss: np.ndarray
    lead: np.ndarray
    selection: Selection
    initial: InitialState
    decay: float = 0.0
    noise: float = 0.0

    @property
    def total(self) -> float:
        r"""$A=\sum_pa_p^2+\varsigma^2/E\sigma^2$: the labels' mean square, in units of Eσ². For a step
        of SGD their noise is that of one more direction (to the leading order in d).
        """
        return float(np.sum(self.teacher.a**2)) + self.noise**2 / float(self.activation.second_moment)

    @property
    def learned(self) -> np.ndarray:
        """(P,) bool: directions with a finite predicted time."""
        return np.isfinite(self.time_half)

    @property
    def last_time(self) -> float:
        """The last finite time at which a direction is found or fitted (some are found only: at −e, or under decay).

        Raises `InputError` if none is after the start.
        """
        times = np.concatenate([self.time_half, self.time_loss])
        finite = times[np.isfinite(times) & (times > 0)]
        if finite.size == 0:
            raise InputError(
                f"activation {self.activation.name!r}: no direction is predicted to be learned from this start; "
                "raise student width or change seed"
            )
        return float(finite.max())

    def loss(self, times: np.ndarray) -> np.ndarray:
        """Idealised loss, ½φ(1)Σa²·1{t < time_loss} for an activation without mean (see `theory.scaling.ideal_loss`).

        What weight decay leaves of a fitted direction is not in it.
        """
        moments = float(self.activation.second_moment), float(self.activation.squared_mean)
        return ideal_loss.staircase(times, self.time_loss, self.teacher.a, *moments)

    def stability_bound(self, batch: int = 1) -> tuple[float, int]:
        """Largest step size at which the drift still grows every selected overlap, and the direction that sets it.

        Raises `InputError` if no direction is predicted to be learned.
        """
        index = np.flatnonzero(self.learned)
        if index.size == 0:
            raise InputError("stability bound: no direction is predicted to be learned from this start")
        pairs = self.teacher.a[index], self.overlap[index]
        bound, worst = plateau(self.activation).stability_bound(*pairs, self.total, self.teacher.dim, batch)
        return bound, int(index[worst])

    def largest_held(self, batch: float = 1) -> float:
        """The step size from which runs are thrown off what they have found (`theory.one_task.stability`), all selected
        directions together; inf if there is none.
        """
        return largest_held_by_all(self.activation, self.teacher.a[self.learned].tolist(), self.teacher.dim, batch)

    @property
    def takes_whole_steps(self) -> bool:
        """Whether `sgd_law` is of whole steps: of a polynomial activation (of others the quadrature may be off)."""
        return self.activation.is_polynomial and self.teacher.dim > 2

    @property
    def has_sgd_law(self) -> bool:
        """Whether `sgd_law` is of SGD: from information exponent 3 on, and of one direction by whole steps."""
        return self.activation.information_exponent >= 3 or (self.takes_whole_steps and self.teacher.width == 1)

    def diffusion(self, direction: int, step_size: float, batch: int = 1) -> LightStep | OneTaskDiffusion:
        """Of this direction's overlap under SGD, on its own: of whole steps (`theory.one_task.whole_step`) for a polynomial
        activation, else of the second order in η.
        """
        activation, weight, dim = self.activation, float(self.teacher.a[direction]), self.teacher.dim
        if self.takes_whole_steps:
            return LightStep(activation, weight, step_size, self.total, dim, batch=batch)
        return OneTaskDiffusion(activation, weight, step_size, self.total, dim, batch)

    def behind(self, direction: int) -> float:
        """Steps by which whole ones are behind the flow at squared overlap ½ (`SingleTask.step_lag`), and half a one, for the
        first that is there is beyond; 0 where the flow has no time. Of means of many samples; few matter where steps are few.
        """
        start, time = float(self.overlap[direction]), float(self.time_half[direction])
        if not 0 < time < np.inf:
            return 0.0
        task = _single_task(self.activation)
        end = float(np.copysign(0.5**0.5, task.speed(start, float(self.teacher.a[direction]))))
        return task.step_lag(start, end) + 0.5

    def steps_half(self, direction: int, time: float, step_size: float) -> float:
        """Steps of the flow to squared overlap ½, which takes it `time`: what whole ones are `behind` is in it. None at 0."""
        return time / step_size + (self.behind(direction) if time > 0 else 0.0)

    def sgd_law(self, direction: int, step_size: float, batch: int = 1, end: int = 0) -> HittingLaw:
        """Mean and spread of this direction's emergence time under SGD, from its `diffusion` and what steps are `behind`, and
        the share of the runs that turn to −e: of all runs (`end` 0), or of those alone that end at ±e (`end` ±1). Of runs with
        few samples beside the kurtosis of a kick its spread is too large: where, `of_noise` says
        (`theory.prediction.validity`), and what else must hold, `of_step`.
        """
        diffusion = self.diffusion(direction, step_size, batch)
        law = hitting_distribution(diffusion, float(self.overlap[direction])).moments(end)
        return replace(law, mean=law.mean + step_size * self.behind(direction))


@lru_cache(maxsize=64)
def _single_task(activation: Activation) -> SingleTask:
    """The derived single task, with its compiled functions, made once per activation."""
    return SingleTask(activation)


def predict(
    activation: Activation, teacher: Teacher, initial: InitialState, decay: float = 0.0, noise: float = 0.0
) -> Prediction:
    """Greedy selection by the exact one-task times, then the times of the selected pairs; with weight decay κ = `decay`. The
    `noise` of labels counts in what is of SGD.

    Raises `InputError` for negative weights of an activation that is not even: students find such a direction at −e, or by its
    even degrees, which no closed form here has.
    """
    if np.any(teacher.a < 0) and activation.parity != "even":
        raise InputError(
            f"teacher weight {teacher.a.min():.3g} is negative and activation {activation.name!r} is not even: give positive "
            "weights (an odd one's direction, reflected, has one), or run gradient_flow"
        )
    task = _single_task(activation)
    overlap = initial.overlap
    selection = select(exact_scores(overlap, teacher, activation))
    neuron = selection.neuron_of(teacher.width)
    count = teacher.width
    start, leading, half, loss, lead = (np.full(count, fill) for fill in (np.nan, np.nan, np.inf, np.inf, np.nan))
    lead[selection.directions] = selection.lead
    norm2 = initial.norm2
    for direction in selection.directions:
        weight, own = float(teacher.a[direction]), float(overlap[neuron[direction], direction])
        start[direction] = own
        if activation.information_exponent >= 3:
            leading[direction] = task.leading_time(weight, own)
        half[direction] = task.half_time(weight, own)
        within = own * (1 - 1e-9)  # a row that lies on ±e does not turn: it is there where its neighbours come to
        end = 1 if float(task.speed(within, weight)) > 0 else -1
        loss[direction] = lone_path(activation, end).loss_time(
            weight, own, float(norm2[neuron[direction]]), decay=decay, half=float(half[direction])
        )
    return Prediction(teacher, activation, neuron, start, leading, half, loss, lead, selection, initial, decay, noise)
