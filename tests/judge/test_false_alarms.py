"""The count of false alarms counts what it says: it finds error bars that are too small, and controls that survive."""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks import alarm_rows, alarm_table, false_alarms
from benchmarks.alarm_rows import Row
from emergence import calibration, verdict_cells
from emergence.commands import calibrate
from emergence.commands.calibrate import counted
from emergence.store.engine import Here
from emergence.store.folder import Store, inspect
from theory import InputError
from validation.judge import apart, catalogue, runner
from validation.judge.alarms import FIRST, Share, Tally, freedom, is_random, stated_share, tallies, tally
from validation.judge.claim import Claim, Control, Measurement, Outcome, Verdict
from validation.judge.context import Context
from validation.report.alarms import sentence

SEEDS, REPLICAS = 400, 8


def measured(seed: int, shrink: float = 1.0, gap: float = 0.0, allowance: float = 0.0) -> Measurement:
    """The mean of eight normals of mean `gap` where theory says 0; its standard error is multiplied by `shrink`."""
    values = np.random.default_rng([7, seed]).normal(gap, 1.0, REPLICAS)
    stderr = shrink * float(values.std(ddof=1)) / math.sqrt(REPLICAS)
    controls = {"far": 9.0, "near": 1.5}
    return Measurement("x", 0.0, float(values.mean()), stderr, allowance, controls, "exact")


def claim(
    runner: Callable[[Context], Outcome], name: str = "E1", expected: str = "agrees", kind: str = "exact"
) -> Claim:
    texts = {"title": "t", "statement": "s.", "latex": "x", "source": "derived", "regime": "always"}
    controls = ("far", "near", "nearer")
    return Claim(id=name, kind=kind, controls=controls, runner=runner, expected=expected, **texts)


def judged(one: Measurement, **options: str) -> Verdict:
    return claim(lambda _: Outcome([]), **options).judge(one)


def over(expected: str = "agrees", seeds: int = SEEDS, kind: str = "exact", **options: float) -> Tally:
    return tally([judged(measured(seed, **options), expected=expected, kind=kind) for seed in range(seeds)])


def page_of(*tallies: Tally) -> str:
    """The page on one claim, whose rows are of the present version."""
    return alarm_table.page({"E1": Row("c", "l", tallies)}, {"E1": "l"})


# ---------------------------------------------------------------------------- statistics


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 100, 0.0, 0.03621669), (5, 10, 0.1870860, 0.8129140), (20, 20, 0.8315665, 1.0)],
)
def test_intervals_are_those_of_clopper_and_pearson(hits: int, total: int, low: float, high: float) -> None:
    assert Share(hits, total).interval == pytest.approx((low, high), abs=1e-6)


def test_a_true_claim_with_right_error_bars_has_the_stated_share() -> None:
    found = over()
    assert found.freedom == pytest.approx(REPLICAS - 1, rel=0.25)
    assert found.stated == pytest.approx(stated_share(REPLICAS - 1), rel=0.6)
    assert found.false.interval[0] <= stated_share(REPLICAS - 1) <= found.false.interval[1]
    assert abs(found.square[0] - 1) < 4 * found.square[1]
    assert abs(found.mean[0]) < 4 * found.mean[1]
    assert not found.too_many
    assert not found.overdispersed


def test_error_bars_half_as_large_as_they_should_be_are_found() -> None:
    found = over(shrink=0.5)
    assert found.square[0] == pytest.approx(4.0, rel=0.3)
    assert found.overdispersed
    assert found.too_many


def test_the_errors_of_a_calibration_are_as_long_as_its_scatter() -> None:
    """Of the mean score and of the mean square, over many counts: twice or half as long would be 4 or ¼ here."""
    count, seeds = 300, 20
    found = [tally([judged(measured(seeds * k + seed)) for seed in range(seeds)]) for k in range(count)]
    for values, errors in (np.array([one.mean for one in found]).T, np.array([one.square for one in found]).T):
        scatter, ratios = (values - values.mean()) ** 2 / np.var(values), errors**2 / np.var(values)
        error = np.std(ratios - ratios.mean() * scatter) / np.sqrt(count)
        assert error < 0.1
        assert abs(ratios.mean() - 1) < 4 * error + 2 / seeds  # to first order, the ratio's


def test_gaps_in_proportion_to_their_error_bars_have_no_scatter() -> None:
    """Twice the error bar, whatever that is: the mean square is 4 for every seed, and its error is rounding."""
    verdicts = [judged(Measurement("x", 0.0, 2 * error, error, 0.0, {}, "exact")) for error in (0.1, 0.7, 2.0)]
    value, error = tally(verdicts).square
    assert value == pytest.approx(4)
    assert error < 1e-12


def test_error_bars_are_too_small_from_four_standard_errors_on() -> None:
    assert replace(over(), square=(1.401, 0.1)).overdispersed
    assert not replace(over(), square=(1.399, 0.1)).overdispersed


def test_a_bias_within_the_allowance_is_no_defect_and_one_without_is() -> None:
    assert not over(gap=0.5, allowance=0.5).too_many
    assert over(gap=0.5, allowance=0.5).mean[0] > 1
    assert over(gap=1.5).too_many


def test_a_control_too_near_is_named() -> None:
    found = over()
    assert found.weak_controls == ["near"]
    assert found.controls["far"].value == 1.0
    assert found.verdicts["inconclusive"] == found.seeds - found.controls["near"].hits
    assert not over(kind="open").weak_controls  # an answer to the open question


def test_a_wrong_statement_that_passes_is_a_false_alarm_of_its_own() -> None:
    assert over("disagrees", seeds=20).false.hits == 20
    assert over("disagrees", seeds=20, gap=9.0).false.hits == 0


def test_problems_that_differ_between_seeds_do_not_excuse_false_alarms() -> None:
    """Standard errors over three decades give a ν near 0, at which nearly every share could be stated."""
    rows = [judged(measured(seed, shrink=10.0 ** -(seed % 4), gap=9.0)) for seed in range(20)]
    found = tally(rows)
    assert found.freedom < 1
    assert found.stated == pytest.approx(0.028, rel=0.02)
    assert found.too_many


def test_a_wrong_statement_must_be_found_out_like_a_control() -> None:
    rows = [judged(measured(seed, gap=9.0 if seed > 1 else 0.0), expected="disagrees") for seed in range(20)]
    assert tally(rows).too_many
    assert not tally(rows[2:]).too_many


def test_a_seed_left_open_for_want_of_a_number_is_no_false_alarm_and_one_that_disagrees_is() -> None:
    alive, dead = Control(0.0, 0.0, 0.0, 0.0), Control(9.0)
    rest = [judged(measured(seed)) for seed in range(39)]
    for control, hits, total in ((alive, 0, 39), (dead, 1, 40)):
        nothing = Measurement("x", 0.0, math.nan, math.nan, 0.0, {"far": control}, "exact")
        found = tally([judged(nothing), *rest])
        assert (found.seeds, found.false.hits, found.false.total) == (40, hits, total)
    assert tally([judged(Measurement("x", 0.0, math.nan, math.nan, 0.0, {"far": alive}, "exact")), *rest]).statistical


def test_a_bound_has_no_stated_share() -> None:
    x = Measurement("x", 0.0, 0.5, 0.0, 1.0, {"far": 9.0}, "exact")
    found = tally([judged(x)] * 5)
    assert not found.statistical
    assert found.stated == 0.0
    assert not found.random
    assert not found.too_many


def test_an_allowance_that_nothing_comes_near_is_reported() -> None:
    """Means of eight normals stay within 4/√8 = 1.4 of 0 under 20 seeds: 100 is too generous, 5 is not; 19 are few."""
    found, few = over(seeds=20, allowance=100.0), over(seeds=19, allowance=100.0)
    assert found.taken == pytest.approx(max(abs(measured(seed).estimate) for seed in range(20)) / 100)
    assert found.generous
    assert f"| {found.id} | 20 | {found.taken:.2g} |" in page_of(found)
    others = [few, over(seeds=20, allowance=5.0), over(seeds=20), over("disagrees", 20, allowance=100.0)]
    assert not any(one.generous for one in others)
    assert "seeds or more\n\nNone." in page_of(*others)


def test_where_nothing_is_random_two_seeds_tell_an_allowance_that_is_too_generous() -> None:
    def fixed(allowance: float, seeds: int) -> Tally:
        return tally([judged(Measurement("x", 0.0, 1.0, 0.0, allowance, {"far": 200.0}, "exact"))] * seeds)

    assert fixed(100.0, FIRST).generous
    assert "| E1 | 2 | 0.01 |" in page_of(fixed(100.0, FIRST))
    assert not fixed(100.0, FIRST - 1).generous
    assert not fixed(9.0, FIRST).generous


def test_stated_share_is_students() -> None:
    assert stated_share(7) == pytest.approx(0.00519, rel=1e-3)
    assert stated_share(math.inf) == pytest.approx(6.334e-5, rel=1e-3)
    assert freedom(np.full(5, 0.3)) == math.inf


# --------------------------------------------------------------------------------- cells


class Counting(Here):
    """Computes at once, and remembers what."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def submit(self, task: Callable, configuration: Mapping[str, Any]) -> "Future[bytes]":
        self.seen.append((configuration["claim"], configuration["seed"]))
        return super().submit(task, configuration)


@pytest.fixture
def two_claims(monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """A catalogue of one module: E1 measures something random, E2 does not."""
    fixed = Measurement("y", 1.0, 1.0, 0.0, 0.1, {"far": 9.0, "nearer": math.nan}, "exact")
    claims = [
        claim(lambda context: Outcome([measured(context.seed), replace(measured(context.seed + 1000), key="more")])),
        claim(lambda context: Outcome([fixed]), "E2"),
    ]
    monkeypatch.setattr(catalogue, "modules", lambda: {ModuleType("claims.toy"): claims})
    return claims


def collect(store: Store, claims: list[Claim], seeds: int, budget: float = math.inf) -> tuple[Counting, list[str]]:
    """What was computed, and which cells failed."""
    engine, collection = Counting(), calibration.Collection(store, "quick", budget, lambda *_: None, lambda _: None)
    collection.run(claims, seeds, engine)
    return engine, [one.label for one in collection.failed]


def test_a_cell_gives_back_what_was_judged(two_claims: list[Claim]) -> None:
    own = Measurement(
        "x", 0.1, 1e-300, 0.0, 0.2, {"far": Control(1.0, 2.0, 0.5)}, "", "k", {"n": np.arange(2), "t": math.nan}
    )
    (found,) = verdict_cells.measurements(verdict_cells.seal(Outcome([own]), {"what": "validate"}))
    assert repr(found.details) == repr({"n": [0, 1], "t": math.nan})
    assert (found.key, found.controls, found.estimate) == ("k", own.controls, 1e-300)
    assert two_claims[0].judge(found).controls == two_claims[0].judge(own).controls
    (simple,) = verdict_cells.measurements(verdict_cells.seal(Outcome([measured(3)]), {"what": "validate"}))
    assert judged(simple).controls == judged(measured(3)).controls


def test_seeds_are_resumed_and_fixed_claims_stop_after_two(two_claims: list[Claim], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for seeds, expected in ((3, [("E1", 0), ("E2", 0), ("E1", 1), ("E2", 1), ("E1", 2)]), (4, [("E1", 3)])):
            assert collect(store, two_claims, seeds)[0].seen == expected
        cells = {one.id: calibration.stored(store, one, "quick") for one in two_claims}
    assert sorted(cells["E1"]) == [0, 1, 2, 3]
    assert is_random(cells["E1"])
    assert not is_random(cells["E2"])
    found = counted(cells)
    assert [row.seeds for row in found["E1"]] == [4, 4]
    rows = {"E1": Row("c", "l", tuple(found["E1"]), (2, 5)), "E2": Row("c", "l", tuple(found["E2"]))}
    page = alarm_table.page(rows, dict.fromkeys(rows, "l"))
    assert "raised an error there: E1 (seed 2, 5)." in page
    assert "so no more were run: E2." in page
    assert "| E1 | 4 |" in page


def test_a_share_that_is_full_under_both_seeds_is_still_random() -> None:
    def share(seed: int) -> Verdict:
        return judged(Measurement("x", 1.0, 1.0, 0.0, 0.1, {"near": Control(1.0, 0.3 + 0.1 * seed)}, "ties"))

    assert is_random({0: [share(0)], 1: [share(1)]})
    assert not is_random({0: [share(0)], 1: [share(0)]})
    assert FIRST == 2


def test_damaged_cells_and_lost_seeds_are_named(
    two_claims: list[Claim], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:
        collect(store, two_claims[:1], 4)
        path = tmp_path / calibration.cell(two_claims[0], 1, "quick").name
        path.write_bytes(path.read_bytes()[:-1])
        cells = calibration.stored(store, two_claims[0], "quick")
        assert calibration.stored(store, two_claims[1], "quick") == {}
    assert path.name in capsys.readouterr().err
    assert calibration.lost(cells) == [1]
    assert calibration.lost({}) == []


def test_a_spent_budget_begins_nothing(two_claims: list[Claim], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert collect(store, two_claims, 3, -1.0)[0].seen == []


def test_a_claim_that_raises_is_named_and_the_others_go_on(
    two_claims: list[Claim], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = claim(lambda context: Outcome([measured(abs(1 // (context.seed - 1)))]))
    two_claims[0] = broken  # in place of E1, in the catalogue too
    with Store(tmp_path) as store:
        assert collect(store, two_claims, 2)[1] == ["claim=E1 seed=1"]
        assert sorted(calibration.stored(store, two_claims[1], "quick")) == [0, 1]
    assert "failed: ZeroDivisionError" in capsys.readouterr().err


def test_cells_of_other_code_are_neither_computed_nor_counted(two_claims: list[Claim], tmp_path: Path) -> None:
    old = verdict_cells.configure(two_claims[0], 0) | {"code": "older"}
    with pytest.raises(InputError, match="other code"):
        verdict_cells.compute(two_claims[0], old)
    with Store(tmp_path) as store:
        name = f"validate-{verdict_cells.store.digest(old)}.nc"
        content = verdict_cells.seal(Outcome([measured(0)]), old)
        inspect(content, name)
        store.write(name, content)
        assert calibration.stored(store, two_claims[0], "quick") == {}


def test_the_command_counts_and_its_row_stands_in_the_report(
    two_claims: list[Claim], command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (runner, apart):
        monkeypatch.setattr(module, "catalogue", lambda: two_claims)
    monkeypatch.setattr(calibrate, "Workers", lambda count: nullcontext(Here()))  # toy claims are in no other process
    ran = command("calibrate", "E1", "E2", "--seeds", "12", "--workers", "1", "--json", "--quiet")
    assert ran.code == 1  # the control that is too near survives
    first, second = ran.document["claims"]
    assert (first["seeds"], second["seeds"]) == (list(range(12)), [0, 1])
    assert (first["random"], second["random"]) == (True, False)
    (found, _) = first["quantities"]
    assert found["false"] == {"hits": 0, "total": 12, "share": 0.0, "interval": [0.0, pytest.approx(0.2646, abs=1e-4)]}
    assert found["weak_controls"] == ["near"]
    text = command("calibrate", "E1", "--seeds", "3", "--workers", "1").out  # counts all that are there
    assert "controls rejected for fewer than 95% of the seeds: E1: near, E1.more: near" in text
    ran = command("validate", "E1", "--json", "--workers", "1")
    report = Path(ran.document["report"]).read_text(encoding="utf-8")
    assert "12 seeds: false alarms 0% [0%, 26 %] (each of 2); weakest control" in report
    monkeypatch.setattr(false_alarms, "catalogue", lambda: two_claims)
    monkeypatch.setattr(alarm_rows, "locks", lambda: dict.fromkeys(("E1", "E2"), "now"))
    assert false_alarms.main(["--store", "emergence-out/verdicts", "--data", "rows.json", "--page", "page.md"]) == 0
    assert sorted(alarm_rows.read(tmp_path / "rows.json")) == ["E1", "E2"]
    assert "near" in (tmp_path / "page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", [("--seeds", "0"), ("--budget", "-1"), ("--workers", "none"), ("E99",)])
def test_bad_options_are_refused(wrong: tuple[str, ...], refused: Callable[..., str]) -> None:
    refused("calibrate", *wrong)


def test_the_sentence_of_a_report_needs_ten_seeds() -> None:
    assert sentence([over(seeds=9)]) == ""
    assert "weakest control “near” rejected" in sentence([over(seeds=10)])
    assert "false alarms" not in sentence([over(seeds=10, kind="open")])


def test_every_claim_has_a_name_of_its_own_code() -> None:
    claims = catalogue.catalogue()
    assert {verdict_cells.group(one) for one in claims} == {module.__name__ for module in catalogue.modules()}
    names = {verdict_cells.store.digest(verdict_cells.configure(one, 0)) for one in claims}
    assert len(names) == len(claims)


def test_tallies_keep_the_order_of_the_report() -> None:
    rows = [judged(measured(0)), judged(measured(1))]
    assert [row.seeds for row in tallies({1: rows, 0: rows})] == [2, 2]


# ----------------------------------------------------------------------- rows beside the page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_rows_come_back_from_their_file(tmp_path: Path) -> None:
    own = over("disagrees", seeds=20, kind="asymptotic", allowance=0.1)
    exact = tally([judged(Measurement("y", 0.0, 1.0, 0.0, 4.0, {"far": 200.0}, "exact"))] * 2)
    rows = {"E1": Row("abc", "1f", (own, over(seeds=20)), (3,)), "E2": Row("abc", "2f", (exact,), (), False)}
    alarm_rows.write(tmp_path / "rows.json", rows)
    found = alarm_rows.read(tmp_path / "rows.json")
    assert alarm_table.page(found, dict.fromkeys(rows, "1f")) == alarm_table.page(rows, dict.fromkeys(rows, "1f"))
    (again, _) = found["E1"].tallies
    assert (again.id, again.expected, again.verdicts, again.controls) == (
        own.id,
        own.expected,
        own.verdicts,
        own.controls,
    )
    assert (again.square, again.taken) == (pytest.approx(own.square, rel=1e-5), pytest.approx(own.taken, rel=1e-5))
    assert found["E2"].tallies[0].random is False
    assert (found["E1"].lost, found["E2"].whole) == ((3,), False)
    assert alarm_rows.read(tmp_path / "none.json") == {}


def test_a_claim_that_is_run_anew_replaces_its_own_rows_only() -> None:
    def row(lock: str, seeds: int) -> Row:
        return Row("c", lock, (over(seeds=seeds),))

    old = {"E1": row("a", 8), "E2": row("a", 8), "E3": row("a", 8), "E9": row("a", 8)}
    new = {"E1": row("a", 20), "E2": row("a", 4), "E3": row("b", 4), "E4": row("b", 4)}
    found = alarm_rows.replaced(old, new, {"E1": "a", "E2": "a", "E3": "b", "E4": "b"})
    assert {name: one.seeds for name, one in found.items()} == {
        "E1": 20,
        "E2": 8,
        "E3": 4,
        "E4": 4,
    }  # E9 is no claim now


def test_rows_of_an_earlier_version_are_marked_and_count_nowhere() -> None:
    wolf = Row("c", "old", (over(seeds=20, gap=9.0),))
    wolves, marked = (alarm_table.page({"E1": wolf}, {"E1": now}) for now in ("old", "new"))
    assert "stated\n\n| quantity" in wolves  # cried wolf more often than stated
    assert "| false alarms, judged with a standard error | 20 of 20 |" in wolves
    assert "stated\n\nNone." in marked
    assert "| false alarms, judged with a standard error | 0 of 0 |" in marked
    assert "To be run again: E1." in marked
    assert "\n| E1† | 20 |" in marked
    assert "†" not in wolves.partition("## Result")[2]


def test_the_page_is_that_of_its_data_and_marks_what_has_changed_since() -> None:
    """If this fails after a claim has changed: python -m benchmarks.false_alarms --data … --page … marks its rows."""
    page = (DOCS / "false_alarms.md").read_text(encoding="utf-8")
    rows, now = alarm_rows.read(DOCS / "false_alarms.json"), alarm_rows.locks()
    assert page == alarm_table.page(rows, now)
    names = [line.split()[1] for line in page.partition("## All quantities")[2].splitlines() if line[:2] == "| "][1:]
    changed = {name for name, row in rows.items() if row.lock != now[name] and row.random}
    assert {one.split(".")[0].strip("*†") for one in names if "†" in one} == changed
    assert not {one.split(".")[0].strip("*†") for one in names if "†" not in one} & changed
    assert set(rows) <= set(now)
