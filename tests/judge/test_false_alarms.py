"""The count of false alarms counts what it says: it finds error bars that are too small, and controls that survive."""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks import alarm_table, false_alarms
from benchmarks.alarm_statistics import Share, Tally, freedom, stated_share, tallies, tally
from emergence import verdict_cells
from emergence.store.folder import Store, inspect
from emergence.verdict_cells import Judged
from theory import InputError
from validation.judge import catalogue
from validation.judge.claim import Claim, Control, Measurement, Outcome
from validation.judge.context import Context

SEEDS, REPLICAS = 400, 8


def measured(seed: int, shrink: float = 1.0, gap: float = 0.0, allowance: float = 0.0) -> Measurement:
    """The mean of eight normals of mean `gap` where theory says 0; its standard error is multiplied by `shrink`."""
    values = np.random.default_rng([7, seed]).normal(gap, 1.0, REPLICAS)
    stderr = shrink * float(values.std(ddof=1)) / math.sqrt(REPLICAS)
    controls = {"far": 9.0, "near": 1.5}
    return Measurement("x", 0.0, float(values.mean()), stderr, allowance, controls, "exact")


def claim(runner: Callable[[Context], Outcome], name: str = "E1", expected: str = "agrees") -> Claim:
    texts = {"title": "t", "statement": "s.", "latex": "x", "source": "derived", "regime": "always"}
    controls = ("far", "near", "nearer")
    return Claim(id=name, kind="exact", controls=controls, runner=runner, expected=expected, **texts)


def judged(one: Measurement, expected: str = "agrees") -> Judged:
    """A verdict as it comes back from its cell."""
    verdict = claim(lambda _: Outcome([]), expected=expected).judge(one)
    content = verdict_cells.store.seal(verdict_cells.dataset([verdict]), {"what": "validate"})
    return verdict_cells.read(content)[0]


def counted(expected: str = "agrees", seeds: int = SEEDS, **options: float) -> Tally:
    return tally(expected, [_judged(measured(seed, **options)) for seed in range(seeds)])


def _judged(x: Measurement) -> Judged:
    """As `judged`, without the file."""
    verdict = claim(lambda _: Outcome([])).judge(x)
    controls = tuple((control.name, control.rejected) for control in verdict.controls)
    scores = tuple(control.used for control in verdict.controls)
    return Judged("E1", x.quantity, verdict.verdict, x.predicted, x.estimate, x.stderr, x.allowance, controls, scores)


# ---------------------------------------------------------------------------- statistics


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 100, 0.0, 0.03621669), (5, 10, 0.1870860, 0.8129140), (20, 20, 0.8315665, 1.0)],
)
def test_intervals_are_those_of_clopper_and_pearson(hits: int, total: int, low: float, high: float) -> None:
    assert Share(hits, total).interval == pytest.approx((low, high), abs=1e-6)


def test_a_true_claim_with_right_error_bars_has_the_stated_share() -> None:
    found = counted()
    assert found.freedom == pytest.approx(REPLICAS - 1, rel=0.25)
    assert found.stated == pytest.approx(stated_share(REPLICAS - 1), rel=0.6)
    assert found.false.interval[0] <= stated_share(REPLICAS - 1) <= found.false.interval[1]
    assert abs(found.square[0] - 1) < 4 * found.square[1]
    assert abs(found.mean[0]) < 4 * found.mean[1]
    assert not found.too_many
    assert not found.overdispersed


def test_error_bars_half_as_large_as_they_should_be_are_found() -> None:
    found = counted(shrink=0.5)
    assert found.square[0] == pytest.approx(4.0, rel=0.3)
    assert found.overdispersed
    assert found.too_many


def test_a_bias_within_the_allowance_is_no_defect_and_one_without_is() -> None:
    assert not counted(gap=0.5, allowance=0.5).too_many
    assert counted(gap=0.5, allowance=0.5).mean[0] > 1
    assert counted(gap=1.5).too_many


def test_a_control_too_near_is_named() -> None:
    found = counted()
    assert found.weak_controls == ["near"]
    assert found.controls["far"].value == 1.0
    assert found.verdicts["inconclusive"] == found.seeds - found.controls["near"].hits
    assert not counted("open").weak_controls  # an answer to the open question


def test_a_wrong_statement_that_passes_is_a_false_alarm_of_its_own() -> None:
    assert counted("disagrees", seeds=20).false.hits == 20
    assert counted("disagrees", seeds=20, gap=9.0).false.hits == 0


def test_problems_that_differ_between_seeds_do_not_excuse_false_alarms() -> None:
    """Standard errors over three decades give a ν near 0, at which nearly every share could be stated."""
    rows = [_judged(measured(seed, shrink=10.0 ** -(seed % 4), gap=9.0)) for seed in range(20)]
    found = tally("agrees", rows)
    assert found.freedom < 1
    assert found.stated == pytest.approx(0.028, rel=0.02)
    assert found.too_many


def test_a_wrong_statement_must_be_found_out_like_a_control() -> None:
    rows = [_judged(measured(seed, gap=9.0 if seed > 1 else 0.0)) for seed in range(20)]
    assert tally("disagrees", rows).too_many
    assert not tally("disagrees", rows[2:]).too_many


def test_a_bound_has_no_stated_share() -> None:
    x = Measurement("x", 0.0, 0.5, 0.0, 1.0, {"far": 9.0}, "exact")
    found = tally("agrees", [_judged(x)] * 5)
    assert not found.statistical
    assert found.stated == 0.0
    assert not found.random
    assert not found.too_many


def test_stated_share_is_students() -> None:
    assert stated_share(7) == pytest.approx(0.00519, rel=1e-3)
    assert stated_share(math.inf) == pytest.approx(6.334e-5, rel=1e-3)
    assert freedom(np.full(5, 0.3)) == math.inf


# --------------------------------------------------------------------------------- cells


class Here:
    """An engine that computes at once and counts."""

    slots = 1

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def submit(self, task: Callable, configuration: Mapping[str, Any]) -> "Future[bytes]":
        self.seen.append((configuration["claim"], configuration["seed"]))
        future: Future[bytes] = Future()
        try:
            future.set_result(task(configuration))
        except ArithmeticError as error:
            future.set_exception(error)
        return future

    def restart(self) -> None:
        raise AssertionError("nothing dies here")


@pytest.fixture
def two_claims(monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """A catalogue of one module: E1 measures something random, E2 does not."""
    fixed = Measurement("y", 1.0, 1.0, 0.0, 0.1, {"far": 9.0, "nearer": math.nan}, "exact")
    claims = [
        claim(lambda context: Outcome([measured(context.seed), measured(context.seed + 1000)])),
        claim(lambda context: Outcome([fixed]), "E2"),
    ]
    module = ModuleType("claims.toy")
    module.__file__ = __file__
    monkeypatch.setattr(catalogue, "modules", lambda: {module: claims})
    return claims


def test_a_cell_gives_back_what_was_judged() -> None:
    x = measured(3, allowance=0.2)
    found = judged(x)
    assert found == _judged(x)


def test_seeds_are_resumed_and_fixed_claims_stop_after_two(two_claims: list[Claim], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for seeds, expected in ((3, [("E1", 0), ("E2", 0), ("E1", 1), ("E2", 1), ("E1", 2)]), (4, [("E1", 3)])):
            engine = Here()
            false_alarms.Collection(store, "quick", math.inf).run(two_claims, seeds, engine)
            assert engine.seen == expected
        cells = false_alarms.stored(store, "quick")
        assert sorted(cells["E1"]) == [0, 1, 2, 3]
        assert false_alarms.is_random(cells["E1"])
        assert not false_alarms.is_random(cells["E2"])
        found = false_alarms.judged(cells, two_claims)
        assert [row.seeds for row in found["E1"]] == [4, 4]  # two quantities of one id stay apart
        page = alarm_table.page(two_claims, found, "quick", {"E1": [2, 5], "E2": []})
        assert "raised an error there: E1 (seed 2, 5)." in page
        assert "so no more were run: E2." in page
        assert "| E1 | 4 |" in page


def test_a_share_that_is_full_under_both_seeds_is_still_random(two_claims: list[Claim]) -> None:
    def share(seed: int) -> Judged:
        return _judged(Measurement("x", 1.0, 1.0, 0.0, 0.1, {"near": Control(1.0, 0.3 + 0.1 * seed)}, "ties"))

    assert false_alarms.is_random({0: [share(0)], 1: [share(1)]})
    assert not false_alarms.is_random({0: [share(0)], 1: [share(0)]})


def test_damaged_cells_and_lost_seeds_are_named(
    two_claims: list[Claim], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:
        false_alarms.Collection(store, "quick", math.inf).run(two_claims[:1], 4, Here())
        path = tmp_path / false_alarms.cell(two_claims[0], 1, "quick").name
        path.write_bytes(path.read_bytes()[:-1])
        cells = false_alarms.stored(store, "quick")
    assert path.name in capsys.readouterr().err
    assert false_alarms.lost(cells["E1"]) == [1]
    assert false_alarms.lost(cells["E2"]) == []


def test_a_spent_budget_begins_nothing(two_claims: list[Claim], tmp_path: Path) -> None:
    engine = Here()
    with Store(tmp_path) as store:
        false_alarms.Collection(store, "quick", -1.0).run(two_claims, 3, engine)
    assert engine.seen == []


def test_a_claim_that_raises_is_named_and_the_others_go_on(
    two_claims: list[Claim], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = claim(lambda context: Outcome([measured(abs(1 // (context.seed - 1)))]))
    two_claims[0] = broken  # in place of E1, in the catalogue too
    with Store(tmp_path) as store:
        collection = false_alarms.Collection(store, "quick", math.inf)
        collection.run([broken, two_claims[1]], 2, Here())
        assert [one.label for one in collection.failed] == ["claim=E1 seed=1"]
        assert sorted(false_alarms.stored(store, "quick")["E2"]) == [0, 1]
    assert "failed: ZeroDivisionError" in capsys.readouterr().err


def test_cells_of_other_code_are_neither_computed_nor_counted(two_claims: list[Claim], tmp_path: Path) -> None:
    old = verdict_cells.configure(two_claims[0], 0) | {"code": "older"}
    with pytest.raises(InputError, match="other code"):
        verdict_cells.compute(old)
    with Store(tmp_path) as store:
        name = f"validate-{verdict_cells.store.digest(old)}.nc"
        content = verdict_cells.store.seal(verdict_cells.dataset([two_claims[0].judge(measured(0))]), old)
        inspect(content, name)
        store.write(name, content)
        assert false_alarms.stored(store, "quick") == {"E1": {}, "E2": {}}


def test_status_and_table_of_the_command(two_claims: list[Claim], tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        false_alarms.Collection(store, "quick", math.inf).run(two_claims, 6, Here())
    options = ["--seeds", "0", "--store", str(tmp_path / "store"), "--table", str(tmp_path / "page.md")]
    assert false_alarms.main(options) == 1  # the control that is too near survives
    assert "near" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_every_claim_has_a_module_of_its_own_code() -> None:
    claims = catalogue.catalogue()
    assert {verdict_cells.group(one) for one in claims} == {module.__name__ for module in catalogue.modules()}
    names = {verdict_cells.store.digest(verdict_cells.configure(one, 0)) for one in claims}
    assert len(names) == len(claims)


def test_tallies_keep_the_order_of_the_report() -> None:
    rows = [_judged(measured(0)), _judged(measured(1))]
    assert [row.seeds for row in tallies("agrees", {1: rows, 0: rows})] == [2, 2]
