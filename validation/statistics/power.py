r"""How many runs tell a rival from the prediction, and what runs that are there could have told.

A quantity is rejected when $|\hat x-p|>A+k_n\,s/\sqrt n$ with $k_n=t_{n-1}(1-\alpha/2)$, Student's quantile. If the
prediction is right, a rival at the distance $\delta$ is rejected with the probability that a non-central $t_{n-1}$ with
centre $(\delta-A)\sqrt n/\sigma$ exceeds $k_n$.
"""

import math

from scipy import stats

from validation.statistics.standard_errors import sigmas

#: More runs than this are hopeless.
MOST = 10**7


def power(count: int, distance: float, allowance: float, deviation: float, false_alarms: float) -> float:
    """The chance that `count` runs reject a rival at this distance.

    Args:
        allowance: in the same unit. deviation: standard deviation between runs; 0 where nothing is random.
    """
    beyond = abs(distance) - allowance
    if beyond <= 0:
        return 0.0
    if deviation == 0:
        return 1.0
    if count < 2:
        return 0.0
    centre = beyond * math.sqrt(count) / deviation
    found = float(stats.nct.sf(sigmas(count, false_alarms), count - 1, centre))
    # Far out SciPy's series gives up; the normal law is then good to all digits that matter.
    return found if math.isfinite(found) else float(stats.norm.sf(sigmas(count, false_alarms) - centre))


def needed(distance: float, allowance: float, deviation: float, false_alarms: float, asked: float) -> int | None:
    """The least number of runs with the power that is asked; None where there is none."""
    if abs(distance) <= allowance:
        return None
    if deviation == 0:
        return 1
    high = 2
    while power(high, distance, allowance, deviation, false_alarms) < asked:
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if power(middle, distance, allowance, deviation, false_alarms) < asked:
            low = middle
        else:
            high = middle
    return max(high, 2)


def upper_deviation(deviation: float, count: int, confidence: float = 0.8) -> float:
    """An upper limit of the standard deviation that a pilot of `count` runs measured, by its chi-squared law."""
    if count < 2 or deviation == 0:
        return deviation
    return deviation * math.sqrt((count - 1) / float(stats.chi2.ppf(1 - confidence, count - 1)))
