r"""Toy losses $(w_*-w^k)^2$ and $(w_*-w_1\cdots w_k)^2$, a baseline: when a plateau ends sharply."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from emergence.model import Derive, Model, Progress, Run, Simulation
from emergence.options import Problem, option, options
from emergence.refusal import refuse
from emergence.table import Table
from emergence.values import Number, Numbers, Wholes

if TYPE_CHECKING:
    import xarray as xr

    from theory.baselines.toy import Toy


@dataclass(frozen=True)
class ToyProblem(Problem):
    """Power and product losses of every exponent, from every start."""

    exponents: tuple[int, ...] = option(
        (1, 2, 3, 4), Wholes(), "exponents k of (w* - w^k)^2, and of products of k factors"
    )
    starts: tuple[float, ...] = option((0.01, 0.001), Numbers(), "starts of w")
    goal: float = option(1.0, Number(), "w*")


@dataclass(frozen=True)
class Resolved:
    """A problem with its losses."""

    problem: ToyProblem
    toys: "list[Toy]"
    warnings: tuple[str, ...] = ()

    def echo(self) -> dict[str, Any]:
        return asdict(self.problem)

    def headline(self) -> str:
        return f"toy losses, goal {self.problem.goal:g}"


def _power(start: float, exponent: int) -> float:
    """Infinity beyond what a double holds."""
    try:
        return start**exponent
    except OverflowError:
        return math.inf


def resolve(problem: ToyProblem, simulation: Simulation | None = None) -> Resolved:
    """Raises `InputError` for starts too near to the goal, or too low for floating point."""
    from theory.baselines.toy import SHAPES, Toy

    exponents = dict.fromkeys(problem.exponents)
    toys = [Toy(k, shape) for k in exponents for shape in SHAPES if k > 1 or shape == "power"]
    highest, lowest = max(problem.starts), min(problem.starts)
    reach = max(_power(highest, toy.exponent) for toy in toys) / problem.goal
    if reach >= 0.1:
        refuse(f"--starts holds {highest:g}, whose power reaches {reach:.3g} of the goal: start below a tenth of it")
    least = min(lowest**toy.exponent for toy in toys) / problem.goal
    if least < 1e-300:
        refuse(f"--starts holds {lowest:g}, whose power is only {least:.3g} of the goal: start higher")
    return Resolved(problem, toys)


def _run(resolved: Resolved, progress: Progress | None, _: object) -> Run:
    import numpy as np

    from dynamics.baselines.toy_flow import toy_flow
    from dynamics.core.interrupted import Interrupted

    starts, goal, toys = np.array(resolved.problem.starts), resolved.problem.goal, resolved.toys
    parts: list[xr.Dataset] = []
    rows: list[tuple[object, ...]] = []
    try:
        for place, toy in enumerate(toys):
            result = toy_flow(toy, starts, goal=goal)
            parts.append(result.dataset.drop_vars("initial").assign_coords(toy=f"{toy.shape}{toy.exponent}"))
            for start, sharp, time in zip(starts.tolist(), result.sharpness, result.times, strict=True):
                rows.append((toy.shape, toy.exponent, start, float(time[1]), float(sharp), toy.sharpness(start, goal)))
            if progress is not None:
                progress((place + 1) / len(toys), f"toy losses: {toy.shape}, k = {toy.exponent}")
    except KeyboardInterrupt as stop:
        if not parts:
            raise
        raise Interrupted(_joined(parts, starts), f"after {len(parts)} of {len(toys)} losses") from stop
    return Run(_joined(parts, starts), result=rows)


def _joined(parts: "list[xr.Dataset]", starts: Any) -> "xr.Dataset":
    """One dataset of all losses along ``toy``."""
    import xarray as xr

    return xr.concat(parts, dim="toy", combine_attrs="drop_conflicts").assign_coords(start=starts)


def _table(_: Resolved, run: Run) -> Table:
    return Table(("loss", "k", "start", "t50", "(t90 − t10)/t50", "exact"), run.result)


MODEL = Model(
    name="toy",
    help="a baseline: toy losses of one number",
    problem=ToyProblem,
    resolve=resolve,
    simulations=(
        Simulation(
            name="toy",
            help="toy losses with and without a plateau",
            uses=frozenset(options(ToyProblem)),
            run=_run,
            table=_table,
            variables=("share", "time", "loss", "sharpness", "level_time"),
        ),
    ),
    derivations={
        "toy": Derive("theory.baselines.toy:derivation", "h3", kernel=False, help="the toy flow in closed form")
    },
)
