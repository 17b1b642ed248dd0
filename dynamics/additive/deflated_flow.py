r"""Theory's own picture of the coupled flow: light students that do not see each other, and sharp deflation.

While students are light the rows of the overlap flow decouple (all masses zero). A direction that has been fitted
cancels its teacher for everyone (automatic deflation, arXiv:2504.19983, section 3), so its weight is simply switched off,
a norm lag after its overlap crossed ½. What the full flow has beyond this (masses of light students, the finite time of a
transition) is bounded by moving the switch to its earliest and latest sensible moment.

With deflation switched off this is the flow of the correlation loss: every neuron by itself (the tensor power method).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dynamics.additive.gradient_flow import Recorder, lowered_overlap_flow, segment
from dynamics.core.flow import MOST_STEPS
from dynamics.core.lowering import lower
from dynamics.core.precision import double_precision
from dynamics.core.trajectory import TIME, Plotted, ends, variable
from theory import Activation, InitialState, System, Teacher
from theory.one_task.lone_path import lone_path

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

#: Mass given to the students: small enough that they neither repel nor deflate, large enough to follow its growth.
_MASSLESS = 1e-60
#: Where a partner's transition begins and ends: the share of the norm reached.
_EARLIEST, _LATEST = 0.05, 0.99


@dataclass(frozen=True)
class DeflatedFlow(Plotted):
    """Attributes (gradient-flow time): half_time (P,), neuron (P,) that reached it (−1: none); overlap (m, P) and growth
    (m,) of the mass, at the end (nan without deflation); off_time (P,) when each weight was switched off; dataset, the same
    by name.
    """

    half_time: np.ndarray
    neuron: np.ndarray
    off_time: np.ndarray
    overlap: np.ndarray
    growth: np.ndarray

    @cached_property
    def dataset(self) -> "xr.Dataset":  # type: ignore[override]
        """The numbers of the flow by name."""
        import xarray as xr

        off = "time at which the direction is switched off, inf if never"
        end = "overlap of student neuron and teacher direction at the end"
        values = {
            "off_time": variable("direction", self.off_time, off, TIME),
            "overlap": variable(("neuron", "direction"), self.overlap, end),
            "growth": variable("neuron", self.growth, "growth of the neuron's mass, nan without deflation"),
        }
        count, width = self.overlap.shape
        known = ends(half_time=self.half_time, half_neuron=self.neuron)
        return xr.Dataset(known | values, {"direction": np.arange(1, width + 1), "neuron": np.arange(count)})

    def plot(self, *variables: str, over: str = "", log: str | None = None) -> "Figure":
        """When each direction emerges and when it is switched off; with variables, these, as `Plotted.plot`."""
        from matplotlib.ticker import MaxNLocator

        from dynamics.core.plot import Plot, colours

        if variables or over:
            return super().plot(*variables, over=over, log=log)
        plot, direction = Plot("direction", TIME, "y" if log is None else log), self.dataset.direction
        times = {"squared overlap reaches ½": self.half_time, "switched off": self.off_time}
        for (name, time), colour in zip(times.items(), colours(len(times)), strict=True):
            plot.points(direction, np.where(np.isfinite(time), time, np.nan), name, colour)
        plot.ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        return plot.done()


def norm_lag(activation: Activation, weight: float, overlap: float, norm2: float, share: float) -> float:
    """Time from squared overlap ½, on the side of `overlap`, with the given norm, to `share` of the target; 0 at share 0."""
    half = float(np.copysign(np.sqrt(0.5), overlap))
    return 0.0 if share <= 0 else lone_path(activation, 1 if overlap > 0 else -1).loss_time(weight, half, norm2, share)


def _norm2(activation: Activation, start: float, growth: float, time: float) -> float:
    """A student's squared norm: what it has grown by, held back by its own repulsion on the plateau (`derive norm`)."""
    return start * growth / (1 + 4 * float(activation.second_moment) * start * time)


@double_precision
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
    lowered = lowered_overlap_flow(activation) if system is None else lower(system)
    count, width = initial.overlap.shape
    state = {
        "t": jnp.asarray(initial.overlap),
        "c": jnp.eye(count),
        "r": jnp.full(count, _MASSLESS if deflate else 0.0),
    }
    recorder = Recorder.empty(teacher.a, 0.5)
    recorder.loss_time[:] = 0.0  # only overlaps are watched
    recorder.record(state, 0.0)
    now, weights = 0.0, teacher.a.copy()
    due, off_time = np.full(width, np.inf), np.full(width, np.inf)
    while now < t_end:
        target = float(min(due.min(), t_end))
        if target > now:
            args = recorder.args | {"a": jnp.asarray(np.maximum(weights, 0.0))}
            found = segment(lowered, state, now, target, args, rtol, 1e-3 * rtol, max_steps=MOST_STEPS)
            found.check("deflated flow", t_end)
            state, now = found.state, float(found.time)
            recorder.record(state, now)
        for q in np.flatnonzero(np.isfinite(recorder.half_time) & np.isinf(due) & np.isinf(off_time) & deflate):
            k = int(recorder.neuron[q])
            norm2 = _norm2(activation, float(initial.norm2[k]), float(state["r"][k]) / _MASSLESS, now)
            due[q] = now + norm_lag(activation, float(teacher.a[q]), float(state["t"][k, q]), norm2, share)
        for q in np.flatnonzero(due <= now):
            weights[q], off_time[q], due[q] = 0.0, now, np.inf
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


@double_precision
def bracket(
    activation: Activation, teacher: Teacher, initial: InitialState, *, t_end: float, system: System | None = None
) -> Bracket:
    """Three deflated flows that bracket the coupled one, light students' masses apart."""
    flows = [
        deflated_flow(activation, teacher, initial, t_end=t_end, share=share, system=system)
        for share in (0.5, _EARLIEST, _LATEST)
    ]
    return Bracket(*flows)
