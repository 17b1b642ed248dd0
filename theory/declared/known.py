"""What theory says of a declared model: numbers with their conditions, and what it does not know, in one line each.

Conditions are those of `theory.prediction.validity`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from theory.prediction.validity import Condition

#: Units: the sum of step sizes, one over it, steps, exponents of d, and numbers without one.
TIME, RATE, STEPS, POWER, NUMBER = "time", "1/time", "steps", "power of d", "1"


@dataclass(frozen=True)
class Known:
    """One number.

    Attributes:
        quantity: what it is. value: inf for a time that never comes. unit: one of the above.
        source: of the formula. conditions: what must hold, with the sizes of what is neglected.
        place: the direction that it belongs to, from 1; None if none. low, high: what finite size moves it between.
    """

    quantity: str
    value: float
    unit: str
    source: str
    conditions: tuple[Condition, ...] = ()
    place: int | None = None
    low: float = np.nan
    high: float = np.nan

    @property
    def reasons(self) -> list[str]:
        """Why it is outside its conditions, in words; empty if it is inside."""
        return [condition.sentence for condition in self.conditions if not condition.holds]


@dataclass(frozen=True)
class Unknown:
    """Attributes: quantity: what is not known. sentence: why, and what to do. place: of which direction (from 1); None if of
    all.
    """

    quantity: str
    sentence: str
    place: int | None = None


@dataclass(frozen=True)
class Knowledge:
    """All that is said of a model."""

    known: tuple[Known, ...]
    unknown: tuple[Unknown, ...]

    @classmethod
    def of(cls, entries: Iterable[Known | Unknown]) -> "Knowledge":
        """Sorted by what they are."""
        listed = list(entries)
        return cls(tuple(x for x in listed if isinstance(x, Known)), tuple(x for x in listed if isinstance(x, Unknown)))

    def of_quantity(self, quantity: str) -> tuple[Known, ...]:
        """The numbers of this name."""
        return tuple(x for x in self.known if x.quantity == quantity)


def fact(name: str, holds: bool, sentence: str) -> Condition:
    """A condition that holds or does not, without a size."""
    return Condition(name, holds, float(not holds), 0.0, sentence)


def small(name: str, value: float, limit: float, sentence: str) -> Condition:
    """A condition on the size of what is neglected. `sentence`: a format of the value."""
    return Condition(name, bool(value <= limit), float(value), limit, sentence.format(value))
