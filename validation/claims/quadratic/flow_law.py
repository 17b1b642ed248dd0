"""Q23: the flow of the ordinary student from random columns, norms included: when directions are fitted, and the loss.

The law of `theory.quadratic.flow_law` beside replicas of the closed form that Q4 judges. The allowance is the size of the
law's corrections of order 1/N.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from dynamics import quadratic_flow
from theory import Subspace
from theory.core.curves import crossing_time
from theory.quadratic.flow_law import FlowLaw
from theory.quadratic.occupation import Occupation
from theory.quadratic.subspace import draw_columns
from validation.claims.quadratic.exact import PAPER
from validation.experiments.quadratic_runs import power_law
from validation.figures.stiefel import Curve, measured_and_theory
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.statistics.readings import Reading, read_mean

COST = 4

_FROM = computed_by(FlowLaw, "terms of order 1/N: the law's change when N changes by one")
_TIMES = 40


@dataclass(frozen=True)
class Case:
    """Width, squared norm of a column, the direction that is looked at, how many there are (weights 1/j), and d."""

    width: int
    norm2: float
    direction: int
    count: int = 16
    dim: int = 10**6

    @property
    def law(self) -> FlowLaw:
        return FlowLaw(power_law(self.count, 1.0), self.dim, self.width, self.norm2)


#: Light columns that hold some of the directions, and heavy ones that must shrink first.
_LIGHT, _HEAVY = Case(12, 1e-3, 6), Case(12, 4.0, 2, dim=1000)


@lru_cache(maxsize=8)
def _runs(context: Context, case: Case, times: tuple[float, ...], replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """S_jj of that direction over its weight, and the risk, (replicas, T)."""
    law, rng = case.law, context.rng("Q23", case.width, f"{case.norm2:g}", case.direction)
    place, shares, risks = case.direction - 1, [], []
    for _ in range(replicas):
        drawn, scale = draw_columns(case.count, case.width, case.dim, rng), np.sqrt(case.norm2 / case.dim)
        flow = quadratic_flow(law.spectrum, Subspace(scale * drawn.on_teachers, scale * drawn.rest))
        factors = flow.factor(np.array(times))
        shares.append([np.sum(one.on_teachers[place] ** 2) / law.spectrum[place] for one in factors])
        risks.append(flow.risk(np.array(times)))
    return np.array(shares), np.array(risks)


def _moved(law: FlowLaw, reading: Callable[[FlowLaw], float]) -> float:
    """The law's change when its width changes by one."""
    more, less = (reading(replace(law, width=law.width + step)) for step in (1, -1))
    return abs(more - less) / 2


def _alone(law: FlowLaw, times: np.ndarray) -> np.ndarray:
    """S_jj if each direction grew by itself, (T, M*)."""
    begun = law.norm2 * law.width / law.dim
    odds = begun / (law.spectrum - begun) * np.exp(2 * times[:, None] * law.spectrum)
    return law.spectrum * odds / (1 + odds)


def _fitted(context: Context, case: Case) -> Measurement:
    law, place = case.law, case.direction - 1
    weight, at = law.spectrum[place], law.half_times()[place]
    times = np.linspace(0.7, 1.4, _TIMES) * at
    reading: Reading = partial(crossing_time, times, level=0.5)
    shares, _ = _runs(context, case, tuple(times.tolist()), context.pick(48, 400))
    estimate, stderr = read_mean(shares, reading, context.rng("Q23", case.direction, "resampling"), 200)

    def of_law(one: FlowLaw) -> float:
        return reading(one.diagonal(times)[:, place] / weight)

    subspace = Occupation(law.spectrum, law.dim, law.width)
    controls: Controls = {
        "directions by themselves": float(np.log(weight * law.dim / (law.norm2 * law.width) - 1) / (2 * weight)),
        "found is fitted": float(subspace.half_times()[place]),
        "a width that is half as large again": float(replace(law, width=law.width * 3 // 2).half_times()[place]),
    }
    text = f"Riccati time at which the mean of S_jj is half of its weight, j = {case.direction}, N = {case.width}"
    return Measurement(
        text, of_law(law), estimate, stderr, _moved(law, of_law), controls, _FROM, f"fitted-{case.direction}"
    )


def _loss(context: Context, case: Case, name: str) -> Measurement:
    law = case.law
    at = float(law.half_times()[case.direction - 1])
    times = np.array([at])
    _, risks = _runs(context, case, (at,), context.pick(48, 400))

    def of_law(one: FlowLaw) -> float:
        return float(one.risk(times)[0])

    controls: Controls = {
        "directions by themselves": float(2 * np.sum((law.spectrum - _alone(law, times)[0]) ** 2)),
        "the best norms for the subspace": float(Occupation(law.spectrum, law.dim, law.width).risk(times)[0]),
    }
    if case is _HEAVY:  # (of light columns what is off the diagonal is a per cent)
        controls["diagonal alone"] = float(2 * np.sum((law.spectrum - law.diagonal(times)[0]) ** 2))
    columns = f"{case.width} columns of squared norm {case.norm2:g}"
    text = f"risk 2‖M − S‖² when direction {case.direction} is fitted, {columns}"
    estimate, stderr = float(risks.mean()), float(risks.std(ddof=1) / np.sqrt(len(risks)))
    return Measurement(text, of_law(law), estimate, stderr, _moved(law, of_law), controls, _FROM, f"loss-{name}")


def _figure(context: Context) -> tuple[str, object]:
    """The risk from light and heavy columns in time, and the law's."""
    curves = []
    for name, case in (("light", _LIGHT), ("heavy", _HEAVY)):
        times = np.linspace(0.02, 1.6, 60) * float(case.law.half_times()[case.direction - 1])
        _, risks = _runs(context, case, tuple(times.tolist()), 16)
        error = risks.std(axis=0, ddof=1) / np.sqrt(len(risks))
        label = f"{name} columns: squared norm {case.norm2:g}, d = {case.dim:.0e}".replace("+0", "")
        curves.append(Curve(label, times, risks.mean(axis=0), error, case.law.risk(times)))
    sizes = f"N = {_LIGHT.width}, M* = {_LIGHT.count}, β = 1"
    caption = f"Risk of ordinary columns, {sizes}: the mean of 16 starts with its standard error, and the law (dashed)."
    return caption, measured_and_theory(curves, "Riccati time", "risk 2‖M − S‖²", log_x=True, theory_name="law")


@claim(
    id="Q23",
    title="Gradient flow of a quadratic network, norms included",
    statement="From random columns one level, fixed by the width, says what every direction holds, and the loss.",
    latex=r"S_{jj}=\frac{e^{2\tau\tilde a_j}g}{1+\Phi_jg},\quad\sum_j\frac{\Phi_jg}{1+\Phi_jg}+\frac d\rho g=N",
    source=f"derived; the flow of {PAPER}",
    kind="asymptotic",
    regime="N = 12, light columns (d = 1e6) and heavy ones (d = 1e3); allowances of order 1/N",
    controls=(
        "directions by themselves",
        "found is fitted",
        "a width that is half as large again",
        "the best norms for the subspace",
        "diagonal alone",
    ),
)
def run_flow_law(context: Context) -> Iterator[Part]:
    """The time of one direction, and the loss there, from light columns; the loss from heavy ones."""
    yield _fitted(context, _LIGHT)
    yield _loss(context, _LIGHT, "light")
    yield _loss(context, _HEAVY, "heavy")
    yield _figure(context)
