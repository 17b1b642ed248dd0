"""M25: the best schedule of SGD on the linear model, by gradient through the exact recursion, against its closed form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import optimize

from dynamics.declared.optimal_schedule import optimal_schedule
from theory.declared.linear_model import LinearModel
from theory.declared.optimal_schedule import best_schedule, exponents, least_risk, noise_kept, power_law
from theory.declared.rule import Rule
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.exponents import continued

COST = 10

_BATCH = 4
#: (a, b), both with the full preset, and steps.
_LAWS, _STEPS = ((2.5, 1.5), (3.0, 1.25)), (200, 400, 800)
#: Steps at which the closed form's exponents are taken, and modes (ever so many).
_LONG, _MODES = (10**3, 10**5, 10**7), 200_000
_SOURCE = "what continuing the change from one number of steps to the next adds"


@dataclass(frozen=True)
class Given:
    """A schedule as a list. Attributes: sizes: (T,)."""

    sizes: tuple[float, ...]

    @property
    def end(self) -> int:
        """T."""
        return len(self.sizes)

    def __call__(self, step: np.ndarray) -> np.ndarray:
        """Of step numbers, any shape."""
        return np.asarray(self.sizes)[step]


@cache
def _model(a: float, b: float) -> LinearModel:
    return power_law(3000, a, b)


def _log_risk(model: LinearModel, sizes: np.ndarray) -> float:
    """By the exact recursion."""
    path = model.path(Rule(Given(tuple(sizes)), batch=_BATCH), sizes.size)
    return float(np.log(path[-1] @ model.eigenvalues))


def _slope(model: LinearModel, sizes: np.ndarray) -> float:
    """Of ln η on −½ ln K(S), S the steps still to come from the middle of each."""
    reach = np.cumsum(sizes[::-1])[::-1] - sizes / 2
    return float(np.polyfit(-0.5 * np.log(noise_kept(model, reach)), np.log(sizes), 1)[0])


def _scaled(model: LinearModel, shape: np.ndarray) -> tuple[float, float]:
    """Best multiple of a shape: ln of the risk, and the sum of its step sizes."""
    found = optimize.minimize_scalar(
        lambda log: _log_risk(model, np.exp(log) * shape), bounds=(-7, -0.5), method="bounded", options={"xatol": 0.02}
    )
    return float(found.fun), float(np.exp(found.x) * shape.sum())


def _by_gradient(a: float, b: float) -> Iterator[Measurement]:
    model, key = _model(a, b), f"{a:g}-{b:g}".replace(".", "")
    found = [optimal_schedule(model, _BATCH, steps) for steps in _STEPS]
    slopes = np.array([_slope(model, one.step_sizes) for one in found])
    steps = _STEPS[-1]
    falling = 1 - (np.arange(steps) + 0.5) / steps
    power = found[-1].reach / steps * 2 * b * falling ** (2 * b - 1)
    controls: Controls = {
        "constant": 0.0,
        "(1 − t/T)^{2b−1}": Control(1.0, _slope(model, power)),
        "1 − t/T": Control(1.0, _slope(model, 2 * found[-1].reach / steps * falling)),
    }
    law = f"λ = k^−{b:g}, λw*² = k^−{a:g}, batch {_BATCH}"
    text = f"slope of ln η on −½ ln K(S), best schedules, {law}"
    yield _limit(text, 1.0, slopes.tolist(), controls, f"{key}-slope")
    closed = [best_schedule(model, _BATCH, count) for count in _STEPS]
    lost = [_log_risk(model, x.step_sizes) - np.log(one.risk) for x, one in zip(closed, found, strict=True)]
    shapes = {"constant": np.ones(steps), "1 − t/T": falling}
    wrong = {name: _scaled(model, shape) for name, shape in shapes.items()}
    text = f"ln of the risk that the closed form's schedule ends at, over the best one's, {law}"
    best = float(np.log(found[-1].risk))
    yield _limit(text, 0.0, lost, {name: Control(0.0, risk - best) for name, (risk, _) in wrong.items()}, f"{key}-lost")
    reach = [one.reach / x.reach for x, one in zip(closed, found, strict=True)]
    text = f"sum of the best schedule's step sizes over the closed form's, {law}"
    controls = {"constant": Control(1.0, wrong["constant"][1] / closed[-1].reach)}
    yield _limit(text, 1.0, reach, controls, f"{key}-constant")
    told = [np.log(least_risk(model, _BATCH, count)[0]) for count in _STEPS]
    text = f"ln of the best schedule's risk over the closed form's, {law}"
    controls = {"constant": Control(0.0, wrong["constant"][0] - float(told[-1]))}
    yield _limit(
        text, 0.0, [np.log(one.risk) - x for x, one in zip(told, found, strict=True)], controls, f"{key}-least"
    )


def _limit(text: str, predicted: float, values: Sequence[float], controls: Controls, key: str) -> Measurement:
    """Where the values at `_STEPS` go."""
    limit, added = map(float, continued(values))
    details = {"at steps": list(_STEPS), "values": [float(x) for x in values]}
    return Measurement(text, predicted, limit, 0.0, added, controls, _SOURCE, key=key, details=details)


def _in_the_limit(a: float, b: float) -> Iterator[Measurement]:
    model = power_law(_MODES, a, b, bins=6)
    pairs = [np.log([least_risk(model, _BATCH, T) for T in (steps, 2 * steps)]) for steps in _LONG]
    slopes = np.array([(second - first) / np.log(2) for first, second in pairs])
    predicted = exponents(a, b)
    for place, name in enumerate(("risk", "reach")):
        limit, added = map(float, continued(slopes[:, place]))
        yield Measurement(
            f"exponent in T of the best schedule's {name} S₀" if place else "exponent in T of the best schedule's risk",
            predicted[name], limit, 0.0, added, {"constant": predicted[f"constant {name}"]}, _SOURCE,
            key=f"{a:g}-{b:g}-{name}".replace(".", ""),
            details={"at steps": list(_LONG), "exponents": slopes[:, place].tolist()},
        )  # fmt: skip


@claim(
    id="M25",
    title="The best schedule of the linear model",
    statement="The best step size is inverse to √K of the steps still to come; the risk falls as a power of their number.",
    latex=r"\eta\propto1/\sqrt{K(S)},\quad S_0\propto T^{b/a},\quad R\propto T^{-(a-1)/a}",
    source="derived; the linear model: arXiv:2405.15074",
    kind="asymptotic",
    regime="label noise, power-law spectrum and target, many steps",
    controls=("constant step size", "(1 − t/T)^{2b−1} at this T", "1 − t/T"),
)
def run_schedule(context: Context) -> Iterator[Part]:
    """L-BFGS through 200, 400 and 800 steps of the exact recursion; the closed form up to 10⁷ steps."""
    for a, b in _LAWS if context.full else _LAWS[:1]:
        yield from _by_gradient(a, b)
        yield from _in_the_limit(a, b)
