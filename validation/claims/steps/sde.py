"""F8: the SDE of all overlaps against exact SGD, two students and two directions."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynamics import SdeResult, sde_ensemble
from dynamics.additive.online_sgd import recovery_steps
from dynamics.steps.sde import RESOLUTION
from theory import Activation, InitialState, SingleTask, Teacher, finite_step
from theory.one_task.rare_samples import kick_kurtosis
from validation.figures.steps import recovery_of_directions
from validation.judge.claim import Measurement, Part, claim
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.readings import deviation
from validation.statistics.standard_errors import bootstrap_error, mean_and_error

COST = 21

_WEIGHTS = (0.8, 0.6)
#: Runs end after this many gradient-flow times of the last direction.
_HORIZON = 2.25
_SCALE = 1e-2
_BLOCK = 8


@dataclass(frozen=True)
class Pair:
    """Two students, two teachers of weights `_WEIGHTS`; η = scaled · d^(−J/2)."""

    text: str
    dim: int
    scaled_step: float
    replicas: int

    @property
    def activation(self) -> Activation:
        return once(Activation.parse, self.text)

    @property
    def teacher(self) -> Teacher:
        return Teacher.of(list(_WEIGHTS), self.dim)

    @property
    def step_size(self) -> float:
        return self.scaled_step / self.dim ** (self.activation.information_exponent / 2)

    @property
    def start(self) -> InitialState:
        """Student k has squared overlap 8/d with direction k and 1/d with the other; the residuals are orthogonal."""
        strong, weak = np.sqrt(8 / self.dim), np.sqrt(1 / self.dim)
        rest = np.sqrt(1 - strong**2 - weak**2)
        return InitialState(_SCALE * np.array([[strong, weak], [weak, strong]]), _SCALE * rest * np.eye(2))

    def flow_time(self, direction: int) -> float:
        """Gradient flow's recovery time of a direction on its own."""
        return SingleTask(self.activation).half_time(_WEIGHTS[direction], float(np.sqrt(8 / self.dim)))

    @property
    def horizon(self) -> float:
        return _HORIZON * self.flow_time(1)

    def samples(self, direction: int) -> float:
        """Samples that a run sees, over the kurtosis of one sample's kick."""
        kurtosis = kick_kurtosis(self.activation, _WEIGHTS, direction)
        return self.flow_time(direction) / self.step_size / kurtosis

    @property
    def problem(self) -> str:
        exponent = self.activation.information_exponent / 2
        return f"{self.text}, d = {self.dim}, η d^{exponent:g} = {self.scaled_step:g}"


#: Chosen where a run sees several times the kurtosis of a kick in samples (`Pair.samples`), and gradient flow is off by
#: tens of percent.
QUICK = (Pair("h3", 512, 0.5, 192),)
FULL = (*QUICK, Pair("h3", 1000, 1.0, 96))


@lru_cache(maxsize=8)
def sgd_times(context: Context, case: Pair) -> np.ndarray:
    """(replica, 2) recovery times of exact SGD in gradient-flow time; inf where not by the horizon."""
    return case.step_size * recovery_steps(
        case.activation,
        case.teacher,
        case.start,
        step_size=case.step_size,
        steps=int(np.ceil(case.horizon / case.step_size)),
        directions=(0, 1),
        replicas=case.replicas,
        seed=context.seed_for("F8", "SGD", case.dim),
        block_steps=_BLOCK,
        progress=context.within(case.problem),
    )


@lru_cache(maxsize=8)
def _noise(context: Context, case: Pair) -> int:
    """One seed for all variants: their paths have the same noise, and differ by the variant alone."""
    return context.seed_for("F8", "paths", case.dim)


@lru_cache(maxsize=32)
def sde_runs(
    context: Context, case: Pair, resolution: float = RESOLUTION, second_order: bool = True, fluctuations: bool = True
) -> SdeResult:
    """Paths of the SDE for the same problem; all of a case have the same size, so that one is compiled."""
    context.progress(f"{case.problem}: SDE paths")
    return sde_ensemble(
        case.activation,
        case.teacher,
        case.start,
        step_size=case.step_size,
        time=case.horizon,
        paths=context.pick(384, 512),
        seed=_noise(context, case),
        saves=1,
        resolution=resolution,
        second_order=second_order,
        fluctuations=fluctuations,
        system=once(finite_step, case.activation, fluctuations=True),
    )


def _cut(times: np.ndarray, horizon: float) -> np.ndarray:
    return np.minimum(times, horizon)


@claim(
    id="F8",
    title="SDE of all overlaps",
    statement="For several students and directions the SDE has the mean and the spread of SGD's recovery times, each "
    "direction's.",
    latex=r"dy=\{F-\tfrac\eta2F'F\}\,dt+\sqrt{D}\,dW,\quad y=(t,c,\log r)",
    source="derived",
    kind="asymptotic",
    regime="η d^(J/2) of order one; a run sees more samples than the kurtosis of one sample's kick",
    controls=("no O(η²) drift", "gradient flow", "no diffusion"),
)
def run_overlaps(context: Context) -> Iterator[Part]:
    """Mean and standard deviation of each direction's min(T, horizon): SGD replicas against SDE paths."""
    for case in FULL if context.full else QUICK:
        runs = sgd_times(context, case)
        variants = {
            "SDE": sde_runs(context, case),
            "coarse": sde_runs(context, case, 2 * RESOLUTION),
            "no O(η²) drift": sde_runs(context, case, second_order=False),
            "no diffusion": sde_runs(context, case, fluctuations=False),
        }
        yield _judge_means(case, runs, variants)
        yield from [_judge_spread(context, case, runs, variants, direction) for direction in range(len(_WEIGHTS))]
        caption = (
            f"Two directions, two students, {case.problem}: share of runs recovered by each time, SGD ({case.replicas} "
            "replicas), the SDE of all overlaps, and without its second order or its noise."
        )
        times = {name: run.half_time for name, run in variants.items() if name != "coarse"}
        yield caption, recovery_of_directions(runs, times, case.horizon)


_REASON = "the SDE's own discretisation error (δ doubled) and the block of 8 samples"


def _judge_means(case: Pair, runs: np.ndarray, variants: dict[str, SdeResult]) -> Measurement:
    """The mean over both directions and all runs: neither control is near it."""
    measured = _cut(runs, case.horizon)
    times = {name: _cut(run.half_time, case.horizon) for name, run in variants.items()}
    mean, error = mean_and_error(measured.mean(axis=1))
    center, center_error = mean_and_error(times["SDE"].mean(axis=1))
    each = {
        f"direction {q + 1}, {name}": float(values[:, q].mean())
        for q in range(len(_WEIGHTS))
        for name, values in {"SGD": measured, "SDE": times["SDE"]}.items()
    }
    stderr = float(np.hypot(error, center_error))
    allowed = abs(center - float(times["coarse"].mean())) + _BLOCK * case.step_size
    text = f"mean recovery time of SGD over both directions, cut at {_HORIZON:g} flow times, {case.problem}"
    controls = {
        "no O(η²) drift": float(times["no O(η²) drift"].mean()),
        "gradient flow": float(np.mean([case.flow_time(q) for q in range(len(_WEIGHTS))])),
    }
    details = {
        **each,
        "O(η²) mean path": float(times["no diffusion"].mean()),
        "share recovered": float(np.isfinite(runs).mean()),
        "SDE steps per path": float(variants["SDE"].steps.mean()),
        "diverged paths of the SDE": int(variants["SDE"].diverged.sum()),
    }
    return Measurement(text, center, mean, stderr, allowed, controls, _REASON, f"{case.text}-d{case.dim}.mean", details)


def _judge_spread(
    context: Context, case: Pair, runs: np.ndarray, variants: dict[str, SdeResult], direction: int
) -> Measurement:
    """The standard deviation of one direction's time."""
    measured = _cut(runs[:, direction], case.horizon)
    paths, coarse = (_cut(variants[name].half_time[:, direction], case.horizon) for name in ("SDE", "coarse"))
    rng = context.rng("F8", "resampling", case.dim, direction)
    error = np.hypot(bootstrap_error(measured, deviation, rng), bootstrap_error(paths, deviation, rng))
    estimate = deviation(measured)
    allowed = abs(deviation(paths) - deviation(coarse)) + _BLOCK * case.step_size
    text = f"standard deviation of the time of direction {direction + 1} (a = {_WEIGHTS[direction]:g}), {case.problem}"
    details = {"samples of a run over the kurtosis of a kick": case.samples(direction)}
    controls = {"no diffusion": 0.0}
    key = f"{case.text}-d{case.dim}.{direction + 1}.std"
    return Measurement(text, deviation(paths), estimate, float(error), allowed, controls, _REASON, key, details)
