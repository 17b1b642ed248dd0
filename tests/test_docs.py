"""Documents hang together: links and make targets exist, claims are all named, notebooks are executed and in step."""

import json
import re
from pathlib import Path

import pytest

from emergence import reference
from emergence.models import built_in
from validation import catalogue

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
#: A file of the repository, by its path in a line of code.
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|json|toml|md))`")
_MAKE = re.compile(r"`make ([a-z]+)|^make ([a-z]+)", re.MULTILINE)
#: Places on somebody's machine have no business in a committed notebook.
_PRIVATE = re.compile(r"/(?:home|root|Users|tmp|work|mnt|private)/|[A-Z]:\\\\")
LARGEST_IMAGE = 200_000


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def targets(makefile: str) -> set[str]:
    """Names of the targets of a makefile."""
    return set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


def claim_ids(page: str) -> set[str]:
    """Claim ids in the last column of the tables of what is there."""
    rows = [line for line in page.splitlines() if line.startswith("|") and line.count("|") == 5]
    return {name for row in rows for name in re.findall(r"\b[A-Z]\d+(?:-[a-z-]+)?", row.split("|")[4])}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    local = [link for link in _LINK.findall(text(page)) if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_files_that_pages_name_are_there() -> None:
    named = {(page.name, file) for page in PAGES for file in _FILE.findall(text(page))}
    assert len(named) > 20
    assert [one for one in sorted(named) if not (ROOT / one[1]).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    named = {first or second for first, second in _MAKE.findall(text(page))}
    assert named <= targets(text(ROOT / "Makefile"))


def test_readme_names_its_two_commands() -> None:
    assert {"run", "test"} <= {first or second for first, second in _MAKE.findall(text(ROOT / "README.md"))}


def test_every_claim_is_named_in_the_table() -> None:
    assert claim_ids(text(ROOT / "docs" / "map.md")) == {claim.id for claim in catalogue()}


def test_every_derivation_is_named_in_the_table() -> None:
    page = text(ROOT / "docs" / "map.md")
    assert [name for model in built_in().values() for name in model.derivations if f"`{name}`" not in page] == []


def test_images_are_small() -> None:
    images = sorted((ROOT / "docs" / "img").glob("*.png"))
    assert len(images) >= 2
    assert [image.name for image in images if image.stat().st_size > LARGEST_IMAGE] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_executed_and_in_step_with_its_script(path: Path) -> None:
    script = text(path.with_suffix(".py"))
    cells = [cell for cell in json.loads(text(path))["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in cells if "".join(cell["source"]) not in script] == []
    assert script.count("\n# %%\n") == len(cells)
    assert all(cell["execution_count"] for cell in cells)
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_holds_no_place_of_a_machine(path: Path) -> None:
    outputs = [
        "".join(output.get("text", ""))
        + json.dumps({k: v for k, v in output.get("data", {}).items() if "image" not in k})
        for cell in json.loads(text(path))["cells"]
        for output in cell.get("outputs", [])
    ]
    assert outputs
    assert not any(_PRIVATE.search(output) for output in outputs)


def test_notebooks_were_found() -> None:
    assert NOTEBOOKS
    assert {path.stem for path in NOTEBOOKS} == {path.stem for path in (ROOT / "notebooks").glob("*.py")}


def test_the_readers_notice_what_is_wrong() -> None:
    assert _PRIVATE.search("File /home/someone/x.py")
    assert targets("run: x\n\ttest\nlint:\n") == {"run", "lint"}
    assert claim_ids("| a | b | c | E1, E7-printed |\n| E9 | only | three |") == {"E1", "E7-printed"}


def test_the_page_of_models_is_made_from_their_records() -> None:
    assert text(ROOT / "docs" / "models.md") == reference.page(), "run `make reference`"


def test_the_walks_of_the_architecture_enter_no_room_twice() -> None:
    page = text(ROOT / "docs" / "architecture.md")
    walks = [re.findall(r"^\d+\. `([^`]+)`", walk, re.M) for walk in page.split("## ")[1:]]
    walks = [rooms for rooms in walks if rooms]
    assert [len(rooms) for rooms in walks] == [12, 6]
    for rooms in walks:
        assert len(set(rooms)) == len(rooms)
        assert all((ROOT / room).is_file() for room in rooms)


#: What a claim's `source` says when it cites one of the sources whose statements have a table.
_SOURCES = re.compile(r"2504\.19983|2508\.03688|2603\.10397|talk")
_CLAIM = re.compile(r"\b[A-Z]\d+(?:-[a-z]+)*\b")


def tables() -> str:
    """The pages of all sources."""
    return "\n".join(text(page) for page in sorted((ROOT / "docs").glob("statements_*.md")))


def statements() -> dict[str, tuple[list[str], str]]:
    """Statement → claims named and the remark, over all tables of the page."""
    rows = re.findall(r"^\| (?!statement|---)(.+?) \| .+? \| (.+?) \| (.+?) \|$", tables(), re.M)
    return {f"{name} {number}": (_CLAIM.findall(ids), remark) for number, (name, ids, remark) in enumerate(rows)}


def test_statements_name_claims_that_exist_or_say_why_there_is_none() -> None:
    known, rows = {claim.id for claim in catalogue()}, statements()
    page = tables()
    assert len(rows) == sum(line.startswith("| ") for line in page.splitlines()) - page.count("| statement |")
    named = {name for ids, remark in rows.values() for name in (*ids, *_CLAIM.findall(remark))}
    assert named - known == set()
    assert [name for name, (ids, remark) in rows.items() if not ids and len(remark) < 5] == []


def test_every_claim_that_cites_a_source_stands_beside_a_statement() -> None:
    named = {name for ids, _ in statements().values() for name in ids}
    cited = {claim.id for claim in catalogue() if _SOURCES.search(claim.source)}
    assert cited - named == set()


def test_every_numbered_statement_has_a_row() -> None:
    main, noise = (text(ROOT / "docs" / f"statements_{name}.md") for name in ("paper", "label_noise"))
    numbers = ["B.1", "B.2", *(f"C.{k}" for k in range(2, 15)), *(f"D.{k}" for k in range(1, 25)), "E.1", "3.1(a)"]
    assert [x for x in numbers if not re.search(rf"^\| Lemma {re.escape(x)}[ ,]", main, re.M)] == []
    numbers = ["4.3", "4.4", "4.5", "4.6", "A.2", "A.4", "A.5", "A.6", "B.1", "B.3", "B.5", "B.6", "B.7", "C.1", "C.2"]
    assert [x for x in numbers if not re.search(rf"^\| Lemma {re.escape(x)}[ ,]", noise, re.M)] == []
