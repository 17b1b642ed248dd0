"""The site's own tools: what its gates find, how docstrings are read, and that its pages leave nothing out."""

import json
from pathlib import Path

import check
import claims
import docstrings
import errata
import gallery
import measured
import pages
import pytest
import verdicts

from emergence import verdict_cells
from emergence.arguments import parser
from emergence.store.folder import Store, cell_name
from validation import Outcome, catalogue

SITE = Path(__file__).resolve().parents[1] / "docs" / "site"
PAGE = '<html><head><link rel="stylesheet" href="a.css"></head><body id="top">{}</body></html>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A site of two pages in order."""
    (tmp_path / "a.css").write_text("b { color: red; background: url(data:image/png;base64,x) }")
    (tmp_path / "two.html").write_text(PAGE.format('<h2 id="part">x</h2>'))
    (tmp_path / "index.html").write_text(
        PAGE.format('<a href="two.html#part">x</a><a href="#top"></a><a href="https://x"></a>')
    )
    return tmp_path


def test_a_site_in_order_has_no_faults(folder: Path) -> None:
    assert check.faults(folder, check.read_all(folder)) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="three.html">x</a>', "links to three.html, which is not there"),
        ('<a href="two.html#whole">x</a>', "links to two.html#whole: that page has no such anchor"),
        ('<a href="#whole">x</a>', "links to #whole: that page has no such anchor"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<img src="//cdn.example/x.png">', "loads //cdn.example/x.png"),
        ('<img src="gone.png">', "loads gone.png, which is not there"),
        ('<p style="background: url(http://x/y.png)">', "loads http://x/y.png"),
        ("<style>@import url(https://x/y.css);</style>", "loads https://x/y.css"),
        ('<img srcset="a.css 1x, https://x/y.png 2x">', "loads https://x/y.png"),
        ('<object data="https://x/y.svg"></object>', "loads https://x/y.svg"),
        ('<svg><use href="https://x/y.svg#a"/></svg>', "loads https://x/y.svg#a"),
        ('<a href="../beside.html">x</a>', "links to ../beside.html, which is not there"),
        ('<img src="../beside.html">', "loads ../beside.html, which is not there"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, body: str, said: str) -> None:
    """A file beside the site is there only where the site was built."""
    (folder.parent / "beside.html").touch()
    (folder / "index.html").write_text(PAGE.format(body))
    assert check.faults(folder, check.read_all(folder)) == [f"index.html: {said}"]


def test_styles_load_nothing_from_outside(folder: Path) -> None:
    (folder / "a.css").write_text("@font-face { src: url('https://fonts.example/a.woff2') }")
    assert check.faults(folder, check.read_all(folder)) == ["a.css: loads https://fonts.example/a.woff2"]


def test_a_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert check.faults(tmp_path, check.read_all(tmp_path)) == [f"{tmp_path} has no pages"]


def test_what_is_too_far_from_the_first_page_is_named(folder: Path) -> None:
    (folder / "three.html").write_text(PAGE.format('<h2 id="deep">x</h2>'))
    (folder / "two.html").write_text(PAGE.format('<h2 id="part">x</h2><a href="three.html#deep">x</a>'))
    pages = check.read_all(folder)
    assert check.far(folder, pages, {r"two\.html#part": 1, r"three\.html#.*": 2, r"three\.html": 2}) == [
        "three.html#top is not reached, and should be within 2"
    ]
    assert check.far(folder, pages, {r"three\.html#deep": 1, "four": 1}) == [
        "three.html#deep is 2 clicks away, and should be within 1",
        "no page is four",
    ]


@pytest.mark.parametrize(
    ("markdown", "rest"),
    [
        ("size |x| of 2*d", r"size \|x\| of 2\*d"),
        ("* a point\n* another", "* a point\n* another"),
        ("**bold**, `--flag`, `predict`", r"**bold**, \ ``--flag``\ , \ :py:obj:`~theory.predict`\ "),
        ("Args:\n    eta: η. steps: how\n        many.\n", "Args:\n    eta: η.\n    steps: how\n        many."),
        ("$T_p$ is", r"\ :math:`T_p`\  is"),
        ("  flow\n\n  $$a\n  +b$$.", "  flow\n\n  \n\n  .. math::\n\n      a +b.\n\n  "),
    ],
)
def test_docstrings_become_what_autodoc_reads(markdown: str, rest: str) -> None:
    assert docstrings.restructured(markdown).split() == rest.split()


def test_every_public_name_has_a_page() -> None:
    lines = set(pages.api().split())
    assert set(docstrings.PUBLIC) <= lines


def test_every_claim_command_and_page_stands_in_the_site() -> None:
    made = pages.all_pages()
    text = "\n".join(made.values())
    assert [claim.id for claim in catalogue() if f"(claim-{claim.id.lower()})=" not in text] == []
    assert "not judged yet" not in text
    assert [name for name in parser().commands() if f"## emergence {name}\n" not in made["reference/commands.md"]] == []
    listed = {document for part in pages.PARTS for document in pages.members(part)}
    assert {f"docs/{path.stem}" for path in (pages.ROOT / "docs").glob("*.md")} <= listed


def test_tables_of_verdicts_have_the_anchors_that_they_link_to() -> None:
    known = claims.Known([claim for claim in catalogue() if claim.id in ("E1", "E2")])
    for claim in known.claims:  # one quantity, and several
        page = check.Page()
        page.feed("\n".join(claims.judged(claim, known)))
        assert {link.removeprefix("#") for link in page.linked} <= page.anchors
        assert page.linked


def test_what_a_source_prints_wrongly_is_among_the_errata() -> None:
    made = pages.all_pages()
    wrong = [claim.id for claim in catalogue() if claim.expected == "disagrees"]
    assert [name for name in wrong if f"[{name}](#claim-{name.lower()})" not in made["errata.md"]] == []
    printed = {claim.id for claim in catalogue() if claim.id in wrong and claim.source != "derived"}
    assert set(errata.scripts()) == printed, "each has its picture: a script in docs/errata"
    assert [name for name in printed if f"errata/{name}.png" not in made["errata.md"]] == []
    unanswered = [claim.id for claim in catalogue() if claim.kind == "open"]
    assert [name for name in unanswered if f"## {name}: " not in made["open-questions.md"]] == []


def test_the_verdicts_of_the_site_are_those_on_the_catalogue() -> None:
    found = verdicts.read(catalogue())
    again = "run `emergence validate` on it, then docs/site/verdicts.py"
    assert set(found) == set(json.loads(verdicts.FILE.read_text())) == {claim.id for claim in catalogue()}, again
    assert [one.id for judged in found.values() for one in judged.verdicts if not one.as_expected] == []
    assert all(judged.date and judged.commit for judged in found.values())


def test_tables_of_the_pages_show_what_was_measured_last() -> None:
    numbers = measured.known()
    page = (measured.PAGES / "exponents.md").read_text()
    estimate = measured.written(numbers["S1.J1"])[1]
    assert estimate in page
    assert measured.renewed(page.replace(estimate, "0.1 ± 0.2"), numbers) == page
    stale = [x.name for x in measured.PAGES.glob("*.md") if measured.renewed(x.read_text(), numbers) != x.read_text()]
    assert stale == [], "run docs/site/measured.py"


def test_verdicts_are_kept_claim_by_claim(tmp_path: Path) -> None:
    one, other = catalogue()[:2]
    content = json.loads(verdicts.FILE.read_text())
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps({name: content[name] for name in (one.id, "E6")} | {"gone": content[one.id]}))
    with Store(tmp_path / "store") as store:
        configuration = verdict_cells.configure(other, verdicts.SEED, verdicts.PRESET)
        measured = [x.measurement for x in verdicts.read([other])[other.id].verdicts]
        store.write(cell_name(configuration), verdict_cells.seal(Outcome(measured), configuration))
        assert "E9" in verdicts.update(store, catalogue(), file)
    kept = verdicts.read(catalogue(), file)
    assert list(kept) == sorted({one.id, other.id, "E6"}, key=list(content).index)
    # As text: a NaN equals none, from Python 3.13 on within records, too.
    assert repr(kept[one.id]) == repr(verdicts.read([one])[one.id])
    assert repr(kept[other.id].verdicts) == repr(verdicts.read([other])[other.id].verdicts)


def test_a_page_without_its_table_is_refused() -> None:
    assert claims.rows(["| a | b |", "|---|:-:|", "| 1 | 2 |"], "a") == [{"a": "1", "b": "2"}]
    with pytest.raises(ValueError, match="columns a, b, and needs c"):
        claims.rows(["| a | b |"], "c")
    with pytest.raises(ValueError, match="of none"):
        claims.rows([], "quantity")


def test_a_docstring_that_names_what_is_not_there_is_noticed() -> None:
    assert docstrings.missing("`theory.core.activation.Activation`, `theory.nothing`, `theory`") == ["theory.nothing"]


def test_the_gallery_is_short_and_leads_to_pages() -> None:
    found = gallery.entries()
    assert len(found) >= 8
    assert [entry.name for entry in found if not (SITE.parents[1] / entry.page).is_file()] == []
    assert [entry.name for entry in found if len([line for line in entry.code.splitlines() if line]) > 14] == []


@pytest.mark.slow
def test_a_script_of_the_gallery_leaves_its_picture(tmp_path: Path) -> None:
    (entry,) = (entry for entry in gallery.entries() if entry.name == "riccati")
    gallery.draw_all([gallery.SCRIPTS / "riccati.py"], tmp_path)
    assert (tmp_path / "riccati.png").stat().st_size > 5000
    assert entry.code.startswith("import")
    assert '"""' not in entry.code


def test_every_card_has_a_sentence_of_its_own() -> None:
    said = {one: pages.card(one).split("\n")[-3] for part in pages.PARTS for one in pages.members(part)}
    assert [one for one, words in said.items() if not words.endswith((".", "?", "!"))] == []
    assert len(set(said.values())) == len(said)
    assert set(pages.SENTENCES) <= set(said)


def test_the_page_on_citing_has_the_papers_of_the_readme() -> None:
    page = pages.cite()
    assert [paper for paper in ("2504.19983", "2508.03688", "2603.10397") if f"arxiv.org/abs/{paper}" not in page] == []
    assert "@software{" in page


def test_words_that_lead_the_search_stand_below_a_title_of_a_page_that_is_there() -> None:
    made = pages.all_pages()
    assert [
        one for one in pages.LOOKED_FOR if f"{one}.md" not in made and not (pages.ROOT / f"{one}.md").is_file()
    ] == []
    assert (
        pages.findable("# A\n\nb", ("c", "d")) == "# A\n\n```{index} ! single: c\n```\n```{index} ! single: d\n```\n\nb"
    )
    words = [word.lower() for one in pages.LOOKED_FOR.values() for word in one]
    assert len(set(words)) == len(words)
