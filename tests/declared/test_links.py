"""Links with few values: the Hermite degrees that they are made to hide."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy
from scipy import stats

from theory.core.hermite import values
from theory.core.lowered import lower_numpy
from validation.experiments.links import Steps, binary, even_valued, three_valued


def coefficient(link: Steps, degree: int) -> float:
    """E y He_j / √j!, piece by piece between the jumps."""

    def density(x: float) -> float:
        label = link.value(np.array([[x]]), lower_numpy)[0]
        return float(label * values(np.array(x), degree)[degree] * stats.norm.pdf(x))

    jumps = sorted({0.0, *link.thresholds, *(-x for x in link.thresholds)})
    ends = [-12.0, *jumps, 12.0]
    return sum(scipy.integrate.quad(density, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))


@pytest.mark.parametrize(("made", "exponent"), [(three_valued, 3), (binary, 3), (even_valued, 4)])
def test_degrees_below_the_information_exponent_are_hidden(made: Callable[[], Steps], exponent: int) -> None:
    link = made()
    assert [coefficient(link, j) for j in range(exponent)] == pytest.approx([0.0] * exponent, abs=1e-11)
    assert abs(coefficient(link, exponent)) > 0.01
