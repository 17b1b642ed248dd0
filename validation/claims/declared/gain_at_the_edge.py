"""M33: the linear model's gain is 1 where its whole recursion begins to grow."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import sympy as sp
from scipy import optimize

from theory.declared import linear_model as exact
from theory.declared import linear_stability as stability
from theory.declared.linear_model import LinearModel
from theory.declared.rule import Momentum, Rule
from validation.judge.claim import Controls, Measurement, claim
from validation.judge.context import Context

COST = 1

#: Four eigenspaces, one of them of a hundred dimensions; label noise.
_MODEL = LinearModel(np.array([2.0, 0.7, 0.3, 0.02]), np.array([1.0, 3.0, 8.0, 100.0]), 0.5, np.ones(4))
_RULES = {
    "plain": Rule(1.0),
    "batch": Rule(1.0, batch=5),
    "heavy": Momentum(1.0, batch=2, beta=0.8, kind="heavy"),
    "nesterov": Momentum(1.0, batch=3, beta=0.6, kind="nesterov"),
}
#: The recursion with 1 in the place of (b + 1)/b.
_WITHOUT_FOURTH = exact.step_equations(exact.gradient_square(sp.Integer(1)))
#: Relative, of the step size: eigenvalues of a matrix of order one.
_ROUNDING = 1e-9
#: Steps until the mean squares stand still.
_LATE = 4000


def _edge(rule: Rule, equations: dict[str, sp.Expr] | None = None) -> float:
    """Step size at which the whole recursion's largest eigenvalue is 1."""

    def size(step: float) -> float:
        matrix = stability.matrix(_MODEL, replace(rule, step_size=step), equations)
        return float(np.abs(np.linalg.eigvals(matrix)).max()) - 1

    top = 2 / float(_MODEL.eigenvalues.max())
    return float(optimize.brentq(size, 1e-2 * top, 4 * top, xtol=1e-15, rtol=1e-13))


@claim(
    id="M33",
    title="Gain at the edge of stability",
    statement="The linear model's mean squares begin to grow at the step size where the gain is 1, at any batch and momentum.",
    latex=r"\varrho(\mathcal M)=1\iff\mathcal K=\sum_\lambda\lambda[(1-M_\lambda)^{-1}B_\lambda]_C=1",
    source="derived",
    kind="exact",
    regime="Gaussian inputs, fresh samples; two routes to the edge, no runs",
    controls=("a step size 5 % smaller", "(b + 1)/b → 1", "floor without 1 − 𝒦"),
)
def run_edge(context: Context) -> Iterator[Measurement]:
    """The gain at the step size where the spectral radius of the recursion is 1."""
    for name, rule in _RULES.items():
        edge = _edge(rule)
        at, below = (stability.gain(_MODEL, replace(rule, step_size=step)) for step in (edge, 0.95 * edge))
        slope = (at - below) / 0.05
        wrong = stability.gain(_MODEL, replace(rule, step_size=_edge(rule, _WITHOUT_FOURTH)))
        controls: Controls = {"a step size 5 % smaller": below, "(b + 1)/b": wrong}
        text = f"gain where the spectral radius is 1, {name}"
        yield Measurement(text, 1.0, at, 0.0, slope * _ROUNDING, controls, "rounding of eigenvalues", name)
        yield _below(name, replace(rule, step_size=edge / 2))


def _below(name: str, rule: Rule) -> Measurement:
    """R∞ = σ²𝒦/(1 − 𝒦), solved for 𝒦, of the recursion's last step."""
    risk = _MODEL.path(rule, 2 * _LATE)[[_LATE, -1]] @ _MODEL.eigenvalues
    noise = _MODEL.noise**2
    middle, end = risk / (noise + risk)
    text = f"gain at half that step size, by where the recursion ends, {name}"
    controls: Controls = {"floor without 1 − 𝒦": float(risk[1] / noise)}
    allowed = float(abs(end - middle)) + _ROUNDING
    source = "what the recursion still changes in as many steps again, and rounding"
    predicted = stability.gain(_MODEL, rule)
    return Measurement(text, predicted, float(end), 0.0, allowed, controls, source, f"{name}.half")
