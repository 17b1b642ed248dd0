"""What the README and the documentation show is what the code does: examples run, and print what is printed there."""

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from emergence.arguments import parse
from emergence.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_TOML = re.compile(r"^```toml\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n\$ emergence (.*?)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
#: Commands quick enough to be run again here; the others are parsed.
RERUN = ("predict", "derive")
#: Commands of the README that take half a minute each: run again in a slow test.
RERUN_SLOWLY = ("compare", "judge")


@dataclass(frozen=True)
class Example:
    """A block of a page: where it stands, what is run, what is shown as its output ("" if nothing is)."""

    name: str
    source: str
    shown: str


def examples(pattern: re.Pattern[str]) -> list[Example]:
    """All blocks of all pages."""
    return [
        Example(f"{page.stem}-{number}", match[1], match[2] or "")
        for page in PAGES
        for number, match in enumerate(pattern.finditer(page.read_text(encoding="utf-8")), start=1)
    ]


def missing(shown: str, printed: str) -> list[str]:
    """Lines shown on a page that are not among the printed ones (a line "…" stands for lines left out)."""
    lines = {line.rstrip() for line in printed.splitlines()}
    return [line for line in shown.splitlines() if line != "…" and line.rstrip() not in lines]


@pytest.mark.slow_for("plots-1", "real_steps-1", "declared-1", "judging-2")
@pytest.mark.parametrize("example", examples(_PYTHON), ids=lambda example: example.name)
def test_python_example_prints_what_the_page_shows(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what an example writes is not left here
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.source, example.name, "exec"), {"__name__": "__example__"})
    assert printed.getvalue() == example.shown


@pytest.mark.slow_for("add_model-1", "own_activation-2")
@pytest.mark.parametrize("example", examples(_CONSOLE), ids=lambda example: example.name)
def test_console_example(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    argv = shlex.split(example.source)
    arguments = parse(argv)
    if arguments.command in RERUN:
        assert main(argv) == 0
        assert missing(example.shown, capsys.readouterr().out) == []


def slow_examples() -> list[Example]:
    """The README's blocks that are run again in a slow test."""
    return [
        example
        for example in examples(_CONSOLE)
        if example.name.startswith("README-") and shlex.split(example.source)[0] in RERUN_SLOWLY
    ]


@pytest.mark.slow
@pytest.mark.parametrize("example", slow_examples(), ids=lambda example: example.name)
def test_slow_console_example_of_the_readme(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    claim = _TOML.search((ROOT / "docs" / "claims.md").read_text(encoding="utf-8"))
    assert claim is not None
    (tmp_path / "weight.toml").write_text(claim[1], encoding="utf-8")  # the first file of the how-to
    assert main(shlex.split(example.source)) == 0
    assert missing(example.shown, capsys.readouterr().out) == []


def test_examples_were_found() -> None:
    assert {shlex.split(example.source)[0] for example in slow_examples()} == set(RERUN_SLOWLY)
    found = {example.name for example in examples(_PYTHON)}
    assert {"README-1", "declared-1"} <= found
    assert len(found) >= 18
    assert len(examples(_CONSOLE)) >= 4


def test_a_changed_number_is_noticed() -> None:
    assert missing("a 1.0\n…\nb 2.0\n", "a 1.0\nx\nb 2.0\n") == []
    assert missing("a 1.1\n", "a 1.0\n") == ["a 1.1"]
