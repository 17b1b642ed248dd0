"""``python docs/site/measured.py``: tables of the pages on what claims measured, with the numbers of ``docs/verdicts.json``.

A table belongs to it if its columns begin with *claim* and two are called *predicted* and *measured*; each row names a
judged quantity (``S1.J1``). These two cells are rewritten, that of *allowance* if there is one, and, where there is a column
*theirs*, a number from elsewhere, *difference*: measured less theirs. Whatever else a page says is its own.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import verdicts

from validation.judge.catalogue import catalogue
from validation.judge.claim import Measurement
from validation.report.numerals import plain

PAGES = Path(__file__).resolve().parents[1]
_RULE = re.compile(r"\|[-:| ]+\|")


def renewed(page: str, known: Mapping[str, Measurement]) -> str:
    """The text of a page with the numbers that are known.

    Raises `KeyError` for a row whose quantity nobody has judged.
    """
    lines = page.split("\n")
    for first, columns in _tables(lines):
        for i in range(first, len(lines)):
            if not lines[i].startswith("|"):
                break
            cells = _cells(lines[i])
            one = known[cells[0]]
            cells[columns.index("predicted")], cells[columns.index("measured")] = written(one)
            if {"theirs", "difference"} <= set(columns):
                theirs = float(cells[columns.index("theirs")].replace("−", "-"))
                cells[columns.index("difference")] = _figure(one.estimate - theirs, one)
            if "allowance" in columns:
                cells[columns.index("allowance")] = plain(one.allowance, 2)
            lines[i] = f"| {' | '.join(cells)} |".replace("|  |", "| |")
    return "\n".join(lines)


def written(one: Measurement) -> tuple[str, str]:
    """Prediction and estimate, to two digits of the standard error; to four of the prediction where there is none."""
    predicted, estimate, stderr = (_figure(x, one) for x in (one.predicted, one.estimate, one.stderr))
    return predicted, f"{estimate} ± {stderr}" if one.stderr else estimate


def _figure(number: float, one: Measurement) -> str:
    scale = one.stderr / 10 if one.stderr else abs(one.predicted) / 1000
    digits = max(0, -math.floor(math.log10(scale))) if scale else 4
    return f"{round(number, digits) + 0.0:.{digits}f}".replace("-", "−")  # −0 is 0


def known() -> dict[str, Measurement]:
    """Id → what was measured of each judged quantity."""
    return {verdict.id: verdict.measurement for one in verdicts.read(catalogue()).values() for verdict in one.verdicts}


def _tables(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    for i, line in enumerate(lines[1:], start=1):
        columns = _cells(lines[i - 1])
        if _RULE.fullmatch(line) and columns[0] == "claim" and {"predicted", "measured"} <= set(columns):
            yield i + 1, columns


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def main() -> None:
    """Rewrite the pages whose numbers have changed, and name them."""
    numbers = known()
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := renewed(text, numbers)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.name)


if __name__ == "__main__":
    main()
