"""Finished claims are found again: after a kill, in the same bytes; and only where nothing has changed."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emergence import kept_claims, since, verdict_cells
from emergence.arguments import parse
from emergence.commands.validate import chosen, wanted
from emergence.store.code_digest import Code
from emergence.store.folder import Store, inspect, seal
from theory import InputError
from validation.judge.apart import measure
from validation.judge.catalogue import catalogue
from validation.judge.claim import Claim, Measurement, Outcome
from validation.judge.context import Context

ROOT = Path(__file__).resolve().parents[2]
TOYS = ROOT / "tests" / "support" / "toy_claims.py"

Command = Callable[..., Any]


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """A file of four claims, to be changed."""
    path = tmp_path / "toys.py"
    path.write_bytes(TOYS.read_bytes())
    return path


@pytest.fixture
def validate(command: Command, toys: Path) -> Iterator[Command]:
    """``validate(*argv)`` with the claims of the file, in one process."""
    yield lambda *argv: command("validate", str(toys), "--workers", "1", *argv)
    verdict_cells.forget()


def lines(ran: Any, *beginnings: str) -> list[str]:
    """What was said of claims: their ids."""
    said = [line.removeprefix("emergence: ") for line in ran.err.splitlines()]
    return [line.split()[0] for line in said if line.startswith(beginnings or ("toy-",)) and " agrees, " in line]


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes() -> None:
    """At two random moments; a third run finishes. In a process that has started nothing, for it forks."""
    command = [sys.executable, "-m", "benchmarks.kill_validate", "--kills", "2", str(TOYS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("19 files, 0 differ\n")


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_twenty_kills_of_real_claims() -> None:
    command = [sys.executable, "-m", "benchmarks.kill_validate", "--workers", "2", "S7", "S10", "E4", "L1"]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


def test_verdicts_are_said_as_they_are_reached_and_found_the_next_time(validate: Command) -> None:
    first = validate("--json")
    assert lines(first) == [f"toy-{n}.k{key}" for n in range(4) for key in range(2)]
    assert first.code == 0
    assert set(first.document) == {"version", "preset", "seed", "report", "files", "claims"}
    again = validate("--json")
    assert lines(again) == []
    assert "4 claims were judged before by the same code: found in emergence-out/verdicts" in again.err
    assert again.out == first.out
    assert "not as expected" in validate("--quiet").out
    assert validate("--quiet").err == ""
    assert len(lines(validate("--fresh"))) == 8


def test_what_was_kept_is_what_was_measured(validate: Command) -> None:
    """Numbers, dataset and picture, of a claim that is found, against one that is run here."""
    validate("--quiet")
    store = Store(Path("emergence-out/verdicts"))
    claim = wanted("toys.py")[0]
    found = kept_claims.KeptClaims(store).find(claim, Context())
    own = claim.run(Context())
    assert found is not None
    assert [(x.estimate, x.stderr, x.quantity) for x in found.outcome.measurements] == [
        (x.estimate, x.stderr, x.quantity) for x in own.measurements
    ]
    assert own.dataset is not None
    assert found.outcome.dataset is not None
    assert found.outcome.dataset.identical(own.dataset)
    ((caption, picture),) = found.outcome.figures
    assert (caption, picture[:5]) == ("What was drawn.", b"<?xml")
    assert found.outcome.shown is not None
    np.testing.assert_array_equal(found.outcome.shown[0]["y"].values.ravel(), own.dataset["values"][0])
    assert found.seconds > 0.05
    store.locks.close()


def test_a_change_of_the_claims_code_or_of_what_it_imports_judges_again(
    validate: Command, toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(toys.parent))
    (toys.parent / "mean_of_toys.py").write_text("MEAN = 1.0\n")
    text = (
        toys.read_text()
        .replace("normal(1.0", "normal(MEAN")
        .replace("import time\n", "import time\nfrom mean_of_toys import MEAN\n")
    )
    toys.write_text(text)
    assert len(lines(validate())) == 8
    assert lines(validate()) == []
    toys.write_text(text + "# a comment\n")
    verdict_cells.forget()
    assert lines(validate()) == []
    (toys.parent / "mean_of_toys.py").write_text("MEAN = 1.0 + 0\n")
    verdict_cells.forget()
    assert len(lines(validate())) == 8


def test_code_that_changes_under_a_run_is_not_taken_for_what_it_was(validate: Command, toys: Path) -> None:
    toys.write_text(toys.read_text().replace("time.sleep(0.05)", "open(__file__, 'a').write('# more\\n')"))
    ran = validate()
    assert ran.code == 0
    assert "warning: code has changed since this run began: what it judges is not kept" in ran.err
    assert not list(Path("emergence-out/verdicts").glob("validate-*"))


def test_damaged_and_hostile_cells_are_judged_again(validate: Command) -> None:
    first = validate("--json")
    store = Path("emergence-out/verdicts")
    cells = sorted(store.glob("validate-*.nc"))
    cells[0].write_bytes(cells[0].read_bytes()[:-1])
    configuration = inspect(cells[1].read_bytes(), cells[1].name).configuration
    cells[1].write_bytes(seal(verdict_cells.as_bytes({"measurements": '[{"quantity": 1}]'}), configuration))
    for timing in store.glob("timing-*.json"):
        timing.write_text("[]")
    again = validate("--json")
    assert again.code == 0
    assert len(lines(again)) == 4
    assert again.err.count("is damaged") == 3
    drop = {"seconds"}
    for one, other in zip(first.document["claims"], again.document["claims"], strict=True):
        assert {k: v for k, v in one.items() if k not in drop} == {k: v for k, v in other.items() if k not in drop}
    assert len(list(store.glob("*.corrupt"))) == 3


@pytest.mark.slow
def test_several_seeds_leave_a_report_each(validate: Command) -> None:
    ran = validate("--seeds", "0,5", "--json")
    assert ran.document["seeds"] == [0, 5]
    reports = [run["report"] for run in ran.document["runs"]]
    assert len(set(reports)) == 2
    assert all(Path(report).is_file() for report in reports)
    alone = validate("--seed", "5", "--json")
    assert alone.document == ran.document["runs"][1]
    assert validate("--seeds", "0,5").out.splitlines()[0].startswith("seed  id")


def test_shards_together_are_the_whole() -> None:
    parts = [chosen([], parse(["validate", "--shard", f"{n}/3"]))[0] for n in (1, 2, 3)]
    assert sorted(claim.id for part in parts for claim in part) == sorted(claim.id for claim in catalogue())
    modules = [{claim.runner.__module__ for claim in part} for part in parts]
    assert not modules[0] & modules[1]
    assert not modules[1] & modules[2]
    assert max(map(len, modules)) - min(map(len, modules)) <= 1


def test_since_a_commit_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project in small, under git."""
    names = ("theory/a.py", "theory/b.py", "validation/one.py", "validation/two.py", "validation/judge/kept.py")
    texts = ("A = 1\n", "B = 1\n", "from theory.a import A\n", "from theory.b import B\n", "")
    for name, text in zip(names, texts, strict=True):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=b@c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(since, "_ROOT", tmp_path)
    one, two = (_claim(name) for name in ("one", "two"))
    places = {"one": tmp_path / names[2], "two": tmp_path / names[3]}
    monkeypatch.setattr(verdict_cells, "files_of", lambda claim: (places[claim.id],))
    assert since.changed([one, two], "HEAD") == []
    (tmp_path / names[1]).write_text("# why\nB = 1\n")
    verdict_cells.forget()
    assert since.changed([one, two], "HEAD") == []
    (tmp_path / names[1]).write_text("B = 2\n")
    verdict_cells.forget()
    assert since.changed([one, two], "HEAD") == [two]
    with pytest.raises(InputError, match="--since is 'nothing': no commit of this checkout"):
        since.changed([one], "nothing")
    with pytest.raises(InputError, match="--since is '--help'"):
        since.changed([one], "--help")


def test_nothing_left_to_judge_is_no_surprise(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since, "changed", lambda claims, commit: [])
    ran = command("validate", "S10", "--since", "HEAD", "--json")
    assert (ran.code, ran.document["claims"], ran.document["report"]) == (0, [], None)
    assert "nothing is left to judge" in command("validate", "--since", "HEAD").out
    assert not Path("emergence-out").exists()


def _claim(name: str) -> Claim:
    texts = {"title": "t", "statement": "s.", "latex": "x", "source": "derived", "regime": "always"}
    run = lambda _: Outcome([Measurement("x", 1.0, 1.0, 0.1, 0.0, {"wrong": 3.0}, "exact")])  # noqa: E731
    return Claim(id=name, kind="exact", controls=("wrong",), runner=run, **texts)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--seeds", "0:2", "--seed", "1"], "--seed is 1, and --seeds is given"),
        (["--seeds", "2:1"], "an empty range"),
        (["--seeds", "-1"], "--seeds is -1"),
        (["--seeds", "x"], "--seeds is 'x'"),
        (["--shard", "3/2"], "--shard is '3/2'"),
        (["--since", "no such commit"], "--since is 'no such commit'"),
        (["--store", "a\0b"], "store is"),
    ],
)
def test_bad_options_cost_one_line(options: list[str], told: str, refused: Callable[..., str]) -> None:
    assert told in refused("validate", "S10", *options)


def test_a_clock_that_stands_still(monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    (claim,) = (one for one in catalogue() if one.id == "S10")
    assert pickle.loads(measure({"id": "S10", "claim": claim, "preset": "quick", "seed": 0}))[1] == 0.0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH is 'yesterday': give seconds since 1970" in refused("validate", "S10")


class _Measuring:
    """A runner that holds what it measures."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, _: Context) -> Outcome:
        return Outcome([Measurement("x", 1.0, self.value, 0.1, 0.0, {"wrong": 3.0}, "exact")])


def test_files_are_those_of_the_runner_and_of_where_it_came_from(toys: Path) -> None:
    claim = catalogue()[0]
    assert [path.parts[-4:-2] for path in verdict_cells.files_of(claim)] == [("validation", "claims")]
    assert verdict_cells.files_of(replace(claim, origin=str(toys)))[1] == toys
    typed = _claim("typed")
    assert verdict_cells.files_of(typed) == (Path(__file__).resolve(),)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("def run(context): return []", scope)
    with pytest.raises(InputError, match="was typed"):
        verdict_cells.configure(replace(typed, runner=scope["run"]), 0)
    assert verdict_cells.configure(replace(typed, text="T = 1/a"), 0) != verdict_cells.configure(typed, 0)
    held = replace(typed, runner=_Measuring(2.0))
    assert verdict_cells.files_of(held) == ()  # nothing tells it from one that holds another number
    assert verdict_cells.files_of(replace(held, text="2")) == (Path(__file__).resolve(),)
    assert Code(ROOT).digest(TOYS) != Code(ROOT).digest(TOYS, ROOT / "theory" / "quadratic" / "model.py")
