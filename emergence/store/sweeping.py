"""Running a sweep: skip what is finished, share the rest with other processes, keep every cell that gets finished."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from emergence.cells import compute
from emergence.store.engine import Engine, Task
from emergence.store.folder import DamagedError, Store, cell_name, inspect
from emergence.values import shown

#: Seconds between two looks at cells that another process is computing.
POLL = 0.2
_DIED = "its worker process died (killed, or out of memory)"

Report = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One point of the grid: its swept values and its whole configuration."""

    values: dict[str, Any]
    configuration: dict[str, Any]

    @cached_property
    def name(self) -> str:
        return cell_name(self.configuration)

    @property
    def label(self) -> str:
        """The swept values in words."""
        return label(self.values)


def label(values: dict[str, Any]) -> str:
    """Swept values in words: ``student-width=8 seed=3``."""
    texts = ((k, v if isinstance(v, str) else shown(v)) for k, v in values.items())
    return " ".join(f"{key.replace('_', '-')}={text}" for key, text in texts)


@dataclass
class Outcome:
    """What became of the cells. `found` were finished before or by another process; `damaged` were computed again.

    `errors`: what the computation of failed cells raised, by name.
    """

    computed: list[Cell] = field(default_factory=list)
    found: list[Cell] = field(default_factory=list)
    damaged: list[Cell] = field(default_factory=list)
    diverged: list[Cell] = field(default_factory=list)
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)

    @property
    def finished(self) -> int:
        return len(self.computed) + len(self.found)

    def sort(self, order: dict[str, int]) -> None:
        """Everything in the grid's order, whatever was finished first; `order`: file name → number."""
        for cells in (self.computed, self.found, self.damaged, self.diverged):
            cells.sort(key=lambda cell: order[cell.name])
        self.failed.sort(key=lambda pair: order[pair[0].name])


class Sweep:
    """The cells of a sweep on their way into a store.

    Every file is written while this process holds the lock of its name, and only by this process: workers hand back
    bytes. A cell locked by another process is waited for; if that process dies the cell is taken over.

    Args:
        report: called with one line for whatever the user should see: a damaged or a failed cell.
        progress: called with the fraction done and a text.
        task: what makes a cell's bytes from its configuration (a problem's cell by default).
    """

    def __init__(
        self,
        store: Store,
        cells: Sequence[Cell],
        report: Report,
        progress: Callable[[float, str], None],
        task: Task | None = None,
    ) -> None:
        self._store, self._total, self._report, self._progress = store, len(cells), report, progress
        self._task = compute if task is None else task
        self.outcome = Outcome()
        self._order = {cell.name: number for number, cell in enumerate(cells)}
        self._waiting = deque(cell for cell in cells if not self._finished(cell))
        self._running: dict[Future[bytes], Cell] = {}
        #: Cells that were in hand when a worker died, and run alone since: the next death has one suspect.
        self._suspects: deque[Cell] = deque()

    @property
    def unfinished(self) -> list[Cell]:
        """Cells still to compute."""
        return list(self._waiting)

    def run(self, engine: Engine) -> Outcome:
        """Compute what is missing. An interrupt loses only the cells in hand."""
        try:
            while self._waiting or self._running or self._suspects:
                self._hand_out(engine)
                self._collect(engine)
        finally:
            for cell in self._running.values():
                self._store.locks.release(cell.name)
        self.outcome.sort(self._order)
        return self.outcome

    # -- before

    def _finished(self, cell: Cell, held: bool = False) -> bool:
        """Whether the cell is in the store, undamaged; a damaged one is set aside. `held`: its lock is ours."""
        try:
            header = self._store.read(cell.name)
        except DamagedError as damage:
            return self._set_aside(cell, damage) if held else self._locked_look(cell)
        if header is not None:
            self.outcome.found.append(cell)
            self._note_divergence(cell, header.diverged)
        return header is not None

    def _locked_look(self, cell: Cell) -> bool:
        """The same under the lock: another process may have set the damage aside, and mended it, meanwhile."""
        if not self._store.locks.take(cell.name):  # somebody is at it already
            return False
        try:
            return self._finished(cell, held=True)
        finally:
            self._store.locks.release(cell.name)

    def _set_aside(self, cell: Cell, damage: DamagedError) -> bool:
        aside = self._store.set_aside(cell.name)
        self.outcome.damaged.append(cell)
        self._report(f"cell {cell.label} is damaged ({damage}): kept as {aside}, computed again")
        return False

    # -- during

    def _hand_out(self, engine: Engine) -> None:
        """Give the engine as many cells as it has room for, skipping those that others are computing; suspects alone."""
        queue, room = (self._suspects, 1) if self._suspects else (self._waiting, engine.slots)
        for _ in range(len(queue)):
            if len(self._running) >= room:
                return
            cell = queue.popleft()
            if not self._store.locks.take(cell.name):
                queue.append(cell)
            elif self._finished(cell, held=True):  # by another process, meanwhile
                self._store.locks.release(cell.name)
                self._tell(cell)
            else:
                self._submit(engine, cell)

    def _submit(self, engine: Engine, cell: Cell) -> None:
        """Have a cell computed whose lock is ours."""
        try:
            self._running[engine.submit(self._task, cell.configuration)] = cell
        except BrokenExecutor:  # noticed only now that a worker has died
            self._store.locks.release(cell.name)
            self._waiting.appendleft(cell)
            engine.restart()

    def _collect(self, engine: Engine) -> None:
        if not self._running:
            if self._waiting or self._suspects:  # all of them are locked by others
                time.sleep(POLL)
            return
        done, _ = wait(self._running, timeout=POLL if self._waiting else None, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenExecutor) for future in done if not future.cancelled()):
            self._bury(engine)
            return
        for future in [one for one in self._running if one in done]:
            cell = self._running.pop(future)
            try:
                self._keep(cell, future)
            finally:
                self._store.locks.release(cell.name)
            self._tell(cell)

    def _keep(self, cell: Cell, future: "Future[bytes]") -> None:
        """Write a finished cell, or say why there is none."""
        try:
            content = future.result()
        except Exception as error:
            self.outcome.errors[cell.name] = error
            self._fail(cell, _reason(error))
            return
        self._store.write(cell.name, content)
        self.outcome.computed.append(cell)
        self._note_divergence(cell, inspect(content, cell.name).diverged)

    def _bury(self, engine: Engine) -> None:
        """A worker died and took the others' work along: whoever was in hand is tried again alone."""
        lost = list(self._running.values())
        self._running.clear()
        for cell in lost:
            self._store.locks.release(cell.name)
        engine.restart()
        if len(lost) == 1:
            self._fail(lost[0], _DIED)
        else:
            self._suspects.extend(lost)

    def _fail(self, cell: Cell, reason: str) -> None:
        self.outcome.failed.append((cell, reason))
        self._report(f"cell {cell.label} failed: {reason}")

    def _note_divergence(self, cell: Cell, diverged: int) -> None:
        if diverged:
            self.outcome.diverged.append(cell)

    def _tell(self, cell: Cell) -> None:
        done = self.outcome.finished + len(self.outcome.failed)
        self._progress(done / self._total, f"{done} of {self._total} cells, last {cell.label}")


def _reason(error: BaseException) -> str:
    if isinstance(error, CancelledError):
        return "it was given up by what should compute it (a scheduler that went away)"
    text = " ".join(str(error).split())
    from emergence.refusal import is_refusal

    return text if is_refusal(error) else f"{type(error).__name__}: {text}"
