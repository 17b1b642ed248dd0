"""The gallery: scripts of ten lines in ``docs/gallery``, run by the build, each with its picture.

A script's docstring is its title, its sentence, and the page that explains it; it leaves a matplotlib `Figure` as `figure`.
"""

import ast
import multiprocessing
import re
import runpy
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from emergence.cache import keep_compiled

SCRIPTS = Path(__file__).resolve().parents[1] / "gallery"


@dataclass(frozen=True)
class Entry:
    """A script: name of its file, title, sentence, page of the site, and what it runs (its docstring left out)."""

    name: str
    title: str
    sentence: str
    page: str
    code: str

    @classmethod
    def read(cls, path: Path) -> "Entry":
        """Raises `ValueError` unless the docstring has its three parts."""
        said, code = parted(path)
        title, sentence, page = re.split(r"\n\s*\n", said)
        return cls(path.stem, title, " ".join(sentence.split()), page, code)

    @property
    def card(self) -> str:
        head = [f":::{{grid-item-card}} {self.title}", f":img-top: {self.name}.png", f":img-alt: {self.sentence}"]
        return "\n".join([*head, f":link: {self.name}", ":link-type: doc", ":::", ""])

    @property
    def text(self) -> str:
        image = f"![{self.sentence}]({self.name}.png)"
        code = f"```python\n{self.code}\n```"
        return f"# {self.title}\n\n{image}\n\n{self.sentence} [What is behind it](../{self.page}).\n\n{code}\n"


def parted(path: Path) -> tuple[str, str]:
    """What a script says of itself, and its lines without that."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    code = "\n".join(text.splitlines()[module.body[0].end_lineno :])
    return (ast.get_docstring(module) or "").strip(), code.strip()


def draw(script: Path, folder: Path) -> None:
    """Run a script and write the picture that it leaves."""
    figure = runpy.run_path(str(script))["figure"]
    figure.set_size_inches(6.4, 4)
    figure.savefig(folder / f"{script.stem}.png", dpi=110, metadata={"Software": None})


def draw_all(scripts: Sequence[Path], folder: Path) -> None:
    """`draw` each, side by side: in processes of their own, for a fork after JAX has begun may stand still."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"), initializer=keep_compiled) as pool:
        list(pool.map(partial(draw, folder=folder), scripts))


def entries() -> list[Entry]:
    """All scripts, by name."""
    return [Entry.read(path) for path in sorted(SCRIPTS.glob("*.py"))]


def stage(folder: Path) -> None:
    """Write the gallery's pages and pictures into a folder."""
    found = entries()
    folder.mkdir(parents=True)
    draw_all([SCRIPTS / f"{entry.name}.py" for entry in found], folder)
    for entry in found:
        (folder / f"{entry.name}.md").write_text(entry.text, encoding="utf-8")
    tree = ["```{toctree}", ":hidden:", "", *(entry.name for entry in found), "```", ""]
    head = ["# Gallery", "", "Each picture was made by the lines on its page when this site was built.", ""]
    grid = ["::::{grid} 1 2 2 3", ":gutter: 3", "", *(entry.card for entry in found), "::::", ""]
    (folder / "index.md").write_text("\n".join([*head, *grid, *tree]), encoding="utf-8")
