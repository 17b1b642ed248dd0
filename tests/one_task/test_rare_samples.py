"""Kicks of one sample: their tail, its quantiles and its variance."""

import numpy as np
import pytest

from theory import Activation, InputError
from theory.one_task.rare_samples import kick_quantile, kick_tail


@pytest.mark.parametrize("degree", [3, 4])
def test_tail_of_a_kick_has_its_variance_and_its_quantiles(degree: int) -> None:
    activation = Activation.from_degree(degree)
    logs = np.linspace(-6, 13, 60)
    tail = np.array([kick_tail(activation, 1.0, float(np.exp(x))) for x in logs])
    assert np.trapezoid(2 * np.exp(2 * logs) * tail, logs) == pytest.approx(degree, rel=2e-3)
    assert kick_tail(activation, 2.0, 2 * kick_quantile(activation, 1.0, 1e-3)) == pytest.approx(1e-3)
    with pytest.raises(InputError, match="probability is 2: give one from"):
        kick_quantile(activation, 1.0, 2)
