"""Which cases are of the long run."""

import pytest


@pytest.mark.slow_for("named")
@pytest.mark.parametrize("case", ["named", "not named"])
def test_cases_that_are_named_are_slow_and_no_others(case: str, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("slow") is not None) == (case == "named")
