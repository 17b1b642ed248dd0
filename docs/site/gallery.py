"""The gallery: scripts of ten lines in ``docs/gallery``, run by the build, each with its picture.

A script's docstring is its title, its sentence, and the page that explains it; it leaves a matplotlib `Figure` as `figure`.
"""

import ast
import re
import runpy
from dataclasses import dataclass
from pathlib import Path

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

    def draw(self, folder: Path) -> None:
        """Run the script and write its picture."""
        draw(SCRIPTS / f"{self.name}.py", folder)

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


def entries() -> list[Entry]:
    """All scripts, by name."""
    return [Entry.read(path) for path in sorted(SCRIPTS.glob("*.py"))]


def stage(folder: Path) -> None:
    """Write the gallery's pages and pictures into a folder."""
    found = entries()
    folder.mkdir(parents=True)
    for entry in found:
        entry.draw(folder)
        (folder / f"{entry.name}.md").write_text(entry.text, encoding="utf-8")
    tree = ["```{toctree}", ":hidden:", "", *(entry.name for entry in found), "```", ""]
    head = ["# Gallery", "", "Each picture was made by the lines on its page when this site was built.", ""]
    grid = ["::::{grid} 1 2 2 3", ":gutter: 3", "", *(entry.card for entry in found), "::::", ""]
    (folder / "index.md").write_text("\n".join([*head, *grid, *tree]), encoding="utf-8")
