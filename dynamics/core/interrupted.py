"""What is left of a run that was interrupted."""

from pathlib import Path
from typing import Any


def unfinished(name: str) -> str:
    """The name of a part beside that of the whole, which it must not replace: ``x.nc`` → ``x.unfinished.nc``."""
    path = Path(name)
    return f"{path.stem}.unfinished{path.suffix}"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run.

    Attributes:
        result: what the run would have returned, up to the last thing recorded. at: how far it came, in words.
    """

    def __init__(self, result: Any, at: str = "") -> None:
        super().__init__(f"interrupted {at}".strip())
        self.result, self.at = result, at

    @property
    def dataset(self) -> Any:
        """The result's `xarray.Dataset`, or the result if it is one itself."""
        return getattr(self.result, "dataset", self.result)
