"""No option is accepted that does nothing: every command of every model with every option, one by one.

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
from dynamics import networks
from dynamics.baselines import kernel_ridge, layer_wise, toy_flow
from dynamics.declared import flow as declared_flow
from dynamics.declared import simulate as declared_sgd
from dynamics.quadratic import riccati_data
from emergence.cli import main
from emergence.model import Model, Simulation
from emergence.models import built_in
from emergence.options import kind, options, written
from emergence.values import MANY, Switch
from theory import InputError
from validation.comparisons import additive, declared, linear, quadratic

MODELS = built_in()
OPTIONS = {name: model for model in MODELS.values() for name in options(model.problem)}
#: What the problems of a model have in common here, beside its defaults.
_SMALL: dict[str, dict[str, Any]] = {
    "additive": {"dim": 64, "teacher_width": 2, "student_width": 6},
    "quadratic": {"dim": 64, "teacher_width": 2, "student_width": 6},
    "linear": {"dim": 5, "student_width": 10, "train_size": 20},
    "declared": {"inputs": "spiked(64, 5)", "student": "committee", "student_width": 6},
}
#: The same for one command alone.
_ALSO = {
    # (Lengths are given where the default is that of a flow, seconds of every option.)
    "compare": {"activation": "h3"},
    "compare --model declared": {"steps": 9},
    "declared-sgd": {"samples": 12},
    "declared-flow": {"noise": 0.25, "noise_law": "flips", "time": 4.0},
    "predict --model declared": {"inputs": 8, "student_width": 1, "start_scale": 1.0, "noise": 0.5},
    **{what: {"steps": 5} for what in ("compare --model linear", "label-noise", "oscillation", "sam")},
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
    "blocks": ("3",), "inputs": ("spiked(65, 3)",), "target": ("z1 + z1*z2",), "link": ("h3",), "directions": ("random(2)",),
    "student": ("homogeneous",), "second": ("-0.5",), "train_second": ("true",), "rows": ("sphere",), "loss": ("correlation",),
    "rule": ("momentum(0.5)",), "order": ("random",), "renewed": ("true",), "decay": ("0.1",), "start_scale": ("0.2",),
    "noise_law": ("signs",),
}  # fmt: skip
#: Activations that a model, or a simulation, takes beside its default.
_ACTIVATIONS = {"quadratic": "2*h2", "layer-wise": "h4"}
_HANDED = {
    dynamics: (
        *("gradient_flow", "finite_step_flow", "online_sgd", "sde_ensemble", "stiefel_sgd", "label_noise_sgd"),
        *("oscillation", "sam", "retiring_flow", "gradient_descent"),
    ),
    riccati_data: ("riccati_dataset",),
    layer_wise: ("layer_wise_sgd",),
    kernel_ridge: ("kernel_ridge",),
    toy_flow: ("toy_flow",),
    declared_sgd: ("declared_sgd",),
    declared_flow: ("declared_flow",),
    declared: ("declared_case",),
    additive: ("additive_case",),
    quadratic: ("quadratic_case",),
    linear: ("linear_case",),
    networks: ("lazy_rich", "compare_algorithms"),
}
#: What does not change a result.
_ASIDE = ("progress", "folder")


class _Stop(Exception):
    """A simulator was reached."""


class Images(str):
    """Stands for images: the name they are loaded by, and what a cost asks of them."""

    shape, classes, train = (8, 8, 1), range(10), range(100)


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Filled with what a simulator is handed; a simulator that is handed to a comparison is asked for it at once."""
    found: list[str] = []

    def spy(name: str) -> Callable[..., None]:
        def stand_in(*given: Any, **named: Any) -> None:
            found.append(name + _shown(given) + _shown({k: v for k, v in named.items() if k not in _ASIDE}))
            for simulate in filter(callable, given):
                simulate(None, None)
            raise _Stop

        return stand_in

    for module, names in _HANDED.items():
        for name in names:
            monkeypatch.setattr(module, name, spy(name))
    monkeypatch.setattr(networks, "load_images", Images)
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
    return "" if callable(value) else repr(value)


#: Name of the command, its words, its model, and the options that its record says it uses.
_COMMANDS: dict[str, tuple[Model, frozenset[str]]] = {
    **{f"predict{m.flag}": (m, m.predict.uses) for m in MODELS.values() if m.predict is not None},
    **{f"compare{m.flag}": (m, m.compare.uses) for m in MODELS.values() if m.compare is not None},
    **{f"simulate {one.name}": (m, one.uses) for m in MODELS.values() for one in m.simulations},
}


def _flags(model: Model, name: str, texts: tuple[str, ...]) -> list[str]:
    if isinstance(kind(model.problem, name), Switch):
        return [f"--{'no-' if texts == ('false',) else ''}{written(name)}"]
    return [f"--{written(name)}", *texts]


def _argv(command: str) -> list[str]:
    model, _ = _COMMANDS[command]
    small = _SMALL.get(model.name, {}) | _ALSO.get(command.removeprefix("simulate "), {})
    flags = [text for name, value in small.items() for text in _flags(model, name, (str(value),))]
    return [*command.split(), *flags, "--json"]


def _changed(model: Model, name: str) -> tuple[str, ...]:
    """The texts of another value of an option."""
    if name == "activation" and model.name in _ACTIVATIONS:
        return (_ACTIVATIONS[model.name],)
    if isinstance(kind(model.problem, name), Switch):
        return (str(not options(model.problem)[name].default).lower(),)
    return _VALUES[name]


def _before(uses: frozenset[str], name: str) -> dict[str, str]:
    """What an option is compared with: a switch for what is too large needs that, what noise is like noise, a period
    noise that is drawn anew."""
    if name == "allow_unstable" and name in uses:
        return {"step_size": "30"}
    if name in ("noise_law", "noise_period", "renewed") and "noise_law" in uses:
        drawn_anew = {"renewed": "true"} if name == "noise_period" and "renewed" in uses else {}
        return {"noise": "0.75"} | drawn_anew
    return {"step_size": "1e-4"} if name == "steps" and {"steps", "step_size"} <= uses else {}


def _result(argv: list[str], handed: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a simulator is handed, or the document without the problem that it repeats and its length, or the refusal."""
    handed.clear()
    code = main(argv)
    shown = capsys.readouterr()
    if code == 0:
        repeated = ("problem", "decided")
        return json.dumps({name: value for name, value in json.loads(shown.out).items() if name not in repeated})
    assert code == 2 or handed, (argv, shown.err)
    return "".join(handed) or shown.err


def _other_names(model: Model, uses: frozenset[str]) -> frozenset[str]:
    """Options of other models whose names are other names of options that are used."""
    also = [one.metadata["also"] for name, one in options(model.problem).items() if name in uses]
    return frozenset(one.split()[0] for one in also if one) & frozenset(OPTIONS)


@pytest.mark.slow_for(
    "simulate sde",
    "simulate retiring-flow",
    "simulate gradient-descent",
    "compare",
    "simulate finite-step",
    "predict --model declared",
    "compare --model linear",
    "simulate declared-sgd",
    "simulate label-noise",
    "predict",
)
@pytest.mark.parametrize("command", _COMMANDS)
def test_an_option_changes_something_or_is_refused(
    command: str, handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, uses = _COMMANDS[command]
    uses |= _other_names(model, uses)
    plain = _result(_argv(command), handed, capsys)
    assert plain == _result(_argv(command), handed, capsys)
    for name, whose in OPTIONS.items():
        own = model if name in options(model.problem) else whose
        before = [text for one, value in _before(uses, name).items() for text in _flags(model, one, (value,))]
        argv = [*_argv(command), *before]
        changed = _result([*argv, *_flags(own, name, _changed(own, name))], handed, capsys)
        if name in uses:
            assert changed != (_result(argv, handed, capsys) if before else plain), name
            assert "is given, but" not in changed, name
        else:
            line = f"emergence: error: --{written(name)} is given, but {command} does not use it ("
            assert changed.startswith(line), (name, changed)
            assert changed.count("\n") == 1


def test_whatever_no_command_uses_is_no_option() -> None:
    assert {name for _, uses in _COMMANDS.values() for name in uses} == set(OPTIONS)


_CELLS = [(model, one) for model in MODELS.values() for one in model.cells]


def _cell(model: Model, simulation: Simulation, values: dict[str, Any], handed: list[str]) -> str:
    """What the simulator of a cell is handed, or its predictions, or why it is refused."""
    handed.clear()
    try:
        resolved = model.resolve(model.problem(**values), simulation)
        simulation.requires(resolved)
        data = simulation.run(resolved, None, None).data
    except _Stop:
        return "".join(handed)
    except InputError as refusal:
        return str(refusal)
    return "".join(_shown([str(name), *data[name].dims, data[name].values]) for name in data.variables)


def _value(model: Model, name: str, texts: tuple[str, ...]) -> Any:
    own = kind(model.problem, name)
    if isinstance(own, Switch):
        return texts == ("true",)
    return own.check(name, [own.read(text) for text in texts] if isinstance(own, MANY) else own.read(texts[0]))


@pytest.mark.slow_for(
    "additive-finite-step",
    "additive-sde",
    "additive-gradient-descent",
    "additive-retiring-flow",
    "declared-predict",
    "linear-label-noise",
)
@pytest.mark.parametrize(("model", "simulation"), _CELLS, ids=lambda one: one.name)
def test_what_a_sweep_varies_changes_its_cells(
    model: Model, simulation: Simulation, handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"predict{model.flag}" if simulation.name == "predict" else simulation.name
    small = _SMALL.get(model.name, {}) | _ALSO.get(command, {})
    plain = _cell(model, simulation, small, handed)
    assert plain == _cell(model, simulation, small, handed)
    for name in options(model.problem):
        texts = _changed(model, name)
        if name in simulation.uses:
            first = {one: _value(model, one, (text,)) for one, text in _before(simulation.uses, name).items()}
            after = small | first | {name: _value(model, name, texts)}
            before = _cell(model, simulation, small | first, handed) if first else plain
            assert _cell(model, simulation, after, handed) != before, name
        else:
            line = f"{written(name)} is given, but sweep {simulation.name} does not use it"
            argv = ["sweep", simulation.name, "--model", model.name]
            assert main([*argv, "--over", "seed=0:2", *_flags(model, name, texts)]) == 2
            assert line in capsys.readouterr().err
            if not isinstance(kind(model.problem, name), MANY):
                assert main([*argv, "--over", f"{name}={','.join(texts)}"]) == 2
                assert f"--over {line}" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_a_file_may_say_more_of_a_problem_than_a_command_uses(
    handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.toml").write_text("dim = 64\nteacher_width = 2\nstudent_width = 6\nreplicas = 3\nmethod = 'ambient'\n")
    assert main(["predict", "--config", "p.toml"]) == 0
    main(["simulate", "gradient-flow", "--config", "p.toml"])
    assert handed[0].startswith("gradient_flow")
