"""Models as records: what they promise is in the data, their help is their own, and a user's file is served like ours."""

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from emergence import config, jsonio
from emergence.cells import compute, configuration
from emergence.commands import sweep
from emergence.model import Model
from emergence.models import built_in, load, module_of
from emergence.options import once, options, written
from emergence.store.engine import Here
from emergence.values import Switch

ADDITIVE = {
    "activation": "h3", "dim": 16, "teacher_width": 2, "student_width": 3, "step_size": 1e-3, "steps": 64, "replicas": 2,
}  # fmt: skip
QUADRATIC = {"dim": 40, "teacher_width": 3, "student_width": 2, "step_size": 1e-3, "steps": 64, "replicas": 2}
LINEAR = {"dim": 4, "student_width": 6, "train_size": 12, "step_size": 0.005, "steps": 20, "replicas": 2}
NETWORK = {"epochs": 1, "batch": 128, "widths": (2, 3), "replicas": 1}
#: A small problem of every model.
TINY: dict[str, dict[str, Any]] = {
    "additive": ADDITIVE, "quadratic": QUADRATIC, "linear": LINEAR, "residual-network": NETWORK,
    "toy": {"exponents": (2, 3)}, "kernel-ridge": {"dim": 8, "samples": (4, 8), "replicas": 2},
    "layer-wise": {"dim": 12, "teacher_weights": (0.8, 0.6), "student_width": 3, "batch": 4, "steps": 16, "replicas": 2,
                   "samples": 50},
    "lazy-rich": {"images": 6, "hidden": 8, "steps": 20, "replicas": 2},
    "declared": {"inputs": "blocks(3x2, 1x6)", "student_width": 2, "rule": "momentum(0.5)", "steps": 8, "replicas": 2},
}  # fmt: skip
SDE = {"teacher_width": 1, "student_width": 1, "step_size": 1e-4, "allow_unstable": True}
CELLS = [(model, one) for model in built_in().values() for one in model.cells]


def test_what_is_not_given_is_the_same_in_python_as_on_the_command_line() -> None:
    """Where both have a number of their own; the published configuration stands in both, too."""
    from dynamics.networks import Comparison, LazyRich, Training
    from emergence.models import additive_problem, lazy_rich, quadratic, residual_network
    from theory import Student

    for made, problem, names in (
        (LazyRich(), lazy_rich.LazyRichProblem(), ("flip_probability", "replacement")),
        (Training(), residual_network.ResidualNetworkProblem(), ("step_size",)),
        (Student(width=2), additive_problem.AdditiveProblem(), ("init_scale",)),
        (Student(width=2), quadratic.QuadraticProblem(), ("init_scale",)),
    ):
        assert {name: getattr(made, name) for name in names} == {name: getattr(problem, name) for name in names}
    assert {name: getattr(LazyRich(), name) for name in lazy_rich.PUBLISHED} == lazy_rich.PUBLISHED
    assert Comparison(Training(), (), ()).replicas == residual_network.ResidualNetworkProblem().replicas


@pytest.mark.slow_for(
    "additive-finite-step",
    "additive-sde",
    "additive-retiring-flow",
    "layer-wise-layer-wise",
    "lazy-rich-lazy-rich",
    "residual-network-label-noise-network",
    "residual-network-pruning",
    "additive-gradient-flow",
    "quadratic-stiefel-sgd",
)
@pytest.mark.parametrize(("model", "simulation"), CELLS, ids=lambda one: one.name)
def test_the_data_hold_the_variables_that_the_record_names(model: Model, simulation: Any) -> None:
    tiny = TINY[model.name] | (SDE if simulation.name == "sde" else {})
    tiny |= {"samples": 8} if simulation.name == "declared-sgd" else {}  # they have a loss of their own
    resolved = model.resolve(model.problem(**tiny), simulation)
    simulation.requires(resolved)
    data = simulation.run(resolved, None, None).data
    assert set(data.data_vars) == set(simulation.variables)
    assert {name for name in simulation.variables if "time" in data[name].dims} == set(simulation.curves)


#: Options of `TINY` that are given otherwise, or not at all (None): what excludes each other, one after another.
WAYS: tuple[dict[str, Any], ...] = (
    {}, {"steps": None}, {"steps": None, "time": 0.05}, {"teacher_width": None, "teacher_weights": (0.8, 0.5)},
    {"teacher_weights": None, "teacher_exponent": 0.7}, {"noise": None, "label_flip": 0.1},
)  # fmt: skip


def _lines(problem: dict[str, Any]) -> str:
    """The problem of a JSON document as a configuration file, which has no null."""
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in problem.items() if value is not None)


@pytest.mark.parametrize(("model", "simulation"), CELLS, ids=lambda one: one.name)
def test_a_problem_that_is_printed_can_be_given_again(model: Model, simulation: Any, tmp_path: Path) -> None:
    """As a configuration file, whichever of its options that exclude each other were given: it is the same problem."""
    tiny = TINY[model.name] | (SDE if simulation.name == "sde" else {})
    for way in (way for way in WAYS if set(way) <= simulation.uses):
        problem = model.problem(**tiny | way)
        full = json.loads(jsonio.dumps(model.resolve(problem, simulation).echo()))
        printed, follows = once(problem, full)
        assert full == printed | follows
        assert [name for name in follows if getattr(problem, name) is not None] == []
        (tmp_path / "again.toml").write_text(_lines(printed), encoding="utf-8")
        again = model.resolve(config.build(model, {}, str(tmp_path / "again.toml")), simulation).echo()
        assert json.loads(jsonio.dumps(again)) == full, way


def test_the_problem_of_a_document_is_a_configuration_file(run: Callable, tmp_path: Path) -> None:
    for command in (["predict"], ["simulate", "gradient-flow"]):
        small = ["--activation", "h3", "--dim", "16", "--teacher-width", "1", "--student-width", "2"]
        code, document, err = run(*command, *small, "--quiet")
        assert code in (0, 1), err
        (tmp_path / "again.toml").write_text(_lines(document["problem"]), encoding="utf-8")
        again = run(*command, "--config", "again.toml", "--quiet")[1]
        assert again["problem"] == document["problem"]
        assert again["decided"] == document["decided"]
        assert ("time" in again["problem"], list(again["decided"])) == (True, ["steps"])


def _offered(text: str) -> set[str]:
    """Flags in the group of the problem, but for other names of some."""
    told = dict(re.findall(r"^  (--[a-z-]+)(.*(?:\n   .*)*)", text[text.index("\nproblem: ") :], re.MULTILINE))
    return {flag for flag, meaning in told.items() if "another name for" not in " ".join(meaning.split())}


def test_another_name_of_an_option_is_the_same_option(command: Callable, refused: Callable) -> None:
    asked = ("predict", "--model", "declared", "--json", "--teacher-width", "1", "--student-width", "1")
    first, second = (json.loads(command(*asked, flag, "24").out) for flag in ("--inputs", "--dim"))
    assert first["problem"] == second["problem"]
    assert first["problem"]["inputs"] == "24"
    assert "is '2.5': use isotropic(dim" in refused(*asked, "--dim", "2.5")


@pytest.mark.parametrize("name", built_in())
@pytest.mark.parametrize("asked", ["predict", "simulate", "compare", "sweep"])
def test_help_shows_the_options_that_the_command_uses_and_no_others(asked: str, name: str, command: Callable) -> None:
    model = built_in()[name]
    ran = command(asked, "--model", name, "--help")
    if getattr(model, asked, True) is None:
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert f"model is {name!r}: {asked} knows nothing of it" in ran.err
        return
    assert (ran.code, ran.err) == (0, "")
    one = getattr(model, asked, None)
    cells = model.cells if asked == "sweep" else model.simulations
    uses = frozenset().union(*(cell.uses for cell in cells)) if one is None else one.uses
    assert _offered(ran.out) == {f"--{written(name)}" for name in uses}
    for cell in cells if one is None else ():
        told = command(asked, cell.name, "--model", name, "--help").out
        assert _offered(told) == {f"--{written(name)}" for name in cell.uses}, cell.name


def test_what_help_does_not_show_is_refused_all_the_same(command: Callable, refused: Callable) -> None:
    """By the record that decides what help shows."""
    shown = _offered(command("predict", "--help").out)
    for name, value in (("steps", "9"), ("time", "1"), ("replicas", "4"), ("method", "ambient")):
        assert f"--{name}" not in shown
        assert f"--{name} is given, but predict does not use it (" in refused("predict", f"--{name}", value)
    assert "--steps" not in _offered(command("simulate", "retiring-flow", "--help").out)
    assert {"--steps", "--batch", "--method"} & _offered(command("explore", "--help").out) == set()
    assert "--batch is given, but explore does not use it" in refused("explore", "--batch", "2")
    assert "--steps" in _offered(command("simulate", "--help").out)
    assert "--steps is given, but simulate retiring-flow does not" in refused(
        "simulate", "retiring-flow", "--steps", "9"
    )


@pytest.mark.slow_for("kernel-ridge-flags3-ridge=0.001,0.01-kernel-ridge")
@pytest.mark.parametrize(
    ("what", "flags", "axis", "name"),
    [
        pytest.param(
            "label-noise", ["--dim", "4", "--student-width", "6", "--train-size", "12", "--step-size", "0.005",
                            "--steps", "20", "--replicas", "2"], "seed=0,1", "linear", marks=pytest.mark.slow),
        ("predict", ["--model", "linear", "--dim", "4", "--student-width", "30", "--step-size", "0.005"], "noise=2,3",
         "linear"),
        ("toy", ["--exponents", "2"], "goal=1,2", "toy"),
        ("kernel-ridge", ["--dim", "8", "--samples", "4", "8", "--replicas", "2"], "ridge=0.001,0.01", "kernel-ridge"),
    ],
)  # fmt: skip
def test_a_sweep_computes_what_simulate_and_predict_do(
    what: str, flags: list[str], axis: str, name: str, run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what in ("predict", "toy"):  # the others are computed in a process of their own, which takes seconds to import
        monkeypatch.setattr(sweep, "Workers", lambda _: nullcontext(Here()))
    code, document, err = run("sweep", what, *flags, "--over", axis, "--workers", "1", "--quiet")
    assert (code, document["computed"]) == (0, 2), err
    option, values = axis.split("=")
    for value in values.split(","):
        given = [*flags, f"--{option}", value, "--quiet"]
        (path,) = [x for x in Path(document["store"]).glob("*.nc") if _problem(x)[option] == float(value)]
        cell = xr.load_dataset(path, engine="scipy")
        if what == "predict":
            phases = run("predict", *given)[1]["phases"]
            assert {one: float(cell[one]) for one in phases} == pytest.approx(phases, nan_ok=True)
            continue
        data = xr.load_dataset(run("simulate", what, *given)[1]["file"], engine="h5netcdf")
        assert set(cell.data_vars) == set(data.data_vars) == set(built_in()[name].simulation(what).variables)
        for one in data.data_vars:
            xr.testing.assert_equal(cell[one].drop_vars(cell[one].coords), data[one].drop_vars(data[one].coords))


def _problem(path: Path) -> dict[str, Any]:
    return json.loads(xr.load_dataset(path, engine="scipy").attrs["configuration"])["problem"]


# ----------------------------------------------------------------------- a model of one's own

OWN = '''
"""Decay x' = -rate x, in steps."""

from dataclasses import asdict, dataclass

import numpy as np
import xarray as xr

from emergence.model import Comparer, Document, Model, Predictor, Run, Simulation
from emergence.options import Problem, option
from emergence.table import Table
from emergence.values import Number, Whole
from validation.comparison import Case, Stage, judged


@dataclass(frozen=True)
class Decay(Problem):
    rate: float = option(1.0, Number(), "rate of the decay")
    points: int = option(5, Whole(), "times at which it is recorded")
    label: int = option(0, Whole(0), "a number that only the prediction repeats")


@dataclass(frozen=True)
class Resolved:
    problem: Decay
    warnings: tuple = ()

    def echo(self):
        return asdict(self.problem)

    def headline(self):
        return f"decay at rate {self.problem.rate:g}"


def curve(resolved, *_):
    times = np.linspace(0, 1, resolved.problem.points)
    data = xr.Dataset({"x": ("time", np.exp(-resolved.problem.rate * times))}, coords={"time": times})
    return Run(data, result=data)


def end(resolved):
    return xr.Dataset({"end": float(np.exp(-resolved.problem.rate))})


def document(resolved):
    return Document({"problem": resolved.echo(), "end": float(end(resolved).end)}, "the end")


def case(resolved):
    predicted = float(end(resolved).end)

    def judge(found):
        x = float(found["decay"].x[-1])
        verdict = judged(predicted, x, 0.0, 1e-9, {"twice": 2 * predicted})
        return [{"place": "end", "predicted": predicted, "measured": x, "verdict": verdict}], []

    stages = (Stage("decay", lambda found, progress: curve(resolved).result),)
    columns = ("place", "predicted", "measured", "verdict")
    return Case("Decay", "places", columns, stages, judge, lambda found: [], lambda found: [], "Values at the end.")


def table(resolved, run):
    return Table(("end",), [(float(run.data.x[-1]),)], below=["a note"])


MODEL = Model(
    name="decay",
    help="one number that decays",
    problem=Decay,
    resolve=lambda problem, simulation=None: Resolved(problem),
    simulations=(
        Simulation("decay", "exponential decay", frozenset({"rate", "points"}), curve, table, ("x",)),
    ),
    predict=Predictor(document, end, frozenset({"rate", "label"}), ("end",), shown=frozenset({"label"})),
    compare=Comparer(case, frozenset({"rate"})),
)
'''


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """The flags that name a user's model."""
    (tmp_path / "my_model.py").write_text(OWN)
    return ["--model", "my_model.py"]


def test_a_model_of_ones_own_is_simulated_predicted_and_compared(
    own: list[str], run: Callable, command: Callable, refused: Callable
) -> None:
    code, document, _ = run("simulate", "decay", *own, "--rate", "2", "--quiet")
    assert (code, document["variables"]) == (0, {"x": ["time"]})
    assert (document["table"], document["notes"]) == ([{"end": pytest.approx(0.1353352832366127)}], ["a note"])
    model = document["problem"].pop("model")
    assert document["problem"] == {"rate": 2.0, "points": 5, "label": 0}
    assert (model["name"], Path(model["file"]).name) == ("decay", "my_model.py")
    assert float(xr.load_dataset(document["file"], engine="h5netcdf").x[-1]) == pytest.approx(0.1353352832366127)
    code, document, _ = run("predict", *own, "--rate", "2")
    assert (code, document["end"]) == (0, pytest.approx(0.1353352832366127))
    code, document, _ = run("compare", *own, "--rate", "2", "--quiet")
    assert code == 0
    assert [row["verdict"] for row in document["places"]] == ["agrees"]
    assert "Values at the end." in Path(document["report"]).read_text(encoding="utf-8")
    assert _offered(command("simulate", *own, "--help").out) == {"--rate", "--points"}
    assert _offered(command("predict", *own, "--help").out) == {"--rate", "--label"}
    assert "--label is given, but simulate decay does not use it (predict --model " in refused(
        "simulate", "decay", *own, "--label", "1"
    )
    assert "--dim is given, but predict --model " in refused("predict", *own, "--dim", "4")
    assert "--rate is 'x': give a finite number" in refused("predict", *own, "--rate", "x")
    assert "use one of decay" in refused("simulate", "gradient", *own)


@pytest.mark.slow
def test_a_sweep_of_it_runs_in_worker_processes_and_merges(own: list[str], run: Callable, refused: Callable) -> None:
    code, document, err = run("sweep", "decay", *own, "--over", "rate=1,2", "--workers", "2", "--quiet")
    assert (code, document["computed"], document["failed"]) == (0, 2, []), err
    assert run("sweep", "predict", *own, "--over", "rate=1,2", "--workers", "1", "--quiet")[0] == 0
    code, merged, _ = run("merge", document["store"], "--quiet")
    assert code == 0
    files = {entry["what"]: xr.load_dataset(entry["file"], engine="h5netcdf") for entry in merged["experiments"]}
    assert files["decay"].x.sel(rate=2.0).values[-1] == files["predict"].end.sel(rate=2.0).item()
    assert "--over label is given, but sweep predict does not use it" in refused(
        "sweep", "predict", *own, "--over", "label=1,2"
    )


def test_a_model_that_has_changed_computes_no_cell_of_the_old_one(own: list[str], tmp_path: Path) -> None:
    model = load(str(tmp_path / "my_model.py"))
    asked = configuration(model, "decay", model.problem(rate=2.0))
    assert compute(asked)
    (tmp_path / "my_model.py").write_text(OWN + "\n# another model\n")
    with pytest.raises(ValueError, match="has changed since the sweep began"):
        compute(asked)
    assert configuration(model, "decay", model.problem(rate=2.0)) != asked


def test_a_model_changes_with_the_files_that_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store has no cell of it then, and a sweep that began before goes on with none."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rates_of_mine.py").write_text("FASTER = 1\n", encoding="utf-8")
    file = tmp_path / "my_model.py"
    file.write_text("from rates_of_mine import FASTER\n" + OWN, encoding="utf-8")
    model = load(str(file))
    asked = configuration(model, "decay", model.problem(rate=2.0))
    (tmp_path / "rates_of_mine.py").write_text("FASTER = 2\n", encoding="utf-8")
    assert configuration(model, "decay", model.problem(rate=2.0)) != asked
    with pytest.raises(ValueError, match="has changed since the sweep began"):
        compute(asked)


def test_two_files_with_simulations_of_one_name_write_two_files(own: list[str], run: Callable, tmp_path: Path) -> None:
    _, first, _ = run("simulate", "decay", *own, "--rate", "2", "--quiet")
    (tmp_path / "my_model.py").write_text(OWN + "\n# another law\n")
    _, second, _ = run("simulate", "decay", *own, "--rate", "2", "--quiet")
    assert first["file"] != second["file"]
    assert first["problem"]["model"]["code"] != second["problem"]["model"]["code"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not there"),
        ("MODEL = (", "SyntaxError"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("MODEL = 3", "its MODEL is of type int: end it with MODEL = Model(…)"),
        ("x = 1", "it has no MODEL"),
        (OWN.replace('frozenset({"rate", "points"})', 'frozenset({"rats"})'), "name fields of its problem"),
    ],
)
def test_a_bad_model_file_costs_one_line(content: str | None, said: str, refused: Callable, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "bad.py").write_text(content)
    for argv in (["predict"], ["simulate", "decay"], ["sweep", "decay", "--over", "rate=1,2"], ["derive", "loss"]):
        line = refused(*argv, "--model", "bad.py")
        assert "'bad.py'" in line
        assert said in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "np.exp(-resolved.problem.rate * times)",
            "np.exp(-resolved.problem.rats * times)",
            r"line \d+: AttributeError: .*'rats'",
        ),
        ('{"x": ("time", np.', '{"x": (("time", "y"), np.', r"line \d+: ValueError: "),  # xarray's word
        ("return Run(data, result=data)", "return data", "simulation decay returns a Dataset: return a Run"),
        ("return Run(data, result=data)", 'return Run({"x": 1})', "data of a Run is of type dict"),
    ],
    ids=["run", "data", "no run", "no data"],
)
@pytest.mark.slow_for("data", "no data")
def test_a_simulation_with_a_mistake_costs_one_line(
    old: str, new: str, said: str, command: Callable, tmp_path: Path
) -> None:
    """Of a sweep, too, where a cell fails."""
    assert old in OWN
    (tmp_path / "bad.py").write_text(OWN.replace(old, new))
    ran = command("simulate", "decay", "--model", "bad.py", "--quiet")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert re.search(said, ran.err)
    swept = command("sweep", "decay", "--model", "bad.py", "--over", "rate=1,2", "--workers", "1")
    assert len(re.findall(f"failed: rate=.*{said}", swept.out)) == 2


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ('return str(("end",)) #', "the table of decay returns a str: return a Table"),
        ('return Table(("end", "end"), ', "headers of a table have 'end' twice: give each column a name of its own"),
    ],
)
def test_a_table_with_a_mistake_costs_one_line(new: str, said: str, command: Callable, tmp_path: Path) -> None:
    """What was computed is kept."""
    (tmp_path / "bad.py").write_text(OWN.replace('return Table(("end",), ', new))
    ran = command("simulate", "decay", "--model", "bad.py", "--quiet")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert said in ran.err
    assert len(list(tmp_path.glob("emergence-out/decay-*.nc"))) == 1


def test_a_field_that_is_no_option_and_a_document_that_is_none_cost_one_line(refused: Callable, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(OWN.replace('option(1.0, Number(), "rate of the decay")', "1.0"))
    assert "field rate of its problem has no kind" in refused("predict", "--model", "bad.py")
    (tmp_path / "bad.py").write_text(OWN.replace("return Document(", "return dict([]) and Document("))
    assert "predict of model decay returns a dict" in refused("predict", "--model", "bad.py")


def test_a_model_of_no_name_is_refused_with_the_nearest(refused: Callable) -> None:
    assert "model is 'linaer': did you mean linear?" in refused("predict", "--model", "linaer")


def test_switches_have_both_forms(command: Callable) -> None:
    text = command("simulate", "--model", "linear", "--help").out
    for name, one in options(built_in()["linear"].problem).items():
        assert (f"--no-{written(name)}" in text) is isinstance(one.metadata["kind"], Switch)


def test_a_file_is_run_as_it_stands_and_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it changes within a second and keeps its size, and where Python writes compiled code."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "own.py"
    for number in (1, 2):
        file.write_text(f"NUMBER = {number}\n")
        os.utime(file, (1e9, 1e9))
        assert number == module_of(str(file)).NUMBER
    assert list(tmp_path.iterdir()) == [file]
