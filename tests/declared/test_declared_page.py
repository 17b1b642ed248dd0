"""The page on declared models: its commands run, and print what it shows."""

import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from emergence import config
from emergence.arguments import parse, problem_flags

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "declared.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n\$ emergence (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: Commands that take a minute.
LONG = ("check-law", "compare", "simulate declared-sgd --inputs")


@pytest.mark.slow_for('simulate declared-sgd --inputs "spiked(3', "simulate declared-sgd --rule examples/cl")
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param(*block, marks=[pytest.mark.slow] if block[0].startswith(LONG) else [], id=block[0][:40])
        for block in BLOCKS
    ],
)
def test_a_command_of_the_page_prints_what_it_shows(source: str, shown: str, command: Callable) -> None:
    shutil.copytree(ROOT / "examples", "examples")
    ran = command(*shlex.split(source), "--quiet") if not source.startswith("derive") else command(*shlex.split(source))
    assert ran.code == 0, ran.err
    printed = {line.rstrip() for line in ran.out.splitlines()}
    assert [line for line in shown.splitlines() if line != "…" and line.rstrip() not in printed] == []


def test_the_file_of_the_page_is_the_command_of_the_page(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert tomllib.loads(text)["model"] == "declared"
    (tmp_path / "decay.toml").write_text(text)
    (first,) = [source for source, _ in BLOCKS if source.startswith("simulate declared-sgd --inputs")]
    arguments = parse(shlex.split(first))
    flags = config.build(arguments.model, problem_flags(arguments))
    assert config.build(arguments.model, {}, str(tmp_path / "decay.toml")) == flags
