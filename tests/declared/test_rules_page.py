"""The page on rules: its predictions are those of the present code."""

from pathlib import Path

import pytest

from validation.experiments.passages import case_of, theory_slope

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
ROWS = [
    cells
    for line in PAGE.read_text(encoding="utf-8").split("## Rules × links")[1].split("## ")[0].splitlines()
    if len(cells := [x.strip() for x in line.strip("|").split("|")]) == 9 and "…" in cells[5]
]


@pytest.mark.parametrize("row", [pytest.param(x, marks=() if i == 1 else pytest.mark.slow) for i, x in enumerate(ROWS)])
def test_predicted_slopes_are_those_of_the_code(row: list[str]) -> None:
    dims = [int(x) for x in row[5].split("…")]
    assert f"{theory_slope(case_of(row[0], row[1]), dims):.2f}" == row[6]
