"""What verdicts over many seeds say of one quantity: how often it cried wolf, and whether its error bars are right.

The stated share. A quantity agrees when |estimate − predicted| ≤ allowance + 4·stderr. If the estimate is normal around
the prediction (shifted by at most the allowance) and stderr comes from ν degrees of freedom, a true claim disagrees with
probability at most P(|t_ν| > 4), Student's t: 6·10⁻⁵ for ν = ∞, 5·10⁻³ for ν = 7, 3 % for ν = 3. ν is not asked of the
claim but measured over the seeds (Satterthwaite): stderr² is distributed as σ²χ²_ν/ν, so ν = 2·mean²/variance of stderr².
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from validation.judge.claim import SIGMAS, Verdict

#: Coverage of the intervals.
LEVEL = 0.95
#: A control must be rejected for this share of the seeds.
REJECTED = 0.95
#: More false alarms than the stated share explains with this probability are a defect: some hundred quantities are tested.
UNLIKELY = 1e-4
#: Replicas behind a standard error are four at the least: a smaller ν is the spread of problems between seeds.
LEAST_FREEDOM = 3.0
#: With fewer seeds the spread of a standard error, and so ν, is not worth a warning.
LEAST_SEEDS = 10
#: An allowance is compared with what deviated under so many seeds (where nothing is random, under the `FIRST`), and is too
#: generous if it is so many times the largest.
GENEROUS_SEEDS, GENEROUS = 20, 10.0
#: So many seeds tell whether anything in a claim is random.
FIRST = 2
#: Seed → verdicts on a claim.
Seeds = Mapping[int, Sequence[Verdict]]


@dataclass(frozen=True)
class Share:
    """`hits` of `total`, with the Clopper–Pearson interval."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        return self.hits / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the exact binomial interval of coverage 95 % or more."""
        tail, k, n = (1 - LEVEL) / 2, self.hits, self.total
        low = float(stats.beta.ppf(tail, k, n - k + 1)) if k else 0.0
        high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
        return low, high


@dataclass
class Tally:
    """One quantity over seeds.

    Attributes:
        id: of the quantity. name: in words. expected: the claim's verdict. seeds: number of seeds.
        verdicts: how often each verdict was given.
        false: for a true claim, seeds for which it disagreed whatever its controls did; for one that is expected to
            disagree, seeds for which it did not.
        controls: per control, seeds for which it was rejected.
        random: whether anything differs between seeds.
        freedom: degrees of freedom of the standard error, measured (inf if it does not vary, NaN if there is none).
        mean: mean of z = (estimate − predicted)/stderr, and its standard error.
        square: Σ(estimate − predicted)²/Σstderr² and its standard error: 1 if the error bars are right and nothing is
            biased, whatever ν.
        allowed: whether a bias is allowed for (a positive allowance). sigmas: standard errors that the rule allows.
        taken: the largest |estimate − predicted| as a share of its allowance, noise included; NaN without one.
        stated: share of the seeds for which the rule lets a true claim disagree.
    """

    id: str
    name: str
    expected: str
    seeds: int
    verdicts: Counter[str]
    false: Share
    controls: dict[str, Share]
    random: bool
    freedom: float
    mean: tuple[float, float]
    square: tuple[float, float]
    allowed: bool
    sigmas: float = SIGMAS
    taken: float = math.nan
    stated: float = field(init=False)

    def __post_init__(self) -> None:
        self.stated = stated_share(max(self.freedom, LEAST_FREEDOM) if self.statistical else math.nan, self.sigmas)

    @property
    def statistical(self) -> bool:
        """Whether it has a standard error (otherwise the allowance alone decides, and no share is stated)."""
        return not math.isnan(self.freedom)

    @property
    def too_many(self) -> bool:
        """Whether the stated share does not explain the false alarms; without a standard error, any is too many.

        A statement that should disagree is a wrong theory, and must be found out as often as a control.
        """
        if self.expected == "disagrees":
            return self.false.value > 1 - REJECTED
        if not self.statistical:
            return self.false.hits > 0
        return self.false.hits > 0 and float(stats.binom.sf(self.false.hits - 1, self.seeds, self.stated)) < UNLIKELY

    @property
    def weak_controls(self) -> list[str]:
        """Controls that are rejected too rarely. One of an open question that survives is an answer, not a defect."""
        if self.expected == "open":
            return []
        return [name for name, share in self.controls.items() if share.value < REJECTED]

    @property
    def weakest(self) -> tuple[str, Share] | None:
        """The control that was rejected for the smallest share of the seeds."""
        return min(self.controls.items(), key=lambda item: item[1].value, default=None)

    @property
    def overdispersed(self) -> bool:
        """Whether a true claim's error bars are too small: only where no bias is allowed for."""
        value, error = self.square
        return self._tells and not self.allowed and value - SIGMAS * error > 1

    @property
    def few_replicas(self) -> bool:
        """Whether the rule lets this true claim disagree for more than 1 % of the seeds."""
        return self._tells and self.stated > 0.01

    @property
    def generous(self) -> bool:
        """Whether a true claim's allowance is more than ten times what ever deviated: it may hide an error of its size."""
        enough = self.seeds >= (GENEROUS_SEEDS if self.random else FIRST)
        return self.expected == "agrees" and enough and self.taken * GENEROUS < 1

    @property
    def _tells(self) -> bool:
        return self.expected == "agrees" and self.statistical and self.seeds >= LEAST_SEEDS


def stated_share(freedom: float, sigmas: float = SIGMAS) -> float:
    """P(|t_ν| > 4), 4 being `sigmas`: how often the rule lets a true claim disagree. 0 without a standard error (ν NaN)."""
    if math.isnan(freedom):
        return 0.0
    return float(2 * (stats.norm.sf(sigmas) if math.isinf(freedom) else stats.t.sf(sigmas, freedom)))


def freedom(stderr: np.ndarray) -> float:
    """Degrees of freedom of a standard error from its spread over seeds; NaN where it is always 0."""
    squares = np.asarray(stderr, dtype=float) ** 2
    if not np.any(squares > 0) or not np.all(np.isfinite(squares)):
        return math.nan
    relative = float(squares.var(ddof=1) / squares.mean() ** 2) if len(squares) > 1 else 0.0
    return 2 / relative if relative > 1e-12 else math.inf


def numbers(verdict: Verdict) -> tuple[float, ...]:
    """What another seed changes if anything is random: a share may be 1 for both, its allowance and controls differ."""
    x = verdict.measurement
    return x.predicted, x.estimate, x.stderr, x.allowance, *(control.used for control in verdict.controls)


def is_random(seeds: Seeds) -> bool:
    """Whether the seeds that are there gave different numbers; True as long as fewer than two are."""
    return len(seeds) < FIRST or len({repr([numbers(one) for one in verdicts]) for verdicts in seeds.values()}) > 1


def tally(judged: Sequence[Verdict]) -> Tally:
    """Count the verdicts on one quantity, one per seed. Where it was left open for want of a number, nothing can be false."""
    told = [one for one in judged if one.verdict != "inconclusive" or not math.isnan(one.measurement.estimate)]
    claim, measured = judged[0].claim, [one.measurement for one in told]
    expected = "open" if claim.kind == "open" else claim.expected
    numerals = np.array([(x.predicted, x.estimate, x.stderr) for x in measured], dtype=float)
    predicted, estimate, stderr = numerals.reshape(-1, 3).T
    right = [one.used <= 1 for one in told]
    false = sum(right) if expected == "disagrees" else len(right) - sum(right)
    return Tally(
        judged[0].id,
        judged[0].measurement.quantity,
        expected,
        len(judged),
        Counter(one.verdict for one in judged),
        Share(0 if expected == "open" else false, len(told)),
        _controls(judged),
        len({repr(numbers(one)) for one in judged}) > 1,
        freedom(stderr),
        *_calibration(estimate - predicted, stderr),
        any(x.allowance > 0 for x in measured),
        judged[0].measurement.sigmas,
        max((abs(x.estimate - x.predicted) / x.allowance for x in measured if x.allowance > 0), default=math.nan),
    )


def _controls(judged: Sequence[Verdict]) -> dict[str, Share]:
    hits: dict[str, int] = {}
    total: Counter[str] = Counter()
    for control in (control for one in judged for control in one.controls):
        hits[control.name] = hits.get(control.name, 0) + control.rejected
        total[control.name] += 1
    return {name: Share(count, total[name]) for name, count in hits.items()}


def _calibration(gap: np.ndarray, stderr: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean of z, and Σgap²/Σstderr², each with its standard error over seeds (the second to first order)."""
    none = (math.nan, math.nan)
    count = len(gap)
    if count < 2 or not np.all(stderr > 0) or not np.all(np.isfinite(gap)):
        return none, none
    z = gap / stderr
    ratio = float((gap**2).sum() / (stderr**2).sum())
    spread = (gap**2 - ratio * stderr**2).std(ddof=1) / (stderr**2).mean()
    root = math.sqrt(count)
    return (float(z.mean()), float(z.std(ddof=1) / root)), (ratio, float(spread / root))


def tallies(seeds: Seeds) -> list[Tally]:
    """One tally per quantity of a claim, in the order they are reported in."""
    rows: dict[tuple[str, int], list[Verdict]] = {}
    for seed in sorted(seeds):
        met: Counter[str] = Counter()
        for one in seeds[seed]:
            rows.setdefault((one.id, met[one.id]), []).append(one)
            met[one.id] += 1
    return [tally(row) for row in rows.values()]
