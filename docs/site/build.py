"""``make docs``: the site, built from the pages, the docstrings and the records; then gone through link by link.

Pages are staged as they lie in the repository, so that links which work in a checkout work on the site; pages that are made
from records (`pages`) are put beside them. ``python docs/site/build.py [FOLDER]``: the folder is made anew.
"""

import shutil
import sys
from pathlib import Path

import check
import pages
from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
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


def main(folder: Path) -> int:
    """Build into `folder`/html. Status 0 if nothing is wrong."""
    source, html = folder / "source", folder / "html"
    for old in (source, html, folder / "doctrees"):
        shutil.rmtree(old, ignore_errors=True)
    stage(source)
    options = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-c", str(HERE), "-d", str(folder / "doctrees")]
    if status := build_main([*options, str(source), str(html)]):
        return status
    faults = check.faults(html)
    print("\n".join(faults) or f"{html / 'index.html'}: {len(list(html.rglob('*.html')))} pages, every link leads somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "emergence-out" / "docs")))
