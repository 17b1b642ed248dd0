"""A run takes the place of no other problem's file, and says which file is its own."""

import json
from pathlib import Path

import pytest

from emergence.arguments import parser
from emergence.cli import main
from emergence.commands.networks import checkpoint_folder
from emergence.commands.setup import resolved_problem
from emergence.files import file_name
from emergence.network_problem import LABEL_NOISE_NETWORK, LAZY_RICH, PRUNING
from emergence.network_problem import resolve as resolve_network

CHANGES = (
    [], ["--seed", "1"], ["--dim", "2048"], ["--activation", "h3"], ["--teacher-exponent", "0.5"], ["--student-width", "31"],
    ["--init-scale", "0.02"], ["--step-size", "1e-7"], ["--batch", "2"], ["--time", "9"], ["--replicas", "2"],
    ["--method", "ambient"],
)  # fmt: skip


def test_every_option_that_decides_a_result_is_in_the_name() -> None:
    echoes = [resolved_problem(parser().parse_args(["simulate", "online-sgd", *flags])).echo() for flags in CHANGES]
    names = {file_name("online-sgd", echo) for echo in echoes}
    assert len(names) == len(CHANGES)
    again = resolved_problem(parser().parse_args(["simulate", "online-sgd", "--seed", "0", "--dim", "1024"])).echo()
    assert file_name("online-sgd", again) == file_name("online-sgd", echoes[0])  # defaults are as good as given


@pytest.mark.parametrize(
    "argv",
    [
        ["simulate", "riccati", "--dim", "50", "--teacher-width", "3", "--student-width", "2", "--replicas", "2"],
        ["simulate", "kernel-ridge", "--dim", "8", "--samples", "4", "8", "--replicas", "2"],
    ],
)
def test_another_problem_has_another_file_and_the_same_one_its_own(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(*more: str) -> Path:
        assert main([*argv, *more, "--out", str(tmp_path), "--quiet", "--json"]) == 0
        return Path(json.loads(capsys.readouterr().out)["file"])

    first, second = written(), written("--seed", "3")
    before = first.stat().st_mtime_ns
    assert first != second
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert written("--seed", "3") == second
    assert first.stat().st_mtime_ns == before
    assert main([*argv, "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"written: {first}"


def test_checkpoints_are_shared_by_whatever_can_go_on_from_them_and_nothing_else() -> None:
    def folder(what: str, **given: object) -> str:
        return checkpoint_folder(what, resolve_network(what, given))

    trained = folder(LABEL_NOISE_NETWORK)
    assert folder(PRUNING, resume=True) == trained
    assert folder(LABEL_NOISE_NETWORK, epochs=9, replicas=5) == trained
    others = [folder(LABEL_NOISE_NETWORK, seed=1), folder(LABEL_NOISE_NETWORK, batch=64), folder(LAZY_RICH)]
    others += [folder(LAZY_RICH, seed=1), folder(LAZY_RICH, flip_probability=(0.25,))]
    assert len({trained, *others}) == 6
