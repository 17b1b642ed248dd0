r"""Figures 1 and 2 of arXiv:2504.19983: what is measured in them, beside what theory says for the same window.

Runs come as one dataset with a dimension ``seed`` (independent draws, the clusters of every interval). Windows are fixed
before the data: directions p from 4 to P/8, placed on the axes by the predicted emergence times. Beside each measured
exponent stand its finite-size prediction (greedy selection on the same initial states and one-task times, through the same
estimator) and the asymptotic exponent of Proposition 2.2 and section 2.4. Since a run and its prediction share their
initial state, their difference, seed by seed, fluctuates far less than either. Intervals are Student's over seeds: too few
for a bootstrap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import special, stats

from theory import Activation, InputError, Teacher
from theory.core.streams import stream
from theory.scaling.ideal_loss import exponent_values
from validation.statistics.exponents import Window, exponent_of, fit_exponent
from validation.statistics.frontier import Frontier, lower_envelope
from validation.statistics.resampling import CONFIDENCE, Estimate, ReplicaCurves
from validation.statistics.standard_errors import mean_and_error

#: The window in directions: the first is clear of what is special about the largest, the last of the end of the sum.
FIRST, LAST_SHARE = 4, 8
#: A student of width m learns the first m/2 directions without a gap (arXiv:2504.19983, Appendix E).
WIDTHS_PER_DIRECTION = 2
_GRID = 60


@dataclass(frozen=True)
class Row:
    """A measured quantity beside theory.

    Attributes:
        panel: letter of the figure's panel. quantity: in words.
        measured: with interval over seeds. finite_size: predicted for the same window and sizes.
        difference: measured minus finite size, seed by seed.
        asymptotic: the exponent of the theorem; None where there is none. window: of the horizontal axis, or None.
    """

    panel: str
    quantity: str
    measured: Estimate
    finite_size: float
    difference: Estimate
    asymptotic: float | None
    window: tuple[float, float] | None


@dataclass(frozen=True)
class Emergence:
    """Figure 1. Attributes: times (n,); loss, predicted (R, n); hits, expected (R, P): measured and predicted times of ½ of
    each direction's weight, inf where never; share (n, P) of the first seed; weights (P,); window in time; rows.
    """

    times: np.ndarray
    loss: np.ndarray
    predicted: np.ndarray
    hits: np.ndarray
    expected: np.ndarray
    share: np.ndarray
    weights: np.ndarray
    window: Window
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class ComputeFrontier:
    """Figure 2. Attributes: widths (W,); steps (n,); loss, predicted (W, R, n); grid of compute m·steps with the measured
    and the predicted frontier on it; ideal: slopes of the ideal sum's frontier at `sizes` P; rows.
    """

    widths: np.ndarray
    steps: np.ndarray
    loss: np.ndarray
    predicted: np.ndarray
    grid: np.ndarray
    frontier: np.ndarray
    predicted_frontier: np.ndarray
    sizes: np.ndarray
    ideal: np.ndarray
    teacher_width: int
    window: Window
    rows: tuple[Row, ...]


def emergence(data: xr.Dataset, problem: Mapping[str, Any]) -> Emergence:
    """Judge the coupled flows of figure 1.

    Args:
        data: ``loss``, ``predicted_loss`` (seed, time), ``share`` (seed, time, direction), ``loss_time``,
            ``predicted_loss_time`` (seed, direction), times ``time`` (seed, time), the same for all seeds.
        problem: what the runs share: ``activation``, ``teacher_width`` P, ``teacher_exponent`` β, ``dim``.

    Raises: `InputError` for runs that end before the window does.
    """
    activation, teacher, decay = _shared(problem)
    times = _common(_along(data, "time", "seed", "time"), "time")
    loss, predicted = (data[name].transpose("seed", "time").values for name in ("loss", "predicted_loss"))
    hits, expected = (data[name].transpose("seed", "direction").values for name in ("loss_time", "predicted_loss_time"))
    first, last = FIRST, teacher.width // LAST_SHARE
    spacing = _spacing(expected)
    window = Window(spacing[first - 1], spacing[last - 1], "predicted times of directions 4 and P/8")
    if window.high > times[-1]:
        raise InputError(f"time ends at {times[-1]:g}, the window at {window.high:g}: run longer")
    asymptotic = exponent_values(decay, activation)["time"]
    order, shown = np.arange(first, last + 1), slice(first - 1, last)
    emerged, ahead = _ordered(hits)[:, shown], _ordered(expected)[:, shown]
    ratio = np.array([np.median((x / y)[y <= window.high]) for x, y in zip(hits, expected, strict=True)])
    span, directions = (window.low, window.high), Window(first, last, "directions")
    rows = (
        _row("a", "n-th emergence time ∝ n^x: x", order, emerged, ahead, directions, decay, "log-mean"),
        _row("b", "loss ∝ time^x: x", times, loss, predicted, window, asymptotic),
        Row("c", "emergence time, measured over predicted", student(ratio), 1.0, student(ratio - 1.0), None, span),
    )
    share = data.share.transpose("seed", "time", "direction").values[0]
    return Emergence(times, loss, predicted, hits, expected, share, teacher.a, window, rows)


def compute_frontier(data: xr.Dataset, problem: Mapping[str, Any]) -> ComputeFrontier:
    """Judge the runs of figure 2: population gradient descent at several student widths.

    Args:
        data: ``loss``, ``predicted_loss`` (student_width, seed, time), ``predicted_loss_time`` (…, direction), step counts
            ``step`` (…, time), the same for all runs.
        problem: as of `emergence`.

    Raises: `InputError` for runs that end before the window does.
    """
    activation, teacher, decay = _shared(problem)
    axes = ("student_width", "seed", "time")
    widths = data.student_width.values.astype(int)
    step, time = (_along(data, name, *axes).reshape(-1, data.sizes["time"]) for name in ("step", "time"))
    steps = _common(step, "step")
    loss, predicted = (data[name].transpose(*axes).values for name in ("loss", "predicted_loss"))
    expected = data.predicted_loss_time.transpose("student_width", "seed", "direction").values[-1]
    last = teacher.width // LAST_SHARE
    spacing = _spacing(expected) / float(time[0, -1] / steps[-1])
    low, high = (WIDTHS_PER_DIRECTION * p * spacing[p - 1] for p in (FIRST, last))
    window = Window(low, high, "compute 2p·T(p) of directions p = 4 and P/8, a width of 2p learning p of them")
    grid = np.geomspace(low, high, _GRID)
    compute = [m * steps for m in widths]
    # Students of one seed have their first neurons in common, whatever their width.
    frontier = Frontier(compute, list(loss), grid, rng=stream(0, "reproduction", "frontier"), paired=True)
    ahead, _ = lower_envelope(compute, [runs.mean(axis=0) for runs in predicted], grid)
    fit, exponents = fit_exponent(frontier, window), exponent_values(decay, activation)
    gaps = [
        exponent_of(grid, lower_envelope(compute, runs, grid)[0])
        - exponent_of(grid, lower_envelope(compute, own, grid)[0])
        for runs, own in zip(loss.swapaxes(0, 1), predicted.swapaxes(0, 1), strict=True)
    ]
    all_widths, words = Window(widths[0], widths[-1], "all widths"), "frontier: loss ∝ compute^x: x"
    floor, ahead_floor = loss[:, :, -1].T, predicted[:, :, -1].T
    slope, gap = _student(fit.slope, len(gaps)), student(np.array(gaps))
    rows = (
        _row("a", "final loss ∝ width^x: x", widths, floor, ahead_floor, all_widths, exponents["width"]),
        Row("b", words, slope, fit.finite_size(ahead), gap, exponents["compute"], (low, high)),
    )
    sizes = np.unique(np.append(np.geomspace(100, 1e8, 13).round(), teacher.width))
    ideal = np.array([ideal_frontier_slope(decay, int(P)) for P in sizes])
    curves = (grid, np.exp(frontier.logs), ahead, sizes, ideal)
    return ComputeFrontier(widths, steps, loss, predicted, *curves, teacher.width, window, rows)


def ideal_frontier_slope(decay: float, teacher_width: int) -> float:
    r"""Slope of $\sum_{q>p}^Pq^{-2\beta}$ against compute $p\cdot p^\beta$ over p from 4 to P/8, on logarithmic axes.

    The finite sum just after direction p, for a student that is exactly as wide as what it learns; tends to
    (1−2β)/(1+β). Needs β > ½, P ≥ 64.
    """
    p = np.unique(np.geomspace(FIRST, teacher_width / LAST_SHARE, _GRID).round())
    left = special.zeta(2 * decay, p + 1) - special.zeta(2 * decay, teacher_width + 1)
    return exponent_of(p ** (1 + decay), left)


def _shared(problem: Mapping[str, Any]) -> tuple[Activation, Teacher, float]:
    """Activation, teacher and β."""
    decay = problem["teacher_exponent"]
    teacher = Teacher.power_law(problem["teacher_width"], decay, problem["dim"])
    return Activation.parse(problem["activation"]), teacher, decay


def _along(data: xr.Dataset, name: str, *dims: str) -> np.ndarray:
    """A coordinate of the runs on `dims`; runs that record at the same times have it in common."""
    return data[name].broadcast_like(data.loss).transpose(*dims).values


def _common(values: np.ndarray, name: str) -> np.ndarray:
    """The abscissae that all runs share. Raises `InputError` if they do not."""
    if not np.allclose(values, values[0], rtol=1e-12, atol=0):
        raise InputError(f"{name} differs between runs: give all the same length and recording times")
    return np.asarray(values[0], dtype=float)


def _ordered(times: np.ndarray) -> np.ndarray:
    """(R, P) emergence times of each replica in increasing order."""
    return np.sort(times, axis=1)


def _spacing(expected: np.ndarray) -> np.ndarray:
    """(P,) geometric mean over replicas of the n-th predicted emergence time (inf where some replica has none)."""
    return np.asarray(np.exp(np.mean(np.log(_ordered(expected)), axis=0)))


def _row(
    panel: str,
    quantity: str,
    x: np.ndarray,
    measured: np.ndarray,
    predicted: np.ndarray,
    window: Window,
    asymptotic: float | None,
    statistic: str = "mean",
) -> Row:
    """The exponent of curves (R, n) with those predicted for the same seeds."""
    curve = ReplicaCurves(x, measured, rng=stream(0, "reproduction", "slope"), statistic=statistic)
    fit = fit_exponent(curve, window)
    whole = predicted.mean(axis=0) if statistic == "mean" else np.exp(np.log(predicted).mean(axis=0))
    span = (float(window.low), float(window.high))
    slope, gap = _student(fit.slope, len(measured)), slope_gap(measured, predicted, fit.weights)
    return Row(panel, quantity, slope, fit.finite_size(whole), gap, asymptotic, span)


def slope_gap(measured: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> Estimate:
    """Measured minus predicted exponent of curves (R, n), replica by replica; `weights` (n,) as in `ExponentFit`."""
    inside = weights != 0
    return student(np.log(measured[:, inside] / predicted[:, inside]) @ weights[inside])


def student(values: np.ndarray) -> Estimate:
    """Mean of independent values with its standard error and Student's interval."""
    mean, stderr = mean_and_error(values)
    return _student(Estimate(mean, stderr, mean, mean), values.size)


def _student(estimate: Estimate, count: int) -> Estimate:
    """The estimate with Student's interval for `count` clusters."""
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * estimate.stderr
    return Estimate(estimate.value, estimate.stderr, estimate.value - reach, estimate.value + reach)
