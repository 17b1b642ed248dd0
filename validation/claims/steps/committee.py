"""F7: a committee machine with a fixed second layer; its loss under SGD, the O(η²) map, and gradient flow."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics.steps.committee import (
    CommitteeResult,
    committee_flow,
    committee_parameters,
    committee_sgd,
    lowered_committee,
    order_parameters,
)
from theory import Activation, InitialState, System, Teacher
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
        _Case("erf", "free", 100, 1.5, 9.0, 96),
        _Case("quadratic", "free", 100, 0.05, 0.8, 320),
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
    statement="The mean loss of a committee machine under SGD is that of the O(η²) map of its order parameters, with what "
    "whole steps and fluctuations add, for erf, square and h₃.",
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
    """Mean loss of SGD in coordinates against the O(η²) map, whole steps and fluctuations added, for each activation."""
    for number, case in enumerate(_CASES["full" if context.full else "quick"]):
        context.progress(f"committee, {case.text}, {case.rows} rows, d = {case.dim}")
        measurement, figure = _judge(context, case, number)
        yield measurement
        caption = (
            f"Loss of a committee machine under SGD ({case.text}, {case.rows} rows, d = {case.dim}, {case.replicas} "
            "replicas), by the O(η²) map and without its second order."
        )
        yield caption, figure


@dataclass(frozen=True)
class _Problem:
    """One experiment, and what the O(η²) map makes of it."""

    case: _Case

    @cached_property
    def activation(self) -> Activation:
        return Activation.parse(self.case.text)

    @cached_property
    def start(self) -> InitialState:
        return _start(self.case.rows)

    @property
    def step_size(self) -> float:
        return self.case.scale / self.case.dim

    @property
    def steps(self) -> int:
        return round(self.case.time / self.step_size)

    @cached_property
    def system(self) -> System:
        return once(committee, self.activation, self.case.rows)

    def teacher(self, dim: int) -> Teacher:
        """Two equal directions."""
        return Teacher.of([1.0, 1.0], dim, normalise=False)

    def by_map(
        self, dim: int | None = None, weights: tuple[float, ...] = _WEIGHTS, bent: bool = True
    ) -> CommitteeResult:
        """The map, in another dimension, with another second layer, or without its second order."""
        return committee_flow(
            self.activation,
            self.teacher(dim or self.case.dim),
            weights,
            self.start,
            step_size=self.step_size,
            steps=self.steps,
            rows=self.case.rows,
            saves=_SAVES,
            method="map",
            second_order=bent,
            system=self.system,
        )

    def by_sgd(self, seed: int) -> CommitteeResult:
        """Replicas of SGD."""
        return committee_sgd(
            self.activation,
            self.teacher(self.case.dim),
            _WEIGHTS,
            self.start,
            step_size=self.step_size,
            steps=self.steps,
            rows=self.case.rows,
            replicas=self.case.replicas,
            saves=_SAVES,
            seed=seed,
        )

    def moments(self) -> CommitteeMoments:
        """What corrects the map by whole steps and fluctuations."""
        teacher = self.teacher(self.case.dim)
        parameters = committee_parameters(teacher, _WEIGHTS, self.step_size)
        sizes = (len(_WEIGHTS), teacher.width)
        return CommitteeMoments(self.activation, self.case.rows, lowered_committee(self.system), parameters, sizes)


def _judge(context: Context, case: _Case, number: int) -> tuple[Measurement, object]:
    problem = _Problem(case)
    path, plain = problem.by_map(), problem.by_map(bent=False).dataset.loss.values
    curve = path.dataset.loss.values
    predicted = problem.moments().mean_loss(order_parameters(problem.start), path.dataset.step.values)
    measured = problem.by_sgd(context.seed_for("F7", "SGD", number)).dataset.loss.values
    estimate, stderr = mean_and_error(measured[:, -1])
    divided = tuple(b / len(_WEIGHTS) for b in _WEIGHTS)
    controls = {
        "without O(η²)": float(plain[-1]),
        "dimension doubled": float(problem.by_map(2 * case.dim).dataset.loss.values[-1]),
        "second layer divided by the width": float(problem.by_map(weights=divided).dataset.loss.values[-1]),
        **({"without whole steps and fluctuations": float(curve[-1])} if case.saturates else {}),
    }
    text = f"mean loss after {problem.steps} steps, {case.text}, {case.rows} rows, d = {case.dim}"
    source = "second order of the correction to the map by whole steps and fluctuations"
    details = {"step size": problem.step_size, "loss by the map": float(curve[-1])}
    allowed, key = abs(predicted.second_order), f"{case.text}.{case.rows}"
    measurement = Measurement(text, predicted.value, estimate, stderr, allowed, controls, source, key, details)
    figure = mean_paths(
        path.dataset.time.values, measured, {"O(η²) map": curve}, {"without O(η²)": plain}, f"loss, {case.text}"
    )
    return measurement, figure
