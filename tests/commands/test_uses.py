"""No option is accepted that does nothing: every command with every option of a problem, one by one.

Simulators are replaced by ones that keep what they are handed, so that nothing is simulated.
"""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynamics
import validation
from dynamics import networks
from dynamics.baselines import kernel_ridge, layer_wise, toy_flow
from dynamics.quadratic import riccati_data
from emergence.cells import CELLS, problem_of
from emergence.cli import main
from emergence.uses import OPTIONS, USES

_SMALL = ("--dim", "64", "--teacher-width", "2", "--student-width", "6")
_LINEAR = ("--dim", "5", "--student-width", "10", "--train-size", "20")
#: Command line of each command, beside those that are the command's own name.
_GIVEN: dict[str, tuple[str, ...]] = {
    "predict": _SMALL,
    "predict of quadratic": ("--activation", "h2", *_SMALL),
    "compare": ("--activation", "h3", *_SMALL),
    "predict --model linear": _LINEAR,
    "compare --model linear": (*_LINEAR, "--steps", "5"),
    **{f"simulate {what}": _SMALL for what in ("gradient-flow", "finite-step", "online-sgd", "sde")},
    **{f"simulate {what}": _SMALL for what in ("riccati", "stiefel-sgd")},
    **{f"simulate {what}": (*_LINEAR, "--steps", "5") for what in ("label-noise", "oscillation", "sam")},
}
#: A value that differs from the default, and from those above.
_VALUES: dict[str, tuple[str, ...]] = {
    "activation": ("h6",), "dim": ("65",), "teacher_width": ("3",), "teacher_exponent": ("0.5",),
    "teacher_weights": ("1", "0.3"), "student_width": ("7",), "init_scale": ("0.05",), "speed_factor": ("0.5",),
    "step_size": ("1e-4",), "batch": ("2",), "steps": ("7",), "time": ("5",), "replicas": ("5",), "method": ("ambient",),
    "seed": ("1",), "target_norm": ("2",), "train_size": ("30",), "noise": ("1",), "label_flip": ("0.1",),
    "noise_period": ("3",), "sam_radius": ("0.1",), "kernel": ("h3",), "ridge": ("0.01",), "samples": ("20",),
    "exponents": ("2",), "starts": ("0.02",), "goal": ("2",), "data": ("here",), "images": ("16",), "hidden": ("32",),
    "flip_probability": ("0.3",), "replacement": ("other",), "radius": ("0.1",), "epochs": ("3",), "widths": ("4",),
    "blocks": ("3",),
}  # fmt: skip
_SWITCHES = {name: f"--{name.replace('_', '-')}" for name in OPTIONS - set(_VALUES)} | {"normalise": "--no-normalise"}
_HANDED = {
    dynamics: ("gradient_flow", "finite_step_flow", "online_sgd", "sde_ensemble", "stiefel_sgd", "label_noise_sgd"),
    riccati_data: ("riccati_dataset",),
    layer_wise: ("layer_wise_sgd",),
    kernel_ridge: ("kernel_ridge",),
    toy_flow: ("toy_flow",),
    validation: ("compare", "compare_quadratic"),
    networks: ("lazy_rich", "compare_algorithms"),
}
#: What does not change a result, or repeats the problem as it was given.
_ASIDE = ("progress", "problem", "out", "folder")


class _Stop(Exception):
    """A simulator was reached."""


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Filled with what a simulator is handed."""
    found: list[str] = []

    def spy(name: str) -> Callable[..., None]:
        def stand_in(*given: Any, **named: Any) -> None:
            found.append(name + _shown(given) + _shown({k: v for k, v in named.items() if k not in _ASIDE}))
            raise _Stop

        return stand_in

    for module, names in _HANDED.items():
        for name in names:
            monkeypatch.setattr(module, name, spy(name))
    for name in ("oscillation", "sam", "retiring_flow", "gradient_descent"):
        monkeypatch.setattr(dynamics, name, spy(name))
    monkeypatch.setattr(networks, "load_images", lambda data: data)
    monkeypatch.chdir(tmp_path)
    return found


def _shown(value: Any) -> str:
    """All of a value as text, equal for equal values."""
    if isinstance(value, np.ndarray):
        return f"{value.shape}{value.tobytes().hex()}"
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + _shown({f.name: getattr(value, f.name) for f in fields(value)})
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value)


def _flags(name: str) -> tuple[str, ...]:
    return (_SWITCHES[name],) if name in _SWITCHES else (f"--{name.replace('_', '-')}", *_VALUES[name])


def _argv(command: str) -> list[str]:
    return [*command.replace(" of quadratic", "").split(), *_GIVEN.get(command, ()), "--json"]


def _result(argv: list[str], handed: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a simulator is handed, or the document without the problem that it repeats, or the refusal."""
    handed.clear()
    code = main(argv)
    shown = capsys.readouterr()
    if code == 0:
        return json.dumps({name: value for name, value in json.loads(shown.out).items() if name != "problem"})
    assert code == 2 or handed, (argv, shown.err)
    return handed[0] if handed else shown.err


def _before(command: str, name: str) -> list[str]:
    """What an option is compared with: switches for what is too large need something too large."""
    if name == "allow_unstable" and name in USES[command]:
        return ["--step-size", "30"]
    return ["--step-size", "1e-4"] if name == "steps" and "steps" in USES[command] else []


@pytest.mark.parametrize("command", [name for name in USES if not name.startswith("sweep")])
def test_an_option_changes_something_or_is_refused(
    command: str, handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _result(_argv(command), handed, capsys) == _result(_argv(command), handed, capsys)
    for name in sorted(OPTIONS):
        argv = [*_argv(command), *_before(command, name)]
        option = "--" + name.replace("_", "-")
        changed = _result([*argv, *_change(command, name)], handed, capsys)
        if name in USES[command]:
            assert changed != _result(argv, handed, capsys), name
            assert "is given, but" not in changed, name
        else:
            known = f"emergence: error: {option} is given, but {command} does not use it ("
            assert changed.startswith((known, "emergence: error: unrecognized arguments: ")), (name, changed)
            assert changed.count("\n") == 1


def _change(command: str, name: str) -> tuple[str, ...]:
    """The option with another value that the command can use."""
    if name == "activation" and command in ("predict of quadratic", "simulate riccati", "simulate stiefel-sgd"):
        return ("--activation", "2*h2")
    if name == "activation" and command == "simulate layer-wise":
        return ("--activation", "h4")
    return _flags(name)


@pytest.mark.parametrize("what", ["gradient-flow", "retiring-flow", "gradient-descent", "stiefel-sgd"])
def test_what_a_sweep_varies_changes_its_cells(
    what: str, handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"dim": 64, "teacher_width": 2, "student_width": 6}
    others = {"dim": 65, "seed": 1, "init_scale": 0.05, "batch": 2, "step_size": 1e-4, "time": 5.0, "replicas": 2,
              "student_width": 7, "normalise": False, "method": "ambient", "speed_factor": 0.5}  # fmt: skip

    def cell(**given: Any) -> str:
        handed.clear()
        with pytest.raises(_Stop):
            CELLS[what].run(problem_of(what, small | given))
        return handed[0]

    for name, value in others.items():
        if name in USES[f"sweep {what}"]:
            assert cell(**{name: value}) != cell(), name
        else:
            text = str(value).lower()
            assert main(["sweep", what, "--over", f"{name}={text}"]) == 2
            assert f"--over {name.replace('_', '-')} is given, but sweep {what} does not use" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_a_file_may_say_more_of_a_problem_than_a_command_uses(
    handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.toml").write_text("dim = 64\nteacher_width = 2\nstudent_width = 6\nreplicas = 3\nmethod = 'ambient'\n")
    assert main(["predict", "--config", "p.toml"]) == 0
    main(["simulate", "gradient-flow", "--config", "p.toml"])
    assert handed[0].startswith("gradient_flow")
