"""M23: the linear model's exact recursion, its edge and its floor, against SGD in coordinates and its own matrix."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import sympy as sp
from scipy import optimize

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.declared import linear_model as exact
from theory.declared import linear_stability as stability
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.linear_model import LinearModel, linear_model
from theory.declared.model import DeclaredModel
from theory.declared.rule import Momentum, Rule
from theory.declared.schedule import Linear
from theory.declared.start import Start, draw_start
from theory.declared.student import committee
from theory.declared.target import Additive
from validation.judge.claim import Control, Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 8

_LINE = Activation.parse("z")
_INPUTS = Inputs.blocks((1.5, 2), (0.6, 3), (0.2, 8))
_WEIGHT, _NOISE = 0.8, 0.5
#: SGD's steps: where the recursion is judged, and at the end, where the floor is.
_EARLY, _LATE = 8, 160
#: Eigenvalues of a matrix of order one, and of the step size where one of them crosses 1.
_ROUNDING = 1e-9
#: The recursion with 1 in the place of (b + 1)/b.
_WITHOUT_FOURTH = exact.step_equations(exact.gradient_square(sp.Integer(1)))

_RULES = {
    "plain": Rule(0.12, noise=_NOISE),
    "batch": Rule(0.3, batch=3, noise=_NOISE),
    "heavy": Momentum(0.04, batch=2, noise=_NOISE, beta=0.7, kind="heavy"),
    "nesterov": Momentum(0.06, batch=2, noise=_NOISE, beta=0.5, kind="nesterov"),
}


def _declared(rule: Rule) -> tuple[DeclaredModel, Start, LinearModel]:
    directions = Directions.random(_INPUTS, 1)
    model = DeclaredModel(directions, Additive(_LINE, (_WEIGHT,)), committee(_LINE, 1), rule)
    start = draw_start(directions, 1)
    return model, start, linear_model(model, start)


def _risks(rule: Rule, steps: int, saves: int, replicas: int, seed: int) -> np.ndarray:
    """Σ λ |e|² of replicas in coordinates, at the saves, (replica, time)."""
    model, start, _ = _declared(rule)
    run = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, saves=saves, method="ambient").dataset
    squares = _WEIGHT**2 * model.directions.grams[:, 0, 0]
    errors = run["gram"].values[..., 0, 0] - 2 * _WEIGHT * run["overlap"].values[..., 0, 0] + squares
    return np.asarray(errors @ np.asarray(_INPUTS.eigenvalues))


def _alone(model: LinearModel) -> LinearModel:
    return replace(model, multiplicities=np.ones_like(model.multiplicities))


def _step(name: str, rule: Rule, risks: np.ndarray, steps: int) -> Measurement:
    model = _declared(rule)[2]

    def after(model: LinearModel, equations: dict[str, sp.Expr] | None = None) -> float:
        return float(model.path(rule, steps, equations)[-1] @ model.eigenvalues)

    controls: Controls = {"(b + 1)/b": after(model, _WITHOUT_FOURTH), "multiplicities": after(_alone(model))}
    estimate, stderr = mean_and_error(risks)
    text = f"mean excess risk after {steps} steps of SGD in coordinates, {name}, d = {_INPUTS.dim}"
    return Measurement(text, after(model), estimate, stderr, 0.0, controls, "none: exact", key=f"{name}-steps")


def _floor(name: str, rule: Rule, risks: np.ndarray) -> Measurement:
    model = _declared(rule)[2]
    predicted, kappa = stability.floor(model, rule), stability.gain(model, rule)
    path = model.path(rule, 2 * _LATE) @ model.eigenvalues
    # By the recursion alone: an error of the floor is no part of it. Beyond twice the steps nothing is left.
    left = abs(float(path[2 * _LATE] - path[_LATE]))
    controls: Controls = {"floor": _NOISE**2 * kappa, "multiplicities": stability.floor(_alone(model), rule)}
    estimate, stderr = mean_and_error(risks)
    text = f"mean excess risk where SGD in coordinates ends, {name}, 𝒦 = {kappa:.2f}"
    source = "what the recursion still changes in as many steps again"
    return Measurement(text, predicted, estimate, stderr, left, controls, source, key=f"{name}-floor")


def _crossing(model: LinearModel, rule: Rule, equations: dict[str, sp.Expr] | None = None) -> float:
    """The step size at which the largest eigenvalue of the whole recursion crosses 1."""

    def size(step: float) -> float:
        matrix = stability.matrix(model, replace(rule, step_size=step), equations)
        return float(np.abs(np.linalg.eigvals(matrix)).max()) - 1

    top = 2 / float(model.eigenvalues.max())
    return float(optimize.brentq(size, 0.02 * top, 4 * top, xtol=1e-14, rtol=1e-13))


def _edge(name: str, rule: Rule) -> Measurement:
    model = _declared(rule)[2]
    predicted = stability.edge(model, rule)
    controls: Controls = {
        "edge 2/λ₁": 2 / float(model.eigenvalues.max()),
        "(b + 1)/b": Control(predicted, _crossing(model, rule, _WITHOUT_FOURTH)),
    }
    text = f"step size at which the recursion's spectral radius is 1, {name}"
    allowance = _ROUNDING * predicted
    return Measurement(text, predicted, _crossing(model, rule), 0.0, allowance, controls, "rounding of eigenvalues",
                       key=f"{name}-edge")  # fmt: skip


@claim(
    id="M23",
    title="The linear model: recursion, edge, floor",
    statement="Mean squares follow a recursion in the eigenspaces, stay finite up to 𝒦 = 1, and end at σ²𝒦/(1 − 𝒦).",
    latex=r"\mathcal K=\sum_\lambda\lambda[(1-M_\lambda)^{-1}B_\lambda]_C,\quad R_\infty=\sigma^2\mathcal K/(1-\mathcal K)",
    source="arXiv:2405.15074 (plain SGD); momentum derived",
    kind="exact",
    regime="Gaussian inputs, fresh samples, any batch, d and schedule; edge and floor for one step size",
    controls=("(b + 1)/b → 1", "multiplicities left out", "floor without 1 − 𝒦", "edge 2/λ₁"),
)
def run_linear_model(context: Context) -> Iterator[Part]:
    """SGD in coordinates after a few steps and at its end; the edge by eigenvalues; plain, batch, heavy ball, Nesterov."""
    replicas = context.pick(6000, 60_000)
    for name, rule in _RULES.items():
        yield _edge(name, rule)
        if name in ("plain", "heavy") or context.full:
            risks = _risks(rule, _LATE, _LATE // _EARLY, replicas, context.seed_for("M23", name))
            yield _step(name, rule, risks[:, 1], _EARLY)
            yield _floor(name, rule, risks[:, -1])
    falling = Rule(Linear(0.2, 0.05, _EARLY), noise=_NOISE)
    risks = _risks(falling, _EARLY, 1, replicas, context.seed_for("M23", "schedule"))
    yield _step("schedule", falling, risks[:, -1], _EARLY)
