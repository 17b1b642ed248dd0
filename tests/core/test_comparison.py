"""Verdicts on means over replicas, at the numbers of replicas where there is none."""

import numpy as np
import pytest

from validation.comparison import judge_replicas

NEVER = np.inf


@pytest.mark.parametrize(
    ("times", "verdict", "reason"),
    [
        ([1.0], "inconclusive", "one replica has no standard error"),
        ([NEVER], "inconclusive", "one replica has no standard error"),
        ([1.0, NEVER], "inconclusive", "1 of 2 replicas had not got there"),
        ([1.0, NEVER, NEVER], "disagrees", "2 of 3 replicas had not got there"),
        ([0.99, 1.01, 1.0, 1.0], "agrees", ""),
        ([2.99, 3.01, 3.0, 3.0], "disagrees", "the mean over replicas beside 1"),
    ],
)
def test_replicas_are_judged_where_they_have_a_mean_and_an_error(times: list[float], verdict: str, reason: str) -> None:
    found = judge_replicas(np.array(times), 1.0, 0.05, {"twice": 2.0})
    assert found[0] == verdict
    assert found[1].startswith(reason)
    assert bool(found[1]) == bool(reason)
