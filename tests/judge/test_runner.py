"""Running claims: order, files, interruption, bad input."""

import pickle
import subprocess
import sys
import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import xarray as xr

import validation.claims
from dynamics import Interrupted
from theory import InputError
from validation import Context, Outcome, TheoryUnderTest, validate
from validation.judge import apart, file_names, runner
from validation.judge.catalogue import catalogue, modules
from validation.judge.claim import Claim, Measurement, computed_by
from validation.judge.kept import Measured


def _claim(name: str, measured: float = 1.0) -> Claim:
    def run(context: Context) -> Outcome:
        if measured < 0:
            raise KeyboardInterrupt
        return Outcome([Measurement("x", 1.0, measured, 0.1, 0.0, {"wrong": 3.0}, "exact")])

    texts = {"title": "title", "statement": "statement", "latex": "x", "source": "derived", "regime": "always"}
    return Claim(id=name, kind="exact", controls=("wrong",), runner=run, **texts)


@pytest.fixture(autouse=True)
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """These catalogues have claims that nobody has locked."""
    monkeypatch.setattr(runner, "state", lambda *_: runner.LOCKED)


def test_each_claim_leaves_its_dataset_and_all_leave_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "catalogue", lambda: [_claim("E1"), _claim("E2", 2.0)])
    run = validate(out=tmp_path)
    assert [verdict.verdict for verdict in run.verdicts] == ["agrees", "disagrees"]
    assert not run.as_expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["E1.nc", "E2.nc", "report.html"]
    assert float(xr.load_dataset(tmp_path / "E2.nc", engine="h5netcdf")["estimate"][0]) == 2.0


def test_an_interrupted_run_keeps_and_reports_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "catalogue", lambda: [_claim("E1"), _claim("E2", -1.0), _claim("E3")])
    (tmp_path / "report.html").write_text("of an earlier run, whole")
    with pytest.raises(Interrupted, match="after 1 of 3 claims") as stopped:
        validate(out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["E1.nc", "report.html", "report.unfinished.html"]
    assert (tmp_path / "report.html").read_text() == "of an earlier run, whole"
    assert stopped.value.result.report == tmp_path / "report.unfinished.html"


def test_no_selection_preset_seed_or_theory_overwrites_what_another_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "catalogue", lambda: [_claim(name) for name in ("E1", "S4", "S4-printed")])
    asked: list[dict[str, Any]] = [
        {},
        {"ids": ["S4-printed", "S4"]},
        {"ids": ["S4"]},
        {"seed": 1},
        {"preset": "full"},
        {"ids": ["s4"], "preset": "full", "seed": 3},
        {"theory": TheoryUnderTest()},
        {"ids": [_claim("S4", 2.0)]},
    ]
    runs = [validate(**options, out=tmp_path) for options in asked]
    reports = [run.report for run in runs]
    assert len(set(reports)) == len(asked)
    assert [path.name for path in reports if path][:3] == [
        "report.html",
        "report-S4+S4-printed.html",
        "report-S4.html",
    ]
    assert runs[5].files == {"S4": tmp_path / "S4.full.seed3.nc"}
    assert runs[1].files["S4"] == runs[0].files["S4"]  # the same result
    assert len({run.files["S4"] for run in runs}) == 6
    assert all(path.is_file() for run in runs for path in [run.report, *run.files.values()] if path)
    again = validate(["E1", "S4", "S4-printed"], out=tmp_path)
    assert again.report == reports[0]  # all by name is the whole catalogue


def test_a_long_selection_has_a_short_name_of_its_own() -> None:
    ids = [f"E{n}" for n in range(60)]
    names = {file_names.report_name(ids[:n]) for n in range(1, 60)}
    assert len(names) == 59
    assert max(map(len, names)) < 90
    assert file_names.report_name(["E7.h*"]) != file_names.report_name(["E7.h?"])


@pytest.mark.parametrize("bad", [{"ids": ["E99"]}, {"preset": "huge"}])
def test_bad_input_is_refused_before_anything_runs(bad: dict, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        validate(**bad, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_claim_names_its_controls_and_its_source() -> None:
    for claim in catalogue():
        assert claim.controls
        assert claim.source
        assert claim.statement.endswith(".")


def test_claims_are_found_by_walking_the_folder() -> None:
    files = {path for path in Path(validation.claims.__file__).parent.rglob("*.py") if path.name != "__init__.py"}
    assert {Path(str(module.__file__)) for module in modules()} == files
    costs = [getattr(module, "COST", 0) for module in modules()]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 0
    assert len({claim.id for claim in catalogue()}) == len(catalogue())


def test_an_allowance_names_the_function_that_computes_it() -> None:
    assert computed_by(file_names.mark, "in words") == "in words (validation.judge.file_names.mark)"


class _Process:
    """Stands for a worker process: runs each task at once, in order, and remembers which claims it had."""

    def __init__(self, dies: bool = False) -> None:
        self.had: list[str] = []
        self._dies = dies

    def __call__(self, task: apart.Task, configuration: Mapping[str, Any]) -> "Future[bytes]":
        self.had.append(configuration["id"])
        future: Future[bytes] = Future()
        if self._dies:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(task(pickle.loads(pickle.dumps(configuration))))
        return future


def test_a_claim_of_ones_own_is_judged_with_those_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "catalogue", lambda: [_claim("E1"), _claim("E2")])
    mine = _claim("my-claim", 2.0)
    run = validate(["E2", mine], out=tmp_path)
    assert [(v.id, v.verdict) for v in run.verdicts] == [("E2", "agrees"), ("my-claim", "disagrees")]
    assert (tmp_path / "my-claim.nc").exists()
    assert run.report is not None
    assert "my-claim" in run.report.read_text(encoding="utf-8")
    assert [verdict.id for verdict in validate(mine).verdicts] == ["my-claim"]
    with pytest.raises(InputError, match="claim 'E2' is given twice"):
        validate(["E2", _claim("E2", 3.0)])
    with pytest.raises(InputError, match="differ in case only"):
        validate(["E2", _claim("e2", 3.0)])


def test_a_claim_of_ones_own_goes_to_another_process_if_it_can_be_imported_there() -> None:
    worker = _Process()
    at_home, abroad = _claim("at-home"), replace(_claim("abroad"), runner=_imported)
    assert [v.id for v in validate([at_home, abroad], workers=[worker]).verdicts] == ["abroad", "at-home"]
    assert worker.had == ["abroad"]


def _imported(context: Context) -> Outcome:
    return _claim("any").run(context)


def test_ids_know_no_case_and_may_be_patterns_and_quantities() -> None:
    def picked(*texts: str) -> list[str]:
        return [claim.id for claim in runner.select_claims(texts)]

    assert picked("e7", "S4-PRINTED") == ["E7", "S4-printed"]
    assert picked("S4*", "E7.h3") == ["E7", "S4", "S4-printed"]
    assert picked("E2?") == [f"E{n}" for n in range(20, 30)]
    with pytest.raises(InputError, match=r"'E99' is unknown: did you mean E9"):
        picked("E99")


def test_a_quantity_is_asked_for_by_its_claim_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(context: Context) -> Outcome:
        (one,) = _claim("any").run(context).measurements
        return Outcome([replace(one, key="slope"), replace(one, key="slope.error"), replace(one, key="end")])

    monkeypatch.setattr(runner, "catalogue", lambda: [replace(_claim("E1"), runner=two), _claim("E2")])
    asked = {"e1.Slope": ["E1.slope"], "E1.slope*": ["E1.slope", "E1.slope.error"], "E*.end": ["E1.end"]}
    for text, kept in asked.items():
        assert [verdict.id for verdict in validate([text]).verdicts] == kept
    assert len(validate(["E1.end", "E1"]).verdicts) == 3
    with pytest.raises(
        InputError, match=r"quantity 'E1.slop' is unknown: did you mean E1.slope or E1.slope.error\? use E1"
    ):
        validate(["E1.slop"])
    with pytest.raises(InputError, match=r"claim id .* is unknown"):
        validate(["[" * 100_000])


@pytest.mark.parametrize("name", ["", "7", "E7.h3", "a/b", "E*", "é"])
def test_an_id_names_a_file_and_no_pattern(name: str) -> None:
    with pytest.raises(InputError, match="claim id is"):
        _claim(name)


def test_a_control_is_judged_by_the_name_that_its_claim_declares() -> None:
    """The runner says its first words; words that begin none, or two, are refused."""

    def names(*declared: str, preset: str = "quick") -> list[str]:
        (verdict,) = validate(replace(_claim("X1"), controls=declared), preset=preset).verdicts
        return [control.name for control in verdict.controls]

    assert names("wrong by a factor") == ["wrong by a factor"]
    with pytest.warns(UserWarning, match="judges nothing by its 'wrong by 2'"):
        assert names("wrong", "wrong by 2") == ["wrong"]
    for declared, count in ((["x"], 0), (["wrong by 2", "wrong by 3"], 2)):
        with pytest.raises(
            InputError, match=rf"claim X1: its runner judges 'wrong', and {count} of its controls begin so"
        ):
            names(*declared)


def test_two_quantities_of_one_key_are_refused() -> None:
    """The table, the data and the report know a quantity by its key."""
    once = _claim("X1")
    twice = replace(once, runner=lambda context: Outcome(2 * once.runner(context).measurements))
    with pytest.raises(InputError, match="claim X1: its runner leaves two quantities of key ''"):
        validate(twice)


def test_a_control_that_nothing_is_judged_by_is_named() -> None:
    odd = replace(_claim("X1"), controls=("wrong", "never judged"))
    with pytest.warns(UserWarning, match="claim X1 judges nothing by its 'never judged'"):
        validate(odd)
    only_quick = replace(odd, controls=("wrong (quick)", "never judged (full)"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [control.name for control in validate(only_quick).verdicts[0].controls] == ["wrong"]
    with pytest.warns(UserWarning, match="judges nothing by its 'never judged'"):
        validate(only_quick, preset="full")


def test_a_claim_is_made_of_keywords_alone() -> None:
    with pytest.raises(TypeError, match="positional"):
        Claim("E1", "title")  # type: ignore[misc, call-arg]


def _spread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A catalogue of toy claims in three modules, the claims of each together."""
    claims: list[Claim] = []
    for name in ("E1", "E2", "L1", "Q1", "Q2", "Q3"):
        claims.append(_claim(name, 1.0 + 0.1 * len(claims)))
        module = f"claims of {name[0]}"
        claims[-1].runner.__module__ = module
        monkeypatch.setitem(sys.modules, module, sys.modules.get(module, ModuleType(module)))
        setattr(sys.modules[module], name, claims[-1])
    monkeypatch.setattr(runner, "catalogue", lambda: claims)
    monkeypatch.setattr(apart, "catalogue", lambda: claims)
    monkeypatch.setattr(apart, "modules", lambda: {ModuleType(f"claims of {letter}"): () for letter in "QEL"})
    return [claim.id for claim in claims]


def test_two_processes_share_the_claims_and_give_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = _spread(monkeypatch)
    alone, workers = validate(), [_Process(), _Process()]
    together = validate(out=tmp_path, workers=workers)
    assert [(v.id, v.verdict, v.z) for v in together.verdicts] == [(v.id, v.verdict, v.z) for v in alone.verdicts]
    assert [verdict.id for verdict in together.verdicts] == ids
    assert sorted(path.name for path in tmp_path.iterdir()) == [*(f"{name}.nc" for name in ids), "report.html"]
    # one process begins with the quick modules, the others with the long ones, and no module is in two
    assert (workers[0].had[:2], workers[1].had[:3]) == (["E1", "E2"], ["Q1", "Q2", "Q3"])


def test_surprises_of_the_last_run_come_first_then_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    _spread(monkeypatch)
    claims = runner.catalogue()

    def order(**last: apart.Last) -> list[str]:
        return [claim.id for group in apart.in_order(claims, last) for claim in group]

    modules = {ModuleType(f"claims of {letter}"): () for letter in "QEL"}
    next(iter(modules)).COST = 1  # type: ignore[attr-defined]
    monkeypatch.setattr(apart, "modules", lambda: modules)
    assert order() == ["Q1", "Q2", "Q3", "E1", "E2", "L1"]  # five seconds where nothing is said
    assert order(L1=apart.Last(0.5, True)) == ["L1", "Q1", "Q2", "Q3", "E1", "E2"]
    assert order(E2=apart.Last(60.0, False)) == ["E2", "E1", "Q1", "Q2", "Q3", "L1"]


def test_a_process_imports_the_module_of_its_claim_and_no_other() -> None:
    """All of them take seconds."""
    program = (
        "import pickle, sys; from validation.judge.apart import measure; "
        "task = {'id': 'E29', 'module': 'validation.claims.one_task.noisy_growth', 'claim': None}; "
        "found, _ = pickle.loads(measure({**task, 'preset': 'quick', 'seed': 0})); assert found.measurements; "
        "print(*(name for name in sys.modules if name.startswith('validation.claims.') and name.count('.') == 3))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["validation.claims.one_task.noisy_growth"]


def test_a_process_that_dies_is_named_with_its_claim(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"claim E1: its process died .*--workers 1"):
        validate(["E1"], out=tmp_path, workers=[_Process(dies=True)])
    assert list(tmp_path.iterdir()) == []


def test_a_theory_of_ones_own_stays_in_this_process() -> None:
    with pytest.raises(InputError, match="theory is given with workers"):
        validate(["E1"], theory=Context().theory, workers=[_Process()])
    with pytest.raises(InputError, match="theory is given with kept"):
        validate(["E1"], theory=Context().theory, kept=_Nothing())


class _Nothing:
    """Keeps nothing."""

    def find(self, *_: object) -> None: ...

    def keep(self, measured: Measured, *_: object) -> Measured:
        return measured

    def last(self, *_: object) -> None: ...

    def facts(self, *_: object) -> dict[str, str]:
        return {}


#: Claims that take seconds, of many modules; every run of the whole catalogue names the others.
CHEAP = ["E4", "E27", "L1", "L2", "L2-printed", "L4", "Q8", "S7", "S10"]


@pytest.mark.slow
def test_cheap_claims_judge_the_controls_that_they_list() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        validate(CHEAP)
