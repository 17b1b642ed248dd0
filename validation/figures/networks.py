"""Figures of the claims about networks on images."""

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from validation.figures.data import keep
from validation.figures.plot import INK, PALETTE, Plot

if TYPE_CHECKING:
    import xarray as xr


def loss_curves(data: "xr.Dataset") -> Figure:
    """Training loss against clean labels of `lazy_rich`: networks solid, linearised networks dashed, the plateau dotted."""
    plot = Plot("full-batch steps", "training loss against clean labels", "y")
    for colour, arm in zip(PALETTE, data.arm.values.tolist(), strict=False):
        network, linearised = (
            data.loss_train.sel(arm=arm, model=model).mean("replica") for model in ("network", "linearised")
        )
        plot.curve(data.step, network, f"network, {_words(arm)}", colour)
        plot.theory(data.step, linearised, f"linearised, {_words(arm)}", INK, 1.8)
    plot.level(float(data.attrs["plateau"]), "any interpolating model")
    keep(plot.figure, loss_of_runs=data.loss_train)
    return plot.done()


def accuracy_curves(data: "xr.Dataset") -> Figure:
    """Test accuracy of `compare_algorithms` against epochs."""
    return _arms(Plot("epochs", "test accuracy"), data.epoch, data.test_accuracy).done()


def pruning_curves(data: "xr.Dataset") -> Figure:
    """Accuracy of `prune_networks` at equal shares of parameters kept."""
    plot = _arms(Plot("share of parameters kept", "test accuracy"), data.kept_by_share, data.accuracy_by_share)
    plot.ax.invert_xaxis()
    return plot.done()


def _arms(plot: Plot, x: "xr.DataArray", accuracy: "xr.DataArray") -> Plot:
    """Every arm's mean over replicas, and the range they span."""
    keep(plot.figure, accuracy_of_runs=accuracy)
    for colour, arm in zip(PALETTE, accuracy.arm.values.tolist(), strict=False):
        plot.runs(x.values, accuracy.sel(arm=arm).transpose("replica", ...).values, _words(arm), colour)
    return plot


def _words(arm: str) -> str:
    """``label-noise-0.1`` → ``label noise 0.1``, ``sgd`` → ``SGD``."""
    return arm.replace("-", " ").replace("sgd", "SGD")
