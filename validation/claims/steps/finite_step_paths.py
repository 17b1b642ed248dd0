"""F4, F5, F6, F9, E24: recovery times at a finite step size. Exact SGD, the one-task diffusion's paths, and its law."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynamics.additive.online_sgd import recovery_steps
from dynamics.one_task.chain import ChainLaw, one_task_chain
from dynamics.one_task.one_step_drift import critical_step
from dynamics.one_task.sde import RESOLUTION, OneTaskPaths, one_task_paths
from theory import Activation, SingleTask, Teacher, plateau
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import HittingDistribution, hitting_distribution
from theory.one_task.rare_samples import kick_kurtosis
from theory.one_task.third_order import third_order, with_third_order
from validation.experiments.states import single_overlap_state
from validation.figures.steps import recovery_times, stability_map
from validation.judge.claim import Control, Controls, Measurement, Outcome, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.under_test import once
from validation.statistics.standard_errors import bootstrap_error, mean_and_error, share_error

COST = 28

_EQUATION = r"du=\{a\varphi'(u)(1-u^2)-\eta K(u)\}\,dt+\sqrt{\eta N(u)}\,dW"


#: Samples of a run over the kurtosis of one sample's kick: below this the kicks do not add up to a Gaussian.
LEAST_SAMPLES = 1.0
#: Quantile of the law at which shares of recovered runs are compared: early, where the controls are far off.
_QUANTILE = 0.25
#: A run is given up after this many times the gradient flow's recovery time.
HORIZON = 3.0
_SCALE = 1e-3
#: Samples per block of the simulator, after which recovery is looked at.
BLOCK = 8
#: Initial overlap squared times d: about the largest of thirty random students'.
START = 8.0


@dataclass(frozen=True)
class Case:
    """One light student, one teacher: activation, dimension, step size times d^(J/2), replicas."""

    text: str
    dim: int
    scaled_step: float
    replicas: int
    start: float = START

    @property
    def activation(self) -> Activation:
        return Activation.parse(self.text)

    @property
    def exponent(self) -> float:
        """J/2, the power of d by which the step size is scaled."""
        return self.activation.information_exponent / 2

    @property
    def step_size(self) -> float:
        return self.scaled_step / self.dim**self.exponent

    @property
    def overlap(self) -> float:
        return float(np.sqrt(self.start / self.dim))

    @property
    def name(self) -> str:
        return f"{self.text}-d{self.dim}"

    @property
    def problem(self) -> str:
        """In words, for the name of a measurement."""
        return f"{self.text}, d = {self.dim}, η d^{self.exponent:g} = {self.scaled_step:g}"

    def diffusion(self, context: Context) -> OneTaskDiffusion:
        constants = once(plateau, self.activation)
        return OneTaskDiffusion(self.activation, 1.0, self.step_size, 1.0, self.dim, constants=constants)

    def boundary_share(self, context: Context) -> float:
        """η over the step size at which the drift vanishes at the start."""
        bound = once(plateau, self.activation).critical_step(1.0, self.overlap, 1.0, self.dim)
        return float(self.step_size / bound)

    @property
    def horizon(self) -> float:
        """Gradient-flow time at which a run is given up."""
        return HORIZON * SingleTask(self.activation).half_time(1.0, self.overlap)


#: A run that meets many of the samples that matter, those with |x_p|² ≈ 4J−2: the diffusion is near there.
MANY = Case("h3", 256, 0.5, 480)
#: Outside of the diffusion: a handful of samples decide a run.
SMALL = Case("h4", 64, 1.0, 128)
#: Half of the drift's boundary: the diffusion says that few runs recover. SGD does better.
BOUNDARY = Case("h3", 256, 2.0, 384)
QUICK = (MANY, BOUNDARY, SMALL)
FULL = (
    *QUICK,
    Case("h3", 64, 0.5, 512),
    Case("h3", 512, 0.5, 128),
    Case("h3", 1000, 2.0, 64),
    Case("h4", 256, 1.0, 128),
)
#: Where the allowance of F4 comes from.
_GRID = "the law's grid (cells doubled) and the block of 8 samples"
SAMPLES_QUICK = (MANY, Case("h3", 384, 0.5, 128))
SAMPLES_FULL = (*SAMPLES_QUICK, Case("h3", 512, 0.5, 128))


@lru_cache(maxsize=16)
def sgd_times(context: Context, case: Case) -> np.ndarray:
    """Recovery times of exact SGD in gradient-flow time; inf beyond the horizon."""
    found = recovery_steps(
        case.activation,
        Teacher.of([1.0], case.dim),
        single_overlap_state(case.overlap, _SCALE),
        step_size=case.step_size,
        steps=int(np.ceil(case.horizon / case.step_size)),
        directions=(0,),
        replicas=case.replicas,
        seed=context.seed_for("one task", "SGD", case.problem),
        block_steps=BLOCK,
        progress=context.within(case.problem),
    )
    times = found[:, 0] * case.step_size
    return np.where(times <= case.horizon, times, np.inf)


@lru_cache(maxsize=16)
def _noise(context: Context, case: Case) -> int:
    """One seed for all resolutions: their paths have the same noise."""
    return context.seed_for("one task", "paths", case.problem)


@lru_cache(maxsize=32)
def sde_paths(context: Context, case: Case, resolution: float = RESOLUTION, euler: bool = False) -> OneTaskPaths:
    """Paths of the one-task diffusion for the same problem."""
    found = one_task_paths(
        case.diffusion(context),
        case.overlap,
        time=case.horizon,
        paths=context.pick(8000, 40000),
        seed=_noise(context, case),
        resolution=resolution,
        euler=euler,
    )
    assert isinstance(found, OneTaskPaths)
    return found


def _law_moments(diffusion: OneTaskDiffusion, case: Case) -> tuple[float, float, float]:
    """Mean and standard deviation of min(T, horizon), and P(T ≤ horizon), by the backward equation."""
    law = hitting_distribution(diffusion, case.overlap, cells=500)
    return *law.cut_moments(case.horizon), float(law.cdf(np.array([case.horizon]))[0])


def without_shrinkage(diffusion: OneTaskDiffusion) -> OneTaskDiffusion:
    """The diffusion without the second order of its drift."""
    return replace(diffusion, with_shrinkage=False)


def _quieter(diffusion: OneTaskDiffusion) -> OneTaskDiffusion:
    """Half the noise amplitude."""
    laws = diffusion.laws
    return replace(diffusion, constants=replace(laws, variance_law=laws.variance_law / 4))


@lru_cache(maxsize=128)
def chain_law(case: Case, cells: int = 300, order: int = 96) -> ChainLaw:
    """The law of real steps, cut at the horizon."""
    return one_task_chain(
        case.activation,
        Teacher.of([1.0], case.dim),
        0,
        case.overlap,
        case.step_size,
        time=case.horizon,
        cells=cells,
        order=order,
    )


@claim(
    id="F4",
    title="Recovery times where the step size matters",
    statement="Where gradient flow is off by a factor, the law of real steps has the mean and the spread of SGD's "
    "recovery times.",
    latex=r"P(T>n\eta)=\sum_j\big(P^n\big)_{u_0j},\quad P(u'\mid u)\ \text{of one real step}",
    source="derived",
    kind="exact",
    regime="one light student, η d^(J/2) of order one, at any dimension",
    controls=(
        "gradient flow",
        "no O(η²) drift",
        "no diffusion",
        "noise amplitude halved",
        "second order: the diffusion",
    ),
)
def run_law(context: Context) -> Iterator[Part]:
    """Mean and standard deviation of min(T, horizon) over SGD replicas against the law of real steps."""
    for case in FULL if context.full else QUICK:
        times = sgd_times(context, case)
        yield from _judged(context, case, np.minimum(times, case.horizon))
        paths, grid = sde_paths(context, case), np.linspace(0.0, case.horizon, 200)
        still = SingleTask(case.activation).half_time(1.0, case.overlap)
        caption = f"Recovery times, {case.problem}: SGD, the law of real steps, and paths of the diffusion."
        yield caption, recovery_times(times, paths.times, grid, chain_law(case).cdf(grid), still)


def _judged(context: Context, case: Case, capped: np.ndarray) -> Iterator[Measurement]:
    """Mean and standard deviation of the SGD times; the diffusion's stand in the details."""
    law, coarse, diffusion = chain_law(case), chain_law(case, 150), case.diffusion(context)
    still = SingleTask(diffusion.activation).half_time(1.0, case.overlap)
    noise_only, second = _law_moments(without_shrinkage(diffusion), case), _law_moments(diffusion, case)
    granularity = BLOCK * case.step_size  # recovery is looked at once per block of samples
    name, spread = f"{case.name}-c{case.scaled_step:g}", law.std_error(capped.size)
    mean, error = mean_and_error(capped)
    details: dict[str, object] = {
        "diffusion of second order": second[0],
        "η/η_c": case.boundary_share(context),
        "samples over kurtosis": _one_task_samples(case),
        "share recovered": float(np.mean(capped < case.horizon)),
    }
    allowed = abs(law.mean - coarse.mean) + granularity
    text = f"mean recovery time of SGD, cut at {HORIZON:g} flow times, {case.problem}"
    controls = {
        "gradient flow": still,
        **_telling(
            law.mean,
            law.std / np.sqrt(capped.size),
            {"no O(η²) drift": noise_only[0], "second order: the diffusion": second[0]},
        ),
    }
    yield Measurement(text, law.mean, mean, error, allowed, controls, _GRID, key=f"{name}.mean", details=details)
    allowed = abs(law.std - coarse.std) + granularity
    text = f"standard deviation of that time, {case.problem}"
    controls = {
        "no diffusion": 0.0,
        **_telling(
            law.std,
            spread,
            {
                "noise amplitude halved": _law_moments(_quieter(diffusion), case)[1],
                "second order: the diffusion": second[1],
            },
        ),
    }
    kept = {"diffusion of second order": second[1]}
    yield Measurement(
        text, law.std, float(np.std(capped, ddof=1)), spread, allowed, controls, _GRID, key=f"{name}.std", details=kept
    )


def _telling(right: float, error: float, wrong: dict[str, float]) -> Controls:
    """The wrong theories that so many replicas can tell from the right one, as theory has it: seven standard errors off.

    A verdict rejects beyond four, and an estimate is more than three from the truth once in a thousand runs.
    """
    return {name: value for name, value in wrong.items() if abs(value - right) > 7 * error}


@claim(
    id="F4-second-order",
    title="Second order near the boundary",
    statement="The same SDE near the boundary of the step size, where a handful of large steps decide a run.",
    latex=_EQUATION,
    source="derived",
    kind="asymptotic",
    regime="outside its regime: a second-order expansion at η ≈ η_c/2",
    controls=("no O(η²) drift", "every run below the drift's boundary recovers", "gradient flow (full)"),
    expected="disagrees",
)
def run_second_order(context: Context) -> Iterator[Part]:
    """Share recovered at half the drift's boundary, and (full) a mean where a handful of large steps decide a run."""
    yield _judge_share(context, BOUNDARY)
    if context.full:
        yield _judge_small(context)


def _judge_small(context: Context) -> Measurement:
    times, diffusion = sgd_times(context, SMALL), SMALL.diffusion(context)
    mean, error = mean_and_error(np.minimum(times, SMALL.horizon))
    predicted = _law_moments(diffusion, SMALL)[0]
    allowed = BLOCK * SMALL.step_size
    text = f"mean recovery time of SGD, cut at {HORIZON:g} flow times, {SMALL.problem}"
    controls = {"gradient flow": SMALL.horizon / HORIZON}
    source = "the block of 8 samples"
    details = {"η/η_c": SMALL.boundary_share(context), "share recovered": float(np.isfinite(times).mean())}
    return Measurement(text, predicted, mean, error, allowed, controls, source, f"{SMALL.name}.mean", details)


def _judge_share(context: Context, case: Case) -> Measurement:
    """Share of SGD runs that recover within the horizon, inside the drift's boundary."""
    diffusion, times = case.diffusion(context), sgd_times(context, case)
    law, end = hitting_distribution(diffusion, case.overlap), np.array([case.horizon])
    predicted, share = float(law.cdf(end)[0]), float(np.isfinite(times).mean())
    block = float(np.diff(law.cdf(end[0] + BLOCK * case.step_size * np.array([-1, 0])))[0])
    third = float(hitting_distribution(_third_order(diffusion, case), case.overlap).cdf(end)[0])
    stderr = share_error(predicted, case.replicas)
    allowed = law.error(end) + block + abs(third - predicted)
    text = f"share of SGD runs that recover within {HORIZON:g} flow times, {case.problem}"
    controls = {
        "no O(η²) drift": _law_moments(without_shrinkage(diffusion), case)[2],
        "every run below the drift's boundary recovers": 1.0,
    }
    source = computed_by(
        HittingDistribution.error,
        "third order in the step size, the grid of the backward equation, and the block of 8 samples",
    )
    details = {"η/η_c": case.boundary_share(context)}
    return Measurement(text, predicted, share, stderr, allowed, controls, source, f"{case.name}.share", details)


def _third_order(diffusion: OneTaskDiffusion, case: Case) -> OneTaskDiffusion:
    """The diffusion with the third order of the mean of a step added, at the start's proportion to the second."""
    laws = with_third_order(diffusion.laws, 1.0, case.overlap, case.step_size, case.dim)
    return replace(diffusion, constants=laws)


@claim(
    id="F5",
    title="Boundary of the step size",
    statement="The mean of one step changes sign at the derived η_c, within the third order in the step size.",
    latex=r"\eta_c=a\varphi'(u)(1-u^2)/K(u)",
    source="derived; arXiv:2504.19983, Corollary 2.3 uses its scale",
    kind="asymptotic",
    regime="overlap 1/√d",
    controls=("shrinkage without its ½", "shrinkage halved", "no O(η²) drift"),
)
def run_boundary(context: Context) -> Iterator[Part]:
    """Step size at which the mean of one real step vanishes at overlap 1/√d."""
    activation, weights = Activation.parse("h4"), (0.8, 0.6)
    constants = once(plateau, activation)
    for dim in (64, 256, 1024):
        teacher, overlap = Teacher.of(weights, dim), dim**-0.5
        for direction, (weight, other) in enumerate((weights, weights[::-1])):
            predicted = constants.critical_step(weight, overlap, 1.0, dim)
            shrinkage = float(constants.laws(weight, 1.0, dim)[0](overlap))
            share = predicted * third_order(activation, weight, other, overlap, dim) / shrinkage
            corrected = predicted * (np.sqrt(1 - 4 * share) - 1) / (-2 * share)  # root of 1 − x + share·x²
            measured = critical_step(activation, teacher, direction, overlap, predicted, order=40)
            allowed = abs(predicted - corrected)
            text = f"step size at which the mean of one real step vanishes, overlap 1/√d, d = {dim}, a = {weight:g}"
            controls = {
                "shrinkage without its ½": predicted / 2,
                "shrinkage halved": 2 * predicted,
                "no O(η²) drift": np.inf,
            }
            source = "third order in the step size"
            details = {"ratio": measured / predicted}
            yield Measurement(text, predicted, measured, 0.0, allowed, controls, source, f"d{dim}.a{weight:g}", details)
    yield _map(context)


def _map(context: Context) -> tuple[str, object]:
    """Recovery probability in (η d^(J/2), d), both boundaries, and SGD's shares; activation h3."""
    dims, scaled = np.geomspace(48, 2048, 6), np.geomspace(0.2, 10, 9)
    base = Case(BOUNDARY.text, 64, 1.0, 1)
    probability, drift = np.empty((dims.size, scaled.size)), np.empty(dims.size)
    for i, dim in enumerate(dims):
        case = replace(base, dim=round(dim))
        drift[i] = case.scaled_step / case.boundary_share(context)
        for place, value in enumerate(scaled):
            here = replace(case, scaled_step=float(value))
            probability[i, place] = 1 - chain_law(here, cells=60, order=48).survival[-1]
    several = {BOUNDARY, *((*FULL, *SAMPLES_FULL) if context.full else (*QUICK, *SAMPLES_QUICK))}
    cases = [case for case in several if case.text == base.text]
    shares = [float(np.isfinite(sgd_times(context, case)).mean()) for case in cases]
    figure = stability_map(
        scaled, dims, probability, drift, [x.scaled_step for x in cases], [x.dim for x in cases], shares, base.exponent
    )
    caption = (
        f"Stability map, {base.text}: probability that a direction of weight 1 is recovered within {HORIZON:g} "
        f"gradient-flow times, from overlap √({START:g}/d). Colour: the law of real steps; circles: exact SGD, same colours; "
        "line: probability ½; dashed: boundary of the drift."
    )
    return caption, figure


@claim(
    id="F6",
    title="Discretisation of the SDE",
    statement="With its step rule the SDE's paths have the backward equation's mean recovery time, in some hundred "
    "steps at any d.",
    latex=r"\Delta t=\delta\big/\big(|b|/\ell+D/\ell^2\big)",
    source="derived",
    kind="asymptotic",
    regime="δ ≪ 1",
    controls=("Euler–Maruyama with the same steps", "gradient flow"),
)
def run_discretisation(context: Context) -> Iterator[Part]:
    """Mean hitting time of the SDE's paths at the default resolution against the backward equation, at large d."""
    for dim in (10**5, 10**6):
        case = Case("h4", dim, 0.25, 0)
        fine, coarse, euler = (
            np.minimum(x.times, case.horizon)
            for x in (
                sde_paths(context, case),
                sde_paths(context, case, 2 * RESOLUTION),
                sde_paths(context, case, RESOLUTION, True),
            )
        )
        paths, law = sde_paths(context, case), _law_moments(case.diffusion(context), case)
        mean, error = mean_and_error(fine)
        wrong, wrong_error = mean_and_error(euler)
        allowed = abs(mean - float(coarse.mean()))
        text = f"mean recovery time of the SDE's paths, d = {dim}, step rule δ = {RESOLUTION:g}"
        controls: Controls = {
            "Euler–Maruyama with the same steps": Control(law[0], wrong, wrong_error),
            "gradient flow": case.horizon / HORIZON,
        }
        source = "discretisation error, from the step rule with δ doubled"
        details = {
            "steps per path": float(paths.steps.mean()),
            "most steps": int(paths.steps.max()),
            "SGD steps in that time": mean / case.step_size,
            "standard deviation": float(fine.std(ddof=1)),
            "relative discretisation error": float(abs(mean - coarse.mean()) / mean),
        }
        yield Measurement(text, law[0], mean, error, allowed, controls, source, key=f"d{dim}", details=details)


@claim(
    id="E24",
    title="Samples to recovery",
    statement="At step size of order d^{−J/2} the number of samples grows as d^{J−1}, with the finite-size exponent "
    "of the law.",
    latex=r"T\sim a^{-2}d^{J-1}",
    source="arXiv:2504.19983, Theorem 2.1",
    kind="asymptotic",
    regime="one light student; compared with the one-task diffusion's law over the same sizes",
    controls=("one power of d more", "one power of d less"),
)
def run_samples(context: Context) -> Iterator[Part]:
    """Exponent in d of the median number of samples at η = c·d^(−J/2), against the law's over the same sizes."""
    cases = SAMPLES_FULL if context.full else SAMPLES_QUICK
    sizes = [case.dim for case in cases]
    logs, errors, expected = [], [], []
    for case in cases:
        steps = sgd_times(context, case) / case.step_size
        logs.append(float(np.log(np.median(steps))))
        errors.append(
            bootstrap_error(steps, lambda x: float(np.log(np.median(x))), context.rng("E24", "resampling", case.dim))
        )
        law = hitting_distribution(case.diffusion(context), case.overlap)
        expected.append(float(np.log(law.quantile(0.5) / case.step_size)))
    across = np.log(sizes) - np.mean(np.log(sizes))
    scale = float(np.sum(across**2))
    slope, predicted = (float(across @ np.array(y) / scale) for y in (logs, expected))
    stderr = float(np.sqrt(np.sum((across * np.array(errors)) ** 2)) / scale)
    block = BLOCK * float(np.max(np.exp(-np.array(expected)))) * float(np.sum(np.abs(across))) / scale
    text = (
        f"exponent in d of the median number of samples, {cases[0].text}, "
        f"η d^{cases[0].exponent:g} = {cases[0].scaled_step:g}, d = {', '.join(map(str, sizes))}"
    )
    controls = {"one power of d more": predicted + 1, "one power of d less": predicted - 1}
    source = "recovery is looked at once per block of 8 samples"
    details = {"asymptotic": 2 * cases[0].exponent - 1}
    yield Measurement(text, predicted, slope, stderr, block, controls, source, key="dim", details=details)


def _one_task_samples(case: Case) -> float:
    """Samples of a run over the kurtosis of one sample's kick, one teacher."""
    steps = case.horizon / HORIZON / case.step_size
    return steps / kick_kurtosis(case.activation, [1.0])


@claim(
    id="F9",
    title="Probability to recover in time",
    statement="The share of SGD runs that have recovered by a given time is that of the one-task diffusion.",
    latex=r"P(T\le t),\quad\tfrac D2m''+bm'=sm",
    source="derived",
    kind="asymptotic",
    regime="a run sees more samples than the kurtosis of one sample's kick; other cases are shown, not judged",
    controls=("no O(η²) drift", "gradient flow"),
)
def run_probability(context: Context) -> Outcome:
    """Share of SGD runs recovered by the quantiles of the one-task law; outside its validity only shown."""
    cases = dict.fromkeys((*QUICK, *SAMPLES_QUICK, *(FULL * context.full)))
    found, outside = [], {}
    for case in cases:
        samples, times = _one_task_samples(case), sgd_times(context, case)
        law = hitting_distribution(case.diffusion(context), case.overlap, cells=500)
        if samples < LEAST_SAMPLES:
            middle = min(law.quantile(0.5), case.horizon)
            outside[f"{case.problem}: samples / kurtosis {samples:.2g}"] = (
                f"recovered by the law's median (or the horizon): SGD {float(np.mean(times <= middle)):.2f}, law "
                f"{float(law.cdf(np.array([middle]))[0]):.2f}"
            )
            continue
        found.append(_share(context, case, law, times, samples))
    found[0] = replace(found[0], details={**found[0].details, **outside})
    return Outcome(found)


def _share(context: Context, case: Case, law: HittingDistribution, times: np.ndarray, samples: float) -> Measurement:
    end = law.quantile(_QUANTILE)
    block = float(np.diff(law.cdf(end + BLOCK * case.step_size * np.array([-1, 0])))[0])
    bare = hitting_distribution(without_shrinkage(case.diffusion(context)), case.overlap, cells=500)
    still = float(end >= case.horizon / HORIZON)
    estimate = float(np.mean(times <= end))
    stderr = share_error(_QUANTILE, case.replicas)
    kicks = abs(float(chain_law(case).cdf(np.array([end]))[0]) - _QUANTILE)
    allowed = law.error(np.array([end])) + block + kicks
    text = f"share of SGD runs recovered by the law's {100 * _QUANTILE:.0f} % quantile, {case.problem}"
    controls = {"no O(η²) drift": float(bare.cdf(np.array([end]))[0]), "gradient flow": still}
    source = computed_by(HittingDistribution.error, "the block of 8 samples, the grid of the backward equation")
    source = computed_by(one_task_chain, f"{source}, and that kicks are not Gaussian: the law of real steps")
    details = {"samples of a run over the kurtosis of a kick": samples, "left out: kicks that are not Gaussian": kicks}
    return Measurement(text, _QUANTILE, estimate, stderr, allowed, controls, source, key=case.name, details=details)
