"""M8: weight decay: what is fitted, what is left, and how much later."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import xarray as xr

from dynamics.declared.flow import declared_flow
from theory import Activation, SingleTask
from theory.declared import weight_decay as theory
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import two_homogeneous
from theory.declared.target import Additive
from theory.one_task.lone_path import lone_path
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context

COST = 6

_H4, _WEIGHTS = Activation.parse("h4"), (1.0, 0.8, 0.6, 0.3)
#: Overlap of a row with its own direction, and with the others: a rival's own time is 100 times as long, beyond every gap that
#: decay opens. The last row has found its direction already, which the larger decay forbids.
_OWN, _OTHER, _DIM, _DECAYS = 0.15, 0.015, 400, (0.3, 0.7)
#: While it searches a row shrinks by six orders of magnitude: absolute errors stay below it.
_NORM2, _RTOL, _ATOL, _TIME, _RECORDS = 1e-3, 1e-9, 1e-15, 40.0, 801


@lru_cache(maxsize=16)
def _flow(decay: float) -> xr.Dataset:
    """Four rows whose rests are orthogonal."""
    P = len(_WEIGHTS)
    on = np.full((P, P), _OTHER) + (_OWN - _OTHER) * np.eye(P)
    on[-1] = np.eye(P)[-1]
    off = np.sqrt(1 - np.sum(on**2, axis=1))[:, None] * np.eye(P)
    start = Start((np.sqrt(_NORM2) * np.concatenate([on, off], axis=1),))
    directions = Directions.orthonormal(Inputs.isotropic(_DIM), P)
    model = DeclaredModel(directions, Additive(_H4, _WEIGHTS), two_homogeneous(_H4, P), Rule(1.0, decay=decay))
    times = np.linspace(0.0, _TIME, _RECORDS)
    flow = declared_flow(model, start, _TIME, times, rtol=_RTOL, atol=_ATOL, system=population_flow(model))
    return flow.dataset


def _loss_time(data: xr.Dataset, place: int, rest: float) -> float:
    """When the row's squared overlap, not normalised, passes half of the norm that is fitted."""
    fitted = data.overlap.values[:, 0, place, place] ** 2
    after = int(np.argmax(fitted > rest / 2))
    ends = slice(after - 1, after + 1)
    return float(np.interp(np.log(rest / 2), np.log(fitted[ends]), data.time.values[ends]))


def _pull(weight: float) -> float:
    """Other directions' share of a row's drift at the start: relative error of its time alone."""
    return (_OTHER / _OWN) ** 4 * sum(_WEIGHTS) / weight


def _alone(weight: float, decay: float) -> float:
    """When a row by itself has fitted half of what it fits."""
    return lone_path(_H4, 1).loss_time(weight, _OWN, _NORM2, decay=decay)


def _late(decay: float, place: int) -> Iterator[Measurement]:
    """By the whole path; and, where the wait is longest, by its closed form for light rows."""
    weight = _WEIGHTS[place]
    half = SingleTask(_H4).half_time(weight, _OWN)
    predicted = _alone(weight, decay)
    rest = float(theory.rest_norms(_H4, [weight], decay)[0])
    pull = _pull(weight) * predicted + _TIME / (_RECORDS - 1)
    wrong: Controls = {
        "no delay": _alone(weight, 0.0),
        "r* = a − κ": _alone(weight, 2 * decay) if decay < weight else Control(np.inf),
        "decay turns": half * (1 + decay) + predicted - half,
    }
    text = f"flow time to half the fitted norm, direction {place + 1} (a = {weight:g}), κ = {decay:g}"
    estimate = _loss_time(_flow(decay), place, rest)
    key = f"{place + 1}-{decay:g}".replace(".", "")
    source = "other directions' share of the drift at the start; the grid of times"
    extra = {"time to overlap ½": half}
    yield Measurement(text, predicted, estimate, 0.0, pull, wrong, source, f"late-{key}", extra)
    if (decay, place) == (_DECAYS[-1], 2):
        # It leaves out the row's own repulsion, which shrinks it by 1 + 2φ(1)r₀/κ more while it searches.
        own = float(np.log1p(2 * _NORM2 / decay)) / (4 * rest)
        law = (_H4, weight, half, _NORM2)
        predicted = theory.loss_time(*law, decay)
        wrong = {"no delay": theory.loss_time(*law, 0.0), "decay turns": predicted + half * decay}
        source = "that, and the row's own repulsion"
        yield Measurement(
            f"{text}, closed form", predicted, estimate, 0.0, pull + own, wrong, source, f"law-{key}", extra
        )


@claim(
    id="M8",
    title="Weight decay: late, less, and a floor",
    statement="Decay κ leaves a_p − κ/2 of each direction, never fits those below κ/2, and delays the rest by κ/(2a − κ).",
    latex=r"r^*=a_p-\tfrac{\kappa}{2\varphi(1)},\quad T^{loss}=T^{sw}+[\ln(r^*/r_0)+2\kappa T^{sw}]/(4\varphi(1)r^*)",
    source="derived",
    kind="asymptotic",
    regime="isotropic inputs, additive target, light 2-homogeneous rows, gradient flow, no rival captured",
    controls=("no delay", "r* = a − κ", "decay turns rows, too", "what decay forbids is fitted"),
)
def run_decay(context: Context) -> Iterator[Part]:
    """Times, norms and loss of the coupled flow, h4, P = m = 4."""
    for decay in _DECAYS:
        for place in range(3) if context.full else (1, 2):
            yield from _late(decay, place)
    data = _flow(_DECAYS[1])
    rests = theory.rest_norms(_H4, _WEIGHTS, _DECAYS[1])
    norms = np.einsum("kk->k", data.gram.values[-1, 0])
    # Half of r* was passed at T^loss, early; what decay forbids falls at least as fast as its linear rate says.
    slow = float(np.exp(-4 * min(rests[:3]) * (_TIME - _alone(0.6, _DECAYS[1]))))
    left = _NORM2 * float(np.exp(4 * (_WEIGHTS[3] - _DECAYS[1] / 2) * _TIME))
    source = "linear rates of the way to rest; the integrator"
    for place, allowance in ((2, slow + 1e3 * _RTOL), (3, left)):
        wrong: Controls = {"what decay": _WEIGHTS[3]} if place == 3 else {"r* = a − κ": 0.0, "no delay": _WEIGHTS[2]}
        text = f"squared norm of row {place + 1} (a = {_WEIGHTS[place]:g}) at time {_TIME:g}, κ = {_DECAYS[1]:g}"
        key = f"norm-{place + 1}"
        yield Measurement(text, float(rests[place]), float(norms[place]), 0.0, allowance, wrong, source, key)
    floor = theory.floor(_H4, _WEIGHTS, _DECAYS[1])
    fitted = theory.floor(_H4, _WEIGHTS[:3], _DECAYS[1])
    forbidden = (_DECAYS[1] / 2) ** 2 / 2  # if its norm were a − κ/2, below zero as that is
    wrong = {"r* = a − κ": theory.floor(_H4, _WEIGHTS, 2 * _DECAYS[1]), "what decay": fitted + forbidden}
    text = f"loss at time {_TIME:g}, κ = {_DECAYS[1]:g}"
    yield Measurement(text, floor, float(data.loss[-1]), 0.0, slow + left, wrong, source, "floor")
