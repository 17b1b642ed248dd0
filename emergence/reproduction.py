"""Published figures: what each needs computed, and what measures and draws it. Importing this module imports nothing heavy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from emergence.refusal import refuse

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

    from validation.reproduction import Row

Problem = Mapping[str, Any]


class Measured(Protocol):
    """What is drawn; `rows`: its numbers beside theory's."""

    @property
    def rows(self) -> "tuple[Row, ...]": ...


@dataclass(frozen=True)
class Grid:
    """The runs behind a figure. `problem`: what all share. `axes`: swept options, slowest first."""

    problem: Problem
    axes: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Figure:
    """A published figure, theory beside experiment.

    Attributes:
        name, help: on the command line.
        simulation: kind of cell. presets: its runs by size. cost: of a run, relative to others, from its problem.
        measure: of the merged runs and what their problems share. draw: of what was measured. Each is a function, or its
            place ``package.module:name``, which is imported where it is needed.
    """

    name: str
    help: str
    simulation: str
    presets: Mapping[str, Grid]
    cost: Callable[[Problem], float]
    measure: "str | Callable[[xr.Dataset, Problem], Measured]"
    draw: "str | Callable[[Any], matplotlib.figure.Figure]"

    def grid(self, preset: str) -> Grid:
        """Its runs at that size. Raises `InputError` for a size that it does not have."""
        if preset not in self.presets:
            refuse(f"--preset is {preset!r}: {self.name} has {', '.join(self.presets)}")
        return self.presets[preset]

    def page(self, data: "xr.Dataset", problem: Problem) -> "tuple[tuple[Row, ...], matplotlib.figure.Figure]":
        """Rows and drawing of the merged runs."""
        found: Measured = _function(self.measure)(data, problem)
        return found.rows, _function(self.draw)(found)


def _function(place: str | Callable[..., Any]) -> Callable[..., Any]:
    return resolve_name(place) if isinstance(place, str) else place


_MODEL = {"activation": "h4", "teacher_exponent": 0.8, "init_scale": 0.003}


def emergence_runs(width: int, dim: int, time: float, seeds: int) -> Grid:
    """Coupled flows with as many students as teachers, until well beyond the emergence of direction P/8."""
    problem = {**_MODEL, "dim": dim, "teacher_width": width, "student_width": width, "time": time}
    return Grid(problem, {"seed": tuple(range(seeds))})


def frontier_runs(width: int, dim: int, widths: tuple[int, ...], time: float, seeds: int) -> Grid:
    """Population gradient descent with a fixed step; the step is far from unstable for all neurons of this problem."""
    # The bound on step sizes is that of SGD, whose noise descent on the population loss does not have.
    problem = {**_MODEL, "dim": dim, "teacher_width": width, "step_size": 0.2, "time": time, "allow_unstable": True}
    return Grid(problem, {"student_width": widths, "seed": tuple(range(seeds))})


def _flow_cost(problem: Problem) -> float:
    m, P = problem["student_width"], problem["teacher_width"]
    return float(m * (P + m) + 1e5)  # and compilation


def _descent_cost(problem: Problem) -> float:
    m, P = problem["student_width"], problem["teacher_width"]
    return float(m**2 * (2 * m + 3 * P) + 1e6)


_WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96)
#: Figures 1 and 2 of arXiv:2504.19983. `full` has the published size d = 2048, P = 1024, β = 0.8 (section 2.4, Figure 2);
#: figure 1 of `quick` has d = 32 P, closer to the d ≫ P of the theorem.
FIG1 = Figure(
    "fig1",
    "emergence",
    "retiring-flow",
    {"quick": emergence_runs(128, 4096, 3000.0, 4), "full": emergence_runs(1024, 2048, 6000.0, 4)},
    _flow_cost,
    "validation.reproduction:emergence",
    "validation.figures.reproduction:emergence_figure",
)
FIG2 = Figure(
    "fig2",
    "compute frontier",
    "gradient-descent",
    {
        "quick": frontier_runs(256, 1024, _WIDTHS, 900.0, 4),
        "full": frontier_runs(1024, 2048, (*_WIDTHS, 128, 192, 256, 384), 3000.0, 4),
    },
    _descent_cost,
    "validation.reproduction:compute_frontier",
    "validation.figures.reproduction:frontier_figure",
)
