"""Numbers beside what must hold for them: a mark in a table, sentences below it, and entries of a document."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theory.prediction.validity import Condition


def mark(conditions: Iterable["Condition"]) -> str:
    """``yes``, or the names of the conditions that do not hold, for a column ``valid``."""
    return ", ".join(dict.fromkeys(x.name for x in conditions if not x.holds)) or "yes"


def reasons(conditions: Iterable["Condition"]) -> list[str]:
    """Why a number is outside, in words; empty if it is inside."""
    return [x.sentence for x in conditions if not x.holds]


def listed(conditions: Iterable["Condition"]) -> list[dict[str, object]]:
    """Name, whether it holds, value and limit of each."""
    return [{"name": x.name, "holds": x.holds, "value": x.value, "limit": x.limit} for x in conditions]


def explained(numbers: Iterable[tuple[str, Sequence["Condition"]]]) -> list[str]:
    """A heading and one line for every reason, with the names of the numbers that it puts outside; empty if none is."""
    outside = dict[str, list[str]]()
    for name, conditions in numbers:
        for reason in reasons(conditions):
            outside.setdefault(reason, []).append(name)
    lines = [f"   {reason}: {', '.join(names)}" for reason, names in outside.items()]
    return ["", "outside its conditions", *lines] if outside else []
