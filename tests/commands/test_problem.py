"""The problem as data: defaults, checks, configuration files."""

import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dynamics import online_sgd
from emergence.config import build, load
from emergence.models import quadratic
from emergence.models.additive import MODEL, SGD_BUDGET, resolve, runs_of
from emergence.models.additive import AdditiveProblem as Problem
from emergence.models.run_length import steps_in
from emergence.options import options
from emergence.values import Whole
from theory import InputError
from theory.core.defaults import HORIZON, SAFE_FRACTION

SMALL = Problem(dim=64, teacher_width=2, student_width=6)


def test_defaults_are_the_documented_ones() -> None:
    problem = Problem()
    assert (problem.activation, problem.dim, problem.width, problem.exponent) == ("h4", 1024, 8, 1.0)
    assert (problem.student_width, problem.init_scale, problem.batch, problem.replicas) == (32, 0.03, 1, 32)
    assert (problem.method, problem.seed, problem.normalise, problem.allow_unstable) == ("exact", 0, True, False)
    assert (problem.step_size, problem.steps, problem.time) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("activation", ""),
        ("activation", 4),
        ("dim", 0),
        ("dim", 64.0),
        ("dim", True),
        ("dim", 2**53 + 1),
        pytest.param("dim", 10**5000, id="dim-huge"),
        ("teacher_width", 0),
        ("teacher_exponent", -0.5),
        ("teacher_exponent", math.nan),
        ("teacher_weights", ()),
        ("teacher_weights", (1.0, 0.0)),
        ("teacher_weights", (1.0, math.inf)),
        ("teacher_weights", (1.0, 1e200)),
        ("teacher_weights", (1.0, "2")),
        ("teacher_weights", 1.0),
        ("normalise", 1),
        ("student_width", 2.5),
        ("init_scale", 0.0),
        ("init_scale", -0.03),
        ("init_scale", math.inf),
        ("step_size", 0),
        ("step_size", math.nan),
        ("step_size", "0.1"),
        ("batch", 0),
        ("steps", 0),
        ("steps", 1e6),
        ("time", -1.0),
        ("replicas", 0),
        ("method", "fast"),
        ("seed", -1),
        ("allow_unstable", "yes"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InputError) as refusal:
        Problem(**{name: value})
    message = str(refusal.value)
    assert message.startswith(f"{name.replace('_', '-')} is ")
    assert ": give " in message or ": use " in message
    assert "\n" not in message
    assert len(message) < 250


def test_every_option_refuses_something() -> None:
    for field in fields(Problem):
        with pytest.raises(InputError, match=field.name.replace("_", "-")):
            Problem(**{field.name: object()})


def test_whole_numbers_pass_where_numbers_are_expected() -> None:
    problem = Problem(step_size=1, teacher_weights=[2, 1], init_scale=1)
    assert problem.step_size == 1.0
    assert problem.teacher_weights == (2.0, 1.0)
    assert isinstance(problem.init_scale, float)


def test_weights_exclude_exponent_and_fix_the_width() -> None:
    assert Problem(teacher_weights=(1.0, 0.5, 0.25)).width == 3
    assert Problem(teacher_weights=(1.0, 0.5, 0.25), teacher_width=3).exponent is None
    with pytest.raises(InputError, match="teacher-exponent is 1 and teacher-weights"):
        Problem(teacher_weights=(1.0,), teacher_exponent=1)
    with pytest.raises(InputError, match="teacher-width is 2, but teacher-weights has 3"):
        Problem(teacher_weights=(1.0, 0.5, 0.25), teacher_width=2)


def test_dimension_must_hold_teachers_and_students() -> None:
    assert Problem(dim=40).dim == 40
    with pytest.raises(InputError, match="dim is 39, below teacher width \\+ student width = 40"):
        Problem(dim=39)


def test_steps_and_time_exclude_each_other() -> None:
    with pytest.raises(InputError, match="steps is 3 and time is 2"):
        Problem(steps=3, time=2.0)


# ------------------------------------------------------------------ configuration files


def _toml(tmp_path: Path, text: str) -> str:
    file = tmp_path / "problem.toml"
    file.write_text(text)
    return str(file)


def test_file_keys_take_dashes_and_underscores_and_flags_win(tmp_path: Path) -> None:
    path = _toml(tmp_path, 'activation = "h6"\nteacher-width = 3\nstudent_width = 5\ndim = 100\ninit-scale = 1\n')
    problem = build(MODEL, {"dim": 200}, path)
    assert (problem.activation, problem.width, problem.student_width) == ("h6", 3, 5)
    assert (problem.dim, problem.init_scale) == (200, 1.0)


def test_a_flag_sets_aside_its_rivals_in_the_file(tmp_path: Path) -> None:
    path = _toml(tmp_path, "teacher_exponent = 2\nteacher_width = 3\ntime = 5.0\n")
    problem = build(MODEL, {"teacher_weights": [1.0, 0.5], "steps": 7}, path)
    assert (problem.teacher_weights, problem.width, problem.time, problem.steps) == ((1.0, 0.5), 2, None, 7)
    path = _toml(tmp_path, "teacher_weights = [1, 0.5]\nsteps = 5\n")
    problem = build(MODEL, {"teacher_exponent": 2.0, "time": 3.0}, path)
    assert (problem.exponent, problem.width, problem.time, problem.steps) == (2.0, 8, 3.0, None)


@pytest.mark.parametrize(
    ("text", "read"),
    [("64", 64), ("1e6", 10**6), ("2.5E+3", 2500), ("9007199254740993e0", 2**53 + 1)]
    + [(text, text) for text in ("1.23e1", "1e-3", "4.0", "e3", "1e", "1e999", "-1e3", "1e1000000000")],
)
def test_whole_numbers_of_flags_may_have_a_power_of_ten(text: str, read: object) -> None:
    assert Whole().read(text) == read


def test_rivals_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give one of them"):
        build(MODEL, {}, _toml(tmp_path, "steps = 5\ntime = 5.0\n"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("dimension = 4", "unknown key 'dimension'"),
        ("[problem]\ndim = 64", "unknown key 'problem'"),
        ("dim = 64.0", "dim is 64.0: give a whole number"),
        ("steps = 1e6", "steps is 1000000.0: give a whole number"),
        ("seed = true", "seed is True"),
        ("step_size = nan", "step_size is nan"),
        ("step-size = inf", "step-size is inf"),
        ('init_scale = "0.03"', "init_scale is '0.03'"),
        ("teacher_weights = []", "teacher_weights is []"),
        ("teacher_weights = 1", "teacher_weights is 1: give a list, [1]"),
        ("teacher-weights = 1.0", "teacher-weights is 1.0: give a list, [1.0]"),
        ("teacher-weights = -1.0", "teacher-weights is -1.0: give one or more numbers"),
        ("activation = 4", "activation is 4"),
        ("step_size = 0.1\nstep-size = 0.1", "'step-size' is given twice"),
        ("dim = ", "not a TOML file"),
        ("dim = 1\ndim = 2", "not a TOML file"),
    ],
)
def test_bad_files_are_refused_by_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InputError) as refusal:
        load(_toml(tmp_path, text), Problem)
    assert named in str(refusal.value)
    assert "problem.toml" in str(refusal.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (str(tmp_path / "absent.toml"), str(tmp_path), str(binary), "a\0b"):
        with pytest.raises(InputError, match="config "):
            load(path, Problem)


# --------------------------------------------------------------------- resolved defaults


def test_default_step_size_and_length_follow_from_the_prediction() -> None:
    resolved = resolve(SMALL)
    bound, _ = resolved.prediction.stability_bound(1)
    assert resolved.step_size == pytest.approx(SAFE_FRACTION["overlap-flow"] * bound, rel=1e-12)
    assert resolved.time == pytest.approx(HORIZON * resolved.prediction.last_time, rel=1e-12)
    assert resolved.steps == math.ceil(resolved.time / resolved.step_size)
    assert resolved.warnings == ()


def test_below_exponent_3_the_default_length_is_that_of_all_neurons_and_sgd_has_what_is_affordable_of_it() -> None:
    """One task's last time is a third of it; SGD runs, unless told how long, as long as minutes last if it finds something."""
    problem = Problem(activation="relu", dim=40, teacher_width=2, student_width=4)
    resolved = resolve(problem)
    last = float(max(resolved.times.half.max(), resolved.times.loss.max()))
    assert resolved.time == pytest.approx(HORIZON * last, rel=1e-12)
    assert resolved.time > 1.5 * HORIZON * resolved.prediction.last_time
    assert runs_of(resolved).taken == resolved.steps
    for share, taken in ((0.5, 0.5), (0.01, 1.0)):
        many = resolve(replace(problem, replicas=int(SGD_BUDGET / (share * resolved.steps))))
        runs = runs_of(many)
        assert (runs.steps, runs.taken) == (resolved.steps, pytest.approx(taken * resolved.steps, rel=0.01))
    swept = MODEL.predict.data(resolved)
    assert (swept.time_half.values.tolist(), swept.valid.values.tolist()) == (resolved.times.half.tolist(), [1.0, 1.0])
    told = runs_of(resolve(replace(many.problem, steps=resolved.steps)))
    assert (told.taken, told.budget) == (resolved.steps, None)


@pytest.mark.slow_for("relu", "h1+0.5*h2")
@pytest.mark.parametrize("activation", ["relu", "erf", "h1+0.5*h2"])
def test_the_default_run_of_information_exponent_1_finds_its_direction_and_holds_it(activation: str) -> None:
    """A hundredth of the bound of growth threw 32, 2 and 32 of 32 replicas off."""
    resolved = resolve(Problem(activation=activation, dim=100, teacher_width=1, student_width=1))
    step_size, _, steps = resolved.run_length()
    assert step_size < SAFE_FRACTION["overlap-flow"] * resolved.prediction.stability_bound(1)[0] / 2
    run = online_sgd(*resolved.parts, step_size=step_size, steps=steps, replicas=32, seed=0, saves=2)
    assert not run.diverged.any()
    assert np.median(run.half_steps[:, 0]) * step_size == pytest.approx(resolved.prediction.time_half[0], rel=0.25)


def test_no_batch_takes_the_default_step_beyond_a_hundredth_of_that_of_descent() -> None:
    """4aEσ² = 4a of h4 is the stiffness of the norm, a = 2/√5 the largest weight."""
    resolved = resolve(replace(SMALL, batch=10**8))
    assert resolved.step_size == pytest.approx(0.01 * 2 / (4 * 2 / 5**0.5))
    assert resolved.bound is not None
    assert resolved.bound[0] > 1000


def test_a_step_that_throws_runs_off_what_they_have_found_is_told() -> None:
    assert "held up to 8.559e-05" in resolve(SMALL).headline()
    (said,) = resolve(replace(SMALL, step_size=1e-4)).warnings
    assert said.startswith("step-size 0.0001: rest: from 8.559e-05 on")
    assert resolve(replace(SMALL, step_size=8e-5)).warnings == ()


def test_a_larger_batch_allows_a_larger_step() -> None:
    one, many = resolve(SMALL), resolve(replace(SMALL, batch=10))
    assert many.step_size == pytest.approx(10 * one.step_size, rel=1e-9)


def test_length_converts_between_steps_and_time() -> None:
    by_steps = resolve(replace(SMALL, step_size=1e-6, steps=1000))
    assert by_steps.time == pytest.approx(1e-3)
    by_time = resolve(replace(SMALL, step_size=1e-6, time=1e-3 + 5e-7))
    assert by_time.steps == 1001


@pytest.mark.parametrize(("time", "steps"), [(1.1, 11), (0.7, 7), (2.3, 23), (0.71, 8), (0.01, 1)])
def test_whole_numbers_of_steps_are_whole_but_for_rounding(time: float, steps: int) -> None:
    assert steps_in(time, 0.1) == steps  # (1.1 / 0.1 is more than 11)
    model = quadratic.MODEL
    assert model.resolve(model.problem(step_size=0.1, time=time), None).echo()["steps"] == steps


def test_a_step_size_beyond_the_bound_is_refused_naming_bound_and_direction() -> None:
    large = replace(SMALL, dim=1024)  # (in fewer dimensions runs lose what they have found before)
    bound, direction = resolve(large).bound
    assert resolve(replace(large, step_size=bound)).warnings == ()
    with pytest.raises(InputError) as refusal:
        resolve(replace(large, step_size=1.001 * bound))
    assert f"bound {bound:.4g} set by direction {direction + 1}" in str(refusal.value)
    assert "--allow-unstable (in a file: allow-unstable = true)" in str(refusal.value)
    allowed = resolve(replace(large, step_size=2 * bound, allow_unstable=True))
    assert len(allowed.warnings) == 1
    assert f"{bound:.4g}" in allowed.warnings[0]


def test_echo_has_every_option_and_no_open_default() -> None:
    echo = resolve(SMALL).echo()
    assert set(echo) == set(options(Problem))
    assert {name for name, value in echo.items() if value is None} == {"teacher_weights"}
    assert (echo["teacher_width"], echo["teacher_exponent"]) == (2, 1.0)


def test_nothing_to_learn_leaves_no_default_but_refuses_a_run() -> None:
    # An odd activation learns only from a positive overlap: one neuron and one direction fail for half of all seeds.
    seed = next(s for s in range(50) if not _start(s).prediction.learned.any())
    resolved = _start(seed)
    assert (resolved.step_size, resolved.time, resolved.steps) == (None, None, None)
    with pytest.raises(InputError, match="no direction is predicted to be learned"):
        resolved.run_length()
    given = resolve(replace(resolved.problem, step_size=0.01, steps=10))
    assert given.run_length() == (0.01, pytest.approx(0.1), 10)


def _start(seed: int) -> object:
    return resolve(Problem(activation="h3", dim=16, teacher_width=1, student_width=1, seed=seed))


def test_weights_are_normalised_unless_told_not_to() -> None:
    scaled = resolve(replace(SMALL, teacher_width=None, teacher_weights=(3.0, 4.0)))
    assert scaled.teacher.weights == pytest.approx((0.6, 0.8))
    plain = resolve(replace(SMALL, teacher_width=None, teacher_weights=(3.0, 4.0), normalise=False))
    assert plain.teacher.weights == (3.0, 4.0)


def test_no_model_imports_anything_heavy() -> None:
    heavy = ("numpy", "sympy", "jax", "xarray")
    code = (
        f"import sys; from emergence import models as m; m.built_in(); print([x for x in {heavy} if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("activation", ["h2", "2*h2", "-0.3*h2", "z*z - 1", "(z**2-1)/3", "quadratic"])
def test_a_multiple_of_h2_needs_no_room_for_independent_vectors(activation: str) -> None:
    """Subspaces of d dimensions: P ≤ d and N ≤ d are enough, however the activation is written."""
    problem = quadratic.QuadraticProblem(activation=activation, dim=20, teacher_width=8, student_width=16)
    assert quadratic.resolve(problem).model.teacher.dim == 20
    with pytest.raises(InputError, match="student-width is 21, above dim = 20"):
        replace(problem, student_width=21)


@pytest.mark.parametrize("activation", ["h2+0.01*h3", "z**2", "h4"])
def test_anything_else_does(activation: str) -> None:
    with pytest.raises(InputError, match="teacher width \\+ student width = 24"):
        Problem(activation=activation, dim=20, teacher_width=8, student_width=16)


def test_the_small_step_allowance_holds_what_a_neuron_nearly_as_fast_does() -> None:
    """More than the law of one neuron moves, where the next one is near; nothing where the start is beyond half already."""
    share = MODEL.allowances["small-step"].share
    given = {"activation": "h3", "dim": 16, "teacher_width": 1, "student_width": 8}
    drawn = sorted((resolve(Problem(**given, seed=seed)) for seed in range(40)), key=lambda one: one.prediction.lead[0])
    beyond = []
    for one in (drawn[0], drawn[-1]):
        law, time = one.prediction.sgd_law(0, one.run_length()[0]), float(one.prediction.time_half[0])
        beyond.append(float(share(one)[0]) - abs(law.mean / time - 1))
    assert drawn[0].prediction.lead[0] < 1.03 < 1.5 < drawn[-1].prediction.lead[0]
    assert beyond[0] > 0.02
    assert beyond[1] == pytest.approx(0, abs=1e-3)
    begun = resolve(Problem(activation="h4", dim=4, teacher_width=1, student_width=3, seed=3, step_size=1e-5))
    assert (float(begun.prediction.time_half[0]), float(share(begun)[0])) == (0.0, 0.0)


def test_the_small_step_allowance_of_exponent_2_is_that_of_one_direction() -> None:
    """A racing neuron takes off the mean; two directions have no law."""
    share = MODEL.allowances["small-step"].share
    alone, beside = (
        Problem(activation="h2", dim=40, teacher_width=1, student_width=m, step_size=2e-3, seed=1) for m in (1, 12)
    )
    for problem, least, most in ((alone, 0.0, 1e-9), (beside, 1e-3, 0.3)):
        one = resolve(problem)
        law, time = one.prediction.sgd_law(0, 2e-3), float(one.prediction.time_half[0])
        assert least <= float(share(one)[0]) - abs(law.mean / time - 1) <= most
    with pytest.raises(
        InputError, match="allowance is small-step, but activation 'h1\\+h3' has information exponent 1"
    ):
        share(resolve(Problem(activation="h1+h3", dim=40, teacher_width=2, student_width=4)))
