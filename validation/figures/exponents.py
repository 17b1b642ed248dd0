"""Figures of measured exponents: samples against dimension, local slopes, collapse of success probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from validation.figures.plot import PALETTE, Plot

_PREDICTED = ("--", "predicted")


@dataclass(frozen=True)
class Series:
    """One measured curve with its prediction.

    Attributes:
        name: of the curve. x, y: (n,) measured. low, high: (n,) ends of the bars of y. predicted: (n,) theory.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    predicted: np.ndarray


def _with_series(plot: Plot, series: Sequence[Series]) -> Plot:
    for colour, one in zip(PALETTE, series, strict=False):
        plot.theory(one.x, one.predicted, f"_{one.name}, predicted", colour)
        plot.points(one.x, one.y, one.name, colour, np.abs(np.stack([one.y - one.low, one.high - one.y])))
    return plot


def power_laws(series: Sequence[Series], xlabel: str, ylabel: str) -> Figure:
    """Measured points with bars and predicted curves on logarithmic axes."""
    return _with_series(Plot(xlabel, ylabel, "xy"), series).done(_PREDICTED)


def slopes(series: Sequence[Series], asymptotic: Sequence[float], xlabel: str) -> Figure:
    """Local slopes against the size: measured, predicted at the same sizes (dashed), asymptotic (dotted)."""
    plot = _with_series(Plot(xlabel, "local slope", "x"), series)
    for colour, one, limit in zip(PALETTE, series, asymptotic, strict=False):
        plot.level(limit, f"_{one.name}, asymptotic", colour)
    return plot.done(_PREDICTED, (":", "asymptotic"))


def collapse(
    scaled: np.ndarray,
    shares: Sequence[np.ndarray],
    predicted: Sequence[np.ndarray],
    names: Sequence[str],
    power: float,
) -> Figure:
    """Success probability against η d^power for several sizes, which should fall on one curve as d grows.

    Args:
        scaled: (n,) η d^power. shares, predicted: (n,) per size. names: of the sizes.
    """
    plot = Plot(f"step size × {'d' if power == 1 else f'd^{power:g}'}", "share of runs recovered", "x")
    for colour, name, share, theory in zip(PALETTE, names, shares, predicted, strict=False):
        plot.theory(scaled, theory, f"_{name}, predicted", colour)
        plot.points(scaled, share, name, colour)
    plot.ax.set_ylim(-0.03, 1.03)
    return plot.done(_PREDICTED)


def learned_shares(
    weights: np.ndarray, shares: np.ndarray, predicted: np.ndarray, bars: np.ndarray, names: Sequence[str]
) -> Figure:
    """Share of runs that learn a direction against its weight, one curve per step size.

    Args:
        weights: (n,). shares, predicted, bars: (k, n), bars are half lengths. names: (k,) of the step sizes.
    """
    rows = zip(names, shares, predicted, bars, strict=True)
    series = [Series(name, weights, y, y - bar, y + bar, law) for name, y, law, bar in rows]
    plot = _with_series(Plot("weight a of the direction", "share of runs that learn it", "x"), series)
    plot.ax.set_ylim(-0.05, 1.5)
    plot.ax.set_yticks(np.linspace(0, 1, 6))
    return plot.done(_PREDICTED, loc="upper left", ncols=2)
