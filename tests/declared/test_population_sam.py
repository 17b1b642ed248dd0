"""Population SAM: the derived slowdown and the path of an overlap below the radius."""

import pytest

from theory import InputError
from theory.declared import population_sam as sam


def test_values() -> None:
    assert sam.slowdown(4, 0.5) == pytest.approx(4)
    assert sam.slowdown(3, 0.0) == 1
    assert sam.slowdown(3, 1.0) == sam.slowdown(3, 1.5) == float("inf")
    assert sam.held_overlap(3, 0.1, 0.2, 1e9) == pytest.approx(0.2)


def test_numbers_out_of_range_are_refused() -> None:
    for call in (
        lambda: sam.slowdown(2, 0.5),
        lambda: sam.slowdown(3, -0.1),
        lambda: sam.held_overlap(4, 0.1, 0.2, 1.0),
        lambda: sam.held_overlap(3, 0.3, 0.2, 1.0),
    ):
        with pytest.raises(InputError):
            call()
