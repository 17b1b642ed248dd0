"""The declared model on the command line: one problem however it is written, files of one's own, refusals in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from emergence.cells import compute, configuration
from emergence.models.declared import MODEL
from emergence.models.declared_problem import DeclaredProblem, resolve
from theory import InputError
from theory.declared.emergence import BOUND, FITTED, FOUND
from theory.declared.predict import predict
from theory.declared.steps_of_rows import largest_at_rest
from validation.experiments import declared_law
from validation.experiments.declared_law import Problem

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "inputs": "blocks(3x2, 1x40)", "target": "z1 + z1*z2", "directions": "random", "student": "committee",
    "activation": "erf", "student_width": 2, "second": (0.5, -0.5), "train_second": True, "rule": "momentum(0.5)",
    "step_size": "0.01", "batch": 2, "noise": 0.1, "steps": 16, "replicas": 3,
}  # fmt: skip
FLAGS = [
    "--inputs", "blocks(3x2, 1x40)", "--target", "z1 + z1*z2", "--directions", "random", "--student", "committee",
    "--activation", "erf", "--student-width", "2", "--second", "0.5", "-0.5", "--train-second", "--rule", "momentum(0.5)",
    "--step-size", "1e-2", "--batch", "2", "--noise", "0.1", "--steps", "16", "--replicas", "3",
]  # fmt: skip
#: Averaged momentum, which gains nothing.
MEAN = "momentum(0.9, kind=average)"
TINY = ["--inputs", "16", "--student-width", "2", "--steps", "4", "--replicas", "2", "--quiet"]


def test_one_problem_on_the_command_line_in_a_file_and_in_python(run: Callable, tmp_path: Path) -> None:
    code, document, err = run("simulate", "declared-sgd", *FLAGS, "--quiet")
    assert code == 0, err
    lines = [f"{name} = {json.dumps(value)}" for name, value in SMALL.items() if name != "step_size"]
    Path("p.toml").write_text("\n".join(['model = "declared"', "step-size = 0.01", *lines]))
    assert run("simulate", "declared-sgd", "--config", "p.toml", "--quiet")[1] == document
    simulation = MODEL.simulation("declared-sgd")
    made = simulation.run(MODEL.resolve(DeclaredProblem(**SMALL), simulation), None, None).data
    data = xr.load_dataset(document["file"], engine="h5netcdf")
    assert data.overlap.dims == ("replica", "time", "eigenspace", "neuron", "direction")
    assert set(data) == {*simulation.variables} - {"train_loss"}  # (which is of a data set)
    for name in data:
        np.testing.assert_array_equal(data[name].values, made[name].values)


def test_the_table_shows_lengths_cosines_and_the_second_layer(command: Callable) -> None:
    ran = command("simulate", "declared-sgd", *FLAGS, "--quiet")
    rows = [line.split() for line in ran.out.splitlines() if line and line.split()[0] in ("0", "16")]
    assert ran.out.count("max |cos| 2") == 1
    assert [row[0] for row in rows] == ["0", "16"]
    assert float(rows[0][2]) == pytest.approx(0.3)


def _echo(**given: object) -> dict[str, object]:
    return MODEL.resolve(DeclaredProblem(**given), None).echo()


def test_a_file_of_ones_own_decides_the_result_by_its_content(run: Callable, tmp_path: Path) -> None:
    files = {"rule": "clipped_sgd.py", "inputs": "spiked_inputs.py"}
    for name in files.values():
        Path(name).write_text((EXAMPLES / name).read_text())
    flags = ["--rule", files["rule"], "--inputs", files["inputs"], "--student-width", "2", "--steps", "4"]
    code, document, err = run("simulate", "declared-sgd", *flags, "--replicas", "2", "--quiet")
    assert code == 0, err
    problem = document["problem"]
    assert Path(problem["rule"].split("@")[0]) == tmp_path.resolve() / "clipped_sgd.py"
    assert xr.load_dataset(document["file"], engine="h5netcdf").sizes["eigenspace"] == 8
    asked = DeclaredProblem(**files, student_width=2, steps=4, replicas=2)
    cell = configuration(MODEL, "declared-sgd", asked)
    assert compute(cell)
    assert (problem["rule"], problem["inputs"]) == (cell["problem"]["rule"], cell["problem"]["inputs"])
    Path("clipped_sgd.py").write_text((EXAMPLES / "clipped_sgd.py").read_text() + "\n# another\n")
    assert _echo(rule="clipped_sgd.py")["rule"] != problem["rule"]
    with pytest.raises(InputError, match="has changed"):
        compute(cell)


def test_what_is_given_wins_over_the_rule_of_a_file(tmp_path: Path) -> None:
    mine = str(tmp_path / "mine.py")
    Path(mine).write_text("from theory.declared.rule import Momentum\nRULE = Momentum(0.25, batch=3, beta=0.5)\n")
    found = _echo(rule=mine, decay=0.1)
    assert [found[name] for name in ("step_size", "batch", "decay")] == [0.25, 3, 0.1]
    found = _echo(rule=mine, batch=1, step_size="power(0.1, 0.5)")
    assert [found[name] for name in ("batch", "step_size")] == [1, "power(0.1, 0.5)"]


def test_the_length_of_a_schedule(run: Callable) -> None:
    asked = [x for x in TINY if x not in ("--steps", "4")]
    document = run("simulate", "declared-sgd", *asked, "--step-size", "linear(0.001, 0, 100)", "--time", "0.03")[1]
    assert (document["problem"]["time"], "steps" in document["problem"]) == (0.03, False)
    assert document["decided"]["steps"] == 37  # Σ_{j<n} η(1 − j/N) ≥ 0.03
    data = xr.load_dataset(document["file"], engine="h5netcdf")
    assert data.time.values[-1] == pytest.approx(sum(0.001 * (1 - n / 100) for n in range(37)))


def test_a_rule_of_coordinates_runs_in_coordinates(run: Callable) -> None:
    code, document, _ = run("simulate", "declared-sgd", *TINY, "--rule", "adam", "--method", "ambient")
    assert (code, document["problem"]["rule"]) == (0, "adam")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--inputs", "blocks(3x6, -1x14)"], "eigenvalue is -1.0"),
        (["--inputs", "missing.py"], "file 'missing.py' is not there"),
        (["--inputs", "bad.py"], "has no INPUTS"),
        (["--rule", "adam"], "run it with method = ambient"),
        (["--rule", "momentum(1)"], "give 0 ≤ beta < 1"),
        (["--rule", "alternating"], "which makes it plain SGD: take a committee and add --train-second, or use sgd"),
        (["--rule", "alternating(1)", "--student", "committee"], "plain SGD: add --train-second, or use sgd"),
        (["--rule", "bad.py(0.5)"], "set its fields there, such as RULE = MyOwn(0.5), and name bad.py alone"),
        (["--inputs", "bad.py()"], "inputs is 'bad.py()': a file takes no arguments in brackets"),
        (["--rule", "bad.py"], "RULE of 'bad.py' is a int: give a frozen dataclass that derives from Rule"),
        (["--rule", "broken.py"], "its step raises AttributeError: 'Here' object has no attribute 'row': mend it"),
        (["--rule", "sign.py"], "method = ambient"),
        (["--step-size", "linear(0.1, 0, 100)", "--steps", "200"], "ends after 100: run 100 steps, or extend it"),
        (["--step-size", "linear(0.1, 0, 10)", "--time", "9"], "step sizes sum to 0.55 in 10 steps"),
        (["--step-size", "-1"], "step_size is -1.0"),
        (["--steps", "3", "--time", "1"], "give one of them"),
        (
            ["--target", "z1*z4", "--teacher-width", "2"],
            "teacher-width is given, but target is 'z1*z4': leave it out, or give target = additive",
        ),
        (["--target", "z1/z2"], "it is no polynomial"),
        (["--directions", "eigenvectors(0, 0)"], "stands twice"),
        (["--rows", "sphere"], "rows is given, but student is homogeneous: leave it out, or give student = committee"),
        (["--student", "committee", "--second", "1", "1"], "give 1, or 8"),
        (["--renewed"], "renewed is given, but every sample is fresh (samples is 0): leave it out, or give samples"),
        (["--samples", "4", "--batch", "5"], "batch is 5, but the data set has 4 samples"),
        (
            ["--samples", "4", "--noise", "1", "--noise-period", "2"],
            "noise is drawn with the data set: give renewed=True",
        ),
        (["--noise", "2", "--noise-law", "flips"], "labels flip with this probability; give 0 to 1"),
        (
            ["--noise-law", "signs"],
            "noise-law is given, but labels have no noise (noise is not given): leave it out, or give",
        ),
        (["--noise-period", "3"], "noise-period is given, but labels have no noise"),
        (["--samples", "9", "--renewed"], "renewed is given, but labels have no noise (noise is not given)"),
        (
            ["--student", "committee", "--rows", "sphere", "--start-scale", "0.5"],
            "start-scale is 0.5, but rows is sphere, and these have length 1: leave it out, or give rows = free",
        ),
        (["--target", "sign(z1"], "target 'sign(z1' is not understood"),
        (["--second", "x"], "give one or more finite numbers"),
        (["--teacher-weights", "1", "-1", "--teacher-width", "3"], "leave teacher-width out"),
        (
            ["--teacher-weights", "1", "0"],
            "teacher-weights is [1.0, 0.0]: give one or more finite numbers, each of size",
        ),
    ],
)
def test_a_bad_declaration_costs_one_line_and_no_file(flags: list[str], said: str, refused: Callable) -> None:
    step = "    def step(self, at):\n        return self.along(at, {})\n"
    head = "from dataclasses import dataclass\nfrom theory.declared.rule import Rule\n"
    head += "@dataclass(frozen=True)\nclass R(Rule):\n"
    Path("bad.py").write_text("RULE = 3\n")
    Path("broken.py").write_text(head + step.format("at.gradient(at.row, at.second)") + "RULE = R\n")
    Path("sign.py").write_text(
        head + "    def step(self, at):\n        g = at.gradient(at.rows, at.second)\n"
        "        return self.along(at, type(g)(g.rows.elementwise(abs), g.second))\nRULE = R\n"
    )
    assert said in refused("simulate", "declared-sgd", *flags)


@pytest.mark.parametrize(
    ("order", "batch", "said"), [("random", 9, True), ("random", 3, False), ("replacement", 9, False)]
)
def test_an_order_that_changes_nothing_is_said(order: str, batch: int, said: bool) -> None:
    """Of batches that are the whole set."""
    found = resolve(DeclaredProblem(samples=9, batch=batch, order=order)).warnings
    assert any("all of the samples" in line for line in found) is said


def test_one_dimension_has_one_direction_and_all_rows_on_it(run: Callable) -> None:
    flags = ["--inputs", "1", "--teacher-width", "1", "--student-width", "2", "--replicas", "2", "--steps", "4"]
    code, document, err = run("simulate", "declared-sgd", *flags, "--quiet")
    assert code == 0, err
    data = xr.load_dataset(document["file"], engine="h5netcdf")
    np.testing.assert_allclose(data.overlap.values[..., 0] ** 2, np.einsum("rtikk->rtik", data.gram.values))


# --------------------------------------------------------------------------------- check-law


def test_check_law_judges_a_rule_and_says_so(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem in place of five."""
    chosen = Problem("own", "committee", "isotropic", "3 a step, one by one", "additive")
    monkeypatch.setattr(declared_law, "design", lambda *_: [chosen])
    code, document, _ = run("check-law", str(EXAMPLES / "clipped_sgd.py"), "--replicas", "5000", "--quiet")
    assert (code, document["law"]) == (0, "agrees")
    (problem,) = document["problems"]
    assert problem["mistake_p"] < 1e-6 < problem["p"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clipped_sgd.py", "spiked_inputs.py"])
def test_check_law_of_the_examples(name: str, run: Callable) -> None:
    code, document, _ = run("check-law", str(EXAMPLES / name), "--quiet")
    assert (code, document["law"]) == (0, "agrees")
    assert {problem["student"] for problem in document["problems"]} == set(declared_law.STUDENTS)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("adam", "method = ambient"),
        ("sdg", "did you mean sgd?"),
        ("none.py", "has neither RULE nor INPUTS"),
        ("missing.py", "is not there"),
    ],
)
def test_check_law_refuses_in_one_line(what: str, said: str, refused: Callable) -> None:
    Path("none.py").write_text("x = 1\n")
    assert said in refused("check-law", what)
    assert "--replicas is 3: give a whole number, 100 or more" in refused("check-law", what, "--replicas", "3")


@pytest.mark.slow_for("tanh-True", "elu-True", "tanh(30*z)+sin(z)-False")
@pytest.mark.parametrize(
    ("activation", "known"), [("erf", True), ("tanh", True), ("elu", True), ("tanh(30*z)+sin(z)", False)]
)
def test_sgd_shows_the_population_loss_where_it_is_known(activation: str, known: bool, run: Callable) -> None:
    """At the start it is the flow's."""
    given = [
        "--inputs",
        "40",
        "--activation",
        activation,
        "--student",
        "committee",
        "--student-width",
        "2",
        "--steps",
        "4",
    ]
    code, document, _ = run("simulate", "declared-sgd", *given, "--replicas", "2")
    assert code == 0
    found = xr.load_dataset(document["file"], engine="h5netcdf").loss.values
    assert np.all(np.isfinite(found) == known)
    if known:
        _, flow, _ = run("simulate", "declared-flow", *given)
        begins = xr.load_dataset(flow["file"], engine="h5netcdf").loss.values[0]
        np.testing.assert_allclose(found[:, 0], begins, rtol=1e-12)


@pytest.mark.slow_for("128")
@pytest.mark.parametrize("inputs", ["128", pytest.param("spiked(512, 5)", marks=pytest.mark.slow)])
def test_the_default_step_counts_the_gain_of_momentum(run: Callable, inputs: str) -> None:
    sizes = {rule: _echo(inputs=inputs, rule=rule)["step_size"] for rule in ("sgd", "momentum(0.9)", MEAN)}
    assert sizes["momentum(0.9)"] == pytest.approx(0.1 * sizes["sgd"], rel=0.02)  # two digits of it
    assert sizes[MEAN] == pytest.approx(sizes["sgd"])
    flags = ["--inputs", inputs, "--rule", "momentum(0.9)", "--steps", "2000", "--replicas", "4", "--quiet"]
    code, document, err = run("simulate", "declared-sgd", *flags)
    assert code == 0, err
    assert not xr.load_dataset(document["file"], engine="h5netcdf").diverged.values.any()


def test_a_table_of_nothing_names_the_step_size(command: Callable) -> None:
    ran = command("simulate", "declared-sgd", *TINY, "--step-size", "1e6")
    assert ran.code == 1
    assert "every replica diverged: give a step size below 1000000.0\n" in ran.out
    ran = command("simulate", "declared-sgd", *TINY, "--rule", "ahead(1e6)", "--step-size", "1")
    assert "every replica diverged: give a step size below 1.0, or less than rule ahead(1e6)\n" in ran.out


@pytest.mark.slow
def test_a_run_is_long_enough_for_what_theory_expects() -> None:
    """By default: past the last direction, in steps well below the largest; as long as always where no time is known."""
    given = {"inputs": "64", "activation": "h3", "student_width": 4, "teacher_width": 2}
    resolved = resolve(DeclaredProblem(**given))
    known = predict(resolved.model, resolved.start)
    fitted = [x.value for x in known.of_quantity(FITTED) if np.isfinite(x.value)]
    assert max(fitted) < resolved.time < 1.3 * max(fitted)
    (largest,) = known.of_quantity(BOUND)
    most = min(largest.value / 8, largest_at_rest(resolved.model) / 4)
    assert resolved.model.rule.step_size == pytest.approx(most, rel=0.05)  # (rounded to two digits)
    for more in (
        {"rule": "muon(0.5)"},
        {"samples": 100},
        {"step_size": "power(0.01, 0.5)"},
    ):
        assert resolve(DeclaredProblem(**given, **more)).steps == 10_000
    sphere = resolve(DeclaredProblem(**given, student="committee", rows="sphere"))
    found = [x.value for x in predict(sphere.model, sphere.start).of_quantity(FOUND)]
    assert max(found) < sphere.time < 1.3 * max(found)
    assert sphere.steps > 10_000
    assert resolve(DeclaredProblem(**given, step_size="1e-9")).steps == 10**6
    assert resolve(DeclaredProblem(**given, steps=50)).steps == 50


@pytest.mark.parametrize(("last", "steps"), [("0, 100", 100), ("0, 30000", 30_000), ("0, 2000000", 10**6)])
def test_a_schedule_that_ends_is_run_until_then(last: str, steps: int) -> None:
    """Nobody who gave no steps has asked for more of them than there are, or for a part of the schedule."""
    assert resolve(DeclaredProblem(inputs="20", step_size=f"linear(1e-4, {last})")).steps == steps


def test_runs_that_end_by_the_most_steps_before_anything_is_found_are_told() -> None:
    (simulation,) = [one for one in MODEL.simulations if one.name == "declared-sgd"]
    resolved = resolve(DeclaredProblem(inputs="blocks(3x6, 1x300)"), simulation)
    assert resolved.steps == 10**6
    (said,) = resolved.warnings
    assert said.startswith("runs end after 1,000,000 steps, the most by default; the last direction takes 7e+06")
    short = resolve(DeclaredProblem(inputs="16"), simulation)
    assert (short.steps < 10**5, short.warnings) == (True, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("far", "near", "name"),
    [
        ("sam(0.1)", "sam(0.01)", "radius"),
        ("ahead(0.1)", "ahead(0.00001)", "ahead"),
    ],
)
def test_a_rule_that_looks_too_far_ahead_is_told_before_the_run(run, far, near, name):
    """At the default step size, which is an eighth of the largest of SGD, not the usual one of rules without a bound."""
    options = ["--steps", "2000", "--replicas", "4"]
    code, document, err = run("simulate", "declared-sgd", "--rule", far, *options)
    assert f"{name} of the rule is 0.1, beyond" in err
    sizes = []
    for rule in (near, "sgd"):
        code, document, err = run("simulate", "declared-sgd", "--rule", rule, *options)
        assert (code, "of the rule is" in err, "diverged" in err) == (0, False, False)
        sizes.append(document["problem"]["step_size"])
    assert sizes[0] == sizes[1]
