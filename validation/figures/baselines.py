"""Figures of the baselines' claims: coverage of the directions, toy curves, kernel learning curves, samples against width."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from validation.figures.common import _INK, _SMALL, PALETTE, _axes


def coverage(predicted: np.ndarray, measured: np.ndarray, with_deflation: np.ndarray, starts: int) -> Figure:
    """Share of starts in which each direction is learned, (P,) each: tensor power rule, correlation loss, MSE."""
    directions = np.arange(1, len(predicted) + 1)
    figure, ax = _axes("direction, largest weight first", "share of starts that learn it")
    error = np.sqrt(predicted * (1 - predicted) / starts)
    ax.errorbar(directions, measured, yerr=error, fmt="o", color=PALETTE[0], capsize=3, label="correlation loss")
    ax.plot(directions, predicted, color=_INK, ls="--", lw=1.4, label="tensor power rule")
    ax.plot(directions, with_deflation, "s", color=PALETTE[1], label="mean squared error (deflation)")
    ax.set_ylim(0, 1.06)
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def toy_curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Share of the goal against time over t50; name → (time, share), each (n,)."""
    figure, ax = _axes("time / t50", "share of the goal")
    for place, (name, (time, share)) in enumerate(curves.items()):
        half = float(np.interp(0.5, share, time))
        ax.plot(time / half, share, color=PALETTE[place % len(PALETTE)], lw=1.8, label=name)
    ax.set_xlim(0, 2.5)
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def learning_curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Test error over E f_*² against samples; name → (samples, mean, stderr, predicted)."""
    figure, ax = _axes("samples n", "mean squared error / E f*²")
    for place, (name, (samples, mean, error, predicted)) in enumerate(curves.items()):
        colour = PALETTE[place % len(PALETTE)]
        ax.errorbar(samples, mean, yerr=error, fmt="o", ms=4, color=colour, capsize=2, label=name)
        ax.plot(samples, predicted, color=colour, ls="--", lw=1.3, label=f"_{name}, predicted")
    ax.axhline(1.0, color=_INK, lw=0.8, label="_nothing learned")
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def against_width(widths: np.ndarray, mean: np.ndarray, error: np.ndarray, predicted: np.ndarray) -> Figure:
    """Samples to recovery against the teacher's width, with the predicted ones."""
    figure, ax = _axes("teacher width P, equal weights", "samples to recovery")
    ax.errorbar(widths, mean, yerr=error, fmt="o", color=PALETTE[0], capsize=3, label="spherical SGD, mean ± 1 stderr")
    ax.plot(widths, predicted, color=_INK, ls="--", lw=1.4, label="one-task law")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure
