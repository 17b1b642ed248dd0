r"""Logarithms of positive curves with the fluctuations of their replicas: what an exponent is a linear function of.

Replicas are the clusters: a replica enters, is left out or is drawn again with all its points, so that correlations
along a curve, however long, need no model. For a curve $\bar y_j$ (mean, geometric mean or median over replicas i) and
weights w, the contrast $c=\sum_jw_j\ln\bar y_j$ has

* a clustered standard error $s^2=\frac1{R(R-1)}\sum_i\psi_i^2$, $\psi_i=\sum_jw_j(y_{ij}/\bar y_j-1)$ for means, the
  linearisation of c in each replica; for medians, which have none, the spread of the bootstrap;
* an interval from R-out-of-R resampling of replicas. For means it is the symmetric studentised one, $c\pm s\,q$ with q
  the quantile of $|c^*-c|/s^*$, whose coverage errs least where replicas are few, skewed or heavy-tailed (there
  $c\pm1.96\,s$ and percentile intervals are too short); it is infinite where more of the resamples than the interval may
  miss are of one replica alone, as at 95 % with two or three replicas. For medians it is the percentile interval, which
  lies in the sample's range, as the true median does in $1-2^{1-R}$ of samples of R: where that is less than the interval's
  confidence, as at 95 % with five replicas or fewer, it is infinite;
* the standard error of the jackknife over replicas, as a check on the linearisation.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from theory import InputError

STATISTICS = ("mean", "log-mean", "median")
RESAMPLES = 1000
CONFIDENCE = 0.95
#: A resample whose error is this share of the sample's has none but rounding.
_ALONE = 1e-9
#: Of a Gaussian, one standard deviation below and above the mean.
_ONE_SIGMA = scipy.special.ndtr(np.array([-1.0, 1.0]))


@dataclass(frozen=True)
class Estimate:
    """A number with its error: clustered standard error, and a bootstrap interval of the stated confidence."""

    value: float
    stderr: float
    low: float
    high: float
    confidence: float = CONFIDENCE

    def covers(self, truth: float) -> bool:
        """Whether the interval contains `truth`."""
        return self.low <= truth <= self.high


class Replicas:
    """Independent replicas of k positive numbers, (R, k), with B resamples of the replicas.

    Attributes:
        logs: (k,) logarithm of the statistic. draws: (B, k) the same for each resample. count: R.
        counts: (B, R) how often each replica is drawn.
    """

    def __init__(self, values: np.ndarray, statistic: str, counts: np.ndarray) -> None:
        self.values, self.statistic, self.count, self.counts = values, statistic, len(values), counts
        if statistic == "median":
            self.logs = np.log(np.median(values, axis=0))
            self.draws = np.log(_resampled_medians(values, self.counts))
        elif statistic == "mean":
            self.logs = np.log(values.mean(axis=0))
            self.draws = np.log(self.counts @ values / self.count)
        else:
            self.logs = np.log(values).mean(axis=0)
            self.draws = self.counts @ np.log(values) / self.count

    def influence(self, weights: np.ndarray) -> np.ndarray:
        """(R,) change of weights · logs per replica, to first order; weights of shape (k,)."""
        return self._influence(weights, self.logs[None])[:, 0]

    def resampled_variances(self, weights: np.ndarray) -> np.ndarray:
        """(B,) the same variance, as each resample sees it."""
        influence = self._influence(weights, self.draws)
        return np.einsum("br,rb->b", self.counts, influence**2) / (self.count * (self.count - 1))

    def _influence(self, weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
        """(R, B) change of weights · logs per replica, about statistics with logarithms `logs` (B, k)."""
        if self.statistic == "mean":
            return self.values @ (weights * np.exp(-logs)).T - weights.sum()
        return (np.log(self.values) @ weights)[:, None] - (logs @ weights)[None, :]

    def left_out(self, weights: np.ndarray) -> np.ndarray:
        """(R,) weights · logs with one replica left out at a time; not for medians."""
        rest = self.count - 1
        if self.statistic == "mean":
            return np.log((self.values.sum(axis=0) - self.values) / rest) @ weights
        logs = np.log(self.values) @ weights
        return (logs.sum() - logs) / rest


#: Blocks of replicas, each with its weights.
Shares = Sequence[tuple[Replicas, np.ndarray]]


def variance(shares: Shares, paired: bool = False) -> float:
    """Variance of the sum of all weights · logs; `paired`: replica r of all blocks is one cluster, else all are apart."""
    if shares[0][0].statistic == "median":
        draws = [block.draws @ weights for block, weights in shares]
        return sum(spread_of(x) ** 2 for x in _joined(draws, paired))
    groups = _joined([block.influence(weights) for block, weights in shares], paired)
    return float(sum(np.mean(x**2) / (len(x) - 1) for x in groups))


def jackknife(shares: Shares, paired: bool = False) -> float:
    """The same variance from leaving one replica out at a time; not for medians."""
    groups = _joined([block.left_out(weights) for block, weights in shares], paired)
    return float(sum(jackknife_variance(x) for x in groups))


def jackknife_variance(left_out: np.ndarray) -> np.ndarray:
    """Variance of an estimate from its values (n, ...) with one of n clusters left out at a time."""
    return np.asarray((len(left_out) - 1) * np.var(left_out, axis=0))


def _joined(parts: Sequence[np.ndarray], paired: bool) -> Sequence[np.ndarray]:
    return [np.sum(parts, axis=0)] if paired else parts


def drawn_replicas(rng: np.random.Generator, count: int, resamples: int) -> np.ndarray:
    """(B, R) which of R replicas are drawn, R times with replacement, for each resample."""
    return rng.integers(count, size=(resamples, count))


def resample_counts(rng: np.random.Generator, count: int, resamples: int) -> np.ndarray:
    """(B, R) numbers of times each of R replicas occurs in R draws with replacement."""
    drawn = drawn_replicas(rng, count, resamples) + count * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * count).reshape(resamples, count)


def _resampled_medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, k) medians of resamples, from order statistics: no resample is ever written out."""
    lower, upper = (len(values) + 1) // 2, len(values) // 2 + 1
    found = np.empty((len(counts), values.shape[1]))
    for j, column in enumerate(values.T):
        order = np.argsort(column)
        below = np.cumsum(counts[:, order], axis=1)
        first, second = (np.argmax(below >= rank, axis=1) for rank in (lower, upper))
        found[:, j] = 0.5 * (column[order][first] + column[order][second])
    return found


class LogCurve(ABC):
    """Logarithms of a positive curve at abscissae x, with what is needed for intervals of their contrasts.

    Attributes:
        x: (n,) increasing positive abscissae. confidence: of the intervals. statistic: over replicas.
        paired: replica r of all blocks is one cluster.
    """

    x: np.ndarray
    confidence: float
    statistic: str
    paired: bool = False

    @property
    @abstractmethod
    def logs(self) -> np.ndarray:
        """(n,) logarithms of the curve."""

    @abstractmethod
    def shares(self, weights: np.ndarray) -> Shares:
        """Blocks of replicas with their parts of the weights, (n,)."""

    @abstractmethod
    def contrast(self, weights: np.ndarray) -> Estimate:
        """weights · logs, with its clustered standard error and bootstrap interval; weights of shape (n,)."""

    @property
    def replicas(self) -> int:
        """The fewest replicas behind any point."""
        return min(block.count for block, _ in self.shares(np.zeros(self.x.size)))

    def stderr(self, weights: np.ndarray) -> float:
        """Clustered standard error of weights · logs."""
        return float(np.sqrt(variance(self.shares(weights), self.paired)))

    def jackknife(self, weights: np.ndarray) -> float:
        """The same by the jackknife over replicas; nan for medians (it is inconsistent there)."""
        if self.statistic == "median":
            return float("nan")
        return float(np.sqrt(jackknife(self.shares(np.asarray(weights, dtype=float)), self.paired)))


class ReplicaCurves(LogCurve):
    """Curves of independent replicas on common abscissae: a replica is a cluster of all its points.

    Args:
        x: (n,) increasing positive abscissae. y: (R, n) positive values.
        statistic: over replicas: ``mean``, ``log-mean`` (geometric) or ``median``.
        rng: of the bootstrap. resamples: B. confidence: of the intervals.

    Raises: `InputError` for fewer than two replicas, shapes that do not fit, values that are not positive.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        rng: np.random.Generator,
        statistic: str = "mean",
        resamples: int = RESAMPLES,
        confidence: float = CONFIDENCE,
    ) -> None:
        self.x, self.confidence = abscissae(x), confidence
        self.statistic, values = statistic, _positive(y, "y")
        if values.ndim != 2 or values.shape[1] != self.x.size:
            raise InputError(f"y has shape {values.shape}: give (replicas, {self.x.size}) for {self.x.size} abscissae")
        _check(len(values), statistic, resamples, confidence)
        self._blocks = [(slice(None), Replicas(values, statistic, resample_counts(rng, len(values), resamples)))]

    @cached_property
    def logs(self) -> np.ndarray:
        return np.concatenate([block.logs for _, block in self._blocks])

    def contrast(self, weights: np.ndarray) -> Estimate:
        weights = np.asarray(weights, dtype=float)
        value = float(weights @ self.logs)
        stderr = self.stderr(weights)
        draws = np.sum([block.draws @ weights[place] for place, block in self._blocks], axis=0)
        if self.statistic == "median" or not stderr > 0:
            low, high = percentile_interval(draws, self.shares(weights), self.confidence)
        else:
            spread = np.sqrt(np.sum([b.resampled_variances(weights[place]) for place, b in self._blocks], axis=0))
            apart = spread > _ALONE * stderr  # (one replica, again and again, has no error of its own)
            scores = np.where(apart, np.abs(draws - value) / np.where(apart, spread, 1.0), np.inf)
            reach = stderr * _quantiles(scores, np.array([self.confidence] * 2))[0]
            low, high = value - reach, value + reach
        return Estimate(value, stderr, low, high, self.confidence)

    def shares(self, weights: np.ndarray) -> Shares:
        return [(block, weights[place]) for place, block in self._blocks]


class IndependentSamples(ReplicaCurves):
    """One independent sample per abscissa, of any sizes: e.g. numbers of steps to recovery for several dimensions.

    Args:
        x: (n,) increasing positive abscissae. samples: n arrays of positive values; with ``median`` they may be inf
            (not reached) in less than half of the replicas.

    The others, and what is raised, as for `ReplicaCurves`. Raises `InputError` unless there is one sample per abscissa.
    """

    def __init__(
        self,
        x: ArrayLike,
        samples: Sequence[ArrayLike],
        *,
        rng: np.random.Generator,
        statistic: str = "median",
        resamples: int = RESAMPLES,
        confidence: float = CONFIDENCE,
    ) -> None:
        self.x, self.confidence, self.statistic = abscissae(x), confidence, statistic
        if len(samples) != self.x.size:
            raise InputError(f"samples: {len(samples)} given for {self.x.size} abscissae: give one for each")
        self._blocks = []
        for place, sample in enumerate(samples):
            values = _positive(sample, "samples", infinite=statistic == "median").reshape(-1, 1)
            _check(len(values), statistic, resamples, confidence)
            block = Replicas(values, statistic, resample_counts(rng, len(values), resamples))
            self._blocks.append((slice(place, place + 1), block))


def spread_of(draws: np.ndarray) -> float:
    """Standard deviation of draws (n,); half of what the middle 68 % span where some are infinite, as medians of censored
    runs may be: inf if too many are.
    """
    if np.all(np.isfinite(draws)):
        return float(np.std(draws, ddof=1))
    low, high = np.quantile(draws, _ONE_SIGMA, method="inverted_cdf")
    return float((high - low) / 2) if np.isfinite(low) else float("inf")


def percentile_interval(draws: np.ndarray, shares: Shares, confidence: float) -> tuple[float, float]:
    """Between the percentiles of draws (B,) of a contrast with these shares.

    Infinite where a sample in it has too few replicas: of R, the true median is outside of all in $2^{1-R}$ of samples. Draws
    that are all alike have no error at any number.
    """
    few = any(2.0 ** (1 - block.count) > 1 - confidence for block, weights in shares if np.any(weights != 0))
    if few and np.any(draws != draws[0]):
        return -np.inf, np.inf
    return _quantiles(draws, (1 + np.array([-1, 1]) * confidence) / 2)


def _quantiles(values: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Quantiles that stay defined where some values are infinite."""
    finite = bool(np.all(np.isfinite(values)))
    low, high = np.quantile(values, ends) if finite else np.quantile(values, ends, method="inverted_cdf")
    return float(low), float(high)


def abscissae(x: ArrayLike) -> np.ndarray:
    """Checked abscissae. Raises `InputError` unless two or more, positive, finite and increasing."""
    found = np.asarray(x, dtype=float)
    if (
        found.ndim != 1
        or found.size < 2
        or not np.all(np.isfinite(found))
        or found[0] <= 0
        or np.any(np.diff(found) <= 0)
    ):
        raise InputError(f"x must be two or more positive increasing numbers: got {found.size} of shape {found.shape}")
    return found


def _positive(y: ArrayLike, name: str, infinite: bool = False) -> np.ndarray:
    values = np.asarray(y, dtype=float)
    sound = values > 0 if infinite else (values > 0) & np.isfinite(values)
    if not np.all(sound):
        raise InputError(f"{name}: {int(np.sum(~sound))} values are not positive finite numbers: leave them out")
    return values


def _check(replicas: int, statistic: str, resamples: int, confidence: float) -> None:
    if replicas < 2:
        raise InputError(f"{replicas} replica given: an interval needs two independent ones or more")
    if statistic not in STATISTICS:
        raise InputError(f"statistic is {statistic!r}: use one of {', '.join(STATISTICS)}")
    if resamples < 20:
        raise InputError(f"resamples is {resamples!r}: give 20 or more")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence!r}: give a number between 0 and 1")
