"""Figures of the claims about networks on images."""

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from validation.figures.common import PALETTE
from validation.figures.data import keep

if TYPE_CHECKING:
    import xarray as xr

_INK = "#333333"


def loss_curves(data: "xr.Dataset") -> Figure:
    """Training loss against clean labels of `lazy_rich`: networks solid, linearised networks dashed, the plateau dotted."""
    figure, ax = _axes("full-batch steps", "training loss against clean labels")
    for colour, arm in zip(PALETTE, data.arm.values.tolist(), strict=False):
        for model, style in (("network", "-"), ("linearised", "--")):
            curve = data.loss_train.sel(arm=arm, model=model).mean("replica")
            ax.plot(data.step, curve, style, color=colour if style == "-" else _INK, lw=1.8, label=f"{model}, {arm}")
    ax.axhline(float(data.attrs["plateau"]), color=_INK, ls=":", lw=1.2, label="any interpolating model")
    ax.set_yscale("log")
    keep(figure, loss_of_runs=data.loss_train)
    ax.legend(frameon=False, fontsize=9)
    return figure


def accuracy_curves(data: "xr.Dataset") -> Figure:
    """Test accuracy of `compare_algorithms` against epochs."""
    figure, ax = _axes("epochs", "test accuracy")
    keep(figure, accuracy_of_runs=data.test_accuracy)
    for colour, arm in zip(PALETTE, data.arm.values.tolist(), strict=False):
        _band(ax, data.epoch.values, data.test_accuracy.sel(arm=arm), colour, arm)
    ax.legend(frameon=False, fontsize=9)
    return figure


def pruning_curves(data: "xr.Dataset") -> Figure:
    """Accuracy of `prune_networks` at equal shares of parameters kept."""
    figure, ax = _axes("share of parameters kept", "test accuracy")
    for colour, arm in zip(PALETTE, data.arm.values.tolist(), strict=False):
        _band(ax, data.kept_by_share.values, data.accuracy_by_share.sel(arm=arm), colour, arm)
    ax.invert_xaxis()
    keep(figure, accuracy_of_runs=data.accuracy_by_share)
    ax.legend(frameon=False, fontsize=9)
    return figure


def _band(ax: Axes, x: object, values: "xr.DataArray", colour: str, label: str) -> None:
    """Mean over replicas, and the range they span."""
    low, high = values.min("replica"), values.max("replica")
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, label=f"_{label}, lowest to highest run")  # type: ignore[arg-type]
    ax.plot(x, values.mean("replica"), color=colour, lw=1.8, label=label)  # type: ignore[arg-type]


def _axes(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax
