"""M11: the drift of one direction under any rule, against the exact chain."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import numpy as np
import sympy as sp

from dynamics.declared.simulate import declared_sgd
from theory import Activation
from theory.core.hermite import z
from theory.declared.directions import Directions
from theory.declared.inputs import Inputs
from theory.declared.loss import Correlation
from theory.declared.model import DeclaredModel
from theory.declared.one_direction import Drift, drift, drift_of
from theory.declared.rule import SAM, Ahead, Alternating, Clipped, Normalised, Rule
from theory.declared.start import Start
from theory.declared.student import committee
from theory.declared.target import Lower
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import mean_and_error

COST = 15

#: Dimension: |x|² is d up to a share of 1/d of the drift; step size: the next order is γdψ²u/2, below 1e-5.
_DIM, _STEP, _OVERLAP = 40_000, 1e-9, 0.4
#: Both are left out of the prediction; a share of it.
_LEFT_OUT = 1e-3


@dataclass(frozen=True)
class ThreeValued:
    r"""$-\mathrm{sgn}(a)$ where |a| > 2, $c\,\mathrm{sgn}(a)$ elsewhere, c such that $E\,ya=0$: information exponent 3."""

    count: int = 1

    def value(self, fields: Any, lower: Lower) -> Any:
        """Of fields (…, 1), shape (…)."""
        inner = sp.exp(-2) / (1 - sp.exp(-2))
        label = sp.sign(z) * sp.Piecewise((-1, sp.Abs(z) > 2), (inner, True))
        return lower(label, (z,))(fields[..., 0])


def _rules() -> dict[str, Rule]:
    long, size = _DIM**0.5, 1 / _DIM
    return {
        "sgd": Rule(_STEP),
        "normalised": Normalised(_STEP),
        "clipped": Clipped(_STEP, limit=0.15 * long),
        "alternating": Alternating(_STEP, second_step=1.0),
        "reuse": Ahead(_STEP, ahead=2 * size),
        "sam": SAM(_STEP, radius=0.5 / long),
    }


def _model(rule: Rule) -> tuple[DeclaredModel, Start]:
    directions = Directions.orthonormal(Inputs.isotropic(_DIM), 1)
    trained = isinstance(rule, Alternating)
    student = committee(Activation.parse("sin(z/sqrt(2))"), 1, trained=trained, rows="sphere")
    start = Start((np.array([[_OVERLAP, np.sqrt(1 - _OVERLAP**2)]]),))
    return DeclaredModel(directions, ThreeValued(), student, rule, Correlation()), start


def _moved(rule: Rule, replicas: int, seed: int) -> tuple[float, float]:
    """Mean of Δu/γ over real steps, and its standard error."""
    run = declared_sgd(*_model(rule), steps=1, replicas=replicas, seed=seed, saves=1).dataset
    u = run["overlap"].values[:, :, 0, 0, 0]
    return mean_and_error((u[:, -1] - u[:, 0]) / _STEP)


def _wrong(name: str, model: DeclaredModel, found: Drift) -> dict[str, Drift]:
    def changed(rule: Rule, dim: float = _DIM) -> Drift:
        return drift(model.student, model.target, model.loss, rule, dim)

    degrees = np.array([factorial(i + 1) for i in range(found.coefficients.size)], dtype=float)
    wrong = {}
    if name != "reuse":  # whose first degree, where i! is 1, rules
        wrong["i! left out"] = replace(found, coefficients=found.coefficients / degrees)
    if name in ("normalised", "clipped", "sam", "reuse"):
        wrong["|x|² = 1"] = changed(model.rule, 1.0)
    if name != "sgd":
        wrong["ψ of plain SGD"] = changed(Rule(_STEP))
    if name == "reuse":
        assert isinstance(model.rule, Ahead)
        still, small = (changed(replace(model.rule, ahead=x * model.rule.ahead)) for x in (0.0, 1e-4))
        slope = (small.coefficients - still.coefficients) / 1e-4
        wrong["first order in ηd"] = replace(found, coefficients=still.coefficients + slope)
    return wrong


@claim(
    id="M11",
    title="Drift of one direction under any rule",
    statement="A rule's first step is a sum over Hermite degrees of its coefficient of the input.",
    latex=r"E\,\Delta u=\gamma(1-u^2)\sum_i\nu_iu^{i-1},\quad\nu_i=E\,\psi(f_*(a),b)He_i(a)He_{i-1}(b)/(i-1)!",
    source="derived; arXiv:2003.10409 (plain SGD)",
    kind="exact",
    regime="first order in the step size, d to infinity, batch 1, unit row",
    controls=("i! left out of μ_i", "|x|² = 1", "ψ of plain SGD", "first order in ηd"),
)
def run_drift(context: Context) -> Iterator[Part]:
    """E Δu/γ at u = 0.4, three-valued labels, d = 40 000; six rules, four with the quick preset."""
    for name, rule in _rules().items():
        if name in ("sgd", "clipped") and not context.full:
            continue
        model, _ = _model(rule)
        found = drift_of(model)
        predicted = float(found.at(_OVERLAP))
        wrong = {text: float(other.at(_OVERLAP)) for text, other in _wrong(name, model, found).items()}
        replicas, seed = context.pick(2_400_000, 6_000_000), context.seed_for("M11", name)
        estimate, stderr = _moved(rule, replicas, seed)
        controls: Controls = dict(wrong)
        allowance = _LEFT_OUT * abs(predicted)
        text = f"E Δu/γ at u = {_OVERLAP:g}, {name}, three-valued label, d = {_DIM}"
        yield Measurement(text, predicted, estimate, stderr, allowance, controls, "terms of order 1/d and γd", key=name)
