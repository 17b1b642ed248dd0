"""Coupled flows that several claims look at, run once per context."""

from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from dynamics import DeflatedFlow, FlowResult, gradient_flow
from dynamics.additive.deflated_flow import Bracket, bracket, deflated_flow
from dynamics.additive.gradient_flow import overlaps_of
from dynamics.core.lowering import lower
from theory import (
    Activation,
    InitialState,
    Prediction,
    SingleTask,
    Student,
    System,
    Teacher,
    draw_initial_state,
    overlap_flow,
    predict,
    scores,
)
from theory.prediction.validity import finite_size_share
from validation.judge.context import Context
from validation.judge.under_test import once

WIDTH, STUDENTS, DECAY = 8, 32, 1.0
#: A direction counts as well separated if it is clear of ties by this factor, and by three times the finite-size
#: correction M₀ ln(1/M₀) of its own emergence time, which is by how much finite size can reorder two scores.
SEPARATED = 1.1


@dataclass(frozen=True)
class CoupledRun:
    """One start: prediction, coupled flow, theory's decoupled flow with its bracket, and the light students' pull.

    Attributes:
        bracket: theory's deflated flow, with the switch early, in the middle and late.
        light: (P,) the light students' part of the winner's initial drift over the teachers' part: a relative error of
            the deflated flow, which has massless students. others: (P,) what the other teachers take of that drift.
    """

    prediction: Prediction
    initial: InitialState
    flow: FlowResult
    bracket: Bracket
    light: np.ndarray
    others: np.ndarray
    t_end: float

    @property
    def deflated(self) -> DeflatedFlow:
        return self.bracket.middle

    @property
    def spread(self) -> np.ndarray:
        return self.bracket.spread

    @property
    def separated(self) -> np.ndarray:
        """(P,) bool: clear of ties, and learned whenever the deflation switch acts."""
        return well_separated(self.prediction) & np.isfinite(self.spread)


def well_separated(prediction: Prediction) -> np.ndarray:
    """(P,) bool: learned, and clear of ties by more than finite size can reorder."""
    return prediction.learned & (prediction.lead >= _least_lead(prediction))


def _least_lead(prediction: Prediction) -> np.ndarray:
    """(P,) the ratio of scores from which on finite size does not reorder them."""
    return np.maximum(SEPARATED, 1 + finite_size_share(prediction.overlap**2))


def rivalry(prediction: Prediction, initial: InitialState) -> np.ndarray:
    """(P,) the largest other score of each direction's neuron, or of the direction, over the pair's own; inf where none wins.

    Those that are taken by the pair's turn count, too: below 1 the neuron is ahead in its direction, and the direction in it.
    """
    score = scores(initial.overlap, prediction.teacher, prediction.activation.information_exponent)
    found = np.full(prediction.teacher.width, np.inf)
    for q in np.flatnonzero(prediction.neuron >= 0):
        k = prediction.neuron[q]
        others = np.concatenate([np.delete(score[k], q), np.delete(score[:, q], k)])
        found[q] = others.max(initial=0.0) / score[k, q]
    return found


def leads_throughout(prediction: Prediction, initial: InitialState) -> np.ndarray:
    """(P,) bool: well separated, and the pair leads all others of its neuron and its direction from the start, as clearly."""
    return well_separated(prediction) & (rivalry(prediction, initial) * _least_lead(prediction) <= 1)


def coupled_start(context: Context, dim: int, number: int, init_scale: float = 0.03) -> tuple[InitialState, Prediction]:
    """The start of that number of `coupled_run`, and what theory says of it."""
    return _coupled_start(context, dim, number, init_scale)


@lru_cache(maxsize=64)
def _coupled_start(context: Context, dim: int, number: int, init_scale: float) -> tuple[InitialState, Prediction]:
    teacher = Teacher.power_law(WIDTH, DECAY, dim)
    rng = context.rng("coupled flow", "start", dim, number, f"{init_scale:g}")
    initial = draw_initial_state(teacher, Student(STUDENTS, init_scale), rng)
    return initial, predict(Activation.parse("h4"), teacher, initial)


def coupled_run(context: Context, dim: int, seed: int, init_scale: float = 0.03) -> CoupledRun:
    """h4, P = 8, m = 32, β = 1: everything theory and the integrator say about one start."""
    return _coupled_run(context, dim, seed, init_scale)  # a cache tells a default from the same value given


@lru_cache(maxsize=64)
def _coupled_run(context: Context, dim: int, seed: int, init_scale: float) -> CoupledRun:
    initial, prediction = coupled_start(context, dim, seed, init_scale)
    activation, teacher = prediction.activation, prediction.teacher
    system = once(overlap_flow, activation)
    t_end = 1.25 * prediction.last_time
    flow = gradient_flow(activation, teacher, initial, t_end=t_end, times=_times(prediction, t_end), system=system)
    deflated = bracket(activation, teacher, initial, t_end=t_end, system=system)
    light, others = (pull(prediction, initial, system) for pull in (light_pull, teachers_pull))
    return CoupledRun(prediction, initial, flow, deflated, light, others, t_end)


def _times(prediction: Prediction, t_end: float) -> np.ndarray:
    """Geometric times from well before the first emergence."""
    first = float(np.min(prediction.time_half[prediction.learned]))
    return np.geomspace(0.2 * first, t_end, 240)


def _first_rates(prediction: Prediction, initial: InitialState, system: System) -> tuple[np.ndarray, np.ndarray]:
    """(2, P) of each winner's overlap at the start its rate, and the same if no student had mass; NaN where none wins."""
    lowered, state, a = lower(system), overlaps_of(initial), {"a": jnp.asarray(prediction.teacher.a)}
    places = np.arange(prediction.teacher.width)
    full, massless = (
        np.asarray(lowered.drift(one, a)["t"])[prediction.neuron, places]
        for one in (state, state | {"r": 0.0 * state["r"]})
    )
    return np.where(prediction.neuron >= 0, full, np.nan), np.where(prediction.neuron >= 0, massless, np.nan)


def light_pull(prediction: Prediction, initial: InitialState, system: System) -> np.ndarray:
    """(P,) the light students' part of each winner's initial drift over the teachers' part, in absolute value; 0 for none."""
    full, massless = _first_rates(prediction, initial, system)
    return np.nan_to_num(np.abs((full - massless) / massless))


def teachers_pull(prediction: Prediction, initial: InitialState, system: System) -> np.ndarray:
    """(P,) by which share the other teachers hold each winner back at the start, in absolute value; 0 where none wins."""
    _, massless = _first_rates(prediction, initial, system)
    alone = once(SingleTask, prediction.activation).speed(prediction.overlap, 1.0) * prediction.teacher.a
    return np.nan_to_num(np.abs(massless / alone - 1))


@lru_cache(maxsize=16)
def without_deflation(context: Context, dim: int, seed: int) -> DeflatedFlow:
    """The same start if learned directions were never cancelled (correlation loss)."""
    run = coupled_run(context, dim, seed)
    teacher = run.prediction.teacher
    activation = run.prediction.activation
    return deflated_flow(
        activation, teacher, run.initial, t_end=run.t_end, deflate=False, system=once(overlap_flow, activation)
    )
