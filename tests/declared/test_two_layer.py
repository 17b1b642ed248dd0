"""Two-layer linear networks: every equation checks itself and notices a slip; numbers at hand-made starts."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from theory import InputError
from theory.core.derivation import DerivationError, equation
from theory.core.streams import stream
from theory.linear.two_layer import D, TwoLayer, draw_balanced, mode_time, two_layer


def target(outputs: int = 3, inputs: int = 4) -> np.ndarray:
    return stream(0, "two layers", "target").standard_normal((outputs, inputs))


def start(shift: float, width: int = 2) -> TwoLayer:
    return draw_balanced(target(), width, shift, 0.5, stream(0, "two layers", "start"))


def test_every_step_holds_and_notices_a_doubled_result() -> None:
    derivation = two_layer()
    assert derivation.verify() == len(derivation.steps) == 7
    for step in derivation.steps:
        wrong = D if isinstance(step.claim, sp.ZeroMatrix) else 2 * step.claim
        broken = replace(step, equation=equation(step.equation.lhs, wrong))
        with pytest.raises(DerivationError):
            broken.verify()


@pytest.mark.parametrize("shift", [0.8, -0.7, 0.0])
def test_a_balanced_start_is_balanced_and_its_path_solves_the_flow(shift: float) -> None:
    found = start(shift)
    assert np.allclose(found.balance, shift * np.eye(2), atol=1e-12)
    assert found.shift == pytest.approx(shift, abs=1e-12)
    step = 1e-4
    before, now, after = found.at([1.0 - step, 1.0, 1.0 + step])
    move = found.signal - shift / 2 * found.sides
    assert np.abs((after - before) / (2 * step) - (move @ now + now @ move - now @ now)).max() < 1e-6
    assert np.allclose(found.at(0.0)[0], found.frame @ found.frame.T, atol=1e-14)


def test_a_long_time_does_not_overflow_and_ends_at_the_target() -> None:
    found = start(0.8, 3)
    assert np.allclose(found.at([1e4])[0][4:, :4], target(), atol=1e-9)


def test_a_mode_without_unbalance_is_the_logistic_curve() -> None:
    strength = np.array([0.05, 0.4, 0.99])
    logistic = np.log(strength * (1.2 - 0.05) / (0.05 * (1.2 - strength))) / 2.4
    assert np.allclose(mode_time(strength, 0.05, 1.2), logistic, rtol=1e-12)


def test_what_has_no_start_or_no_closed_form_is_refused() -> None:
    with pytest.raises(InputError, match="exists up to width 3"):
        start(0.5, 4)
    assert start(-0.5, 4).shift == pytest.approx(-0.5)
    general = TwoLayer(target(), np.eye(2, 4), np.eye(3, 2) * np.array([1.0, 2.0]))
    with pytest.raises(InputError, match="λ-balanced"):
        general.at(1.0)
    with pytest.raises(InputError, match="layers have shapes"):
        TwoLayer(target(), np.eye(2), np.eye(3, 2))
    with pytest.raises(InputError, match="increasing"):
        start(0.5).at([1.0, 0.5])
