"""Completion of the command line in a shell: what is printed is what a shell understands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emergence.cli import main

#: Complete the last of the words given, as bash does when Tab is pressed.
_TAB = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_emergence; printf "%s\n" "${COMPREPLY[@]}"'


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    pytest.importorskip("shtab")
    assert main(["--print-completion", "bash"]) == 0
    path = tmp_path / "emergence"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["pre"], {"predict"}),
        (["simulate", "online"], {"online-sgd"}),
        (["predict", "--teacher-w"], {"--teacher-width", "--teacher-weights"}),
        (["validate", "--preset", ""], {"quick", "full"}),
        (["nothing-like-it"], {""}),
    ],
)
def test_bash_completes(script: Path, words: list[str], completed: set[str]) -> None:
    ran = subprocess.run(
        ["bash", "-c", _TAB, str(script), "emergence", *words], capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split("\n")[:-1]) == completed


def test_a_shell_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["--print-completion", "klingon"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("emergence: error: --print-completion is 'klingon': use one of bash, ")
    assert said.err.count("\n") == 1


def test_without_shtab_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err.startswith("emergence: error: shtab is not installed: ")
