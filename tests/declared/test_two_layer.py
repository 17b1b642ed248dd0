"""Two-layer linear networks: every equation checks itself and notices a slip; numbers at hand-made starts."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
import sympy as sp

from theory import InputError
from theory.core import matrices
from theory.core.derivation import DerivationError, equation
from theory.core.streams import stream
from theory.linear import two_layer as shown
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


def test_a_balanced_start_needs_room_on_one_side_only() -> None:
    for narrow in (target()[:1], target()[:, :1]):
        found = draw_balanced(narrow, 2, 0.0, 0.5, stream(0, "two layers", "start"))
        np.testing.assert_allclose(found.second.T @ found.second, found.first @ found.first.T, atol=1e-12)


def test_a_long_time_does_not_overflow_and_ends_at_the_target() -> None:
    found = start(0.8, 3)
    assert np.allclose(found.at([1e4])[0][4:, :4], target(), atol=1e-9)


def _descended(found: TwoLayer, time: float) -> np.ndarray:
    """W₂W₁ after gradient flow of both layers, integrated."""
    (width, inputs), outputs = found.first.shape, len(found.second)

    def slope(_: float, packed: np.ndarray) -> np.ndarray:
        down, up = packed[: width * inputs].reshape(width, inputs), packed[width * inputs :].reshape(outputs, width)
        error = found.target - up @ down
        return np.concatenate([(up.T @ error).ravel(), (error @ down.T).ravel()])

    packed = np.concatenate([found.first.ravel(), found.second.ravel()])
    end = scipy.integrate.solve_ivp(slope, (0.0, time), packed, "DOP853", rtol=1e-10, atol=1e-12).y[:, -1]
    return end[width * inputs :].reshape(outputs, width) @ end[: width * inputs].reshape(width, inputs)


@pytest.mark.parametrize(("width", "shift", "loss"), [(1, 0.0, 2.5), (2, 0.0, 0.5), (2, 0.5, 0.5), (1, 5.0, 2.5)])
def test_a_network_narrower_than_its_target_keeps_its_rank(width: int, shift: float, loss: float) -> None:
    """Σ = diag(3, 2, 1): what is left is ½ of the squares beyond the width, for ever, and a long time takes no minutes."""
    found = draw_balanced(np.diag([3.0, 2.0, 1.0]), width, shift, 0.3, np.random.default_rng(0))
    for time, path in zip((5.0, 15.0, 40.0, 1e4), found.at([5.0, 15.0, 40.0, 1e4]), strict=True):
        values = np.linalg.svd(path[3:, :3])[1]
        assert np.all(values[width:] < 1e-12 * values[0])
        if time < 1e4:
            assert np.allclose(path[3:, :3], _descended(found, time), atol=1e-8)
    assert np.sum((found.target - path[3:, :3]) ** 2) / 2 == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("shift", [0.8, -0.7, 0.0])
def test_a_path_is_the_shown_closed_form(shift: float) -> None:
    """In one stretch of length 1, with exponentials from their power series."""
    found = start(shift)
    move = found.signal - shift / 2 * found.sides
    size = len(move)
    both = scipy.linalg.expm(np.block([[-move, np.eye(size)], [np.zeros((size, size)), move]]))
    grown = both[size:, size:]  # (Van Loan 1978: the corner is e^{-F}∫e^{2Fs}ds)
    closed = matrices.function(shown.closed_product(), (shown.E, shown.Phi, shown.P_0, shown.Id))
    expected = closed(grown, grown @ both[:size, size:], found.frame @ found.frame.T, np.eye(size))
    assert np.allclose(found.at(1.0)[0], expected, rtol=1e-11, atol=1e-12)


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
    with pytest.raises(InputError, match="not finite"):
        start(0.5).at([1.0, np.inf])


def test_turned_hidden_units_hold_the_frame_and_its_balance() -> None:
    """Of layers that are not balanced: sums over groups of λP and of P, each P of rank one."""
    draw = stream(0, "two layers", "groups").standard_normal
    found = TwoLayer(target(), draw((3, 4)), draw((3, 3)))
    shifts, groups = found.groups()
    np.testing.assert_allclose(
        np.tensordot(shifts, groups, axes=1), found.frame @ found.balance @ found.frame.T, atol=1e-12
    )
    np.testing.assert_allclose(groups.sum(axis=0), found.frame @ found.frame.T, atol=1e-12)
    for group in groups:
        np.testing.assert_allclose(group @ group, np.trace(group) * group, atol=1e-12)
    assert np.ptp(shifts) > 0.1
