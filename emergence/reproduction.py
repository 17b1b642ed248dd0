"""What the figures of arXiv:2504.19983 need computed: a grid of problems for each figure and preset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emergence.cells import configuration
from emergence.problem import Problem
from emergence.store.grid import points
from emergence.store.sweeping import Cell

_MODEL = {"activation": "h4", "teacher_exponent": 0.8, "init_scale": 0.003}


@dataclass(frozen=True)
class Experiment:
    """The runs behind a figure.

    Attributes:
        what: kind of cell. problem: what all runs share. axes: swept options, slowest first.
        cost: relative cost of a run from its problem, for the time left.
    """

    what: str
    problem: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    cost: Callable[[Problem], float]

    def cells(self) -> list[Cell]:
        """One cell for each point of the grid, the most expensive first."""
        found = [(point, Problem(**{**self.problem, **point})) for point in points(dict(self.axes))]
        found.sort(key=lambda pair: -self.cost(pair[1]))
        return [Cell(point, configuration(self.what, problem)) for point, problem in found]


def _flow_cost(problem: Problem) -> float:
    return problem.student_width * (problem.width + problem.student_width) + 1e5  # and compilation


def _descent_cost(problem: Problem) -> float:
    m = problem.student_width
    return m**2 * (2 * m + 3 * problem.width) + 1e6


def _emergence(width: int, dim: int, time: float, seeds: int) -> Experiment:
    """Coupled flows with as many students as teachers, until well beyond the emergence of direction P/8."""
    problem = {**_MODEL, "dim": dim, "teacher_width": width, "student_width": width, "time": time}
    return Experiment("retiring-flow", problem, {"seed": tuple(range(seeds))}, _flow_cost)


def _frontier(width: int, dim: int, widths: tuple[int, ...], time: float, seeds: int) -> Experiment:
    """Population gradient descent with a fixed step; the step is far from unstable for all neurons of this problem."""
    # The bound on step sizes is that of SGD, whose noise descent on the population loss does not have.
    problem = {**_MODEL, "dim": dim, "teacher_width": width, "step_size": 0.2, "time": time, "allow_unstable": True}
    axes = {"student_width": widths, "seed": tuple(range(seeds))}
    return Experiment("gradient-descent", problem, axes, _descent_cost)


#: Figure and preset → runs. `full` has the published size d = 2048, P = 1024, β = 0.8 (section 2.4, Figure 2); figure 1 of
#: `quick` has d = 32 P, closer to the d ≫ P of the theorem.
EXPERIMENTS: dict[tuple[str, str], Experiment] = {
    ("fig1", "quick"): _emergence(128, 4096, 3000.0, 4),
    ("fig1", "full"): _emergence(1024, 2048, 6000.0, 4),
    ("fig2", "quick"): _frontier(256, 1024, (8, 12, 16, 24, 32, 48, 64, 96), 900.0, 4),
    ("fig2", "full"): _frontier(1024, 2048, (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384), 3000.0, 4),
}
