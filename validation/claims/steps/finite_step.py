"""F1, F2, F3: one SGD step of finite size, its mean and covariance; and the mean path where gradient flow fails."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from dynamics import finite_step_flow, gradient_flow, online_sgd
from dynamics.steps.finite_step import lowered_step, one_step_mean, parameters_of
from dynamics.steps.step_covariance import displacement_covariance
from theory import Activation, InitialState, SingleTask, System, Teacher, finite_step, plateau
from theory.one_task.plateau import Plateau
from theory.one_task.third_order import with_third_order
from validation.experiments.one_step import BLOCK, StepSamples, sampled_expansion, sampled_step
from validation.experiments.states import overlaps_of_vectors, random_vectors
from validation.figures.common import mean_paths
from validation.judge.claim import SIGMAS, Control, Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.standard_errors import mean_and_error

COST = 33

_SOURCE = "arXiv:2504.19983, section 2.2 (the step); second order derived"
_TEXTS = ("quadratic", "h3", "h4", "0.8*h4+0.6*h6")
_DIM, _WIDTH, _STUDENTS = 12, 3, 4
#: Random states per activation, and blocks of samples per state: rare samples make mean squares far from normal with fewer.
_STATES, _BLOCKS, _MANY = 2, 9, 20
#: Step at which the exact mean of (T, Q) is judged.
_STEP = 0.05


def _teacher() -> Teacher:
    return Teacher.power_law(_WIDTH, 1.0, _DIM)


def _key(text: str) -> str:
    return "mixture" if "+" in text else text


# ---------------------------------------------------------------------- theory at a state


@dataclass(frozen=True)
class _Point:
    """What theory says at one state: the flow and the second-order terms of (t, c, r), and the covariance, in rows."""

    flow: np.ndarray
    bend: np.ndarray
    half_dimension: np.ndarray
    covariance: np.ndarray


def _row(rates: Mapping[str, jax.Array]) -> np.ndarray:
    above = np.triu_indices(_STUDENTS, 1)
    return np.concatenate([np.asarray(rates["t"]).ravel(), np.asarray(rates["c"])[above], np.asarray(rates["r"])])


def _at(system: System, vectors: np.ndarray) -> _Point:
    state = overlaps_of_vectors(jnp.asarray(vectors), _WIDTH)
    parameters = parameters_of(_teacher(), 1.0)
    drift = lowered_step(system).drift
    flow = _row(drift(state, parameters | {"eta": jnp.asarray(0.0)}))
    with_all = _row(drift(state, parameters))
    smaller = _row(drift(state, parameters | {"d": jnp.asarray(_DIM / 2.0)}))
    return _Point(flow, with_all - flow, smaller - flow, _matrix(displacement_covariance(system, state, parameters)))


def _matrix(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """The covariance of (t, c above the diagonal, r) as one symmetric matrix."""
    m, size = _STUDENTS, _STUDENTS * _WIDTH
    i, h = np.triu_indices(m, 1)
    tt, tr = found["tt"].reshape(size, size), found["tr"].reshape(size, m)
    tc = found["tc"].reshape(size, m, m)[:, i, h]
    cc, cr = found["cc"][i, h][:, i, h], found["cr"][i, h]
    return np.block([[tt, tc, tr], [tc.T, cc, cr], [tr.T, cr.T, found["rr"]]])


# ------------------------------------------------------------------------ mean squares


@dataclass(frozen=True)
class _Scores:
    """Mean square of standard scores over all entries of all states, and its error if they are Gaussian."""

    value: float
    error: float


def _scores(samples: list[StepSamples], predictions: list[np.ndarray]) -> _Scores:
    """The mean square's error follows from the correlations of the entries: variance 2Σρ²/n²."""
    z = [(x.mean - y) / x.stderr for x, y in zip(samples, predictions, strict=True)]
    count = sum(row.size for row in z)
    variance = sum(2 * np.sum(x.correlation**2) for x in samples)
    return _Scores(float(sum(np.sum(row**2) for row in z) / count), float(np.sqrt(variance) / count))


def _judged(
    quantity: str, key: str, samples: list[StepSamples], right: list[np.ndarray], wrong: dict[str, list[np.ndarray]]
) -> Measurement:
    """Right spread of all entries: a mean square of 1; wrong theories give more."""
    score = _scores(samples, right)
    # A wrong prediction's excess has an error of its own, from its cross term with the noise.
    controls: Controls = {}
    for name, rows in wrong.items():
        other = _scores(samples, rows)
        controls[name] = Control(1.0, other.value, float(np.sqrt(score.error**2 * (1 + 2 * abs(other.value - 1)))))
    count = sum(x.mean.size for x in samples)
    text = f"mean square of z over {count} entries, {quantity}"
    source = "exact; error from the correlations of the entries"
    # All entries wrong by a share ε add ε² of their own mean square to that of z.
    signal = sum(float(np.sum((y / x.stderr) ** 2)) for x, y in zip(samples, right, strict=True)) / count
    seen = float(np.sqrt(SIGMAS * score.error / signal))
    return Measurement(text, 1.0, score.value, score.error, 0.0, controls, source, key=key, seen=seen)


@lru_cache(maxsize=8)
def _states(context: Context, text: str) -> list[np.ndarray]:
    return [random_vectors(context.rng("F1-F2", "state", text, i), _STUDENTS, _DIM) for i in range(_STATES)]


@lru_cache(maxsize=8)
def _sampled(context: Context, text: str) -> tuple[list[_Point], list[StepSamples], list[StepSamples]]:
    """Theory, second-order terms and products of first-order ones at every state."""
    activation = Activation.parse(text)
    system = once(finite_step, activation, fluctuations=True)
    blocks = context.pick(_BLOCKS, _MANY)
    points, bends, products = [], [], []
    for i, vectors in enumerate(_states(context, text)):
        context.progress(f"{text}: state {i + 1} of {_STATES}, {blocks * BLOCK} samples")
        rng = context.rng("F1-F2", "samples", text, i)
        bend, product = sampled_expansion(activation, _teacher(), vectors, rng, blocks)
        points.append(_at(system, vectors))
        bends.append(bend)
        products.append(product)
    return points, bends, products


@claim(
    id="F1",
    title="Mean of one step",
    statement="The mean of one SGD step is the derived one, all O(η²) terms and the dimension included.",
    latex=r"E[y'-y]=\eta F(y)+\eta^2\Delta_2(y;d)",
    source=_SOURCE,
    kind="exact",
    regime="any state, any polynomial activation",
    controls=("gradient flow only", "dimension halved", "first order only", "second order doubled"),
)
def run_mean(context: Context) -> Iterator[Part]:
    """Exact mean of (T, Q) after a step, and the second-order terms of (t, c, r), against Monte Carlo."""
    for text in _TEXTS:
        points, bends, _ = _sampled(context, text)
        wrong = {
            "gradient flow only": [0.0 * x.bend for x in points],
            "dimension halved": [x.half_dimension for x in points],
        }
        yield _judged(
            f"second-order terms of t, c, r, {text}", f"{_key(text)}.bend", bends, [x.bend for x in points], wrong
        )
        yield _raw_mean(context, text)


def _raw_mean(context: Context, text: str) -> Measurement:
    activation, teacher = Activation.parse(text), _teacher()
    blocks = context.pick(_BLOCKS, _MANY)
    samples, right, linear = [], [], []
    upper = np.triu_indices(_STUDENTS)
    for i, vectors in enumerate(_states(context, text)):
        samples.append(
            sampled_step(activation, teacher, vectors, _STEP, context.rng("F1", "whole steps", text, i), blocks)
        )
        initial = InitialState(vectors[:, :_WIDTH], np.asarray(np.linalg.qr(vectors[:, _WIDTH:].T, mode="r")).T)
        before = np.concatenate([vectors[:, :_WIDTH].ravel(), (vectors @ vectors.T)[upper]])

        def change(step: float, initial: InitialState = initial, before: np.ndarray = before) -> np.ndarray:
            after = one_step_mean(activation, teacher, initial, step)
            return np.concatenate([after["T"].ravel(), after["Q"][upper]]) - before

        right.append(change(_STEP))
        linear.append((change(1e-3 * _STEP) - change(-1e-3 * _STEP)) / 2e-3)
    wrong = {
        "first order only": linear,
        "second order doubled": [2 * x - y for x, y in zip(right, linear, strict=True)],
    }
    return _judged(f"mean of T, Q after a step of {_STEP}, {text}", f"{_key(text)}.raw", samples, right, wrong)


@claim(
    id="F2",
    title="Covariance of one step",
    statement="The covariances of all overlaps and norms in one SGD step are the derived ones.",
    latex=r"\mathrm{Cov}(y_1',y_2')=\eta^2D_{12}(y)+O(\eta^3)",
    source=_SOURCE,
    kind="exact",
    regime="any state, any polynomial activation",
    controls=("covariance wrong by 30 %", "independent coordinates"),
)
def run_covariance(context: Context) -> Iterator[Part]:
    """All covariances of the coordinates' displacements in one step, against Monte Carlo."""
    for text in _TEXTS:
        points, _, products = _sampled(context, text)
        upper = np.triu_indices(points[0].flow.size)

        def second_moments(
            change: Callable[[np.ndarray], np.ndarray], points: list[_Point] = points
        ) -> list[np.ndarray]:
            upper = np.triu_indices(points[0].flow.size)
            return [(change(x.covariance) + np.outer(x.flow, x.flow))[upper] for x in points]

        wrong = {
            "covariance wrong by 30 %": second_moments(lambda x: 1.3 * x),
            "independent coordinates": second_moments(lambda x: np.diag(np.diag(x))),
        }
        quantity = f"{upper[0].size} covariances of t, c, r, {text}"
        yield _judged(quantity, _key(text), products, second_moments(lambda x: x), wrong)


@dataclass(frozen=True)
class _Path:
    """A warm start far above the noise, and a step at which gradient flow fails.

    ``overlap`` is each student's overlap with its own direction; ``shrinkage`` the second-order drift over the signal at
    the start; the run lasts ``share`` of the emergence time of gradient flow.
    """

    text: str
    dim: int
    teachers: int
    overlap: float
    shrinkage: float
    share: float
    replicas: int


_PATHS = {
    "quick": (_Path("h4", 400, 4, 0.3, 0.5, 0.75, 64), _Path("h3", 400, 4, 0.25, 0.5, 0.75, 448)),
    "full": (
        _Path("h4", 600, 4, 0.25, 0.5, 0.75, 128),
        _Path("h4", 2000, 4, 0.2, 0.5, 0.75, 32),
        _Path("h3", 2000, 4, 0.2, 0.5, 0.75, 64),
    ),
}
_INIT_SCALE = 0.03
#: Records of a path; SGD is looked at every so many steps, so that all curves share their times.
_SAVES, _RESOLUTION = 60, 32


@claim(
    id="F3",
    title="The O(η²) map follows SGD where gradient flow does not",
    statement="At a step size near its stability bound the mean overlap of SGD follows the O(η²) map, not gradient flow.",
    latex=r"\dot y=F_\eta(y)-\tfrac\eta2F_\eta'F_\eta(y)",
    source="derived",
    kind="asymptotic",
    regime="overlap above the noise; step size half of its bound",
    controls=("gradient flow, without O(η²)", "dimension doubled"),
)
def run_path(context: Context) -> Iterator[Part]:
    """Mean overlap of exact SGD against the O(η²) map and against gradient flow."""
    for case in _PATHS["full" if context.full else "quick"]:
        measurement, figure = _judge_path(context, case)
        yield measurement
        caption = (
            f"Mean overlap of SGD ({case.text}, d = {case.dim}, {case.replicas} replicas), of the O(η²) map and of "
            "gradient flow, whose direction is the same and whose step size is zero."
        )
        yield caption, figure


def _start(case: _Path) -> InitialState:
    """Two students, each with one overlap, at right angles to each other."""
    on_teachers = np.zeros((2, case.teachers))
    on_teachers[0, 0] = on_teachers[1, 1] = case.overlap
    return InitialState(_INIT_SCALE * on_teachers, _INIT_SCALE * np.sqrt(1 - case.overlap**2) * np.eye(2))


def _judge_path(context: Context, case: _Path) -> tuple[Measurement, object]:
    activation, start = Activation.parse(case.text), _start(case)
    teacher = Teacher.of([1.0] * case.teachers, case.dim)
    weight = float(teacher.a[0])
    step_size = case.shrinkage * plateau(activation).critical_step(weight, case.overlap, 1.0, case.dim)
    end = case.share * SingleTask(activation).half_time(weight, case.overlap)
    steps = _SAVES * _RESOLUTION * max(1, round(end / step_size / (_SAVES * _RESOLUTION)))
    runs = online_sgd(
        activation,
        teacher,
        start,
        step_size=step_size,
        steps=steps,
        replicas=case.replicas,
        saves=_SAVES,
        seed=context.seed_for("F3", "SGD", case.text, case.dim),
        progress=context.within(f"{case.text}, d = {case.dim}"),
    )
    measured = np.stack([runs.dataset.overlap.values[..., q, q] for q in range(2)]).mean(axis=0)  # (replica, time)
    system = once(finite_step, activation, fluctuations=True)

    def mean_path(teacher: Teacher) -> tuple[np.ndarray, np.ndarray]:
        """Times, and the first student's overlap with its direction, by the map: one mean step after another."""
        path = finite_step_flow(
            activation, teacher, start, step_size=step_size, steps=steps, saves=_SAVES, method="map", system=system
        )
        return path.dataset.time.values, path.dataset.overlap.values[:, 0, 0]

    times, curve = mean_path(teacher)
    larger = mean_path(replace(teacher, dim=2 * case.dim))[1]
    plain = gradient_flow(activation, teacher, start, t_end=float(times[-1]), times=times)
    rival = plain.dataset.overlap.values[:, 0, 0]
    predicted, without = float(curve[-1]), float(rival[-1])
    estimate, stderr = mean_and_error(measured[:, -1])
    left_out = what_is_left_out(activation, weight, case.overlap, step_size, 1.0, case.dim, float(times[-1]))
    text = f"mean overlap after {steps} steps, {case.text}, d = {case.dim}"
    controls = {"gradient flow, without O(η²)": without, "dimension doubled": float(larger[-1])}
    source = computed_by(
        what_is_left_out, "what the map leaves out of the mean: fluctuations (linear noise), third order of a step"
    )
    details = {"step size": step_size, **left_out, "gradient flow over SGD": without / estimate, "start": case.overlap}
    measurement = Measurement(
        text,
        predicted,
        estimate,
        stderr,
        sum(map(abs, left_out.values())),
        controls,
        source,
        key=f"{case.text}.d{case.dim}",
        details=details,
    )
    name = f"mean overlap, {case.text}, d = {case.dim}"
    figure = mean_paths(times, measured, {"O(η²) map": curve}, {"gradient flow": rival}, name)
    return measurement, figure


def what_is_left_out(
    activation: Activation, weight: float, overlap: float, step_size: float, total: float, dim: int, time: float
) -> dict[str, float]:
    """Shifts of the mean overlap at `time`: by fluctuations, and by the third order of a step (its ratio at the start)."""
    laws = plateau(activation)
    third = with_third_order(laws, weight, overlap, step_size, dim, total)
    (alone, moved), (further, _) = (
        _mean_and_shift(x, weight, overlap, step_size, total, dim, time) for x in (laws, third)
    )
    return {"left out: fluctuations": moved, "left out: third order": further - alone}


def _mean_and_shift(
    laws: Plateau, weight: float, overlap: float, step_size: float, total: float, dim: int, time: float
) -> tuple[float, float]:
    r"""The mean overlap at `time`, and the first effect of fluctuations on it, by the linear noise approximation.

    With $b=a\varphi'(u)(1-u^2)-\eta K(u)$: $\dot V=2b'V+\eta N$, $\dot s=b's+\tfrac12b''V$ along $\dot u=b$.
    """
    shrinkage, variance = laws.laws(weight, total, dim)
    speed = SingleTask(laws.activation).speed

    def b(u: float) -> float:
        return float(speed(np.array([u]), weight)[0] - step_size * shrinkage(u))

    def rates(_: float, y: np.ndarray) -> list[float]:
        u, spread, shift = y
        h = 1e-3
        slope, bend = (b(u + h) - b(u - h)) / (2 * h), (b(u + h) - 2 * b(u) + b(u - h)) / h**2
        return [b(u), 2 * slope * spread + step_size * variance(u), slope * shift + 0.5 * bend * spread]

    solution = solve_ivp(rates, (0.0, time), [overlap, 0.0, 0.0], rtol=1e-8, atol=1e-12)
    return float(solution.y[0, -1]), float(solution.y[2, -1])
