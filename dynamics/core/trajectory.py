"""Labelled results: an `xarray.Dataset` with named dimensions, units and provenance.

The one layout of a run, whoever asks for it (Python, the command line, a sweep). Units are short enough for an axis label;
what is meant stands in ``long_name``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

#: The two units of time: that of the gradient flow of ½E(f*−f)², and SGD steps; time = step size × steps.
TIME, STEPS = "gradient-flow time", "steps"

#: name → long name, unit.
_VARIABLES = {
    "overlap": ("normalised overlap of student neuron and teacher direction", "1"),
    "norm2": ("squared norm of student neuron (its effective second-layer weight)", "1"),
    "loss": ("population loss ½E(f*−f)²", "1"),
}
#: What is known of each direction, or of each replica, at the end of a run: name → dimensions, long name, unit.
#: Times are at a squared overlap of ½ unless a run says otherwise, see `dataset`.
_ENDS = {
    "half_time": ("direction", "first time of a squared overlap of ½ with the direction, inf if none", TIME),
    "half_neuron": ("direction", "neuron that reached it, −1 if none", "1"),
    "loss_time": ("direction", "first time at which half of the direction's weight is learned, inf if none", TIME),
    "half_steps": ("direction", "first step with a squared overlap of ½ with the direction, inf if none", STEPS),
    "loss_steps": ("direction", "first step with half of the direction's weight learned, inf if none", STEPS),
    "predicted_half_time": ("direction", "predicted time of a squared overlap of ½, inf if none", TIME),
    "predicted_loss_time": ("direction", "predicted time at which half of the weight is learned, inf if none", TIME),
    "diverged": ("", "whether the run blew up: NaN from there on", "1"),
}


class Plotted:
    """A result that draws its dataset."""

    dataset: "xr.Dataset"

    def plot(self, *variables: str, over: str = "", log: str | None = None) -> "Figure":
        """Its variables (the loss, overlaps and the like without names) as a matplotlib figure to restyle at will.

        Args and errors: see `dynamics.core.plotted.figure`.

        Example:
            ``gradient_flow(activation, teacher, initial, t_end=10).plot("loss").savefig("loss.pdf")``
        """
        from dynamics.core.plotted import figure

        return figure(self.dataset, *variables, over=over, log=log)


def variable(dims: Any, values: Any, long_name: str, units: str = "1") -> tuple[Any, np.ndarray, dict[str, str]]:
    """A variable as `xarray.Dataset` takes it; `values` of any shape, one name in `dims` for each axis."""
    return dims, np.asarray(values), {"long_name": long_name, "units": units}


def time_axis(time: np.ndarray, steps: np.ndarray | None = None) -> dict[str, Any]:
    """Coordinates ``time``, and ``step`` if `steps` are given, along ``time``; both of shape (n,)."""
    axis = {"time": variable("time", time, "time of the flow of ½E(f*−f)²", TIME)}
    return axis if steps is None else axis | {"step": variable("time", steps, "SGD step", STEPS)}


def ends(level: float = 0.5, **values: np.ndarray | bool) -> dict[str, Any]:
    """Variables of a run's end by name: one number per direction, or per replica and direction; ``diverged``: per replica.

    `level`: the squared overlap at which ``half_time`` was taken.
    """
    found = {}
    for name, value in values.items():
        own, text, unit = _ENDS[name]
        dims = (own,) if own else ()
        text = text if level == 0.5 else text.replace("overlap of ½", f"overlap of {level:g}")
        found[name] = variable(dims if np.ndim(value) == len(dims) else ("replica", *dims), value, text, unit)
    return found


def dataset(
    time: np.ndarray,
    overlap: np.ndarray,
    norm2: np.ndarray,
    loss: np.ndarray,
    *,
    step_size: float | None = None,
    attributes: Mapping[str, str | float | int] | None = None,
    level: float = 0.5,
    **end: np.ndarray | bool,
) -> "xr.Dataset":
    """Arrays (replica, time, neuron, direction), or without the replica axis, with coordinates and units.

    Args:
        time: gradient-flow times, shape (time,).
        step_size: the coordinate ``step`` is time / η; −1 without it (a gradient flow has no steps), and where it exceeds 2⁶³.
        level, end: what is known at the end, see `ends`: ``half_time``, ``diverged`` …
    """
    import xarray as xr

    leading = ("replica", "time") if overlap.ndim == 4 else ("time",)
    dims = {"overlap": (*leading, "neuron", "direction"), "norm2": (*leading, "neuron"), "loss": leading}
    values = {"overlap": overlap, "norm2": norm2, "loss": loss}
    variables = {name: variable(dims[name], values[name], *about) for name, about in _VARIABLES.items()}
    time = np.asarray(time)
    counted = np.full(len(time), -1.0) if step_size is None else np.rint(time / step_size)
    steps = np.where(counted < 2.0**63, counted, -1).astype(np.int64)
    coordinates: dict = {
        "neuron": np.arange(overlap.shape[-2]),
        "direction": np.arange(1, overlap.shape[-1] + 1),
        **time_axis(time, steps),
    }
    if overlap.ndim == 4:
        coordinates["replica"] = np.arange(overlap.shape[0])
    return xr.Dataset(variables | ends(level, **end), coords=coordinates, attrs=dict(attributes or {}))
