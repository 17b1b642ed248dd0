"""Figures of scaling laws: loss sums, floors in width, frontiers, heavy tails. Theory dashed, asymptotic laws dotted."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from validation.figures.common import _INK, _SMALL, _axes, _colours, _floats, _keep_runs, _match
from validation.figures.quadratic import _log_time


def _logarithmic(ax: Axes) -> None:
    _log_time(ax)
    ax.set_yscale("log")


def _legend(ax: Axes, rest: Sequence[tuple[str, str]]) -> None:
    """Names of the curves, then what each style of line in `rest` (style, name) means."""
    handles, names = ax.get_legend_handles_labels()
    handles += [Line2D([], [], color=_INK, ls=style, lw=1.3) for style, _ in rest]
    ax.legend(
        handles, [*names, *(name for _, name in rest)], frameon=False, fontsize=_SMALL, loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )  # fmt: skip


def loss_sums(curves: Sequence[tuple[float, ArrayLike, ArrayLike, ArrayLike, ArrayLike]]) -> Figure:
    """Share of the loss against reduced time.

    Args:
        curves: (β, times (n,), drawn losses (R, n), exact expected sum (n,), power law (n,)) for each decay.
    """
    figure, ax = _axes("reduced time  t / unit", "loss / initial loss")
    for (decay, times, drawn, expected, limit), colour in zip(curves, _colours(len(curves)), strict=True):
        runs = _floats(drawn)
        _match("drawn", runs, (len(runs), _floats(times).size))
        _keep_runs(figure, runs, f"runs_decay_{decay:g}", time=_floats(times))
        ax.plot(times, runs.mean(axis=0), color=colour, lw=2.2, label=f"β = {decay:g}")
        ax.plot(times, expected, color=_INK, lw=1.1, ls="--", label=f"_β = {decay:g}, exact sum")
        ax.plot(times, limit, color=colour, lw=1.1, ls=":", label=f"_β = {decay:g}, power law")
    _logarithmic(ax)
    _legend(ax, [("--", "exact sum"), (":", "power law, P → ∞")])
    return figure


def floors(curves: Sequence[tuple[float, ArrayLike, ArrayLike, ArrayLike, ArrayLike]]) -> Figure:
    """Final loss against width. Curves: (β, widths, measured, law, what the first m leave), all (n,)."""
    figure, ax = _axes("student width m", "final loss / initial loss")
    for (decay, widths, measured, expected, ideal), colour in zip(curves, _colours(len(curves)), strict=True):
        ax.plot(widths, measured, "o", color=colour, ms=6, label=f"β = {decay:g}")
        ax.plot(widths, expected, color=_INK, lw=1.1, ls="--", label=f"_β = {decay:g}, greedy selection, law")
        ax.plot(widths, ideal, color=colour, lw=1.1, ls=":", label=f"_β = {decay:g}, first m directions")
    _logarithmic(ax)
    ax.set_xticks(_floats(curves[0][1]), [f"{width:g}" for width in _floats(curves[0][1])])
    _legend(ax, [("--", "greedy selection, law"), (":", "first m directions")])
    return figure


def frontier(
    widths: Sequence[int], costs: Sequence[ArrayLike], losses: Sequence[ArrayLike], cost: ArrayLike, law: ArrayLike,
    power_law: ArrayLike, slope: float,
) -> Figure:  # fmt: skip
    """Loss against compute, one curve for each width, with the frontier of the exact sums and its asymptotic law.

    Args:
        costs, losses: for each width (n_f,) abscissae and mean losses.
        cost, law, power_law: (n,) compute, frontier of the exact sums, power law of an infinite teacher with `slope`.
    """
    figure, ax = _axes("compute m·t (reduced)", "loss / initial loss")
    for width, x, y, colour in zip(widths, costs, losses, _colours(len(widths)), strict=True):
        named = width in (widths[0], widths[len(widths) // 2], widths[-1])
        ax.plot(_floats(x), _floats(y), color=colour, lw=1.4, label=f"{'' if named else '_'}m = {width}")
    ax.plot(_floats(cost), _floats(law), color=_INK, lw=1.8, ls="--", label="_frontier, exact sums")
    ax.plot(_floats(cost), _floats(power_law), color=_INK, lw=1.3, ls=":", label=f"_slope {slope:.3g}")
    _logarithmic(ax)
    _legend(ax, [("--", "frontier, exact sums"), (":", f"slope {slope:.3g}")])
    return figure


def collapse(curves: Sequence[tuple[int, ArrayLike, ArrayLike]], limit: tuple[ArrayLike, ArrayLike]) -> Figure:
    """Share of the loss against time in units of Z·P^β for several P. Curves: (P, times, shares)."""
    figure, ax = _axes("time / (unit · P^β)", "loss / initial loss")
    for (teachers, times, share), colour in zip(curves, _colours(len(curves)), strict=True):
        ax.plot(_floats(times), _floats(share), color=colour, lw=1.8, label=f"P = {teachers:g}")
    ax.plot(_floats(limit[0]), _floats(limit[1]), color=_INK, ls="--", lw=1.3, label="_limit P → ∞")
    _legend(ax, [("--", "limit P → ∞")])
    return figure


def retuned(samples: ArrayLike, steps: Sequence[tuple[float, ArrayLike]], law: ArrayLike, fixed: ArrayLike) -> Figure:
    """Loss against samples for several fixed step sizes, and the frontier over step sizes.

    Args:
        steps: (η, (n,) mean losses). law: (n,) exact frontier. fixed: (n,) power law at a fixed step, to compare slopes.
    """
    figure, ax = _axes("samples (reduced)", "loss / initial loss")
    for (step, losses), colour in zip(steps, _colours(len(steps)), strict=True):
        ax.plot(_floats(samples), _floats(losses), color=colour, lw=1.3, label=f"η = {step:.2g}")
    ax.plot(_floats(samples), _floats(law), color=_INK, lw=1.8, ls="--", label="_best step size, exact")
    ax.plot(_floats(samples), _floats(fixed), color=_INK, lw=1.3, ls=":", label="_slope at a fixed step")
    _logarithmic(ax)
    _legend(ax, [("--", "best step size, exact"), (":", "slope at a fixed step")])
    return figure
