"""Figures of Stiefel SGD: measured points and curves in colour, theory dashed, the limit dotted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from validation.figures.common import _INK, _SMALL, _axes, _colours


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
    figure, ax = _axes(xlabel, ylabel)
    for curve, colour in zip(curves, _colours(len(curves)), strict=True):
        if points:
            ax.errorbar(
                curve.x, curve.measured, yerr=curve.error, fmt="o", ms=5, capsize=3, color=colour, label=curve.label
            )
        else:
            ax.plot(curve.x, curve.measured, color=colour, lw=1.8, label=curve.label)
            low, high = curve.measured - curve.error, curve.measured + curve.error
            ax.fill_between(curve.x, low, high, color=colour, alpha=0.25, lw=0, label=f"_{curve.label}, ± 1 stderr")
        ax.plot(curve.x, curve.theory, color=colour, ls="--", lw=1.3, label=f"_{curve.label}, {theory_name}")
    ax.plot([], [], color=_INK, ls="--", lw=1.3, label=theory_name)
    if limit is not None:
        ax.plot(limit[1], limit[2], color=_INK, ls=":", lw=1.5, label=limit[0])
    ax.set_xscale("log" if log_x else "linear")
    ax.set_yscale("log" if log_y else "linear")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure
