"""The runs of a conjecture: cells of a store, so that a killed judgement loses none, or in memory without a folder."""

import io
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from emergence import cells
from emergence.conjecture.conjecture import Conjecture, Point
from emergence.refusal import refuse
from emergence.store.engine import Here, Workers
from emergence.store.folder import Store
from emergence.store.sweeping import Sweep

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[float, str], None]


def _silent(fraction: float, text: str) -> None:
    """No progress is asked for."""


@dataclass
class Runs:
    """Where runs are computed and kept.

    Attributes:
        folder: of the store; None keeps them in memory. workers: processes; one is this one. progress: told of cells.
        seconds: time of every run that was computed here, in order.
    """

    folder: Path | None = None
    workers: int = 1
    progress: Progress = _silent
    seconds: list[float] = field(default_factory=list)
    _kept: dict[str, bytes] = field(default_factory=dict)

    def of(self, conjecture: Conjecture, points: Sequence[Point]) -> "list[xr.Dataset]":
        """One dataset for each point, in their order. Raises `InputError` where a run cannot be computed."""
        asked = [conjecture.cell(point) for point in points]
        if self.folder is None:
            for place, cell in enumerate(asked):
                if cell.name not in self._kept:
                    self._kept[cell.name] = self._timed(cell.configuration)
                self.progress((place + 1) / len(asked), f"{place + 1} of {len(asked)} runs")
            return [_opened(self._kept[cell.name]) for cell in asked]
        failed: list[str] = []
        with ExitStack() as stack:
            store = stack.enter_context(Store(self.folder))
            store.sweep_up()
            sweep = Sweep(store, asked, failed.append, self.progress, None if self.workers > 1 else self._timed)
            if sweep.unfinished:
                count = min(self.workers, len(sweep.unfinished))
                outcome = sweep.run(stack.enter_context(Workers(count)) if count > 1 else Here())
                if outcome.failed:
                    refuse(f"{conjecture.where}: {failed[-1]}")
            contents = [store.content(cell.name) for cell in asked]
        return [_opened(content) for content in contents if content is not None]

    def again(self, conjecture: Conjecture, point: Point) -> None:
        """Compute a run once more, for its time."""
        self._timed(conjecture.cell(point).configuration)

    def _timed(self, configuration: object) -> bytes:
        before = time.perf_counter()
        content = cells.compute(configuration)  # type: ignore[arg-type]
        self.seconds.append(time.perf_counter() - before)
        return content


def _opened(content: bytes) -> "xr.Dataset":
    import xarray as xr

    with xr.open_dataset(io.BytesIO(content), engine="scipy") as data:
        return data.load()
