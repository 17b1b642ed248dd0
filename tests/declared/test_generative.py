"""What labels show of each Hermite degree: links whose level sets are known by hand, and refusals."""

from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy import integrate, optimize

from theory import Activation, InputError, generative_exponent
from theory.core.hermite import z
from theory.declared.generative import LEAST, Pieces, _preimages, label_information, least_seen
from theory.declared.target import Additive, Lower
from validation.claims.declared.generative_exponent import _BIN, _sampled
from validation.experiments.links import three_valued


class Piecewise:
    """z above 1, z² from −0.3 to 1, −1 below: jumps, an extremum and a constant part."""

    count = 1

    def value(self, fields: Any, lower: Lower) -> Any:
        return lower(sp.Piecewise((z, z > 1), (-1, z < -0.3), (z**2, True)), (z,))(fields[..., 0])


class Root:
    """√z: no value on half of the line."""

    count = 1

    def value(self, fields: Any, lower: Lower) -> Any:
        return lower(sp.sqrt(z), (z,))(fields[..., 0])


@pytest.mark.parametrize(
    "link", ["h1", "z**3+z", "z+sin(z)/2", "exp(z/3)", "(exp(z)-1)/z", "max(-8.999,z)", "-max(-8.999,-z)"]
)
def test_labels_that_tell_inputs_apart_show_everything(link: str) -> None:
    assert label_information(Activation.parse(link), 5) == pytest.approx(np.ones(5), abs=1e-6)


@pytest.mark.parametrize("link", ["abs(z)", "tanh(z)/z", "z/tanh(z)", "log(abs(z))"])
def test_labels_that_tell_inputs_apart_but_for_their_sign_show_even_degrees(link: str) -> None:
    assert label_information(Activation.parse(link), 4) == pytest.approx([0, 1, 0, 1], abs=1e-6)


def test_a_formula_that_is_0_over_0_at_a_point_has_a_label_there() -> None:
    """(1 − exp(−z²))/z = y has two roots of one sign, on either side of its largest value."""

    def label(a: float) -> float:
        return float(-np.expm1(-a * a) / a)

    def weight(a: float) -> float:
        slope = 2 * np.exp(-a * a) + np.expm1(-a * a) / a**2
        return float(np.exp(-a * a / 2) / abs(slope))

    top = optimize.brentq(lambda a: 2 * np.exp(-a * a) + np.expm1(-a * a) / a**2, 0.5, 2)

    def seen(a: float) -> float:
        bracket = (top, 1e12) if a < top else (1e-12, top)
        other = optimize.brentq(lambda x: label(x) - label(a), *bracket, xtol=1e-13)
        p, q = weight(a), weight(other)
        mean = (p * a + q * other) / (p + q)
        return float(mean**2 * np.exp(-a * a / 2) / np.sqrt(2 * np.pi))

    ends = ((1e-6, top - 1e-6), (top + 1e-6, 9))
    known = 2 * sum(integrate.quad(seen, *one, limit=200)[0] for one in ends)
    assert label_information(Activation.parse("(1-exp(-z**2))/z"), 1)[0] == pytest.approx(known, abs=1e-5)


def test_a_link_without_values_is_refused() -> None:
    with pytest.raises(InputError, match="function has no finite value near -9"):
        generative_exponent(Root())


def test_a_constant_part_shows_its_mean() -> None:
    density = 1 / np.sqrt(2 * np.pi)
    found = label_information(Activation.parse("relu"), 3)
    assert found[:2] == pytest.approx([0.5 + 2 * density**2, 0.5], abs=1e-7)


def test_jumps_extrema_and_constant_parts_at_once() -> None:
    def weight(a: float) -> float:
        return float(np.exp(-a * a / 2) / np.sqrt(2 * np.pi))

    def both(a: float) -> float:
        """(E[a | y])² p(a) where labels a² have two inputs, of equal slope."""
        mean = a * (weight(a) - weight(-a)) / (weight(a) + weight(-a))
        return mean**2 * 2 * weight(a)

    atom = integrate.quad(lambda a: a * weight(a), -12, -0.3)[0] ** 2 / integrate.quad(weight, -12, -0.3)[0]
    alone = integrate.quad(lambda a: a * a * weight(a), 0.3, 12)[0]
    known = atom + alone + integrate.quad(both, 0, 0.3)[0]
    assert label_information(Piecewise(), 1)[0] == pytest.approx(known, abs=1e-6)


def test_roots_far_out_count() -> None:
    """z² exp(−z²) = y has two roots x₁ < 1 < x₂ in z², of weights 1/|1 − x|, as z e^{−z²/2} is the same at both."""

    def seen(a: float) -> float:
        x = a * a
        bracket = (1 + 1e-12, 90.0) if x < 1 else (1e-300, 1 - 1e-12)
        other = optimize.brentq(lambda t: np.log(t) - t - np.log(x) + x, *bracket)
        p, q = 1 / abs(1 - x), 1 / abs(1 - other)
        mean = (p * (x * x - 6 * x + 3) + q * (other * other - 6 * other + 3)) / np.sqrt(24) / (p + q)
        return float(mean**2 * np.exp(-a * a / 2) / np.sqrt(2 * np.pi))

    known = 2 * sum(integrate.quad(seen, *ends, limit=200)[0] for ends in ((1e-6, 1 - 1e-6), (1 + 1e-6, 8)))
    found = label_information(Activation.parse("z**2*exp(-z**2)"), 4)
    assert found == pytest.approx([0, 0, 0, known], abs=1e-4)
    assert generative_exponent(Activation.parse("z**2*exp(-z**2)")) == 4


@pytest.mark.parametrize(("link", "known"), [("h4", 2), ("h5", 1), ("0.8*h4+0.6*h5", 1)])
def test_polynomials(link: str, known: int) -> None:
    activation = Activation.parse(link)
    assert generative_exponent(activation) == known
    assert np.flatnonzero(label_information(activation, 2) > 1e-6)[0] + 1 == known


@pytest.mark.parametrize(("text", "degree"), [("sin(5*z)", 1), ("cos(5*z)", 2)])
def test_it_is_no_more_than_the_information_exponent(text: str, degree: int) -> None:
    r"""E e^{5iz} h_k = (5i)^k e^{−25/2}/√k!: too little of these degrees for the quadrature's threshold."""
    link = Activation.parse(text)
    mean = np.exp(-12.5) if text.startswith("cos") else 0.0
    whole = (1 + np.exp(-50) * (1 if mean else -1)) / 2
    share = 5 ** (2 * degree) * np.exp(-25) / degree / whole  # (k! = k for these two)
    for one in (link, Additive(link, (-2.0,))):
        found = least_seen(one)
        assert found.degree == degree == generative_exponent(one)
        assert found.share == pytest.approx(share, rel=1e-4)
        assert found.share < LEAST


@pytest.mark.parametrize(("slope", "cut"), [(20, 0.95), (50, 0.38)])
def test_labels_that_doubles_cannot_tell_apart_show_less(slope: int, cut: float) -> None:
    """tanh(sz) is ±1 in doubles beyond the cut: less is seen than of z cut off there, more than of z cut off at half of it."""

    def clipped(at: float) -> np.ndarray:
        return label_information(Activation.parse(f"max({-at},-max({-at},-z))"), 3)

    assert np.tanh(slope * cut * 1.01) == 1.0
    found = label_information(Activation.parse(f"tanh({slope}*z)"), 3)
    assert np.all(found < clipped(cut))
    assert np.all(found > clipped(cut / 2))


def test_targets_of_several_directions_are_refused() -> None:
    with pytest.raises(InputError, match="2 directions"):
        generative_exponent(Additive(Activation.parse("h3"), (1.0, 1.0)))


def test_the_error_of_bins_in_the_order_of_labels_is_their_scatter() -> None:
    """Over 100 seeds: the spread of the estimates, known to 7 %, beside the error that each of them states."""
    draws = (np.random.default_rng(seed).standard_normal(2000 * _BIN) for seed in range(100))
    found = np.array([_sampled(three_valued(), 1, a)[:2] for a in draws])
    assert found[:, 0].std(ddof=1) / found[:, 1].mean() == pytest.approx(1, abs=4 / np.sqrt(2 * len(found)))


def test_where_a_label_stands_still_it_has_no_density() -> None:
    """Of a level the share is $e^{-x^2/2}/|f'(x)|$ where the label takes it with a slope; $z^3$ has none at 0."""
    empty = np.zeros(0)
    whole = Pieces(np.array([-2.0]), np.array([2.0]), empty.reshape(0, 2), empty)
    ((*_, share, at),) = _preimages(lambda x: x**3, whole, np.array([0.0, 1.0, 27.0]))
    assert at[:2] == pytest.approx([0, 1], abs=1e-12)
    assert share == pytest.approx([0, np.exp(-0.5) / 3, 0], rel=1e-8)
