r"""Theory's own picture of the coupled flow: light students that do not see each other, and sharp deflation.

While students are light the rows of the overlap flow decouple (all masses zero). A direction that has been fitted
cancels its teacher for everyone (automatic deflation, arXiv:2504.19983, section 3), so its weight is simply switched off,
a norm lag after its overlap crossed ½. What the full flow has beyond this (masses of light students, the finite time of a
transition) is bounded by moving the switch to its earliest and latest sensible moment.

With deflation switched off this is the flow of the correlation loss: every neuron by itself (the tensor power method).
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dynamics.gradient_flow import IntegrationError, _Recorder, _segment, lowered_overlap_flow, lowered_system
from theory import Activation, InitialState, System, Teacher
from theory.single_task import SingleTask

#: Mass given to the students: small enough that they neither repel nor deflate, large enough to follow its growth.
_MASSLESS = 1e-60
#: Where a partner's transition begins and ends: the share of the norm reached.
_EARLIEST, _LATEST = 0.05, 0.99


@dataclass(frozen=True)
class DeflatedFlow:
    """Attributes (gradient-flow time): half_time (P,), neuron (P,) that reached it (−1: none); overlap (m, P) and growth
    (m,) of the mass, at the end (nan without deflation); off_time (P,) when each weight was switched off.
    """

    half_time: np.ndarray
    neuron: np.ndarray
    off_time: np.ndarray
    overlap: np.ndarray
    growth: np.ndarray


def norm_lag(activation: Activation, teacher: Teacher, norm2: float, share: float = 0.5) -> np.ndarray:
    r"""(P,) time from overlap ½ to `share` of the norm: logistic lag $\frac1{4a\varphi(1)}\ln(\cdot)$; 0 at share 0."""
    if share <= 0:
        return np.zeros(teacher.width)
    task = SingleTask(activation)
    late = np.log(share / (1 - share)) / (4 * teacher.a * float(activation.second_moment))
    return np.array([task.lag(float(a), norm2) for a in teacher.a]) + late


def deflated_flow(
    activation: Activation,
    teacher: Teacher,
    initial: InitialState,
    *,
    t_end: float,
    share: float = 0.5,
    deflate: bool = True,
    rtol: float = 1e-8,
    system: System | None = None,
) -> DeflatedFlow:
    """Integrate decoupled light students with sharp deflation.

    Args:
        share: a direction is switched off when its student's norm has reached this share of its target.
        deflate: False never switches off (correlation loss).
        system: as in `gradient_flow`.
    Raises: `IntegrationError` if the integrator gives up.
    """
    lowered = lowered_overlap_flow(activation) if system is None else lowered_system(system)
    lags = norm_lag(activation, teacher, float(initial.norm2.mean()), share)
    count, width = initial.overlap.shape
    state = {
        "t": jnp.asarray(initial.overlap),
        "c": jnp.eye(count),
        "r": jnp.full(count, _MASSLESS if deflate else 0.0),
    }
    recorder = _Recorder.empty(teacher.a, 0.5)
    recorder.loss_time[:] = 0.0  # only overlaps are watched
    recorder.record(state, 0.0)
    now, weights = 0.0, teacher.a.copy()
    off_time = np.full(width, np.inf)
    while now < t_end:
        due = recorder.half_time + lags if deflate else np.full(width, np.inf)
        due[np.isfinite(off_time)] = np.inf
        target = float(min(due.min(), t_end))
        if target > now:
            args = recorder.args | {"a": jnp.asarray(np.maximum(weights, 0.0))}
            state, reached, _, good = _segment(
                lowered, state, jnp.asarray(now), jnp.asarray(target), args, rtol, 1e-3 * rtol
            )
            if not bool(good):
                raise IntegrationError(f"deflated flow stopped at time {float(reached):g} of {t_end:g}")
            now = float(reached)
            recorder.record(state, now)
        for direction in np.flatnonzero(due <= now):
            weights[direction], off_time[direction] = 0.0, now
    return DeflatedFlow(
        recorder.half_time,
        recorder.neuron,
        off_time,
        np.asarray(state["t"]),
        np.asarray(state["r"]) / _MASSLESS if deflate else np.full(count, np.nan),
    )


@dataclass(frozen=True)
class Bracket:
    """The deflated flow with the switch at half norm, and as early (5 %) and as late (99 %) as it can be."""

    middle: DeflatedFlow
    early: DeflatedFlow
    late: DeflatedFlow

    @property
    def spread(self) -> np.ndarray:
        """(P,) how far the half times move with the moment of the switch."""
        return self.move(lambda flow: flow.half_time)

    def move(self, observable: Callable[[DeflatedFlow], np.ndarray]) -> np.ndarray:
        """How far an observable moves with the moment of the switch, elementwise."""
        middle = observable(self.middle)
        with np.errstate(invalid="ignore"):  # inf − inf: never learned either way
            return np.maximum(np.abs(observable(self.early) - middle), np.abs(observable(self.late) - middle))


def bracket(
    activation: Activation, teacher: Teacher, initial: InitialState, *, t_end: float, system: System | None = None
) -> Bracket:
    """Three deflated flows that bracket the coupled one, light students' masses apart."""
    flows = [
        deflated_flow(activation, teacher, initial, t_end=t_end, share=share, system=system)
        for share in (0.5, _EARLIEST, _LATEST)
    ]
    return Bracket(*flows)
