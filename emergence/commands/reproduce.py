"""``emergence reproduce``: a published figure from runs that are kept, theory beside experiment."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import console, models, output, table
from emergence.cells import configuration
from emergence.interruption import kept
from emergence.model import Model
from emergence.progress import Progress
from emergence.reproduction import Figure, Grid
from emergence.result import Result
from emergence.store import merging
from emergence.store.engine import Workers, usable_cores
from emergence.store.folder import Store, check
from emergence.store.grid import points
from emergence.store.sweeping import Cell, Outcome, Sweep
from emergence.values import Whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure as Drawing

    from validation.reproduction import Row

#: Folder inside --out; kept, so that a run that was killed goes on where it was.
STORE = "reproduce"
HEADERS = ("panel", "quantity", "measured", "±", "predicted", "difference", "low", "high", "limit", "from", "to")


def run(arguments: argparse.Namespace) -> Result:
    """Compute the runs that are missing, then measure and draw. Status 1 if a run failed or diverged."""
    workers = usable_cores() if arguments.workers is None else Whole().check("--workers", arguments.workers)
    model, figure = models.figures()[arguments.figure]
    runs = _Runs(model, figure, figure.grid(arguments.preset))
    stem = figure.name if arguments.preset == "quick" else f"{figure.name}.{arguments.preset}"
    folder = output.asked(arguments.out, f"{stem}.nc", f"{stem}.png")
    store = check(str(output.check(str(folder / STORE), label="store")))
    output.make(folder)
    with kept(lambda: f"the runs so far are kept in {store}: the same command goes on with the others"):
        outcome = _compute(runs, store, workers, arguments.quiet)
        return _report(runs, arguments.preset, store, outcome, folder / stem)


class _Runs:
    """The cells of a figure, the most expensive first."""

    def __init__(self, model: Model, figure: Figure, grid: Grid) -> None:
        self.figure, self.grid = figure, grid
        found = [(point, {**grid.problem, **point}) for point in points(dict(grid.axes))]
        found.sort(key=lambda pair: -figure.cost(pair[1]))
        self.cells = [
            Cell(point, configuration(model, figure.simulation, model.problem(**problem))) for point, problem in found
        ]

    @property
    def plan(self) -> merging.Plan:
        return merging.plan(self.cells[0].configuration, dict(self.grid.axes))

    def dataset(self, store: Path) -> "xr.Dataset":
        """All runs in one labelled dataset."""
        return merging.of_plan(store, self.plan)


def _report(runs: _Runs, preset: str, store: Path, outcome: Outcome, stem: Path) -> Result:
    """Measure, draw and write, if there is every run."""
    figure, grid = runs.figure, runs.grid
    document: dict[str, Any] = {
        "figure": figure.name,
        "preset": preset,
        "what": figure.simulation,
        "problem": dict(grid.problem),
        "over": {name: list(values) for name, values in grid.axes.items()},
        "store": str(store),
        "computed": len(outcome.computed),
        "found": len(outcome.found),
        "failed": [{"cell": cell.values, "reason": reason} for cell, reason in outcome.failed],
        "diverged": [cell.values for cell in outcome.diverged],
    }
    if outcome.failed or outcome.diverged:
        lost = f"{len(outcome.failed)} runs failed, {len(outcome.diverged)} diverged: no figure is drawn"
        return Result(document | {"file": None, "image": None, "panels": []}, lost, 1)
    data = runs.dataset(store)
    rows, drawn = figure.page(data, grid.problem)
    files = _write(stem, preset, drawn, data)
    document |= {"file": str(files[0]), "image": str(files[1]), "panels": [asdict(row) for row in rows]}
    return Result(document, _text(rows, files))


def _compute(runs: _Runs, folder: Path, workers: int, quiet: bool) -> Outcome:
    """The cells, taken from the store or computed into it."""
    with Store(folder) as store, Progress(quiet) as progress:
        store.record(merging.plan_name(runs.plan), runs.plan)
        store.sweep_up()
        sweep = Sweep(store, runs.cells, console.warn, lambda fraction, text: report(fraction, text))
        report = _Clock(sweep, runs, progress)
        if sweep.unfinished:
            with Workers(min(workers, len(sweep.unfinished))) as engine:
                sweep.run(engine)
        return sweep.outcome


class _Clock:
    """Progress by the cost of runs, with the time left."""

    def __init__(self, sweep: Sweep, runs: _Runs, progress: Progress) -> None:
        self._sweep, self._progress, self._begun = sweep, progress, time.monotonic()
        self._cost = {cell.name: runs.figure.cost(cell.configuration["problem"]) for cell in runs.cells}
        self._before = self._spent()

    def _spent(self) -> float:
        outcome = self._sweep.outcome
        finished = [*outcome.computed, *outcome.found, *(cell for cell, _ in outcome.failed)]
        return sum(self._cost[cell.name] for cell in finished)

    def __call__(self, fraction: float, text: str) -> None:
        total, spent = sum(self._cost.values()), self._spent()
        passed, done = time.monotonic() - self._begun, spent - self._before
        left = "" if done <= 0 or spent >= total else f", {_duration(passed * (total - spent) / done)} left"
        self._progress(spent / total, text + left)


def _duration(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} min"


def _write(stem: Path, preset: str, figure: "Drawing", data: "xr.Dataset") -> tuple[Path, Path]:
    from dynamics.core.provenance import provenance
    from dynamics.core.storage import write_atomically, write_dataset

    data = data.assign_attrs(provenance(preset=preset) | data.attrs)
    image = write_atomically(stem.with_name(f"{stem.name}.png"), lambda temporary: figure.savefig(temporary, dpi=130))
    return write_dataset(stem.with_name(f"{stem.name}.nc"), data), image


def _text(rows: "tuple[Row, ...]", files: tuple[Path, Path]) -> str:
    confidence = f"{100 * rows[0].difference.confidence:g} %"
    note = f"{confidence} interval of measured - predicted over seeds; limit: P to infinity"
    lines = [_line(row) for row in rows]
    return "\n".join([table.render(HEADERS, lines), "", note, f"figure: {files[1]}", f"data: {files[0]}"])


def _line(x: "Row") -> tuple[Any, ...]:
    measured, gap = x.measured, x.difference
    window = (None, None) if x.window is None else map(float, x.window)
    numbers = (measured.value, measured.stderr, x.finite_size, gap.value, gap.low, gap.high, x.asymptotic)
    return x.panel, x.quantity, *numbers, *window
