"""M6, M30: when a direction is found if the inputs have a covariance, of a power law or spiked."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dynamics.declared.flow import declared_flow
from dynamics.declared.simulate import declared_sgd
from theory import Activation, SingleTask
from theory.declared import anisotropic_emergence as theory
from theory.declared.directions import Directions
from theory.declared.flow import population_flow
from theory.declared.inputs import Inputs
from theory.declared.lone_row import ERROR, Row, follow
from theory.declared.model import DeclaredModel
from theory.declared.rule import Rule
from theory.declared.start import Start
from theory.declared.student import whitened
from theory.declared.target import Additive
from validation.comparisons.declared import emergence_times
from validation.judge.claim import Controls, Measurement, Part, claim
from validation.judge.context import Context
from validation.statistics.standard_errors import bootstrap_error

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


def _squares(inputs: Inputs) -> float:
    """Tr Λ²."""
    return float(np.dot(inputs.multiplicities, np.square(inputs.eigenvalues)))


def _bracket(activation: Activation, inputs: Inputs, value: float) -> np.ndarray:
    """Half times at the two ends of what the mean eigenvalue of the rest can be, (2,)."""
    overlap = float(np.sqrt(1 / theory.effective_dimension(inputs, value)))
    begin = (_squares(inputs) - value**2) / (inputs.trace - value)
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
    predicted = np.log(brackets).mean(axis=1)
    return float(weights @ np.log(measured)), float(weights @ predicted), float(np.abs(weights) @ _spread(brackets))


def _spread(brackets: np.ndarray) -> np.ndarray:
    """What ln T may stray from the middle of its bracket, (k,)."""
    widths = np.ptp(np.log(brackets), axis=1)
    return widths / 2 + (1.1 * np.exp(widths) - 0.9) / _RECORDS + 1e4 * _RTOL


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
    """Flow times to squared cosine ½, one row and one direction at a time; their exponents in p and in Tr Λ."""
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
        yield _time(activation, alpha, measured, brackets)
    yield _in_trace()


def _time(activation: Activation, alpha: float, measured: np.ndarray, brackets: np.ndarray) -> Measurement:
    """The time itself, of the direction whose bracket is the narrowest."""
    place = int(np.argmin(np.ptp(np.log(brackets), axis=1)))
    inputs, value = _inputs(alpha, 3000), _RANKS[place] ** -alpha
    alone = 1 / theory.effective_dimension(inputs, value)
    predicted = float(np.exp(np.log(brackets[place]).mean()))
    wrong: Controls = {
        name: theory.half_time(activation, 1.0, weight, float(np.sqrt(squared)), 0.0)
        for name, (weight, squared) in {
            "effective dimension": (value, _squares(inputs) / inputs.trace**2),
            "λ_p^{J/2−1}": (1.0, alone),
            "d for": (value, value / inputs.dim),
        }.items()
    }
    text = f"time to squared cosine ½, {activation.name}, λ = p^−{alpha:g}, d = 3000, p = {_RANKS[place]}"
    key = f"time-{activation.name}-{alpha:g}".replace(".", "")
    allowance = predicted * float(_spread(brackets)[place])
    return Measurement(text, predicted, float(measured[place]), 0.0, allowance, wrong, _WHERE, key)


def _in_trace() -> Measurement:
    """At fixed λ_12 more small eigenvalues: α = ½, from d = 300 to 3000."""
    found = [_times("h4", 0.5, 300, (12,)), tuple(x[2:3] for x in _times("h4", 0.5, 3000))]
    inputs = [_inputs(0.5, dim) for dim in (300, 3000)]
    traces = np.array([x.trace for x in inputs])
    squares = [_squares(x) for x in inputs]
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


# ------------------------------------------------------------------- real steps, a spiked covariance

#: Inputs, and of each direction: its place, g at the start.
_SPIKED = Inputs.spiked(32, 30.0, 12.0)
_FOUND = {"spike": (1, 1.0), "bulk": (2, 3.0)}
#: The smaller of two step sizes over the batch, times λ_p; batch; when runs end, in flow times; records.
_STEP, _BATCH, _LATE, _SAVES = 6e-5, 32, 1.8, 240


def _row(place: int, size: float) -> Start:
    """A row with all squared coordinates equal but that on the direction, g² of them."""
    parts, first = [], 0
    for d in _SPIKED.multiplicities:
        own = size if first <= place < first + d else 1.0
        parts.append(np.array([[own, np.sqrt(d - 1)]])[:, :d])
        first += d
    total = np.sqrt(sum(np.sum(part**2) for part in parts))
    return Start(tuple(1e-2 * part / total for part in parts))


def _sgd_times(model: DeclaredModel, start: Start, end: float, replicas: int, seed: int) -> np.ndarray:
    """Sum of step sizes until squared correlation ½, by replica; inf where that is late."""
    size = float(model.rule.step_size)  # type: ignore[arg-type]
    steps = int(_LATE * end / size)
    data = declared_sgd(model, start, steps=steps, replicas=replicas, seed=seed, method="ambient", saves=_SAVES).dataset
    return emergence_times(model, data)[:, 0]


def _median(values: np.ndarray) -> float:
    return float(np.median(values))


@claim(
    id="M30",
    title="Emergence under a spiked covariance, by SGD",
    statement="SGD finds directions in the spike and in the bulk at the times of one row's flow under the covariance.",
    latex=r"n\eta\to T_p,\quad T_p\simeq(\mathrm{Tr}\Lambda)^{J/2-1}/(J(J-2)a\lambda_p^{J/2}|g_p|^{J-2})",
    source="derived",
    kind="asymptotic",
    regime="one row normed by its field, η → 0 from two step sizes; the flow of the row, exactly",
    controls=("isotropic inputs", "d for Tr Λ", "λ_p^{J/2−1}: metric forgotten"),
)
def run_spiked(context: Context) -> Iterator[Part]:
    """Median of samples times step size to squared correlation ½, extrapolated to η = 0, against the flow."""
    activation = Activation.parse("h3")
    for name, (place, size) in _FOUND.items():
        directions = Directions.eigenvectors(_SPIKED, [place], variance=1.0)
        start, value = _row(place, size), 12.0 if name == "spike" else 1.0
        model = DeclaredModel(directions, Additive(activation, (1.0,)), whitened(activation, 1), Rule(1.0))
        exact = follow(model, Row.of(model, start, 0), 0, 100.0).found
        found = []
        for factor in (1, 2):
            one = replace(model, rule=Rule(factor * _STEP / value * _BATCH, _BATCH))
            seed, count = context.seed_for("M30", name, factor), context.pick(144, 1280)
            runs = _sgd_times(one, start, exact, count, seed)
            found.append((_median(runs), bootstrap_error(runs, _median, context.rng("M30", name, factor))))
        (fine, e1), (coarse, e2) = found
        task = SingleTask(activation)
        overlap = size * float(np.sqrt(value / _SPIKED.trace))
        controls: Controls = {
            "isotropic": task.half_time(1.0, size / float(np.sqrt(_SPIKED.dim))),
            "d for": task.half_time(value, size * float(np.sqrt(value / _SPIKED.dim))),
        }
        if value > 1:
            controls["λ_p^{J/2−1}"] = task.half_time(1.0, overlap)
        yield Measurement(
            f"n·η to squared correlation ½, η → 0, direction in the {name}, h3, spiked(32, 30, 12)",
            exact, 2 * fine - coarse, float(np.hypot(2 * e1, e2)),
            (coarse - fine) ** 2 / exact + _LATE * exact / _SAVES + ERROR * exact, controls,
            "square of the first order in η; spacing of the record", name,
            {"at η": fine, "at 2η": coarse, "leading order": float(theory.emergence_time(
                activation, 1.0, np.array([value]), _SPIKED.trace, np.array([size]))[0])},
        )  # fmt: skip
