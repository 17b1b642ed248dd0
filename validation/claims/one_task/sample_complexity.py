"""S1, S2: sample complexity and critical step size of spherical online SGD on a single-index target, exact in law."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynamics.one_task.sde import RESOLUTION, one_task_paths
from dynamics.one_task.spherical_sgd import spherical_sgd
from theory import Activation, SingleTask
from theory.one_task.diffusion import OneTaskDiffusion
from theory.one_task.hitting_distribution import HittingDistribution, hitting_distribution
from theory.one_task.spherical_step import spherical_step
from validation.figures.exponents import Series, collapse, power_laws, slopes
from validation.judge.claim import Controls, Measurement, Part, claim, computed_by
from validation.judge.context import Context
from validation.judge.controls import TENTH, off_by_a_tenth
from validation.judge.under_test import once
from validation.statistics.exponents import ExponentFit, Window, exponent_of, fit_exponent, slope_weights
from validation.statistics.resampling import IndependentSamples
from validation.statistics.standard_errors import share_error

#: Overlap that counts as recovery.
LEVEL = 0.7
#: Runs end after this many predicted medians: by then far more than half have recovered.
_PATIENCE = 2.2
#: A run that has not recovered after this many times the gradient flow's time has failed (S2).
HORIZON = 3.0
_CELLS = 400


@dataclass(frozen=True)
class Family:
    """One information exponent over dimensions, at η = c·d^(−max(J/2, 1)), from overlap √(start/d).

    Attributes:
        scaled: c. dims: dimensions with the number of replicas at each.
        sharp: whether there are replicas enough to reject exponents that are off by 10 %.
    """

    exponent: int
    scaled: float
    start: float
    dims: tuple[tuple[int, int], ...]
    sharp: bool = True

    @property
    def activation(self) -> Activation:
        return Activation.from_degree(self.exponent)

    @property
    def power(self) -> float:
        """max(J/2, 1)."""
        return max(self.exponent / 2, 1.0)

    @property
    def sizes(self) -> np.ndarray:
        return np.array([dim for dim, _ in self.dims], dtype=float)

    def step_size(self, dim: int) -> float:
        return self.scaled / dim**self.power

    def overlap(self, dim: int) -> float:
        return float(np.sqrt(self.start / dim))

    def law(self, dim: int, *, whole: bool = True, cells: int = _CELLS) -> HittingDistribution:
        """Law of the recovery time, in gradient-flow time."""
        diffusion = spherical_step(self.activation).diffusion(self.step_size(dim), dim, whole=whole)
        return hitting_distribution(diffusion, self.overlap(dim), LEVEL**2, cells)

    def median(self, dim: int, *, whole: bool = True, cells: int = _CELLS) -> float:
        """Predicted median number of samples."""
        return _median(self, dim, whole, cells)


@lru_cache(maxsize=256)
def _median(family: Family, dim: int, whole: bool, cells: int) -> float:
    return family.law(dim, whole=whole, cells=cells).quantile(0.5) / family.step_size(dim)


#: c well below the critical step size, so that the one-task diffusion has many small steps at every size.
QUICK = (
    Family(1, 0.5, 1.0, ((100, 64), (1000, 64), (10_000, 64))),
    Family(2, 0.1, 1.0, ((100, 80), (1000, 80), (8000, 40))),
    Family(3, 0.04, 8.0, ((64, 96), (128, 96), (256, 64))),
    Family(4, 0.02, 8.0, ((48, 64), (64, 48), (96, 24)), sharp=False),
)
FULL = (
    Family(1, 0.5, 1.0, ((100, 64), (1000, 64), (10_000, 64), (100_000, 64), (1_000_000, 32))),
    Family(2, 0.1, 1.0, ((100, 64), (1000, 64), (10_000, 64), (100_000, 32))),
    Family(3, 0.04, 8.0, ((64, 128), (128, 128), (256, 96), (512, 64), (1024, 48), (2048, 16))),
    Family(4, 0.02, 8.0, ((48, 128), (64, 96), (96, 64), (128, 64), (192, 32))),
)
#: Dimensions of the diffusion's paths, far beyond what can be simulated step by step.
FAR = ((10_000, 4000), (100_000, 4000), (1_000_000, 4000))
#: How many samples another information exponent would need, up to a factor.
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "d samples (J = 1)": lambda d: d,
    "d log d samples (J = 2)": lambda d: d * np.log(d),
    "d² samples (J = 3)": lambda d: d**2,
    "d³ samples (J = 4)": lambda d: d**3,
    "d⁴ samples (J = 5)": lambda d: d**4,
}


def _listed(sizes: np.ndarray) -> str:
    return ", ".join(f"{size:.0f}" for size in sizes)


def _neighbours(exponent: int, sizes: np.ndarray) -> Controls:
    """What the neighbouring information exponents predict on the same sizes."""
    names = list(SHAPES)
    chosen = names[max(exponent - 2, 0) : exponent - 1] + names[exponent : exponent + 1]
    return {name: exponent_of(sizes, SHAPES[name](sizes)) for name in chosen}


@lru_cache(maxsize=64)
def recovery_steps(context: Context, family: Family, dim: int, replicas: int) -> np.ndarray:
    """(R,) numbers of samples to recovery of exact SGD; inf where it takes more than `_PATIENCE` predicted medians."""
    context.progress(f"J = {family.exponent}, d = {dim}")
    return spherical_sgd(
        family.activation,
        dim,
        family.overlap(dim),
        step_size=family.step_size(dim),
        steps=int(np.ceil(_PATIENCE * family.median(dim))),
        replicas=replicas,
        level=LEVEL,
        seed=context.seed_for("S1", "SGD", family.exponent, dim),
    ).hitting_steps


def _theory_error(fit: ExponentFit, family: Family) -> float:
    """Change of the predicted exponent by a grid of half as many cells."""
    fine, coarse = (
        fit.finite_size([family.median(dim, cells=cells) for dim, _ in family.dims]) for cells in (_CELLS, _CELLS // 2)
    )
    return abs(coarse - fine)


def _judge_family(context: Context, family: Family) -> tuple[Measurement, ExponentFit, IndependentSamples]:
    samples = [recovery_steps(context, family, dim, replicas) for dim, replicas in family.dims]
    curve = IndependentSamples(family.sizes, samples, rng=context.rng("S1", "resampling", family.exponent))
    fit = fit_exponent(curve, Window(family.sizes[0], family.sizes[-1], "every dimension simulated"))
    expected = [family.median(dim) for dim, _ in family.dims]
    predicted = fit.finite_size(expected)
    text = f"exponent in d of the median samples to overlap {LEVEL:g}, h{family.exponent}, d = {_listed(family.sizes)}"
    controls = {**(off_by_a_tenth(predicted) if family.sharp else {}), **_neighbours(family.exponent, family.sizes)}
    details = {
        "exponent with second-order laws": fit.finite_size([family.median(dim, whole=False) for dim, _ in family.dims]),
        "asymptotic": float(max(family.exponent - 1, 1)),
        "95 % interval": [fit.slope.low, fit.slope.high],
        "median samples": np.exp(curve.logs).tolist(),
        "predicted samples": expected,
        "drift of the local slope": fit.local.drift.value if fit.local else None,
        "step size times d^max(J/2, 1)": family.scaled,
    }
    source = computed_by(_theory_error, "the grid of the backward equation")
    slope, stderr, allowed = fit.slope.value, fit.slope.stderr, _theory_error(fit, family)
    measured = Measurement(text, predicted, slope, stderr, allowed, controls, source, f"J{family.exponent}", details)
    return measured, fit, curve


@claim(
    id="S1",
    title="Samples to recovery of one direction",
    statement="Spherical SGD at the critical scale of step size needs of order d, d log d, d^{J−1} samples for J = 1, 2, ≥ 3.",
    latex=r"n\sim d\,(J=1),\quad d\log d\,(J=2),\quad d^{J-1}\,(J\ge3)",
    source="arXiv:2003.10409, Theorems 1.3 and 1.4",
    kind="asymptotic",
    regime="step size c·d^{−max(J/2,1)}, start of order 1/√d; compared with the one-task law on the same sizes",
    controls=(*TENTH, *SHAPES),
)
def run_samples(context: Context) -> Iterator[Part]:
    """Exponents in d of the median number of samples, J = 1 … 4; in full the diffusion's paths to d = 10⁶ too."""
    measured, local = [], []
    for family in FULL if context.full else QUICK:
        measurement, fit, curve = _judge_family(context, family)
        yield measurement
        measured.append(_series(family, curve))
        assert fit.local is not None
        centres, height, error = fit.local.centres, fit.local.slopes, 2 * fit.local.stderr
        expected = np.diff(np.log(measured[-1].predicted)) / np.diff(np.log(family.sizes))
        if expected.size == centres.size:
            name = f"J = {family.exponent}"
            local.append((family, Series(name, centres, height, height - error, height + error, expected)))
        if context.full and family.exponent > 2:
            yield _judge_far(context, family)
    caption = (
        f"Median number of samples to overlap {LEVEL:g} against the dimension, exact spherical SGD; bars: ± two "
        "standard errors; dashed: median of the one-task law."
    )
    yield caption, power_laws(measured, "dimension d", "samples")
    if local:
        limits = [float(max(family.exponent - 1, 1)) for family, _ in local]
        caption = "Local slopes of the same curves: measured, of the law's medians (dashed), asymptotic (dotted)."
        yield caption, slopes([one for _, one in local], limits, "dimension d")


def _series(family: Family, curve: IndependentSamples) -> Series:
    errors = np.array([curve.contrast(row).stderr for row in np.eye(curve.x.size)])
    low, middle, high = (np.exp(curve.logs + sign * errors) for sign in (-2, 0, 2))
    expected = np.array([family.median(dim) for dim, _ in family.dims])
    return Series(f"J = {family.exponent}", family.sizes, middle, low, high, expected)


def _judge_far(context: Context, near: Family) -> Measurement:
    """The same exponent from paths of the diffusion at d = 10⁴ … 10⁶."""
    family = Family(near.exponent, near.scaled, near.start, FAR)
    samples: list[np.ndarray] = []
    coarse: list[np.ndarray] = []
    for dim, paths in FAR:
        law, step_size = family.law(dim, whole=False), family.step_size(dim)
        seed = context.seed_for("S1", "paths", near.exponent, dim)  # one for both resolutions
        for target, resolution in ((samples, RESOLUTION), (coarse, 2 * RESOLUTION)):
            context.progress(f"J = {near.exponent}, paths at d = {dim}")
            assert isinstance(law.diffusion, OneTaskDiffusion)
            time = _PATIENCE * family.median(dim) * step_size
            found = one_task_paths(
                law.diffusion, law.start, time=time, paths=paths, level=LEVEL**2, seed=seed, resolution=resolution
            )
            assert not isinstance(found, list)
            target.append(found.times / step_size)
    curve = IndependentSamples(family.sizes, samples, rng=context.rng("S1", "resampling of paths", near.exponent))
    fit = fit_exponent(curve, Window(FAR[0][0], FAR[-1][0], "every dimension simulated"))
    predicted = fit.finite_size([family.median(dim) for dim, _ in FAR])
    rough = fit.finite_size([float(np.median(x)) for x in coarse])
    allowed = _theory_error(fit, family) + abs(rough - fit.slope.value)
    text = (
        f"the same exponent from paths of the diffusion, h{near.exponent}, d = {', '.join(str(dim) for dim, _ in FAR)}"
    )
    controls = off_by_a_tenth(predicted) | _neighbours(near.exponent, family.sizes)
    source = computed_by(
        _theory_error, "the paths' discretisation (step doubled), and the grid of the backward equation"
    )
    details = {"asymptotic": near.exponent - 1.0, "95 % interval": [fit.slope.low, fit.slope.high]}
    slope, stderr = fit.slope.value, fit.slope.stderr
    return Measurement(text, predicted, slope, stderr, allowed, controls, source, f"J{near.exponent}.far", details)


@dataclass(frozen=True)
class Threshold:
    """Step sizes c·d^(−max(J/2, 1)) across the critical one, for several dimensions."""

    exponent: int
    start: float
    scaled: tuple[float, ...]
    dims: tuple[int, ...]
    replicas: int

    def family(self, scaled: float) -> Family:
        return Family(self.exponent, scaled, self.start, tuple((dim, self.replicas) for dim in self.dims))


def _grid(low: float, points: int) -> tuple[float, ...]:
    return tuple((low * 2 ** (0.5 * np.arange(points))).tolist())


THRESHOLDS_QUICK = (
    Threshold(1, 1.0, _grid(1.0, 5), (100, 400, 1600), 128),
    Threshold(2, 1.0, _grid(0.1, 6), (100, 400, 1600), 88),
    Threshold(3, 8.0, _grid(0.1, 6), (48, 96, 192), 256),
)
THRESHOLDS_FULL = (
    Threshold(1, 1.0, _grid(1.0, 5), (100, 1000, 10_000), 256),
    Threshold(2, 1.0, _grid(0.07, 7), (100, 1000, 10_000), 128),
    Threshold(3, 8.0, _grid(0.05, 8), (64, 192, 576), 128),
)


@lru_cache(maxsize=8)
def success_shares(context: Context, case: Threshold) -> np.ndarray:
    """(dims, step sizes) share of exact SGD runs that recover within `HORIZON` gradient-flow times."""
    shares = np.empty((len(case.dims), len(case.scaled)))
    for place, scaled in np.ndenumerate(np.broadcast_to(case.scaled, shares.shape)):
        dim, family = case.dims[place[0]], case.family(float(scaled))
        context.progress(f"J = {case.exponent}, d = {dim}, step size {scaled:.2g} d^-{family.power:g}")
        runs = spherical_sgd(
            family.activation,
            dim,
            family.overlap(dim),
            step_size=family.step_size(dim),
            steps=int(_horizon(context, family, dim) / family.step_size(dim)),
            replicas=case.replicas,
            level=LEVEL,
            seed=context.seed_for("S2", "SGD", case.exponent, *place),
        )
        shares[place] = float(np.isfinite(runs.hitting_steps).mean())
    return shares


def _horizon(context: Context, family: Family, dim: int) -> float:
    return HORIZON * once(SingleTask, family.activation).half_time(1.0, family.overlap(dim), LEVEL**2)


def _predicted_shares(context: Context, case: Threshold, cells: int) -> np.ndarray:
    """The law's shares on the same grid."""
    return np.array(
        [
            [
                float(family.law(dim, cells=cells).cdf(np.array([_horizon(context, family, dim)]))[0])
                for family in map(case.family, case.scaled)
            ]
            for dim in case.dims
        ]
    )


def _critical_weights(case: Threshold) -> tuple[np.ndarray, np.ndarray]:
    r"""Exponent of the critical step size = first · 1 + Σ second · shares.

    The critical step size is the mean of the distribution of which the shares are the upper tail (Spearman's estimator):
    $\ln c_*=\ln c_1+\int p\,d\ln c$ by the trapezoidal rule; its logarithm minus max(J/2, 1)·ln d is regressed on ln d.
    """
    across = slope_weights(np.array(case.dims, dtype=float))
    logs = np.log(case.scaled)
    trapezoid = np.concatenate([[logs[1] - logs[0]], logs[2:] - logs[:-2], [logs[-1] - logs[-2]]]) / 2
    return across, across[:, None] * trapezoid


#: Powers of the dimension by which the critical step size of some information exponent falls.
POWERS = (0.5, 1.0, 1.5, 2.0)


@claim(
    id="S2",
    title="Critical scale of the step size",
    statement="Whether spherical SGD recovers the direction depends on η d^{max(J/2,1)} alone as the dimension grows.",
    latex=r"\eta_c\sim d^{-\max(J/2,1)}",
    source="arXiv:2003.10409, Theorem 1.3; prefactor derived",
    kind="asymptotic",
    regime="recovery within three gradient-flow times; compared with the one-task law on the same sizes",
    controls=(*TENTH, *(f"critical scale d^-{power:g}" for power in POWERS)),
)
def run_critical(context: Context) -> Iterator[Part]:
    """Exponent in d of the step size beyond which runs fail, against the law's on the same grid, and the collapse."""
    for case in THRESHOLDS_FULL if context.full else THRESHOLDS_QUICK:
        shares, power = success_shares(context, case), case.family(1.0).power
        fine, rough = (_predicted_shares(context, case, cells) for cells in (_CELLS // 2, _CELLS // 4))
        _, weights = _critical_weights(case)
        predicted, coarse = (float(np.sum(weights * x)) - power for x in (fine, rough))
        errors = np.array([[share_error(x, case.replicas) for x in row] for row in shares])
        estimate = float(np.sum(weights * shares)) - power
        stderr = float(np.sqrt(np.sum((weights * errors) ** 2)))
        allowed = abs(coarse - predicted)
        text = f"exponent in d of the critical step size, h{case.exponent}, d = {', '.join(map(str, case.dims))}"
        others = {f"critical scale d^-{x:g}": -x for x in POWERS if 0 < abs(x - power) <= 0.5}
        controls = off_by_a_tenth(predicted) | others
        source = computed_by(_predicted_shares, "the grid of the backward equation")
        details = {
            "asymptotic": -power,
            "shares": shares.tolist(),
            "predicted shares": fine.tolist(),
            "step sizes times d^max(J/2, 1)": list(case.scaled),
        }
        yield Measurement(text, predicted, estimate, stderr, allowed, controls, source, f"J{case.exponent}", details)
        caption = (
            f"Share of runs that recover within {HORIZON:g} gradient-flow times, J = {case.exponent}; "
            "dashed: the one-task law."
        )
        names = [f"d = {dim}" for dim in case.dims]
        yield caption, collapse(np.array(case.scaled), list(shares), list(fine), names, power)
