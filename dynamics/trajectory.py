"""Labelled results: an `xarray.Dataset` with named dimensions, units and provenance."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_LONG_NAMES = {
    "overlap": ("normalised overlap of student neuron and teacher direction", "1"),
    "norm2": ("squared norm of student neuron (its effective second-layer weight)", "1"),
    "loss": ("population loss ½E(f*−f)²", "1"),
}


def dataset(
    time: np.ndarray,
    overlap: np.ndarray,
    norm2: np.ndarray,
    loss: np.ndarray,
    *,
    step_size: float | None = None,
    attributes: Mapping[str, str | float | int] | None = None,
) -> "xr.Dataset":
    """Arrays (replica, time, neuron, direction), or without the replica axis, with coordinates and units.

    Args:
        time: gradient-flow times, shape (time,).
        step_size: if given, a coordinate ``step`` = time / η is added.
    """
    import xarray as xr

    leading = ("replica", "time") if overlap.ndim == 4 else ("time",)
    dims = {"overlap": (*leading, "neuron", "direction"), "norm2": (*leading, "neuron"), "loss": leading}
    values = {"overlap": overlap, "norm2": norm2, "loss": loss}
    variables = {
        name: (dims[name], np.asarray(values[name]), {"long_name": text, "units": unit})
        for name, (text, unit) in _LONG_NAMES.items()
    }
    sizes = {"neuron": overlap.shape[-2], "direction": overlap.shape[-1]}
    coordinates: dict = {"neuron": np.arange(sizes["neuron"]), "direction": np.arange(1, sizes["direction"] + 1)}
    coordinates["time"] = ("time", np.asarray(time), {"units": "gradient-flow time of ½E(f*−f)²"})
    if step_size is not None:
        coordinates["step"] = ("time", np.rint(np.asarray(time) / step_size).astype(np.int64), {"units": "SGD steps"})
    else:
        coordinates["step"] = ("time", np.full(len(time), -1), {"units": "SGD steps (−1: gradient flow has none)"})
    if overlap.ndim == 4:
        coordinates["replica"] = np.arange(overlap.shape[0])
    return xr.Dataset(variables, coords=coordinates, attrs=dict(attributes or {}))
