"""A prediction that was made before is not made again, and only then."""

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from _emergence import PACKAGES
from emergence import answers, cache
from emergence.answers import Answer, answered

#: The command line in a process of its own, and whether it needed SymPy.
_COMMAND = """import sys
from emergence.cli import main
code = main(sys.argv[1:])
print("sympy" in sys.modules)
sys.exit(code)"""
_PLACE = answers._place


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Answers are kept here."""
    monkeypatch.setattr(answers, "_place", _PLACE)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    return tmp_path / "answers"


def _predicted(home: Path, *options: str) -> tuple[int, str, str, bool]:
    """Status, output, messages, and whether SymPy was imported."""
    environment = {**os.environ, cache.VARIABLE: str(home)}
    command = [sys.executable, "-c", _COMMAND, "predict", *options]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home, timeout=120)
    *lines, worked = ran.stdout.splitlines()
    return ran.returncode, "\n".join(lines), ran.stderr, worked == "True"


def _count(made: list[int], text: str = "words") -> Answer:
    made.append(len(made))
    return Answer({"number": len(made), "nothing": float("nan")}, text, ("take care",))


def test_the_command_answers_again_without_mathematics(tmp_path: Path) -> None:
    options = ("--activation", "relu", "--teacher-width", "2", "--step-size", "0.1", "--allow-unstable")
    first, second = _predicted(tmp_path, *options), _predicted(tmp_path, *options)
    assert first[:3] == second[:3]
    assert (first[3], second[3]) == (True, False)
    assert "warning" in first[2]
    as_json = _predicted(tmp_path, *options, "--json")
    assert not as_json[3]
    assert json.loads(as_json[1])["directions"]
    (tmp_path / "as.toml").write_text(
        'activation = "relu"\nteacher_width = 2\nstep-size = 0.1\nallow_unstable = true\n'
    )
    assert _predicted(tmp_path, "--config", "as.toml")[1] == first[1]
    other = _predicted(tmp_path, *options, "--seed", "1")
    assert (other[1] == first[1], other[3]) == (False, True)


def test_what_is_refused_is_refused_again(tmp_path: Path) -> None:
    for _ in range(2):
        code, text, said, _ = _predicted(tmp_path, "--activation", "h4", "--dim", "3")
        assert (code, text, said.count("\n")) == (2, "", 1)


def test_an_answer_is_that_of_its_question(place: Path) -> None:
    made: list[int] = []
    first = answered({"a": 1}, lambda: _count(made))
    assert answered({"a": 1}, lambda: _count(made)) == first
    assert first == Answer({"number": 1, "nothing": None}, "words", ("take care",))
    assert answered({"a": 2}, lambda: _count(made)).document["number"] == 2
    assert answered({"a": 1.5}, lambda: _count(made)).document["number"] == 3
    assert len(list(place.iterdir())) == 3


def test_warnings_on_the_way_are_kept(place: Path) -> None:
    def answer() -> Answer:
        warnings.warn("rough", stacklevel=1)
        return _count([])

    for _ in range(2):
        assert answered({}, answer).warnings == ("take care", "rough")


@pytest.mark.parametrize("content", ["", "{", "[]", "1", '{"document": 1, "text": "", "warnings": []}', "[" * 100_000])
def test_a_damaged_answer_is_made_anew(place: Path, content: str) -> None:
    made: list[int] = []
    answered({}, lambda: _count(made))
    (file,) = place.iterdir()
    file.write_text(content)
    assert answered({}, lambda: _count(made)).document["number"] == 2
    assert answered({}, lambda: _count(made)).document["number"] == 2


def test_a_pipe_or_a_folder_in_its_place_is_passed_over(place: Path) -> None:
    answered({}, lambda: _count([]))
    (file,) = place.iterdir()
    for make in (os.mkfifo, os.mkdir):
        file.unlink() if file.is_file() or file.is_fifo() else None
        make(file)
        assert answered({}, lambda: _count([])).text == "words"


def test_nothing_is_kept_where_nothing_shall_be(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_LARGEST", 10)
    answered({}, lambda: _count([]))
    assert not place.exists()
    for folder in (cache.OFF, "/dev/null/x"):
        monkeypatch.setenv(cache.VARIABLE, folder)
        assert answered({}, lambda: _count([])).text == "words"
    assert not place.exists()


def test_a_change_of_any_file_asks_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_ROOT", tmp_path)
    files = [tmp_path / name / "inner" / "formulas.py" for name in PACKAGES]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("1")
        os.utime(file, (1, 1))
    seen = {answers._code.__wrapped__()}
    for file in files:
        file.write_text("2")
        os.utime(file, (2, 2))
        seen.add(answers._code.__wrapped__())
    files[0].with_name("more.py").touch()
    seen.add(answers._code.__wrapped__())
    assert len(seen) == len(files) + 2


def test_the_oldest_half_goes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST", 4)
    for number in range(5):
        answered({"n": number}, lambda: _count([], "kept"))
        for file in place.iterdir():
            os.utime(
                file, (time.time() - 10, time.time() - 10 + number)
            ) if file.stat().st_mtime > time.time() - 5 else None
    assert len(list(place.iterdir())) == 3
