"""Extreme values of overlaps against the Beta law, closed forms and the approach to the Gumbel limit."""

import numpy as np
import pytest
from scipy import stats

from theory import InputError
from theory.scaling.extreme_overlaps import GAUSSIAN, Gumbel, OverlapLaw
from theory.scaling.largest_overlap import LargestOverlap

REACH = np.array([0.01, 0.7, 2.0, 4.5])


@pytest.mark.parametrize("dim", [3.0, 12.0, 1e6])
def test_law_is_the_beta_law_of_one_coordinate(dim: float) -> None:
    law, beta = OverlapLaw(dim), stats.beta(0.5, (dim - 1) / 2)
    reach = REACH[np.sqrt(dim) > REACH]
    np.testing.assert_allclose(law.tail(reach), beta.sf(reach**2 / dim), rtol=1e-9)
    np.testing.assert_allclose(law.log_cdf(reach), beta.logcdf(reach**2 / dim), rtol=1e-9)
    np.testing.assert_allclose(law.density(reach), beta.pdf(reach**2 / dim) * 2 * reach / dim, rtol=1e-7)
    np.testing.assert_allclose(law.from_tail(law.tail(reach)), reach, rtol=1e-7)


def test_gaussian_limit() -> None:
    np.testing.assert_allclose(GAUSSIAN.tail(REACH), 2 * stats.norm.sf(REACH), rtol=1e-12)
    np.testing.assert_allclose(OverlapLaw(1e9).tail(REACH), GAUSSIAN.tail(REACH), rtol=1e-5)
    assert abs(OverlapLaw(50).tail(4.5) / GAUSSIAN.tail(4.5) - 1) > 0.3  # the dimension matters


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("dim", [20.0, np.inf])
def test_growth_is_the_logarithmic_derivative(dim: float, signed: bool) -> None:
    law, h = OverlapLaw(dim, signed), 1e-5
    found = (law.log_cdf(REACH[:3] * (1 + h)) - law.log_cdf(REACH[:3] * (1 - h))) / (2 * h)
    np.testing.assert_allclose(law.growth(REACH[:3]), found, rtol=1e-6)


def test_signed_reach_is_zero_half_of_the_time() -> None:
    law = OverlapLaw(signed=True)
    assert np.exp(law.log_cdf(0.0)) == pytest.approx(0.5)
    assert law.from_tail(0.6) == 0.0
    assert law.tail(law.from_tail(0.1)) == pytest.approx(0.1)


def test_moments_of_the_largest() -> None:
    """E g² = 1 at every d; the larger of two Gaussian squares has mean 1 + 2/π (polar coordinates)."""
    for dim in (5.0, np.inf):
        assert LargestOverlap(1, OverlapLaw(dim)).moment(2) == pytest.approx(1, rel=1e-7)
    assert LargestOverlap(2).moment(2) == pytest.approx(1 + 2 / np.pi, rel=1e-7)
    assert LargestOverlap(1).moment(4) == pytest.approx(3, rel=1e-7)


def test_quantiles_invert_the_distribution() -> None:
    largest = LargestOverlap(1000, OverlapLaw(64.0))
    levels = np.array([0.01, 0.5, 0.999])
    np.testing.assert_allclose(largest.cdf(largest.quantile(levels)), levels, rtol=1e-10)


def test_gumbel_correction_is_the_next_order() -> None:
    """The error falls as 1/b² without the correction, as 1/b⁴ with it."""
    errors = {}
    for count in (10**3, 10**12):
        largest = LargestOverlap(count)
        reach = largest.quantile(np.array([0.1, 0.5, 0.9]))
        for corrected in (False, True):
            gap = np.abs(largest.gumbel().cdf(reach, corrected) - largest.cdf(reach)).max()
            errors[count, corrected] = gap * largest.gumbel().location ** (4 if corrected else 2)
    assert errors[10**3, False] == pytest.approx(errors[10**12, False], rel=0.25)
    assert errors[10**12, True] < 3
    assert errors[10**3, True] < 3


def test_gumbel_location_is_its_expansion() -> None:
    count = 10**15
    expansion = 2 * np.log(count) - np.log(np.log(count)) - np.log(np.pi)
    assert Gumbel.of(count).location ** 2 == pytest.approx(expansion, abs=0.15)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="dim is 1"):
        OverlapLaw(1)
    with pytest.raises(InputError, match="count is 0"):
        LargestOverlap(0)
    with pytest.raises(InputError, match="large counts"):
        Gumbel.of(1)
