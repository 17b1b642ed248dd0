"""Pictures of the errata: a script in ``docs/errata`` under the id of the claim that judges what is printed, run by the build.

Its docstring is the caption; it leaves a matplotlib `Figure` as `figure`, as the gallery's scripts do.
"""

from dataclasses import dataclass
from pathlib import Path

import gallery  # beside this file

SCRIPTS = Path(__file__).resolve().parents[1] / "errata"


@dataclass(frozen=True)
class Script:
    """A script: id of the claim, caption, and what it runs."""

    name: str
    caption: str
    code: str

    @property
    def figure(self) -> list[str]:
        """The picture with its caption, and the lines that made it, folded."""
        picture = [f"```{{figure}} errata/{self.name}.png", f":alt: {self.caption}", "", self.caption, "```", ""]
        lines = [":::{dropdown} Lines that made it", "```python", *self.code.splitlines(), "```", ":::", ""]
        return [*picture, *lines]


def scripts() -> dict[str, Script]:
    """All scripts by the id of their claim."""
    found = {}
    for path in sorted(SCRIPTS.glob("*.py")):
        said, code = gallery.parted(path)
        found[path.stem] = Script(path.stem, " ".join(said.split()), code)
    return found


def stage(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True)
    gallery.draw_all(sorted(SCRIPTS.glob("*.py")), folder)
