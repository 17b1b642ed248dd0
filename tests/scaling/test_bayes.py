"""The Bayes-optimal floor: what the claim does not ask: its refusals, its edges, several phases."""

import numpy as np
import pytest

from theory import Activation, InputError
from theory.scaling import bayes
from theory.scaling.bayes import BayesFloor, Channel


def test_each_direction_is_found_from_the_threshold_on_at_its_overlap() -> None:
    channel = Channel(4)
    signal, overlap = channel.threshold
    below, above = channel.overlap(np.array([signal * (1 - 1e-12), signal * (1 + 1e-12)]))
    assert below == 0
    assert above == pytest.approx(overlap, abs=1e-9)
    assert channel.overlap(np.array(1e9)) == pytest.approx(1 - 1 / 4e9, abs=1e-15)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_labels_without_noise_tell_all_from_a_sample_for_each_number_on(degree: int) -> None:
    """Of two directions, above n/d = 2; below, the error is that of little noise, and above it is in proportion to it."""

    def error(noise: float, samples: float) -> float:
        return BayesFloor(Channel(degree), np.array([0.8, 0.2]), noise).error(samples)

    for noise in (1e-18, 1e-180):
        assert error(noise, 2.1) == 0.0
        assert error(noise, 1.9) == pytest.approx(error(1e-10, 1.9), rel=1e-6)
    assert error(1e-18, 1.9) > 0.1
    assert error(1e-10, 2.1) / 1e-10 == pytest.approx(error(1e-8, 2.1) / 1e-8, rel=1e-3)


def test_without_samples_to_speak_of_nothing_is_known() -> None:
    floor = BayesFloor.power_law(3, 1.0, teachers=7)
    assert floor.error(0.5) == pytest.approx(1.0, abs=1e-12)
    assert floor.learned(0.5) == 0


def test_what_is_not_listed_is_left() -> None:
    few, all_of_them = (BayesFloor.power_law(2, 0.8, teachers) for teachers in (bayes._EXPLICIT + 1, 20_000))
    assert few.beyond == pytest.approx(float(few.squares[-1]), rel=1e-4)
    assert all_of_them.beyond == 0


def test_of_two_phases_the_likelier_one_is_taken() -> None:
    """Equal weights without noise to speak of: all known or none, each reproducing itself."""
    floor = BayesFloor(Channel(4), np.ones(3), noise=0.05)
    for ratio, learned in ((3.5, 0), (4.0, 3)):
        gaps = [floor._gap(error, ratio) for error in np.geomspace(1e-3, 3.2, 400)]
        assert np.count_nonzero(np.diff(np.sign(gaps))) == 3
        assert floor.learned(ratio) == learned


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Channel(1), "degree is 1"),
        (lambda: Channel.of(Activation.parse("h2+h4")), "Hermite polynomial such as h4"),
        (lambda: BayesFloor(Channel(2), np.array([0.1, 0.2])), "largest first"),
        (lambda: BayesFloor(Channel(2), np.ones(2), noise=0.0), "noise is 0.0"),
        (lambda: BayesFloor.power_law(2, 0.6, np.inf).error(1e9), "more than the"),
        (lambda: BayesFloor.power_law(2, 0.6, 10).error(-1.0), "samples is -1.0"),
        (lambda: bayes.constant(Channel(2), 0.5), "decay is 0.5"),
    ],
)
def test_refusals_name_what_to_do(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("decay", [0.51, 0.7, 1.0, 2.0, 3.0, 10.0])
def test_the_constant_of_degree_two_has_a_closed_form(decay: float) -> None:
    shown = float(bayes.quadratic_constant().subs(bayes.beta, decay))
    assert shown == pytest.approx(bayes.constant(Channel(2), decay), rel=1e-13)  # by quadrature
    assert shown == pytest.approx(1 - 1 / (2 * (2 * decay + 1)) + 1 / (2 * (2 * decay - 1)), rel=1e-13)
