"""M25: the best schedule of SGD on the linear model, by gradient through the exact recursion, against its closed form."""

from collections.abc import Iterator
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


def _scaled(model: LinearModel, shape: np.ndarray) -> float:
    """ln of the risk at the best multiple of a shape."""
    found = optimize.minimize_scalar(
        lambda log: _log_risk(model, np.exp(log) * shape), bounds=(-7, -0.5), method="bounded", options={"xatol": 0.02}
    )
    return float(found.fun)


def _by_gradient(a: float, b: float) -> Iterator[Measurement]:
    model, key = _model(a, b), f"{a:g}-{b:g}".replace(".", "")
    found = [optimal_schedule(model, _BATCH, steps) for steps in _STEPS]
    slopes = np.array([_slope(model, one.step_sizes) for one in found])
    steps = _STEPS[-1]
    falling = 1 - (np.arange(steps) + 0.5) / steps
    power = found[-1].reach / steps * 2 * b * falling ** (2 * b - 1)
    limit, added = map(float, continued(slopes))
    controls: Controls = {
        "constant": 0.0,
        "(1 − t/T)^{2b−1}": Control(1.0, _slope(model, power)),
        "1 − t/T": Control(1.0, _slope(model, 2 * found[-1].reach / steps * falling)),
    }
    law = f"λ = k^−{b:g}, λw*² = k^−{a:g}, batch {_BATCH}"
    yield Measurement(f"slope of ln η on −½ ln K(S), best schedules, {law}", 1.0, limit, 0.0, added, controls, _SOURCE,
                      key=f"{key}-slope", details={"at steps": list(_STEPS), "slopes": slopes.tolist()})  # fmt: skip
    closed = [best_schedule(model, _BATCH, count).step_sizes for count in _STEPS]
    lost = np.array([_log_risk(model, x) - np.log(one.risk) for x, one in zip(closed, found, strict=True)])
    limit, added = map(float, continued(lost))
    wrong = {"constant": np.ones(steps), "1 − t/T": falling}
    controls = {name: Control(0.0, _scaled(model, x) - float(np.log(found[-1].risk))) for name, x in wrong.items()}
    text = f"ln of the risk that the closed form's schedule ends at, over the best one's, {law}"
    yield Measurement(text, 0.0, limit, 0.0, added, controls, _SOURCE, key=f"{key}-lost",
                      details={"at steps": list(_STEPS), "lost": lost.tolist()})  # fmt: skip


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
