"""The table of broken formulas: who is asked, when it ends, what the page says, and that a killed run goes on."""

import re
from pathlib import Path

import pytest

from theory import InputError
from theory.linear.alignment import late_rates
from theory.linear.label_noise import norm_step
from theory.quadratic.model import flow_risk
from validation import broken, validate
from validation.broken import Plain, Table, main, read_plain, users
from validation.judge.breaks import BREAKS, Break
from validation.judge.under_test import Entry, name_of

FACTOR, EXPONENT, TERM = BREAKS
PAGE = Path(__file__).resolve().parents[2] / "docs" / "broken.md"
SECONDS = {"L1": 1.0, "L3": 9.0, "L3-printed": 2.0, "L4": 3.0}
PLAIN = {claim: Plain(seconds, {}) for claim, seconds in SECONDS.items()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Instead of judging: L4 names a factor, nothing names an exponent; no expression is seen."""
    calls: list[tuple[str, str]] = []

    def judged(entry: Entry, how: Break, claim: str, plain: Plain | None = None) -> tuple[str, bool]:
        calls.append((how.name, claim))
        return ("L4 disagrees" if (how.name, claim) == ("factor", "L4") else "moves 0.5"), False

    monkeypatch.setattr(broken, "judged", judged)
    return calls


def test_the_cheapest_claims_are_asked_until_one_names_the_break(tmp_path: Path, asked: list) -> None:
    assert set(users()[norm_step]) == set(SECONDS)
    table = Table(tmp_path / "store.json", PLAIN)
    table.fill([norm_step], budget=60)
    assert [claim for how, claim in asked if how == "factor"] == ["L1", "L3-printed", "L4"]
    assert [claim for how, claim in asked if how == "exponent"] == ["L1", "L3-printed", "L4", "L3"]
    assert not [claim for how, claim in asked if how == "term"]  # only numbers came back
    assert table.cell(norm_step, FACTOR) == "L4"
    assert table.cell(norm_step, EXPONENT).startswith("**unnamed**: L1 moves 0.5; ")
    assert table.cell(norm_step, TERM) == "–"
    assert table.cell(flow_risk, FACTOR) == "not run: Q1 and 1 more"


def test_a_control_that_a_break_leaves_out_has_moved() -> None:
    verdicts = validate(["L2"]).verdicts
    numbers = {
        one.id: (
            one.measurement.predicted,
            one.measurement.estimate,
            one.measurement.allowance + 4 * one.measurement.stderr,
        )
        for one in verdicts
    }
    controls = tuple(control.predicted for one in verdicts for control in one.controls)
    assert Plain(1.0, numbers, controls).said(verdicts) == "moves nothing"
    for other in ((*controls, 1.0), controls[1:]):
        assert Plain(1.0, numbers, other).said(verdicts) == "moves controls only"


def test_a_killed_run_goes_on(tmp_path: Path, asked: list) -> None:
    Table(tmp_path / "store.json", PLAIN).fill([norm_step], budget=60)
    before = len(asked)
    again = Table(tmp_path / "store.json", PLAIN)
    again.fill([norm_step], budget=60)
    assert len(asked) == before
    assert again.cell(norm_step, FACTOR) == "L4"


def test_what_a_claim_said_is_asked_again_once_it_promises_something_else(
    tmp_path: Path, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table(tmp_path / "store.json", PLAIN).fill([norm_step], budget=60)
    before = len(asked)
    promises = broken._promises() | {"L3": "another"}
    monkeypatch.setattr(broken, "_promises", lambda: promises)
    again = Table(tmp_path / "store.json", PLAIN)
    assert again.cell(norm_step, FACTOR) == "L4"
    again.fill([norm_step], budget=60)
    assert asked[before:] == [("exponent", "L3")]


def test_nothing_is_begun_without_time_or_without_a_plain_run(tmp_path: Path, asked: list) -> None:
    Table(tmp_path / "a.json", PLAIN).fill([norm_step], budget=0)
    Table(tmp_path / "b.json", {}).fill([norm_step], budget=60)
    assert asked == []


def test_the_command_reads_a_plain_run_and_writes_the_page(tmp_path: Path) -> None:
    validate(["L21"], out=tmp_path)
    plain = read_plain(tmp_path)
    assert set(plain) == {"L21"}
    assert plain["L21"].moved(validate(["L21"]).verdicts) == 0
    options = ["--plain", str(tmp_path), "--store", str(tmp_path / "store.json"), "--table", str(tmp_path / "page.md")]
    main([*options, "--only", name_of(late_rates)])
    page = (tmp_path / "page.md").read_text()
    assert re.search(r"\| `theory.linear.alignment.late_rates` \| L21\.\w+ \| L21\.\w+ \| – \|", page)
    with pytest.raises(InputError, match="no entry point"):
        main([*options, "--only", "phlogiston"])


def _named(page: str) -> set[tuple[str, int]]:
    """Entry points and columns of a page whose cell begins with a quantity."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `theory.")]
    return {(row[0], place) for row in rows for place in (1, 2, 3) if re.match(r"[A-Z]\d", row[place])}


@pytest.mark.slow
def test_what_the_page_says_is_named_still_is(tmp_path: Path) -> None:
    """Hours of one core: every claim, then every break."""
    validate(out=tmp_path)
    main(["--plain", str(tmp_path), "--store", str(tmp_path / "s.json"), "--table", str(tmp_path / "page.md")])
    assert _named(PAGE.read_text()) <= _named((tmp_path / "page.md").read_text())
