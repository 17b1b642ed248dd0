"""Verdicts on means over replicas: few replicas, and runs that end before all of them have got there."""

from collections import Counter

import numpy as np
import pytest

from theory.core.streams import generator
from validation.comparison import FALSE_ALARMS, judge_replicas

NEVER = np.inf


@pytest.mark.parametrize(
    ("times", "verdict", "reason"),
    [
        ([1.0], "inconclusive", "one replica has no standard error"),
        ([NEVER], "inconclusive", "one replica has no standard error"),
        ([1.0, NEVER], "inconclusive", "1 of 2 replicas had not got there"),
        ([1.0, NEVER, NEVER], "inconclusive", "2 of 3 replicas had not got there"),
        ([0.99, 1.01, 1.0, 1.0], "agrees", ""),
        ([2.99, 3.01, 3.0, 3.0], "disagrees", "the mean over replicas beside 1"),
    ],
)
def test_replicas_are_judged_where_they_have_a_mean_and_an_error(times: list[float], verdict: str, reason: str) -> None:
    found = judge_replicas(np.array(times), 1.0, 0.05, {"twice": 2.0}, 3.0)
    assert found[0] == verdict
    assert found[1].startswith(reason)
    assert bool(found[1]) == bool(reason)


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_a_right_prediction_is_rejected_as_seldom_as_stated(replicas: int) -> None:
    """Of normal times; 4 standard errors would be exceeded by 16, 2.8 and 0.5 % of them."""
    count = 5000
    times = 1 + 0.1 * generator(1).standard_normal((count, replicas))
    found = Counter(judge_replicas(one, 1.0, 0.0, {"twice": 2.0}, NEVER)[0] for one in times)
    assert found["disagrees"] <= count * FALSE_ALARMS + 4 * np.sqrt(count * FALSE_ALARMS)


@pytest.mark.parametrize(("end", "verdict"), [(1.04, "inconclusive"), (1.2, "inconclusive"), (2.0, "disagrees")])
def test_runs_that_end_too_early_reject_nothing(end: float, verdict: str) -> None:
    """All 16 come later than the run's end: of times around 1.05 if it is 1.04, which the allowance holds."""
    assert judge_replicas(np.full(16, NEVER), 1.0, 0.1, {"twice": 2.0}, end)[0] == verdict


def test_most_replicas_may_be_missing_near_the_end_of_the_run() -> None:
    """Times around what is predicted, cut a little before it: the mean of what is known lies below, and says nothing."""
    times = 1 + 0.1 * generator(2).standard_normal((200, 32))
    cut = [judge_replicas(np.where(one > 0.98, NEVER, one), 1.0, 0.0, {"twice": 2.0}, 0.98)[0] for one in times]
    assert set(cut) == {"inconclusive"}
    late = 2 * times
    cut = [judge_replicas(np.where(one > 1.95, NEVER, one), 1.0, 0.0, {"twice": 2.0}, 1.95)[0] for one in late]
    assert set(cut) == {"disagrees"}
