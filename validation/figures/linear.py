"""Figures of the two-layer linear network: norms and alignments over steps, single neurons, losses."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from validation.figures.plot import INK, PALETTE, Plot, checked


def norm_and_alignment(
    steps: ArrayLike,
    norm: ArrayLike,
    alignment: ArrayLike,
    *,
    predicted: tuple[ArrayLike, ArrayLike] | None = None,
    marks: Mapping[str, float] | None = None,
    kind: str = "root mean square",
) -> Figure:
    """Mean neuron norm and mean alignment against steps (arXiv:2603.10397, Figures 2b and 4b).

    Args:
        steps: (n,) steps.
        norm: (R, n) norm of the first-layer neurons, averaged as `kind` says. alignment: (R, n) mean absolute cosine. The
            mean over replicas is drawn, with the band from the lowest to the highest.
        predicted: the same two, (n,) each, as dashed lines.
        marks: name → step, dotted verticals.
    """
    steps = np.asarray(steps, dtype=float)
    plot = Plot("step", f"{kind} norm of first-layer neurons")
    other = plot.twin("mean alignment |cos|", PALETTE[1])
    for place, (own, values, name) in enumerate(((plot, norm, "norm"), (other, alignment, "alignment"))):
        own.runs(steps, values, name, PALETTE[place], f"{name}_of_runs", step=steps)
        if predicted is not None:
            own.theory(steps, predicted[place], f"{name}, predicted", INK, 1.2, ls=("--", "-.")[place])
    for number, (name, step) in enumerate((marks or {}).items()):
        plot.vertical(step, name, PALETTE[(number + 2) % len(PALETTE)], ":", 1.6)
    plot.ax.set_ylim(bottom=0.0)
    other.ax.set_ylim(0.0, 1.0)
    return plot.done(over=other, loc="upper right")


def neuron_paths(norm: ArrayLike, alignment: ArrayLike, steps: ArrayLike) -> Figure:
    """Every neuron in the plane of alignment and norm, darker with time (arXiv:2603.10397, Figure 2c and bottom).

    Args:
        norm: (n, N) norms of N neurons. alignment: (n, N) absolute cosines with the target. steps: (n,).
    """
    norm = np.asarray(norm, dtype=float)
    alignment, steps = checked("alignment", alignment, norm.shape), checked("steps", steps, norm.shape[:1])
    plot = Plot("alignment |cos|", "norm of the neuron")
    names = [f"_neuron {number + 1}" for number in range(norm.shape[1])]
    plot.ax.plot(alignment, norm, color="#CCCCCC", lw=0.4, zorder=1, label=names)
    when = np.repeat(steps, norm.shape[1])
    style = {"cmap": "viridis_r", "s": 7, "lw": 0, "zorder": 2}
    points = plot.cloud(alignment.ravel(), norm.ravel(), "_all neurons", c=when, **style)
    plot.colour_bar(points, "step")
    plot.ax.set_xlim(0.0, 1.0)
    plot.ax.set_ylim(bottom=0.0)
    return plot.figure


def alternating(
    steps: ArrayLike,
    norm: ArrayLike,
    second: ArrayLike,
    period: int,
    predicted: ArrayLike | None = None,
    *,
    labels: tuple[str, str] = ("root mean square norm of first-layer neurons", "root mean square of $a_i$"),
) -> Figure:
    """Norm and second-layer size where label noise comes and goes (arXiv:2603.10397, Figure 6).

    Args:
        steps: (n,). norm: (n,) of the first layer. second: (n,) size of the second; `labels` name the two axes.
        period: noise on (shaded) for so many steps, then off for as many. predicted: (n,) norm, dashed.
    """
    steps = np.asarray(steps, dtype=float)
    plot = Plot("step", labels[0])
    other = plot.twin(labels[1], PALETTE[1])
    for number, start in enumerate(np.arange(0, steps[-1], 2 * period)):
        span = (start, min(start + period, steps[-1]))
        plot.ax.axvspan(*span, color=PALETTE[5], alpha=0.18, lw=0, label=f"{'_' * bool(number)}label noise on")
    plot.curve(steps, norm, "norm", PALETTE[0])
    if predicted is not None:
        plot.theory(steps, predicted, "norm, predicted", INK, 1.2)
    other.curve(steps, second, "$a_i$", PALETTE[1], 1.2)
    other.ax.set_ylim(bottom=0.0)
    return plot.done(over=other)


def curves(
    steps: ArrayLike, values: Sequence[ArrayLike], labels: Sequence[str], quantity: str, *, log: bool = True
) -> Figure:
    """Several runs of one quantity against steps, each (n,); the last is drawn dashed and dark if it is named theory."""
    plot = Plot("step", quantity)
    for place, (value, label) in enumerate(zip(values, labels, strict=True)):
        if label.startswith("theory"):
            plot.theory(steps, value, label)
        else:
            plot.curve(steps, value, label, PALETTE[place])
    if log:
        plot.ax.set_yscale("log", nonpositive="mask")
    return plot.done()
