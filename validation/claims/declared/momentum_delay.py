"""M32: by how much momentum delays the mean path, at first order in the step."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from theory import Activation, SingleTask
from theory.declared import modified_equation as modified
from theory.declared.modified_equation import memory
from theory.declared.rule import Momentum
from validation.judge.claim import Controls, Measurement, claim
from validation.judge.context import Context
from validation.statistics.exponents import continued

COST = 2

_BEGIN, _END = 0.35, 0.7
#: Steps h, each half of the one before.
_STEPS = (4e-3, 2e-3, 1e-3, 5e-4)
_SOURCE = "what continuing the change from one step to the next adds"


def _passage(force: Callable[[float], float], step: float, beta: float, ahead: bool) -> float:
    """Clock h·n of the steps u' = βu + F(w), w' = w + η(u' or F + βu') to `_END`; η = h(1 − β)."""
    at, velocity, count, before = _BEGIN, 0.0, 0, _BEGIN
    while at < _END:
        before, pull = at, force(at)
        velocity = beta * velocity + pull
        at += step * (1 - beta) * (pull + beta * velocity if ahead else velocity)
        count += 1
    return step * (count - (at - _END) / (at - before))


@claim(
    id="M32",
    title="Momentum's delay of the mean path",
    statement="In the clock h·n momentum passes later than plain SGD with step h, by its lag times 1 + ln F₁/F₀.",
    latex=r"hn(\beta)-hn(0)\simeq\ell h(1+\ln F_1/F_0)",
    source="derived; Polyak 1964 (heavy ball), Nesterov 1983",
    kind="asymptotic",
    regime="h to 0, a start at rest; the mean drift of h3 at a small norm, without noise",
    controls=("no ln F₁/F₀", "no lag at the start", "lag 1/(1 − β)"),
)
def run_delay(context: Context) -> Iterator[Measurement]:
    """Passages of overlap 0.35 to 0.7 by heavy ball and Nesterov's momentum against plain steps."""
    task = SingleTask(Activation.parse("h3"))
    force = partial(_interpolated, *_table(task))
    plain = [_passage(force, step, 0.0, False) for step in _STEPS]
    ends = {modified.F_begin: float(task.speed(_BEGIN, 1.0)), modified.F_end: float(task.speed(_END, 1.0))}
    for kind, beta in (("heavy", 0.5), ("heavy", 0.9), ("nesterov", 0.8)):
        own = memory(Momentum(1.0, beta=beta, kind=kind))
        predicted = float(modified.delay().subs({**ends, modified.lag: own.lag, modified.h: 1}))
        later = [_passage(force, step, beta, kind == "nesterov") for step in _STEPS]
        delays = (np.array(later) - np.array(plain)) / np.array(_STEPS)
        limit, added = map(float, continued(delays))
        controls: Controls = {
            "no ln F₁/F₀": own.lag,
            "no lag at the start": predicted - own.lag,
            "lag 1/(1 − β)": predicted / own.lag / (1 - beta),
        }
        text = f"delay of the passage over the step h, {kind}, β = {beta:g}, h3, overlap {_BEGIN:g} to {_END:g}, h to 0"
        key, details = f"{kind}-{beta:g}".replace(".", ""), {"values": delays.tolist()}
        yield Measurement(text, predicted, limit, 0.0, added, controls, _SOURCE, key, details)


def _table(task: SingleTask) -> tuple[np.ndarray, np.ndarray]:
    at = np.linspace(_BEGIN, _END + 0.1, 4001)
    return at, np.asarray(task.speed(at, 1.0))


def _interpolated(at: np.ndarray, speed: np.ndarray, u: float) -> float:
    return float(np.interp(u, at, speed))
