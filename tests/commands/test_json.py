"""The page on JSON documents names every key that the commands print, and no other."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emergence import models
from emergence import reproduction as experiments

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
COMMON = "Every document"
SMALL = ["--activation", "h3", "--dim", "16", "--teacher-width", "2", "--student-width", "4"]
BRIEF = ["--steps", "64", "--step-size", "1e-4", "--replicas", "2"]
DECLARED = [
    "--model",
    "declared",
    "--inputs",
    "6",
    "--activation",
    "h2",
    "--teacher-width",
    "1",
    "--student-width",
    "2",
]
QUADRATIC = ["--activation", "h2", "--dim", "16", "--teacher-width", "2"]
LINEAR = ["--model", "linear", "--dim", "4", "--student-width", "8", "--train-size", "16"]
CONTRADICTORY = ["sweep", "predict", "--model", "linear", "--over", "noise=4,0", "--over", "label-flip=0,0.5"]
SWEEP = ["sweep", "predict", *SMALL, "--over", "seed=0:2", "--workers", "1"]
WILD = [*BRIEF[:2], "--replicas", "2", "--allow-unstable", "--over", "step-size=1e3,1e4", "--workers", "1"]
CLAIM = """[claim]
id = "X1"
statement = "It is so."
kind = "asymptotic"
[problem]
activation = "h6"
dim = [64, 128]
teacher-weights = [0.8]
normalise = false
student-width = 1
[quantity]
measure = "half_time"
[predict]
formula = "1/(24*a*u0**4)"
[rivals]
"half of it" = "1/(48*a*u0**4)"
[data]
from = "gradient-flow"
seeds = "0:4"
[judge]
allowance = "finite-size"
"""
#: Section → commands whose documents together have its keys.
COMMANDS: dict[str, list[list[str]]] = {
    "predict": [["predict", *SMALL], ["predict", *SMALL, "--figure", "x.svg"]],
    "predict, quadratic": [
        ["predict", *QUADRATIC, "--student-width", "2", "--step-size", "1e-3"],
        ["predict", *QUADRATIC, "--student-width", "1", "--step-size", "1e-3"],
    ],
    "predict, linear": [["predict", *LINEAR]],
    "predict, declared": [["predict", *DECLARED]],
    "derive": [["derive", "loss"]],
    "simulate": [["simulate", "toy"]],
    "compare": [["compare", *SMALL, *BRIEF]],
    "compare, linear": [["compare", *LINEAR, "--steps", "64", "--replicas", "2"]],
    "compare, declared": [["compare", *DECLARED, "--steps", "16", "--replicas", "2"]],
    "sweep --list": [[*SWEEP, "--list"], [*CONTRADICTORY, "--list"]],
    "sweep": [
        SWEEP,
        ["sweep", "predict", *SMALL, "--over", "step-size=1e-6,1e9", "--workers", "1"],
        ["sweep", "online-sgd", *SMALL, *WILD],
        CONTRADICTORY,
    ],
    "merge": [["merge", "emergence-out/sweep"]],
    "plot": [["plot", "{file}", "-o", "x.svg"]],
    "explore": [["explore", *SMALL]],
    "reproduce": [["reproduce", "fig2", "--workers", "1"]],
    "validate": [["validate", "E5"]],
    "judge --quantities": [["judge", "--quantities"]],
    "judge --symbols": [["judge", "x.toml", "--symbols"]],
    "judge --plan": [["judge", "x.toml", "--plan", "--workers", "1"]],
    "judge --lock": [["judge", "x.toml", "--lock"]],
    "judge": [["judge", "x.toml", "--workers", "1"]],
    "calibrate": [["calibrate", "E5", "--seeds", "2", "--workers", "1"]],
    "check-law": [["check-law", "momentum(0.5)", "--replicas", "200"]],
    "claims": [["claims", "E5"]],
    "new": [["new", "claim", "mine"]],
}


def sections() -> dict[str, set[str]]:
    """Heading → keys of its table."""
    found = {}
    for part in PAGE.split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
        keys = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
        if other := re.search(r"All keys of \[(.+?)\]", text):
            keys |= found[other[1]]
        found[title] = keys
    return found


def leaves(document: Any, known: set[str], prefix: str = "") -> Iterator[str]:
    """Keys of a document down to where the page ends or the document does; free names where the page has NAME."""
    if prefix in known or not isinstance(document, dict | list) or not document:
        if prefix:
            yield prefix
    elif isinstance(document, list):
        rows = [row for row in document if isinstance(row, dict)]
        if not rows:
            yield prefix
        for row in rows:
            yield from leaves(row, known, f"{prefix}[]")
    else:
        dot = f"{prefix}." if prefix else ""
        free = any(key.startswith(f"{dot}NAME") for key in known)
        for name, value in document.items():
            yield from leaves(value, known, f"{dot}{'NAME' if free else name}")


def empty(key: str, known: set[str]) -> bool:
    """Whether a key is one that stands above others on the page: a list or table that is empty here."""
    return any(one.startswith((f"{key}[", f"{key}.")) for one in known)


@pytest.mark.slow_for(
    "compare",
    "compare, declared",
    "sweep",
    "plot",
    "explore",
    "reproduce",
    "judge --plan",
    "calibrate",
    "check-law",
    "merge",
    "judge",
)
@pytest.mark.parametrize("title", COMMANDS)
def test_the_page_names_every_key_and_no_other(
    title: str, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = sections()
    known = page[title] | page[COMMON]
    (tmp_path / "x.toml").write_text(CLAIM, encoding="utf-8")
    if title == "reproduce":
        figure = replace(experiments.FIG2, presets={"quick": experiments.frontier_runs(64, 200, (16, 24), 60.0, 2)})
        monkeypatch.setattr(models, "figures", lambda: {"fig2": (models.default(), figure)})
    if title in ("merge", "plot"):
        assert run(*SWEEP, "--quiet")[0] == 0
    printed: set[str] = set()
    for argv in COMMANDS[title]:
        if "{file}" in argv:
            file = run("merge", "emergence-out/sweep", "--quiet")[1]["experiments"][0]["file"]
            argv = [file if word == "{file}" else word for word in argv]
        _, document, err = run(*argv, "--quiet")
        assert document is not None, err
        printed |= set(leaves(json.loads(json.dumps(document)), known))
    printed = {key for key in printed if not empty(key, known)}
    assert printed - known == set()
    missing = page[title] - printed - {key for key in page[title] if key.startswith(NOT_MADE.get(title, ()))}
    assert missing == set()


#: Keys of what goes wrong, which no command here makes go wrong.
NOT_MADE = {"sweep": ("damaged[]",)}


def test_every_section_is_tested() -> None:
    assert set(sections()) == {*COMMANDS, COMMON}
