"""Verdicts on means over replicas: few replicas, and runs that end before all of them have got there."""

from collections import Counter

import numpy as np
import pytest

from dynamics.core.interrupted import Progress
from theory.core.streams import generator
from validation.comparison import FALSE_ALARMS, Stage, _run, judge_replicas, summary
from validation.comparisons.directions import worst

NEVER = np.inf


@pytest.mark.parametrize(
    ("times", "verdict", "reason"),
    [
        ([1.0], "inconclusive", "one replica has no standard error"),
        ([NEVER], "inconclusive", "one replica has no standard error"),
        ([1.0, NEVER], "inconclusive", "1 of 2 replicas had not got there"),
        ([1.0, NEVER, NEVER], "inconclusive", "2 of 3 replicas had not got there"),
        ([0.99, 1.01, 1.0, 1.0], "agrees", ""),
        ([2.99, 3.01, 3.0, 3.0], "disagrees", "the mean over replicas is 3"),
    ],
)
def test_replicas_are_judged_where_they_have_a_mean_and_an_error(times: list[float], verdict: str, reason: str) -> None:
    found = judge_replicas(np.array(times), 1.0, 0.05, {"twice": 2.0}, 3.0)
    assert found[0] == verdict
    assert found[1].startswith(reason)
    assert bool(found[1]) == bool(reason)


@pytest.mark.slow_for("2")
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


@pytest.mark.parametrize("allowance", [0.0, 0.02])
def test_the_replicas_that_are_asked_for_reject_the_wrong_theory(allowance: float) -> None:
    """Eight of times around 1 do not tell 1.05. Of as many as four in five of such eights say would, nine sets in ten do."""
    rng, wrong, count = generator(5), {"late": 1.05}, 200
    asked = []
    for times in 1 + 0.1 * rng.standard_normal((count, 8)):
        _, why = judge_replicas(times, 1.0, allowance, wrong, NEVER)
        asked += [int(why.split()[-3].replace(",", ""))] if "does not reject 'late', 1.05;" in why else []
    assert len(asked) > 0.9 * count
    enough = int(np.quantile(asked, 0.2))
    sets = 1 + 0.1 * rng.standard_normal((count, enough))
    told = np.mean([judge_replicas(one, 1.0, allowance, wrong, NEVER)[0] == "agrees" for one in sets])
    assert told > 0.9 - 4 * np.sqrt(0.9 * 0.1 / count)


def test_a_wrong_theory_within_the_allowance_needs_something_else_than_replicas() -> None:
    times = 1 + 0.1 * generator(6).standard_normal(64)
    assert judge_replicas(times, 1.0, 0.06, {"late": 1.05}, NEVER) == (
        "inconclusive",
        "what is measured does not reject 'late', 1.05, nor would more replicas: lower step-size",
    )


def test_most_replicas_may_be_missing_near_the_end_of_the_run() -> None:
    """Times around what is predicted, cut a little before it: the mean of what is known lies below, and says nothing."""
    times = 1 + 0.1 * generator(2).standard_normal((200, 32))
    cut = [judge_replicas(np.where(one > 0.98, NEVER, one), 1.0, 0.0, {"twice": 2.0}, 0.98)[0] for one in times]
    assert set(cut) == {"inconclusive"}
    late = 2 * times
    cut = [judge_replicas(np.where(one > 1.95, NEVER, one), 1.0, 0.0, {"twice": 2.0}, 1.95)[0] for one in late]
    assert set(cut) == {"disagrees"}


LAWS = {
    "normal": lambda rng, shape: 1 + 0.15 * rng.standard_normal(shape),
    "log-normal": lambda rng, shape: np.exp(0.3 * rng.standard_normal(shape) - 0.045),
    "exponential": lambda rng, shape: 0.7 + 0.3 * rng.exponential(size=shape),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_few_late_replicas_leave_the_mean_to_be_judged(law: str) -> None:
    """One of 200 is later than the runs: what is right is not rejected more often than stated, what is 10 % off mostly is."""
    rng, count = generator(3), 400
    times = LAWS[law](rng, (count, 2000))
    end = float(np.quantile(times, 0.995))
    runs = np.where(times > end, NEVER, times)
    right = [judge_replicas(one, 1.0, 0.0, {"twice": 2.0}, end) for one in runs]
    assert Counter(verdict for verdict, _ in right)["agrees"] >= count * (1 - FALSE_ALARMS) - 4 * np.sqrt(
        count * FALSE_ALARMS
    )
    assert all("replicas had not got there when the run ended" in reason for _, reason in right)
    for wrong in (0.9, 1.1):
        found = Counter(judge_replicas(one, wrong, 0.0, {"twice": 2.0}, end)[0] for one in runs)
        assert found["disagrees"] > 0.95 * count
    means = [summary(one, "sgd", end) for one in runs]
    off = np.array([row["sgd_mean"] - 1 for row in means]) / [row["sgd_stderr"] for row in means]
    assert np.mean(np.abs(off) < 2) > 0.9


def test_late_replicas_are_told_of_though_the_mean_agrees() -> None:
    assert worst([("agrees", ""), ("agrees", "1 of 200 was late")]) == {
        "verdict": "agrees",
        "reason": "1 of 200 was late",
    }
    assert worst([("agrees", "a"), ("disagrees", "b")])["reason"] == "b"


@pytest.mark.parametrize(
    ("stopped", "said"), [(1, "in second, before its first step"), (2, "in third, before its first step")]
)
def test_what_was_finished_before_an_interruption_is_kept(stopped: int, said: str) -> None:
    """Each stage has its share of the progress; one that is stopped before any is finished is stopped for good."""
    told: list[float] = []

    def stages(at: int) -> list[Stage]:
        def run(number: int, progress: Progress | None) -> str:
            assert progress is not None
            progress(0.5, "")
            if number == at:
                raise KeyboardInterrupt
            return f"result {number}"

        names = enumerate(("first", "second", "third"))
        return [Stage(name, lambda found, progress, number=number: run(number, progress)) for number, name in names]

    found, stop = _run(stages(stopped), lambda share, _: told.append(share))
    assert (list(found), stop) == (["first", "second"][:stopped], said)
    assert told == pytest.approx((np.arange(stopped + 1) + 0.5) / 3)
    with pytest.raises(KeyboardInterrupt):
        _run(stages(0), lambda share, _: None)
