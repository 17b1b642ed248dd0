"""The runs of a conjecture: cells of a store, so that a killed judgement loses none, or in memory without a folder."""

import io
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from emergence import cells
from emergence.conjecture.conjecture import Conjecture, Point
from emergence.model import Progress
from emergence.refusal import refuse
from emergence.store.engine import Here, Workers
from emergence.store.folder import Store
from emergence.store.sweeping import Cell, Sweep

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Stopped:
    """A run whose integrator gave up. `why`: where, and why, on one line."""

    why: str


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
    _kept: dict[str, bytes | Stopped] = field(default_factory=dict)

    def of(self, conjecture: Conjecture, points: Sequence[Point]) -> "list[xr.Dataset | Stopped]":
        """One dataset for each point, in their order, or why its integrator gave up.

        Raises `InputError` where a run cannot be computed.
        """
        asked = [conjecture.cell(point) for point in points]
        found = self._in_memory(asked) if self.folder is None else self._in_store(conjecture, asked, self.folder)
        return [one if isinstance(one, Stopped) else _opened(one) for one in found]

    def part(self, done: int, of: int) -> "Runs":
        """The same for one of several equal parts, `done` of which are done."""
        whole = self.progress
        return replace(
            self, progress=lambda fraction, text: whole((done + fraction) / of, f"{done + 1} of {of}: {text}")
        )

    def _in_memory(self, asked: Sequence[Cell]) -> list[bytes | Stopped]:
        from dynamics.core.interrupted import IntegrationError

        for place, cell in enumerate(asked):
            if cell.name not in self._kept:
                try:
                    self._kept[cell.name] = self._timed(cell.configuration)
                except IntegrationError as error:
                    self._kept[cell.name] = _stopped(error)
            self.progress((place + 1) / len(asked), f"{place + 1} of {len(asked)} runs")
        return [self._kept[cell.name] for cell in asked]

    def _in_store(self, conjecture: Conjecture, asked: Sequence[Cell], folder: Path) -> list[bytes | Stopped]:
        """Every finished run is kept; one whose integrator gave up is tried again by the next judgement."""
        from dynamics.core.interrupted import IntegrationError

        found: dict[str, bytes | Stopped] = {}
        with ExitStack() as stack:
            store = stack.enter_context(Store(folder))
            store.sweep_up()
            sweep = Sweep(store, asked, lambda _: None, self.progress, None if self.workers > 1 else self._timed)
            if sweep.unfinished:
                count = min(self.workers, len(sweep.unfinished))
                outcome = sweep.run(stack.enter_context(Workers(count)) if count > 1 else Here())
                for cell, reason in outcome.failed:
                    error = outcome.errors.get(cell.name)
                    if not isinstance(error, IntegrationError):
                        refuse(f"{conjecture.where}: cell {cell.label} failed: {reason}")
                    found[cell.name] = _stopped(error)
            for cell in asked:
                if cell.name not in found and (content := store.content(cell.name)) is not None:
                    found[cell.name] = content
        return [found[cell.name] for cell in asked]

    def again(self, conjecture: Conjecture, point: Point) -> None:
        """Compute a run once more, for its time."""
        self._timed(conjecture.cell(point).configuration)

    def _timed(self, configuration: object) -> bytes:
        before = time.perf_counter()
        content = cells.compute(configuration)  # type: ignore[arg-type]
        self.seconds.append(time.perf_counter() - before)
        return content


def _stopped(error: Exception) -> Stopped:
    return Stopped(" ".join(str(error).split()))


def _opened(content: bytes) -> "xr.Dataset":
    import xarray as xr

    with xr.open_dataset(io.BytesIO(content), engine="scipy") as data:
        return data.load()
