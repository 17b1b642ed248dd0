"""``make docs``: the site, built from the pages, the docstrings and the records; then gone through link by link.

Pages are staged as they lie in the repository, so that links which work in a checkout work on the site; pages that are made
from records (`pages`) are put beside them. ``python docs/site/build.py FOLDER``: what was built there before is replaced.
"""

import shutil
import sys
from pathlib import Path

import check
import errata
import gallery
import pages
from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: What the theme leaves for a screen reader to guess, and what it says on the console.
MENDED = {
    "*.html": (
        ('<dd><em class="sig-param">', '<dd role="presentation"><em class="sig-param">'),
        ('<dl>\n<dd role="presentation">', '<dl role="presentation">\n<dd role="presentation">'),
        ("<summary>", '<summary aria-label="pages below">'),
        ('title="Search" aria-label="Search"', 'title="Search"'),
        (
            '<div class="sidebar-primary-items__start',
            '<div role="search" aria-label="site" class="sidebar-primary-items__start',
        ),
    ),
    "*-theme.js": (("console.log(", "void ("),),
    "search.html": (("console.log(", "void ("),),
}
#: Pages, and what they link to.
STAGED = ("docs", "notebooks", "examples", "theory", "dynamics", "validation", "emergence", "tests")


def stage(source: Path) -> None:
    """Lay out what Sphinx reads."""
    for name in STAGED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "site"))
    for file in [*ROOT.glob("*.md"), *ROOT.glob("LICENSE"), *ROOT.glob("CITATION.cff"), HERE / "index.md"]:
        shutil.copy2(file, source)
    (source / "README.md").unlink()
    for name, text in pages.all_pages().items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, words in pages.LOOKED_FOR.items():
        path = source / f"{name}.md"
        path.write_text(pages.findable(path.read_text(encoding="utf-8"), words), encoding="utf-8")
    for path in (source / "notebooks").glob("*.ipynb"):
        path.write_text(pages.notebook(path.read_text(encoding="utf-8")), encoding="utf-8")
    gallery.stage(source / "gallery")
    errata.stage(source / "errata")


def mend(html: Path) -> None:
    """Write `MENDED` into the built files."""
    for pattern, changes in MENDED.items():
        for path in html.rglob(pattern):
            text = path.read_text(encoding="utf-8")
            for old, new in changes:
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")


def main(folder: Path) -> int:
    """Build into `folder`/html. Status 0 if nothing is wrong."""
    source, html = folder / "source", folder / "html"
    for old in (source, html, folder / "doctrees"):
        shutil.rmtree(old, ignore_errors=True)
    stage(source)
    options = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-c", str(HERE), "-d", str(folder / "doctrees")]
    if status := build_main([*options, str(source), str(html)]):
        return status
    mend(html)
    built = check.read_all(html)
    faults = [*check.faults(html, built), *check.far(html, built)]
    print("\n".join(faults) or f"{html / 'index.html'}: {len(built)} pages, every link leads somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: build.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
