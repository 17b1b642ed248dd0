"""The Bayes-optimal floor: what the claim does not ask: its refusals, its edges, several phases."""

import itertools

import numpy as np
import pytest
import scipy

from theory import Activation, InputError
from theory.scaling import bayes, bayes_phases
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


def gaps(floor: BayesFloor, ratio: float, errors: np.ndarray) -> np.ndarray:
    """What an error exceeds that which it leaves, with the overlaps written out."""
    signals = ratio * floor.squares / (floor.noise + errors[:, None])
    return np.asarray(errors - (1 - floor.channel.overlap(signals) ** floor.channel.degree) @ floor.squares)


def test_of_two_phases_the_likelier_one_is_taken() -> None:
    """Equal weights without noise to speak of: all known or none, each reproducing itself."""
    floor = BayesFloor(Channel(4), np.ones(3), noise=0.05)
    for ratio, learned in ((3.5, 0), (4.0, 3)):
        assert np.count_nonzero(np.diff(np.sign(gaps(floor, ratio, np.geomspace(1e-3, 3.2, 400))))) == 3
        assert floor.learned(ratio) == learned


def climbed(degree: int, squares: np.ndarray, noise: float, ratio: float) -> float:
    """Error at the highest free entropy, climbed to from every corner of the overlaps."""

    def entropy(overlaps: np.ndarray) -> np.ndarray:
        rest = noise + (1 - overlaps**degree) @ squares
        return np.asarray(np.sum(overlaps + np.log1p(-overlaps), axis=-1) / 2 - ratio / 2 * np.log(rest))

    corners, bounds = itertools.product((0.0, 0.6, 0.95), repeat=squares.size), [(0, 1 - 1e-9)] * squares.size
    tops = [scipy.optimize.minimize(lambda x: -float(entropy(x)), x, bounds=bounds, tol=1e-13) for x in corners]
    best = min(tops, key=lambda top: float(top.fun)).x
    return float(squares @ (1 - best**degree))


@pytest.mark.parametrize(
    ("degree", "weights", "noise", "ratio", "error"),
    [
        (3, (0.5, 0.4), 1.0, 8.2, 0.3301),
        (3, (1.0, 0.6), 0.2, 3.0, 0.6417),
        (3, (0.5, 0.5, 0.4, 0.4), 1.0, 13.5, 0.5536),
        (4, (0.542, 0.421, 0.368, 0.307), 1.0, 11.289, 0.5624),
    ],
)
def test_a_phase_between_two_jumps_is_not_missed(
    degree: int, weights: tuple[float, ...], noise: float, ratio: float, error: float
) -> None:
    """One more direction would be found soon: its jump is close to the error of the phase without it."""
    squares = np.square(weights)
    found = BayesFloor(Channel(degree), squares, noise).error(ratio)
    assert found == pytest.approx(climbed(degree, squares, noise, ratio), rel=1e-5)
    assert found == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize(("noise", "low", "at"), [(0.5, 0.2, 0.8), (0.5, 0.0, 0.1), (1e-8, 0.2, 0.3)])
def test_between_jumps_the_gap_is_highest_where_it_is(noise: float, low: float, at: float) -> None:
    """A parabola in v = 1/(noise + error), the gap over (noise + error), with its peak at a known error."""
    found = bayes_phases._highest(
        lambda error: -((1 / (noise + error) - 1 / (noise + at)) ** 2) * (noise + error), low, 1.0, noise
    )
    assert found == pytest.approx(at, rel=1e-6)


def test_the_floor_is_the_highest_free_entropy_of_random_teachers() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        degree, squares = int(rng.integers(2, 6)), np.sort(rng.uniform(0.1, 1.0, 2))[::-1]
        noise, ratio = float(10 ** rng.uniform(-1, 0.5)), float(10 ** rng.uniform(0.3, 1.6))
        found = BayesFloor(Channel(degree), squares, noise).error(ratio)
        assert found == pytest.approx(climbed(degree, squares, noise, ratio), rel=1e-4), (degree, squares, noise, ratio)


def test_of_many_directions_no_phase_is_missed() -> None:
    """Against a scan of the gap with 200 000 points, of a power law whose directions are found one by one."""
    floor = BayesFloor.power_law(3, 0.7, teachers=40, noise=0.3)
    errors = np.linspace(1e-3, 1.01, 200_001)
    for ratio in (5.0, 20.0, 60.0, 200.0):
        at = gaps(floor, ratio, errors)
        rises = np.flatnonzero((at[:-1] < 0) & (at[1:] >= 0))
        likeliest = max(errors[rises], key=lambda error: floor._free_entropy(ratio, error))
        assert floor.error(ratio) == pytest.approx(likeliest, abs=2e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Channel(1), "degree is 1"),
        (
            lambda: Channel.of(Activation.parse("h2+h4")),
            "'h2\\+h4', no multiple of one Hermite polynomial: .* such as h4",
        ),
        (lambda: Channel.of(Activation.parse("erf(z/sqrt(2))")), r"activation is 'erf\(z/sqrt\(2\)\)', no multiple"),
        (lambda: Channel.of(Activation.parse("z")), "activation is 'z', of degree 1: the floor is known"),
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


@pytest.mark.parametrize(("degree", "decay"), [(3, 0.7), (4, 1.5)])
def test_the_constant_of_other_degrees_is_the_integral_over_directions(degree: int, decay: float) -> None:
    """Over x = p/k itself, u = 1 − q from s(q) at each; of degree 2, s(q)u is constant, and any power of it serves."""
    begin, least = Channel(degree).threshold

    def missed(x: float) -> float:
        signal = begin * x ** (-2 * decay)
        left = scipy.optimize.brentq(
            lambda u: degree * u * (1 - u) ** (degree - 2) * signal - 1, 0, 1 - least, xtol=1e-15, rtol=1e-14
        )
        return signal * (1 - (1 - left) ** degree)

    whole = scipy.integrate.quad(missed, 1e-6, 1, epsrel=1e-11, limit=200)[0] + 1e-6  # (signal·J·u → 1)
    assert bayes.constant(Channel(degree), decay) == pytest.approx(whole + begin / (2 * decay - 1), rel=1e-8)


@pytest.mark.parametrize("degree", [2, 3])
def test_the_floor_is_derived(degree: int) -> None:
    """For J = 2 with the constant in closed form, too: β = ¾ gives 1 − 1/5 + 1."""
    derivation = bayes.derivation(Activation.from_degree(degree))
    assert derivation.verify() == (5 if degree == 2 else 4)
    if degree == 2:
        shown = derivation.equations[r"\lim\varepsilon\alpha/(\Delta k)"]
        assert float(shown.subs(bayes.beta, 0.75)) == pytest.approx(1.8)
