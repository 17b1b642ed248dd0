"""M6: when a direction is found if the inputs have a power-law covariance."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dynamics.declared.flow import declared_flow
from theory import Activation
from theory.declared import anisotropic_emergence as theory
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import whitened
from theory.declared.target import Additive
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context

COST = 5

#: Places of the directions, counted from 1: each an eigenvalue of its own, as the first `_SINGLE` all are; the rest in bins,
#: so that every flow has one shape.
_RANKS, _SINGLE, _BINS = (2, 5, 12, 30), 30, 10
#: Squared length of the row at the start: light until its direction is found. Tolerance of a solver step.
_NORM2, _RTOL = 1e-10, 1e-8
#: Times recorded around the predicted one: a piece of the line between two is what a half time is uncertain by.
_RECORDS = 200
_WHERE = "the mean eigenvalue of what the row forgets, from its start to 0; the grid of times; the integrator"


def _inputs(alpha: float, dim: int) -> Inputs:
    """λ_j = j^−α; beyond the first thirty in ten bins of equal width in ln j."""
    values = np.arange(1, dim + 1, dtype=float) ** -alpha
    edges = np.unique(np.geomspace(_SINGLE, dim, _BINS + 1).astype(int))
    bins = [values[low:high] for low, high in pairwise(edges.tolist())]
    return Inputs.blocks(*((x, 1) for x in values[:_SINGLE]), *((float(x.mean()), x.size) for x in bins))


def _start(inputs: Inputs, count: int) -> Start:
    """One row with all squared coordinates equal: on every direction g = 1."""
    parts = []
    for d in inputs.multiplicities:
        part = np.zeros((1, min(d, count + 1)))
        part[0, -1] = np.sqrt(_NORM2 * d / inputs.dim)
        parts.append(part)
    return Start(tuple(parts))


def _bracket(activation: Activation, inputs: Inputs, value: float) -> np.ndarray:
    """Half times at the two ends of what the mean eigenvalue of the rest can be, (2,)."""
    overlap = float(np.sqrt(1 / theory.effective_dimension(inputs, value)))
    squares = float(np.dot(inputs.multiplicities, np.square(inputs.eigenvalues)))
    begin = (squares - value**2) / (inputs.trace - value)
    return np.array([theory.half_time(activation, 1.0, value, overlap, rest) for rest in (begin, 0.0)])


@lru_cache(maxsize=64)
def _times(name: str, alpha: float, dim: int, ranks: tuple[int, ...] = _RANKS) -> tuple[np.ndarray, np.ndarray]:
    """Of each direction alone: half times of the flow (k,), and their brackets (k, 2)."""
    activation, inputs = Activation.parse(name), _inputs(alpha, dim)
    directions = Directions.eigenvectors(inputs, [p - 1 for p in _RANKS], variance=1.0)
    start, measured, brackets = _start(inputs, len(_RANKS)), [], []
    for rank in ranks:
        place = _RANKS.index(rank)
        weights = tuple(float(q == place) for q in range(len(_RANKS)))
        model = DeclaredModel(directions, Additive(activation, weights), whitened(activation, 1), Rule(1.0))
        low, high = _bracket(activation, inputs, rank**-alpha)
        times = np.linspace(0.9 * low, 1.1 * high, _RECORDS)
        flow = declared_flow(model, start, times[-1], times, rtol=_RTOL, system=population_flow(model)).dataset
        values = np.asarray(inputs.eigenvalues)
        field = np.einsum("i,ti->t", values, flow.overlap.values[:, :, 0, place])
        squared = field**2 / np.einsum("i,ti->t", values, flow.gram.values[:, :, 0, 0])
        measured.append(float(np.interp(0.5, squared, times)))
        brackets.append([low, high])
    return np.array(measured), np.array(brackets)


def _slope(x: np.ndarray, measured: np.ndarray, brackets: np.ndarray) -> tuple[float, float, float]:
    """Least-squares slopes of ln T in x: estimate, prediction, allowance."""
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    logs = np.log(brackets)
    spread = np.ptp(logs, axis=1) / 2 + (1.1 * np.exp(np.ptp(logs, axis=1)) - 0.9) / _RECORDS + 1e4 * _RTOL
    return float(weights @ np.log(measured)), float(weights @ logs.mean(axis=1)), float(np.abs(weights) @ spread)


@claim(
    id="M6",
    title="Emergence under a power-law covariance",
    statement="A direction's effective dimension is Tr Λ/λ_p, so that with λ_p = p^−α its time grows as p^{αJ/2}.",
    latex=r"T_p=(\mathrm{Tr}\Lambda)^{J/2-1}/(J(J-2)\hat\sigma_J^2a_p\lambda_p^{J/2}|g_p|^{J-2})",
    source="derived",
    kind="asymptotic",
    regime="directions on eigenvectors, student normed by its field, Tr Λ ≫ λ_p, light start, gradient flow",
    controls=(
        "effective dimension (Tr Λ)²/Tr Λ²",
        "λ_p^{J/2−1}: metric forgotten",
        "isotropic: every direction at once",
        "d for Tr Λ",
    ),
)
def run_emergence(context: Context) -> Iterator[Part]:
    """Exponents in p and in Tr Λ of flow times to squared cosine ½, one row and one direction at a time."""
    cases = [("h4", 0.5), ("h4", 0.8), ("h3", 0.8)]
    for name, alpha in cases if context.full else cases[:2]:
        activation = Activation.parse(name)
        J = activation.information_exponent
        measured, brackets = _times(name, alpha, 3000)
        estimate, predicted, allowance = _slope(np.log(_RANKS), measured, brackets)
        wrong: Controls = {
            "effective dimension": alpha,
            "λ_p^{J/2−1}": alpha * (J / 2 - 1),
            "isotropic": 0.0,
        }
        limit = float(theory.exponents()["rank"].subs({theory.J: J, theory.alpha: alpha, theory.beta: 0}))
        text = f"exponent in p of the time to squared cosine ½, {name}, λ = p^−{alpha:g}, d = 3000, p = 2 … 30"
        key = f"rank-{name}-{alpha:g}".replace(".", "")
        yield Measurement(text, predicted, estimate, 0.0, allowance, wrong, _WHERE, key, {"limit": limit})
    yield _in_trace()


def _in_trace() -> Measurement:
    """At fixed λ_12 more small eigenvalues: α = ½, from d = 300 to 3000."""
    found = [_times("h4", 0.5, 300, (12,)), tuple(x[2:3] for x in _times("h4", 0.5, 3000))]
    inputs = [_inputs(0.5, dim) for dim in (300, 3000)]
    traces = np.array([x.trace for x in inputs])
    squares = [np.dot(x.multiplicities, np.square(x.eigenvalues)) for x in inputs]
    measured, brackets = (np.concatenate([x[i] for x in found]) for i in (0, 1))
    estimate, predicted, allowance = _slope(np.log(traces), measured, brackets)
    per = 1 / np.log(traces[1] / traces[0])
    wrong: Controls = {
        "effective dimension": float(2 - per * np.log(squares[1] / squares[0])),
        "d for": float(per * np.log(10)),
        "isotropic": 0.0,
    }
    text = "exponent in Tr Λ of the same time of direction 12, h4, λ = p^−0.5, d = 300 and 3000"
    return Measurement(text, predicted, estimate, 0.0, allowance, wrong, _WHERE, "trace", {"limit": 1.0})
