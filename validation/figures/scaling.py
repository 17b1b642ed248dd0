"""Figures of scaling laws: loss sums, floors in width, frontiers, heavy tails. Theory dashed, asymptotic laws dotted."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from validation.figures.data import keep_runs
from validation.figures.plot import INK, Plot, checked, colours

_LOSS = "loss / initial loss"


def loss_sums(curves: Sequence[tuple[float, ArrayLike, ArrayLike, ArrayLike, ArrayLike]]) -> Figure:
    """Share of the loss against reduced time.

    Args:
        curves: (β, times (n,), drawn losses (R, n), exact expected sum (n,), power law (n,)) for each decay.
    """
    plot = Plot("reduced time  t / unit", _LOSS, "xy")
    for (decay, times, drawn, expected, limit), colour in zip(curves, colours(len(curves)), strict=True):
        runs = checked("drawn", drawn, (len(np.asarray(drawn)), len(np.asarray(times))))
        keep_runs(plot.figure, runs, f"runs_decay_{decay:g}", time=np.asarray(times, dtype=float))
        plot.curve(times, runs.mean(axis=0), f"β = {decay:g}", colour, 2.2)
        plot.theory(times, expected, f"_β = {decay:g}, exact sum", INK, 1.1)
        plot.limit(times, limit, f"_β = {decay:g}, power law", colour, 1.1)
    return plot.done(("--", "exact sum"), (":", "power law, P → ∞"), outside=True)


def floors(curves: Sequence[tuple[float, ArrayLike, ArrayLike, ArrayLike, ArrayLike]]) -> Figure:
    """Final loss against width. Curves: (β, widths, measured, law, what the first m leave), all (n,)."""
    plot = Plot("student width m", "final loss / initial loss", "xy")
    for (decay, widths, measured, expected, ideal), colour in zip(curves, colours(len(curves)), strict=True):
        plot.points(widths, measured, f"β = {decay:g}", colour)
        plot.theory(widths, expected, f"_β = {decay:g}, greedy selection, law", INK, 1.1)
        plot.limit(widths, ideal, f"_β = {decay:g}, first m directions", colour, 1.1)
    shown = np.asarray(curves[0][1], dtype=float)
    plot.ax.set_xticks(shown, [f"{width:g}" for width in shown])
    return plot.done(("--", "greedy selection, law"), (":", "first m directions"), outside=True)


def frontier(
    widths: Sequence[int],
    costs: Sequence[ArrayLike],
    losses: Sequence[ArrayLike],
    cost: ArrayLike,
    law: ArrayLike,
    power_law: ArrayLike,
    slope: float,
) -> Figure:
    """Loss against compute, one curve for each width, with the frontier of the exact sums and its asymptotic law.

    Args:
        costs, losses: for each width (n_f,) abscissae and mean losses.
        cost, law, power_law: (n,) compute, frontier of the exact sums, power law of an infinite teacher with `slope`.
    """
    plot = Plot("compute m·t (reduced)", _LOSS, "xy")
    for width, x, y, colour in zip(widths, costs, losses, colours(len(widths)), strict=True):
        named = width in (widths[0], widths[len(widths) // 2], widths[-1])
        plot.curve(x, y, f"{'' if named else '_'}m = {width}", colour, 1.4)
    plot.theory(cost, law, "_frontier, exact sums", INK, 1.8)
    plot.limit(cost, power_law, f"_slope {slope:.3g}")
    return plot.done(("--", "frontier, exact sums"), (":", f"slope {slope:.3g}"), outside=True)


def collapse(curves: Sequence[tuple[int, ArrayLike, ArrayLike]], limit: tuple[ArrayLike, ArrayLike]) -> Figure:
    """Share of the loss against time in units of Z·P^β for several P. Curves: (P, times, shares)."""
    plot = Plot("time / (unit · P^β)", _LOSS)
    for (teachers, times, share), colour in zip(curves, colours(len(curves)), strict=True):
        plot.curve(times, share, f"P = {teachers:g}", colour)
    plot.theory(*limit, "_limit P → ∞")
    return plot.done(("--", "limit P → ∞"), outside=True)


def retuned(samples: ArrayLike, steps: Sequence[tuple[float, ArrayLike]], law: ArrayLike, fixed: ArrayLike) -> Figure:
    """Loss against samples for several fixed step sizes, and the frontier over step sizes.

    Args:
        steps: (η, (n,) mean losses). law: (n,) exact frontier. fixed: (n,) power law at a fixed step, to compare slopes.
    """
    plot = Plot("samples (reduced)", _LOSS, "xy")
    for (step, losses), colour in zip(steps, colours(len(steps)), strict=True):
        plot.curve(samples, losses, f"η = {step:.2g}", colour, 1.3)
    plot.theory(samples, law, "_best step size, exact", INK, 1.8)
    plot.limit(samples, fixed, "_slope at a fixed step")
    return plot.done(("--", "best step size, exact"), (":", "slope at a fixed step"), outside=True)
