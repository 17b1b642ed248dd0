"""Plain text tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emergence.refusal import refuse


def cell(value: object) -> str:
    """A value for people: four significant digits, ``-`` for what is missing or never happens."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "-"
    return " ".join(str(value).split())


@dataclass(frozen=True)
class Table:
    """A table for people, `text`, and for machines, `document`.

    Attributes:
        headers: names of the columns, all different. rows: words, numbers, or None for what is missing, as many in each.
        above, below: lines of text.

    Raises `InputError` for two columns of one name.
    """

    headers: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    above: Sequence[str] = ()
    below: Sequence[str] = ()

    def __post_init__(self) -> None:
        twice = [name for place, name in enumerate(self.headers) if name in self.headers[:place]]
        if twice:
            refuse(f"headers of a table have {twice[0]!r} twice: give each column a name of its own")

    @property
    def text(self) -> str:
        """Lines above, aligned columns, lines below."""
        return "\n".join([*self.above, *([render(self.headers, self.rows)] if self.headers else []), *self.below])

    @property
    def document(self) -> Mapping[str, object]:
        """Rows by name of the column, and what is said about them."""
        rows = [dict(zip(self.headers, row, strict=True)) for row in self.rows]
        return {"table": rows, "notes": [line.strip() for line in (*self.above, *self.below) if line]}


def render(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns: numbers to the right, words to the left."""
    texts = [[cell(value) for value in row] for row in rows]
    right = [
        any(_is_number(row[i]) for row in rows) and all(_is_number(row[i]) or row[i] is None for row in rows)
        for i in range(len(headers))
    ]
    widths = [max(len(line[i]) for line in [list(headers), *texts]) for i in range(len(headers))]
    lines = [_line(headers, widths, right), _line(["-" * width for width in widths], widths, right)]
    return "\n".join([*lines, *(_line(text, widths, right) for text in texts)])


def duration(seconds: float) -> str:
    """A time for people: ``0.3 s``, ``42 s``, ``12 min``, ``3.4 h``, ``2.1 days``."""
    for size, unit, below in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds < below * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{seconds / 86400:.2g} days"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True)]
    return "  ".join(padded).rstrip()
