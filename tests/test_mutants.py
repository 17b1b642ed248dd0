"""Mutants: what is changed and what is left alone, the draw, and a tiny tree whose mutants are known."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mutants.__main__ import written
from mutants.apart import Ended
from mutants.asking import REACHING, Bench, holds, told
from mutants.choosing import drawn
from mutants.generating import mutants_of
from mutants.mutant import Mutant, overlapping, switched
from mutants.outcome import (
    CLAIM,
    CLAIM_OPEN,
    NEITHER,
    OPEN,
    SAME,
    TEST,
    TEST_OPEN,
    Asked,
    Outcome,
    outcome,
    reasons,
)
from mutants.page import page
from mutants.project import Project, this_project
from mutants.reach import Reach, Unit
from mutants.results import CLAIMS, TESTS, Answer, Results

ROOT = Path(__file__).resolve().parents[1]


def changes(tmp_path: Path, source: str) -> set[tuple[str, str]]:
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    return {(one.kind, one.change) for one in mutants_of(tmp_path, ["a.py"])}


# -------------------------------------------------------------------------------- what is changed


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = 0.5", {("factor", "0.5 → (0.5 * 1.05)")}),
        ("y = 2 * x", {("factor", "2 → (2 * 1.05)")}),
        ("y = x**2", {("exponent", "2 → (2 + 1)"), ("exponent", "2 → (2 - 1)")}),
        ("y = np.sqrt(x)", {("exponent", "np.sqrt(x) → (x)")}),
        ("y = -x", {("sign", "-x → (x)")}),
        (
            "y = a - b",
            {("sign", "a - b → (a + b)"), ("summand", "a - b → (a)"), ("summand", "a - b → (-(b))")},
        ),
        ("if x < y:\n    z = 1", {("border", "x < y → (x <= y)")}),
        ("y = x[i, j]", {("swap", "i, j → j, i")}),
        ("y = x.T", {("swap", "x.T → x")}),
        ("y += x", {("sign", "y += x → y -= x")}),
        ("v = x.var(ddof=1)", {("count", "1 → 2"), ("count", "1 → 0")}),
        ("y = x[: n - 1]", {("count", "1 → 2"), ("count", "1 → 0")}),
        ("f(stderr=g(x))", {("error bar", "g(x) → (2 * (g(x)))"), ("error bar", "g(x) → (0.5 * (g(x)))")}),
        (
            "def mean_and_error(x):\n    return g(x), h(x)",
            {("error bar", "h(x) → (2 * (h(x)))"), ("error bar", "h(x) → (0.5 * (h(x)))")},
        ),
        (
            "def f(a: float, b: float, n: int): ...\ny = f(u, v, k)",
            {("swap", "u, v → v, u")},
        ),
        ("f = lambda μ: μ**3  # not ASCII", {("exponent", "3 → (3 + 1)"), ("exponent", "3 → (3 - 1)")}),
    ],
)
def test_what_is_changed(source: str, expected: set[tuple[str, str]], tmp_path: Path) -> None:
    assert changes(tmp_path, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""2 * 3 - 1"""',
        'y = f"{2 * x:.3f}"',
        "y = 'a' + b + 'c'",
        "y = [1] + z",
        "def f(x) -> str:\n    return g(2.5 * x)",
        "if x > 2 * y:\n    raise ValueError(x - 1)",
        "if x > 2.5:\n    refuse(x)",
        "print(2.5 * x)",
        "y = plot(x, lw=1.5)",
        "y: Annotated[int, 2.5] = x",
        "@cache(2.5)\ndef f(x): ...",
        "y = x[-1]",
        "y = x.mean(axis=-1)",
        "y = zeros((2, 3))",
        "y = solve(rtol=1e-8)",
        "if TYPE_CHECKING:\n    x = 2.5",
        "y = True",
    ],
)
def test_what_is_left_alone(source: str, tmp_path: Path) -> None:
    assert changes(tmp_path, source) == set()


@pytest.fixture(scope="module")
def all_mutants() -> list[Mutant]:
    return mutants_of(ROOT, this_project(ROOT).sources)


@pytest.mark.slow
def test_mutants_of_the_formulas_are_python_and_are_told_apart(all_mutants: list[Mutant]) -> None:
    assert len({one.digest for one in all_mutants}) == len(all_mutants) > 10_000
    assert {one.path.partition("/")[0] for one in all_mutants} == {"theory", "dynamics", "validation"}
    for one in islice(drawn(all_mutants, 5), 60):
        source = (ROOT / one.path).read_text(encoding="utf-8")
        changed = switched(source, [one])
        assert resolved(changed, "") == ast.dump(ast.parse(source))
        assert resolved(changed, one.digest) != ast.dump(ast.parse(source))


def resolved(text: str, on: str) -> str:
    """The syntax of a changed file with every switch decided: the mutant `on` is, the others are not."""
    return ast.dump(Decided(on).visit(ast.parse(text)))


class Decided(ast.NodeTransformer):
    def __init__(self, on: str) -> None:
        self.on = on

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if "_mutant_switch" not in ast.unparse(node.test):
            return node
        return node.body if ast.literal_eval(node.test.args[0]) == self.on else node.orelse  # type: ignore[attr-defined]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.args = self.flat(node.args)
        return node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        node.elts = self.flat(node.elts)
        return node

    def flat(self, nodes: list[ast.expr]) -> list[ast.expr]:
        """Neighbours in their places: a starred tuple is none of the project's own."""
        starred = [isinstance(x, ast.Starred) and isinstance(x.value, ast.Tuple) for x in nodes]
        return [y for x, all_ in zip(nodes, starred, strict=True) for y in (x.value.elts if all_ else [x])]  # type: ignore[attr-defined]


def test_all_mutants_of_a_draw_are_in_one_text(all_mutants: list[Mutant]) -> None:
    """Those of two seeds, which may lie within each other; each alone is as if it were there alone."""
    path = (
        "theory/core/gaussian.py"
        if any(x.path == "theory/core/gaussian.py" for x in all_mutants)
        else all_mutants[0].path
    )
    source = (ROOT / path).read_text(encoding="utf-8")
    few = [one for seed in (1, 2) for one in drawn([x for x in all_mutants if x.path == path], seed)]
    aside = overlapping(few)
    there = list({one.digest: one for one in few if one not in aside}.values())
    text = switched(source, there)
    assert len(there) > 5
    assert resolved(text, "") == ast.dump(ast.parse(source))
    for one in there:
        assert resolved(text, one.digest) == resolved(switched(source, [one]), one.digest)


@pytest.mark.parametrize(
    ("source", "change", "expected"),
    [
        ("y = 2 * x", "2 → (2 * 1.05)", "y = (2 * 1.05) * x"),
        ("y = x[i, j]", "i, j → j, i", "y = x[j, i]"),
        ("y += f(x)", "y += f(x) → y -= f(x)", "y += 0 - f(x)"),
        ("y -= x", "y -= x → y += x", "y -= 0 - x"),
        ("y = a - b", "a - b → (-(b))", "y = -b"),
    ],
)
def test_a_mutant_that_is_on(source: str, change: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    (one,) = [one for one in mutants_of(tmp_path, ["a.py"]) if one.change == change]
    assert resolved(switched(source, [one]), one.digest) == ast.dump(ast.parse(expected))


def test_reviewed_mutants_are_still_there(all_mutants: list[Mutant]) -> None:
    """Code that has changed makes other mutants: what was said of the old ones goes."""
    assert reasons().keys() <= {one.digest for one in all_mutants}


# --------------------------------------------------------------------------------------- the draw


def test_a_digest_survives_lines_that_move(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 2.5\nx = 2.5\n", encoding="utf-8")
    before = mutants_of(tmp_path, ["a.py"])
    (tmp_path / "a.py").write_text("import math\n\nx = 2.5\nx = 2.5\n", encoding="utf-8")
    after = mutants_of(tmp_path, ["a.py"])
    assert [one.line for one in after] == [one.line + 2 for one in before]
    assert [one.digest for one in after] == [one.digest for one in before]
    assert len({one.digest for one in before}) == 2


def test_the_draw_goes_on_and_is_not_moved_by_other_code(all_mutants: list[Mutant]) -> None:
    few = [one for one in all_mutants if one.path.startswith("theory/steps/")]
    rest = [one for one in few if one.path != "theory/steps/neuron.py"]
    first, second = ([one.digest for one in drawn(few, seed)] for seed in (1, 2))
    kept = {one.digest for one in rest}
    assert [x for x in first if x in kept] == [one.digest for one in drawn(rest, 1)]
    assert first != second
    chosen = list(drawn(few, 1))
    assert len({one.site for one in chosen}) == len(chosen) == len({one.site for one in few})


def test_a_mutant_of_another_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 2.5\n", encoding="utf-8")
    (mutant,) = mutants_of(tmp_path, ["a.py"])
    with pytest.raises(ValueError, match=r"a\.py:1 is not what the mutant was made from"):
        switched("y = 123\n", [mutant])


# ----------------------------------------------------------------------------------- a tiny tree


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """The folder, and what became of every mutant of `tests/support/tiny_mutants.py`."""
    folder = tmp_path_factory.mktemp("tiny")
    return folder, tried(folder)


def tried(folder: Path) -> list[dict[str, Any]]:
    script = ROOT / "tests" / "support" / "tiny_mutants.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("function", "change", "name", "tests", "claims"),
    [
        ("volume", "2 → (2 + 1)", "both", "tests/test_near.py::test_volume", "A.y disagrees"),
        ("turned", "-x → (x)", "tests alone", "tests/test_far.py::test_twice", ""),
        ("listed", "x - 5.0 → (x + 5.0)", "tests alone", "tests/test_shelf.py::test_it", ""),
        ("scaled", "3.0 → (3.0 * 1.05)", "claims alone", "", "A.y disagrees"),
        ("unheeded", "7.0 → (7.0 * 1.05)", "neither", "", ""),
        ("positive", "x > 0 → (x >= 0)", "neither", "", ""),
        ("", "4.0 → (4.0 * 1.05)", "tests alone", "tests/test_near.py::test_unit", ""),
        ("endless", "x += 1 → x -= 1", "tests alone", "stops early: it takes more than three times its time", ""),
    ],
)
def test_who_notices(tiny: tuple, function: str, change: str, name: str, tests: str, claims: str) -> None:
    """Files that cannot be read, or whose process ends early, do so without any mutant, and notice none.

    About a mutant that runs at import, whoever is asked imports the project anew.
    """
    (row,) = [row for row in tiny[1] if (row["function"], row["change"]) == (function, change)]
    assert (row["name"], row["tests"], row["claims"]) == (name, tests, claims)


def test_who_came_by_and_said_nothing_is_counted(tiny: tuple) -> None:
    silent = {row["function"]: (row["silent"], row["in_claims"]) for row in tiny[1] if row["name"] == "neither"}
    assert silent["unheeded"] == ([1, 2], True)
    assert {row["in_claims"] for row in tiny[1] if row["function"] == "turned"} == {False}


def test_the_tree_itself_is_never_changed(tiny: tuple) -> None:
    from tiny_mutants import FILES

    assert {name: (tiny[0] / "tree" / name).read_text(encoding="utf-8") for name in FILES} == FILES


def test_a_killed_run_goes_on(tiny: tuple) -> None:
    """With its last line cut short, that mutant alone is asked about again."""
    path = tiny[0] / "store" / "answers.jsonl"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:-20], encoding="utf-8")
    assert tried(tiny[0]) == tiny[1]
    lines = whole.splitlines()
    again = path.read_text(encoding="utf-8").splitlines()
    assert again[: len(lines) - 1] == lines[:-1]
    assert len(again) == len(lines) + 1


def test_a_file_of_tests_that_is_new_is_asked_about_what_nobody_noticed(tiny: tuple, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(tiny[0], folder)
    text = "from theory.small import unheeded\n\n\ndef test_it():\n    assert unheeded(1.0) == 7.0\n"
    (folder / "tree" / "tests" / "test_new.py").write_text(text, encoding="utf-8")
    (row,) = [row for row in tried(folder) if row["function"] == "unheeded"]
    assert (row["name"], row["tests"]) == ("tests alone", "tests/test_new.py::test_it")


def test_who_comes_by_is_measured_without_any_mutant(tiny: tuple) -> None:
    """Of the tiny tree's near tests, and only of those that pass."""
    store = tiny[0] / "store" / "reach"
    found = json.loads((store / "tests-tests_test_near.py.json").read_text(encoding="utf-8"))
    digests = json.loads((store / f"{found['drawn']}.json").read_text(encoding="utf-8"))["digests"]
    function = {row["digest"]: row["function"] for row in tiny[1]}
    by = {
        node.partition("::")[2]: {function[x] for i, x in enumerate(digests) if int(bits, 16) >> i & 1}
        for node, (_, bits) in found["nodes"].items()
    }
    assert by == {"test_unit": set(), "test_volume": {"volume"}, "test_others": {"unheeded", "endless", "positive"}}


def test_measuring_is_no_part_of_a_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What one mutant has measured serves all."""
    unit = Unit(TESTS, "tests/a.py", "tests/a.py")
    reach, results = Reach(tmp_path, tmp_path, [ONE]), Results(tmp_path / "a.jsonl")
    project = Project(tmp_path, (), (), (), (), dict, lambda *_: {}, {}, 1.0)
    bench = Bench(project, tmp_path, reach, results, [unit], 0, 1.0, tmp_path)

    def slowly(*_: object, fresh: bool) -> tuple[Ended, list[dict[str, Any]]]:
        bench.used += 500.0
        return Ended(500.0, "", ""), []

    monkeypatch.setattr(bench, "_apart", slowly)
    bench.measure(unit)
    assert reach.get(unit, ONE) is not None
    assert bench.used == 0.0


def test_of_a_default_those_that_name_its_file_are_asked_first(tmp_path: Path) -> None:
    """All that import it come by, most of them cheaper; their seconds would be the budget."""
    texts = {"theory/a.py": "x = 2", "theory/b.py": "import theory.a", "tests/near.py": "import theory.a"}
    for name, text in (texts | {"tests/far.py": "import theory.b"}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    near, far = (Unit(TESTS, name, name) for name in ("tests/near.py", "tests/far.py"))
    reach, results = Reach(tmp_path, tmp_path, [ONE]), Results(tmp_path / "a.jsonl")
    project = Project(tmp_path, (), (), (), (), dict, lambda *_: {}, {}, 1.0)
    bench = Bench(project, tmp_path, reach, results, [near, far], 0, 1.0, tmp_path)
    for unit, seconds in ((near, 10.0), (far, 1.0)):
        row = {"node": f"{unit.name}::test_f", "outcome": "passed", "seconds": seconds, "came": [ONE.digest]}
        reach.keep(unit, [row], seconds, whole=True)
    for known, asked in ((frozenset[str](), [far, near]), (frozenset({ONE.digest}), [near, far])):
        reach.at_import = known
        assert [unit for unit, part, _ in bench._turns(ONE, TESTS, {}) if part == REACHING] == asked


# ------------------------------------------------------------------------------ counts and page

ONE = Mutant("theory/a.py", "f", 7, (7, 7), "factor", 0, 1, "2", "(2 * 1.05)", "return 2 * x")


def test_an_equivalent_one_is_not_counted() -> None:
    silent, heard = Asked("", 3, True), Asked("tests/test_a.py::test_f", 0, True)
    rest = [Outcome(replace(ONE, copy=i), heard, silent) for i in (1, 2, 3)]
    counted = page({1: [*rest, Outcome(ONE, silent, silent)]}, 300, 0, "abc")
    assert "| by tests, of all that are not equivalent | 3 of 4 | 75.0% " in counted
    assert "Noticed by nothing\n\n| mutant" in counted
    reviewed = page({1: [*rest, Outcome(ONE, silent, silent, "no number changes")]}, 300, 0, "abc")
    assert "| by tests, of all that are not equivalent | 3 of 3 | 100% " in reviewed
    assert "Noticed by nothing\n\nNone." in reviewed
    assert "no number changes |" in reviewed
    assert "Tried: 3 of 3 mutants of seed 1 (equivalent, and left out: 1)." in reviewed


def test_mutants_that_were_picked_are_no_sample() -> None:
    heard, nobody = Asked("tests/test_a.py::test_f", 0, True), Asked("", 0, False, False)
    tried, untried = Outcome(ONE, heard, heard), Outcome(replace(ONE, copy=1), nobody, nobody)
    same = Outcome(replace(ONE, copy=2), nobody, nobody, "no number changes")
    assert "no estimate of the others" in page({1: [untried, tried]}, 2, 0, "abc")
    for sample in ([tried, untried], [tried, untried, same], [same, tried, untried]):  # equivalent ones are never asked
        assert "no estimate of the others" not in page({1: sample}, 2, 0, "abc")


def test_the_first_ones_of_each_package_are_a_sample_of_it() -> None:
    heard, nobody = Asked("tests/test_a.py::test_f", 0, True), Asked("", 0, False, False)
    tried, other = Outcome(ONE, heard, nobody), Outcome(replace(ONE, path="dynamics/b.py"), nobody, nobody)
    last = Outcome(replace(ONE, copy=1), heard, nobody)
    text = page({1: [tried, other, last]}, 3, 0, "abc")
    assert "the shares by package are estimates, that of all is none" in text
    heard_too = replace(other, tests=heard)
    assert "| by tests, in dynamics | 1 of 1 | 100% (3% – 100%) | |" in page({1: [tried, heard_too]}, 2, 0, "abc")


def test_two_seeds_are_counted_each_by_itself() -> None:
    silent, heard = Asked("", 3, True), Asked("tests/test_a.py::test_f", 0, True)
    both = {
        1: [Outcome(ONE, heard, silent)],
        2: [Outcome(ONE, heard, silent), Outcome(replace(ONE, copy=1), silent, silent)],
    }
    text = page(both, 2, 0, "abc")
    assert "| by tests, of all that are not equivalent | 1 of 1 |" in text
    assert "| by tests, of all that are not equivalent | 1 of 2 |" in text
    assert "| theory | 0 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 2 |" in text  # what both have drawn is one


@pytest.mark.parametrize("silent", [{"tests/test_a.py": "abc whole"}, {}])
def test_what_was_not_finished_counts_as_not_noticed(silent: dict[str, str]) -> None:
    """Also where the budget was spent before anybody came by."""
    unfinished = outcome(ONE, [Answer(ONE.digest, TESTS, "", "", "v", silent, finished=False)], {})
    assert unfinished.name == OPEN
    text = page({1: [unfinished]}, 300, 0, "abc")
    assert "| by tests, of all that are not equivalent | 0 of 1 |" in text
    assert "Not finished, and not noticed so far\n\n| mutant" in text


def test_a_mutant_that_claims_notice_counts_though_no_test_was_asked() -> None:
    heard = outcome(ONE, [Answer(ONE.digest, CLAIMS, "E1 disagrees", "E1", "v")], {})
    assert heard.name == CLAIM_OPEN
    assert "| by claims, of those in `theory` that a claim comes by | 1 of 1 |" in page({1: [heard]}, 1, 0, "abc")


TREE = {
    "a.py": "x = 1\n",
    "test_a.py": "from a import x\n\ny = 1\n\n\ndef test_f():\n    assert x == y\n\n\ndef test_g():\n    pass\n",
}


@pytest.mark.parametrize(
    ("path", "before", "after", "noticed", "silent"),
    [
        ("test_a.py", "", "", True, True),
        ("test_a.py", "assert x == y", "assert x != y", False, False),
        ("test_a.py", "y = 1", "y = 2", False, False),
        ("test_a.py", "pass", "assert True", True, False),
        ("test_a.py", "test_f", "test_h", False, False),
        ("a.py", "x = 1", "x = 1\nz = 2", True, False),
    ],
)
def test_how_long_an_answer_counts(
    path: str, before: str, after: str, noticed: bool, silent: bool, tmp_path: Path
) -> None:
    """A notice while the test is the same, silence while both files are."""
    for name, text in TREE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths, mutant, reach = (
        {(TESTS, "test_a.py"): "test_a.py"},
        replace(ONE, path="a.py"),
        Reach(tmp_path, tmp_path / "r"),
    )
    by = told(reach, Unit(TESTS, "test_a.py", "test_a.py"), "test_a.py::test_f[2]")
    one = Answer(mutant.digest, TESTS, "test_a.py::test_f[2]", "test_a.py", by)
    kept = {"test_a.py": f"{reach.version('test_a.py')} whole"}
    other = Answer(mutant.digest, TESTS, "", "", reach.version("a.py"), kept)
    assert not holds(reach, mutant, one, {})
    (tmp_path / path).write_text(TREE[path].replace(before, after) if before else TREE[path], encoding="utf-8")
    now = Reach(tmp_path, tmp_path / "r")
    assert (holds(now, mutant, one, paths), holds(now, mutant, other, paths)) == (noticed, silent)


@pytest.mark.parametrize(
    ("tests", "claims", "name"),
    [
        (Asked("x", 0, True), Asked("", 2, True), TEST),
        (Asked("", 2, True), Asked("x", 0, True), CLAIM),
        (Asked("", 0, True), Asked("", 0, True), NEITHER),
        (Asked("x", 0, True), Asked("", 0, False), TEST_OPEN),
        (Asked("", 0, False), Asked("x", 0, True), CLAIM_OPEN),
        (Asked("", 1, True), Asked("", 0, False), OPEN),
    ],
)
def test_names(tests: Asked, claims: Asked, name: str) -> None:
    assert Outcome(ONE, tests, claims).name == name
    assert Outcome(ONE, tests, claims, "reason").name == SAME


def test_an_equivalent_one_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text('[abc]\nreason = " "\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"e\.toml: abc has no reason"):
        reasons(tmp_path / "e.toml")


def test_answers_outlive_a_torn_line(tmp_path: Path) -> None:
    answer = Answer("m", TESTS, "", "", "v")
    Results(tmp_path / "a.jsonl").add(answer)
    with open(tmp_path / "a.jsonl", "a", encoding="utf-8") as file:
        file.write('{"mutant": "n", "versi')
    results = Results(tmp_path / "a.jsonl")
    results.add(replace(answer, mutant="o"))
    assert [one.mutant for one in Results(tmp_path / "a.jsonl").all()] == ["m", "o"]


def test_a_measurement_that_did_not_end_is_no_whole_one(tmp_path: Path) -> None:
    """Who comes by of what was not run is not known; of what was, it is."""
    unit, other = Unit(TESTS, "tests/a.py", "tests/a.py"), replace(ONE, copy=1)
    reach = Reach(tmp_path, tmp_path, [ONE, other])
    row = {"node": "tests/a.py::test_f", "outcome": "passed", "seconds": 1.0, "came": [other.digest]}
    reach.keep(unit, [row], 900.0, whole=False)
    again = Reach(tmp_path, tmp_path)
    found = again.get(unit, ONE)
    assert found is not None
    assert not found.whole
    assert (again.reaching(unit, ONE), again.reaching(unit, other)) == ([], ["tests/a.py::test_f"])
    assert again.get(unit, replace(ONE, copy=2)) is None  # it was not there
    again.at_import = frozenset({ONE.digest})
    assert again.reaching(unit, ONE) == ["tests/a.py::test_f"]


def test_what_is_kept_in_the_repository_goes_on_elsewhere(tmp_path: Path) -> None:
    """Who comes by, too, and what is known there already stays."""
    unit = Unit(TESTS, "tests/a.py", "tests/a.py")
    reach = Reach(tmp_path, tmp_path / "one", [ONE])
    reach.keep(unit, [{"node": "tests/a.py::f", "outcome": "passed", "seconds": 1.0, "came": [ONE.digest]}], 2.0, True)
    results = Results(tmp_path / "one" / "a.jsonl")
    results.add(Answer("m", TESTS, "tests/a.py::f", "tests/a.py", "v"))
    text = written({"answers": [asdict(one) for one in results.all()], **reach.pack()})
    packed = json.loads(text)
    other, there = Reach(tmp_path, tmp_path / "two"), Results(tmp_path / "two" / "a.jsonl")
    other.unpack(packed)
    there.take_over(Answer(**one) for one in packed["answers"])
    assert other.reaching(unit, ONE) == ["tests/a.py::f"]
    assert there.all() == results.all()
    there.add(Answer("m", TESTS, "", "", "new"))
    there.take_over(results.all())
    assert there.all()[0].version == "new"
