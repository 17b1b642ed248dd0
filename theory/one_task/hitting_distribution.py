r"""Law of the emergence time of one direction under SGD, from the one-task diffusion: distribution, quantiles, moments.

In gradient-flow time $t=\eta\cdot$steps the overlap of a light student obeys $du=b\,dt+\sqrt D\,dW$,
$b=a\varphi'(u)(1-u^2)-\eta K(u)$, $D=\eta N(u)$, with the derived laws of `theory.plateau`; valid while the student is light
and steps are small ($\eta N\ll u^2$). A direction is found at $u^2=h^2$, at either end: a run of an activation of both
parities may turn to −e, where it stays and fits the even degrees. The Laplace transform $m(u)=E_u[e^{-sT};u_T=h]$ of the
runs that end at $h$ solves the backward equation
$$\tfrac D2m''+bm'=sm,\qquad m(h)=1,\quad m(-h)=0,$$
or is reflected at 0 (even activations, to which u and −u are one); that of the others is its mirror image. Its logarithmic
slope $w=m'/m$ is carried from the other end cell by cell, exactly for constant coefficients, so that nothing overflows
however small the noise is. The distribution function
follows on a window of length $L$ from the Fourier series of the damped function $e^{-\sigma t}P(T\le t)$, whose
coefficients are $m/s$ at $s=\sigma+2\pi ik/L$ (Dubner and Abate, 1968); with $\sigma L=20$ and times up to $L/2$ the
aliasing error is below $e^{-20}$. What remains is the grid's error, of second order in the cell width, estimated by
halving the number of cells.

The share that ends at $h$ is $\psi(u)\propto\int_{-h}^ue^{-\int2b/D}$, and those runs are the diffusion of drift
$b+D\psi'/\psi$ (Doob), which never comes to $-h$. Mean $m$ and variance $V$ of T at a given end, with its drift, solve
$b\,m'+\tfrac D2m''=-1$ and $b\,V'+\tfrac D2V''=-D\,m'^2$, zero at $h$. (The variance has an equation of its own: as a
difference of moments it would drown in rounding.)
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from theory.core.activation import Activation
from theory.core.errors import InputError
from theory.one_task.diffusion import Diffusion, OneTaskDiffusion
from theory.one_task.plateau import Plateau
from theory.one_task.single_task import SingleTask

#: σL of the damped Fourier series.
_DAMPING = 20.0
#: Coefficients below this share of the first one end the series.
_NEGLIGIBLE = 1e-13
_MOST_TERMS = 2**14
#: Where they do not end it, the window is so many times shorter for what happens early in it, if more than this share does.
_SHORTER, _EARLY = 8, 0.01
#: Cells of the grid of the moments, geometric above a tenth of the start: every scale up to the level is resolved.
_FINE = 20_000
#: Slope of the logarithm at an end where all ends that does not count; a share of such ends that is none.
_ABSORBED, _NO_SHARE = 1e300, 1e-16
#: Growth of B over a cell that stands for an infinite one, beside an end that is never hit.
_STEEPEST = 1e100
#: Growth of B over cells that are taken together; and cells of a stretch by which that costs less than one after the other.
_STRETCH, _FEW_CELLS = 200.0, 30
#: A quantile beyond this many deterministic hitting times is reported as infinite.
_LONGEST = 1e4


@dataclass(frozen=True)
class HittingLaw:
    """Mean and standard deviation of the hitting time, in gradient-flow time (divide by η for steps).

    `turned`: the share of the runs that end at −e (0 of even activations, to which it is e). Of a diffusion: what rare samples
    leave of it, `theory.prediction.validity.of_noise` says.
    """

    mean: float
    std: float
    turned: float = 0.0


@dataclass(frozen=True)
class HittingDistribution:
    """Law of a hitting time; every time is gradient-flow time (divide by η for steps).

    Attributes:
        start: overlap at time 0. level: overlap that is hit, of either sign (not squared). cells: of the grid in the overlap.

    Raises `InputError` for a level outside (0, 1), and for a diffusion without noise.
    """

    diffusion: Diffusion
    start: float
    level: float
    cells: int

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"level is {self.level!r}: give an overlap between 0 and 1")
        if isinstance(self.diffusion, OneTaskDiffusion) and not self.diffusion.with_noise:
            raise InputError("with_noise is False: without noise the time is a number, see SingleTask.half_time")

    def transform(self, s: np.ndarray) -> np.ndarray:
        r"""$E\,e^{-sT}$ for complex s with positive real part; s of shape (n,).

        Raises `InputError` where the variance of a step is not positive.
        """
        s = np.asarray(s, dtype=complex)
        if abs(self.start) >= self.level:
            return np.ones_like(s)
        nodes, drift, noise = _coefficients(self)
        if self.diffusion.even:
            return _to_the_end(s, self.start, nodes, drift, noise, 0.0)
        found = _to_the_end(s, self.start, nodes, drift, noise, _ABSORBED)
        if np.exp(np.interp(self.start, nodes, _log_shares(nodes, drift, noise)[1])) > _NO_SHARE:
            found += _to_the_end(s, -self.start, -nodes[::-1], -drift[::-1], noise[::-1], _ABSORBED)
        return found

    def cdf(self, times: np.ndarray) -> np.ndarray:
        """P(T ≤ t) at `times`, shape (n,)."""
        times = np.asarray(times, dtype=float)
        if abs(self.start) >= self.level:
            return np.where(times >= 0, 1.0, 0.0)
        latest = float(np.max(times, initial=0.0))
        series = self._series(latest)
        found = np.array([series(t) for t in times.ravel()]).reshape(times.shape)
        early = times < latest / _SHORTER
        if np.any(early & (times > 0)) and not series.resolved and series(latest / _SHORTER) > _EARLY:
            found[early] = self.cdf(times[early])
        return found

    def quantile(self, probability: float) -> float:
        """The time by which the level is reached with `probability` in (0, 1); inf if it is practically never.

        Raises `InputError` for a probability outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InputError(f"probability is {probability!r}: give a number between 0 and 1")
        if abs(self.start) >= self.level:
            return 0.0
        end = unit = self._scale()
        while not (series := self._series(end)).resolved and series(end / _SHORTER) >= probability:
            end /= _SHORTER
        while (series := self._series(end))(end) < probability:
            end *= 2
            if end > _LONGEST * unit:
                return float("inf")
        return float(scipy.optimize.brentq(lambda t: series(t) - probability, 0.0, end, rtol=1e-10))

    def error(self, times: np.ndarray) -> float:
        """Largest error of `cdf` at `times` (n,), estimated from a grid of half as many cells (second order)."""
        coarse = HittingDistribution(self.diffusion, self.start, self.level, self.cells // 2)
        return float(np.max(np.abs(self.cdf(times) - coarse.cdf(times)))) / 3

    def cut_moments(self, horizon: float, points: int = 801) -> tuple[float, float]:
        """Mean and standard deviation of min(T, horizon), by the trapezoidal rule on so many times."""
        return _cut_moments(self, horizon, points)

    def spread_errors(self, horizon: float, count: int, points: int = 801) -> tuple[float, float]:
        r"""Standard errors, over `count` draws of min(T, horizon), of their standard deviation s and of $\ln(s/\bar T)$.

        $s\sqrt{(\kappa-1)/4n}$ and $\sqrt{[(\kappa-1)/4+s^2/m^2-\mu_3/(s^2m)]/n}$, with the law's own mean m, third moment
        $\mu_3$ and kurtosis κ. A spread is seen too small where the few late draws are missing, and there resampling sees too
        small an error as well: of some hundred draws one spread in 500 lies four of its errors off, one in 2000 by the law's.
        """
        times = np.linspace(0.0, horizon, points)
        mean, spread = self.cut_moments(horizon, points)
        tails = np.where(times < mean, 0.0, 1.0) - self.cdf(times)  # moments about the mean, without what would cancel
        third, fourth = (k * float(np.trapezoid((times - mean) ** (k - 1) * tails, times)) for k in (3, 4))
        excess = (fourth / spread**4 - 1) / 4
        relative = excess + (spread / mean) ** 2 - third / (spread**2 * mean)
        return float(spread * np.sqrt(excess / count)), float(np.sqrt(relative / count))

    def moments(self, end: int = 0) -> HittingLaw:
        """Mean and standard deviation, from their own equations on a fine grid of its own (whatever `cells`).

        Args:
            end: 1 or −1 for the runs that end at this sign of the level alone (nan where none does), 0 for all.

        Raises `InputError` for another end.
        """
        if end not in (-1, 0, 1):
            raise InputError(f"end is {end!r}: give 1 for e, -1 for -e, 0 for all runs")
        return _moments(self, end)

    def _scale(self) -> float:
        """A time of the order of the hitting time: the deterministic one without shrinkage, or the mean if noise is faster.

        (From a start near 0 the drift alone takes so long that a window of its time cannot tell when noise arrives.)
        """
        least = max(abs(self.start), 1e-6)
        alone = SingleTask(self.diffusion.activation).passage_time(self.diffusion.weight, least, self.level)
        nodes, drift, noise = _coefficients(self)
        return float(np.fmin(alone, _law(self.start, nodes, drift, noise, self.diffusion.even).mean))

    def _series(self, latest: float) -> "_Series":
        return _series(self, latest)


@dataclass(frozen=True)
class _Series:
    """The damped Fourier series of P(T ≤ t), good for 0 ≤ t ≤ L/2; `resolved`: whether its last terms are negligible."""

    length: float
    coefficients: np.ndarray
    resolved: bool

    def __call__(self, time: float) -> float:
        if time <= 0:
            return 0.0
        phases = np.exp(2j * np.pi * np.arange(self.coefficients.size) * time / self.length)
        total = 2 * np.sum((self.coefficients * phases).real) - self.coefficients[0].real
        return float(np.clip(np.exp(_DAMPING * time / self.length) / self.length * total, 0.0, 1.0))


def hitting_distribution(
    diffusion: Diffusion, overlap: float, level: float = 0.5, cells: int = 2000
) -> HittingDistribution:
    """Law of the time at which the squared overlap reaches `level`, at e or −e, started from the signed overlap `overlap`.

    Args:
        cells: of the grid; `HittingDistribution.error` says what it costs.

    Raises `InputError` for a level outside (0, 1), or a diffusion without noise (it has no distribution).
    """
    start = abs(overlap) if diffusion.even else overlap
    return HittingDistribution(diffusion, start, float(np.sqrt(level)), cells)


def hitting_law(
    activation: Activation,
    weight: float,
    overlap: float,
    step_size: float,
    total: float,
    dim: int,
    batch: int = 1,
    level: float = 0.5,
    constants: Plateau | None = None,
) -> HittingLaw:
    """Mean and spread of the time at which the squared overlap reaches `level`, at e or −e, from the overlap `overlap`, and
    the share that ends at −e.

    Args:
        weight: a_p. overlap: signed initial overlap. step_size: η. total: Σa². dim: d. batch: samples per step.
        constants: second-order laws to use in place of the derived ones.

    Raises `InputError` for a level outside (0, 1).
    """
    diffusion = OneTaskDiffusion(activation, weight, step_size, total, dim, batch, constants)
    return hitting_distribution(diffusion, overlap, level).moments()


@lru_cache(maxsize=256)
def _moments(law: HittingDistribution, end: int) -> HittingLaw:
    if abs(law.start) >= law.level:
        sign = np.sign(law.start)
        return HittingLaw(*((0.0, 0.0) if end * sign >= 0 else (np.nan, np.nan)), turned=float(sign < 0))
    grid = _grid(law.start, law.level, law.diffusion.even)
    drift, noise = law.diffusion.coefficients(0.5 * (grid[1:] + grid[:-1]))
    return _law(law.start, grid, drift, noise, law.diffusion.even, end)


@lru_cache(maxsize=256)
def _cut_moments(law: HittingDistribution, horizon: float, points: int) -> tuple[float, float]:
    times = np.linspace(0.0, horizon, points)
    later = 1 - law.cdf(times)
    mean = float(np.trapezoid(later, times))
    return mean, float(np.sqrt(2 * np.trapezoid(times * later, times) - mean**2))


@lru_cache(maxsize=256)
def _series(law: HittingDistribution, latest: float) -> _Series:
    length = 2 * latest
    found: list[np.ndarray] = []
    first, count, resolved = 0, 256, False
    while first < _MOST_TERMS and not resolved:
        s = (_DAMPING + 2j * np.pi * np.arange(first, first + count)) / length
        found.append(law.transform(s) / s)
        resolved = bool(np.max(np.abs(found[-1][-8:])) <= _NEGLIGIBLE * abs(found[0][0]))
        first, count = first + count, first + count
    return _Series(length, np.concatenate(found), resolved)


@lru_cache(maxsize=64)
def _coefficients(law: HittingDistribution) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of the law's grid, drift and noise in the middle of its cells. Raises `InputError` as `transform` does."""
    nodes = _cells(law.start, law.level, law.diffusion.even, law.cells)
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    drift, noise = law.diffusion.coefficients(middle)
    if not np.all(noise > 0):
        raise InputError(
            f"step_size is {law.diffusion.step_size:g}: the variance of a step is not positive at overlap "
            f"{float(middle[np.argmin(noise > 0)]):.3g}, far beyond the diffusion: lower it, or take the law of whole "
            "steps (theory.one_task.spherical_step)"
        )
    return nodes, drift, noise


def _cells(start: float, end: float, even: bool, count: int) -> np.ndarray:
    """Nodes of so many cells, one of them at the start.

    Cells are equally wide in arsinh(u/s), s = |start|: fine around the start and below, geometric above it.
    """
    scale = max(abs(start), 1e-6 * end)
    low = 0.0 if even else -end
    bottom, middle, top = np.arcsinh(np.array([low, start, end]) / scale)
    share = (middle - bottom) / (top - bottom)
    below = int(np.clip(round(share * count), 1, count - 1)) if start > low else 0
    nodes = np.linspace(middle, top, count - below + 1)
    if below:
        nodes = np.concatenate([np.linspace(bottom, middle, below, endpoint=False), nodes])
    nodes = scale * np.sinh(nodes)
    nodes[below] = start
    return nodes


@np.errstate(
    divide="ignore", invalid="ignore"
)  # log m gains infinitely much in the cell beside an end that does not count
def _to_the_end(
    s: np.ndarray, start: float, nodes: np.ndarray, drift: np.ndarray, noise: np.ndarray, slope: float
) -> np.ndarray:
    """$E[e^{-sT}]$ of what ends at the last node, from the logarithmic slope at the first."""
    slopes, logarithm = np.full_like(s, slope), np.zeros_like(s)
    cells = zip(drift.tolist(), noise.tolist(), np.diff(nodes).tolist(), nodes[:-1].tolist(), strict=True)
    for b, D, width, below in cells:
        slopes, gain = through_cell(slopes, s, b, D, width)
        if below >= start - 1e-15:
            logarithm += gain
    return np.exp(-logarithm)


def through_cell(
    slope: np.ndarray, s: np.ndarray, drift: float, diffusion: float, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """m'/m at the upper end, and the growth of log m, from m'/m at the lower end; constant coefficients. Elementwise in s."""
    root = np.sqrt(drift**2 + 2 * diffusion * s)
    # The two exponents of m; each from the sum that does not cancel.
    if drift >= 0:
        up, down = 2 * s / (drift + root), -(drift + root) / diffusion
    else:
        up, down = (root - drift) / diffusion, -2 * s / (root - drift)
    ratio = (up - slope) / (slope - down)
    later = ratio * np.exp((down - up) * width)
    return (up + later * down) / (1 + later), up * width + np.log((1 + later) / (1 + ratio))


# ------------------------------------------------------------------------------ moments


def _grid(start: float, end: float, even: bool) -> np.ndarray:
    """Nodes from the reflecting end to the level."""
    fine = max(min(abs(start), end) / 10, 1e-6 * end)
    half = np.concatenate([np.linspace(0.0, fine, _FINE // 10, endpoint=False), np.geomspace(fine, end, _FINE)])
    return half if even else np.concatenate([-half[:0:-1], half])


def _law(start: float, grid: np.ndarray, drift: np.ndarray, noise: np.ndarray, even: bool, end: int = 0) -> HittingLaw:
    """Of the diffusion with these coefficients in the grid's cells; `end` as in `HittingDistribution.moments`."""
    exponent = _exponents(grid, drift, noise)
    if even:
        return HittingLaw(*_solve(start, grid, exponent, noise))
    shares = _log_shares(grid, drift, noise)
    up, down = (float(np.exp(np.interp(start, grid, one))) for one in shares)
    mirrored = -start, -grid[::-1], -(exponent + 2 * np.diff(shares[1]))[::-1], noise[::-1]
    ways = (1, up, (start, grid, exponent + 2 * np.diff(shares[0]), noise)), (-1, down, mirrored)
    found = [(share, *_solve(*way)) for sign, share, way in ways if share > 0 and end * sign >= 0]
    if not found:
        return HittingLaw(np.nan, np.nan, down)
    share, means, spreads = (np.array(x) for x in zip(*found, strict=True))
    mean = float(share @ means / share.sum())
    variance = share @ (spreads**2 + (means - mean) ** 2) / share.sum() if np.isfinite(mean) else np.inf
    return HittingLaw(mean, float(np.sqrt(variance)), down)


def _exponents(grid: np.ndarray, drift: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Growth of $B=\\int2b/D$ over each cell."""
    return 2 * drift / noise * np.diff(grid)


def _log_average(exponent: np.ndarray) -> np.ndarray:
    """Logarithm of the first of `_averages`, of any exponent."""
    down = np.minimum(exponent, 0.0)  # (e^{-x s} e^{x} is the average of e^{x s}, in which nothing overflows)
    return np.log(_averages(np.abs(exponent))[0]) - down


def _averages(exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second averages of e^{-x s} over a cell, by series where x is small."""
    small = np.abs(exponent) < 1e-4
    safe = np.where(small, 1.0, exponent)
    first = np.where(small, 1 - exponent / 2 + exponent**2 / 6, -np.expm1(-safe) / safe)
    return first, np.where(small, 0.5 - exponent / 6, (1 - first) / safe)


def _log_shares(grid: np.ndarray, drift: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the shares that end at the last node and at the first, at every node."""
    exponent = _exponents(grid, drift, noise)
    # (Where B is least, shares change; from there it is summed, since elsewhere it is beyond all digits.)
    least = int(np.argmin(np.cumsum(exponent))) + 1
    climbed = np.concatenate([-np.cumsum(exponent[:least][::-1])[::-1], [0.0], np.cumsum(exponent[least:])])
    cells = np.log(np.diff(grid)) + _log_average(exponent) - climbed[:-1]
    up = np.append(-np.inf, np.logaddexp.accumulate(cells))
    down = np.append(np.logaddexp.accumulate(cells[::-1])[::-1], -np.inf)
    return up - up[-1], down - down[0]


@np.errstate(over="ignore")  # what is larger than all numbers is inf
def _solve(start: float, grid: np.ndarray, exponent: np.ndarray, diffusion: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation from `start`, integrated from the end that is not hit; exact for cells of constant
    coefficients, over which $B=\\int2b/D$ grows by `exponent`.

    $I_g(y)=\\int^ye^{B(w)-B(y)}g(w)dw$ obeys $I'=g-B'I$; $m'=-I_{2/D}$ and $V'=-I_{2m'^2}$.
    """
    exponent = np.clip(exponent, -700.0, _STEEPEST)
    first, second = _averages(exponent)
    known = exponent, np.log(np.diff(grid)), np.log(first), np.log(second)
    cells = _sweep(*known, np.log(2 / diffusion))
    slope = cells - known[1]  # ln −m', averaged over each cell
    variance = _sweep(*known, np.log(2) + 2 * slope)
    mean, square = (float(np.interp(start, grid, _from_end(np.exp(x)))) for x in (cells, variance))
    return mean, float(np.sqrt(max(square, 0.0)))


def _sweep(
    exponent: np.ndarray, width: np.ndarray, first: np.ndarray, second: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """ln ∫ I over each cell, I carried from cell to cell by I ← I·e^(−exponent) + source·width·first; all but the exponent
    as logarithms, too.

    (Behind a barrier I exceeds every number, and comes down again on the way to the level.)
    """
    gains, grown = source + width + first, np.cumsum(np.minimum(np.abs(exponent), 2 * _STRETCH))
    steep = grown[-1] > _STRETCH * width.size / _FEW_CELLS
    nodes = _by_cell(exponent, gains) if steep else _by_stretch(exponent, gains, grown)
    return np.logaddexp(nodes + width + first, source + 2 * width + second)


def _by_cell(exponent: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """ln I at the beginning of each cell."""
    nodes, value = np.empty(gains.size), -math.inf
    for i, (down, gain) in enumerate(zip(exponent.tolist(), gains.tolist(), strict=True)):
        nodes[i] = value
        low, value = sorted((value - down, gain))
        value += math.log1p(math.exp(low - value))
    return nodes


def _by_stretch(exponent: np.ndarray, gains: np.ndarray, grown: np.ndarray) -> np.ndarray:
    """The same, many cells at once: as many as can be summed without loss of digits; `grown`: sums of sizes."""
    nodes, value, begin = np.empty(gains.size), -np.inf, 0
    while begin < gains.size:
        most = _STRETCH + (grown[begin - 1] if begin else 0.0)
        end = max(int(np.searchsorted(grown, most, "right")), begin + 1)
        nodes[begin] = value
        if end == begin + 1:
            value = np.logaddexp(value - exponent[begin], gains[begin])
        else:
            down = np.cumsum(exponent[begin:end])
            carried = np.logaddexp.accumulate(np.append(value, gains[begin:end] + down))
            nodes[begin + 1 : end] = carried[1:-1] - down[:-1]
            value = carried[-1] - down[-1]
        begin = end
    return nodes


def _from_end(cells: np.ndarray) -> np.ndarray:
    """Sum of the cells from each node to the level."""
    return np.append(np.cumsum(cells[::-1])[::-1], 0.0)
