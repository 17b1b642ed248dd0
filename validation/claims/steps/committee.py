"""F7: a committee machine with a fixed second layer; its loss under SGD, the O(η²) map, and gradient flow."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynamics.steps.committee import (
    CommitteeResult,
    committee_flow,
    committee_parameters,
    committee_sgd,
    lowered_committee,
    order_parameters,
)
from theory import Activation, InitialState, Teacher
from theory.steps.committee import committee
from validation.experiments.committee_moments import CommitteeMoments
from validation.figures.common import mean_paths
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.standard_errors import mean_and_error

_SAVES = 40
_WEIGHTS = (1.0, 1.0)


@dataclass(frozen=True)
class _Case:
    """η = scale / d; the run lasts `time` in gradient-flow time.

    saturates: the terms from η³ on can be told from the noise, so that the map without them must be rejected.
    """

    text: str
    rows: str
    dim: int
    scale: float
    time: float
    replicas: int
    saturates: bool = False


_CASES = {
    "quick": (
        _Case("erf", "free", 100, 1.5, 9.0, 32),
        _Case("quadratic", "free", 100, 0.05, 0.8, 32),
        _Case("h3", "projected", 200, 0.024, 0.4, 160, saturates=True),
    ),
    "full": (
        _Case("erf", "free", 500, 1.5, 12.0, 64),
        _Case("erf", "sphere", 500, 1.5, 12.0, 64),
        _Case("quadratic", "free", 500, 0.05, 0.8, 64),
        _Case("h3", "sphere", 500, 0.02, 0.6, 64),
    ),
}


def _start(rows: str) -> InitialState:
    """Two rows, each warm towards its own teacher."""
    on_teachers = np.array([[0.5, 0.1], [0.05, 0.4]])
    residual = np.array([[0.6, 0.0], [0.1, 0.7]])
    if rows != "free":
        norm = np.sqrt(np.sum(on_teachers**2, axis=1) + np.sum(residual**2, axis=1))[:, None]
        on_teachers, residual = on_teachers / norm, residual / norm
    return InitialState(on_teachers, residual)


@claim(
    id="F7",
    title="Committee machines at finite step size",
    statement="The loss of a committee machine under SGD follows the order parameters with the O(η²) term, for erf, "
    "square and h₃.",
    latex=r"\dot Q_{kj}\ni\eta b_kb_jE\,\delta^2\sigma'(z_k)\sigma'(z_j)|x|^2",
    source="Saad and Solla 1995, Phys. Rev. E 52, 4225 (erf, free rows); others derived",
    kind="asymptotic",
    regime="step size of order 1/d, start above the noise",
    controls=(
        "without O(η²)",
        "dimension doubled",
        "second layer divided by the width",
        "without whole steps and fluctuations (quick)",
    ),
)
def run_committee(context: Context) -> Iterator[Part]:
    """Mean loss of SGD in coordinates against the O(η²) map, for each activation."""
    for number, case in enumerate(_CASES["full" if context.full else "quick"]):
        context.progress(f"committee, {case.text}, {case.rows} rows, d = {case.dim}")
        measurement, figure = _judge(context, case, number)
        yield measurement
        caption = (
            f"Loss of a committee machine under SGD ({case.text}, {case.rows} rows, d = {case.dim}, {case.replicas} "
            "replicas), by the O(η²) map and without its second order."
        )
        yield caption, figure


def _judge(context: Context, case: _Case, number: int) -> tuple[Measurement, object]:
    activation, start = Activation.parse(case.text), _start(case.rows)
    teacher = Teacher.of([1.0, 1.0], case.dim, normalise=False)
    step_size = case.scale / case.dim
    steps = round(case.time / step_size)
    system = once(committee, activation, case.rows)

    def by_map(teacher: Teacher = teacher, weights: tuple[float, ...] = _WEIGHTS, bent: bool = True) -> CommitteeResult:
        return committee_flow(
            activation,
            teacher,
            weights,
            start,
            step_size=step_size,
            steps=steps,
            rows=case.rows,
            saves=_SAVES,
            method="map",
            second_order=bent,
            system=system,
        )

    path = by_map()
    curve, plain = path.dataset.loss.values, by_map(bent=False).dataset.loss.values
    larger = by_map(Teacher.of([1.0, 1.0], 2 * case.dim, normalise=False)).dataset.loss.values
    divided = by_map(weights=tuple(b / len(_WEIGHTS) for b in _WEIGHTS)).dataset.loss.values
    moments = CommitteeMoments(
        activation,
        case.rows,
        lowered_committee(system),
        committee_parameters(teacher, _WEIGHTS, step_size),
        (len(_WEIGHTS), teacher.width),
    )
    predicted = moments.mean_loss(order_parameters(start), path.dataset.step.values)
    runs = committee_sgd(
        activation,
        teacher,
        _WEIGHTS,
        start,
        step_size=step_size,
        steps=steps,
        rows=case.rows,
        replicas=case.replicas,
        saves=_SAVES,
        seed=context.seed_for("F7", "SGD", number),
    )
    measured = runs.dataset.loss.values
    estimate, stderr = mean_and_error(measured[:, -1])
    allowed = abs(predicted.second_order)
    text = f"mean loss after {steps} steps, {case.text}, {case.rows} rows, d = {case.dim}"
    controls = {
        "without O(η²)": float(plain[-1]),
        "dimension doubled": float(larger[-1]),
        "second layer divided by the width": float(divided[-1]),
        **({"without whole steps and fluctuations": float(curve[-1])} if case.saturates else {}),
    }
    source = "second order of the correction to the map by whole steps and fluctuations"
    details = {"step size": step_size, "loss by the map": float(curve[-1])}
    key = f"{case.text}.{case.rows}"
    measurement = Measurement(text, predicted.value, estimate, stderr, allowed, controls, source, key, details)
    figure = mean_paths(
        path.dataset.time.values, measured, {"O(η²) map": curve}, {"without O(η²)": plain}, f"loss, {case.text}"
    )
    return measurement, figure
