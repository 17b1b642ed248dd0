"""Figures of the two-layer linear network: norms and alignments over steps, single neurons, losses.

Made like those of `validation.figures.common`: matplotlib objects, theory dashed and dark, measurement solid and coloured.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from validation.figures.common import _INK, _SMALL, _TEXT, PALETTE, _axes, _floats, _keep_runs, _match


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
    steps = _floats(steps)
    figure, ax = _axes("step", f"{kind} norm of first-layer neurons")
    other = ax.twinx()
    other.set_ylabel("mean alignment |cos|", fontsize=_TEXT, color=PALETTE[1])
    other.tick_params(labelsize=_SMALL)
    other.spines[["top", "left"]].set_visible(False)
    lines = []
    for place, (axes, values, name) in enumerate(((ax, norm, "norm"), (other, alignment, "alignment"))):
        runs = _floats(values)
        _match(name, runs, (len(runs), steps.size))
        _keep_runs(figure, runs, f"{name}_of_runs", step=steps)
        lines += axes.plot(steps, runs.mean(axis=0), color=PALETTE[place], lw=1.8, label=name)
        if len(runs) > 1:
            low, high = runs.min(axis=0), runs.max(axis=0)
            axes.fill_between(
                steps, low, high, color=PALETTE[place], alpha=0.2, lw=0, label=f"_{name}, lowest to highest run"
            )
        if predicted is not None:
            curve = _floats(predicted[place])
            _match(f"predicted {name}", curve, steps.shape)
            lines += axes.plot(steps, curve, color=_INK, lw=1.2, ls=("--", "-.")[place], label=f"{name}, predicted")
    for number, (name, step) in enumerate((marks or {}).items()):
        if np.isfinite(step):
            lines.append(ax.axvline(step, color=PALETTE[(number + 2) % len(PALETTE)], ls=":", lw=1.6, label=name))
    ax.set_ylim(bottom=0.0)
    other.set_ylim(0.0, 1.0)
    ax.legend(handles=lines, frameon=False, fontsize=_SMALL, loc="upper right")
    return figure


def neuron_paths(norm: ArrayLike, alignment: ArrayLike, steps: ArrayLike) -> Figure:
    """Every neuron in the plane of alignment and norm, darker with time (arXiv:2603.10397, Figure 2c and bottom).

    Args:
        norm: (n, N) norms of N neurons. alignment: (n, N) absolute cosines with the target. steps: (n,).
    """
    norm, alignment, steps = _floats(norm), _floats(alignment), _floats(steps)
    _match("alignment", alignment, norm.shape)
    _match("steps", steps, (len(norm),))
    figure, ax = _axes("alignment |cos|", "norm of the neuron")
    names = [f"_neuron {number + 1}" for number in range(norm.shape[1])]
    ax.plot(alignment, norm, color="#CCCCCC", lw=0.4, zorder=1, label=names)
    colours = np.repeat(steps, norm.shape[1])
    points = ax.scatter(
        alignment.ravel(), norm.ravel(), c=colours, cmap="viridis_r", s=7, lw=0, zorder=2, label="_all neurons"
    )
    bar = figure.colorbar(points, ax=ax)
    bar.set_label("step", fontsize=_TEXT)
    bar.ax.tick_params(labelsize=_SMALL)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(bottom=0.0)
    return figure


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
    steps, norm, second = _floats(steps), _floats(norm), _floats(second)
    _match("norm", norm, steps.shape)
    _match("second", second, steps.shape)
    figure, ax = _axes("step", labels[0])
    other = ax.twinx()
    other.set_ylabel(labels[1], fontsize=_TEXT, color=PALETTE[1])
    other.tick_params(labelsize=_SMALL)
    other.spines[["top", "left"]].set_visible(False)
    for number, start in enumerate(np.arange(0, steps[-1], 2 * period)):
        span = (start, min(start + period, steps[-1]))
        ax.axvspan(*span, color=PALETTE[5], alpha=0.18, lw=0, label=f"{'_' * bool(number)}label noise on")
    ax.plot(steps, norm, color=PALETTE[0], lw=1.8, label="norm")
    if predicted is not None:
        ax.plot(steps, _floats(predicted), color=_INK, lw=1.2, ls="--", label="norm, predicted")
    (line,) = other.plot(steps, second, color=PALETTE[1], lw=1.2, label="$a_i$")
    other.set_ylim(bottom=0.0)
    handles, _ = ax.get_legend_handles_labels()
    ax.legend(handles=[*handles, line], frameon=False, fontsize=_SMALL)
    return figure


def curves(
    steps: ArrayLike, values: Sequence[ArrayLike], labels: Sequence[str], quantity: str, *, log: bool = True
) -> Figure:
    """Several runs of one quantity against steps, each (n,); the last is drawn dashed and dark if it is named theory."""
    steps = _floats(steps)
    figure, ax = _axes("step", quantity)
    for place, (value, label) in enumerate(zip(values, labels, strict=True)):
        curve = _floats(value)
        _match(label, curve, steps.shape)
        theory = label.startswith("theory")
        style: dict[str, Any] = (
            {"color": _INK, "ls": "--", "lw": 1.2} if theory else {"color": PALETTE[place], "lw": 1.8}
        )
        ax.plot(steps, curve, label=label, **style)
    if log:
        ax.set_yscale("log", nonpositive="mask")
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure
