r"""Exponents with honest intervals: slopes on logarithmic axes over a window that theory fixed before the data.

The estimate is the least-squares slope over the points of the window, $s=\sum_jw_j\ln\bar y_j$ with
$w_j=g_j(\xi_j-\bar\xi)/\sum_lg_l(\xi_l-\bar\xi)^2$, $\xi=\ln x$: a linear contrast of the logarithms, whose error comes
from replicas (`validation.statistics.resampling`), never from the scatter of points about the line. Being linear, the same
estimator on the same window applies to theory's finite-size curve (`ExponentFit.finite_size`): like is compared with like,
and the asymptotic exponent stands beside it. Local slopes say whether the window holds one exponent at all; `extrapolate`
takes exponents measured at several sizes to the limit.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from theory import InputError
from theory.core.curves import linear_weights
from validation.judge.claim import SIGMAS
from validation.statistics.resampling import CONFIDENCE, Estimate, LogCurve, abscissae

#: Sub-windows of the local slopes.
PIECES = 4


@dataclass(frozen=True)
class Window:
    """Abscissae between `low` and `high`, both included, fixed before the data; `reason` says by what.

    Raises `InputError` unless the ends are positive and increase.
    """

    low: float
    high: float
    reason: str

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise InputError(f"window is [{self.low!r}, {self.high!r}]: give positive increasing ends")

    def places(self, x: np.ndarray) -> np.ndarray:
        """(n,) bool: which abscissae lie inside (ends to rounding). Raises `InputError` if fewer than two do."""
        inside = (x >= self.low * (1 - 1e-12)) & (x <= self.high * (1 + 1e-12))
        if inside.sum() < 2:
            raise InputError(f"window [{self.low:g}, {self.high:g}] holds {inside.sum()} abscissae: a slope needs two")
        return inside


@dataclass(frozen=True)
class LocalSlopes:
    """Slopes of consecutive sub-windows.

    Attributes:
        centres: (k,) geometric centres. slopes, stderr: (k,) with clustered errors.
        drift: last slope minus first, with its own error (the pieces are correlated).
        flagged: the drift is beyond four standard errors: the window does not hold one exponent, compare with the
            finite-size prediction only.
    """

    centres: np.ndarray
    slopes: np.ndarray
    stderr: np.ndarray
    drift: Estimate
    flagged: bool


@dataclass(frozen=True)
class ExponentFit:
    r"""An exponent $y\propto x^s$.

    Attributes:
        slope: s with clustered standard error and bootstrap interval.
        jackknife: the standard error again, by the jackknife (nan for medians).
        prefactor: $y/x^s$ at the centre of the window. window: as given. x: (n,) abscissae in it.
        weights: over all abscissae of the curve, zero outside the window; slope = weights · logs.
        local: local slopes; None where the window holds only two points.
    """

    slope: Estimate
    jackknife: float
    prefactor: float
    window: Window
    x: np.ndarray
    weights: np.ndarray
    local: LocalSlopes | None

    def finite_size(self, predicted: ArrayLike) -> float:
        """The slope that the same estimator gives on the same window for a predicted curve, (n_all,) positive.

        Raises `InputError` for a curve on other abscissae, or one that is not positive inside the window.
        """
        values = np.asarray(predicted, dtype=float)
        if values.shape != self.weights.shape:
            raise InputError(f"predicted has shape {values.shape}: give {self.weights.shape}, the abscissae of the fit")
        inside = self.weights != 0
        if not np.all((values[inside] > 0) & np.isfinite(values[inside])):
            raise InputError("predicted is not positive and finite inside the window: narrow it beforehand")
        return float(self.weights[inside] @ np.log(values[inside]))


def slope_weights(x: ArrayLike, importance: ArrayLike | None = None) -> np.ndarray:
    """(n,) weights w with slope = w · ln y, least squares on logarithmic axes; `importance` g_j: equal by default.

    Raises `InputError` for another shape, a negative importance, or fewer than two positive ones.
    """
    across = np.log(abscissae(x))
    g = np.ones_like(across) if importance is None else np.asarray(importance, dtype=float)
    if g.shape != across.shape or np.any(g < 0) or np.count_nonzero(g) < 2:
        raise InputError(f"importance has shape {g.shape}: give {across.size} numbers ≥ 0, two of them positive")
    return linear_weights(across[:, None], g)[0]


def exponent_of(x: ArrayLike, y: ArrayLike, window: Window | None = None) -> float:
    """Slope of a curve without errors (a theory's) by the estimator of `fit_exponent`."""
    x, y = abscissae(x), np.asarray(y, dtype=float)
    inside = np.full(x.shape, True) if window is None else window.places(x)
    return float(slope_weights(x[inside]) @ np.log(y[inside]))


def fit_exponent(
    curve: LogCurve, window: Window, *, importance: ArrayLike | None = None, pieces: int = PIECES
) -> ExponentFit:
    """The exponent of a curve over a window, with interval, jackknife and local slopes.

    Args:
        importance: (n,) weights of the abscissae of `curve`, fixed beforehand; equal by default.
        pieces: how many sub-windows the local slopes have at most.

    Raises: `InputError` for a window with fewer than two abscissae, or importances that do not fit.
    """
    inside = window.places(curve.x)
    chosen = None if importance is None else np.asarray(importance, dtype=float)[inside]
    weights = np.zeros(curve.x.size)
    weights[inside] = slope_weights(curve.x[inside], chosen)
    slope = curve.contrast(weights)
    centre = np.exp(np.mean(np.log(curve.x[inside])))
    height = np.exp(np.mean(curve.logs[inside]))
    prefactor = float(height / centre**slope.value)
    local = local_slopes(curve, window, pieces)
    return ExponentFit(slope, curve.jackknife(weights), prefactor, window, curve.x[inside], weights, local)


def local_slopes(curve: LogCurve, window: Window, pieces: int = PIECES) -> LocalSlopes | None:
    """Slopes of up to `pieces` consecutive sub-windows that share their ends; None with fewer than three points."""
    places = np.flatnonzero(window.places(curve.x))
    count = min(pieces, places.size - 1)
    if count < 2:
        return None
    cuts = np.unique(np.linspace(0, places.size - 1, count + 1).round().astype(int))
    weights = np.zeros((cuts.size - 1, curve.x.size))
    for row, (first, last) in enumerate(itertools.pairwise(cuts)):
        piece = places[first : last + 1]
        weights[row, piece] = slope_weights(curve.x[piece])
    found = [curve.contrast(row) for row in weights]
    drift = curve.contrast(weights[-1] - weights[0])
    centres = np.sqrt(curve.x[places[cuts[:-1]]] * curve.x[places[cuts[1:]]])
    values, errors = (np.array([getattr(x, name) for x in found]) for name in ("value", "stderr"))
    return LocalSlopes(centres, values, errors, drift, bool(abs(drift.value) > SIGMAS * drift.stderr))


@dataclass(frozen=True)
class Extrapolation:
    r"""Exponents at several sizes, taken to the limit.

    Attributes:
        limit: $s_\infty$; its standard error is propagated from the exponents' errors (0 if they have none).
        coefficient: of the correction. chi2, dof: misfit and degrees of freedom (nan, if the exponents have no errors).
        shift: change of the limit when the smallest size is left out: what further corrections may amount to (nan
            with two sizes).
    """

    limit: Estimate
    coefficient: float
    chi2: float
    dof: int
    shift: float


def extrapolate(
    sizes: ArrayLike,
    slopes: ArrayLike,
    stderr: ArrayLike | None = None,
    *,
    power: float | None = None,
    confidence: float = CONFIDENCE,
) -> Extrapolation:
    r"""Weighted least squares of $s(N)=s_\infty+b\,c(N)$, $c(N)=N^{-\omega}$, or $1/\ln N$ where no power is given.

    Args:
        sizes: (n,) N, increasing. slopes: (n,) exponents measured or computed at each.
        stderr: (n,) their standard errors; none for a theory's finite sums (equal weights).
        power: ω > 0, from theory.

    Raises: `InputError` for fewer than two sizes, errors that are not positive, a power that is not.
    """
    N, s = abscissae(sizes), np.asarray(slopes, dtype=float)
    errors = None if stderr is None else np.asarray(stderr, dtype=float)
    if s.shape != N.shape or (errors is not None and errors.shape != N.shape):
        raise InputError(
            f"slopes has shape {s.shape}: give one exponent, and one error if any, for each of {N.size} sizes"
        )
    if errors is not None and not np.all(errors > 0):
        raise InputError("stderr has entries that are not positive: leave it out for exponents without errors")
    if power is not None and not power > 0:
        raise InputError(f"power is {power!r}: give a positive number, or none for 1/ln N")
    if power is None and N[0] <= 1:
        raise InputError(f"sizes start at {N[0]:g}: 1/ln N needs sizes above 1")
    correction = 1 / np.log(N) if power is None else N**-power
    (limit, coefficient), error, chi2 = _weighted_line(correction, s, errors)
    shift = float("nan")
    if N.size > 2:
        shift = float(_weighted_line(correction[1:], s[1:], None if errors is None else errors[1:])[0][0] - limit)
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * error
    found = Estimate(float(limit), error, float(limit - reach), float(limit + reach), confidence)
    return Extrapolation(found, float(coefficient), chi2, N.size - 2, shift)


def continued(values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    r"""The limit of values whose changes go on as a geometric series, and how much that adds.

    The last change Δ with the one before it, Δ', adds $|\Delta\,r/(1-r)|$, $r=\Delta/\Delta'$. Both (…) for values (n, …),
    n from 3; nan where |r| is 1 or more: there is no limit then.

    Raises `InputError` for fewer than three values.
    """
    found = np.asarray(values, dtype=float)
    if len(found) < 3:
        raise InputError(f"values: {len(found)} given: a series of changes goes on from three or more")
    before, last = np.diff(found[-3:], axis=0)
    shrinks = np.abs(last) < np.abs(before)
    ratio = np.where(shrinks, last, np.nan) / np.where(shrinks, before, 1.0)
    added = np.where(last == 0, 0.0, last * ratio / (1 - ratio))
    return found[-1] + added, np.abs(added)


def _weighted_line(c: np.ndarray, s: np.ndarray, errors: np.ndarray | None) -> tuple[Sequence[float], float, float]:
    """(intercept, slope), standard error of the intercept, χ²."""
    scale = np.ones_like(s) if errors is None else errors
    design = np.stack([np.ones_like(c), c], axis=1) / scale[:, None]
    solution = np.linalg.lstsq(design, s / scale, rcond=None)[0]
    if errors is None:
        return solution, 0.0, float("nan")
    covariance = np.linalg.inv(design.T @ design)
    return solution, float(np.sqrt(covariance[0, 0])), float(np.sum((design @ solution - s / scale) ** 2))
