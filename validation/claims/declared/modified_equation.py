"""M7, M9: the clock of a schedule, and momentum at the next order, on the linear model's exact recursion."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import sympy as sp

from dynamics.declared.modified_flow import Field, Fields, modified_flow
from theory.core.quadrature import gauss_legendre
from theory.declared import linear_model as exact
from theory.declared import modified_equation as modified
from theory.declared.linear_model import LinearModel
from theory.declared.modified_equation import memory
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Power, Schedule
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context

COST = 9

#: Eight modes, some of them many times; noise; two samples a step.
_MODEL = LinearModel(
    np.array([2.0, 1.5, 1.0, 0.7, 0.5, 0.3, 0.2, 0.1]),
    np.array([1.0, 1.0, 2.0, 1.0, 3.0, 2.0, 4.0, 5.0]),
    0.5,
    np.array([1.0, 0.5, 0.8, 0.3, 1.0, 0.6, 0.4, 0.7]),
)
_BATCH = 2
#: Where paths are compared, in the clock.
_TIMES = np.array([1.0, 2.0])


@lru_cache(maxsize=1)
def _fields() -> Fields:
    """F, F₂ of the covariance and of the mean, from the derived recursion of plain SGD."""
    step = exact.step_equations()["C"].subs(exact.PLAIN)
    parts = sp.Poly(sp.expand(step), exact.eta)
    square, mean = parts.coeff_monomial(exact.eta**2), exact.lam**2 * exact.C
    names = (exact.C, exact.R, exact.lam, exact.n, exact.batch, exact.sigma)
    lam, count = jnp.asarray(_MODEL.eigenvalues), jnp.asarray(_MODEL.multiplicities)

    def field(expression: sp.Expr) -> Field:
        compiled = sp.lambdify(names, expression, modules="jax")
        return lambda y: compiled(y, lam @ y, lam, count, float(_BATCH), _MODEL.noise)

    return Fields(field(parts.coeff_monomial(exact.eta)), field(square - mean), field(mean))


@dataclass(frozen=True)
class _Errors:
    """Largest error of the equation at three step sizes, each half of the one before."""

    values: np.ndarray

    @property
    def slopes(self) -> np.ndarray:
        return np.log2(self.values[:-1] / self.values[1:])

    @property
    def order(self) -> float:
        """At step size 0: the slope's own change extrapolated, once."""
        return float(2 * self.slopes[1] - self.slopes[0])

    @property
    def allowance(self) -> float:
        """What the slope still changes by."""
        return float(abs(self.slopes[1] - self.slopes[0]))


def _measured(text: str, key: str, right: _Errors, wrong: dict[str, _Errors]) -> Measurement:
    controls: Controls = {
        name: Control(2.0, errors.order, allowance=max(right.allowance, errors.allowance))
        for name, errors in wrong.items()
    }
    source = "change of the slope from one halving of the step size to the next"
    details = {"errors": right.values.tolist()}
    return Measurement(text, 2.0, right.order, 0.0, right.allowance, controls, source, key=key, details=details)


# ------------------------------------------------------------------------------- M7


def _integral(schedule: Schedule, steps: int) -> float:
    """∫₀ⁿ η dn."""
    points, weights = gauss_legendre(np.arange(steps), np.arange(1, steps + 1), 4)
    return float(np.sum(weights * schedule(points)))


def _schedule_errors(clock: str, rate: sp.Expr, compared: str = "") -> _Errors:
    """Steps of η (1 + nη)^{−0.7} against the equation; `compared`: the clock that they are put at, if it is another."""
    found = []
    for size in (0.02, 0.01, 0.005):
        schedule = Power(size, 0.7, after=1 / size)
        rule = Rule(schedule, batch=_BATCH)
        steps = [round(x / size) for x in _TIMES]
        path = _MODEL.path(rule, steps[-1])
        summed = compared or clock
        at = [float(np.sum(schedule(np.arange(n)))) if summed == "sum" else _integral(schedule, n) for n in steps]
        known = modified_flow(_fields(), _MODEL.start, np.array(at), rule, rate=rate)
        found.append(float(np.abs(path[steps] - known).max()))
    return _Errors(np.array(found))


@claim(
    id="M7",
    title="Clock of a schedule",
    statement="In Σ η a schedule's steps follow the modified equation of a constant step; in ∫ η dn its slope enters.",
    latex=r"dy/d\tau=F+\eta(F_2-\tfrac12F'F),\qquad dy/d\tilde\tau=\dots-\tfrac12\dot\eta F",
    source="derived",
    kind="asymptotic",
    regime="smooth schedules, step size to 0",
    controls=(
        "η̇ term in the sum clock",
        "no η̇ term in the integral clock",
        "no F′F",
        "∫ η dn called Σ η",
    ),
)
def run_clock(context: Context) -> Iterator[Part]:
    """Order of the error in the step size, exact moments of the linear model against the equation in both clocks."""
    whole, sloped = modified.rate("sum"), modified.rate("integral")
    straight = {clock: modified.rate(clock).subs(modified.curve, 0) for clock in modified.CLOCKS}
    wrong = {
        "η̇ term in the sum clock": _schedule_errors("sum", sloped),
        "no F′F": _schedule_errors("sum", straight["sum"]),
        "∫ η dn called Σ η": _schedule_errors("sum", whole, compared="integral"),
    }
    text = "order of the error in the step size, 8 modes, η_n = η/(1 + nη)^0.7"
    yield _measured(f"{text}, clock Σ η", "sum", _schedule_errors("sum", whole), wrong)
    wrong = {
        "no η̇ term": _schedule_errors("integral", whole),
        "no F′F": _schedule_errors("integral", straight["integral"]),
    }
    yield _measured(f"{text}, clock ∫ η dn", "integral", _schedule_errors("integral", sloped), wrong)


# ------------------------------------------------------------------------------- M9


def _momentum_errors(rule: Momentum, rate: sp.Expr | None = None, begin: sp.Expr | None = None) -> _Errors:
    """h = 0.008, 0.004, 0.002."""
    total, found = memory(rule).total, []
    for size in (0.008, 0.004, 0.002):
        used = replace(rule, step_size=size / total)
        steps = [round(x / size) for x in _TIMES]
        path = _MODEL.path(used, steps[-1])
        known = modified_flow(_fields(), _MODEL.start, _TIMES, used, rate=rate, begin=begin)
        found.append(float(np.abs(path[steps] - known).max()))
    return _Errors(np.array(found))


@claim(
    id="M9",
    title="Momentum at the next order",
    statement="Fluctuations know the whole step h only; the lag enters where the mean moves, and at the start.",
    latex=r"\dot y=F+h\{F_2^{cov}+(1+2\ell)(F_2^{mean}-\tfrac12F'F)\},\quad y(0)=y_0-\ell hF(y_0)",
    source="derived",
    kind="asymptotic",
    regime="constant step size to 0 at fixed momentum, after the velocity's own time",
    controls=("lag 0", "start not shifted", "factor 1 + 2ℓ on the noise term too"),
)
def run_momentum(context: Context) -> Iterator[Part]:
    """Order of the error in h: heavy ball, average and Nesterov, exact moments against the equation."""
    right = modified.rate()
    wrong = {
        "lag 0": {"rate": right.subs(modified.lag, 0)},
        "start not shifted": {"begin": modified.y},
        "factor 1 + 2ℓ": {"rate": right.subs(modified.F_cov, (1 + 2 * modified.lag) * modified.F_cov)},
    }
    for kind, beta in (("heavy", 0.5), ("heavy", 0.9), ("average", 0.7), ("nesterov", 0.8)):
        rule = Momentum(1.0, batch=_BATCH, beta=beta, kind=kind)
        errors = {name: _momentum_errors(rule, **changed) for name, changed in wrong.items()}
        text = f"order of the error in h, {kind}, β = {beta:g}, 8 modes"
        yield _measured(text, f"{kind}-{beta:g}".replace(".", ""), _momentum_errors(rule), errors)
