"""Where activations bend, and what a bend does to a Gaussian integral."""

import numpy as np
import pytest
import scipy

from theory import Activation
from theory.core.bends import bends


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("relu(z-1)", {1.0: 1.0}),
        ("hardtanh(2*z)", {-0.5: 2.0, 0.5: -2.0}),
        ("abs(abs(z)-1)", {-1.0: 2.0, 0.0: -2.0, 1.0: 2.0}),
        ("relu(relu(z)-1/3)", {1 / 3: 1.0}),
        ("hardswish", {-3.0: -0.5, 3.0: -0.5}),
        ("leaky_relu", {0.0: 0.99}),
        ("max(exp(z), 2)", {np.log(2): 2.0}),
        ("elu", {}),
        ("relu(z)**2", {}),
        ("abs(z**2)", {}),
        ("tanh(z)", {}),
        ("abs(cos(z))", {(k + 0.5) * np.pi: 2.0 for k in range(-4, 4)}),  # (as many as there may be)
        ("abs(sin(4*z))", {}),  # (too many)
    ],
)
def test_bends_are_where_the_slope_jumps(text: str, known: dict[float, float]) -> None:
    found = dict(bends(Activation.parse(text)))
    assert list(found) == pytest.approx(list(known), abs=1e-12)
    assert list(found.values()) == pytest.approx(list(known.values()), abs=1e-7)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("relu6", lambda x: np.clip(x, 0, 6)),
        ("hardtanh", lambda x: np.clip(x, -1, 1)),
        ("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
        ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
        ("mish", lambda x: x * np.tanh(scipy.special.log1p(np.exp(x)))),
        ("min(z, 1)", lambda x: np.minimum(x, 1)),
    ],
)
def test_names_of_the_field_are_what_they_are_there(text: str, function) -> None:
    x = np.linspace(-8, 8, 33)
    assert Activation.parse(text).arrays()(x) == pytest.approx(function(x), abs=1e-12)
