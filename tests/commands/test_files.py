"""A run takes the place of no other problem's file, and says which file is its own."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from emergence.arguments import parse
from emergence.cli import main
from emergence.commands.setup import problem_of
from emergence.files import file_name
from emergence.model import Simulation
from emergence.models import simulations
from emergence.models.lazy_rich import LazyRichProblem, Resolved
from emergence.models.residual_network import ResidualNetworkProblem
from emergence.options import Problem
from theory import InputError

#: (Of the default problem each answer takes a second.)
SMALL = ["--dim", "64", "--teacher-width", "2", "--student-width", "6"]
CHANGES = (
    [], ["--seed", "1"], ["--dim", "65"], ["--activation", "h3"], ["--teacher-exponent", "0.5"], ["--student-width", "7"],
    ["--init-scale", "0.02"], ["--step-size", "1e-7"], ["--batch", "2"], ["--time", "9"], ["--replicas", "2"],
    ["--method", "ambient"],
)  # fmt: skip


def test_every_option_that_decides_a_result_is_in_the_name() -> None:
    def echo(*flags: str) -> dict[str, Any]:
        arguments = parse(["simulate", "online-sgd", *flags])
        return arguments.model.resolve(problem_of(arguments), None).echo()

    names = [file_name("online-sgd", echo(*SMALL, *flags)) for flags in CHANGES]
    assert len(set(names)) == len(CHANGES)
    assert file_name("online-sgd", echo(*SMALL, "--seed", "0", "--activation", "h4")) == names[0]  # a default, given


@pytest.mark.parametrize(
    "argv",
    [
        ["simulate", "riccati", "--dim", "50", "--teacher-width", "3", "--student-width", "2", "--replicas", "2"],
        ["simulate", "kernel-ridge", "--dim", "8", "--samples", "4", "8", "--replicas", "2"],
    ],
)
def test_another_problem_has_another_file_and_the_same_one_its_own(
    argv: list[str], run: Callable, command: Callable, tmp_path: Path
) -> None:
    def written(*more: str) -> Path:
        code, document, _ = run(*argv, *more, "--out", str(tmp_path), "--quiet")
        assert code == 0
        return Path(document["file"])

    first, second = written(), written("--seed", "3")
    before = first.stat().st_mtime_ns
    assert first != second
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert written("--seed", "3") == second
    assert first.stat().st_mtime_ns == before
    code, out, _ = command(*argv, "--out", str(tmp_path), "--quiet")
    assert (code, out.splitlines()[-1]) == (0, f"written: {first}")


def test_checkpoints_are_shared_by_whatever_can_go_on_from_them_and_nothing_else() -> None:
    def folder(what: str, problem: Problem) -> str:
        found = simulations()[what].checkpoints
        assert found is not None
        return found(Resolved(problem, None, asdict(problem) | problem.decided()))

    trained = folder("label-noise-network", ResidualNetworkProblem())
    assert folder("pruning", ResidualNetworkProblem(resume=True)) == trained
    assert folder("label-noise-network", ResidualNetworkProblem(epochs=9, replicas=5)) == trained
    others = [folder("label-noise-network", ResidualNetworkProblem(**given)) for given in ({"seed": 1}, {"batch": 64})]
    rich = ({}, {"seed": 1}, {"flip_probability": 0.25})
    others += [folder("lazy-rich", LazyRichProblem(**given)) for given in rich]
    assert len({trained, *others}) == 6


@pytest.mark.parametrize("ended", [InputError("refused"), RuntimeError("failed"), KeyboardInterrupt()])
def test_a_run_that_wrote_nothing_leaves_no_folder_of_its_own(
    ended: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ended

    monkeypatch.setattr(Simulation, "done", fail)
    theirs, ours = tmp_path / "theirs", tmp_path / "new" / "deep"
    theirs.mkdir()
    for folder in (theirs, ours, theirs / "new"):
        assert main(["simulate", "toy", "--exponents", "1", "2", "--quiet", "--out", str(folder)]) > 1
    assert list(tmp_path.rglob("*")) == [theirs]
