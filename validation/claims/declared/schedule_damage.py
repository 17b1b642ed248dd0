"""M21: two schedules with equal samples and equal ∫ η, mirrored in the clock: the early large step harms more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from theory.declared.damage import Damage, damage
from theory.declared.rule import Rule
from validation.experiments.passages import case_of, passages
from validation.judge.claim import Control, Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context

COST = 14

#: h3 from one overlap to the other; the two levels over their mean; mean delay as a share of the passage, both levels equal.
_DIM, _START, _LEVEL, _LEVELS, _SHARE = 50, 0.2, 0.8, (1.8, 0.2), 0.08
#: Runs end after this many times the clock of the flow.
_PATIENCE = 3


@dataclass(frozen=True)
class TwoLevels:
    """Step size `first` for `turn` steps, `last` from then on, without an end."""

    first: float
    last: float
    turn: int
    end: None = None

    def __call__(self, step: Any) -> Any:
        """Of step numbers, any shape."""
        return self.first + (self.last - self.first) * (step >= self.turn)

    def sizes(self, clock: float) -> np.ndarray:
        """Step sizes up to a sum of `clock`, (steps,)."""
        later = (clock - self.first * self.turn) / self.last
        return np.asarray(self(np.arange(self.turn + int(np.ceil(later)))), dtype=float)


def _schedules(found: Damage) -> dict[str, TwoLevels]:
    """Each level for half the clock, in either order."""
    mean = _SHARE * found.length / float(found.spans @ found.delay)
    made = {}
    for name, levels in (("falling", _LEVELS), ("rising", _LEVELS[::-1])):
        first, last = (mean * level for level in levels)
        made[name] = TwoLevels(first, last, round(found.length / 2 / first))
    return made


def _spread(clocks: np.ndarray) -> tuple[float, float]:
    """ln of the standard deviation and its standard error, by the fourth moment."""
    centred = clocks - clocks.mean()
    square = float(np.mean(centred**2))
    return float(np.log(square) / 2), float(np.sqrt((np.mean(centred**4) / square**2 - 1) / clocks.size) / 2)


@claim(
    id="M21",
    title="When a step is large matters",
    statement="Of two schedules with equal samples and equal ∫ η the one with large steps late disturbs a passage less.",
    latex=r"\mathrm{Var}\,t=\int_0^T\eta(t)\,N/f^2\,dt,\quad N/f^2\text{ falling in }t",
    source="derived",
    kind="asymptotic",
    regime="one direction, delays small beside the passage",
    controls=("∫ η alone", "annealing helps"),
)
def run_damage(context: Context) -> Iterator[Part]:
    """Spread of the clock at which u passes its level, falling against rising step size, the exact chain."""
    model = case_of("sgd", "h3").model(_DIM, 1.0)
    found, replicas = damage(model, _START, _LEVEL), context.pick(240, 4000)
    spread: dict[str, tuple[float, float, float]] = {}
    shares, delays = [], {}
    for name, schedule in _schedules(found).items():
        sizes = schedule.sizes(_PATIENCE * found.length)
        declared = replace(model, rule=Rule(schedule))
        seed = context.seed_for("M21", name)
        steps = passages(declared, _START, _LEVEL, sizes.size, replicas, seed)
        clocks = np.cumsum(sizes)[np.minimum(steps, sizes.size).astype(int) - 1]
        delay, variance = found.of(sizes)
        spread[name] = (float(np.log(variance)) / 2, *_spread(clocks))
        delays[name] = [delay, float(clocks.mean()) - found.length]
        shares.append(delay / found.length + variance / found.length**2)
    gap, estimate = (spread["falling"][i] - spread["rising"][i] for i in (0, 1))
    controls: Controls = {"∫ η alone": Control(0.0), "annealing helps": Control(-gap)}
    yield Measurement(
        f"ln of the passage clock's spread, falling over rising step size, h3, d = {_DIM}, u = {_START:g} to {_LEVEL:g}",
        gap, estimate, float(np.hypot(spread["falling"][2], spread["rising"][2])), float(np.mean(shares)), controls,
        computed_by(damage, "next order: delay's share of the passage, and the spread's, squared"),
        details={"mean delay, predicted and measured": delays, "ln of the spread, its error": spread},
    )  # fmt: skip
