"""A stored verdict holds as long as nothing has changed that could change it: what counts, and what does not."""

import hashlib
import inspect
import sys
from pathlib import Path
from types import FrameType

import pytest

from emergence.store.code_digest import Code, own_digest
from validation.judge.catalogue import catalogue, module_of
from validation.judge.context import Context

ROOT = Path(__file__).resolve().parents[2]

SAID = '"""What it says."""\n'
#: A project in small: what the claim reaches directly, by a name that the package passes on, and inside a function.
FILES = {
    "theory/__init__.py": "from theory import effect\nfrom theory.a import A\nfrom theory.b import B\n",
    "theory/a.py": "from theory.deep import D\nA = D\n",
    "theory/b.py": "B = 1\n",
    "theory/deep.py": "D = 1\n",
    "theory/effect.py": "import math\n",
    "theory/late.py": "def g():\n    return 1\n",
    "theory/apart.py": "X = 1\n",
    "dynamics/__init__.py": "",
    "dynamics/flow.py": "def f():\n    from theory.late import g\n    return g()\n",
    "validation/__init__.py": "",
    "validation/judge/claim.py": SAID + "import numpy\nfrom dynamics.flow import f\nfrom theory import A\n",
}
START = "validation/judge/claim.py"
REACHED = {START, "dynamics/flow.py", "theory/a.py", "theory/deep.py", "theory/effect.py", "theory/late.py"}

WHOLE = {f"theory/{name}.py" for name in ("__init__", "a", "b", "deep", "effect")}


def project(root: Path, **changes: str) -> tuple[Code, Path]:
    """The files in a folder of their own; `changes`: stem → text."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changes.get(path.stem, text), encoding="utf-8")
    return Code(root), root / START


def test_what_is_reached(tmp_path: Path) -> None:
    code, start = project(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in code.reached(start)} == REACHED


@pytest.mark.parametrize("name", sorted(set(FILES) - {x for x in FILES if x.endswith("__init__.py")}))
def test_a_change_counts_where_it_can_be_reached(name: str, tmp_path: Path) -> None:
    """In a lazy import and behind two others too; a comment, a docstring and another module do not count."""
    code, start = project(tmp_path / "before")
    stem, text = Path(name).stem, FILES[name]
    changed, there = project(tmp_path / "after", **{stem: text.replace("1", "2") + "Y = 3\n"})
    assert (changed.digest(there) != code.digest(start)) == (name in REACHED)
    told = f'"""Other words."""\n# why\n{text.removeprefix(SAID)}'
    said, here = project(tmp_path / "said", **{stem: told})
    assert said.digest(here) == code.digest(start)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("import theory\nprint(theory.B)\n", {"theory/b.py", "theory/effect.py"}),
        ("import theory as t\nprint(t.apart.X)\n", {"theory/apart.py", "theory/effect.py"}),
        ("import theory\nprint(vars(theory))\n", WHOLE),
        ("from theory import *\n", WHOLE),
        ("import theory.apart\nprint(theory.apart.X)\n", {"theory/apart.py", "theory/effect.py"}),
    ],
)  # fmt: skip
def test_every_way_to_import_is_followed(text: str, more: set[str], tmp_path: Path) -> None:
    code, start = project(tmp_path, claim=text)
    assert {str(path.relative_to(tmp_path)) for path in code.reached(start)} == {START, *more}


@pytest.mark.slow_for("E13")
@pytest.mark.parametrize("name", ["E13", "L1", "S7"])
def test_code_that_runs_is_code_that_counts(name: str) -> None:
    """Every function of the project that a claim calls lies in a module that its digest has read."""
    claim = next(one for one in catalogue() if one.id == name)
    seen: set[Path] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED and path.is_relative_to(ROOT):
            seen.add(path)

    sys.setprofile(note)
    try:
        claim.run(Context("quick", 412))
    finally:
        sys.setprofile(None)
    seen = {path for path in seen if path.relative_to(ROOT).parts[0] in ("theory", "dynamics", "validation")}
    assert len(seen) > 3
    assert seen <= Code(ROOT).reached(Path(str(module_of(claim).__file__)))


def test_a_file_of_ones_own_changes_with_what_it_imports_of_ones_own(tmp_path: Path) -> None:
    """Directly or by another file, from beside it; not with its neighbours, nor in a folder that is a package of no file."""
    texts = {
        "own.py": "import numpy\nfrom factors import FACTOR\nimport apart.deep\n",
        "factors.py": "from units import UNIT\nFACTOR = 2 * UNIT\n",
        "units.py": "UNIT = 1\n",
        "apart/deep.py": "",
        "neighbour.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    def digest_with(name: str) -> str:
        (tmp_path / name).write_text(texts[name] + "CHANGED = 1\n", encoding="utf-8")
        found = own_digest(tmp_path / "own.py")
        (tmp_path / name).write_text(texts[name], encoding="utf-8")
        return found

    before = own_digest(tmp_path / "own.py")
    found = {name: digest_with(name) for name in texts}
    assert {name for name, one in found.items() if one != before} == {
        "own.py",
        "factors.py",
        "units.py",
        "apart/deep.py",
    }
    assert own_digest(tmp_path / "own.py") == before


def test_a_file_that_python_cannot_read_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def (", encoding="utf-8")
    assert own_digest(tmp_path / "own.py") == hashlib.sha256(b"def (").hexdigest()
