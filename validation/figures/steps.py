"""Figures of the finite step size: distributions of recovery times, and the stability map."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from validation.figures.plot import INK, PALETTE, Plot

_AXES = "gradient-flow time", "share of runs recovered"


def recovery_times(
    sgd: np.ndarray, paths: np.ndarray, grid: np.ndarray, distribution: np.ndarray, flow: float
) -> Figure:
    """Share of runs recovered by each time: SGD, SDE paths, the law of real steps; dotted vertical at the flow's time.

    Args:
        sgd, paths: recovery times; inf for runs that did not recover. grid, distribution: (n,) the law.
    """
    plot = Plot(*_AXES)
    plot.shares(sgd, f"SGD, exact in law ({sgd.size})", PALETTE[0], 2.2)
    plot.shares(paths, f"SDE ({paths.size})", PALETTE[1], 1.6)
    plot.theory(grid, distribution, "law of real steps")
    plot.vertical(flow, "gradient flow", PALETTE[2], ":", 1.6)
    plot.ax.set(xlim=(0, grid[-1]), ylim=(-0.02, 1.02))
    return plot.done()


def recovery_of_directions(sgd: np.ndarray, paths: Mapping[str, np.ndarray], horizon: float) -> Figure:
    """Share of runs that have recovered each direction by each time; the first direction drawn full, others thinner.

    Args:
        sgd: (R, P) recovery times, inf where there is none. paths: name → (paths, P), the SDE and its controls.
    """
    plot = Plot(*_AXES)
    arms = {"SGD, exact in law": sgd, **paths}
    for colour, (name, times) in zip((PALETTE[0], INK, *PALETTE[1:]), arms.items(), strict=False):
        width, style = 2.2 if name.startswith("SGD") else 1.5, "-" if name.startswith(("SGD", "SDE")) else "--"
        for direction, column in enumerate(times.T):
            label = f"_{name}, direction {direction + 1}" if direction else name
            plot.shares(column, label, colour, width, horizon, ls=style, alpha=0.6 if direction else 1.0)
    plot.ax.set(xlim=(0, horizon), ylim=(-0.02, 1.02))
    return plot.done()


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
    plot = Plot(f"step size × {'d' if exponent == 1 else f'd^{exponent:g}'}", "dimension d", "xy", grid=False)
    scale = Normalize(0, 1)
    image = plot.ax.pcolormesh(scaled, dims, probability, cmap="viridis", norm=scale, shading="gouraud")
    half = plot.ax.contour(scaled, dims, probability, levels=[0.5], colors="white", linewidths=1.6)
    half.set_label("_predicted probability")
    plot.theory(drift, dims, "_boundary of the drift", "white")
    style = {"cmap": "viridis", "norm": scale, "s": 85, "edgecolors": "white", "lw": 1.4, "zorder": 4}
    plot.cloud(points_scaled, points_dim, "_measured share recovered", c=shares, **style)
    plot.ax.set(xlim=(scaled[0], scaled[-1]), ylim=(dims[0], dims[-1]))
    plot.colour_bar(image, "probability of recovery")
    return plot.figure
