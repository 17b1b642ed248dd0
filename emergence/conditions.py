"""Numbers beside what must hold for them: a mark in a table, sentences below it, and entries of a document."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theory.prediction.validity import Condition

#: What a number is, and of which direction; None if of all.
Name = tuple[str, int | None]


def mark(conditions: Iterable["Condition"]) -> str:
    """``yes``, or the names of the conditions that do not hold, for a column ``valid``."""
    return ", ".join(dict.fromkeys(x.name for x in conditions if not x.holds)) or "yes"


def reasons(conditions: Iterable["Condition"]) -> list[str]:
    """Why a number is outside, in words; empty if it is inside."""
    return [x.sentence for x in conditions if not x.holds]


def listed(conditions: Iterable["Condition"]) -> list[dict[str, object]]:
    """Name, whether it holds, value and limit of each."""
    return [{"name": x.name, "holds": x.holds, "value": x.value, "limit": x.limit} for x in conditions]


def explained(numbers: Iterable[tuple[Name, Sequence["Condition"]]]) -> list[str]:
    """A heading and one line for every reason, with the names of the numbers that it puts outside; empty if none is."""
    outside = dict[str, list[Name]]()
    for name, conditions in numbers:
        for reason in reasons(conditions):
            outside.setdefault(reason, []).append(name)
    lines = [f"   {reason}: {together(names)}" for reason, names in outside.items()]
    return ["", "outside its conditions", *lines] if outside else []


def together(names: Iterable[Name]) -> str:
    """Names in their order, the directions of one quantity together, sorted: ``emergence 1, 3-8; loss at rest``."""
    places = dict[str, list[int]]()
    for quantity, place in names:
        places.setdefault(quantity, []).extend([] if place is None else [place])
    return "; ".join(f"{quantity} {in_runs(sorted(own))}".rstrip() for quantity, own in places.items())


def in_runs(places: Iterable[int]) -> str:
    """Increasing whole numbers, three or more that follow each other as the first and the last: ``1, 2, 4-7``."""
    runs = list[list[int]]()
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    parts = ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run) for run in runs)
    return ", ".join(part for run in parts for part in run)
