"""Figures of the finite step size: distributions of recovery times, and the stability map."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from validation.figures.common import _INK, _SMALL, _TEXT, PALETTE, _axes


def recovery_times(
    sgd: np.ndarray, paths: np.ndarray, grid: np.ndarray, distribution: np.ndarray, flow: float
) -> Figure:
    """Share of runs recovered by each time: SGD, SDE paths, the law of real steps; dotted vertical at the flow's time.

    Args:
        sgd, paths: recovery times; inf for runs that did not recover. grid, distribution: (n,) the law.
    """
    figure, ax = _axes("gradient-flow time", "share of runs recovered")
    for times, name, colour, width in ((sgd, "SGD, exact in law", PALETTE[0], 2.2), (paths, "SDE", PALETTE[1], 1.6)):
        found = np.sort(times[np.isfinite(times)])
        share = np.arange(1, found.size + 1) / times.size
        ax.step(
            np.append(0, found),
            np.append(0, share),
            where="post",
            color=colour,
            lw=width,
            label=f"{name} ({times.size})",
        )
    ax.plot(grid, distribution, color=_INK, ls="--", lw=1.3, label="law of real steps")
    ax.axvline(flow, color=PALETTE[2], ls=":", lw=1.6, label="gradient flow")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(0, grid[-1])
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def recovery_of_directions(sgd: np.ndarray, paths: Mapping[str, np.ndarray], horizon: float) -> Figure:
    """Share of runs that have recovered each direction by each time; the first direction drawn full, others thinner.

    Args:
        sgd: (R, P) recovery times, inf where there is none. paths: name → (paths, P), the SDE and its controls.
    """
    figure, ax = _axes("gradient-flow time", "share of runs recovered")
    colours = dict(zip(["SGD, exact in law", *paths], (PALETTE[0], _INK, *PALETTE[1:]), strict=False))
    for name, times in {"SGD, exact in law": sgd, **paths}.items():
        for direction, column in enumerate(times.T):
            found = np.sort(column[np.isfinite(column)])
            share = np.arange(found.size + 1) / column.size
            ax.step(
                np.append(np.append(0, found), horizon), np.append(share, share[-1]), where="post", color=colours[name],
                lw=2.2 if name.startswith("SGD") else 1.5, ls="-" if name.startswith(("SGD", "SDE")) else "--",
                alpha=1.0 if direction == 0 else 0.6, label=name if direction == 0 else f"_{name}, direction {direction + 1}",
            )  # fmt: skip
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlim(0, horizon)
    ax.legend(frameon=False, fontsize=_SMALL)
    return figure


def stability_map(
    scaled: np.ndarray,
    dims: np.ndarray,
    probability: np.ndarray,
    drift: np.ndarray,
    points_scaled: Sequence[float],
    points_dim: Sequence[float],
    shares: Sequence[float],
    exponent: float,
) -> Figure:
    """Recovery probability over (η d^exponent, d) with measured shares.

    Args:
        scaled: (n,) η d^exponent. dims: (k,). probability: (k, n). drift: (k,) boundary of the drift, times d^exponent.
        points_scaled, points_dim, shares: measured points.
    """
    figure, ax = _axes(rf"step size × $d^{{{exponent:g}}}$", "dimension d", grid=False)
    scale = Normalize(0, 1)
    image = ax.pcolormesh(scaled, dims, probability, cmap="viridis", norm=scale, shading="gouraud")
    half = ax.contour(scaled, dims, probability, levels=[0.5], colors="white", linewidths=1.6)
    half.set_label("_predicted probability")
    ax.plot(drift, dims, color="white", ls="--", lw=1.4, label="_boundary of the drift")
    ax.scatter(
        points_scaled, points_dim, c=shares, cmap="viridis", norm=scale, s=85, edgecolors="white", lw=1.4, zorder=4,
        label="_measured share recovered",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(scaled[0], scaled[-1])
    ax.set_ylim(dims[0], dims[-1])
    bar = figure.colorbar(image, ax=ax)
    bar.set_label("probability of recovery", fontsize=_TEXT)
    bar.ax.tick_params(labelsize=_SMALL)
    return figure
