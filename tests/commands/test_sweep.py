"""Sweeps: what is finished is kept and found again, bytes do not depend on who computed them, failures are named."""

import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_sweep
import xarray as xr
from inline import Inline, toy

from benchmarks import kill_sweep
from dynamics.core.storage import write_dataset
from emergence import table
from emergence.cells import compute, configuration
from emergence.cli import main
from emergence.commands import sweep as command
from emergence.model import Model
from emergence.models.additive import MODEL as ADDITIVE
from emergence.models.additive import AdditiveProblem as Problem
from emergence.models.additive import resolve
from emergence.models.quadratic import MODEL as QUADRATIC
from emergence.models.quadratic import QuadraticProblem
from emergence.store import folder as store
from emergence.store import grid, merging, sweeping
from emergence.store.engine import Cluster, Workers
from emergence.store.folder import Store, canonical, cell_name, seal
from emergence.store.sweeping import Cell, Sweep
from theory import InputError

SUPPORT = Path(__file__).parents[1] / "support"
SMALL = ["--dim", "64", "--teacher-width", "2", "--activation", "h3", "--quiet"]
GRID = ["--over", "student-width=4,6", "--over", "seed=0:3"]
TINY_SGD = Problem(
    activation="h3", dim=16, teacher_width=2, student_width=3, step_size=1e-3, steps=64, replicas=2, seed=1
)
TINY_QUADRATIC = QuadraticProblem(dim=40, teacher_width=3, student_width=2, step_size=1e-3, steps=64, replicas=2)


def cells(count: int) -> list[Cell]:
    return [Cell({"seed": n}, configuration(ADDITIVE, "predict", Problem(seed=n))) for n in range(count)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        yield store


def swept(store: Store, grid: list[Cell], engine: Inline, said: list[str] | None = None) -> sweeping.Outcome:
    return Sweep(store, grid, (said if said is not None else []).append, lambda *_: None).run(engine)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -------------------------------------------------------------------------------- runner


def test_finished_cells_are_not_computed_again(opened: Store) -> None:
    first, second = Inline(), Inline()
    assert len(swept(opened, cells(3), first).computed) == 3
    outcome = swept(opened, cells(5), second)
    assert (len(outcome.found), [cell.values["seed"] for cell in outcome.computed]) == (3, [3, 4])
    assert (first.seen, second.seen) == ([0, 1, 2], [3, 4])


def test_damaged_cells_are_named_set_aside_and_computed_again(opened: Store) -> None:
    four = cells(4)
    swept(opened, four, Inline())
    whole = contents(opened.folder)
    for cell, damage in zip(
        four[:3], (lambda x: x[:-1], lambda x: b"", lambda x: x[:200] + b"?" + x[201:]), strict=True
    ):
        path = opened.folder / cell.name
        path.write_bytes(damage(path.read_bytes()))
    said: list[str] = []
    engine = Inline()
    outcome = swept(opened, four, engine, said)
    assert engine.seen == [0, 1, 2]
    assert [cell.values["seed"] for cell in outcome.damaged] == [0, 1, 2]
    assert all(f"cell seed={n} is damaged" in said[n] and four[n].name in said[n] for n in range(3))
    after = contents(opened.folder)
    assert {name: after.pop(name) for name in list(after) if name.endswith(".corrupt")}.keys() == {
        cell.name + ".corrupt" for cell in four[:3]
    }
    assert after == whole


def test_a_failing_cell_is_named_and_the_others_go_on(opened: Store) -> None:
    def task(configuration: Mapping[str, Any]) -> bytes:
        if configuration["problem"]["seed"] == 1:
            raise InputError("step-size is 1: lower it")
        if configuration["problem"]["seed"] == 2:
            raise ZeroDivisionError("by\nzero")
        return toy(configuration)

    said: list[str] = []
    outcome = swept(opened, cells(5), Inline(task), said)
    assert len(outcome.computed) == 3
    assert said == ["cell seed=1 failed: step-size is 1: lower it", "cell seed=2 failed: ZeroDivisionError: by zero"]
    assert len(swept(opened, cells(5), Inline()).computed) == 2  # failures are tried again


def test_divergence_is_remembered(opened: Store) -> None:
    grid = [Cell({"seed": n}, configuration(ADDITIVE, "predict", Problem(seed=n))) for n in (76, 77)]
    for _ in range(2):
        assert [cell.values["seed"] for cell in swept(opened, grid, Inline()).diverged] == [77]


def test_a_worker_that_dies_costs_only_the_guilty_cell(opened: Store) -> None:
    class Fragile(Inline):
        """Whatever is in hand is lost with the worker that cell 2 kills."""

        def submit(self, _: object, configuration: Mapping[str, Any]) -> "Future[bytes]":
            self.seen.append(configuration["problem"]["seed"])
            future: Future[bytes] = Future()
            self.hand.append((future, configuration))
            if len(self.hand) == self.slots or self.seen[-1] == 2 or len(self.seen) > 3:
                broken = any(c["problem"]["seed"] == 2 for _, c in self.hand)
                for waiting, asked in self.hand:
                    waiting.set_exception(BrokenProcessPool("gone")) if broken else waiting.set_result(toy(asked))
                self.hand.clear()
            return future

        hand: list = []  # noqa: RUF012

    said: list[str] = []
    engine = Fragile()
    outcome = swept(opened, cells(5), engine, said)
    assert len(outcome.computed) == 4
    assert [cell.values["seed"] for cell, _ in outcome.failed] == [2]
    assert "worker process died" in said[0]
    assert engine.restarts == 2


def test_what_others_finish_after_a_death_is_not_computed_again(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cells are in hand when a worker dies; another process then takes the first and finishes the second."""
    grid = cells(3)
    content = toy(grid[1].configuration)

    class Dying(Inline):
        def submit(self, _: object, configuration: Mapping[str, Any]) -> "Future[bytes]":
            future = super().submit(_, configuration)
            if not self.restarts:
                future = Future()
                if len(self.seen) == 3:
                    future.set_exception(BrokenProcessPool("gone"))
            return future

        def restart(self) -> None:
            super().restart()
            opened.write(grid[1].name, content)
            refusals.append(grid[0].name)

    refusals: list[str] = []
    take = opened.locks.take
    monkeypatch.setattr(sweeping, "POLL", 0.0)
    monkeypatch.setattr(
        opened.locks, "take", lambda name: take(name) and not (name in refusals and not refusals.clear())
    )
    engine = Dying()
    outcome = swept(opened, grid, engine)
    assert engine.seen == [0, 1, 2, 2, 0]
    assert [cell.values["seed"] for cell in outcome.found] == [1]
    assert not outcome.failed


def test_a_damaged_cell_that_another_process_mends_is_left_alone(
    opened: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = cells(1)
    swept(opened, [cell], Inline())
    path = opened.folder / cell.name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    take = opened.locks.take

    def mended(name: str) -> bool:
        path.write_bytes(whole)
        return take(name)

    monkeypatch.setattr(opened.locks, "take", mended)
    outcome = swept(opened, [cell], Inline())
    assert (len(outcome.found), outcome.damaged) == (1, [])
    assert contents(opened.folder)[cell.name] == whole


def test_a_store_that_is_being_made_is_no_other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a job array start together: the marker may appear between two looks, and probes beside it."""
    (tmp_path / ".tmp-probe").write_text("")
    answers = [False]
    store.Store(tmp_path).__exit__()
    marked = store.is_store
    monkeypatch.setattr(store, "is_store", lambda path: answers.pop() if answers else marked(path))
    assert store.check(str(tmp_path)) == tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_store_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".locks").write_text("")
    (tmp_path / ".locks").chmod(0o444)
    with pytest.raises(InputError, match=r"cannot open .*locks"):
        Store(tmp_path)


def test_an_interrupt_keeps_what_is_finished_and_frees_the_rest(opened: Store) -> None:
    def task(configuration: Mapping[str, Any]) -> bytes:
        if configuration["problem"]["seed"] == 2:
            raise KeyboardInterrupt
        return toy(configuration)

    with pytest.raises(KeyboardInterrupt):
        swept(opened, cells(5), Inline(task, slots=1))
    engine = Inline()
    assert len(swept(opened, cells(5), engine).found) == 2
    assert engine.seen == [2, 3, 4]


_RIVAL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import toy_sweep, xarray
from emergence.store.folder import Store
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    asked, outcome = toy_sweep.share(store, 40)
    print(asked, outcome.finished, len(outcome.failed), flush=True)
"""


def test_two_processes_share_a_store_without_doing_anything_twice(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _RIVAL, str(tmp_path / "store"), str(SUPPORT)]
    rivals = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [rival.stdout.readline() for rival in rivals] == ["ready\n"] * 2
    for rival in rivals:
        rival.stdin.write("\n")
        rival.stdin.flush()
    reports = [[int(x) for x in rival.stdout.readline().split()] for rival in rivals]
    assert [rival.wait() for rival in rivals] == [0, 0]
    assert [report[1:] for report in reports] == [[40, 0], [40, 0]]
    assert sum(report[0] for report in reports) == 40
    assert min(report[0] for report in reports) > 0
    with Store(tmp_path / "alone") as alone:
        toy_sweep.share(alone, 40)
    assert contents(tmp_path / "store") == contents(tmp_path / "alone")


# --------------------------------------------------------------------------------- cells


@pytest.mark.slow_for(
    "model7-stiefel-sgd-problem7",
    "model4-retiring-flow-problem4",
    "model0-gradient-flow-problem0",
    "model2-online-sgd-problem2",
)
@pytest.mark.parametrize(
    ("model", "what", "problem"),
    [
        *((ADDITIVE, what, TINY_SGD) for what in ("gradient-flow", "gradient-descent", "online-sgd", "predict")),
        (ADDITIVE, "retiring-flow", TINY_SGD),
        *((QUADRATIC, what, TINY_QUADRATIC) for what in ("predict", "riccati", "stiefel-sgd")),
    ],
)
def test_cells_hold_what_they_promise_and_repeat_to_the_byte(model: Model, what: str, problem: Any) -> None:
    asked = configuration(model, what, problem)
    content, variables = compute(asked), model.simulation(what).variables
    assert compute(asked) == content
    data = xr.load_dataset(io.BytesIO(content), engine="scipy")
    assert set(data.data_vars) == set(variables)
    assert json.loads(data.attrs["configuration"]) == asked
    kept = xr.load_dataset(
        io.BytesIO(compute(configuration(model, what, problem, keep=variables[-1:]))), engine="scipy"
    )
    assert list(kept.data_vars) == [variables[-1]]


def test_a_quadratic_prediction_is_that_of_its_own_model(run: Callable) -> None:
    """Its directions do not decouple: no neuron, no T_p, and the times of the self-consistent law."""
    _, document, _ = run("predict", "--activation", "quadratic", "--dim", "40", "--teacher-width", "3")
    problem = QuadraticProblem(dim=40, teacher_width=3)
    data = xr.load_dataset(io.BytesIO(compute(configuration(QUADRATIC, "predict", problem))), engine="scipy")
    assert np.isnan(data.neuron.values).all()
    assert data.time_half.values.tolist() == [entry["time_half"] for entry in document["directions"]]
    assert data.exponent_time.item() == document["exponents"]["time"]


@pytest.mark.slow
def test_a_sweep_of_subspaces_merges_over_widths(run: Callable, inline: Inline) -> None:
    """The speed factor N^(−1/2) follows the swept width; the activation needs no flag."""
    grid = ["--dim", "40", "--teacher-width", "3", "--steps", "64", "--replicas", "2", "--over", "student-width=1,2"]
    assert run("sweep", "stiefel-sgd", *grid)[0] == 0
    assert len(inline.seen) == 2
    code, document, _ = run("merge", "emergence-out/sweep")
    (made,) = document["experiments"]
    assert (code, made["missing"]) == (0, [])
    merged = xr.load_dataset(made["file"])
    assert np.isfinite(merged.risk.values).all()
    np.testing.assert_allclose(merged.norm2.sel(student_width=2).values, 2**-0.5)


def test_an_sgd_cell_is_the_simulation(opened: Store) -> None:
    resolved, simulation = resolve(TINY_SGD), ADDITIVE.simulation("online-sgd")
    data = xr.load_dataset(io.BytesIO(compute(configuration(ADDITIVE, "online-sgd", TINY_SGD))), engine="scipy")
    direct = simulation.run(resolved, None, None).result
    np.testing.assert_array_equal(data.loss, direct.dataset.loss)
    np.testing.assert_array_equal(data.half_steps, direct.half_steps)
    np.testing.assert_array_equal(data.time, direct.dataset.time)


def test_defaults_spelled_out_are_the_same_cell_and_versions_are_not() -> None:
    plain = configuration(ADDITIVE, "predict", Problem())
    assert configuration(ADDITIVE, "predict", Problem(teacher_width=8, teacher_exponent=1.0)) == plain
    assert configuration(ADDITIVE, "predict", Problem(seed=1)) != plain
    assert configuration(ADDITIVE, "online-sgd", Problem()) != plain
    assert configuration(ADDITIVE, "predict", Problem(), keep=("weight",)) != plain
    with pytest.raises(InputError, match=r"this worker has"):
        compute({**plain, "version": "0.0.0"})


# ------------------------------------------------------------------------- command line


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Inline:
    """Sweeps on the command line compute here, with the real computation."""
    engine = Inline(compute)
    monkeypatch.setattr(command, "Workers", lambda count: _context(engine))
    return engine


class _context:
    def __init__(self, engine: Inline) -> None:
        self._engine = engine

    def __enter__(self) -> Inline:
        return self._engine

    def __exit__(self, *_: object) -> None:
        pass


def test_sweep_and_merge(run: Callable, inline: Inline) -> None:
    code, document, err = run("sweep", "predict", *SMALL, *GRID)
    assert (code, err) == (0, "")
    assert document["over"] == {"student_width": [4, 6], "seed": [0, 1, 2]}
    assert (document["cells"], document["computed"], document["found"]) == (6, 6, 0)
    assert document["problem"]["dim"] == 64
    assert "seed" not in document["problem"]
    assert run("sweep", "predict", *SMALL, *GRID)[1]["found"] == 6
    code, merged, err = run("merge", document["store"], "--quiet")
    assert (code, err) == (0, "")
    (entry,) = merged["experiments"]
    assert entry["missing"] == entry["damaged"] == []
    assert entry["variables"]["time_half"] == ["student_width", "seed", "direction"]
    with xr.open_dataset(entry["file"], engine="h5netcdf") as data:
        for width, seed in itertools.product((4, 6), range(3)):
            problem = Problem(activation="h3", dim=64, teacher_width=2, student_width=width, seed=seed)
            here = data.time_half.sel(student_width=width, seed=seed)
            expected = resolve(problem).prediction.time_half
            np.testing.assert_array_equal(here, np.where(np.isfinite(expected), expected, np.nan))


def test_shards_together_are_the_whole(run: Callable, inline: Inline) -> None:
    for shard in ("2/4", "1/4", "4/4", "3/4"):
        assert run("sweep", "predict", *SMALL, *GRID, "--store", "shards", "--shard", shard)[0] == 0
    run("sweep", "predict", *SMALL, *GRID, "--store", "whole")
    assert contents(Path("shards")) == contents(Path("whole"))
    assert len(inline.seen) == 12


def test_missing_and_damaged_cells_are_named_by_merge(run: Callable, inline: Inline) -> None:
    run("sweep", "predict", *SMALL, *GRID, "--shard", "1/2")
    code, merged, err = run("merge", "emergence-out/sweep", "--quiet")
    assert code == 0
    assert merged["experiments"][0]["missing"] == [
        {"student_width": 4, "seed": 1},
        {"student_width": 6, "seed": 0},
        {"student_width": 6, "seed": 2},
    ]
    assert "3 of 6 predict cells are missing" in err
    assert "student-width=4 seed=1" in err
    with xr.open_dataset(merged["experiments"][0]["file"]) as data:
        assert np.isnan(data.weight.sel(student_width=4, seed=1)).all()
        assert np.isfinite(data.weight.sel(student_width=4, seed=0)).all()
    cell = next(Path("emergence-out/sweep").glob("predict-*.nc"))
    cell.write_bytes(cell.read_bytes()[:500])
    code, merged, err = run("merge", "emergence-out/sweep", "--quiet")
    assert code == 1
    assert len(merged["experiments"][0]["damaged"]) == 1
    assert "is damaged" in err
    assert cell.exists()  # merging changes nothing in the store


def test_widening_a_sweep_computes_the_new_cells_and_merges_as_one(run: Callable, inline: Inline) -> None:
    run("sweep", "predict", *SMALL, "--over", "seed=0:2")
    (narrow,) = run("merge", "emergence-out/sweep", "--quiet")[1]["experiments"]
    before = Path(narrow["file"]).stat().st_mtime_ns
    document = run("sweep", "predict", *SMALL, "--over", "seed=5,1,3")[1]
    assert (document["computed"], document["found"]) == (2, 1)
    run("sweep", "predict", *SMALL[2:], "--over", "dim=64,128")
    experiments = run("merge", "emergence-out/sweep", "--quiet")[1]["experiments"]
    assert sorted(json.dumps(entry["over"]) for entry in experiments) == [
        '{"dim": [64, 128]}',
        '{"seed": [0, 1, 3, 5]}',
    ]
    assert len({narrow["file"], *(entry["file"] for entry in experiments)}) == 3
    assert Path(narrow["file"]).stat().st_mtime_ns == before


def test_cells_of_different_sizes_and_an_option_called_like_a_variable(tmp_path: Path) -> None:
    axes = {"time": (2.0, 1.0), "student_width": (2, 3), "activation": ("h3", "h4"), "normalise": (True, False)}
    with Store(tmp_path) as store:
        for point in grid.points(axes):
            asked = configuration(ADDITIVE, "gradient-flow", Problem(**point))
            shape = (4 if point["time"] == 2 else 3, point["student_width"])
            data = xr.Dataset(
                {"norm2": (("time", "neuron"), np.full(shape, point["time"]))},
                coords={"time": ("time", np.linspace(0, point["time"], shape[0])), "neuron": np.arange(shape[1])},
            )
            store.write(cell_name(asked), seal(data, asked))
        plan = merging.plan(asked, axes)
        store.record(merging.plan_name(plan), plan)
    (experiment,), damaged = merging.experiments(
        [(merging.plan_name(plan), canonical(plan).encode()), ("sweep-", b"{")]
    )
    assert damaged == ["sweep-"]
    write_dataset(tmp_path / "merged.nc", merging.merge(tmp_path, experiment).data)
    with xr.open_dataset(tmp_path / "merged.nc") as data:
        assert data.norm2.dims == ("time_option", "student_width", "activation", "normalise", "time", "neuron")
        assert data.time_option.values.tolist() == [1.0, 2.0]
        assert data.activation.values.tolist() == ["h3", "h4"]
        here = data.sel(activation="h4").isel(normalise=0)
        small = here.sel(time_option=1.0, student_width=2)
        assert np.isnan(small.norm2.isel(neuron=2)).all()
        assert np.isnan(small.norm2.isel(time=3)).all()
        assert (small.norm2.isel(neuron=slice(2), time=slice(3)) == 1).all()
        assert float(small.time.max()) == 1.0
        assert (here.norm2.sel(time_option=2.0, student_width=3) == 2).all()


def test_a_failing_cell_is_status_1(run: Callable, inline: Inline) -> None:
    code, document, err = run("sweep", "predict", *SMALL, "--over", "step-size=1e-9,1e9")
    assert code == 1
    assert document["computed"] == 1
    assert document["failed"][0]["cell"] == {"step_size": 1e9}
    assert "stability bound" in document["failed"][0]["reason"]
    assert "cell step-size=1e+09 failed" in err


def test_cells_of_contradictory_values_are_left_out_and_the_others_run(run: Callable, inline: Inline) -> None:
    """Each of their values is possible beside others; a value that is not is refused."""
    asked = ("sweep", "predict", "--model", "linear", "--dim", "4", "--quiet", "--over", "noise=4,0")
    flips = ("--over", "label-flip=0,0.5", "--over", "student-width=50,60")
    code, document, err = run(*asked, *flips)
    assert (code, document["cells"], document["computed"], document["failed"]) == (1, 6, 6, [])
    left_out = [{"noise": 4.0, "label_flip": 0.5, "student_width": width} for width in (50, 60)]
    assert [one["cell"] for one in document["refused"]] == left_out
    assert all("give one of them" in one["reason"] for one in document["refused"])
    assert "cell noise=4 label-flip=0.5 student-width=50 is left out: noise is 4 and label-flip is 0.5" in err
    code, document, _ = run(*asked, *flips, "--list")
    assert (code, len(document["cells"]), len(document["refused"]), document["left"]) == (0, 6, 2, 0)
    (merged,) = run("merge", "emergence-out/sweep", "--quiet")[1]["experiments"]
    assert (merged["cells"], merged["missing"]) == (6, [])
    code, document, err = run("sweep", "predict", *SMALL[2:], "--over", "dim=4,64", "--over", "student-width=4,8")
    assert (code, document) == (2, None)
    assert "cell dim=4 student-width=4: dim is 4" in err


def test_a_plan_that_leaves_out_no_cells_of_it_is_damaged() -> None:
    asked = configuration(ADDITIVE, "predict", Problem())
    for without in (1, [1], [[1, 2]], [[{}]]):
        plan = merging.plan(asked, {"seed": (0, 1)}) | {"without": without}
        records = [(merging.plan_name(plan), canonical(plan).encode())]
        assert merging.experiments(records) == ([], [merging.plan_name(plan)])


def test_a_figure_of_failed_cells_is_none_and_hides_no_reason(run: Callable, inline: Inline) -> None:
    code, document, err = run("sweep", "predict", *SMALL, "--over", "step-size=1e8,1e9", "--figure", "w.pdf")
    assert code == 1
    assert [one["cell"]["step_size"] for one in document["failed"]] == [1e8, 1e9]
    assert "warning: no figure is drawn: store is" in err
    assert "figure" not in document
    assert not Path("w.pdf").exists()


def test_a_sweep_table_in_the_configuration_file(run: Callable, inline: Inline, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('activation = "h3"\ndim = 64\nteacher_weights = [1, 0.5]\n[sweep]\nseed = "0:2"\n')
    flags = ["--config", "p.toml", "--student-width", "4", "--quiet"]
    assert run("sweep", "predict", *flags)[1]["over"] == {"seed": [0, 1]}
    document = run("sweep", "predict", *flags, "--over", "teacher-exponent=1,2")[1]  # sets the file's weights aside
    assert document["over"] == {"seed": [0, 1], "teacher_exponent": [1.0, 2.0]}
    assert (document["failed"], document["problem"]["teacher_weights"]) == ([], None)
    assert run("predict", *flags)[0] == 0


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["sweep", "predict"], "--over is not given"),
        (["sweep", "compare", "--over", "seed=0:2"], "compare"),
        (["sweep", "predict", "--over", "sede=0:2"], "'sede' is no option"),
        (["sweep", "predict", "--over", "seed=2:2"], "empty range"),
        (["sweep", "predict", "--over", "seed=1,1"], "has 1 twice"),
        (["sweep", "predict", "--over", "seed=0:2", "--seed", "3"], "--seed is given, and seed is swept"),
        (["sweep", "predict", "--over", "seed=0:2", "--shard", "3/2"], "--shard is '3/2'"),
        (["sweep", "predict", "--over", "seed=0:2", "--workers", "0"], "--workers is 0"),
        (["sweep", "predict", "--over", "seed=0:2", "--keep", "wieght"], "--keep names 'wieght'"),
        (["sweep", "predict", "--over", "dim=8,64"], "cell dim=8: dim is 8"),
        (["sweep", "predict", "--over", "seed=0:2", "--workers", "1", "--scheduler", "x"], "drop one"),
        (["sweep", "predict", "--over", "seed=0:2", "--store", "full"], "holds other things"),
        (["sweep", "predict", "--over", "seed=0:2", "--store", "full/a"], "store is 'full/a'"),
        (["merge", "full"], "it is no store"),
        (["sweep", "predict", "--over", "activation=h3,nonsense"], "nonsense"),
        (["sweep", "predict", "--over", "activation=h4,h2"], "'h2' is predicted by the model quadratic"),
        (["sweep", "predict", "--over", "seed=0:2", "--scheduler", "nonsense://x"], "scheduler is 'nonsense://x'"),
        (["merge", "absent"], "it is no store"),
        (["merge", "x" * 300], "it is no store"),
        (["merge"], "STORE"),
    ],
)
def test_bad_input_costs_one_line(run: Callable, argv: list[str], named: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    code, document, err = run(*argv)
    assert (code, document, err.count("\n")) == (2, None, 1)
    assert named in err
    assert sorted(os.listdir()) == ["full"]


@pytest.mark.parametrize(
    ("what", "over", "cell"),
    [
        ("predict", "activation=h4,nonsense", "activation=nonsense: "),
        ("kernel-ridge", "kernel=exp,nonsense", "kernel=nonsense: "),
        ("declared-sgd", "target=z1,z1+nonsense", "target=z1+nonsense: "),
        ("declared-sgd", "rule=sgd,nonsense", "rule=nonsense: "),
        ("declared-sgd", "link=h3,nonsense", "link=nonsense: "),
        ("declared-flow", "inputs=8,blocks(nonsense)", "inputs=blocks(nonsense): "),
        ("declared-flow", "step-size=0.1,power(nonsense)", "step-size=power(nonsense): "),
    ],
)
def test_a_text_that_is_not_understood_is_refused_before_work_starts(
    run: Callable, inline: Inline, what: str, over: str, cell: str
) -> None:
    """One line that names the cell; of a text that is not swept it names none."""
    code, _, err = run("sweep", what, "--over", over, "--out", "here")
    assert (code, err.count("\n"), inline.seen, Path("here").exists()) == (2, 1, [], False)
    assert f"error: cell {cell}" in err
    name, _, text = cell.removesuffix(": ").partition("=")
    code, _, err = run("sweep", what, "--over", "seed=0,1", f"--{name}", text)
    assert (code, err.count("\n"), "nonsense" in err, "cell" in err) == (2, 1, True, False)


# ------------------------------------------------------------------------ real processes


def start(*argv: str, folder: Path) -> "subprocess.Popen[bytes]":
    """The command in a session of its own, with a quick computation in place of the real one."""
    return subprocess.Popen(
        [sys.executable, SUPPORT / "toy_sweep.py", "sweep", "predict", "--quiet", *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finished(folder: Path) -> int:
    return len(list(folder.glob("predict-*.nc")))


def wait_until(condition: Callable[[], bool], patience: float = 60) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def end_after_another_cell(sweep: "subprocess.Popen[bytes]", store: Path, ending: signal.Signals, delay: float) -> int:
    """Send the signal a moment after a new cell appeared; every process of the sweep must go. The exit status."""
    before = finished(store)
    wait_until(lambda: finished(store) > before or sweep.poll() is not None)
    time.sleep(delay)
    assert sweep.poll() is None, "it ended before it was killed"
    # Ctrl-C reaches every process of a terminal, SIGKILL only the one it is sent to.
    (os.killpg if ending == signal.SIGINT else os.kill)(sweep.pid, ending)
    code = sweep.wait(20)
    wait_until(lambda: not alive(sweep.pid), 20)
    return code


def test_killed_interrupted_and_resumed_is_byte_for_byte_undisturbed(tmp_path: Path) -> None:
    """Workers die with their killed parent; an interrupt is 130; what is finished is kept; the end is the same."""
    grid = ["--over", "seed=0:50", "--workers"]
    rng = random.Random(2)
    undisturbed = start(*grid, "1", "--store", "whole", folder=tmp_path)
    store = tmp_path / "broken"
    for ending, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        sweep = start(*grid, "2", "--store", "broken", folder=tmp_path)
        assert end_after_another_cell(sweep, store, ending, rng.uniform(0, 0.2)) == code
        said = sweep.stderr.read()
    kept = "the cells so far are kept in broken: the same command goes on with the others"
    assert said == f"emergence: interrupted: {kept}\n".encode()
    reached = finished(store)
    out, err = (last := start(*grid, "2", "--store", "broken", "--json", folder=tmp_path)).communicate()
    assert (last.returncode, err) == (0, b"")
    document = json.loads(out)
    assert (document["found"], document["computed"], document["damaged"]) == (reached, 50 - reached, [])
    assert undisturbed.wait() == 0
    assert contents(store) == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_worker_killed_from_outside_costs_nothing(tmp_path: Path) -> None:
    """The pool breaks, is made anew, and the cells in hand are computed again."""
    with Store(tmp_path / "store") as store, Workers(2) as engine:
        sweep = Sweep(store, cells(12), lambda _: None, lambda *_: None)

        def kill() -> None:
            wait_until(lambda: finished(store.folder) > 1)
            os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        outcome = sweep.run(_with(engine, toy_sweep.compute))
        killer.join()
    assert (outcome.finished, outcome.failed) == (12, [])


@pytest.mark.slow_for("guarded")
@pytest.mark.parametrize(
    ("head", "guard", "said"),
    [
        ("", "", "script '{script}' is run by every worker, too: put the call under `if __name__ == \"__main__\":`"),
        # What looks guarded, and is not, is found out by the worker, which says the same.
        ("# __name__\n", "", "script '{script}' is run by every worker, too"),
        ("", 'if __name__ == "__main__":\n    ', ""),
    ],
    ids=["plain", "seems guarded", "guarded"],
)
def test_a_script_whose_workers_would_sweep_again_is_told_what_to_do(
    head: str, guard: str, said: str, tmp_path: Path
) -> None:
    """A worker of a spawned process runs its parent's script."""
    script = tmp_path / "script.py"
    small = "sweep predict --over seed=0:2 --dim 16 --teacher-width 1 --student-width 1 --workers 1 --quiet"
    script.write_text(
        f"{head}import sys\nfrom emergence.cli import main\n{guard}sys.exit(main({small.split()}))\n", encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    store = tmp_path / "emergence-out" / "sweep"
    if not said:
        assert (ran.returncode, ran.stderr, finished(store)) == (0, "", 2)
        return
    assert f"emergence: error: {said.format(script=script)}" in ran.stderr
    assert ran.returncode == (1 if head else 2)
    if not head:
        assert (ran.stderr.count("\n"), store.exists()) == (1, False)


class _with:
    """An engine with another computation."""

    def __init__(self, engine: Workers, task: Callable[[Mapping[str, Any]], bytes]) -> None:
        self._engine, self._task, self.slots, self.restart = engine, task, engine.slots, engine.restart

    def submit(self, _: object, configuration: Mapping[str, Any]) -> "Future[bytes]":
        return self._engine.submit(self._task, configuration)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_twenty_kills_of_a_real_sweep() -> None:
    assert kill_sweep.main(["--kills", "20"]) == 0


def _small(**values: Any) -> dict[str, Any]:
    return {"activation": "h3", "dim": 64, "teacher_width": 2, "student_width": 4, **values}


# ------------------------------------------------------------------------------- cluster


def test_a_cluster_gives_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    grid = [Cell({"seed": n}, configuration(ADDITIVE, "predict", Problem(**_small(seed=n)))) for n in range(6)]
    grid.append(Cell({"step_size": 1e9}, configuration(ADDITIVE, "predict", Problem(**_small(step_size=1e9)))))
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp", silence_logs=50
        ) as local,
        Store(tmp_path / "cluster") as store,
        Cluster(local.scheduler_address) as engine,
    ):
        assert engine.slots == 2
        outcome = Sweep(store, grid, lambda _: None, lambda *_: None).run(engine)
    assert (len(outcome.computed), len(outcome.failed)) == (6, 1)
    assert "stability bound" in outcome.failed[0][1]
    with Store(tmp_path / "here") as store:
        swept(store, grid, Inline(compute))
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


def test_a_scheduler_that_is_not_there_is_refused(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run("sweep", "predict", *SMALL, *GRID, "--scheduler", "nonsense://x")
    assert (code, err.count("\n")) == (2, 1)
    assert "scheduler is 'nonsense://x'" in err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "but distributed is not installed: " in run("sweep", "predict", *SMALL, *GRID, "--scheduler", "tcp://x:1")[2]


# ---------------------------------------------------------------------------------- list


def test_a_list_computes_nothing_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "predict", *SMALL, *GRID, "--store", str(tmp_path / "store"), "--shard", "2/2", "--list"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert not (tmp_path / "store").exists()
    assert [line.split()[1:] for line in shown.splitlines()[2:5]] == [
        ["student-width=4", "seed=1"],
        ["student-width=6", "seed=0"],
        ["student-width=6", "seed=2"],
    ]
    assert "3 cells, 3 to compute: how long they take is known once two are finished" in shown


@pytest.mark.slow
def test_a_list_tells_the_pace_of_what_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Median time between files: the night in which nothing ran is no part of it."""
    asked = ["sweep", "predict", *SMALL, "--over", "seed=0:6", "--store", str(tmp_path / "store"), "--workers", "1"]
    assert main([*asked, "--shard", "1/2"]) == 0
    files = sorted((tmp_path / "store").glob("predict-*.nc"))
    for file, at in zip(files, (0.0, 10.0, 30_000.0), strict=True):
        os.utime(file, (1e9 + at, 1e9 + at))
    assert store.pace(files[:2]) == 10.0
    os.utime(files[2], (1e9 + 20, 1e9 + 20))
    capsys.readouterr()
    assert main([*asked, "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [cell["finished"] for cell in document["cells"]] == [True, False] * 3
    assert (document["left"], document["seconds_a_cell"], document["seconds_left"]) == (3, 10.0, 30.0)
    assert main([*asked, "--list"]) == 0
    assert "6 cells, 3 to compute: about 30 s at the pace of those finished, one in 10 s" in capsys.readouterr().out


LONG = [
    "sweep",
    "online-sgd",
    "--activation",
    "h3",
    "--dim",
    "256",
    "--teacher-width",
    "3",
    "--over",
    "student-width=4,8",
    "--over",
    "seed=0:2",
]


def test_the_longest_cell_is_named_before_hours_are_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cell that is named is the one for which `simulate` counts most samples."""
    assert main([*LONG, "--store", str(tmp_path / "store"), "--list"]) == 0
    said = capsys.readouterr().err
    assert said.count("warning: cell ") == 1
    steps = {
        (width, seed): resolve(
            Problem(activation="h3", dim=256, teacher_width=3, student_width=width, seed=seed)
        ).run_length()[2]
        for width in (4, 8)
        for seed in (0, 1)
    }
    width, seed = max(steps, key=lambda one: steps[one] * one[0])
    assert f"cell student-width={width} seed={seed}: online-sgd needs" in said
    assert "4 of 4 cells that were asked are long" in said
    assert not (tmp_path / "store").exists()
    assert main([*LONG, "--steps", "1000", "--store", str(tmp_path / "store"), "--list"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_a_sweep_names_its_longest_cell_and_not_one_that_cannot_run(
    run: Callable, inline: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emergence.models.additive.SGD_BUDGET", 100.0)
    small = ["--activation", "h3", "--dim", "16", "--teacher-width", "2", "--student-width", "3", "--replicas", "2"]
    code, document, err = run("sweep", "online-sgd", *small, "--steps", "64", "--over", "step-size=1e-3,1e9", "--quiet")
    assert (code, document["computed"], len(document["failed"])) == (1, 1, 1)
    assert "cell step-size=0.001: online-sgd needs 1.3e+02 samples" in err
    assert "1 of 2 cells that were asked are long" in err


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.034, "0.034 s"), (42.0, "42 s"), (720, "12 min"), (12_240, "3.4 h"), (200_000, "2.3 days")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert table.duration(seconds) == text
