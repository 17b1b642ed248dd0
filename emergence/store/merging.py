"""One labelled dataset from the cells of a store."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emergence.store import grid
from emergence.store.folder import DamagedError, canonical, cell_name, digest, inspect

if TYPE_CHECKING:
    import xarray as xr

PLAN = "sweep-"

Plan = dict[str, Any]


def plan(configuration: Mapping[str, Any], axes: grid.Axes) -> Plan:
    """What a sweep is about to compute: a cell's configuration with the swept options taken out, and their values."""
    fixed = {name: value for name, value in configuration["problem"].items() if name not in axes}
    over = [[name, list(values)] for name, values in axes.items()]
    return {**configuration, "problem": fixed, "over": over}


def plan_name(plan: Plan) -> str:
    """The file of a plan, named by its content."""
    return f"{PLAN}{digest(plan)}.json"


@dataclass(frozen=True)
class Experiment:
    """All sweeps of a store that differ only in the values they go through, taken together.

    Attributes:
        fixed: configuration shared by the cells. axes: swept options with all their values, ascending.
        planned: cells that were asked for: file name → values.
    """

    fixed: Plan
    axes: dict[str, list[Any]]
    planned: dict[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """File name of the merged dataset, by the cells that were asked for: a wider sweep takes no other's place."""
        return f"{self.fixed['what']}-{digest(sorted(self.planned))[:12]}.nc"


@dataclass(frozen=True)
class Merged:
    """A dataset with the cells that are not in it: planned ones that are missing, and damaged ones with the reason."""

    data: "xr.Dataset | None"
    missing: list[dict[str, Any]]
    damaged: list[tuple[dict[str, Any], str]]


def experiments(records: Iterable[tuple[str, bytes]]) -> tuple[list[Experiment], list[str]]:
    """The experiments of a store from the plans recorded in it, and the names of plans that are damaged."""
    groups: dict[str, list[Plan]] = {}
    damaged = []
    for name, content in records:
        try:
            found = json.loads(content)
            intact = plan_name(found) == name
        except ValueError:
            intact = False
        if not intact:
            damaged.append(name)
            continue
        key = canonical([_without_values(found), sorted(axis for axis, _ in found["over"])])
        groups.setdefault(key, []).append(found)
    return [_experiment(group) for _, group in sorted(groups.items())], damaged


def _without_values(found: Plan) -> Plan:
    return {key: value for key, value in found.items() if key != "over"}


def _experiment(plans: list[Plan]) -> Experiment:
    fixed = _without_values(plans[0])
    names = [name for name, _ in plans[0]["over"]]
    axes = {name: sorted({v for p in plans for v in dict(p["over"])[name]}) for name in names}
    planned = {}
    for found in plans:
        for values in grid.points(dict(found["over"])):
            ordered = {name: values[name] for name in names}
            configuration = {**fixed, "problem": fixed["problem"] | ordered}
            planned[cell_name(configuration)] = ordered
    return Experiment(fixed, axes, planned)


def merge(folder: Path, experiment: Experiment) -> Merged:
    """All finished cells in one dataset; its leading dimensions are the swept options, the others those of a cell.

    Cells of different sizes fill the beginning of the common ones. What no cell has is NaN, also in points of the grid
    that no sweep asked for. Nothing in the store is changed.
    """
    cells: list[tuple[dict[str, Any], xr.Dataset]] = []
    missing: list[dict[str, Any]] = []
    damaged: list[tuple[dict[str, Any], str]] = []
    for name, values in experiment.planned.items():
        try:
            data = _load(folder / name)
        except DamagedError as damage:
            damaged.append((values, str(damage)))
            continue
        if data is None:
            missing.append(values)
        else:
            cells.append((values, data))
    return Merged(_joined(experiment, cells) if cells else None, missing, damaged)


def _load(path: Path) -> "xr.Dataset | None":
    import xarray as xr

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    inspect(content, path.name)
    return xr.load_dataset(io.BytesIO(content), engine="scipy")


@dataclass(frozen=True)
class _Dimension:
    """A dimension of the merged cells: its labels, ascending; positions if `counted`, or where there are none."""

    labels: np.ndarray
    counted: bool
    attributes: dict[Any, Any]


def _joined(experiment: Experiment, cells: "list[tuple[dict[str, Any], xr.Dataset]]") -> "xr.Dataset":
    import xarray as xr

    places = {name: {value: i for i, value in enumerate(values)} for name, values in experiment.axes.items()}
    dims = _dimensions([data for _, data in cells])
    taken = {str(name) for _, data in cells for name in [*data.variables, *data.dims]}
    # An option may be called like a variable: sweeping `time` must not hide the recording times.
    axes = {name: f"{name}_option" if name in taken else name for name in places}
    leading = tuple(len(values) for values in experiment.axes.values())
    first: dict[str, xr.Variable] = {}
    arrays: dict[str, np.ndarray] = {}
    for values, data in cells:
        corner: tuple[Any, ...] = tuple(places[name][values[name]] for name in places)
        for key, variable in data.variables.items():
            name = str(key)
            if name in dims and not dims[name].counted:
                continue
            if name not in arrays:
                first[name] = variable
                arrays[name] = _empty((*leading, *(len(dims[str(dim)].labels) for dim in variable.dims)), variable)
            where = [_places(data, str(dim), dims[str(dim)]) for dim in variable.dims]
            arrays[name][corner + np.ix_(*where)] = variable.values
    everything = {name: ((*axes.values(), *first[name].dims), arrays[name], first[name].attrs) for name in arrays}
    beside = {str(name) for _, data in cells for name in data.coords}
    coordinates: dict[str, Any] = {axes[name]: _coordinate(values) for name, values in experiment.axes.items()}
    coordinates |= {
        dim: (dim, own.labels, own.attributes) for dim, own in dims.items() if dim in beside and not own.counted
    }
    coordinates |= {name: value for name, value in everything.items() if name in beside}
    variables = {name: value for name, value in everything.items() if name not in beside}
    return xr.Dataset(variables, coords=coordinates, attrs=_attributes(experiment))


def _dimensions(cells: "list[xr.Dataset]") -> dict[str, _Dimension]:
    """Every dimension over all cells. Recording times that differ from cell to cell are counted: each cell keeps its own."""
    names = dict.fromkeys(str(dim) for data in cells for dim in data.dims)
    return {name: _dimension(name, [data for data in cells if name in data.dims]) for name in names}


def _dimension(name: str, cells: "list[xr.Dataset]") -> _Dimension:
    own = [_label(data, name) for data in cells]
    counted = own[0].dtype.kind == "f" and not all(np.array_equal(own[0], other) for other in own[1:])
    labels = np.arange(max(map(len, own))) if counted else np.unique(np.concatenate(own))
    return _Dimension(labels, counted, dict(cells[0][name].attrs) if name in cells[0].coords else {})


def _places(data: "xr.Dataset", name: str, dimension: _Dimension) -> np.ndarray:
    """Where a cell's entries go along a dimension."""
    if dimension.counted:
        return np.arange(data.sizes[name])
    return np.searchsorted(dimension.labels, _label(data, name))


def _label(data: "xr.Dataset", dim: str) -> np.ndarray:
    return np.asarray(data[dim].values) if dim in data.coords else np.arange(data.sizes[dim])


def _empty(shape: tuple[int, ...], variable: "xr.Variable") -> np.ndarray:
    """Room for all cells, NaN (or an empty text) where none will be."""
    return np.full(shape, np.nan) if variable.dtype.kind in "fiub" else np.full(shape, "", dtype=object)


def _coordinate(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype=object if isinstance(values[0], str) else None)


def _attributes(experiment: Experiment) -> dict[str, Any]:
    return {
        "what": experiment.fixed["what"],
        "emergence_version": experiment.fixed["version"],
        "problem": canonical(experiment.fixed["problem"]),
        "swept": " ".join(experiment.axes),
    }
