"""Figures of the baselines' claims: coverage of the directions, toy curves, kernel learning curves, samples against width."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from validation.figures.plot import INK, PALETTE, Plot, colours


def coverage(predicted: np.ndarray, measured: np.ndarray, with_deflation: np.ndarray, starts: int) -> Figure:
    """Share of starts in which each direction is learned, (P,) each: tensor power rule, correlation loss, MSE."""
    directions = np.arange(1, len(predicted) + 1)
    plot = Plot("direction, largest weight first", "share of starts that learn it")
    error = np.sqrt(predicted * (1 - predicted) / starts)
    plot.points(directions, measured, "correlation loss", PALETTE[0], error)
    plot.theory(directions, predicted, "tensor power rule")
    plot.curve(directions, with_deflation, "mean squared error (deflation)", PALETTE[1], ls="", marker="s")
    plot.ax.set_ylim(0, 1.06)
    return plot.done()


def toy_curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Share of the goal against time over t50; name → (time, share), each (n,)."""
    plot = Plot("time / t50", "share of the goal")
    for colour, (name, (time, share)) in zip(colours(len(curves)), curves.items(), strict=True):
        plot.curve(time / np.interp(0.5, share, time), share, name, colour)
    plot.ax.set_xlim(0, 2.5)
    return plot.done()


def learning_curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Test error over E f_*² against samples; name → (samples, mean, stderr, predicted)."""
    plot = Plot("samples n", "mean squared error / E f*²", "x")
    for colour, (name, (samples, mean, error, predicted)) in zip(colours(len(curves)), curves.items(), strict=True):
        plot.points(samples, mean, name, colour, error)
        plot.theory(samples, predicted, f"_{name}, predicted", colour)
    plot.level(1.0, "_nothing learned", ls="-", lw=0.8)
    return plot.done(("--", "predicted"))


def against_width(widths: np.ndarray, mean: np.ndarray, error: np.ndarray, predicted: np.ndarray) -> Figure:
    """Samples to recovery against the teacher's width, with the predicted ones."""
    plot = Plot("teacher width P, equal weights", "samples to recovery", "xy")
    plot.points(widths, mean, "spherical SGD, mean ± 1 stderr", PALETTE[0], error)
    plot.theory(widths, predicted, "one-task law", INK)
    return plot.done()
