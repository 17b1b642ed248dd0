"""Links with few values: the Hermite degrees that they are made to hide."""

import numpy as np
import pytest
from scipy import stats

from theory.core.hermite import values
from theory.core.lowered import lower_numpy
from validation.experiments.links import Steps, binary, even_valued, three_valued


@pytest.mark.parametrize(
    ("link", "hidden", "seen"),
    [(three_valued(), (0, 1, 2), 3), (binary(), (0, 1, 2), 3), (even_valued(), (0, 1, 2, 3), 4)],
)
def test_degrees_below_the_information_exponent_are_hidden(link: Steps, hidden: tuple[int, ...], seen: int) -> None:
    """On a grid, whose cells hold jumps: to 1e-4."""
    x = np.linspace(-9, 9, 180_001) + 3e-5
    weights = stats.norm.pdf(x) * (x[1] - x[0])
    found = values(x, seen) @ (weights * link.value(x[:, None], lower_numpy))
    assert np.abs(found[list(hidden)]).max() < 2e-4
    assert abs(found[seen]) > 0.01
