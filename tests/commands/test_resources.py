"""A run that does not fit into memory, or cannot end soon, is known before it begins; and nobody waits without a word."""

import io
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theory
from emergence import cells, resources
from emergence.model import Model, Simulation
from emergence.models import built_in
from emergence.options import options
from emergence.patience import Patience
from emergence.progress import Progress
from theory import InputError

RUNS = [(model, one) for model in built_in().values() for one in model.simulations]
SMALL = {
    "dim": 64, "teacher_width": 2, "student_width": 4, "replicas": 2, "steps": 10, "step_size": 1e-6, "images": 16,
    "hidden": 8, "epochs": 1, "inputs": "64", "samples": None, "linearised": True,
}  # fmt: skip


def _resolved(model: Model, one: Simulation, **more: Any) -> Any:
    known = {name: value for name, value in {**SMALL, **more}.items() if name in options(model.problem)}
    known |= {"step_size": str(known["step_size"])} if model.name == "declared" else {}
    return model.resolve(model.problem(**known), one)


@pytest.mark.parametrize(("model", "one"), RUNS, ids=[one.name for _, one in RUNS])
def test_every_simulation_that_can_be_large_says_what_it_takes(model: Model, one: Simulation) -> None:
    if one.name in ("toy", "declared-flow"):  # a few numbers; a flow of as many as its start
        return
    assert one.cost is not None
    little, much = one.cost(_resolved(model, one)), None
    for name in ("replicas", "student_width", "widths", "hidden"):
        if name in one.uses:
            value = (64, 64) if name == "widths" else 16
            much = one.cost(_resolved(model, one, **{name: value}))
            assert (much.numbers, much.operations) > (little.numbers, 0) or much.operations > little.operations, name
    assert 0 < little.numbers < 1e7
    assert 0 <= little.operations < 1e13


@pytest.mark.parametrize(
    "argv",
    [
        ("simulate", "online-sgd", "--replicas", "10000000000"),
        ("compare", "--replicas", "10000000000"),
        ("simulate", "label-noise", "--student-width", "100000000000", "--replicas", "1"),
        ("simulate", "declared-sgd", "--replicas", "10000000000", "--method", "ambient"),
    ],
    ids=" ".join,
)
def test_what_can_never_fit_is_refused_before_it_begins(refused: Callable[..., str], argv: tuple[str, ...]) -> None:
    said = refused(*argv, "--steps", "100", "--step-size", "1e-6")
    assert "holds at least" in said or "does not fit into memory" in said
    assert "lower " in said


def test_a_cell_that_can_never_fit_fails_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built_in()["additive"]
    monkeypatch.setattr(resources, "memory", lambda: 1e3)
    problem = model.problem(dim=64, teacher_width=2, student_width=6, steps=10)
    with pytest.raises(
        InputError, match=r"online-sgd holds at least .* kB at once, and there are 1 kB here: lower stud"
    ):
        cells.compute(cells.configuration(model, "online-sgd", problem))


def test_what_cannot_end_soon_says_so(command: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dynamics.gradient_descent", stop)
    ran = command("simulate", "gradient-descent", "--steps", "1000000000000")
    assert ran.code == 130
    assert "simulate gradient-descent takes about " in ran.err
    assert " days or more here: lower student-width, teacher-width" in ran.err
    assert "takes about" not in command("simulate", "gradient-descent", "--steps", "10").err


def test_memory_is_bounded_while_a_command_runs(command: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    held = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmData"))
    room = 1024.0 * int(held.split()[1]) + 3e8
    monkeypatch.setattr(resources, "_machine", lambda: room)
    monkeypatch.setattr(theory, "predict", lambda *_: np.zeros(10**9))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    ran = command("predict")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "does not fit into memory: lower student-width, teacher-width" in ran.err
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_limits_of_the_process_and_its_group_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = resources.memory()
    assert whole is not None
    (tmp_path / "memory.max").write_text("5000000\n")
    monkeypatch.setattr(resources, "_GROUPS", str(tmp_path))
    assert resources.memory() == 5e6
    (tmp_path / "memory.max").write_text("max\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(whole / 2), hard))
    try:
        assert resources.memory() == int(whole / 2)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_while_a_problem_is_being_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("emergence.patience.SILENCE", 0.05)
    with Patience(quiet=False):
        time.sleep(0.3)
    assert terminal.getvalue().endswith("understanding the problem: 0 s\r\x1b[K")
    terminal.truncate(0)
    with Patience(quiet=True):
        time.sleep(0.2)
    assert terminal.getvalue() == ""


def test_a_log_is_told_that_a_run_has_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("emergence.progress.SILENCE", 0.05)
    with Progress(quiet=False):
        time.sleep(0.3)
    assert capsys.readouterr().err == "emergence: 0% starting\n"
    with Progress(quiet=False) as progress:
        progress(0.5, "half")
        time.sleep(0.2)
    assert capsys.readouterr().err == "emergence: 50% half\n"


def test_an_error_is_of_a_length_that_can_be_read(refused: Callable[..., str]) -> None:
    assert len(refused("predict", "--activation", "9" * 5000)) < 1200
    said = refused("simulate", "declared-sgd", "--rule", f"sgd({'x' * 5000})")
    assert len(said) < 2000
    assert "use sgd" in said


def test_a_wide_linear_network_takes_what_its_reduction_does() -> None:
    """It is trained in min(m, d + 1) neurons: 5.2e6 steps in 10 dimensions, 8 replicas, end within a minute at any width."""
    model = built_in()["linear"]
    costs = [
        next(x for x in model.simulations if x.name == "label-noise").cost(
            model.resolve(model.problem(dim=10, student_width=width, steps=5_200_000, step_size=1e-6))
        )
        for width in (11, 1000, 100_000)
    ]
    assert len({one.operations for one in costs}) == 1
    assert costs[0].warnings("it", ()) == ()
    assert costs[0].numbers < costs[1].numbers < costs[2].numbers
