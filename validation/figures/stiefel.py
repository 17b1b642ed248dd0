"""Figures of Stiefel SGD: measured points and curves in colour, theory dashed, the limit dotted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from validation.figures.plot import Plot, colours


@dataclass(frozen=True)
class Curve:
    """Measured y with standard errors over x, and theory's y on the same x."""

    label: str
    x: np.ndarray
    measured: np.ndarray
    error: np.ndarray
    theory: np.ndarray


def measured_and_theory(
    curves: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    limit: tuple[str, np.ndarray, np.ndarray] | None = None,
    points: bool = False,
    log_x: bool = False,
    log_y: bool = True,
    theory_name: str = "theory",
) -> Figure:
    """Each curve with its band of ± 1 standard error (or points with bars), its theory dashed, and one limit dotted.

    Args:
        limit: (name, x, y) of a limiting law drawn once. points: markers with error bars in place of bands.
    """
    plot = Plot(xlabel, ylabel, "x" * log_x + "y" * log_y)
    for one, colour in zip(curves, colours(len(curves)), strict=True):
        if points:
            plot.points(one.x, one.measured, one.label, colour, one.error)
        else:
            plot.curve(one.x, one.measured, one.label, colour)
            low, high = one.measured - one.error, one.measured + one.error
            plot.band(one.x, low, high, f"_{one.label}, ± 1 stderr", colour)
        plot.theory(one.x, one.theory, f"_{one.label}, {theory_name}", colour)
    if limit is not None:
        plot.limit(limit[1], limit[2], limit[0])
    return plot.done(("--", theory_name))
