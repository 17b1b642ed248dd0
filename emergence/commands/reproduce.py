"""``emergence reproduce``: a figure of arXiv:2504.19983 from runs that are kept, theory beside experiment."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emergence import console, output, table
from emergence.commands.setup import out_folder
from emergence.interruption import kept
from emergence.problem import Problem
from emergence.progress import Progress
from emergence.refusal import refuse
from emergence.reproduction import EXPERIMENTS, Experiment
from emergence.result import Result
from emergence.store import merging
from emergence.store.engine import Workers, usable_cores
from emergence.store.folder import Store, canonical, check
from emergence.store.sweeping import Cell, Outcome, Sweep
from emergence.values import Whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from validation.reproduction import ComputeFrontier, Emergence, Row

#: Folder inside --out; kept, so that a run that was killed goes on where it was.
STORE = "reproduce"
HEADERS = ("panel", "quantity", "measured", "±", "predicted", "difference", "low", "high", "limit", "from", "to")


def run(arguments: argparse.Namespace) -> Result:
    """Compute the runs that are missing, then measure and draw. Status 1 if a run failed or diverged."""
    workers = usable_cores() if arguments.workers is None else Whole().check("--workers", arguments.workers)
    figure, experiment = arguments.figure, EXPERIMENTS[arguments.figure, arguments.preset]
    stem = figure if arguments.preset == "quick" else f"{figure}.{arguments.preset}"
    folder = out_folder(arguments, f"{stem}.nc", f"{stem}.png")
    store = check(str(output.check(str(folder / STORE), label="store")))
    output.make(folder)
    with kept(lambda: f"the runs so far are kept in {store}: the same command goes on with the others"):
        outcome = _compute(experiment, store, workers, arguments.quiet)
        return _report(arguments, experiment, store, outcome, folder / stem)


def _report(arguments: argparse.Namespace, experiment: Experiment, store: Path, outcome: Outcome, stem: Path) -> Result:
    """Measure, draw and write, if there is every run."""
    figure = arguments.figure
    document: dict[str, Any] = {
        "figure": figure, "preset": arguments.preset, "what": experiment.what, "problem": dict(experiment.problem),
        "over": {name: list(values) for name, values in experiment.axes.items()}, "store": str(store),
        "computed": len(outcome.computed), "found": len(outcome.found),
        "failed": [{"cell": cell.values, "reason": reason} for cell, reason in outcome.failed],
        "diverged": [cell.values for cell in outcome.diverged],
    }  # fmt: skip
    if outcome.failed or outcome.diverged:
        lost = f"{len(outcome.failed)} runs failed, {len(outcome.diverged)} diverged: no figure is drawn"
        return Result(document | {"file": None, "image": None, "panels": []}, lost, 1)
    found, drawn = _measured(figure, experiment, store)
    files = _write(stem, arguments.preset, drawn, _dataset(experiment, store))
    document |= {"file": str(files[0]), "image": str(files[1]), "panels": [_entry(row) for row in found.rows]}
    return Result(document, _text(found.rows, files))


def _compute(experiment: Experiment, folder: Path, workers: int, quiet: bool) -> Outcome:
    """The experiment's cells, taken from the store or computed into it."""
    cells = experiment.cells()
    with Store(folder) as store, Progress(quiet) as progress:
        plan = _plan(experiment)
        store.record(merging.plan_name(plan), plan)
        store.sweep_up()
        sweep = Sweep(store, cells, console.warn, lambda fraction, text: report(fraction, text))
        report = _Clock(sweep, experiment, cells, progress)
        if sweep.unfinished:
            with Workers(min(workers, len(sweep.unfinished))) as engine:
                sweep.run(engine)
        return sweep.outcome


class _Clock:
    """Progress by the cost of runs, with the time left."""

    def __init__(self, sweep: Sweep, experiment: Experiment, cells: list[Cell], progress: Progress) -> None:
        self._sweep, self._progress, self._begun = sweep, progress, time.monotonic()
        self._cost = {cell.name: experiment.cost(Problem(**cell.configuration["problem"])) for cell in cells}
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


def _plan(experiment: Experiment) -> merging.Plan:
    return merging.plan(experiment.cells()[0].configuration, dict(experiment.axes))


def _dataset(experiment: Experiment, store: Path) -> "xr.Dataset":
    """All runs in one labelled dataset."""
    plan = _plan(experiment)
    (grouped,), _ = merging.experiments([(merging.plan_name(plan), canonical(plan).encode())])
    data = merging.merge(store, grouped).data
    if data is None:
        refuse(f"store is {str(store)!r}: the runs in it have gone while they were used: run it again")
    return data


def _measured(figure: str, experiment: Experiment, store: Path) -> "tuple[Emergence | ComputeFrontier, Figure]":
    import theory
    from emergence.resolve import teacher_of
    from validation import reproduction
    from validation.figures import reproduction as reproduction_figures

    data, problem = _dataset(experiment, store), experiment.problem
    activation, decay = theory.Activation.parse(problem["activation"]), problem["teacher_exponent"]
    if figure == "fig1":
        curves = reproduction.emergence(data, activation, teacher_of(Problem(**problem)).a, decay)
        return curves, reproduction_figures.emergence_figure(curves)
    frontier = reproduction.compute_frontier(data, activation, problem["teacher_width"], decay)
    return frontier, reproduction_figures.frontier_figure(frontier)


def _write(stem: Path, preset: str, figure: "Figure", data: "xr.Dataset") -> tuple[Path, Path]:
    from dynamics.core.provenance import provenance
    from dynamics.core.storage import write_atomically, write_dataset

    data = data.assign_attrs(provenance(preset=preset) | data.attrs)
    image = write_atomically(stem.with_name(f"{stem.name}.png"), lambda temporary: figure.savefig(temporary, dpi=130))
    return write_dataset(stem.with_name(f"{stem.name}.nc"), data), image


def _entry(row: "Row") -> dict[str, object]:
    return asdict(row)


def _text(rows: "tuple[Row, ...]", files: tuple[Path, Path]) -> str:
    lines = [
        (x.panel, x.quantity, x.measured.value, x.measured.stderr, x.finite_size, x.difference.value,
         x.difference.low, x.difference.high, x.asymptotic, *((None, None) if x.window is None else map(float, x.window)))
        for x in rows
    ]  # fmt: skip
    note = (
        f"{100 * rows[0].difference.confidence:g} % interval of measured - predicted over seeds; limit: P to infinity"
    )
    return "\n".join([table.render(HEADERS, lines), "", note, f"figure: {files[1]}", f"data: {files[0]}"])
