"""The exact loss sum: 10⁵ directions at 10⁴ times, beside the least it needs (a sort and a search) and brute force."""

import numpy as np

from benchmarks.row import Row
from benchmarks.timing import best_of
from theory.scaling.ideal_loss import staircase
from theory.scaling.largest_overlap import LargestOverlap
from theory.scaling.power_law_loss import PowerLawLoss

NAME = "loss-sum"
DIRECTIONS, TIMES, TARGET = 10**5, 10**4, 0.2


def run(directions: int = DIRECTIONS, times: int = TIMES, repeats: int = 5) -> list[Row]:
    """Seconds of one evaluation from scratch, its floor, a tenth of brute force, and an expected sum."""
    rng = np.random.default_rng(0)
    weights = np.arange(1, directions + 1.0) ** -0.8
    emergence = 1 / (weights * rng.chisquare(1, directions))
    grid = rng.permutation(np.geomspace(emergence.min(), np.quantile(emergence, 0.99), times))
    order = np.sort(emergence)
    few = grid[: max(1, times // 100)]
    law = PowerLawLoss(0.8, directions, LargestOverlap(1000))
    window = np.geomspace(float(law.time_of(4)), float(law.time_of(directions / 8)), 40)
    law.share(window)
    seconds = best_of(
        {
            "sum": lambda: staircase(grid, emergence, weights, 1.0),
            "sort": lambda: np.argsort(emergence),
            "search": lambda: np.searchsorted(order, grid),
            "brute": lambda: 0.5 * (few[:, None] < emergence) @ weights**2,
            "expected": lambda: law.share(window),
        },
        repeats,
    )
    size = f"{directions:.0e} directions, {times:.0e} times"
    brute = seconds["brute"] * times / few.size
    return [
        Row(NAME, f"exact staircase, {size}", seconds["sum"], "s", TARGET),
        Row(NAME, "floor: one sort and one search of these", seconds["sort"] + seconds["search"], "s"),
        Row(
            NAME, f"brute force (extrapolated from {few.size} times) over exact staircase", brute / seconds["sum"], "×"
        ),
        Row(
            NAME, f"expected sum over random overlaps, {directions:.0e} directions, 40 times", seconds["expected"], "s"
        ),
    ]
