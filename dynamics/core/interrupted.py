"""What a run says on its way, and what is left of one that was stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Called with the share of the work that is done, and where that is, in words.
Progress = Callable[[float, str], None]


def unfinished(name: str) -> str:
    """The name of a part beside that of the whole, which it must not replace: ``x.nc`` → ``x.unfinished.nc``."""
    path = Path(name)
    return f"{path.stem}.unfinished{path.suffix}"


class Stopped:
    """A run that did not come to its end.

    Attributes:
        result: what the run would have returned, up to the last thing recorded (None: nothing was).
        at: how far that goes, in words.
    """

    result: Any = None
    at: str = ""

    @property
    def dataset(self) -> Any:
        """The result's `xarray.Dataset`, or the result if it is one itself."""
        return getattr(self.result, "dataset", self.result)


class Interrupted(KeyboardInterrupt, Stopped):
    """Ctrl-C during a run."""

    def __init__(self, result: Any, at: str = "") -> None:
        super().__init__(f"interrupted {at}".strip())
        self.result, self.at = result, at


def on_request(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or what a library made of one that came in the middle of its work."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__
    return cause is not None


class IntegrationError(RuntimeError, Stopped):
    """The integrator gave up: the message says at what time, why, and what to do."""
