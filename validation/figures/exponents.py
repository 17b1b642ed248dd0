"""Figures of measured exponents: samples against dimension, local slopes, collapse of success probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from validation.figures.common import _INK, _SMALL, PALETTE, _axes


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


def power_laws(series: Sequence[Series], xlabel: str, ylabel: str) -> Figure:
    """Measured points with bars and predicted curves on logarithmic axes."""
    figure, ax = _axes(xlabel, ylabel)
    for colour, one in zip(PALETTE, series, strict=False):
        ax.plot(one.x, one.predicted, color=colour, ls="--", lw=1.4, label=f"_{one.name}, predicted")
        bars = np.abs(np.stack([one.y - one.low, one.high - one.y]))
        ax.errorbar(one.x, one.y, yerr=bars, fmt="o", color=colour, ms=5, capsize=2, label=one.name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.plot([], [], color=_INK, ls="--", lw=1.4, label="predicted")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def slopes(series: Sequence[Series], asymptotic: Sequence[float], xlabel: str) -> Figure:
    """Local slopes against the size: measured, predicted at the same sizes (dashed), asymptotic (dotted)."""
    figure, ax = _axes(xlabel, "local slope")
    for colour, one, limit in zip(PALETTE, series, asymptotic, strict=False):
        ax.axhline(limit, color=colour, ls=":", lw=1.2, label=f"_{one.name}, asymptotic")
        ax.plot(one.x, one.predicted, color=colour, ls="--", lw=1.4, label=f"_{one.name}, predicted")
        ax.errorbar(one.x, one.y, yerr=np.stack([one.y - one.low, one.high - one.y]), fmt="o", color=colour, ms=5,
                    capsize=2, label=one.name)  # fmt: skip
    ax.set_xscale("log")
    ax.plot([], [], color=_INK, ls="--", lw=1.4, label="predicted")
    ax.plot([], [], color=_INK, ls=":", lw=1.2, label="asymptotic")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


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
    figure, ax = _axes(rf"step size × $d^{{{power:g}}}$", "share of runs recovered")
    for colour, name, share, theory in zip(PALETTE, names, shares, predicted, strict=False):
        ax.plot(scaled, theory, color=colour, ls="--", lw=1.4, label=f"_{name}, predicted")
        ax.plot(scaled, share, "o", color=colour, ms=5, label=name)
    ax.set_xscale("log")
    ax.set_ylim(-0.03, 1.03)
    ax.plot([], [], color=_INK, ls="--", lw=1.4, label="predicted")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def learned_shares(
    weights: np.ndarray, shares: np.ndarray, predicted: np.ndarray, bars: np.ndarray, names: Sequence[str]
) -> Figure:
    """Share of runs that learn a direction against its weight, one curve per step size.

    Args:
        weights: (n,). shares, predicted, bars: (k, n), bars are half lengths. names: (k,) of the step sizes.
    """
    figure, ax = _axes("weight a of the direction", "share of runs that learn it")
    for colour, name, share, theory, bar in zip(PALETTE, names, shares, predicted, bars, strict=False):
        ax.plot(weights, theory, color=colour, ls="--", lw=1.4, label=f"_{name}, predicted")
        ax.errorbar(weights, share, yerr=bar, fmt="o", color=colour, ms=5, capsize=2, label=name)
    ax.set_xscale("log")
    ax.set_ylim(-0.05, 1.5)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.plot([], [], color=_INK, ls="--", lw=1.4, label="predicted")
    ax.legend(frameon=False, fontsize=_SMALL, loc="upper left", ncols=2)
    return figure
