"""The grid of a sweep: which options vary over which values, and which part of it a job takes."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emergence.options import Problem, options, sweepable, written
from emergence.options import kind as kind_of
from emergence.refusal import refuse
from emergence.values import Kind, Switch, Whole, shown

#: More cells than this are refused: so many files in one folder serve nobody.
LARGEST_GRID = 1_000_000
_RANGE = re.compile(r"(-?\d{1,18}):(-?\d{1,18})(?::(-?\d{1,18}))?")

Axes = dict[str, tuple[Any, ...]]


def axes(problem: type[Problem], flags: Sequence[str], table: Mapping[str, Any], source: str = "") -> Axes:
    """Swept options of a problem by field name with their values, in the order given; flags win over the table of a file.

    Args:
        flags: texts NAME=VALUES. VALUES are separated by commas; whole numbers also as ranges FIRST:END[:STEP]
            without END, as in Python.
        table: the same from a configuration file, values as a list or as such a text. source: names that file.

    Raises `InputError` for an unknown option, a value of the wrong kind, no value, a value given twice, or a grid of more
    than `LARGEST_GRID` cells.
    """
    found = dict(_axis(problem, f"config {source}: sweep.{key}", key, value) for key, value in table.items())
    if len(found) < len(table):
        refuse(f"config {source}: sweep names an option twice, with - and with _: drop one")
    given = [_flag(problem, text) for text in flags]
    for (name, _), following in itertools.combinations(given, 2):
        if name == following[0]:
            refuse(f"--over names {written(name)!r} twice: give all its values at once")
    found |= dict(given)
    if not found:
        refuse("--over is not given: name an option and its values, such as --over seed=0:10")
    if size(found) > LARGEST_GRID:
        refuse(f"--over asks for {size(found)} cells: at most {LARGEST_GRID}")
    return found


def size(found: Axes) -> int:
    """Number of cells."""
    total = 1
    for values in found.values():
        total *= len(values)
    return total


def points(found: Axes) -> Iterable[dict[str, Any]]:
    """The values of every cell, the last option varying fastest."""
    return (dict(zip(found, values, strict=True)) for values in itertools.product(*found.values()))


def part(text: str | None) -> slice:
    """The cells of shard ``i/n``, i from 1 to n: every n-th one. Raises `InputError`."""
    if text is None:
        return slice(None)
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        refuse(f"--shard is {shown(text)}: give i/n with i from 1 to n, such as 1/4")
    return slice(int(match[1]) - 1, None, int(match[2]))


def _flag(problem: type[Problem], text: str) -> tuple[str, tuple[Any, ...]]:
    key, equals, values = text.partition("=")
    if not equals:
        refuse(f"--over is {shown(text)}: write NAME=VALUES, such as seed=0:10 or student-width=8,16,32")
    return _axis(problem, f"--over {key.strip()}", key.strip(), values)


def _axis(problem: type[Problem], label: str, key: str, values: Any) -> tuple[str, tuple[Any, ...]]:
    """One option with its checked values; `label` says in messages where they come from."""
    name = key.replace("-", "_")
    known = sweepable(problem)
    if name not in options(problem):
        from theory.core.errors import did_you_mean

        near = did_you_mean(key, known)
        refuse(f"{label}: {shown(key)} is no option of a problem: {near}use one of {', '.join(known)}")
    if written(name) not in known:
        refuse(f"{label}: {key} cannot be swept: use one of {', '.join(known)}")
    kind = kind_of(problem, name)
    if not isinstance(values, str | list):
        refuse(f'{label} is {shown(values)}: give a list, or a text such as "0:10"')
    raw = listed(label, kind, values) if isinstance(values, str) else values
    checked = tuple(kind.check(label, value) for value in raw)
    if not checked:
        refuse(f"{label} is {shown(values)}: no value is in it: give one or more")
    seen = set()
    for value in checked:
        if value in seen:
            refuse(f"{label} has {shown(value)} twice: drop one")
        seen.add(value)
    return name, checked


def listed(label: str, kind: Kind, text: str) -> list[Any]:
    """Values of a text such as ``8,16`` or ``0:10``, unchecked but for their number. Raises `InputError`."""
    values: list[Any] = []
    for item in _split(text):
        span = _RANGE.fullmatch(item) if isinstance(kind, Whole) else None
        values += _span(label, item, span) if span else [_value(kind, item)]
        if len(values) > LARGEST_GRID:
            refuse(f"{label} is {shown(text)}: more than {LARGEST_GRID} values")
    return values


def _span(label: str, item: str, match: re.Match[str]) -> range:
    first, end, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if step == 0 or (found := range(first, end, step)) == range(0):
        refuse(f"{label} is {item!r}, an empty range: write FIRST:END or FIRST:END:STEP, END not included")
    if (end - first) // step > LARGEST_GRID:
        refuse(f"{label} is {item!r}: more than {LARGEST_GRID} values")
    return found


def _value(kind: Kind, item: str) -> Any:
    switch = {"true": True, "false": False}
    return switch.get(item, item) if isinstance(kind, Switch) else kind.read(item)


def _split(text: str) -> list[str]:
    """Items between commas; a comma within brackets belongs to its item, as in ``Max(z, 0)``."""
    items, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items]
